"""Figures of how sure results are: paired differences, and errors of each speaker."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lightning_sasv.metrics.comparisons import Comparison
from lightning_sasv.metrics.registry import METRICS, in_unit
from lightning_sasv.metrics.speakers import SpeakerErrors, zoo
from lightning_sasv.report.curves import Material
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared

NAMED = 0.1
"""Speakers with a larger share of all misses are named."""
FAR = 8
"""Differences beyond so many times the middle one lie on the edge of the forest."""


class _Difference(NamedTuple):
    """A row of the forest: a system minus the reference, in the unit that is shown."""

    value: float
    low: float
    high: float
    name: str
    p: float
    needed: float


def _differences(
    comparisons: Sequence[Comparison], metric: str, reference: str
) -> dict[str, _Difference]:
    """Differences to the reference by system."""
    found, unit = {}, METRICS[metric].unit
    for one in comparisons:
        if one.metric != metric or reference not in (one.first, one.second):
            continue
        sign = 1 if one.second == reference else -1
        name = one.first if sign > 0 else one.second
        low, high = sorted(sign * in_unit(end, unit) for end in (one.low, one.high))
        value = sign * in_unit(one.difference, unit)
        found[name] = _Difference(value, low, high, name, one.p_adjusted, one.speakers_needed)
    return found


def forest(material: Material) -> Figure | None:
    """Differences to the reference with their intervals, a panel for each metric.

    Of a table the thick line is that of the speakers alone, the thin one that of seeds × speakers.
    """
    sure, panels = material.sure, []
    for metric in dict.fromkeys(one.metric for one in sure.comparisons):
        best = sure.reference[metric]
        rows = sorted(_differences(sure.comparisons, metric, best).values(), reverse=True)
        panels.append(_forest(metric, best, rows, _differences(sure.of_speakers, metric, best)))
    if not panels:
        return None
    words, names = shared()["words"]["forest"], {p.of["metric"]: p.title for p in panels}
    size = (4.4, 1.2 + 0.24 * len(panels[0].y.ticks or ()))
    data = [
        one.as_dict() | {"drawn": " ".join(one.drawn), "speakers_needed": one.speakers_needed}
        for one in (*sure.comparisons, *sure.of_speakers)
    ]
    choices = {"metric": names}
    return Figure("forest", "Paired differences", panels, words, choices, 3, size, data=data)


def _forest(
    metric: str, best: str, rows: Sequence[_Difference], still: Mapping[str, _Difference]
) -> Panel:
    low, high = _reach(rows)
    edge = 0.015 * (high - low)
    x = Axis(low, high, f"{METRICS[metric].title()} − that of {best}")
    series = [Series("rule", "zero", [0.0])]
    for k, row in enumerate(rows):
        own = still.get(row.name)
        ends, at = (np.clip(one, low + edge, high - edge) for one in (row[1:3], row.value))
        line = Series("line", "diagonal" if own else "total", ends, [k, k])
        hover = f"{row.value:.3g} [{row.low:.3g}, {row.high:.3g}]"
        series += [line, Series("points", "total", [at], [k], hover=hover)]
        if own is not None:
            thick = np.clip((own.low, own.high), low + edge, high - edge)
            series.append(Series("line", "total", thick, [k, k]))
    height = 70 + 28.0 * len(rows)
    y = Axis(-0.6, len(rows) - 0.4, "", [(k, row.name) for k, row in enumerate(rows)])
    beside = [(k, _beside(row, low <= row.value <= high)) for k, row in enumerate(rows)]
    title, of = METRICS[metric].spoken, {"metric": metric}
    return Panel(x, y, series, title, of=of, height=(0, height, height), beside=beside)


def _reach(rows: Sequence[_Difference]) -> tuple[float, float]:
    """Ends of the axis: a system that is far worse than most is not to hide what is near 0."""
    far = [max(abs(end) for end in (row.value, row.low, row.high)) for row in rows]
    limit = FAR * float(np.nanmedian(far))
    near = [end for row in rows for end in (row.value, row.low, row.high) if abs(end) <= limit]
    low, high = min(0.0, *near), max(0.0, *near)
    margin = 0.05 * (high - low) + 1e-9
    return low - margin, high + margin


def _beside(row: _Difference, inside: bool) -> str:
    """``p 0.14, ≥ 380 speakers``; the difference of a mark that lies on the edge."""
    text = f"p {row.p:.2g}" if inside else f"{row.value:+.3g}, p {row.p:.2g}"
    if not math.isfinite(row.needed):
        return text
    return f"{text}, ≥ {float(f'{row.needed:.2g}'):,.0f} speakers"


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
            large = np.sqrt(number / max(float(number.max()), 1.0))
            series.append(replace(dots, hover=hover, more={"trials": number, "size": large}))
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
