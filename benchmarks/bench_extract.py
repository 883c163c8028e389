"""How fast is audio turned into embeddings, and how much faster than a plain AASIST?

1. AASIST against the straightforward implementation below (the published description written down
   layer by layer with PyTorch's modules), one thread, batch 1 and 16, the same weights and
   recordings; the two alternate. Ratios are of medians over the rounds, by the clock and by CPU
   time (which other work on the machine disturbs less). Embeddings must agree to 1e-4.
2. The pipeline of `lightning extract`, files to embeddings, AASIST and ECAPA-TDNN at batch 1 and
   16 with one and two workers (one CPU thread each): utterances per second, real-time factor
   (processing time over the 4.04 s that the networks take of a recording), the share of the
   workers' time that goes into waiting for audio, into the features (filter bank) and into the
   rest of the network, CPU seconds for an utterance, and the share of the network's time that it
   is blocked. The fastest of the rounds counts. Then the scaling from one worker to two: by the
   clock (which means little on a busy machine), and as CPU time per utterance and blocked time
   imply it for two free CPUs.
3. Memory: the peak of the process after the first quarter of the files, and after all of them.

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
from torch import Tensor, nn
from torch.nn.functional import conv1d, max_pool2d, selu

from lightning_sasv.frontends import AASIST, ECAPA
from lightning_sasv.frontends.aasist_encoder import band_pass_filters
from lightning_sasv.frontends.audio import SAMPLE_RATE, SAMPLES, as_batch, read_audio
from lightning_sasv.frontends.lists import AudioFolder, Utterance
from lightning_sasv.frontends.pipeline import Resources, embed_files

SECONDS = SAMPLES / SAMPLE_RATE


class PlainBlock(nn.Module):
    """Residual block as published."""

    def __init__(self, inputs: int, outputs: int, first: bool) -> None:
        super().__init__()
        if not first:
            self.bn1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, outputs, (2, 3), padding=(1, 1))
        self.bn2 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, (2, 3), padding=(0, 1))
        if inputs != outputs:
            self.conv_downsample = nn.Conv2d(inputs, outputs, (1, 3), padding=(0, 1))

    def forward(self, x: Tensor) -> Tensor:
        skip = self.conv_downsample(x) if hasattr(self, "conv_downsample") else x
        return max_pool2d(self.conv2(selu(self.bn2(self.conv1(x)))) + skip, (1, 3))


class PlainAttention(nn.Module):
    """Graph attention as published."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.att_weight = nn.Parameter(torch.zeros(outputs, 1))
        self.att_proj = nn.Linear(inputs, outputs)
        self.proj_with_att = nn.Linear(inputs, outputs)
        self.proj_without_att = nn.Linear(inputs, outputs)
        self.bn = nn.BatchNorm1d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        pairs = x[:, :, None] * x[:, None]
        attention = torch.softmax(torch.tanh(self.att_proj(pairs)) @ self.att_weight / 2, dim=-2)
        y = self.proj_with_att(attention.squeeze(-1) @ x) + self.proj_without_att(x)
        return selu(self.bn(y.flatten(0, 1)).view_as(y))


class PlainPooling(nn.Module):
    """Graph pooling as published."""

    def __init__(self, inputs: int, ratio: float) -> None:
        super().__init__()
        self.ratio = ratio
        self.proj = nn.Linear(inputs, 1)

    def forward(self, x: Tensor) -> Tensor:
        score = torch.sigmoid(self.proj(x))
        kept = torch.topk(score, max(int(x.shape[1] * self.ratio), 1), dim=1)[1]
        return torch.gather(x * score, 1, kept.expand(-1, -1, x.shape[2]))


