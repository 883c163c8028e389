"""Every figure of the report, made once: a function in ``FIGURES`` that gives a description.

What is added here appears in the page and as a file; ``description.py`` says what may be in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import cycle
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import PRESETS, CostModel, compared
from lightning_sasv.metrics.functional import ece_curve, eer
from lightning_sasv.report import curves, planes
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared
from lightning_sasv.results import Results
from lightning_sasv.trials import CLASS_ORDER, FusedScores, TrialClass

SAMPLE = 500
"""Trials of each class in a scatter plot."""

COSTS = PRESETS | {"mismatched": CostModel(p_target=0.9, p_nontarget=0.05, p_spoof=0.05)}
BOUNDARIES = {
    "linear": ("equal", "linear", "linear, flat prior"),
    "bayes": ("equal", "bayes", "nonlinear (Bayes), flat prior"),
    "mismatched": ("mismatched", "bayes", "nonlinear, priors 0.9 / 0.05 / 0.05"),
}
"""Costs, policy and name of the boundaries of the paper's fig. simplex, by style."""

DET_TICKS = (0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 40)
PATH_STYLES = ("first", "second", "third")
COST_STYLES = ("reference", "actual", "third")
ECE_HIGH = 1.3
ECE_ODDS = np.linspace(-3, 3, 61)
WORDS: dict[str, Any] = shared()["words"]


@dataclass(frozen=True)
class Material:
    """What figures are made of: results, the pairs that systems fuse, and DET curves."""

    results: Results
    pairs: list[planes.Pair]
    bases: list[planes.Base]

    @classmethod
    def of(cls, results: Results) -> Material:
        """The material of a folder of results."""
        return cls(results, *planes.find_pairs(results.scores, results.systems))

    @cached_property
    def det(self) -> dict[str, dict[str, curves.DET]]:
        """DET curve of each system, by task."""
        labels, tasks = self.results.scores.label, WORDS["tasks"]
        return {
            name: {task: curves.thin_det(scores, labels, task) for task in tasks}
            for name, scores in self.results.fused.items()
        }

    @cached_property
    def attacks(self) -> dict[str, np.ndarray]:
        """Which trials are of each attack; none without that column."""
        column, spoof = self.results.scores.attack, self.results.scores.label == TrialClass.SPOOF
        names = [] if column is None else np.unique(column[spoof])
        return {str(name): spoof & (column == name) for name in names}

    def pair_of(self, name: str) -> int:
        """Number of the pair that a system fuses; the raw scores where it is not known."""
        return next((k for k, pair in enumerate(self.pairs) if name in pair.systems), 0)

    def shown_pairs(self) -> list[int]:
        """Numbers of the pairs that the systems fuse."""
        return sorted({self.pair_of(name) for name in self.results.fused})

    def columns(self) -> Iterator[tuple[str, Floats, Axis, dict[str, Any]]]:
        """Raw and fused scores: name, scores, their axis, and what chooses them in the page."""
        scores, names = self.results.scores, WORDS["columns"]
        for key, column in (("asv", scores.asv), ("cm", scores.cm)):
            yield names[key], column, self.axis(column, names[key]), {"column": key}
        for name, column in self.results.fused.items():
            axis = self.axis(column, f"SASV score of {name}")
            yield name, column, axis, {"column": "sasv", "system": name}

    def axis(self, column: Floats, label: str) -> Axis:
        """The axis of a column of scores."""
        return Axis(*curves.robust_range(column, self.results.scores.label), label)

    def by_class(self, column: Floats) -> list[Floats]:
        """A column, by class."""
        return [column[self.results.scores.label == code] for code in CLASS_ORDER]

    def positives(self, column: Floats) -> tuple[Floats, Floats]:
        """Scores of the targets and of all others."""
        target = self.results.scores.label == TrialClass.TARGET
        return column[target], column[~target]


