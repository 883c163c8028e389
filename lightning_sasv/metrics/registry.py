"""The registry: every metric that has a name, how it is called and shown, and what it needs.

A new metric is one entry in :data:`METRICS`. Tables on the terminal, the page, Table 1, the
comparisons and the bootstrap read the entries, so that it appears in all of them. Its function
takes the sorted classes of the trials, each trial with its weight: the value of the trials as they
are is that of weight one, a replicate of the bootstrap that of the weights drawn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from lightning_sasv.checks import (
    ArrayLike,
    Codes,
    EmptyClassError,
    Floats,
    UndefinedMetricError,
    as_labels,
    as_scores,
    as_unpaired,
    check_known,
    check_same_length,
)
from lightning_sasv.decisions.costs import PRESETS, CostModel, as_cost_model
from lightning_sasv.decisions.policy import compared
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.functional.cllr import (
    CllrParts,
    cllr_of,
    cllr_parts_of,
    warn_if_infinite,
)
from lightning_sasv.metrics.functional.cross_entropy import cross_entropy_of, refitted
from lightning_sasv.metrics.functional.dcf import (
    DCF,
    ASVRates,
    Version,
    a_dcf_weights,
    cm_dcf_weights,
    cost_at,
    dcf_of,
    normaliser,
    rates_at_eer,
    t_dcf_of,
)
from lightning_sasv.metrics.functional.eer import Convention, hter_of, rate_of, threshold_of
from lightning_sasv.metrics.functional.points import Classes, Unpaired
from lightning_sasv.metrics.functional.teer import Rule, meeting_of, tandem_eer_of
from lightning_sasv.plugins import Registry
from lightning_sasv.trials import TASKS, FusedScores, TrialClass

Unit = Literal["rate", "bits", "cost", "score", "flag"]
UNITS: Mapping[Unit, int] = {"rate": 0, "bits": 1, "cost": 2, "score": 3, "flag": 4}
"""What a metric is measured in, in the order of the tables."""

Place = Literal["all", "groups", "compared", "results", "page", "cards", "table1"]
"""Where metrics are shown: ``evaluate`` (``all`` of them), its breakdowns (``groups``) and
comparisons (``compared``); after training and fusing (``results``); the report's tables (``page``)
and the best systems above them (``cards``); Table 1."""

Decimals = Mapping[Unit, int]
FULL: Decimals = dict.fromkeys(UNITS, 4)
BRIEF: Decimals = {**FULL, "rate": 2, "bits": 3, "cost": 3}
ON_PAGE: Decimals = {**FULL, "rate": 2, "bits": 3}
"""Decimals of each unit: in ``evaluate``, in short tables, on the page."""

UNDEFINED = "–"
_READABLE = 1e16  # larger numbers have more digits than floats
NO_LLR = "no LLR"
"""Why a score that claims nothing has no actual cost; tables print it in place of the value."""


ASV_POINTS = {
    "voxsrc": ((0.05, 1.0, 1.0),),
    "sre": ((0.01, 1.0, 1.0),),
    "sre16": ((0.01, 1.0, 1.0), (0.005, 1.0, 1.0)),
}
"""Operating points of a verifier's DCF: prior of targets, cost of a miss, of a false acceptance."""


CM_POINTS = {"asvspoof5": (0.05, 1.0, 10.0), "equal": (0.5, 1.0, 1.0)}
"""Operating points of a countermeasure's DCF: prior of spoofs, cost of a miss, of an acceptance."""


@dataclass(frozen=True)
class Settings:
    """What the metrics need beside scores and labels.

    Attributes:
        costs: Costs and priors of the a-DCF.
        tandem_costs: Costs and priors of the t-DCF and of the countermeasure's DCF.
        convention: Of the EERs.
        priors: Cost model whose priors weight the cross-entropy.
        dev_threshold: Threshold of the smallest a-DCF on dev; ``None`` where dev is not known.
        not_llr: Whether the fused score is known to be no log-likelihood ratio, so that it has no
            actual cost.
        asv_points: Prior of targets and costs of a miss and of a false acceptance of the verifier's
            DCF, which is the mean over several such points.
        asv_rates: Fixed error rates of the verifier for the t-DCF, in place of its scores.
        t_eer_rule: How the t-EER is found.
        cm_point: Prior of spoofs and costs of a miss and of a false acceptance of the
            countermeasure's DCF; by default those of ``tandem_costs``.
        carried: Threshold of the EER on the corpus that a system was fitted on, for the HTER.

    Example:
        >>> Settings(convention="rocch").costs.p_target
        0.9
    """

    costs: CostModel = field(default_factory=lambda: PRESETS["a-dcf1"])
    tandem_costs: CostModel = field(default_factory=lambda: PRESETS["asvspoof5"])
    convention: Convention = "asvspoof"
    priors: CostModel = field(default_factory=CostModel)
    dev_threshold: float | None = None
    not_llr: bool = False
    asv_points: tuple[tuple[float, float, float], ...] = ASV_POINTS["voxsrc"]
    asv_rates: ASVRates | None = None
    t_eer_rule: Rule = "interpolated"
    cm_point: tuple[float, float, float] | None = None
    carried: float | None = None

    @property
    def cm_weights(self) -> tuple[float, float]:
        """Weights of the countermeasure's miss rate and false-acceptance rate."""
        if self.cm_point is None:
            return cm_dcf_weights(self.tandem_costs)
        prior, miss, acceptance = self.cm_point
        return miss * (1 - prior), acceptance * prior


