"""The page of a state of counts: values with bounds, intervals, attacks, DET curves as bands."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np

from lightning_sasv import __version__
from lightning_sasv.checks import Floats
from lightning_sasv.counting import Bounded, Counts
from lightning_sasv.counting.closed import CLOSED
from lightning_sasv.counting.replicates import CountedInterval
from lightning_sasv.counting.views import by_group, view_of
from lightning_sasv.errors import InputError
from lightning_sasv.files import write_text
from lightning_sasv.metrics.binned import BinnedClasses, Order
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.metrics.bounds import bounded_text, ends_text
from lightning_sasv.metrics.functional.points import operating_points
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, check_replicates
from lightning_sasv.metrics.registry import DEFAULTS, METRICS, metrics_for
from lightning_sasv.places import check_stamped, stamp
from lightning_sasv.report.curves import DET_LIMITS, thinned
from lightning_sasv.report.description import Axis, Figure, Panel, Series, page_part
from lightning_sasv.report.drawing import (
    check_figures,
    draw,
    look,
    require_matplotlib,
    write_figures,
)
from lightning_sasv.report.figures import DET_TICKS, WORDS
from lightning_sasv.report.formats import html_table
from lightning_sasv.report.html import palette
from lightning_sasv.trials import TASKS


def write_counted(
    path: str, out: str | None, figures: str | None, replicates: int, overwrite: bool
) -> tuple[Counts, Path, list[Path]]:
    """Write the page of a state, and its figures if asked for.

    Args:
        path: The state, ``NAME.counts.safetensors``.
        out: HTML file to write; NAME.html beside the state by default.
        figures: Folder for the figures.
        replicates: Replicates of the intervals, which draw speakers; 0 for none.
        overwrite: Replace files though they were not made by this command of this state.
    """
    require_matplotlib()
    if replicates:
        check_replicates(replicates)
    counts, origin = Counts.load(path), stamp("report", path)
    page = Path(out or f"{path.removesuffix('.counts.safetensors')}.html")
    check_stamped(page, origin, overwrite)
    described = [one for name in counts.columns if (one := det_bands(counts, name)) is not None]
    if figures is not None:
        check_figures(figures, described, origin, overwrite)
    text = _page(Path(path), counts, described, replicates, origin)
    note = f"{Path(path).name}, {sum(counts.trials.values()):,} trials counted"
    files = [] if figures is None else write_figures(figures, described, note, origin)
    return counts, write_text(page, text), files


def det_bands(counts: Counts, column: str) -> Figure | None:
    """DET curves of the tasks of a column: between the best and the worst order within bins."""
    views = {name: view_of(one, counts.codes) for name, one in counts.columns.items()}
    low, high = (100 * rate for rate in DET_LIMITS)
    right = Axis(low, high, "false-acceptance rate, per cent", DET_TICKS, "probit")
    orders: tuple[Order, ...] = ("ties", "optimistic", "pessimistic")
    panels = []
    for task in [name for name, one in TASKS.items() if one.column == column]:
        try:
            edges, best, worst = (_curve(BinnedClasses(views, order), task) for order in orders)
        except InputError:  # a class without trials
            continue
        band = np.concatenate([best, worst[:, ::-1]], axis=1)
        series = [
            Series("line", "system0", edges[0], edges[1], "at the edges of the bins"),
            Series("area", "reference", band[0], band[1], "any order within them"),
            Series("line", "diagonal", right[:2], right[:2]),
        ]
        up, title = right._replace(label="miss rate, per cent"), WORDS["tasks"].get(task, task)
        panels.append(Panel(right, up, series, f"{task.upper()}: {title}"))
    if not panels:
        return None
    return Figure(f"det_{column}", f"DET curves of {column}", panels, "", {}, 3, (4.2, 4.7))


def _curve(classes: BinnedClasses, task: str) -> Floats:
    """False acceptances and misses of all thresholds in per cent, thinned, (2, points)."""
    parts = classes.task(task).parts
    missed, *rejected = operating_points(*parts).rejected(*parts)
    accepted = sum(part.total for part in parts[1:]) - np.sum(rejected, axis=0)
    rates = np.stack([accepted / accepted[0], missed / missed[-1]])
    return 100 * np.clip(thinned(rates), DET_LIMITS[0] / 4, 1 - 1e-9)


def _page(
    path: Path, counts: Counts, figures: Sequence[Figure], replicates: int, origin: str
) -> str:
    """The page as text; it asks for nothing from the network, and has no script."""
    trials = ", ".join(f"{number:,} {name}" for name, number in counts.trials.items())
    intervals, drawn = _intervals(counts, replicates)
    sources = [[one.name, f"{one.rows:,}"] for one in counts.sources]
    parts = [
        f"<h1>{escape(path.name)}</h1><p>{trials} trials, counted. low…high: bounds, where counts "
        f"do not tell the value.{escape(drawn)}</p>",
        html_table(
            ["metric", "value", *(["95 % interval"] if intervals else [])],
            _rows(counts.metrics(), intervals),
        ),
        *(_attacks(counts)),
        *(f"<h2>{escape(one.title)}</h2><figure>{_svg(one)}</figure>" for one in figures),
        f"<h2>What was counted</h2>{html_table(['source', 'trials'], sources)}",
        f"<footer>lightning-sasv {__version__}</footer>",
    ]
    return (
        "<!DOCTYPE html>\n<html lang=en><head><meta charset=utf-8>"
        "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; style-src "
        "'unsafe-inline'; img-src data:\">"
        f'<meta name=generator content="{origin}"><title>{escape(path.name)}</title>'
        f"<style>{palette()}{page_part('style.css')}</style></head><body><main>"
        f"{''.join(parts)}</main></body></html>\n"
    )


def _intervals(counts: Counts, replicates: int) -> tuple[dict[str, CountedInterval], str]:
    """Intervals by speaker, crossed with attacks where these are known, and what to say of them."""
    attacks = {row.attack for row in counts.rows} - {NOT_CLUSTERED}
    speakers = {*counts.speakers} - {NOT_CLUSTERED}
    if not replicates or len(speakers) < FEWEST_SPEAKERS:
        return {}, ""
    way = "speaker-attack" if attacks else "speaker"
    names = [name for name in counts.metrics() if name in CLOSED]
    found = counts.bootstrap(names, way, replicates)
    drawn = " × ".join(f"{name}s" for name in way.split("-"))
    return found, f" Intervals: {replicates} draws of {drawn}; impostors are not drawn."


def _rows(
    values: Mapping[str, Bounded], intervals: Mapping[str, CountedInterval]
) -> list[list[str]]:
    rows = []
    for metric in metrics_for("all"):
        if metric.name in values:
            ends = intervals.get(metric.name)
            text = [ends_text(metric.name, ends.ends) if ends else ""] if intervals else []
            rows.append([metric.title(), bounded_text(metric.name, values[metric.name]), *text])
    return rows


def _attacks(counts: Counts) -> list[str]:
    """Metrics of each attack, where they are known."""
    try:
        groups = by_group(counts, "attack", DEFAULTS)
    except InputError:
        return []
    names = [name for name in ("spf_eer", "cm_eer") if any(name in own for own in groups.values())]
    rows = [
        [group, *(bounded_text(name, own[name]) if name in own else "" for name in names)]
        for group, own in groups.items()
    ]
    heads = ["attack", *(METRICS[name].title() for name in names)]
    return [f"<h2>By attack</h2>{html_table(heads, rows)}"]


def _svg(figure: Figure) -> str:
    """A figure as part of a page."""
    with look():
        drawing = draw(figure)
        if drawing is None:
            return ""
        content = io.StringIO()
        drawing.savefig(content, format="svg", metadata={"Date": None})
    return re.sub(r"^.*?(?=<svg)", "", content.getvalue(), flags=re.DOTALL)
