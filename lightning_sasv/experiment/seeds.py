"""Results of one seed: its folder, what is missing in it, and how it is filled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pytorch_lightning import Trainer

from lightning_sasv.checkpoints import AtomicCheckpointIO
from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.intervals import resample
from lightning_sasv.evaluation.systems import System, Trials
from lightning_sasv.experiment.settings import system_key
from lightning_sasv.fitted import FOLDER, SUFFIX, load_system, save_system
from lightning_sasv.fusion import SYSTEMS, FusionSystem, fit_systems, fuse_systems
from lightning_sasv.metrics.functional import Settings, all_metrics
from lightning_sasv.models import SASVModule
from lightning_sasv.models.scoring import ScoredTrials, score_table
from lightning_sasv.results import (
    METRICS_FILE,
    Metrics,
    fitted_values,
    read_metrics,
    write_metrics,
)
from lightning_sasv.scores import write_scores
from lightning_sasv.scores.table import from_scores

SPLITS = ("dev", "eval")


@dataclass(frozen=True)
class SeedFolder:
    """The folder ``seed<NNNN>`` of a table, laid out like any folder of results.

    Attributes:
        path: The folder.
        seed: Training seed.
        key: Key of the training; entries with another key are not ours.
    """

    path: Path
    seed: int
    key: str

    def scores(self, split: str) -> Path:
        """Score file of ``dev`` or ``eval``."""
        return self.path / "scores" / f"{split}.csv"

    def fitted(self, name: str) -> Path:
        """File of a fitted system."""
        return self.path / FOLDER / f"{name}{SUFFIX}"

    @property
    def checkpoint(self) -> Path:
        """Checkpoint of this seed alone, at its best epoch."""
        return self.path / "checkpoints" / "best.ckpt"

    def metrics(self) -> Metrics:
        """What is there; results of another configuration are an error, never mixed in."""
        file = self.path / METRICS_FILE
        found = read_metrics(file) if file.exists() else {}
        for name, entry in found.items():
            if not isinstance(entry, dict) or entry.get("key") != self.key:
                raise InputError(
                    f"{self.path} holds results of another configuration, data set or version "
                    f"({name}); choose another --out, or add --overwrite to replace them"
                )
        return found

    def missing(self, systems: Iterable[str]) -> list[str]:
        """Systems without a finished result under their present configuration.

        Metrics are written last; where one of the other files has been removed since, every
        system is missing.
        """
        found = self.metrics()
        files = [*(self.scores(split) for split in SPLITS), self.checkpoint]
        if not all(file.is_file() for file in [*files, *map(self.fitted, found)]):
            return list(systems)
        return [s for s in systems if found.get(s, {}).get("system_key") != system_key(s)]

    def lacks_interval(self, systems: Iterable[str], replicates: int) -> list[str]:
        """Systems whose interval has not been computed with so many replicates."""
        found = self.metrics()
        wanted = {"replicates": replicates}
        return [s for s in systems if not wanted.items() <= found[s].get("ci", {}).items()]


@dataclass(frozen=True)
class SeedScores:
    """Scores of one seed on dev and eval, and the module that gave them."""

    module: SASVModule
    copy: int
    corpus: Corpus
    dev: ScoredTrials
    eval: ScoredTrials

    def of(self, split: str) -> tuple[TrialSet, ScoredTrials]:
        """Trials and scores of ``dev`` or ``eval``, of this seed alone."""
        scored: ScoredTrials = getattr(self, split)
        return getattr(self.corpus, split), scored._replace(cm=scored.cm[self.copy])


def fill(folder: SeedFolder, scores: SeedScores, systems: Sequence[str], epoch: int) -> None:
    """Fit and evaluate the systems that are missing, and write everything; metrics come last."""
    done = folder.metrics()
    missing = folder.missing(systems)
    if not missing:
        return
    names = [name for name in SYSTEMS if name in {*done, *systems}]  # one order, whoever came first
    _, dev = scores.of("dev")
    fitted = fit_systems(dev.asv, dev.cm, dev.label, names)
    entries: Metrics = {name: _head(folder, scores, name, epoch) for name in missing}
    for split in SPLITS:
        data, scored = scores.of(split)
        fused = fuse_systems(fitted, scored.asv, scored.cm)
        write_scores(folder.scores(split), score_table(data, scored, fused))
        for name in missing:
            entries[name][split] = all_metrics(
                fused[name].asv_llr, fused[name].cm_llr, fused[name].sasv, scored.label
            )
    for name, system in fitted.items():
        about = {"corpus": scores.corpus.name, "seed": folder.seed}
        save_system(folder.fitted(name), system, about)
    for name in missing:
        entries[name]["fitted"] = fitted_values(fitted[name])
    _save_checkpoint(folder, scores, fitted)
    write_metrics(folder.path / METRICS_FILE, done | entries)


def _head(folder: SeedFolder, scores: SeedScores, name: str, epoch: int) -> dict[str, Any]:
    return {
        "corpus": scores.corpus.name,
        "seed": folder.seed,
        "key": folder.key,
        "system_key": system_key(name),
        "best_epoch": epoch,
    }


def _save_checkpoint(
    folder: SeedFolder, scores: SeedScores, fitted: dict[str, FusionSystem]
) -> None:
    """A checkpoint of this seed alone, for ``lightning test --ckpt_path``."""
    trained = scores.module
    head = trained.head.select(scores.copy)
    module = SASVModule(
        in_dim=head.in_dim,
        hidden_dims=head.hidden_dims,
        lr=trained.lr,
        weight_decay=trained.weight_decay,
        class_weights=trained.class_weights,
        systems=tuple(fitted),
        seeds=(folder.seed,),
    )
    module.head.load_state_dict(head.state_dict())
    for name, system in fitted.items():
        module.fusion[name].load_state_dict(system.state_dict())
    trainer = Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        plugins=[AtomicCheckpointIO()],
    )
    trainer.strategy.connect(module)
    trainer.save_checkpoint(folder.checkpoint, weights_only=True)


def add_intervals(
    folder: SeedFolder, scores: SeedScores, systems: Sequence[str], replicates: int
) -> None:
    """Add the 95 % trial-bootstrap interval of the eval SASV-EER to the metrics."""
    lacking = folder.lacks_interval(systems, replicates)
    if not lacking:
        return
    done = folder.metrics()
    fitted = {name: load_system(folder.fitted(name)) for name in lacking}
    data, scored = scores.of("eval")
    fused = fuse_systems(fitted, scored.asv, scored.cm)
    columns = [System(name, {"sasv": one.sasv.cpu().numpy()}) for name, one in fused.items()]
    table = from_scores(score_table(data, scored, fused), folder.scores("eval"))
    drawn = resample(  # every system on the same replicates, which are drawn once
        columns,
        Trials(table, scored.label.numpy(), cm_only=False),
        "trial",
        replicates,
        Settings(),
        names={name: ["sasv_eer"] for name in lacking},
    )
    for name, found in drawn.items():
        low, high = found["sasv_eer"].interval()
        done[name]["ci"] = {
            "metric": "sasv_eer",
            "unit": "trial",
            "replicates": replicates,
            "low": low,
            "high": high,
        }
    write_metrics(folder.path / METRICS_FILE, done)
