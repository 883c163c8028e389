"""Which checkpoint a training command means, and the folder that it writes to.

In a SLURM job, too: SLURM sends SIGUSR1 before it ends a job that asked for it
(``--signal=USR1@120``), which then goes back into the queue. A job that is started again, whoever
had it requeued, goes on with the runs that it began.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from pytorch_lightning import Callback, LightningModule, Trainer

from lightning_sasv.callbacks.run_folder import is_dry_run, own_folder
from lightning_sasv.commands.run_folder import TESTS
from lightning_sasv.console import print_notes
from lightning_sasv.errors import InputError
from lightning_sasv.files import inside, read_json, sha256, write_json
from lightning_sasv.locks import SLURM_SECONDS, ask_slurm
from lightning_sasv.metrics_file import blocks
from lightning_sasv.results import METRICS_FILE, checkpoint_file, read_metrics
from lightning_sasv.signals import PATIENCE, advise, heard, rank, wait_longer

RUNS = "runs"
"""Folder of all runs, unless a logger has another."""

_LIMITS = {
    "validate": "limit_val_batches",
    "test": "limit_test_batches",
    "predict": "limit_predict_batches",
}
_WHOLE = ("None", "1.0", "0.0")
"""Limits that leave nothing out; 1 is one batch."""
_VERSION = "version_"


def find_checkpoint(stage: str, config: Namespace, words: Sequence[str]) -> str | None:
    """The checkpoint that a command means; none for a training that begins.

    ``best`` and ``last`` are those of the folder of a run, if one is given, else of the newest run
    of the same name. A SLURM job that was started again means its own run, asked or not.

    Args:
        stage: ``fit``, ``validate``, ``test`` or ``predict``.
        config: Settings of the command.
        words: The words of the command.

    Raises:
        InputError: There is no such checkpoint, or none was given to a command that needs one.
    """
    given, run = config.get("ckpt_path"), config.get("run")
    if run is None and given and Path(given).is_dir():
        given, run = None, given
    if run is not None:
        return _in_run(Path(run), given or ("last" if stage == "fit" else "best"))
    if given not in (None, "best", "last"):
        if given == "hpc":
            raise InputError("--ckpt_path hpc: give the file itself")
        return str(given)
    if given is None and stage != "fit":
        raise InputError(f"{stage} needs a checkpoint: give --ckpt_path or a run folder")
    found = _newest(config, given, words)
    if found is None and given is not None:
        nothing = f"--ckpt_path {given}: there is none in {', '.join(map(str, _places(config)))}"
        if stage != "fit" or given == "best":
            raise InputError(f"{nothing}; give the file, or a run folder")
        print_notes([f"{nothing}; the training begins anew"])
    return found


def _in_run(run: Path, name: str) -> str:
    if name not in ("best", "last"):
        raise InputError(f"give the folder {run} or --ckpt_path {name}, not both")
    file = checkpoint_file(run).with_stem(name)
    if not file.is_file():
        raise InputError(f"{run} holds no checkpoints/{file.name}; give the folder of a run")
    return str(inside(run, file))


def _newest(config: Namespace, name: str | None, words: Sequence[str]) -> str | None:
    """Checkpoint of the newest run of the same name; without a name, of the job's own run."""
    for place in _places(config):
        runs: dict[int, Path] = {}
        for path in place.glob(f"{_VERSION}*/checkpoints/{name or 'last'}.ckpt"):
            number = inside(place, path.parents[1]).name.removeprefix(_VERSION)
            if number.isdecimal():
                runs[int(number)] = path
        own = {number: path for number, path in runs.items() if began(path.parents[1], words)}
        if chosen := own or (runs if name else {}):
            return str(chosen[max(chosen)])
    return None


def _loggers(config: Namespace) -> list[Namespace]:
    """Arguments of the loggers that have a folder for each run."""
    given = config.trainer.logger
    entries = [one for one in (given if isinstance(given, list) else [given]) if one]
    kinds = ("CSVLogger", "TensorBoardLogger")
    named = [one for one in entries if one is not True and one["class_path"].endswith(kinds)]
    return [one.init_args for one in named]


def _places(config: Namespace) -> list[Path]:
    """Folders of runs of the same name."""
    found = [Path(one.save_dir) / (one.name or "") for one in _loggers(config)]
    return list(dict.fromkeys([*found, Path(RUNS) / _name(config)]))


def _name(config: Namespace) -> str:
    return str(next(iter(config.model.systems), ""))


def _run_of(checkpoint: Path) -> Path | None:
    """The folder of the run that a checkpoint lies in."""
    whole = checkpoint if len(checkpoint.parts) > 2 else checkpoint.absolute()
    return whole.parent.parent if whole.parent.name == "checkpoints" else None


def go_on_in_place(config: Namespace, checkpoint: Path) -> None:
    """Let a training that goes on from its last epoch write where it wrote before."""
    run, places = _run_of(checkpoint), [place.resolve() for place in _places(config)]
    if run is None or checkpoint.name != "last.ckpt":
        return
    if config.get("run") is not None or run.resolve().parent in places:
        _write_to(config, run)


