"""Networks for several objectives, trained side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from lightning_sasv.models.module import SASVModule
from lightning_sasv.models.objectives import make_objective, rule_of


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
        each = len(self.seeds) // len(self.networks)
        owners = [name for name in self.networks for _ in range(each)]
        return [f"{owner}/seed{seed}" for owner, seed in zip(owners, self.seeds, strict=True)]
