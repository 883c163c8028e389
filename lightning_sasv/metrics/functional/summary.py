"""Every metric that the given columns allow, of all trials or by groups of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    EmptyClassError,
    Floats,
    UndefinedMetricError,
    as_labels,
    as_scores,
    check_not_empty,
    check_same_length,
    select,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.cllr import cllr_decomposition
from lightning_sasv.metrics.functional.cross_entropy import cross_entropy
from lightning_sasv.metrics.functional.dcf import a_dcf, cm_dcf
from lightning_sasv.metrics.functional.eer import Convention, eer
from lightning_sasv.metrics.functional.families import Settings
from lightning_sasv.metrics.functional.tdcf import Version, t_dcf
from lightning_sasv.metrics.functional.teer import t_eer
from lightning_sasv.trials import TrialClass


def all_metrics(
    asv: ArrayLike | None,
    cm: ArrayLike | None,
    sasv: ArrayLike | None,
    labels: ArrayLike,
    costs: CostModel | str = "a-dcf1",
    *,
    tandem_costs: CostModel | str = "asvspoof5",
    convention: Convention = "asvspoof",
    llrs: bool = False,
    allow_missing: bool = False,
) -> dict[str, float]:
    """Every metric that the given columns allow; rates are fractions.

    - from ``sasv``: ``sasv_eer``, ``sv_eer``, ``spf_eer`` (thresholds ``sasv_threshold`` and so
      on), ``cllr``, ``cllr_min``, ``cllr_calib``, ``min_a_dcf``, ``act_a_dcf``,
      ``a_dcf_threshold``;
    - from ``asv``: ``asv_eer``, ``asv_threshold``;
    - from ``cm``: ``cm_eer``, ``cm_threshold``, ``cm_cllr``, ``cm_cllr_min``, ``cm_cllr_calib``,
      ``cm_min_dcf``, ``cm_act_dcf``;
    - from ``asv`` and ``cm``: ``t_eer`` (NaN where no concurrent point exists), ``t_eer_closest``,
      ``t_eer_residual``, ``t_eer_exists`` (1 or 0), ``t_eer_asv_threshold``,
      ``t_eer_cm_threshold``, ``min_t_dcf``, ``min_t_dcf_legacy`` (NaN where the verifier is too
      poor for a t-DCF); with ``llrs`` also ``nce`` and ``nce_min``.

    Args:
        asv: ASV score of each trial, or ``None``.
        cm: CM score of each trial, or ``None``.
        sasv: Fused score of each trial, or ``None``.
        labels: ``TrialClass`` codes or words.
        costs: Costs and priors of the a-DCF, or the name of a preset.
        tandem_costs: The same of the t-DCF and of the countermeasure's DCF.
        convention: Of the EERs.
        llrs: Whether ``asv`` and ``cm`` are log-likelihood ratios, as cross-entropy needs.
        allow_missing: Give NaN for metrics of a class without trials, instead of an error.

    Returns:
        Values by name.

    Raises:
        InputError: No column at all, lengths that differ, a NaN, or a class without trials.
    """
    given = {"asv": asv, "cm": cm, "sasv": sasv}
    columns = {name: as_scores(x, name) for name, x in given.items() if x is not None}
    if not columns:
        raise InputError("no scores: give at least one of asv, cm, sasv")
    codes = as_labels(labels)
    check_same_length({**columns, "labels": codes})
    settings = Settings(as_cost_model(costs), as_cost_model(tandem_costs), convention)
    return _evaluate(columns, codes, settings, llrs, allow_missing)


def by_group(
    groups: ArrayLike,
    labels: ArrayLike,
    *,
    asv: ArrayLike | None = None,
    cm: ArrayLike | None = None,
    sasv: ArrayLike | None = None,
    attacks: bool = False,
    costs: CostModel | str = "a-dcf1",
    tandem_costs: CostModel | str = "asvspoof5",
    convention: Convention = "asvspoof",
    llrs: bool = False,
) -> dict[str, dict[str, float]]:
    """Every metric of each group of trials; NaN where a group lacks a class.

    Args:
        groups: Group of each trial: its attack, its enrolled speaker, or any column.
        labels: ``TrialClass`` codes or words.
        asv: ASV score of each trial, or ``None``.
        cm: CM score of each trial, or ``None``.
        sasv: Fused score of each trial, or ``None``.
        attacks: Whether the groups are attacks: then the groups are those of the spoofs, and each
            is joined by the targets and nontargets of all trials.
        costs: As for :func:`all_metrics`.
        tandem_costs: As for :func:`all_metrics`.
        convention: As for :func:`all_metrics`.
        llrs: As for :func:`all_metrics`.

    Returns:
        The metrics of :func:`all_metrics` by group, groups in ascending order of their names.

    Raises:
        InputError: As for :func:`all_metrics`, but for classes without trials.
    """
    codes, column = as_labels(labels), np.asarray(groups).astype(str)
    given = {"asv": asv, "cm": cm, "sasv": sasv}
    columns = {name: as_scores(x, name) for name, x in given.items() if x is not None}
    if not columns:
        raise InputError("no scores: give at least one of asv, cm, sasv")
    check_same_length({**columns, "labels": codes, "groups": column})
    spoof = codes == TrialClass.SPOOF
    names = np.unique(column[spoof] if attacks else column)
    settings = Settings(as_cost_model(costs), as_cost_model(tandem_costs), convention)
    results = {}
    for name in names:
        member = column == name
        chosen = np.flatnonzero(member & spoof | ~spoof if attacks else member)
        part = {key: values[chosen] for key, values in columns.items()}
        results[str(name)] = _evaluate(part, codes[chosen], settings, llrs, True)
    return results


class _Part(NamedTuple):
    """Metrics that are computed together.

    Attributes:
        names: Their names, in the order of the values.
        columns: Columns of scores they need.
        values: Their values from the columns, the codes and the settings.
    """

    names: tuple[str, ...]
    columns: tuple[str, ...]
    values: Callable[[Mapping[str, Floats], Codes, Settings], tuple[float, ...]]


def _evaluate(
    columns: Mapping[str, Floats],
    codes: Codes,
    settings: Settings,
    llrs: bool,
    allow_missing: bool,
) -> dict[str, float]:
    result: dict[str, float] = {}
    for part in (*_PARTS, *(_LLR_PARTS if llrs else ())):
        if not set(part.columns) <= set(columns):
            continue
        try:
            values = part.values(columns, codes, settings)
        except UndefinedMetricError:
            values = (math.nan,) * len(part.names)
        except EmptyClassError:
            if not allow_missing:
                raise
            values = (math.nan,) * len(part.names)
        result |= {name: float(x) for name, x in zip(part.names, values, strict=True)}
    return result


def _task(
    column: str, positive: Sequence[TrialClass], negative: Sequence[TrialClass]
) -> Callable[[Mapping[str, Floats], Codes, Settings], tuple[float, ...]]:
    """EER and threshold of some classes against others, each of which must have trials."""

    def values(
        columns: Mapping[str, Floats], codes: Codes, settings: Settings
    ) -> tuple[float, ...]:
        pos, neg = (
            select(columns[column], codes, positive),
            select(columns[column], codes, negative),
        )
        return eer(pos, neg, convention=settings.convention)

    return values


def _bona_fide(scores: Floats, codes: Codes) -> tuple[Floats, Floats]:
    present = [member for member in (*_TAR, *_NON) if (codes == member).any()]
    check_not_empty(np.array(present), "bona fide (target or nontarget) trials")
    return select(scores, codes, present), select(scores, codes, _SPF)


def _cllr(columns: Mapping[str, Floats], codes: Codes, settings: Settings) -> tuple[float, ...]:
    scores = columns["sasv"]
    return cllr_decomposition(select(scores, codes, _TAR), select(scores, codes, _NON + _SPF))


def _a_dcf(columns: Mapping[str, Floats], codes: Codes, settings: Settings) -> tuple[float, ...]:
    return a_dcf(columns["sasv"], codes, settings.costs)


def _cm(columns: Mapping[str, Floats], codes: Codes, settings: Settings) -> tuple[float, ...]:
    pos, neg = _bona_fide(columns["cm"], codes)
    rate = eer(pos, neg, convention=settings.convention)
    cost = cm_dcf(pos, neg, settings.tandem_costs)
    return (*rate, *cllr_decomposition(pos, neg), cost.min, cost.actual)


def _t_eer(columns: Mapping[str, Floats], codes: Codes, settings: Settings) -> tuple[float, ...]:
    return t_eer(columns["asv"], columns["cm"], codes)


def _t_dcf(
    version: Version,
) -> Callable[[Mapping[str, Floats], Codes, Settings], tuple[float, ...]]:
    def values(
        columns: Mapping[str, Floats], codes: Codes, settings: Settings
    ) -> tuple[float, ...]:
        scores = columns["asv"], columns["cm"]
        return (t_dcf(*scores, codes, settings.tandem_costs, version=version).min,)

    return values


def _nce(columns: Mapping[str, Floats], codes: Codes, settings: Settings) -> tuple[float, ...]:
    return cross_entropy(columns["asv"], columns["cm"], codes, settings.priors)


_TAR, _NON, _SPF = (TrialClass.TARGET,), (TrialClass.NONTARGET,), (TrialClass.SPOOF,)
_CM_NAMES = ("cm_eer", "cm_threshold", "cm_cllr", "cm_cllr_min", "cm_cllr_calib")
_T_EER_NAMES = (
    "t_eer",
    "t_eer_asv_threshold",
    "t_eer_cm_threshold",
    "t_eer_residual",
    "t_eer_exists",
    "t_eer_closest",
)
_PARTS = (
    _Part(("sasv_eer", "sasv_threshold"), ("sasv",), _task("sasv", _TAR, _NON + _SPF)),
    _Part(("sv_eer", "sv_threshold"), ("sasv",), _task("sasv", _TAR, _NON)),
    _Part(("spf_eer", "spf_threshold"), ("sasv",), _task("sasv", _TAR, _SPF)),
    _Part(("cllr", "cllr_min", "cllr_calib"), ("sasv",), _cllr),
    _Part(("min_a_dcf", "act_a_dcf", "a_dcf_threshold"), ("sasv",), _a_dcf),
    _Part(("asv_eer", "asv_threshold"), ("asv",), _task("asv", _TAR, _NON)),
    _Part((*_CM_NAMES, "cm_min_dcf", "cm_act_dcf"), ("cm",), _cm),
    _Part(_T_EER_NAMES, ("asv", "cm"), _t_eer),
    _Part(("min_t_dcf",), ("asv", "cm"), _t_dcf("2019")),
    _Part(("min_t_dcf_legacy",), ("asv", "cm"), _t_dcf("legacy")),
)
_LLR_PARTS = (_Part(("nce", "nce_min"), ("asv", "cm"), _nce),)
