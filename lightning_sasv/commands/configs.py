"""The gate of the training commands: a configuration is walked before anything of it is made.

Lightning's command line makes an object of each ``class_path``. What it may be is listed in
``commands/loading.py``; here it is seen to that it stands where its kind is asked for, and that its
arguments are plain. What is made is looked up once more (:func:`make`); where it fails, and what
errors of Lightning's mean to the user, is said in a line (:func:`as_message`).
"""

from __future__ import annotations

import inspect
import pkgutil
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args, get_type_hints

import torch
from jsonargparse import Namespace
from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning.loggers import CometLogger, Logger, MLFlowLogger, WandbLogger
from pytorch_lightning.plugins import CheckpointIO

from lightning_sasv import gate
from lightning_sasv.commands.arguments import one_line
from lightning_sasv.commands.loading import KINDS, Factory, below, library, typed
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.files import is_file, read_yaml
from lightning_sasv.loggers import check_comet, check_workspace, mlflow_folder
from lightning_sasv.models import SASVModule
from lightning_sasv.models.training import Choice

_THEME = "pytorch_lightning.callbacks.progress.rich_progress.RichProgressBarTheme"
"""Colours: a group of plain values that a file fills without naming it."""

_FOLDERS: dict[Factory, Callable[[], None]] = {
    WandbLogger: check_workspace,
    CometLogger: check_comet,
}
"""Loggers that take settings from the current folder, and who looks at them first."""

LOGGER_ARGUMENTS = frozenset(
    {"save_dir", "dir", "sub_dir", "name", "version", "prefix", "id", "resume", "reinit"}
    | {"project", "entity", "group", "job_type", "tags", "notes", "mode", "offline", "online"}
    | {"experiment_name", "run_name", "run_id", "workspace", "experiment_key", "synchronous"}
    | {"log_model", "checkpoint_name", "add_file_policy", "log_graph", "default_hp_metric"}
    | {"flush_logs_every_n_steps"}
    | {"comment", "purge_step", "max_queue", "flush_secs", "filename_suffix"}  # of TensorBoard
)
"""What a file may say to a logger: names and folders, no address and no key."""

_OBJECTS = {"on_trace_ready": None, "schedule": None, "console_kwargs": "file"}
"""Arguments that take functions or streams though their types do not say so, or keys of them."""


OPTIMISATION: dict[str, tuple[type, ...]] = {
    "optimizer": (torch.optim.Optimizer,),
    "lr_scheduler": (torch.optim.lr_scheduler.LRScheduler,),
}
"""Options of Lightning's command line that take a class beside those of the Trainer."""


@cache
def _bases() -> tuple[type, ...]:
    """The kinds: only an argument whose type is one of these can hold an object."""
    named = (getattr(import_module(module), base) for module, base in KINDS)
    return (*named, CheckpointIO)


def check_readable(args: Sequence[str]) -> None:
    """Say what is wrong with a configuration file, and in which line, before it is parsed."""
    for option, value in (*pairwise(args), *(word.split("=", 1) for word in args if "=" in word)):
        given = option in ("--config", "-c")
        if option[:1] == "-" and (given or value.endswith((".yaml", ".yml"))) and is_file(value):
            read_yaml(value)


def check_command(config: Namespace, owners: Mapping[str, Factory]) -> None:
    """Walk the parsed configuration of a command before anything of it is made.

    Args:
        config: All settings of the command.
        owners: Whose arguments stand under a key; everywhere else are plain values.
    """
    _objects.clear()
    if gate.is_open():
        return
    for key, value in _items(config):
        if key in owners:
            check(owners[key], value, key)
        elif key != "config":  # the files themselves
            _check(value, OPTIMISATION.get(key, ()), key)
    registry = config.get("trainer.model_registry")
    if registry and not gate.is_typed(registry):
        raise InputError(
            f"{gate.source(registry)}: trainer.model_registry sends the model to another machine; "
            f"{gate.ADVICE}"
        )


