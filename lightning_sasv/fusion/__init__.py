"""Fusion of ASV and CM scores into one spoofing-aware score."""

from lightning_sasv.fusion.pipeline import (
    fit_and_fuse,
    fit_systems,
    fuse_systems,
    pack_system,
    unpack_system,
)
from lightning_sasv.fusion.rules import RULES
from lightning_sasv.fusion.search import RHO_CHOICES
from lightning_sasv.fusion.stages import CALIBRATIONS, DENSITIES
from lightning_sasv.fusion.system import FusionSystem
from lightning_sasv.fusion.zoo import (
    OUR_SYSTEMS,
    PAPER_SYSTEMS,
    SYSTEMS,
    build_system,
    system_names,
)

__all__ = [
    "CALIBRATIONS",
    "DENSITIES",
    "OUR_SYSTEMS",
    "PAPER_SYSTEMS",
    "RHO_CHOICES",
    "RULES",
    "SYSTEMS",
    "FusionSystem",
    "build_system",
    "fit_and_fuse",
    "fit_systems",
    "fuse_systems",
    "pack_system",
    "system_names",
    "unpack_system",
]
