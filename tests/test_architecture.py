"""Dependencies point one way, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "lightning_sasv"
BELOW = {  # what each layer may import of ours
    "errors": set(),
    "files": {"errors"},
    "trials": {"errors"},
    "decisions": {"errors", "trials"},
    "metrics": {"errors", "trials", "decisions"},
    "fusion": {"errors", "trials", "decisions", "metrics"},
    "data": {"errors", "trials", "files"},
    "scores": {"errors", "trials", "files"},
    "report": {"errors", "trials", "files", "decisions", "metrics", "fusion", "scores", "fitted"},
    "models": {"errors", "trials", "files", "decisions", "metrics", "fusion", "data"},
    "loggers": {"errors", "files"},
    "fitted": {"errors", "files", "trials", "decisions", "metrics", "fusion"},
    "deploy": {"errors", "files", "trials", "decisions", "metrics", "fusion", "fitted", "scores"},
    "evaluation": {"errors", "files", "trials", "decisions", "metrics", "fusion", "fitted"}
    | {"scores", "report"},
    "frontends": {"errors", "files", "trials", "data"},
    "checkpoints": {"errors", "files"},
}
ABOVE = {"callbacks", "experiment", "commands", "cli"}  # may import everything
PURE = {"decisions", "fusion", "trials", "errors", "metrics"}
HEAVY = {"pytorch_lightning", "lightning_fabric", "wandb", "speechbrain", "torchaudio", "rich"}
LIGHTNING = {"models", "callbacks", "experiment", "commands", "loggers"}


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
    return found


def layer_files(layer: str) -> list[Path]:
    files = [*PACKAGE.glob(f"{layer}/**/*.py"), *PACKAGE.glob(f"{layer}.py")]
    assert files, f"layer {layer} has no files: the check would pass on nothing"
    return files


@pytest.mark.parametrize("layer", BELOW)
def test_a_layer_imports_only_what_is_below_it(layer: str) -> None:
    allowed = BELOW[layer] | {layer}
    for path in layer_files(layer):
        own = {n.split(".")[1] for n in imports(path) if n.startswith("lightning_sasv.")}
        assert own <= allowed, f"{path.name} imports {own - allowed}"


def test_every_module_belongs_to_a_layer() -> None:
    parts = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in PACKAGE.rglob("*.py")}
    assert parts - {"__init__"} <= BELOW.keys() | ABOVE


@pytest.mark.parametrize("layer", sorted(PURE))
def test_pure_layers_know_neither_lightning_nor_files(layer: str) -> None:
    for path in layer_files(layer):
        roots = {name.split(".")[0] for name in imports(path)}
        assert not roots & (HEAVY | {"pathlib", "io", "csv", "json", "sys", "os"}), path


def test_only_the_upper_layers_import_lightning() -> None:
    for path in PACKAGE.rglob("*.py"):
        layer = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        roots = {name.split(".")[0] for name in imports(path)}
        if "pytorch_lightning" in roots:
            assert layer in LIGHTNING or path.name == "datamodule.py", path
        assert not roots & {"speechbrain", "torchaudio"} or layer == "frontends", path


def imported_by(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint(chr(10).join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return {name.split(".")[0] for name in done.stdout.split()}


def test_importing_the_package_imports_nothing_else() -> None:
    assert not imported_by("import lightning_sasv") & (HEAVY | {"torch", "numpy"})


def test_help_imports_neither_torch_nor_lightning() -> None:
    code = "from lightning_sasv.cli import main\nmain(['--help'])"
    assert not imported_by(code) & (HEAVY | {"torch"})


def test_commands_that_train_nothing_do_not_import_lightning() -> None:
    code = "from lightning_sasv.cli import main\ntry:\n  main(['simulate', '--help'])\n"
    loaded = imported_by(code + "except SystemExit: pass")
    assert not loaded & {"pytorch_lightning", "lightning_fabric", "wandb", "torch"}
