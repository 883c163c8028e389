"""Scores of distinct probes or trials, over batches and processes; how good those of dev are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.data.loaders import ProbeBatch
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.metrics.functional import a_dcf, eer, sasv_eers
from lightning_sasv.models.objectives import FusedObjective
from lightning_sasv.models.training import Trained
from lightning_sasv.trials import KINDS, FusedScores, Scores, TrialClass


class ProbeScores(Metric):
    """Scores of numbered probes or trials, filled batch by batch and summed over processes.

    A probe is scored by exactly one process and is zero in the others, so that the sum is exact
    and its order is that of the probe list, whatever the number of processes.

    Args:
        copies: Number of stacked heads.
        probes: Number of distinct probes, or of trials.
        shape: Of the scores of one of them.
    """

    full_state_update = False
    scores: Tensor
    seen: Tensor

    def __init__(
        self, copies: int, probes: int, shape: tuple[int, ...] = (), **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        zeros = torch.zeros(copies, probes, *shape, dtype=torch.float64)
        self.add_state("scores", zeros, dist_reduce_fx="sum")
        self.add_state("seen", torch.zeros(probes, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, index: Tensor, scores: Tensor) -> None:
        """Add the (copies, batch, …) scores of the probes ``index``."""
        self.scores[:, index] += scores.to(self.scores)
        self.seen[index] += 1

    def compute(self) -> tuple[Tensor, Tensor]:
        """Scores (copies, probes, …), and which probes have one.

        Raises:
            RuntimeError: When a probe was scored more than once.
        """
        if (self.seen > 1).any():
            raise RuntimeError(f"{int((self.seen > 1).sum())} probes were scored more than once")
        return self.scores, self.seen > 0


class ScoredTrials(NamedTuple):
    """Scores of the trials of one set, on the CPU.

    Attributes:
        asv: (trials,) float64.
        cm: (copies, trials) float64; of a joint head (copies, trials, 2), its own in the places of
            an ASV and a CM score.
        label: (trials,) ``TrialClass`` codes.
        kept: (trials,) which trials of the list these are: all of them, unless the Trainer was
            told to score only some batches.
        more: Further scores (trials,) by their names.
        raw: What a joint head gave, (copies, trials) or (copies, trials, 3).
    """

    asv: Tensor
    cm: Tensor
    label: Tensor
    kept: Tensor
    more: Mapping[str, Tensor] = MappingProxyType({})
    raw: Tensor | None = None

    def pair(self, cm: Tensor) -> tuple[Tensor, Tensor]:
        """The two scores of each trial, by one copy of the head."""
        return (self.asv, cm) if self.raw is None else (cm[:, 0], cm[:, 1])

    def columns(self, cm: Tensor) -> dict[str, Tensor]:
        """All scores by name, those of one copy of the head among them: ASV, CM, quality."""
        found = {"asv_score": self.asv, "cm_score": cm, **self.more}
        return dict(sorted(found.items(), key=lambda item: KINDS.index(item[0].partition("_")[0])))

    def sides(self, cm: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        """What a system fuses: ASV scores, CM scores, quality; of a pair (trials,) each."""
        if not self.more:
            return *self.pair(cm), None
        asv, own, quality = (
            [values for name, values in self.columns(cm).items() if name.startswith(f"{kind}_")]
            for kind in KINDS
        )
        more = torch.stack(quality, 1) if quality else None
        return torch.stack(asv, 1), torch.stack(own, 1), more

    def fitting(self, cm: Tensor) -> dict[str, Any]:
        """The same, and the names of columns, as further arguments of a fit."""
        if not self.more:
            return {}
        return {"quality": self.sides(cm)[2], "columns": list(self.columns(cm))}


def has_every_class(label: Tensor) -> bool:
    """Whether the trials of a set, which may have been scored in part, are of every class."""
    return all(bool((label == code).any()) for code in TrialClass)


def score_table(data: TrialSet, scored: ScoredTrials, fused: Mapping[str, FusedScores]) -> Scores:
    """Score table of one seed: the pair of scores and the SASV score of each system.

    Args:
        data: The trials.
        scored: Their scores, ``cm`` being of one copy of the head.
        fused: Fused scores by system.
    """
    kept, trials = scored.kept.numpy(), data.trials
    asv, cm = scored.pair(scored.cm)
    return Scores(
        asv.numpy(),
        cm.numpy(),
        scored.label.numpy(),
        speaker=trials.speaker[kept],
        utterance=trials.utterance[kept],
        attack=trials.attack[kept] if (trials.attack != "").any() else None,
        extra={
            **{name: column[kept] for name, column in trials.more.items()},
            **({n: v.numpy() for n, v in scored.columns(scored.cm).items()} if scored.more else {}),
            **{f"sasv_{name}": scores.sasv.cpu().numpy() for name, scores in fused.items()},
        },
    )


class Scored(Trained):
    """A module that scores the trials of dev and eval, and says how good dev's scores are.

    Attributes:
        names: Names of the fusion systems.
        dev_rates: What the best epoch is chosen by, for each seed.
    """

    names: tuple[str, ...]

    def __init__(self) -> None:
        super().__init__()
        self.dev_rates: list[float] = []
        self._probe_scores: ProbeScores | None = None
        self._scored: ScoredTrials | None = None

    @property
    def corpus(self) -> Corpus:
        """The corpus of the Trainer's data module."""
        return self.trainer.datamodule.corpus  # type: ignore[attr-defined]

    def _key(self, name: str, copy: int) -> str:
        return name if len(self.seeds) == 1 else f"{name}@{copy}"

    @staticmethod
    def copy_of(key: str) -> int:
        """Place of the seed that a part of ``fusion`` belongs to."""
        return int(key.partition(".")[0].partition("@")[2] or 0)

    @property
    def systems(self) -> list[dict[str, FusionSystem]]:
        """The fusion systems of each seed, by name."""
        every, copies = self._systems(), range(len(self.seeds))
        return [{name: every[self._key(name, copy)] for name in self.names} for copy in copies]

    def trial_set(self) -> TrialSet:
        """The trials that the Trainer is scoring: eval in ``test``, else dev."""
        corpus = self.corpus
        return corpus.eval if self.trainer.testing or self.trainer.predicting else corpus.dev

    def on_validation_epoch_start(self) -> None:
        """Forget the scores of the last epoch."""
        data, three = self.trial_set(), self.head.logits == 3
        items = len(data.trials) if self.joint else len(data.probes)
        made = ProbeScores(len(self.seeds), items, (3,) if three else ())
        self._probe_scores, self._scored = made.to(self.device), None

    def validation_step(self, batch: ProbeBatch, batch_idx: int) -> None:
        """Score a batch of probes, or of trials."""
        assert self._probe_scores is not None
        self._probe_scores.update(batch.rows, self.head.score(batch.vectors))

    on_test_epoch_start = on_predict_epoch_start = on_validation_epoch_start
    test_step = predict_step = validation_step

    def on_test_epoch_end(self) -> None:
        """Gather the scores while every process is at this point."""
        self.scored_trials()

    def scored_trials(self) -> ScoredTrials:
        """Scores of the trials of this epoch, the same in every process.

        Raises:
            InputError: Some are not finite.
        """
        if self._scored is None:
            assert self._probe_scores is not None
            scores, seen = (tensor.cpu() for tensor in self._probe_scores.compute())
            finite = zip(self.names_of_copies, scores.flatten(1).isfinite().all(1), strict=True)
            if diverged := [name for name, fine in finite if not fine]:
                raise InputError(
                    f"{', '.join(diverged)}: the head gives scores that are not finite, its "
                    "training has diverged; make model.lr smaller"
                )
            data, raw = self.trial_set(), None
            if self.joint:
                kept, raw = seen, scores[:, seen]
                own = torch.split(raw, self._each)
                cm = torch.cat([o.pair(s) for o, s in zip(self.parts, own, strict=True)])
            else:
                kept = seen[data.probe_of_trial]
                cm = scores[:, data.probe_of_trial][:, kept]
            asv = data.asv_scores.double()
            more = {name: torch.from_numpy(own)[kept] for name, own in data.more.items()}
            self._scored = ScoredTrials(asv[kept], cm, data.label[kept], kept, more, raw)
        return self._scored

    def on_validation_epoch_end(self) -> None:
        """Log dev loss and CM EER; callbacks have fitted the fusion systems by then."""
        if self.trainer.sanity_checking:
            return
        scored = self.scored_trials()
        rows = [(math.nan,) * 4 for _ in self.seeds]  # dev was scored in part and lacks a class
        if has_every_class(scored.label):
            rows = [self._dev_values(copy, scored) for copy in range(len(self.seeds))]
        self.dev_rates = [row[-1] for row in rows]
        names = ("val/loss", "val/cm_eer", "val/cm_eer_bonafide")
        for name, *values in zip(names, *(row[:-1] for row in rows), strict=True):
            self.log(name, sum(values) / len(values), prog_bar=name == "val/cm_eer")
            if len(values) > 1:
                seeds = zip(self.names_of_copies, values, strict=True)
                self.log_dict({f"{name}/{copy}": value for copy, value in seeds})

    @property
    def names_of_copies(self) -> list[str]:
        """A name for each copy of the head."""
        return [f"seed{seed}" for seed in self.seeds]

    @property
    def monitor(self) -> str:
        """What the best epoch is chosen by: as it was set, or what fits the objective."""
        return str(self.hparams["monitor"] or self.parts[0].monitor)

    def _dev_values(self, copy: int, scored: ScoredTrials) -> tuple[float, float, float, float]:
        """Loss, CM EER of targets against spoofs, and of all bona fide trials against spoofs.

        The second is what the paper chooses checkpoints by (about 0.07 % on its dev set). The last
        is what they are chosen by here.
        """
        label, objective = scored.label, self.objective_of(copy)
        asv, cm = scored.pair(scored.cm[copy])
        spoof, target = label == TrialClass.SPOOF, label == TrialClass.TARGET
        counts = torch.stack([(label == code).sum() for code in sorted(TrialClass)])
        batch = objective.batch(label, counts, None if self.joint else asv, cm.dtype)
        raw = cm if scored.raw is None else scored.raw[copy]
        loss = float(objective.of_copy(copy % self._each).losses(raw, batch).sum())
        rate = eer(cm[target], cm[spoof]).value
        monitor = self.monitor
        best = rate if monitor == "val/cm_eer" else self._sasv_value(copy, scored, monitor)
        return loss, rate, eer(cm[~spoof], cm[spoof]).value, best

    def _sasv_value(self, copy: int, scored: ScoredTrials, monitor: str) -> float:
        """SASV-EER or least a-DCF of the score that a copy is trained for, else of the system.

        Where the user chose the monitor it is what is logged under its name: the first system's.
        """
        objective = self.objective_of(copy)
        logged = bool(self.names) and self.hparams["monitor"] is not None
        if isinstance(objective, FusedObjective) and objective.rule is not None and not logged:
            sasv = fuse(objective.rule, 0.0, scored.asv, scored.cm[copy])
        elif self.joint and self.head.logits == 2:
            sasv = scored.cm[copy][:, 0]  # to which its system applies an increasing map
        else:
            system = self._fitted_here(copy, scored)
            if not system.is_fitted:  # these scores allow no fit of it
                return math.nan
            sasv = system(*scored.sides(scored.cm[copy])).sasv
        if monitor == "val/sasv_eer":
            return sasv_eers(sasv, scored.label).sasv
        return a_dcf(sasv, scored.label, self.costs).min

    def _fitted_here(self, copy: int, scored: ScoredTrials) -> FusionSystem:
        """The first system of a copy; that of a joint head is fitted here and now.

        (A table fits systems when the training is over.)
        """
        if not self.joint:
            return self.systems[copy][self.names[0]]
        name = self.names[0] if self.names else "F3"
        own = (self.hparams["own_systems"] or {}).get(name)
        made = build_system(name, own, **(self.hparams["fusion"] or {}))
        return made.fit(*scored.sides(scored.cm[copy])[:2], scored.label)

    @property
    def costs(self) -> CostModel:
        """Cost model of the a-DCF."""
        return as_cost_model((self.hparams["fusion"] or {}).get("costs") or "a-dcf1")
