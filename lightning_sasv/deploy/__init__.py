"""A fitted system as one checked folder, and the scorer that answers from it.

``load(folder)`` needs numpy, and neither torch nor Lightning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy
from lightning_sasv.deploy.bounds import Bounds, LLRBounds, dev_bounds, elub
from lightning_sasv.deploy.bundle import fingerprint, load, load_bundle, write_bundle
from lightning_sasv.deploy.decision import DecisionRule, Verdict, choose_rule
from lightning_sasv.deploy.scorer import Scorer

if TYPE_CHECKING:
    from lightning_sasv.deploy.drifting import Drift, drift
    from lightning_sasv.deploy.exporting import export
    from lightning_sasv.deploy.verifier import Verified, Verifier
    from lightning_sasv.deploy.verifying import enrol, verify

__all__ = ["Bounds", "LLRBounds", "dev_bounds", "elub"]
__all__ += ["export", "fingerprint", "load", "load_bundle", "write_bundle"]
__all__ += ["Drift", "drift"]
__all__ += ["DecisionRule", "Scorer", "Verdict", "choose_rule"]
__all__ += ["Verified", "Verifier", "enrol", "verify"]

__getattr__ = lazy(
    __name__,
    {
        "exporting": ["export"],
        "verifier": ["Verified", "Verifier"],
        "verifying": ["enrol", "verify"],
        "drifting": ["Drift", "drift"],
    },
)