def check(owner: Factory, arguments: Any, key: str) -> None:
    """Walk the arguments of a class before it is made.

    Args:
        owner: The class, or the function that makes the object.
        arguments: Its arguments as parsed.
        key: Where they stand in the configuration.
    """
    for name, value in _items(arguments):
        _check(value, _kinds(owner, name), f"{key}.{name}")


def _check(value: Any, kinds: tuple[type, ...], key: str) -> None:
    if isinstance(value, (Namespace, Mapping)):
        if "class_path" in value:
            _check_object(value, kinds, key)
            return
        for name, item in _items(value):
            _check(item, kinds, f"{key}.{name}")
    elif isinstance(value, (list, tuple, set)):
        for item in value:
            _check(item, kinds, key)
    else:
        gate.admit_plain(value, key)


def _check_object(spec: Any, kinds: tuple[type, ...], key: str) -> None:
    """A mapping with ``class_path``: a listed name, at a place for its kind, with fit arguments."""
    name = str(spec["class_path"])
    factory = library().get(name)
    fits = factory is not None and issubclass(made_by(factory), kinds)
    gate.admit(name, {name} if fits else (), key)
    factory = factory or typed().get(name, object)
    if factory in _FOLDERS:
        _FOLDERS[factory]()
    arguments, others = (spec.get(part) or {} for part in ("init_args", "dict_kwargs"))
    for argument, value in (*_items(others), *_items(arguments)):
        objection = _objection(factory, argument, value)
        if objection and not all(gate.is_typed(str(leaf)) for leaf in _leaves(value)):
            raise InputError(
                f"{gate.source(argument)}: {gate.shown(f'{key}.{argument}')} {objection}; "
                f"{gate.ADVICE}, or give it on the command line"
            )
    check(factory, arguments, key)
    check(object, others, key)


def _objection(factory: Factory, argument: str, value: Any) -> str | None:
    """What speaks against an argument that a file gives; the default says nothing new."""
    try:
        given = inspect.signature(factory).parameters.get(argument)
    except ValueError:  # written in C
        given = None
    if value == (None if given is None else given.default):
        return None
    if issubclass(made_by(factory), Logger) and argument not in LOGGER_ARGUMENTS:
        return "could lead to an address of the file's own choice"
    if argument in ("filename", "filename_suffix", "sub_dir"):
        path = Path(str(value))
        return "leads out of its folder" if path.is_absolute() or ".." in path.parts else None
    if argument in _OBJECTS and _OBJECTS[argument] in (None, *_keys(value)):
        return "takes an object, which no file can give"
    return "could replace any file" if argument == "exclude_batches_path" else None


def _keys(value: Any) -> Iterable[str]:
    return (name for name, _ in _items(value)) if isinstance(value, Namespace | Mapping) else ()


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, (Namespace, Mapping)):
        yield from (leaf for _, item in _items(value) for leaf in _leaves(item))
    elif isinstance(value, (list, tuple, set)):
        yield from (leaf for item in value for leaf in _leaves(item))
    else:
        yield value


def _items(value: Any) -> Iterable[tuple[str, Any]]:
    return vars(value).items() if isinstance(value, Namespace) else value.items()


def made_by(factory: Factory) -> type:
    """What a class or a function makes."""
    made = factory if inspect.isclass(factory) else get_type_hints(factory).get("return")
    return made if isinstance(made, type) else object


@cache
def _kinds(owner: Factory, argument: str) -> tuple[type, ...]:
    """The kinds among the types of an argument; most have none."""
    for part in inspect.getmro(owner) if inspect.isclass(owner) else (owner,):
        function = part.__dict__.get("__init__") if isinstance(part, type) else part
        texts = getattr(function, "__annotations__", {})
        if argument in texts:
            hint = _resolved(texts[argument], part)
            return tuple(t for t in _classes(hint) if issubclass(t, _bases()))
    return ()


def _resolved(annotation: Any, part: Any) -> Any:
    where = {"__annotations__": {"argument": annotation}, "__module__": part.__module__}
    try:
        return get_type_hints(type("Argument", (), where))["argument"]
    except NameError:  # known to type checkers alone
        return None


