"""What every metric asks of its input: columns of real scores, known labels, no empty class."""

from __future__ import annotations

from collections.abc import Sequence, Sized
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

ArrayLike: TypeAlias = torch.Tensor | np.ndarray | list[Any] | tuple[Any, ...]
"""What the metrics accept as a column: a tensor on any device, an array, or a list."""

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int8]

BLOCK = 1 << 16
"""Trials that are looked at together where that saves memory: they fit into a processor's cache."""

_CODES = {member.value for member in TrialClass}


class EmptyClassError(InputError):
    """A class of trials that the metric needs has no trials."""


class UndefinedMetricError(InputError):
    """The metric has no value for these trials and costs."""


class ByClass(NamedTuple):
    """Scores of each class of trials, in the order of the trials."""

    target: Floats
    nontarget: Floats
    spoof: Floats


def as_scores(values: ArrayLike, name: str) -> Floats:
    """Scores as a one-dimensional float64 array; integers and half precision are widened.

    Infinities pass (they order like any other score); NaN does not.

    Args:
        values: Tensor on any device, array or list.
        name: Name of the argument, for the error message.

    Returns:
        The scores in float64; no copy is made of a float64 array.

    Raises:
        InputError: Not one-dimensional, not real, or a NaN among them.
    """
    array = _as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}")
    scores: Floats = np.asarray(array, dtype=np.float64)
    if scores.size and np.isnan(scores.min()):
        bad = np.isnan(scores)
        first = int(np.argmax(bad))
        count = int(np.count_nonzero(bad))
        raise InputError(f"{name} holds {count} NaN of {scores.size} values, first at {first}")
    return scores


def as_labels(labels: ArrayLike, name: str = "labels") -> Codes:
    """Labels as ``TrialClass`` codes: spoof 0, target 1, nontarget 2.

    Args:
        labels: Codes of any integer or float type, or the text keys.
        name: Name of the argument, for the error message.

    Returns:
        The codes as int8.

    Raises:
        InputError: Not one-dimensional, or a label that is none of the three.
    """
    array = _as_array(labels, name)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind in "US" or (array.dtype == object and array.size):
        return _from_keys(array, name)
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError(
            f"{name} must be codes 0 (spoof), 1 (target), 2 (nontarget) or those words, "
            f"got dtype {array.dtype}"
        )
    codes: Codes = array.astype(np.int8) if _in_range(array) else np.empty(0, np.int8)
    if codes.size == array.size and (array.dtype.kind != "f" or (codes == array).all()):
        return codes
    first = int(np.argmin(np.isin(array, list(_CODES))))
    raise InputError(
        f"{name}[{first}] is {array[first]}; expected 0 (spoof), 1 (target) or 2 (nontarget)"
    )


def as_trials(scores: ArrayLike, labels: ArrayLike, name: str = "scores") -> tuple[Floats, Codes]:
    """Scores and label codes of one length, every class with trials.

    Args:
        scores: Score of each trial.
        labels: Label of each trial.
        name: Name of the score argument, for the error message.

    Returns:
        Both columns, checked.

    Raises:
        InputError: Lengths differ, a NaN, an unknown label, or a class without trials.
    """
    array, codes = as_scores(scores, name), as_labels(labels)
    check_same_length({name: array, "labels": codes})
    for member in _ORDER:
        check_has_class(codes, member)
    return array, codes


def by_class(scores: ArrayLike, labels: ArrayLike, name: str = "scores") -> ByClass:
    """Scores of each class, none of them empty.

    Args:
        scores: Score of each trial.
        labels: Label of each trial.
        name: Name of the score argument, for the error message.

    Returns:
        The scores of the targets, nontargets and spoofs.

    Raises:
        InputError: Lengths differ, a NaN, an unknown label, or a class without trials.
    """
    array, codes = as_trials(scores, labels, name)
    return ByClass(*(select(array, codes, (member,)) for member in _ORDER))


def select(scores: Floats, codes: Codes, classes: Sequence[TrialClass]) -> Floats:
    """Scores of some classes, in the order of the trials.

    Block by block, so that no index of all trials is ever in memory.

    Args:
        scores: Score of each trial.
        codes: ``TrialClass`` code of each trial.
        classes: Which classes; each must have trials.

    Returns:
        Their scores.

    Raises:
        EmptyClassError: A class has no trials.
    """
    for member in classes:
        check_has_class(codes, member)
    chosen = np.empty(sum(int(np.count_nonzero(codes == member.value)) for member in classes))
    done = 0
    for start in range(0, codes.size, BLOCK):
        block = slice(start, start + BLOCK)
        places = np.flatnonzero(is_any(codes[block], classes))
        scores[block].take(places, out=chosen[done : done + places.size], mode="clip")
        done += places.size
    return chosen


def is_any(codes: Codes, classes: Sequence[TrialClass]) -> NDArray[np.bool_]:
    """Which trials are of one of some classes."""
    mask = codes == classes[0].value
    for member in classes[1:]:
        mask |= codes == member.value
    return mask


def check_same_length(columns: dict[str, np.ndarray]) -> None:
    """Raise an error that names the lengths unless all columns have the same."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns differ in length: {lengths}")


def check_has_class(codes: Codes, member: TrialClass) -> None:
    """Raise an error that names the class unless it has trials."""
    if not (codes == member.value).any():
        raise EmptyClassError(f"no {member} trials: the metric is undefined for an empty class")


def check_not_empty(values: Sized, name: str) -> None:
    """Raise an error that names the class unless there is at least one value."""
    if not len(values):
        raise EmptyClassError(f"no {name}: the metric is undefined for an empty class")


_ORDER = (TrialClass.TARGET, TrialClass.NONTARGET, TrialClass.SPOOF)


def _as_array(values: ArrayLike, name: str) -> np.ndarray:
    if isinstance(values, torch.Tensor):
        tensor = values.detach()
        if tensor.is_complex():
            raise InputError(f"{name} must hold real numbers, got dtype {tensor.dtype}")
        if tensor.dtype in (torch.float16, torch.bfloat16):
            tensor = tensor.double()
        return tensor.cpu().numpy()
    return np.asarray(values)


def _in_range(array: np.ndarray) -> bool:
    """Whether a cast to int8 is safe; NaN compares false."""
    return array.size == 0 or bool(array.min() >= min(_CODES) and array.max() <= max(_CODES))


def _from_keys(array: np.ndarray, name: str) -> Codes:
    text = array.astype(str)
    codes = np.full(text.shape, -1, dtype=np.int8)
    for member in TrialClass:
        codes[text == str(member)] = member.value
    if (codes < 0).any():
        first = int(np.argmax(codes < 0))
        raise InputError(
            f"{name}[{first}] is {str(text[first])!r}; expected spoof, target or nontarget"
        )
    return codes