def distributions(material: Material) -> Figure:
    """Densities of the raw scores and of every fused score, by class."""
    panels = []
    for name, column, x, of in material.columns():
        y, series = _densities(material.by_class(column), x)
        notes: list[str] = []
        if "system" in of:
            det = material.det[name]["sasv"]
            series.append(Series("rule", "threshold", [det.threshold]))
            notes = [f"SASV-EER {100 * det.eer:.2f} %", f"threshold {_signed(det.threshold)}"]
        height = _ridges_height(len(material.attacks) + 2) if material.attacks else 340.0
        panels.append(Panel(x, y, series, name, of=of, notes=notes, height=(0, height, height)))
    caption = WORDS["distributions"].format(split=material.results.split)
    choices = {"column": WORDS["columns"]}
    look: dict[str, Any] = {"size": (3.0, 2.1), "labels": ("", "")}
    return Figure("distributions", "By class", panels, caption, choices, **look)


def _densities(parts: list[Floats], x: Axis) -> tuple[Axis, list[Series]]:
    """Densities of a column by class, and the axis they need."""
    counts = curves.histogram(parts, x[:2])
    shares = [row / part.size for row, part in zip(counts, parts, strict=True)]
    names = map(str, CLASS_ORDER)
    series = [Series("density", n, x[:2], s, n) for n, s in zip(names, shares, strict=True)]
    return Axis(0, 1.08 * max(float(np.max(shares)), 1e-12), "density", ()), series


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
    rates: dict[str, list[float]] = {}
    panels = []
    for name, column, x, of in material.columns():
        parts = material.by_class(column)[:2]
        parts += [column[mask] for mask in material.attacks.values()]
        eers = [100 * eer(parts[0], part).value for part in parts[2:]]
        series = _ridges(curves.histogram(parts, x[:2], 72), x, [None, None, *eers])
        if "system" in of:
            rates[name] = eers
            series.append(Series("rule", "threshold", [material.det[name]["sasv"].threshold]))
        rows = [str(code) for code in CLASS_ORDER[:2]] + names
        short = [text if len(text) < 21 else f"{text[:19]}…" for text in reversed(rows)]
        ticks = [(k + 0.3, text) for k, text in enumerate(short)]
        y, height = Axis(0, len(rows) + 0.35, "", ticks), _ridges_height(len(rows))
        of = of | {"view": "ridges"}
        panels.append(Panel(x, y, series, name, of=of, only="page", height=(0, height, height)))
    across = Axis(-0.5, len(names) - 0.5, "", list(enumerate(names)))
    down = Axis(len(rates) - 0.5, -0.5, "", list(enumerate(rates)))
    cells = [Series("cells", "spoof", z=np.array(list(rates.values())))]
    title, caption = WORDS["table"]
    table = Panel(across, down, cells, title, of={"view": "table"}, caption=caption)
    size = (1.6 + 0.55 * len(names), 1.1 + 0.32 * len(rates))
    return Figure("attacks", "By attack", [table, *panels], WORDS["attacks"], size=size)


def _ridges(counts: np.ndarray, x: Axis, eers: list[Any]) -> list[Series]:
    """Densities that stand on rows, each with its own height; the lowest row lies on top."""
    series = []
    for base, (row, rate) in enumerate(zip(counts[::-1], reversed(eers), strict=True)):
        style = str(CLASS_ORDER[min(len(counts) - 1 - base, 2)])
        look: dict[str, Any] = {"label": "EER against targets", "value": rate, "base": base}
        series.append(Series("ridge", style, x[:2], 1.25 * row / max(row.max(), 1), **look))
    return series


def _plane(
    material: Material, number: int, names: Iterable[str]
) -> tuple[list[Axis], list[Series]]:
    """Axes of the plane of a pair, and the same number of trials of every class in it."""
    labels, pair = material.results.scores.label, material.pairs[number]
    chosen = planes.equal_sample(labels, SAMPLE)
    series = []
    for code in CLASS_ORDER:
        x, y = pair.values[:, chosen[labels[chosen] == code]]
        series.append(Series("points", str(code), x, y, str(code), source={"pair": number}))
    return [Axis(*ends, name) for ends, name in zip(pair.window, names, strict=True)], series


