"""Fitted fusion systems on disk: safetensors with the configuration in the header."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path
from lightning_sasv.fusion import FusionSystem, pack_system, unpack_system

FORMAT = "lightning_sasv.fusion/1"
HEADER = "lightning_sasv"
FOLDER = "fitted"
SUFFIX = ".safetensors"
_DAMAGE = (SafetensorError, OSError, KeyError, TypeError, ValueError, RuntimeError)


def save_system(path: str | Path, system: FusionSystem, about: dict[str, Any]) -> Path:
    """Write a fitted system, atomically.

    Args:
        path: File to write.
        system: What to write.
        about: Where it comes from (corpus, seed, …), kept beside it as JSON.
    """
    packed = pack_system(system)
    header = {"format": FORMAT, "config": packed["config"], "about": about}
    tensors = {name: value.contiguous().cpu() for name, value in packed["state_dict"].items()}
    with atomic_path(path) as temporary:
        # one entry: the order of several would differ from file to file
        save_file(tensors, temporary, {HEADER: json.dumps(header, sort_keys=True)})
    return Path(path)


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Header and tensors of a file that ``save_system`` wrote."""
    if not path.is_file():
        raise InputError(f"no fitted system at {path}; make it with `lightning fuse` or `fit`")
    with safe_open(path, framework="pt") as file:
        header = json.loads((file.metadata() or {}).get(HEADER, "{}"))
        if header.get("format") != FORMAT:
            raise InputError(f"{path} is not a fitted system of this package")
        return header, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def read_about(path: str | Path) -> dict[str, Any]:
    """Where a fitted system comes from, as ``save_system`` was told."""
    try:
        return dict(_read(Path(path))[0]["about"])
    except InputError:
        raise
    except _DAMAGE as error:
        raise _damaged(Path(path), error) from None


def _damaged(path: Path, error: Exception) -> InputError:
    reason = " ".join(str(error).split())[:200]
    return InputError(f"{path} is damaged ({reason}); fit the system again")


def load_system(path: str | Path) -> FusionSystem:
    """Read a system that ``save_system`` wrote; nothing of the file is executed."""
    path = Path(path)
    try:
        header, state = _read(path)
        system = unpack_system({"config": header["config"], "state_dict": state})
        _try(system)
        return system
    except InputError as error:
        if str(path) in str(error):
            raise
        raise _damaged(path, error) from None
    except _DAMAGE as error:
        raise _damaged(path, error) from None


def _try(system: FusionSystem) -> None:
    """Score one trial: a matrix that is no covariance fails here and not in the midst of work."""
    zero = torch.zeros(system.copies, 1, dtype=torch.float64)
    system(*((zero, zero) if system.copies > 1 else (zero[0], zero[0])))


def load_systems(folder: str | Path) -> dict[str, FusionSystem]:
    """The fitted systems of a folder of results, by name."""
    found = sorted((Path(folder) / FOLDER).glob(f"*{SUFFIX}"))
    if not found:
        raise InputError(
            f"no fitted systems in {Path(folder) / FOLDER}; make them with `lightning fuse --out`"
        )
    return {path.stem: load_system(path) for path in found}
