"""Tables on the terminal."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

COLUMNS: Sequence[tuple[str, str, bool]] = (
    ("sasv_eer", "SASV-EER", True),
    ("sv_eer", "SV", True),
    ("spf_eer", "SPF", True),
    ("cllr", "Cllr", False),
    ("cllr_min", "min", False),
    ("cllr_calib", "calib", False),
    ("t_eer", "t-EER", True),
    ("min_a_dcf", "a-DCF", False),
)
"""Key in ``metrics.json``, heading, and whether it is a rate shown in per cent."""


def format_value(value: Any, percent: bool) -> str:
    """A metric as people read it: rates in per cent, absent or undefined values as a dash."""
    if value is None or not math.isfinite(value):
        return "–"
    return f"{100 * value:.2f}" if percent else f"{value:.3f}"


def print_results(metrics: Mapping[str, Mapping[str, Any]], corpus: str) -> None:
    """Show the metrics of each system on each set, and which corpus they come from."""
    table = Table(
        padding=(0, 0, 0, 1),
        title=f"Results on the corpus: {escape(corpus)}",
        caption="EERs in per cent, Cllr in bits, a-DCF normalised minimum (a-dcf1 costs)",
    )
    for heading in ("system", "set", *(heading for _, heading, _ in COLUMNS)):
        justify = "left" if heading in ("system", "set") else "right"
        table.add_column(heading, justify=justify, no_wrap=True)  # type: ignore[arg-type]
    for system, entry in metrics.items():
        for name in ("dev", "eval"):
            if name in entry:
                values = [format_value(entry[name].get(key), pct) for key, _, pct in COLUMNS]
                table.add_row(escape(system), name, *values)
    Console().print(table)
