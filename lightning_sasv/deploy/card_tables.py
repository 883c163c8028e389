"""What a card says of measurements: errors of decisions and EERs, with intervals by speaker."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import CostModel
from lightning_sasv.deploy.decision import Verdict
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bootstrap import ClusterDraws, bootstrap
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, cautions, percentile_ends
from lightning_sasv.trials import CLASS_ORDER, Scores, TrialClass

REPLICATES = 400
EERS = {"sasv_eer": "SASV-EER", "sv_eer": "SV-EER", "spf_eer": "SPF-EER"}


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
