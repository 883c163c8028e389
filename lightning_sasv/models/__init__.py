"""Networks and the LightningModule that trains them."""

from lightning_sasv.models.heads import CMHead
from lightning_sasv.models.module import SASVModule

__all__ = ["CMHead", "SASVModule"]