DEFAULTS = Settings()
_WHOLE = 1e9
"""What a group weighs, where trials do not count once each."""
_LEAST = 1e6
"""Fractions of smaller sums would show in the rates, which count whole numbers."""

Function: TypeAlias = Callable[[Classes, Settings], float]
"""A metric of sorted classes with weights; an error where it is undefined."""


def number(value: float | None, unit: Unit = "score", decimals: Decimals = FULL) -> str:
    """A value as people read it: rates in per cent, undefined ones as a dash.

    Example:
        >>> number(0.01434, "rate"), number(0.01434, "rate", BRIEF), number(float("nan"))
        ('1.4340', '1.43', '–')
        >>> number(1e300)
        '1.0000e+300'
    """
    if value is None or math.isnan(value):
        return UNDEFINED
    if unit == "flag":
        return "yes" if value else "no"
    if math.isinf(value):
        return UNDEFINED if decimals is not FULL else "∞" if value > 0 else "−∞"
    shown = in_unit(value, unit)
    return f"{shown:.{decimals[unit]}{'f' if abs(shown) < _READABLE else 'e'}}"


def in_unit(value: float, unit: Unit) -> float:
    """A value in the unit it is shown in: rates in per cent, everything else as it is.

    Example:
        >>> in_unit(0.25, "rate"), in_unit(0.25, "cost")
        (25.0, 0.25)
    """
    return 100 * value if unit == "rate" else value


@dataclass(frozen=True)
class Metric:
    r"""One metric.

    Attributes:
        name: Its key in ``metrics.json`` and in the results of ``all_metrics``.
        heading: What tables call it, without its unit.
        unit: What it is measured in; rates are fractions and shown in per cent.
        columns: Scores it is computed from.
        function: Its value, from the sorted classes of these columns and the settings.
        short: Heading of narrow tables; by default ``heading``.
        spoken: What sentences and the page call it; by default ``heading``.
        latex: Heading in LaTeX, where it is not ``heading``.
        meaning: One line of explanation.
        lower_is_better: Its direction; ``None`` for what only describes (a threshold), of which
            there are neither intervals nor comparisons.
        of_llrs: Whether it takes the scores for log-likelihood ratios, and is wanted only if they
            are.
        of_dev: Whether it takes a threshold from dev, and is wanted only if that is known.
        of_spoofs: Whether it is wanted only where there are spoofs.
        of_rates: Whether fixed rates of the verifier do in place of its scores.
        tables: Where it is shown beside ``evaluate``, which shows every metric.
        instead: Metric whose value is shown, and called closest, where this one is undefined.

    Example:
        >>> Metric("trials", "trials", "score", ("sasv",), lambda c, _: c.codes.size).title()
        'trials'
    """

    name: str
    heading: str
    unit: Unit
    columns: tuple[str, ...]
    function: Function
    short: str = ""
    spoken: str = ""
    latex: str = ""
    meaning: str = ""
    lower_is_better: bool | None = True
    of_llrs: bool = False
    of_dev: bool = False
    of_spoofs: bool = False
    of_rates: bool = False
    tables: Collection[Place] = ()
    instead: str | None = None

    def __post_init__(self) -> None:
        for name in ("short", "spoken"):
            object.__setattr__(self, name, getattr(self, name) or self.heading)

    def title(self, unit: str = " %", *, narrow: bool = False) -> str:
        """Its heading, with the unit where it is a rate: ``SASV-EER %``."""
        return (self.short if narrow else self.heading) + (unit if self.unit == "rate" else "")

    def applies(self, llrs: bool, dev: bool) -> bool:
        """Whether it is wanted of scores that are LLRs or not, with dev known or not."""
        return (llrs or not self.of_llrs) and (dev or not self.of_dev)

    def needs(self, settings: Settings) -> set[str]:
        """The columns that it is computed from."""
        fixed = self.of_rates and settings.asv_rates is not None
        return set(self.columns) - ({"asv"} if fixed else set())

    def text(self, value: float | None, decimals: Decimals = FULL) -> str:
        """A value of it as people read it."""
        return number(value, self.unit, decimals)

    def shown(self, values: Mapping[str, Any], decimals: Decimals = FULL) -> str:
        """Its value among others; where it has none that of ``instead``: ``none (closest 1.68)``.

        Example:
            >>> METRICS["t_eer"].shown({"t_eer": math.nan, "t_eer_closest": 0.0168}, BRIEF)
            'none (closest 1.68)'
        """
        value, other = values.get(self.name), values.get(self.instead or "")
        text = self.text(other, decimals)
        if text == UNDEFINED or self.text(value, decimals) != UNDEFINED:
            return self.text(value, decimals)
        return f"none (closest {text})"


