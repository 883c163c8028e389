"""What lies at a place that a command is about to write to, and whether it may be replaced.

Every folder and file of ours can be told from others by what is in it. A command replaces what the
same command has made of the same inputs; anything else only with ``--overwrite``.
"""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import NamedTuple, NoReturn

from lightning_sasv.errors import InputError
from lightning_sasv.files import inside

RUN, TABLE, FUSED = "a training run", "a table of seeds", "fused scores"
BUNDLE, CORPUS, EMBEDDINGS = "a bundle", "a corpus", "extracted embeddings"
LOCK = ".lightning.lock"
"""Lock files begin with this; they are nobody's content."""
COUNTS = ".counts.safetensors"
"""Files of counts end with this."""

_HEAD = 1 << 16


class Mark(NamedTuple):
    """How a folder shows of what kind it is: a file in it, and what that begins with or holds."""

    kind: str
    files: str
    text: str


MARKS = (
    Mark(RUN, "config.yaml", r"\A# pytorch_lightning=="),
    Mark(RUN, "checkpoints/*.ckpt", ""),
    Mark(TABLE, "recipe.json", r'"lightning_sasv":'),
    Mark(TABLE, "seed[0-9]*/metrics.json", r'"corpus":'),
    Mark(BUNDLE, "bundle.json", r'"lightning_sasv\.bundle/'),
    Mark(EMBEDDINGS, "manifest.json", r'"lightning_sasv\.extraction/'),
    Mark(CORPUS, "corpus.json", r'\A\s*{\s*"name":'),
    Mark(FUSED, "scores/*.csv", r"\A[^\n]*\basv_\w[^\n]*,cm_\w[^\n]*,sasv_"),
)
"""The first that is found counts: a training run holds fused scores too."""


def is_counts(path: str | Path) -> bool:
    """Whether a file is one of counts, by its name."""
    return str(path).endswith(COUNTS)


def kind_of(folder: str | Path) -> str | None:
    """What a folder holds, in words; nothing where it is empty or not there."""
    folder = Path(folder)
    try:
        names = sorted(path.name for path in folder.iterdir() if _counts(path))
    except FileNotFoundError:
        return None
    for kind, files, text in MARKS:
        if any(re.search(text, head(path)) for path in folder.glob(files)):
            return kind
    shown = ", ".join(names[:3]) + (", …" if len(names) > 3 else "")
    return f"other files ({shown})" if names else None


def _counts(path: Path) -> bool:
    """Whether it is content: neither a lock nor a folder without any file."""
    if path.is_dir() and not path.is_symlink():
        return any(not inner.is_dir() or inner.is_symlink() for inner in path.rglob("*"))
    return not path.name.startswith(LOCK)


def head(path: Path) -> str:
    """The beginning of a file as text, nothing of what is none."""
    if not path.is_file():
        return ""
    with path.open("rb") as file:
        return file.read(_HEAD).decode(errors="replace")


RUN_PARTS = (
    *("config.yaml", "hparams.yaml", "metrics.csv", "metrics.json", "recipe.json", "report.html"),
    *("table.md", "table.csv", "table.tex"),
    *("scores", "fitted", "checkpoints", "tests", "training", "seed[0-9]*"),
)
"""What commands write in a folder of results."""


def check_links(folder: str | Path) -> Path:
    """A folder of results, unless links in it lead out of it.

    Only what commands read and write there is looked at, for the folder may hold other things.

    Raises:
        InputError: A link does.
    """
    folder = Path(folder)
    entries = folder.iterdir() if folder.is_dir() else ()
    for part in entries:  # also links to what is not there yet, which a pattern would not find
        if any(part.match(pattern) for pattern in RUN_PARTS):
            below = part.rglob("*") if part.is_dir() and not part.is_symlink() else []
            for path in (part, *below):
                if path.is_symlink():
                    inside(folder, path)
    return folder


def refuse(place: str | Path, holds: str, another: str = "another --out") -> NoReturn:
    """Say that something is in the way."""
    raise InputError(
        f"{place} holds {holds}: nothing was changed; choose {another}, or add --overwrite to "
        "replace it"
    )


def check_folder(
    folder: str | Path, kind: str, overwrite: bool = False, another: str = "another --out"
) -> None:
    """Refuse to write to a folder that holds anything but what is about to be written.

    Args:
        folder: Where.
        kind: What is about to be written, e.g. ``RUN``.
        overwrite: The user wants it anyway.
        another: What else the user can choose.
    """
    found = kind_of(folder)
    if found not in (None, kind) and not overwrite:
        refuse(folder, found or "", another)


def stamp(command: str, source: str | Path) -> str:
    """What a page or figure says of its origin: the command, and a short hash of its source."""
    origin = hashlib.sha256(str(Path(source).resolve()).encode(errors="replace")).hexdigest()
    return f"lightning-sasv {command} {origin[:16]}"


def check_stamped(path: Path, stamped: str, overwrite: bool = False) -> None:
    """Refuse to replace a file without this stamp, made by another command or of another source."""
    if path.exists() and not overwrite and not (path.is_file() and _has(path, stamped)):
        of = stamped.split()[1]
        refuse(path, f"something else than what `lightning {of}` makes of this folder")


def _has(path: Path, text: str) -> bool:
    return text.encode() in path.read_bytes()
