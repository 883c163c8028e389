"""Ctrl-C in the middle of a training, told apart from other ends of the process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pytorch_lightning import Callback, LightningModule, Trainer


class NoteInterrupt(Callback):
    """Notes that the Trainer was interrupted; the Trainer itself only exits with code 1."""

    def __init__(self) -> None:
        self.seen = False

    def on_exception(
        self, trainer: Trainer, pl_module: LightningModule, exception: BaseException
    ) -> None:
        """Called by the Trainer before it shuts down."""
        self.seen = self.seen or isinstance(exception, KeyboardInterrupt)


@contextmanager
def interrupts(note: NoteInterrupt, advice: str) -> Iterator[None]:
    """Turn the Trainer's exit after Ctrl-C back into a ``KeyboardInterrupt`` with some advice."""
    try:
        yield
    except SystemExit:
        if note.seen:
            raise KeyboardInterrupt(advice) from None
        raise