def _fact(
    name: str, heading: str, columns: tuple[str, ...], function: Function, unit: Unit = "score"
) -> Metric:
    """What only describes, such as a threshold."""
    return Metric(name, heading, unit, columns, function, lower_is_better=None)


def _eer(task: str, heading: str, **shown: Any) -> tuple[Metric, Metric]:
    """The EER of a detection task, and the threshold at which it is."""

    def rate(classes: Classes, settings: Settings) -> float:
        return rate_of(classes.task(task), settings.convention)

    def threshold(classes: Classes, settings: Settings) -> float:
        return threshold_of(classes.task(task), settings.convention)

    columns = (TASKS[task].column,)
    at = _fact(f"{task}_threshold", f"threshold of {heading}", columns, threshold)
    above = f"scores above it are accepted where the {heading} is"
    eer = Metric(f"{task}_eer", heading, "rate", columns, rate, **shown)
    return eer, replace(at, meaning=above)


def _part(key: str, find: Callable[[Classes, Settings], tuple[Any, ...]], part: str) -> Function:
    """One of several values that are found together."""
    return lambda classes, settings: float(
        getattr(classes.once(key, lambda: find(classes, settings)), part)
    )


def _cllr(task: str, part: str) -> Function:
    def cost(classes: Classes, _: Settings) -> float:
        return classes.once(f"cost {task}", lambda: cllr_of(classes.task(task)))

    def parts(classes: Classes, settings: Settings) -> CllrParts:
        return cllr_parts_of(classes.task(task), cost(classes, settings))

    return cost if part == "cllr" else _part(f"cllr {task}", parts, part)


def _dcf(task: str, part: str) -> Function:
    def find(classes: Classes, settings: Settings) -> DCF:
        if task == "asv":
            weights = [(miss * p, fa * (1 - p)) for p, miss, fa in settings.asv_points]
            costs = [dcf_of(classes.task(task), one) for one in weights]
            mean = [sum(values) / len(costs) for values in zip(*costs, strict=True)]
            return DCF(mean[0], mean[1], costs[0].threshold)
        ways = {"sasv": a_dcf_weights(settings.costs), "cm": settings.cm_weights}
        return dcf_of(classes.task(task), ways[task])

    return _part(f"DCF {task}", find, part)


def _actual(classes: Classes, settings: Settings) -> float:
    """a-DCF of the fused score at −log β̃, the threshold that costs and priors ask of an LLR."""
    if settings.not_llr:
        raise UndefinedMetricError(NO_LLR)
    return _dcf("sasv", "actual")(classes, settings)


def _of_parts(_: Classes, __: Settings) -> float:
    """What :func:`macro_a_dcf` gives for the parts of a test set, which classes do not know."""
    raise UndefinedMetricError("no parts")


def _hter(part: str) -> Function:
    def rates(classes: Classes, settings: Settings) -> tuple[float, ...]:
        if settings.carried is None:
            raise UndefinedMetricError("no threshold of another corpus")
        return hter_of(classes.task("sasv"), settings.carried)

    return _part("HTER", rates, part)


def _at_dev_threshold(classes: Classes, settings: Settings) -> float:
    """a-DCF of the fused score at the threshold that is best on dev."""
    if settings.dev_threshold is None:
        raise UndefinedMetricError("no dev scores")
    weights = a_dcf_weights(settings.costs)
    return cost_at(classes.task("sasv"), weights, settings.dev_threshold) / normaliser(weights)


