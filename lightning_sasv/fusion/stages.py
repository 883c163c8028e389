"""Densities and calibrations by name."""

from __future__ import annotations

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.calibration import (
    AFFINE_RECIPES,
    AffineCalibration,
    CalibrationSettings,
)
from lightning_sasv.fusion.densities import Density, Gaussian
from lightning_sasv.fusion.isotonic import IsotonicCalibration
from lightning_sasv.fusion.mixture import Mixture
from lightning_sasv.fusion.stage import Stage
from lightning_sasv.fusion.student_t import StudentT

_COVARIANCES = {"gaussian": "full", "tied": "tied", "diagonal": "diagonal"}

DENSITIES = (*_COVARIANCES, "student_t", "mixture")
CALIBRATIONS = (*AFFINE_RECIPES, "pav")


def build_density(name: str | None, copies: int, *, dof: float, components: int) -> Density | None:
    """Density by name, or ``None`` for none.

    Args:
        name: One of :data:`DENSITIES`.
        copies: Number of stacked seeds.
        dof: Degrees of freedom of ``student_t``.
        components: Components per class of ``mixture``.
    """
    if name is None:
        return None
    if name == "student_t":
        return StudentT(copies, dof)
    if name == "mixture":
        return Mixture(copies, components)
    if name in _COVARIANCES:
        return Gaussian(copies, _COVARIANCES[name])
    raise InputError(f"unknown density {name!r}; expected one of {', '.join(DENSITIES)}")


def build_calibration(name: str | None, settings: CalibrationSettings, copies: int) -> Stage | None:
    """Calibration by name, one of :data:`CALIBRATIONS`, or ``None`` for none."""
    if name is None:
        return None
    if name == "pav":
        return IsotonicCalibration(settings.cm_positives, copies)
    if name in AFFINE_RECIPES:
        return AffineCalibration(name, settings, copies)
    raise InputError(f"unknown calibration {name!r}; expected one of {', '.join(CALIBRATIONS)}")
