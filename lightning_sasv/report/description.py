"""What a figure is: panels with two axes and series, described once for the page and the files.

``figures.py`` makes the descriptions, ``drawing.py`` draws them with matplotlib, and
``page/painter.js`` in the page; neither of the two knows what a figure is about. Colours, dashes,
marks and words are those of ``page/figures.json``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple


def page_part(name: str) -> str:
    """Text of a file of the page."""
    return (files("lightning_sasv.report") / "page" / name).read_text(encoding="utf-8").strip()


class Style(NamedTuple):
    """How a series looks: a colour of the palette, dashes and width in pixels, shape of marks."""

    colour: str
    dash: str = ""
    mark: str = "circle"
    width: float = 1.6


@cache
def shared() -> dict[str, Any]:
    """What page and files share: palette (on light and on dark ground), styles, words; looks."""
    return dict(json.loads(page_part("figures.json")))


@cache
def styles() -> dict[str, Style]:
    """The named styles; 36 systems, ``system0`` and so on, differ in dash or mark."""
    named = {name: Style(**style) for name, style in shared()["styles"].items()}
    marks, dashes = shared()["system_marks"], shared()["system_dashes"]
    for number in range(len(marks) * len(dashes)):
        dash = dashes[(number + number // len(marks)) % len(dashes)]
        named[f"system{number}"] = Style(f"s{number % 8}", dash, marks[number % len(marks)])
    return named


class Axis(NamedTuple):
    """An axis: its ends, its name, its marks (``None``: as the drawing likes), its scale."""

    low: float
    high: float
    label: str = ""
    ticks: Sequence[tuple[float, str]] | None = None
    scale: str = "linear"
    """``linear``, or ``probit`` of values in per cent."""


@dataclass(frozen=True)
class Series:
    """What is drawn in a panel.

    Attributes:
        kind: ``line`` and ``points`` at (x, y); ``rule``, a vertical line at x; ``density``,
            heights y of equal bins from x[0] to x[1]; ``ridge``, the same standing on ``base``;
            ``area``, the inside of the outline (x, y);
            ``level``, where z over the grid x, y is 0; ``cells``, a table of numbers z.
        style: Key of ``STYLES``, or ``system<number>``.
        x: Places.
        y: Heights.
        label: Name in legends.
        mark: Shape of its marks, if not that of the style.
        marked: Numbers of the points of a line that also get a mark.
        value: A number that legends show, in per cent.
        hover: What the page says of a point, with {x}, {y}, {label} and the names of ``more``.
        more: Further columns for ``hover``.
        z: Values on a grid.
        base: Where a ridge stands.
        source: What the page, which holds trials and grids of pairs, makes x, y or z from: the
            number of a pair and, for a level, policy and costs.
        of: System whose choice shows it in the page; files show that of the smallest value.
    """

    kind: str
    style: str
    x: Any = ()
    y: Any = ()
    label: str = ""
    mark: str = ""
    marked: Sequence[int] = ()
    value: float | None = None
    hover: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    z: Any = None
    base: float = 0.0
    source: Mapping[str, Any] | None = None
    of: str = ""


@dataclass(frozen=True)
class Panel:
    """One frame.

    Attributes:
        x: Axis to the right.
        y: Axis upwards.
        series: What is drawn; trials lie below lines, and the first of them on top.
        title: What it is of.
        subtitle: More of that, small, in the page.
        of: When the page shows it: its value of each choice (system, pair and the figure's own).
        only: ``page`` or ``file`` for a panel that only one of them shows.
        notes: Words in the frame.
        remark: The result in words, beside the legend of the page.
        caption: What the page says below it.
        height: In the page: share of its width, and the least and the most pixels.
        below: A lower panel that belongs to it.
        beside: Words right of the frame, and the heights where they stand.
    """

    x: Axis
    y: Axis
    series: Sequence[Series]
    title: str = ""
    subtitle: str = ""
    of: Mapping[str, Any] = field(default_factory=dict)
    only: str = ""
    notes: Sequence[str] = ()
    remark: str = ""
    caption: str = ""
    height: tuple[float, float, float] = (0.0, 340.0, 340.0)
    below: Panel | None = None
    beside: Sequence[tuple[float, str]] = ()


@dataclass(frozen=True)
class Figure:
    """A figure.

    Attributes:
        name: Name of its files and of its place in the page.
        title: Heading.
        panels: Its panels.
        caption: What the page says below it.
        choices: Values and names of what the page lets choose, by choice.
        columns: Panels of a row in the files.
        size: Inches of a panel in the files.
        labels: Names of the axes of all panels in the files; by default each panel has its own.
        legend: ``shared`` above all panels, or ``each`` below its own, in the files.
        data: Rows of the CSV file beside the drawings, if there is one.
    """

    name: str
    title: str
    panels: Sequence[Panel]
    caption: str = ""
    choices: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    columns: int = 4
    size: tuple[float, float] = (3.0, 2.3)
    labels: tuple[str, str] | None = None
    legend: str = "shared"
    data: Sequence[Mapping[str, Any]] = ()
