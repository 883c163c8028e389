"""What others compute, restated plainly or called from their packages: peers of the metrics."""

from __future__ import annotations

import math

import numpy as np

CLASSES = {"spoof": 0, "target": 1, "nontarget": 2}


def asvspoof_eer(pos: np.ndarray, neg: np.ndarray) -> float:
    """The ASVspoof tools' rule: a stable sort of all scores, then both curves in full."""
    labels = np.concatenate([np.ones(pos.size), np.zeros(neg.size)])
    labels = labels[np.argsort(np.concatenate([pos, neg]), kind="mergesort")]
    rejected = np.cumsum(labels)
    frr = np.concatenate([[0], rejected / pos.size])
    left = neg.size - (np.arange(1, labels.size + 1) - rejected)
    far = np.concatenate([[1], left / neg.size])
    at = np.argmin(np.abs(frr - far))
    return float((frr[at] + far[at]) / 2)


def baseline_eer(pos: np.ndarray, neg: np.ndarray) -> float:
    """The SASV baseline's rule: a root on scikit-learn's interpolated ROC."""
    from scipy.interpolate import interp1d
    from scipy.optimize import brentq
    from sklearn.metrics import roc_curve

    truth = np.concatenate([np.ones(pos.size), np.zeros(neg.size)])
    fpr, tpr, _ = roc_curve(truth, np.concatenate([pos, neg]))
    return float(brentq(lambda x: 1.0 - x - interp1d(fpr, tpr)(x), 0.0, 1.0))


def isotonic_cllr_min(pos: np.ndarray, neg: np.ndarray) -> float:
    """Cllr_min through scikit-learn's isotonic regression."""
    from sklearn.isotonic import IsotonicRegression

    scores = np.concatenate([pos, neg])
    truth = np.concatenate([np.ones(pos.size), np.zeros(neg.size)])
    posterior = np.clip(IsotonicRegression().fit_transform(scores, truth), 0, 1)
    with np.errstate(divide="ignore"):
        llr = np.log(posterior) - np.log1p(-posterior) - math.log(pos.size / neg.size)
    losses = np.logaddexp(0, -llr[: pos.size]).mean() + np.logaddexp(0, llr[pos.size :]).mean()
    return float(losses / 2 / math.log(2))


def searched_t_eer(asv: np.ndarray, cm: np.ndarray, labels: np.ndarray, stride: int) -> float:
    """The reference search: every stride-th ASV threshold against all CM thresholds at ρ = 0.5."""

    def curves(scores: np.ndarray, *classes: np.ndarray) -> list[np.ndarray]:
        order = np.argsort(scores, kind="mergesort")
        last = np.append(np.diff(scores[order]) != 0, True)
        counts = [np.concatenate([[0], np.cumsum(mask[order])[last]]) for mask in classes]
        return [count / count[-1] for count in counts]

    target, nontarget, spoof = (labels == CLASSES[k] for k in ("target", "nontarget", "spoof"))
    miss, reject_non, reject_spf = curves(asv, target, nontarget, spoof)
    miss_cm, reject_cm = curves(cm, target | nontarget, spoof)
    passed, fa_cm = 1 - miss_cm, 1 - reject_cm
    best, value = math.inf, math.nan
    for a in range(0, miss.size, stride):
        fa_non, fa_spf = 1 - reject_non[a], 1 - reject_spf[a]
        if miss[a] >= (fa_non + fa_spf) / 2:
            continue
        gap = miss_cm + passed * miss[a] - (passed * fa_non + fa_cm * fa_spf) / 2
        c = np.argmin(np.abs(gap))
        if not fa_spf or not passed[c]:
            continue
        ratio = abs(fa_non / fa_spf - fa_cm[c] / passed[c])
        if ratio < best:
            best, value = ratio, fa_cm[c] * fa_spf
    return float(value)


def package_a_dcf(tar: np.ndarray, non: np.ndarray, spf: np.ndarray) -> float:
    """The a-dcf package's own curve and normalisation."""
    from a_dcf import a_dcf as peer

    model = peer.CostModel()
    fa_non, fa_spf, frr, _ = (np.array(x) for x in peer.compute_a_det_curve(tar, non, spf))
    cost = model.Cmiss * model.Ptrg * frr + model.Cfa_asv * model.Pnontrg * fa_non
    return float(peer.normalize(cost + model.Cfa_cm * model.Pspf * fa_spf, model).min())
