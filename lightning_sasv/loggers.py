"""Weights & Biases without surprises: offline when it has to be, never a prompt, never a crash."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from configparser import ConfigParser
from configparser import Error as ConfigParserError
from pathlib import Path
from typing import Any, Literal

from pytorch_lightning.loggers import CSVLogger, Logger, WandbLogger
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn

from lightning_sasv import gate
from lightning_sasv.errors import InputError

WandbMode = Literal["online", "offline", "absent"]
_DEFAULT_SERVER = "https://api.wandb.ai"
FINISH_SECONDS = 60
"""How long the end of a run waits for a server that has become unreachable."""


def check_comet() -> None:
    """Refuse a ``.comet.config`` in the current folder: Comet would take a server from it."""
    if Path(".comet.config").exists() and not gate.is_open():
        raise InputError(
            ".comet.config in this folder could send your Comet key elsewhere; "
            f"{gate.ADVICE}, or remove it"
        )


def mlflow_folder(folder: str | None) -> dict[str, str]:
    """Arguments of MLflow's logger for the folder of its runs, from where the command runs.

    MLflow remembers folders as they are named, wherever the process is; and newer versions of it
    want to be asked for folders, unless the user has said otherwise.
    """
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    return {} if folder is None else {"save_dir": str(Path(folder).absolute())}


def check_workspace() -> None:
    """Refuse settings that the current folder has for W&B, but for names and the user's server.

    W&B reads ``wandb/settings`` below the current folder, and sends the key to the server it names.

    Raises:
        InputError: The folder came with such settings, and nobody said to trust it.
    """
    root = Path(os.environ.get("WANDB_DIR") or ".")
    for path in (root / "wandb" / "settings", root / ".wandb" / "settings"):
        found = _settings(path)
        server = found.pop("base_url", None)
        own = {
            _DEFAULT_SERVER,
            os.environ.get("WANDB_BASE_URL"),
            _settings(_user_settings()).get("base_url"),
        }
        odd = sorted(found.keys() - {"entity", "project", "mode"})
        odd += ["base_url"] if server not in {None, *own} else []
        if odd and not gate.is_open():
            raise InputError(
                f"{path} sets {odd[0]} for W&B, which could send your key elsewhere; "
                f"{gate.ADVICE}, or remove that line"
            )


def _user_settings() -> Path:
    folder = os.environ.get("WANDB_CONFIG_DIR")
    return (Path(folder) if folder else Path("~/.config/wandb").expanduser()) / "settings"


def _settings(path: Path) -> dict[str, str]:
    """Content of a file of settings, as W&B reads it."""
    parser = ConfigParser(interpolation=None)
    try:
        parser.read(path)
    except (ConfigParserError, UnicodeDecodeError, OSError):
        return {}  # W&B does not take it either
    return {name: text.rstrip("/") for part in parser.values() for name, text in part.items()}


def wandb_mode() -> WandbMode:
    """Whether runs can go to the W&B server.

    ``$WANDB_MODE`` decides where it is set. Otherwise ``online`` needs a stored key and a server
    that answers; without a key the network is not touched.
    """
    if importlib.util.find_spec("wandb") is None:
        return "absent"
    check_workspace()
    if mode := os.environ.get("WANDB_MODE"):
        return "online" if mode in ("online", "run", "shared") else "offline"
    import wandb

    try:
        return "online" if wandb.login(prompt=False) else "offline"
    except Exception:  # a key, but no server that answers
        return "offline"


class SteadyWandbLogger(WandbLogger):
    """W&B logger whose failures are told once and change nothing in the run.

    While the server is unreachable W&B itself keeps what is logged on disk. Here it is seen to
    that an error of W&B (a server that refuses the run, a service process that died) does not end
    a training either: the run goes on without W&B.
    """

    _given_up = False

    @property
    def experiment(self) -> Any:
        """The run of W&B, offline where the server does not take it."""
        try:
            return super().experiment
        except Exception as error:
            if self._wandb_init.get("mode") == "offline":
                raise
            reason = " ".join(str(error).split())[:200]
            rank_zero_warn(f"W&B does not answer, the run is kept offline: {reason}")
            self._wandb_init["mode"] = "offline"
            return super().experiment

    def _try(self, action: Callable[..., object], *args: Any, **kwargs: Any) -> None:
        if self._given_up:
            return
        try:
            action(*args, **kwargs)
        except Exception as error:
            self._given_up = True
            reason = " ".join(str(error).split())[:200] or type(error).__name__
            rank_zero_warn(f"W&B failed, the run goes on without it: {reason}")

    def log_metrics(self, *args: Any, **kwargs: Any) -> None:
        """Log metrics, or go on without."""
        self._try(super().log_metrics, *args, **kwargs)

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """Log settings, or go on without."""
        self._try(super().log_hyperparams, *args, **kwargs)

    def log_image(self, *args: Any, **kwargs: Any) -> None:
        """Log figures, or go on without."""
        self._try(super().log_image, *args, **kwargs)

    def save(self) -> None:
        """Nothing to do that a failed W&B should be asked for."""

    def finalize(self, status: str) -> None:
        """End the run, or go on without."""
        self._try(super().finalize, status)


def wandb_logger(
    save_dir: str = "runs",
    project: str = "lightning_sasv",
    name: str | None = None,
    group: str | None = None,
    entity: str | None = None,
    tags: Sequence[str] = (),
    notes: str | None = None,
) -> Logger:
    """W&B logger, online when logged in and the server answers, else offline.

    An offline run lies in ``save_dir/wandb`` and can be sent later with ``wandb sync``.

    Args:
        save_dir: Folder for the run's files.
        project: W&B project.
        name: Name of the run.
        group: Runs of one experiment have the same group.
        entity: User or team whose project it is; by default the user's own.
        tags: Words to find the run by.
        notes: What the run is for.
    """
    mode = wandb_mode()
    if mode == "absent":
        return CSVLogger(save_dir, name=name or project)
    if mode == "offline":
        rank_zero_info(f"W&B: offline run in {save_dir}/wandb; send it later with `wandb sync`")
    import wandb

    settings = {}
    if "finish_timeout" in wandb.Settings.model_fields:  # older versions do not have it
        settings["finish_timeout"] = float(os.environ.get("WANDB_FINISH_TIMEOUT", FINISH_SECONDS))
    said: dict[str, Any] = {
        "entity": entity,
        "tags": list(tags) or None,
        "notes": notes,
        "group": group,
    }
    return SteadyWandbLogger(
        name=name, save_dir=save_dir, project=project, mode=mode, settings=settings, **said
    )