class PlainHeterogeneous(nn.Module):
    """Heterogeneous attention as published."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        for kind in ("11", "22", "12", "M"):
            self.register_parameter(f"att_weight{kind}", nn.Parameter(torch.zeros(outputs, 1)))
        for name, size in (("proj_type1", inputs), ("proj_type2", inputs), ("att_proj", outputs)):
            self.add_module(name, nn.Linear(inputs, size))
        for name in ("att_projM", "proj_with_att", "proj_without_att", "proj_with_attM"):
            self.add_module(name, nn.Linear(inputs, outputs))
        self.proj_without_attM = nn.Linear(inputs, outputs)
        self.bn = nn.BatchNorm1d(outputs)

    def forward(self, temporal: Tensor, spectral: Tensor, master: Tensor) -> tuple[Tensor, ...]:
        n = temporal.shape[1]
        x = torch.cat([self.proj_type1(temporal), self.proj_type2(spectral)], dim=1)
        hidden = torch.tanh(self.att_proj(x[:, :, None] * x[:, None]))
        logits = hidden.new_zeros((*hidden.shape[:3], 1))
        logits[:, :n, :n] = hidden[:, :n, :n] @ self.att_weight11
        logits[:, n:, n:] = hidden[:, n:, n:] @ self.att_weight22
        logits[:, :n, n:] = hidden[:, :n, n:] @ self.att_weight12
        logits[:, n:, :n] = hidden[:, n:, :n] @ self.att_weight12
        attention = torch.softmax(logits / 100, dim=-2).squeeze(-1)
        of_master = torch.softmax(
            torch.tanh(self.att_projM(x * master)) @ self.att_weightM / 100, -2
        )
        master = self.proj_with_attM(of_master.transpose(1, 2) @ x) + self.proj_without_attM(master)
        y = self.proj_with_att(attention @ x) + self.proj_without_att(x)
        y = selu(self.bn(y.flatten(0, 1)).view_as(y))
        return y[:, :n], y[:, n:], master


class PlainAASIST(nn.Module):
    """AASIST written down straightforwardly; names as in the published checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        widths = (1, 32, 32, 64, 64, 64, 64)
        self.register_buffer("filters", band_pass_filters()[:, None], persistent=False)
        self.first_bn = nn.BatchNorm2d(1)
        blocks = [PlainBlock(widths[i], widths[i + 1], i == 0) for i in range(6)]
        self.encoder = nn.Sequential(*(nn.Sequential(block) for block in blocks))
        self.pos_S = nn.Parameter(torch.zeros(1, 23, 64))
        self.master1 = nn.Parameter(torch.zeros(1, 1, 64))
        self.master2 = nn.Parameter(torch.zeros(1, 1, 64))
        self.GAT_layer_S, self.GAT_layer_T = PlainAttention(64, 64), PlainAttention(64, 64)
        self.pool_S, self.pool_T = PlainPooling(64, 0.5), PlainPooling(64, 0.7)
        for branch in "12":
            self.add_module(f"HtrgGAT_layer_ST{branch}1", PlainHeterogeneous(64, 32))
            self.add_module(f"HtrgGAT_layer_ST{branch}2", PlainHeterogeneous(32, 32))
            self.add_module(f"pool_hS{branch}", PlainPooling(32, 0.5))
            self.add_module(f"pool_hT{branch}", PlainPooling(32, 0.5))
        self.out_layer = nn.Linear(160, 2)

    def branch(self, t: Tensor, s: Tensor, m: Tensor, name: str) -> tuple[Tensor, ...]:
        t, s, m = getattr(self, f"HtrgGAT_layer_ST{name}1")(t, s, m)
        t, s = getattr(self, f"pool_hT{name}")(t), getattr(self, f"pool_hS{name}")(s)
        added = getattr(self, f"HtrgGAT_layer_ST{name}2")(t, s, m)
        return t + added[0], s + added[1], m + added[2]

    def forward(self, waveforms: Tensor) -> Tensor:
        x = conv1d(waveforms[:, None], self.filters).abs()
        x = selu(self.first_bn(max_pool2d(x[:, None], (3, 3))))
        e = self.encoder(x).abs()
        s = self.pool_S(self.GAT_layer_S(e.amax(3).transpose(1, 2) + self.pos_S))
        t = self.pool_T(self.GAT_layer_T(e.amax(2).transpose(1, 2)))
        branches = self.branch(t, s, self.master1, "1"), self.branch(t, s, self.master2, "2")
        t, s, m = (torch.maximum(*pair) for pair in zip(*branches, strict=True))
        return torch.cat([t.abs().amax(1), t.mean(1), s.abs().amax(1), s.mean(1), m[:, 0]], dim=1)


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


