"""Which checkpoint a training command means, and the folder that it writes to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import Namespace

from lightning_sasv.commands.requeue import began
from lightning_sasv.commands.run_folder import TESTS
from lightning_sasv.console import print_notes
from lightning_sasv.errors import InputError
from lightning_sasv.files import inside, read_json, sha256
from lightning_sasv.results import METRICS_FILE, checkpoint_file

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
    content = read_json(file) if file.is_file() else {}
    systems = content.get("systems", content) if isinstance(content, dict) else {"": {}}
    for entry in systems.values():
        sets = entry.get("sets", {"": {}}) if isinstance(entry, dict) else {"": {}}
        for one in sets.values():
            found = one.get("of", {}).get("checkpoint") if isinstance(one, dict) else None
            yield found.get("sha256") if isinstance(found, dict) else None
