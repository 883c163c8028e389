"""Every figure of the report, made once: a function in ``FIGURES`` that gives a description.

What is added here appears in the page and as a file; ``description.py`` says what may be in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations, cycle
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import PRESETS, CostModel, compared
from lightning_sasv.metrics.functional import ece_curve, eer
from lightning_sasv.metrics.functional.pav import pools
from lightning_sasv.plugins import name_of
from lightning_sasv.report import curves, planes
from lightning_sasv.report.curves import Material
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared
from lightning_sasv.report.differences import forest, speakers
from lightning_sasv.report.operating import GRID, det_band, operating_points
from lightning_sasv.report.sections import label_budget
from lightning_sasv.report.sure import few_speakers, known_factors
from lightning_sasv.scores.layouts import is_fusible
from lightning_sasv.trials import CLASS_ORDER, FusedScores

SAMPLE = 500
"""Trials of each class in a scatter plot."""

COSTS = PRESETS | {"mismatched": CostModel(p_target=0.9, p_nontarget=0.05, p_spoof=0.05)}
DET_TICKS = [(rate, f"{rate:g}") for rate in (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40)]
PATH_STYLES = ("first", "second", "third")
COST_STYLES = ("reference", "actual", "third")
RAW = ("ASV score", "CM score")
MATRIX = 6
"""Scores of which each two are shown, at most."""
LLR = ("ASV LLR, log p(tar)/p(non)", "CM LLR, log p(tar)/p(spf)")
WORDS: dict[str, Any] = shared()["words"]


def _columns(material: Material) -> Iterator[tuple[str, Floats, Axis, dict[str, Any]]]:
    """Raw and fused scores: name, scores, their axis, and what chooses them in the page."""
    scores, names = material.results.scores, WORDS["columns"]
    for key, column in (("asv", scores.asv), ("cm", scores.cm)):
        yield names[key], column, _axis(material, column, names[key]), {"column": key}
    for name, column in material.results.fused.items():
        axis = _axis(material, column, f"SASV score of {name}")
        yield name, column, axis, {"column": "sasv", "system": name}


def _axis(material: Material, column: Floats, label: str) -> Axis:
    """The axis of a column of scores."""
    return Axis(*planes.robust_range(column, material.results.scores.label), label)


def distributions(material: Material) -> Figure:
    """Densities of the raw scores and of every fused score, by class."""
    height = _ridges_height(len(material.attacks) + 2) if material.attacks else 340.0
    panels = []
    for name, column, x, of in _columns(material):
        panel = _densities(material, column, x)
        notes: list[str] = []
        if "system" in of:
            det = material.det[name]["sasv"]
            panel = _with(panel, Series("rule", "threshold", [det.threshold]))
            notes = [_eer(det), f"threshold {_signed(det.threshold)}"]
        panel = replace(panel, title=name, of=of, notes=notes, height=(0, height, height))
        panels.append(panel)
    caption = WORDS["distributions"].format(split=material.results.split)
    choices, size = {"column": WORDS["columns"]}, (3.0, 2.1)
    return Figure("distributions", "By class", panels, caption, choices, 4, size, ("", ""))


def _densities(material: Material, column: Floats, x: Axis) -> Panel:
    """Densities of a column by class."""
    parts = material.by_class(column)
    counts = curves.histogram(parts, x[:2])
    shares = [row / part.size for row, part in zip(counts, parts, strict=True)]
    names = map(str, CLASS_ORDER)
    series = [Series("density", n, x[:2], s, n) for n, s in zip(names, shares, strict=True)]
    return Panel(x, Axis(0, 1.08 * max(float(np.max(shares)), 1e-12), "density", ()), series)


def _with(panel: Panel, *series: Series) -> Panel:
    return replace(panel, series=[*panel.series, *series])


def _eer(det: curves.DET) -> str:
    return f"SASV-EER {100 * det.eer:.2f} %"


def _signed(value: float, form: str = ".4g") -> str:
    """A number with a true minus sign."""
    return f"{value:{form}}".replace("-", "−").replace("inf", "∞")


def _ridges_height(rows: int) -> float:
    return max(20.0, min(30.0, 420 / rows)) * (rows + 0.35) + 78


def attacks(material: Material) -> Figure | None:
    """EER of every system against each attack alone, and where the scores of each attack lie."""
    names = list(material.attacks)
    if not names:
        return None
    rates, panels = {}, []
    for name, column, x, of in _columns(material):
        parts = material.by_class(column)[:2]
        parts += [column[mask] for mask in material.attacks.values()]
        eers = [100 * eer(parts[0], part).value for part in parts[2:]]
        panel = _ridges(parts, x, [*map(str, CLASS_ORDER[:2]), *names], [None, None, *eers])
        if "system" in of:
            rates[name] = eers
            at = material.det[name]["sasv"].threshold
            panel = _with(panel, Series("rule", "threshold", [at]))
        panels.append(replace(panel, title=name, of=of | {"view": "ridges"}, only="page"))
    across = Axis(-0.5, len(names) - 0.5, "", list(enumerate(names)))
    down = Axis(len(rates) - 0.5, -0.5, "", list(enumerate(rates)))
    cells = [Series("cells", "spoof", z=np.array(list(rates.values())))]
    title, caption = WORDS["table"]
    table = Panel(across, down, cells, title, of={"view": "table"}, caption=caption)
    size = (1.6 + 0.55 * len(names), 1.1 + 0.32 * len(rates))
    return Figure("attacks", "By attack", [table, *panels], WORDS["attacks"], size=size)


def _ridges(parts: list[Floats], x: Axis, names: list[str], values: list[Any]) -> Panel:
    """Densities that stand on rows, each with its own height; the lowest row lies on top."""
    series, ticks = [], []
    counts = curves.histogram(parts, x[:2], 72)
    for base, k in enumerate(reversed(range(len(parts)))):
        style, heights = str(CLASS_ORDER[min(k, 2)]), 1.25 * counts[k] / max(counts[k].max(), 1)
        label = "EER against targets"
        series.append(Series("ridge", style, x[:2], heights, label, value=values[k], base=base))
        ticks.append((base + 0.3, names[k] if len(names[k]) < 21 else f"{names[k][:19]}…"))
    height = _ridges_height(len(parts))
    return Panel(x, Axis(0, len(parts) + 0.35, "", ticks), series, height=(0, height, height))


def _plane(material: Material, number: int, sides: tuple[str, str]) -> Panel:
    """The plane of a pair with the same number of trials of every class in it."""
    labels, pair = material.results.scores.label, material.pairs[number]
    chosen = planes.equal_sample(labels, SAMPLE)
    series = []
    for code in CLASS_ORDER:
        x, y = pair.values[:, chosen[labels[chosen] == code]]
        series.append(Series("points", str(code), x, y, str(code), source={"pair": number}))
    horizontal, vertical = pair.window
    return Panel(Axis(*horizontal, sides[0]), Axis(*vertical, sides[1]), series)


def score_matrix(material: Material) -> Figure | None:
    """Each two of the scores that are fused, where there are more than two."""
    scores = material.results.scores
    names = [name for name in scores.extra if is_fusible(name)][:MATRIX]
    if len(names) < 3:
        return None
    chosen = planes.equal_sample(scores.label, SAMPLE)
    labels, panels = scores.label[chosen], []
    for down, across in combinations(names, 2):
        x, y = (scores.extra[name] for name in (down, across))
        right, up = (Axis(*planes.window_of(v, scores.label)) for v in (x, y))
        rows = {str(code): chosen[labels == code] for code in CLASS_ORDER}
        series = [Series("points", code, x[own], y[own], code) for code, own in rows.items()]
        right, up = right._replace(label=down), up._replace(label=across)
        panels.append(Panel(right, up, series, f"{down} and {across}"))
    return Figure("score_matrix", "The scores that are fused", panels, size=(3.0, 3.0))


def system_planes(material: Material) -> Figure:
    """The paper's fig. scatter: what each system fuses, its boundary, and the fused score."""
    panels = []
    for name, column in material.results.fused.items():
        number, det = material.pair_of(name), material.det[name]["sasv"]
        pair, system = material.pairs[number], material.results.systems.get(name)
        below = _densities(material, column, _axis(material, column, "fused SASV score"))
        below = _with(below, Series("rule", "threshold", [det.threshold]))
        below = replace(below, y=below.y._replace(label=""), notes=[_eer(det)])
        plane = _plane(material, number, RAW if not pair.is_llr else ("ASV LLR", "CM LLR"))
        rule = ""
        if system is not None:
            line = planes.rule_boundary(system, det.threshold, pair.window)
            plane = _with(plane, Series("line", "bayes", *line))
            rho = "" if system.rho is None else f"{system.rho:.3f}"
            called = name_of(system.rule)
            rule = WORDS["rules"].get(called, called) + rho
        of, only = {"system": name, "pair": number}, "" if system is not None else "page"
        plane = replace(plane, title=name, subtitle=rule, of=of, only=only, below=below)
        panels.append(plane)
    return Figure("planes", "What each system fuses, and what comes out", panels, size=(3.0, 4.0))


