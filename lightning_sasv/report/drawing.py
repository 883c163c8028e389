"""Descriptions of figures as matplotlib figures and as PNG, PDF and SVG files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from scipy.special import ndtri

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, ensure_directory, write_text
from lightning_sasv.places import check_stamped, refuse
from lightning_sasv.report.description import Axis, Figure, Panel, Series, shared, styles
from lightning_sasv.terminal import clean

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing
    from matplotlib.text import Text

FORMATS = ("png", "pdf", "svg")
MARKS = {"circle": "o", "square": "s", "triangle": "^", "diamond": "D", "cross": "x", "plus": "+"}
SHARE = 0.7
"""Points of a line in a file per pixel of it in the page."""
MARGIN = 0.1
"""Inches at the sides of a figure that was widened."""


def require_matplotlib() -> None:
    """Say how to install matplotlib where it is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "--figures needs matplotlib, which is not installed; "
            "`pip install 'lightning-sasv[report]'` installs it"
        ) from None


def write_figures(
    folder: str | Path, figures: Sequence[Figure], note: str, origin: str
) -> list[Path]:
    """Write figures, each as PNG, PDF and SVG.

    Args:
        folder: Where.
        figures: Their descriptions.
        note: What stands in their corner.
        origin: Stamp of what they were made of.

    Raises:
        InputError: matplotlib is not installed, or the folder cannot be written to.
    """
    require_matplotlib()
    folder, written = ensure_directory(folder), list[Path]()
    for figure in figures:
        with look():
            drawing = draw(figure)
            if drawing is not None:
                written += _save(folder, figure.name, drawing, note, origin)
        if figure.data:
            frame = pl.DataFrame(figure.data)
            written.append(write_text(folder / f"{figure.name}.csv", frame.write_csv()))
    return written


def check_figures(
    folder: str | Path, figures: Sequence[Figure], origin: str, overwrite: bool
) -> None:
    """Refuse to replace files that do not have a stamp."""
    for figure in figures:
        for suffix in FORMATS:
            check_stamped(Path(folder) / f"{figure.name}.{suffix}", origin, overwrite)
        data, drawing = (Path(folder) / f"{figure.name}.{end}" for end in ("csv", FORMATS[0]))
        if figure.data and data.exists() and not (overwrite or drawing.exists()):
            refuse(data, "something else than the data of a figure")  # ours lie beside a drawing


def _save(folder: Path, name: str, drawing: Drawing, note: str, origin: str) -> list[Path]:
    look: dict[str, Any] = {"ha": "right", "va": "top", "fontsize": 7, "color": _colour("soft")}
    _widen(drawing, drawing.text(0.995, 0.995, clean(note), **look))
    drawing.set_layout_engine("none")  # it is laid out, once for all formats
    paths = [folder / f"{name}.{suffix}" for suffix in FORMATS]
    about: dict[str, dict[str, str | None]] = {
        "png": {"Software": origin},
        "pdf": {"Creator": origin, "CreationDate": None},
        "svg": {"Creator": origin, "Date": None},
    }
    for path, suffix in zip(paths, FORMATS, strict=True):
        with atomic_path(path) as temporary:
            drawing.savefig(temporary, format=suffix, dpi=200, metadata=about[suffix])
    return paths


def _widen(drawing: Drawing, note: Text | None = None) -> None:
    """Lay a drawing out, wide enough for its legend and its names, and for a note beside them."""
    from matplotlib.text import Text

    drawing.draw_without_rendering()
    corner = note.get_window_extent() if note else None
    beside, low = (corner.width, corner.y0) if corner else (0.0, np.inf)
    legends = [one.get_window_extent() for one in drawing.legends]
    names = [one.get_window_extent() for one in drawing.texts if one is not note]
    titles = [
        one.get_window_extent()
        for axes in drawing.axes
        for one in axes.get_children()
        if isinstance(one, Text) and one.get_text()
    ]
    needed = [one.width + 2 * beside for one in legends] + [one.width for one in names]
    needed += [one.x1 + beside for one in titles if one.y1 > low]
    if max(needed, default=0.0) > drawing.bbox.width:
        drawing.set_figwidth(max(needed) / drawing.dpi + MARGIN)
        drawing.draw_without_rendering()


