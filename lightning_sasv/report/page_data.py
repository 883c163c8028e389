"""Everything that the page draws, as plain JSON values and packed arrays."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes
from lightning_sasv.report.curves import Material, histogram
from lightning_sasv.report.description import Figure, Panel, Series, styles
from lightning_sasv.report.figures import COSTS, SAMPLE, WORDS
from lightning_sasv.report.planes import GRID, Pair, base_on_grid, equal_sample, stratified
from lightning_sasv.trials import CLASS_ORDER

EMBEDDED = 308_000
"""Pairs in the page at most, about 3.3 MB: three for each trial of SASV 2022 eval."""
SAMPLED = 240_000
"""Pairs of a sample of the trials, where not all fit in: there are many systems then, and the page
with their curves stays smaller than 5 MB."""

MARGINAL_BINS = 48


def pack(values: Any) -> str:
    """Little-endian float32 values as base64."""
    return base64.b64encode(np.ascontiguousarray(values, dtype="<f4").tobytes()).decode("ascii")


Arrays = dict[str, int]
"""Packed arrays and their numbers; equal ones are stored once."""


def _number(values: Any, arrays: Arrays) -> int:
    """Number of an array, which is stored if it is new."""
    return arrays.setdefault(pack(values), len(arrays))


def page_data(material: Material, figures: Sequence[Figure]) -> dict[str, Any]:
    """Data of the page: descriptions of the figures, and trials for what is computed in it."""
    results = material.results
    arrays: Arrays = {}
    return {
        "split": results.split,
        "sizes": [results.sizes[results.split][code] for code in CLASS_ORDER],
        "classes": [str(code) for code in CLASS_ORDER],
        "styles": {name: style._asdict() for name, style in styles().items()},
        "systems": [
            {"name": name, "pair": material.pair_of(name), "eer": det["sasv"].eer}
            for name, det in material.det.items()
        ],
        "chosen": material.chosen,
        "presets": {n: model.as_dict() for n, model in (COSTS | material.cost_models).items()},
        "costs": material.own_costs[0],
        "policies": WORDS["policies"],
        "parts": WORDS["parts"],
        "pairs": [_pair(pair, results.scores.label) for pair in material.pairs],
        "figures": {figure.name: _figure(figure, arrays) for figure in figures},
        "arrays": list(arrays),
        **_embedded(material),
    }


def _figure(figure: Figure, arrays: Arrays) -> dict[str, Any]:
    """A figure without its tables, which the page holds as such."""
    drawn = [p for p in figure.panels if p.only != "file" and p.series[0].kind != "cells"]
    panels = [_panel(panel, arrays) for panel in drawn]
    about = {"title": figure.title, "caption": figure.caption, "choices": dict(figure.choices)}
    return about | {"panels": panels}


def _panel(panel: Panel, arrays: Arrays) -> dict[str, Any]:
    plain = {f.name: getattr(panel, f.name) for f in fields(panel) if f.name != "only"}
    return plain | {
        "x": panel.x._asdict(),
        "y": panel.y._asdict(),
        "series": [_series(series, arrays) for series in panel.series],
        "below": None if panel.below is None else _panel(panel.below, arrays),
    }


def _series(series: Series, arrays: Arrays) -> dict[str, Any]:
    """A series without what is empty; the page makes what has a source itself."""
    plain = {f.name: getattr(series, f.name) for f in fields(series) if f.name not in "xyz"}
    found = {name: value for name, value in plain.items() if value not in ("", None, {}, ())}
    if "more" in found:
        found["more"] = {name: _number(values, arrays) for name, values in series.more.items()}
    if series.source is None:
        found |= {"x": _number(series.x, arrays), "y": _number(series.y, arrays)}
    return found


def _pair(pair: Pair, labels: Codes) -> dict[str, Any]:
    marginals = [
        histogram([column[labels == code] for code in CLASS_ORDER], limits, MARGINAL_BINS).tolist()
        for column, limits in zip(pair.values, pair.window, strict=True)
    ]
    return {k: v for k, v in pair._asdict().items() if k != "values"} | {"marginals": marginals}


def _embedded(material: Material) -> dict[str, Any]:
    """Packed trials: a few for the scatter plots, all that fit in for the what-if panel."""
    labels = material.results.scores.label
    sample = equal_sample(labels, SAMPLE)
    used = sorted({pair.base for pair in material.pairs if pair.systems})
    all_fit = len(labels) * len(used) <= EMBEDDED
    trials = stratified(labels, len(labels) if all_fit else min(EMBEDDED, SAMPLED) // len(used))
    window = material.pairs[0].window
    return {
        "sample": {
            "sizes": _class_sizes(labels[sample]),
            "bases": [pack(base.values[:, sample]) for base in material.bases],
        },
        "grid": {
            "points": GRID,
            "bases": [base.system and pack(base_on_grid(base, window)) for base in material.bases],
        },
        "trials": {
            "sizes": _class_sizes(labels[trials]) if used else [0, 0, 0],
            "complete": len(trials) == len(labels),
            "bases": [
                pack(base.values[:, trials]) if number in used else None
                for number, base in enumerate(material.bases)
            ],
        },
    }


def _class_sizes(labels: NDArray[Any]) -> list[int]:
    return [int((labels == code).sum()) for code in CLASS_ORDER]
