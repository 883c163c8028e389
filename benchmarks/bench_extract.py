"""How fast is audio turned into embeddings, and how much faster than a plain AASIST?

1. Memory: the peak of the process after a quarter of a pass over the files, and after all of it.
2. AASIST against the straightforward implementation in `plain_aasist.py`, one thread, batch 1 and
   16, the same weights and recordings; the two alternate. Ratios are of medians over the rounds, by
   the clock and by CPU time (which other work on the machine disturbs less).
3. The pipeline of `lightning extract`, files to embeddings, AASIST and ECAPA-TDNN at batch 1 and
   16 with one and two threads (workers with one CPU thread each): utterances per second, real-time
   factor (processing time over the 4.04 s that the networks take of a recording), the share of
   the workers' time in which they wait for reading (the rest of it overlaps with the network), in
   the front end (filter bank, mel features) and in the network, CPU seconds for an utterance, and
   the share of the network's time in which it is blocked. The fastest of the rounds counts. Then
   the scaling from one thread to two: by the clock (which means little on a busy machine), and as
   CPU time per utterance and blocked time imply it for two free CPUs.

At the end each claim is printed with what was measured and whether it holds. The scaling needs a
quiet machine: where the threads had to wait for CPUs that did other work, it is printed as BUSY
instead of FAILS. Takes about five minutes on two free CPUs.

Data: the real recordings and weights below `--data` (default: `$SASV_SHARED/data`, or
`../shared/data` beside the checkout); without them simulated noise and random weights.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import soundfile
import torch
from plain_aasist import PlainAASIST
from torch import Tensor, nn

from lightning_sasv.frontends import AASIST, ECAPA
from lightning_sasv.frontends.audio import SAMPLE_RATE, SAMPLES, read_audio
from lightning_sasv.frontends.base import as_batch
from lightning_sasv.frontends.lists import AudioFolder, Utterance
from lightning_sasv.frontends.pipeline import Resources, embed_files

SECONDS = SAMPLES / SAMPLE_RATE
PLAIN_RATIO, SCALING, WAITING, DIFFERENCE, GROWTH = 1.3, 1.5, 0.1, 1e-4, 0.05
"""What is claimed: least ratios to the plain version and to one thread; most waiting (share of the
time), difference of an embedding, and growth of the memory."""


BUSY = 0.05
"""Share of the time in which a thread stood ready but got no CPU: beyond it the machine is busy."""


class Claim(NamedTuple):
    """A claim, what was measured, whether it holds, and whether other work decided that."""

    text: str
    measured: str
    holds: bool
    busy: bool = False

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "BUSY" if self.busy else "FAILS"
        return f"  {verdict:<6} {self.text}: {self.measured}"


def prepare(data: Path, files: int, scratch: Path) -> tuple[AudioFolder, list[str], AASIST, ECAPA]:
    """Recordings and networks: the real ones, or simulated ones."""
    if (data / "weights" / "AASIST.pth").is_file():
        folder = AudioFolder(data / "mini_la")
        print(f"real recordings and published weights in {data.name}/, {files} files")
        aasist = AASIST.from_checkpoint(data / "weights" / "AASIST.pth")
        return folder, folder.files[:files], aasist, ECAPA.from_checkpoint(data / "weights/ecapa")
    print(f"no data at {data}: SIMULATED noise and random weights, {files} files")
    for number in range(files):
        noise = np.random.default_rng(number).normal(0, 0.1, 50_000)
        soundfile.write(scratch / f"{number:03d}.flac", noise, SAMPLE_RATE)
    folder = AudioFolder(scratch)
    return folder, folder.files, AASIST().eval(), ECAPA().eval()


def clock(run: Callable[[], Tensor]) -> tuple[float, float, Tensor]:
    """Seconds by the clock and of CPU time, and the result."""
    wall, cpu = time.perf_counter(), time.thread_time()
    result = run()
    return time.perf_counter() - wall, time.thread_time() - cpu, result


def compare(ours: AASIST, waveforms: Tensor, rounds: int) -> list[Claim]:
    """Part 2: ours against the plain one, alternating."""
    plain = PlainAASIST().eval()
    plain.load_state_dict(ours.state_dict())
    torch.set_num_threads(1)
    networks: dict[str, Callable[[Tensor], Tensor]]
    networks = {"plain": plain, "ours": ours.embed}
    print("\nAASIST on one thread, utterances per second (medians)")
    print(f"{'batch':>5} {'plain':>8} {'ours':>8} {'ratio':>7} {'by CPU time':>12} {'max diff':>9}")
    claims = []
    for size in (1, 16):
        some = waveforms[: max(size, 8)]
        runs: dict[str, list[tuple[float, float, Tensor]]] = {"plain": [], "ours": []}
        with torch.inference_mode():
            for _ in range(rounds):
                for name, network in networks.items():
                    batches = some.split(size)
                    runs[name].append(clock(lambda b=batches, n=network: torch.cat([*map(n, b)])))
        wall, cpu = (
            {name: statistics.median(row[k] for row in rows) for name, rows in runs.items()}
            for k in (0, 1)
        )
        difference = float((runs["plain"][-1][2] - runs["ours"][-1][2]).abs().max())
        ratio = wall["plain"] / wall["ours"]
        print(
            f"{size:>5} {len(some) / wall['plain']:>8.2f} {len(some) / wall['ours']:>8.2f} "
            f"{ratio:>6.2f}x {cpu['plain'] / cpu['ours']:>11.2f}x {difference:>9.1e}"
        )
        what = f"AASIST, batch {size}, one thread: "
        claims += [
            Claim(
                what + f"at least {PLAIN_RATIO} times as fast as the plain one",
                f"{ratio:.2f}x",
                ratio >= PLAIN_RATIO,
            ),
            Claim(
                what + f"embeddings unchanged to {DIFFERENCE:.0e}",
                f"{difference:.1e}",
                difference <= DIFFERENCE,
            ),
        ]
    return claims


@contextmanager
def timed(module: nn.Module) -> Iterator[list[float]]:
    """Seconds spent in a module, call by call, over all threads."""
    begin: dict[int, float] = {}
    spent: list[float] = []

    def before(*_: Any) -> None:
        begin[threading.get_ident()] = time.perf_counter()

    def after(*_: Any) -> None:
        spent.append(time.perf_counter() - begin[threading.get_ident()])

    hooks = [module.register_forward_pre_hook(before), module.register_forward_hook(after)]
    yield spent
    for hook in hooks:
        hook.remove()


def thread_times() -> np.ndarray:
    """Of this thread, in seconds: by the clock, on a CPU, and ready but waiting for a CPU."""
    now, cpu, queue = time.perf_counter(), time.thread_time(), 0.0
    statistics_file = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    if statistics_file.exists():
        queue = int(statistics_file.read_text().split()[1]) / 1e9
    return np.array([now, cpu, queue])


class Measured:
    """A front end that notes the time of its worker threads."""

    def __init__(self, network: AASIST | ECAPA) -> None:
        self.network = network
        self.dim, self.sample_rate = network.dim, network.sample_rate
        self.samples = network.samples
        self.spent = np.zeros(3)
        self.lock = threading.Lock()

    def embed(self, waveforms: Any) -> Tensor:
        """Embeddings."""
        before = thread_times()
        result = self.network.embed(waveforms)
        with self.lock:
            self.spent += thread_times() - before
        return result


class Pass(NamedTuple):
    """One pass over the files.

    Attributes:
        speed: Utterances per second.
        waiting: Share of the workers' time that they wait for audio.
        features: Share that goes into the features.
        network: Share that goes into the rest of the network.
        cpu: CPU seconds for one utterance.
        blocked: Share of the network's time that it neither computes nor waits for a CPU.
        queued: Share of the network's time that it waits for a CPU that does other work.
    """

    speed: float
    waiting: float
    features: float
    network: float
    cpu: float
    blocked: float
    queued: float


def run_pass(
    network: AASIST | ECAPA, folder: AudioFolder, files: list[str], batch: int, workers: int
) -> Pass:
    """Files to embeddings."""
    features = network.filter_bank if isinstance(network, AASIST) else network.features
    names = [Utterance(file, file) for file in files]
    network.embed(torch.zeros(1, SAMPLES))
    measured = Measured(network)
    with timed(features) as spent:
        begin = time.perf_counter()
        done = list(embed_files(measured, names, folder.find, Resources(batch, workers, "cpu")))
        wall = time.perf_counter() - begin
    busy, waited = sum(b.busy for b in done), sum(b.waited for b in done)
    inside, total = sum(spent), busy + waited
    made = sum(len(b.ids) for b in done)
    clock_time, cpu, queue = measured.spent
    shares = waited / total, inside / total, (busy - inside) / total
    idle = 1 - (cpu + queue) / clock_time
    return Pass(made / wall, *shares, cpu / made, idle, queue / clock_time)


def table(
    network: AASIST | ECAPA, folder: AudioFolder, files: list[str], batch: int, rounds: int
) -> list[Claim]:
    """Part 3: two lines of the table, the fastest of the rounds; one and two threads alternate."""
    passes: dict[int, list[Pass]] = {1: [], 2: []}
    for _ in range(rounds):
        for workers, found in passes.items():
            found.append(run_pass(network, folder, files, batch, workers))
    best = {workers: max(found, key=lambda x: x.speed) for workers, found in passes.items()}
    for workers, row in best.items():
        print(
            f"{type(network).__name__:<7} {batch:>5} {workers:>7} {row.speed:>7.2f} "
            f"{1 / row.speed / SECONDS:>7.3f} {row.waiting:>8.1%} {row.features:>9.1%} "
            f"{row.network:>8.1%} {row.cpu:>8.3f} {row.blocked:>8.1%}"
        )
    one, two = best[1], best[2]
    scaling, waiting = two.speed / one.speed, max(one.waiting, two.waiting)
    on_idle = 2 * one.cpu / two.cpu * (1 - two.blocked) / (1 - one.blocked)
    print(f"  two threads: {scaling:.2f}x by the clock, {on_idle:.2f}x by CPU time")
    what = f"{type(network).__name__}, batch {batch}: "
    return [
        Claim(
            what + f"two threads at least {SCALING} times as fast as one",
            f"{scaling:.2f}x by the clock, {on_idle:.2f}x by CPU time",
            scaling >= SCALING,
            busy=max(one.queued, two.queued) > BUSY,
        ),
        Claim(
            what + f"waiting for audio at most {WAITING:.0%} of the time",
            f"{waiting:.2%}",
            waiting <= WAITING,
        ),
    ]


def memory_growth(network: AASIST, folder: AudioFolder, files: list[str]) -> Claim:
    """Part 1: peak memory after the first quarter of a pass, and after the whole."""
    names = [Utterance(file, file) for file in files]
    peaks = [memory() for _ in embed_files(network, names, folder.find, Resources(2, 2, "cpu"))]
    quarter = len(peaks) // 4
    first, last = peaks[quarter], peaks[-1]
    print(f"peak memory: {first:.0f} MB after {2 * (quarter + 1)} files, {last:.0f} after all")
    return Claim(
        f"peak memory grows by at most {GROWTH:.0%} over the last three quarters of the files",
        f"{last / first - 1:.1%}",
        last <= (1 + GROWTH) * first,
    )


def reading_time(folder: AudioFolder, files: list[str]) -> float:
    """Milliseconds to find, read and (if need be) resample one recording."""
    begin = time.perf_counter()
    for file in files:
        read_audio(folder.find(file), samples=SAMPLES)
    return 1e3 * (time.perf_counter() - begin) / len(files)


def memory() -> float:
    """Peak of the process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Print the three parts and what became of each claim."""
    default = (
        Path(os.environ.get("SASV_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
    )
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--files", type=int, default=32, help="a multiple of 32: whole batches")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder, files, aasist, ecapa = prepare(args.data, args.files, Path(scratch))
        claims = [memory_growth(aasist, folder, files)]
        waves = [torch.from_numpy(read_audio(folder.find(file))) for file in files[:16]]
        claims += compare(aasist, as_batch(waves, SAMPLES)[0], args.rounds)
        print(f"\nfiles to embeddings; reading one takes {reading_time(folder, files):.1f} ms")
        print("network batch threads   utt/s     RTF  reading front end  network    CPU s  blocked")
        for network in (aasist, ecapa):
            for batch in (1, 16):
                claims += table(network, folder, files, batch, args.rounds)
    busy = os.getloadavg()[0]
    print(f"\nclaims (load of the machine at the end {busy:.1f}; about 2 is this benchmark alone)")
    for claim in claims:
        print(claim)


if __name__ == "__main__":
    main()
