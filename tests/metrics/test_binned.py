"""The binned classes: constant memory, and an error that stays within the documented bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torchmetrics import Metric

from lightning_sasv.checks import UndefinedMetricError
from lightning_sasv.metrics import ADCF, SASVEER, TDCF, Cllr, TandemEER
from lightning_sasv.metrics.functional import all_metrics, t_dcf
from tests.metrics.oracles import trials

ONE_SCORE: dict[str, Callable[..., Metric]] = {
    "asvspoof": SASVEER,
    "interpolated": lambda **kw: SASVEER(convention="interpolated", **kw),
    "max": lambda **kw: SASVEER(convention="max", **kw),
    "rocch": lambda **kw: SASVEER(convention="rocch", **kw),
    "sv": lambda **kw: SASVEER(task="sv", **kw),
    "cm": lambda **kw: SASVEER(task="cm", **kw),
    "cllr": Cllr,
    "cllr_min": lambda **kw: Cllr(part="min", **kw),
    "cllr_calib": lambda **kw: Cllr(part="calib", **kw),
    "min_a_dcf": ADCF,
    "act_a_dcf": lambda **kw: ADCF(kind="actual", **kw),
}
PAIR: dict[str, Callable[..., Metric]] = {
    "t_eer": TandemEER,
    "t_dcf": TDCF,
    "t_dcf_legacy": lambda **kw: TDCF(version="legacy", **kw),
}
GRID = st.lists(st.integers(-12, 12), min_size=1, max_size=8, unique=True).map(
    lambda grid: [k / 4 for k in sorted(grid)]
)


def value_of(metric: Metric, *columns: np.ndarray) -> float:
    metric.update(*(torch.from_numpy(column) for column in columns))
    return float(metric.compute())


@pytest.mark.parametrize("name", ONE_SCORE)
@given(case=trials(5), grid=GRID)
@settings(max_examples=40, deadline=None)
def test_one_score_metrics_stay_within_their_bound(
    name: str, case: tuple[np.ndarray, ...], grid: list[float]
) -> None:
    scores, labels = case[0] + case[1], case[2]
    binned = ONE_SCORE[name](thresholds=grid)
    exact = ONE_SCORE[name]()
    found, truth = value_of(binned, scores, labels), value_of(exact, scores, labels)
    bound = binned.error_bound()  # type: ignore[operator]
    assert abs(found - truth) <= bound + 1e-12
    if name in ("cllr_min", "min_a_dcf", "rocch"):
        assert found >= truth - 1e-12, "coarser thresholds cannot do better"
    assert exact.error_bound() == 0  # type: ignore[operator]


@given(case=trials(5), grids=st.tuples(GRID, GRID))
@settings(max_examples=200, deadline=None)
def test_t_eer_stays_within_its_bound(
    case: tuple[np.ndarray, ...], grids: tuple[list[float], list[float]]
) -> None:
    binned, exact = TandemEER(thresholds=grids), TandemEER()
    found, truth = value_of(binned, *case), value_of(exact, *case)
    bound = binned.error_bound()
    if bound < math.inf:
        assert math.isnan(found) == math.isnan(truth), "a finite bound says that a point exists"
        assert math.isnan(found) or abs(found - truth) <= bound + 1e-12


_LABELS = np.array([0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2])
_ON_THE_EDGE = np.array([0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1.5, 1.5]), 1.0 * (_LABELS != 0), _LABELS


@given(case=trials(6), grids=st.tuples(GRID, GRID))
@example(_ON_THE_EDGE, ([0.0, 0.25, 1.0], [0.0]))  # miss is fa but for rounding
@settings(max_examples=200, deadline=None)
def test_closest_t_eer_stays_within_its_bound(
    case: tuple[np.ndarray, ...], grids: tuple[list[float], list[float]]
) -> None:
    binned, exact = TandemEER(closest=True, thresholds=grids), TandemEER(closest=True)
    found, truth = value_of(binned, *case), value_of(exact, *case)
    assert abs(found - truth) <= binned.error_bound() + 1e-12
    assert 0 <= binned.error_bound() <= 1


@pytest.mark.parametrize("version", ["2019", "legacy"])
@given(case=trials(5), grids=st.tuples(GRID, GRID))
@settings(max_examples=100, deadline=None)
def test_t_dcf_stays_within_its_bound(
    version: str, case: tuple[np.ndarray, ...], grids: tuple[list[float], list[float]]
) -> None:
    binned = TDCF(version=version, thresholds=grids)  # type: ignore[arg-type]
    with suppress(UndefinedMetricError):  # a verifier too poor for a t-DCF
        found = value_of(binned, *case)
        bound = binned.error_bound()
        if bound < math.inf:  # then the exact t-DCF is defined
            truth = t_dcf(*case, version=version).min  # type: ignore[arg-type]
            assert abs(found - truth) <= bound + 1e-12


@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_a_fine_grid_comes_close_in_constant_memory(
    name: str, simulated: dict[str, np.ndarray]
) -> None:
    labels = simulated["labels"]
    grid = torch.linspace(-6, 8, 2001, dtype=torch.float64)
    if name in PAIR:
        make, columns, thresholds = PAIR[name], (simulated["asv"], simulated["cm"]), (grid, grid)
    else:
        make, columns, thresholds = ONE_SCORE[name], (simulated["sasv"],), grid
    exact, binned = make(), make(thresholds=thresholds)
    truth = value_of(exact, *columns, labels)
    for k in range(0, labels.size, 100):
        binned.update(*(torch.from_numpy(x[k : k + 100]) for x in (*columns, labels)))
    assert float(binned.compute()) == pytest.approx(truth, abs=5e-3)
    assert binned.error_bound() < 0.2  # type: ignore[operator]
    assert abs(float(binned.compute()) - truth) <= binned.error_bound() + 1e-12  # type: ignore[operator]
    sizes = [state.numel() for state in binned.metric_state.values()]
    binned.update(*(torch.from_numpy(x) for x in (*columns, labels)))
    assert [state.numel() for state in binned.metric_state.values()] == sizes


def test_rounding_the_model_does_not_round_the_grid(simulated: dict[str, np.ndarray]) -> None:
    grid = np.unique(simulated["sasv"]).tolist()
    found = [
        value_of(metric, simulated["sasv"], simulated["labels"])
        for metric in (SASVEER(thresholds=grid), SASVEER(thresholds=grid).half().to("cpu"))
    ]
    assert found[0] == found[1]


def test_on_grid_scores_are_exact(simulated: dict[str, np.ndarray]) -> None:
    grid = np.unique(simulated["sasv"]).tolist()
    expected = all_metrics(None, None, simulated["sasv"], simulated["labels"])
    for name, key in (("asvspoof", "sasv_eer"), ("cllr_min", "cllr_min"), ("min_a_dcf",) * 2):
        metric = ONE_SCORE[name](thresholds=grid)
        found = value_of(metric, simulated["sasv"], simulated["labels"])
        assert found == pytest.approx(expected[key], abs=1e-14)


def test_closest_value_without_a_concurrent_point(rng: np.random.Generator) -> None:
    labels = np.repeat([0, 1, 2], 500)
    asv = np.where(labels == 1, 2.0, np.where(labels == 2, 0.0, -4.0)) + rng.normal(size=1500)
    cm = np.where(labels == 0, -1.0, 1.0) + rng.normal(size=1500)
    grid = torch.linspace(-8, 8, 4001)
    assert math.isnan(value_of(TandemEER(), asv, cm, labels))
    assert math.isnan(value_of(TandemEER(thresholds=(grid, grid)), asv, cm, labels))
    exact = value_of(TandemEER(closest=True), asv, cm, labels)
    metric = TandemEER(closest=True, thresholds=(grid, grid))
    assert value_of(metric, asv, cm, labels) == pytest.approx(exact, abs=5e-3)
    assert metric.error_bound() < 0.02


def test_infinite_ratios_warn(simulated: dict[str, np.ndarray]) -> None:
    scores = np.where(simulated["labels"] == 1, -np.inf, simulated["sasv"])
    for part in ("cllr", "calib"):
        metric = Cllr(part=part, thresholds=[0.0])  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="Cllr is infinite"):
            assert value_of(metric, scores, simulated["labels"]) == math.inf
    assert value_of(Cllr(part="min", thresholds=[0.0]), scores, simulated["labels"]) <= 1


def test_mistakes_are_named() -> None:
    for grid in ([], [1.0, 0.0], [0.0, math.inf], [0.0, 0.0]):
        with pytest.raises(ValueError, match="thresholds must be finite and strictly ascending"):
            SASVEER(thresholds=grid)
    metric = SASVEER(thresholds=[0.0])
    with pytest.raises(ValueError, match="scores holds NaN"):
        metric.update(torch.tensor([math.nan]), torch.tensor([1]))
    with pytest.raises(ValueError, match="labels must be 0"):
        metric.update(torch.tensor([1.0]), torch.tensor([3]))
    with pytest.raises(ValueError, match="rule must be interpolated"):
        TandemEER(rule="reference", thresholds=([0.0], [0.0]))
