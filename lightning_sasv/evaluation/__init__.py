"""From files of scores to results: ``evaluate``, ``fuse`` and ``decide``, as the commands do it.

Importing this package or evaluating imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.evaluation.claims import Verdict, referee
    from lightning_sasv.evaluation.count import merge
    from lightning_sasv.evaluation.counted import CountedResults
    from lightning_sasv.evaluation.deciding import Decisions, decide
    from lightning_sasv.evaluation.fusing import FusedResults, fuse
    from lightning_sasv.evaluation.results_table import Results
    from lightning_sasv.evaluation.run import evaluate
    from lightning_sasv.evaluation.transferring import Transfer, transfer

__all__ = ["Decisions", "FusedResults", "Results", "Verdict", "decide", "evaluate", "fuse"]
__all__ += ["CountedResults", "Transfer", "merge", "referee", "transfer"]

__getattr__ = lazy(
    __name__,
    {
        "deciding": ["Decisions", "decide"],
        "fusing": ["FusedResults", "fuse"],
        "claims": ["Verdict", "referee"],
        "count": ["merge"],
        "counted": ["CountedResults"],
        "results_table": ["Results"],
        "run": ["evaluate"],
        "transferring": ["Transfer", "transfer"],
    },
)
