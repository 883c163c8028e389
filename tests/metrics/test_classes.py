"""Metric classes: batches, precision, what a class without trials means, labels of any kind."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
import torch
from torch import Tensor

from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.metrics import ADCF, CMEER, SASVEER, TDCF, Cllr, CrossEntropy, TandemEER
from lightning_sasv.metrics.functional import all_metrics, eer, t_eer
from tests.metrics.metric_classes import ALL, PAIR, Columns, feed, tensors


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
def test_either_kind_of_bona_fide_speech_will_do_for_the_countermeasure(
    kwargs: dict[str, list[float]],
) -> None:
    for bona_fide in (1, 2):
        metric = CMEER(**kwargs)
        metric.update(torch.tensor([2.0, 0.5, 0.7, -1.0]), [bona_fide, bona_fide, 0, 0])
        assert float(metric.compute()) == 0.5
    metric = CMEER(**kwargs)
    metric.update(torch.tensor([1.0]), [0])
    with pytest.raises(ValueError, match="no bona fide"):
        metric.compute()


@pytest.mark.parametrize("name", ALL)
def test_arrays_and_lists_are_taken_like_tensors(name: str, simulated: Columns) -> None:
    columns = tensors(simulated, name)
    values = []
    for convert in (lambda x: x, Tensor.numpy, Tensor.tolist):
        metric = ALL[name]()
        metric.update(*(convert(column) for column in columns))
        values.append(float(metric.compute()))
    assert values[0] == values[1] == values[2]


def test_forward_gives_the_batch_and_keeps_all(simulated: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    metric = SASVEER()
    batches = [metric(scores[k : k + 300], labels[k : k + 300]) for k in (0, 300)]
    alone = eer(scores[:300][labels[:300] == 1], scores[:300][labels[:300] != 1]).value
    assert float(batches[0]) == alone
    both = eer(scores[:600][labels[:600] == 1], scores[:600][labels[:600] != 1]).value
    assert float(metric.compute()) == both
    metric.reset()
    metric.update(scores[:300], labels[:300])
    assert float(metric.compute()) == alone


def test_conventions_rules_and_costs_are_passed_on(simulated: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    value = feed(SASVEER(convention="rocch"), (scores, labels), 100).compute()
    assert float(value) == eer(scores[labels == 1], scores[labels != 1], convention="rocch").value
    pair = tensors(simulated, "t_eer")
    value = feed(TandemEER(rule="reference"), pair, 100).compute()
    assert float(value) == t_eer(*pair, rule="reference").value
    columns = {name: simulated[name] for name in ("asv", "cm", "sasv", "labels")}
    other = all_metrics(**columns, costs="asvspoof5", tandem_costs="a-dcf1")
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


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_scores_of_any_precision_and_shape(dtype: torch.dtype, simulated: Columns) -> None:
    scores, labels = tensors(simulated, "sasv_eer")
    scores = scores.to(dtype)
    metric = SASVEER()
    metric.update(scores.view(40, 30), labels.view(40, 30))
    exact = scores.double()
    assert float(metric.compute()) == eer(exact[labels == 1], exact[labels != 1]).value


def test_float64_scores_lose_no_digit() -> None:
    scores = torch.tensor([1.0 + 2e-16 * k for k in range(0, 12, 2)], dtype=torch.float64)
    metric = SASVEER()
    metric.update(scores, torch.tensor([0, 2, 0, 1, 1, 1]))
    assert float(metric.compute()) == 0
    assert metric.scores[0].dtype == torch.float64


def test_labels_as_words(simulated: Columns, expected: dict[str, float]) -> None:
    words = np.array(["spoof", "target", "nontarget"])[simulated["labels"]]
    for labels in (words, words.tolist()):
        metric = SASVEER()
        metric.update(torch.from_numpy(simulated["sasv"]), labels)
        assert float(metric.compute()) == expected["sasv_eer"]
        entropy = CrossEntropy()
        entropy.update(*(torch.from_numpy(simulated[k]) for k in ("asv", "cm")), labels)
        assert float(entropy.compute()) == pytest.approx(expected["nce"], abs=1e-12)
    binned = Cllr(thresholds=[0.0])
    binned.update(torch.from_numpy(simulated["sasv"]), words)
    assert float(binned.compute()) == pytest.approx(expected["cllr"], abs=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_missing_class_is_an_error_or_nan(name: str) -> None:
    make = ALL[name]
    columns = [torch.tensor([1.0, 0.0])] * (2 if name in PAIR else 1)
    labels = torch.tensor([1, 1])
    strict, lenient = make(), make(missing_class="nan")
    strict.update(*columns, labels)
    lenient.update(*columns, labels)
    with pytest.raises(ValueError, match=r"no (nontarget|spoof)"):
        strict.compute()
    with pytest.warns(UserWarning, match=r"no (nontarget|spoof)"):
        assert math.isnan(float(lenient.compute()))


def test_verifier_too_poor_for_a_t_dcf_is_an_error_or_nan() -> None:
    columns = [torch.tensor(x) for x in ([0.0, 1.0, -1.0], [1.0, 1.0, 0.0], [1, 2, 0])]
    costs = CostModel(1, 9, 9, 0.4, 0.4, 0.2)
    strict, lenient = TDCF(costs), TDCF(costs, missing_class="nan")
    strict.update(*columns)
    lenient.update(*columns)
    with pytest.raises(ValueError, match="t-DCF is undefined"):
        strict.compute()
    with pytest.warns(UserWarning, match="t-DCF is undefined"):
        assert math.isnan(float(lenient.compute()))


@pytest.mark.filterwarnings("ignore:The ``compute`` method of metric")
def test_metric_without_any_trial_names_what_is_missing() -> None:
    with pytest.raises(ValueError, match="no target trials"):
        SASVEER().compute()


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match=r"scores \(2,\) and labels \(3,\) differ in shape"):
        SASVEER().update(torch.zeros(2), torch.zeros(3))
    with pytest.raises(ValueError, match=r"cm \(3,\) and labels \(2,\)"):
        TandemEER().update(torch.zeros(2), torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match="shapes of asv, cm and labels differ"):
        CrossEntropy().update(torch.zeros(2), torch.zeros(3), torch.zeros(2))
    with pytest.raises(ValueError, match="finite"):
        CrossEntropy().update(torch.tensor([math.inf]), torch.zeros(1), torch.zeros(1))
    with pytest.raises(ValueError, match="labels must be codes"):
        SASVEER().update(torch.zeros(2), torch.tensor([True, False]))
    for wrong in (["low", "high"], torch.zeros(2, dtype=torch.complex64)):
        with pytest.raises(ValueError, match="scores must hold real numbers"):
            SASVEER().update(wrong, [1, 0])
    nan = SASVEER()
    nan.update(torch.tensor([math.nan, 1.0, 2.0]), torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="NaN"):
        nan.compute()
    for make in (
        lambda: SASVEER(task="all"),  # type: ignore[arg-type]
        lambda: SASVEER(convention="all"),  # type: ignore[arg-type]
        lambda: Cllr(part="all"),  # type: ignore[arg-type]
        lambda: ADCF(kind="all"),  # type: ignore[arg-type]
        lambda: TDCF(version="all"),  # type: ignore[arg-type]
        lambda: TandemEER(rule="all"),  # type: ignore[arg-type]
        lambda: ADCF("all"),
    ):
        with pytest.raises(ValueError, match="'all'"):
            make()
    for make in (SASVEER, CrossEntropy):
        with pytest.raises(ValueError, match="missing_class must be error or nan, got 'zero'"):
            make(missing_class="zero")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ALL)
def test_plot(name: str, simulated: Columns) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    metric = feed(ALL[name](), tensors(simulated, name), 1200)
    _, axis = metric.plot()
    assert axis.lines
    _, axis = metric.plot([metric.compute(), metric.compute()])
    assert len(axis.lines[0].get_xdata()) == 2
    pyplot.close("all")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", ALL)
def test_on_the_gpu(name: str, simulated: Columns, expected: dict[str, float]) -> None:
    columns = tuple(x.cuda() for x in tensors(simulated, name))
    value = feed(ALL[name]().cuda(), columns, 100).compute()
    assert value.device.type == "cuda"
    assert float(value) == pytest.approx(expected[name], abs=1e-12)
