"""The restricted unpickler: real pickles come through, code does not run."""

from __future__ import annotations

import os
import pickle
import pickletools
import tracemalloc
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.pickles import load_pickle
from lightning_sasv.errors import InputError

KINDS = {"asv_embd_dev": (146, 192), "cm_embd_eval": (240, 160), "spk_model_dev": (4, 192)}


@pytest.mark.parametrize("kind", KINDS)
def test_real_pickles(shared: Path, kind: str) -> None:
    path = shared / "data/mini_la_embeddings" / f"{kind}.pk"
    store = EmbeddingStore.from_pickle(path)
    expected = pickle.loads(path.read_bytes())
    assert (len(store), store.dim) == KINDS[kind]
    for name in list(expected)[:5]:
        np.testing.assert_array_equal(store.select([name])[0], expected[name].reshape(-1))


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", ["<f4", ">f4", "<f8", "<f2"])
def test_every_protocol_and_float(tmp_path: Path, protocol: int, dtype: str) -> None:
    value = OrderedDict(a=np.arange(6, dtype=dtype).reshape(2, 3), b=[1, "x", (2.0, None)])
    path = tmp_path / "p.pk"
    path.write_bytes(pickle.dumps(value, protocol=protocol))
    loaded = load_pickle(path)
    np.testing.assert_array_equal(loaded["a"], value["a"])
    assert loaded["b"] == value["b"]
    assert loaded["a"].dtype.newbyteorder("=") == np.dtype(dtype).newbyteorder("=")


class _Runs:
    """Unpickles into a call of ``function``."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def _setattr_on_admitted() -> bytes:
    """Tries to alter what the unpickler itself uses (BUILD with a slot state)."""
    return b"cnumpy\ndtype\n(N(S'__call__'\nI0\ndtb."


@pytest.mark.parametrize(
    "content",
    [
        lambda flag: pickle.dumps(_Runs(os.system, f"touch {flag}")),
        lambda flag: pickle.dumps(_Runs(eval, f"open({str(flag)!r}, 'w')")),
        lambda flag: pickle.dumps({"U1": _Runs(open, str(flag), "w")}),
        lambda flag: pickle.dumps(np.array([_Runs(open, str(flag), "w")], dtype=object)),
        lambda flag: b"cbuiltins\ngetattr\n(cnumpy\nndarray\nS'__class__'\ntR.",
        lambda flag: b"cnumpy\nndarray\n((I1\ntS'O'\ntR.",
        lambda flag: pickle.dumps(np.ma.masked_array([1.0])),
        lambda flag: pickle.dumps(np.array(["text"])),
        lambda flag: _setattr_on_admitted(),
        lambda flag: b"Pan id\n.",
        lambda flag: b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
    ],
    ids=[
        "os.system",
        "eval",
        "nested",
        "object-array",
        "getattr",
        "ndarray-call",
        "subclass",
        "strings",
        "setattr",
        "persistent",
        "codec",
    ],
)
def test_hostile_pickles_are_refused(tmp_path: Path, content: Any) -> None:
    flag = tmp_path / "flag"
    path = tmp_path / "hostile.pk"
    path.write_bytes(content(flag))
    pickletools.genops(path.read_bytes())
    with pytest.raises(InputError, match=r"hostile\.pk"):
        load_pickle(path)
    assert not flag.exists()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize(
    ("part", "instead"),
    [
        (b"NNN", b"N"),  # a state of the type with which numpy itself crashes
        (b"NNN", b"NN]"),
        (b"<", b"X"),
        (b"f4", b"O8"),
        (b"f4", b"S4"),
    ],
)
def test_damaged_types_and_arrays_are_refused(
    tmp_path: Path, protocol: int, part: bytes, instead: bytes
) -> None:
    content = pickle.dumps({"U1": np.ones((2, 3), np.float32)}, protocol)
    path = tmp_path / "damaged.pk"
    path.write_bytes(content.replace(part, instead))
    assert content.count(part) == 1
    with pytest.raises(InputError, match=r"refused|damaged"):
        load_pickle(path)


def test_arrays_of_any_order_and_byte_order(tmp_path: Path) -> None:
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    value = {"F": np.asfortranarray(grid), ">": grid.astype(">f8"), "0": np.float32(0.5)}
    value["nested"] = [(grid, {"x": grid[0]})]
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        (tmp_path / "file.pk").write_bytes(pickle.dumps(value, protocol))
        found = load_pickle(tmp_path / "file.pk")
        assert np.array_equal(found["F"], grid)
        assert np.array_equal(found[">"], grid)
        assert found["0"] == np.float32(0.5)
        assert np.array_equal(found["nested"][0][0], grid)
        assert found["nested"][0][1]["x"].shape == (3,)
        assert found["F"].flags.writeable


def _refused_types() -> list[bytes]:
    whole = pickle.dumps(np.ones(3, np.float32), 2)
    calls = [place or 0 for code, _, place in pickletools.genops(whole) if code.name == "REDUCE"]
    types = [b"\x80\x02cnumpy\nndarray\n.", b"\x80\x02cnumpy\ndtype\n."]
    return [*types, *(whole[: call + 1] + b"." for call in calls[1:3])]


@pytest.mark.parametrize("content", _refused_types())
def test_types_and_arrays_without_content_are_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "file.pk").write_bytes(content)
    with pytest.raises(InputError, match=r"refused|damaged"):
        load_pickle(tmp_path / "file.pk")


@pytest.mark.parametrize("content", [b"", b"\x80\x05", b"hello", b"\x80\x04\x95\xff\xff"])
def test_damaged_pickles(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "damaged.pk"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"damaged\.pk"):
        load_pickle(path)
    with pytest.raises(InputError, match="no pickle at"):
        load_pickle(tmp_path / "absent.pk")


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ([1, 2], "dictionary"),
        ({}, "no embeddings"),
        ({"U1": "text"}, "'U1' is not an array of floats"),
        ({1: np.zeros(3)}, "1 is not an array"),
        ({"U1": np.zeros(3), "U2": np.zeros(4)}, "embedding of U2 has 4 dimensions"),
        ({"U1": np.zeros(3), "U2": np.array([0, np.nan, 0])}, "NaN or infinity, first: U2"),
    ],
)
def test_pickles_that_are_not_embeddings(tmp_path: Path, value: object, words: str) -> None:
    path = tmp_path / "odd.pk"
    path.write_bytes(pickle.dumps(value))
    with pytest.raises(InputError, match=words) as caught:
        EmbeddingStore.from_pickle(path)
    assert "odd.pk" in str(caught.value)


def test_a_small_file_takes_little_memory(tmp_path: Path) -> None:
    (tmp_path / "file.pk").write_bytes(b"\x80\x02Nr\xff\xff\xff\x00.")  # number 16,777,215
    tracemalloc.start()
    assert load_pickle(tmp_path / "file.pk") is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1e6
