"""Figures of the pair that systems fuse: planes, boundaries, the tandem's paths."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.decisions import PRESETS
from lightning_sasv.report.boundaries import policy_boundaries, rule_boundary
from lightning_sasv.report.curves_data import PATH_RHOS, tandem_paths, thin_det
from lightning_sasv.report.drawing import (
    SAMPLE,
    densities,
    grid_of,
    new_figure,
    scatter,
    shared_legend,
)
from lightning_sasv.report.page_data import MISMATCHED
from lightning_sasv.report.pairs import Pair
from lightning_sasv.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def draw_planes(results: Results, pairs: list[Pair]) -> Figure | None:
    """The paper's fig. scatter: what each system fuses, its boundary, and the fused score."""
    labels = results.scores.label
    shown = [(n, p) for n in results.fused for p in pairs if n in p.systems]
    if not shown:
        return None
    columns = min(4, len(shown))
    rows = -(-len(shown) // columns)
    heights = [2.2, 1.0] * rows
    figure, axes = new_figure(2 * rows, columns, (3.0 * columns, 4.0 * rows), heights)
    for axis in axes:
        axis.set_axis_off()
    for k, (name, pair) in enumerate(shown):
        row, column = divmod(k, columns)
        plane, below = axes[2 * row * columns + column], axes[(2 * row + 1) * columns + column]
        plane.set_axis_on()
        below.set_axis_on()
        det = thin_det(results.fused[name], labels, "sasv")
        scatter(plane, pair, labels, SAMPLE // 2)
        line = rule_boundary(results.systems[name], det.threshold, pair.window)
        plane.plot(*line, color="black", linewidth=1.6)
        plane.set_title(name, loc="left", fontweight="bold")
        densities(below, results.fused[name], labels)
        below.axvline(det.threshold, color="black", linestyle="--", linewidth=0.9)
        below.set_xlabel(f"fused score, SASV-EER {100 * det.eer:.2f} %")
    shared_legend(figure, axes[0])
    return figure


def draw_boundaries(results: Results, pairs: list[Pair]) -> Figure | None:
    """The paper's fig. simplex: LLRs and raw scores with linear and nonlinear boundaries."""
    labels = results.scores.label
    shown = [pair for pair in pairs if pair.is_llr]
    if not shown:
        return None
    figure, axes = new_figure(len(shown), 2, (8.4, 3.6 * len(shown)))
    for k, pair in enumerate(shown):
        plane, raw = axes[2 * k : 2 * k + 2]
        scatter(plane, pair, labels)
        flat = policy_boundaries(PRESETS["equal"], pair.window)
        third = policy_boundaries(MISMATCHED, pair.window)["bayes"]
        plane.plot(*flat["linear"], "k--", label="linear, flat prior")
        plane.plot(*flat["bayes"], "k-", label="nonlinear, flat prior")
        plane.plot(*third, color="#00795a", linestyle="-.", label="nonlinear, 0.9 / 0.05 / 0.05")
        plane.set_title(", ".join(pair.systems), loc="left", fontweight="bold")
        scatter(raw, pairs[0], labels)
        _raw_contours(raw, results, pair, pairs[0])
    shared_legend(figure, axes[0])
    return figure


def _raw_contours(axis: Axes, results: Results, pair: Pair, raw: Pair) -> None:
    """Boundaries in the plane of the raw scores, as level lines of what is compared with 0."""
    x, y = (np.linspace(*limits, 201) for limits in raw.window)
    grid = np.meshgrid(x, y)
    fused = results.systems[pair.systems[0]](grid[0].ravel(), grid[1].ravel())
    a, c = (part.numpy().reshape(grid[0].shape) for part in fused[:2])
    third = MISMATCHED
    bayes = np.log(third.p_target) - np.logaddexp(
        np.log(third.p_nontarget) - a, np.log(third.p_spoof) - c
    )
    for values, style, colour in (
        (a + c, "--", "black"),
        (-np.logaddexp(-a, -c), "-", "black"),
        (bayes, "-.", "#00795a"),
    ):
        if values.min() < 0 < values.max():
            axis.contour(x, y, values, levels=[0.0], colors=colour, linestyles=style)


def draw_tandem(results: Results, pairs: list[Pair]) -> Figure:
    """t-EER along the paths of three ρ, for every distinct pair."""
    shown = [pair for pair in pairs if pair.systems] or pairs[:1]
    figure, axes = grid_of(len(shown), 3, (3.8, 2.8))
    dashes = dict(zip(PATH_RHOS, (":", "-", "--"), strict=True))
    for axis, pair in zip(axes, shown, strict=True):
        found = tandem_paths(pair.values, results.scores.label)
        colours = ("#0072b2", "black", "#d55e00")
        for path, colour in zip(found["paths"], colours, strict=True):
            rho = path["rho"]
            label = f"ρ = {rho}"
            axis.plot(path["asv"], 100 * path["value"], dashes[rho], color=colour, label=label)
        mark, text = ("o", "t-EER") if found["exists"] else ("x", "no concurrent point; closest")
        axis.plot(found["asv_threshold"], 100 * found["closest"], mark, color="black")
        least = min(float(path["value"].min()) for path in found["paths"])
        axis.set(xlim=pair.window[0], ylim=(0, 100 * max(6 * least, 0.02)))
        names = ", ".join(pair.systems) or "raw scores"
        axis.set_title(f"{names}: {text} {100 * found['closest']:.2f} %", fontsize=8, loc="left")
    figure.supxlabel("threshold on the ASV side", fontsize=9)
    figure.supylabel("t-EER, per cent", fontsize=9)
    shared_legend(figure, axes[0])
    return figure
