"""Systems of a reader's own from one YAML, through every command that takes or shows systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lightning_sasv.cli import main
from lightning_sasv.deploy import load
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import read_fitted, read_fitted_systems
from lightning_sasv.fusion import FusionSettings, FusionSystem, fit_systems
from lightning_sasv.models import SASVModule
from lightning_sasv.results import METRICS_FILE, read_metrics, read_results
from lightning_sasv.scores import write_scores
from lightning_sasv.systems import own_systems, read_systems
from tests.helpers import failure_of
from tests.scores.samples import toy_scores

MINE = "{density: mixture, components: 4, calibration: paper, rule: nonlinear, rho: 0.5}"
SETTINGS: FusionSettings = yaml.safe_load(MINE)
FUSE = ("fuse", "--dev", "dev.csv", "--eval", "dev.csv", "--systems")
TINY = ("--data.scale=0.01", "--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--quiet")


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_scores("dev.csv", toy_scores(300))
    Path("my.yaml").write_text(f"systems:\n  MyL3: {MINE}\n")
    return tmp_path


@pytest.mark.parametrize("text", ["my.yaml", "[L3c, my.yaml]", "L3c,my.yaml", "my.yaml,paper"])
def test_names_and_files_mix_in_the_order_given(here: Path, text: str) -> None:
    found = read_systems(text)
    assert found["MyL3"] == SETTINGS
    assert own_systems(found) == {"MyL3": SETTINGS}
    assert list(found)[:2] in (["MyL3"], ["L3c", "MyL3"], ["MyL3", "B1"])


def test_fuse_keeps_a_system_of_ones_own_everywhere(here: Path) -> None:
    main([*FUSE, "B1,my.yaml", "--out", "out", "--quiet"])
    fitted = read_fitted(here / "out/fitted/MyL3.safetensors")
    assert fitted.config.items() >= {"density": "mixture", "components": 4, "rho": 0.5}.items()
    scores = toy_scores(300)
    expected = FusionSystem(**SETTINGS).fit(scores.asv, scores.cm, scores.label)
    fused = read_results("out").fused["MyL3"]
    assert fused == pytest.approx(expected(scores.asv, scores.cm).sasv.numpy(), rel=1e-12)
    main(["report", "out", "--quiet"])
    assert "MyL3" in (here / "out/report.html").read_text()
    main(["export", "--fitted", "out", "--system", "MyL3", "--out", "bundle", "--quiet"])
    assert load("bundle").system.config["components"] == 4
    main(["decide", "dev.csv", "--fitted", "out", "--system", "MyL3", "--quiet"])


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("systems:\n  L3c: {rule: sum}", "line 2, systems.L3c: L3c is a built-in system; choose"),
        ("systems:\n  My:\n    densty: tied", "line 3, systems.My.densty: .* did you mean density"),
        (
            "systems:\n  My:\n    density: teid",
            "line 3, systems.My.density: unknown density 'teid'",
        ),
        ("systems:\n  My: {rho: 3}", r"line 2, systems.My.rho: rho must lie in \[0, 1\]"),
        ("systems:\n  My: {rho: [1]}", "line 2, systems.My.rho: "),
        ("systems:\n  My: {override: 3}", "line 2, systems.My.override: expected true or false"),
        ("systems:\n  My: sum", "line 2, systems.My: expected settings"),
        ("systems:\n  a/b: {rule: sum}", "line 2, systems.a/b: a name is of letters"),
        ("systems:\n  all: {rule: sum}", "line 2, systems.all: a name is of letters"),
        ("systems:\n  A: {rule: sum}\n  A: {rule: sum}", "line 3, systems.A: stands twice"),
        ("systems: {A: {rule: sum}}\nsystem: 1", "line 2, system: a file of systems has nothing"),
        ("systems: {}", "line 1, systems: there is none"),
        ("- 1", "bad.yaml: expected `systems:`"),
        ("systems: {A: {density: {class_path: os.system}}}", "the density os.system is a class of"),
        ("systems: {A: {rule: {init_args: {}}}}", "systems.A.rule: expected a name, or class_path"),
        (
            "systems: {A: {rule: {class_path: sum, init_args: 0}}}",
            "init_args: plain values by name",
        ),
        ("systems: {A: {transform: {1: rank}}}", "transform: transform names columns, got 1 for a"),
        ("systems: {A: {rule: {class_path: sum, init_args: {a: 1}}}}", "takes no init_args"),
    ],
)
def test_mistakes_in_a_file_are_named_by_line_and_key(
    here: Path, content: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("bad.yaml").write_text(content)
    with pytest.raises(InputError, match=said):
        read_systems("L3,bad.yaml")
    assert len(failure_of(capsys, *FUSE, "bad.yaml").splitlines()) == 1


def test_settings_and_systems_may_be_merged(here: Path) -> None:
    merged = "systems:\n  A: &a {rule: linear}\n  B: {<<: *a, rho: 0.5}\n  <<: {C: *a}"
    Path("merged.yaml").write_text(merged)
    own = {"A": {"rule": "linear"}, "B": {"rule": "linear", "rho": 0.5}, "C": {"rule": "linear"}}
    assert read_systems("merged.yaml") == own


def test_a_name_of_ours_is_taken_on_request_alone_and_from_one_file(here: Path) -> None:
    Path("other.yaml").write_text("systems: {L3c: {rule: cascade, override: true}}")
    assert read_systems("L3c,other.yaml")["L3c"] == {"rule": "cascade"}
    Path("third.yaml").write_text("systems: {L3c: {rule: sum, override: true}}")
    with pytest.raises(InputError, match=r"third\.yaml has the system L3c of another file"):
        read_systems("other.yaml,third.yaml")


def test_fit_keeps_them_in_checkpoints_and_test_reads_them_without_the_file(here: Path) -> None:
    main(["fit", "--systems", "B1,my.yaml", *TINY])
    run = here / "runs/B1/version_0"
    content: Any = torch.load(run / "checkpoints/best.ckpt", weights_only=True)
    assert content["hyper_parameters"]["own_systems"] == {"MyL3": SETTINGS}
    noted = yaml.safe_load((run / "config.yaml").read_text())["model"]
    assert (noted["systems"], noted["own_systems"]) == (["B1", "MyL3"], {"MyL3": SETTINGS})
    assert read_fitted_systems(run).keys() == {"B1", "MyL3"}
    Path("my.yaml").unlink()
    before = read_metrics(run / METRICS_FILE)["MyL3"]["sets"]["eval"]["values"]
    main(["test", str(run), "--quiet"])
    assert read_metrics(run / METRICS_FILE)["MyL3"]["sets"]["eval"]["values"] == before
    module = SASVModule.load_from_checkpoint(run / "checkpoints/best.ckpt")
    assert module.systems[0]["MyL3"].config["components"] == 4


def test_refit_takes_a_file_too(here: Path) -> None:
    main(["fit", "--systems", "B1", *TINY])
    main(["test", "runs/B1/version_0", "--refit", "--systems", "my.yaml", "--quiet"])
    assert len(list(here.rglob("MyL3.safetensors"))) == 1


def test_table_takes_them_and_keeps_those_of_an_earlier_table(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = ["table", "--seeds=1", "--replicates=0", "--processes=1", *TINY]
    main([*table, "--systems", "B1,my.yaml", "--out", "t"])
    assert "MyL3" in (here / "t/table.md").read_text()
    first = read_metrics(here / "t/seed1" / METRICS_FILE)["MyL3"]
    main([*table, "--systems", "L2", "--out", "t"])
    again = read_metrics(here / "t/seed1" / METRICS_FILE)
    assert again.keys() == {"B1", "MyL3", "L2"}
    assert again["MyL3"]["sets"]["eval"]["values"] == first["sets"]["eval"]["values"]
    assert "sasv_MyL3" in (here / "t/seed1/scores/eval.csv").read_text().splitlines()[0]
    Path("my.yaml").write_text(f"systems: {{MyL3: {MINE[:-1]}, dof: 5}}}}")
    main([*table, "--systems", "my.yaml", "--out", "t"])
    changed = read_metrics(here / "t/seed1" / METRICS_FILE)["MyL3"]
    assert changed["system_key"] != first["system_key"]


# A system that fails among several


TOO_MANY: dict[str, FusionSettings] = {"Many": {"density": "mixture", "components": 900}}


def test_the_others_are_fitted_and_the_reason_is_given() -> None:
    scores, failed = toy_scores(300), dict[str, str]()
    given = scores.asv, scores.cm, scores.label
    found = fit_systems(*given, {**TOO_MANY, "Mine": SETTINGS}, failures=failed)
    assert list(found) == ["Mine"]
    assert failed == {"Many": "components is 900, but class spoof has 100 trials"}
    with pytest.raises(InputError, match="components is 900"):
        fit_systems(*given, {**TOO_MANY, "Mine": SETTINGS})
    with pytest.raises(InputError, match="components is 900"):
        fit_systems(*given, TOO_MANY, failures=failed)


def with_one_that_fails() -> None:
    many = "systems: {Many: {density: mixture, components: 900}"
    Path("some.yaml").write_text(f"{many}, MyL3: {MINE}}}")
    Path("none.yaml").write_text(f"{many}}}")


def test_fuse_finishes_and_says_why_or_ends_with_2_if_none_is_left(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with_one_that_fails()
    main([*FUSE, "some.yaml", "--out", "o"])
    assert "Many: not fitted: components is 900" in capsys.readouterr().err
    assert (
        read_fitted_systems("o").keys() == read_metrics(here / "o/metrics.json").keys() == {"MyL3"}
    )
    assert "components is 900" in failure_of(capsys, *FUSE, "none.yaml", "--out", "p")
    assert not (here / "p").exists() or not list((here / "p").rglob("*.json"))


def test_fit_and_table_finish_and_say_why(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with_one_that_fails()
    tiny = TINY[:-1]
    main(["fit", "--systems", "some.yaml", *tiny])
    assert "Many: not fitted: components is 900" in capsys.readouterr().err
    run = here / "runs/Many/version_0"
    assert read_metrics(run / METRICS_FILE).keys() == {"MyL3"}
    main(["test", str(run)])
    assert "Many: not fitted: components is 900" in capsys.readouterr().err
    table = ["table", "--seeds=1", "--replicates=39", "--processes=1", *tiny, "--out", "t"]
    main([*table, "--systems", "some.yaml"])
    assert "Many: not fitted: components is 900" in capsys.readouterr().err
    assert "Many: not fitted" in (here / "t/table.md").read_text()
    main([*table, "--systems", "some.yaml"])  # nothing is missing now
    assert "components is 900" in failure_of(capsys, *table, "--systems", "none.yaml")
    assert "components is 900" in failure_of(capsys, "fit", "--systems", "none.yaml", *tiny)
