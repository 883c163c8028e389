"""Networks and the LightningModule that trains them."""

from lightning_sasv.models.cm_head import CMHead
from lightning_sasv.models.module import SASVModule

__all__ = ["CMHead", "SASVModule"]
