"""A fitted system as one checked folder, and the scorer that answers from it.

``load(folder)`` needs torch, numpy, scipy and safetensors, but neither Lightning nor torchmetrics.
"""

from lightning_sasv.deploy.bounds import Bounds, LLRBounds, dev_bounds, elub
from lightning_sasv.deploy.bundle import load, write_bundle
from lightning_sasv.deploy.policy import DecisionRule, choose_rule
from lightning_sasv.deploy.scorer import Scorer, Verdict

__all__ = [
    "Bounds",
    "DecisionRule",
    "LLRBounds",
    "Scorer",
    "Verdict",
    "choose_rule",
    "dev_bounds",
    "elub",
    "load",
    "write_bundle",
]
