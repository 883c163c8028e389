"""Tandem EER against a cell-by-cell solution, a full search, and its invariances."""

from __future__ import annotations

import math
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightning_sasv import checks
from lightning_sasv.metrics.functional import concurrent, eer, t_eer, t_eer_path, tandem
from tests.metrics.oracles import concurrent_values, tandem_polylines, trials

Trials = tuple[np.ndarray, np.ndarray, np.ndarray]


def full_search(asv: np.ndarray, cm: np.ndarray, labels: np.ndarray, rho: float) -> list[dict]:
    """Every pair of thresholds: for each ASV threshold the CM threshold that balances best."""
    first, second = tandem_polylines(asv, cm, labels)
    path = []
    for a, (miss_asv, fa_non, fa_spf) in enumerate(first):
        if miss_asv >= (1 - rho) * fa_non + rho * fa_spf - 1e-12:  # equal but for rounding
            continue
        passed = 1 - second[:, 0]
        miss = 1 - passed + passed * miss_asv
        fa = (1 - rho) * passed * fa_non + rho * second[:, 1] * fa_spf
        balance = np.abs(miss - fa)
        c = int(np.argmax(balance <= balance.min() + 1e-12))  # the first of equals
        with np.errstate(divide="ignore", invalid="ignore"):
            gap = abs(np.divide(fa_non, fa_spf) - np.divide(second[c, 1], passed[c]))
        rates = miss[c], passed[c] * fa_non, second[c, 1] * fa_spf
        path.append(
            {"asv": a, "cm": c, "mean": (miss[c] + fa[c]) / 2, "value": rates[2]}
            | {"gap": math.inf if math.isnan(gap) else gap, "residual": np.ptp(rates)}
        )
    return path


_ON_A_STEP = (  # the end of the path and a step of the CM fall together but for rounding
    np.array([0.5, -0.5, 0.0, 0.5, 0.5, -0.5, 0.5, 0.5, -0.5, -0.5, 0.0, 0.0]),
    np.array([-0.4, -0.1, -0.2, 0.8, 2.4, 1.0, 0.2, -2.3, 2.1, -0.6, 0.0, 0.5]),
    np.array([2, 1, 2, 0, 1, 2, 0, 0, 2, 0, 1, 0]),
)


@given(trials(max_per_class=4))
@example(_ON_A_STEP)
@settings(max_examples=120)
def test_concurrent_point_solves_the_cells(case: Trials) -> None:
    found, possible = t_eer(*case), concurrent_values(*case)
    assert found.exists == bool(possible), (found, possible)
    if possible:
        assert min(abs(found.value - value) for value in possible) < 1e-9
        assert found.closest == found.value
    else:
        assert math.isnan(found.value)
        assert math.isfinite(found.closest)


@pytest.mark.parametrize("blocks", [1, 2])
@given(trials(max_per_class=8))
def test_blocks_that_are_not_looked_into_hold_no_point(blocks: int, case: Trials) -> None:
    everything = t_eer(*case)
    with mock.patch.object(concurrent, "_BLOCKS", blocks):
        coarse = t_eer(*case)
    assert coarse == pytest.approx(everything, abs=1e-12, nan_ok=True)


RATES = st.fractions(0, 1, max_denominator=40)


@given(RATES, RATES, st.fractions(0, 1, max_denominator=12))
@settings(max_examples=500)
def test_rounding_puts_no_threshold_before_the_path(
    nontarget: Fraction, spoof: Fraction, rho: Fraction
) -> None:
    balanced = ((1 - rho) * nontarget + rho * spoof, nontarget, spoof)  # with a CM that accepts all
    rows = [(0, 1, 1), balanced, (1, 0, 0)]
    asv = [np.array([float(x) for x in column]) for column in zip(*rows, strict=True)]
    cm = np.array([0.0, 1.0]), np.array([1.0, 0.0])
    points = tandem.path_points(tandem.TandemCurves(*asv, *cm), float(rho))
    assert (points.miss[0] < points.fa[0]).all()
    assert (points.miss[1] >= points.fa[1]).all()


