"""Fitted fusion systems on disk, and how they score without torch.

A file is safetensors with the configuration in the header. Format 2 holds the state of one seed;
format 1, which is still read, had a first axis of one and ``copies`` in the configuration.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.errors import InputError
from lightning_sasv.files import read_arrays, write_arrays
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.densities import State
from lightning_sasv.fusion.doubts import FitWarning, as_warnings
from lightning_sasv.places import check_links
from lightning_sasv.plugins import UntrustedError
from lightning_sasv.trials import PAIR, TWIN, FusedScores, Scores

FORMAT, OLD_FORMAT = "lightning_sasv.fusion/2", "lightning_sasv.fusion/1"
HEADER = "lightning_sasv"
FOLDER = "fitted"
SUFFIX = ".safetensors"
_DAMAGE = (OSError, KeyError, TypeError, ValueError, RuntimeError)


class FittedSystem(Fusion):
    """A fitted system: arrays (or lists, or tensors) of scores in, float64 arrays out.

    Args:
        name: Name of the system.
        config: Its configuration, as a ``FusionSystem`` has it.
        state: Its fitted values by name.
        about: Where it comes from (corpus, seed, …).
        warnings: What makes its fit doubtful.
        fitted_on: The trials that it was fitted on, if that is known.

    Raises:
        InputError: The values do not belong to the configuration, or make no sense.

    Example:
        >>> system = FittedSystem("B1", {"rule": "sum"}, {"fitted": np.array(True)})
        >>> system([0.5], [2.0]).sasv
        array([2.5])
    """

    def __init__(
        self,
        name: str,
        config: Mapping[str, Any],
        state: State,
        about: Mapping[str, Any] | None = None,
        warnings: Sequence[FitWarning] = (),
        fitted_on: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(**config)
        self.check_state(state)
        self.hold(state)
        self.name, self.about, self.warnings = name, dict(about or {}), list(warnings)
        self.fitted_on = None if fitted_on is None else dict(fitted_on)

    def __call__(self, asv: Any, cm: Any, quality: Any = None) -> FusedScores:
        """LLRs and fused scores of trials; see ``FusionSystem.forward``."""
        columns, scores = self.checked(asv, cm, quality)
        return self.fuse_pairs(self._state, scores, columns)

    def of(self, scores: Scores) -> FusedScores:
        """The same of trials as a score file has them: columns by name, or the pair it fuses."""
        named, own = dict(scores.extra), scores.of_system(self.name or "")
        for name in PAIR:  # scores of its own network, where it has one
            if name in named:
                named[name] = named.get(f"{name}_{self.name}", named[name])
        if all(name in named for name in self.columns.names):
            return self(*self.columns.take({name: named[name] for name in self.columns.names}))
        return self(own.asv, own.cm)

    @property
    def simulated(self) -> bool:
        """Whether it was fitted on simulated trials, as far as that is known."""
        return super().simulated or self.about.get("corpus") == TWIN

    @property
    def rho(self) -> float | None:
        """Spoof prevalence of the nonlinear rule; ``None`` for the others."""
        return float(self._state["rho"]) if "rho" in self._state else None


def frozen(system: Fusion, name: str = "") -> FittedSystem:
    """A fitted system as arrays, whatever holds it; itself where it is that already.

    Raises:
        InputError: It is not fitted.
    """
    if isinstance(system, FittedSystem):
        return system
    state, noted = system.arrays(), system.fitted_on
    return FittedSystem(name, system.config, state, warnings=system.warnings, fitted_on=noted)


def save_system(path: str | Path, system: Fusion, about: Mapping[str, Any]) -> Path:
    """Write a fitted system, atomically.

    Args:
        path: File to write.
        system: What to write, a ``FusionSystem`` or a :class:`FittedSystem`.
        about: Where it comes from (corpus, seed, …), kept beside it as JSON.
    """
    header: dict[str, Any] = {"format": FORMAT, "config": system.config, "about": dict(about)}
    header |= {"warnings": system.warnings} if system.warnings else {}
    header |= {"fitted_on": system.fitted_on} if system.fitted_on else {}
    return write_arrays(path, system.arrays(), {HEADER: json.dumps(header, sort_keys=True)})


def read_fitted(path: str | Path) -> FittedSystem:
    """Read a system that ``save_system`` wrote; nothing of the file is executed.

    Args:
        path: The file; its name is that of the system.

    Raises:
        InputError: There is no such file, it is of something else, or it is damaged.
    """
    path = Path(path)
    if not path.is_file():
        raise InputError(f"no fitted system at {path}; make it with `lightning fuse` or `fit`")
    try:
        header, state = read_arrays(path, HEADER)
        if header.get("format") not in (FORMAT, OLD_FORMAT):
            raise InputError(f"{path} is not a fitted system of this package")
        noted = header.get("fitted_on")
        if not (isinstance(header["about"], dict) and (noted is None or isinstance(noted, dict))):
            raise InputError("it does not say where it comes from")
        config = dict(header["config"])
        if header["format"] == OLD_FORMAT:
            state = {name: _first(value) for name, value in state.items()}
            config.pop("copies", None)
        warnings = as_warnings(header.get("warnings", []))
        return FittedSystem(path.stem, config, state, header["about"], warnings, noted)
    except UntrustedError as error:
        raise UntrustedError(f"{path}: {error}") from None
    except _DAMAGE as error:
        if isinstance(error, InputError) and str(path) in str(error):
            raise
        reason = " ".join(str(error).split())[:200]
        raise InputError(f"{path} is damaged ({reason}); fit the system again") from None


def _first(value: np.ndarray) -> np.ndarray:
    """The one entry of the first axis."""
    (only,) = value
    return np.asarray(only)


def read_fitted_systems(
    folder: str | Path, left_out: list[str] | None = None
) -> dict[str, FittedSystem]:
    """The fitted systems of a folder of results, by name.

    Args:
        folder: The folder.
        left_out: Takes a line about each system that is left out because it is made of classes of
            another package, which need trust; without it one is an error.
    """
    found = sorted((check_links(folder) / FOLDER).glob(f"*{SUFFIX}"))
    if not found:
        raise InputError(
            f"no fitted systems in {Path(folder) / FOLDER}; make them with `lightning fuse --out`"
        )
    systems = {}
    for path in found:
        try:
            systems[path.stem] = read_fitted(path)
        except UntrustedError as error:
            if left_out is None:
                raise
            left_out.append(f"The fitted system {path.stem} is left out: {error}.")
    return systems
