"""What a checkpoint must be like before a module and its Trainer take anything from it."""

from __future__ import annotations

import math
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from packaging.version import InvalidVersion, Version
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, ModelCheckpoint
from pytorch_lightning.strategies import Strategy
from pytorch_lightning.trainer.connectors.checkpoint_connector import _CheckpointConnector
from torch import Tensor, nn

from lightning_sasv.checkpoints import AtomicCheckpointIO, need_trust
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.files import is_inside
from lightning_sasv.fusion.base import SIZED_BY_DATA
from lightning_sasv.gate import settings_of
from lightning_sasv.models.heads import make_head

_LARGEST = 2**53
_RESTORES = ("resume_start", "restore", "_restore", "_load_state_dicts")
"""Beginnings of the names of Lightning's functions that take over a checkpoint."""


def check_sizes(
    owner: type, settings: Mapping[str, Any], state: Mapping[str, Tensor], path: str | Path
) -> None:
    """Refuse settings that ask for more, or other, weights than the checkpoint has.

    Args:
        owner: Class whose settings they are; its defaults stand for those that are absent.
        settings: Settings of a module, of the right types.
        state: Its weights.
        path: Where they come from, for messages.
    """
    known = {name: one.default for name, one in settings_of(owner).items()}
    known |= settings
    seeds, widths = len(known["seeds"]), known["hidden_dims"]
    there = {name[5:]: tuple(one.shape) for name, one in state.items() if name[:5] == "head."}
    wanted: dict[str, tuple[int, ...]] = {}
    if len(widths) <= len(state):
        with suppress(RuntimeError), torch.device("meta"):  # shapes alone; some are beyond bounds
            head = make_head(known, known["seeds"])
            wanted = {name: tuple(one.shape) for name, one in head.named_parameters()}
    if wanted != there:
        first = "" if known["in_dim"] is None else f" of {str(known['in_dim'])[:20]}"
        asked = f"heads{first} of widths {str(widths)[:100]} and {seeds} seeds"
        raise _contradicts(path, asked, f"the shapes {str([*there.values()])[:200]}")
    systems = {name.split(".")[1] for name in state if name.startswith("fusion.")}
    if len(known["systems"]) * seeds != len(systems):
        asked = f"{len(known['systems']) * seeds} fusion systems"
        raise _contradicts(path, asked, str(len(systems)))


def _contradicts(path: str | Path, asked: str, there: str) -> InputError:
    return InputError(
        f"{path} is refused, it does not fit itself: its settings ask for {asked}, its weights "
        f"have {there}; give --ckpt_path one that `fit` wrote"
    )


class _NoLeftovers(_CheckpointConnector):
    """Lightning's own goes on from any ``hpc_ckpt_<N>.ckpt`` in the working directory of a job."""

    _hpc_resume_path = None


def read_as_data(trainer: Trainer, path: str | Path | None) -> None:
    """Let a Trainer read checkpoints by our reader alone, unless configurations are trusted.

    It goes on from the one that it is given, and from none that it finds.

    Args:
        trainer: A Trainer, before it runs.
        path: The checkpoint that it will be given, if any.

    Raises:
        InputError: It was given another plugin for checkpoints, or a strategy that has a way of
            its own to read them.
    """
    trainer._checkpoint_connector = _NoLeftovers(trainer)
    strategy = trainer.strategy
    given = trainer._accelerator_connector.checkpoint_io
    if given is not None and type(given) is not AtomicCheckpointIO:
        need_trust(f"{type(given).__name__} would read checkpoints in place of our own reader")
    elif given is None:
        strategy.checkpoint_io = AtomicCheckpointIO()
    if path and type(strategy).load_checkpoint is not Strategy.load_checkpoint:
        need_trust(f"{type(strategy).__name__} reads checkpoints in a way that can run code")


@contextmanager
def restoring() -> Iterator[None]:
    """Turn what fails while a Trainer takes over a checkpoint into a line about the checkpoint."""
    try:
        yield
    except (InputError, RunError, OSError):
        raise
    except Exception as error:
        names = [frame.f_code.co_name for frame, _ in traceback.walk_tb(error.__traceback__)]
        if not any(name.startswith(_RESTORES) for name in names):
            raise
        raise unfit(f"{type(error).__name__}: {error}") from None


def unfit(reason: str) -> InputError:
    """The message about a checkpoint that a run cannot go on from."""
    reason = " ".join(reason.split())[:200]
    return InputError(f"--ckpt_path: the checkpoint does not fit this run: {reason}")


def check_state(checkpoint: dict[str, Any], trainer: Trainer) -> None:
    """Compare what a checkpoint says of loops and callbacks with those of the Trainer.

    Lightning takes over whatever is there: a text for a number would fail epochs later. Paths of
    checkpoints that do not lie in the folder of their callback are forgotten, for a callback
    removes and reads what it takes for its own.

    Raises:
        InputError: A value is of another kind than the Trainer's own, or out of all bounds.
    """
    try:
        Version(checkpoint.get("pytorch-lightning_version", ""))
    except (InvalidVersion, TypeError):
        raise unfit("it does not say which version of Lightning wrote it") from None
    loops, callbacks = checkpoint.get("loops", {}), checkpoint.get("callbacks", {})
    for name in loops if isinstance(loops, dict) else ["loops"]:
        loop = getattr(trainer, name, None) if name.endswith("_loop") else None
        if loop is None or not is_like(loops[name], loop.state_dict(), exact=True):
            raise unfit(f"its {name} is not that of a Trainer")
    for name in callbacks if isinstance(callbacks, dict) else ["callbacks"]:
        if not isinstance(name, str) or not isinstance(callbacks[name], dict):
            raise unfit(f"the state of {name} is none")
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if callback.state_key in callbacks:
            _check_callback(callback, callbacks[callback.state_key])


