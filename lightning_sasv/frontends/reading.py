"""Batches of recordings, read in threads ahead of the networks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lightning_sasv.errors import InputError, RunError
from lightning_sasv.frontends.audio import read_audio
from lightning_sasv.frontends.base import FrontEnd
from lightning_sasv.frontends.lists import Utterance

READ_SECONDS = 600.0
"""Time after which a batch that is being read is given up: the disk or share does not answer."""

Find = Callable[[str], Path]
"""Maps an utterance's place to its file, or says with an InputError why it cannot."""


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
    """Read a batch in a thread of its own.

    The thread is a daemon: one that hangs in a file system that does not answer any more cannot
    keep the program from ending.
    """
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
