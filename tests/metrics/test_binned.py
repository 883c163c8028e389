"""The binned classes: constant memory, and exactly the metrics of scores rounded up to the grid."""

from __future__ import annotations

import math
from contextlib import suppress
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torchmetrics import Metric, MetricCollection

from lightning_sasv.checks import UndefinedMetricError
from lightning_sasv.errors import InputError
from lightning_sasv.metrics import ADCF, CMEER, SASVEER, Cllr, TandemEER
from lightning_sasv.metrics.classes import ExactSums
from lightning_sasv.metrics.functional import t_eer
from lightning_sasv.metrics.functional.tandem import TandemCurves, bracket, closest_bracket
from lightning_sasv.metrics.functional.teer import tandem_of
from tests.metrics import metric_classes
from tests.metrics.oracles import trials

CONVENTIONS = ("interpolated", "max", "rocch")
ONE_SCORE = metric_classes.ONE_SCORE | {"cm": CMEER}
ONE_SCORE |= {c: partial(SASVEER, convention=c) for c in CONVENTIONS}
PAIR = {name: make for name, make in metric_classes.PAIR.items() if name != "nce"}  # only sums
WORDS = np.array(["spoof", "target", "nontarget"])
LOSSES = ("cllr", "cllr_calib")
GRID = st.lists(st.integers(-12, 12), min_size=1, max_size=8, unique=True).map(
    lambda grid: [k / 4 for k in sorted(grid)]
)


def value_of(metric: Metric, *columns: np.ndarray) -> float:
    metric.update(*(torch.from_numpy(column) for column in columns))
    return float(metric.compute())


def rounded(scores: np.ndarray, grid: list[float]) -> np.ndarray:
    """Scores rounded up to a grid."""
    return np.append(grid, np.inf)[np.searchsorted(grid, scores)]


@pytest.mark.parametrize("name", [name for name in ONE_SCORE if name not in LOSSES])
@given(case=trials(5), grid=GRID)
@settings(max_examples=40)
def test_one_score_metrics_are_those_of_scores_rounded_up(
    name: str, case: tuple[np.ndarray, ...], grid: list[float]
) -> None:
    scores, labels = case[0] + case[1], case[2]
    binned = ONE_SCORE[name](thresholds=grid)
    edges = binned.edges["scores"].tolist()  # type: ignore[union-attr, index]
    found = value_of(binned, scores, labels)
    exact = value_of(ONE_SCORE[name](), rounded(scores, edges), labels)
    assert found == pytest.approx(exact, abs=1e-14)
    truth = value_of(ONE_SCORE[name](), scores, labels)
    if name in ("cllr_min", "min_a_dcf", "rocch"):
        assert found >= truth - 1e-12, "coarser thresholds cannot do better"
    if name == "act_a_dcf":
        assert found == pytest.approx(truth, abs=1e-14), "its threshold joins the grid"


@given(case=trials(5), grid=GRID)
@settings(max_examples=40)
def test_sums_of_losses_are_exact(case: tuple[np.ndarray, ...], grid: list[float]) -> None:
    scores, labels = case[0] + case[1], case[2]
    cost, floor, calib = (
        value_of(Cllr(part=part, thresholds=grid), scores, labels)  # type: ignore[arg-type]
        for part in ("cllr", "min", "calib")
    )
    assert cost == pytest.approx(value_of(Cllr(), scores, labels), rel=1e-12)
    assert calib == pytest.approx(max(cost - floor, 0.0), abs=1e-12)


@pytest.mark.parametrize("name", [*PAIR, "t_eer_closest"])
@given(case=trials(5), grids=st.tuples(GRID, GRID))
def test_pair_metrics_are_those_of_scores_rounded_up(
    name: str, case: tuple[np.ndarray, ...], grids: tuple[list[float], list[float]]
) -> None:
    make = PAIR.get(name, lambda **kw: TandemEER(closest=True, **kw))
    columns = [rounded(scores, grid) for scores, grid in zip(case[:2], grids, strict=True)]
    with suppress(UndefinedMetricError):  # a verifier too poor for a t-DCF
        found = value_of(make(thresholds=grids), *case)
        exact = value_of(make(), *columns, case[2])
        assert found == pytest.approx(exact, abs=1e-12, nan_ok=True)


def rates_at(grids: tuple[list[float], list[float]], *case: np.ndarray) -> TandemCurves:
    """Exact error rates at the edges of two grids."""
    tandem, (asv, cm) = tandem_of(*case), grids
    counts = [part.up_to(np.append(asv, np.inf)) for part in tandem[:3]]
    counts += [part.up_to(np.append(cm, np.inf)) for part in tandem[3:]]
    return TandemCurves.of(*(np.append(0, part) for part in counts))


_LABELS = np.array([0, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2])
_ON_THE_EDGE = np.array([0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 1.5, 1.5]), 1.0 * (_LABELS != 0), _LABELS


@given(case=trials(6), grids=st.tuples(GRID, GRID))
@example(_ON_THE_EDGE, ([0.0, 0.25, 1.0], [0.0]))  # miss is fa but for rounding
@settings(max_examples=200)
def test_rates_at_the_edges_bracket_the_t_eer(
    case: tuple[np.ndarray, ...], grids: tuple[list[float], list[float]]
) -> None:
    truth, curves = t_eer(*case), rates_at(grids, *case)
    low, high, certain = bracket(curves)
    assert truth.exists or not certain
    if truth.exists:
        assert low - 1e-12 <= truth.value <= high + 1e-12
    else:
        low, high = closest_bracket(curves)
        assert low - 1e-12 <= truth.closest <= high + 1e-12


