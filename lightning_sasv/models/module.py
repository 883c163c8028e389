"""The LightningModule: trains the CM head and scores dev and eval trials."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from inspect import signature
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, softplus

from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.data.loaders import IGNORE, ProbeBatch, TrainBlock
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSettings, FusionSystem, build_system
from lightning_sasv.metrics.functional import eer
from lightning_sasv.models.cm_head import IN_DIM, CMHead
from lightning_sasv.models.optimised import Optimised
from lightning_sasv.models.scoring import ProbeScores, ScoredTrials, has_every_class
from lightning_sasv.trials import TrialClass


class StaysHere(nn.ModuleDict):
    """Modules that stay on the CPU as they are, whatever device and type those around them take.

    Systems are small, and are fitted there exactly; a copy to a GPU and back would serve nothing.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> StaysHere:
        return self


class SASVModule(Optimised):
    """Countermeasure head, cosine ASV score, and the fusion systems fitted on their scores.

    Training minimises the class-weighted cross-entropy of the CM label, normalised by the sum of
    the weights in the batch, with Adam and an L2 penalty. Several optimiser steps are made inside
    one Lightning step (manual optimisation), and several seeds are trained side by side as one
    stacked model; neither changes the result of a step.

    Args:
        in_dim: Size of the CM embedding; by default that of the corpus.
        hidden_dims: Widths of the head: 258-128-64 (83,074 parameters) by default, 256-128-64 has
            the 82,496 that the paper counts.
        negative_slope: Slope of the LeakyReLU.
        lr: Learning rate of Adam.
        weight_decay: L2 penalty in Adam.
        class_weights: Weights of spoof and bona fide in the loss.
        systems: Names of the fusion systems to fit on dev; the first is the one logged as
            ``val/sasv_eer``.
        fusion: Settings that replace those of every named system, e.g. ``{rho: 0.5}``.
        seeds: Training seeds; set from ``--seed_everything`` on the command line.
    """

    def __init__(
        self,
        in_dim: int | None = None,
        hidden_dims: Sequence[int] = (258, 128, 64),
        negative_slope: float = 0.3,
        lr: float = 5e-5,
        weight_decay: float = 1e-3,
        class_weights: tuple[float, float] = (0.1, 0.9),
        systems: Sequence[str] = ("B1",),
        fusion: FusionSettings | None = None,
        seeds: Sequence[int] = (1986,),
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        if not (lr > 0 and weight_decay >= 0 and min(class_weights) > 0):
            raise InputError(
                "model.lr and model.class_weights must be positive and model.weight_decay not "
                f"negative; got {lr}, {list(class_weights)} and {weight_decay}"
            )
        if min(hidden_dims, default=1) < 1:
            raise InputError(f"model.hidden_dims must be at least 1, got {list(hidden_dims)}")
        self.automatic_optimization = False
        self.lr, self.weight_decay = lr, weight_decay
        self.seeds = tuple(seeds)
        widths = IN_DIM if in_dim is None else in_dim, hidden_dims
        self.head = CMHead(*widths, negative_slope, seeds=self.seeds)
        self.class_weights = (class_weights[0], class_weights[1])
        unknown = set(fusion or {}) - set(signature(FusionSystem).parameters)
        if unknown:
            raise InputError(f"model.fusion: a fusion system has no setting {min(unknown)!r}")
        self.names = tuple(systems)
        self.fusion = StaysHere(
            {
                self._key(name, copy): build_system(name, **(fusion or {}))
                for name in systems
                for copy in range(len(self.seeds))
            }
        )
        # every process fits them to the same scores: nothing to be shared, least of all by a GPU
        own = [f"fusion.{name}" for name, _ in self.fusion.named_buffers()]
        self._ddp_params_and_buffers_to_ignore = own
        self.dev_rates: list[float] = []
        self._probe_scores: ProbeScores | None = None
        self._scored: ScoredTrials | None = None
        self._train_loss: list[Tensor] = []

    def setup(self, stage: str) -> None:
        """Check the corpus of the Trainer's data module."""
        super().setup(stage)
        self.check(self.corpus)

    def check(self, corpus: Corpus) -> None:
        """Check that the embeddings have the size that the head expects, or take theirs."""
        if self.hparams["in_dim"] is None:
            self._take_size(corpus.cm_stores[0].dim)
        for store in corpus.cm_stores:
            store.require_dim(self.head.in_dim)

    def _take_size(self, size: int) -> None:
        """Make the head for embeddings of this size, and note the size as a setting."""
        if size != self.head.in_dim:
            head = self.head
            self.head = CMHead(size, head.hidden_dims, head.negative_slope, seeds=self.seeds)
        for settings in (self.hparams, self.__dict__["_hparams_initial"]):
            settings["in_dim"] = size

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

    def alone(self, copy: int, systems: Sequence[str]) -> SASVModule:
        """The head of one seed as a module of its own, with systems of its own."""
        own = {"systems": tuple(systems), "seeds": (self.seeds[copy],)}
        module = SASVModule(**(dict(self.hparams) | own))
        module.head.to(self.head.dtype).load_state_dict(self.head.select(copy).state_dict())
        return module

    # Training

    def trial_weights(self, label: Tensor, count: Tensor) -> Tensor:
        """Weight of each trial in the loss, w_y / Σ w over the global batch; 0 for padding.

        Args:
            label: (…, batch), 1 bona fide, 0 spoof, ``IGNORE`` for padding.
            count: (…, 2), spoof and bona fide trials in the batch over all processes.
        """
        weights = torch.tensor(self.class_weights, dtype=self.head.dtype, device=label.device)
        norm = (count.to(weights) @ weights).unsqueeze(-1)
        return torch.where(label == IGNORE, 0, weights[label.clamp(min=0)] / norm)

    def training_step(self, block: TrainBlock, batch_idx: int) -> None:
        """Make every optimiser step of the block.

        With two classes the cross-entropy is the logistic loss of the CM score s, whose derivative
        is w (σ(s) − y): the backward pass starts there, and the loss itself, which is only logged,
        is computed once for the block. Each process computes its share of the global loss; the
        gradients are averaged over processes, hence the factor ``world_size``. The heads share no
        parameter, so that the gradient of the summed loss is each head's own.
        """
        dtype = self.head.dtype
        vectors, target = block.vectors.to(dtype), (block.label == 1).to(dtype)
        weight = self.trial_weights(block.label, block.counts) * self.trainer.world_size
        optimizer, backward, step = self.stepper()
        scores = []
        for x, y, w in zip(vectors, target, weight, strict=True):
            score = self.head.score(x)
            scores.append(score.detach())
            optimizer.optimizer.zero_grad()
            backward(score, gradient=(scores[-1].sigmoid() - y) * w)
            step()
        self.count_steps(len(scores))
        losses = binary_cross_entropy_with_logits(
            torch.stack(scores), target, weight, reduction="none"
        )
        self._train_loss.append(losses.sum((1, 2)))

    def on_train_epoch_end(self) -> None:
        """Log the mean loss of the epoch (logging every step would cost more than the step)."""
        if self._train_loss:  # none where a training goes on from the end of an epoch
            mean = torch.cat(self._train_loss).mean() / len(self.seeds)
            self._train_loss.clear()
            self.log("train/loss", mean, sync_dist=True)
        super().on_train_epoch_end()

    # Scoring

    def trial_set(self) -> TrialSet:
        """The trials that the Trainer is scoring: eval in ``test``, else dev."""
        corpus = self.corpus
        return corpus.eval if self.trainer.testing or self.trainer.predicting else corpus.dev

    def on_validation_epoch_start(self) -> None:
        """Forget the scores of the last epoch."""
        probes = len(self.trial_set().probes)
        self._probe_scores = ProbeScores(len(self.seeds), probes).to(self.device)
        self._scored = None

    def validation_step(self, batch: ProbeBatch, batch_idx: int) -> None:
        """Score a batch of probes."""
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
            data = self.trial_set()
            kept = seen[data.probe_of_trial]
            cm = scores[:, data.probe_of_trial]
            asv = data.asv_scores.double()
            self._scored = ScoredTrials(asv[kept], cm[:, kept], data.label[kept], kept)
        return self._scored

    def on_validation_epoch_end(self) -> None:
        """Log dev loss and CM EER; callbacks have fitted the fusion systems by then."""
        if self.trainer.sanity_checking:
            return
        scored = self.scored_trials()
        rows = [(math.nan,) * 3 for _ in self.seeds]  # dev was scored in part and lacks a class
        if has_every_class(scored.label):
            rows = [self._dev_values(cm, scored.label) for cm in scored.cm]
        self.dev_rates = [rate for _, rate, _ in rows]
        names = ("val/loss", "val/cm_eer", "val/cm_eer_bonafide")
        for name, *values in zip(names, *rows, strict=True):
            self.log(name, sum(values) / len(values), prog_bar=name == "val/cm_eer")
            if len(values) > 1:
                seeds = zip(self.seeds, values, strict=True)
                self.log_dict({f"{name}/seed{seed}": value for seed, value in seeds})

    def _dev_values(self, cm: Tensor, label: Tensor) -> tuple[float, float, float]:
        """Loss, CM EER of targets against spoofs, and of all bona fide trials against spoofs.

        The second is what the paper chooses checkpoints by (about 0.07 % on its dev set).
        """
        spoof, target = label == TrialClass.SPOOF, label == TrialClass.TARGET
        weights = cm.new_tensor(self.class_weights)[(~spoof).long()]
        loss = (softplus(torch.where(spoof, cm, -cm)) * weights).sum() / weights.sum()
        return float(loss), eer(cm[target], cm[spoof]).value, eer(cm[~spoof], cm[spoof]).value
