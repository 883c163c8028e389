"""Files of counts: ``NAME.counts.safetensors``. Equal states are equal bytes; nothing is executed.

A header (JSON) names columns, grids, cuts, rows in sorted order and sources; the tensors hold, for
each column, the occupied cells of (row, bin) as gaps and their counts in the smallest type that
holds them, the same by class on the fine grid, rejected trials at the cuts and the losses in two
limbs. What a header claims is compared with the bytes of the file before anything is allocated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open

from lightning_sasv import __version__
from lightning_sasv.counting.column import FINE, Column, block_of, by_class
from lightning_sasv.counting.rows import Row
from lightning_sasv.counting.state import COLUMNS, Counts, Source
from lightning_sasv.counting.sums import UNIT
from lightning_sasv.errors import InputError
from lightning_sasv.files import write_arrays
from lightning_sasv.limits import parse_json
from lightning_sasv.metrics.binned import Edges, Grid
from lightning_sasv.metrics.bootstrap import NOT_CLUSTERED
from lightning_sasv.places import COUNTS, is_counts

FORMAT = "lightning_sasv.counts/1"
_HEADER = "counts"
_LIMB = 1 << 62
_ROWS = 512
_DAMAGE = (KeyError, TypeError, AttributeError, ValueError, OverflowError, SafetensorError, OSError)


def save_counts(counts: Counts, path: str | Path) -> Path:
    """Write a state, atomically.

    Args:
        counts: The state.
        path: File to write, ``….counts.safetensors``.
    """
    if not is_counts(path):
        raise InputError(f"{path}: a file of counts is called NAME{COUNTS}")
    order = counts.order
    header: dict[str, Any] = {
        "format": FORMAT,
        "version": __version__,
        "rows": [counts.rows[number] for number in order],
        "sources": sorted(counts.sources),
        "trials": counts.trials,
        "columns": {},
    }
    tensors: dict[str, NDArray[Any]] = {}
    for name, column in counts.columns.items():
        facts, arrays = _packed(column, order)
        header["columns"][name] = facts
        tensors |= {f"{name}.{key}": array for key, array in arrays.items()}
    text = json.dumps(header, sort_keys=True, ensure_ascii=True)
    return write_arrays(path, tensors, {_HEADER: text})


def load_counts(path: str | Path) -> Counts:
    """Read a state.

    Raises:
        InputError: There is no such file, it is of something else or of another version, damaged,
            or claims more than it holds.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no counts at {path}; make them with `lightning evaluate --state`")
    try:
        with safe_open(path, framework="numpy") as file:
            header = parse_json((file.metadata() or {}).get(_HEADER, "{}"), path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            raise InputError(f"{path} holds no counts of this version ({FORMAT})")
        return _unpacked(header, tensors)
    except _DAMAGE as error:
        if isinstance(error, InputError) and str(path) in str(error):
            raise
        if not is_counts(path):
            how = "make some of its trials with `lightning evaluate --state`"
            raise InputError(f"{path} holds no counts; {how}") from None
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is damaged ({reason}); count the trials again") from None


def _packed(column: Column, order: NDArray[np.intp]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Facts and arrays of a column, rows in a given order."""
    rows, bins, fine = order.size, np.argsort(column.bins), np.argsort(column.fine_bins)
    counts = column.counts(rows)
    parts = (
        part if isinstance(part, np.ndarray) else part.toarray()
        for at in range(0, rows, _ROWS)
        for part in [block_of(counts, order[at : at + _ROWS], bins)]
    )
    sums = column.sums.losses(rows)
    losses = [sums[number] for number in order.tolist()]
    huge = {str(row): str(loss) for row, loss in enumerate(losses) if loss // UNIT >= _LIMB}
    limbs = [(0, 0) if str(row) in huge else divmod(loss, UNIT) for row, loss in enumerate(losses)]
    facts = {
        "bits": column.bits,
        "least": column.least,
        "cuts": [cut.hex() for cut in column.cuts],
        "huge": huge,
    }
    if column.edges:
        facts["edges"] = [edge.hex() for edge in column.edges]
    arrays = {
        "bins": column.bins[bins].astype(np.uint32),
        "limbs": np.array(limbs, np.int64).reshape(rows, 2),
        "infinite": column.sums.infinite(rows)[order],
        "rejected": np.ascontiguousarray(column.sums.rejected(rows)[order]),
        **_sparse("counts", parts),
        "fine.bins": column.fine_bins[fine].astype(np.uint32),
        **_sparse("fine", [column.fine[:, fine]]),
    }
    return facts, {name: np.ascontiguousarray(array) for name, array in arrays.items()}


def _unpacked(header: dict[str, Any], tensors: dict[str, Any]) -> Counts:
    if not header["columns"].keys() <= set(COLUMNS):
        raise InputError(f"unknown columns {sorted(header['columns'])}")
    counts = Counts(tuple(header["columns"]))
    rows = [Row(str(speaker), int(code), str(attack)) for speaker, code, attack in header["rows"]]
    if any(row.code not in (0, 1, 2) or (row.code and row.attack != NOT_CLUSTERED) for row in rows):
        raise InputError("a row is no class of trials")
    if len(set(rows)) < len(rows):
        raise InputError("a row is there twice")
    counts.adopt(rows)
    counts.sources = [
        Source(str(name), int(n), int(size), int(ids)) for name, n, size, ids in header["sources"]
    ]
    for name, facts in header["columns"].items():
        own = {key.partition(".")[2]: value for key, value in tensors.items() if _of(key, name)}
        column = counts.columns[name] = _column(name, facts, own, len(rows))
        totals = by_class(column.trials_of_rows(len(rows)), counts.codes)
        if totals.tolist() != column.fine.sum(axis=1).tolist():
            raise InputError(f"{name}: rows and classes do not have the same trials")
    if counts.trials != header["trials"]:
        raise InputError(f"it holds {counts.trials}, but says {header['trials']}")
    return counts


def _of(key: str, column: str) -> bool:
    return key.startswith(f"{column}.")


def _column(name: str, facts: dict[str, Any], arrays: dict[str, Any], rows: int) -> Column:
    least, bits = int(facts["least"]), int(facts["bits"])
    if not 0 <= least <= bits <= FINE:
        raise InputError(f"{name}: no grid of {bits} bits")
    cuts, edges = ([float.fromhex(x) for x in facts.get(key, ())] for key in ("cuts", "edges"))
    column = Column(name, least, cuts, edges)
    column.coarsen(bits)
    bins = _bins(arrays["bins"], column.grid)
    fine = _bins(arrays["fine.bins"], column.fine_grid)
    classes = np.zeros((3, fine.size), np.int64)
    codes, places, trials = _occupied(arrays, "fine", (3, fine.size))
    classes[codes, places] = trials
    column.restore(bins, _occupied(arrays, "counts", (rows, bins.size)), fine, classes)
    sums = [
        _shaped(arrays["limbs"], (rows, 2)),
        _shaped(arrays["infinite"][:, None], (rows, 1)),
        _shaped(arrays["rejected"], (rows, len(column.cuts))),
    ]
    huge = {int(row): int(loss) for row, loss in facts["huge"].items() if int(row) < rows}
    column.sums.restore(np.concatenate(sums, axis=1), huge)
    return column


def _bins(bins: NDArray[Any], grid: Grid | Edges) -> NDArray[np.intp]:
    places = bins.astype(np.intp)
    inside = bins.ndim == 1 and bins.dtype == np.uint32 and (np.diff(places) > 0).all()
    if not inside or (bins.size and places[-1] >= grid.size):
        raise InputError("bins that do not ascend within the grid")
    return places


def _shaped(array: NDArray[Any], shape: tuple[int, ...]) -> NDArray[np.int64]:
    fits = array.shape == shape and array.dtype == np.int64
    if not fits or (array.size and not 0 <= array.min() <= array.max() < _LIMB):
        raise InputError(f"an array of {array.dtype} {array.shape} in place of {shape}")
    return array


def _sparse(name: str, parts: Iterable[NDArray[Any]]) -> dict[str, NDArray[Any]]:
    """Occupied cells as gaps, and their counts, of some rows after the others."""
    every: list[tuple[NDArray[Any], NDArray[Any]]] = [
        (np.empty(0, np.uint32), np.empty(0, np.uint8))
    ]
    start, last = 0, 0
    for part in parts:
        cells = np.flatnonzero(part)
        trials, gaps = part.reshape(-1)[cells], np.diff(cells, prepend=last - start)
        wide = np.uint32 if int(gaps.max(initial=0)) <= np.iinfo(np.uint32).max else np.uint64
        every.append((gaps.astype(wide), trials))
        last = start + int(cells[-1]) if cells.size else last
        start += part.size
    gaps, found = (np.concatenate(one) for one in zip(*every, strict=True))
    kind = np.min_scalar_type(int(found.max(initial=0)))
    return {f"{name}.cells": gaps, f"{name}.trials": found.astype(kind)}


def _occupied(
    arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, int]
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.int64]]:
    """Row, column and trials of the cells that are occupied."""
    gaps, found = arrays[f"{name}.cells"], arrays[f"{name}.trials"]
    if gaps.dtype.kind != "u" or found.dtype.kind != "u" or gaps.shape != found.shape:
        raise InputError(f"{name}: cells and counts differ")
    if float(gaps.sum(dtype=np.float64)) >= float(np.prod(shape)) and gaps.size:
        raise InputError(f"{name}: cells beyond the grid")
    if gaps[1:].size and not gaps[1:].min():
        raise InputError(f"{name}: a cell is there twice")
    if float(found.sum(dtype=np.float64)) >= _LIMB:
        raise InputError(f"{name}: more trials than there can be")
    rows, columns = np.divmod(np.cumsum(gaps.astype(np.intp)), max(shape[1], 1))
    return rows, columns, found.astype(np.int64)
