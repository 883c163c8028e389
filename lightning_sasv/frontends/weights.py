"""Checkpoints of the networks: found, read without running code, and loaded by name."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError
from lightning_sasv.tensor_files import read_tensor_file

State = dict[str, Tensor]


def state_sha256(module: nn.Module) -> str:
    """SHA-256 of a module's state, for networks that do not say which file they came from."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().view(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


def read_state(path: str | Path) -> State:
    """State dict of a checkpoint, on the CPU; nothing in the file is executed.

    Raises:
        InputError: No such file, not a checkpoint, or one with other things than tensors.
    """
    content = read_tensor_file(path, "weights")
    if not isinstance(content, Mapping) or not content:
        raise InputError(f"{path} does not hold a state dict but a {type(content).__name__}")
    for name, value in content.items():
        if not isinstance(name, str) or not isinstance(value, Tensor):
            raise InputError(f"{path}: entry {name!r} is not a tensor but {type(value).__name__}")
    return dict(content)


def load_by_name(module: nn.Module, state: Mapping[str, Tensor], source: str | Path) -> None:
    """Load ``state`` into ``module``: the same names and shapes, all of them finite.

    Raises:
        InputError: A name is missing or not wanted, a shape differs, or a value is not finite.
    """
    own = module.state_dict()
    missing = [name for name in own if name not in state]
    extra = [name for name in state if name not in own]
    if missing or extra:
        parts = [
            f"{len(names)} {what}, first: {', '.join(names[:3])}"
            for what, names in (("missing", missing), ("not known", extra))
            if names
        ]
        raise InputError(f"{source} does not fit {type(module).__name__}: {'; '.join(parts)}")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise InputError(
                f"{source}: {name} has shape {tuple(value.shape)} where "
                f"{tuple(own[name].shape)} was expected"
            )
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{source}: {name} holds NaN or infinity")
    module.load_state_dict(state)


def torch_cache() -> Path:
    """Folder in which PyTorch keeps downloaded checkpoints (below ``$TORCH_HOME``)."""
    return Path(torch.hub.get_dir()) / "checkpoints"


def hub_cache() -> Path:
    """Folder of the Hugging Face hub's cache, as its environment variables place it."""
    if os.environ.get("HF_HUB_CACHE"):
        return Path(os.environ["HF_HUB_CACHE"])
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "huggingface"
    return Path(os.environ.get("HF_HOME", cache)) / "hub"


def hub_snapshot(repository: str, filename: str) -> Path | None:
    """Newest cached snapshot of a hub repository that holds ``filename``, without any download."""
    folder = hub_cache() / f"models--{repository.replace('/', '--')}" / "snapshots"
    found = [path for path in folder.glob("*") if (path / filename).is_file()]
    return max(found, key=lambda path: path.stat().st_mtime, default=None)
