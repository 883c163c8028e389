"""Metric classes: batches, collections, checkpoints, the binned version, and labels of any kind."""

from __future__ import annotations

import io
import math
import pickle
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torchmetrics import Metric, MetricCollection

from lightning_sasv.metrics import ADCF, CMEER, SASVEER, TDCF, Cllr, CrossEntropy, TandemEER
from lightning_sasv.metrics.functional import all_metrics, eer, t_eer

Columns = dict[str, np.ndarray]
Maker = Callable[..., Metric]

ONE_SCORE: dict[str, Maker] = {
    "sasv_eer": SASVEER,
    "sv_eer": lambda **kw: SASVEER(task="sv", **kw),
    "spf_eer": lambda **kw: SASVEER(task="spf", **kw),
    "cllr": Cllr,
    "cllr_min": lambda **kw: Cllr(part="min", **kw),
    "cllr_calib": lambda **kw: Cllr(part="calib", **kw),
    "min_a_dcf": ADCF,
    "act_a_dcf": lambda **kw: ADCF(kind="actual", **kw),
}
PAIR: dict[str, Maker] = {
    "t_eer": TandemEER,
    "min_t_dcf": TDCF,
    "min_t_dcf_legacy": lambda **kw: TDCF(version="legacy", **kw),
    "nce": CrossEntropy,
}
LISTS = {**ONE_SCORE, **{name: PAIR[name] for name in ("t_eer", "min_t_dcf", "min_t_dcf_legacy")}}


def tensors(simulated: Columns, name: str) -> tuple[Tensor, ...]:
    columns = ("asv", "cm") if name in PAIR else ("sasv",)
    return tuple(torch.from_numpy(simulated[key]) for key in (*columns, "labels"))


def feed(metric: Metric, columns: tuple[Tensor, ...], batch: int) -> Metric:
    for start in range(0, len(columns[-1]), batch):
        metric.update(*(column[start : start + batch] for column in columns))
    return metric


@pytest.fixture(scope="module")
def expected(simulated: Columns) -> dict[str, float]:
    columns = (simulated[name] for name in ("asv", "cm", "sasv", "labels"))
    return all_metrics(*columns, llrs=True)


@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_value_is_the_functions_whatever_the_batch_size(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    make = (ONE_SCORE | PAIR)[name]
    for batch in (1200, 24, 7):
        value = feed(make(), tensors(simulated, name), batch).compute()
        assert value.dtype == torch.float64
        tolerance = 1e-12 if name in ("nce", "cllr", "cllr_calib") else 0
        assert float(value) == pytest.approx(expected[name], abs=tolerance), batch


def test_countermeasure_metric(simulated: Columns, expected: dict[str, float]) -> None:
    columns = torch.from_numpy(simulated["cm"]), torch.from_numpy(simulated["labels"])
    assert float(feed(CMEER(), columns, 50).compute()) == expected["cm_eer"]


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


def test_collection_keeps_shared_states_once(
    simulated: Columns, expected: dict[str, float]
) -> None:
    group = MetricCollection({name: make() for name, make in ONE_SCORE.items()})
    scores, labels = tensors(simulated, "sasv_eer")
    feed(group, (scores, labels), 100)  # type: ignore[arg-type]
    values = group.compute()
    assert {name: float(v) for name, v in values.items()} == (
        pytest.approx({name: expected[name] for name in ONE_SCORE}, abs=1e-12)
    )
    assert len(group.compute_groups) == 1
    metrics = dict(group.items(copy_state=False))
    assert metrics["cllr"].scores is metrics["sasv_eer"].scores


def test_collection_of_one_score_and_pair_metrics(
    simulated: Columns, expected: dict[str, float]
) -> None:
    group = MetricCollection({"sasv_eer": SASVEER(), "t_eer": TandemEER(), "nce": CrossEntropy()})
    asv, cm, labels = tensors(simulated, "t_eer")
    sasv = torch.from_numpy(simulated["sasv"])
    for k in (0, 600):
        part = slice(k, k + 600)
        group.update(scores=sasv[part], asv=asv[part], cm=cm[part], labels=labels[part])
    values = {name: float(value) for name, value in group.compute().items()}
    assert values == pytest.approx({name: expected[name] for name in values}, abs=1e-12)


@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_states_survive_a_checkpoint(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    make = (ONE_SCORE | PAIR)[name]
    columns = tensors(simulated, name)
    first = nn.ModuleDict({"metric": make()})
    feed(first["metric"], tuple(x[:700] for x in columns), 100)  # type: ignore[arg-type]
    file = io.BytesIO()
    torch.save(first.state_dict(), file)
    file.seek(0)
    second = nn.ModuleDict({"metric": make()})
    second.load_state_dict(torch.load(file, weights_only=True))
    resumed = feed(second["metric"], tuple(x[700:] for x in columns), 100)  # type: ignore[arg-type]
    assert float(resumed.compute()) == pytest.approx(expected[name], abs=1e-12)


@pytest.mark.parametrize("name", LISTS)
def test_metrics_can_be_pickled_and_moved(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    metric = feed(LISTS[name](), tensors(simulated, name), 500)
    again = pickle.loads(pickle.dumps(metric)).to("cpu").half().float()
    assert float(again.compute()) == pytest.approx(expected[name], abs=1e-12)
    assert again.dtype == torch.float64


@pytest.mark.parametrize("name", LISTS)
def test_compute_on_cpu_is_respected(
    name: str, simulated: Columns, expected: dict[str, float]
) -> None:
    metric = feed(LISTS[name](compute_on_cpu=True), tensors(simulated, name), 200)
    assert metric.compute_on_cpu
    assert all(state.device.type == "cpu" for state in metric.labels)
    assert float(metric.compute()) == pytest.approx(expected[name], abs=1e-12)


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


@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_missing_class_is_an_error_or_nan(name: str) -> None:
    make = (ONE_SCORE | PAIR)[name]
    columns = [torch.tensor([1.0, 0.0])] * (2 if name in PAIR else 1)
    labels = torch.tensor([1, 1])
    strict, lenient = make(), make(missing_class="nan")
    strict.update(*columns, labels)
    lenient.update(*columns, labels)
    with pytest.raises(ValueError, match=r"no (nontarget|spoof)"):
        strict.compute()
    with pytest.warns(UserWarning, match=r"no (nontarget|spoof)"):
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


@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_plot(name: str, simulated: Columns) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("agg")
    metric = feed((ONE_SCORE | PAIR)[name](), tensors(simulated, name), 1200)
    _, axis = metric.plot()
    assert axis.lines
    _, axis = metric.plot([metric.compute(), metric.compute()])
    assert len(axis.lines[0].get_xdata()) == 2
    pyplot.close("all")


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
@pytest.mark.parametrize("name", [*ONE_SCORE, *PAIR])
def test_on_the_gpu(name: str, simulated: Columns, expected: dict[str, float]) -> None:
    columns = tuple(x.cuda() for x in tensors(simulated, name))
    value = feed((ONE_SCORE | PAIR)[name]().cuda(), columns, 100).compute()
    assert value.device.type == "cuda"
    assert float(value) == pytest.approx(expected[name], abs=1e-12)
