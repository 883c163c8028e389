"""The figures as PNG, PDF and SVG files, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, ensure_directory
from lightning_sasv.report import plane_figures, score_figures
from lightning_sasv.report.drawing import style
from lightning_sasv.report.pairs import Pair, find_pairs
from lightning_sasv.results import Results

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FORMATS = ("png", "pdf", "svg")
Drawing = Callable[[Results, list[Pair]], "Figure | None"]
DRAWINGS: dict[str, Drawing] = {
    "distributions": score_figures.draw_distributions,
    "attacks": score_figures.draw_attacks,
    "planes": plane_figures.draw_planes,
    "boundaries": plane_figures.draw_boundaries,
    "det": score_figures.draw_det,
    "ece": score_figures.draw_ece,
    "calibration": score_figures.draw_calibration,
    "t_eer_path": plane_figures.draw_tandem,
    "a_dcf": score_figures.draw_costs,
}
"""File name of each figure; a drawing that the results do not allow gives nothing."""


def require_matplotlib() -> None:
    """Say how to install matplotlib where it is absent."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise InputError(
            "--figures needs matplotlib, which is not installed; "
            "`pip install 'lightning-sasv[report]'` installs it"
        ) from None


def write_figures(folder: str | Path, results: Results) -> list[Path]:
    """Write every figure that the results allow, each as PNG, PDF and SVG.

    Args:
        folder: Folder to write to.
        results: What to draw.

    Returns:
        The files.

    Raises:
        InputError: matplotlib is not installed, or the folder cannot be written to.
    """
    require_matplotlib()
    folder = ensure_directory(folder)
    pairs, _ = find_pairs(results.scores, results.systems)
    written = []
    with style():
        for name, drawing in DRAWINGS.items():
            figure = drawing(results, pairs)
            if figure is not None:
                written += _save(folder, name, figure, results)
    return written


def _save(folder: Path, name: str, figure: Figure, results: Results) -> list[Path]:
    corpus = ", ".join(results.corpora) or "corpus not named"
    note = f"{corpus}{' (simulated)' if results.simulated else ''}, {results.split}"
    figure.text(0.995, 0.995, note, ha="right", va="top", fontsize=7, color="#59636e")
    figure.draw_without_rendering()  # lays the axes out, once for all formats
    figure.set_layout_engine("none")
    paths = []
    for suffix in FORMATS:
        path = folder / f"{name}.{suffix}"
        metadata = {"Date": None} if suffix == "svg" else {"CreationDate": None}
        with atomic_path(path) as temporary:
            figure.savefig(
                temporary,
                format=suffix,
                dpi=200,
                metadata=metadata if suffix != "png" else {},
            )
        paths.append(path)
    return paths
