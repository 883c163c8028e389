"""The CM head of a bundle: AASIST embeddings to CM scores, with numpy alone."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_arrays, write_arrays

HEAD = "head.safetensors"
_SETTINGS = "lightning_sasv"


@dataclass(frozen=True)
class Head:
    """An MLP with LeakyReLU after each hidden layer, two logits, and no bias at the last.

    Attributes:
        weights: Matrix (in, out) of each layer.
        biases: Vector of each hidden layer.
        negative_slope: Slope of the LeakyReLU.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    negative_slope: float

    def __post_init__(self) -> None:
        shapes = [one.shape for one in self.weights]
        fits = bool(shapes) and all(len(shape) == 2 for shape in shapes) and shapes[-1][1] == 2
        fits = fits and all(a[1] == b[0] for a, b in pairwise(shapes))
        fits = fits and [one.shape for one in self.biases] == [shape[1:] for shape in shapes[:-1]]
        if not fits or not all(np.isfinite(one).all() for one in (*self.weights, *self.biases)):
            raise ValueError(f"layers of the shapes {shapes}")

    @property
    def dim(self) -> int:
        """Size of the embeddings that it takes."""
        return int(self.weights[0].shape[0])

    def score(self, embedding: np.ndarray) -> np.ndarray:
        """CM score logit(bona fide) − logit(spoof) of embeddings (…, dim).

        In float64, so that the order of a sum, which every processor chooses for itself, does not
        show in a score.
        """
        x = np.asarray(embedding, np.float64)
        for weight, bias in zip(self.weights, self.biases, strict=False):
            x = x @ weight.astype(np.float64) + bias
            x = np.where(x > 0, x, self.negative_slope * x)
        logits = x @ self.weights[-1].astype(np.float64)
        return np.asarray(logits[..., 1] - logits[..., 0])

    @classmethod
    def of_state(cls, state: Mapping[str, Any], negative_slope: float) -> Head | None:
        """The head in the state of a trained module, as arrays; ``None`` where it is of another."""
        own = {
            name.removeprefix("head."): value
            for name, value in state.items()
            if name.startswith("head.")
        }
        names = sorted(own)
        layers = [name for name in names if re.fullmatch(r"weight_\d", name)]
        hidden = [f"bias_{number}" for number in range(len(layers) - 1)]
        if names != sorted([*layers, *hidden]) or any(len(one) != 1 for one in own.values()):
            return None
        try:
            weights, biases = ([own[n][0] for n in part] for part in (layers, hidden))
            return cls((*weights,), (*(one.reshape(-1) for one in biases),), float(negative_slope))
        except ValueError:
            return None

    def save(self, path: str | Path) -> Path:
        """Write it, atomically."""
        arrays = {f"weight_{k}": one for k, one in enumerate(self.weights)}
        arrays |= {f"bias_{k}": one for k, one in enumerate(self.biases)}
        settings = json.dumps({"negative_slope": self.negative_slope})
        return write_arrays(path, arrays, {_SETTINGS: settings})

    @classmethod
    def load(cls, path: str | Path) -> Head:
        """Read one that :meth:`save` wrote."""
        try:
            settings, arrays = read_arrays(path, _SETTINGS)
            state = {f"head.{name}": value[None] for name, value in arrays.items()}
            head = cls.of_state(state, settings["negative_slope"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}); export the bundle again") from None
        if head is None:
            raise InputError(f"{path} holds no CM head; export the bundle again")
        return head
