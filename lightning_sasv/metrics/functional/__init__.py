"""Metrics as pure functions: tensors or arrays in, Python floats out; float64 inside.

Rates are fractions (0.0143), never per cent. A trial is accepted when its score is greater than the
threshold. What odd input gives:

- a NaN, an empty class, lengths that differ, a label that is none of the three: an ``InputError``
  that names it (``all_metrics`` with ``allow_missing``, ``by_group`` and the replicates of a
  bootstrap give NaN for an empty class);
- infinite scores: ordered like any other. Cllr is then infinite, with a warning, if a positive is
  -inf or a negative +inf; cross-entropy is an error;
- all scores equal: EER 1 (``asvspoof``, ``max``) or 1/2 (``interpolated``, ``rocch``), Cllr_min 1,
  minimum costs 1, t-EER 1/2;
- one trial of a class: like any other number of trials;
- integers, half precision, tensors on a GPU or with gradients: widened to float64 on the CPU;
- labels as the codes 0 (spoof), 1 (target), 2 (nontarget) of any number type, or as those words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy
from lightning_sasv.metrics.functional.cllr import (
    CllrParts,
    ECECurve,
    cllr,
    cllr_decomposition,
    cllr_min,
    ece_curve,
)
from lightning_sasv.metrics.functional.cross_entropy import CrossEntropy, cross_entropy
from lightning_sasv.metrics.functional.dcf import (
    ASVSPOOF5_RATES,
    DCF,
    TDCF,
    ASVRates,
    a_dcf,
    cm_dcf,
    t_dcf,
)
from lightning_sasv.metrics.functional.eer import (
    EER,
    HTER,
    Convention,
    SASVEERs,
    eer,
    hter,
    sasv_eers,
)
from lightning_sasv.metrics.functional.points import DETCurve, ROCCurve, det_curve, roc_curve
from lightning_sasv.metrics.functional.teer import TandemEER, TandemPath, t_eer, t_eer_path

if TYPE_CHECKING:
    from lightning_sasv.metrics.bootstrap import (
        ConfidenceInterval,
        PairedInterval,
        bootstrap,
        paired_bootstrap,
    )
    from lightning_sasv.metrics.registry import COLUMNS, Settings, all_metrics, by_group

__all__ = ["CllrParts", "ECECurve", "cllr", "cllr_decomposition", "cllr_min", "ece_curve"]
__all__ += ["CrossEntropy", "cross_entropy"]
__all__ += ["ASVSPOOF5_RATES", "DCF", "TDCF", "ASVRates", "a_dcf", "cm_dcf", "t_dcf"]
__all__ += ["EER", "HTER", "Convention", "SASVEERs", "eer", "hter", "sasv_eers"]
__all__ += ["DETCurve", "ROCCurve", "det_curve", "roc_curve"]
__all__ += ["TandemEER", "TandemPath", "t_eer", "t_eer_path"]
__all__ += ["ConfidenceInterval", "PairedInterval", "bootstrap", "paired_bootstrap"]
__all__ += ["COLUMNS", "Settings", "all_metrics", "by_group"]

__getattr__ = lazy(  # of the floor above: which metrics there are, and how sure they are
    __name__,
    {
        ".bootstrap": ["ConfidenceInterval", "PairedInterval", "bootstrap", "paired_bootstrap"],
        ".registry": ["COLUMNS", "Settings", "all_metrics", "by_group"],
    },
)
