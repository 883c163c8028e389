"""The curves of the report against the metrics and against independent tools."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtri

from lightning_sasv.decisions import PRESETS
from lightning_sasv.metrics.functional import a_dcf, det_curve, eer, t_eer, t_eer_path
from lightning_sasv.report.curves import (
    DET_CELLS,
    DET_LIMITS,
    PATH_RHOS,
    costs_over_thresholds,
    histogram,
    tandem_paths,
    thin_det,
)
from lightning_sasv.report.planes import robust_range
from lightning_sasv.results import Results
from lightning_sasv.trials import TrialClass


@pytest.mark.parametrize("task", ["sasv", "sv", "spf"])
def test_a_thinned_det_curve_stays_within_a_cell_of_the_exact_one(
    small: Results, task: str
) -> None:
    scores, labels = small.fused["L3c"], small.scores.label
    thin = thin_det(scores, labels, task)
    negative = {"sasv": labels != 1, "sv": labels == 2, "spf": labels == 0}[task]
    pos, neg = scores[labels == 1], scores[negative]
    assert (thin.eer, thin.threshold) == eer(pos, neg)
    exact = det_curve(pos, neg)
    shown = (exact.miss < DET_LIMITS[1]) & (exact.false_acceptance < DET_LIMITS[1])
    place = [
        ndtri(np.clip(x, DET_LIMITS[0] / 4, 1 - 1e-9))
        for x in (exact.false_acceptance[shown], exact.miss[shown], *thin[:2])
    ]
    cell = float(np.ptp(ndtri(DET_LIMITS))) / DET_CELLS
    distance = np.maximum(
        np.abs(place[0][:, None] - place[2]), np.abs(place[1][:, None] - place[3])
    ).min(axis=1)
    assert distance.max() <= cell
    points = set(zip(exact.false_acceptance, exact.miss, strict=True))
    assert set(zip(thin.false_acceptance, thin.miss, strict=True)) <= points


def test_thinning_shortens_a_long_curve() -> None:
    generator = np.random.default_rng(0)
    scores = np.concatenate([generator.normal(2, 1, 50_000), generator.normal(0, 1, 50_000)])
    labels = np.repeat([1, 0], 50_000)
    assert len(thin_det(scores, labels, "spf").miss) < 3 * DET_CELLS  # the frame and its margin


def test_costs_over_thresholds_are_the_a_dcf(small: Results) -> None:
    scores, labels = small.fused["L3c"], small.scores.label
    costs = costs_over_thresholds(scores, labels)
    for name, model in PRESETS.items():
        weights = [model.weight_miss, model.weight_fa_nontarget, model.weight_fa_spoof]
        total = weights @ costs.rates / model.default_cost
        wanted = a_dcf(scores, labels, model)
        assert costs.presets[name] == wanted
        assert total.min() == pytest.approx(wanted.min, abs=1e-12)
        for k in (0, 60, 180):
            at = a_dcf(scores, labels, model, threshold=float(costs.thresholds[k]))
            assert total[k] == pytest.approx(at.actual, abs=1e-12)


def test_histograms_count_every_trial_in_their_range(small: Results) -> None:
    labels = small.scores.label
    limits = robust_range(small.scores.cm, labels)
    parts = [small.scores.cm[labels == code] for code in TrialClass]
    for part, counts in zip(parts, histogram(parts, limits), strict=True):
        assert counts.sum() == ((part >= limits[0]) & (part <= limits[1])).sum()
        assert counts.sum() >= 0.99 * part.size


def test_the_tandem_path_keeps_its_minimum_and_its_meeting_point(small: Results) -> None:
    pair, labels = np.stack([small.scores.asv, small.scores.cm]), small.scores.label
    point, paths = tandem_paths(pair, labels)
    assert point == t_eer(*pair, labels)
    for (asv, _, value), rho in zip(paths, PATH_RHOS, strict=True):
        exact = t_eer_path(*pair, labels, rho)
        finite = np.isfinite(exact.asv_threshold) & np.isfinite(exact.cm_threshold)
        assert value.min() == exact.value[finite].min()
        assert set(asv) <= set(exact.asv_threshold)
