"""Do the systems come out in the paper's order? The checks that the twin must pass."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from lightning_sasv.report.table1 import PAPER, Row


class Check(NamedTuple):
    """One statement about the table and whether it holds."""

    statement: str
    holds: bool


def order_checks(rows: Sequence[Row]) -> list[Check]:
    """The order of the paper's Table 1; empty unless all eight systems of the paper are there."""
    by_name: Mapping[str, Row] = {row.system: row for row in rows}
    if not by_name.keys() >= PAPER.keys():
        return []
    eer = {name: row.cells["sasv_eer"].mean for name, row in by_name.items()}
    cllr = {name: row.cells["cllr"].mean for name, row in by_name.items()}
    t_eer = {name: row.cells["t_eer"].mean for name, row in by_name.items()}
    calibrated = ("L2c", "L3", "L3c")
    return [
        Check("SASV-EER of B1 above 15 %", eer["B1"] > 15),
        Check("L2 above L2c", eer["L2"] > eer["L2c"]),
        Check("B1c above L2c", eer["B1c"] > eer["L2c"]),
        Check("L3 at most L2c + 0.1", eer["L3"] <= eer["L2c"] + 0.1),
        Check("L3c at most L2c + 0.1", eer["L3c"] <= eer["L2c"] + 0.1),
        Check("L3c between 0.8 and 2.5 %", 0.8 <= eer["L3c"] <= 2.5),
        Check("Cllr of L2c, L3 and L3c below 0.3", all(cllr[name] < 0.3 for name in calibrated)),
        Check("Cllr of B1 above 1", cllr["B1"] > 1),
        Check("t-EER of B1 equal to that of B1c", abs(t_eer["B1"] - t_eer["B1c"]) < 1e-9),
    ]