def _policy(classes: Classes, settings: Settings) -> float:
    """a-DCF of the Bayes rule on the pair: −log[(1−ρ̃) e^(−a) + ρ̃ e^(−c)] > −log β̃.

    It belongs to the pair of LLRs, whatever rule fuses them.
    """
    weights = a_dcf_weights(settings.costs)
    scale = normaliser(weights)

    def scored() -> tuple[Classes, float]:
        asv, cm = classes.columns["asv"], classes.columns["cm"]
        score, threshold = compared(FusedScores(asv, cm, cm), settings.costs)
        return Classes({"sasv": score}, classes.codes), threshold

    own, threshold = classes.for_all_weights("policy", scored)
    drawn = own if classes.weights is None else own.weighted(classes.weights)
    return cost_at(drawn.task("sasv"), weights, threshold) / scale


def _concurrent(classes: Classes, settings: Settings) -> float:
    if settings.t_eer_rule == "reference":
        return tandem_eer_of(classes, "reference").value
    if math.isnan(value := meeting_of(classes)):
        raise UndefinedMetricError("no concurrent point")
    return value


def _t_eer(part: str) -> Function:
    return _part("t-EER", lambda classes, _: tandem_eer_of(classes), part)


def _rate(part: str) -> Function:
    return _part("ASV rates", lambda classes, _: rates_at_eer(classes), part)


def _t_dcf(version: Version) -> Function:
    def value(classes: Classes, settings: Settings) -> float:
        rates = settings.asv_rates or rates_at_eer(classes)
        return t_dcf_of(classes.task("cm"), rates, settings.tandem_costs, version).min

    return value


def _nce(find: Callable[[Classes, CostModel], float]) -> Function:
    return lambda classes, settings: find(classes, settings.priors)


_SASV, _ASV, _CM, _PAIR = ("sasv",), ("asv",), ("cm",), ("asv", "cm")
_COMPARED: tuple[Place, ...] = ("compared",)
_GROUPS: tuple[Place, ...] = ("groups", *_COMPARED)
_SHORT: tuple[Place, ...] = (*_GROUPS, "results", "page")
_FIRST: tuple[Place, ...] = (*_SHORT, "cards", "table1")
_PAPER: tuple[Place, ...] = ("results", "page", "table1")