def system_planes(material: Material) -> Figure:
    """The paper's fig. scatter: what each system fuses, its boundary, and the fused score."""
    panels = []
    for name, column in material.results.fused.items():
        number, det = material.pair_of(name), material.det[name]["sasv"]
        pair, system = material.pairs[number], material.results.systems.get(name)
        x = material.axis(column, "fused SASV score")
        y, series = _densities(material.by_class(column), x)
        series.append(Series("rule", "threshold", [det.threshold]))
        notes = [f"SASV-EER {100 * det.eer:.2f} %"]
        below = Panel(x, y._replace(label=""), series, notes=notes)
        kind, rule = "LLR" if pair.is_llr else "score", ""
        axes, series = _plane(material, number, (f"ASV {kind}", f"CM {kind}"))
        if system is not None:
            line = planes.rule_boundary(system, det.threshold, pair.window)
            series.append(Series("line", "bayes", *line))
            rho = "" if system.rho is None else f"{planes.rho_of(system):.3f}"
            rule = WORDS["rules"].get(system.rule, system.rule) + rho
        of, only = {"system": name, "pair": number}, "" if system is not None else "page"
        panels.append(Panel(*axes, series, name, rule, of, only, below=below))
    return Figure("planes", "What each system fuses, and what comes out", panels, size=(3.0, 4.0))


def boundaries(material: Material) -> Figure | None:
    """The paper's fig. simplex: LLRs and raw scores with linear and nonlinear boundaries."""
    panels = []
    raw_names = ("ASV score", "CM score")
    for number in material.shown_pairs() if material.results.systems else []:
        pair, raw = material.pairs[number], material.pairs[0]
        names = ("ASV LLR, log p(tar)/p(non)", "CM LLR, log p(tar)/p(spf)")
        axes, series = _plane(material, number, names if pair.is_llr else raw_names)
        raw_axes, raw_series = _plane(material, 0, raw_names)
        a, c = planes.on_grid(pair, material.bases[pair.base], raw.window)
        grid = [np.linspace(*ends, len(a)) for ends in raw.window]
        for style, (costs, policy, label) in BOUNDARIES.items():
            line = planes.policy_boundaries(COSTS[costs], pair.window)[policy]
            series.append(Series("line", style, *line, label))
            source = {"pair": number, "policy": policy, "costs": costs}
            score, threshold = compared(FusedScores(a, c, a), COSTS[costs], policy)
            z = score - threshold
            raw_series.append(Series("level", style, *grid, label, z=z, source=source))
        look: dict[str, Any] = {"only": "" if pair.is_llr else "page", "height": (0.78, 340, 520)}
        of, title = {"pair": number, "view": "llr"}, ", ".join(pair.systems)
        panels.append(Panel(*axes, series, title, of=of, caption=WORDS["llr"], **look))
        of = of | {"view": "raw"}
        panels.append(Panel(*raw_axes, raw_series, of=of, caption=WORDS["raw"], **look))
    if not panels:
        return None
    return Figure("boundaries", "Decision boundaries", panels, columns=2, size=(4.2, 3.6))


