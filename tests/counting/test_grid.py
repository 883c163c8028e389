"""The grid of leading bits against a plain search, at its edges and at the ends of float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.counting import Counts
from lightning_sasv.errors import InputError
from lightning_sasv.metrics.binned import Grid
from tests.counting.cases import examples

GRIDS = [Grid(0, 0, 1), Grid(7, -16, 4), Grid(2, -5, 3), Grid(3, -1022, 1024), Grid(14, -4, 6)]
ODD = [np.inf, -np.inf, 0.0, -0.0, 5e-324, -5e-324, 1.8e308, -1.8e308, 2.3e-308]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_bins_are_those_of_a_search(grid: Grid) -> None:
    finite = grid.edges[np.isfinite(grid.edges)]
    some = np.concatenate([finite[:2000], finite[-2000:], finite[:: 1 + finite.size // 2000]])
    rng = np.random.default_rng(0)
    wide = rng.normal(size=500) * 10.0 ** rng.integers(-300, 300, 500)
    near = [np.nextafter(some, np.inf), some, np.nextafter(some, -np.inf)]
    scores = np.concatenate([*near, ODD, wide])
    assert grid.edges.size == grid.size
    np.testing.assert_array_equal(grid.bins(scores), np.searchsorted(grid.edges, scores))


@examples(60)
@given(st.lists(st.floats(allow_nan=False), min_size=1), st.integers(0, 9))
def test_scores_lie_in_their_bins(scores: list[float], bits: int) -> None:
    column, grid = np.array(scores), Grid(bits)
    bins = grid.bins(column)
    assert (column <= grid.upper(bins)).all()
    assert (np.maximum(column, -1.7976931348623157e308) >= grid.lower(bins)).all()


@examples(60)
@given(st.lists(st.floats(allow_nan=False), min_size=1), st.integers(0, 9), st.integers(0, 5))
def test_bins_of_a_coarsening_are_unions(scores: list[float], bits: int, more: int) -> None:
    column, coarse, fine = np.array(scores), Grid(bits), Grid(bits + more)
    moved = coarse.bins(fine.edges)
    inside = fine.bins(column) > 0
    np.testing.assert_array_equal(moved[fine.bins(column)][inside], coarse.bins(column)[inside])


def test_more_bits_than_a_grid_has() -> None:
    with pytest.raises(InputError, match="from 0 to 14 bits, got 20"):
        Counts(grid=20)
