"""From files of scores to results: ``evaluate``, ``fuse`` and ``decide``, as the commands do it.

Importing this package or evaluating imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.evaluation.deciding import Decisions, decide
    from lightning_sasv.evaluation.fusing import FusedResults, fuse
    from lightning_sasv.evaluation.run import EvaluationResult, evaluate

__all__ = ["Decisions", "EvaluationResult", "FusedResults", "decide", "evaluate", "fuse"]

__getattr__ = lazy(
    __name__,
    {
        "deciding": ["Decisions", "decide"],
        "fusing": ["FusedResults", "fuse"],
        "run": ["EvaluationResult", "evaluate"],
    },
)
