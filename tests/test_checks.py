"""What is wrong with input is named, in one wording, by everything that takes columns."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch

from lightning_sasv import checks
from lightning_sasv.checks import (
    LARGEST_SCORE,
    as_finite,
    as_labels,
    as_scores,
    as_trials,
    as_two_classes,
    by_class,
    check_spread,
    count,
    positive,
    real,
)
from lightning_sasv.errors import InputError
from lightning_sasv.metrics import functional as f
from lightning_sasv.trials import CLASS_ORDER, TASKS, TrialClass

LABELS = np.array([1, 2, 0, 1, 2, 0])
SCORES = np.array([3.0, 1.0, 0.0, 2.0, 1.5, 2.5])
CM = np.array([1.0, 2.0, -1.0, 0.5, 1.0, 0.0])
WORDS = np.array(["spoof", "target", "nontarget"])[LABELS]
Metric = Callable[..., object]
TWO_CLASSES: list[Metric] = [f.eer, f.cllr, f.cllr_decomposition, f.cllr_min, f.cm_dcf]
TWO_CLASSES += [f.det_curve, f.roc_curve, f.ece_curve]
ONE_SCORE: dict[str, Metric] = {
    "sasv_eers": f.sasv_eers,
    "a_dcf": f.a_dcf,
    "all_metrics": lambda scores, labels: f.all_metrics(None, None, scores, labels),
}
PAIR: dict[str, Metric] = {
    "t_eer": f.t_eer,
    "t_eer_path": f.t_eer_path,
    "t_dcf": f.t_dcf,
    "cross_entropy": f.cross_entropy,
    "all_metrics": lambda asv, cm, labels: f.all_metrics(asv, cm, None, labels),
}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, math.nan], "x holds 1 NaN of 2 values, first at 1"),
        ([[1.0, 2.0]], r"x must be one-dimensional, got shape \(1, 2\)"),
        (1.0, r"x must be one-dimensional, got shape \(\)"),
        (["low"], "x must hold real numbers, got dtype"),
        ([[1.0], [1.0, 2.0]], "x must hold real numbers"),
        (np.array([1.0, None]), "x must hold real numbers, got dtype object"),
        (np.ma.masked_array([1.0, 2.0], [False, True]), "x holds masked values"),
        (torch.ones(2, dtype=torch.complex64), "x must hold real numbers, got dtype torch.complex"),
    ],
)
def test_wrong_scores_are_named(values: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_scores(values, "x")


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 2 * LARGEST_SCORE])
def test_scores_that_are_not_finite_or_constant_are_named(value: float) -> None:
    message = f"x must be finite (at most 1e+100 in size), got {value} at index 1"
    with pytest.raises(InputError, match=re.escape(message)):
        as_finite([0.0, value], "x")
    assert as_finite([LARGEST_SCORE, 1], "x").tolist() == [LARGEST_SCORE, 1.0]
    with pytest.raises(InputError, match=r"x is constant: all 3 values are 2\.0"):
        check_spread(np.full(3, 2.0), "x")
    with pytest.raises(InputError, match=r"x lies between 1e-200 and 2e-200, too close"):
        check_spread(np.array([1e-200, 2e-200]), "x")
    check_spread(np.array([0.0, 1e-9]), "x")


@pytest.mark.parametrize(
    "dtype", ["int8", "int64", "uint8", "bool", "float16", "bfloat16", "float32", "float64"]
)
def test_scores_of_any_type_are_widened(dtype: str) -> None:
    tensor = torch.tensor([1, 0, 1]).to(getattr(torch, dtype))
    assert as_scores(tensor, "x").tolist() == [1.0, 0.0, 1.0]
    assert as_scores(tensor, "x").dtype == np.float64
    assert as_scores(SCORES, "x") is SCORES, "no copy"
    assert as_scores(torch.tensor(SCORES, requires_grad=True), "x").tolist() == SCORES.tolist()
    assert as_scores((1, 2), "x").tolist() == as_scores([1.0, 2.0], "x").tolist()


KINDS = {
    "words": WORDS,
    "list of words": WORDS.tolist(),
    "bytes": WORDS.astype("S"),
    "uint8": LABELS.astype(np.uint8),
    "list": LABELS.tolist(),
    "members": [TrialClass(code) for code in LABELS],
}
AS_NUMBERS = [LABELS.astype(np.float32), torch.from_numpy(LABELS).to(torch.bfloat16)]
AS_OBJECTS = [WORDS.astype(object), LABELS.astype(object), WORDS.astype("S")]


@pytest.mark.parametrize("labels", [*KINDS.values(), *AS_NUMBERS, *AS_OBJECTS])
def test_labels_of_any_kind(labels: Any) -> None:
    assert as_labels(labels).tolist() == LABELS.tolist()
    assert as_labels(labels).dtype == np.int8


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1, 2, 3], r"labels\[2\] is 3; expected 0 \(spoof\), 1 \(target\) or 2 \(nontarget\)"),
        ([-1, 2], r"labels\[0\] is -1"),
        ([0.5, 2], r"labels\[0\] is 0.5"),
        ([1, math.nan], r"labels\[1\] is nan"),
        ([1, 300], r"labels\[1\] is 300"),
        (["target", "impostor"], r"labels\[1\] is 'impostor'; expected spoof, target or nontarget"),
        ([True, False], r"labels must be codes 0 \(spoof\), .* got dtype bool"),
        ([b"\xff", b"spoof"], r"labels\[0\] is '�'; expected spoof"),
        (np.ma.masked_array(LABELS, LABELS == 0), "labels holds masked values"),
        ([[1, 2, 0]], r"labels must be one-dimensional, got shape \(1, 3\)"),
    ],
)
def test_wrong_labels_are_named(labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        as_labels(labels)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: f.a_dcf(SCORES, LABELS, threshold=math.nan), "threshold is NaN"),
        (lambda: f.hter(SCORES, LABELS, "high"), "threshold must be a number, got 'high'"),
        (lambda: f.ece_curve([1.0], [0.0], [math.inf]), "log10_odds must be finite"),
        (lambda: f.t_eer(SCORES, CM, LABELS, rho="half"), "rho must be a number, got 'half'"),
        (lambda: f.t_dcf(None, CM, LABELS, asv_rates=f.ASVRates(0, 2, 0)), r"must lie in \[0, 1\]"),
        (lambda: f.bootstrap("sasv_eer", [], [], n=40), "no trials to draw from"),
        (lambda: f.bootstrap("sasv_eer", SCORES, LABELS, n=40.0), r"whole, got 40\.0"),
    ],
)
def test_wrong_numbers_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()


def test_columns_must_go_together() -> None:
    with pytest.raises(InputError, match=r"differ in length: \{'asv': 5, 'labels': 6\}"):
        as_trials(SCORES[1:], LABELS, "asv")
    for member in CLASS_ORDER:
        keep = np.flatnonzero(member != LABELS)
        with pytest.raises(InputError, match=f"no {member} trials"):
            by_class(SCORES[keep], LABELS[keep])
    for block in (checks.BLOCK, 2):
        with mock.patch.object(checks, "BLOCK", block):
            parts = [part.tolist() for part in by_class(SCORES, WORDS)]
        assert parts == [[3, 2], [1, 1.5], [0, 2.5]]


def test_tasks_tell_classes_apart() -> None:
    for task in TASKS.values():
        assert not set(task.positive) & set(task.negative)
        assert TrialClass.TARGET in task.positive
    assert TASKS["sasv"].negative == (TrialClass.NONTARGET, TrialClass.SPOOF)
    assert TASKS["cm"] == ("cm", (TrialClass.TARGET, TrialClass.NONTARGET), (TrialClass.SPOOF,))


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (real, None, "a must be a number, got None"),
        (real, "x", "a must be a number, got 'x'"),
        (positive, 0, "a must be positive and finite, got 0"),
        (positive, math.inf, "a must be positive and finite"),
        (positive, math.nan, "a must be positive and finite"),
        (count, 0, "a must be at least 1 and whole, got 0"),
        (count, 2.5, "a must be at least 1 and whole, got 2.5"),
        (count, math.nan, "a must be at least 1 and whole"),
    ],
)
def test_numbers_of_a_configuration(check: Metric, value: Any, message: str) -> None:
    assert (real("a", "2"), positive("a", 0.5), count("a", 3.0)) == (2.0, 0.5, 3)
    with pytest.raises(InputError, match=message):
        check("a", value)


@pytest.mark.parametrize("metric", TWO_CLASSES)
def test_functions_of_two_classes_check_both(metric: Metric) -> None:
    for pos, neg, message in (
        ([1.0, math.nan], [0.0], "pos holds 1 NaN of 2 values, first at 1"),
        ([1.0], [math.nan, math.nan], "neg holds 2 NaN of 2 values, first at 0"),
        ([], [0.0], r"no positive trials \(pos\)"),
        (torch.ones(3), torch.empty(0), r"no negative trials \(neg\)"),
        ([[1.0, 2.0]], [0.0], r"pos must be one-dimensional, got shape \(1, 2\)"),
        ([1.0], ["low"], "neg must hold real numbers"),
    ):
        with pytest.raises(InputError, match=message):
            metric(pos, neg)


@pytest.mark.parametrize("metric", TWO_CLASSES)
@pytest.mark.parametrize(
    "labels",
    [
        *(*KINDS.values(), LABELS, LABELS == 1, torch.from_numpy(LABELS == 1)),
        *(WORDS.astype(object), [1, 0], ["target", "spoof"]),
    ],
)
def test_labels_are_not_taken_for_negatives(metric: Metric, labels: Any) -> None:
    message = f"neg holds labels, not scores: {metric.__name__} takes .*; .* takes scores and label"
    with pytest.raises(InputError, match=message):
        metric(SCORES[: len(labels)], labels)


@pytest.mark.parametrize(
    "negatives",
    [
        LABELS.astype(float),  # floating-point values are always scores
        LABELS[:-1],  # not as many as positives
        np.zeros(6, int),  # one value alone
        np.array([1, 2, 0, 1, 2, 3]),  # others than labels
        np.array([-1, 0, 1, 0, 1, 2]),
    ],
)
def test_scores_that_look_like_labels_are_scores(negatives: np.ndarray) -> None:
    found = as_two_classes(SCORES, negatives, "eer", "sasv_eers")
    assert found[1].tolist() == negatives.tolist()
    assert f.eer([1], [0]).value == 0, "a pair of single trials"


@pytest.mark.parametrize("metric", ONE_SCORE.values(), ids=ONE_SCORE)
def test_functions_of_one_score_check_it(metric: Metric) -> None:
    for scores, labels, message in (
        ([1.0, math.nan, 0.0], [1, 2, 0], "holds 1 NaN of 3 values, first at 1"),
        (SCORES[:-1], LABELS, "differ in length"),
        ([1.0, 0.0, 0.0], [1, 2, 3], r"labels\[2\] is 3"),
        ([1.0, 0.0, 0.0], [1, 2, 2], "no spoof trials"),
    ):
        with pytest.raises(InputError, match=message):
            metric(scores, labels)
    assert metric(SCORES, WORDS) == metric(torch.tensor(SCORES), torch.tensor(LABELS))


@pytest.mark.parametrize("metric", PAIR.values(), ids=PAIR)
def test_functions_of_a_pair_check_both(metric: Metric) -> None:
    for asv, cm, labels, message in (
        (np.where(SCORES == 3, math.nan, SCORES), CM, LABELS, r"asv.* holds 1 NaN"),
        (SCORES, np.where(CM == 2, math.nan, CM), LABELS, r"cm.* holds 1 NaN"),
        (SCORES, CM[:-1], LABELS, "differ in length"),
        (SCORES[1:4], CM[1:4], LABELS[1:4] % 2 + 1, "no spoof trials"),
        (SCORES[:2], CM[:2], [0, 2], "no target trials"),
    ):
        with pytest.raises(InputError, match=message):
            metric(asv, cm, labels)


ON_ARRAYS = """
import sys
import numpy as np
from lightning_sasv.metrics import functional as f
labels, scores = np.array([1, 2, 0]), np.array([2.0, 1.0, 0.0])
f.all_metrics(scores, scores, scores, labels, llrs=True)
f.bootstrap("sasv_eer", scores, labels, n=39)
f.eer(scores, scores), f.det_curve(scores, scores), f.ece_curve(scores, scores)
assert not {"torch", "torchmetrics", "matplotlib", "sklearn"} & set(sys.modules)
"""


def test_metrics_of_arrays_import_nothing_heavy() -> None:
    subprocess.run([sys.executable, "-c", ON_ARRAYS], check=True)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_tensors_on_the_gpu() -> None:
    scores, labels = torch.tensor(SCORES).cuda(), torch.tensor(LABELS).cuda()
    assert f.sasv_eers(scores, labels) == f.sasv_eers(SCORES, LABELS)
    assert f.t_eer(scores, torch.tensor(CM).cuda(), labels) == f.t_eer(SCORES, CM, LABELS)
