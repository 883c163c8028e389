"""``lightning fit | validate | test | predict``: Lightning's command line with our classes."""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from jsonargparse import Namespace, set_parsing_settings
from lightning_fabric.utilities.seed import max_seed_value
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI
from torch import distributed

from lightning_sasv.callbacks import FitFusion, LeaveSignals, WriteResults
from lightning_sasv.callbacks.run_folder import is_dry_run
from lightning_sasv.callbacks.standard import end_ranks, settle
from lightning_sasv.callbacks.write_results import check_results, finish, written_folder
from lightning_sasv.checkpoints import is_remote, need_trust
from lightning_sasv.commands.arguments import CommandHelp, OneLineErrors, check_typed, replaced
from lightning_sasv.commands.configs import (
    as_message,
    check_command,
    check_readable,
    make,
    optimisation,
)
from lightning_sasv.commands.from_checkpoint import Origin, data_of, go_on_logging, model_of
from lightning_sasv.commands.loading import (
    check_words,
    library,
    open_imports,
    read_within_limits,
)
from lightning_sasv.commands.run_folder import ConfigOfBegun, taken
from lightning_sasv.commands.runs import (
    NoteJob,
    find_checkpoint,
    go_on_in_place,
    place_results,
    requeueing,
)
from lightning_sasv.console import print_checked, print_notes, print_written, quiet
from lightning_sasv.data.datamodule import SASVDataModule
from lightning_sasv.errors import InputError
from lightning_sasv.models import SASVModule
from lightning_sasv.models.objectives import chosen_objective
from lightning_sasv.models.restoring import read_as_data, restoring
from lightning_sasv.models.training import check_trainer
from lightning_sasv.program import SEARCH, check_threads, program, shipped_configs
from lightning_sasv.report.tables import print_results
from lightning_sasv.results import METRICS_FILE, read_metrics
from lightning_sasv.signals import add_helper, advising
from lightning_sasv.systems import own_systems, read_systems
from lightning_sasv.terminal import USER_ERROR

DEFAULT_SEED = 1986
RESUME = "finished epochs are kept: go on with --ckpt_path last"
STAGES = ("fit", "validate", "test", "predict")
BARE = ("--overwrite", "--refit", "--check")
"""Options that are a yes by their name alone."""

_TRAINER = "Lightning's Trainer (--trainer.KEY.help CLASS describes what it can be made of)"
_TITLES = {
    "Customize": _TRAINER,
    "Countermeasure": "the model",
    "Training": "the data",
    "Base": "the optimiser, in place of Adam",
    "(<class": "the schedule of its learning rate",
    **dict.fromkeys(("Runs", "Perform", "Run"), "the checkpoint"),
}
"""Headings of the help, by the first word that Lightning or a docstring gives them."""


