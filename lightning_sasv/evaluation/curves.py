"""DET curves of evaluated scores, of one role or several, as figures and as points."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.evaluation.results_table import Results
from lightning_sasv.places import stamp
from lightning_sasv.trials import TASKS

if TYPE_CHECKING:
    from lightning_sasv.report.curves import DET

SHOWN = ("sasv", "sv", "spf", "asv", "cm")
"""Tasks that have a curve where their scores and classes are there."""


def det_curves(results: Results) -> dict[str, dict[str, DET]]:
    """DET curves by system and task, wherever there is an EER."""
    from lightning_sasv.report.curves import thin_det_of

    found: dict[str, dict[str, DET]] = {}
    for name, values in results.metrics.items():
        found[name] = {}
        for task in SHOWN:
            if math.isnan(values.get(f"{task}_eer", math.nan)):
                continue
            column, *sides = TASKS[task]
            scores = results.systems.columns[name][column]
            there = ~np.isnan(scores)
            parts = (there & np.isin(results.systems.labels, side) for side in sides)
            found[name][task] = thin_det_of(*(scores[part] for part in parts))
    return found


def write_figures(results: Results, folder: str | Path, overwrite: bool = True) -> list[Path]:
    """Write the DET curves of every score as PNG, PDF and SVG, and their points as CSV.

    Args:
        results: What an evaluation has found.
        folder: Folder to write to.
        overwrite: Replace files that are something else.

    Raises:
        InputError: matplotlib is not installed, or something else is in the way.
    """
    from lightning_sasv.report.drawing import check_files, draw_files
    from lightning_sasv.report.figures import det_of

    curves = det_curves(results)
    data = [
        {"system": name, "task": task, "false_acceptance": accepted, "miss": missed}
        for name, own in curves.items()
        for task, one in own.items()
        for accepted, missed in zip(one.false_acceptance, one.miss, strict=True)
    ]
    tasks = [task for task in SHOWN if any(task in own for own in curves.values())]
    figure = replace(det_of(curves, tasks), data=data)
    origin = stamp("evaluate", "+".join(curves))
    check_files(folder, [figure], origin, overwrite)
    return draw_files(folder, [figure], results.title, origin)
