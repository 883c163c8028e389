"""Dependencies point one way, and nothing heavy is imported before it is needed."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from lightning_sasv.cli import COMMANDS, command_function
from lightning_sasv.files import sha256
from lightning_sasv.scores import write_scores
from tests.scores.samples import toy_scores

PACKAGE = Path(__file__).parents[1] / "lightning_sasv"
DIRECTION = {  # what each layer may import of ours; what those may, it may too
    "errors": (),
    "program": ("errors",),
    "signals": (),
    "terminal": (),
    "gate": ("limits", "terminal"),
    "console": ("program", "terminal"),
    "limits": ("program",),
    "files": ("limits",),
    "places": ("files",),
    "locks": ("places", "files", "console"),
    "trials": ("errors",),
    "checks": ("trials",),
    "numerics": ("checks",),
    "decisions": ("numerics",),
    "plugins": ("program",),
    "metrics": ("decisions", "plugins"),
    "counting": ("metrics", "files", "places"),
    "fusion": ("metrics",),
    "fitted": ("fusion", "places"),
    "systems": ("fusion", "files"),
    "scores": ("places", "files", "decisions", "plugins"),
    "data": ("scores", "locks", "checkpoints"),
    "frontends": ("signals", "data", "tensor_files", "gate"),
    "models": ("data", "fusion", "gate"),
    "record": ("scores", "metrics"),
    "metrics_file": ("record",),
    "results": ("fitted", "metrics_file", "locks"),
    "report": ("results", "console", "counting"),
    "evaluation": ("report", "systems", "data"),
    "deploy": ("results", "frontends"),
    "service": ("deploy",),
    "tensor_files": ("program",),
    "checkpoints": ("files", "gate", "tensor_files"),
    "loggers": ("files", "gate"),
    "starting": ("files",),
    "callbacks": ("models", "results", "report", "checkpoints", "loggers", "signals"),
    "experiment": ("callbacks", "console", "gate", "systems"),
    "commands": ("terminal", "starting", "experiment", "evaluation", "service", "frontends"),
    "cli": ("commands",),
}
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


def below(layer: str) -> set[str]:
    return {layer}.union(*(below(other) for other in DIRECTION[layer]))


@pytest.mark.parametrize("layer", DIRECTION)
def test_a_layer_imports_only_what_is_below_it(layer: str) -> None:
    for path in layer_files(layer):
        own = {n.split(".")[1] for n in imports(path) if n.startswith("lightning_sasv.")}
        assert own <= below(layer), f"{path.name} imports {own - below(layer)}"


def test_functions_of_metrics_know_neither_their_registry_nor_their_classes() -> None:
    files = {*layer_files("metrics/functional")} - {PACKAGE / "metrics/functional/__init__.py"}
    for path in files:  # the package hands out names of the floor above when first asked for
        own = {n for n in imports(path) if n.startswith("lightning_sasv.metrics")}
        assert all(n.startswith("lightning_sasv.metrics.functional") for n in own), path


def test_every_module_belongs_to_a_layer() -> None:
    parts = {p.relative_to(PACKAGE).parts[0].removesuffix(".py") for p in PACKAGE.rglob("*.py")}
    assert parts - {"__init__"} == DIRECTION.keys()


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


def run_python(code: str, folder: Path | None = None) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


def imported_by(code: str) -> set[str]:
    shown = run_python(f"import sys\n{code}\nprint('MODULES', *sys.modules)")
    return {name.split(".")[0] for name in shown.rpartition("MODULES")[2].split()}


def test_importing_the_package_imports_nothing_else() -> None:
    assert not imported_by("import lightning_sasv") & (HEAVY | {"torch", "numpy"})


def test_help_imports_neither_torch_nor_lightning() -> None:
    code = "from lightning_sasv.cli import main\nmain(['--help'])"
    assert not imported_by(code) & (HEAVY | {"torch", "numpy"})


SLOW_TO_IMPORT = HEAVY - {"rich"}

FIRST_TO_IMPORT = """
import sys
from lightning_sasv.cli import main
for words in {commands!r}:
    try:
        main(words)
    except SystemExit as ended:
        assert not ended.code, words
    found = {slow!r} & sys.modules.keys()
    if found:
        print("\\nIMPORTED", words, found)
        break
