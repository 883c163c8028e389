"""The folders of a training run: of one run alone, and without anything foreign.

What a run notes of itself is written when it has begun: one that is refused changes nothing.
"""

from __future__ import annotations

import csv
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from lightning_fabric.plugins.environments.lightning import LightningEnvironment
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.cli import LightningArgumentParser, SaveConfigCallback
from pytorch_lightning.loggers import CSVLogger
from pytorch_lightning.loggers.csv_logs import ExperimentWriter

from lightning_sasv.callbacks.run_folder import is_dry_run, log_dir_of, own_folder, take_folder
from lightning_sasv.callbacks.write_results import WriteResults
from lightning_sasv.checkpoints import read_checkpoint
from lightning_sasv.errors import InputError
from lightning_sasv.files import ensure_directory, is_address, read_yaml, unshare
from lightning_sasv.locks import lock, next_version, remove_empty
from lightning_sasv.metrics_file import blocks
from lightning_sasv.models import SASVModule
from lightning_sasv.places import FUSED, LOCK, RUN, check_folder, head, kind_of, refuse
from lightning_sasv.results import METRICS_FILE, read_metrics
from lightning_sasv.terminal import USER_ERROR

_IN_PLACE = ("config.yaml", "hparams.yaml", "metrics.csv")
"""What Lightning writes to as it is; the rest is replaced by files of its own."""

TESTS = "tests"
"""Folder in that of a run, of results of other checkpoints than its best."""

_INPUTS = ("seed_everything", "data", "model")
"""Parts of a configuration that tell one training from another."""

_OF_SPEED = ("data.score_batch_size", "data.steps_per_block")
"""Settings among them that no result depends on."""

_ANOTHER = "another folder (trainer.logger, trainer.default_root_dir)"


@contextmanager
def taken(
    trainer: Trainer,
    module: SASVModule,
    corpus: str,
    config: Mapping[str, Any],
) -> Iterator[None]:
    """Be the only one who writes to the folders of a run, if they hold nothing foreign.

    Only the first process of a run asks; the others write where it says.

    Args:
        trainer: Its loggers, callbacks and profiler name the folders.
        module: The model.
        corpus: Name of the corpus.
        config: All settings of the run; ``ckpt_path`` is the checkpoint that is gone on from or
            tested, if any; with ``overwrite`` whatever is there is replaced.
    """
    with ExitStack() as stack:
        with _together(trainer):
            if trainer.is_global_zero and not is_dry_run(trainer):
                _take(trainer, module, corpus, config, stack)
        yield


def _take(
    trainer: Trainer, module: SASVModule, corpus: str, config: Mapping[str, Any], stack: ExitStack
) -> None:
    _number(trainer, stack)
    made = take_folder(trainer, next(iter(module.names), "run"))
    stack.callback(remove_empty, [made / "checkpoints", made, made.parent] if made else [])
    folders, results = _folders(trainer), _results(trainer)
    others = _saved(trainer, folders)
    tested = [folder.parents[1] for folder in folders if folder.parent.name == TESTS]
    stack.enter_context(lock(*folders, *results, *others, *tested))
    path = config.get("ckpt_path")
    checkpoint = Path(path).resolve() if path and _is_local(path) else None
    overwrite = bool(config.get("overwrite"))
    if not overwrite:
        for folder in folders:
            _check(folder, config, checkpoint)
        for folder in set(results) - {
            *folders,
            *(checkpoint.parents if checkpoint else ()),
        }:
            _check_results(folder, corpus, module.seeds)
        for folder in others:
            _check_checkpoints(folder, module, [*folders, checkpoint and checkpoint.parent])
        _check_profile(trainer)
    _begin(trainer, folders, checkpoint is not None, overwrite)


@contextmanager
def _together(trainer: Trainer) -> Iterator[None]:
    """Have a refusal of the first process end those that others started beside it.

    Where ``srun`` or ``torchrun`` starts them all, they would wait for the first one for ever.
    Processes that it starts itself do not exist yet.
    """
    cluster = getattr(trainer.strategy, "cluster_environment", None)
    alone = cluster is None or isinstance(cluster, LightningEnvironment) or trainer.world_size == 1
    if not alone:
        _check_address(trainer)
        trainer.strategy.setup_environment()  # now already: it meets the others
    try:
        yield
    except Exception:
        if not alone:
            trainer.strategy.broadcast(True)
        raise
    if not alone and trainer.strategy.broadcast(False):
        raise SystemExit(USER_ERROR)  # the first process says why