def boundaries(material: Material) -> Figure | None:
    """The paper's fig. simplex: LLRs and raw scores with linear and nonlinear boundaries."""
    numbers = material.shown_pairs() if material.results.systems else []
    panels = [panel for number in numbers for panel in _boundary_panels(material, number)]
    figure = Figure("boundaries", "Decision boundaries", panels, columns=2, size=(4.2, 3.6))
    return figure if panels else None


def _boundary_panels(material: Material, number: int) -> Iterator[Panel]:
    pair, window = material.pairs[number], material.pairs[0].window
    llr = _plane(material, number, LLR if pair.is_llr else RAW)
    raw = _plane(material, 0, RAW)
    a, c = planes.on_grid(pair, material.bases[pair.base], window)
    x, y = (np.linspace(*ends, len(a)) for ends in window)
    for style, (costs, policy, label) in WORDS["boundaries"].items():
        line = planes.policy_boundaries(COSTS[costs], pair.window)[policy]
        llr = _with(llr, Series("line", style, *line, label))
        source = {"pair": number, "policy": policy, "costs": costs}
        if np.isnan(a).any():  # of more than two scores: no line in the plane of two
            continue
        score, threshold = compared(FusedScores(a, c, a), COSTS[costs], policy)
        raw = _with(raw, Series("level", style, x, y, label, z=score - threshold, source=source))
    for view, panel in (("llr", llr), ("raw", raw)):
        of, title = {"pair": number, "view": view}, ", ".join(pair.systems) * (view == "llr")
        only, height = "" if pair.is_llr else "page", (0.78, 340.0, 520.0)
        caption = WORDS[view]
        yield replace(panel, title=title, of=of, only=only, caption=caption, height=height)


