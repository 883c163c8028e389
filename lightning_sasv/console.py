"""What a command says beside its tables: lines, remarks, progress; and who is kept quiet."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

Begin = Callable[[str, int], Callable[..., object]]
"""Begins a bar, ``begin(text, total)``; what it returns is called with the steps done, or none."""

_OF_NO_CONCERN = (
    ".*does not have many workers.*",
    ".*smaller than the logging interval.*",
    ".*exists and is not empty.*",
    ".*treespec, LeafSpec.*",
    ".*LightningCLI's args parameter.*",
    ".*The dirpath has changed.*",  # a folder of results may be moved
)


def quiet() -> None:
    """Silence what Lightning says of itself, and warnings that do not apply to our loaders."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for text in _OF_NO_CONCERN:
        warnings.filterwarnings("ignore", message=text)


def print_line(text: str) -> None:
    """A line of text as it is, however long."""
    Console(highlight=False, soft_wrap=True, markup=False).print(text)


def print_notes(notes: Sequence[str]) -> None:
    """Remarks on standard error, so that results stay alone on standard output."""
    console = Console(stderr=True, highlight=False, soft_wrap=True, markup=False)
    for note in notes:
        console.print(note)


def print_written(path: str | Path) -> None:
    """Say where the results are."""
    print_line(f"Written to {path}")


@contextmanager
def progress(unit: str = "", output: bool = False) -> Iterator[Begin]:
    """Progress bars on standard error, where that is a terminal.

    Args:
        unit: What is counted, for the speed: ``bytes``, or e.g. ``utt``; bars of these stay to be
            read, those without a unit vanish at the end.
        output: The finished bars are part of the command's output, on a terminal or not.
    """
    from rich import progress as bar
    from rich.text import Text

    class Speed(bar.ProgressColumn):
        def render(self, task: bar.Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text(f"{'–' if speed is None else f'{speed:.1f}'} {unit}/s")

    console = Console(stderr=not output)
    columns: tuple[str | bar.ProgressColumn, ...] = bar.Progress.get_default_columns()
    if unit:
        size = unit == "bytes"
        count = bar.DownloadColumn() if size else bar.MofNCompleteColumn()
        speed = bar.TransferSpeedColumn() if size else Speed()
        columns = ("{task.description}", bar.BarColumn(), count, speed)
        columns += ("left", bar.TimeRemainingColumn(), "after", bar.TimeElapsedColumn())
    disable = not (output or console.is_terminal)
    with bar.Progress(*columns, console=console, transient=not unit, disable=disable) as bars:

        def begin(text: str, total: int) -> Callable[..., object]:
            task = bars.add_task(text, total=total)
            return lambda steps=1: bars.advance(task, steps)

        yield begin