class Parser(OneLineErrors, LightningArgumentParser):
    """Lightning's parser with one-line errors.

    Sections can stand in files of their own (``trainer: FILE``). Single values cannot: a list would
    be filled with the lines of whatever file it names. Its help shows our options first, then
    Lightning's.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"formatter_class": CommandHelp} | kwargs)

    def format_help(self, *args: Any, **kwargs: Any) -> str:
        """The help text."""
        for group in self._action_groups:
            group.title = _TITLES.get(str(group.title).partition(" ")[0], group.title)
        self._action_groups = sorted(self._action_groups, key=lambda one: one.title == _TRAINER)
        text: str = super().format_help(*args, **kwargs)
        return re.sub(r"default config file locations:\n(?:  .*\n)+\n", "", text)

    def add_class_arguments(self, *args: Any, **kwargs: Any) -> list[str]:
        """Arguments of a class, from the configuration itself."""
        added: list[str] = super().add_class_arguments(*args, **kwargs | {"sub_configs": False})
        return added


def base_config() -> Path:
    """``configs/base.yaml``: in the checkout, or inside an installed package."""
    return shipped_configs()["base"]


def as_seeds(seed: int | bool) -> list[int]:
    """Training seeds of ``--seed_everything``: one; of a mere yes or no it is still to be found."""
    return [] if isinstance(seed, bool) else [seed]


def find_seed(drawn: bool) -> int:
    """The seed of ``--seed_everything``: for ``true`` one is drawn, for ``false`` the default.

    The processes that a training starts take that of the first.
    """
    if not drawn:
        return DEFAULT_SEED
    if "LOCAL_RANK" in os.environ or os.environ.get("SLURM_NTASKS", "1") != "1":
        if "PL_GLOBAL_SEED" not in os.environ:
            raise InputError(
                "--seed_everything true: several processes need the same number; give one"
            )
        return int(os.environ["PL_GLOBAL_SEED"])
    return secrets.randbelow(max_seed_value + 1)


class SASVCLI(LightningCLI):
    """Lightning's command line; ``fit`` ends with the evaluation of the best checkpoint."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Our own options, and the links from one to another."""
        threads = "CPU threads; the last bits of a result depend on it, and for a model of this "
        threads += "size one is as good as more"
        parser.add_argument("--threads", type=int, default=1, help=threads)
        after = "after fit: score dev and eval with the best checkpoint, write and show metrics"
        parser.add_argument("--evaluate", type=bool, default=True, help=after)
        anew = (
            "validate, test, predict: fit the systems of --model.systems on dev, in place of those "
        )
        anew += "of the checkpoint"
        parser.add_argument("--refit", type=bool, default=False, help=anew)
        run = "folder of a run, in place of --ckpt_path: its best checkpoint, for fit its last one"
        parser.add_argument("run", type=str | None, nargs="?", default=None, help=run)
        replaces = "write to the folders of the run whatever they hold; from the command line alone"
        parser.add_argument("--overwrite", type=bool, default=False, help=replaces)
        alone = "check settings, classes and data, say what was checked, and stop: nothing is "
        alone += "written, and no logger is made"
        parser.add_argument("--check", type=bool, default=False, help=alone)
        for part in ("data", "model"):
            parser.link_arguments("seed_everything", f"{part}.seeds", compute_fn=as_seeds)

    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        """Parse, with what a checkpoint was made with in place of the defaults."""
        super().parse_arguments(parser, args)
        stage = self.config.subcommand
        told = self.config[stage]
        check_typed("overwrite", told.overwrite, args)
        path = find_checkpoint(stage, told, args)
        self.origin = None if path is None or is_remote(path) else Origin.read(path)
        if isinstance(told.seed_everything, bool):
            known = self.origin.seeds if self.origin else []
            seed = known[0] if known else find_seed(told.seed_everything)
            args = [*args, f"--seed_everything={seed}"]
            super().parse_arguments(parser, args)  # again, since others are linked to it
        if self.origin is None:
            self._take(path)
            return
        self._parser(stage).set_defaults(self.origin.defaults())
        super().parse_arguments(parser, args)
        config = self.config[stage]
        if stage == "fit":
            go_on_in_place(config, self.origin.path)
        else:
            self.asked = self.origin.scored_with(config, told)
            self.results = place_results(stage, config, self.origin.path, self.asked)
        self._take(path)

    def _take(self, path: str | None) -> None:
        """Note the checkpoint that is meant; it is read as data."""
        config = self.config[self.config.subcommand]
        if path is not None and is_remote(path):
            need_trust(f"--ckpt_path: {path} is not a file of this machine")
        if config.weights_only is False:
            need_trust("weights_only: false lets a checkpoint run code")
        config.weights_only, config.ckpt_path, config.run = True, path, None

    def _parse_ckpt_path(self) -> None:
        """Done: Lightning's own way parses the settings of a checkpoint like a configuration."""

    def _set_seed(self) -> None:
        """Check the seed before Lightning takes it."""
        seed = self._get(self.config, "seed_everything")
        if not (isinstance(seed, bool) or 0 <= seed <= max_seed_value):
            raise InputError(f"--seed_everything must lie in 0 to {max_seed_value}, got {seed}")
        super()._set_seed()

    def before_instantiate_classes(self) -> None:
        """Set the number of threads before anything is computed."""
        threads = self.config[self.subcommand].threads
        check_threads(threads)
        torch.set_num_threads(threads)

    def _add_instantiators(self) -> None:
        """Have every object made by the gate."""
        super()._add_instantiators()
        self.parser.add_instantiator(make, object)

    def instantiate_classes(self) -> None:
        """Check the whole configuration before the first object is made."""
        owners = {"trainer": Trainer, "model": SASVModule, "data": SASVDataModule}
        config = self.config[self.subcommand]
        check_command(config, owners)
        if config.check:  # loggers may write when they are made; what they are told was looked at
            self.named = [*_names(config.trainer.logger), *_names(config.trainer.callbacks)]
            config.trainer.logger = False
        super().instantiate_classes()

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Callback]) -> Trainer:
        """Make the Trainer, with the callbacks of every run; with ``--quiet`` no progress bars."""
        settled = settle(config, program().quiet)
        made: Trainer = super()._instantiate_trainer(settled, callbacks)
        check_trainer(made)
        return made

    def _add_configure_optimizers_method_to_model(self, subcommand: str | None) -> None:
        """The module is told later; Lightning's way ignores a schedule of our own optimiser."""

    def after_instantiate_classes(self) -> None:
        """Check the corpus before the Trainer makes a folder for the run."""
        config = self.config[self.subcommand]
        if (self.subcommand != "fit" or config.evaluate) and not is_dry_run(self.trainer):
            check_results(self.trainer, str(self.subcommand))
        read_as_data(self.trainer, config.ckpt_path)
        if self.origin is not None:
            self._use(self.origin)
        self.model.optimizer, self.model.lr_scheduler = optimisation(config)
        self.datamodule.setup(self.subcommand)
        self.model.check(self.datamodule.corpus, self.subcommand == "fit")
        notes: list[str] = []
        if self.subcommand == "fit":
            objective = chosen_objective(config.model.objective, self.model.names)
            notes = [*self.model.left_out, *objective]
        elif self.origin is not None:
            notes = self.origin.notes(self.datamodule.corpus, self.asked)
        print_notes(notes if self.trainer.is_global_zero else [])
        add_helper(lambda _: end_ranks(self.trainer))

    def _use(self, origin: Origin) -> None:
        """Put classes of others in place of ours, and tell callbacks and loggers where to go on."""
        config = self.config[self.subcommand]
        if "model" in origin.others:
            self.model = model_of(origin.others["model"], self.model, origin.path)
        if "data" in origin.others:
            self.datamodule = data_of(origin.others["data"], config.data, origin.path)
        if self.subcommand == "fit":
            go_on_logging(self.trainer, origin)
            return
        self.model.refits = config.refit
        for callback in self.trainer.callbacks:  # type: ignore[attr-defined]
            if isinstance(callback, WriteResults):
                callback.folder = callback.folder or self.results
            elif isinstance(callback, FitFusion) and config.refit:
                callback.each_epoch = False

    def _run_subcommand(self, subcommand: str) -> None:
        """Run, as the only one who writes to the folders of the run."""
        if self.config[subcommand].check:
            if self.trainer.is_global_zero:
                print_checked(self._checked())
            return
        text = self._parser(subcommand).dump(self.config[subcommand])
        with taken(self.trainer, self.model, self.datamodule.corpus.name, yaml.safe_load(text)):
            super()._run_subcommand(subcommand)

    def _checked(self) -> list[str]:
        """What was found sound."""
        path = self.config[self.subcommand].ckpt_path
        return [
            f"settings of {self.subcommand}; systems {', '.join(self.model.names)}; head "
            f"{self.model.hparams['head']}",
            f"loggers and callbacks: {', '.join(self.named) or 'none but our own'}",
            f"corpus {self.datamodule.corpus.name}: {self.datamodule.corpus.sizes}",
            *([] if path is None else [f"checkpoint {path}"]),
        ]

    def before_test(self) -> None:
        """Fit on dev first, where that was asked for."""
        if self.config[self.subcommand].refit:
            path = self.config[self.subcommand].ckpt_path
            self.trainer.validate(
                self.model, datamodule=self.datamodule, ckpt_path=path, verbose=False
            )

    before_predict = before_test

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


