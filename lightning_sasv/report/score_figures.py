"""Figures of the scores: distributions, attacks, DET, calibration, costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy.stats import norm

from lightning_sasv.decisions import PRESETS
from lightning_sasv.metrics.functional import ece_curve, eer
from lightning_sasv.report.curves_data import (
    DET_LIMITS,
    PAV,
    TASKS,
    costs_over_thresholds,
    pav_calibration,
    robust_range,
    thin_det,
)
from lightning_sasv.report.drawing import (
    densities,
    grid_of,
    new_figure,
    shared_legend,
    system_style,
)
from lightning_sasv.report.page_data import DET_TICKS, ECE_ODDS
from lightning_sasv.report.pairs import Pair
from lightning_sasv.results import Results
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_distributions(results: Results, pairs: list[Pair]) -> Figure:
    """Densities of the raw scores and of every fused score, by class."""
    labels = results.scores.label
    columns = {"ASV score": results.scores.asv, "CM score": results.scores.cm, **results.fused}
    figure, axes = grid_of(len(columns), 4, (3.0, 2.1))
    for axis, (name, column) in zip(axes, columns.items(), strict=True):
        densities(axis, column, labels)
        axis.set_title(name, fontsize=9, loc="left", fontweight="bold")
        if name in results.fused:
            threshold = thin_det(column, labels, "sasv").threshold
            axis.axvline(threshold, color="black", linestyle="--", linewidth=0.9)
    shared_legend(figure, axes[0])
    return figure


def draw_attacks(results: Results, pairs: list[Pair]) -> Figure | None:
    """EER of every system against each attack alone, as a shaded table."""
    attack, labels = results.scores.attack, results.scores.label
    if attack is None:
        return None
    spoof, target = labels == TrialClass.SPOOF, labels == TrialClass.TARGET
    names = np.unique(attack[spoof])
    rates = np.array(
        [
            [100 * eer(column[target], column[spoof & (attack == name)]).value for name in names]
            for column in results.fused.values()
        ]
    )
    size = (1.6 + 0.55 * len(names), 1.1 + 0.32 * len(rates))
    figure, (axis,) = new_figure(1, 1, size)
    shade = (rates / max(rates.max(), 1e-9)) ** 0.6
    axis.imshow(shade, cmap="Oranges", vmin=0, vmax=1.6, aspect="auto")
    axis.set_xticks(range(len(names)), [str(name) for name in names])
    axis.set_yticks(range(len(rates)), list(results.fused))
    axis.grid(visible=False)
    for (row, column), rate in np.ndenumerate(rates):
        axis.text(column, row, f"{rate:.2f}", ha="center", va="center", fontsize=8)
    axis.set_title("SPF-EER of each attack, per cent", loc="left")
    return figure


def draw_det(results: Results, pairs: list[Pair]) -> Figure:
    """DET curves on probit axes: SASV, SV and SPF; the mark is the equal error rate."""
    titles = {"sasv": "SASV", "sv": "SV (nontargets)", "spf": "SPF (spoofs)"}
    legend_rows = -(-len(results.fused) // 3)
    figure, axes = new_figure(1, 3, (12.6, 4.7 + 0.13 * legend_rows))
    for axis, task in zip(axes, TASKS, strict=True):
        for k, (name, scores) in enumerate(results.fused.items()):
            det = thin_det(scores, results.scores.label, task)
            x, y = (norm.ppf(np.clip(r, DET_LIMITS[0] / 4, 1 - 1e-9)) for r in det[:2])
            label = f"{name} ({100 * det.eer:.2f} %)"
            crossing = [min(int(np.argmax(y >= x)), len(x) - 1)]
            axis.plot(x, y, label=label, markevery=crossing, markersize=4.5, **system_style(k))
        limits = norm.ppf(DET_LIMITS)
        axis.plot(limits, limits, color="#999999", linewidth=0.7)
        ticks, names = norm.ppf(DET_TICKS), [f"{100 * t:g}" for t in DET_TICKS]
        axis.set(xlim=limits, ylim=limits, title=titles[task], aspect="equal", anchor="N")
        axis.set_xticks(ticks, names, rotation=45)
        axis.set_yticks(ticks, names)
        axis.set_xlabel("false-acceptance rate, per cent")
        axis.legend(
            fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.17), ncols=3, handlelength=3.6
        )
    axes[0].set_ylabel("miss rate, per cent")
    return figure


def draw_ece(results: Results, pairs: list[Pair]) -> Figure:
    """Empirical cross-entropy of every system over the prior."""
    figure, axes = grid_of(len(results.fused), 4, (3.0, 2.3))
    for axis, (name, scores) in zip(axes, results.fused.items(), strict=True):
        target = results.scores.label == TrialClass.TARGET
        odds, ece, least, reference = ece_curve(scores[target], scores[~target], ECE_ODDS)
        axis.plot(odds, reference, ":", color="#59636e", label="score 0")
        axis.plot(odds, least, "--", color="#00795a", label="after PAV")
        axis.plot(odds, ece, "-", color="#0072b2", label="as it is")
        axis.set_ylim(0, 1.3)
        axis.set_title(name, fontsize=9, loc="left", fontweight="bold")
    figure.supxlabel("prior log10 odds of a target", fontsize=9)
    figure.supylabel("empirical cross-entropy, bits", fontsize=9)
    shared_legend(figure, axes[0])
    return figure


def draw_calibration(results: Results, pairs: list[Pair]) -> Figure:
    """Score to LLR by pooling adjacent violators, where pools hold trials of both kinds."""
    figure, axes = grid_of(len(results.fused), 4, (3.0, 2.3))
    for axis, (name, scores) in zip(axes, results.fused.items(), strict=True):
        target = results.scores.label == TrialClass.TARGET
        pav = pav_calibration(scores[target], scores[~target])
        x = np.stack([pav.start, pav.end], axis=1).ravel()
        llr = np.clip(pav.llr, -30, 30).repeat(2)
        axis.plot(x, llr, color="#0072b2", label="pool adjacent violators")
        low, high = _mixed_range(pav, robust_range(scores, results.scores.label))
        axis.plot([low, high], [low, high], ":", color="#59636e", label="perfect calibration")
        axis.set(xlim=(low, high), ylim=(-12, 12))
        axis.set_title(name, fontsize=9, loc="left", fontweight="bold")
    figure.supxlabel("SASV score", fontsize=9)
    figure.supylabel("LLR by pooling, nats", fontsize=9)
    shared_legend(figure, axes[0])
    return figure


def _mixed_range(pav: PAV, limits: tuple[float, float]) -> tuple[float, float]:
    """The part of a range in which pools hold trials of both kinds, with a margin of a tenth."""
    mixed = np.flatnonzero(np.isfinite(pav.llr))
    if not mixed.size:
        return limits
    low, high = float(pav.start[mixed[0]]), float(pav.end[mixed[-1]])
    margin = 0.1 * max(high - low, 1e-9)
    return max(limits[0], low - margin), min(limits[1], high + margin)


def draw_costs(results: Results, pairs: list[Pair]) -> Figure:
    """a-DCF over thresholds for every system and cost model."""
    figure, axes = grid_of(len(results.fused), 4, (3.0, 2.3))
    styles = dict(
        zip(PRESETS, ((":", "#59636e"), ("-", "#0072b2"), ("--", "#d55e00")), strict=True)
    )
    for axis, (name, scores) in zip(axes, results.fused.items(), strict=True):
        costs = costs_over_thresholds(scores, results.scores.label)
        for preset, model in PRESETS.items():
            total = model.weight_miss * costs.miss + model.weight_fa_nontarget * costs.nontarget
            total = (total + model.weight_fa_spoof * costs.spoof) / model.default_cost
            dash, colour = styles[preset]
            axis.plot(costs.thresholds, total, dash, color=colour, label=preset)
            found = costs.presets[preset]
            axis.plot(found["bayes_threshold"], found["actual"], "D", color=colour, markersize=4)
            axis.plot(found["min_threshold"], found["min"], "o", color=colour, markersize=4)
        axis.set(ylim=(0, 1.25), xlim=robust_range(scores, results.scores.label))
        axis.set_title(name, fontsize=9, loc="left", fontweight="bold")
    figure.supxlabel("threshold (● minimum, ◆ actual at the Bayes threshold)", fontsize=9)
    figure.supylabel("normalised a-DCF", fontsize=9)
    shared_legend(figure, axes[0])
    return figure
