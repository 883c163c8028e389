"""The named systems: the paper's eight, and ours. A system is configuration, nothing more."""

from __future__ import annotations

from typing import Any

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.system import FusionSystem

PAPER_SYSTEMS: dict[str, dict[str, Any]] = {
    "B1": {"rule": "sum"},
    "B1c": {"calibration": "paper", "rule": "sum"},
    "L2": {"density": "gaussian", "rule": "linear"},
    "L2c": {"density": "gaussian", "calibration": "paper", "rule": "linear"},
    "L3": {"density": "gaussian", "rule": "nonlinear"},
    "L3c": {"density": "gaussian", "calibration": "paper", "rule": "nonlinear"},
    "B1v2": {"rule": "sigmoid_sum"},
    "Post": {"rule": "sigmoid_product"},
}

OUR_SYSTEMS: dict[str, dict[str, Any]] = {
    # Student-t densities: heavy tails keep the LLRs calibrated.
    "L3t": {"density": "student_t", "rule": "nonlinear"},
    # LLRs from a class-balanced multinomial logistic regression on the score pair.
    "M3": {"calibration": "multinomial", "rule": "nonlinear"},
    # Both affine maps learned from the log-loss of the nonlinear score at an operating point.
    "J3": {
        "calibration": "joint",
        "rule": "nonlinear",
        "rho": "priors",
        "costs": "asvspoof5",
    },
}

SYSTEMS: dict[str, dict[str, Any]] = PAPER_SYSTEMS | OUR_SYSTEMS


def build_system(name: str, **overrides: Any) -> FusionSystem:
    """A named system, unfitted.

    Args:
        name: A key of :data:`SYSTEMS`.
        **overrides: Arguments of :class:`FusionSystem` that replace those of the configuration.

    Raises:
        InputError: The name is unknown.
    """
    if name not in SYSTEMS:
        raise InputError(f"unknown system {name!r}; expected one of {', '.join(SYSTEMS)}")
    return FusionSystem(**(SYSTEMS[name] | overrides))


def system_names(text: str) -> list[str]:
    """Names of systems from ``paper``, ``ours``, ``all``, or a list with commas.

    Raises:
        InputError: A name is unknown, or there is none.
    """
    groups = {"paper": PAPER_SYSTEMS, "ours": OUR_SYSTEMS, "all": SYSTEMS}
    parts = [part.strip() for part in text.split(",") if part.strip()]
    names = [name for part in parts for name in groups.get(part, [part])]
    unknown = [name for name in names if name not in SYSTEMS]
    if unknown or not names:
        raise InputError(
            f"--systems: unknown system {(unknown or [text])[0]!r}; expected paper, ours, all, or "
            f"some of {', '.join(SYSTEMS)}"
        )
    return list(dict.fromkeys(names))
