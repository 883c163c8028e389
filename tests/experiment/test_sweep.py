"""Sweep files: accepted by W&B, and expanded as its agent expands them."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb
import yaml
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args

from lightning_sasv import loggers
from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.sweep import run_offline
from lightning_sasv.experiment.sweep_file import Sweep, expand, read_sweep
from lightning_sasv.program import Program, using
from tests.helpers import failure_of, metrics_in
from tests.wandb_log import read_offline_runs

pytestmark = pytest.mark.slow

sweep_module = sys.modules[run_offline.__module__]

SWEEPS = ("table1", "head_width")
OURS = ["lightning", "fit", "${args}"]
GRID: dict[str, Any] = {"method": "grid", "parameters": {"n": {"values": [1]}}}


@pytest.mark.parametrize("name", SWEEPS)
def test_wandb_accepts_the_sweep_file_and_its_agent_gives_our_commands(
    repository: Path, name: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from sweeps.config import schema_violations_from_proposed_config

    path = repository / "experiments" / name / "sweep.yaml"
    assert schema_violations_from_proposed_config(yaml.safe_load(path.read_text())) == []
    sweep = read_sweep(path)
    assert sweep.name == name
    points = sweep.points()
    if name == "table1":  # every system and seed
        assert len(points) == len({json.dumps(point) for point in points}) == 48
    for point in (points[0], points[-1]):
        theirs = create_sweep_command(sweep.command())
        flags = create_sweep_command_args({"args": {k: {"value": v} for k, v in point.items()}})
        expected: list[str] = []
        for word in theirs:
            expected += {"${args}": flags["args"], "${env}": ["/usr/bin/env"]}.get(word, [word])
        assert expand(sweep.command(), point) == expected
    assert f"WANDB_RUN_GROUP={name}" in expected


def test_interpreter_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SEED", "7")
    found = expand(["${interpreter}", "-x", "${envvar:SOME_SEED}", "${args}"], {"a": 1})
    assert found == [sys.executable, "-x", "7", "--a=1"]


def small_sweep(path: Path, code: str, numbers: list[int]) -> Sweep:
    command = ["${interpreter}", "-c", code, "${args}"]
    parameters = {"n": {"values": numbers}}
    return Sweep(path, {"name": "s", "command": command} | GRID | {"parameters": parameters})


@pytest.fixture
def trusted() -> Iterator[None]:
    """Sweep files may run anything."""
    with using(Program(trust_config=True)):
        yield


@pytest.mark.usefixtures("trusted")
def test_offline_runs_that_fail(tmp_path: Path) -> None:
    code = (
        "import os, sys; sys.exit(sys.argv[1] == '--n=2' or os.environ['WANDB_RUN_GROUP'] != 's')"
    )
    done = run_offline(small_sweep(tmp_path, code, [1, 2]), tmp_path)
    assert (done.tried, done.failed) == (2, [{"n": 2}])
    assert run_offline(small_sweep(tmp_path, code, [2, 2, 1]), tmp_path).tried == 3
    code = "import pathlib, sys; pathlib.Path(sys.argv[1]).touch(); sys.exit(2)"
    done = run_offline(small_sweep(tmp_path, code, [1, 2, 3, 4, 5]), tmp_path)
    made = list(tmp_path.glob("--n=*"))
    assert (done.tried, len(done.failed), len(made)) == (3, 3, 3)  # not the rest
    sweep = Sweep(tmp_path, GRID | {"command": ["nowhere-to-be-found", "${args}"]})
    with pytest.raises(InputError, match="cannot run 'nowhere-to-be-found'"):
        run_offline(sweep, tmp_path)


NOTING = """
import json, os, pathlib, sys
number, epochs = sys.argv[1].removeprefix("--n="), sys.argv[2]
with open("log", "a") as log:
    log.write(number + epochs + ";")
if not pathlib.Path("mended").exists() and number == "2":
    sys.exit(1)
folder = pathlib.Path("run" + number)
folder.mkdir(exist_ok=True)
rates = {"dev": {"sasv_eer": 0.01}, "eval": {"sasv_eer": int(number) / 100}}
(folder / "metrics.json").write_text(json.dumps({"B1": rates}))
pathlib.Path(os.environ["LIGHTNING_SASV_WRITTEN"]).write_text(str(folder.resolve()))
"""


def test_a_sweep_goes_on_hands_options_to_every_run_and_ends_with_a_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    Path("noting.py").write_text(NOTING)
    content = small_sweep(tmp_path, "", [1, 2, 3]).content
    content["command"] = ["${interpreter}", "noting.py", "${args}"]
    Path("sweep.yaml").write_text(yaml.safe_dump(content))
    words = ["sweep", "sweep.yaml", "--trust-config", "--offline", "--trainer.max-epochs", "2"]
    log, option = Path("log"), "--trainer.max_epochs=2"

    def ran(*more: str) -> str:
        log.write_text("")
        main([*words, *more])
        return log.read_text().replace(option, "")

    assert "1 of 3 runs failed: {'n': 2}" in failure_of(capsys, *words, code=1)
    assert log.read_text() == f"1{option};2{option};3{option};"
    Path("mended").touch()
    assert ran() == "2;"
    shown = capsys.readouterr().out
    assert "run 1 of 3 is finished" in shown
    for number in (1, 2, 3):
        row = next(line for line in shown.splitlines() if f"run{number} " in line)
        assert [cell.strip() for cell in row.split("│")[1:-1]] == [
            *(str(number), "B1", "1.00", f"{number}.00", f"run{number}")
        ]
    assert ran() == ""
    assert ran("--overwrite") == "1;2;3;"
    assert ran("--config", "debug") == "1;2;3;"  # other options, other runs
    (tmp_path / "run3" / "metrics.json").unlink()
    assert ran() == "3;"
    assert "--n is what sweep.yaml varies" in failure_of(capsys, *words, "--n", "7")


@pytest.fixture(scope="module")
def swept(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`lightning sweep` of the file for Table 1, with two systems and little data."""
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "configs").symlink_to(repository / "configs")
    content = yaml.safe_load((repository / "experiments/table1/sweep.yaml").read_text())
    content["parameters"]["model.systems"]["values"] = ["[L3c]", "[B1]"]
    content["parameters"]["seed_everything"]["values"] = [7]
    (folder / "sweep.yaml").write_text(yaml.safe_dump(content))
    command = [sys.executable, "-m", "lightning_sasv.cli", "sweep", "sweep.yaml", "--offline"]
    command += ["--data.scale", "0.02", "--trainer.max_epochs=2"]
    done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
    assert "wandb sync runs/wandb/offline-run-*" in done.stdout
    assert "run 2 of 2: /usr/bin/env WANDB_RUN_GROUP=table1 lightning-sasv fit" in done.stdout
    again = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    assert "run 1 of 2 is finished" in again
    assert "run 2 of 2 is finished" in again
    assert "runs/B1/version_0" in again
    return folder


