"""What a checkpoint was made with, and what of it may differ when a training goes on from it.

Settings of model and data and the seeds are in every checkpoint; :data:`KEY` holds the rest: which
corpus it was, how the Trainer was set, and what has changed since the training began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import torch
from pytorch_lightning import Trainer
from pytorch_lightning.loggers import WandbLogger

from lightning_sasv.errors import InputError
from lightning_sasv.plain import fits

if TYPE_CHECKING:
    from lightning_sasv.models.checkpointed import Checkpointed

KEY = "made_with"

FIXED = (
    *("precision", "gradient_clip_val", "gradient_clip_algorithm", "accumulate_grad_batches"),
    *("limit_train_batches", "limit_val_batches", "overfit_batches"),
    *("val_check_interval", "check_val_every_n_epoch"),
)
"""Settings of the Trainer that a training is made of."""

OF_CORPUS = (
    *("root", "protocols", "name", "corpus", "scale", "twin_seed"),
    *("dev_corpus", "eval_corpus"),
)
"""Settings of the data that say which corpus it is; the same one may lie elsewhere."""

CORPUS = frozenset(f"data.{name}" for name in OF_CORPUS)

FREE = frozenset(
    {"trainer.max_epochs", "trainer.max_steps", "trainer.accelerator", "trainer.devices"}
    | {"trainer.strategy", "trainer.threads", "trainer.loggers", "trainer.callbacks"}
    | {"corpus.root", "corpus.protocols", "data.score_batch_size"}
)
"""What may change between the parts of a training."""

_Value = str | int | float | bool | list[str] | None


class Change(TypedDict):
    """A setting that changed when a training was gone on with after so many epochs."""

    epoch: int
    setting: str
    before: _Value
    after: _Value


class MadeWith(TypedDict, total=False):
    """What :data:`KEY` holds: plain values."""

    corpus: dict[str, str | None]
    trainer: dict[str, _Value]
    changed: list[Change]
    wandb: str | None


def record(trainer: Trainer) -> MadeWith:
    """What a training is made with beside the settings of model and data."""
    data: Any = trainer.datamodule  # type: ignore[attr-defined]
    places = {name: getattr(data, name, None) for name in ("root", "protocols")}
    absolute = {name: place and str(Path(place).resolve()) for name, place in places.items()}
    names: dict[str, _Value] = {
        key: [type(one).__name__ for one in getattr(trainer, key)]
        for key in ("loggers", "callbacks")
    }
    free: dict[str, _Value] = {
        "max_epochs": trainer.max_epochs,
        "max_steps": trainer.max_steps,
        "accelerator": type(trainer.accelerator).__name__,
        "devices": trainer.world_size,
        "strategy": type(trainer.strategy).__name__,
        "threads": torch.get_num_threads(),
    }
    module: Any = trainer.lightning_module
    corpus = {"name": data.corpus.name, "fingerprint": data.corpus.fingerprint}
    learns = any(getattr(module, name, False) for name in ("compares", "joint"))
    if learns and hasattr(data.corpus, "train"):
        corpus["asv_train"] = data.corpus.train.asv_fingerprint
    fixed = {name: _plain(getattr(trainer, name, None)) for name in FIXED}
    fixed |= {name: _plain(getattr(module, name, None)) for name in ("optimizer", "lr_scheduler")}
    logged = [one.version for one in trainer.loggers if isinstance(one, WandbLogger)]
    return {
        "corpus": corpus | absolute,
        "trainer": free | fixed | names,
        "wandb": next(iter(logged), None),
    }


def _plain(value: Any) -> _Value:
    return value if value is None or isinstance(value, int | float) else str(value)


def recorded(checkpoint: Mapping[str, Any], path: str | Path) -> MadeWith:
    """What a checkpoint says of this; nothing where it is of an older version.

    Raises:
        InputError: It is of another form than :func:`record` gives.
    """
    found: MadeWith = checkpoint.get(KEY, {})
    if not fits(found, MadeWith):
        raise InputError(f"{path} is damaged: what it says of its making is of another form")
    return found


def check_resumed(checkpoint: Mapping[str, Any], module: Checkpointed) -> list[Change]:
    """Compare a training with the one that it goes on from.

    Args:
        checkpoint: What was read.
        module: The module, with its Trainer.

    Returns:
        What changed that may, now and before.

    Raises:
        InputError: Anything else is set otherwise than it was; all of it is listed.
    """
    own: dict[str, Any] = {KEY: record(module.trainer)}
    own |= module.plain_settings()
    made = recorded(checkpoint, module.trainer.ckpt_path or "the checkpoint")
    before, after = _flat(checkpoint), _flat(own)
    known = made.get("corpus", {}).get("fingerprint")
    same = known is not None and known == after["corpus.fingerprint"]
    free = FREE | (CORPUS if same else frozenset())
    differ = [name for name in after if name in before and before[name] != after[name]]
    if fixed := [name for name in differ if name not in free]:
        listed = "; ".join(f"{n} {_shown(before[n])} there, {_shown(after[n])} now" for n in fixed)
        raise InputError(
            f"--ckpt_path: a training goes on with the settings that it began with: {listed}; "
            "give them as they were (config.yaml of the run has them all), or begin anew"
        )
    epoch = checkpoint.get("epoch", 0) + 1
    new = [
        Change(epoch=epoch, setting=name, before=before[name], after=after[name]) for name in differ
    ]
    return [*made.get("changed", []), *new]


def _shown(value: object) -> str:
    return str(value)[:100]


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name; those of a list are a list, whatever they were kept as."""
    made = content.get(KEY, {})
    parts = {
        "model": {"objective": "cm", **(content.get("hyper_parameters") or {})},
        "data": content.get("datamodule_hyper_parameters"),
        "trainer": made.get("trainer"),
        "corpus": made.get("corpus"),
    }
    found = {
        f"{part}.{name}": value
        for part, settings in parts.items()
        if isinstance(settings, Mapping)
        for name, value in settings.items()
        if name not in ("seeds", "_instantiator")
    }
    plain: dict[str, Any] = json.loads(json.dumps(found | {"seed": content.get("seeds")}))
    return plain
