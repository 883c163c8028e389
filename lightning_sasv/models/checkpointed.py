"""How a module and a checkpoint take from each other, and what a checkpoint says of its making.

Settings of model and data and the seeds are in every checkpoint; :data:`MADE_WITH` holds the rest:
which corpus it was, how the Trainer was set, and what has changed since the training began.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypedDict, cast

import torch
from pytorch_lightning import Callback, LightningModule
from pytorch_lightning.loggers import WandbLogger
from pytorch_lightning.trainer.states import TrainerFn
from torch import nn

from lightning_sasv.checkpoints import KEY, describe, extensions_in, read_checkpoint, settings
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_yaml
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.fusion.doubts import as_warnings
from lightning_sasv.gate import fits, is_plain
from lightning_sasv.models.restoring import check_optimizers, check_sizes, check_state, unfit

CALLBACK = "callbacks/"
"""Where a checkpoint names the class of a callback; its key follows."""

MADE_WITH = "made_with"

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
    """What :data:`MADE_WITH` holds: plain values."""

    corpus: dict[str, str | None]
    trainer: dict[str, _Value]
    changed: list[Change]
    wandb: str | None


class Checkpointed(LightningModule):
    """A module whose checkpoints are data: read as such, and compared with what is there.

    Attributes:
        seeds: Training seeds; they belong to the weights.
        fusion: Fusion systems of each seed.
        refits: Take the heads of a checkpoint alone: the systems are fitted anew.
        changed: What changed since the training began.
    """

    seeds: tuple[int, ...]
    fusion: nn.ModuleDict
    refits: bool = False
    changed: Sequence[Change] = ()

    @classmethod
    def settings_in(cls, checkpoint: dict[str, Any], path: str | Path) -> dict[str, Any]:
        """The settings that a checkpoint holds, checked; they ask for no more than its weights."""
        found = {"objective": "cm", **settings(checkpoint, cls, path)}  # there was no other once
        check_sizes(cls, found, checkpoint["state_dict"], path)
        return found

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls,
        checkpoint_path: str | Path,
        map_location: str | torch.device | None = None,
        hparams_file: str | Path | None = None,
        strict: bool = True,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """The module of a checkpoint, which is read as data whatever ``weights_only`` says.

        Args:
            checkpoint_path: The file.
            map_location: Device of the module.
            hparams_file: YAML file of settings that replace those of the checkpoint.
            strict: Let the names of the weights be exactly those of the module.
            weights_only: Ignored; Lightning has it.
            **kwargs: Settings that replace those of the checkpoint.
        """
        checkpoint = read_checkpoint(checkpoint_path)
        if hparams_file is not None:
            checkpoint["hyper_parameters"] = read_yaml(hparams_file)
        module = cls(**cls.settings_in(checkpoint, checkpoint_path) | kwargs)
        module.strict_loading = strict
        module.on_load_checkpoint(checkpoint)
        return module.to(map_location)

    def plain_settings(self) -> dict[str, Any]:
        """Settings of model and data that a checkpoint can keep, under its own names, and seeds."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        return {
            "seeds": list(self.seeds),
            "hyper_parameters": _plain(self.hparams),
            "datamodule_hyper_parameters": _plain(data.hparams),
        }

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keep what weights and fits were made with, and what makes the fits doubtful.

        What Lightning adds to settings, and those that are no plain values, stay out.
        """
        for said in ("warnings", "fitted_on"):
            of_each = {key: getattr(one, said) for key, one in self._systems().items()}
            noted = {key: value for key, value in of_each.items() if value}
            checkpoint |= {said: noted} if noted else {}
        checkpoint |= self.plain_settings()
        checkpoint[MADE_WITH] = {**_record(self), "changed": list(self.changed)}
        checkpoint |= self._others(checkpoint)

    def _others(self, checkpoint: dict[str, Any]) -> dict[str, Any]:
        """Names and settings of classes that are not ours."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        found = {"model": describe(self, _plain(self.hparams))}
        found["data"] = describe(data, _plain(data.hparams))
        for callback in self.trainer.callbacks:  # type: ignore[attr-defined]
            if callback.state_key in checkpoint.get("callbacks", {}):
                found[CALLBACK + callback.state_key] = describe(callback)
        named = {place: one for place, one in found.items() if one is not None}
        return {KEY: named} if named else {}

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Take over the seeds of the weights; what does not fit is found before all is restored.

        A training cannot go on under another seed, nor from weights alone.
        """
        if self._trainer is not None:
            check_state(checkpoint, self.trainer)
            self._extend(checkpoint)
        fitting = self._trainer is not None and self.trainer.state.fn == TrainerFn.FITTING
        seeds = checkpoint.get("seeds", self.seeds)
        if not fits(seeds, Sequence[int]) or len(seeds) != len(self.seeds):
            raise unfit(f"it is of {str(seeds)[:100]}, not of {len(self.seeds)} seeds")
        if self.refits:
            own = {f"fusion.{name}": value for name, value in self.fusion.state_dict().items()}
            state = checkpoint["state_dict"]
            heads = {name: state[name] for name in state if not name.startswith("fusion.")}
            checkpoint["state_dict"] = heads | own
        if fitting:
            self.changed = _check_resumed(checkpoint, self)
        try:
            self.load_state_dict(checkpoint["state_dict"], strict=self.strict_loading)
        except RuntimeError as error:
            raise unfit(str(error)) from None
        if fitting and "optimizer_states" not in checkpoint:
            raise unfit("it holds weights alone, from which no training can go on")
        self.seeds = tuple(seeds)
        said, noted = checkpoint.get("warnings", {}), _fitted_on(checkpoint)
        for key, system in self._systems().items() if not self.refits else ():
            system.warnings = as_warnings(said.get(key, []) if isinstance(said, dict) else said)
            system.fitted_on = noted.get(key)

    def _systems(self) -> dict[str, FusionSystem]:
        return cast("dict[str, FusionSystem]", dict(self.fusion.items()))

    def on_train_start(self) -> None:
        """Look at what a checkpoint made of the optimiser, before the first step."""
        check_optimizers(self.trainer.optimizers)

    def _extend(self, checkpoint: dict[str, Any]) -> None:
        """Add the callbacks of others that a training goes on with; refuse a model of others."""
        path, trainer = self.trainer.ckpt_path or "the checkpoint", self.trainer
        found = extensions_in(checkpoint, path)
        if "model" in found and describe(self) is None:
            found["model"].load(type(self), path)
            raise unfit(f"it was made with the class {found['model'].name}, not by this one")
        present = {callback.state_key for callback in trainer.callbacks}  # type: ignore[attr-defined]
        for place, one in found.items():
            lacking = place.startswith(CALLBACK) and place.removeprefix(CALLBACK) not in present
            if lacking and trainer.state.fn == TrainerFn.FITTING:
                callback = one.load(Callback, path)(**one.settings)
                callback.setup(trainer, self, "fit")
                trainer.callbacks.append(callback)  # type: ignore[attr-defined]


def _fitted_on(checkpoint: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the systems of a checkpoint were fitted on, as far as it says."""
    found = checkpoint.get("fitted_on", {})
    if not isinstance(found, dict) or not all(isinstance(one, dict) for one in found.values()):
        raise unfit("it does not say what its systems were fitted on")
    return found


