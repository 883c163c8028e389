"""The LightningModule: trains the head and scores dev and eval trials."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from inspect import signature
from typing import cast

import torch
from torch import Tensor, nn

from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.data.loaders import ProbeBatch
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSettings, FusionSystem, build_system
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.metrics.functional import a_dcf, eer, sasv_eers
from lightning_sasv.models.heads import Given, find_head, fitting_systems, make_head
from lightning_sasv.models.objectives import MONITORS, FusedObjective, chosen, make_objective
from lightning_sasv.models.scoring import ProbeScores, ScoredTrials, has_every_class
from lightning_sasv.models.trained import Trained
from lightning_sasv.trials import TrialClass


class StaysHere(nn.ModuleDict):
    """Modules that stay on the CPU as they are, whatever device and type those around them take.

    Systems are small, and are fitted there exactly; a copy to a GPU and back would serve nothing.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> StaysHere:
        return self


class SASVModule(Trained):
    """Countermeasure head, cosine ASV score, and the fusion systems fitted on their scores.

    A head that sees both embeddings gives the scores of a trial itself, in the places of the two.

    Training minimises an objective (by default the class-weighted cross-entropy of the CM label),
    normalised by the sum of the weights in the batch, with Adam and an L2 penalty. Several
    optimiser steps are made inside one Lightning step (manual optimisation), and several seeds are
    trained side by side as one stacked model; neither changes the result of a step.

    Args:
        in_dim: Size of the CM embedding; by default that of the corpus.
        hidden_dims: Widths of the head: 258-128-64 (83,074 parameters) by default, 256-128-64 has
            the 82,496 that the paper counts.
        negative_slope: Slope of the LeakyReLU.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in Adam.
        objective: What the head is trained for: ``cm`` (is the probe bona fide?), ``fused`` (is the
            trial a target, by the score of Post or B1v2, or the head's own?), ``a_dcf`` (the same,
            and its cost), ``three_class`` (spoof, target or nontarget? of heads with three logits),
            or ``auto``: ``fused`` for Post or B1v2 alone, what a joint system needs, else ``cm``.
        class_weights: Weights of spoof and bona fide in the loss, or of spoof, target and
            nontarget; by default 0.1 and 0.9 for ``cm``, else all alike.
        systems: Names of the fusion systems to fit on dev; the first is the one logged as
            ``val/sasv_eer``.
        fusion: Settings that replace those of every named system, e.g. ``{rho: 0.5}``.
        monitor: What the best epoch is chosen by: ``val/cm_eer``, ``val/sasv_eer`` or
            ``val/a_dcf``, the latter of the first system; by default what fits the objective, of
            the score that it trains for.
        own_systems: Settings of systems of your own by their names; on the command line
            ``--systems my.yaml`` gives them.
        seeds: Training seeds; set from ``--seed_everything`` on the command line.
        head: ``cm``, or a head that sees both embeddings: ``concat`` (systems E2, E3), ``film``
            (F2, F3), or a class of yours (docs/extend.md).
        dropout: Share of the hidden units that are left out of a training step.
        asv_dim: Size of the ASV embedding, for such a head; by default that of the corpus.
        lr_decay: The learning rate of a step is lr / (1 + lr_decay · steps before it).

    Raises:
        InputError: A setting is out of range, unknown, or does not go with the others.
    """

    def __init__(
        self,
        in_dim: int | None = None,
        hidden_dims: Sequence[int] = (258, 128, 64),
        negative_slope: float = 0.3,
        lr: float = 5e-5,
        weight_decay: float = 1e-3,
        objective: str = "auto",
        class_weights: tuple[float, float] | tuple[float, float, float] | None = None,
        systems: Sequence[str] = ("B1",),
        fusion: FusionSettings | None = None,
        monitor: str | None = None,
        own_systems: dict[str, FusionSettings] | None = None,
        seeds: Sequence[int] = (1986,),
        head: Given = "cm",
        dropout: float = 0.0,
        asv_dim: int | None = None,
        lr_decay: float = 0.0,
    ) -> None:
        super().__init__()
        if isinstance(head, str):  # equal texts are one object in every process, and so the bytes
            head = sys.intern(head)  # of a checkpoint are equal
        self.save_hyperparameters()
        if not (lr > 0 and weight_decay >= 0 and min(class_weights or (1.0,)) > 0):
            raise InputError(
                "model.lr and model.class_weights must be positive and model.weight_decay not "
                f"negative; got {lr}, {list(class_weights or ())} and {weight_decay}"
            )
        if not 0 <= lr_decay < math.inf:
            raise InputError(f"model.lr_decay must not be negative, got {lr_decay}")
        if min(hidden_dims, default=1) < 1:
            raise InputError(f"model.hidden_dims must be at least 1, got {list(hidden_dims)}")
        self.lr, self.weight_decay, self.lr_decay = lr, weight_decay, lr_decay
        self.seeds = tuple(seeds)
        self.names = systems = self._choose(head, objective, systems)
        self.head = make_head(self.hparams, self.seeds)
        unknown = set(fusion or {}) - set(signature(FusionSystem).parameters)
        if unknown:
            raise InputError(f"model.fusion: a fusion system has no setting {min(unknown)!r}")
        settings, self.fusion = own_systems or {}, StaysHere()
        for key, name in [(self._key(n, c), n) for n in systems for c in range(len(self.seeds))]:
            if hasattr(StaysHere, key) or "." in key:
                raise InputError(f"model.systems: {name!r} cannot be the name of a system")
            self.fusion[key] = build_system(name, settings.get(name), **(fusion or {}))
        self.objectives = self._make_objectives()
        # every process fits them to the same scores: nothing to be shared, least of all by a GPU
        own = [f"fusion.{name}" for name, _ in self.fusion.named_buffers()]
        self._ddp_params_and_buffers_to_ignore = own
        self.dev_rates: list[float] = []
        self._probe_scores: ProbeScores | None = None
        self._scored: ScoredTrials | None = None

    def _choose(self, head: Given, objective: str, systems: Sequence[str]) -> tuple[str, ...]:
        """The systems that a head has scores for; what was chosen is noted as settings."""
        own = self.hparams["own_systems"] or {}
        named, names, self.left_out = fitting_systems(head, objective, systems, own)
        self._note("head", find_head(head)[0])
        if self.left_out:
            self._note("systems", names)
        self._note("objective", chosen(named, names)[0])
        return tuple(names)

    def _make_objectives(self) -> nn.ModuleList:
        """The objective of all copies; what was chosen is noted as a setting."""
        own, monitor = self.hparams["class_weights"], self.hparams["monitor"]
        name, rule = chosen(self.hparams["objective"], self.names)
        if (name == "cm" and self.joint) or (name == "three_class" and not self.joint):
            raise InputError(
                "model.objective: three_class needs three logits of a trial, as the heads concat "
                "and film have; cm is for the head cm, which has two of a probe"
            )
        own_score = None if self.joint else rule
        made = make_objective(name, own_score, own, self.costs, len(self.seeds))
        self._note("class_weights", own or made.default_weights)
        if monitor not in (None, *MONITORS):
            raise InputError(f"model.monitor: expected {' or '.join(MONITORS)}, got {monitor!r}")
        if not self.names and name == "cm" and monitor not in (None, "val/cm_eer"):
            raise InputError(
                f"model.monitor: {monitor} is that of a system; a network that several share has "
                "val/cm_eer"
            )
        return nn.ModuleList([made])

    def setup(self, stage: str) -> None:
        """Check the corpus of the Trainer's data module."""
        super().setup(stage)
        self.check(self.corpus, stage == "fit")

    def check(self, corpus: Corpus, training: bool = False) -> None:
        """Check that the embeddings have the sizes that the head expects, or take theirs.

        Args:
            corpus: The corpus.
            training: Whether the training set is needed, too.
        """
        if self.hparams["in_dim"] is None or (self.joint and self.hparams["asv_dim"] is None):
            self._take_sizes(corpus)
        for store in corpus.cm_stores:
            store.require_dim(self.head.cm_dim)
        if training and (self.compares or self.joint):
            _ = corpus.train.asv_vectors
        if self.joint:
            corpus.eval.asv.require_dim(self.head.asv_dim)
        if self.joint and corpus.eval.more:
            raise InputError("data.more_scores: a head that sees both embeddings fuses no scores")

    def _note(self, name: str, value: object) -> None:
        """Note what a setting became."""
        for settings in (self.hparams, self.__dict__["_hparams_initial"]):
            settings[name] = value

    def _take_sizes(self, corpus: Corpus) -> None:
        """Make the head for embeddings of these sizes, and note the sizes as settings."""
        before = self.head.cm_dim, self.head.asv_dim
        if self.hparams["in_dim"] is None:
            self._note("in_dim", corpus.cm_stores[0].dim)
        if self.joint and self.hparams["asv_dim"] is None:
            self._note("asv_dim", corpus.eval.asv.dim)
        made = make_head(self.hparams, self.seeds)
        if (made.cm_dim, made.asv_dim) != before:
            self.head = made

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
        return [
            {name: self._system(self._key(name, copy)) for name in self.names}
            for copy in range(len(self.seeds))
        ]

    def _system(self, key: str) -> FusionSystem:
        return cast("FusionSystem", self.fusion[key])

    def alone(
        self, copy: int, systems: Sequence[str], own: dict[str, FusionSettings] | None = None
    ) -> SASVModule:
        """A copy of the head as a module of its own, with systems of its own."""
        new = {"systems": tuple(systems), "seeds": (self.seeds[copy],), "own_systems": own or None}
        known = {name: value for name, value in self.hparams.items() if name != "networks"}
        module = SASVModule(**known | new)
        module.head.to(self.head.dtype).load_state_dict(self.head.select(copy).state_dict())
        return module

    # Scoring

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
        """Scores of the trials of this epoch, the same in every process."""
        if self._scored is None:
            assert self._probe_scores is not None
            scores, seen = (tensor.cpu() for tensor in self._probe_scores.compute())
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
