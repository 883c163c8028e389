"""LLR bounds against their definition, evaluated without any of the shortcuts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.deploy.bounds import Bounds, dev_bounds, elub
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import build_system
from lightning_sasv.trials import Scores, TrialClass

QUICK = settings(max_examples=150, deadline=None)
LLRS = st.lists(
    st.one_of(st.floats(-40, 40), st.integers(-4, 4).map(float)), min_size=1, max_size=25
)


def cost(tau: float, positive: np.ndarray, negative: np.ndarray) -> float:
    """Cost of "LLR > τ" with one more misleading trial of each class, by counting."""
    miss = sum(llr <= tau for llr in [*positive, -math.inf]) / (len(positive) + 1)
    false = sum(llr > tau for llr in [*negative, math.inf]) / (len(negative) + 1)
    return miss + math.exp(tau) * false


def grid_bounds(positive: np.ndarray, negative: np.ndarray, step: float) -> tuple[float, float]:
    """Bounds on a grid of thresholds: walk away from 0 until ignoring the LLRs is cheaper."""

    def walk(sign: int) -> float:
        count = 0
        while True:
            tau = sign * (count + 0.5) * step
            if cost(tau, positive, negative) > min(1.0, math.exp(tau)):
                return sign * count * step
            count += 1

    return walk(-1), walk(1)


@pytest.mark.parametrize("seed", range(6))
def test_bounds_are_those_of_a_walk_over_a_grid(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes, shift = rng.integers(5, 120, size=2), rng.uniform(0.3, 4)
    positive, negative = rng.normal(shift, 2, sizes[0]), rng.normal(-shift, 2, sizes[1])
    step = 0.002
    lower, upper = grid_bounds(positive, negative, step)
    assert elub(positive, negative) == pytest.approx((lower, upper), abs=step)


@QUICK
@given(LLRS, LLRS)
def test_inside_the_bounds_the_llrs_pay_and_just_beyond_they_do_not(
    pos: list[float], neg: list[float]
) -> None:
    positive, negative = np.array(pos), np.array(neg)
    lower, upper = elub(positive, negative)
    assert lower <= 0 <= upper
    knots = np.unique(np.concatenate([positive, negative, [0, lower, upper]]))
    middles = (knots[1:] + knots[:-1]) / 2
    for tau in middles[(middles > lower) & (middles < upper)].tolist():
        assert cost(tau, positive, negative) <= min(1, math.exp(tau)) * (1 + 1e-9)
    gaps = np.diff(knots, prepend=knots[0] - 1, append=knots[-1] + 1)
    for bound, sign in ((lower, -1), (upper, 1)):
        gap = gaps[np.searchsorted(knots, bound) + (sign > 0)]
        beyond = bound + sign * min(gap, 1) * 1e-3
        if gap > 1e-6:
            assert cost(beyond, positive, negative) > min(1, math.exp(beyond))


@QUICK
@given(LLRS, LLRS)
def test_bounds_mirror_and_never_exceed_what_the_numbers_support(
    pos: list[float], neg: list[float]
) -> None:
    positive, negative = np.array(pos), np.array(neg)
    lower, upper = elub(positive, negative)
    assert elub(-negative, -positive) == Bounds(-upper, -lower)
    assert upper <= min(math.log(len(neg) + 1), max(0.0, positive.max()))
    assert lower >= max(-math.log(len(pos) + 1), min(0.0, negative.min()))


def test_separated_classes_have_the_bounds_of_their_sizes_misleading_ones_none() -> None:
    lower, upper = elub(np.full(50, 99.0), np.full(200, -99.0))
    assert upper == pytest.approx(math.log(201 * 50 / 51))
    assert lower == pytest.approx(-math.log(51 * 200 / 201))
    assert elub([-3.0, -2.0, -4.0], [3.0, 5.0, 2.0]) == (0, 0)


def test_each_llr_is_bounded_by_the_classes_it_compares(dev: Scores) -> None:
    fused = build_system("L3").fit(dev.asv, dev.cm, dev.label)(dev.asv, dev.cm)
    asv, cm = fused.asv_llr.numpy(), fused.cm_llr.numpy()
    found = dev_bounds(asv, cm, dev.label)
    spoof, target, nontarget = (dev.label == code for code in TrialClass)
    step = 0.002
    assert found.asv_llr == pytest.approx(grid_bounds(asv[target], asv[nontarget], step), abs=step)
    assert found.cm_llr == pytest.approx(grid_bounds(cm[target], cm[spoof], step), abs=step)


@pytest.mark.parametrize(
    ("positive", "negative", "match"),
    [([], [1.0], "no positive"), ([1.0], [], "no negative"), ([1.0, math.inf], [0.0], "inf")],
)
def test_empty_classes_and_infinite_llrs_are_refused(
    positive: list[float], negative: list[float], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        elub(positive, negative)
