"""``lightning report``: results as a page and as figures."""

from __future__ import annotations

from lightning_sasv.console import print_line


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
    from lightning_sasv.report import write_report

    results, page, files = write_report(folder, out, figures)
    corpus = ", ".join(results.corpora) or "corpus not named"
    note = " (simulated)" if results.simulated else ""
    print_line(f"{corpus}{note}: {page}, {page.stat().st_size / 1e6:.1f} MB")
    if figures is not None:
        print_line(f"{len(files)} figure files in {figures}")