"""


def first_to_import(commands: list[list[str]], slow: set[str], folder: Path | None = None) -> str:
    """Run commands in one process; the first that imports one of the slow packages, if any."""
    shown = run_python(FIRST_TO_IMPORT.format(commands=commands, slow=slow), folder)
    return shown.partition("\nIMPORTED")[2]


def test_no_help_but_that_of_commands_that_train_imports_lightning_or_torch() -> None:
    helps = [["--help"], *([command, "--help"] for command in COMMANDS if command != "table")]
    assert not first_to_import(helps, SLOW_TO_IMPORT)
    light = [words for words in helps if words[0] not in ("sweep", "export")]
    assert not first_to_import(light, {"torch", "polars", "soundfile"})
    assert not first_to_import([["extract", "--help"]], {"scipy"})


WITHOUT_LIGHTNING = """
simulate --out twin --scale 0.005
import twin --out stores
fuse --dev dev.csv --eval dev.csv --systems B1,L3c,L3t,M3,J3 --out fused
export --fitted fused --system L3t --out bundle --dev dev.csv
"""
WITHOUT_TORCH = """
configs L3c
init new
schema fit
completion bash
convert dev.csv --to parquet --out dev.parquet
evaluate dev.csv dev.parquet --by attack --ci trial --replicates 39 --llrs --json out.json
evaluate dev.csv --state dev.counts.safetensors --ci none
merge dev.counts.safetensors --out all.counts.safetensors
referee claims.yaml
decide dev.csv --fitted fused --compare
drift dev.csv --bundle bundle
transfer --fitted fused --scores dev.csv --out moved --draws 2 --trials 100 --system L3t
report fused
"""


def test_commands_that_train_nothing_run_without_lightning_or_torch(tmp_path: Path) -> None:
    write_scores(tmp_path / "dev.csv", toy_scores(300))
    listed = f"files: [{{path: dev.csv, sha256: {sha256(tmp_path / 'dev.csv')}}}]"
    claim = f"metric: cm_eer, published: '1.0', {listed}"
    (tmp_path / "claims.yaml").write_text(f"claims: [{{system: x, {claim}}}]")
    some, more = (
        [line.split() for line in lines.strip().splitlines()]
        for lines in (WITHOUT_LIGHTNING, WITHOUT_TORCH)
    )
    others = {
        "table",
        "sweep",
        "extract",
        "download",
        "verify",
        "enrol",
        "serve",
    }  # train, need weights, or the network
    assert {words[0] for words in some + more} == COMMANDS.keys() - others
    assert not first_to_import(some, SLOW_TO_IMPORT, tmp_path)
    assert (tmp_path / "bundle").is_dir()
    assert not first_to_import(more, SLOW_TO_IMPORT | {"torch", "matplotlib"}, tmp_path)
    assert not first_to_import([["report", "fused", "--figures", "figures"]], {"torch"}, tmp_path)
    assert (tmp_path / "figures" / "boundaries.svg").exists()


def test_a_small_evaluation_with_intervals_imports_little(tmp_path: Path) -> None:
    write_scores(tmp_path / "small.csv", toy_scores(90, speakers=12))
    needless = {"scipy", "rich.progress", "pandas", "pyarrow"}
    needless |= {f"lightning_sasv.{name}" for name in ("fusion", "counting", "data", "locks")}
    commands = [["evaluate", "small.csv"], ["evaluate", "A=small.csv", "B=small.csv"]]
    assert not first_to_import(commands, needless, tmp_path)


ON_ARRAYS = """
import numpy as np
from lightning_sasv import decisions
from lightning_sasv.metrics import functional
from lightning_sasv.trials import FusedScores
asv, cm = np.random.default_rng(0).normal(size=(2, 90))
labels = np.arange(90) % 3
functional.all_metrics(asv, cm, asv + cm, labels, llrs=True)
functional.by_group(labels, labels, asv=asv)
functional.bootstrap("sasv_eer", asv, labels, n=39)
fused = FusedScores(asv + cm, asv, cm)
accepted = decisions.accept(fused, "a-dcf1")
decisions.expected_cost(fused, "a-dcf1")
decisions.empirical_cost(accepted, labels, "a-dcf1")
decisions.reason_words(accepted, asv, cm, decisions.PRESETS["equal"])
decisions.compare_policies(fused, labels, "equal")
decisions.simulate(30)
"""


def test_metrics_and_decisions_on_arrays_do_not_import_torch() -> None:
    assert "torch" not in imported_by(ON_ARRAYS)


FOR_COMMANDS = {"tell", "begin"}  # through which a function speaks to its command


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_a_few_lines_over_a_public_function_with_its_parameters(command: str) -> None:
    package, name = vars(command_function(command))["public"].split(".")
    same = {"import": "import_corpus", "report": "write_report"}
    assert name == same.get(command, command)
    public = getattr(import_module(f"lightning_sasv.{package}"), name)
    assert name in import_module(f"lightning_sasv.{package}").__all__
    theirs = inspect.signature(public).parameters.values()
    ours = inspect.signature(command_function(command)).parameters.values()
    wanted = {p.name: p.default for p in theirs if p.name not in FOR_COMMANDS}
    assert {p.name: p.default for p in ours} == wanted
    module, function, _ = COMMANDS[command]
    tree = ast.parse((PACKAGE / "commands" / f"{module}.py").read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == function:
            first = node.body[1] if ast.get_docstring(node) else node.body[0]
            assert (node.end_lineno or 0) - first.lineno < 40


def test_the_page_on_architecture_names_what_is_there(repository: Path) -> None:
    page = (repository / "docs" / "architecture.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([\w/]+\.(?:py|toml|json))`", page)) - {"metrics.json"}
    assert len(named) > 30
    roots = (PACKAGE, repository)
    assert not {n for n in named if not any((root / n).is_file() for root in roots)}
    drawn = set(re.findall(r"\w+", page[page.index("flowchart BT") : page.index("The way")]))
    assert DIRECTION.keys() - {"checkpoints", "loggers"} <= drawn


@pytest.mark.parametrize(
    "package", ["metrics", "metrics.functional", "fusion", "decisions", "deploy"]
)
def test_every_public_function_and_class_has_an_example(package: str) -> None:
    module = import_module(f"lightning_sasv.{package}")
    named = {name: getattr(module, name) for name in module.__all__}
    public = {n: x for n, x in named.items() if inspect.isclass(x) or inspect.isfunction(x)}
    assert public
    assert not [name for name, one in public.items() if ">>>" not in (one.__doc__ or "")]