def det(material: Material) -> Figure:
    """DET curves on probit axes: SASV, SV and SPF; the mark is the equal error rate."""
    ends, ticks = [100 * r for r in curves.DET_LIMITS], [(t, f"{t:g}") for t in DET_TICKS]
    names = ("false-acceptance rate, per cent", "miss rate, per cent")
    axes = [Axis(*ends, name, ticks, "probit") for name in names]
    hover = "{label}: FA {x:.2f} %, miss {y:.2f} %"
    panels = []
    for task, text in WORDS["tasks"].items():
        series = []
        for k, name in enumerate(material.results.fused):
            curve = material.det[name][task]
            x, y = (100 * np.clip(r, curves.DET_LIMITS[0] / 4, 1 - 1e-9) for r in curve[:2])
            marked, rate = [min(int(np.argmax(y >= x)), x.size - 1)], 100 * curve.eer
            style = f"system{k % 36}"
            series.append(Series("line", style, x, y, name, "", marked, rate, hover))
        series.append(Series("line", "diagonal", ends, ends))
        look: dict[str, Any] = {"of": {"task": task}, "height": (0.8, 380, 620)}
        caption, title = WORDS["det"].format(task=text), f"{task.upper()}: {text}"
        panels.append(Panel(*axes, series, title, caption=caption, **look))
    choices = {"task": {task: task.upper() for task in WORDS["tasks"]}}
    size = (4.2, 4.7 + 0.13 * -(-len(material.results.fused) // 3))
    return Figure("det", "DET curves", panels, "", choices, 3, size, legend="each")


def ece(material: Material) -> Figure:
    """Empirical cross-entropy of every system over the prior."""
    labels = ("prior log10 odds of a target", "empirical cross-entropy, bits")
    hover = "odds 10^{x:.1f}: {y:.3f}, min {least:.3f} bit"
    panels = []
    for name, scores in material.results.fused.items():
        odds, actual, least, reference = ece_curve(*material.positives(scores), ECE_ODDS)
        more = {"hover": hover, "more": {"least": least}}
        series = [
            Series("line", "actual", odds, actual, "the scores as they are", **more),
            Series("line", "best", odds, least, "after the best increasing map (PAV)"),
            Series("line", "reference", odds, reference, "score 0 for every trial"),
            Series("rule", "zero", [0.0]),
        ]
        cllr, cllr_min = actual[odds.size // 2], least[odds.size // 2]
        above = " (above the frame)" if cllr > ECE_HIGH else ""
        notes = [f"Cllr {cllr:.3f} bit{above}", f"Cllr min {cllr_min:.3f} bit"]
        axes = Axis(-3, 3, labels[0]), Axis(0, ECE_HIGH, labels[1])
        panels.append(Panel(*axes, series, name, of={"system": name}, notes=notes))
    return Figure("ece", "Empirical cross-entropy", panels, WORDS["ece"], labels=labels)


def calibration(material: Material) -> Figure:
    """Score to LLR by pooling adjacent violators, where pools hold trials of both kinds."""
    labels, hover = ("SASV score", "LLR by pooling, nats"), "score {x:.3g}: LLR {y:.2f}"
    panels = []
    for name, scores in material.results.fused.items():
        pav = curves.pav_calibration(*material.positives(scores))
        whole = material.axis(scores, f"SASV score of {name}")
        mixed = np.isfinite(pav.llr)
        reach = 1.12 * np.abs(pav.llr[mixed]).clip(3, 14).max(initial=3)
        ends = np.stack([pav.start, pav.end], axis=1)
        low, high = (ends[mixed][0, 0], ends[mixed][-1, 1]) if mixed.any() else whole[:2]
        margin = 0.1 * max(high - low, 1e-9) if mixed.any() else 0.0
        x = whole._replace(low=max(whole.low, low - margin), high=min(whole.high, high + margin))
        llr = pav.llr.clip(-2 * reach, 2 * reach).repeat(2)
        series = [
            Series("line", "actual", ends.ravel(), llr, "pool adjacent violators", hover=hover),
            Series("line", "reference", x[:2], x[:2], "perfect calibration"),
        ]
        panels.append(Panel(x, Axis(-reach, reach, labels[1]), series, name, of={"system": name}))
    title, caption = "Score to log-likelihood ratio", WORDS["calibration"]
    return Figure("calibration", title, panels, caption, labels=labels)


def t_eer_path(material: Material) -> Figure:
    """t-EER along the paths of three ρ, and the thresholds along them, for every distinct pair."""
    panels = [panel for k in material.shown_pairs() for panel in _path_panels(material, k)]
    look: dict[str, Any] = {"labels": ("threshold on the ASV side", "t-EER, per cent")}
    return Figure("t_eer_path", "t-EER path", panels, columns=3, size=(3.8, 2.8), **look)


def _path_panels(material: Material, number: int) -> Iterator[Panel]:
    pair = material.pairs[number]
    point, paths = curves.tandem_paths(pair.values, material.results.scores.label)
    rates, thresholds = [], []
    hover = "{label}: t-EER {rate:.2f} % at ({x:.3g}, {cm:.3g})"
    for style, rho, (asv, cm, rate) in zip(PATH_STYLES, curves.PATH_RHOS, paths, strict=True):
        more: dict[str, Any] = {"hover": hover, "more": {"rate": 100 * rate, "cm": cm}}
        rates.append(Series("line", style, asv, 100 * rate, f"ρ = {rho}", **more))
        thresholds.append(Series("line", style, asv, cm, f"ρ = {rho}", **more))
    mark, percent = "circle" if point.exists else "cross", 100 * point.closest
    for series, place in ((rates, percent), (thresholds, point.cm_threshold)):
        if np.isfinite([point.asv_threshold, place]).all():
            series.append(Series("points", "total", [point.asv_threshold], [place], mark=mark))
    values = np.concatenate([path[2] for path in paths])
    high = 108 * min(values.max(initial=0.001), max(6 * values.min(initial=1), 0.02))
    names, kind = ", ".join(pair.systems) or "raw scores", "LLR" if pair.is_llr else "score"
    title = f"{names}: no concurrent point; closest {percent:.2f} %"
    remark = f"no concurrent point exists; × closest: {percent:.3f} % at ρ = 0.5"
    if point.exists:
        title, remark = f"{names}: t-EER {percent:.2f} %", f"● concurrent t-EER {percent:.3f} %"
    axes = [
        Axis(*ends, f"threshold on the {side} {kind}")
        for side, ends in zip(("ASV", "CM"), pair.window, strict=True)
    ]
    of, caption = {"pair": number, "view": "value"}, WORDS["path"].format(names=names)
    y = Axis(0, high, "t-EER, per cent")
    yield Panel(axes[0], y, rates, title, of=of, remark=remark, caption=caption)
    of, caption = of | {"view": "plane"}, WORDS["meeting"]
    yield Panel(*axes, thresholds, title, of=of, only="page", caption=caption)


def a_dcf(material: Material) -> Figure:
    """a-DCF over thresholds: of one cost model with its parts (page), of all (files)."""
    names = material.results.fused
    panels = [panel for name in names for panel in _cost_panels(material, name)]
    labels = ("threshold (● minimum, ◆ actual at the Bayes threshold)", "normalised a-DCF")
    choices = {"preset": {name: name for name in PRESETS}}
    return Figure("a_dcf", "a-DCF over thresholds", panels, "", choices, labels=labels)


def _cost_panels(material: Material, name: str) -> Iterator[Panel]:
    scores = material.results.fused[name]
    costs = curves.costs_over_thresholds(scores, material.results.scores.label)
    x = material.axis(scores, f"threshold on the SASV score of {name}")
    y = Axis(0, 1.25, "normalised a-DCF")
    every: list[Series] = []
    for style, (preset, model) in zip(cycle(COST_STYLES), PRESETS.items(), strict=False):
        found, bayes = costs.presets[preset], -model.log_beta
        weights = np.array([model.weight_miss, model.weight_fa_nontarget, model.weight_fa_spoof])
        parts = weights[:, None] / model.default_cost * costs.rates
        total = Series("line", "total", costs.thresholds, parts.sum(axis=0), "a-DCF")
        marks = [
            Series("points", "total", [at], [min(cost, 1.24)], mark=mark)
            for mark, at, cost in (
                ("circle", found.threshold, found.min),
                ("diamond", bayes, found.actual),
            )
            if np.isfinite(at)
        ]
        every += [replace(total, style=style, label=preset)]
        every += [replace(mark, style=style) for mark in marks]
        series = [replace(total, hover="threshold {x:.3g}: a-DCF {y:.3f}")]
        for code, part, label in zip(CLASS_ORDER, parts, WORDS["parts"], strict=True):
            series.append(Series("line", str(code), costs.thresholds, part, label))
        series += [Series("rule", "threshold", [bayes]), *marks]
        words = {"threshold": _signed(found.threshold), "bayes": _signed(bayes, ".3f"), "m": model}
        caption = WORDS["a_dcf"].format(min=found.min, actual=found.actual, **words)
        of, look = {"system": name, "preset": preset}, {"only": "page", "height": (0, 360, 360)}
        yield Panel(x, y, series, name, of=of, caption=caption, **look)  # type: ignore[arg-type]
    yield Panel(x, y, every, name, of={"system": name}, only="file")


FIGURES: dict[str, Callable[[Material], Figure | None]] = {
    "distributions": distributions,
    "attacks": attacks,
    "planes": system_planes,
    "boundaries": boundaries,
    "det": det,
    "ece": ece,
    "calibration": calibration,
    "t_eer_path": t_eer_path,
    "a_dcf": a_dcf,
}
"""The figures by name; one that the results do not allow gives nothing."""


def describe(material: Material, names: Iterable[str] | None = None) -> list[Figure]:
    """Descriptions of the figures of some names, by default of all."""
    made = (FIGURES[name](material) for name in (FIGURES if names is None else names))
    return [figure for figure in made if figure is not None]
