"""Fusion of ASV and CM scores into one spoofing-aware score.

Only :class:`FusionSystem`, which is imported when first asked for, needs torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy
from lightning_sasv.fusion.calibration import CALIBRATIONS
from lightning_sasv.fusion.choice import RHO_CHOICES
from lightning_sasv.fusion.densities import DENSITIES
from lightning_sasv.fusion.doubts import FitWarning, failure_lines, warning_lines
from lightning_sasv.fusion.rules import RULES
from lightning_sasv.fusion.zoo import (
    JOINT_SYSTEMS,
    KNOWN,
    OUR_SYSTEMS,
    PAPER_SYSTEMS,
    SYSTEMS,
    FusionSettings,
    build_system,
    fit_and_fuse,
    fit_systems,
    fuse_systems,
    pack_system,
    system_names,
    unpack_system,
)

if TYPE_CHECKING:
    from lightning_sasv.fusion.system import FusionSystem

__all__ = ["CALIBRATIONS", "DENSITIES", "RHO_CHOICES", "RULES", "FusionSettings", "FusionSystem"]
__all__ += ["JOINT_SYSTEMS", "KNOWN"]
__all__ += ["OUR_SYSTEMS", "PAPER_SYSTEMS", "SYSTEMS", "build_system", "system_names"]
__all__ += ["FitWarning", "failure_lines", "fit_and_fuse", "warning_lines"]
__all__ += ["fit_systems", "fuse_systems", "pack_system", "unpack_system"]

__getattr__ = lazy(__name__, {"system": ["FusionSystem"]})
