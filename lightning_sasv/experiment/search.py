"""``lightning sweep --search optuna``: the points of a sweep file chosen by a search.

Optuna's TPE chooses each point by those before it. The runs are those of an offline sweep; what
they reached on dev is kept in a file, so that the same command goes on. A training tells how it
goes, and ends where going on is not worth it.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.trainer.states import TrainerFn

from lightning_sasv.console import print_line
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment.recipe import digest
from lightning_sasv.experiment.sweep import FIRST_FAILURES, SweepOutcome, note_of, run_point
from lightning_sasv.experiment.sweep_file import Sweep, check_parameters, expand, values_of
from lightning_sasv.files import ensure_directory, inside, unshare
from lightning_sasv.metrics_file import values_in
from lightning_sasv.program import SEARCH
from lightning_sasv.results import METRICS_FILE, read_metrics, value_of

if TYPE_CHECKING:
    from optuna import Study, Trial

_DIRECTIONS = ("minimize", "maximize")

PRUNED, REACHED = "pruned", "reached"
"""Mark of a trial that was ended early, and what the best epoch of one that was not reached."""

STARTUP = 5
"""Trials that are never ended early: there is nothing to compare them with."""


def open_study(journal: str, name: str, direction: str) -> Study:
    """A search that is kept in a file, new or gone on with; Optuna's median rule ends trials.

    Args:
        journal: The file: lines of JSON.
        name: Name of the search.
        direction: ``minimize`` or ``maximize``.

    Raises:
        InputError: Optuna is missing, or the file is damaged or a link that leads elsewhere.
    """
    unshare(inside(Path(journal).parent, journal))
    try:
        import optuna
        from optuna.storages import JournalStorage
        from optuna.storages.journal import JournalFileBackend
    except ImportError:
        raise InputError(
            "--search optuna needs Optuna: pip install 'lightning-sasv[search]'"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        return optuna.create_study(
            study_name=name,
            storage=JournalStorage(JournalFileBackend(journal)),
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP),
            direction=direction,  # type: ignore[arg-type]  # checked by who read it
            load_if_exists=True,
        )
    except OSError:
        raise
    except Exception as error:  # a damaged file can raise nearly anything
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"{journal} is damaged ({said}); remove it to begin anew") from None


class Prune(Callback):
    """Reports the dev metric of each epoch to the search that started this training.

    Where the search says so, the training ends there: every process does. The ``validate`` after a
    training tells what its best epoch reached.
    """

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Report, and ask whether to go on."""
        if trainer.sanity_checking:
            return
        fitting = trainer.state.fn == TrainerFn.FITTING
        said = self._ask(trainer, fitting) if trainer.is_global_zero else ""
        if said := trainer.strategy.broadcast(said):
            raise RunError(said)

    @staticmethod
    def _ask(trainer: Trainer, fitting: bool) -> str:
        """Why to end, or nothing."""
        import optuna

        told = json.loads(os.environ[SEARCH])
        metric, epoch = told["metric"], trainer.current_epoch
        if metric not in trainer.callback_metrics:
            known = ", ".join(sorted(trainer.callback_metrics))
            raise InputError(f"metric.name: nothing is logged as {metric}; there are {known}")
        study = open_study(told["journal"], told["study"], told["direction"])
        trial, value = optuna.Trial(study, told["trial"]), float(trainer.callback_metrics[metric])
        if not fitting:
            trial.set_user_attr(REACHED, value)
            return ""
        trial.report(value, epoch)
        if not trial.should_prune():
            return ""
        trial.set_user_attr(PRUNED, True)
        return f"{PRUNED} after epoch {epoch}: {metric} is {value:.4g}, worse than the median"


def target_of(sweep: Sweep) -> tuple[str, str]:
    """What a search is for: a metric of dev and ``minimize`` or ``maximize``.

    Raises:
        InputError: The sweep file names none, or one of the eval set, by which nothing is chosen.
    """
    told = sweep.content.get("metric")
    found = {"goal": "minimize", **told} if isinstance(told, dict) else {}
    name, goal = str(found.get("name", "")), str(found.get("goal"))
    if not name.startswith(("val/", "dev/")) or goal not in _DIRECTIONS:
        raise InputError(
            f"{sweep.path}: a search needs metric: {{name: val/sasv_eer, goal: minimize}}, a "
            f"metric of dev; got name {name or 'none'!r}, goal {goal!r}"
        )
    return name, goal


