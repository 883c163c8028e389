"""``lightning fit | validate | test | predict``: Lightning's command line with our classes."""

from __future__ import annotations

import re
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import set_parsing_settings
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.seed import max_seed_value
from omegaconf.errors import OmegaConfBaseException
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.callbacks import ProgressBar
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from lightning_sasv.callbacks import KeepBest, LeaveSignals
from lightning_sasv.callbacks.leave_signals import end_ranks
from lightning_sasv.callbacks.write_results import finish, is_dry_run, written_folder
from lightning_sasv.commands.arguments import OneLineErrors, check_overwrite, one_line
from lightning_sasv.commands.configs import check_command, check_readable, make
from lightning_sasv.commands.from_checkpoint import data_of, model_of, take_settings
from lightning_sasv.commands.loading import (
    check_words,
    guard_resolvers,
    library,
    open_imports,
    read_within_limits,
)
from lightning_sasv.commands.requeue import NoteJob, began, check_leftovers, requeueing
from lightning_sasv.commands.run_folder import ConfigOfBegun, taken
from lightning_sasv.console import print_written, quiet
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.files import inside
from lightning_sasv.models import SASVModule
from lightning_sasv.models.restoring import read_as_data, restoring
from lightning_sasv.program import program, shipped_configs
from lightning_sasv.report.tables import print_results
from lightning_sasv.results import METRICS_FILE, read_metrics
from lightning_sasv.signals import add_helper, advising

DEFAULT_SEED = 1986
_LOST_PROCESS = ("Connection closed by peer", "gloo", "NCCL", "Timed out waiting")
_LIGHTNING = ("pytorch_lightning", "lightning_fabric")
RESUME = "finished epochs are kept: go on with --ckpt_path last"
STAGES = ("fit", "validate", "test", "predict")


class Parser(OneLineErrors, LightningArgumentParser):
    """Lightning's parser with one-line errors.

    Sections can stand in files of their own (``trainer: FILE``). Single values cannot: a list would
    be filled with the lines of whatever file it names.
    """

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        """Arguments of a class, from the configuration itself."""
        added: list[str] = super().add_class_arguments(*args, **kwargs | {"sub_configs": False})
        return added


def base_config() -> Path:
    """``configs/base.yaml``: in the checkout, or inside an installed package."""
    return shipped_configs()["base"]


def as_seeds(seed: int | bool) -> list[int]:
    """Training seeds of ``--seed_everything``: one, the default where it is a mere yes or no."""
    return [DEFAULT_SEED] if isinstance(seed, bool) else [seed]


