"""The registry: every metric that has a name, how it is called and shown, and what it needs.

A new metric is one entry in :data:`METRICS`. Tables on the terminal, the page, Table 1, the
comparisons and the bootstrap read the entries, so that it appears in all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["rate", "bits", "cost", "score", "flag"]
UNITS: Mapping[Unit, int] = {"rate": 0, "bits": 1, "cost": 2, "score": 3, "flag": 4}
"""What a metric is measured in, in the order of the tables."""

Place = Literal["all", "groups", "compared", "results", "page", "cards", "table1"]
"""Where metrics are shown: ``evaluate`` (``all`` of them), its breakdowns (``groups``) and
comparisons (``compared``); after training and fusing (``results``); the report's tables (``page``)
and the best systems above them (``cards``); Table 1."""

Decimals = Mapping[Unit, int]
FULL: Decimals = dict.fromkeys(UNITS, 4)
BRIEF: Decimals = FULL | {"rate": 2, "bits": 3, "cost": 3}
ON_PAGE: Decimals = FULL | {"rate": 2, "bits": 3}
"""Decimals of each unit: in ``evaluate``, in short tables, on the page."""

UNDEFINED = "–"


def number(value: float | None, unit: Unit = "score", decimals: Decimals = FULL) -> str:
    """A value as people read it: rates in per cent, undefined ones as a dash.

    Example:
        >>> number(0.01434, "rate"), number(0.01434, "rate", BRIEF), number(float("nan"))
        ('1.4340', '1.43', '–')
    """
    if value is None or math.isnan(value):
        return UNDEFINED
    if unit == "flag":
        return "yes" if value else "no"
    if math.isinf(value):
        return UNDEFINED if decimals is not FULL else "∞" if value > 0 else "−∞"
    return f"{in_unit(value, unit):.{decimals[unit]}f}"


def in_unit(value: float, unit: Unit) -> float:
    """A value in the unit it is shown in: rates in per cent, everything else as it is."""
    return 100 * value if unit == "rate" else value


@dataclass(frozen=True)
class Metric:
    r"""One metric.

    Attributes:
        name: Its key in ``metrics.json`` and in the results of ``all_metrics``.
        heading: What tables call it, without its unit.
        unit: What it is measured in; rates are fractions and shown in per cent.
        columns: Scores it is computed from.
        short: Heading of narrow tables; by default ``heading``.
        spoken: What sentences and the page call it; by default ``heading``.
        latex: Heading in LaTeX, where it is not ``heading``.
        meaning: One line of explanation.
        lower_is_better: Its direction; ``None`` for what only describes (a threshold), of which
            there are neither intervals nor comparisons.
        of_llrs: Whether it takes the scores for log-likelihood ratios, and is wanted only if they
            are.
        tables: Where it is shown beside ``evaluate``, which shows every metric.
        instead: Metric whose value is shown, with a mark, where this one is undefined.
    """

    name: str
    heading: str
    unit: Unit
    columns: tuple[str, ...]
    short: str = ""
    spoken: str = ""
    latex: str = ""
    meaning: str = ""
    lower_is_better: bool | None = True
    of_llrs: bool = False
    tables: frozenset[Place] = field(default_factory=frozenset)
    instead: str | None = None

    def __post_init__(self) -> None:
        for name in ("short", "spoken"):
            object.__setattr__(self, name, getattr(self, name) or self.heading)

    def title(self, unit: str = " %", *, narrow: bool = False) -> str:
        """Its heading, with the unit where it is a rate: ``SASV-EER %``."""
        return (self.short if narrow else self.heading) + (unit if self.unit == "rate" else "")

    def text(self, value: float | None, decimals: Decimals = FULL) -> str:
        """A value of it as people read it."""
        return number(value, self.unit, decimals)


def _metrics(*entries: Metric) -> dict[str, Metric]:
    return {entry.name: entry for entry in entries}


def _threshold(name: str, heading: str, *columns: str) -> Metric:
    return Metric(name, heading, "score", columns, lower_is_better=None)


def _places(*places: Place) -> frozenset[Place]:
    return frozenset(places)


_SASV, _ASV, _CM, _PAIR = ("sasv",), ("asv",), ("cm",), ("asv", "cm")
_SHORT = _places("groups", "compared", "results", "page")
_PAPER = _places("results", "page", "table1")

METRICS: dict[str, Metric] = _metrics(
    Metric(
        *("sasv_eer", "SASV-EER", "rate", _SASV),
        meaning="targets against nontargets and spoofs",
        tables=_SHORT | _places("cards", "table1"),
    ),
    _threshold("sasv_threshold", "threshold of SASV-EER", "sasv"),
    Metric(
        *("sv_eer", "SV-EER", "rate", _SASV),
        short="SV",
        meaning="targets against nontargets",
        tables=_SHORT,
    ),
    _threshold("sv_threshold", "threshold of SV-EER", "sasv"),
    Metric(
        *("spf_eer", "SPF-EER", "rate", _SASV),
        short="SPF",
        meaning="targets against spoofs",
        tables=_SHORT,
    ),
    _threshold("spf_threshold", "threshold of SPF-EER", "sasv"),
    Metric(
        *("cllr", "Cllr", "bits", _SASV),
        latex=r"$C_{\mathrm{llr}}$",
        meaning="cost of the score as a log-likelihood ratio",
        tables=_SHORT | _places("cards", "table1"),
    ),
    Metric(
        *("cllr_min", "Cllr min", "bits", _SASV),
        short="min",
        latex=r"$C_{\mathrm{llr}}^{\mathrm{min}}$",
        meaning="its part due to discrimination",
        tables=_PAPER,
    ),
    Metric(
        *("cllr_calib", "Cllr calib", "bits", _SASV),
        short="calib",
        latex=r"$C_{\mathrm{llr}}^{\mathrm{calib}}$",
        meaning="its part due to calibration",
        tables=_PAPER,
    ),
    Metric(
        *("min_a_dcf", "a-DCF min", "cost", _SASV),
        short="a-DCF",
        spoken="min a-DCF",
        meaning="at the best threshold, costs a-dcf1",
        tables=_SHORT | _places("cards"),
    ),
    Metric(
        *("act_a_dcf", "a-DCF actual", "cost", _SASV),
        spoken="actual a-DCF",
        meaning="at the Bayes threshold, costs a-dcf1",
        tables=_places("page", "cards"),
    ),
    _threshold("a_dcf_threshold", "threshold of a-DCF min", "sasv"),
    Metric("asv_eer", "ASV EER", "rate", _ASV, tables=_places("groups", "compared")),
    _threshold("asv_threshold", "threshold of ASV EER", "asv"),
    Metric("cm_eer", "CM EER", "rate", _CM, tables=_places("groups", "compared")),
    _threshold("cm_threshold", "threshold of CM EER", "cm"),
    Metric("cm_cllr", "CM Cllr", "bits", _CM, tables=_places("compared")),
    Metric("cm_cllr_min", "CM Cllr min", "bits", _CM),
    Metric("cm_cllr_calib", "CM Cllr calib", "bits", _CM),
    Metric("cm_min_dcf", "CM DCF min", "cost", _CM),
    Metric("cm_act_dcf", "CM DCF actual", "cost", _CM),
    Metric(
        *("t_eer", "t-EER", "rate", _PAIR),
        meaning="tandem equal error rate of the pair that is fused",
        tables=_PAPER | _places("groups"),
        instead="t_eer_closest",
    ),
    _threshold("t_eer_asv_threshold", "t-EER: ASV threshold", *_PAIR),
    _threshold("t_eer_cm_threshold", "t-EER: CM threshold", *_PAIR),
    Metric("t_eer_residual", "t-EER: residual", "score", _PAIR, lower_is_better=None),
    Metric("t_eer_exists", "t-EER: concurrent point exists", "flag", _PAIR, lower_is_better=None),
    Metric("t_eer_closest", "t-EER, closest point", "rate", _PAIR),
    Metric("min_t_dcf", "t-DCF min", "cost", _PAIR),
    Metric("min_t_dcf_legacy", "t-DCF min (2019 challenge)", "cost", _PAIR),
    Metric("nce", "cross-entropy (3 classes)", "bits", _PAIR, of_llrs=True),
    Metric("nce_min", "cross-entropy min", "bits", _PAIR, of_llrs=True),
)
"""Every metric, in the order of the results of ``all_metrics``."""


def metrics_for(place: Place) -> list[Metric]:
    """The metrics of a place in its order: where there are many by unit, else with costs last.

    Example:
        >>> [metric.title() for metric in metrics_for("table1")]
        ['SASV-EER %', 'Cllr', 'Cllr min', 'Cllr calib', 't-EER %']
    """
    found = [metric for metric in METRICS.values() if place == "all" or place in metric.tables]
    if place in ("all", "groups", "compared"):
        return sorted(found, key=lambda metric: UNITS[metric.unit])
    return sorted(found, key=lambda metric: metric.unit == "cost")


def resampled(llrs: bool = True) -> dict[str, tuple[str, ...]]:
    """Metrics that have a direction, hence intervals and differences, and the columns they need.

    Args:
        llrs: Whether the scores are log-likelihood ratios.
    """
    return {
        metric.name: metric.columns
        for metric in METRICS.values()
        if metric.lower_is_better is not None and (llrs or not metric.of_llrs)
    }