def suggest(trial: Trial, parameters: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The next point: values of a list, or of a range on its own or a logarithmic scale.

    Args:
        trial: A trial of Optuna.
        parameters: As W&B has them: ``value``, ``values``, or ``min`` and ``max`` with a
            ``distribution`` (``uniform``, ``int_uniform``, ``log_uniform_values``).
    """
    point = {}
    for name, settings in check_parameters(parameters).items():
        own = settings if isinstance(settings, dict) else {}
        if "min" in own and "max" in own:
            point[name] = _between(trial, name, own)
            continue
        values = values_of(name, own)
        if values in ([], [None]):
            raise InputError(f"parameter {name!r} of a search needs values, value, or min and max")
        point[name] = json.loads(trial.suggest_categorical(name, list(map(json.dumps, values))))
    return point


def _between(trial: Trial, name: str, own: Mapping[str, Any]) -> float:
    """A value of a range."""
    low, high = own["min"], own["max"]
    whole = isinstance(low, int) and isinstance(high, int)
    kind = own.get("distribution", "int_uniform" if whole else "uniform")
    known = ("uniform", "int_uniform", "log_uniform_values")
    numbers = all(isinstance(v, int | float) and abs(v) < 2.0**53 for v in (low, high))
    if kind not in known or not numbers or low > high or (kind == known[2] and low <= 0):
        raise InputError(
            f"parameter {name!r}: a search knows the distributions {', '.join(known)} between min "
            f"and max, got {kind} between {low} and {high}"
        )
    if kind == "int_uniform":
        return trial.suggest_int(name, int(low), int(high))
    return trial.suggest_float(name, float(low), float(high), log=kind == known[2])


def run_search(sweep: Sweep, folder: Path, runs: int, options: Sequence[str] = ()) -> SweepOutcome:
    """Run so many points, those of an earlier call of the same search among them.

    Args:
        sweep: What to search.
        folder: Working directory of each run.
        runs: Finished runs after which it ends; those that were ended early count.
        options: Further options of each run.
    """
    import optuna

    metric, goal = target_of(sweep)
    command, parameters = [*sweep.command(), *options], sweep.content["parameters"]
    name = digest([command, parameters, metric, goal])
    notes = ensure_directory(note_of(sweep, command, folder).parent.resolve())
    journal = str(notes / f"search-{name}.journal")
    study = open_study(journal, name, goal)
    done = SweepOutcome()
    for number in range(_finished(study) + 1, runs + 1):
        study.sampler = optuna.samplers.TPESampler(seed=number)  # the same, gone on with or not
        trial = study.ask()
        point = suggest(trial, parameters)
        words = expand(command, point)
        told = {"journal": journal, "study": name, "trial": trial._trial_id}
        told |= {"metric": metric, "direction": goal}
        print_line(f"run {number} of {runs}: {point}")
        note = note_of(sweep, words, folder)
        run = run_point(sweep, words, point, note, folder, {SEARCH: json.dumps(told)})
        done.add(point, run, not _tell(study, trial, None if run is None else run.folder, metric))
        if not _finished(study) and len(done.failed) == FIRST_FAILURES:
            break
    _say(study, metric, parameters)
    return done


def _tell(study: Study, trial: Trial, folder: Path | None, metric: str) -> bool:
    """Tell the search what became of a trial; whether it was not a failure.

    A training says itself what its best epoch reached; of other commands the results say it.
    """
    from optuna.trial import TrialState

    noted = study.trials[trial.number].user_attrs
    pruned, value = PRUNED in noted, math.nan
    if folder is not None:
        value = noted[REACHED] if REACHED in noted else _value(folder, metric)
    reached = not pruned and math.isfinite(value)
    state = TrialState.PRUNED if pruned else None if reached else TrialState.FAIL
    study.tell(trial, value if reached else None, state=state)
    return pruned or reached


def _finished(study: Study) -> int:
    """How many points have been tried; one that was broken off with its command is given up."""
    from optuna.trial import TrialState

    for trial in study.get_trials(states=[TrialState.RUNNING]):
        study.tell(trial.number, state=TrialState.FAIL)
    return len(study.get_trials(states=[TrialState.COMPLETE, TrialState.PRUNED]))


def _value(folder: Path, metric: str) -> float:
    """What the results of a run say of a metric of dev, of its one system or the one it names.

    Raises:
        InputError: They say nothing of it.
    """
    found, (_, *named, name) = read_metrics(folder / METRICS_FILE), metric.split("/")
    systems = ["/".join(named)] if named else list(found)
    if len(systems) > 1 or systems[0] not in found:
        known = ", ".join(f"dev/{system}/{name}" for system in found)
        raise InputError(f"metric.name: {metric} is of which system of {folder}? There are {known}")
    values = values_in(found[systems[0]], "dev")
    if name not in values:
        known = ", ".join(values)
        raise InputError(f"metric.name: {folder} has no {name} of dev; there are {known}")
    return value_of(values, name)


def _say(study: Study, metric: str, parameters: Mapping[str, Any]) -> None:
    """The best point."""
    from optuna.trial import TrialState

    found = study.get_trials(states=[TrialState.COMPLETE])
    if found:
        best = study.best_trial
        at = ", ".join(f"{name} {best.params[name]}" for name in parameters if name in best.params)
        early = len(study.get_trials(states=[TrialState.PRUNED]))
        print_line(f"best of {len(found)} runs ({early} more were ended early): {at}")
        print_line(f"its {metric} on dev: {best.value:.6g}")
