"""The embedding store: round trip, lookup, damage."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.errors import InputError


@pytest.fixture
def store() -> EmbeddingStore:
    vectors = torch.randn(30, 8, generator=torch.Generator().manual_seed(0))
    return EmbeddingStore([f"U{n}" for n in range(30)], vectors, "test store")


def test_round_trip(store: EmbeddingStore, tmp_path: Path) -> None:
    path = store.save(tmp_path / "deep" / "e.safetensors")
    loaded = EmbeddingStore.load(path)
    assert loaded.ids == store.ids
    assert torch.equal(loaded.vectors, store.vectors)
    assert loaded.vectors.dtype == torch.float32
    again = EmbeddingStore.from_pickle(store.to_pickle(tmp_path / "e.pk"))
    assert again.ids == store.ids
    assert torch.equal(again.vectors, store.vectors)
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["deep", "e.pk", "e.safetensors"]


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs Linux's /proc")
def test_loaded_vectors_are_memory_mapped(tmp_path: Path) -> None:
    path = EmbeddingStore(["a"], torch.ones(1, 100_000)).save(tmp_path / "mapped.safetensors")
    loaded = EmbeddingStore.load(path)
    maps = Path("/proc/self/maps").read_text().splitlines()
    ranges = [line.split()[0].split("-") for line in maps if line.endswith("mapped.safetensors")]
    address = loaded.vectors.data_ptr()
    assert any(int(low, 16) <= address < int(high, 16) for low, high in ranges)


def test_selection_and_missing_ids(store: EmbeddingStore) -> None:
    assert torch.equal(store.select(["U7", "U0", "U7"]), store.vectors[[7, 0, 7]])
    assert "U7" in store
    assert "V7" not in store
    wanted = ["U1", *[f"V{n:02d}" for n in range(12)], "V00"]
    with pytest.raises(InputError) as caught:
        store.rows(wanted)
    message = str(caught.value)
    assert "test store: no embedding for 12 id(s)" in message
    assert "V00, V01, V02, V03, V04, V05, V06, V07, V08, V09;" in message
    assert "V10" not in message


def test_wrong_input(store: EmbeddingStore) -> None:
    with pytest.raises(InputError, match="8 dimensions where 160 were expected"):
        store.require_dim(160)
    with pytest.raises(InputError, match="1 ids stand more than once"):
        EmbeddingStore(["a", "a"], torch.zeros(2, 3))
    with pytest.raises(InputError, match="do not fit"):
        EmbeddingStore(["a"], torch.zeros(2, 3))
    bad = torch.zeros(3, 4)
    bad[1, 2] = float("inf")
    with pytest.raises(InputError, match=r"1 embedding\(s\) hold NaN or infinity, first: b"):
        EmbeddingStore(["a", "b", "c"], bad)


@pytest.mark.parametrize("keep", [0, 4, 100, -1])
def test_truncated_absent_and_other_files(store: EmbeddingStore, tmp_path: Path, keep: int) -> None:
    path = store.save(tmp_path / "cut.safetensors")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(InputError, match=r"cut\.safetensors is damaged"):
        EmbeddingStore.load(path)
    with pytest.raises(InputError, match="no embeddings at"):
        EmbeddingStore.load(tmp_path / "absent.safetensors")
    save_file({"x": torch.zeros(2)}, tmp_path / "other.safetensors")
    with pytest.raises(InputError, match="not an embedding store"):
        EmbeddingStore.load(tmp_path / "other.safetensors")


def test_failed_write_leaves_the_old_file(
    store: EmbeddingStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = store.save(tmp_path / "e.safetensors")
    before = path.read_bytes()

    def full_disk(_: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full_disk)
    other = EmbeddingStore(["a"], torch.zeros(1, 8))
    with pytest.raises(InputError, match="No space left"):
        other.save(path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