_ENTRIES = (
    *_eer("sasv", "SASV-EER", meaning="targets against nontargets and spoofs", tables=_FIRST),
    *_eer("sv", "SV-EER", short="SV", meaning="targets against nontargets", tables=_SHORT),
    *_eer("spf", "SPF-EER", short="SPF", meaning="targets against spoofs", tables=_SHORT),
    Metric(
        *("cllr", "Cllr", "bits", _SASV),
        _cllr("sasv", "cllr"),
        latex=r"$C_{\mathrm{llr}}$",
        meaning="cost of the score as a log-likelihood ratio",
        tables=_FIRST,
    ),
    Metric(
        *("cllr_min", "Cllr min", "bits", _SASV),
        _cllr("sasv", "min"),
        short="min",
        latex=r"$C_{\mathrm{llr}}^{\mathrm{min}}$",
        meaning="its part due to discrimination",
        tables=_PAPER,
    ),
    Metric(
        *("cllr_calib", "Cllr calib", "bits", _SASV),
        _cllr("sasv", "calib"),
        short="calib",
        latex=r"$C_{\mathrm{llr}}^{\mathrm{calib}}$",
        meaning="its part due to calibration",
        tables=_PAPER,
    ),
    Metric(
        *("min_a_dcf", "a-DCF min", "cost", _SASV),
        _dcf("sasv", "min"),
        short="a-DCF",
        spoken="min a-DCF",
        meaning="of the fused score, at the threshold that is best on these very trials",
        tables=(*_SHORT, "cards", "table1"),
    ),
    Metric(
        *("dev_a_dcf", "a-DCF at dev threshold", "cost", _SASV),
        _at_dev_threshold,
        short="at dev",
        meaning="of the fused score, at the threshold that is best on dev",
        of_dev=True,
        tables=_PAPER,
    ),
    Metric(
        *("act_a_dcf", "a-DCF actual", "cost", _SASV),
        _actual,
        short="actual",
        spoken="actual a-DCF",
        meaning="of the fused score as a log-likelihood ratio, at the Bayes threshold",
        tables=_PAPER,
    ),
    Metric(
        *("policy_a_dcf", "a-DCF of the policy", "cost", _PAIR),
        _policy,
        short="policy",
        spoken="policy a-DCF",
        meaning="of the Bayes rule on the pair of LLRs; the same for every rule that fuses them",
        of_llrs=True,
        tables=(*_PAPER, "cards"),
    ),
    _fact("macro_a_dcf", "a-DCF min, mean of parts", ("parts",), _of_parts, "cost"),
    _fact("common_a_dcf", "the same at one threshold", ("parts",), _of_parts, "cost"),
    _fact("hter", "HTER at the carried threshold", ("carried",), _hter("pooled"), "rate"),
    _fact("hter_macro", "HTER, macro", ("carried",), _hter("macro"), "rate"),
    _fact("a_dcf_threshold", "threshold of a-DCF min", _SASV, _dcf("sasv", "threshold")),
    *_eer("asv", "ASV EER", meaning="targets against nontargets", tables=_GROUPS),
    Metric("asv_cllr", "ASV Cllr", "bits", _ASV, _cllr("asv", "cllr")),
    Metric("asv_cllr_min", "ASV Cllr min", "bits", _ASV, _cllr("asv", "min")),
    Metric("asv_cllr_calib", "ASV Cllr calib", "bits", _ASV, _cllr("asv", "calib")),
    Metric("asv_min_dcf", "ASV DCF min", "cost", _ASV, _dcf("asv", "min")),
    Metric("asv_act_dcf", "ASV DCF actual", "cost", _ASV, _dcf("asv", "actual")),
    Metric(
        *("iapmr", "IAPMR", "rate", _ASV),
        _rate("fa_spoof"),
        meaning="spoofs that the verifier accepts at its EER threshold (ISO/IEC 30107-3)",
        of_spoofs=True,
    ),
    *_eer("cm", "CM EER", meaning="bona fide speech against spoofs", tables=_GROUPS),
    Metric("cm_cllr", "CM Cllr", "bits", _CM, _cllr("cm", "cllr"), tables=_COMPARED),
    Metric("cm_cllr_min", "CM Cllr min", "bits", _CM, _cllr("cm", "min")),
    Metric("cm_cllr_calib", "CM Cllr calib", "bits", _CM, _cllr("cm", "calib")),
    Metric("cm_min_dcf", "CM DCF min", "cost", _CM, _dcf("cm", "min")),
    Metric("cm_act_dcf", "CM DCF actual", "cost", _CM, _dcf("cm", "actual")),
    Metric(
        *("t_eer", "t-EER", "rate", _PAIR),
        _concurrent,
        meaning="tandem equal error rate of the pair that is fused",
        tables=_GROUPS[:1],
        instead="t_eer_closest",
    ),
    _fact("t_eer_asv_threshold", "t-EER: ASV threshold", _PAIR, _t_eer("asv_threshold")),
    _fact("t_eer_cm_threshold", "t-EER: CM threshold", _PAIR, _t_eer("cm_threshold")),
    _fact("t_eer_residual", "t-EER: residual", _PAIR, _t_eer("residual")),
    _fact("t_eer_exists", "t-EER: concurrent point exists", _PAIR, _t_eer("exists"), "flag"),
    Metric("t_eer_closest", "t-EER, closest point", "rate", _PAIR, _t_eer("closest")),
    _fact("asv_pmiss", "ASV misses at its EER", _PAIR, _rate("miss"), "rate"),
    _fact("asv_pfa", "ASV nontargets accepted there", _PAIR, _rate("fa_nontarget"), "rate"),
    _fact("asv_pfa_spoof", "ASV spoofs accepted there", _PAIR, _rate("fa_spoof"), "rate"),
    Metric("min_t_dcf", "t-DCF min", "cost", _PAIR, _t_dcf("2019"), of_rates=True),
    Metric(
        *("min_t_dcf_legacy", "t-DCF min (2019 challenge)", "cost", _PAIR),
        _t_dcf("legacy"),
        of_rates=True,
    ),
    Metric("nce", "cross-entropy (3 classes)", "bits", _PAIR, _nce(cross_entropy_of), of_llrs=True),
    Metric("nce_min", "cross-entropy min", "bits", _PAIR, _nce(refitted), of_llrs=True),
)

