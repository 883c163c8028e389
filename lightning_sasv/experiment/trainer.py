"""The Trainer of a table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Callback, Trainer

from lightning_sasv.callbacks import LeaveSignals
from lightning_sasv.callbacks.standard import usable
from lightning_sasv.checkpoints import AtomicCheckpointIO
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.recipe import Recipe


def make_trainer(callbacks: Sequence[Callback], **settings: Any) -> Trainer:
    """A Trainer as in ``configs/base.yaml``."""
    return Trainer(
        **{"devices": 1, **settings, "accelerator": usable(settings.get("accelerator", "auto"))},
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=True,
        callbacks=[*callbacks, LeaveSignals()],
        plugins=[AtomicCheckpointIO()],
        enable_model_summary=False,
    )


def device_settings(recipe: Recipe) -> dict[str, str]:
    """Device and precision that a Trainer takes on this machine, by their plain names."""
    try:
        made = make_trainer([], logger=False, enable_checkpointing=False, **recipe.trainer)
    except (MisconfigurationException, ValueError, TypeError, ImportError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the Trainer refuses its settings: {said}") from None
    return {"accelerator": made.strategy.root_device.type, "precision": str(made.precision)}
