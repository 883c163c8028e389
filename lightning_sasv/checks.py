"""What every part asks of its input: columns of real scores, known labels, sensible numbers.

Anything goes in (a tensor on any device, an array, a list), checked float64 comes out; a message
names the argument, the value and its place. Tensors are recognised without importing torch.
"""

from __future__ import annotations

import itertools
import math
import sys
from collections.abc import Iterator, Sequence, Sized
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.errors import InputError, meant
from lightning_sasv.trials import CLASS_ORDER, TrialClass

if TYPE_CHECKING:
    import torch

    ArrayLike: TypeAlias = torch.Tensor | np.ndarray | list[Any] | tuple[Any, ...]
else:
    ArrayLike = Any
"""What is accepted as a column: a tensor on any device, an array, or a list."""

Floats: TypeAlias = NDArray[np.float64]
Codes: TypeAlias = NDArray[np.int8]

BLOCK = 1 << 16
"""Trials that are looked at together where that saves memory: they fit into a processor's cache."""

LARGEST_SCORE = 1e100
"""Finite scores beyond this size are refused where they are squared: that could overflow."""

_CODES = tuple(sorted(member.value for member in TrialClass))
_WORDS = {str(member): member.value for member in TrialClass}


class EmptyClassError(InputError):
    """A class of trials that the metric needs has no trials."""


class UndefinedMetricError(InputError):
    """The metric has no value for these trials and costs."""


class ByClass(NamedTuple):
    """Scores of each class of trials, in the order of the trials."""

    target: Floats
    nontarget: Floats
    spoof: Floats


def is_tensor(values: Any) -> bool:
    """Whether this is a torch tensor; torch is not imported for the question."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, getattr(torch, "Tensor", ()))


def as_array(values: Any, name: str) -> np.ndarray:
    """An array of anything; what it holds is looked at by those who ask.

    Raises:
        InputError: Masked or complex values, or rows of different lengths.
    """
    if is_tensor(values):
        tensor = values.detach()
        if tensor.is_complex():
            raise InputError(f"{name} must hold real numbers, got dtype {tensor.dtype}")
        if tensor.is_floating_point() and tensor.element_size() < 4:  # numpy has no bfloat16
            tensor = tensor.double()
        return np.asarray(tensor.cpu().numpy())
    if np.ma.is_masked(values):
        raise InputError(f"{name} holds masked values; leave these trials out")
    try:
        return np.asarray(values)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise InputError(f"{name} must hold real numbers: {error}") from None


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

    Example:
        >>> as_scores([1, 2], "scores")
        array([1., 2.])
    """
    scores = as_unpaired(values, name)
    if scores.size and np.isnan(scores.min()):
        bad = np.isnan(scores)
        first = int(np.argmax(bad))
        count = int(np.count_nonzero(bad))
        raise InputError(f"{name} holds {count} NaN of {scores.size} values, first at {first}")
    return scores


def as_unpaired(values: ArrayLike, name: str) -> Floats:
    """Scores as :func:`as_scores` has them, NaN where a trial has none.

    Example:
        >>> as_unpaired([1, math.nan], "scores")
        array([ 1., nan])
    """
    array = as_array(values, name)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must hold real numbers, got dtype {array.dtype}")
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}")
    return np.asarray(array, dtype=np.float64)


def as_finite(values: ArrayLike, name: str) -> Floats:
    """Scores as :func:`as_scores` gives them, none beyond :data:`LARGEST_SCORE` in size.

    Args:
        values: Tensor on any device, array or list.
        name: Name of the argument, for the error message.

    Raises:
        InputError: As for :func:`as_scores`, or a NaN, an infinity or a huge value among them.

    Example:
        >>> as_finite([0.5, -2], "asv")
        array([ 0.5, -2. ])
    """
    scores = as_unpaired(values, name)
    if scores.size and not (scores.min() >= -LARGEST_SCORE and scores.max() <= LARGEST_SCORE):
        first = int(np.argmin(np.abs(scores) <= LARGEST_SCORE))
        raise InputError(
            f"{name} must be finite (at most {LARGEST_SCORE:.0e} in size), "
            f"got {scores[first]} at index {first}"
        )
    return scores


