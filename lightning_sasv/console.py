"""What a command says beside its tables: lines, remarks, progress; and who is kept quiet."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from errno import EPIPE
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from lightning_sasv.program import WRITTEN, program
from lightning_sasv.terminal import clean, format_warning

Begin = Callable[..., Callable[..., object]]
"""Begins a bar, ``begin(text, total, before=0)``, where some steps may have been done before; what
it returns is called with the steps done, or none."""

_OF_NO_CONCERN = (
    ".*does not have many workers.*",
    ".*smaller than the logging interval.*",
    ".*exists and is not empty.*",
    ".*treespec, LeafSpec.*",
    ".*LightningCLI's args parameter.*",
    ".*The dirpath has changed.*",  # a folder of results may be moved
    ".*`self.log\\('(val|dev|eval)/.*sync_dist=True.*",  # the same in every process already
    ".*predict returned None.*",  # scores are written, not returned
    ".*manual optimization and every_n_train_steps.*",
)


_NARROWEST = 60
"""Columns that a table takes at least, whatever the terminal says of itself."""


class Terminal(Console):
    """Where everything is printed: a text is a text, without markup or control characters.

    Args:
        stderr: Print to standard error.
        wrap: Break lines at the terminal's width.
    """

    def __init__(self, stderr: bool = False, wrap: bool = False) -> None:
        super().__init__(stderr=stderr, highlight=False, soft_wrap=not wrap)
        self.width = max(self.width, _NARROWEST)

    def render_str(self, text: str, **look: Any) -> Text:
        """Every text passes through here, also those in tables."""
        return super().render_str(clean(text), **look | {"markup": False, "emoji": False})

    def on_broken_pipe(self) -> None:
        """Leave it to the command."""
        raise BrokenPipeError(EPIPE, os.strerror(EPIPE))


def quiet() -> None:
    """Silence what Lightning says of itself, and warnings that do not apply to our loaders."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    alone = () if "SLURM_JOB_ID" in os.environ else (".*`srun` command is available.*",)
    for text in (".*",) if program().quiet else (*_OF_NO_CONCERN, *alone):
        warnings.filterwarnings("ignore", message=f"(?s){text}")
    warnings.formatwarning = format_warning  # Lightning has one of its own
    Console.on_broken_pipe = _go_on_unread  # type: ignore[method-assign, assignment]


def _go_on_unread(bar: Console) -> None:
    """A training whose progress nobody reads any more goes on; rich would end the program."""
    bar.quiet = True
    os.dup2(os.open(os.devnull, os.O_WRONLY), bar.file.fileno())


def print_line(text: str) -> None:
    """A line of text as it is, however long."""
    Terminal().print(text)


def print_note(text: str) -> None:
    """A line about what was done, which ``--quiet`` leaves out."""
    if not program().quiet:
        print_line(text)


def print_notes(notes: Sequence[str]) -> None:
    """Remarks on standard error, so that results stay alone on standard output."""
    console = Terminal(stderr=True)
    for note in () if program().quiet else notes:
        console.print(note)


def print_written(path: str | Path) -> None:
    """Say where the results are, to the user and to a sweep that started this process."""
    if os.environ.get(WRITTEN):
        Path(os.environ[WRITTEN]).write_text(str(Path(path).resolve()))  # read when this has ended
    print_note(f"Written to {path}")


def print_checked(parts: Sequence[str]) -> None:
    """Say what ``--check`` found sound."""
    for part in parts:
        print_note(f"checked: {part}")
    print_note("nothing was run, and nothing was written")


@contextmanager
def progress(unit: str = "", output: bool = False) -> Iterator[Begin]:
    """Progress bars on standard error, where that is a terminal.

    Args:
        unit: What is counted, for the speed: ``bytes``, or e.g. ``utt``; bars of these stay to be
            read, those without a unit vanish at the end.
        output: The finished bars are part of the command's output, on a terminal or not.
    """
    console = Terminal(stderr=not output, wrap=True)
    if program().quiet or not (output or console.is_terminal):
        yield lambda *_, **__: lambda *_: None
        return
    from rich import progress as bar

    class Speed(bar.ProgressColumn):
        def render(self, task: bar.Task) -> Text:
            done, seconds = task.completed - task.fields["before"], task.elapsed
            speed = f"{done / seconds:.1f}" if done and seconds else "–"
            return Text(f"{speed} {unit}/s")

    name = bar.TextColumn("{task.description}", markup=False)
    columns: tuple[bar.ProgressColumn, ...] = (name, *bar.Progress.get_default_columns()[1:])
    if unit:
        size = unit == "bytes"
        count = bar.DownloadColumn() if size else bar.MofNCompleteColumn()
        speed = bar.TransferSpeedColumn() if size else Speed()
        columns = (name, bar.BarColumn(), count, speed)
        columns += (bar.TextColumn("left"), bar.TimeRemainingColumn())
        columns += (bar.TextColumn("after"), bar.TimeElapsedColumn())
    with bar.Progress(*columns, console=console, transient=not unit) as bars:

        def begin(text: str, total: int, before: int = 0) -> Callable[..., object]:
            task = bars.add_task(clean(text), total=total, completed=before, before=before)
            return lambda steps=1: bars.advance(task, steps)

        yield begin
