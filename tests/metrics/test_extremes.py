"""What every metric does with extreme input: the documented value."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional import (
    a_dcf,
    all_metrics,
    bootstrap,
    cllr,
    cllr_min,
    det_curve,
    sasv_eers,
    t_dcf,
    t_eer,
)
from tests.metrics.metric_classes import ALL, feed
from tests.metrics.metric_classes import PAIR as PAIRS

LABELS = np.array([1, 2, 0, 1, 2, 0])
SCORES = np.array([3.0, 1.0, 0.0, 2.0, 1.5, 2.5])
CM = np.array([1.0, 2.0, -1.0, 0.5, 1.0, 0.0])
WORDS = np.array(["spoof", "target", "nontarget"])[LABELS]
INFINITE = np.where(SCORES == 3.0, -math.inf, SCORES)  # a target that is never accepted


def test_input_arrays_are_left_as_they_are() -> None:
    scores, cm, labels = SCORES.copy(), CM.copy(), LABELS.copy()
    all_metrics(scores, cm, scores, labels, llrs=True)
    bootstrap("sasv_eer", scores, labels, n=39)
    for now, before in ((scores, SCORES), (cm, CM), (labels, LABELS)):
        assert np.array_equal(now, before)


def test_one_trial_of_each_class() -> None:
    assert sasv_eers([2.0, 1.0, 0.0], [1, 2, 0])[:3] == (0, 0, 0)
    assert sasv_eers([0.0, 1.0, 2.0], [1, 2, 0])[:3] == (1, 1, 1)
    assert a_dcf([2.0, 1.0, 0.0], [1, 2, 0]).min == 0
    assert cllr_min([1.0], [0.0]) == 0


def test_all_scores_equal() -> None:
    scores = np.full(6, 2.5)
    assert sasv_eers(scores, LABELS)[:3] == (1, 1, 1)
    assert a_dcf(scores, LABELS).min == 1
    assert cllr_min(scores[LABELS == 1], scores[LABELS != 1]) == 1
    assert t_dcf(scores, scores, LABELS).min == 1
    assert t_eer(scores, scores, LABELS).value == pytest.approx(0.5)
    assert det_curve(scores, scores).miss.tolist() == [0, 1]


def test_infinite_scores_are_ordered_like_any_other() -> None:
    scores = np.array([math.inf, 1.0, -math.inf, 2.0, 1.5, 2.5])
    finite = np.array([9.0, 1.0, -9.0, 2.0, 1.5, 2.5])
    for convention in ("asvspoof", "interpolated", "max", "rocch"):
        infinite = sasv_eers(scores, LABELS, convention=convention)  # type: ignore[arg-type]
        assert infinite[:3] == sasv_eers(finite, LABELS, convention=convention)[:3]  # type: ignore[arg-type]
    assert a_dcf(scores, LABELS).min == a_dcf(finite, LABELS).min
    assert t_eer(scores, CM, LABELS).value == t_eer(finite, CM, LABELS).value
    assert t_dcf(scores, CM, LABELS).min == t_dcf(finite, CM, LABELS).min
    both = cllr_min(scores[LABELS == 1], scores[LABELS != 1])
    assert both == cllr_min(finite[LABELS == 1], finite[LABELS != 1])


def test_infinite_cllr_warns_and_reaches_summary_and_intervals() -> None:
    with pytest.warns(UserWarning, match="Cllr is infinite: 1 positive scores are -inf"):
        whole = all_metrics(None, None, INFINITE, LABELS)
    assert whole["cllr"] == whole["cllr_calib"] == math.inf
    assert math.isfinite(whole["cllr_min"])
    found = bootstrap("cllr", INFINITE, LABELS, n=100)
    assert found.value == found.high == math.inf
    assert np.isinf(found.replicates).any()
    assert math.isfinite(found.low), "replicates without the infinite trial stay finite"


def test_cllr_beyond_the_range_of_floats_says_so() -> None:
    with (
        np.errstate(over="ignore"),
        pytest.warns(UserWarning, match="huge scores is beyond 1e308"),
    ):
        assert cllr([-1e308, -1e308, -1e308], [0.0]) == math.inf
    assert cllr([-1e307], [0.0]) == pytest.approx(0.5e307 / math.log(2))


ODD = {
    "integers": (torch.tensor([3, 1, 0, 2, 1, 2]), torch.tensor([1, 2, -1, 1, 1, 0]), LABELS),
    "half": (torch.from_numpy(SCORES).half(), torch.from_numpy(CM).bfloat16(), LABELS),
    "infinite": (INFINITE, CM, LABELS),
    "all equal": (np.full(6, 2.5), np.full(6, -1.0), LABELS),
    "one of each": (SCORES[:3], CM[:3], LABELS[:3]),
    "words": (SCORES, CM, WORDS),
    "lists": (SCORES.tolist(), CM.tolist(), WORDS.tolist()),
}


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("name", ALL)
@pytest.mark.filterwarnings("ignore:Cllr is infinite", "ignore:TDCF is NaN")
def test_classes_take_odd_input_as_the_functions_do(name: str, odd: str) -> None:
    scores, cm, labels = ODD[odd]
    metric = ALL[name](missing_class="nan")
    columns = (scores, cm, labels) if name in PAIRS else (scores, labels)
    if (name, odd) == ("nce", "infinite"):
        with pytest.raises(InputError, match="finite"):
            metric.update(*columns)
        return
    metric.update(*columns)
    expected = all_metrics(scores, cm, scores, labels, llrs=odd != "infinite")[name]  # type: ignore[arg-type]
    assert float(metric.compute()) == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("name", ALL)
def test_classes_name_nan_and_unknown_labels(name: str) -> None:
    good, bad = torch.tensor([1.0, 0.0, 0.5]), torch.tensor([1.0, math.nan, 0.5])
    for first, labels, message in ((bad, [1, 2, 0], "NaN|finite"), (good, [1, 2, 3], "labels")):
        columns = (first, good) if name in PAIRS else (first,)
        with pytest.raises(InputError, match=message):
            feed(ALL[name](), (*columns, torch.tensor(labels)), 3).compute()