def test_runs_of_a_sweep_hold_what_is_on_disk(swept: Path) -> None:
    found = {run.name: run for run in read_offline_runs(swept)}
    assert set(found) == {"L3c-7", "B1-7"}
    runs = {name.removesuffix("-7"): run for name, run in found.items()}
    for name, run in runs.items():
        assert run.group == "table1"
        assert run.project == "lightning_sasv"
        assert (run.config["systems"], run.config["seeds"]) == ([name], [7])
        assert [row["epoch"] for row in run.history if "train/loss" in row] == [0, 1]
        metrics = metrics_in(swept / f"runs/{name}/version_0")[name]
        for split in ("dev", "eval"):
            logged = {k: v for k, v in metrics[split].items() if v is not None}
            assert "sasv_eer" in logged
            for key, value in logged.items():
                assert run.last(f"{split}/{key}") == pytest.approx(value, rel=1e-6), key
        figures = {key.split("/")[1] for row in run.history for key in row if "figures/" in key}
        boundaries = {"boundaries"} if name == "L3c" else set()  # the sum B1 has no densities
        assert figures == {"distributions", "det", "operating_points", "speakers"} | boundaries
    # The advice that the sweep ends with is one that the installed W&B understands.
    places = sorted(str(path) for path in (swept / "runs/wandb").glob("offline-run-*"))
    command = [sys.executable, "-m", "wandb", "sync", "--dry-run", *places]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(places) == 2


def test_online_the_sweep_goes_to_wandb_and_an_agent(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_: Any, **__: Any) -> str:
        raise wandb.errors.CommError("no route to host")

    calls: list[Any] = []
    monkeypatch.setattr(loggers, "wandb_mode", lambda: "online")
    monkeypatch.setattr(wandb, "sweep", lambda content, project: calls.append(content) or "abc")
    codes = [0, 1]
    monkeypatch.setattr(sweep_module, "run_child", lambda c, *_: calls.append(c) or codes.pop(0))
    file = repository / "experiments/table1/sweep.yaml"
    main(["sweep", str(file)])
    assert calls[0] == yaml.safe_load(file.read_text())
    assert calls[1][1:] == ["-P", "-m", "wandb", "agent", "--", "lightning_sasv/abc"]
    assert "each run is '${env}' WANDB_RUN_GROUP=table1 lightning-sasv" in capsys.readouterr().out
    failure_of(capsys, "sweep", file, "--data.root", "d", code=1)
    assert calls[2]["command"] == [*calls[0]["command"], "--data.root=d"]
    monkeypatch.setattr(wandb, "sweep", refuse)
    said = failure_of(capsys, "sweep", file, code=1)
    assert "no route to host; --offline runs it here" in said


def test_other_methods_are_for_wandb_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, seen = tmp_path / "sweep.yaml", []
    path.write_text(yaml.safe_dump(GRID | {"method": "bayes", "command": OURS}))
    monkeypatch.setattr(
        sweep_module, "run_online", lambda _, project, __: seen.append(project) or "a"
    )
    monkeypatch.setattr(loggers, "wandb_mode", lambda: "online")
    main(["sweep", str(path), "--project", "mine"])
    assert seen == ["mine"]
    assert "only method: grid" in failure_of(capsys, "sweep", path, "--offline")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (GRID | {"command": OURS, "method": "bayes"}, "only method: grid"),
        (GRID | {"command": OURS, "parameters": {"a": {"min": 1}}}, "'a' of a grid needs"),
        (GRID | {"command": OURS, "parameters": {"a": {"values": []}}}, "'a' of a grid needs"),
        (GRID | {"command": "x"}, "needs the key 'command'"),
        ({"method": "grid", "command": []}, "needs the key 'parameters'"),
        ([], "needs the key 'method'"),
    ],
)
def test_wrong_sweep_files(tmp_path: Path, content: Any, words: str) -> None:
    path = tmp_path / "sweep.yaml"
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(InputError, match=words):
        run_offline(read_sweep(path), tmp_path)
    with pytest.raises(InputError, match="cannot read sweep file"):
        read_sweep(tmp_path / "absent.yaml")
    path.write_text("a: [")
    with pytest.raises(InputError, match="not valid YAML"):
        read_sweep(path)
