"""Metrics of weighted trials that need two scores: t-EER, t-DCF, three-class cross-entropy."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from lightning_sasv.checks import Codes, Floats, UndefinedMetricError
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.metrics.functional.concurrent import Tandem, find_meeting
from lightning_sasv.metrics.functional.cross_entropy import (
    check_finite,
    class_priors,
    entropy,
    refitted,
    trial_losses,
)
from lightning_sasv.metrics.functional.ladder import ladder, smallest_cost
from lightning_sasv.metrics.functional.sorted_trials import Drawn, SortedClass, SortedTrials
from lightning_sasv.metrics.functional.steps import Steps
from lightning_sasv.metrics.functional.tandem import closest_pair, curves_at, thresholds_of
from lightning_sasv.metrics.functional.tdcf import Version, tdcf_coefficients, verifier_rates
from lightning_sasv.metrics.functional.weighted import Values, weighted_sum
from lightning_sasv.trials import TrialClass


def asv_classes(trials: SortedTrials) -> list[SortedClass]:
    """Targets, nontargets and spoofs by their ASV scores."""
    order = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)
    return [trials.of("asv", member) for member in order]


def cm_classes(trials: SortedTrials) -> list[SortedClass]:
    """Bona fide trials and spoofs by their CM scores."""
    genuine = (TrialClass.TARGET, TrialClass.NONTARGET)
    return [trials.of("cm", *genuine), trials.of("cm", TrialClass.SPOOF)]


class TandemFamily:
    """Concurrent t-EER: ``t_eer``, and ``t_eer_closest`` if wanted."""

    def __init__(self, trials: SortedTrials, closest: bool) -> None:
        self.classes = [*asv_classes(trials), *cm_classes(trials)]
        self.closest = closest
        self.grids = thresholds_of(Tandem(*(Steps(part.values) for part in self.classes)))

    def __call__(self, drawn: Drawn) -> Values:
        """The rates of weighted trials."""
        steps = [Steps(part.values, drawn.of(part)) for part in self.classes]
        values = {"t_eer": math.nan, "t_eer_closest": math.nan}
        if not all(part.total for part in steps):
            return values
        tandem = Tandem(*steps)
        meeting = find_meeting(tandem)
        if meeting is not None:
            return dict.fromkeys(values, meeting.value)
        if self.closest:
            values["t_eer_closest"] = closest_pair(curves_at(tandem, *self.grids)).mean
        return values


class TandemCostFamily:
    """Minimum t-DCF: ``min_t_dcf`` and ``min_t_dcf_legacy``."""

    def __init__(self, trials: SortedTrials, costs: CostModel) -> None:
        self.asv, self.cm = asv_classes(trials), cm_classes(trials)
        self.asv_rungs = ladder(self.asv[0].values, self.asv[1].values)
        self.cm_rungs = ladder(self.cm[0].values, self.cm[1].values)
        self.costs = costs

    def __call__(self, drawn: Drawn) -> Values:
        """The costs of weighted trials."""
        totals = [drawn.cumulative(part) for part in self.asv]
        bona_fide, spoof = (drawn.cumulative(part) for part in self.cm)
        if not all(total[-1] for total in totals):
            return {"min_t_dcf": math.nan, "min_t_dcf_legacy": math.nan}
        rates = verifier_rates([part.values for part in self.asv], totals, self.asv_rungs)
        counts = bona_fide.take(self.cm_rungs.first), spoof.take(self.cm_rungs.below[0])
        values: Values = {}
        versions: dict[str, Version] = {"min_t_dcf": "2019", "min_t_dcf_legacy": "legacy"}
        for name, version in versions.items():
            values[name] = math.nan
            with suppress(UndefinedMetricError):  # a resampled verifier too poor for the t-DCF
                c0, c1, c2 = tdcf_coefficients(rates, self.costs, version)
                cost, _ = smallest_cost((c1, c2), counts[0], counts[1:])
                values[name] = (c0 + cost) / (c0 + min(c1, c2))
        return values


class CrossEntropyFamily:
    """Normalised three-class cross-entropy: ``nce``, and ``nce_min`` if wanted."""

    def __init__(
        self, asv: Floats, cm: Floats, codes: Codes, costs: CostModel, minimum: bool
    ) -> None:
        for name, column in (("asv", asv), ("cm", cm)):
            check_finite(column, name)
        self.asv, self.cm, self.codes, self.minimum = asv, cm, codes, minimum
        self.prior = class_priors(costs)
        losses = trial_losses(asv, cm, codes, self.prior)
        self.trials = [np.flatnonzero(codes == code) for code in range(self.prior.size)]
        self.losses = [losses[trials] for trials in self.trials]

    def __call__(self, drawn: Drawn) -> Values:
        """The cross-entropy of weighted trials."""
        weights = drawn.weights
        counts = [weights.take(trials) for trials in self.trials]
        values = {"nce": math.nan, "nce_min": math.nan}
        if not all(count.any() for count in counts):
            return values
        totals = np.array([float(count.sum()) for count in counts])
        pairs = zip(self.losses, counts, strict=True)
        sums = np.array([weighted_sum(loss, count) for loss, count in pairs])
        values["nce"] = float(self.prior @ (sums / totals)) / entropy(self.prior)
        if self.minimum:
            used = np.flatnonzero(weights)
            codes = self.codes[used]
            shares = weights[used] * (self.prior / totals)[codes]
            values["nce_min"] = refitted(self.asv[used], self.cm[used], codes, shares, self.prior)
        return values