_MEANINGS = {
    "macro_a_dcf": "smallest a-DCF of each part of the trials at its own threshold, their mean",
    "common_a_dcf": "mean over the parts at the one threshold that makes it smallest",
    "hter": "half of misses and false acceptances, at a threshold of another corpus",
    "hter_macro": "the same with nontargets and spoofs counting alike, however many they are",
    "a_dcf_threshold": "scores above it are accepted where the a-DCF is smallest",
    "asv_cllr": "cost of the ASV score as a log-likelihood ratio of target and nontarget",
    "asv_cllr_min": "its part due to discrimination",
    "asv_cllr_calib": "its part due to calibration",
    "asv_min_dcf": "detection cost of the verifier without spoofs, at the best threshold",
    "asv_act_dcf": "the same at the Bayes threshold of the ASV score as a log-likelihood ratio",
    "cm_cllr": "cost of the CM score as a log-likelihood ratio of bona fide and spoof",
    "cm_cllr_min": "its part due to discrimination",
    "cm_cllr_calib": "its part due to calibration",
    "cm_min_dcf": "detection cost of the countermeasure alone, at the best threshold",
    "cm_act_dcf": "the same at the Bayes threshold of the CM score as a log-likelihood ratio",
    "t_eer_asv_threshold": "ASV scores above it are accepted at the point of the t-EER",
    "t_eer_cm_threshold": "CM scores above it are accepted at the point of the t-EER",
    "t_eer_residual": "how far the three error rates are apart at the point of the t-EER",
    "t_eer_exists": "whether a pair of thresholds makes the three error rates equal",
    "t_eer_closest": "the t-EER, or where no pair of thresholds gives it, the closest to one",
    "asv_pmiss": "targets that the verifier rejects at its EER threshold",
    "asv_pfa": "nontargets that the verifier accepts at its EER threshold",
    "asv_pfa_spoof": "spoofs that the verifier accepts at its EER threshold",
    "min_t_dcf": "cost of verifier and countermeasure in tandem, the verifier at its EER (2020 on)",
    "min_t_dcf_legacy": "the same as in the challenge of 2019, without the verifier's own errors",
    "nce": "normalised cross-entropy of the three classes, given both LLRs",
    "nce_min": "the same after the best affine calibration of the LLRs",
}
"""The same in words of those whose entry is one line."""


def as_metric(thing: Any) -> Metric:
    """A metric of another package; what fails in it leaves it undefined, with the reason.

    Raises:
        InputError: It is none.

    Example:
        >>> as_metric("eer")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: it is no Metric
    """
    if not isinstance(thing, Metric):
        raise InputError("it is no Metric")

    def guarded(classes: Classes, settings: Settings) -> float:
        try:
            return float(thing.function(classes, settings))
        except (UndefinedMetricError, EmptyClassError):
            raise
        except Exception as error:
            raise UndefinedMetricError(f"it fails ({type(error).__name__}: {error})") from None

    return replace(thing, function=guarded)


_EXPLAINED = (replace(one, meaning=one.meaning or _MEANINGS[one.name]) for one in _ENTRIES)
METRICS = Registry({one.name: one for one in _EXPLAINED}, "metrics", "metric", as_metric)
"""Every metric, in the order of the results of ``all_metrics``; ``all()`` has those of installed
packages too."""


def metrics_for(place: Place) -> list[Metric]:
    """The metrics of a place in its order: where there are many by unit, else with costs last.

    Example:
        >>> [metric.short for metric in metrics_for("table1")]
        ['SASV-EER', 'Cllr', 'min', 'calib', 'a-DCF', 'at dev', 'actual', 'policy']
    """
    found = [
        metric for metric in METRICS.all().values() if place == "all" or place in metric.tables
    ]
    if place in ("all", "groups", "compared"):
        return sorted(found, key=lambda metric: UNITS[metric.unit])
    return sorted(found, key=lambda metric: metric.unit == "cost")


def resampled(llrs: bool = True, dev: bool = False) -> dict[str, tuple[str, ...]]:
    """Metrics that have a direction, hence intervals and differences, and the columns they need.

    Args:
        llrs: Whether the scores are log-likelihood ratios.
        dev: Whether thresholds of dev are known.

    Example:
        >>> resampled()["t_eer"]
        ('asv', 'cm')
    """
    return {
        metric.name: metric.columns
        for metric in METRICS.all().values()
        if metric.lower_is_better is not None and metric.applies(llrs, dev)
    }


def __getattr__(name: str) -> Any:
    """``COLUMNS``: every metric that has intervals, and the columns of scores it needs."""
    if name == "COLUMNS":
        return resampled()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class Explained(NamedTuple):
    """Values by name, NaN where undefined, and the reason for each of those.

    Example:
        >>> Explained({"act_a_dcf": math.nan}, {"act_a_dcf": NO_LLR}).undefined["act_a_dcf"]
        'no LLR'
    """

    values: dict[str, float]
    undefined: dict[str, str]


