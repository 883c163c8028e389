"""Audio files through a network: reading ahead in threads, several networks side by side."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError, RunError
from lightning_sasv.frontends.audio import Member, read_audio, require_soundfile
from lightning_sasv.frontends.base import FrontEnd
from lightning_sasv.frontends.lists import Utterance
from lightning_sasv.program import cores

READ_AHEAD = 2
"""Batches that are read while the networks are busy."""

READ_SECONDS = 600.0
"""Time after which a batch that is being read is given up: the disk or share does not answer."""

Find = Callable[[str], Path | Member]
"""Maps an utterance's place to its file, or says with an InputError why it cannot."""


@dataclass(frozen=True)
class Resources:
    """What an extraction may use.

    Attributes:
        batch_size: Recordings that are read and embedded together; by default 4, on a GPU 32.
        workers: Batches that are embedded at the same time, each with one CPU thread; by default
            one for each CPU, and one on a GPU.
        device: ``auto`` (a GPU where there is one), ``cpu``, ``cuda``, ``cuda:1``, …
    """

    batch_size: int | None = None
    workers: int | None = None
    device: str = "auto"

    def __post_init__(self) -> None:
        for name, value in (("batch_size", self.batch_size), ("workers", self.workers)):
            if value is not None and value < 1:
                raise InputError(f"{name} must be at least 1, got {value}")

    def torch_device(self) -> torch.device:
        """The device to compute on."""
        if self.device == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        try:
            device = torch.device(self.device)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(f"device {self.device!r} cannot be used: {reason}") from None
        return device

    def batch(self) -> int:
        """Recordings of a batch."""
        return self.batch_size or (4 if self.torch_device().type == "cpu" else 32)

    def worker_count(self) -> int:
        """Batches that are embedded at the same time."""
        if self.workers is not None:
            return self.workers
        return 1 if self.torch_device().type != "cpu" else cores()

    def settings(self) -> dict[str, Any]:
        """What is used, as plain values for the manifest."""
        device = str(self.torch_device())
        return {"batch_size": self.batch(), "workers": self.worker_count(), "device": device}


class Recordings(NamedTuple):
    """Utterances that could be read, their waveforms, and why the others could not."""

    ids: list[str]
    waveforms: list[np.ndarray]
    failures: dict[str, str]


def read_batch(front_end: FrontEnd, batch: Sequence[Utterance], find: Find) -> Recordings:
    """Read what the front end looks at of each recording."""
    read = Recordings([], [], {})
    samples = getattr(front_end, "samples", None)
    for utterance in batch:
        try:
            waveform = read_audio(find(utterance.place), front_end.sample_rate, samples)
        except InputError as error:
            read.failures[utterance.id] = str(error)
            continue
        read.ids.append(utterance.id)
        read.waveforms.append(waveform)
    return read


def start_reading(
    front_end: FrontEnd, batch: Sequence[Utterance], find: Find
) -> Future[Recordings]:
    """Read a batch in a daemon: one that hangs in a dead file system cannot keep us from ending."""
    future: Future[Recordings] = Future()

    def run() -> None:
        try:
            future.set_result(read_batch(front_end, batch, find))
        except BaseException as error:
            future.set_exception(error)

    threading.Thread(target=run, name="read", daemon=True).start()
    return future


def wait_for(reading: Future[Recordings], batch: Sequence[Utterance]) -> Recordings:
    """What was read, as soon as it is there.

    Raises:
        RunError: It takes longer than ``READ_SECONDS``.
    """
    try:
        return reading.result(READ_SECONDS)
    except TimeoutError:
        names = ", ".join(utterance.place for utterance in batch[:3])
        raise RunError(
            f"reading {names} took longer than {READ_SECONDS:.0f} s: does the disk or network "
            "share answer? What was embedded is kept; the same command goes on from there"
        ) from None


class Embedded(NamedTuple):
    """What became of a batch.

    Attributes:
        ids: Utterances that were embedded.
        vectors: Their embeddings, (len(ids), dim), float32 on the CPU.
        failures: Reason of each utterance that was not.
        waited: Seconds that the network waited for audio.
        busy: Seconds that the network worked.
    """

    ids: list[str]
    vectors: Tensor
    failures: dict[str, str]
    waited: float
    busy: float


