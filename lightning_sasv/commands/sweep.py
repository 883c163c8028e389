"""``lightning sweep``: a W&B sweep file, online or offline."""

from lightning_sasv.experiment import sweep

__all__ = ["sweep"]
