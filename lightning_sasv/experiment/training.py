"""Training the CM heads of several seeds together, under Lightning's Trainer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import Callback, RichProgressBar
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv.callbacks import KeepBest, NoteInterrupt, SaveLast, interrupts
from lightning_sasv.checkpoints import AtomicCheckpointIO
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.experiment.settings import Experiment
from lightning_sasv.models import SASVModule


def make_datamodule(experiment: Experiment, seeds: Sequence[int]) -> SASVDataModule:
    """Data module of an experiment."""
    data = experiment.data
    return SASVDataModule(
        root=data.root,
        protocols=data.protocols,
        name=data.name,
        scale=data.scale,
        twin_seed=data.twin_seed,
        seeds=tuple(seeds),
    )


def make_trainer(
    folder: Path, epochs: int, callbacks: Sequence[Callback], progress: bool
) -> Trainer:
    """Trainer that leaves a checkpoint after each epoch in ``folder``, from which it resumes."""
    return Trainer(
        max_epochs=epochs,
        accelerator="auto",
        devices=1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=True,
        logger=CSVLogger(folder.parent, name=folder.name, version=""),
        callbacks=[*callbacks, SaveLast(str(folder)), *([RichProgressBar()] if progress else [])],
        plugins=[AtomicCheckpointIO()],
        enable_progress_bar=progress,
        enable_model_summary=False,
    )


def train_heads(
    experiment: Experiment, data: SASVDataModule, folder: Path, progress: bool = True
) -> tuple[Trainer, SASVModule, KeepBest]:
    """Train the heads of ``data.seeds``, each left at its best epoch.

    A training that was broken off goes on from its last finished epoch; a finished one is only
    loaded.

    Args:
        experiment: The recipe.
        data: The corpus and the seeds.
        folder: Where checkpoints and logs are kept.
        progress: Show a progress bar.
    """
    best, note = KeepBest(), NoteInterrupt()
    module = SASVModule(
        hidden_dims=experiment.hidden_dims,
        lr=experiment.lr,
        weight_decay=experiment.weight_decay,
        class_weights=experiment.class_weights,
        systems=(),
        seeds=data.seeds,
    )
    trainer = make_trainer(folder, experiment.epochs, [best, note], progress)
    last = folder / "last.ckpt"
    with interrupts(note, "finished epochs and seeds are kept: the same command goes on"):
        trainer.fit(module, datamodule=data, ckpt_path=last if last.exists() else None)
    module.head.load_state_dict(best.head)
    return trainer, module, best
