"""Published and recomputed values as a page in Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lightning_sasv.files import write_text
from lightning_sasv.places import head, refuse

HEADINGS = ("system", "metric", "set", "published", "recomputed", "verdict", "what explains it")
_HTML = re.compile(r"<(?!https?://[^\s<>]+>)")
"""Any but addresses, which stand in angle brackets."""
_HEAD = f"| {' | '.join(HEADINGS)} |"


def write_page(
    path: str | Path,
    title: str,
    about: str,
    parts: Mapping[str, Iterable[Sequence[str]]],
    sources: Iterable[str],
    overwrite: bool = False,
) -> Path:
    """Write a page of tables.

    Args:
        path: File to write.
        title: Its heading.
        about: What stands before the tables.
        parts: Rows, with a cell for each of ``HEADINGS``, by the heading of their table.
        sources: Where the published values come from.
        overwrite: Replace the file though it holds something else.

    Raises:
        InputError: The file holds something else.
    """
    if not overwrite and Path(path).exists() and _HEAD not in head(Path(path)):
        refuse(path, "something else than published and recomputed values", "another --markdown")
    lines = [f"# {_one_line(title)}", "", *_HTML.sub("&lt;", about).strip().splitlines()]
    for heading, rows in parts.items():
        cells = [f"| {' | '.join(_one_line(cell) for cell in row)} |" for row in rows]
        if cells:
            lines += ["", f"## {heading}", "", _HEAD, "|---" * len(HEADINGS) + "|", *cells]
    listed = [f"- {_one_line(source)}" for source in dict.fromkeys(sources)]
    if listed:
        lines += ["", "## Sources", "", *listed]
    return write_text(path, "\n".join(lines) + "\n")


def _one_line(text: str) -> str:
    """Text that ends neither a cell nor a line, and holds no HTML."""
    return " ".join(_HTML.sub("&lt;", text).replace("|", "\\|").split())
