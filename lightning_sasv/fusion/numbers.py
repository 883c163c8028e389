"""Numbers of a configuration: checked, with messages that name the argument and its value."""

from __future__ import annotations

import math
from typing import Any

from lightning_sasv.errors import InputError


def real(name: str, value: Any) -> float:
    """A number as a float.

    Args:
        name: Name of the argument, for the message.
        value: What was given for it.

    Raises:
        InputError: It is no number.
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InputError(f"{name} must be a number, got {value!r}") from None


def positive(name: str, value: Any) -> float:
    """A number above 0 and below infinity; arguments as for :func:`real`."""
    number = real(name, value)
    if not 0 < number < math.inf:
        raise InputError(f"{name} must be positive and finite, got {value}")
    return number


def count(name: str, value: Any) -> int:
    """A whole number of at least 1; arguments as for :func:`real`."""
    number = real(name, value)
    if not (number >= 1 and number.is_integer()):
        raise InputError(f"{name} must be at least 1 and whole, got {value}")
    return int(number)
