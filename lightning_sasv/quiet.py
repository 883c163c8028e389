"""Silencing what does not concern the user of a command."""

from __future__ import annotations

import logging
import warnings


def quiet() -> None:
    """Silence what Lightning says of itself, and warnings that do not apply to our loaders."""
    for name in ("pytorch_lightning", "lightning_fabric"):
        logging.getLogger(name).setLevel(logging.WARNING)
    for text in (
        ".*does not have many workers.*",
        ".*smaller than the logging interval.*",
        ".*exists and is not empty.*",
        ".*treespec, LeafSpec.*",
        ".*LightningCLI's args parameter.*",
    ):
        warnings.filterwarnings("ignore", message=text)