def _names(given: Any) -> list[str]:
    """Names of the classes at a place of a configuration."""
    listed = given if isinstance(given, list) else [given]
    found = [str(one["class_path"]) for one in listed if isinstance(one, Namespace)]
    return [name.rpartition(".")[2] for name in found]


def absolute_keys(args: Sequence[str]) -> list[str]:
    """Let ``${data.batch_size}`` in a flag mean what it means in a file: the command's own key.

    Example:
        >>> absolute_keys(["fit", "--data.score_batch_size=${data.batch_size}"])
        ['fit', '--data.score_batch_size=${fit.data.batch_size}']
    """
    command, *words = args
    own = rf"\$\{{(?!{command}\.)(?=[A-Za-z_][\w.\[\]]*\}})"  # no resolver, no relative key
    return [command, *(re.sub(own, f"${{{command}.", word) for word in words)]


def with_systems(args: Sequence[str]) -> list[str]:
    """The words with the settings of systems in place of the YAML files that hold them.

    Example:
        >>> with_systems(["fit", "--systems", "L3c,B1"])
        ['fit', '--model.systems=["L3c", "B1"]']
    """
    return replaced(args, ("--systems", "--model.systems"), _as_settings)


def _as_settings(text: str) -> Iterator[str]:
    if "${" in text or not text.strip("[] "):  # the value of another key, or none
        yield f"--model.systems={text}"
        return
    systems = read_systems(text)
    yield f"--model.systems={json.dumps(list(systems))}"
    if own := own_systems(systems):
        yield f"--model.own_systems={json.dumps(own)}"


