"""Transforms of single columns, fitted on dev: the first step of a system.

================  ==================================================================================
``none``          x
``standard``      (x − mean) / sd, sd divided by n
``logit``         log u − log(1 − u), u = (x − lo)/(hi − lo) clipped to [1e-7, 1 − 1e-7];
                  [lo, hi] is [0, 1] if all dev values lie in it, else [−1, 1] if they do, else
                  an error
``rank``          normal scores of the class-balanced dev distribution: value v_i of mass
                  m_i = Σ 1/(3 N_k) becomes Φ⁻¹(Σ_{j<i} m_j + m_i/2), straight lines between
================  ==================================================================================

A column that is constant on dev is ``ignored``: it is accepted, and nothing is made of it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lightning_sasv.checks import Codes, Floats
from lightning_sasv.errors import InputError, meant
from lightning_sasv.fusion.columns import IGNORED, PAIR, Columns, from_bytes
from lightning_sasv.fusion.densities import Config, Single, Stage, State
from lightning_sasv.fusion.logistic import class_weights
from lightning_sasv.numerics import interpolate, namespace

TRANSFORMS = ("none", "standard", "logit", "rank")
CHOSEN = "cv"
WORDS = (*TRANSFORMS, IGNORED)
"""What a state can hold, by number."""
SMALLEST_SHARE = 1e-7
_SIZES = {"none": 0, "standard": 2, "logit": 2, IGNORED: 0}

Transform = str | Mapping[str, str]
"""One word for all columns, or words by column; those that are left out stay as they are."""


def check_transform(transform: Any) -> Transform:
    """A setting ``transform``, as it is kept.

    Raises:
        InputError: It is neither a known word nor a mapping to such.
    """
    words = transform if isinstance(transform, Mapping) else {"": transform}
    known = (*TRANSFORMS, CHOSEN)
    for column, word in words.items():
        if not isinstance(column, str):
            raise InputError(f"transform names columns, got {column!r} for a name")
        if word not in known:
            of = f" of {column}" if column else ""
            hint = meant(word, known) if isinstance(word, str) else ""
            raise InputError(
                f"unknown transform {word!r}{of}; expected one of {', '.join(known)}{hint}"
            )
    return dict(words) if isinstance(transform, Mapping) else str(transform)


def words_for(transform: Transform, columns: Columns) -> list[str]:
    """The word for each column.

    Raises:
        InputError: There is one for a column that is not there.
    """
    if isinstance(transform, str):
        return [transform] * len(columns.names)
    by_name = dict(zip(columns.shown, columns.names, strict=True))
    own = {by_name.get(name, name): word for name, word in transform.items()}
    for name in own:
        if name not in columns.names:
            raise InputError(
                f"transform names the column {name}; there are {', '.join(columns.names)}"
                f"{meant(name, columns.names)}"
            )
    return [own.get(name, "none") for name in columns.names]


def domain(values: Floats) -> tuple[float, float] | None:
    """Bounds that values keep to: [0, 1], [−1, 1], or none.

    Example:
        >>> domain(np.array([-0.5, 1.0]))
        (-1.0, 1.0)
    """
    low, high = values.min(), values.max()
    if high > 1 or low < -1:
        return None
    return (0.0, 1.0) if low >= 0 else (-1.0, 1.0)


def fit_transforms(
    words: Sequence[str], scores: Floats, codes: Codes, names: Sequence[str]
) -> State:
    """What the transforms of columns learn.

    Args:
        words: One of :data:`WORDS` for each column.
        scores: Development scores (columns, trials).
        codes: ``TrialClass`` codes (trials,).
        names: Names of the columns, for messages.

    Returns:
        ``word``, the number of each column's word; ``size``, how many values it has; ``value``,
        these, one column after the other.
    """
    parts = [_fit(*one, codes) for one in zip(words, scores, names, strict=True)]
    return {
        "word": np.array([WORDS.index(word) for word in words]),
        "size": np.array([len(part) for part in parts]),
        "value": np.concatenate(parts),
    }


def _fit(word: str, values: Floats, name: str, codes: Codes) -> Floats:
    if word == "standard":
        return np.array([values.mean(), values.std() or 1.0])
    if word == "logit":
        found = domain(values)
        if found is None:
            raise InputError(
                f"transform: logit needs {name} within [0, 1] or [-1, 1], but it lies in "
                f"[{values.min():.6g}, {values.max():.6g}]; take rank, standard or none"
            )
        return np.array(found)
    if word == "rank":
        return _normal_scores(values, codes)
    return np.empty(0)


def _normal_scores(values: Floats, codes: Codes) -> Floats:
    """Distinct values, then the normal score of each."""
    from scipy.special import ndtri

    knots, places = np.unique(values, return_inverse=True)
    mass = np.bincount(places, class_weights(codes))
    heights = ndtri(np.cumsum(mass) - mass / 2)
    if len(knots) == 1:
        knots, heights = np.repeat(knots, 2), np.repeat(heights, 2)
    return np.concatenate([knots, heights])


def apply_transforms(state: State, scores: Any) -> Any:
    """The columns (columns, trials) after their transforms, without those that are ignored."""
    words = [WORDS[number] for number in state["word"].tolist()]
    if set(words) == {"none"}:
        return scores
    rows = zip(words, scores, _parts(state), strict=True)
    return namespace(scores).stack([_apply(*row) for row in rows if row[0] != IGNORED])


def _single(state: State, _: Config) -> Single:
    """:func:`apply_transforms` of one trial."""
    words = [WORDS[number] for number in state["word"].tolist()]
    rows = [*zip(words, [part.tolist() for part in _parts(state)], strict=True)]
    return lambda scores: [
        _apply(word, x, own) for x, (word, own) in zip(scores, rows, strict=True) if word != IGNORED
    ]


def _parts(state: State) -> list[Any]:
    """The values of each column."""
    sizes = state["size"].tolist()
    ends = itertools.accumulate(sizes)
    return [state["value"][end - size : end] for end, size in zip(ends, sizes, strict=True)]


def _apply(word: str, values: Any, own: Any) -> Any:
    xp = namespace(values)
    if word == "standard":
        return (values - own[0]) / own[1]
    if word == "logit":
        share = xp.clip((values - own[0]) / (own[1] - own[0]), SMALLEST_SHARE, 1 - SMALLEST_SHARE)
        return xp.log(share) - xp.log1p(-share)
    if word == "rank":
        half = len(own) // 2
        return interpolate(values, own[:half], own[half:])
    return values


def _start(config: Config) -> State:
    """The state in which every column stays as it is."""
    columns = len(config["columns"].names)
    counts = {name: np.zeros(columns, np.int64) for name in ("word", "size")}
    return counts | {"value": np.empty(0)}


TRANSFORM = Stage(
    _start,
    lambda scores, codes, config: fit_transforms(
        config["columns"].transforms, scores, codes, config["columns"].shown
    ),
    lambda state, scores, _: apply_transforms(state, scores),
    _single,
)
"""The transforms of all columns as the first stage of a system."""


def check_transforms(state: State, columns: int) -> None:
    """Raise unless the transforms of a system's state, if it has any, are of so many columns.

    Raises:
        InputError: Numbers of no word, sizes that do not fit, or knots that do not ascend.
    """
    own = {name: state.get(f"transform.{name}") for name in ("word", "size", "value")}
    if all(value is None for value in own.values()):
        return
    if not _fits(own, columns):
        raise InputError("its transforms are none of these columns")


def _fits(own: State, columns: int) -> bool:
    word, size, value = (np.asarray(own[name]) for name in ("word", "size", "value"))
    right = word.shape == size.shape == (columns,) and value.ndim == 1
    right = right and word.dtype.kind == size.dtype.kind == "i" and value.dtype.kind == "f"
    right = right and bool(((word >= 0) & (word < len(WORDS)) & (size >= 0)).all())
    if not (right and int(size.sum()) == value.size and np.isfinite(value).all()):
        return False
    words = [WORDS[number] for number in word.tolist()]
    return all(_makes_sense(*one) for one in zip(words, _parts(own), strict=True))


def _makes_sense(word: str, own: Floats) -> bool:
    if word == "rank":
        half = len(own) // 2
        return len(own) >= 4 and len(own) % 2 == 0 and bool((np.diff(own[:half]) >= 0).all())
    if len(own) != _SIZES[word]:
        return False
    return not (word == "standard" and own[1] <= 0) and not (word == "logit" and own[0] >= own[1])


def columns_of(state: State) -> Columns:
    """The columns that a state (arrays) is of.

    Raises:
        InputError: They are no names of columns, or have no transforms that make sense.
    """
    columns = from_bytes(state["names"]) if "names" in state else PAIR
    check_transforms(state, len(columns.names))
    return laid_out(columns, state)


def laid_out(columns: Columns, state: State) -> Columns:
    """Columns with their transforms in a state."""
    if "transform.word" not in state:
        return replace(columns, transforms=None) if columns.transforms else columns
    words = tuple(WORDS[number] for number in state["transform.word"].tolist())
    return columns if words == columns.transforms else replace(columns, transforms=words)
