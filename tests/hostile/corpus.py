"""Hostile files, made here: each would leave a mark if anything of it were run."""

from __future__ import annotations

import copy
import json
import os
import pickle
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy.bundle import write_bundle
from lightning_sasv.files import read_json, sha256
from lightning_sasv.fusion import build_system
from tests.scores.samples import toy_scores

MARK = "mark"
"""File that only a hostile file would make."""

EVIL = f"""
from pathlib import Path
from pytorch_lightning import Callback
Path({MARK!r}).touch()
class Evil(Callback): pass
class Other(Callback): pass
def run(*args, **kwargs): pass
"""
"""A module that leaves a mark when it is imported."""

STARTS = {
    "class_path": "torch.distributed.elastic.multiprocessing.subprocess_handler."
    "subprocess_handler.SubprocessHandler",
    "init_args": {
        "entrypoint": "touch",
        "args": [MARK],
        "env": {},
        "stdout": None,
        "stderr": None,
        "local_rank_id": 0,
        "numa_options": None,
    },
}
"""An object that starts a process when it is made."""

WRITES = {"class_path": "lightning_sasv.files.write_text", "init_args": {"path": MARK, "text": "x"}}
"""A function of ours that would write any file."""


class Reduces:
    """Pickles as a call."""

    def __init__(self, function: Callable[..., Any], *args: object) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call

    def __call__(self) -> None:
        """The pickler wants what it writes as a function to be one."""


def _touch() -> Reduces:
    return Reduces(os.system, f"touch {MARK}")


def _evaluates() -> Reduces:
    return Reduces(eval, f"open({MARK!r}, 'w')")


def _chain() -> Reduces:
    """``getattr(Path(MARK), "touch")()``."""
    return Reduces(Reduces(getattr, Path(MARK), "touch"))


def _state() -> Any:
    """An array whose state is a call."""
    return np.array([_touch()], dtype=object)


PICKLED: dict[str, Callable[[], Any]] = {
    "system": _touch,
    "eval": _evaluates,
    "value": lambda: {"U1": _touch()},
    "nested": lambda: {"U1": np.ones(3), "U2": [({"x": _evaluates()},)]},
    "key": lambda: {"U1": {Reduces(str, _evaluates()): 1}},
    "object array": lambda: {"U1": _state()},
    "getattr": _chain,
    "numpy": lambda: Reduces(np.load, "x.npy", None, True),
    "import": lambda: Reduces(__import__, "antigravity"),
}

ASSEMBLED = {
    "by name": b"cos\nsystem\n(S'touch mark'\ntR.",
    "stack global": b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\ntouch mark\x85R.",
    "instance": b"(S'touch mark'\nios\nsystem\n.",
    "dotted": b"\x80\x04\x8c\x05numpy\x8c\x14core.os.system\x93\x8c\ntouch mark\x85R.",
    "build": b"cnumpy\ndtype\n(S'f4'\nI00\nI01\ntR(cos\nsystem\nS'x'\nNtb.",
    "extension": b"\x80\x02\x82\x01.",
    "persistent": b"Pos.system\n.",
    "many": b"\x80\x04" + b"(" * 100_000 + b".",
    "huge": b"\x80\x04\x8d" + struct.pack("<Q", 2**62) + b"x.",
}
"""Pickles that no pickler would write."""


def changed(content: Any, places: Sequence[Any], value: Any) -> Any:
    """A copy of mappings of mappings and lists with one value changed."""
    content = inner = copy.deepcopy(content)
    for place in places[:-1]:
        inner = inner.setdefault(place, {}) if isinstance(inner, dict) else inner[place]
    inner[places[-1]] = value
    return content


def altered_bundle(folder: Path, places: Sequence[str], value: Any) -> Path:
    """A bundle with one thing changed in its description; its checksums are right."""
    scores = toy_scores(90)
    system = build_system("L3").fit(scores.asv, scores.cm, scores.label)
    bundle = write_bundle(folder, system, scores, PRESETS["equal"], name="L3")
    content = changed(read_json(bundle / "bundle.json"), places, value)
    (bundle / "bundle.json").write_text(json.dumps(content))
    sums = {name: sha256(bundle / name) for name in ("fusion.safetensors", "bundle.json")}
    (bundle / "checksums.json").write_text(json.dumps(sums))
    return bundle


