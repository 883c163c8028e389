"""``lightning fit | validate | test | predict``: Lightning's command line with our classes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from jsonargparse import set_parsing_settings
from lightning_fabric.utilities.exceptions import MisconfigurationException
from lightning_fabric.utilities.seed import max_seed_value
from omegaconf.errors import OmegaConfBaseException
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

import lightning_sasv
from lightning_sasv.callbacks import KeepBest, NoteInterrupt, interrupts
from lightning_sasv.callbacks.write_results import finish, is_dry_run, written_folder
from lightning_sasv.checkpoints import read_checkpoint
from lightning_sasv.commands.arguments import OneLineErrors, one_line
from lightning_sasv.commands.configs import check_configs
from lightning_sasv.console import print_written, quiet
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.models import SASVModule
from lightning_sasv.report.tables import print_results
from lightning_sasv.results import METRICS_FILE, read_metrics

DEFAULT_SEED = 1986
_LOST_PROCESS = ("Connection closed by peer", "gloo", "NCCL", "Timed out waiting")
_NAMED_CHECKPOINTS = ("best", "last", "hpc")
STAGES = ("fit", "validate", "test", "predict")


class Parser(OneLineErrors, LightningArgumentParser):
    """Lightning's parser with one-line errors."""


def base_config() -> Path:
    """``configs/base.yaml``: in the checkout, or inside an installed package."""
    package = Path(lightning_sasv.__file__).parent
    places = (package / "configs", package.parent / "configs")
    return next((p / "base.yaml" for p in places if (p / "base.yaml").is_file()), places[0])


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
        for part in ("data", "model"):
            parser.link_arguments("seed_everything", f"{part}.seeds", compute_fn=as_seeds)

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
        if self.config[self.subcommand].get("ckpt_path") == "last":
            self._resume_in_place()

    def after_instantiate_classes(self) -> None:
        """Check the corpus before the Trainer makes a folder for the run."""
        self.datamodule.setup(self.subcommand)
        self.model.check(self.datamodule.corpus)

    def _parse_ckpt_path(self) -> None:
        """Check the checkpoint before Lightning takes the settings of the model from it."""
        path = self.config.get(self.config.get("subcommand"), {}).get("ckpt_path")
        if path and path not in _NAMED_CHECKPOINTS and "://" not in path:
            if not Path(path).is_file():
                raise InputError(f"no checkpoint at {path}; give one that `fit` wrote")
            settings = read_checkpoint(path).get("hyper_parameters", {})
            if not isinstance(settings, dict):
                raise InputError(f"{path} is damaged: it does not hold the settings of a model")
        super()._parse_ckpt_path()

    def _resume_in_place(self) -> None:
        """Let ``--ckpt_path last`` mean the newest run of the same name, and go on in its folder.

        Lightning looks for the last checkpoint in the folder of the run, and the CSV logger would
        make a new folder.
        """
        config = self.config[self.subcommand]
        for logger in config.trainer.logger or []:
            if not str(logger.get("class_path", "")).endswith("CSVLogger"):
                continue
            folder = Path(logger.init_args.save_dir) / logger.init_args.name
            versions = [
                int(path.parent.parent.name.removeprefix("version_"))
                for path in folder.glob("version_*/checkpoints/last.ckpt")
            ]
            if versions:
                logger.init_args.version = max(versions)
                return
        config.ckpt_path = None  # killed before its first checkpoint: begin anew

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


def _as_message(error: Exception) -> InputError | RunError | None:
    """What an error of Lightning's means to the user; nothing for a mistake of ours."""
    if isinstance(error, OSError) and error.filename is not None:
        where = f"cannot use {error.filename}: {error.strerror}"
        return InputError(f"{where}; choose another file or directory")
    if isinstance(error, OSError):  # Lightning's own text, e.g. of a missing checkpoint
        return InputError(one_line(str(error)))
    if isinstance(error, OmegaConfBaseException):
        return InputError(f"configuration: {one_line(str(error))}")
    if isinstance(error, MisconfigurationException):
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
    args = absolute_keys(check_configs(args))
    if args[0] in ("validate", "test") and not any(a.startswith("--verbose") for a in args):
        args = [*args, "--verbose=false"]  # our own table is shown instead of Lightning's
    set_parsing_settings(omegaconf_absolute_to_relative_paths=True)
    settings: dict[str, Any] = {"parser_mode": "omegaconf+", "allow_abbrev": False}
    with_base = settings | {"default_config_files": [str(base_config())]}
    usage = "lightning {} [--config FILE] [--data.… --model.… --trainer.… and other options]"
    stages = {stage: with_base | {"usage": usage.format(stage)} for stage in STAGES}
    note = NoteInterrupt()
    try:
        with interrupts(note, "finished epochs are kept: go on with --ckpt_path last"):
            return SASVCLI(
                SASVModule,
                SASVDataModule,
                parser_class=Parser,
                parser_kwargs=settings | {"prog": "lightning"} | stages,
                trainer_defaults={"callbacks": [KeepBest(), note]},
                seed_everything_default=DEFAULT_SEED,
                auto_configure_optimizers=False,
                save_config_kwargs={"overwrite": True},
                args=list(args),
            )
    except Exception as error:
        known = _as_message(error)
        if known is None:
            raise
        raise known from None
