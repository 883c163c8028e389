"""Figures of how sure results are: paired differences, errors of speakers, cost over priors."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.decisions import CostModel
from lightning_sasv.metrics.functional import a_dcf
from lightning_sasv.metrics.registry import METRICS, in_unit
from lightning_sasv.metrics.speakers import SpeakerErrors, zoo
from lightning_sasv.report.curves import Material
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared

RHO = 2 / 3
"""Spoof share, weighted by cost, of the figure of costs: that of the costs a-dcf1."""
NAMED = 0.1
"""Speakers with a larger share of all misses are named."""
TAUS = np.unique([*np.linspace(-6, 6, 25), 0.511])


def forest(material: Material) -> Figure | None:
    """Differences to the reference with their intervals, a panel for each metric."""
    sure, panels = material.sure, []
    for metric in dict.fromkeys(one.metric for one in sure.comparisons):
        entry, best = METRICS[metric], sure.reference[metric]
        rows: list[tuple[float, float, float, str, float]] = []
        for one in sure.against(metric):
            sign = 1 if one.second == best else -1
            name = one.first if sign > 0 else one.second
            low, high = sorted(sign * in_unit(v, entry.unit) for v in (one.low, one.high))
            value = sign * in_unit(one.difference, entry.unit)
            rows.append((value, low, high, name, one.p_adjusted))
        rows.sort(reverse=True)
        ends = [0.0, *(v for row in rows for v in row[:3] if math.isfinite(v))]
        margin = 0.05 * (max(ends) - min(ends)) + 1e-9
        x = Axis(
            min(*ends, 0) - margin, max(*ends, 0) + margin, f"{entry.title()} − that of {best}"
        )
        ticks = [(k, f"{name}, p {p:.2g}") for k, (*_, name, p) in enumerate(rows)]
        series = [Series("rule", "zero", [0.0])]
        for k, (value, low, high, *_) in enumerate(rows):
            series += [
                Series("line", "second", [low, high], [k, k]),
                Series("points", "total", [value], [k], hover="{x:.3f}"),
            ]
        height = 70 + 28.0 * len(rows)
        y = Axis(-0.6, len(rows) - 0.4, "", ticks)
        of, title = {"metric": metric}, entry.spoken
        panels.append(Panel(x, y, series, title, of=of, height=(0, height, height)))
    if not panels:
        return None
    words, names = shared()["words"]["forest"], {p.of["metric"]: p.title for p in panels}
    size = (4.4, 1.2 + 0.24 * len(panels[0].y.ticks or ()))
    data = [one.as_dict() | {"drawn": " ".join(one.drawn)} for one in sure.comparisons]
    choices = {"metric": names}
    return Figure("forest", "Paired differences", panels, words, choices, 3, size, data=data)


def speakers(material: Material) -> Figure | None:
    """Rates of errors of every enrolled speaker at the threshold of all, a row for each system."""
    scores = material.results.scores
    if scores.speaker is None:
        return None
    found = {
        name: zoo(column, scores.label, scores.speaker, material.det[name]["sasv"].threshold)
        for name, column in material.results.fused.items()
    }
    ticks = list(enumerate(reversed(found)))
    y, height = Axis(-0.6, len(ticks) - 0.2, "", ticks), 70 + 30.0 * len(ticks)
    panels = []
    for style, (key, title) in zip(("target", "spoof"), _ERRORS.items(), strict=True):
        rates = {name: np.array([_rate(one, key) for one in own]) for name, own in found.items()}
        high = 1.06 * max(1.0, *(float(rate.max()) for rate in rates.values()))
        series = []
        for at, name in ticks:
            number = np.array([sum(_counts(one, key)) for one in found[name]], float)
            hover = f"{name}: {{x:.1f}} % of {{trials:.0f}} trials"
            dots = Series("points", style, rates[name], np.full(rates[name].size, float(at)))
            series.append(replace(dots, hover=hover, more={"trials": number}))
        x, of = Axis(-0.02 * high, high, f"{title}, per cent"), {"error": key}
        panels.append(Panel(x, y, series, title, of=of, height=(0, height, height)))
    data = [{"system": name, **one._asdict()} for name, own in found.items() for one in own]
    caption, size = (
        shared()["words"]["speakers"].format(named=_named(found)),
        (4.6, 0.9 + height / 110),
    )
    return Figure(
        "speakers",
        "Errors of each speaker",
        panels,
        caption,
        {"error": _ERRORS},
        2,
        size,
        data=data,
    )


_ERRORS = {"misses": "targets rejected", "accepted": "nontargets and spoofs accepted"}


def _counts(one: SpeakerErrors, key: str) -> tuple[int, ...]:
    """Trials that an error can happen in."""
    return (one.targets,) if key == "misses" else (one.nontargets, one.spoofs)


def _rate(one: SpeakerErrors, key: str) -> float:
    wrong = one.misses if key == "misses" else one.accepted_nontargets + one.accepted_spoofs
    return 100 * wrong / max(sum(_counts(one, key)), 1)


def _named(found: Mapping[str, list[SpeakerErrors]]) -> str:
    """Speakers with a large share of the misses, by system."""
    lines = []
    for name, own in found.items():
        total = sum(one.misses for one in own)
        worst = sorted(own, key=lambda one: -one.misses)
        large = [f"{one.speaker} {one.misses}" for one in worst if one.misses > NAMED * total]
        if large:
            lines.append(f"{name} {', '.join(large)} of {total}")
    return "; ".join(lines) or "none"


def costs_at(scores: Floats, labels: Codes, taus: Floats = TAUS) -> Floats:
    """Actual and smallest normalised a-DCF at thresholds τ = −log β̃ and spoof share ρ̃ = 2/3."""
    rows = []
    for tau in taus:
        beta = math.exp(-tau)  # C π of targets over that of all others
        target = beta / (1 + beta)
        priors = (target, (1 - target) * (1 - RHO), (1 - target) * RHO)
        found = a_dcf(scores, labels, CostModel(1.0, 1.0, 1.0, *priors))
        rows.append((found.actual, found.min))
    return np.array(rows).T


def operating_points(material: Material) -> Figure:
    """Actual and smallest cost of every system over operating points; between them its loss."""
    labels = ("τ = −log β̃", "normalised a-DCF")
    x, y = Axis(-6.4, 6.4, labels[0]), Axis(0, 1.1, labels[1])
    panels, data = [], []
    for name, scores in material.results.fused.items():
        actual, least = costs_at(scores, material.results.scores.label)
        hover = "τ {x:.2f}: actual {y:.3f}, minimum {least:.3f}"
        first = Series("line", "actual", TAUS, actual.clip(max=2), "actual", hover=hover)
        edge = np.concatenate([TAUS, TAUS[::-1]]), np.concatenate([actual, least[::-1]])
        series = [
            replace(first, more={"least": least}),
            Series("line", "best", TAUS, least, "minimum"),
            Series("area", "actual", edge[0], edge[1].clip(max=2), "calibration loss"),
        ]
        panels.append(Panel(x, y, series, name, of={"system": name}))
        rows = zip(TAUS.tolist(), actual.tolist(), least.tolist(), strict=True)
        data += [{"system": name, "tau": t, "actual": a, "minimum": m} for t, a, m in rows]
    words = shared()["words"]["operating_points"]
    title = "Cost over operating points"
    return Figure("operating_points", title, panels, words, labels=labels, data=data)