def _embed(front_end: FrontEnd, read: Recordings) -> tuple[Tensor, dict[str, str]]:
    """Embeddings of a batch; where the batch fails, recording by recording to find the reason."""
    if not read.ids:
        return torch.empty(0, front_end.dim), {}
    try:
        vectors = torch.as_tensor(front_end.embed([torch.from_numpy(w) for w in read.waveforms]))
    except (RuntimeError, ValueError) as error:
        if len(read.ids) == 1:
            reason = f"the network failed: {error}"
            return torch.full((1, front_end.dim), torch.nan), {read.ids[0]: reason}
        parts = [
            _embed(front_end, Recordings([name], [waveform], {}))
            for name, waveform in zip(read.ids, read.waveforms, strict=True)
        ]
        failures = {name: reason for _, failed in parts for name, reason in failed.items()}
        return torch.cat([row for row, _ in parts]), failures
    expected = (len(read.ids), front_end.dim)
    if vectors.shape != expected:
        raise InputError(
            f"{type(front_end).__name__}.embed gave a tensor of shape {tuple(vectors.shape)} for "
            f"{len(read.ids)} waveforms; expected {expected}"
        )
    return vectors.detach().to("cpu", torch.float32), {}


def _process(
    front_end: FrontEnd, batch: Sequence[Utterance], reading: Future[Recordings]
) -> Embedded:
    """Embed a batch as soon as it has been read."""
    start = time.perf_counter()
    read = wait_for(reading, batch)
    ready = time.perf_counter()
    vectors, failures = _embed(front_end, read)
    finite = torch.isfinite(vectors).all(dim=1)
    for name, good in zip(read.ids, finite.tolist(), strict=True):
        if not good:
            failures.setdefault(name, "the network gave NaN or infinity")
    kept = [name for name, good in zip(read.ids, finite.tolist(), strict=True) if good]
    busy = time.perf_counter() - ready
    return Embedded(kept, vectors[finite], read.failures | failures, ready - start, busy)


@contextmanager
def _one_thread_per_worker(device: torch.device) -> Iterator[None]:
    """On the CPU each worker computes in its own thread alone.

    Whole recordings side by side use the CPUs better than several threads for one recording.
    """
    before = torch.get_num_threads()
    if device.type == "cpu":
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def embed_files(
    front_end: FrontEnd, utterances: Sequence[Utterance], find: Find, resources: Resources
) -> Generator[Embedded, None, None]:
    """Embed recordings batch by batch, in order.

    Reading and resampling run in threads of their own, ahead of the networks. No more than
    ``workers + READ_AHEAD`` batches of audio are in memory. There are no other processes, hence
    no fork of a process with threads; and nothing waits without a limit.

    Args:
        front_end: The network.
        utterances: What to embed.
        find: Where the recordings are.
        resources: Batch size, workers and device.

    Raises:
        RunError: A batch could not be read within ``READ_SECONDS``.
    """
    require_soundfile()
    device, count = resources.torch_device(), resources.worker_count()
    if isinstance(front_end, nn.Module):
        front_end.to(device).eval()
    pending: deque[Future[Embedded]] = deque()
    start_worker = (lambda: torch.set_num_threads(1)) if device.type == "cpu" else None
    size = resources.batch()
    workers = ThreadPoolExecutor(count, "embed", initializer=start_worker)
    wait = True
    with _one_thread_per_worker(device):
        try:
            for first in range(0, len(utterances), size):
                batch = utterances[first : first + size]
                reading = start_reading(front_end, batch, find)
                pending.append(workers.submit(_process, front_end, batch, reading))
                if len(pending) >= count + READ_AHEAD:
                    yield pending.popleft().result()
            while pending:
                yield pending.popleft().result()
        except KeyboardInterrupt:
            wait = False  # the program ends; a batch may take long
            raise
        finally:
            workers.shutdown(wait=wait, cancel_futures=True)
