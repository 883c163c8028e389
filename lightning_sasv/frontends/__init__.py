"""Networks that turn audio into embeddings, and the extraction of whole corpora."""

from lightning_sasv.frontends.aasist import AASIST
from lightning_sasv.frontends.base import FrontEnd
from lightning_sasv.frontends.corpus import extract
from lightning_sasv.frontends.ecapa import ECAPA
from lightning_sasv.frontends.ecapa_challenge import ECAPAChallenge

__all__ = ["AASIST", "ECAPA", "ECAPAChallenge", "FrontEnd", "extract"]
