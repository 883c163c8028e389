"""Weights & Biases without surprises: offline when it has to be, never a prompt, never a crash."""

from __future__ import annotations

import importlib.util
import os
from typing import Literal

from pytorch_lightning.loggers import CSVLogger, Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_info

WandbMode = Literal["online", "offline", "absent"]


def wandb_mode() -> WandbMode:
    """Whether runs can go to the W&B server.

    ``$WANDB_MODE`` decides where it is set. Otherwise ``online`` needs a stored key and a server
    that answers; without a key the network is not touched.
    """
    if importlib.util.find_spec("wandb") is None:
        return "absent"
    if mode := os.environ.get("WANDB_MODE"):
        return "online" if mode in ("online", "run", "shared") else "offline"
    import wandb

    try:
        return "online" if wandb.login(prompt=False) else "offline"
    except Exception:  # a key, but no server that answers
        return "offline"


def wandb_logger(
    save_dir: str = "runs",
    project: str = "lightning_sasv",
    name: str | None = None,
    group: str | None = None,
) -> Logger:
    """W&B logger, online when logged in and the server answers, else offline.

    An offline run lies in ``save_dir/wandb`` and can be sent later with ``wandb sync``.

    Args:
        save_dir: Folder for the run's files.
        project: W&B project.
        name: Name of the run.
        group: Runs of one experiment have the same group.
    """
    mode = wandb_mode()
    if mode == "absent":
        return CSVLogger(save_dir, name=name or project)
    if mode == "offline":
        rank_zero_info(f"W&B: offline run in {save_dir}/wandb; send it later with `wandb sync`")
    return WandbLogger(name=name, save_dir=save_dir, project=project, group=group, mode=mode)
