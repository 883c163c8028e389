"""Processes of one training that ``srun`` started: whether they can find each other."""

from __future__ import annotations

import socket

from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from pytorch_lightning import Trainer

from lightning_sasv.errors import InputError


def check_address(trainer: Trainer) -> None:
    """Refuse a first node without an address, for which the others would look until they are ended.

    Args:
        trainer: Its strategy knows where its processes meet.
    """
    place = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or not isinstance(place, SLURMEnvironment):
        return
    try:
        socket.getaddrinfo(place.main_address, None)
    except OSError:
        raise InputError(
            f"the first node of the job, {place.main_address}, has no address here: export "
            "MASTER_ADDR with one that every node of it knows"
        ) from None
