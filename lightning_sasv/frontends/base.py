"""What a front end is: a network that turns waveforms into embeddings."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from lightning_sasv import gate
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import SAMPLE_RATE, Waveforms, as_batch
from lightning_sasv.frontends.weights import state_sha256


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
