"""Trials with everything that makes counting hard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from lightning_sasv.counting import Counts
from lightning_sasv.counting.views import view_of
from lightning_sasv.metrics.binned import Grid
from lightning_sasv.metrics.bounds import bounded
from lightning_sasv.metrics.registry import Settings

COLUMNS = ("asv", "cm", "sasv")


def examples(few: int) -> settings:
    """So many examples; ``make fuzz`` takes 10,000."""
    number = int(os.environ.get("SASV_FUZZ_EXAMPLES", str(few)))
    return settings(
        max_examples=number, suppress_health_check=[HealthCheck.function_scoped_fixture]
    )


def edge_scores() -> list[float]:
    """Scores on edges of a coarse grid, and next to them."""
    edges = Grid(1, -2, 2).edges[1:-1]
    near = [edges, np.nextafter(edges, np.inf), np.nextafter(edges, -np.inf)]
    return np.concatenate(near).tolist()


SCORES = st.one_of(
    st.sampled_from(edge_scores()),
    st.integers(-3, 3).map(float),
    st.floats(-8, 8),
)


@st.composite
def trials(draw: Any, most: int = 24, infinite: bool = False) -> dict[str, np.ndarray]:
    """Scores of three columns, labels with every class, speakers and attacks."""
    n = draw(st.integers(3, most))
    score = st.one_of(SCORES, st.sampled_from([np.inf, -np.inf])) if infinite else SCORES
    columns = {name: draw(st.lists(score, min_size=n, max_size=n)) for name in COLUMNS}
    rest = draw(st.lists(st.integers(0, 2), min_size=n - 3, max_size=n - 3))
    labels = np.array([0, 1, 2, *rest], np.int8)
    speakers = draw(st.lists(st.sampled_from("abc"), min_size=n, max_size=n))
    attacks = draw(st.lists(st.sampled_from(["A1", "A2"]), min_size=n, max_size=n))
    kinds = np.where(labels == 0, attacks, "-")
    found = {name: np.array(values) for name, values in columns.items()}
    return found | {"labels": labels, "clusters": np.array(speakers), "attacks": kinds}


def count(case: dict[str, np.ndarray], grid: int = 7, columns: Sequence[str] = COLUMNS) -> Counts:
    """A state of all trials of a case; ``asv`` and ``cm`` have the same grid here."""
    state = Counts(columns, grid)
    for column in state.columns.values():
        column.least = column.bits = grid
    own = {name: case[name] for name in columns}
    state.add(case["labels"], case["clusters"], case["attacks"], **own)
    return state


def coarse_metrics(state: Counts, settings: Settings, names: Sequence[str]) -> dict[str, Any]:
    """Bounds on the grid by row."""
    views = {name: view_of(column, state.codes, False) for name, column in state.columns.items()}
    return bounded(views, settings, names)
