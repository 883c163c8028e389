"""The optimiser and the schedule that a training command is given."""

from __future__ import annotations

import inspect
import pkgutil
from typing import Any

from jsonargparse import Namespace

from lightning_sasv.commands.configs import OPTIMISATION
from lightning_sasv.commands.loading import library, typed
from lightning_sasv.errors import InputError
from lightning_sasv.models import SASVModule
from lightning_sasv.models.training import Choice


def optimisation(config: Namespace) -> tuple[Choice | None, Choice | None]:
    """The optimiser and the schedule that a command was given, checked by :func:`check_command`.

    Raises:
        InputError: A learning rate of ours beside an optimiser that has its own.
    """
    settings = inspect.signature(SASVModule).parameters
    for name in ("lr", "weight_decay") if config.get("optimizer") else ():
        usual, given = settings[name].default, config.model[name]
        if given != usual:
            raise InputError(
                f"model.{name} {given:g} is that of our Adam; give --optimizer.{name} instead (a "
                f"configuration's is put out of use by --model.{name} {usual:g})"
            )
    first, second = (_chosen(config.get(key)) for key in OPTIMISATION)
    return first, second


def _chosen(spec: Any) -> Choice | None:
    if not spec:
        return None
    name = spec["class_path"]
    kind = library().get(name) or typed().get(name) or pkgutil.resolve_name(name)
    given = [spec.get(key) or {} for key in ("init_args", "dict_kwargs")]
    return Choice(kind, {name: value for part in given for name, value in dict(part).items()})
