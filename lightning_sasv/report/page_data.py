"""Everything that the page draws, as plain JSON values and packed arrays."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from lightning_sasv.decisions import PRESETS, CostModel
from lightning_sasv.metrics.functional import ece_curve, eer
from lightning_sasv.report.boundaries import Line, policy_boundaries, rule_boundary
from lightning_sasv.report.curves_data import (
    DET_LIMITS,
    TASKS,
    Codes,
    Floats,
    costs_over_thresholds,
    histogram,
    pav_calibration,
    robust_range,
    tandem_paths,
    thin_det,
)
from lightning_sasv.report.pairs import (
    GRID,
    ORDER,
    Base,
    Pair,
    base_on_grid,
    equal_sample,
    find_pairs,
    stratified,
)
from lightning_sasv.results import Results
from lightning_sasv.trials import TrialClass

SAMPLE = 500
"""Trials of each class in a scatter plot."""

EMBEDDED = 320_000
"""Pairs in the page at most: about 3.4 MB. More trials than fit in are drawn from."""

MISMATCHED = CostModel(p_target=0.9, p_nontarget=0.05, p_spoof=0.05)
"""The priors of the third boundary of the paper's fig. simplex."""

DET_TICKS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.4)
ECE_ODDS = np.linspace(-3, 3, 61)
MARGINAL_BINS = 48


def short(values: Iterable[float] | NDArray[Any], digits: int = 5) -> list[float | int | None]:
    """Numbers of a drawing with as many digits as it needs; ``None`` where there is none."""
    return [
        None
        if not math.isfinite(x)
        else int(x)
        if float(x).is_integer()
        else float(f"{x:.{digits}g}")
        for x in np.asarray(values, dtype=np.float64).tolist()
    ]


def pack(values: NDArray[Any]) -> str:
    """Little-endian float32 values as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


def page_data(results: Results) -> dict[str, Any]:
    """Data of every figure of the page."""
    scores, labels = results.scores, results.scores.label
    pairs, bases = find_pairs(scores, results.systems)
    attacks = _attacks(results)
    columns = {"ASV score": scores.asv, "CM score": scores.cm, **results.fused}
    return {
        "split": results.split,
        "sizes": [results.sizes[results.split][code] for code in ORDER],
        "systems": [_system(results, name, pairs) for name in results.fused],
        "attacks": list(attacks),
        "columns": [_distribution(name, col, labels, attacks) for name, col in columns.items()],
        "det": _det_axis(),
        "ece_odds": short(ECE_ODDS),
        "presets": {name: asdict(model) for name, model in PRESETS.items()},
        "pairs": [_pair(pair, labels) for pair in pairs],
        **_embedded(pairs, bases, labels),
    }


def _attacks(results: Results) -> dict[str, NDArray[np.bool_]]:
    """Which trials are of each attack."""
    column, spoof = results.scores.attack, results.scores.label == TrialClass.SPOOF
    if column is None:
        return {}
    return {str(name): spoof & (column == name) for name in np.unique(column[spoof])}


def _distribution(
    name: str, column: Floats, labels: Codes, attacks: dict[str, NDArray[np.bool_]]
) -> dict[str, Any]:
    """Histograms of a column by class and attack, and the EER of each attack."""
    limits = robust_range(column, labels)
    target = column[labels == TrialClass.TARGET]
    by_class = histogram(column, [labels == code for code in ORDER], limits)
    by_attack = histogram(column, list(attacks.values()), limits, 72) if attacks else None
    return {
        "name": name,
        "limits": short(limits, 7),
        "counts": by_class.counts.tolist(),
        "sizes": by_class.sizes,
        "medians": short(by_class.medians),
        "attacks": by_attack.counts.tolist() if by_attack else [],
        "attack_sizes": by_attack.sizes if by_attack else [],
        "attack_medians": short(by_attack.medians) if by_attack else [],
        "attack_eers": [eer(target, column[mask]).value for mask in attacks.values()],
    }


def _system(results: Results, name: str, pairs: list[Pair]) -> dict[str, Any]:
    """Curves of one system's fused score."""
    scores, labels = results.fused[name], results.scores.label
    pos, neg = scores[labels == TrialClass.TARGET], scores[labels != TrialClass.TARGET]
    ece = ece_curve(pos, neg, ECE_ODDS)
    pav = pav_calibration(pos, neg)
    costs = costs_over_thresholds(scores, labels)
    det = {task: thin_det(scores, labels, task) for task in TASKS}
    number = next((k for k, pair in enumerate(pairs) if name in pair.systems), None)
    fitted = results.systems.get(name)
    line: Line | None = None
    if number is not None and fitted is not None:
        line = rule_boundary(fitted, det["sasv"].threshold, pairs[number].window)
    return {
        "name": name,
        "pair": number,
        "rule": fitted.rule if fitted is not None else None,
        "rho": None if fitted is None or fitted.rho is None else float(fitted.rho[0]),
        "boundary": None if line is None else [short(line[0]), short(line[1])],
        "det": {
            task: {
                "fa": _probit(curve.false_acceptance),
                "miss": _probit(curve.miss),
                "eer": curve.eer,
                "threshold": curve.threshold,
            }
            for task, curve in det.items()
        },
        "ece": short(ece.ece),
        "ece_min": short(ece.ece_min),
        "pav": {"start": short(pav.start), "end": short(pav.end), "llr": short(pav.llr)},
        "dcf": {
            "thresholds": short(costs.thresholds, 6),
            "miss": short(costs.miss),
            "nontarget": short(costs.nontarget),
            "spoof": short(costs.spoof),
            "presets": costs.presets,
        },
    }