def clock(run: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock and of CPU time."""
    wall, cpu = time.perf_counter(), time.thread_time()
    run()
    return time.perf_counter() - wall, time.thread_time() - cpu


def compare(ours: AASIST, waveforms: Tensor, rounds: int) -> None:
    """Part 1: ours against the plain one, alternating."""
    plain = PlainAASIST().eval()
    plain.load_state_dict(ours.state_dict())
    torch.set_num_threads(1)
    print("\nAASIST on one thread, utterances per second (medians)")
    print(f"{'batch':>5} {'plain':>8} {'ours':>8} {'ratio':>7} {'by CPU time':>12} {'max diff':>9}")
    with torch.inference_mode():
        difference = float((plain(waveforms[:4]) - ours(waveforms[:4]).embedding).abs().max())
        for size in (1, 16):
            some = waveforms[: max(size, 8)]
            batches, utterances = some.split(size), len(some)
            times: dict[str, list[tuple[float, float]]] = {"plain": [], "ours": []}
            for _ in range(rounds):
                times["plain"].append(clock(lambda b=batches: [plain(x) for x in b]))
                times["ours"].append(clock(lambda b=batches: [ours(x) for x in b]))
            wall, cpu = (
                {name: statistics.median(row[k] for row in rows) for name, rows in times.items()}
                for k in (0, 1)
            )
            print(
                f"{size:>5} {utterances / wall['plain']:>8.2f} {utterances / wall['ours']:>8.2f} "
                f"{wall['plain'] / wall['ours']:>6.2f}x {cpu['plain'] / cpu['ours']:>11.2f}x "
                f"{difference:>9.1e}"
            )


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
    """

    speed: float
    waiting: float
    features: float
    network: float
    cpu: float
    blocked: float


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
    return Pass(made / wall, *shares, cpu / made, 1 - (cpu + queue) / clock_time)


def table(
    network: AASIST | ECAPA, folder: AudioFolder, files: list[str], batch: int, rounds: int
) -> None:
    """Part 2: two lines of the table, the fastest of the rounds; one and two workers alternate."""
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
    on_idle = 2 * one.cpu / two.cpu * (1 - two.blocked) / (1 - one.blocked)
    print(f"  two workers: {two.speed / one.speed:.2f}x by the clock, {on_idle:.2f}x by CPU time")


def memory_growth(network: AASIST, folder: AudioFolder, files: list[str]) -> None:
    """Part 3: peak memory after the first quarter of a pass, and after the whole."""
    names = [Utterance(file, file) for file in files]
    peaks = [memory() for _ in embed_files(network, names, folder.find, Resources(2, 2, "cpu"))]
    quarter = len(peaks) // 4
    print(
        f"peak memory: {peaks[quarter]:.0f} MB after {2 * (quarter + 1)} files, "
        f"{peaks[-1]:.0f} MB after {len(files)}"
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
    """Print the three parts."""
    default = Path(os.environ.get("SASV_SHARED", Path(__file__).parents[2] / "shared")) / "data"
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--files", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as scratch:
        folder, files, aasist, ecapa = prepare(args.data, args.files, Path(scratch))
        memory_growth(aasist, folder, files)
        waves = [torch.from_numpy(read_audio(folder.find(file))) for file in files[:16]]
        compare(aasist, as_batch(waves, SAMPLES)[0], args.rounds)
        print(f"\nfiles to embeddings; reading one takes {reading_time(folder, files):.1f} ms")
        print("network batch workers   utt/s     RTF  waiting  features  network    CPU s  blocked")
        for network in (aasist, ecapa):
            for batch in (1, 16):
                table(network, folder, files, batch, args.rounds)


if __name__ == "__main__":
    main()
