"""The LightningDataModule: the embedded twin by default, a real corpus with ``root``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
from pytorch_lightning import LightningDataModule
from torch.utils.data import DataLoader

from lightning_sasv.checkpoints import read_checkpoint, settings
from lightning_sasv.console import print_note
from lightning_sasv.data.challenge import (
    load_corpus,
    load_evaluation,
    load_trials,
    profile_of,
    trials_from,
)
from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.data.loaders import BlockLoader, InOrder, ProbeBatch, ProbeBatches, TrainBlocks
from lightning_sasv.data.profiles import Profile, recognition
from lightning_sasv.data.sampler import TrialSampler
from lightning_sasv.data.twin import make_twin
from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import read_yaml
from lightning_sasv.scores.columns import read_columns, score_names
from lightning_sasv.scores.join import join_key
from lightning_sasv.trials import PAIR, SPLITS

_MORE = "--data.more_scores"


class SASVDataModule(LightningDataModule):
    """Training trials drawn anew each epoch, and dev and eval trials to score.

    Args:
        root: Folder of a real corpus: protocols and embeddings in the SASV 2022 layout (pickles
            of the challenge or our own store). Without it the embedded twin is made.
        protocols: Folder of the protocols when they are not below ``root``.
        name: Name of the corpus in tables; by default the name of the folder.
        scale: Size of the twin; 1 has the numbers of SASV 2022, 0.02 is for quick tests.
        twin_seed: Seed of the twin (not of the training).
        batch_size: Trials of an optimiser step, over all processes.
        steps_per_block: Optimiser steps inside one Lightning step; does not change the result.
        score_batch_size: Probes that are scored at once.
        more_scores: Files of further scores of the dev and eval trials, ``{dev: FILE, eval: FILE}``
            (or ``asv_x=FILE,cm_y=FILE`` for each), which systems fuse beside the run's own pair.
        seeds: Training seeds; set from ``--seed_everything`` on the command line.
        trials: ``predict``: a list of trials to score in place of eval, ``speaker utterance`` or
            any list with labels; nothing but embeddings below ``root`` is needed.
        enrolment: Enrolment lists of the speakers of ``trials``, ``speaker utterance,utterance``,
            separated by commas, where ``root`` has no speaker models.
        corpus: Whose lists ``root`` has: sasv2022, asvspoof5, spoofceleb, manifest, or a YAML
            file (docs/corpora.md); by default the corpus whose lists are there.
        dev_corpus: Another corpus whose dev trials systems are fitted on: its folder, or
            NAME=FOLDER, or a name where it is below ``root``.
        eval_corpus: Another corpus whose eval trials are evaluated, the same.
    """

    def __init__(
        self,
        root: str | None = None,
        protocols: str | None = None,
        name: str | None = None,
        scale: float = 1.0,
        twin_seed: int = 0,
        batch_size: int = 24,
        steps_per_block: int = 32,
        score_batch_size: int = 1024,
        more_scores: dict[str, str] | None = None,
        seeds: Sequence[int] = (1986,),
        trials: str | None = None,
        enrolment: str | None = None,
        corpus: str | None = None,
        dev_corpus: str | None = None,
        eval_corpus: str | None = None,
    ) -> None:
        super().__init__()
        self.save_hyperparameters()
        for key in ("batch_size", "steps_per_block", "score_batch_size"):
            if self.hparams[key] < 1:
                raise InputError(f"data.{key} must be at least 1, got {self.hparams[key]}")
            if self.hparams[key] >= 2**31:
                raise InputError(f"data.{key} must be below 2³¹, got {self.hparams[key]}")
        self.root, self.protocols, self.name = root, protocols, name
        self.trials, self.enrolment, self.of = trials, enrolment, corpus
        given = {"dev": dev_corpus, "eval": eval_corpus}
        self.others = {split: one for split, one in given.items() if one}
        self.more_scores = _check_sets(more_scores)
        self.scale, self.twin_seed = scale, twin_seed
        self.batch_size, self.steps_per_block = batch_size, steps_per_block
        self.score_batch_size, self.seeds = score_batch_size, tuple(seeds)

    @classmethod
    def load_from_checkpoint(  # type: ignore[override]
        cls,
        checkpoint_path: str | Path,
        map_location: object = None,
        hparams_file: str | Path | None = None,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """The data module of a checkpoint, which is read as data.

        Args:
            checkpoint_path: The file.
            map_location: Ignored; Lightning has it.
            hparams_file: YAML file of settings that replace those of the checkpoint.
            weights_only: Ignored; Lightning has it.
            **kwargs: Settings that replace those of the checkpoint.
        """
        checkpoint = read_checkpoint(checkpoint_path)
        key = cls.CHECKPOINT_HYPER_PARAMS_KEY
        if hparams_file is not None:
            checkpoint[key] = read_yaml(hparams_file)
        return cls(**settings(checkpoint, cls, checkpoint_path, key) | kwargs)

    @cached_property
    def corpus(self) -> Corpus:
        """The corpus, read or made once."""
        if self.trials is not None and self.root is not None:
            return load_trials(self.root, self.trials, self.enrolment, self.name)
        if self.root is None:
            own = make_twin(self.scale, self.twin_seed)
            for split, one in self.others.items():
                own = replace(own, **{split: trials_from(one, split)})  # type: ignore[arg-type]
            return with_more_scores(own, self.more_scores)
        if self.profile.train is None and not self.others:
            return load_evaluation(self.root, self.protocols, self.name, self.profile)
        corpus = load_corpus(self.root, self.protocols, self.name, self.profile, self.others)
        return with_more_scores(corpus, self.more_scores)

    @cached_property
    def profile(self) -> Profile:
        """Whose lists ``root`` has, found once; said where the user did not."""
        lists = Path(self.protocols or self.root or ".")
        found = profile_of(self.of, lists)
        if self.of is None:
            print_note(recognition(lists, found))
        return found

    def setup(self, stage: str) -> None:
        """Load and check the corpus now, so that a mistake in it is reported before any work."""
        if self.trials is not None and (stage != "predict" or self.root is None):
            wrong = "needs --data.root, too" if stage == "predict" else "is for predict alone"
            raise InputError(f"--data.trials {wrong}")
        if stage != "predict" and self.root is not None and self.trials is None:
            needed = ("train", *(split for split in SPLITS if split not in self.others))
            self.profile.need(*needed)
        self.corpus.check()
        if stage == "fit":
            TrialSampler(self.corpus.train.utterances)

    def _says(self, word: str) -> bool:
        """What the module says of itself; one of others need not."""
        module = None if self.trainer is None else self.trainer.lightning_module
        return bool(getattr(module, word, False))

    def _processes(self) -> tuple[int, int]:
        if self.trainer is None:
            return 0, 1
        return self.trainer.global_rank, self.trainer.world_size

    def train_dataloader(self) -> BlockLoader:
        """Blocks of training steps."""
        of_epoch = self.corpus.train, self.seeds, self.batch_size
        asked = self._says("compares"), self._says("joint")
        blocks = TrainBlocks(*of_epoch, *self._processes(), *asked)
        return BlockLoader(blocks, self.steps_per_block, self.trainer)

    def _probes(self, data: TrialSet) -> DataLoader[ProbeBatch]:
        batches = ProbeBatches(data, self.score_batch_size, *self._processes(), self._says("joint"))
        return DataLoader(batches, batch_size=None, sampler=InOrder(batches))

    def val_dataloader(self) -> DataLoader[ProbeBatch]:
        """Distinct probes of the dev trials."""
        return self._probes(self.corpus.dev)

    def test_dataloader(self) -> DataLoader[ProbeBatch]:
        """Distinct probes of the eval trials."""
        return self._probes(self.corpus.eval)

    predict_dataloader = test_dataloader


def _check_sets(files: Mapping[str, str] | None) -> dict[str, str]:
    """Files of dev and eval, both or none.

    Raises:
        InputError: A set is missing, or there is no such set.
    """
    given = dict(files or {})
    for name in given:
        if name not in SPLITS:
            raise InputError(f"{_MORE}: {name!r} is neither dev nor eval{meant(name, SPLITS)}")
    if given and len(given) < len(SPLITS):
        raise InputError(f"{_MORE}: give files of both sets, {{dev: FILE, eval: FILE}}")
    return given


def with_more_scores(corpus: Corpus, files: Mapping[str, str]) -> Corpus:
    """A corpus whose dev and eval trials have further scores.

    Args:
        corpus: The corpus.
        files: What :func:`_check_sets` gave; the trials are found by speaker and utterance, scores
            of countermeasures by utterance where that is all they have.

    Raises:
        InputError: A trial without a score, names that are not the same in both sets, or that are
            those of the run's own pair.
    """
    if not files:
        return corpus
    dev, other = (_more_scores(getattr(corpus, split), files[split]) for split in SPLITS)
    if dev.keys() != other.keys():
        odd = ", ".join(sorted(dev.keys() ^ other.keys()))
        raise InputError(f"{_MORE}: dev and eval have not the same columns ({odd})")
    return replace(corpus, dev=replace(corpus.dev, more=dev), eval=replace(corpus.eval, more=other))


def _more_scores(data: TrialSet, file: str) -> dict[str, np.ndarray]:
    """Columns of a file in the order of the trials."""
    table = read_columns(file)
    names = score_names(table)
    if own := [name for name in names if name in PAIR]:
        raise InputError(
            f"{_MORE}: {file} has {own[0]}, which the run computes itself; name the column "
            f"otherwise, as in {own[0].partition('_')[0]}_NAME=FILE"
        )
    if not names:
        raise InputError(f"{_MORE}: {file} has no column asv_…, cm_… or quality_…")
    joined = join_key(table, data.trials.table(data.name)).table
    return {name: joined.numbers(name) for name in names}