def _classes(hint: Any) -> Iterator[type]:
    if isinstance(hint, type) and not get_args(hint):
        yield hint
    for part in get_args(hint):
        yield from _classes(part) if not isinstance(part, list) else ()


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


_objects: list[object] = []
"""What this command has made of classes of others."""


def make(kind: type, *args: Any, **kwargs: Any) -> Any:
    """Make an object for jsonargparse: of a listed class, or one that the user typed."""
    name = f"{kind.__module__}.{kind.__qualname__}"
    gate.admit(name, {*library(), _THEME, *typed()})
    if kind not in library().values() or name.startswith("lightning_sasv."):
        return kind(*args, **kwargs)
    try:
        if kind is MLFlowLogger:
            kwargs |= mlflow_folder(kwargs.get("save_dir"))
        _objects.append(kind(*args, **kwargs))
    except (InputError, OSError):
        raise
    except Exception as error:
        said, hook, sys.unraisablehook = _failure(kind, error), sys.unraisablehook, lambda _: None
        error.__traceback__ = None  # what is half made goes, and says nothing of its own
        sys.unraisablehook = hook
        raise InputError(said) from None
    return _objects[-1]


_CHANGE = "change its settings, or leave it out"
FAILED = re.compile(rf"[\w.]+ fails as it is set up here \(.*?\); {_CHANGE}")
"""What :func:`make` says of an object, inside of what jsonargparse makes of it."""


def _failure(kind: type, error: BaseException) -> str:
    said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    name = f"{kind.__module__}.{kind.__qualname__}"
    return f"{name} fails as it is set up here ({said}); {_CHANGE}"


def blamed(error: BaseException) -> InputError | None:
    """An error in the work of an object of others that a configuration asked for, in a line.

    Nothing if it comes from our own code, whoever called that.
    """
    for frame, _ in reversed([*traceback.walk_tb(error.__traceback__)]):
        if frame.f_globals.get("__name__", "").partition(".")[0] == "lightning_sasv":
            break
        if any(frame.f_locals.get("self") is one for one in _objects):
            return InputError(_failure(type(frame.f_locals["self"]), error))
    return None


_LOST_PROCESS = ("Connection closed by peer", "gloo", "NCCL", "Timed out waiting")
_LIGHTNING = ("pytorch_lightning", "lightning_fabric")


def _is_lightnings(error: Exception) -> bool:
    """Whether Lightning itself says that a value is none, e.g. a strategy for another device."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return isinstance(error, ValueError | TypeError | RuntimeError) and package in _LIGHTNING


def _of_object(text: str) -> str:
    """What is said of an object that could not be made, without the other things it could be."""
    found = FAILED.search(text)  # one of several loggers, say
    refused = re.search(r"\[Errno \d+\] ([^:]+): ('[^']*')", text)
    if refused:
        return f"cannot use {refused[2]}: {refused[1]}; choose another file or directory"
    return found[0] if found else text


def _of_system(error: OSError) -> InputError | None:
    """What an error with a file means; one of a stream is a matter of the terminal."""
    if error.filename is not None:
        where = f"cannot use {error.filename}: {error.strerror}"
        return InputError(f"{where}; choose another file or directory")
    if error.strerror:
        return None
    return InputError(one_line(str(error)))  # Lightning's own text, e.g. of a missing checkpoint


def as_message(error: Exception) -> InputError | RunError | None:
    """What an error of Lightning's means to the user; nothing for a mistake of ours."""
    if isinstance(error, OSError):
        return _of_system(error)
    found = below(error)
    if found is not None:
        return found
    if isinstance(error, ValueError) and "Does not validate against" in str(error):
        return InputError(_of_object(one_line(str(error))))
    if isinstance(error, MisconfigurationException) or _is_lightnings(error):
        return InputError(f"the Trainer refuses its settings: {one_line(str(error))}")
    if isinstance(error, RuntimeError) and any(word in str(error) for word in _LOST_PROCESS):
        return RunError(
            "another process of this run died or did not answer in time; its own message stands "
            "above. Resume with --ckpt_path last"
        )
    return blamed(error)
