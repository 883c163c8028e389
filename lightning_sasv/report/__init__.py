"""Tables, figures and files of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lightning_sasv.results import Results

__all__ = ["Report", "write_report"]

OLD_PAGE = "<title>SASV report: "
"""What every page has in its head."""


class Report(NamedTuple):
    """What ``write_report`` has written.

    Attributes:
        results: What it was made of.
        page: The HTML file.
        figures: Files of the figures.
    """

    results: Results
    page: Path
    figures: list[Path]


def write_report(
    folder: str, out: str | None = None, figures: str | None = None, overwrite: bool = False
) -> Report:
    """Make one self-contained HTML page of a folder of results, and figures if asked for.

    The page shows the table, score distributions, decision boundaries, DET curves, calibration,
    t-EER paths, costs over thresholds, and a panel in which priors and costs can be moved. It
    needs no network and can be sent to anyone.

    Args:
        folder: Folder that `lightning fit`, `fuse` or `table` wrote.
        out: HTML file to write; FOLDER/report.html by default.
        figures: Folder for the figures as PNG, PDF and SVG; needs matplotlib.
        overwrite: Replace files though they were not made by this command of this folder.

    Raises:
        InputError: A file is missing or wrong, or matplotlib is not installed.
    """
    from lightning_sasv.files import write_text
    from lightning_sasv.places import check_stamped, head, stamp
    from lightning_sasv.report.curves import Material
    from lightning_sasv.report.drawing import check_figures, require_matplotlib, write_figures
    from lightning_sasv.report.figures import describe
    from lightning_sasv.report.html import render_page
    from lightning_sasv.results import read_results

    if figures is not None:
        require_matplotlib()
    results = read_results(folder)
    path = Path(out) if out else Path(folder) / "report.html"
    if out or OLD_PAGE not in head(path):  # beside its results any page of ours may be replaced
        check_stamped(path, stamp("report", folder), overwrite)
    material = Material.of(results)
    described = describe(material)
    if figures is not None:
        check_figures(figures, described, results, overwrite)
    page = write_text(path, render_page(material, described))
    files = [] if figures is None else write_figures(figures, described, results)
    return Report(results, page, files)
