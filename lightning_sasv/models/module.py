"""The LightningModule: trains the head and scores dev and eval trials."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from torch import Tensor, nn

from lightning_sasv.checks import positive
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSettings, FusionSystem, build_system
from lightning_sasv.models.heads import Given, find_head, fitting_systems, make_head
from lightning_sasv.models.objectives import MONITORS, Objective, chosen, make_objective, rule_of
from lightning_sasv.models.scoring import Scored


class StaysHere(nn.ModuleDict):
    """Modules that stay on the CPU as they are, whatever device and type those around them take.

    Systems are small, and are fitted there exactly; a copy to a GPU and back would serve nothing.
    """

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> StaysHere:
        return self


def _check_numbers(settings: Mapping[str, Any]) -> None:
    """Refuse numbers with which nothing can be trained."""
    positive("model.lr", settings["lr"])
    for name in ("weight_decay", "lr_decay"):
        if not 0 <= settings[name] < math.inf:
            raise InputError(f"model.{name} must be finite and not negative, got {settings[name]}")
    weights, widths = list(settings["class_weights"] or ()), list(settings["hidden_dims"])
    if not all(0 < one < math.inf for one in weights):
        raise InputError(f"model.class_weights must be positive and finite, got {weights}")
    if min(widths, default=1) < 1:
        raise InputError(f"model.hidden_dims must be at least 1, got {widths}")


class SASVModule(Scored):
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
        _check_numbers(self.hparams)
        self.lr, self.weight_decay, self.lr_decay = lr, weight_decay, lr_decay
        self.seeds = tuple(seeds)
        self.names, rule = self._choose(head, objective, systems)
        self.head = make_head(self.hparams, self.seeds)
        unknown = set(fusion or {}) - set(signature(FusionSystem).parameters)
        if unknown:
            raise InputError(f"model.fusion: a fusion system has no setting {min(unknown)!r}")
        settings, self.fusion = own_systems or {}, StaysHere()
        for key, name in [(self._key(n, c), n) for n in self.names for c in range(len(self.seeds))]:
            if hasattr(StaysHere, key) or "." in key:
                raise InputError(f"model.systems: {name!r} cannot be the name of a system")
            self.fusion[key] = build_system(name, settings.get(name), **(fusion or {}))
        self.objectives = nn.ModuleList([self._make_objective(rule)])
        # every process fits them to the same scores: nothing to be shared, least of all by a GPU
        own = [f"fusion.{name}" for name, _ in self.fusion.named_buffers()]
        self._ddp_params_and_buffers_to_ignore = own

    def _choose(
        self, head: Given, objective: str, systems: Sequence[str]
    ) -> tuple[tuple[str, ...], str]:
        """The systems that a head has scores for, and the rule whose score it may be trained for.

        What was chosen is noted as settings.
        """
        own = self.hparams["own_systems"] or {}
        named, names, self.left_out = fitting_systems(head, objective, systems, own)
        self._note("head", find_head(head)[0])
        if self.left_out:
            self._note("systems", names)
        named, rule = chosen(named, names)
        self._note("objective", named)
        return tuple(names), rule

    def _make_objective(self, rule: str) -> Objective:
        """The objective of all copies; what was chosen is noted as a setting."""
        name, own, monitor = (self.hparams[n] for n in ("objective", "class_weights", "monitor"))
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
        return made

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

    def alone(
        self, copy: int, systems: Sequence[str], own: dict[str, FusionSettings] | None = None
    ) -> SASVModule:
        """A copy of the head as a module of its own, with systems of its own."""
        new = {"systems": tuple(systems), "seeds": (self.seeds[copy],), "own_systems": own or None}
        known = {name: value for name, value in self.hparams.items() if name != "networks"}
        module = SASVModule(**known | new)
        module.head.to(self.head.dtype).load_state_dict(self.head.select(copy).state_dict())
        return module


class Networks(SASVModule):
    """Systems' own networks of each seed as one stacked model.

    The copies of a network stand together, in the order of the seeds. None knows of the others.

    Args:
        networks: Names of systems with a network of their own.
        seeds: Training seeds.
        **settings: As for ``SASVModule``; the objective is ``a_dcf`` or ``fused``.
    """

    def __init__(self, networks: Sequence[str], seeds: Sequence[int], **settings: Any) -> None:
        named = "a_dcf" if settings.get("objective") == "a_dcf" else "fused"
        settings |= {"objective": named, "systems": (), "seeds": tuple(seeds) * len(networks)}
        super().__init__(**settings)
        self.networks = tuple(networks)
        self._note("seeds", self.seeds)  # one for each copy, as those of the data
        shared = settings.get("class_weights"), self.costs, len(seeds)
        self.objectives = nn.ModuleList(
            make_objective(named, rule_of(name), *shared) for name in self.networks
        )

    @property
    def names_of_copies(self) -> list[str]:
        """A name for each copy of the head."""
        owners = [name for name in self.networks for _ in range(self._each)]
        return [f"{owner}/seed{seed}" for owner, seed in zip(owners, self.seeds, strict=True)]
