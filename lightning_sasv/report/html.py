"""The report: one HTML file with everything in it, which asks for nothing from the network.

What the page draws is in it as plain JSON values and packed arrays.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from html import escape
from pathlib import Path
from string import Template
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lightning_sasv import __version__
from lightning_sasv.checks import Codes
from lightning_sasv.files import finite
from lightning_sasv.metrics.functional import Settings, all_metrics
from lightning_sasv.metrics_file import blocks, of_in, twin_words, values_in
from lightning_sasv.places import stamp
from lightning_sasv.record import Origin, Trials, set_entry, set_title
from lightning_sasv.report import html_tables
from lightning_sasv.report.curves import Material, histogram
from lightning_sasv.report.decided import decided_section
from lightning_sasv.report.description import Figure, Panel, Series, page_part, shared, styles
from lightning_sasv.report.figures import COSTS, SAMPLE, WORDS
from lightning_sasv.report.formats import folded
from lightning_sasv.report.html_tables import Shown
from lightning_sasv.report.planes import (
    GRID,
    Pair,
    base_on_grid,
    equal_sample,
    stratified,
)
from lightning_sasv.report.sections import transfer_section, worth_section
from lightning_sasv.results import Results, set_entries
from lightning_sasv.scores.table import from_scores
from lightning_sasv.trials import CLASS_ORDER

SCRIPTS = ("svg", "data", "planes", "painter", "whatif", "panel", "main")
NAMED = 4
"""Systems that the heading names at most."""
EMBEDDED = 308_000
"""Pairs in the page at most, about 3.3 MB: three for each trial of SASV 2022 eval."""
SAMPLED = 240_000
"""Pairs of a sample of the trials, where not all fit in: there are many systems then, and the page
with their curves stays smaller than 5 MB."""

MARGINAL_BINS = 48


def render_page(
    material: Material, figures: Sequence[Figure], pages: Mapping[Path, Path] | None = None
) -> str:
    """The page as text.

    Args:
        material: What it is of.
        figures: Its figures.
        pages: Where the pages of the seeds of a table are, by folder; its own among them.
    """
    results = _with_metrics(material.results)
    data = page_data(material, figures)
    script = "\n".join(
        ["(() => {", '"use strict";', *(page_part(f"{name}.js") for name in SCRIPTS), "})();"]
    )
    shown = {
        "systems": bool(results.systems),
        "attacks": bool(material.attacks),
        "simulated": results.simulated,
    }
    template = _only(page_part("template.html"), shown)
    name, source = results.folder.resolve().name, results.source.name
    tables = {figure.name: html_tables.cells_table(figure) for figure in figures}
    more = [figure for figure in figures if f'="{figure.name}"' not in template]
    counts = {"embedded": sum(data["trials"]["sizes"]), "all": sum(data["sizes"])}
    counts |= {"split": escape(results.split)}
    return Template(template).substitute(
        heading=escape(_heading(results)),
        stamp=stamp("report", results.folder),
        scores=" ".join(f"{split}:{digest}" for split, digest in results.digests.items()),
        policy=_policy(script),
        style=palette() + page_part("style.css"),
        links="".join(f'<a href="#{f.name}">{escape(f.title)}</a>' for f in more),
        corpus=_corpus(results),
        notes="".join(f'<p class="notice">{escape(note)}</p>' for note in results.notes),
        cards="" if results.parts else html_tables.best_systems(_shown(results, material)),
        tables=_tables(results, material),
        tandem=html_tables.tandem_table(Shown(results.shown, results.split, [*results.fused])),
        scale=escape("; ".join(twin_words(results.shown)).removeprefix("simulated, ")),
        counted=WORDS["counted"][data["trials"]["complete"]].format(**counts),
        presets="".join(
            f'<button type="button" data-preset="{p}">{p}</button>' for p in material.cost_models
        ),
        split=escape(results.split),
        attacks_table=tables.get("attacks", ""),
        sampled="{:,} target, {:,} nontarget and {:,} spoof".format(*data["sample"]["sizes"]),
        sample=SAMPLE,
        more="".join(_section(figure, tables[figure.name]) for figure in more),
        version=__version__,
        convention=escape(html_tables.words_of(results, "eer_convention")),
        seeds=_seeds(results.source, pages or {}),
        made_from=escape(name if results.source == results.folder else f"{name}, folder {source}"),
        cost_models="; ".join(
            WORDS["costs"].format(name=n, m=m) for n, m in material.cost_models.items()
        ),
        data=as_json(data),
        script=script,
    )


def _heading(results: Results) -> str:
    """``L3c on twin (simulated)``; many systems by their number."""
    names = list(results.fused)
    systems = ", ".join(names) if len(names) <= NAMED else f"{len(names)} systems"
    return f"{systems} on {results.about}" if results.corpora else systems


def as_json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in; NaN and infinity become null."""
    text = json.dumps(finite(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _only(text: str, shown: Mapping[str, bool]) -> str:
    """A text without the parts that begin with ``<!-- if name -->`` and are not to be shown."""
    part = re.compile(r"<!-- if (\w+) -->(.*?)<!-- end -->", re.DOTALL)
    return part.sub(lambda found: found[2] if shown[found[1]] else "", text)


def palette() -> str:
    """The colours of the figures as variables of the style sheet."""
    light, dark = (
        "".join(f"--{name}:{pair[k]};" for name, pair in shared()["palette"].items())
        for k in (0, 1)
    )
    return (
        f":root{{{light}}}\n@media (prefers-color-scheme: dark){{:root{{{dark}}}}}\n"
        f"@media print{{:root{{{light}}}}}\n"
    )


def _policy(script: str) -> str:
    """Nothing may be fetched, and no script may run but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _section(figure: Figure, table: str) -> str:
    """The place of a figure that the template does not name: the chosen panel, or all of them."""
    name = escape(figure.name)
    chosen = len(figure.panels) == 1 or any(panel.of for panel in figure.panels)
    place = 'class="plot-host" data-figure' if chosen else 'class="panels" data-grid'
    chips = f'<div class="chips" data-chips="{name}" role="radiogroup"></div>'
    return (
        f'<section id="{name}"><h2>{escape(figure.title)}</h2><div class="bar-row">'
        f'{chips if figure.choices else ""}<div data-legend="{name}"></div></div>'
        f'<figure><div {place}="{name}"></div><figcaption>{escape(figure.caption)}</figcaption>'
        f"</figure>{table}</section>"
    )


def _seeds(own: Path, pages: Mapping[Path, Path]) -> str:
    """What lets choose between the pages of the seeds of a table."""
    if len(pages) < 2:
        return ""
    options = []
    for folder, page in pages.items():
        place = escape(Path(os.path.relpath(page, pages[own].parent)).as_posix())
        chosen = " selected" if folder == own else ""
        name = folder.name.removeprefix("seed")
        options.append(f'<option value="{place}"{chosen}>{escape(name)}</option>')
    return f'<label class="chooser">seed <select id="seed">{"".join(options)}</select></label>'


def _with_metrics(results: Results) -> Results:
    """The same with metrics of the shown set computed where ``metrics.json`` lacks them."""
    metrics, scores = dict(results.metrics), results.scores
    for name, fused in results.fused.items():
        known, system = metrics.get(name, {}), results.systems.get(name)
        if values_in(known, results.split):
            continue
        corpus = of_in(known, results.split)["corpus"]
        of = Trials(from_scores(scores, results.source)), Origin(corpus)
        if system is None:
            values = all_metrics(None, None, fused, scores.label)
            entry = set_entry({"sasv": fused}, values, *of, Settings())
        else:
            own = {name: system.of(scores)._replace(sasv=fused)}
            entry = set_entries(own, *of, systems=results.systems)[name]
        metrics[name] = known | {"sets": known.get("sets", {}) | {results.split: entry}}
    return replace(results, metrics=metrics)


def _corpus(results: Results) -> str:
    items = []
    for corpus in results.corpora or ["not named in metrics.json"]:
        mark = " class='simulated'" if results.simulated else ""
        note = f" ({'; '.join(twin_words(results.shown))})" if results.simulated else ""
        items.append(f"<li{mark}>corpus: {escape(corpus)}{note}</li>")
    if seeds := [path.name.removeprefix("seed") for path in results.of_seeds] or results.seeds:
        items.append(f"<li>training seed{'s' * (len(seeds) > 1)} {escape(', '.join(seeds))}</li>")
    for split, (spoof, target, nontarget) in results.sizes.items():
        of = next((of for _, _, of in blocks(results.metrics, split)), {})
        items.append(
            f"<li>{escape(set_title(split, of))}: {target + nontarget + spoof:,} trials "
            f"({target:,} target, {nontarget:,} nontarget, {spoof:,} spoof)</li>"
        )
    return "".join(items)


def _shown(results: Results, material: Material) -> Shown:
    """The values that the page is about."""
    names = [name for name in results.fused if name in results.shown]
    sure, whole = material.sure, bool(results.whole)
    return Shown(results.shown, results.split, names, sure, whole, material.paper and whole)


def _tables(results: Results, material: Material) -> str:
    shown = _shown(results, material)
    parts = [html_tables.metrics_table(shown)]
    others = {f"The same on {split}": (results.shown, split) for split in results.sizes}
    del others[f"The same on {results.split}"]
    if results.whole:
        others[f"The same of {results.source.name} alone"] = (results.metrics, results.split)
    for title, (metrics, split) in others.items():
        if any(values_in(metrics.get(name, {}), split) for name in shown.names):
            table = html_tables.metrics_table(Shown(metrics, split, shown.names))
            parts.append(folded(title, table))
    parts += [html_tables.of_table(results), html_tables.fitted_table(results)]
    parts.append(decided_section(results))
    parts += [worth_section(results.source), transfer_section(results.source)]
    if results.table is not None and not results.whole:
        parts.append(f"<h3>Over all seeds</h3>{html_tables.markdown_table(results.table)}")
    return "".join(parts)


# Data


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
