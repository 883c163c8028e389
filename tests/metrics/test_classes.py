"""Metric classes: batches, precision, what a class without trials means, labels of any kind."""

from __future__ import annotations

import math
import pickle
from functools import partial
from typing import Any

import pytest
import torch

from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.metrics import ADCF, CMEER, SASVEER, TDCF, Cllr, CrossEntropy, TandemEER
from lightning_sasv.metrics.functional import all_metrics, eer, sasv_eers, t_eer
from tests.metrics.metric_classes import ALL, PAIR, Columns, Maker, feed, tensors


@pytest.mark.parametrize("name", ALL)
def test_value_is_the_functions_whatever_the_batch_size(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    make = ALL[name]
    for batch in (1200, 24, 7):
        value = feed(make(), tensors(simulated, name), batch).compute()
        assert value.dtype == torch.float64
        tolerance = 1e-12 if name in ("nce", "cllr", "cllr_calib") else 0
        assert float(value) == pytest.approx(expected[name], abs=tolerance), batch


def test_countermeasure_metric(simulated: Columns, expected: dict[str, float]) -> None:
    columns = torch.from_numpy(simulated["cm"]), torch.from_numpy(simulated["labels"])
    assert float(feed(CMEER(), columns, 50).compute()) == expected["cm_eer"]


@pytest.mark.parametrize("kwargs", [{}, {"thresholds": [0.0, 1.0]}])
def test_either_kind_of_bona_fide_speech_will_do_for_the_countermeasure(kwargs: Any) -> None:
    for bona_fide in (1, 2):
        metric = CMEER(**kwargs)
        metric.update(torch.tensor([2.0, 0.5, 0.7, -1.0]), [bona_fide, bona_fide, 0, 0])
        assert float(metric.compute()) == 0.5
    metric = CMEER(**kwargs)
    metric.update(torch.tensor([1.0]), [0])
    with pytest.raises(ValueError, match="no bona fide"):
        metric.compute()


def test_forward_gives_the_batch_and_keeps_all(simulated: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    metric = SASVEER()
    batches = [metric(scores[k : k + 300], labels[k : k + 300]) for k in (0, 300)]
    alone, both = (sasv_eers(scores[:n], labels[:n]).sasv for n in (300, 600))
    assert float(batches[0]) == alone
    assert float(metric.compute()) == both
    metric.reset()
    metric.update(scores[:300], labels[:300])
    assert float(metric.compute()) == alone


def test_conventions_rules_and_costs_are_passed_on(simulated: Columns, columns: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    value = feed(SASVEER(convention="rocch"), (scores, labels), 100).compute()
    assert float(value) == eer(scores[labels == 1], scores[labels != 1], convention="rocch").value
    pair = tensors(simulated, "t_eer")
    value = feed(TandemEER(rule="reference"), pair, 100).compute()
    assert float(value) == t_eer(*pair, rule="reference").value
    other = all_metrics(**columns, labels=labels, costs="asvspoof5", tandem_costs="a-dcf1")
    assert float(feed(ADCF("asvspoof5"), (scores, labels), 99).compute()) == other["min_a_dcf"]
    assert float(feed(TDCF("a-dcf1"), pair, 99).compute()) == other["min_t_dcf"]


@pytest.mark.parametrize("name", ALL)
def test_metrics_can_be_pickled_and_moved(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    metric = feed(ALL[name](), tensors(simulated, name), 500)
    again = pickle.loads(pickle.dumps(metric)).to("cpu").half().float()
    assert float(again.compute()) == pytest.approx(expected[name], abs=1e-12)
    states = again.metric_state.values()
    kept = [x for state in states for x in (state if isinstance(state, list) else [state])]
    assert {x.dtype for x in kept} == {torch.float64}


def test_states_are_merged(simulated: Columns, expected: dict[str, float]) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    first, second = SASVEER(), SASVEER()
    first.update(scores[:500], labels[:500])
    second.update(scores[500:], labels[500:])
    first.merge_state(second)
    assert float(first.compute()) == expected["sasv_eer"]


def test_float64_scores_lose_no_digit() -> None:
    scores = torch.tensor([1.0 + 2e-16 * k for k in range(0, 12, 2)], dtype=torch.float64)
    metric = SASVEER()
    metric.update(scores, torch.tensor([0, 2, 0, 1, 1, 1]))
    assert float(metric.compute()) == 0
    assert metric.scores[0].dtype == torch.float64


def test_scores_of_any_precision_and_shape(simulated: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        metric, exact = SASVEER(), scores.to(dtype).double()
        metric.update(scores.to(dtype).view(40, 30), labels.view(40, 30))
        assert float(metric.compute()) == eer(exact[labels == 1], exact[labels != 1]).value


POOR = [0.0, 1.0, -1.0], [1.0, 1.0, 0.0], [1, 2, 0]  # the verifier prefers nontargets
UNDEFINED = {
    name: (make, [[1.0, 0.0]] * (1 + (name in PAIR)) + [[1, 1]], r"no (nontarget|spoof)")
    for name, make in ALL.items()
}
UNDEFINED["poor"] = (partial(TDCF, CostModel(1, 9, 9, 0.4, 0.4, 0.2)), POOR, "t-DCF is undefined")


@pytest.mark.parametrize(("make", "columns", "message"), UNDEFINED.values(), ids=UNDEFINED)
def test_what_is_undefined_is_an_error_or_nan(make: Maker, columns: Any, message: str) -> None:
    strict, lenient = make(), make(missing_class="nan")
    strict.update(*columns)
    lenient.update(*columns)
    with pytest.raises(ValueError, match=message):
        strict.compute()
    with pytest.warns(UserWarning, match=message):
        assert math.isnan(float(lenient.compute()))


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_metric_without_any_trial_names_what_is_missing() -> None:
    with pytest.raises(ValueError, match="no target trials"):
        SASVEER().compute()


@pytest.mark.parametrize(
    ("metric", "columns", "message"),
    [
        (SASVEER, [[0, 0], [0, 0, 0]], r"scores \(2,\) and labels \(3,\) differ in shape"),
        (TandemEER, [[0, 0], [0, 0, 0], [0, 0]], r"cm \(3,\) and labels \(2,\)"),
        (CrossEntropy, [[0, 0], [0, 0, 0], [0, 0]], "shapes of asv, cm and labels differ"),
        (CrossEntropy, [[math.inf], [0], [0]], "finite"),
        (SASVEER, [[0, 0], torch.tensor([True, False])], "labels must be codes"),
        (SASVEER, [["low", "high"], [1, 0]], "scores must hold real numbers"),
        (SASVEER, [torch.zeros(2, dtype=torch.complex64), [1, 0]], "scores must hold real numbers"),
    ],
)
def test_wrong_columns_are_named(metric: Maker, columns: list[Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        metric().update(*columns)


@pytest.mark.parametrize(
    ("metric", "setting"),
    [
        (SASVEER, "task"),
        (SASVEER, "convention"),
        (Cllr, "part"),
        (ADCF, "kind"),
        (ADCF, "costs"),
        (TDCF, "version"),
        (TandemEER, "rule"),
        (SASVEER, "missing_class"),
        (CrossEntropy, "missing_class"),
    ],
)
def test_unknown_choices_are_named(metric: Maker, setting: str) -> None:
    with pytest.raises(ValueError, match=r"'all'; (expected one of|presets:) \w"):
        metric(**{setting: "all"})


@pytest.mark.parametrize("name", ALL)
def test_plot(name: str, simulated: Columns) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    metric = feed(ALL[name](), tensors(simulated, name), 1200)
    _, axis = metric.plot()
    assert axis.lines
    _, axis = metric.plot([metric.compute(), metric.compute()])
    assert len(axis.lines[0].get_xdata()) == 2
    _, axis = metric.plot([torch.tensor(0.2), torch.tensor(0.3)])
    assert axis.get_ylim() == pytest.approx((0.19, 0.31))
    pyplot.close("all")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ALL)
def test_on_the_gpu(name: str, simulated: Columns, expected: dict[str, float]) -> None:
    columns = tuple(x.cuda() for x in tensors(simulated, name))
    value = feed(ALL[name]().cuda(), columns, 100).compute()
    assert value.device.type == "cuda"
    assert float(value) == pytest.approx(expected[name], abs=1e-12)
