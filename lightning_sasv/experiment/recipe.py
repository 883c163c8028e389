"""What an experiment is made of, and the keys that tell its results from those of another."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lightning_sasv import __version__
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_json
from lightning_sasv.gate import settings_of
from lightning_sasv.program import check_threads

if TYPE_CHECKING:
    from lightning_sasv.data.corpus import Corpus
    from lightning_sasv.data.datamodule import SASVDataModule
    from lightning_sasv.models import SASVModule

RECIPE_FILE = "recipe.json"
SHARED = "cm"
"""Name of the network that systems share."""
MAX_SEED, MAX_SEEDS = 2**32 - 1, 1000
"""Largest seed, as for Lightning's ``seed_everything``, and most seeds of a range."""


@dataclass(frozen=True)
class Recipe:
    """A training and the corpus it is applied to.

    What can be set, and what it is otherwise, stands in the signatures of ``SASVModule`` and
    ``SASVDataModule`` alone.

    Attributes:
        model: Arguments of ``SASVModule``.
        data: Arguments of ``SASVDataModule``.
        trainer: Arguments of the Trainer.
        threads: CPU threads; the last bits of a result depend on it.
    """

    model: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    trainer: dict[str, Any] = field(default_factory=lambda: {"max_epochs": 10})
    threads: int = 1

    def __post_init__(self) -> None:
        check_threads(self.threads)
        if (epochs := self.trainer["max_epochs"]) < 1:
            raise InputError(f"--trainer.max_epochs must be at least 1, got {epochs}")
        devices = self.trainer.get("devices", 1)
        if devices != 1 and not (isinstance(devices, list | tuple) and len(devices) == 1):
            raise InputError(
                f"--trainer.devices: a table trains on one device, 1 or its number as [2], got "
                f"{devices}; --processes and --launcher share the seeds out"
            )

    def module(self, seeds: Sequence[int], networks: Sequence[str] = (SHARED,)) -> SASVModule:
        """The module that trains so many seeds together; a wrong setting is an ``InputError``.

        Args:
            seeds: The seeds.
            networks: Networks of each of them.
        """
        from lightning_sasv.models.heads import RECIPES
        from lightning_sasv.models.module import Networks, SASVModule

        first = networks[0]
        if first in RECIPES:
            return SASVModule(**self.joint(first), systems=(first,), seeds=tuple(seeds))
        if list(networks) != [SHARED]:
            return Networks(networks, tuple(seeds), **self.model)
        return SASVModule(**self.model, systems=(), seeds=tuple(seeds))

    def joint(self, system: str) -> dict[str, Any]:
        """Settings of the network of a joint system: its own, but for what is set otherwise.

        Class weights are taken over if they are three; of objectives ``a_dcf``, by a network of one
        score, for the others are the recipe's own or of another head.
        """
        from lightning_sasv.models import SASVModule
        from lightning_sasv.models.heads import RECIPES

        usual, recipe = settings_of(SASVModule), RECIPES[system]
        told = {name: one for name, one in self.model.items() if one != usual[name].default}
        told.pop("head", None)
        if (told.get("objective"), recipe["objective"]) != ("a_dcf", "fused"):
            told.pop("objective", None)
        if len(told.get("class_weights", ())) == 2:
            del told["class_weights"]
        return {**self.model, **recipe, **told}

    def usable(self, systems: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """The systems that the head has scores for, and what is to be said of the others."""
        from lightning_sasv.models.heads import RECIPES

        head = self.model.get("head", "cm")
        if head == "cm":
            return dict(systems), []
        known = [name for name, recipe in RECIPES.items() if recipe["head"] == head]
        kept = {name: own for name, own in systems.items() if name in known}
        left = ", ".join(name for name in systems if name not in kept)
        if not known:
            raise InputError(f"--model.head: a table takes cm, concat or film, not {head}")
        if not kept:
            raise InputError(
                f"--systems: {left} cannot use the scores of the head {head}; its systems are "
                f"{', '.join(known)}"
            )
        return kept, [f"left out: {left}; the head {head} gives scores of its own"] if left else []

    def network_of(self, system: str) -> str:
        """The network of a system: its own name where it has one, else the shared one."""
        from lightning_sasv.models.heads import RECIPES
        from lightning_sasv.models.objectives import rule_of

        if system in RECIPES:
            return system
        own = self.model.get("objective", "auto") in ("auto", "fused", "a_dcf")
        return system if own and rule_of(system) is not None else SHARED

    def networks(self, systems: Sequence[str]) -> list[str]:
        """The networks that systems need, the shared one first."""
        found = dict.fromkeys(self.network_of(name) for name in systems)
        return sorted(found, key=lambda name: name != SHARED)

    @staticmethod
    def together(networks: Sequence[str]) -> list[list[str]]:
        """Networks in parts that are trained as one stacked model each: all are alike in shape.

        The shared one is by itself, for what stands beside a head in memory shows in its last bits.
        """
        from lightning_sasv.models.heads import RECIPES

        shared = [name for name in networks if name == SHARED]
        joint = [[name] for name in networks if name in RECIPES]
        own = [name for name in networks if name != SHARED and name not in RECIPES]
        return [part for part in (shared, own, *joint) if part]

    def datamodule(self, seeds: Sequence[int] = (), corpus: Corpus | None = None) -> SASVDataModule:
        """The data module, with a corpus that was made before, if there is one."""
        from lightning_sasv.data.datamodule import SASVDataModule

        data = SASVDataModule(**self.data, seeds=tuple(seeds))
        if corpus is not None:
            data.__dict__["corpus"] = corpus
        return data

    def content(self, corpus: Corpus, used: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """All that the training of a seed depends on: settings, data and versions.

        Args:
            corpus: The corpus.
            used: Settings of the Trainer as it understands them on this machine.
        """
        import torch

        from lightning_sasv.models import SASVModule
        from lightning_sasv.models.objectives import CMObjective

        data = {"threads": self.threads, "corpus": corpus.name, "data": corpus.fingerprint}
        model = {**self.model, "in_dim": corpus.train.cm.dim}
        for name in ("monitor", "head", "dropout", "asv_dim", "lr_decay"):  # as before these
            if name in model and model[name] == settings_of(SASVModule)[name].default:
                del model[name]
        if model.get("objective", "auto") in ("auto", "cm"):  # as when there was no other
            model.pop("objective", None)
            model["class_weights"] = model.get("class_weights") or CMObjective.default_weights
        else:
            data["asv_train"] = corpus.train.asv_fingerprint
        parts = {
            "model": model,
            "trainer": {**self.trainer, **(used or {})},
            "data": {"batch_size": self.datamodule().batch_size},
        }
        settings = {f"{part}.{name}": own[name] for part, own in parts.items() for name in own}
        versions = {"lightning_sasv": __version__, "torch": torch.__version__}
        plain: dict[str, Any] = json.loads(json.dumps(settings | data | versions))
        return plain


def make_corpus(recipe: Recipe) -> Corpus:
    """The corpus of a recipe, with everything imported that a training needs."""
    from lightning_sasv.console import quiet

    quiet()
    from lightning_sasv.experiment import run  # noqa: F401  # imports Lightning

    return recipe.datamodule().corpus


def check_recipe(out: Path, recipe: Mapping[str, Any]) -> str:
    """Key of the recipe, which is noted in ``out``; results of another one there are an error.

    Args:
        out: Folder of the experiment.
        recipe: What its results are to be made with.
    """
    file, key = out / RECIPE_FILE, digest(recipe)
    if not (file.exists() and any(out.glob("seed[0-9]*/metrics.json"))):
        write_json(file, dict(recipe))
        return key
    noted = read_noted(file)
    if noted != recipe:
        names = [n for n in {**recipe, **noted} if noted.get(n, ...) != recipe.get(n, ...)]
        there, now = (
            {name: str(own.get(name, "not noted"))[:100] for name in names}
            for own in (noted, recipe)
        )
        listed = ", ".join(f"{n} {there[n]} there, {now[n]} now" for n in names)
        raise InputError(
            f"{out} holds results of another configuration ({listed}); choose another --out, or "
            "add --overwrite to replace them"
        )
    return key


def read_noted(file: Path) -> dict[str, Any]:
    """What an earlier run noted for itself in a file of its folder."""
    found = None
    with suppress(InputError):
        found = read_json(file)
    if not isinstance(found, dict):
        raise damaged(file)
    return found


class Group(NamedTuple):
    """What is trained together.

    Attributes:
        seeds: The seeds.
        networks: Networks of each of them.
    """

    seeds: Sequence[int]
    networks: Sequence[str] = (SHARED,)

    def noted(self, key: str) -> dict[str, Any]:
        """What is noted of it in the folder of its training."""
        others = {} if list(self.networks) == [SHARED] else {"networks": list(self.networks)}
        return {"key": key, "seeds": list(self.seeds), **others}

    def name(self, key: str) -> str:
        """Name of that folder."""
        return digest([*self.noted(key).values()])


def read_group(file: Path, key: str) -> Group:
    """What was begun together under this key, as its folder notes it; nothing of another key."""
    noted = read_noted(file)
    if noted.get("key") != key:
        return Group((), ())
    seeds, networks = noted.get("seeds"), noted.get("networks", [SHARED])
    with suppress(InputError, TypeError):
        found = Group(parse_seeds(",".join(map(str, seeds))), networks)  # type: ignore[arg-type]
        same = found.noted(key) == noted and file.parent.name == found.name(key)
        if same and len(found.seeds) <= MAX_SEEDS and all(isinstance(n, str) for n in networks):
            return found
    raise damaged(file)


def damaged(file: Path) -> InputError:
    """The message about a note of an earlier run that makes no sense."""
    return InputError(f"{file} is damaged; choose another --out or add --overwrite")


def digest(content: Any) -> str:
    """Short hash of plain content."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def parse_seeds(text: str) -> list[int]:
    """Seeds of ``1986-1991`` or ``1986,1988``, in the order given.

    Example:
        >>> parse_seeds("1-3,7")
        [1, 2, 3, 7]
    """
    seeds: list[int] = []
    for part in text.replace(" ", "").split(","):
        found = re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10}))?", part)
        if not found:
            raise InputError(f"--seeds: cannot read {text!r}; write 1986-1991 or 1986,1988")
        low, high = int(found[1]), int(found[2] or found[1])
        if high > MAX_SEED or high - low >= MAX_SEEDS:
            raise InputError(
                f"--seeds: {part} is too much; at most {MAX_SEEDS} seeds, up to {MAX_SEED}"
            )
        seeds += range(low, high + 1)
    if not seeds or len(set(seeds)) < len(seeds):
        raise InputError(f"--seeds: {text!r} names no seed, or one twice")
    return seeds
