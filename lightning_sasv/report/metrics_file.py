"""``metrics.json``: metrics of each system on each set, rates as fractions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import nn

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_json

METRICS_FILE = "metrics.json"

Metrics = dict[str, dict[str, Any]]
"""``{system: {"corpus": …, "dev": {metric: value}, "eval": …, "fitted": …}}``."""


def fitted_values(system: nn.Module) -> dict[str, Any]:
    """What a fusion system of one seed has learned, as plain numbers; long tables are left out."""
    state = system.state_dict()
    return {
        name: tensor.squeeze(0).tolist()
        for name, tensor in state.items()
        if tensor.is_floating_point() and tensor.numel() <= 64
    }


def read_metrics(path: str | Path) -> Metrics:
    """Content of a ``metrics.json``."""
    content = read_json(path)
    if not isinstance(content, dict):
        raise InputError(f"{path} does not hold metrics by system")
    return content


def write_metrics(path: str | Path, metrics: Metrics) -> Path:
    """Write a ``metrics.json`` atomically; NaN and infinity, which JSON lacks, become null."""
    return write_json(path, metrics)


def merge_metrics(path: str | Path, new: Metrics) -> Metrics:
    """Add entries to a ``metrics.json``: those of other systems and sets stay."""
    path = Path(path)
    merged = read_metrics(path) if path.exists() else {}
    for system, entries in new.items():
        merged[system] = merged.get(system, {}) | entries
    write_metrics(path, merged)
    return merged
