"""Tables, figures and files of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from lightning_sasv.results import Results

__all__ = ["Report", "write_report"]


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
    folder: str,
    out: str | None = None,
    figures: str | None = None,
    replicates: int = 400,
    allow_part: bool = False,
    overwrite: bool = False,
    systems: str | None = None,
    paper: bool = True,
    seed: int | None = None,
) -> Report:
    """Make one self-contained HTML page of a folder of results, and figures if asked for.

    The page shows the table, score distributions, decision boundaries, DET curves, calibration,
    t-EER paths, costs over thresholds, and a panel in which priors and costs can be moved. It
    needs no network and can be sent to anyone.

    Args:
        folder: Folder that `lightning fit`, `fuse` or `table` wrote.
        out: HTML file to write; FOLDER/report.html by default.
        figures: Folder for the figures as PNG, PDF and SVG; needs matplotlib.
        replicates: Replicates of the intervals, which draw speakers; 0 for none.
        allow_part: Report results of a part of the trials, with a banner and without best marks.
        overwrite: Replace files though they were not made by this command of this folder.
        systems: Systems to show, separated by commas; by default all.
        paper: Show the paper's numbers beside a table of SASV 2022 or of its twin.
        seed: Training seed of a table that figures are of; by default the first.

    Raises:
        InputError: A file is missing or wrong, results are of a part, or matplotlib is not
            installed.
    """
    from lightning_sasv.errors import InputError
    from lightning_sasv.files import write_text
    from lightning_sasv.metrics.intervals import check_replicates
    from lightning_sasv.places import check_stamped, head, stamp
    from lightning_sasv.report.curves import Material
    from lightning_sasv.report.drawing import check_figures, require_matplotlib, write_figures
    from lightning_sasv.report.figures import describe
    from lightning_sasv.report.html import render_page
    from lightning_sasv.results import PAGE, PAGE_TITLE, read_results

    if figures is not None:
        require_matplotlib()
    if replicates:
        check_replicates(replicates)
    results = read_results(folder, seed)
    if systems is not None:
        results = results.only([name.strip() for name in systems.split(",")])
    if results.parts and not allow_part:
        raise InputError(
            f"{folder} holds results of {'; '.join(results.parts)}, which do not compare with "
            "those of all trials; add --allow-part to report them all the same"
        )
    path = Path(out) if out else Path(folder) / PAGE
    if out or PAGE_TITLE not in head(path):  # beside its results any page of ours may be replaced
        check_stamped(path, stamp("report", folder), overwrite)
    material = Material.of(results, replicates, paper)
    described = describe(material)
    if figures is not None:
        check_figures(figures, described, results, overwrite)
    page = write_text(path, render_page(material, described))
    files = [] if figures is None else write_figures(figures, described, results)
    return Report(results, page, files)
