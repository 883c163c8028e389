"""``lightning report``: results as a page and as figures."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console


def report(folder: str, out: str | None = None, figures: str | None = None) -> None:
    """Make one self-contained HTML page of a folder of results, and figures if asked for.

    The page shows the table, score distributions, decision boundaries, DET curves, calibration,
    t-EER paths, costs over thresholds, and a panel in which priors and costs can be moved. It
    needs no network and can be sent to anyone.

    Args:
        folder: Folder that `lightning fit`, `fuse` or `table` wrote.
        out: HTML file to write; FOLDER/report.html by default.
        figures: Folder for the figures as PNG, PDF and SVG; needs matplotlib.
    """
    from lightning_sasv.report.html import write_page
    from lightning_sasv.results import read_results

    console = Console(highlight=False, soft_wrap=True)
    if figures is not None:
        from lightning_sasv.report.figures import require_matplotlib

        require_matplotlib()
    results = read_results(folder)
    page = write_page(out or Path(folder) / "report.html", results)
    corpus = ", ".join(results.corpora) or "corpus not named"
    note = " (simulated)" if results.simulated else ""
    size = page.stat().st_size / 1e6
    console.print(f"{corpus}{note}: {page}, {size:.1f} MB", markup=False)
    if figures is not None:
        from lightning_sasv.report.figures import write_figures

        written = write_figures(figures, results)
        console.print(f"{len(written)} figure files in {figures}", markup=False)
