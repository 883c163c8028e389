"""First steps: configurations by name, a new folder, schemas, completions."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from lightning_sasv.cli import COMMANDS, TRAINING, main
from lightning_sasv.decisions.costs import PRESETS
from lightning_sasv.fusion.zoo import JOINT_SYSTEMS, KNOWN
from lightning_sasv.program import shipped_configs
from lightning_sasv.starting import KINDS, completion, init, schema
from tests.conftest import REPOSITORY
from tests.helpers import failure_of
from tests.hostile.conftest import tree

SMALL = ["--data.scale=0.02", "--trainer.max_epochs=1"]
Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, *words: str) -> str:
    """What a command prints."""
    capsys.readouterr()
    main(list(words))
    return capsys.readouterr().out


def test_configurations_are_listed_with_a_line_each(capsys: Capture) -> None:
    lines = said(capsys, "configs").splitlines()
    about = {name: text.strip() for name, _, text in (line.partition(" ") for line in lines)}
    assert about.keys() == shipped_configs().keys()
    assert all(20 > len(text.split()) > 2 and text[-1] == "." for text in about.values()), about


def test_one_configuration_is_shown_as_it_is(capsys: Capture) -> None:
    for name, path in shipped_configs().items():
        assert said(capsys, "configs", name) == path.read_text(encoding="utf-8")


def test_the_makefile_says_of_a_system_what_its_configuration_says(capsys: Capture) -> None:
    targets = re.findall(
        r"^(\w+): ## Train and evaluate \w+(?: \(.*?\))?, (.*)$",
        (REPOSITORY / "Makefile").read_text(encoding="utf-8"),
        re.M,
    )
    assert {name for name, _ in targets} == KNOWN.keys() | JOINT_SYSTEMS.keys()
    for name, text in targets:
        if name not in JOINT_SYSTEMS:
            assert said(capsys, "configs", name).lower().startswith(f"# {text.lower()}"), name


@pytest.fixture(scope="module")
def experiment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new experiment, after the commands of its Makefile."""
    folder = init(str(tmp_path_factory.mktemp("new") / "my_experiment"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for target in ("check", "fit", "evaluate", "report", "table"):
            dry = ["make", "--dry-run", "--no-print-directory", target]
            made = subprocess.run(dry, cwd=folder, capture_output=True, text=True, check=True)
            program, *words = shlex.split(made.stdout.strip())
            assert program == "lightning"
            more = {"fit": SMALL, "check": SMALL, "evaluate": ["--ci=none"]}.get(target, [])
            more = [*SMALL, "--replicates=0", "--seeds=1"] if target == "table" else more
            main([*words, *more])
            if target == "check":
                assert {path.name for path in folder.iterdir()} == FILES
    return folder


FILES = {"Makefile", "README.md", "config.yaml"}


def test_every_command_of_a_new_folder_works(experiment: Path) -> None:
    assert (experiment / "runs/L3c/version_0/metrics.json").is_file()
    assert (experiment / "runs/L3c/version_0/report.html").is_file()
    assert (experiment / "results/table/table.md").is_file()


def test_the_readme_and_the_help_of_a_new_folder_name_its_targets(experiment: Path) -> None:
    made = subprocess.run(["make"], cwd=experiment, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in made.stdout.splitlines()} - {"help"}
    assert listed == set(
        re.findall(r"^    make (\w+)", (experiment / "README.md").read_text(), re.M)
    )
    assert listed == {"check", "fit", "evaluate", "report", "table"}


def test_a_new_folder_without_a_run_says_what_to_do_first(here: Path) -> None:
    main(["init", "new", "--quiet"])
    for target in ("evaluate", "report"):
        done = subprocess.run(["make", target], cwd=here / "new", capture_output=True, text=True)
        assert done.returncode == 2
        assert "no run here yet: make fit" in done.stderr


def test_nothing_is_replaced_by_a_new_folder(here: Path, capsys: Capture) -> None:
    assert "config.yaml, Makefile, README.md" in said(capsys, "init", "one/two")
    assert {path.name for path in (here / "one/two").iterdir()} == FILES
    (here / "file").write_text("mine")
    (here / "link").symlink_to("nowhere")
    (here / "empty").mkdir()
    before = tree(here)
    for name in ("one/two", "one", "file", "link", "empty", "."):
        assert f"{name} is there already" in failure_of(capsys, "init", name)
    assert "cannot write" in failure_of(capsys, "init", "file/new")
    assert tree(here) == before
    assert not list(here.glob(".*"))


def test_the_shipped_texts_are_those_of_the_parsers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Help of the training commands, schemas and completions."""
    monkeypatch.setenv("COLUMNS", "60")  # of no account
    monkeypatch.syspath_prepend(REPOSITORY / ".ci")
    made = dict(import_module("write_help").texts())
    assert len(made) == len(TRAINING) + len(KINDS) + 2
    for place, text in made.items():
        assert place.read_text(encoding="utf-8") == text, f"{place}: renew it, `make help-texts`"


SCHEMAS = {kind: json.loads(schema(kind)) for kind in KINDS}


def valid(kind: str, content: Any) -> bool:
    """Whether a schema admits what a file says."""
    return jsonschema.Draft202012Validator(SCHEMAS[kind]).is_valid(content)


@pytest.mark.parametrize("kind", KINDS)
def test_schemas_are_schemas(kind: str) -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMAS[kind])
    assert SCHEMAS[kind]["title"] == KINDS[kind]


@pytest.mark.parametrize("name", shipped_configs())
def test_every_shipped_configuration_fits_its_schema(name: str) -> None:
    assert valid("fit", yaml.safe_load(shipped_configs()[name].read_text()))


def test_what_a_run_and_a_new_folder_say_fits_the_schema(experiment: Path) -> None:
    used = yaml.safe_load((experiment / "runs/L3c/version_0/config.yaml").read_text())
    assert used["model"]["systems"] == ["L3c", "M3", "B1"]
    found = [*jsonschema.Draft202012Validator(SCHEMAS["fit"]).iter_errors(used)]
    assert not found, found[0].message
    own = yaml.safe_load((experiment / "config.yaml").read_text())
    assert valid("fit", own)
    assert valid("table", own)


CALLBACK = "pytorch_lightning.callbacks"


@pytest.mark.parametrize(
    "text",
    [
        "model: {lr: fast}",
        "model: {lrr: 0.1}",
        "modle: {lr: 0.1}",
        "data: {scale: [1]}",
        "trainer: {max_epochs: many}",
        "trainer: {max_epoch: 3}",
        "trainer: {logger: {class_path: pytorch_lightning.loggers.NoLogger}}",
        "trainer: {logger: {class_path: pytorch_lightning.loggers.CSVLogger, init_args: {to: x}}}",
        f"trainer: {{callbacks: [{{class_path: {CALLBACK}.EarlyStopping, init_args: {{p: 1}}}}]}}",
        f"trainer: {{logger: {{class_path: {CALLBACK}.EarlyStopping}}}}",
        "trainer: {callbacks: [{class_path: torch.load}]}",
        "[]",
    ],
)
def test_a_wrong_configuration_does_not_fit(text: str) -> None:
    assert not valid("fit", yaml.safe_load(text))


@pytest.mark.parametrize(
    "text",
    [
        "data: {score_batch_size: '${data.batch_size}'}",
        "trainer: trainer.yaml",
        "trainer: {callbacks: [{class_path: my_package.Mine, init_args: {a: 1}}]}",
        f"trainer: {{callbacks+: [{{class_path: {CALLBACK}.DeviceStatsMonitor}}]}}",
        "optimizer: {class_path: torch.optim.AdamW, init_args: {lr: 0.001}}",
        "model: {fusion: {rho: 0.5}, class_weights: [0.1, 0.9]}",
    ],
)
def test_what_configurations_can_say_fits(text: str) -> None:
    assert valid("fit", yaml.safe_load(text))


def test_tables_take_short_names() -> None:
    assert valid("table", {"lr": 0.1, "epochs": 3, "model": {"systems": ["B1"]}, "seeds": "1-2"})
    assert not valid("table", {"lr": "fast"})
    assert not valid("table", {"trainer": {"callbacks": []}})


def test_systems_of_ours_and_of_the_experiments_fit() -> None:
    file = REPOSITORY / "experiments/more_scores/systems.yaml"
    assert valid("systems", yaml.safe_load(file.read_text()))
    for name, settings in KNOWN.items():
        assert valid("systems", {"systems": {"Own": dict(settings)}}), name
    for wrong in (
        {"density": "gausian"},
        {"rho": 2},
        {"components": 0},
        {"transform": {"asv": "log"}},
        {"costs": {"c_mis": 1}},
        {"colour": 1},
    ):
        assert not valid("systems", {"systems": {"Own": wrong}}), wrong
    assert not valid("systems", {"systems": {"no name": {}}})
    assert not valid("systems", {"systems": {}})


def test_costs_of_every_preset_fit() -> None:
    for costs in PRESETS.values():
        assert valid("costs", costs.as_dict())
    assert valid("costs", {"c_miss": "1e1", "c_abstain": 0.2})
    assert not valid("costs", {"c_miss": -1})
    assert not valid("costs", {"c_mis": 1})
    assert not valid("costs", {"c_miss": "much"})


def test_every_corpus_of_ours_fits() -> None:
    text = (REPOSITORY / "lightning_sasv/data/corpora.toml").read_text(encoding="utf-8")
    for name, entry in tomllib.loads(text).items():
        assert valid("corpus", entry), name
        assert not valid("corpus", entry | {"color": "x"})
        assert not valid("corpus", entry | {"costs": "dear"})
    assert not valid("corpus", {"about": "nothing"})
    assert not valid("corpus", {"dev": {"audio": "wav"}})


def test_claims_fit() -> None:
    claim = {"system": "x", "metric": "cm_eer", "published": "1.0"}
    files = [{"path": "a.txt", "sha256": "0" * 64}]
    assert valid("claims", {"claims": [claim | {"files": files, "options": {"negate": "cm"}}]})
    for wrong in (
        {"published": 1.0},
        {"published": "a lot"},
        {"who": "me"},
        {"options": {"x": "y"}},
    ):
        assert not valid("claims", {"claims": [claim | wrong]}), wrong
    assert not valid("claims", {"claims": []})
    file = REPOSITORY / "experiments/referee/claims.yaml"
    assert valid("claims", yaml.safe_load(file.read_text(encoding="utf-8")))


def test_sweeps_of_the_experiments_fit() -> None:
    files = [*(REPOSITORY / "experiments").rglob("sweep.yaml")]
    assert len(files) >= 3
    for file in files:
        content = yaml.safe_load(file.read_text())
        assert valid("sweep", content), file
        assert not valid("sweep", content | {"method": "guess"})
        assert not valid("sweep", content | {"command": "lightning fit"})
        assert not valid("sweep", {k: v for k, v in content.items() if k != "parameters"})


ASK = """
source ./{script}
while IFS=$'\\t' read -r -a words; do
    [[ ${{words[-1]}} == "-" ]] && words[-1]=""
    COMP_WORDS=("${{words[@]}}") COMP_CWORD=$((${{#words[@]}} - 1)) COMPREPLY=()
    COMP_LINE="${{words[*]}}" COMP_POINT=${{#COMP_LINE}}
    _shtab_lightning lightning "${{words[-1]}}" "${{words[-2]}}"
    echo "${{COMPREPLY[*]}}"
done
complete -p lightning lightning-sasv
"""
ASKED = {
    "lightning -": {*COMMANDS, *TRAINING},
    "lightning ev": {"evaluate"},
    "lightning fit --config L3": {"L3", "L3c", "L3ct", "L3t"},
    "lightning table --systems pa": {"paper"},
    "lightning fit --trainer.max_": {
        "--trainer.max_epochs",
        "--trainer.max_steps",
        "--trainer.max_time",
    },
    "lightning fit --overwrite --chec": {"--check"},
    "lightning evaluate --convention -": {"asvspoof", "interpolated", "rocch", "max"},
    "lightning evaluate --costs a": {"a-dcf1", "asvspoof5"},
    "lightning evaluate --costs mine": {"mine.yaml"},
    "lightning evaluate mine": {"mine.yaml"},
    "lightning evaluate a.csv b.csv --compare --json mine": {"mine.yaml"},
    "lightning schema c": {"costs", "corpus", "claims"},
    "lightning configs wan": {"wandb"},
    "lightning completion -": {"bash", "zsh"},
    "lightning table --epo": {"--epochs"},
    "lightning decide --trust": {"--trust-config"},
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What bash, having read the script, completes."""
    folder = tmp_path_factory.mktemp("bash")
    (folder / "script").write_text(completion("bash"))
    (folder / "mine.yaml").touch()
    asked = "".join(text.replace(" ", "\t") + "\n" for text in ASKED)
    words = ["bash", "--norc", "-c", ASK.format(script="script")]
    done = subprocess.run(
        words, input=asked, cwd=folder, capture_output=True, text=True, check=True
    )
    assert not done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("number", range(len(ASKED)), ids=list(ASKED))
def test_bash_completes(number: int, answers: list[str]) -> None:
    wanted = list(ASKED.values())[number]
    found = set(answers[number].split())
    assert found - {"-h", "--help", "--version"} == wanted


def test_both_names_of_the_program_are_completed(answers: list[str]) -> None:
    assert [line.split()[-1] for line in answers[len(ASKED) :]] == ["lightning", "lightning-sasv"]


def test_the_zsh_script_is_one() -> None:
    script = completion("zsh")
    assert script.startswith("#compdef lightning lightning-sasv\n")
    if zsh := shutil.which("zsh"):
        subprocess.run([zsh, "-n"], input=script, text=True, check=True)
