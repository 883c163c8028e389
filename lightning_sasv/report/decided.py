"""What the Bayes policy does beyond its cost: inversions, and what dev did not measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import CostModel, abstain, accept, empirical_cost, inversions
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import FittedSystem
from lightning_sasv.fusion.conformal import LEVEL, Measured, measure, outside_in_words
from lightning_sasv.metrics_file import blocks
from lightning_sasv.record import settings_of
from lightning_sasv.report.formats import folded, html_table
from lightning_sasv.results import Results
from lightning_sasv.trials import CLASS_ORDER, Scores, TrialClass

PRICES = (0.05, 0.1, 0.2, 0.5)
"""What deciding nothing may cost, where the costs of the results do not say."""


class Priced(NamedTuple):
    """Decisions of a system on a set where deciding nothing has a price.

    Attributes:
        price: ``c_abstain``.
        unsure: Share of targets, nontargets and spoofs on which nothing is decided.
        cost: Policy a-DCF with what that costs, over the usual normaliser.
    """

    price: float
    unsure: tuple[float, float, float]
    cost: float


class Decided(NamedTuple):
    """Decisions of a system on a set.

    Attributes:
        inversions: Rejected trials at least as good in every score as an accepted one.
        cost: Policy a-DCF; with ``unsure``, of accepts outside what dev measured left open.
        unsure: Share of targets, nontargets and spoofs that would be accepted but are outside;
            ``None`` where dev has too few trials, or is not known.
        caught: Share of the accepted spoofs that are outside.
        priced: What the policy does where it may decide nothing, price by price.
    """

    inversions: int
    cost: tuple[float, float]
    unsure: tuple[float, float, float] | None
    caught: float | None
    priced: list[Priced]


def decided(
    system: FittedSystem, trials: Scores, costs: CostModel, dev: Scores | None
) -> Decided | None:
    """What a system that gives LLRs decides; nothing where columns are missing."""
    scores = _columns(system, trials)
    if scores is None:
        return None
    labels = np.asarray(trials.label)
    fused, free = system.of(trials), replace(costs, c_abstain=math.inf)
    accepted = np.asarray(accept(fused, costs))
    priced = []
    for price in prices_of(costs):
        model = replace(costs, c_abstain=price)
        nothing = np.asarray(abstain(fused, model))
        found = empirical_cost(accepted & ~nothing, labels, model, nothing)
        priced.append(Priced(price, found.unsure, float(found.normalised)))
    cost = float(empirical_cost(accepted, labels, costs).normalised)
    count = int(inversions(accepted, scores).sum())
    measured = None if dev is None else _measured(system, dev)
    if measured is None:
        return Decided(count, (cost, cost), None, None, priced)
    unsure = accepted & measured.outside(scores, LEVEL)
    left = empirical_cost(accepted & ~unsure, labels, free, unsure)
    spoofs = accepted & (labels == TrialClass.SPOOF)
    caught = float((unsure & spoofs).sum() / spoofs.sum()) if spoofs.any() else None
    return Decided(count, (cost, float(left.normalised)), left.unsure, caught, priced)


def prices_of(costs: CostModel) -> list[float]:
    """The price of deciding nothing that costs have, or some at which it can cost least.

    Example:
        >>> prices_of(CostModel())
        [0.05, 0.1, 0.2]
    """
    if costs.c_abstain < math.inf:
        return [costs.c_abstain]
    return [price for price in PRICES if price < costs.most_c_abstain]


def _columns(system: FittedSystem, trials: Scores) -> Floats | None:
    columns = system.columns.without_quality()
    if columns.is_pair:
        own = trials.of_system(str(system.name))
        return np.stack([own.asv, own.cm])
    if not all(name in trials.extra for name in columns.names):
        return None
    return np.stack([trials.extra[name] for name in columns.names])


def _measured(system: FittedSystem, dev: Scores) -> Measured | None:
    scores = _columns(system, dev)
    try:
        columns = system.columns.without_quality()
        found = None if scores is None else measure(scores, np.asarray(dev.label), columns)
    except InputError:
        return None
    return found if found is not None and found.least_level <= LEVEL else None


def decided_section(results: Results) -> str:
    """The table of the page, folded; empty where no system gives LLRs or costs are not recorded."""
    known = [settings_of(of) for _, _, of in blocks(results.metrics, results.split)]
    settings = next((one for one in known if one is not None), None)
    if settings is None:
        return ""
    rows, priced = [], []
    for name, system in results.systems.items():
        own = (system, results.scores, settings.costs, results.dev)
        if system.gives_llrs and (one := decided(*own)) is not None:
            rows.append(_cells(name, one))
            priced += [
                [name, f"{each.price:g}", *_percent(each.unsure), f"{each.cost:.4f}"]
                for each in one.priced
            ]
    unsure = [f"unsure {code}s" for code in CLASS_ORDER]
    heads = ["system", "inversions", "policy a-DCF"]
    heads += [*unsure, "accepted spoofs caught", "a-DCF then"]
    how = (
        f"Inversions: of {len(results.scores):,} {results.split} trials, those rejected though an "
        "accepted one is no better in any score. Unsure: would be accepted, but lies "
        f"{outside_in_words(LEVEL)}; it counts as no error and without a price."
    )
    price = (
        "At a price: where deciding nothing costs c_abstain, the policy does so wherever that is "
        "the least risk. Look at the shares of each class: one that is rare at these priors hardly "
        "shows in the cost, which has c_abstain for each unsure trial, over the usual normaliser."
    )
    at_prices = ["system", "c_abstain", *unsure, "policy a-DCF"]
    parts = [f"<p>{how}</p>{html_table(heads, rows, 'Decisions')}"] if rows else []
    parts += [f"<p>{price}</p>{html_table(at_prices, priced, 'At a price')}"] if priced else []
    title = "Decisions: inversions, and what is left open"
    return folded(title, "".join(parts)) if parts else ""


def _cells(name: str, one: Decided) -> list[str]:
    shares = ["–"] * 3 if one.unsure is None else _percent(one.unsure)
    caught = "–" if one.caught is None else f"{100 * one.caught:.0f} %"
    costs = [f"{cost:.4f}" for cost in one.cost]
    return [name, f"{one.inversions:,}", costs[0], *shares, caught, costs[1]]


def _percent(shares: Sequence[float]) -> list[str]:
    return [f"{100 * share:.2f} %" for share in shares]
