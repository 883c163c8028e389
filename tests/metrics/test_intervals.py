"""Intervals and p-values: order statistics, BCa against scipy, seeds beside speakers, coverage."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from confidence_intervals import get_conf_int
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from lightning_sasv.errors import InputError
from lightning_sasv.metrics.intervals import (
    Resampled,
    acceleration,
    bca_tails,
    bias_of,
    cautions,
    check_replicates,
    is_clear,
    over_seeds,
    percentile_ends,
    two_sided_p,
    widened,
)
from lightning_sasv.numerics import (
    normal_below,
    normal_quantile,
    student_below,
    student_quantile,
)

ALPHAS = st.sampled_from([0.01, 0.05, 0.1, 0.2, 1 / 3, 0.5])
REPLICATES = st.lists(
    st.sampled_from([-2.0, -1.0, -0.5, 0.0, 0.25, 1.0, 3.0, math.inf, math.nan]),
    min_size=3,
    max_size=250,
).map(np.array)


@given(REPLICATES, ALPHAS)
def test_percentile_interval_excludes_zero_exactly_where_p_is_at_most_alpha(
    replicates: np.ndarray, alpha: float
) -> None:
    low, high = percentile_ends(replicates, alpha)
    assert (low > 0 or high < 0) == is_clear(two_sided_p(replicates), alpha)


@pytest.mark.parametrize("n", [39, 100, 999, 1000, 1999, 2199])
def test_at_every_count_beside_zero_interval_and_p_agree(n: int) -> None:
    for k in range(n // 10):
        replicates = np.concatenate([-np.ones(k), np.ones(n - k)])
        low, _ = percentile_ends(replicates)
        assert (low > 0) == (2 * (1 + k) <= 0.05 * (n + 1) + 1e-9)


def test_fewer_replicates_than_an_interval_needs_are_refused() -> None:
    for n in (38, 0, -1, -1000):
        with pytest.raises(InputError, match=f"{n} replicates give no 95 % interval; take at lea"):
            check_replicates(n)
    with pytest.raises(InputError, match="38 replicates give no 95 % interval; take at least 39"):
        Resampled(0.0, np.arange(38.0)).interval()
    assert Resampled(0.0, np.arange(39.0)).interval()[:2] == (0, 38)
    check_replicates(19, 0.1)
    for alpha in (5, 1, 0, -0.1, math.nan):
        with pytest.raises(InputError, match=r"fraction between 0 and 1 \(0.05 for 95 %"):
            check_replicates(1000, alpha)


def speaker_means(rng: np.random.Generator, speakers: int, n: int) -> tuple[np.ndarray, Resampled]:
    """Skewed values of speakers, their mean, its replicates and its values without each."""
    values = rng.gamma(0.5, size=speakers)
    drawn = rng.integers(0, speakers, (n, speakers))
    left_out = (values.sum() - values) / (speakers - 1)
    return values, Resampled(float(values.mean()), values[drawn].mean(axis=1), left_out)


def neighbours(replicates: np.ndarray, end: float) -> tuple[float, float]:
    ascending = np.sort(replicates)
    place = int(np.searchsorted(ascending, end))
    return ascending[max(place - 2, 0)], ascending[min(place + 2, ascending.size - 1)]


@pytest.mark.parametrize("speakers", [12, 48])
def test_bca_is_scipys_on_the_same_replicates(rng: np.random.Generator, speakers: int) -> None:
    values, one = speaker_means(rng, speakers, 2000)
    given = SimpleNamespace(bootstrap_distribution=one.replicates)
    options = {"n_resamples": 0, "bootstrap_result": given, "vectorized": True, "axis": -1}
    level = 1 - widened(0.05, speakers)
    wanted = stats.bootstrap((values,), np.mean, confidence_level=level, method="BCa", **options)
    found = one.interval()
    assert found.method == "bca"
    assert found.note == ""
    for end, theirs in zip(found[:2], wanted.confidence_interval, strict=True):
        low, high = neighbours(one.replicates, theirs)  # they interpolate between replicates
        assert low <= end <= high
    plain = stats.bootstrap((values,), np.mean, method="percentile", **options).confidence_interval
    assert one.interval(method="interpolated")[:2] == pytest.approx(tuple(plain), rel=1e-12)
    assert found.high > one.interval(method="percentile").high, "skewed: the upper end goes out"


def test_formulas_of_bca(rng: np.random.Generator) -> None:
    _, one = speaker_means(rng, 20, 500)
    assert one.left_out is not None
    d = one.left_out.mean() - one.left_out
    assert acceleration(one.left_out) == pytest.approx((d**3).sum() / (6 * (d**2).sum() ** 1.5))
    share = np.mean(one.replicates < one.value)
    assert bias_of(one.value, one.replicates) == pytest.approx(stats.norm.ppf(share))
    z, z0, a = stats.norm.ppf(0.021), 0.2, 0.1
    low = stats.norm.cdf(z0 + (z0 + z) / (1 - a * (z0 + z)))
    high = stats.norm.sf(z0 + (z0 - z) / (1 - a * (z0 - z)))
    assert bca_tails(z0, a, 0.042) == pytest.approx((low, high), rel=1e-12)
    assert widened(0.05, 10) == pytest.approx(
        2 * stats.norm.cdf(-math.sqrt(10 / 9) * 2.262157), 1e-6
    )


def test_where_bca_is_undefined_the_percentile_stands_in_and_says_so(
    rng: np.random.Generator,
) -> None:
    replicates, spread = rng.normal(size=200), np.arange(12.0)
    cases = (
        Resampled(0.0, replicates, np.ones(12)),  # no speaker matters
        Resampled(9.0, replicates, spread),  # all replicates on one side
        Resampled(0.0, replicates, np.append(spread, math.inf)),
        Resampled(0.0, replicates, np.append(spread, math.nan)),
    )
    for one in cases:
        found = one.interval()
        assert found.method == "percentile"
        assert found.note == "percentile: BCa is undefined here"
        assert found[:2] == percentile_ends(replicates)
    by_trial = Resampled(0.0, replicates)
    assert by_trial.interval()[:4] == (*percentile_ends(replicates), 0.95, "percentile")
    assert "needs clusters" in by_trial.interval(method="bca").note


def test_few_speakers_have_no_interval_and_few_values_neither(rng: np.random.Generator) -> None:
    replicates = rng.normal(size=100)
    for left_out, note in ((np.arange(9.0), "9 speakers are too few"), (np.arange(10.0), "")):
        found = Resampled(0.0, replicates, left_out).interval()
        assert math.isnan(found.low) == bool(note)
        assert note in found.note
    sparse = np.where(np.arange(100) < 38, replicates, math.nan)
    found = Resampled(0.0, sparse).interval()
    assert math.isnan(found.low)
    assert found.note == "no interval: 38 replicates have a value"
    assert (found.replicates, found.undefined) == (100, 62)


def test_interpolated_ends_are_the_packages(rng: np.random.Generator) -> None:
    replicates = rng.normal(size=60)
    found = Resampled(0.0, replicates).interval(method="interpolated")
    assert found[:2] == pytest.approx(get_conf_int(replicates))


@pytest.mark.parametrize(
    ("n", "speakers", "words"),
    [
        (1000, 48, ["48 speakers: intervals of this kind hold the truth in about 9 of 10 cases"]),
        (1000, 10, ["10 speakers: intervals of this kind hold the truth in about 4 of 5 cases"]),
        (1000, 9, ["9 speakers are too few for intervals"]),
        (1000, None, ["drawn by trial: intervals are too narrow for other speakers"]),
        (100, 48, ["100 replicates: the ends vary by about 12 % of an interval's width", "48 sp"]),
    ],
)
def test_what_is_said_beside_intervals(n: int, speakers: int | None, words: list[str]) -> None:
    found = cautions(n, speakers)
    assert len(found) == len(words)
    assert all(one.startswith(start) for one, start in zip(found, words, strict=True))


@given(st.integers(1, 7), st.integers(0, 2**32 - 1))
def test_identical_seeds_give_the_interval_of_one(number: int, seed: int) -> None:
    _, one = speaker_means(np.random.default_rng(seed), 12, 80)
    mean = over_seeds([one] * number)
    assert mean.value == pytest.approx(one.value, rel=1e-12)
    assert mean.interval()[:2] == pytest.approx(one.interval()[:2], rel=1e-12)


def test_spread_over_seeds_is_that_of_students_t_and_adds_to_the_speakers(
    rng: np.random.Generator,
) -> None:
    values = [1.0, 1.1, 1.3, 0.9, 1.2, 1.4]
    still = [Resampled(value, np.full(20_000, value)) for value in values]
    error = np.std(values, ddof=1) / math.sqrt(6)
    found, wanted = over_seeds(still).interval(), stats.t.ppf(0.975, 5) * error
    assert found.half_width == pytest.approx(wanted, rel=0.05)
    noise = rng.normal(0, 0.2, 20_000)
    both = over_seeds([Resampled(value, value + noise) for value in values])
    assert both.replicates.std() ** 2 == pytest.approx(0.04 + 5 / 3 * error**2, rel=0.05)
    short = over_seeds([Resampled(value, value + noise[:50]) for value in values])
    assert short.replicates.tolist() == both.replicates[:50].tolist()


def test_difference_is_paired(rng: np.random.Generator) -> None:
    (_, a), (_, b) = speaker_means(rng, 12, 50), speaker_means(rng, 12, 50)
    found = a - b
    assert found.value == a.value - b.value
    assert found.replicates.tolist() == (a.replicates - b.replicates).tolist()
    assert found.left_out is not None
    assert found.speakers == 12
    assert (a - Resampled(0.0, b.replicates)).left_out is None


def test_tails_are_those_of_scipy() -> None:
    shares = [*np.logspace(-300, -1, 60), *np.linspace(0.01, 0.999, 60)]
    np.testing.assert_allclose([normal_quantile(p) for p in shares], special.ndtri(shares), 1e-12)
    at = np.linspace(-30, 8, 77)
    np.testing.assert_allclose([normal_below(z) for z in at], special.ndtr(at), 1e-12)
    for degrees in (1, 2, 3, 9, 10, 47, 200, 3001):
        t = np.linspace(-9, 9, 19)
        found = [student_below(x, degrees) for x in t]
        np.testing.assert_allclose(found, special.stdtr(degrees, t), atol=1e-13, rtol=0)
        shares = [0.01, 0.025, 0.5, 0.975, 0.9995]
        quantiles = [student_quantile(p, degrees) for p in shares]
        np.testing.assert_allclose(quantiles, special.stdtrit(degrees, shares), 1e-11, atol=1e-13)
