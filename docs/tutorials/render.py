"""Run the tutorials and write them as pages: the second step of `make docs`.

``python docs/tutorials/render.py FOLDER`` runs each script beside this file, cell by cell in one
namespace and in a folder of its own that is removed afterwards, and writes a page for each into
FOLDER: its text, its code, what the code prints, and its figures as PNG files. `make docs` calls it
with ``build/docs/tutorials`` after ``docs/generate.py build/docs``; nothing of it is committed.

A script is in the percent format: a line ``# %% [markdown]`` begins a cell of text (comments), a
line ``# %%`` a cell of code. A cell that fails ends the command with 1 and the number of its line.
"""

from __future__ import annotations

import io
import os
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TUTORIALS = Path(__file__).parent
SCRIPTS = tuple(sorted(TUTORIALS.glob("[0-9]*.py")))
_CELL = re.compile(r"^# %%(?P<text> \[markdown\])?[^\n]*\n", re.MULTILINE)


class Cell(NamedTuple):
    """A cell of a script: text or code, and the line that it begins with."""

    is_text: bool
    content: str
    line: int


class Rendered(NamedTuple):
    """A tutorial that was run.

    Attributes:
        page: Its text in Markdown.
        figures: Its figures, by the names of their files.
        names: What it defined.
    """

    page: str
    figures: dict[str, bytes]
    names: dict[str, Any]


class CellError(RuntimeError):
    """A cell failed."""


def cells(script: str) -> Iterator[Cell]:
    """The cells of a script in the percent format; what stands before the first is left out."""
    found = list(_CELL.finditer(script))
    ends = [one.start() for one in found[1:]] + [len(script)]
    for one, end in zip(found, ends, strict=True):
        content = script[one.end() : end].strip("\n")
        if one["text"]:
            content = "\n".join(re.sub(r"^# ?", "", line) for line in content.splitlines())
        if content:
            yield Cell(bool(one["text"]), content, script.count("\n", 0, one.end()) + 1)


def render(path: Path) -> Rendered:
    """Run a tutorial.

    Args:
        path: The script.

    Raises:
        CellError: A cell raised something, or ended the program.
    """
    import matplotlib as mpl

    mpl.use("agg")
    parts: list[str] = []
    figures: dict[str, bytes] = {}
    shown: list[Figure] = []
    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(path)}
    width = os.environ.get("COLUMNS")
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        os.environ["COLUMNS"] = "100"  # of the tables that commands print
        try:
            for cell in cells(path.read_text("utf-8")):
                if cell.is_text:
                    parts.append(cell.content)
                    continue
                printed = _run(cell, path, names)
                parts.append(f"```python\n{cell.content}\n```")
                if printed:
                    parts.append(f"```text\n{printed}\n```")
                for figure in _figures(names, shown):
                    name = f"{path.stem}-{len(figures) + 1}.png"
                    figures[name] = _png(figure)
                    parts.append(f"![{_title(figure)}]({name})")
        finally:
            os.environ.pop("COLUMNS") if width is None else os.environ.update(COLUMNS=width)
    return Rendered("\n\n".join(parts) + "\n", figures, names)


def _run(cell: Cell, path: Path, names: dict[str, Any]) -> str:
    """Run a cell of code; what it printed, without blanks at the ends of lines."""
    out, notes = io.StringIO(), io.StringIO()
    code = compile("\n" * (cell.line - 1) + cell.content, str(path), "exec")
    try:
        with redirect_stdout(out), redirect_stderr(notes):
            exec(code, names)
    except (Exception, SystemExit) as error:
        said = notes.getvalue().strip() or f"{type(error).__name__}: {error}"
        raise CellError(f"{path.name}, cell of line {cell.line}: {said}") from error
    return "\n".join(line.rstrip() for line in out.getvalue().strip("\n").splitlines())


def _figures(names: dict[str, Any], shown: list[Figure]) -> Iterator[Figure]:
    """Figures that are new: those of pyplot, and others that the script has a name for."""
    from matplotlib import pyplot as plt
    from matplotlib.figure import Figure

    opened = [plt.figure(number) for number in plt.get_fignums()]
    plt.close("all")
    named = [value for value in names.values() if isinstance(value, Figure)]
    for figure in [*opened, *named]:
        if not any(figure is one for one in shown):
            shown.append(figure)
            yield figure


def _png(figure: Figure) -> bytes:
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=110, bbox_inches="tight")
    return image.getvalue()


def _title(figure: Figure) -> str:
    """What a figure is of, for those who cannot see it."""
    titles = [figure.get_suptitle()]
    titles += [axes.get_title(place) for axes in figure.axes for place in ("center", "left")]
    return next(filter(None, titles), "figure").replace("\n", " ")


def write(folder: Path) -> dict[str, Rendered]:
    """Render all tutorials into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    done = {path.stem: render(path) for path in SCRIPTS}
    for name, one in done.items():
        (folder / f"{name}.md").write_text(one.page, "utf-8")
        for file, image in one.figures.items():
            (folder / file).write_bytes(image)
    return done


if __name__ == "__main__":
    try:
        written = write(Path(sys.argv[1]))
    except CellError as error:
        sys.stderr.write(f"tutorials: {error}\n")
        sys.exit(1)
    sys.stdout.write(f"{len(written)} tutorials in {sys.argv[1]}\n")
