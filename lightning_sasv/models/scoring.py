"""Collecting the scores of distinct probes, or trials, over batches and processes."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torchmetrics import Metric

from lightning_sasv.data.corpus import TrialSet
from lightning_sasv.scores.columns import KINDS
from lightning_sasv.trials import FusedScores, Scores, TrialClass


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

    @property
    def complete(self) -> bool:
        """Whether every trial of the list was scored."""
        return bool(self.kept.all())


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