def explained(
    names: Sequence[str], classes: Classes, settings: Settings, *, allow_missing: bool = True
) -> Explained:
    """Metrics of sorted classes by name, and why those are NaN that are.

    Example:
        >>> classes = Classes({"asv": np.array([1.0])}, as_labels(["target"]))
        >>> explained(["asv_eer"], classes, DEFAULTS).undefined
        {'asv_eer': 'no nontarget trials: the metric is undefined for an empty class'}
    """
    found = Explained({}, {})
    for name in names:
        try:
            found.values[name] = METRICS[name].function(classes, settings)
        except (UndefinedMetricError, EmptyClassError) as error:
            if isinstance(error, EmptyClassError) and not allow_missing:
                raise
            found.values[name], found.undefined[name] = math.nan, str(error)
    return found


def values_of(names: Sequence[str], classes: Classes, settings: Settings) -> dict[str, float]:
    """Metrics of sorted classes by name; NaN where they are undefined or a class has no weight.

    Example:
        >>> classes = Classes({"asv": np.array([1.0, 0.0])}, as_labels(["target", "nontarget"]))
        >>> values_of(["asv_eer"], classes, DEFAULTS)
        {'asv_eer': 0.0}
    """
    return explained(names, classes, settings).values


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
    """Every metric of :data:`METRICS` that the given columns allow; rates are fractions.

    The t-EER is NaN where no concurrent point exists, the t-DCF where the verifier is too poor for
    it.

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

    Example:
        >>> found = all_metrics(None, None, [3.0, 1.0, 0.0], ["target", "nontarget", "spoof"])
        >>> found["sasv_eer"], found["min_a_dcf"]
        (0.0, 0.0)
    """
    columns = {"asv": asv, "cm": cm, "sasv": sasv}
    given = {name: column for name, column in columns.items() if column is not None}
    settings = Settings(as_cost_model(costs), as_cost_model(tandem_costs), convention)
    found = explained_metrics(given, labels, settings, llrs=llrs, allow_missing=allow_missing)
    return found.values


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
    settings: Settings | None = None,
    reasons: dict[str, dict[str, str]] | None = None,
    unpaired: bool = False,
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
        settings: In place of costs and convention.
        reasons: Takes, by group and metric, why a value is NaN.
        unpaired: As for :func:`explained_metrics`.

    Returns:
        The metrics of :func:`all_metrics` by group, groups in ascending order of their names.

    Raises:
        InputError: As for :func:`all_metrics`, but for classes without trials.

    Example:
        >>> scores, labels = [3.0, 1.0, 0.0, 2.0], ["target", "nontarget", "spoof", "spoof"]
        >>> found = by_group(["-", "-", "A1", "A2"], labels, sasv=scores, attacks=True)
        >>> {attack: metrics["spf_eer"] for attack, metrics in found.items()}
        {'A1': 0.0, 'A2': 0.0}
    """
    columns, kind = _columns(unpaired, asv=asv, cm=cm, sasv=sasv)
    codes, column = as_labels(labels), np.asarray(groups).astype(str)
    check_same_length({**columns, "labels": codes, "groups": column})
    settings = settings or Settings(as_cost_model(costs), as_cost_model(tandem_costs), convention)
    spoof = codes == TrialClass.SPOOF
    results = {}
    for name in np.unique(column[spoof] if attacks else column):
        member = column == name
        chosen = np.flatnonzero(member & spoof | ~spoof if attacks else member)
        part = {key: values[chosen] for key, values in columns.items()}
        found = _evaluate(kind(part, codes[chosen]), settings, llrs, True, bool(spoof.any()))
        results[str(name)] = found.values
        if reasons is not None and found.undefined:
            reasons[str(name)] = found.undefined
    return results


def _columns(
    unpaired: bool = False, **given: ArrayLike | None
) -> tuple[dict[str, Floats], type[Classes]]:
    """Checked columns, and how their classes are made."""
    check = as_unpaired if unpaired else as_scores
    columns = {name: check(x, name) for name, x in given.items() if x is not None}
    if not columns:
        raise InputError("no scores: give at least one of asv, cm, sasv")
    return columns, Unpaired if unpaired else Classes


def explained_metrics(
    columns: Mapping[str, ArrayLike],
    labels: ArrayLike,
    settings: Settings = DEFAULTS,
    *,
    llrs: bool = False,
    allow_missing: bool = False,
    names: Sequence[str] | None = None,
    unpaired: bool = False,
    weights: Floats | None = None,
) -> Explained:
    """Every metric that the columns and settings allow, and a reason for each that is undefined.

    Args:
        columns: Scores by name: ``asv``, ``cm``, ``sasv``.
        labels: ``TrialClass`` codes or words.
        settings: Costs, conventions, the threshold of dev, whether ``sasv`` is no LLR.
        llrs: As for :func:`all_metrics`.
        allow_missing: As for :func:`all_metrics`.
        names: These metrics alone.
        unpaired: Whether verifier and countermeasure scored different trials: a trial has NaN for
            the other's score. t-DCF and t-EER need the distributions of the two only.
        weights: How often each trial counts, a whole number; once by default. Shares must be of a
            large number, as :class:`Balance` has them.

    Raises:
        InputError: As for :func:`all_metrics`, or weights that are something else.

    Example:
        >>> sasv, labels = [3.0, 1.0, 0.0], ["target", "nontarget", "spoof"]
        >>> explained_metrics({"sasv": sasv}, labels, Settings(not_llr=True)).undefined
        {'act_a_dcf': 'no LLR'}
    """
    (given, kind), codes = _columns(unpaired, **columns), as_labels(labels)
    check_same_length({**given, "labels": codes})
    classes = kind(given, codes) if weights is None else _weighted(kind, given, codes, weights)
    if names is not None:
        return explained(names, classes, settings, allow_missing=allow_missing)
    return _evaluate(classes, settings, llrs, allow_missing)


def _weighted(
    kind: type[Classes], columns: Mapping[str, Floats], codes: Codes, weights: ArrayLike
) -> Classes:
    """The classes of trials with weights; those of weight 0 are as if they were not there."""
    counts = as_scores(weights, "weights")
    check_same_length({"labels": codes, "weights": counts})
    total = float(counts.sum())
    if counts.size and not (counts.min() >= 0 and 0 < total < math.inf):
        raise InputError(f"weights must be finite, at least 0 and not all 0, got a sum of {total}")
    if total < _LEAST and (counts % 1).any():
        raise InputError("weights must be whole numbers: how often each trial counts")
    if not counts.all():
        kept = np.flatnonzero(counts)
        columns = {name: column[kept] for name, column in columns.items()}
        codes, counts = codes[kept], counts[kept]
    return kind(columns, codes).weighted(counts)


@dataclass(frozen=True)
class Balance:
    """Weights with which each group counts the same in each class: a large number / trials.

    An error rate is then the mean over groups of the error rate in each (of those that have trials
    of the class); where counts are whole numbers, to nine digits.

    Attributes:
        cells: Group and class of each trial as one number.

    Example:
        >>> weights = Balance.of(["a", "a", "b"], ["target", "target", "target"]).weights()
        >>> (weights / weights.sum()).tolist()
        [0.25, 0.25, 0.5]
    """

    cells: np.ndarray

    @classmethod
    def of(cls, groups: ArrayLike, labels: ArrayLike) -> Balance:
        """The balance of groups, e.g. codecs, and ``TrialClass`` codes or words of trials."""
        codes = as_labels(labels)
        names = np.unique(np.asarray(groups).astype(str), return_inverse=True)[1]
        check_same_length({"groups": names, "labels": codes})
        return cls(names * len(TrialClass) + codes)

    def weights(self, drawn: Any = None) -> Floats:
        """Weight of each trial, of a replicate by how often it was drawn."""
        counts = np.bincount(self.cells, drawn).astype(float)
        share = np.divide(_WHOLE, counts, out=np.zeros_like(counts), where=counts > 0)[self.cells]
        found: Floats = share if drawn is None else share * drawn
        return found


def _evaluate(
    classes: Classes,
    settings: Settings,
    llrs: bool,
    allow_missing: bool,
    spoofs: bool | None = None,
) -> Explained:
    check_known("convention", settings.convention, Convention)
    spoofs = TrialClass.SPOOF in classes.codes if spoofs is None else spoofs
    names = [
        metric.name
        for metric in METRICS.all().values()
        if metric.needs(settings) <= classes.columns.keys()
        and metric.applies(llrs, settings.dev_threshold is not None)
        and (spoofs or not metric.of_spoofs)
    ]
    found = explained(names, classes, settings, allow_missing=allow_missing)
    for name, task in (("cllr", "sasv"), ("asv_cllr", "asv"), ("cm_cllr", "cm")):
        if math.isinf(found.values.get(name, 0.0)):
            positive, *negatives = (part.values for part in classes.task(task).parts)
            warn_if_infinite(math.inf, positive, np.concatenate(negatives))
    return found
