"""A fitted system as one checked folder, and the scorer that answers from it.

``load(folder)`` needs numpy, scipy and safetensors, but neither torch nor Lightning.
"""

from lightning_sasv.deploy.bounds import Bounds, LLRBounds, dev_bounds, elub
from lightning_sasv.deploy.bundle import export, fingerprint, load, write_bundle
from lightning_sasv.deploy.scorer import DecisionRule, Scorer, Verdict, choose_rule

__all__ = ["Bounds", "LLRBounds", "dev_bounds", "elub"]
__all__ += ["export", "fingerprint", "load", "write_bundle"]
__all__ += ["DecisionRule", "Scorer", "Verdict", "choose_rule"]
