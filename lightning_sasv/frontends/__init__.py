"""Networks that turn audio into embeddings, and the extraction of whole corpora.

The names are imported on first use, so that the help of ``lightning extract`` needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lightning_sasv import lazy

if TYPE_CHECKING:
    from lightning_sasv.frontends.aasist import AASIST
    from lightning_sasv.frontends.base import FrontEnd
    from lightning_sasv.frontends.corpus import extract
    from lightning_sasv.frontends.ecapa import ECAPA
    from lightning_sasv.frontends.ecapa_challenge import ECAPAChallenge

__all__ = ["AASIST", "ECAPA", "ECAPAChallenge", "FrontEnd", "extract"]

__getattr__ = lazy(
    __name__,
    {
        "aasist": ["AASIST"],
        "base": ["FrontEnd"],
        "corpus": ["extract"],
        "ecapa": ["ECAPA"],
        "ecapa_challenge": ["ECAPAChallenge"],
    },
)