@given(trials(), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
def test_path_is_that_of_the_full_search(case: Trials, rho: float) -> None:
    expected = full_search(*case, rho)
    path = t_eer_path(*case, rho, rule="reference")
    for name, scores, found in zip(("asv", "cm"), case, path[1:], strict=False):
        thresholds = np.concatenate([[-math.inf], np.unique(scores)])
        assert found.tolist() == [thresholds[step[name]] for step in expected]
    assert path.value == pytest.approx([step["mean"] for step in expected], abs=1e-12)


@given(trials(), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_reference_rule_minimises_the_ratio_gap(case: Trials, rho: float) -> None:
    expected = full_search(*case, rho)
    least = min(step["gap"] for step in expected) + 1e-12
    found = t_eer(*case, rule="reference", rho=rho)
    values = [step["value"] for step in expected if step["gap"] <= least]  # equal but for rounding
    assert min(abs(found.value - value) for value in values) < 1e-12


@given(trials(), st.sampled_from([0.0, 0.5, 0.9]), st.sampled_from(["interpolated", "reference"]))
def test_blocks_of_the_path_find_the_pair_of_the_whole(case: Trials, rho: float, rule: str) -> None:
    whole = t_eer(*case, rho=rho, rule=rule)
    with mock.patch.object(checks, "BLOCK", 2):
        assert t_eer(*case, rho=rho, rule=rule) == pytest.approx(whole, abs=0, nan_ok=True)


@given(trials(), st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]))
@settings(max_examples=150)
def test_closest_pair_has_the_smallest_residual_of_the_path(case: Trials, rho: float) -> None:
    found = t_eer(*case, rho=rho)
    if found.exists:
        return
    least = min(step["residual"] for step in full_search(*case, rho))
    assert found.residual == pytest.approx(least, abs=1e-12)
    path = t_eer_path(*case, rho, rule="reference")
    at = int(np.flatnonzero(path.asv_threshold == found.asv_threshold)[0])
    assert (path.value[at], path.cm_threshold[at]) == (found.closest, found.cm_threshold)


@given(trials(), st.floats(0, 1))
def test_interpolated_path_balances_the_two_rates(case: Trials, rho: float) -> None:
    first, second = tandem_polylines(*case)
    path = t_eer_path(*case, rho)
    thresholds = np.concatenate([[-math.inf], np.unique(case[0])])
    for value, at in zip(path.value, path.asv_threshold, strict=True):
        miss_asv, fa_non, fa_spf = first[int(np.flatnonzero(thresholds == at)[0])]
        passed = 1 - second[:, 0]
        miss = 1 - passed + passed * miss_asv
        gap = miss - ((1 - rho) * passed * fa_non + rho * second[:, 1] * fa_spf)
        upper = int(np.argmax(gap >= -1e-15))
        share = gap[upper - 1] / (gap[upper - 1] - gap[upper])
        expected = miss[upper - 1] + share * (miss[upper] - miss[upper - 1])
        assert value == pytest.approx(expected, abs=1e-9)


@given(trials(), st.sampled_from(["interpolated", "reference"]))
def test_infinite_scores_count_like_the_lowest_and_the_highest(case: Trials, rule: str) -> None:
    *finite, labels = case
    infinite = [
        np.where(x == x.min(), -math.inf, np.where(x == x.max(), math.inf, x)) for x in finite
    ]
    expected, found = t_eer(*case, rule=rule), t_eer(*infinite, labels, rule=rule)
    for k in (0, 3, 4, 5):  # not the thresholds
        assert found[k] == pytest.approx(expected[k], abs=1e-12, nan_ok=True)


def test_all_paths_meet_in_the_concurrent_point(pair: Trials) -> None:
    found = t_eer(*pair)
    assert found.exists
    for rho in (0.1, 0.5, 0.9):
        path = t_eer_path(*pair, rho)
        near = np.argmin(np.abs(path.asv_threshold - found.asv_threshold))
        assert path.value[near] == pytest.approx(found.value, abs=0.01)


def test_residual_belongs_to_the_reported_pair(pair: Trials) -> None:
    asv, cm, labels = pair
    found = t_eer(asv, cm, labels)
    tar, non, spf = (asv[labels == k] > found.asv_threshold for k in (1, 2, 0))
    passed = np.mean(cm[labels != 0] > found.cm_threshold)
    rates = [
        1 - passed * tar.mean(),
        passed * non.mean(),
        np.mean(cm[labels == 0] > found.cm_threshold) * spf.mean(),
    ]
    assert max(rates) - min(rates) == pytest.approx(found.residual, abs=1e-12)
    assert min(rates) - 0.01 < found.value < max(rates) + 0.01


@pytest.mark.parametrize("rule", ["interpolated", "reference"])
def test_increasing_maps_of_either_score_change_nothing(rule: str, pair: Trials) -> None:
    asv, cm, labels = pair
    sigma = lambda x: 1 / (1 + np.exp(-x))  # noqa: E731
    raw = t_eer(asv, cm, labels, rule=rule)  # type: ignore[arg-type]
    for first, second in ((sigma(asv), cm), (asv, sigma(cm)), (sigma(asv), sigma(cm))):
        assert t_eer(first, second, labels, rule=rule).value == raw.value  # type: ignore[arg-type]


