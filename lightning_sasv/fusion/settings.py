"""What the settings of a fusion system may be."""

from __future__ import annotations

from typing import Any

from lightning_sasv.errors import InputError, meant
from lightning_sasv.fusion.custom import PARTS
from lightning_sasv.fusion.densities import Config
from lightning_sasv.fusion.features import ORDERS
from lightning_sasv.fusion.transforms import CHOSEN
from lightning_sasv.plugins import Other, as_other

MOST_COMPONENTS = 1000

USUAL: dict[str, Any] = {"trim": None, "order": "linear", "transform": "none"}
"""Settings that a configuration holds only where they are something else."""


def check_settings(config: Config) -> None:
    """Raise at numbers out of range, and at orders and choices that nothing uses.

    Raises:
        InputError: Of such a setting.
    """
    if config["components"] > MOST_COMPONENTS:
        raise InputError(
            f"components must be at most {MOST_COMPONENTS}, got {config['components']}"
        )
    penalty, prior = config["penalty"], config["effective_prior"]
    if isinstance(penalty, float) and not 0 <= penalty < float("inf"):
        raise InputError(f"penalty must be finite and at least 0, got {penalty}")
    if not 0 < prior < 1:
        raise InputError(f"effective_prior must lie in (0, 1), got {prior}")
    if config["cm_positives"] not in ("bonafide", "target"):
        raise InputError(
            f"cm_positives must be 'bonafide' or 'target', got {config['cm_positives']!r}"
        )
    _check_order(config)


def _check_order(config: Config) -> None:
    """Raise at an order, or a choice by cross-validation, that the stages have no use for."""
    order, transform = config["order"], config["transform"]
    if order not in (*ORDERS, CHOSEN):
        hint = meant(order, (*ORDERS, CHOSEN)) if isinstance(order, str) else ""
        raise InputError(
            f"unknown order {order!r}; expected one of {', '.join((*ORDERS, CHOSEN))}{hint}"
        )
    if order != "linear" and config["calibration"] != "multinomial":
        raise InputError(f"order: {order} needs calibration: multinomial")
    words = [transform] if isinstance(transform, str) else [*transform.values()]
    chosen = {"order": order == CHOSEN, "penalty": config["penalty"] == CHOSEN}
    chosen["transform"] = CHOSEN in words
    for name in (name for name, asked in chosen.items() if asked):
        if config["calibration"] != "multinomial" or config["density"] is not None:
            raise InputError(f"{name}: cv needs calibration: multinomial without a density")


def named_parts(**given: Any) -> dict[str, str | Other | None]:
    """What a system is made of, each by its name; an error where there is none such."""
    found: dict[str, str | Other | None] = {}
    for place, name in given.items():
        try:
            found[place] = part = as_other(name)
        except InputError as error:
            raise InputError(f"{place}: {error}, got {str(name)[:100]}") from None
        if part is None and place == "rule":
            raise InputError("unknown rule None; a system needs one")
        if part is not None and (place, part) != ("rule", "nonlinear"):
            PARTS[place].find(part)
    return found
