"""Figures of a card, as SVG that stands in its page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.deploy.card_tables import Attack
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.terminal import clean
from lightning_sasv.trials import CLASS_ORDER, Scores

WIDTH, HEIGHT, EDGE = 640, 420, 48
WORDS = 185
"""Width of what stands beside the bar of an attack."""
COLOURS = dict(zip(CLASS_ORDER, ("#0072b2", "#e69f00", "#d55e00"), strict=True))
SHADES = {"accept": "#dcefdc", "unsure": "#fff4d6"}
SHOWN, CELLS = 300, 64


def score_plane(scorer: Scorer, trials: Scores, split: str) -> str:
    """Trials on the plane of their scores (of several: their LLRs), and what is decided where."""
    pair = scorer.system.columns.is_pair
    verdict = scorer.of(trials)
    if pair:
        points, names = np.stack([trials.asv, trials.cm]), ("ASV score", "CM score")
    elif verdict.asv_llr is not None:
        points, names = np.stack([verdict.asv_llr, verdict.cm_llr]), ("ASV LLR", "CM LLR")
    else:
        return ""
    low, high = np.quantile(points, 0.001, axis=1), np.quantile(points, 0.999, axis=1)
    low, high = low - 0.05 * (high - low), high + 0.05 * (high - low) + 1e-9
    parts = [_region(scorer, low, high)] if pair else []
    for code, colour in COLOURS.items():
        rows = np.flatnonzero(np.asarray(trials.label) == code)
        for row in rows[:: max(1, len(rows) // SHOWN)].tolist():
            x, y = _placed(points[:, row], low, high)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2" fill="{colour}"/>')
    key = [*((f"{code}s", COLOURS[code]) for code in CLASS_ORDER), *SHADES.items()]
    for k, (word, colour) in enumerate(key[: 5 if pair else 3]):
        parts.append(
            f'<rect x="{EDGE + 110 * k}" y="8" width="12" height="12" fill="{colour}"/>'
            f'<text x="{EDGE + 18 + 110 * k}" y="19">{word}</text>'
        )
    parts.append(_axes(names, low, high))
    return _svg(
        parts, HEIGHT, f"{split} trials and decisions on the plane of {' and '.join(names)}"
    )


def attack_bars(attacks: Sequence[Attack]) -> str:
    """Share of the spoofs of each attack that is accepted, and that is unsure beyond it."""
    largest = max(max(one.accepted + one.unsure for one in attacks), 1e-4)
    parts, room = [], WIDTH - 2 * EDGE - WORDS
    for k, one in enumerate(attacks):
        y, start = 10 + 22 * k, 2.0 * EDGE
        for share, colour in ((one.accepted, COLOURS[CLASS_ORDER[2]]), (one.unsure, "#c9a227")):
            width = room * share / largest
            parts.append(
                f'<rect x="{start:.1f}" y="{y}" width="{width:.1f}" height="14" fill="{colour}"/>'
            )
            start += width
        shown = f"{100 * one.accepted:.2f} % accepted, {100 * one.unsure:.2f} % unsure"
        parts.append(f'<text x="4" y="{y + 12}">{escape(clean(one.name[:12]))}</text>')
        parts.append(f'<text x="{start + 4:.1f}" y="{y + 12}" font-size="10">{shown}</text>')
    return _svg(parts, 24 + 22 * len(attacks), "spoofs accepted and unsure, by attack")


def _region(scorer: Scorer, low: Floats, high: Floats) -> str:
    """What is decided on a grid of cells, runs of equal ones as one rectangle."""
    steps = (np.arange(CELLS) + 0.5) / CELLS
    x, y = (low[k] + steps * (high[k] - low[k]) for k in (0, 1))
    words = scorer(np.tile(x, CELLS), np.repeat(y, CELLS)).decision.reshape(CELLS, CELLS)
    wide, tall, parts = (WIDTH - 2 * EDGE) / CELLS, (HEIGHT - 2 * EDGE) / CELLS, []
    for row in range(CELLS):
        ends = [*np.flatnonzero(words[row, 1:] != words[row, :-1]) + 1, CELLS]
        for start, end in zip([0, *ends[:-1]], ends, strict=True):
            if (word := str(words[row, start])) in SHADES:
                top = HEIGHT - EDGE - (row + 1) * tall
                size = f'width="{(end - start) * wide:.1f}" height="{tall:.1f}"'
                place = f'x="{EDGE + start * wide:.1f}" y="{top:.1f}"'
                parts.append(f'<rect {place} {size} fill="{SHADES[word]}"/>')
    return "".join(parts)


def _placed(point: Floats, low: Floats, high: Floats) -> tuple[float, float]:
    x, y = np.clip((point - low) / (high - low), 0, 1).tolist()
    return EDGE + x * (WIDTH - 2 * EDGE), HEIGHT - EDGE - y * (HEIGHT - 2 * EDGE)


def _axes(names: tuple[str, str], low: Floats, high: Floats) -> str:
    frame = f'width="{WIDTH - 2 * EDGE}" height="{HEIGHT - 2 * EDGE}" fill="none" stroke="#888"'
    bottom = HEIGHT - EDGE + 16
    return (
        f'<rect x="{EDGE}" y="{EDGE}" {frame}/>'
        f'<text x="{EDGE}" y="{bottom}">{low[0]:.3g}</text>'
        f'<text x="{WIDTH / 2}" y="{bottom + 14}" text-anchor="middle">{names[0]}</text>'
        f'<text x="{WIDTH - EDGE}" y="{bottom}" text-anchor="end">{high[0]:.3g}</text>'
        f'<text x="4" y="{HEIGHT - EDGE}">{low[1]:.3g}</text>'
        f'<text x="14" y="{HEIGHT / 2}" text-anchor="middle" '
        f'transform="rotate(-90 14 {HEIGHT / 2})">{names[1]}</text>'
        f'<text x="4" y="{EDGE + 10}">{high[1]:.3g}</text>'
    )


def _svg(parts: Sequence[Any], height: int, title: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-size="12" font-family="sans-serif"><title>{escape(title)}</title>'
        f"{''.join(parts)}</svg>"
    )