def check_spread(scores: Floats, name: str) -> None:
    """Raise if scores are constant, but for less than floats resolve: nothing can be fitted."""
    low, high = scores.min(), scores.max()
    if low == high:
        raise InputError(f"{name} is constant: all {scores.size} values are {low}")
    if high - low < 1 / LARGEST_SCORE:
        raise InputError(
            f"{name} lies between {low:.3g} and {high:.3g}, too close to compute with; multiply it"
        )


def as_labels(labels: ArrayLike, name: str = "labels") -> Codes:
    """Labels as ``TrialClass`` codes: spoof 0, target 1, nontarget 2.

    Args:
        labels: Codes of any integer or float type, or the text keys.
        name: Name of the argument, for the error message.

    Returns:
        The codes as int8; no copy is made of an int8 array.

    Raises:
        InputError: Not one-dimensional, or a label that is none of the three.

    Example:
        >>> as_labels(["target", "spoof"])
        array([1, 0], dtype=int8)
    """
    array = as_array(labels, name)
    if array.dtype == object:
        array = as_array(array.tolist(), name)  # numbers are numbers, whatever kept them
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional, got shape {array.shape}")
    if array.dtype.kind in "US" or (array.dtype == object and array.size):
        return _from_words(array, name)
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError(
            f"{name} must be codes 0 (spoof), 1 (target), 2 (nontarget) or those words, "
            f"got dtype {array.dtype}"
        )
    codes: Codes = array.astype(np.int8, copy=False) if _in_range(array) else np.empty(0, np.int8)
    if codes.size == array.size and (array.dtype.kind != "f" or (codes == array).all()):
        return codes
    first = int(np.argmin(np.isin(array, _CODES)))
    raise InputError(
        f"{name}[{first}] is {array[first]}; expected 0 (spoof), 1 (target) or 2 (nontarget)"
    )


def as_trials(scores: ArrayLike, labels: ArrayLike, name: str = "scores") -> tuple[Floats, Codes]:
    """Scores and label codes of one length, every class with trials.

    Args:
        scores: Score of each trial.
        labels: Label of each trial.
        name: Name of the score argument, for the error message.

    Raises:
        InputError: Lengths differ, a NaN, an unknown label, or a class without trials.
    """
    array, codes = as_scores(scores, name), as_labels(labels)
    check_same_length({name: array, "labels": codes})
    check_has_class(codes, *CLASS_ORDER)
    return array, codes


def as_two_classes(
    pos: ArrayLike, neg: ArrayLike, function: str, instead: str
) -> tuple[Floats, Floats]:
    """Scores of the positives and of the negatives of a function of (pos, neg), neither empty.

    Labels in the place of the negatives are refused: integers, booleans or words, as many as there
    are positives and more than one, that hold more than one label and nothing else. Floating-point
    values are always scores.

    Args:
        pos: Scores that should be accepted.
        neg: Scores that should be rejected.
        function: Name of the function, for the error message.
        instead: What takes scores and labels, for the error message.

    Raises:
        InputError: An empty class, a NaN, or labels for ``neg``.

    Example:
        >>> as_two_classes([2.0, 1.0], [0.0], "eer", "sasv_eers")
        (array([2., 1.]), array([0.]))
    """
    positive, second = as_scores(pos, "pos"), as_array(neg, "neg")
    if 1 < second.size == positive.size and _are_labels(second):
        raise InputError(
            f"neg holds labels, not scores: {function} takes the scores of the positives and those "
            f"of the negatives; {instead} takes scores and labels"
        )
    negative = as_scores(neg, "neg")
    check_not_empty(positive, "positive trials (pos)")
    check_not_empty(negative, "negative trials (neg)")
    return positive, negative


def by_class(scores: ArrayLike, labels: ArrayLike, name: str = "scores") -> ByClass:
    """Scores of each class, none of them empty; arguments and errors as for :func:`as_trials`.

    Example:
        >>> by_class([3.0, 1.0, 0.0], ["target", "nontarget", "spoof"]).target
        array([3.])
    """
    array, codes = as_trials(scores, labels, name)
    return ByClass(*split(array, codes, *((member,) for member in CLASS_ORDER)))


