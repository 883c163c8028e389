"""Common parts of the matplotlib figures: style, axes, densities, points."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.report.curves_data import histogram, robust_range
from lightning_sasv.report.pairs import ORDER, Pair, equal_sample
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SAMPLE = 500
"""Trials of each class in a scatter plot."""

STYLES: dict[TrialClass, dict[str, Any]] = {
    TrialClass.TARGET: {"color": "#0072b2", "marker": "o", "linestyle": "-"},
    TrialClass.NONTARGET: {"color": "#4d5358", "marker": "+", "linestyle": ":"},
    TrialClass.SPOOF: {"color": "#d55e00", "marker": "^", "linestyle": "--"},
}
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#b8528f", "#8a6d00", "#1f1f1f", "#2f8dc8", "#7a4fbf")
MARKERS = ("o", "s", "^", "D", "X", "P")
DASHES = ("-", "--", ":", "-.", (0, (5, 1)), (0, (3, 1, 1, 1)))


@contextmanager
def style() -> Iterator[None]:
    """The look of all figures; names are shown as they are, never read as formulas."""
    import matplotlib as mpl

    settings: Any = {
        "font.size": 9,
        "axes.grid": True,
        "grid.color": "#e6e6e6",
        "axes.axisbelow": True,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "legend.frameon": False,
        "svg.hashsalt": "lightning_sasv",
        "svg.fonttype": "none",
        "pdf.fonttype": 42,
        "mathtext.default": "regular",
        "text.parse_math": False,
    }
    with mpl.rc_context(settings):
        yield


def new_figure(
    rows: int, columns: int, size: tuple[float, float], heights: Sequence[float] | None = None
) -> tuple[Figure, list[Axes]]:
    """A figure of rows and columns of axes, without pyplot's global state."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=size, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, height_ratios=heights)
    return figure, list(axes.ravel())


def grid_of(count: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Axes]]:
    """A figure of so many axes in rows of at most so many columns."""
    columns = min(columns, count)
    rows = -(-count // columns)
    figure, axes = new_figure(rows, columns, (columns * size[0], rows * size[1]))
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def densities(axis: Axes, column: np.ndarray, labels: np.ndarray) -> None:
    """Densities of a column by class."""
    low, high = robust_range(column, labels)
    found = histogram(column, [labels == code for code in ORDER], (low, high))
    edges = np.linspace(low, high, found.counts.shape[1] + 1)
    for code, counts, size in zip(ORDER, found.counts, found.sizes, strict=True):
        density = counts / size / (edges[1] - edges[0])
        style = {key: STYLES[code][key] for key in ("color", "linestyle")}
        axis.stairs(density, edges, fill=True, alpha=0.12, color=style["color"])
        axis.stairs(density, edges, label=str(code), linewidth=1.2, **style)
    axis.set_yticks([])


def scatter(axis: Axes, pair: Pair, labels: np.ndarray, per_class: int = SAMPLE) -> None:
    """The same number of trials of every class in the plane of a pair."""
    chosen = equal_sample(labels, per_class)
    for code in reversed(ORDER):
        trials = chosen[labels[chosen] == code]
        axis.scatter(
            pair.values[0, trials],
            pair.values[1, trials],
            s=9,
            alpha=0.45,
            linewidths=0.8 if code == TrialClass.NONTARGET else 0,
            color=STYLES[code]["color"],
            marker=STYLES[code]["marker"],
            label=str(code),
        )
    axis.set_xlim(*pair.window[0])
    axis.set_ylim(*pair.window[1])
    kind = "LLR" if pair.is_llr else "score"
    axis.set_xlabel(f"ASV {kind}")
    axis.set_ylabel(f"CM {kind}")


def system_style(number: int) -> dict[str, Any]:
    """Colour, dash and mark of the system of a number; no two of 36 share both dash and mark."""
    shift = number // len(MARKERS)
    return {
        "marker": MARKERS[number % len(MARKERS)],
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[(number + shift) % len(DASHES)],
        "linewidth": 1.3,
    }


def shared_legend(figure: Figure, axis: Axes) -> None:
    """One legend above all axes, targets first, with marks in full colour."""
    found = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    order = {str(code): rank for rank, code in enumerate(ORDER)}
    names = sorted(found, key=lambda name: order.get(name, len(order)))
    legend = figure.legend(
        [found[name] for name in names], names, loc="outside upper center", ncols=3
    )
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1)