@contextmanager
def leaving_group() -> Iterator[None]:
    """End the group of a run on several processes while Python still stands, also after a refusal.

    A thread of gloo lets go of the tensors of the last exchange when it comes to it, and needs the
    interpreter for that: one that is gone by then turns a finished run into an abort. Other errors
    may come amid an exchange, whose end would be waited for.
    """
    try:
        yield
    except (InputError, SystemExit) as error:
        if getattr(error, "code", USER_ERROR) == USER_ERROR:
            _leave_group()
        raise
    _leave_group()


def _leave_group() -> None:
    if distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


def _callbacks(args: Sequence[str]) -> list[Callback]:
    """Callbacks of a command, beside those that make results."""
    ours: list[Callback] = [LeaveSignals(RESUME), NoteJob(args)]
    if SEARCH in os.environ:
        from lightning_sasv.experiment.search import Prune

        ours.append(Prune())
    return ours


@leaving_group()
def train(args: Sequence[str], line: type[SASVCLI] = SASVCLI) -> SASVCLI:
    """Run one of the training commands.

    Args:
        args: Command and options, e.g. ``["fit", "--config", "configs/L3c.yaml"]``.
        line: What reads them, and runs.
    """
    quiet()
    check_words(args)
    read_within_limits(interpolations=True)
    check_readable(args)
    open_imports(library())
    args = [f"{word}=true" if word in BARE else word for word in args]
    args = absolute_keys(with_systems(args))
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
            return line(
                SASVModule,
                SASVDataModule,
                parser_class=Parser,
                parser_kwargs=settings | {"prog": "lightning"} | stages,
                trainer_defaults={"callbacks": _callbacks(args)},
                seed_everything_default=DEFAULT_SEED,
                save_config_callback=ConfigOfBegun,
                save_config_kwargs={"overwrite": True},
                args=list(args),
            )
    except Exception as error:
        known = as_message(error)
        if known is None:
            raise
        raise known from None
