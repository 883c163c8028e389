"""What a training command takes from the checkpoint that it is given.

The settings of a checkpoint take the place of the defaults: what a command is not told is as it was
when the checkpoint was made, and what it is told otherwise is seen to be another thing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from pytorch_lightning import Trainer
from pytorch_lightning.loggers import WandbLogger

from lightning_sasv.checkpoints import Extension, extensions_in, read_checkpoint, settings
from lightning_sasv.data.corpus import Corpus, TrialsAlone
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.errors import InputError
from lightning_sasv.gate import fits, settings_of
from lightning_sasv.models import SASVModule
from lightning_sasv.models.checkpointed import OF_CORPUS, MadeWith, recorded

REFITTED = ("systems", "fusion", "own_systems")
"""Settings of the model that ``--refit`` may change."""


@dataclass(frozen=True)
class Origin:
    """A checkpoint, and what it was made with.

    Attributes:
        path: The file.
        model: Settings of the model.
        data: Settings of the data; none where they were not recorded.
        seeds: Training seeds.
        made: What else was recorded.
        others: Classes of others that it was made with, by their places.
    """

    path: Path
    model: dict[str, Any]
    data: dict[str, Any]
    seeds: list[int]
    made: MadeWith
    others: dict[str, Extension]

    @classmethod
    def read(cls, path: str | Path) -> Origin:
        """Read a checkpoint as data; every setting is of the type that its class says."""
        content = read_checkpoint(path)
        others = extensions_in(content, path)
        owner = others["model"].load(SASVModule, path) if "model" in others else SASVModule
        source = others["data"].load(SASVDataModule, path) if "data" in others else SASVDataModule
        data = settings(content, source, path, SASVDataModule.CHECKPOINT_HYPER_PARAMS_KEY)
        seeds = content.get("seeds", [])
        return cls(
            Path(path),
            _known(owner.settings_in(content, path), SASVModule),
            _known(data, SASVDataModule),
            list(seeds) if fits(seeds, list[int]) else [],
            recorded(content, path),
            others,
        )

    def defaults(self) -> dict[str, Any]:
        """Defaults of a command that is given this checkpoint."""
        found = {f"model.{name}": value for name, value in self.model.items()}
        found |= {f"data.{name}": value for name, value in self.data.items()}
        found |= {f"data.{name}": self.place(name) for name in ("root", "protocols")}
        return found | ({"seed_everything": self.seeds[0]} if len(self.seeds) == 1 else {})

    def place(self, name: str) -> str | None:
        """Where the data or the protocols are: as it was given, else resolved, if it is there."""
        given: str | None = self.data.get(name)
        resolved = self.made.get("corpus", {}).get(name)
        there = (one for one in (given, resolved) if one and Path(one).exists())
        return next(there, given)

    def scored_with(self, config: Namespace, told: Namespace) -> dict[str, Any]:
        """What a command that scores does otherwise than the checkpoint was made, on request.

        Args:
            config: Its settings, over those of the checkpoint.
            told: Its settings, over the program's own defaults.

        Raises:
            InputError: Something that nobody may ask for, or that does not go together.
        """
        asked = _differences(self.model, config.model)
        wrong = {n: v for n, v in asked.items() if not (config.refit and n in REFITTED)}
        seed = config.seed_everything
        if self.seeds and not isinstance(seed, bool) and seed not in self.seeds:
            wrong["seed_everything"] = seed
        if wrong:
            was = {**self.model, "seed_everything": self.seeds}
            listed = "; ".join(f"{name} {was[name]}, not {wrong[name]}" for name in wrong)
            fits_anew = "; --refit true fits other systems on dev" if "systems" in wrong else ""
            raise InputError(f"{self.path} was made with {listed[:500]}{fits_anew}")
        return asked | self._data_on_request(config.data, told.data)

    def _data_on_request(self, data: Namespace, told: Namespace) -> dict[str, Any]:
        known = settings_of(SASVDataModule)
        given = {name for name in OF_CORPUS if told[name] != known[name].default}
        if not self.data and not given:
            raise InputError(
                f"{self.path} does not say which data it was made with; give --data.root, or "
                "--data.scale for the twin"
            )
        if "root" in given and data.root != self.place("root"):
            for name in ("protocols", "name", "corpus", "dev_corpus", "eval_corpus"):
                data[name] = told[name]
        for name in ("root", "protocols") if data.trials is None else ("root",):
            if data[name] is not None and name not in given and not Path(data[name]).exists():
                raise InputError(
                    f"the {'data' if name == 'root' else name} of {self.path} were at "
                    f"{data[name]}, which is not there; give --data.{name}"
                )
        own = {**self.data, "root": self.place("root"), "protocols": self.place("protocols")}
        asked = _differences({name: own.get(name) for name in OF_CORPUS}, data)
        for name in {"root"} & given | {"trials", "enrolment"}:
            if data[name] is not None:
                asked[name] = str(Path(data[name]).resolve())
        return asked

    def notes(self, corpus: Corpus, asked: Mapping[str, Any]) -> list[str]:
        """What is to be said of the corpus of a command.

        Args:
            corpus: The corpus.
            asked: What the command was asked to do otherwise.

        Raises:
            InputError: The data have changed since, and nobody asked for others.
        """
        was = self.made.get("corpus", {})
        if isinstance(corpus, TrialsAlone):
            listed = Path(asked.get("trials") or corpus.name).name
            return [f"scores {len(corpus.eval.trials):,} trials of {listed}"]
        if "fingerprint" not in was:
            return [f"{self.path.name} does not record its corpus: used is {corpus.name}"]
        same = was["fingerprint"] == corpus.fingerprint
        if not same and not asked.keys() & set(OF_CORPUS) and was.get("root"):
            raise InputError(
                f"the data at {was['root']} are not those that {self.path} was made with "
                f"(corpus fingerprint {was['fingerprint']} then, {corpus.fingerprint} now); give "
                "--data.root to use them all the same"
            )
        if same:
            return ["the same corpus as the checkpoint's"] if "root" in asked else []
        return [
            f"other data than the checkpoint's: {corpus.name} (corpus fingerprint "
            f"{corpus.fingerprint}), "
            f"it was made with {was['name']} ({was['fingerprint']})"
        ]


def go_on_logging(trainer: Trainer, origin: Origin) -> None:
    """Let the W&B run of a training go on, too; one that goes on from another epoch has its own."""
    known = origin.made.get("wandb") or ""
    if origin.path.name == "last.ckpt" and re.fullmatch(r"[\w-]{1,64}", known):
        for logger in trainer.loggers:
            if isinstance(logger, WandbLogger) and logger._id is None:
                logger._wandb_init["id"] = logger._id = known


def _known(found: Mapping[str, Any], owner: type) -> dict[str, Any]:
    """Those that are our own; seeds are linked to ``--seed_everything``."""
    return {name: found[name] for name in found if name in settings_of(owner) and name != "seeds"}


def _differences(was: Mapping[str, Any], now: Namespace) -> dict[str, Any]:
    """Settings that are otherwise now; a list is a list, whatever it was kept as."""
    plain = {name: json.loads(json.dumps(now[name])) for name in was}
    before = json.loads(json.dumps(dict(was)))
    return {name: plain[name] for name in plain if plain[name] != before[name]}


def model_of(other: Extension, given: SASVModule, path: str | Path) -> SASVModule:
    """The model of another package's class, in place of ours."""
    settings = {**other.settings, "seeds": list(given.seeds)}
    return other.load(SASVModule, path)(**settings)


def data_of(other: Extension, given: Namespace, path: str | Path) -> SASVDataModule:
    """The data module of another package's class; what the command was told goes first."""
    owner = other.load(SASVDataModule, path)
    told = {name: given[name] for name in settings_of(owner) if name in given}
    return owner(**{**other.settings, **told})
