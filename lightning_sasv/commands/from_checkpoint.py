"""What a training command takes from the checkpoint that it is given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from lightning_sasv.checkpoints import (
    Extension,
    extensions_in,
    is_remote,
    need_trust,
    read_checkpoint,
)
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.models import SASVModule
from lightning_sasv.plain import settings_of

NAMED = ("best", "last", "hpc")
"""Checkpoints that Lightning finds by itself."""


def take_settings(config: Namespace) -> dict[str, Extension]:
    """Take the settings of the model from a checkpoint, as data.

    Lightning's own way parses them like a configuration.

    Args:
        config: Configuration of the command; the settings are put into it.

    Returns:
        Classes of others that the checkpoint was made with, by their places.
    """
    path = config.get("ckpt_path")
    if config.get("weights_only") is False:
        need_trust("weights_only: false lets a checkpoint run code")
    elif "weights_only" in config:
        config.weights_only = True
    if not path or path in NAMED:
        return {}
    if is_remote(path):
        need_trust(f"--ckpt_path: {path} is not a file of this machine")
        return {}
    checkpoint = read_checkpoint(path)
    others = extensions_in(checkpoint, path)
    owner = others["model"].load(SASVModule, path) if "model" in others else SASVModule
    found = owner.settings_in(checkpoint, path)
    for name in found.keys() & settings_of(SASVModule).keys() - {"seeds"}:
        config.model[name] = found[name]  # seeds are linked to --seed_everything
    return others


def model_of(other: Extension, given: SASVModule, path: str | Path) -> SASVModule:
    """The model of another package's class, in place of ours."""
    settings = {**other.settings, "seeds": list(given.seeds)}
    return other.load(SASVModule, path)(**settings)


def data_of(other: Extension, given: Namespace, path: str | Path) -> SASVDataModule:
    """The data module of another package's class; what the command was told goes first."""
    told: dict[str, Any] = {
        name: given[name]
        for name, own in settings_of(SASVDataModule).items()
        if name in given and given[name] != own.default
    }
    return other.load(SASVDataModule, path)(**{**other.settings, **told})
