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


class _Runs:
    """Unpickles into a call of ``function``."""

    def __init__(self, function: Any, *args: Any) -> None:
        self.call = (function, args)

    def __reduce__(self) -> Any:
        return self.call


def _arrays_without_content() -> list[bytes]:
    whole = pickle.dumps(np.ones(3, np.float32), 2)
    calls = [place or 0 for code, _, place in pickletools.genops(whole) if code.name == "REDUCE"]
    return [whole[: call + 1] + b"." for call in calls[1:3]]


HOSTILE = {
    "os.system": lambda flag: pickle.dumps(_Runs(os.system, f"touch {flag}")),
    "eval": lambda flag: pickle.dumps(_Runs(eval, f"open({str(flag)!r}, 'w')")),
    "nested": lambda flag: pickle.dumps({"U1": _Runs(open, str(flag), "w")}),
    "object-array": lambda flag: pickle.dumps(np.array([_Runs(open, str(flag), "w")], object)),
    "getattr": b"cbuiltins\ngetattr\n(cnumpy\nndarray\nS'__class__'\ntR.",
    "ndarray-call": b"cnumpy\nndarray\n((I1\ntS'O'\ntR.",
    "subclass": pickle.dumps(np.ma.masked_array([1.0])),
    "strings": pickle.dumps(np.array(["text"])),
    # tries to alter what the unpickler itself uses (BUILD with a slot state)
    "setattr": b"cnumpy\ndtype\n(N(S'__call__'\nI0\ndtb.",
    "persistent": b"Pan id\n.",
    "codec": b"c_codecs\nencode\n(S'x'\nS'rot13'\ntR.",
    "array type": b"\x80\x02cnumpy\nndarray\n.",
    "number type": b"\x80\x02cnumpy\ndtype\n.",
    **{f"without content {n}": content for n, content in enumerate(_arrays_without_content())},
    "empty": b"",
    "cut": b"\x80\x05",
    "text": b"hello",
    "cut frame": b"\x80\x04\x95\xff\xff",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_and_damaged_pickles_are_refused(tmp_path: Path, kind: str) -> None:
    flag, path, content = tmp_path / "flag", tmp_path / "hostile.pk", HOSTILE[kind]
    path.write_bytes(content if isinstance(content, bytes) else content(flag))
    with pytest.raises(InputError, match=r"hostile\.pk.*(refused|damaged)"):
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


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_every_protocol_float_order_and_byte_order(tmp_path: Path, protocol: int) -> None:
    grid = np.arange(6, dtype=np.float32).reshape(2, 3)
    kinds = {kind: grid.astype(kind) for kind in ("<f4", ">f4", "<f8", ">f8", "<f2")}
    value = OrderedDict(kinds | {"F": np.asfortranarray(grid)})
    value |= {"0": np.float32(0.5), "x": [1, "x", (2.0, None)], "nested": [(grid, {"x": grid[0]})]}
    (tmp_path / "file.pk").write_bytes(pickle.dumps(value, protocol))
    found = load_pickle(tmp_path / "file.pk")
    for name in (*kinds, "F", "0"):
        np.testing.assert_array_equal(found[name], value[name])
        assert found[name].dtype.newbyteorder("=") == value[name].dtype.newbyteorder("=")
    assert found["x"] == value["x"]
    assert np.array_equal(found["nested"][0][0], grid)
    assert found["nested"][0][1]["x"].shape == (3,)
    assert found["F"].flags.writeable


def test_an_absent_pickle(tmp_path: Path) -> None:
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
