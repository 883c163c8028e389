"""Write the pages that the docs site is built from: `make docs`.

``python docs/generate.py FOLDER`` copies docs/ there, with equations as MathML (``equations.py``),
a table of a registry in place of each ``<!-- table: NAME -->`` (``tables.py``), and the texts of
the repository's root as pages. Links to files of the repository that are no pages become their
paths. A link to nothing, a page that the navigation lacks and an equation that cannot be read end
it with 2. Pages of the tutorials are written afterwards, by ``tutorials/render.py``.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import yaml
from equations import CODE, EquationError, convert
from tables import TABLES

DOCS = Path(__file__).resolve().parent
REPOSITORY = DOCS.parent
INCLUDED = {
    "benchmarks.md": "benchmarks/README.md",
    "changelog.md": "CHANGELOG.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
"""Pages that are texts of the repository outside docs/."""
COPIED = (".png", ".svg", ".webp", ".css")
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<target>[^()\s]+)\)")
_MERMAID = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r'(\w+)\["(.*?)"\]')
_ARROWS = (
    (r"subgraph (?:\w+ )?\[(.*)\]", r"**\1**"),
    (r" -->\|\"?(.*?)\"?\| ", r" —(\1)→ "),
    (" --> ", " → "),
    (" --- ", ", "),
    (" & ", ", "),
)
"""How a line of a diagram is read."""
_TABLE = re.compile(r"<!-- table: (\w+) -->")


class PageError(ValueError):
    """Something in a page that would be broken on the site."""


def pages() -> dict[str, Path]:
    """Every page of the site, and the text that it is made of."""
    found = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    return found | {name: REPOSITORY / source for name, source in INCLUDED.items()}


def rendered() -> dict[str, Path]:
    """Pages that are written by running scripts, and the scripts."""
    scripts = sorted((DOCS / "tutorials").glob("[0-9]*.py"))
    return {f"tutorials/{path.stem}.md": path for path in scripts}


def page(name: str, source: Path, where: dict[Path, str]) -> str:
    """The text of a page.

    Args:
        name: Its place in the site.
        source: The file that it is made of.
        where: Places of all pages, by their files.

    Raises:
        PageError: It has a link to nothing, an unknown table, or an equation that cannot be read.
    """

    def linked(part: str) -> str:
        return _LINK.sub(lambda found: _link(found, name, source, where), part)

    text = _outside_code(source.read_text("utf-8"), linked)
    text = _MERMAID.sub(lambda found: _arrows(found[1]), text)
    unknown = set(_TABLE.findall(text)) - set(TABLES)
    if unknown:
        raise PageError(f"{source}: no table {', '.join(unknown)}; there are {', '.join(TABLES)}")
    try:
        text = convert(text)
    except EquationError as error:
        raise PageError(f"{source}: {error}") from None
    return _TABLE.sub(lambda found: TABLES[found[1]](), text)


def _outside_code(text: str, change: Callable[[str], str]) -> str:
    """A text with all of it changed but for fenced blocks and code in lines."""
    parts, at = [], 0
    for found in CODE.finditer(text):
        parts += [change(text[at : found.start()]), found[0]]
        at = found.end()
    return "".join([*parts, change(text[at:])])


def _arrows(diagram: str) -> str:
    """A diagram as a list of its arrows: what draws it would be fetched from the network."""
    named = dict(_NAMED.findall(diagram))
    text = _NAMED.sub(r"\1", diagram)
    for name, label in named.items():
        text = re.sub(rf"(?<![|*])\b{name}\b(?!\*)", f"*{label}*", text)
    lines = [line.strip() for line in text.splitlines()[1:] if line.strip() != "end"]
    for pattern, shown in _ARROWS:
        lines = [re.sub(pattern, shown, line) for line in lines]
    return "\n".join(f"- {line}" for line in lines)


def _link(found: re.Match[str], name: str, source: Path, where: dict[Path, str]) -> str:
    """A link as the site has it."""
    path, hash_, anchor = found["target"].partition("#")
    if not path or re.match(r"\w+:", path):
        return found[0]
    target = (source.parent / path).resolve()
    if not target.exists():
        raise PageError(f"{source}: a link to {found['target']}, which is not there")
    if target in where or target.suffix in COPIED:
        place = where.get(target) or target.relative_to(DOCS).as_posix()
        own = os.path.relpath(place, PurePosixPath(name).parent)
        return f"{found['image']}[{found['text']}]({PurePosixPath(own)}{hash_}{anchor})"
    inside = target.relative_to(REPOSITORY).as_posix()
    text = found["text"].strip("`")
    return f"`{inside}`" if inside.startswith(text) else f"{found['text']} (`{inside}`)"


def check_navigation(names: Iterable[str]) -> None:
    """Raise unless the navigation of mkdocs.yml has every page, and no other."""
    listed = set(_entries(yaml.safe_load((REPOSITORY / "mkdocs.yml").read_text("utf-8"))["nav"]))
    for missing in sorted(set(names) - listed):
        raise PageError(f"mkdocs.yml: {missing} is not in the navigation")
    for other in sorted(listed - set(names)):
        raise PageError(f"mkdocs.yml: {other} of the navigation is not there")


def _entries(part: Any) -> Iterator[str]:
    """The pages of a part of the navigation."""
    if isinstance(part, str):
        yield part
    else:
        for inner in part.values() if isinstance(part, dict) else part:
            yield from _entries(inner)


def generate(folder: Path) -> int:
    """Write all pages; returns how many there are."""
    shutil.rmtree(folder, ignore_errors=True)
    found = pages()
    where = {path.resolve(): name for name, path in (found | rendered()).items()}
    check_navigation(where.values())
    for name, source in found.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(page(name, source, where), "utf-8")
    for path in DOCS.rglob("*"):
        if path.suffix in COPIED:
            (folder / path.relative_to(DOCS)).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path.relative_to(DOCS))
    return len(found)


if __name__ == "__main__":
    try:
        count = generate(Path(sys.argv[1]))
    except PageError as error:
        sys.stderr.write(f"docs: {error}\n")
        sys.exit(2)
    sys.stdout.write(f"{count} pages in {sys.argv[1]}\n")
