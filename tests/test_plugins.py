"""The package of docs/extend.md as an installed one, through commands; classes by their names."""

from __future__ import annotations

import importlib
import json
import re
import sys
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv import gate
from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import read_fitted, save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.fusion.settings import PARTS
from lightning_sasv.metrics.registry import METRICS, all_metrics
from lightning_sasv.plugins import UntrustedError
from lightning_sasv.program import Program, using
from lightning_sasv.scores import LAYOUTS, read_table, write_scores
from lightning_sasv.systems import read_systems
from tests.conftest import REPOSITORY
from tests.helpers import failure_of
from tests.scores.samples import toy_scores

PAGE = (REPOSITORY / "docs" / "extend.md").read_text(encoding="utf-8")
MODULE = "sasv_extras"
FUSE = ("fuse", "--dev", "dev.csv", "--eval", "dev.csv")
TINY = ("--data.scale=0.01", "--trainer.max_epochs=1", "--trainer.accelerator=cpu", "--quiet")


def block(language: str, number: int = 0) -> str:
    """A block of the page in a language."""
    found: list[str] = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)
    return found[number]


def _lines(own: dict[str, str]) -> list[str]:
    return [f"{name} = {value}" for name, value in own.items()]


def install(folder: Path, source: str, entries: dict[str, dict[str, str]]) -> None:
    """Put a module and the note that it is installed into a folder of the module path."""
    (folder / f"{MODULE}.py").write_text(source)
    note = folder / "sasv_extras-1.0.dist-info"
    note.mkdir(exist_ok=True)
    (note / "METADATA").write_text("Metadata-Version: 2.1\nName: sasv-extras\nVersion: 1.0\n")
    lines = [line for group, own in entries.items() for line in (f"[{group}]", *_lines(own))]
    (note / "entry_points.txt").write_text("\n".join(lines) + "\n")
    importlib.invalidate_caches()


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the module path, and another one to work in, with scores."""
    site, work = tmp_path / "site", tmp_path / "work"
    site.mkdir(), work.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.chdir(work)
    write_scores("dev.csv", toy_scores(300))
    yield site
    sys.modules.pop(MODULE, None)


@pytest.fixture
def installed(site: Path) -> Path:
    install(site, block("python"), tomllib.loads(block("toml"))["project"]["entry-points"])
    return site


def test_the_example_is_as_short_as_it_says() -> None:
    assert len([line for line in block("python").splitlines() if line.strip()]) <= 45


def test_a_head_of_a_package_is_trained(site: Path) -> None:
    install(site, block("python", 1), {"lightning_sasv.heads": {"cosine": f"{MODULE}:Cosine"}})
    main(["fit", "--model.head=cosine", "--systems=F3", "--model.hidden_dims=[4]", *TINY])
    [run] = Path("runs").rglob("best.ckpt")
    main(["test", f"--ckpt_path={run}", "--quiet"])


def test_density_and_rule_are_fused_reported_decided_and_exported(installed: Path) -> None:
    Path("my.yaml").write_text("systems: {Mine: {density: laplace, rule: soft_minimum}}")
    main([*FUSE, "--systems", "my.yaml", "--out", "out", "--quiet"])
    fitted, scores = read_fitted("out/fitted/Mine.safetensors"), toy_scores(300)
    assert (fitted.config["density"], fitted.config["rule"]) == ("laplace", "soft_minimum")
    found = fitted(scores.asv, scores.cm)
    target = np.stack([scores.asv, scores.cm])[:, scores.label == 1]
    median = np.median(target, axis=1)
    assert fitted.arrays()["density.median"][1] == pytest.approx(median)
    assert found.sasv == pytest.approx(-np.logaddexp(-found.asv_llr, -found.cm_llr))
    assert read_table(Path("out/scores/dev.csv")).numbers("sasv_Mine") == pytest.approx(found.sasv)
    main(["report", "out", "--quiet"])
    assert "Mine" in Path("out/report.html").read_text()
    main(["decide", "dev.csv", "--fitted", "out", "--system", "Mine", "--quiet"])
    main(["export", "--fitted", "out", "--system", "Mine", "--out", "bundle", "--quiet"])
    Path("my.yaml").write_text(
        "systems: {Mine: {density: {class_path: laplace, init_args: {floor: 2.0}}, rule: linear}}"
    )
    main([*FUSE, "--systems", "my.yaml", "--out", "other", "--quiet"])
    wide = read_fitted("other/fitted/Mine.safetensors")
    assert wide.config["density"] == {"class": "laplace", "settings": {"floor": 2.0}}
    assert (wide.arrays()["density.scale"] >= 2).all()


def test_a_training_keeps_them_in_its_checkpoint(installed: Path) -> None:
    Path("my.yaml").write_text("systems: {Mine: {density: laplace, rule: soft_minimum}}")
    main(["fit", "--systems", "my.yaml", *TINY])
    main(["test", "runs/Mine/version_0", "--quiet"])


def test_tensors_go_through_as_arrays(installed: Path) -> None:
    import torch

    scores = toy_scores(300)
    system = FusionSystem(density="laplace", rule="soft_minimum")
    fused = system.fit(scores.asv, scores.cm, scores.label)(
        torch.tensor(scores.asv), torch.tensor(scores.cm)
    )
    assert isinstance(fused.sasv, torch.Tensor)
    assert fused.sasv.isfinite().all()


def test_metric_and_layout_are_those_of_evaluate(
    installed: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [
        "target - s1 u1 1.5",
        "target - s2 u2 -0.5",
        "nontarget - s1 u3 -1.0",
        "spoof A1 s1 u4 -2.0",
    ]
    Path("lab.txt").write_text("\n".join(rows))
    for words in (["--format", "our-lab"], []):
        main(["evaluate", "lab.txt", "--ci", "none", "--json", "x.json", "--overwrite", *words])
        shown = capsys.readouterr()
        assert "targets at or below 0" in shown.out
        (entry,) = json.loads(Path("x.json").read_text())["systems"].values()
        assert '"refused_at_zero": 0.5' in json.dumps(entry)
    assert "our-lab (scores of our lab)" in shown.err
    main(["evaluate", "dev.csv", "--ci", "trial", "--replicates", "39"])
    main(["convert", "lab.txt", "--to", "csv", "--out", "lab.csv"])
    assert "refused_at_zero" in METRICS.all()
    assert "refused_at_zero" not in list(METRICS)


BROKEN = {
    "density": ("densities", "raise RuntimeError('on purpose')", "no_such"),
    "no_density": ("densities", "wrong = 3", "wrong"),
    "metric": ("metrics", "wrong = 3", "wrong"),
    "layout": ("layouts", "raise SystemExit(3)", "wrong"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_package_is_one_warning_that_names_it(
    site: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    group, source, thing = BROKEN[kind]
    install(site, source, {f"lightning_sasv.{group}": {"odd": f"{MODULE}:{thing}"}})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if group == "densities":
            Path("my.yaml").write_text("systems: {Mine: {density: odd}}")
            assert "odd" in failure_of(capsys, *FUSE, "--systems", "my.yaml")
        else:
            main(["evaluate", "dev.csv", "--ci", "none"])
    (said,) = [str(one.message) for one in caught if one.category is UserWarning]
    assert said.startswith("the package sasv-extras registers the")


def test_a_metric_that_fails_is_undefined_and_says_why(site: Path) -> None:
    source = "from lightning_sasv.metrics.registry import Metric\n"
    source += "odd = Metric('odd', 'odd', 'score', ('sasv',), lambda classes, settings: 1 / 0)"
    install(site, source, {"lightning_sasv.metrics": {"odd": f"{MODULE}:odd"}})
    scores = toy_scores(300)
    assert np.isnan(all_metrics(None, None, scores.asv, scores.label)["odd"])


STAGES = """
import numpy as np