def _check_address(trainer: Trainer) -> None:
    """Refuse a first node without an address, for which the others would look until they are ended.

    Args:
        trainer: Its strategy knows where its processes meet.
    """
    place = getattr(trainer.strategy, "cluster_environment", None)
    if trainer.world_size == 1 or not isinstance(place, SLURMEnvironment):
        return
    try:
        socket.getaddrinfo(place.main_address, None)
    except OSError:
        raise InputError(
            f"the first node of the job, {place.main_address}, has no address here: export "
            "MASTER_ADDR with one that every node of it knows"
        ) from None


def _begin(trainer: Trainer, folders: Sequence[Path], goes_on: bool, overwrite: bool) -> None:
    """Prepare what will write: CSV loggers touch nothing before the run has begun."""
    for folder in folders:
        for name in _IN_PLACE:
            unshare(folder / name)
    for writer in _writers(trainer):
        writer.overwrite = overwrite
    for logger in trainer.loggers:
        if type(logger) is CSVLogger and _is_local(logger.log_dir):
            logger._experiment = PatientWriter(logger.log_dir, goes_on)


def _is_local(path: str | None) -> bool:
    return path is not None and not is_address(path)


def _number(trainer: Trainer, stack: ExitStack) -> None:
    """Give loggers without a version the next one; those of the same folder the same."""
    numbers: dict[Path, int] = {}
    for logger in trainer.loggers:
        root = getattr(logger, "root_dir", None)
        if getattr(logger, "_version", "") is not None or not _is_local(root):
            continue
        if hasattr(logger, "_get_next_version"):  # it would choose one without taking it
            place = Path(str(root)).resolve()
            if place not in numbers:
                numbers[place] = stack.enter_context(next_version(place))
            vars(logger)["_version"] = numbers[place]


def _folders(trainer: Trainer) -> list[Path]:
    """The folder of the run, and those of its loggers."""
    found = [str(own_folder(trainer)), *filter(None, map(log_dir_of, trainer.loggers))]
    return list(dict.fromkeys(Path(path).resolve() for path in found if _is_local(path)))


def _writers(trainer: Trainer) -> list[WriteResults]:
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    return [callback for callback in callbacks if isinstance(callback, WriteResults)]


def _results(trainer: Trainer) -> list[Path]:
    """The folder of the results: that of the run, or another one."""
    found = [writer.folder or str(own_folder(trainer)) for writer in _writers(trainer)[:1]]
    return [Path(path).resolve() for path in found if _is_local(path)]


def _saved(trainer: Trainer, ours: Sequence[Path]) -> list[Path]:
    """Folders outside of ours that callbacks were told to save checkpoints to."""
    callbacks = trainer.callbacks  # type: ignore[attr-defined]
    found = (getattr(callback, "dirpath", None) for callback in callbacks)
    places = [Path(path).resolve() for path in found if path and _is_local(str(path))]
    return [one for one in places if not any(one.is_relative_to(folder) for folder in ours)]


def _check(folder: Path, config: Mapping[str, Any], checkpoint: Path | None) -> None:
    """Refuse a folder that holds anything but this run, or one with the same settings."""
    if kind_of(folder) != RUN:
        check_folder(folder, RUN, another=_ANOTHER)
    elif checkpoint is None or not checkpoint.is_relative_to(folder):
        for key, there, now in _differences(folder / "config.yaml", config):
            refuse(folder, f"a run of other settings ({key}: {there} there, {now} now)", _ANOTHER)


