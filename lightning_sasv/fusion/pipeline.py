"""Many systems on the same trials: fit on development, fuse anything, keep, restore."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lightning_sasv.fusion.inputs import score_pairs
from lightning_sasv.fusion.sharing import SharedStages
from lightning_sasv.fusion.system import FusionSystem
from lightning_sasv.fusion.zoo import SYSTEMS, build_system
from lightning_sasv.trials import FusedScores, Scores


def fit_systems(
    asv: Any, cm: Any, labels: Any, names: Iterable[str] = tuple(SYSTEMS), **overrides: Any
) -> dict[str, FusionSystem]:
    """Named systems, each fitted to the same development trials.

    Args:
        asv: ASV scores of the development trials.
        cm: CM scores of the development trials.
        labels: ``TrialClass`` codes of the development trials.
        names: Keys of :data:`SYSTEMS`.
        **overrides: Arguments of :class:`FusionSystem` that replace those of every system.
    """
    systems = {name: build_system(name, **overrides) for name in names}
    pairs, shared = score_pairs(asv, cm), SharedStages()
    for system in systems.values():
        system.fit_pairs(pairs, labels, shared)
    return systems


def fuse_systems(systems: Mapping[str, FusionSystem], asv: Any, cm: Any) -> dict[str, FusedScores]:
    """Scores of every system on trials whose labels are none of its business.

    Systems that begin alike may return the very same tensor as their LLRs: copy before writing.

    Args:
        systems: Fitted systems by name.
        asv: ASV scores.
        cm: CM scores.
    """
    pairs, shared = score_pairs(asv, cm), SharedStages()
    return {name: system.fuse_pairs(pairs, shared) for name, system in systems.items()}


def fit_and_fuse(
    dev: Scores, evaluation: Scores, names: Iterable[str] = tuple(SYSTEMS), **overrides: Any
) -> tuple[dict[str, FusionSystem], dict[str, FusedScores]]:
    """Fit named systems on development scores and fuse evaluation scores with them.

    The labels of the evaluation trials are not looked at.

    Args:
        dev: Development scores with labels.
        evaluation: Scores to fuse.
        names: Keys of :data:`SYSTEMS`.
        **overrides: Arguments of :class:`FusionSystem` that replace those of every system.

    Returns:
        The fitted systems and their scores of the evaluation trials, by name.
    """
    systems = fit_systems(dev.asv, dev.cm, dev.label, names, **overrides)
    return systems, fuse_systems(systems, evaluation.asv, evaluation.cm)


def pack_system(system: FusionSystem) -> dict[str, Any]:
    """Configuration and fitted state, plain enough for ``torch.load(..., weights_only=True)``."""
    return {"config": dict(system.config), "state_dict": system.state_dict()}


def unpack_system(packed: Mapping[str, Any]) -> FusionSystem:
    """The system that :func:`pack_system` packed."""
    system = FusionSystem(**packed["config"])
    system.load_state_dict(packed["state_dict"])
    return system