def split(scores: Floats, codes: Codes, *groups: Sequence[TrialClass]) -> list[Floats]:
    """Scores of groups of classes, in the order of the trials; each class must have trials.

    Block by block, so that the scores are read once and no index of all trials is ever in memory.
    """
    check_has_class(codes, *itertools.chain(*groups))
    sizes = (sum(np.count_nonzero(is_any(codes[b], g)) for b in blocks(codes.size)) for g in groups)
    parts = [np.empty(size) for size in sizes]
    free = list(parts)
    for block in blocks(codes.size):
        for k, group in enumerate(groups):
            places = np.flatnonzero(is_any(codes[block], group))
            scores[block].take(places, out=free[k][: places.size], mode="clip")
            free[k] = free[k][places.size :]
    return parts


def blocks(size: int) -> Iterator[slice]:
    """Places of so many trials, :data:`BLOCK` of them at a time."""
    return (slice(start, min(start + BLOCK, size)) for start in range(0, size, BLOCK))


def is_any(codes: Codes, classes: Sequence[TrialClass]) -> NDArray[np.bool_]:
    """Which trials are of one of some classes."""
    mask: NDArray[np.bool_] = codes == classes[0].value
    for member in classes[1:]:
        mask |= codes == member.value
    return mask


def check_same_length(columns: dict[str, np.ndarray]) -> None:
    """Raise an error that names the lengths unless all columns have the same."""
    lengths = {name: len(values) for name, values in columns.items()}
    if len(set(lengths.values())) > 1:
        raise InputError(f"columns differ in length: {lengths}")


def check_has_class(codes: Codes, *classes: TrialClass) -> None:
    """Raise an error that names the first class without trials."""
    for member in classes:
        if not any((codes[block] == member.value).any() for block in blocks(codes.size)):
            raise EmptyClassError(f"no {member} trials: the metric is undefined for an empty class")


def check_known(what: str, value: str, choices: Any) -> None:
    """Raise a ``ValueError`` unless the value is one of the choices of a ``Literal``."""
    if value not in (known := get_args(choices)):
        expected = f"expected one of {', '.join(known)}"
        raise ValueError(f"unknown {what} {value!r}; {expected}{meant(value, known)}")


def check_not_empty(values: Sized, name: str) -> None:
    """Raise an error that names the class unless there is at least one value."""
    if not len(values):
        raise EmptyClassError(f"no {name}: the metric is undefined for an empty class")


def real(name: str, value: Any) -> float:
    """A number of a configuration as a float.

    Args:
        name: Name of the argument, for the message.
        value: What was given for it.

    Raises:
        InputError: It is no number.
    """
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        raise InputError(f"{name} must be a number, got {value!r}") from None


def as_threshold(value: Any) -> float:
    """A threshold, which may be infinite but not NaN."""
    number = real("threshold", value)
    if math.isnan(number):
        raise InputError("threshold is NaN: nothing can be compared with it")
    return number


def positive(name: str, value: Any) -> float:
    """A number above 0 and below infinity; arguments as for :func:`real`."""
    number = real(name, value)
    if not 0 < number < math.inf:
        raise InputError(f"{name} must be positive and finite, got {value}")
    return number


def count(name: str, value: Any) -> int:
    """A whole number of at least 1; arguments as for :func:`real`."""
    number = real(name, value)
    if not (number >= 1 and number.is_integer()):
        raise InputError(f"{name} must be at least 1 and whole, got {value}")
    return int(number)


def _are_labels(array: np.ndarray) -> bool:
    """Whether these are integers, booleans or words that hold labels alone, and not just one."""
    if array.dtype.kind in "USO":
        found = set(np.unique(array.astype(np.str_)).tolist())
        return len(found) > 1 and found <= _WORDS.keys()
    if array.dtype.kind not in "iub" or not _in_range(array):
        return False
    return bool(array.min() != array.max())


def _in_range(array: np.ndarray) -> bool:
    """Whether a cast to int8 is safe; NaN compares false."""
    return array.size == 0 or bool(array.min() >= _CODES[0] and array.max() <= _CODES[-1])


def _from_words(array: np.ndarray, name: str) -> Codes:
    are_bytes = array.dtype.kind == "S"
    text = np.char.decode(array, "utf-8", "replace") if are_bytes else array.astype(str)
    codes = np.full(text.shape, -1, dtype=np.int8)
    for word, code in _WORDS.items():
        codes[text == word] = code
    if (codes < 0).any():
        first = int(np.argmax(codes < 0))
        raise InputError(
            f"{name}[{first}] is {str(text[first])!r}; expected spoof, target or nontarget"
        )
    return codes
