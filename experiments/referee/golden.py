"""Golden values on downloaded scores: ``make golden``.

Fetches the public files, each with its pinned SHA-256, recomputes the values of ``golden.yaml`` and
prints each beside what other people's tools gave. Ends with 1 where one is not equal.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from lightning_sasv.data import download
from lightning_sasv.data.downloads import Name
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import Verdict, referee

GOLDEN = Path(__file__).with_name("golden.yaml")
NAMES: tuple[Name, ...] = ("sasv2022-more", "referee")
"""What is fetched."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "lightning_sasv" / "public"


def rows_of(verdicts: list[Verdict]) -> list[tuple[str, ...]]:
    """System, metric, set, value, expected, whether they are equal (if not, why)."""
    rows = []
    for one in verdicts:
        system, metric, own_set, expected, value, status = one.cells
        rows.append((system, metric, own_set, value, expected, "yes" if _equal(one) else status))
    return rows


def _equal(one: Verdict) -> bool:
    return one.status == "equal"


def main(argv: list[str] | None = None) -> int:
    """Check all values; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", help="folder that holds the files already; nothing is fetched")
    parser.add_argument("--cache", default=str(CACHE), help="folder to fetch them to")
    parser.add_argument("--claims", default=str(GOLDEN), help="the values")
    args = parser.parse_args(argv)
    try:
        if args.data is None:
            for name in NAMES:
                download(name, out=args.cache)
        verdicts = referee(args.claims, files=args.data or args.cache, replicates=39)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    rows = [("system", "metric", "set", "value", "expected", "equal"), *rows_of(verdicts)]
    widths = [max(len(row[k]) for row in rows) for k in range(5)]
    for row in rows:
        print("  ".join([*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5]]))
    equal = sum(_equal(one) for one in verdicts)
    print(f"{equal} of {len(verdicts)} values are equal, to the digits shown under expected")
    return 0 if equal == len(verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