def det(material: Material) -> Figure:
    """DET curves on probit axes: SASV, SV and SPF; the mark is the equal error rate."""
    bands = _det_bands(material)
    figure = det_of(material.det, curves.DET_TASKS, bands)
    return replace(figure, data=_band_data(bands)) if bands else figure


def det_of(
    found: Mapping[str, Mapping[str, curves.DET]],
    tasks: Sequence[str],
    bands: Mapping[str, Mapping[str, tuple[Floats, Floats]]] | None = None,
) -> Figure:
    """DET curves of systems by task, a panel for each task, with the systems that have it."""
    low, high = (100 * rate for rate in curves.DET_LIMITS)
    right = Axis(low, high, "false-acceptance rate, per cent", DET_TICKS, "probit")
    up = right._replace(label="miss rate, per cent")
    hover = "{label}: FA {x:.2f} %, miss {y:.2f} %"
    panels = []
    for task in tasks:
        series, text = [], WORDS["tasks"][task]
        for k, (name, own) in enumerate(found.items()):
            if task not in own:
                continue
            x, y = (100 * np.clip(r, low / 400, 1 - 1e-9) for r in own[task][:2])
            marked, rate = [min(int(np.argmax(y >= x)), x.size - 1)], 100 * own[task].eer
            style = f"system{k % 36}"
            series.append(Series("line", style, x, y, name, "", marked, rate, hover))
        series.append(Series("line", "diagonal", right[:2], right[:2]))
        for name, band in (bands or {}).items():
            edge = np.concatenate([band[task][0], band[task][1][::-1]])
            edge = 100 * np.clip(edge, low / 400, 1 - 1e-9)
            x = 100 * np.concatenate([GRID, GRID[::-1]])
            label = f"{name}, 95 % by speaker"
            series.append(Series("area", "reference", x, edge, label, of=name))
        caption = WORDS["det"].format(task=text, band=WORDS["det band"] if bands else "")
        title = f"{task.upper()}: {text}"
        of, height = {"task": task}, (0.8, 380.0, 620.0)
        panels.append(Panel(right, up, series, title, of=of, caption=caption, height=height))
    choices = {"task": {task: task.upper() for task in tasks}}
    size = (4.2, 4.7 + 0.13 * -(-len(found) // 3))
    return Figure("det", "DET curves", panels, "", choices, 3, size, legend="each")


def _band_data(
    bands: Mapping[str, Mapping[str, tuple[Floats, Floats]]],
) -> list[dict[str, Any]]:
    """The bands, a row for each system, task and false-acceptance rate."""
    names = ("system", "task", "false_acceptance", "miss_low", "miss_high")
    return [
        dict(zip(names, (system, task, *map(float, ends)), strict=True))
        for system, own in bands.items()
        for task, band in own.items()
        for ends in zip(GRID, *band, strict=True)
    ]


def _det_bands(material: Material) -> dict[str, dict[str, tuple[Floats, Floats]]]:
    """Band of each system by speaker; none where speakers are few or not known."""
    results = material.results
    scores, n = results.scores, 0 if results.parts else material.replicates
    if not n or few_speakers(scores):
        return {}
    speakers = known_factors(scores)["speaker"]
    return {name: det_band(own, scores.label, speakers, n) for name, own in results.fused.items()}


def ece(material: Material) -> Figure:
    """Empirical cross-entropy of every system over the prior."""
    labels = ("prior log10 odds of a target", "empirical cross-entropy, bits")
    x, y = Axis(-3, 3, labels[0]), Axis(0, 1.3, labels[1])
    hover = "odds 10^{x:.1f}: {y:.3f}, min {least:.3f} bit"
    panels = []
    for name, scores in material.results.fused.items():
        odds, actual, least, none = ece_curve(*material.positives(scores), np.linspace(-3, 3, 61))
        first = Series("line", "actual", odds, actual, "the scores as they are", hover=hover)
        series = [
            replace(first, more={"least": least}),
            Series("line", "best", odds, least, "after the best increasing map (PAV)"),
            Series("line", "reference", odds, none, "score 0 for every trial"),
            Series("rule", "zero", [0.0]),
        ]
        above = " (above the frame)" if actual[30] > y.high else ""
        notes = [f"Cllr {actual[30]:.3f} bit{above}", f"Cllr min {least[30]:.3f} bit"]
        panels.append(Panel(x, y, series, name, of={"system": name}, notes=notes))
    return Figure("ece", "Empirical cross-entropy", panels, WORDS["ece"], labels=labels)


def calibration(material: Material) -> Figure:
    """Score to LLR by pooling adjacent violators, where pools hold trials of both kinds."""
    labels, hover = ("SASV score", "LLR by pooling, nats"), "score {x:.3g}: LLR {y:.2f}"
    panels = []
    for name, scores in material.results.fused.items():
        pav = pools(*material.positives(scores))
        x, mixed = _axis(material, scores, f"SASV score of {name}"), np.isfinite(pav.llr)
        reach = 1.12 * float(np.abs(pav.llr[mixed]).clip(3, 14).max(initial=3))
        if mixed.any():
            low, high = pav.start[mixed].min(), pav.end[mixed].max()
            margin = 0.1 * max(high - low, 1e-9)
            x = x._replace(low=max(x.low, low - margin), high=min(x.high, high + margin))
        steps = np.stack([pav.start, pav.end], axis=1).ravel()
        llr = pav.llr.clip(-2 * reach, 2 * reach).repeat(2)
        series = [
            Series("line", "actual", steps, llr, "pool adjacent violators", hover=hover),
            Series("line", "reference", x[:2], x[:2], "perfect calibration"),
        ]
        panels.append(Panel(x, Axis(-reach, reach, labels[1]), series, name, of={"system": name}))
    title, caption = "Score to log-likelihood ratio", WORDS["calibration"]
    return Figure("calibration", title, panels, caption, labels=labels)


def t_eer_path(material: Material) -> Figure:
    """t-EER along the paths of three ρ, and the thresholds along them, for every distinct pair."""
    panels = [panel for k in material.shown_pairs() for panel in _path_panels(material, k)]
    labels, size = ("threshold on the ASV side", "t-EER, per cent"), (3.8, 2.8)
    return Figure("t_eer_path", "t-EER path", panels, columns=3, size=size, labels=labels)


def _path_panels(material: Material, number: int) -> Iterator[Panel]:
    pair = material.pairs[number]
    point, paths = curves.tandem_paths(pair.values, material.results.scores.label)
    rates, thresholds = [], []
    for style, rho, (asv, cm, rate) in zip(PATH_STYLES, curves.PATH_RHOS, paths, strict=True):
        line = Series("line", style, asv, label=f"ρ = {rho}", hover=WORDS["path point"])
        line = replace(line, more={"rate": 100 * rate, "cm": cm})
        rates.append(replace(line, y=100 * rate))
        thresholds.append(replace(line, y=cm))
    percent, mark = 100 * point.closest, "circle" if point.exists else "cross"
    for series, at in ((rates, percent), (thresholds, point.cm_threshold)):
        if np.isfinite([point.asv_threshold, at]).all():
            series.append(Series("points", "total", [point.asv_threshold], [at], mark=mark))
    values = np.concatenate([path[2] for path in paths])
    high = 108 * min(values.max(initial=0.001), max(6 * values.min(initial=1), 0.02))
    names, kind = ", ".join(pair.systems) or "raw scores", "LLR" if pair.is_llr else "score"
    text, remark = WORDS["concurrent" if point.exists else "not concurrent"]
    sides = zip(("ASV", "CM"), pair.window, strict=True)
    x, y = (Axis(*ends, f"threshold on the {side} {kind}") for side, ends in sides)
    title, of = f"{names}: {text} {percent:.2f} %", {"pair": number, "view": "value"}
    look = {"remark": remark.format(percent), "caption": WORDS["path"].format(names=names)}
    yield Panel(x, Axis(0, high, "t-EER, per cent"), rates, title, "", of, **look)
    of, caption = of | {"view": "plane"}, WORDS["meeting"]
    yield Panel(x, y, thresholds, "", "", of, "page", caption=caption)


def a_dcf(material: Material) -> Figure:
    """a-DCF over thresholds: of one cost model with its parts (page), of all (files)."""
    names = material.results.fused
    panels = [panel for name in names for panel in _cost_panels(material, name)]
    labels = ("threshold (● minimum, ◆ actual at the Bayes threshold)", "normalised a-DCF")
    choices = {"preset": {name: name for name in material.cost_models}}
    return Figure("a_dcf", "a-DCF over thresholds", panels, "", choices, labels=labels)


def _cost_panels(material: Material, name: str) -> Iterator[Panel]:
    scores = material.results.fused[name]
    models = material.cost_models
    costs = curves.costs_over_thresholds(scores, material.results.scores.label, models)
    x = _axis(material, scores, f"threshold on the SASV score of {name}")
    y = Axis(0, 1.25, "normalised a-DCF")
    every = Panel(x, y, [], name, of={"system": name}, only="file")
    for style, (preset, model) in zip(cycle(COST_STYLES), models.items(), strict=False):
        found, bayes = costs.presets[preset], -model.log_beta
        parts = np.array(model.weights)[:, None] / model.default_cost * costs.rates
        hover = "threshold {x:.3g}: a-DCF {y:.3f}"
        total = Series("line", "total", costs.thresholds, parts.sum(axis=0), "a-DCF", hover=hover)
        spots = [("circle", found.threshold, found.min)]
        spots += [("diamond", bayes, found.actual)] if material.is_llr(name) else []
        marks = [
            Series("points", "total", [at], [min(cost, 1.24)], mark=mark)
            for mark, at, cost in spots
            if np.isfinite(at)
        ]
        every = _with(every, replace(total, style=style, label=preset))
        every = _with(every, *(replace(mark, style=style) for mark in marks))
        series = [total]
        for code, part, label in zip(CLASS_ORDER, parts, WORDS["parts"], strict=True):
            series.append(Series("line", str(code), costs.thresholds, part, label))
        series += [Series("rule", "threshold", [bayes]), *marks]
        words = {"at": _signed(found.threshold), "bayes": _signed(bayes, ".3f"), "model": model}
        actual = WORDS["actual" if material.is_llr(name) else "no actual"]
        caption = WORDS["a_dcf"].format(found=found, actual=actual.format(found=found), **words)
        of, height = {"system": name, "preset": preset}, (0.0, 360.0, 360.0)
        yield replace(every, series=series, of=of, only="page", caption=caption, height=height)
    yield every


FIGURES: dict[str, Callable[[Material], Figure | None]] = {
    "distributions": distributions,
    "attacks": attacks,
    "score_matrix": score_matrix,
    "planes": system_planes,
    "boundaries": boundaries,
    "det": det,
    "ece": ece,
    "calibration": calibration,
    "t_eer_path": t_eer_path,
    "a_dcf": a_dcf,
    "operating_points": operating_points,
    "forest": forest,
    "speakers": speakers,
    "label_budget": label_budget,
}
"""The figures by name; one that the results do not allow gives nothing."""


def describe(material: Material, names: Iterable[str] | None = None) -> list[Figure]:
    """Descriptions of the figures of some names, by default of all."""
    made = (FIGURES[name](material) for name in (FIGURES if names is None else names))
    return [figure for figure in made if figure is not None]
