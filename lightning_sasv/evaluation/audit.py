"""What a system loses on a target corpus at the thresholds of its source.

What is lost is what the thresholds of the source cost more than thresholds from the target's own
labels: every trial is decided by the threshold that the other folds of target speakers give, so
that neither side has seen it. The interval is that of the difference on drawn speakers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.checks import Codes, Floats, blocks
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.budget import METHODS, Refit, Target, cost_of
from lightning_sasv.evaluation.deciding import fused_by
from lightning_sasv.evaluation.systems import OF_ATTACKS
from lightning_sasv.fitted import FittedSystem
from lightning_sasv.fusion.choice import folds_of
from lightning_sasv.metrics.bootstrap import ClusterDraws
from lightning_sasv.metrics.functional.dcf import a_dcf_weights, dcf_of
from lightning_sasv.metrics.functional.eer import threshold_of
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, percentile_ends
from lightning_sasv.metrics.registry import Settings, explained
from lightning_sasv.record import named_costs
from lightning_sasv.report.sections import OF_TRANSFER, verdict
from lightning_sasv.results import origin_beside
from lightning_sasv.scores import ScoreTable
from lightning_sasv.scores.columns import PAIR, matrices, of_network
from lightning_sasv.trials import CLASS_ORDER, TrialClass, claimed_speakers

CONDITIONS = ("codec", "attack")
"""Columns whose values are shown one by one, where none are asked for."""


class Audit:
    """Systems with the thresholds of their source, on the scores of a target.

    Args:
        systems: Fitted systems by name.
        tables: ``dev`` of the source and, as ``eval``, the target.
        settings: Costs and conventions.
        replicates: Draws of the intervals.
        seed: Of the draws.
    """

    def __init__(
        self,
        systems: Mapping[str, FittedSystem],
        tables: Mapping[str, ScoreTable],
        settings: Settings,
        replicates: int,
        seed: int,
    ) -> None:
        self.systems, self.tables, self.settings = systems, tables, settings
        self.labels = tables["eval"].labels()
        known = "speaker" in tables["eval"]
        names = tables["eval"].text("speaker").tolist() if known else []
        self.speakers = np.array(claimed_speakers(names)) if known else None
        self.fused = {
            split: {name: fused_by(name, one, table) for name, one in systems.items()}
            for split, table in tables.items()
        }
        self._drawn = None
        if self.speakers is not None and len(np.unique(self.speakers)) >= FEWEST_SPEAKERS:
            self._drawn = ClusterDraws(self.speakers, replicates, seed)
        self.replicates = 0 if self._drawn is None else replicates

    def thresholds(self, name: str) -> tuple[float, float]:
        """Thresholds of the EER and of the smallest a-DCF on dev of the source."""
        return self._thresholds(self.fused["dev"][name].sasv, self.tables["dev"].labels())

    def _thresholds(self, score: Floats, labels: Codes) -> tuple[float, float]:
        task = Classes({"sasv": score}, labels).task("sasv")
        weights = a_dcf_weights(self.settings.costs)
        return threshold_of(task, self.settings.convention), dcf_of(task, weights).threshold

    def settings_of(self, name: str) -> Settings:
        """Settings with the thresholds that are carried over."""
        carried, threshold = self.thresholds(name)
        llrs = self.systems[name].gives_llrs
        return replace(self.settings, carried=carried, dev_threshold=threshold, not_llr=not llrs)

    def values(self, name: str, rows: np.ndarray | None = None, split: str = "eval") -> Any:
        """Measures of a system on some trials of a set; NaN where undefined."""
        llrs, names = self.systems[name].gives_llrs, list(OF_TRANSFER)
        labels = self.tables[split].labels()
        kept = slice(None) if rows is None else rows
        pairs = zip(("asv", "cm", "sasv"), self.fused[split][name], strict=True)
        columns = {key: column[kept] for key, column in pairs}
        if not llrs:
            names.remove("policy_a_dcf")
        return explained(names, Classes(columns, labels[kept]), self.settings_of(name)).values

    def content(self, fitted: str, scores: str, name: str | None) -> dict[str, Any]:
        """What ``transfer.json`` says of every system."""
        target, speakers = self.tables["eval"], self.speakers
        corpus = name or origin_beside(target).corpus or target.path.resolve().parent.name
        source = next(iter(self.systems.values())).about.get("corpus")
        found: dict[str, Any] = {
            "format": "lightning_sasv.transfer",
            "version": 1,
            "fitted": fitted,
            "scores": scores,
            "source": str(source or Path(fitted).resolve().name),
            "target": str(corpus),
            "costs": named_costs(self.settings.costs),
            "trials": {str(code): int((self.labels == code).sum()) for code in CLASS_ORDER},
            "speakers": None if speakers is None else len(np.unique(speakers)),
            "replicates": self.replicates,
            "systems": {},
        }
        for one in self.systems:
            at = dict(zip(("eer", "a_dcf"), self.thresholds(one), strict=True))
            sets = {"source": self.values(one, split="dev"), "target": self.values(one)}
            entry = {"thresholds": at, **sets, "lost": self.lost(one)}
            found["systems"][one] = entry | {"verdict": verdict(entry, found["speakers"])}
        return found

    def lost(self, name: str) -> dict[str, dict[str, float]]:
        """What carried thresholds cost more than those of other target speakers, in two measures.

        Empty where the target's own thresholds cannot be found on some of its speakers.
        """
        score, codes = self.fused["eval"][name].sasv, self.labels
        groups = np.arange(len(codes)).astype(str) if self.speakers is None else self.speakers
        try:
            folds = folds_of(groups, codes)
        except InputError:
            return {}
        own = np.empty((2, len(codes)))
        for fold in range(folds.max() + 1):
            found = self._thresholds(score[folds != fold], codes[folds != fold])
            own[:, folds == fold] = np.array(found)[:, None]
        result, costs = {}, self.settings.costs
        of_class = np.stack([codes == code for code in CLASS_ORDER])
        pairs = zip(("hter", "a_dcf"), self.thresholds(name), own, strict=True)
        for measure, carried, others in pairs:
            wrong = [of_class & (score <= at) for at in (carried, others)]
            both = [float(cost_of(measure, bad.sum(1), of_class.sum(1), costs)) for bad in wrong]
            result[measure] = {"carried": both[0], "own": both[1], "lost": both[0] - both[1]}
            if self._drawn is not None:
                every = self._drawn.sums(of_class)
                drawn = [cost_of(measure, self._drawn.sums(bad), every, costs) for bad in wrong]
                low, high = percentile_ends(drawn[0] - drawn[1])
                result[measure] |= {"low": low, "high": high}
        return result

    def conditions(self, name: str, by: str | None) -> dict[str, dict[str, dict[str, float]]]:
        """Measures of each value of the columns; all bona fide trials belong to each attack."""
        table = self.tables["eval"]
        asked = [word.strip() for word in by.split(",")] if by else []
        table.need(asked, "--by")
        found = {}
        for column in asked or [one for one in CONDITIONS if one in table]:
            groups, own = table.text(column), np.ones(len(table), np.bool_)
            if column in OF_ATTACKS:
                own = self.labels == TrialClass.SPOOF
            found[column] = {
                str(value): self.values(name, np.flatnonzero((groups == value) & own | ~own))
                for value in np.unique(groups[own])
            }
        return found

    def target(self, name: str, wanted: tuple[str, ...] = METHODS) -> Target:
        """What the label budget of a system is about."""
        fused, system = self.fused["eval"][name], self.systems[name]
        return Target(
            fused.sasv, self.labels, self.settings.costs, self.thresholds(name), self.speakers,
            system.gives_llrs, self._refit(system) if system.gives_llrs else None, wanted,
        )  # fmt: skip

    def _refit(self, system: FittedSystem) -> Refit:
        names, table = list(system.columns.names), of_network(self.tables["eval"], system.name)
        given = matrices(table, names)
        columns, scores = system.checked(*given)
        more: dict[str, Any] = {} if tuple(names) == PAIR else {"columns": names}

        def refit(rows: np.ndarray) -> Floats:
            asv, cm, quality = (None if part is None else part[rows] for part in given)
            speakers = None if self.speakers is None else self.speakers[rows]
            own = more | {"quality": quality, "speakers": speakers}
            state = system.fit_state(system.dev_trials(asv, cm, self.labels[rows], **own))
            parts = (scores[:, block] for block in blocks(len(table)))  # faster than all at once
            fused = [np.asarray(system.fuse_pairs(state, part, columns).sasv) for part in parts]
            return np.concatenate(fused)

        return refit
