"""The report: one HTML file with everything in it, which asks for nothing from the network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from lightning_sasv import __version__
from lightning_sasv.decisions import POLICIES, PRESETS
from lightning_sasv.files import finite, write_text
from lightning_sasv.metrics.functional import all_metrics
from lightning_sasv.report.html_tables import (
    attacks_table,
    best_systems,
    markdown_table,
    metrics_table,
)
from lightning_sasv.report.page_data import SAMPLE, page_data
from lightning_sasv.results import Results

SCRIPTS = ("svg", "data", "planes", "figures", "panels", "whatif", "panel", "main")
PRIORS = {
    "p_target": "π<sub>tar</sub>, target",
    "p_nontarget": "π<sub>non</sub>, nontarget",
    "p_spoof": "π<sub>spf</sub>, spoof",
    "rho": "ρ = π<sub>spf</sub> / (π<sub>non</sub> + π<sub>spf</sub>)",
}
COSTS = {
    "c_miss": "C<sub>miss</sub>, rejected target",
    "c_fa_nontarget": "C<sub>fa,non</sub>, accepted nontarget",
    "c_fa_spoof": "C<sub>fa,spf</sub>, accepted spoof",
}
POLICY_NAMES = {"bayes": "Bayes (nonlinear)", "linear": "linear", "utility": "utility"}
LINKS = {
    "results": "Results",
    "whatif": "What if",
    "distributions": "Distributions",
    "planes": "Planes",
    "det-section": "DET",
    "calibration": "Calibration",
    "tandem": "t-EER",
    "costs": "a-DCF",
    "about": "About",
}
SIMULATED = (
    "The corpus is the twin: a simulation with the sizes and score statistics of SASV 2022. These "
    "numbers say nothing about real speech."
)


def write_page(path: str | Path, results: Results) -> Path:
    """Write the page of a folder of results, atomically."""
    return write_text(path, render_page(results))


def render_page(results: Results) -> str:
    """The page as text."""
    results = _with_metrics(results)
    data = page_data(results)
    script = "\n".join(["(() => {", '"use strict";', *(_part(f"{n}.js") for n in SCRIPTS), "})();"])
    return Template(_part("template.html")).substitute(
        title=escape(f"SASV report: {results.folder.resolve().name}"),
        heading=escape(results.folder.resolve().name),
        policy=_policy(script),
        style=_part("style.css"),
        links=_links(results),
        corpus=_corpus(results),
        notes="".join(f'<p class="notice">{escape(note)}</p>' for note in results.notes),
        cards=best_systems(results),
        tables=_tables(results),
        whatif=_whatif(data) if results.systems else "",
        split=escape(results.split),
        attacks_figure=_ATTACKS if data["attacks"] else "",
        attacks_table=attacks_table(data),
        sampled=_sampled(data),
        simplex=_SIMPLEX if results.systems else "",
        about=_about(results, data),
        data=as_json(data),
        script=script,
    )


def as_json(data: Mapping[str, Any]) -> str:
    """JSON that cannot end the script element it stands in; NaN and infinity become null."""
    text = json.dumps(finite(data), separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _part(name: str) -> str:
    return (files("lightning_sasv.report") / "page" / name).read_text(encoding="utf-8").strip()


def _policy(script: str) -> str:
    """Nothing may be fetched, and no script may run but ours."""
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _with_metrics(results: Results) -> Results:
    """The same with metrics of the shown set computed where ``metrics.json`` lacks them."""
    metrics = dict(results.metrics)
    for name, fused in results.fused.items():
        if metrics.get(name, {}).get(results.split):
            continue
        system = results.systems.get(name)
        labels = results.scores.label
        if system is None:
            found = all_metrics(None, None, fused, labels)
        else:
            pair = system(results.scores.asv, results.scores.cm)
            found = all_metrics(pair.asv_llr, pair.cm_llr, fused, labels)
        metrics[name] = dict(metrics.get(name, {})) | {results.split: found}
    return replace(results, metrics=metrics)


def _links(results: Results) -> str:
    shown = {key: text for key, text in LINKS.items() if key != "whatif" or results.systems}
    return "".join(f'<a href="#{key}">{escape(text)}</a>' for key, text in shown.items())


def _corpus(results: Results) -> str:
    items = []
    for corpus in results.corpora or ["not named in metrics.json"]:
        mark = " class='simulated'" if corpus == "twin" else ""
        note = " (simulated)" if corpus == "twin" else ""
        items.append(f"<li{mark}>corpus: {escape(corpus)}{note}</li>")
    if results.seeds:
        items.append(f"<li>training seed {escape(', '.join(results.seeds))}</li>")
    for split, (spoof, target, nontarget) in results.sizes.items():
        items.append(
            f"<li>{escape(split)}: {target + nontarget + spoof:,} trials ({target:,} target, "
            f"{nontarget:,} nontarget, {spoof:,} spoof)</li>"
        )
    notice = (
        f'<p class="notice"><b>Simulated data.</b> {SIMULATED}</p>' if results.simulated else ""
    )
    return f'<ul class="corpus">{"".join(items)}</ul>{notice}'


def _tables(results: Results) -> str:
    parts = [metrics_table(results, results.split)]
    others = [s for s in results.sizes if s != results.split]
    for split in others:
        if any(results.metrics.get(name, {}).get(split) for name in results.fused):
            table = metrics_table(results, split)
            parts.append(
                f"<details><summary>The same on {escape(split)}</summary>{table}</details>"
            )
    if results.table is not None:
        parts.append(f"<h3>Over all seeds</h3>{markdown_table(results.table)}")
    return "".join(parts)


def _whatif(data: Mapping[str, Any]) -> str:
    embedded, total = sum(data["trials"]["sizes"]), sum(data["sizes"])
    counted = f"all {total:,} trials of the {escape(data['split'])} set"
    if not data["trials"]["complete"]:
        counted = (
            f"a sample of {embedded:,} of the {total:,} trials of the {escape(data['split'])} set "
            "(drawn within each class, so that the page stays small)"
        )
    buttons = "".join(
        f'<button type="button" data-preset="{escape(name, quote=True)}">{escape(name)}</button>'
        for name in PRESETS
    )
    return Template(_part("whatif.html")).substitute(
        counted=counted,
        presets=buttons,
        priors="".join(_slider(*item) for item in PRIORS.items()),
        costs="".join(_slider(*item) for item in COSTS.items()),
        policies="".join(_policy_row(name) for name in POLICIES),
    )


def _slider(name: str, label: str) -> str:
    top = "1000" if name.startswith("c_") else "1"
    return (
        f'<div class="slider"><label for="slide-{name}">{label}</label>'
        f'<input type="range" id="slide-{name}">'
        f'<input type="number" id="value-{name}" min="0" max="{top}" step="any" '
        f'aria-label="{name}"></div>'
    )


def _policy_row(name: str) -> str:
    def cells(keys: tuple[str, ...]) -> str:
        return "".join(f'<td id="{name}-{key}"></td>' for key in keys)

    return (
        f"<tr><td>{POLICY_NAMES.get(name, name)}</td>"
        f"{cells(('miss', 'nontarget', 'spoof', 'cost'))}"
        f'<td class="wide"><div class="stacked" id="{name}-bar"></div></td>'
        f"{cells(('normalised', 'expected', 'mean'))}</tr>"
    )


def _sampled(data: Mapping[str, Any]) -> str:
    sizes = data["sample"]["sizes"]
    return (
        f"Scatter plots show {sizes[0]:,} target, {sizes[1]:,} nontarget and {sizes[2]:,} spoof "
        f"trials (at most {SAMPLE} of each class, drawn at random, the same in every plot); "
        "densities and numbers are of all trials. Points beyond a frame are drawn on its edge."
    )


def _about(results: Results, data: Mapping[str, Any]) -> str:
    where = "" if results.source == results.folder else f", folder {results.source.name}"
    lines = [
        f"Made by lightning_sasv {__version__} from {results.folder.resolve().name}{where}, "
        f"{results.split} set.",
        "EERs follow the ASVspoof convention; a trial is accepted when its score is greater than "
        "the threshold. Cllr pools nontargets and spoofs by their counts.",
        "Numbers in tables and read-outs are computed from all trials, lines and histograms are "
        "thinned to what a screen can show.",
        "The what-if panel holds the pairs of its trials as 32-bit floating-point numbers, "
        "affine calibrations as exact coefficients, and computes in 64 bits. A decision can "
        "differ from that in full precision only if a score lies within about one millionth of "
        "the threshold.",
        "Cost models: "
        + "; ".join(
            f"{name} C = ({m.c_miss:g}, {m.c_fa_nontarget:g}, {m.c_fa_spoof:g}), "
            f"π = ({m.p_target:.4g}, {m.p_nontarget:.4g}, {m.p_spoof:.4g})"
            for name, m in PRESETS.items()
        )
        + " for target, nontarget, spoof.",
    ]
    return "<ul>" + "".join(f"<li>{escape(line)}</li>" for line in lines) + "</ul>"


_ATTACKS = """<figure><h3>By attack</h3><div class="plot-host" id="dist-attack"></div>
<figcaption>Each row has its own height. On the right the EER of the targets against one attack
alone.</figcaption></figure>"""

_SIMPLEX = """<div class="keep">
<h3>Decision boundaries, pair of <span data-shows="system"></span></h3>
<p class="notice" id="simplex-warning" hidden>This system fuses raw scores. The boundaries take them
for log-likelihood ratios, which they are not.</p>
<div id="simplex-legend"></div>
<div class="columns">
<figure><div class="plot-host" id="simplex-llr"></div><figcaption>The log-likelihood ratios with the
boundaries of the linear policy and of the optimal, nonlinear one for equal costs: the paper’s fig.
simplex from these data.</figcaption></figure>
<figure><div class="plot-host" id="simplex-raw"></div><figcaption>The same boundaries in the plane
of the raw scores, through what the system has learned from dev.</figcaption></figure>
</div></div>"""