def _write_to(config: Namespace, folder: Path) -> None:
    loggers = _loggers(config)
    for one in loggers:
        number = folder.name.removeprefix(_VERSION)
        if number.isdecimal() and (Path(one.save_dir) / (one.name or "")) == folder.parent:
            one.version = int(number)
        else:
            one.save_dir, one.name, one.version = str(folder.parent), "", folder.name
    if not loggers:
        config.trainer.default_root_dir = str(folder)


def place_results(
    stage: str, config: Namespace, checkpoint: Path, asked: Mapping[str, Any]
) -> str | None:
    """Where the results of a checkpoint go: to the run that it is of, never over those of another.

    The run's own best has the folder of the run, all others ``tests/<file>-<SHA-256>`` in it; what
    was asked for otherwise than the checkpoint was made with has a folder of its own, too.

    Args:
        stage: ``validate``, ``test`` or ``predict``.
        config: Settings of the command; its loggers are told to write to the folder.
        checkpoint: The file.
        asked: What the command does otherwise than the checkpoint was made with.

    Returns:
        The folder; nothing where the loggers, or the command, decide.
    """
    run = _run_of(checkpoint)
    if run is None or _is_told(config, run):
        return None
    limits = {name: config.trainer.get(name) for name in (_LIMITS[stage], "overfit_batches")}
    parts = {name: value for name, value in limits.items() if str(value) not in _WHOLE}
    digest, asked = sha256(checkpoint), {**asked, **parts}
    other = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:8]
    name = "-".join([checkpoint.stem, digest[:8], *([other] if asked else [])])
    folder = inside(run, run / TESTS / name)
    _write_to(config, folder)
    best = checkpoint.name == checkpoint_file(run).name and stage != "predict"
    own = best and not asked and set(_digests(run / METRICS_FILE)) <= {digest}
    return str(run if own else folder)


def _is_told(config: Namespace, run: Path) -> bool:
    """Whether somebody said where to write; the configuration of the run itself has its folder."""
    loggers, usual = _loggers(config), Path(RUNS) / _name(config)
    for one in loggers:
        place, version = Path(one.save_dir) / (one.name or ""), one.version
        folder = place / (f"{_VERSION}{version}" if isinstance(version, int) else version or "")
        if folder.resolve() != run.resolve() and (version is not None or place != usual):
            return True
    return not loggers and config.trainer.default_root_dir is not None


def _digests(file: Path) -> Iterator[str | None]:
    """SHA-256 of the checkpoints that results are of; nothing for those that do not say."""
    try:
        found = read_metrics(file) if file.is_file() else {}
    except InputError:  # what they are is said by who reads them
        yield None
        return
    for _, _, of in blocks(found):
        made = of["checkpoint"]
        yield made.get("sha256") if isinstance(made, Mapping) else None


NOTE = "slurm.json"
"""File in the folder of a run: which job began it, by which command."""


def job_id() -> str | None:
    """The SLURM job of this process, as ``scontrol`` calls it."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    found = f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID", "")
    return found if re.fullmatch(r"[0-9]+(_[0-9]+)?", found) else None


def _restarted() -> bool:
    return os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


class NoteJob(Callback):
    """Notes in the folder of a run which job began it.

    Args:
        words: The command.
    """

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """The run has begun."""
        folder = own_folder(trainer)
        if trainer.is_global_zero and job_id() and not is_dry_run(trainer):
            write_json(folder / NOTE, {"job": job_id(), "command": self.words})


def began(folder: Path, words: Sequence[str]) -> bool:
    """Whether this job, before it was started again, began a run by the same command."""
    if not _restarted() or not (folder / NOTE).is_file():
        return False
    with suppress(InputError):  # damaged: somebody else's
        return bool(read_json(folder / NOTE) == {"job": job_id(), "command": list(words)})
    return False


@contextmanager
def requeueing(command: str) -> Iterator[None]:
    """Where SIGUSR1 stops a ``fit``, have SLURM start it again."""
    if command == "fit" and job_id() is not None:
        wait_longer(signal.SIGUSR1, PATIENCE + 2 * SLURM_SECONDS)  # a job is told minutes before
    try:
        yield
    except KeyboardInterrupt:
        said = requeue() if command == "fit" and heard() == signal.SIGUSR1 else None
        if said is not None:
            raise KeyboardInterrupt(said) from None
        raise


def requeue() -> str | None:
    """Put this job back into the queue, once and if it allows that; what to say if so."""
    job = job_id()
    if job is None or _restarted() or rank() != 0:
        return None
    shown = _scontrol("show", "job", job)
    if shown is None or "Requeue=0" in shown:
        return None
    said = f"finished epochs are kept; job {job} is back in the queue and goes on by itself"
    former = advise(said)  # SLURM ends this process, perhaps before its answer is here
    if _scontrol("requeue", job) is None:
        advise(former)
        return None
    return said


def _scontrol(*words: str) -> str | None:
    """What ``scontrol`` answers; nothing where it fails."""
    said = ask_slurm("scontrol", *words)
    return None if said is None or said.returncode else said.stdout
