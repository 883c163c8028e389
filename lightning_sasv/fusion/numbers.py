"""Numbers of a configuration; they are checked by :mod:`lightning_sasv.checks`."""

from lightning_sasv.checks import count, positive, real

__all__ = ["count", "positive", "real"]
