"""A walk over all that could be named: nothing outside of the list can be made from a file."""

from __future__ import annotations

import inspect
import pkgutil
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, get_args, get_type_hints, is_typeddict

import pytest
from jsonargparse._common import ImportDenied
from jsonargparse._util import import_object
from pytorch_lightning import Callback, Trainer
from pytorch_lightning.loggers import Logger
from pytorch_lightning.plugins import CheckpointIO, Precision
from pytorch_lightning.profilers import Profiler
from pytorch_lightning.strategies import Strategy
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lightning_sasv import gate
from lightning_sasv.cli import COMMANDS, command_function
from lightning_sasv.commands.configs import check, make
from lightning_sasv.commands.loading import library, open_imports
from lightning_sasv.errors import InputError

PACKAGES = ("lightning_sasv", "pytorch_lightning", "lightning_fabric", "torchmetrics", "torch")
WALKED = (*PACKAGES[:3], "torch.optim", "torch.distributed.elastic", "torch.utils.data")
"""Whose modules are all imported first; of the others those that are there anyway."""

PLACES = {
    "callbacks": Callback,
    "logger": Logger,
    "strategy": Strategy,
    "profiler": Profiler,
    "plugins": (Precision, CheckpointIO),
}


def import_all(package: str) -> None:
    found = pkgutil.walk_packages(import_module(package).__path__, f"{package}.", lambda _: None)
    for module in found:
        if not module.name.endswith("__main__"):
            try:
                import_module(module.name)
            except Exception:  # a package that is not installed
                continue


def named() -> Iterator[tuple[str, object]]:
    """Every class, function and module that a name leads to, and the attributes of classes."""
    for package in WALKED:
        import_all(package)
    for module_name, module in sorted(sys.modules.items()):
        if module is None or module_name.split(".")[0] not in PACKAGES:
            continue
        for name, value in list(vars(module).items()):
            if inspect.isclass(value) or inspect.isroutine(value) or inspect.ismodule(value):
                yield f"{module_name}.{name}", value
    for name, value in library().items():
        yield from ((f"{name}.{part}", getattr(value, part, None)) for part in dir(value))


@pytest.fixture(scope="module")
def names() -> dict[str, object]:
    return dict(named())


def is_imported(name: str) -> bool:
    try:
        import_object(name)
    except (ImportDenied, ImportError, AttributeError, ValueError):
        return False
    return True


def is_admitted(arguments: dict[str, object], owner: Any = Trainer) -> bool:
    try:
        check(owner, arguments, "trainer")
    except InputError:
        return False
    return True


def test_nothing_else_is_imported(names: dict[str, object]) -> None:
    known = library()
    assert len(names) > 20_000
    assert names.keys() >= known.keys()
    with gate.command(()):
        open_imports(known)
        outside = [name for name in names if name.rpartition(".")[0] not in known]
        found = {name for name in outside if is_imported(name)}
    assert found == known.keys()


def test_only_the_kind_of_a_place_is_made_there(names: dict[str, object]) -> None:
    kinds = {name: value for name, value in library().items() if inspect.isclass(value)}
    with gate.command(()):
        for place, kind in PLACES.items():
            found = {n for n in names if is_admitted({place: [{"class_path": n}]})}
            made = {n for n, value in kinds.items() if issubclass(value, kind)}
            functions = {"callbacks": "SaveLast", "logger": "wandb_logger"}
            ours = {n for n in library() if n.endswith(f".{functions.get(place)}")}
            assert found == made | ours, place


def test_mlflow_takes_a_folder_and_no_server() -> None:
    """As in the README."""
    mlflow = {"class_path": "pytorch_lightning.loggers.MLFlowLogger"}
    arguments = {"experiment_name": "L3c", "save_dir": "runs/mlflow", "tracking_uri": None}
    with gate.command(()):
        assert is_admitted({"logger": [mlflow | {"init_args": arguments}]})
        arguments["tracking_uri"] = "http://127.0.0.1:9"
        assert not is_admitted({"logger": [mlflow | {"init_args": arguments}]})
    words = ("fit", "--trainer.logger.tracking_uri=http://127.0.0.1:9")
    with gate.command(words):
        assert is_admitted({"logger": [mlflow | {"init_args": arguments}]})


BASES = (Callback, Logger, Strategy, Profiler, Precision, CheckpointIO, Optimizer, LRScheduler)


def test_arguments_hold_objects_only_where_their_type_says_so() -> None:
    """And none of them holds a function, a class or a module."""
    samples = {
        base: next(n for n, v in library().items() if inspect.isclass(v) and issubclass(v, base))
        for base in BASES
    }
    open_places = set()
    with gate.command(()):
        for owner in {*library().values(), Trainer}:
            for name, parameter in inspect.signature(owner).parameters.items():
                for odd in (print, int, sys, object(), lambda: None):
                    assert not is_admitted({name: odd}, owner)
                for base, sample in samples.items():
                    if is_admitted({name: {"class_path": sample}}, owner):
                        assert base.__name__ in str(parameter.annotation)
                        open_places.add(name)
    others = {"precision_plugin", "checkpoint_io", "optimizer", "schedulers"}
    assert open_places == {*PLACES, *others}


def is_made(kind: type, arguments: dict[str, object]) -> bool:
    try:
        make(kind, **arguments)
    except InputError:
        return False
    return True


def test_whatever_others_make_of_wrong_arguments_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unheard: list[object] = []  # what half-made objects say in the end
    monkeypatch.setattr(sys, "unraisablehook", unheard.append)
    kinds = {kind for kind in library().values() if inspect.isclass(kind)}
    tried = [
        is_made(kind, {name: wrong})
        for kind in kinds
        if kind.__module__.split(".")[0] != "lightning_sasv"
        for name in inspect.signature(kind).parameters
        for wrong in ("nonsense", -1, [1], {"file": "x"})
    ]
    assert len(tried) > 1000
    assert any(tried)
    assert not all(tried)
    assert not unheard


def parts(hint: Any) -> Iterator[Any]:
    yield hint
    inner = get_type_hints(hint).values() if is_typeddict(hint) else get_args(hint)
    for part in inner:
        yield from parts(part) if not isinstance(part, list) else ()


OURS = sorted(name for name in library() if name.startswith("lightning_sasv."))


@pytest.mark.parametrize("name", [*OURS, *COMMANDS])
def test_nothing_of_ours_takes_anything_from_a_file(name: str) -> None:
    function = command_function(name) if name in COMMANDS else library()[name]
    hints = get_type_hints(function.__init__ if inspect.isclass(function) else function)
    hints.pop("return", None)
    if name.endswith("AtomicCheckpointIO"):
        assert not inspect.signature(function).parameters
        return
    for argument, hint in hints.items():
        assert all(part is not Any and part is not object for part in parts(hint)), argument
