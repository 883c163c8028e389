"""What the numbers of an evaluation are defined by: read from the command line, and told."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

import numpy as np

from lightning_sasv.decisions import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.systems import Systems
from lightning_sasv.files import is_file, read_yaml
from lightning_sasv.metrics.functional import ASVSPOOF5_RATES, ASVRates, eer
from lightning_sasv.metrics.functional.dcf import rates_at_eer
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import ASV_POINTS, CM_POINTS, Settings
from lightning_sasv.scores import read_table
from lightning_sasv.trials import TASKS

LITTLE = 0.5
"""Least Cllr below which scores tell trials apart."""
MANY = 2000
"""Distinct scores that are enough for an EER without a word on ties."""
Points = tuple[tuple[float, float, float], ...]


def words_in(text: str | None) -> tuple[str, ...]:
    """Words of a list with commas; none where there is none.

    Example:
        >>> words_in("attack, codec"), words_in(None)
        (('attack', 'codec'), ())
    """
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def read_points(text: str) -> Points:
    """Operating points of the verifier's DCF: a preset, or prior of targets and two costs.

    Example:
        >>> read_points("0.02,1,1")
        ((0.02, 1.0, 1.0),)
    """
    return ASV_POINTS.get(text) or (_point("--dcf", text, "targets", ASV_POINTS),)


def read_cm_point(text: str | None) -> tuple[float, float, float] | None:
    """Operating point of the countermeasure's DCF: a preset, or prior of spoofs and two costs.

    Example:
        >>> read_cm_point("asvspoof5")
        (0.05, 1.0, 10.0)
    """
    if text is None:
        return None
    return CM_POINTS.get(text) or _point("--cm-dcf", text, "spoofs", CM_POINTS)


def _point(option: str, text: str, whose: str, known: Iterable[str]) -> tuple[float, float, float]:
    numbers = _numbers(text)
    if len(numbers) != 3 or not 0 < numbers[0] < 1 or min(numbers[1:]) <= 0:
        raise InputError(
            f"{option} {text}: expected {', '.join(known)}, or the prior of {whose} and the "
            "costs of a miss and of a false acceptance, e.g. 0.05,1,1"
        )
    return numbers[0], numbers[1], numbers[2]


def read_rates(text: str | None) -> ASVRates | None:
    """Fixed rates of a verifier: a preset, three numbers, a file of them or of its scores.

    Example:
        >>> read_rates("0.02,0.02,0.4")
        ASVRates(miss=0.02, fa_nontarget=0.02, fa_spoof=0.4)
    """
    if text is None:
        return None
    if text == "asvspoof5":
        return ASVSPOOF5_RATES
    numbers = _numbers(text)
    if not numbers and is_file(text):
        numbers = _rates_in(text)
    if len(numbers) != 3 or not all(0 <= one <= 1 for one in numbers):
        raise InputError(
            f"--asv-rates {text}: expected asvspoof5, three rates (misses, accepted nontargets, "
            "accepted spoofs, e.g. 0.02,0.02,0.46), a JSON or YAML file with miss, fa_nontarget "
            "and fa_spoof, or a file of ASV scores"
        )
    return ASVRates(*numbers)


def _numbers(text: str) -> list[float]:
    try:
        return [float(one) for one in text.split(",")]
    except ValueError:
        return []


def _rates_in(path: str) -> list[float]:
    """Rates that a file says, or those of ASV scores at their EER."""
    if Path(path).suffix in (".json", ".yaml", ".yml"):
        content = read_yaml(path)
        found = (
            [content.get(name) for name in ASVRates._fields] if isinstance(content, dict) else []
        )
        return [float(one) for one in found if isinstance(one, (int, float))]
    table = read_table(path, role="asv")
    scores = Classes({"asv": table.numbers("asv_score")}, table.labels().astype(np.int8))
    return [*rates_at_eer(scores)]


def definitions(settings: Settings, shown: Collection[str], costs: str) -> list[str]:
    """What the metrics that are shown are, one phrase each.

    Args:
        settings: Costs, rates and conventions.
        shown: Names of the metrics.
        costs: What the costs of the a-DCF are called.
    """
    rates = settings.asv_rates
    points = " and ".join(f"{p:g} ({miss:g}, {fa:g})" for p, miss, fa in settings.asv_points)
    verifier = f"fixed rates {rates.miss:.4g}, {rates.fa_nontarget:.4g}, {rates.fa_spoof:.4g}" if (
        rates) else "at its EER"  # fmt: skip
    phrases = {
        "eer": f"EERs: {settings.convention} convention",
        "cllr": "Cllr in bits",
        "a_dcf": f"a-DCF costs {costs}",
        "asv_min_dcf": f"ASV DCF: prior of targets (costs of miss, false acceptance) {points}",
        "cm_min_dcf": _of_countermeasure(settings),
        "min_t_dcf": f"t-DCF: ASV-constrained (2020 on), ASV {verifier}",
        "min_t_dcf_legacy": "t-DCF of the 2019 challenge: without the ASV's own errors",
        "t_eer": "t-EER: " + (
            "reference rule, ρ 0.5" if settings.t_eer_rule == "reference" else "interpolated"),
    }  # fmt: skip
    exact = {name for name in phrases if name.count("_") and name not in ("a_dcf",)}
    return [
        phrase
        for name, phrase in phrases.items()
        if (name in shown if name in exact else any(one.endswith(name) for one in shown))
    ]


def _of_countermeasure(settings: Settings) -> str:
    if settings.cm_point is None:
        return f"CM DCF and t-DCF: {_described(settings.tandem_costs)}"
    prior, miss, acceptance = settings.cm_point
    return (
        f"CM DCF: prior of spoofs {prior:g}, costs {miss:g}, {acceptance:g}; t-DCF: "
        f"{_described(settings.tandem_costs)}"
    )


def _described(costs: CostModel) -> str:
    return (
        f"costs {costs.c_miss:g}, {costs.c_fa_nontarget:g}, {costs.c_fa_spoof:g}, priors "
        f"{costs.p_target:g}, {costs.p_nontarget:g}, {costs.p_spoof:g}"
    )


def doubts(
    metrics: Mapping[str, Mapping[str, float]], scored: Systems, settings: Settings
) -> list[str]:
    """What speaks against scores being what they are taken for.

    Args:
        metrics: Metrics by system.
        scored: The systems on their trials.
        settings: Whether fused scores are known to be no LLRs.
    """
    notes = []
    for name, own in metrics.items():
        not_llr = scored.settings_of(name, settings).not_llr
        for role, scores in scored.columns[name].items():
            rate = own.get(f"{role}_eer", 0.0)
            if rate > 0.5 and eer(*(-one for one in _sides(role, scores, scored.labels)))[0] < 0.5:
                notes.append(
                    f"{name}: {role.upper()} EER {100 * rate:.2f} %: the sign may be reversed: "
                    f"--negate {role}"
                )
            notes += _ties(name, role, scores, scored.labels)
            notes += _no_llrs(name, role, own, scores) if not not_llr else []
    return notes


def _sides(role: str, scores: np.ndarray, labels: np.ndarray) -> list[np.ndarray]:
    """Scores that should be high, and those that should be low."""
    there = ~np.isnan(scores)
    return [scores[there & np.isin(labels, one)] for one in TASKS[role][1:]]


def _ties(name: str, role: str, scores: np.ndarray, labels: np.ndarray) -> list[str]:
    """A word on scores that take few values: trials of one value cannot be told apart."""
    there = scores[~np.isnan(scores)]
    values = np.unique(there)
    if values.size >= MANY or values.size > there.size / 3:
        return []
    sides = _sides(role, scores, labels)
    positive, negative = (np.searchsorted(values, one).astype(float) for one in sides)
    if not (positive.size and negative.size):
        return []
    low, high = (100 * eer(positive + shift, negative)[0] for shift in (0.25, -0.25))
    many = "1 distinct value" if values.size == 1 else f"{values.size:,} distinct values"
    return [
        f"{name}: {role} scores have {many} on {there.size:,} trials: by "
        f"how ties are broken the {role.upper()} EER lies between {low:.2f} and {high:.2f} %"
    ]


def _no_llrs(name: str, role: str, own: Mapping[str, float], scores: np.ndarray) -> list[str]:
    """A word on scores that tell trials apart but are no log-likelihood ratios."""
    prefix = "" if role == "sasv" else f"{role}_"
    cost, least = (own.get(f"{prefix}{part}", np.nan) for part in ("cllr", "cllr_min"))
    if not (cost > 1 and least < LITTLE):
        return []
    remedy = "its actual a-DCF says little; --not-llr leaves it out" if role == "sasv" else (
        f"it may be a likelihood ratio: --log {role}" if np.nanmin(scores) > 0 else
        "its actual DCF says little")  # fmt: skip
    title = "Cllr" if role == "sasv" else f"{role.upper()} Cllr"
    return [
        f"{name}: {title} {cost:.3g} though Cllr min is {least:.3g}: the score is no "
        f"log-likelihood ratio, {remedy}"
    ]
