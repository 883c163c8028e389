"""What a card says of measurements: tables of errors and EERs by speaker, and figures (SVG)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from html import escape
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import CostModel
from lightning_sasv.deploy.decision import Verdict
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import ClusterDraws, bootstrap
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, cautions, percentile_ends
from lightning_sasv.terminal import clean
from lightning_sasv.trials import CLASS_ORDER, Scores, TrialClass

REPLICATES = 400
EERS = {"sasv_eer": "SASV-EER", "sv_eer": "SV-EER", "spf_eer": "SPF-EER"}

WIDTH, HEIGHT, EDGE = 640, 420, 48
WORDS = 185
"""Width of what stands beside the bar of an attack."""
COLOURS = dict(zip(CLASS_ORDER, ("#0072b2", "#e69f00", "#d55e00"), strict=True))
SHADES = {"accept": "#dcefdc", "unsure": "#fff4d6"}
SHOWN, CELLS = 300, 64


def percent(share: float | None) -> str:
    """A share in per cent, a dash for none.

    Example:
        >>> percent(0.0106)
        '1.06 %'
    """
    return "–" if share is None or share != share else f"{100 * share:.2f} %"


class Attack(NamedTuple):
    """What became of the spoofs of an attack: shares, and the interval of those accepted."""

    name: str
    trials: int
    accepted: float
    unsure: float
    ends: tuple[float, float] | None

    def cells(self) -> tuple[str, str, str]:
        """Accepted, its interval, and unsure, as a table has them."""
        return percent(self.accepted), _ends(self.ends), percent(self.unsure)


def measured_on(scorer: Scorer, sets: Mapping[str, Scores]) -> list[tuple[str, ...]]:
    """Rows of a table: each measure of each set, with its interval."""
    rows = [("measure", *(cell for split in sets for cell in (split, "95 % by speaker")))]
    columns = [_measures(scorer, trials) for trials in sets.values()]
    for name in columns[0]:
        cells = [column.get(name, ("–", "–")) for column in columns]
        rows.append((name, *(cell for pair in cells for cell in pair)))
    return rows


def said_of(sets: Mapping[str, Scores]) -> list[str]:
    """What the intervals of the table are, and how sure they are."""
    lines = [
        f"95 % intervals: percentile, {REPLICATES} draws of enrolled speakers; dev is what the "
        "system was fitted to."
    ]
    for split, trials in sets.items():
        if (number := _speakers(trials)) is not None:
            lines += [f"{split}: {one.split(';')[0]}." for one in cautions(REPLICATES, number)]
    return lines


def _speakers(trials: Scores) -> int | None:
    return None if trials.speaker is None else len(np.unique(trials.speaker))


def by_attack(scorer: Scorer, trials: Scores) -> list[Attack]:
    """What became of the spoofs of each attack, where attacks are named."""
    if trials.attack is None:
        return []
    verdict, found = scorer.of(trials), []
    for name in sorted({*trials.attack[trials.label == TrialClass.SPOOF].tolist()}):
        own = (trials.attack == name) & (trials.label == TrialClass.SPOOF)
        accepted, unsure = verdict.accepted[own], verdict.unsure[own]
        speakers = None if trials.speaker is None else trials.speaker[own]
        ends = _rates_drawn(np.ones((1, len(accepted))), accepted[None], speakers)
        both = float(accepted.mean()), float(unsure.mean())
        found.append(Attack(name, len(accepted), *both, _span(ends[0]) if len(ends) else None))
    return found


def _measures(scorer: Scorer, trials: Scores) -> dict[str, tuple[str, str]]:
    labels = np.asarray(trials.label)
    if not {*TrialClass} <= {*np.unique(labels).tolist()}:
        return {}
    verdict = scorer.of(trials)
    of_class = np.tile([labels == code for code in CLASS_ORDER], (3, 1))
    flags = of_class & _flags(verdict)
    values = _rows(scorer.costs, flags.sum(axis=1) / of_class.sum(axis=1))
    drawn = _rates_drawn(of_class, flags, trials.speaker)
    ends = {k: _span(one) for k, one in _rows(scorer.costs, drawn).items()} if len(drawn) else {}
    found = {}
    for name, value in values.items():
        form = ".4f" if "a-DCF" in name else "%"
        shown = percent(float(value)) if form == "%" else format(float(value), form)
        found[name] = shown, _ends(ends.get(name), form)
    return found | _eers(verdict, trials)


def _flags(verdict: Verdict) -> Any:
    """Of targets, nontargets and spoofs: wrong decisions, no decision, and what would be wrong."""
    accepted, unsure, positive = verdict.accepted, verdict.unsure, verdict.margin > 0
    wrong = [~accepted & ~unsure, accepted, accepted]
    return np.stack([*wrong, *[unsure] * 3, ~positive, positive, positive])


def _rows(costs: CostModel, shares: Floats) -> dict[str, Any]:
    """The measures, of shares (9,) or of replicates of them (9, replicates)."""
    wrong, unsure, without = shares[:3], shares[3:6], shares[6:]
    names = ["targets rejected", "nontargets accepted", "spoofs accepted"]
    names += [f"unsure {code}s" for code in CLASS_ORDER]
    price = costs.c_abstain if costs.c_abstain < math.inf else 0.0
    paid = price * (np.array(costs.priors) @ unsure)
    weights = np.array(costs.weights) / costs.default_cost
    return {
        "policy a-DCF": weights @ wrong + paid / costs.default_cost,
        **dict(zip(names, shares, strict=False)),
        "policy a-DCF without unsure": weights @ without,
    }


def _rates_drawn(trials: Any, wrong: Any, speakers: Any) -> Floats:
    """Rates (rows, replicates) with speakers drawn as everywhere; empty where they are too few."""
    if speakers is None:
        return np.empty((0, 0))
    if len(np.unique(speakers)) < FEWEST_SPEAKERS:
        return np.empty((0, 0))
    drawn = ClusterDraws(speakers, REPLICATES)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(drawn.sums(wrong) / drawn.sums(trials))


def _span(replicates: Floats) -> tuple[float, float] | None:
    """Ends of the interval; none where a draw lacks a class, or where all draws say the same."""
    told = np.isfinite(replicates).all() and np.ptp(replicates) > 0
    return percentile_ends(replicates) if told else None


def _ends(ends: tuple[float, float] | None, form: str = "%") -> str:
    if ends is None:
        return "–"
    low, high = (f"{100 * end:.2f}" if form == "%" else format(end, form) for end in ends)
    return f"{low} to {high}" + (" %" if form == "%" else "")


def _eers(verdict: Verdict, trials: Scores) -> dict[str, tuple[str, str]]:
    """The three EERs of the fused score, with the same draws."""
    with suppress(InputError):
        drawn = trials.speaker, REPLICATES
        found = bootstrap([*EERS], verdict.score, trials.label, *drawn, method="percentile")
        few = (_speakers(trials) or 0) < FEWEST_SPEAKERS
        return {
            EERS[name]: (percent(one.value), _ends(None if few else (one.low, one.high)))
            for name, one in found.items()
        }
    return {}


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
