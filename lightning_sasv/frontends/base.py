"""What a front end is: a network that turns waveforms into embeddings; its weights and batches."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from torch import Tensor, nn

from lightning_sasv import gate
from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256
from lightning_sasv.frontends.audio import SAMPLE_RATE, Waveforms
from lightning_sasv.tensor_files import read_tensor_file

State = dict[str, Tensor]
Model = TypeVar("Model", bound="Embedder")


@runtime_checkable
class FrontEnd(Protocol):
    """Any object with these three; it need not inherit from anything.

    Two more attributes are used where they are there: ``samples`` (how many samples from the
    start of a recording the network looks at; no more are read) and ``weights`` (file name:
    SHA-256, for the manifest).
    """

    @property
    def dim(self) -> int:
        """Size of an embedding."""

    @property
    def sample_rate(self) -> int:
        """Sample rate of the waveforms, in Hz."""

    def embed(self, waveforms: Waveforms) -> Tensor:
        """Embeddings (batch, dim) of a batch of waveforms of any lengths."""


class Embedder(nn.Module):
    """A front end whose ``forward`` embeds waveforms of one length.

    Args:
        dim: Size of an embedding.
        samples: Length that each recording is repeated or cut to; ``None`` takes it whole.
    """

    sample_rate = SAMPLE_RATE

    def __init__(self, dim: int, samples: int | None) -> None:
        super().__init__()
        self.dim, self.samples = dim, samples
        self.weights: dict[str, str] | None = None

    @torch.inference_mode()
    def embed(self, waveforms: Waveforms) -> Tensor:
        """Embeddings (batch, dim) of 16 kHz waveforms of any lengths."""
        device, dtype = device_of(self)
        batches = (batch.to(device, dtype) for batch in as_batch(waveforms, self.samples))
        return torch.cat([self(part) for batch in batches for part in one_by_one(batch)])


def build_front_end(spec: Mapping[str, object]) -> FrontEnd:
    """Front end named by a class path, as in YAML: ``{class_path: …, init_args: {…}}``.

    Args:
        spec: ``class_path`` names a class, or a function or class method that returns a front
            end (``lightning_sasv.frontends.AASIST.from_checkpoint``); ``init_args`` are its
            keyword arguments.
    """
    extra = spec.keys() - {"class_path", "init_args"}
    path, arguments = spec.get("class_path"), spec.get("init_args") or {}
    if extra or not isinstance(path, str) or not isinstance(arguments, dict):
        raise InputError(
            f"a front end is given as {{class_path: package.Class, init_args: {{…}}}}, not {spec}"
        )
    gate.admit(path, gate.FRONT_ENDS)
    gate.admit_plain(arguments, f"{path}")
    try:
        front_end = _resolve(path)(**arguments)
    except InputError:
        raise
    except (TypeError, ValueError, OSError, RuntimeError) as error:
        raise InputError(f"front end {path} cannot be made: {error}") from None
    if not isinstance(front_end, FrontEnd):
        raise InputError(
            f"{path} is no front end: it needs embed(waveforms), dim and sample_rate "
            f"(a {type(front_end).__name__} was made)"
        )
    return front_end


def _resolve(path: str) -> Any:
    """The object at a dotted path: the longest importable module, then attributes."""
    parts = path.split(".")
    for split in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[:split])
        try:
            found: Any = import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise InputError(f"front end {path}: {error}") from None
            continue
        try:
            for attribute in parts[split:]:
                found = getattr(found, attribute)
        except AttributeError as error:
            raise InputError(f"front end {path}: {error}") from None
        return found
    raise InputError(f"front end {path}: no such module; is it installed or on PYTHONPATH?")


def describe(front_end: FrontEnd) -> dict[str, Any]:
    """What determines a front end's embeddings, as plain values for the manifest."""
    kind = type(front_end)
    weights = getattr(front_end, "weights", None)
    if weights is None and isinstance(front_end, nn.Module):
        weights = {"state_dict": state_sha256(front_end)}
    return {
        "class_path": f"{kind.__module__}.{kind.__qualname__}",
        "dim": int(front_end.dim),
        "sample_rate": int(front_end.sample_rate),
        "samples": getattr(front_end, "samples", None),
        "weights_sha256": dict(weights or {}),
    }


