"""Metrics by name, over the columns of scores that they need."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    Floats,
    as_labels,
    as_scores,
    check_same_length,
)
from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.dcf import a_dcf_weights, cm_dcf_weights
from lightning_sasv.metrics.functional.eer import Convention, check_convention
from lightning_sasv.metrics.functional.sorted_trials import SortedTrials
from lightning_sasv.metrics.functional.weighted import DetectionFamily, Family, eer_kinds
from lightning_sasv.metrics.functional.weighted_pair import (
    CrossEntropyFamily,
    TandemCostFamily,
    TandemFamily,
)
from lightning_sasv.metrics.functional.windowed import MANY, MOST, WindowedFamily
from lightning_sasv.metrics.registry import resampled
from lightning_sasv.trials import TrialClass

SASV_METRICS = {
    "eer": "sasv_eer",
    "eer_0": "sv_eer",
    "eer_1": "spf_eer",
    "cllr": "cllr",
    "cllr_min": "cllr_min",
    "cllr_calib": "cllr_calib",
    "min_dcf": "min_a_dcf",
    "act_dcf": "act_a_dcf",
}
ASV_METRICS = {"eer": "asv_eer"}
CM_METRICS = {
    "eer": "cm_eer",
    "cllr": "cm_cllr",
    "cllr_min": "cm_cllr_min",
    "cllr_calib": "cm_cllr_calib",
    "min_dcf": "cm_min_dcf",
    "act_dcf": "cm_act_dcf",
}
TANDEM_METRICS = ("t_eer", "t_eer_closest")
TANDEM_COST_METRICS = ("min_t_dcf", "min_t_dcf_legacy")
CROSS_ENTROPY_METRICS = ("nce", "nce_min")

COLUMNS: Mapping[str, tuple[str, ...]] = resampled()
"""Every metric that has a name, and the columns of scores it needs."""


@dataclass(frozen=True)
class Settings:
    """What the metrics need beside scores and labels.

    Attributes:
        costs: Costs and priors of the a-DCF.
        tandem_costs: Costs and priors of the t-DCF and of the countermeasure's DCF.
        convention: Of the EERs.
        priors: Cost model whose priors weight the cross-entropy.
    """

    costs: CostModel = field(default_factory=lambda: PRESETS["a-dcf1"])
    tandem_costs: CostModel = field(default_factory=lambda: PRESETS["asvspoof5"])
    convention: Convention = "asvspoof"
    priors: CostModel = field(default_factory=CostModel)


DEFAULTS = Settings()


def build_families(
    names: Sequence[str], columns: Mapping[str, Floats], codes: Codes, settings: Settings
) -> list[Family]:
    """Sort what the named metrics need, once, each column for all of its metrics together.

    Args:
        names: Metrics wanted.
        columns: Scores by column name (``sasv``, ``asv``, ``cm``), checked.
        codes: ``TrialClass`` codes.
        settings: Costs and conventions.

    Returns:
        Functions of the trials' weights that give values by name.

    Raises:
        InputError: An unknown metric, or a column that is missing.
    """
    check_convention(settings.convention)
    for name in names:
        check_metric(name, columns)
    trials = SortedTrials(columns, codes)
    return [*_detections(names, trials, settings), *_pair_families(names, trials, settings)]


def _detections(names: Sequence[str], trials: SortedTrials, settings: Settings) -> Iterator[Family]:
    """The families of one column each."""
    target, nontarget, spoof = TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF
    weights_a, weights_cm = a_dcf_weights(settings.costs), cm_dcf_weights(settings.tandem_costs)
    tasks: tuple[_Task, ...] = (
        _Task(SASV_METRICS, "sasv", ((target,), (nontarget,), (spoof,)), weights_a),
        _Task(ASV_METRICS, "asv", ((target,), (nontarget,)), (1.0, 1.0)),
        _Task(CM_METRICS, "cm", ((target, nontarget), (spoof,)), weights_cm),
    )
    for task in tasks:
        wanted = {what: name for what, name in task.names.items() if name in names}
        if wanted:
            yield _detection(task, wanted, trials, settings.convention)


class _Task(NamedTuple):
    """A detection task: its metrics, its column, and its classes, the positives first."""

    names: Mapping[str, str]
    column: str
    classes: tuple[tuple[TrialClass, ...], ...]
    weights: tuple[float, ...]


def _detection(
    task: _Task, wanted: Mapping[str, str], trials: SortedTrials, convention: Convention
) -> Family:
    rates = eer_kinds(wanted, len(task.classes) - 1)
    scores = trials.columns[task.column]
    if scores.size > MANY and convention != "rocch" and len(rates) == len(wanted):
        positive, *negatives = (trials.mask(*members) for members in task.classes)
        if all(mask.any() for mask in (positive, *negatives)):
            windowed = WindowedFamily(scores, positive, tuple(negatives), wanted, convention)
            if windowed.share < MOST:
                return windowed
    first, *others = (trials.of(task.column, *members) for members in task.classes)
    return DetectionFamily(first, others, wanted, task.weights, convention)


def _pair_families(
    names: Sequence[str], trials: SortedTrials, settings: Settings
) -> Iterator[Family]:
    """The families of the ASV and the CM score."""
    wanted = set(names)
    if wanted & set(TANDEM_METRICS):
        yield TandemFamily(trials, closest="t_eer_closest" in wanted)
    if wanted & set(TANDEM_COST_METRICS):
        yield TandemCostFamily(trials, settings.tandem_costs)
    if wanted & set(CROSS_ENTROPY_METRICS):
        columns = trials.columns["asv"], trials.columns["cm"]
        yield CrossEntropyFamily(*columns, trials.codes, settings.priors, "nce_min" in wanted)


def check_metric(name: str, columns: Mapping[str, object]) -> None:
    """Raise an error unless the metric is known and its columns are there."""
    if name not in COLUMNS:
        raise InputError(f"unknown metric {name!r}; expected one of {', '.join(COLUMNS)}")
    missing = [column for column in COLUMNS[name] if column not in columns]
    if missing:
        raise InputError(f"metric {name!r} needs the scores {missing}, got {sorted(columns)}")


def as_columns(
    scores: ArrayLike | Mapping[str, ArrayLike], names: Sequence[str], labels: ArrayLike
) -> tuple[dict[str, Floats], Codes]:
    """Checked columns of scores by name, and the labels.

    Args:
        scores: Columns by name (``sasv``, ``asv``, ``cm``); or one column, for metrics that need
            one; or a pair (asv, cm), for metrics that need both.
        names: Metrics wanted.
        labels: ``TrialClass`` codes or words.

    Returns:
        The columns and the codes, all of one length.
    """
    if not isinstance(scores, Mapping):
        for name in names:
            check_metric(name, dict.fromkeys(("sasv", "asv", "cm")))
        needed = {column: None for name in names for column in COLUMNS[name]}
        if set(needed) == {"asv", "cm"}:
            if len(scores) != 2:
                raise InputError(f"metrics {list(names)} need a pair of columns (asv, cm)")
            scores = {"asv": scores[0], "cm": scores[1]}
        elif len(needed) == 1:
            scores = {next(iter(needed)): scores}
        else:
            raise InputError(f"metrics {list(names)} need the columns {sorted(needed)} by name")
    columns = {name: as_scores(values, name) for name, values in scores.items()}
    codes = as_labels(labels)
    check_same_length({**columns, "labels": codes})
    return columns, codes
