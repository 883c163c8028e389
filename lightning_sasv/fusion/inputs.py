"""Checks of scores and labels on their way into a fusion system."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lightning_sasv.errors import InputError
from lightning_sasv.trials import TrialClass

LARGEST_SCORE = 1e100
"""Scores beyond this size are refused: what is computed from them could overflow."""


def score_pairs(asv: Any, cm: Any) -> Tensor:
    """Both scores of each trial as one float64 tensor, (rows, 2, trials) or (2, trials).

    Args:
        asv: ASV scores, tensor or array, (trials,) or (rows, trials).
        cm: CM scores; a side without rows goes with every row of the other. Where one side is on
            the CPU, it follows the other to its device.

    Raises:
        InputError: A score is NaN, infinite or above :data:`LARGEST_SCORE`, or the shapes do not
            agree.
    """
    sides = {
        name: _as_tensor(name, values).to(torch.float64)
        for name, values in (("asv", asv), ("cm", cm))
    }
    shapes = {name: tuple(side.shape) for name, side in sides.items()}
    for name, side in sides.items():
        if side.ndim not in (1, 2) or side.numel() == 0:
            raise InputError(
                f"{name} must have shape (trials,) or (copies, trials), got {shapes[name]}"
            )
        _check_size(name, side)
    try:
        shape = np.broadcast_shapes(*shapes.values())
    except ValueError:
        shape = None
    if shape is None or shapes["asv"][-1] != shapes["cm"][-1]:
        raise InputError(f"asv and cm differ in shape: {shapes['asv']} and {shapes['cm']}")
    device = max((side.device for side in sides.values()), key=lambda one: one.type != "cpu")
    return torch.stack([side.expand(shape).to(device) for side in sides.values()], dim=-2)


def as_label_rows(labels: Any, rows: int, trials: int) -> Tensor:
    """Labels as integer codes of shape ``(rows, trials)``, every class present in every row.

    Args:
        labels: ``TrialClass`` codes or words of shape ``(trials,)`` or ``(rows, trials)``.
        rows: Number of stacked seeds.
        trials: Number of trials.

    Raises:
        InputError: Wrong shape, a code outside {0, 1, 2}, or a class without trials.
    """
    tensor = _as_tensor("labels", labels, words=True)
    if tensor.shape not in ((trials,), (rows, trials), (1, trials)):
        raise InputError(f"labels have shape {tuple(tensor.shape)}, but there are {trials} trials")
    masks = {code: tensor == int(code) for code in TrialClass}
    unknown = ~torch.stack(list(masks.values())).any(dim=0)
    if bool(unknown.any()):
        code = tensor[unknown][0].item()
        raise InputError(
            f"labels hold the code {code}; expected 0 (spoof), 1 (target), 2 (nontarget)"
        )
    for code, mask in masks.items():
        if not bool(mask.reshape(-1, trials).any(dim=1).all()):
            raise InputError(
                f"labels hold no {code} trial (code {int(code)}) among {trials}; "
                "a fit needs spoof (0), target (1) and nontarget (2)"
            )
    return tensor.to(torch.int64).expand(rows, trials)


def check_pairs_spread(pairs: Tensor) -> None:
    """Raise if one side of score pairs (rows, 2, trials) is constant: nothing can be fitted."""
    for name, rows in zip(("asv", "cm"), pairs.unbind(dim=-2), strict=True):
        check_spread(name, rows)


def check_spread(name: str, rows: Tensor) -> None:
    """Raise if a row of scores (rows, trials) cannot be standardised in floats.

    Raises:
        InputError: A row is constant, but for less than floats resolve, or it holds a NaN or a
            size whose square would overflow.
    """
    low, high = rows.aminmax(dim=-1)
    if not bool(((low >= -LARGEST_SCORE) & (high <= LARGEST_SCORE)).all()):
        raise _wrong_size(name, rows)
    constant = high - low < 1 / LARGEST_SCORE
    if bool(constant.any()):
        value = low[constant][0].item()
        raise InputError(f"{name} is constant: all {rows.shape[-1]} values are {value}")


def _check_size(name: str, tensor: Tensor) -> None:
    """Raise at the first NaN, infinity, or size whose square would overflow."""
    low, high = tensor.aminmax()  # NaN comes through, and this is far cheaper than a mask
    if not bool((low >= -LARGEST_SCORE) & (high <= LARGEST_SCORE)):
        raise _wrong_size(name, tensor)


def _wrong_size(name: str, tensor: Tensor) -> InputError:
    """The error about the first NaN, infinity or huge value."""
    where = (~(tensor.abs() <= LARGEST_SCORE)).nonzero()[0].tolist()
    value = tensor[tuple(where)].item()
    return InputError(
        f"{name} must be finite (at most {LARGEST_SCORE:.0e} in size), "
        f"got {value} at index {where[-1]}"
    )


def _as_tensor(name: str, values: Any, *, words: bool = False) -> Tensor:
    """A column as a tensor; with ``words``, the names of the classes are taken for their codes.

    Arrays that torch does not take as they are (read-only, reversed, of foreign byte order) are
    copied.
    """
    if isinstance(values, Tensor):
        return values
    try:
        array = np.asarray(values)
    except (TypeError, ValueError) as error:  # rows of different lengths
        raise InputError(f"{name} must be numbers: {error}") from None
    if words and array.dtype.kind in "US":
        array = _codes_of_words(name, array)
    if array.dtype.kind not in "fiub":
        wrong = next((v for v in array.flat if not isinstance(v, Real)), array.dtype)
        raise InputError(f"{name} must be numbers, got {wrong!r}")
    dtype = np.float64 if array.dtype.kind == "f" else np.int64
    return torch.from_numpy(np.require(array, dtype, ["C", "W"]))


def _codes_of_words(name: str, array: np.ndarray) -> np.ndarray:
    """Codes of the words ``spoof``, ``target`` and ``nontarget``."""
    words, index = np.unique(array.astype(np.str_), return_inverse=True)
    codes = {str(code): int(code) for code in TrialClass}
    for word in words:
        if word not in codes:
            raise InputError(f"{name} hold {str(word)!r}; expected {', '.join(codes)}")
    return np.array([codes[word] for word in words])[index].reshape(array.shape)