def device_of(module: nn.Module) -> tuple[torch.device, torch.dtype]:
    """Device and type of a module's parameters."""
    parameter = next(module.parameters())
    return parameter.device, parameter.dtype


def one_by_one(batch: Tensor) -> tuple[Tensor, ...]:
    """A batch in the parts that a network should take it in: on the CPU, one recording each.

    There the feature maps of one recording fill the cache already, so that larger batches are
    slower; and no embedding depends on which recordings happened to be in its batch.
    """
    return torch.split(batch, 1) if batch.device.type == "cpu" else (batch,)


def repeat_pad(waveform: Tensor, samples: int) -> Tensor:
    """Exactly ``samples`` samples: the first ones, or the recording repeated end to end.

    Args:
        waveform: (…, time), at least one sample.
        samples: Length to make.
    """
    length = waveform.shape[-1]
    if length == 0:
        raise InputError("waveform holds no samples")
    if length >= samples:
        return waveform[..., :samples]
    repeats = [1] * (waveform.ndim - 1) + [math.ceil(samples / length)]
    return waveform.repeat(repeats)[..., :samples]


def as_batch(waveforms: Waveforms, samples: int | None) -> list[Tensor]:
    """Waveforms as (batch, time) tensors of equal length, in order; one tensor where possible.

    Args:
        waveforms: (batch, time), or a sequence of 1-D tensors or arrays of any lengths.
        samples: Length to repeat or cut each to; ``None`` leaves the lengths alone, so that
            recordings of different length come as batches of one.
    """
    rows = [torch.as_tensor(row) for row in waveforms]
    if not rows:
        raise InputError("waveforms: the batch is empty")
    for number, row in enumerate(rows):
        if row.ndim != 1 or not row.is_floating_point():
            raise InputError(
                f"waveforms: number {number} has shape {tuple(row.shape)} and type {row.dtype}; "
                "expected one axis of floats"
            )
    if samples is not None:
        rows = [repeat_pad(row, samples) for row in rows]
    elif any(len(row) == 0 for row in rows):
        raise InputError("waveforms: one of them holds no samples")
    if len({len(row) for row in rows}) == 1:
        return [torch.stack(rows)]
    return [row[None] for row in rows]


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


def load_weights(
    model: Model, state: Mapping[str, Tensor], source: Path, network: nn.Module | None = None
) -> Model:
    """``model`` with the state of a checkpoint: the same names and shapes, all of them finite.

    Args:
        model: The front end.
        state: Of :func:`read_state`.
        source: The checkpoint.
        network: The part of the front end that it is of; by default all of it.

    Raises:
        InputError: A name is missing or not wanted, a shape differs, or a value is not finite.
    """
    network = model if network is None else network
    own = network.state_dict()
    missing = [name for name in own if name not in state]
    extra = [name for name in state if name not in own]
    if missing or extra:
        parts = [
            f"{len(names)} {what}, first: {', '.join(names[:3])}"
            for what, names in (("missing", missing), ("not known", extra))
            if names
        ]
        raise InputError(f"{source} does not fit {type(network).__name__}: {'; '.join(parts)}")
    for name, value in state.items():
        if value.shape != own[name].shape:
            raise InputError(
                f"{source}: {name} has shape {tuple(value.shape)} where "
                f"{tuple(own[name].shape)} was expected"
            )
        if value.is_floating_point() and not torch.isfinite(value).all():
            raise InputError(f"{source}: {name} holds NaN or infinity")
    network.load_state_dict(state)
    model.weights = {source.name: sha256(source)}
    return model.eval()


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
