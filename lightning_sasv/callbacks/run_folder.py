"""The folder of a run: one for its results, checkpoints and configuration, whoever logs."""

from __future__ import annotations

from pathlib import Path

from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.loggers import Logger

from lightning_sasv.files import is_address
from lightning_sasv.locks import next_version


def is_dry_run(trainer: Trainer) -> bool:
    """Whether the Trainer only tries out a few batches and keeps nothing (``fast_dev_run``)."""
    return bool(trainer.fast_dev_run)  # type: ignore[attr-defined]


def log_dir_of(logger: Logger) -> str | None:
    """Folder of a logger that belongs to one run; W&B and others keep theirs apart themselves."""
    found: str | None = getattr(logger, "log_dir", None)
    return None if found is None or is_address(found) else str(found)


def own_folder(trainer: Trainer) -> Path:
    """The folder of a run as this process sees it: of its first logger that has one, or its own."""
    folders = filter(None, map(log_dir_of, trainer.loggers))
    return Path(next(folders, trainer.default_root_dir))


def folder_of_run(trainer: Trainer) -> Path:
    """The folder of a run, the same in every process; each of them must ask."""
    return Path(trainer.strategy.broadcast(str(own_folder(trainer))))


def take_folder(trainer: Trainer, name: str) -> Path | None:
    """Give a run without a folder of its own one: ``runs/<name>/version_<N>``.

    That is one without a logger that has one, which was not told where to write either: without
    this its results would lie in the current folder. Checkpoints lie in the same folder, whatever
    the first logger says.

    Args:
        trainer: The Trainer of the run.
        name: First system of the run.

    Returns:
        The folder if it was made now.
    """
    made = None
    folderless = not any(map(log_dir_of, trainer.loggers))
    if folderless and Path(trainer.default_root_dir) == Path.cwd():
        shared = next((one.save_dir for one in trainer.loggers if one.save_dir), None)
        root = Path(shared or "runs").resolve() / name
        with next_version(root) as number:
            made = root / f"version_{number}"
            (made / "checkpoints").mkdir()  # or it would go again
        trainer._default_root_dir = str(made)  # type: ignore[attr-defined]
    if trainer.loggers and log_dir_of(trainer.loggers[0]) is None:
        for callback in trainer.checkpoint_callbacks:
            if isinstance(callback, ModelCheckpoint) and callback.dirpath is None:
                callback.dirpath = str(own_folder(trainer) / "checkpoints")
    return made
