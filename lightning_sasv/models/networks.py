"""Networks for several objectives, trained side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from lightning_sasv.fusion import FusionSettings
from lightning_sasv.models.module import SASVModule
from lightning_sasv.models.objectives import FusedObjective, make_objective, rule_of


class Networks(SASVModule):
    """Networks of each seed as one stacked model: that of the CM label, and systems' own.

    The copies of a network stand together, in the order of the seeds. None knows of the others.

    Args:
        networks: ``cm``, and names of systems with a network of their own.
        seeds: Training seeds.
        **settings: As for ``SASVModule``.
    """

    def __init__(self, networks: Sequence[str], seeds: Sequence[int], **settings: Any) -> None:
        super().__init__(**settings, systems=(), seeds=tuple(seeds) * len(networks))
        self.networks, self._given = tuple(networks), settings.get("class_weights")
        self._note("seeds", self.seeds)  # one for each copy, as those of the data
        rules = [rule_of(name) for name in networks]
        rest = self._given, self.costs, len(seeds)
        made = [make_objective("fused" if rule else "cm", rule, *rest) for rule in rules]
        self.objectives = nn.ModuleList(made)

    @property
    def names_of_copies(self) -> list[str]:
        """A name for each copy of the head."""
        each = len(self.seeds) // len(self.networks)
        owners = [name for name in self.networks for _ in range(each)]
        return [f"{owner}/seed{seed}" for owner, seed in zip(owners, self.seeds, strict=True)]

    def alone(
        self, copy: int, systems: Sequence[str], own: dict[str, FusionSettings] | None = None
    ) -> SASVModule:
        """The head of one seed and network as a module of its own, with systems of its own."""
        fused = isinstance(self.objective_of(copy), FusedObjective)
        new = {"objective": "fused" if fused else "cm", "class_weights": self._given}
        return self.as_one(copy, systems, {**new, "own_systems": own or None})