def is_like(found: object, own: object, exact: bool = False) -> bool:
    """Whether a value is of the kind of our own: the same type, the same names, a sane size.

    Args:
        found: Value of a checkpoint.
        own: The value in its place before anything is restored; ``None`` stands for a number or a
            tensor of one that is not there yet.
        exact: Whether mappings must have the same names; else those of our own.
    """
    if isinstance(own, dict):
        if not isinstance(found, dict) or not own.keys() <= found.keys():
            return False
        same = not exact or not own or own.keys() == found.keys()
        return same and all(is_like(found[name], own[name], exact) for name in own)
    if isinstance(own, bool | str):
        return type(found) is type(own)
    if isinstance(own, Tensor):
        return isinstance(found, Tensor) and found.shape == own.shape
    if isinstance(own, list | tuple):
        return isinstance(found, list | tuple) and all(map(_is_number, found))
    return (own is None and found is None) or _is_number(found, whole=isinstance(own, int))


def _is_number(found: object, whole: bool = False) -> bool:
    """Whether this is a number, or a tensor of one."""
    if isinstance(found, Tensor):
        return not whole and found.numel() == 1 and not found.is_complex()
    if isinstance(found, bool) or not isinstance(found, int if whole else int | float):
        return False
    return not whole or 0 <= found < _LARGEST


def _check_callback(callback: Callback, state: dict[str, Any]) -> None:
    lightnings = type(callback).__module__.startswith("pytorch_lightning.")
    if not lightnings and not isinstance(callback, ModelCheckpoint):
        return  # it knows best what its state is
    if not is_like(state, callback.state_dict()):
        raise unfit(f"the state of {type(callback).__name__} is not one")
    if isinstance(callback, ModelCheckpoint):
        _forget_paths(state, callback.dirpath or ".")


def _forget_paths(state: dict[str, Any], folder: str | Path) -> None:
    for name in [name for name in state if name.endswith("_path")]:
        if not is_inside(folder, state[name]):
            state[name] = ""
    best = {path: score for path, score in state["best_k_models"].items() if _is_number(score)}
    state["best_k_models"] = {
        path: score
        for path, score in best.items()
        if isinstance(path, str) and is_inside(folder, path)
    }


def check_optimizers(optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Refuse states of optimisers that do not belong to their parameters.

    Raises:
        InputError: A setting or a value is of another kind or shape.
    """
    for optimizer in optimizers:
        kind, own = type(optimizer).__name__, optimizer.defaults
        for group in optimizer.param_groups:
            if not all(_is_setting(name, group.get(name), own[name]) for name in own):
                raise unfit(f"the settings of its {kind} are none")
            states = [(one, optimizer.state.get(one, {})) for one in group["params"]]
            if optimizer.state and not all(_is_state(optimizer, *one) for one in states):
                raise unfit(f"the state of its {kind} is not one of these weights")


def _is_setting(name: str, found: object, own: object) -> bool:
    """Whether a setting is of the kind of the optimiser's own; switches are the same."""
    if isinstance(own, tuple):
        if not isinstance(found, tuple | list) or len(found) != len(own):
            return False
        return all(_is_setting(name, *pair) for pair in zip(found, own, strict=True))
    if name in ("fused", "foreach"):  # the same numbers, in other ways for other devices
        return found is None or isinstance(found, bool)
    if own is None or isinstance(own, bool):
        return found is own
    return _is_number(found) and 0 <= float(found) < math.inf  # type: ignore[arg-type]


def _is_state(optimizer: torch.optim.Optimizer, parameter: Tensor, state: Any) -> bool:
    """Whether a state is one of this parameter."""
    adam = isinstance(optimizer, torch.optim.Adam)
    moments = ("exp_avg", "exp_avg_sq") if adam else ()
    if (adam and "step" not in state) or not all(name in state for name in moments):
        return False
    if "step" in state and not (_is_number(state["step"]) and 0 <= state["step"] < _LARGEST):
        return False
    others = {name: value for name, value in state.items() if name != "step"}
    shapes = {name: getattr(value, "shape", None) for name, value in others.items()}
    wanted = (parameter.shape,) if adam else (parameter.shape, None, torch.Size())
    return all(shape in wanted for shape in shapes.values())


def check_best(state: Mapping[str, Any], module: nn.Module) -> None:
    """Refuse best heads and systems that are not of the shapes of the module's own.

    Args:
        state: Rate and epoch of each seed, and state dicts of ``head`` and ``fusion``.
        module: A module with these parts, ``seeds`` and ``refits``.
    """
    seeds = (len(module.seeds),)  # type: ignore[arg-type]
    counts = [state.get(name) for name in ("rate", "epoch")]
    right = all(isinstance(one, Tensor) and one.shape in (seeds, (0,)) for one in counts)
    for part in ("head",) if module.refits else ("head", "fusion"):  # systems are fitted anew
        kept, own = state.get(part, {}), module.get_submodule(part).state_dict()
        right = right and isinstance(kept, dict) and kept.keys() <= own.keys()
        right = right and (part == "fusion" or not kept or kept.keys() == own.keys())
        right = right and all(_fills(kept[name], own[name], name) for name in kept)
    if not right:
        raise unfit("the best epoch that it keeps is not one of this model")


def _fills(kept: object, own: Tensor, name: str) -> bool:
    """Whether a tensor can take the place of another; some are as long as the data made them."""
    if not isinstance(kept, Tensor):
        return False
    return kept.numel() == own.numel() or name.endswith(SIZED_BY_DATA)