class SASVCLI(LightningCLI):
    """Lightning's command line; ``fit`` ends with the evaluation of the best checkpoint."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Our own options, and the links from one to another."""
        threads = "CPU threads; the last bits of a result depend on it, and for a model of this "
        threads += "size one is as good as more"
        parser.add_argument("--threads", type=int, default=1, help=threads)
        after = "after fit: score dev and eval with the best checkpoint, write and show metrics"
        parser.add_argument("--evaluate", type=bool, default=True, help=after)
        replaces = "write to the folders of the run whatever they hold; from the command line alone"
        parser.add_argument("--overwrite", type=bool, default=False, help=replaces)
        for part in ("data", "model"):
            parser.link_arguments("seed_everything", f"{part}.seeds", compute_fn=as_seeds)

    @property
    def note(self) -> NoteJob:
        """The callback that knows the command."""
        callbacks: list[Callback] = self.trainer_defaults["callbacks"]
        return next(one for one in callbacks if isinstance(one, NoteJob))

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse, and take the word to replace things from the user alone."""
        super().parse_arguments(parser, args)
        check_overwrite(self.config[self.config.subcommand].overwrite, args)

    def _set_seed(self) -> None:
        """Check the seed before Lightning takes it."""
        seed = self._get(self.config, "seed_everything")
        if not (isinstance(seed, bool) or 0 <= seed <= max_seed_value):
            raise InputError(f"--seed_everything must lie in 0 to {max_seed_value}, got {seed}")
        super()._set_seed()

    def before_instantiate_classes(self) -> None:
        """Set the number of threads before anything is computed."""
        threads = self.config[self.subcommand].threads
        if threads < 1:
            raise InputError(f"--threads must be at least 1, got {threads}")
        torch.set_num_threads(threads)
        asked = self.config[self.subcommand].get("ckpt_path")
        if asked == "last" or (asked is None and self.subcommand == "fit"):
            self._resume_in_place()

    def _add_instantiators(self) -> None:
        """Have every object made by the gate."""
        super()._add_instantiators()
        self.parser.add_instantiator(make, object)

    def instantiate_classes(self) -> None:
        """Check the whole configuration before the first object is made."""
        owners = {"trainer": Trainer, "model": SASVModule, "data": SASVDataModule}
        check_command(self.config[self.subcommand], owners)
        super().instantiate_classes()

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        """Make the Trainer; with ``--quiet`` without the progress bars that it was given."""
        given = config["callbacks"]
        if program().quiet:
            given = given if isinstance(given, list) else [given] if given else []
            given = [one for one in given if not isinstance(one, ProgressBar)]
            config = {**config, "callbacks": given, "enable_progress_bar": False}
        made: Trainer = super()._instantiate_trainer(config, callbacks)
        return made

    def after_instantiate_classes(self) -> None:
        """Check the corpus before the Trainer makes a folder for the run."""
        self._use_others()
        read_as_data(self.trainer, self.config[self.subcommand].get("ckpt_path"))
        self.datamodule.setup(self.subcommand)
        self.model.check(self.datamodule.corpus)
        add_helper(lambda _: end_ranks(self.trainer))
        check_leftovers(self.trainer, self.config[self.subcommand].get("ckpt_path"))

    def _parse_ckpt_path(self) -> None:
        """Take the settings of the model from a checkpoint, in place of Lightning's own way."""
        config = self.config.get(self.config.get("subcommand"))
        self.others = {} if config is None else take_settings(config)

    def _use_others(self) -> None:
        """Put classes of other packages, which a checkpoint was made with, in place of ours."""
        config = self.config[self.subcommand]
        if "model" in self.others:
            self.model = model_of(self.others["model"], self.model, config.ckpt_path)
        if "data" in self.others:
            self.datamodule = data_of(self.others["data"], config.data, config.ckpt_path)

    def _resume_in_place(self) -> None:
        """Let ``--ckpt_path last`` mean the newest run of the same name, and go on in its folder.

        Lightning looks for the last checkpoint in the folder of the run, and the CSV logger would
        make a new folder. A SLURM job that was started again means its own run, asked or not.
        """
        config = self.config[self.subcommand]
        given = config.trainer.logger
        for logger in given if isinstance(given, list) else [given]:
            if (
                not logger
                or logger is True
                or not str(logger.get("class_path", "")).endswith("CSVLogger")
            ):
                continue
            folder = Path(logger.init_args.save_dir) / (logger.init_args.name or "")
            runs = [path.parents[1] for path in folder.glob("version_*/checkpoints/last.ckpt")]
            own = [run for run in runs if began(run, self.note.words)]
            chosen = own or (runs if config.get("ckpt_path") == "last" else [])
            names = [inside(folder, run).name.removeprefix("version_") for run in chosen]
            versions = [int(name) for name in names if name.isdecimal()]
            if versions:
                logger.init_args.version, config.ckpt_path = max(versions), "last"
                return
        config.ckpt_path = None  # killed before its first checkpoint: begin anew

    def _run_subcommand(self, subcommand: str) -> None:
        """Run, as the only one who writes to the folders of the run."""
        text = self._parser(subcommand).dump(self.config[subcommand])
        with taken(self.trainer, self.model, self.datamodule.corpus.name, yaml.safe_load(text)):
            super()._run_subcommand(subcommand)

    def after_fit(self) -> None:
        """Validate and test the best epoch, so that ``fit`` ends with results."""
        if self.config[self.subcommand].evaluate and not is_dry_run(self.trainer):
            finish(self.trainer, self.model, self.datamodule)
            self._show()

    def after_validate(self) -> None:
        """Show the results."""
        self._show()

    after_test = after_validate

    def after_predict(self) -> None:
        """Say where the scores are."""
        self._show(table=False)

    def _show(self, table: bool = True) -> None:
        """Table of the metrics, which corpus they come from, and where they were written."""
        folder = written_folder(self.trainer)  # every process takes part in finding it
        if folder is None or not self.trainer.is_global_zero:
            return
        if table and (folder / METRICS_FILE).exists():
            print_results(read_metrics(folder / METRICS_FILE), self.datamodule.corpus.name)
        print_written(folder)