def _probit(rates: Floats) -> list[float | int | None]:
    """Rates on a probit axis; 0 lies beyond its end."""
    return [round(x, 3) for x in norm.ppf(np.clip(rates, DET_LIMITS[0] / 4, 1 - 1e-9)).tolist()]


def _det_axis() -> dict[str, Any]:
    return {
        "limits": norm.ppf(DET_LIMITS).tolist(),
        "ticks": norm.ppf(DET_TICKS).tolist(),
        "labels": [f"{100 * rate:g}" for rate in DET_TICKS],
    }


def _pair(pair: Pair, labels: Codes) -> dict[str, Any]:
    groups = [labels == code for code in ORDER]
    marginals = [
        histogram(column, groups, limits, MARGINAL_BINS).counts.tolist()
        for column, limits in zip(pair.values, pair.window, strict=True)
    ]
    boundaries = {
        key: {name: [short(x), short(y)] for name, (x, y) in lines.items()}
        for key, lines in (
            ("flat", policy_boundaries(PRESETS["equal"], pair.window)),
            ("mismatched", policy_boundaries(MISMATCHED, pair.window)),
        )
    }
    tandem = tandem_paths(pair.values, labels)
    tandem["paths"] = [
        {name: short(x) if name != "rho" else x for name, x in path.items()}
        for path in tandem["paths"]
    ]
    return {
        "systems": list(pair.systems),
        "is_llr": pair.is_llr,
        "base": pair.base,
        "affine": pair.affine,
        "window": pair.window,
        "marginals": marginals,
        "boundaries": boundaries,
        "tandem": tandem,
    }


def _embedded(pairs: list[Pair], bases: list[Base], labels: Codes) -> dict[str, Any]:
    """Packed trials: a few for the scatter plots, all that fit in for the what-if panel."""
    sample = equal_sample(labels, SAMPLE)
    used = sorted({pair.base for pair in pairs if pair.systems})
    trials = stratified(labels, EMBEDDED // max(len(used), 1))
    return {
        "sample": {
            "sizes": _class_sizes(labels[sample]),
            "bases": [pack(base.values[:, sample]) for base in bases],
        },
        "grid": {
            "points": GRID,
            "bases": [base.system and pack(base_on_grid(base, pairs[0])) for base in bases],
        },
        "trials": {
            "sizes": _class_sizes(labels[trials]) if used else [0, 0, 0],
            "complete": len(trials) == len(labels),
            "bases": [
                pack(base.values[:, trials]) if number in used else None
                for number, base in enumerate(bases)
            ],
        },
    }


def _class_sizes(labels: Codes) -> list[int]:
    return [int((labels == code).sum()) for code in ORDER]
