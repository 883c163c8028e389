"""Small files that stand for much: made here, and refused in a moment."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path

import numpy as np
import polars as pl

LEVELS = 10


def _aliases(merged: bool = False) -> str:
    """Ten lists of ten aliases to the one before."""
    text = "a0: &a0 {x: 1}\n" if merged else "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    for level in range(1, LEVELS):
        names = ", ".join([f"*a{level - 1}"] * 10)
        text += f"a{level}: &a{level} " + (f"{{<<: [{names}]}}\n" if merged else f"[{names}]\n")
    return text


def _doubled(values: str = '"{}"') -> str:
    """Texts, or lists, each of which names the one before ten times."""
    text = "x0: abcdefghij\n"
    for level in range(1, LEVELS):
        names = [f"${{data.x{level - 1}}}"] * 10
        text += f"x{level}: " + values.format("".join(names)) + "\n"
    return "data:\n" + "".join(f"  {line}\n" for line in text.splitlines())


YAML = {
    "aliases": _aliases(),
    "merged aliases": _aliases(merged=True),
    "aliases in a section": "data:\n" + "".join(f"  {x}\n" for x in _aliases().splitlines()),
    "itself": "data: &d {root: *d}\n" + " " * 100,
    "itself in a list": "data: &d [1, [2, *d]]\n" + " " * 100,
    "brackets": "[" * 200_000,
    "closed brackets": "data: " + "[" * 500 + "]" * 500,
    "dashes": "- " * 100_000,
    "questions": "? " * 100_000,
    "many": "data: [" + "1, " * 200_000 + "1]\n",
    "sixties": "data: " + ":".join(["1"] * 100_000),
    "tagged sixties": 'data: !!int "' + ":".join(["1"] * 100_000) + '"',
    "anchors": "data: [" + ", ".join(["&a 1"] + ["*a"] * 5_000) + "]\n",
    "no truth value": "data: {root: !!bool x}\n",
    "no date": "data: {root: !!timestamp x}\n",
    "no number": "data: {root: !!float ''}\n",
}
"""Configurations, sweeps and costs."""

INTERPOLATED = {"texts": _doubled(), "lists": _doubled("['{}']").replace("}$", "}', '$")}

JSON = {
    "open": "[" * 200_000,
    "closed": "[" * 100_000 + "]" * 100_000,
    "deep": '{"a": ' * 200 + "1" + "}" * 200,
    "many": "[" + "[]," * 2_000_000 + "1]",
    "digits": "[" + "1" * 100_000 + "]",
}


def equal_rows(path: Path, rows: int = 12_000_000) -> None:
    """Next to nothing on disk, gigabytes in memory."""
    columns = {name: pl.repeat(1.0, rows, eager=True, dtype=pl.Float32) for name in ("asv", "cm")}
    pl.DataFrame(columns).rename({"asv": "asv_score", "cm": "cm_score"}).write_parquet(path)


def long_cell(path: Path) -> None:
    """One cell of 30 million letters."""
    pl.DataFrame({"utterance": ["U" * 30_000_000]}).write_parquet(path, compression="zstd")


def _zip() -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("scores.csv", "speaker,utterance\n")
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([{}, 1], dtype=object), allow_pickle=True)
    return stream.getvalue()


OTHER_KINDS = {
    "gzip": gzip.compress(b"speaker,utterance\r\n" * 100_000)[:-9],
    "zip archive": _zip(),
    "Python objects": _npy(),
    "pickle": pickle.dumps({"U1": 1.0}),
    "NUL byte": b"S1 U1 bonafide target 1\nS1 U\0 bonafide target 1\n",
}
"""Files that are no scores, and the word that names them."""

TEXTS = {
    "one line": b"S1 " * 1_000_000,
    "letters": b"S" * 3_000_000,
    "columns": b",".join(b"c%d" % n for n in range(20_000)) + b"\n1",
    "a name": b"speaker,utterance,label,asv_score,cm_score\n"
    + b"S,U,target,1,1\n" * 20_000
    + b"S" * 1_000_000
    + b",V,spoof,1,1\n",
    "gzip without end": gzip.compress(b"S1 U1 - target 1\n" * 100_000) * 150,
}
"""Score files with absurd lines."""


def _pairs(levels: int = 60) -> bytes:
    """A pickled pair of pairs of pairs, each of which is twice the same."""
    steps = (
        b"h" + struct.pack("B", n) + b"h" + struct.pack("B", n) + b"\x86q" + struct.pack("B", n + 1)
        for n in range(levels)
    )
    return b"K\x01q\x00" + b"".join(steps)


PICKLES = {
    "pairs as a key": b"\x80\x04}(" + _pairs() + b"K\x01u.",
    "pairs in a set": b"\x80\x04(" + _pairs() + b"\x91.",
    "pairs": b"\x80\x04}(X\x02\x00\x00\x00U1" + _pairs() + b"u.",
}


def grid(values: int = 1_000) -> str:
    """A sweep of 10^12 points."""
    names = (f"data.x{n}" for n in range(4))
    parameters = {name: {"values": list(range(values))} for name in names}
    command = ["lightning", "fit", "${args}"]
    return json.dumps({"method": "grid", "command": command, "parameters": parameters})