def _below(error: BaseException | None) -> InputError | None:
    """Our own message inside the errors that others made of it."""
    if error is None or isinstance(error, InputError):
        return error
    return _below(error.__cause__ or error.__context__)


def _is_lightnings(error: Exception) -> bool:
    """Whether Lightning itself says that a value is none, e.g. a strategy for another device."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return isinstance(error, ValueError | TypeError) and package in _LIGHTNING


def _of_system(error: OSError) -> InputError | None:
    """What an error with a file means; one of a stream is a matter of the terminal."""
    if error.filename is not None:
        where = f"cannot use {error.filename}: {error.strerror}"
        return InputError(f"{where}; choose another file or directory")
    if error.strerror:
        return None
    return InputError(one_line(str(error)))  # Lightning's own text, e.g. of a missing checkpoint


def _as_message(error: Exception) -> InputError | RunError | None:
    """What an error of Lightning's means to the user; nothing for a mistake of ours."""
    if isinstance(error, OSError):
        return _of_system(error)
    found = _below(error)
    if found is not None:
        return found
    if isinstance(error, OmegaConfBaseException):
        return InputError(f"configuration: {one_line(str(error))}")
    if isinstance(error, ValueError) and "Does not validate against" in str(error):
        return InputError(one_line(str(error)))  # e.g. a logger whose package is not installed
    if isinstance(error, MisconfigurationException) or _is_lightnings(error):
        return InputError(f"the Trainer refuses its settings: {one_line(str(error))}")
    if isinstance(error, RuntimeError) and any(word in str(error) for word in _LOST_PROCESS):
        return RunError(
            "another process of this run died or did not answer in time; its own message stands "
            "above. Resume with --ckpt_path last"
        )
    return None


def absolute_keys(args: Sequence[str]) -> list[str]:
    """Let ``${data.batch_size}`` in a flag mean what it means in a file: the command's own key.

    Example:
        >>> absolute_keys(["fit", "--data.score_batch_size=${data.batch_size}"])
        ['fit', '--data.score_batch_size=${fit.data.batch_size}']
    """
    command, *words = args
    own = rf"\$\{{(?!{command}\.)(?=[A-Za-z_][\w.\[\]]*\}})"  # no resolver, no relative key
    return [command, *(re.sub(own, f"${{{command}.", word) for word in words)]


def train(args: Sequence[str]) -> SASVCLI:
    """Run one of the training commands.

    Args:
        args: Command and options, e.g. ``["fit", "--config", "configs/L3c.yaml"]``.
    """
    quiet()
    check_words(args)
    read_within_limits(interpolations=True)
    check_readable(args)
    open_imports(library())
    guard_resolvers()
    args = ["--overwrite=true" if word == "--overwrite" else word for word in args]
    args = absolute_keys(args)
    if args[0] in ("validate", "test") and not any(a.startswith("--verbose") for a in args):
        args = [*args, "--verbose=false"]  # our own table is shown instead of Lightning's
    set_parsing_settings(omegaconf_absolute_to_relative_paths=True)
    settings: dict[str, Any] = {"parser_mode": "omegaconf+", "allow_abbrev": False}
    with_base = settings | {"default_config_files": [str(base_config())]}
    usage = "lightning {} [--config FILE] [--data.… --model.… --trainer.… and other options]"
    stages = {stage: with_base | {"usage": usage.format(stage)} for stage in STAGES}
    try:
        resumable = advising("start the same command again")
        with restoring(), requeueing(args[0]), resumable:
            return SASVCLI(
                SASVModule,
                SASVDataModule,
                parser_class=Parser,
                parser_kwargs=settings | {"prog": "lightning"} | stages,
                trainer_defaults={"callbacks": [KeepBest(), LeaveSignals(RESUME), NoteJob(args)]},
                seed_everything_default=DEFAULT_SEED,
                auto_configure_optimizers=False,
                save_config_callback=ConfigOfBegun,
                save_config_kwargs={"overwrite": True},
                args=list(args),
            )
    except Exception as error:
        known = _as_message(error)
        if known is None:
            raise
        raise known from None
