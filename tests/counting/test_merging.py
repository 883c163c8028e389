"""Merging is addition of whole numbers: any order, any split, any shards give the same bytes."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from lightning_sasv.counting import Counts, column
from lightning_sasv.counting.file import FORMAT
from lightning_sasv.counting.replicates import _Product
from lightning_sasv.counting.state import Source, merged
from lightning_sasv.counting.sums import UNIT
from lightning_sasv.counting.views import by_group
from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import Settings, explained
from tests.counting.cases import COLUMNS, count, examples, trials


def digest(state: Counts, folder: Path) -> str:
    return sha256(state.save(folder / "x.counts.safetensors"))


def part(case: dict[str, np.ndarray], chosen: Any) -> dict[str, np.ndarray]:
    return {name: values[chosen] for name, values in case.items()}


@given(case=trials(infinite=True), data=st.data())
@examples(20)
def test_shards_in_any_order_and_shape(
    case: dict[str, np.ndarray], data: st.DataObject, tmp_path: Path
) -> None:
    n = case["labels"].size
    shards = np.array(data.draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)))
    states = [count(part(case, shards == k)) for k in range(4)]  # some may be empty
    whole = digest(count(case), tmp_path)
    order = data.draw(st.permutations(range(4)))
    chain = Counts(COLUMNS)
    for k in order:
        chain = chain + states[k]
    a, b, c, d = (states[k] for k in order)
    tree = (a + b) + (c + d)
    shuffled = count(part(case, data.draw(st.permutations(range(n)))))
    for state in (
        chain,
        tree,
        shuffled,
        merged(states),
        Counts.load(tmp_path / "x.counts.safetensors"),
    ):
        assert digest(state, tmp_path) == whole


@given(case=trials(), bits=st.integers(0, 4))
@examples(30)
def test_coarsened_then_merged_is_merged_then_coarsened(
    case: dict[str, np.ndarray], bits: int, tmp_path: Path
) -> None:
    half = np.arange(case["labels"].size) % 2 == 0
    fine, coarse = count(part(case, half), bits + 2), count(part(case, ~half), bits)
    assert digest(fine + coarse, tmp_path) == digest(count(case, bits), tmp_path)


def test_names_of_any_kind_are_the_same_state(tmp_path: Path) -> None:
    names, labels, scores = ["b", "a", "b", "-"], np.array([1, 0, 2, 1], np.int8), np.arange(4.0)
    kinds = [names, np.array(names), np.array(names, object), pl.Series(names)]
    kinds += [pl.Series(names, dtype=pl.Enum(["c", "-", "b", "a"]))]
    kinds += [pl.Series(names, dtype=pl.Categorical), pl.Series(["b", "a", "b", None])]
    found = set()
    for kind in kinds:
        state = Counts()
        state.add(labels, kind, kind, sasv=scores)
        found.add(digest(state, tmp_path))
    assert len(found) == 1
    with pytest.raises(InputError, match=r"clusters have shape \(3,\); there are 4 labels"):
        Counts().add(labels, names[:3], sasv=scores)
    with pytest.raises(InputError, match=r"attacks have shape \(2, 2\); there are 4 labels"):
        Counts().add(labels, names, np.array(names).reshape(2, 2), sasv=scores)


def test_losses_are_whole_numbers_of_any_size() -> None:
    scores = np.array([-1e300, -3e18, -3e13, -3e6, -2e5, -0.5, 0.0, 1e-9, 700.0])
    state = Counts()
    state.add(np.ones(scores.size, np.int8), sasv=scores)
    own = state.columns["sasv"]
    plain = [math.log1p(math.exp(-abs(s))) + max(-s, 0.0) for s in scores.tolist()]
    total = sum(Fraction(loss) for loss in plain)
    assert abs(Fraction(own.sums.losses(1)[0], UNIT) - total) <= Fraction(scores.size, 2 * UNIT)
    again = Counts()
    for score in scores[::-1]:
        again.add(np.ones(1, np.int8), sasv=[score])
    assert again.columns["sasv"].sums.losses(1) == own.sums.losses(1)


def test_limbs_that_are_full_go_to_larger_numbers() -> None:
    scores = -np.full(1 << 16, 3e13)
    state = Counts()
    for _ in range(3):
        state.add(np.ones(scores.size, np.int8), sasv=scores)
    assert state.columns["sasv"].sums.losses(1)[0] == 3 * scores.size * 30_000_000_000_000 * UNIT


def test_cells_beyond_32_bits_are_widened() -> None:
    state = count({**_some(), "labels": np.array([0, 1, 2], np.int8)})
    column = state.columns["sasv"]
    column.counts(3)
    column._trials = np.iinfo(np.int32).max
    column._counts[column._counts > 0] = np.iinfo(np.int32).max
    state.add(["spoof"], ["a"], ["A1"], asv=[1.0], cm=[1.0], sasv=[1.0])
    assert column.counts(len(state.rows)).max() == np.iinfo(np.int32).max + 1


def test_more_trials_than_products_of_64_bits_hold(tmp_path: Path) -> None:
    """Each trial 3·10⁹ times: values stay what they are, kept and merged."""
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 3, 400).astype(np.int8)
    scores = np.round(rng.normal(size=400) + 1.5 * (labels == 1), 1)
    names = ["sasv_eer", "sv_eer", "min_a_dcf", "cllr_min"]
    many = 3_000_000_000
    for convention in ("interpolated", "max", "rocch", "asvspoof"):
        own = Settings(convention=convention)  # type: ignore[arg-type]
        state = Counts()
        state.add(labels, rng.choice(["a", "b"], 400), sasv=scores)
        wanted, table = state.metrics(own, names), state.columns["sasv"]
        table._counts = table.counts(len(state.rows)).astype(np.int64) * many
        table._fine, table._trials = table.fine * many, 400 * many
        again = Counts.load(state.save(tmp_path / "x.counts.safetensors"))
        both = again + Counts.load(tmp_path / "x.counts.safetensors")
        assert sum(both.trials.values()) == 800 * many
        found = both.metrics(own, names)
        for name in names if convention != "asvspoof" else names[2:]:  # which is to a trial
            assert found[name][:3] == pytest.approx(wanted[name][:3], abs=1e-9), name
        for name, one in both.bootstrap(names, "speaker", 39, settings=own).items():
            assert found[name].low - 1e-9 <= one.value <= found[name].high + 1e-9, name


def test_products_of_large_counts_are_exact() -> None:
    state = count({**_some(), "labels": np.array([0, 1, 2], np.int8)})
    column = state.columns["sasv"]
    column.counts(3)
    for most in (2**22, 2**24 - 1, 2**24 + 1, 2**30 + 1):
        column._counts[column._counts > 0] = most
        block = _Product(column, state.codes, state.order).block(np.full((1, 3), 3, np.int64))
        assert set(np.unique(block.view(0).counts)) <= {0, 3 * most}


def _some() -> dict[str, np.ndarray]:
    columns = {name: np.array([1.0, 2.0, 3.0]) for name in COLUMNS}
    return columns | {"clusters": np.array(["a"] * 3), "attacks": np.array(["A1", "-", "-"])}


def test_what_cannot_be_merged() -> None:
    one, other = Counts(), Counts(("cm",))
    with pytest.raises(InputError, match=r"different columns .*\['sasv'\] and \['cm'\]"):
        one.merge(other)
    source = Source("shard_1.csv", 3, 120, 7)
    one.add(["target"], sasv=[1.0], source=source)
    twice = Counts()
    twice.add(["target"], sasv=[1.0], source=source)
    with pytest.raises(InputError, match=r"shard_1\.csv is in both states"):
        one.merge(twice)
    copied = Counts()  # the same trials in a file of another name
    copied.add(["target"], sasv=[1.0], source=source._replace(name="copy.parquet", size=99))
    with pytest.raises(InputError, match=r"copy\.parquet is in both states"):
        one.merge(copied)


def test_edges_of_ones_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    labels = rng.integers(0, 3, 900).astype(np.int8)
    scores = 1000 + rng.normal(size=900) + 2 * (labels == 1)
    edges = np.quantile(scores[::9], np.linspace(0, 1, 40))
    names = ["sasv_eer", "min_a_dcf", "cllr_min", "cllr"]
    truth = explained(names, Classes({"sasv": scores}, labels), Settings()).values
    states = []
    for rows in (slice(0, 500), slice(500, None), slice(None)):
        states.append(Counts(edges=edges))
        states[-1].add(labels[rows], [f"s{k}" for k in labels[rows]], sasv=scores[rows])
    assert digest(states[0] + states[1], tmp_path) == digest(states[2], tmp_path)
    whole = Counts.load(tmp_path / "x.counts.safetensors")
    assert whole.columns["sasv"].edges == tuple(edges)
    exact = whole.refine([{"labels": labels, "sasv": scores}])
    for name, one in whole.metrics(names=names).items():
        assert one.low - 1e-12 <= truth[name] <= one.high + 1e-12, name
        assert exact[name].value == pytest.approx(truth[name], abs=1e-12), name
    for other in (Counts(edges=edges[1:]), Counts()):
        other.add(["target"], sasv=[1.0])
        for pair in ((whole, other), (other, whole)):
            with pytest.raises(InputError, match="different edges of sasv cannot be merged"):
                pair[0].merge(pair[1])
    with pytest.raises(InputError, match="finite and strictly ascending"):
        Counts(edges=[1.0, 0.0])


def test_cuts_of_one_state_alone_become_bounds() -> None:
    trials_ = ["target", "nontarget", "spoof"], [3.0, 1.0, 0.5]
    one, other = Counts(costs=["a-dcf1", "equal"]), Counts(costs="equal")
    for state in (one, other):
        state.add(trials_[0], sasv=trials_[1])
    assert one.metrics()["act_a_dcf"].exact
    both = one + other
    assert len(both.columns["sasv"].cuts) == 1
    found = both.metrics()["act_a_dcf"]
    exact = one.metrics()["act_a_dcf"].value
    assert found.low - 1e-12 <= exact <= found.high + 1e-12


def _saved(folder: Path) -> Path:
    state = count({**_some(), "labels": np.array([0, 1, 2], np.int8)})
    return state.save(folder / "a.counts.safetensors")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h: h.replace(FORMAT, "other/1"), "holds no counts of this version"),
        (lambda h: h.replace('"bits": 7', '"bits": 99'), "no grid of 99 bits"),
        (lambda h: h.replace('["a", 0, "A1"]', '["a", 9, "A1"]'), "no class of trials"),
        (
            lambda h: h.replace('["a", 0, "A1"]', '["a", 1, "-"]'),
            "a row is there twice",
        ),
        (lambda h: h.replace('["a", 1, "-"]', '["a", 1, "A1"]'), "no class of trials"),
        (lambda h: h.replace('["a", 1, "-"]', '["b", 2, "-"]'), "rows and classes do not have"),
        (lambda h: h.replace('"target": 1', '"target": 5'), "but says"),
        (lambda h: h[:-9], "damaged|JSON"),
    ],
)
def test_headers_that_lie(tmp_path: Path, change: Any, message: str) -> None:
    path = _saved(tmp_path)
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as opened:
        header = opened.metadata()["counts"]
    assert change(header) != header
    save_file(load_file(path), path, {"counts": change(header)})
    with pytest.raises(InputError, match=message):
        Counts.load(path)


def test_arrays_that_lie(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as opened:
        header = opened.metadata()
    sound = load_file(path)
    for name, value in sound.items():
        for wrong in (value[:-1], value.astype(np.float32), np.append(value, value)):
            save_file({**sound, name: np.ascontiguousarray(wrong)}, path, header)
            if value.size or wrong.dtype != value.dtype:
                with pytest.raises(InputError, match="damaged"):
                    Counts.load(path)
    far = np.full_like(sound["sasv.counts.cells"], 2**32 - 1)
    save_file({**sound, "sasv.counts.cells": far}, path, header)
    with pytest.raises(InputError, match="cells beyond the grid"):
        Counts.load(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    path = _saved(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(InputError, match=r"a\.counts\.safetensors is damaged"):
        Counts.load(path)
    with pytest.raises(InputError, match="no counts at"):
        Counts.load(tmp_path / "none.counts.safetensors")
    with pytest.raises(InputError, match=r"is called NAME\.counts\.safetensors"):
        Counts().save(tmp_path / "a.csv")


@pytest.mark.parametrize("most", [0, 40])
def test_large_tables_are_sparse_and_the_same(
    most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the first trial on, or after a table has become too large."""
    rng = np.random.default_rng(9)
    labels = rng.integers(0, 3, 3000).astype(np.int8)
    case = {name: rng.normal(size=3000) + 2 * (labels == 1) for name in COLUMNS}
    case |= {"labels": labels, "clusters": rng.choice([f"s{k}" for k in range(30)], 3000)}
    case |= {"attacks": np.where(labels == 0, rng.choice(["A1", "A2"], 3000), "-")}
    parts = [part(case, np.arange(3000) % 3 == k) for k in range(3)]
    names = ["sasv_eer", "min_a_dcf", "cllr_min", "t_eer"]
    plain, table = digest(count(case), tmp_path), count(case).columns["sasv"].counts(9)
    drawn = count(case).bootstrap(names, "speaker-attack", 39)
    monkeypatch.setattr(column, "MOST_CELLS", most)
    monkeypatch.setattr(column, "_LATER", 1)
    whole = count(case)
    sparse = whole.columns["sasv"].counts(9)
    assert isinstance(table, np.ndarray)
    assert not isinstance(sparse, np.ndarray)
    assert digest(whole, tmp_path) == plain
    shards = merged([count(one, bits) for one, bits in zip(parts, (7, 9, 8), strict=True)])
    assert digest(shards, tmp_path) == plain
    again = Counts.load(tmp_path / "x.counts.safetensors")
    assert digest(again + Counts(COLUMNS), tmp_path) == plain
    for name, one in again.bootstrap(names, "speaker-attack", 39).items():
        np.testing.assert_array_equal(one.low_bounds, drawn[name].low_bounds)
        np.testing.assert_array_equal(one.replicates, drawn[name].replicates)
    assert by_group(again, "attack", Settings()) == by_group(count(case), "attack", Settings())


def test_a_state_that_is_interrupted_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: Any, path: Path, __: Any) -> None:
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    def full(_: Any, path: Path, __: Any) -> None:
        path.write_bytes(b"half")
        raise SafetensorError("No space left on device")

    for fails, error in ((interrupted, KeyboardInterrupt), (full, InputError)):
        monkeypatch.setattr("safetensors.numpy.save_file", fails)
        with pytest.raises(error):
            _saved(tmp_path)
        assert not list(tmp_path.iterdir())