@contextmanager
def look() -> Iterator[None]:
    """The look of all figures; names are shown as they are, never read as formulas."""
    import matplotlib as mpl

    with mpl.rc_context(shared()["files"]):
        yield


def draw(figure: Figure) -> Drawing | None:
    """A description as a matplotlib figure, without pyplot's global state; call within ``look``."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Drawing

    panels = [panel for panel in figure.panels if panel.only != "page"]
    if not panels:
        return None
    columns = min(figure.columns, len(panels))
    rows = -(-len(panels) // columns)
    drawing = Drawing((columns * figure.size[0], rows * figure.size[1]), layout="constrained")
    FigureCanvasAgg(drawing)
    heights = [2.2, 1.0] if any(panel.below for panel in panels) else [1.0]
    grid = drawing.subplots(
        len(heights) * rows, columns, squeeze=False, height_ratios=heights * rows
    )
    for axes in grid.flat:
        axes.set_axis_off()
    for k, panel in enumerate(panels):
        row, column = len(heights) * (k // columns), k % columns
        _draw_panel(grid[row, column], panel, figure)
        if panel.below:
            _draw_panel(grid[row + 1, column], panel.below, figure)
    _label(drawing, grid, figure, shared_axis=all(panel.y == panels[0].y for panel in panels))
    if columns < 3:
        _widen(drawing)
    return drawing


def _label(drawing: Drawing, grid: Any, figure: Figure, shared_axis: bool) -> None:
    """Names of axes and a legend that stand once for several panels."""
    from matplotlib.patches import Patch

    if shared_axis:
        for axes in grid[:, 1:].flat:
            axes.set_ylabel("")
    if figure.labels is not None:
        drawing.supxlabel(figure.labels[0], fontsize=9)
        drawing.supylabel(figure.labels[1], fontsize=9)
    named = [axes.get_legend_handles_labels() for axes in grid.flat]
    keys = {name: key for keys, names in named for key, name in zip(keys, names, strict=True)}
    if figure.legend == "shared" and keys:
        legend = drawing.legend(keys.values(), keys, loc="outside upper center", ncols=3)
        for handle in filter(None, legend.legend_handles):
            handle.set_alpha(0.3 if isinstance(handle, Patch) else 1)


def _draw_panel(axes: Axes, panel: Panel, figure: Figure) -> None:
    axes.set_axis_on()
    _set_axis(axes, "x", panel.x)
    _set_axis(axes, "y", panel.y)
    if figure.labels is None:
        axes.set_xlabel(", ".join([panel.x.label, *panel.notes]).removeprefix(", "))
        axes.set_ylabel(panel.y.label)
    if panel.beside:
        right = axes.secondary_yaxis("right")
        right.set_yticks([at for at, _ in panel.beside], [text for _, text in panel.beside])
        right.tick_params(length=0)
    long = max(len(other.title) for other in figure.panels) > 24
    font: dict[str, Any] = {"fontsize": 8} if long else {"fontsize": 9, "fontweight": "bold"}
    axes.set_title(panel.title, loc="left", **font)
    for depth, series in enumerate(panel.series):
        DRAWERS[series.kind](axes, panel, series, depth / 100)
    if figure.legend == "each":
        below: dict[str, Any] = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.17), "ncols": 3}
        axes.legend(fontsize=7, handlelength=3.6, **below)


def _set_axis(axes: Axes, which: str, axis: Axis) -> None:
    axes.set(**{f"{which}lim": _scaled(axis, [axis.low, axis.high])})
    if axis.scale == "probit":
        axes.set(aspect="equal", anchor="N")
    if axis.ticks is not None:
        turned = 45 if which == "x" and axis.scale == "probit" else 0
        places = _scaled(axis, [at for at, _ in axis.ticks])
        getattr(axes, f"set_{which}ticks")(
            places, [text for _, text in axis.ticks], rotation=turned
        )


def _scaled(axis: Axis, values: Any) -> Any:
    values = np.asarray(values, dtype=np.float64)
    return ndtri(values / 100) if axis.scale == "probit" else values


def _colour(name: str) -> str:
    return str(shared()["palette"][name][0])


def _stroke(series: Series) -> dict[str, Any]:
    style = styles()[series.style]
    pattern = [float(part) / 1.9 for part in style.dash.split()]
    dash = (0, pattern) if pattern else "-"
    return {"color": _colour(style.colour), "linestyle": dash, "linewidth": SHARE * style.width}


def _mark(series: Series) -> str:
    return series.mark or styles()[series.style].mark


def _draw_line(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    x, y = _scaled(panel.x, series.x), _scaled(panel.y, series.y)
    label = series.label if series.value is None else f"{series.label} ({series.value:.2f} %)"
    look = _stroke(series) | {"label": label or None, "zorder": 2 - depth}
    if len(series.marked):
        shape = {"cross": "X", "plus": "P"}.get(_mark(series)) or MARKS[_mark(series)]
        look |= {"marker": shape, "markersize": 4.5, "markevery": list(series.marked)}
    axes.plot(x, y, **look)


def _draw_points(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    many, thin = len(series.x) > 1, _mark(series) in ("plus", "cross")
    look: dict[str, Any] = {"s": 9, "alpha": 0.45, "zorder": 1 - depth} if many else {"s": 26}
    look |= {"linewidths": (0.8 if many else 1.5) if thin else 0} | ({} if many else {"zorder": 3})
    if "size" in series.more:
        look["s"] = 3 + 22 * np.asarray(series.more["size"]) ** 2
    colour, label = _stroke(series)["color"], series.label or None
    axes.scatter(series.x, series.y, color=colour, marker=MARKS[_mark(series)], label=label, **look)


def _draw_rule(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    axes.axvline(series.x[0], **_stroke(series))


def _draw_density(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    edges = np.linspace(series.x[0], series.x[1], len(series.y) + 1)
    heights, stroke = np.asarray(series.y) + series.base, _stroke(series)
    order: dict[str, Any] = {"baseline": series.base, "zorder": 1.5 - depth}
    axes.stairs(heights, edges, fill=True, alpha=0.12, color=stroke["color"], **order)
    axes.stairs(heights, edges, label=series.label or None, **stroke, **order)


def _draw_area(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    valued = [(one.value, one.label) for one in panel.series if one.value is not None]
    if series.of and series.of != min(valued)[1]:
        return
    look = {"color": _stroke(series)["color"], "alpha": 0.15, "linewidth": 0}
    x, y = _scaled(panel.x, series.x), _scaled(panel.y, series.y)
    axes.fill(x, y, label=series.label or None, **look)


def _draw_level(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    if series.z.min() < 0 < series.z.max():
        stroke: dict[str, Any] = {f"{key}s": [value] for key, value in _stroke(series).items()}
        axes.contour(series.x, series.y, series.z, levels=[0.0], **stroke)


def _draw_cells(axes: Axes, panel: Panel, series: Series, depth: float) -> None:
    shade = (series.z / max(series.z.max(), 1e-9)) ** 0.6
    axes.imshow(shade, cmap="Oranges", vmin=0, vmax=1.6, aspect="auto")
    axes.grid(visible=False)
    for (row, column), value in np.ndenumerate(series.z):
        axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8)


DRAWERS: dict[str, Callable[[Axes, Panel, Series, float], None]] = {
    "line": _draw_line,
    "points": _draw_points,
    "rule": _draw_rule,
    "density": _draw_density,
    "ridge": _draw_density,
    "area": _draw_area,
    "level": _draw_level,
    "cells": _draw_cells,
}