def test_roles_of_asv_and_cm_matter_and_nontargets_count_in_the_cm_miss_rate(pair: Trials) -> None:
    asv, cm, labels = pair
    here, there = t_eer(asv, cm, labels), t_eer(cm, asv, labels)
    assert not there.exists or abs(here.value - there.value) > 0.01
    moved = np.where(labels == 2, cm - 3, cm)  # a CM that rejects the nontargets
    assert t_eer(asv, moved, labels).value > here.value + 0.01


def test_perfect_countermeasure_leaves_the_asv_eer(pair: Trials) -> None:
    asv, _, labels = pair
    found = t_eer(asv, (labels != 0).astype(float), labels)
    asv_eer = eer(asv[labels == 1], asv[labels == 2], convention="interpolated").value
    assert found.exists
    assert found.value == pytest.approx(asv_eer, abs=1e-12)


def llr_like(spoof: float, seed: int = 3) -> Trials:
    """A verifier whose spoofs have a given mean (targets 3, nontargets 0), and a good CM."""
    rng = np.random.default_rng(seed)
    labels = np.repeat([0, 1, 2], 800)
    asv = np.where(labels == 1, 3.0, np.where(labels == 2, 0.0, spoof)) + rng.normal(size=2400)
    cm = np.where(labels == 0, -2.0, 2.0) + rng.normal(size=2400)
    return asv, cm, labels


def test_closest_pair_is_not_the_end_where_the_verifier_accepts_everything() -> None:
    """There the ratios 1 and 0 differ least, but the rates are 1/3, 2/3 and 0."""
    case = asv, _, labels = llr_like(-4.0)
    reference = t_eer(*case, rule="reference")
    assert reference.asv_threshold == -math.inf, "the case must show the failure of the ratios"
    assert reference.value < 0.001
    assert reference.residual == pytest.approx(2 / 3, abs=0.01)
    found = t_eer(*case)
    assert [found.exists, reference.exists] == [False, False]
    assert math.isnan(found.value)
    assert math.isfinite(found.asv_threshold)
    assert found.residual < 0.12
    alone = eer(asv[labels == 1], asv[labels == 2], convention="interpolated").value
    assert 0 < found.closest < alone, "half of the negatives, the spoofs, are hardly accepted"
    assert found.closest == reference.closest


def test_closest_value_continues_the_concurrent_one() -> None:
    """Spoofs that sound less and less like the target: the point vanishes, the value does not."""
    found = [t_eer(*llr_like(mean)) for mean in np.linspace(1.0, -4.0, 101)]
    assert found[0].exists
    assert not found[-1].exists
    values = np.array([one.closest for one in found])
    assert np.abs(np.diff(values)).max() < 0.01
    last = max(k for k, one in enumerate(found) if one.exists)
    assert values[last + 1] == pytest.approx(values[last], abs=0.005)


def test_closest_value_of_a_cm_worse_than_chance_is_that_of_the_open_verifier() -> None:
    """Only then: with a CM at chance all three rates are 1/2 where the verifier accepts all."""
    asv, cm, labels = llr_like(3.0)
    found = t_eer(asv, np.where(labels == 0, 0.2, 0.0) + cm - np.where(labels == 0, -2, 2), labels)
    assert not found.exists
    assert found.closest == pytest.approx(0.5, abs=0.05)
    assert found.residual < 0.15


def test_perfect_tandem_has_rate_zero() -> None:
    found = t_eer([3.0, 1.0, 3.0], [1.0, 1.0, 0.0], [1, 2, 0])
    assert found == (0.0, 1.0, 0.0, 0.0, True, 0.0)
    perfect_asv = t_eer([1.5, 3.0, 0.5, 0.5, 0.5], [-0.5, 0.0, -2.0, -2.0, -0.5], [1, 1, 0, 2, 2])
    assert perfect_asv.value == 0


def test_wrong_rule_and_rho_are_named() -> None:
    case = ([3.0, 1.0, 3.0], [1.0, 1.0, 0.0], [1, 2, 0])
    with pytest.raises(ValueError, match="unknown rule 'mean'"):
        t_eer(*case, rule="mean")  # type: ignore[arg-type]
    for function, rho in ((t_eer_path, 1.5), (t_eer, math.nan)):
        with pytest.raises(ValueError, match=rf"rho must lie in \[0, 1\], got {rho}"):
            function(*case, rho=rho)
