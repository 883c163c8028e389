"""Families of comparisons: adjusted p-values against their definitions, letters, verdicts."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from lightning_sasv.errors import InputError
from lightning_sasv.metrics.comparisons import (
    choose_reference,
    compare,
    letters_of,
    not_distinguishable,
)
from lightning_sasv.metrics.families import (
    ADJUSTMENTS,
    benjamini_hochberg,
    holm,
    letters,
    replicates_needed,
    speakers_needed,
)
from lightning_sasv.metrics.intervals import Resampled, is_clear

P_VALUES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


@given(P_VALUES)
def test_holm_is_the_closed_test_of_bonferroni(p: list[float]) -> None:
    """p adjusted: the largest Bonferroni p of all sets of hypotheses that hold this one."""
    sets = [s for size in range(1, len(p) + 1) for s in combinations(range(len(p)), size)]
    by_set = {s: len(s) * min(p[k] for k in s) for s in sets}
    wanted = [min(1.0, max(q for s, q in by_set.items() if k in s)) for k in range(len(p))]
    assert holm(p) == pytest.approx(wanted, abs=1e-12)


@given(P_VALUES)
def test_benjamini_hochberg_is_scipys(p: list[float]) -> None:
    assert benjamini_hochberg(p) == pytest.approx(stats.false_discovery_control(p), abs=1e-12)


@pytest.mark.parametrize(("adjust", "theirs"), [("holm", "holm"), ("bh", "fdr_bh")])
def test_adjusted_p_is_that_of_statsmodels(adjust: str, theirs: str) -> None:
    multipletests = pytest.importorskip("statsmodels.stats.multitest").multipletests
    rng = np.random.default_rng(3)
    for size in (1, 2, 10, 55, 275):
        p = rng.choice([rng.uniform(size=size) ** 3, np.round(rng.uniform(size=size), 1)])
        wanted = multipletests(p, method=theirs)[1]
        assert np.abs(ADJUSTMENTS[adjust](p) - wanted).max() < 1e-12


@given(P_VALUES, st.sampled_from(sorted(ADJUSTMENTS)))
def test_adjusted_is_at_least_raw_in_the_same_order_and_for_any_order(
    p: list[float], adjust: str
) -> None:
    adjusted = ADJUSTMENTS[adjust](p)
    assert (adjusted >= p).all()
    assert (adjusted <= 1).all()
    assert (np.diff(adjusted[np.argsort(p)]) >= 0).all()
    assert ADJUSTMENTS[adjust](p[::-1]).tolist() == adjusted[::-1].tolist()


@given(st.integers(1, 400), st.sampled_from([0.01, 0.05, 0.1]))
def test_replicates_that_let_holm_reject(m: int, alpha: float) -> None:
    n = replicates_needed(m, alpha)
    for replicates, possible in ((n, True), (n - 1, False)):
        p = [2 / (replicates + 1)] + [1.0] * (m - 1)
        assert is_clear(float(holm(p)[0]), alpha) == possible


def test_speakers_that_a_difference_needs() -> None:
    for m, alpha in ((1, 0.05), (10, 0.005)):
        z = stats.norm.isf(alpha / 2) + stats.norm.isf(0.2)
        assert speakers_needed(-0.2, 0.1, 48, m) == pytest.approx(48 * (z / 2) ** 2, rel=1e-12)
    assert speakers_needed(0.0, 0.1, 48) == math.inf


def test_formula_of_the_power_keeps_its_promise(rng: np.random.Generator) -> None:
    """With as many speakers as asked for, a normal difference is told apart in 4 of 5 cases."""
    wanted = speakers_needed(0.3, 1 / math.sqrt(48), 48)
    means = rng.normal(0.3, 1 / math.sqrt(wanted), 20_000)
    assert np.mean(means > 1.959964 / math.sqrt(wanted)) == pytest.approx(0.8, abs=0.01)


PAIRS = [frozenset(pair) for pair in combinations("ABCDEF", 2)]


@given(st.integers(1, 6), st.sets(st.sampled_from(PAIRS)))
def test_letters_are_shared_exactly_by_those_not_told_apart(
    number: int, apart: set[frozenset[str]]
) -> None:
    names = "ABCDEF"[:number]
    found = letters(names, apart)
    for one, other in combinations(names, 2):
        assert bool(set(found[one]) & set(found[other])) == (frozenset((one, other)) not in apart)
    used = set("".join(found.values()))
    groups = {letter: {name for name in names if letter in found[name]} for letter in used}
    assert not any(a < b for a in groups.values() for b in groups.values()), "none is superfluous"
    assert found[names[0]][0] == "a"


def drawn(value: float, noise: np.ndarray, speakers: int | None = 48) -> Resampled:
    left_out = None if speakers is None else value + np.linspace(-0.001, 0.002, speakers)
    return Resampled(value, value + noise, left_out)


@pytest.fixture
def noises(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.normal(0, 0.002, 999) for _ in range(3)]


def test_verdicts_in_words(noises: list[np.ndarray]) -> None:
    values = {"A": 0.010, "B": 0.0105, "C": 0.03}
    systems = {name: [drawn(x, e)] for (name, x), e in zip(values.items(), noises, strict=True)}
    near, far = compare("sasv_eer", systems, "A")
    assert near.verdict.startswith("B and A cannot be told apart on 48 speakers (difference 0.05, ")
    assert near.verdict.endswith("speakers would be needed")
    assert far.verdict.startswith("A is lower than C by 2.00 points (95 %: 1.")
    assert "; 48 speakers; p = 0.004, Holm of 2)" in far.verdict
    assert (far.difference, far.p) == (pytest.approx(0.02), 0.002)
    assert (far.family, far.method, far.drawn) == ("2 against A, holm", "percentile", ("speaker",))
    assert [one.apart for one in (near, far)] == [False, True]
    assert not_distinguishable([near, far], "A") == ["B"]
    pairs = compare("sasv_eer", systems)
    assert letters_of(pairs, ["A", "B", "C"]) == {"A": "a", "B": "a", "C": "b"}
    assert pairs[0].family == "3 pairs, holm"


def test_draws_of_trials_give_no_verdict_on_other_speakers(noises: list[np.ndarray]) -> None:
    systems = {"A": [drawn(0.01, noises[0], None)], "C": [drawn(0.03, noises[2], None)]}
    (found,) = compare("sasv_eer", systems, drawn=("trial",))
    assert "clear on these trials; speakers are not known to these draws" in found.verdict
    assert not found.apart
    (alike,) = compare("sasv_eer", {"A": systems["A"], "B": systems["A"]}, drawn=("trial",))
    assert alike.verdict == "A and B are equal"
    few = {name: [drawn(one[0].value, one[0].replicates, 9)] for name, one in systems.items()}
    (none,) = compare("sasv_eer", few)
    assert none.verdict == "A and C: no verdict, 9 speakers are too few"
    assert not none.apart
    assert math.isnan(none.low)


def test_seeds_that_agree_where_the_speakers_do_not(noises: list[np.ndarray]) -> None:
    base = [0.0156, 0.0158, 0.0157, 0.0155, 0.0158, 0.0157]
    ours = [drawn(x + 0.0009 + 0.00001 * k, noises[0]) for k, x in enumerate(base)]
    theirs = [drawn(x, noises[1]) for x in base]
    (found,) = compare("sasv_eer", {"L3c": ours, "L3t": theirs}, "L3t")
    assert found.verdict.startswith("all 6 seeds agree, the speakers do not: L3c and L3t cannot")
    assert found.difference == pytest.approx(0.000925)


def test_order_of_the_systems_does_not_matter(noises: list[np.ndarray]) -> None:
    systems = {n: [drawn(0.01 * k, e)] for k, (n, e) in enumerate(zip("ABC", noises, strict=True))}
    back = dict(reversed(systems.items()))
    facts = {(one.first, one.second): one for one in compare("cllr", systems)}
    for one in compare("cllr", back):
        other = facts[one.second, one.first]
        assert one.difference == -other.difference
        assert (one.low, one.high) == (-other.high, -other.low)
        assert (one.p, one.p_adjusted) == (other.p, other.p_adjusted)


def test_reference_is_given_or_best_on_dev_or_best_here_with_all_pairs() -> None:
    here = {"A": math.nan, "B": 0.2, "C": 0.1}
    assert choose_reference("ABC", "B", None, here) == ("B", False)
    assert choose_reference("ABC", None, {"A": 0.3, "B": 0.1, "C": 0.2}, here) == ("B", False)
    assert choose_reference("ABC", None, None, here) == ("C", True)
    with pytest.raises(InputError, match="--reference: no system 'D'; there are A, B, C"):
        choose_reference("ABC", "D", None, here)


def test_fields_are_those_of_results_files() -> None:
    one = Resampled(0.0, np.zeros(39))
    (found,) = compare("sasv_eer", {"A": [one], "B": [one]}, "A")
    assert list(found.as_dict()) == [
        *("metric", "first", "second", "difference", "low", "high", "p", "p_adjusted"),
        *("family", "method", "drawn", "verdict"),
    ]