@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_a_fine_grid_comes_close_in_constant_memory(
    name: str, simulated: dict[str, np.ndarray]
) -> None:
    make, columns = (ONE_SCORE | PAIR)[name], metric_classes.tensors(simulated, name)
    grid = torch.linspace(-6, 8, 2001, dtype=torch.float64)
    binned = make(thresholds=(grid, grid) if name in PAIR else grid)
    truth = float(metric_classes.feed(make(), columns, 1200).compute())
    found = float(metric_classes.feed(binned, columns, 100).compute())
    assert found == pytest.approx(truth, abs=5e-3)
    sizes = [state.numel() for state in binned.metric_state.values()]
    binned.update(*columns[:-1], WORDS[simulated["labels"]])
    assert [state.numel() for state in binned.metric_state.values()] == sizes


def test_rounding_the_model_does_not_round_the_grid(simulated: dict[str, np.ndarray]) -> None:
    grid = np.unique(simulated["sasv"]).tolist()
    found = [
        value_of(metric, simulated["sasv"], simulated["labels"])
        for metric in (SASVEER(thresholds=grid), SASVEER(thresholds=grid).half().to("cpu"))
    ]
    assert found[0] == found[1]


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


BITS = metric_classes.ONE_SCORE | {f"cm_{c}": partial(CMEER, convention=c) for c in CONVENTIONS}


@pytest.mark.parametrize("name", BITS)
@given(case=trials(5), bits=st.sampled_from([0, 2, "bits"]))
@settings(max_examples=25)
def test_bounds_of_one_score_hold_the_exact_value(
    name: str, case: tuple[np.ndarray, ...], bits: int | str
) -> None:
    scores, labels = case[0] + case[1], case[2]
    metric = BITS[name](thresholds=bits)
    value_of(metric, scores, labels)
    low, high = metric.bounds()
    assert low - 1e-12 <= value_of(BITS[name](), scores, labels) <= high + 1e-12


@pytest.mark.parametrize("name", PAIR)
@given(case=trials(5), bits=st.sampled_from([0, 2, "bits"]))
@settings(max_examples=25)
def test_bounds_of_pairs_hold_the_exact_value(
    name: str, case: tuple[np.ndarray, ...], bits: int | str
) -> None:
    with suppress(UndefinedMetricError):
        metric, exact = PAIR[name](thresholds=bits), value_of(PAIR[name](), *case)
        metric.update(*(torch.from_numpy(column) for column in case))
        if not math.isnan(exact):
            low, high = metric.bounds()
            assert low - 1e-12 <= exact <= high + 1e-12


def test_bits_in_any_batches_and_processes() -> None:
    rng = np.random.default_rng(6)
    labels = rng.integers(0, 3, 3000)
    scores = 4 * rng.normal(size=3000) + 6 * (labels == 1)
    whole, parts, other = (SASVEER(thresholds="bits") for _ in range(3))
    value_of(whole, scores, labels)
    for rows in np.array_split(rng.permutation(3000), 7):
        parts.update(torch.from_numpy(scores[rows]), torch.from_numpy(labels[rows]))
    other.update(torch.from_numpy(scores[:10]), torch.from_numpy(labels[:10]))
    (name,) = whole._defaults
    assert torch.equal(getattr(whole, name), getattr(parts, name))
    assert getattr(whole, name).shape == (3, 9220)
    assert whole.bounds() == parts.bounds()
    narrow = SASVEER(thresholds=12)
    value_of(narrow, scores, labels)
    assert narrow.bounds()[1] - narrow.bounds()[0] <= whole.bounds()[1] - whole.bounds()[0]


def test_losses_do_not_depend_on_batches() -> None:
    rng = np.random.default_rng(7)
    labels = rng.integers(0, 3, 1000)
    scores = np.append(10.0 ** rng.uniform(-300, 300, 500), 9 * rng.normal(size=500))
    scores *= rng.choice([-1.0, 1.0], 1000)
    found = set()
    for parts in (1, 7, 64, 1000):
        metric = Cllr(thresholds="bits").half()
        for rows in np.array_split(rng.permutation(1000), parts):
            metric.update(torch.from_numpy(scores[rows]), torch.from_numpy(labels[rows]))
        found.add(metric.compute().item())
    assert len(found) == 1
    assert found.pop() == pytest.approx(value_of(Cllr(), scores, labels), rel=1e-14)
    losses = np.abs(np.append(scores, [0.0, 5e-324, 1e308]))
    total = ExactSums.total(ExactSums.of(torch.from_numpy(losses)))
    assert total == math.fsum(losses)
    assert ExactSums.total(ExactSums.of(torch.tensor([math.inf, 1.0], dtype=torch.float64))) > 1e308


def test_a_collection_on_bits_keeps_one_state() -> None:
    names = {"eer": SASVEER, "sv": partial(SASVEER, task="sv"), "a_dcf": ADCF}
    group = MetricCollection({name: make(thresholds="bits") for name, make in names.items()})
    group.update(torch.tensor([2.0, 1.0, 0.0]), torch.tensor([1, 2, 0]))
    assert len(group.compute_groups) == 1


def test_what_has_no_bounds() -> None:
    with pytest.raises(InputError, match="without, they are exact"):
        SASVEER().bounds()
    with pytest.raises(InputError, match="'bits' or a number of bits up to 14, got 'bit'"):
        SASVEER(thresholds="bit")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="got 99"):
        SASVEER(thresholds=99)