class Box:
    def start(self, columns):
        return {"scatter": 1.0}

    def fit(self, points):
        return {"scatter": np.ptp(points)}

    def log_prob(self, state, points):
        return -np.log(state["scatter"]) - np.abs(points).sum(axis=0)

class Halves:
    def start(self, columns):
        return {"knots": np.zeros(columns), "llrs": np.zeros(2), "weight": np.ones((2, 2))}

    def fit(self, scores, labels):
        return self.start(len(scores)) | {"knots": -np.arange(len(scores))}

    def apply(self, state, scores):
        return scores[[0, -1]] / 2
"""


def test_values_of_a_package_may_have_the_names_of_ours(site: Path, tmp_path: Path) -> None:
    entries = {
        "densities": {"box": f"{MODULE}:Box"},
        "calibrations": {"halves": f"{MODULE}:Halves"},
    }
    install(site, STAGES, {f"lightning_sasv.{group}": own for group, own in entries.items()})
    scores = toy_scores(300)
    several = np.column_stack([scores.asv, scores.asv**3]), scores.cm
    for settings in ({"density": "box"}, {"calibration": "halves"}):
        system = FusionSystem(**settings).fit(*several, scores.label)
        again = read_fitted(save_system(tmp_path / "X.safetensors", system, {}))
        assert again.values() == system.values()
        assert again(*several).sasv.tolist() == system(*several).sasv.tolist()


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("def odd(asv, cm): return 1 / 0", "odd of another package fails (ZeroDivisionError"),
        (
            "class odd:\n    def __call__(self, asv, cm): return 1 / 0",
            "odd of another package fails",
        ),
        ("def odd(asv, cm): return 1.0", "gives the shape (), expected (300,)"),
    ],
)
def test_a_rule_that_fails_is_one_line(
    site: Path, source: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install(site, source, {"lightning_sasv.rules": {"odd": f"{MODULE}:odd"}})
    Path("my.yaml").write_text("systems: {Odd: {rule: odd}}")
    assert said in failure_of(capsys, *FUSE, "--systems", "my.yaml")


def test_nothing_of_a_package_is_imported_before_it_is_asked_for(installed: Path) -> None:
    assert build_system("L3").config["density"] == "gaussian"
    assert "gaussian" in PARTS["density"]
    assert LAYOUTS["csv"].name == "csv"
    assert MODULE not in sys.modules


def test_a_name_of_ours_is_not_taken(site: Path) -> None:
    install(site, "x = 3", {"lightning_sasv.densities": {"gaussian": f"{MODULE}:x"}})
    scores = toy_scores(300)
    assert build_system("L3").fit(scores.asv, scores.cm, scores.label).is_fitted
    assert MODULE not in sys.modules


# By the name of a class


LAPLACE = "{class_path: sasv_extras.Laplace, init_args: {floor: 0.5}}"
CLASS = f"systems: {{Mine: {{density: {LAPLACE}, rule: linear}}}}"


@pytest.fixture
def by_class(site: Path) -> Path:
    """The module without any entry point, and systems that name its class."""
    install(site, block("python"), {})
    Path("my.yaml").write_text(CLASS)
    return site


def test_a_class_needs_trust_in_every_command_and_is_not_exported(
    by_class: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fuse = (*FUSE, "--systems", "my.yaml,B1", "--out", "out")
    said = failure_of(capsys, *fuse)
    assert "my.yaml, line 1, systems.Mine.density: the density sasv_extras.Laplace" in said
    assert "add --trust-config" in said
    assert MODULE not in sys.modules
    main([*fuse, "--trust-config", "--quiet"])
    with using(Program(trust_config=True)):
        fitted = read_fitted("out/fitted/Mine.safetensors")
    assert fitted.config["density"] == {"class": "sasv_extras.Laplace", "settings": {"floor": 0.5}}
    with pytest.raises(UntrustedError, match="add --trust-config"):
        read_fitted("out/fitted/Mine.safetensors")
    decide = ("decide", "dev.csv", "--fitted", "out", "--system", "Mine")
    assert "--trust-config" in failure_of(capsys, *decide)
    main([*decide, "--trust-config", "--quiet"])
    capsys.readouterr()
    main(["report", "out"])
    assert "Mine is left out" in Path("out/report.html").read_text()
    export = ("export", "--fitted", "out", "--system", "Mine", "--out", "bundle")
    said = failure_of(capsys, *export)
    assert "Mine cannot be exported: the density sasv_extras.Laplace is a class of another" in said
    export = (*export, "--trust-config")
    assert "cannot be exported: its density is the class sasv_extras.Laplace" in failure_of(
        capsys, *export
    )
    assert not Path("bundle").exists()


def test_a_checkpoint_names_the_class_and_imports_it_with_trust_alone(
    by_class: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from lightning_sasv.models import SASVModule

    main(["fit", "--systems", "my.yaml", *TINY, "--trust-config"])
    run = "runs/Mine/version_0"
    sys.modules.pop(MODULE)
    assert "--trust-config" in failure_of(capsys, "test", run)
    with pytest.raises(InputError, match="--trust-config"):
        SASVModule.load_from_checkpoint(f"{run}/checkpoints/best.ckpt")
    assert MODULE not in sys.modules
    main(["test", run, "--quiet", "--trust-config"])


def test_a_class_that_is_registered_needs_no_trust(installed: Path) -> None:
    Path("my.yaml").write_text(CLASS)
    with gate.command(["fuse"]):
        assert read_systems("my.yaml").keys() == {"Mine"}


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("collections.OrderedDict", "collections.OrderedDict is no density: it lacks start, fit"),
        ("math.pi", "math.pi is no density: it lacks"),
        ("no_such_module.X", "no density no_such_module.X (ModuleNotFoundError: No module named"),
        ("math.nothing", "no density math.nothing (AttributeError"),
        ("sasv_extras.soft_minimum", "sasv_extras.soft_minimum is no density: it lacks"),
    ],
)
def test_a_class_path_that_is_no_density_is_one_line(
    by_class: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my.yaml").write_text(f"systems: {{Mine: {{density: {{class_path: {name}}}}}}}")
    found = failure_of(capsys, *FUSE, "--systems", "my.yaml", "--trust-config")
    assert said in found
    assert len(found.splitlines()) == 1


def test_a_density_that_fails_in_its_fit_is_a_system_that_fails(
    site: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = block("python").replace("np.median(points, axis=1)", "1 / 0")
    install(site, source, {"lightning_sasv.densities": {"odd": f"{MODULE}:Laplace"}})
    Path("my.yaml").write_text("systems: {Odd: {density: odd}}")
    main([*FUSE, "--systems", "B1,my.yaml", "--out", "out"])
    said = capsys.readouterr().err
    assert "Odd: not fitted: Laplace.fit of another package fails (ZeroDivisionError" in said


@pytest.mark.parametrize("key", ["fusion", "own_systems"])
@pytest.mark.parametrize("way", ["{class: sasv_extras.Laplace, settings: {}}", LAPLACE])
def test_no_configuration_names_a_class_without_trust(
    by_class: Path, key: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = f"{{density: {way}}}"
    own = settings if key == "fusion" else f"{{Mine: {settings}}}"
    names = "[L3]" if key == "fusion" else "[Mine]"
    Path("c.yaml").write_text(f"model: {{systems: {names}, {key}: {own}}}\ndata: {{scale: 0.01}}")
    said = failure_of(capsys, "fit", "--config", "c.yaml")
    assert "sasv_extras" in said
    assert MODULE not in sys.modules
