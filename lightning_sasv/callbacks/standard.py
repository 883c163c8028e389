"""What every training has: the callbacks that make results, whatever else it is given."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any

from pytorch_lightning import Callback
from pytorch_lightning.accelerators import MPSAccelerator
from pytorch_lightning.callbacks import ModelCheckpoint, ProgressBar, RichProgressBar
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.callbacks.fit_fusion import FitFusion
from lightning_sasv.callbacks.keep_best import KeepBest, SaveLast
from lightning_sasv.callbacks.log_figures import LogFigures
from lightning_sasv.callbacks.prune import SEARCH, Prune
from lightning_sasv.callbacks.write_results import WriteResults
from lightning_sasv.errors import InputError


def settle(settings: Mapping[str, Any], quiet: bool = False) -> dict[str, Any]:
    """Settings of a Trainer, with the callbacks that make results, on a device that can.

    Args:
        settings: As the user gave them.
        quiet: Without a progress bar.
    """
    given = settings.get("callbacks") or []
    bar = settings.get("enable_progress_bar") is not False and not quiet
    saves = settings.get("enable_checkpointing") is not False
    listed = given if isinstance(given, Sequence) else [given]
    logger = settings.get("logger")
    if logger is True and not any(map(find_spec, ("tensorboard", "tensorboardX"))):
        rank_zero_warn("TensorBoard is not installed: metrics are logged to metrics.csv instead")
        logger = CSVLogger(settings.get("default_root_dir") or ".")
    return {
        **settings,
        "logger": logger,
        "callbacks": with_ours(listed, bar, saves),
        "accelerator": usable(settings.get("accelerator") or "auto"),
        **({} if bar else {"enable_progress_bar": False}),
    }


def with_ours(given: Sequence[Callback], bar: bool = True, saves: bool = True) -> list[Callback]:
    """Our callbacks and then the given ones; a given one of a class of ours takes its place.

    Args:
        given: Callbacks of the user. The last one of a class counts where we have one of it.
        bar: Whether progress is shown.
        saves: Whether checkpoints are saved.
    """
    given = [_as_ours(one) for one in given]
    ours: list[Callback] = [FitFusion(), WriteResults(), LogFigures(), KeepBest(save=saves)]
    ours += [SaveLast()] if saves else []
    ours += [RichProgressBar()] if bar else []
    ours += [Prune()] if SEARCH in os.environ else []
    kinds = [ProgressBar if isinstance(one, ProgressBar) else type(one) for one in ours]
    chosen = [
        next((one for one in reversed(given) if isinstance(one, kind)), own)
        for own, kind in zip(ours, kinds, strict=True)
    ]
    known = (*kinds, ProgressBar) if saves else (*kinds, ProgressBar, SaveLast)
    return chosen + [one for one in given if not isinstance(one, known)]


def _as_ours(given: Callback) -> Callback:
    """Configurations of older runs list what saves ``last.ckpt`` as a callback of Lightning's."""
    if type(given) is ModelCheckpoint and given.filename == "last":
        return SaveLast(None if given.dirpath is None else str(given.dirpath))
    return given


def usable(accelerator: Any) -> Any:
    """The accelerator that is meant: ``auto`` is never Apple's GPU, which has no float64.

    Raises:
        InputError: Apple's GPU was asked for.
    """
    if accelerator in ("auto", "gpu", "mps") and MPSAccelerator.is_available():
        if accelerator != "auto":
            raise InputError(
                f"trainer.accelerator={accelerator}: Apple's GPU has no float64, which scores are "
                "summed in; take cpu"
            )
        return "cpu"
    return accelerator