def pickles() -> dict[str, bytes]:
    """Pickles that would run code."""
    return {name: pickle.dumps(make()) for name, make in PICKLED.items()} | ASSEMBLED


def checkpoints() -> dict[str, Callable[[Path], object]]:
    """Makers of checkpoints that would run code, or are damaged."""

    def saved(content: Any, **options: Any) -> Callable[[Path], object]:
        return lambda path: torch.save(content, path, **options)

    def cut_off(path: Path) -> None:
        torch.save(weights, path)
        os.truncate(path, 500)

    weights = {"state_dict": {"x": torch.ones(2)}}
    return {
        "system": saved({"state_dict": _touch()}),
        "setting": saved(weights | {"hyper_parameters": {"lr": _evaluates()}}),
        "callback": saved(weights | {"callbacks": {"x": _chain()}}),
        "old format": saved({"state_dict": _touch()}, _use_new_zipfile_serialization=False),
        "bare pickle": lambda path: path.write_bytes(pickle.dumps(_touch())),
        "module": saved(torch.nn.Linear(2, 2)),
        "cut off": cut_off,
        "text": lambda path: path.write_text("x"),
        "settings of text": saved(weights | {"hyper_parameters": "x"}),
        "no dictionary": saved([torch.ones(2)]),
    }


def safetensors(header: Any, data: bytes = b"", length: int | None = None) -> bytes:
    """A safetensors file with any header."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def _entry(start: int, end: int, shape: list[int], dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


INFINITY = b"\0\0\x80\x7f"


def stores(meta: dict[str, str]) -> dict[str, bytes]:
    """Embedding stores with absurd headers; ``meta`` is what a good header says."""
    ids = _entry(0, 1, [1], "U8")
    head = {"__metadata__": meta, "ids": ids}
    return {
        "huge length": safetensors({}, length=2**63),
        "length beyond the file": safetensors({}, length=10_000),
        "no JSON": safetensors(b"{"),
        "nested JSON": safetensors(b"[" * 50_000),
        "a list": safetensors([1]),
        "no tensors": safetensors({"__metadata__": meta}),
        "offsets beyond the file": safetensors(head | {"vectors": _entry(1, 10**12, [1, 3])}, b"a"),
        "overlapping": safetensors(head | {"vectors": _entry(0, 12, [1, 3])}, b"a" * 12),
        "backwards": safetensors(head | {"vectors": _entry(12, 1, [1, 3])}, b"a" * 13),
        "huge shape": safetensors(head | {"vectors": _entry(1, 13, [2**62, 2**62])}, b"a" * 13),
        "negative shape": safetensors(head | {"vectors": _entry(1, 13, [-1, -3])}, b"a" * 13),
        "unknown type": safetensors(head | {"vectors": _entry(1, 13, [1, 3], "X9")}, b"a" * 13),
        "truth values": safetensors(head | {"vectors": _entry(1, 4, [3], "BOOL")}, b"a\0\1\0"),
        "ids of floats": safetensors(
            head | {"ids": _entry(0, 4, [1]), "vectors": _entry(4, 16, [1, 3])},
            b"\xff" * 4 + b"\0" * 12,
        ),
        "infinity": safetensors(head | {"vectors": _entry(1, 13, [1, 3])}, b"a" + INFINITY * 3),
        "metadata of numbers": safetensors({"__metadata__": {"format": 1}}),
    }


NAMES = {
    "traversal": "../../outside",
    "absolute": "/outside",
    "NUL": "a\0b",
    "long": "x" * 100_000,
    "script": "<script>alert(1)</script>",
    "option": "--out=outside",
    "formula": "=1+1",
    "home": "~/outside",
    "controls": "a\x1b[2Jb",
    "right to left": "a\u202eb",
    "link": "[a](javascript:alert(1))",
}
"""Names of speakers, utterances, attacks that a careless program would stumble over."""