def _differences(file: Path, config: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
    """Settings that the configuration of a run has otherwise."""
    noted = read_yaml(file) if file.is_file() else None
    if not isinstance(noted, dict) or not noted.keys() >= set(_INPUTS):
        yield "config.yaml", "none", "one"
        return
    for part in _INPUTS:
        there, now = noted[part], config.get(part)
        if not (isinstance(there, dict) and isinstance(now, Mapping)):
            there, now = {"": there}, {"": now}
        for name in there:
            key = f"{part}.{name}".rstrip(".")
            if there[name] != now.get(name) and key not in _OF_SPEED:
                yield key, there[name], now.get(name)


def _check_results(folder: Path, corpus: str, seeds: Sequence[int]) -> None:
    """Refuse a folder of results beside the run's that holds those of another training."""
    check_folder(folder, FUSED, another="another folder of WriteResults")
    file = folder / METRICS_FILE
    for _, _, of in blocks(read_metrics(file)) if file.exists() else ():
        if of["corpus"] != corpus or of["seeds"] not in [[seed] for seed in seeds]:
            refuse(folder, "results of another training", "another folder of WriteResults")


def _check_checkpoints(folder: Path, module: SASVModule, ours: Sequence[Path | None]) -> None:
    """Refuse a folder of checkpoints with other files, or with those of another training."""
    if any(folder.is_relative_to(one) for one in ours if one):
        return
    for path in folder.iterdir():
        known = path.suffix == ".ckpt" and _is_of(path, module)
        if not known and not path.name.startswith(LOCK):
            refuse(folder, f"other files ({path.name})", "another dirpath")


def _is_of(checkpoint: Path, module: SASVModule) -> bool:
    """Whether a checkpoint was made with the settings of this model."""
    try:
        noted = read_checkpoint(checkpoint).get("hyper_parameters")
    except InputError:
        return False
    ours = {key: value for key, value in module.hparams.items() if not key.startswith("_")}
    return isinstance(noted, dict) and all(noted.get(key, ours[key]) == ours[key] for key in ours)


def _check_profile(trainer: Trainer) -> None:
    """Refuse to add a profile to a file that is none."""
    profiler: Any = trainer.profiler  # type: ignore[attr-defined]
    name, folder = getattr(profiler, "filename", None), getattr(profiler, "dirpath", None)
    place = str(folder or own_folder(trainer))
    if not name or not _is_local(place):
        return
    for path in Path(place).glob("*"):
        if name in path.name and path.is_file() and "Profiler Report" not in head(path):
            refuse(path, "something else than a profile", "another dirpath or filename")


class PatientWriter(ExperimentWriter):
    """Writes ``metrics.csv`` and ``hparams.yaml`` when the run has begun, and no sooner.

    Lightning's own deletes an earlier ``metrics.csv`` while the run is still being checked.

    Args:
        log_dir: Folder of the run.
        goes_on: Add to what is there, since the run goes on.
    """

    def __init__(self, log_dir: str, goes_on: bool) -> None:
        self.goes_on, self.begun = goes_on, False
        super().__init__(log_dir)

    def _check_log_dir_exists(self) -> None:
        """Leave everything as it is."""

    def begin(self) -> None:
        """Nothing stands against the run any more."""
        if self.begun:
            return
        self.begun, file = True, Path(self.metrics_file_path)
        if not self.goes_on:
            file.unlink(missing_ok=True)
        elif file.is_file():
            with file.open(newline="") as opened:
                self.metrics_keys = next(csv.reader(opened), [])
        if self.hparams:
            super().log_hparams({})

    def log_hparams(self, params: dict[str, Any]) -> None:
        """Note settings, and write them if the run has begun."""
        self.hparams.update(params)
        if self.begun:
            super().log_hparams({})

    def save(self) -> None:
        """Write the metrics if the run has begun."""
        if self.begun:
            super().save()


class ConfigOfBegun(SaveConfigCallback):
    """Saves the configuration when the run has begun: one that is refused changes nothing.

    That something was to be replaced belongs to the command, not to the run.
    """

    def __init__(self, parser: LightningArgumentParser, config: Namespace, **options: Any) -> None:
        super().__init__(parser, config.clone(), **options, save_to_log_dir=False)
        self.config.overwrite = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Too early: a checkpoint that does not fit is found after this."""

    def save_config(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Write it to the folder of the run."""
        file = ensure_directory(own_folder(trainer)) / self.config_filename
        self.parser.save(self.config, str(file), skip_none=False, overwrite=True, multifile=False)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The checkpoint, if any, has been restored."""
        for logger in trainer.loggers if trainer.is_global_zero else []:
            writer = getattr(logger, "_experiment", None)
            if isinstance(writer, PatientWriter):
                writer.begin()
        if not self.already_saved and trainer.log_dir:
            super().setup(trainer, pl_module, "")

    on_sanity_check_start = on_validation_start = on_train_start
    on_test_start = on_predict_start = on_train_start