def _plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that a checkpoint can keep."""
    own = {name: value for name, value in settings.items() if is_plain(value)}
    own.pop("_instantiator", None)
    return own


def _record(module: Checkpointed) -> MadeWith:
    """What a training is made with beside the settings of model and data."""
    trainer, data = module.trainer, module.trainer.datamodule  # type: ignore[attr-defined]
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
    corpus = {"name": data.corpus.name, "fingerprint": data.corpus.fingerprint}
    learns = any(getattr(module, name, False) for name in ("compares", "joint"))
    if learns and hasattr(data.corpus, "train"):
        corpus["asv_train"] = data.corpus.train.asv_fingerprint
    fixed = {name: getattr(trainer, name, None) for name in FIXED}
    fixed |= {name: getattr(module, name, None) for name in ("optimizer", "lr_scheduler")}
    known = int | float | None
    plain = {name: one if isinstance(one, known) else str(one) for name, one in fixed.items()}
    logged = [one.version for one in trainer.loggers if isinstance(one, WandbLogger)]
    return {
        "corpus": corpus | absolute,
        "trainer": free | plain | names,
        "wandb": next(iter(logged), None),
    }


def recorded(checkpoint: Mapping[str, Any], path: str | Path) -> MadeWith:
    """What a checkpoint says of this; nothing where it is of an older version.

    Raises:
        InputError: It is of another form than is written.
    """
    found: MadeWith = checkpoint.get(MADE_WITH, {})
    if not fits(found, MadeWith):
        raise InputError(f"{path} is damaged: what it says of its making is of another form")
    return found


def _check_resumed(checkpoint: Mapping[str, Any], module: Checkpointed) -> list[Change]:
    """Compare a training with the one that it goes on from.

    Args:
        checkpoint: What was read.
        module: The module, with its Trainer.

    Returns:
        What changed that may, now and before.

    Raises:
        InputError: Anything else is set otherwise than it was; all of it is listed.
    """
    own = {MADE_WITH: _record(module), **module.plain_settings()}
    made = recorded(checkpoint, module.trainer.ckpt_path or "the checkpoint")
    before, after = _flat(checkpoint), _flat(own)
    known = made.get("corpus", {}).get("fingerprint")
    same = known is not None and known == after["corpus.fingerprint"]
    free = FREE | (CORPUS if same else frozenset())
    differ = [name for name in after if name in before and before[name] != after[name]]
    if fixed := [name for name in differ if name not in free]:
        parts = (f"{n} {str(before[n])[:100]} there, {str(after[n])[:100]} now" for n in fixed)
        raise InputError(
            "--ckpt_path: a training goes on with the settings that it began with: "
            f"{'; '.join(parts)}; give them as they were (config.yaml of the run has them all), or "
            "begin anew"
        )
    epoch = checkpoint.get("epoch", 0) + 1
    new = [
        Change(epoch=epoch, setting=name, before=before[name], after=after[name]) for name in differ
    ]
    return [*made.get("changed", []), *new]


def _flat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name; those of a list are a list, whatever they were kept as."""
    made = content.get(MADE_WITH, {})
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
