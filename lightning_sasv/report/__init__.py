"""Tables, figures and files of results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from lightning_sasv.counting import Counts
    from lightning_sasv.results import Results

__all__ = ["Report", "write_report"]


class Report(NamedTuple):
    """What ``write_report`` has written.

    Attributes:
        results: What it was made of.
        page: The HTML file.
        figures: Files of the figures.
    """

    results: Results | Counts
    page: Path
    figures: list[Path]


def write_report(
    folder: str,
    out: str | None = None,
    figures: str | None = None,
    replicates: int = 1000,
    allow_part: bool = False,
    overwrite: bool = False,
    systems: str | None = None,
    paper: bool = True,
    seed: int | Literal["all"] | None = None,
) -> Report:
    """Make one self-contained HTML page of a folder of results, and figures if asked for.

    The page shows the table, score distributions, decision boundaries, DET curves, calibration,
    t-EER paths, costs over thresholds, and a panel in which priors and costs can be moved. It
    needs no network and can be sent to anyone.

    Args:
        folder: Folder that `lightning fit`, `fuse` or `table` wrote; or counts of trials,
            NAME.counts.safetensors, of which the page is smaller and needs matplotlib.
        out: HTML file to write; FOLDER/report.html by default.
        figures: Folder for the figures as PNG, PDF and SVG; needs matplotlib.
        replicates: Replicates of the intervals, which draw speakers; 0 for none.
        allow_part: Report results of a part of the trials, with a banner and without best marks.
        overwrite: Replace files though they were not made by this command of this folder.
        systems: Systems to show, separated by commas; by default all.
        paper: Show the paper's numbers beside a table of SASV 2022 or of its twin.
        seed: Training seed of a table that figures are of; by default the first. With all, each has
            a page in its folder, and all pages let choose between them.

    Raises:
        InputError: A file is missing or wrong, results are of a part, or matplotlib is not
            installed.
    """
    from lightning_sasv.files import write_text
    from lightning_sasv.metrics.intervals import check_replicates
    from lightning_sasv.places import stamp
    from lightning_sasv.report.curves import Material
    from lightning_sasv.report.drawing import check_figures, require_matplotlib, write_figures
    from lightning_sasv.report.figures import describe
    from lightning_sasv.report.html import render_page

    if folder.endswith(".counts.safetensors"):
        from lightning_sasv.report.counted import write_counted

        return Report(*write_counted(folder, out, figures, replicates, overwrite))
    if figures is not None:
        require_matplotlib()
    if replicates:
        check_replicates(replicates)
    results = _read(folder, None if seed == "all" else seed, systems, allow_part)
    origin = stamp("report", results.folder)
    pages = _pages(results, out, seed == "all", overwrite)
    material = Material.of(results, replicates, paper)
    described = describe(material)
    if figures is not None:
        check_figures(figures, described, origin, overwrite)
    page = write_text(pages[results.source], render_page(material, described, pages))
    note = f"{results.about}, {results.split}"
    files = [] if figures is None else write_figures(figures, described, note, origin)
    for own in [own for own in pages if own != results.source]:
        other = _read(folder, int(own.name.removeprefix("seed")), systems, allow_part)
        material = Material.of(other, replicates, paper)
        write_text(pages[own], render_page(material, describe(material), pages))
    return Report(results, page, files)


def _read(folder: str, seed: int | None, systems: str | None, allow_part: bool) -> Results:
    """The results to show."""
    from lightning_sasv.errors import InputError
    from lightning_sasv.results import read_results

    results = read_results(folder, seed)
    if systems is not None:
        results = results.only([name.strip() for name in systems.split(",")])
    if results.parts and not allow_part:
        raise InputError(
            f"{folder} holds results of {'; '.join(results.parts)}, which do not compare with "
            "those of all trials; add --allow-part to report them all the same"
        )
    return results


def _pages(results: Results, out: str | None, every: bool, overwrite: bool) -> dict[Path, Path]:
    """Where the pages go, by the folder whose figures they show."""
    from lightning_sasv.errors import InputError
    from lightning_sasv.places import check_stamped, head, stamp
    from lightning_sasv.results import PAGE, PAGE_TITLE

    if out and every:
        raise InputError("--seed all writes a page beside the results of each seed; leave --out")
    others = {own: own / PAGE for own in results.of_seeds} if every else {}
    pages = others | {results.source: Path(out) if out else results.folder / PAGE}
    for path in pages.values():
        if out or PAGE_TITLE not in head(path):  # beside its results any page of ours is replaced
            check_stamped(path, stamp("report", results.folder), overwrite)
    return pages
