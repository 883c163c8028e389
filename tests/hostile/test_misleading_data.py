"""Development scores that would mislead a fit: it is said, everywhere, and healthy ones are not."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.callbacks.write_results import finish
from lightning_sasv.cli import main
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.decisions import CostModel, simulate
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import read_fitted
from lightning_sasv.fusion import SYSTEMS, build_system, fit_systems
from lightning_sasv.metrics.functional import sasv_eers
from lightning_sasv.metrics_file import systems_of
from lightning_sasv.models import SASVModule
from lightning_sasv.report.table1_text import write_table as write_table1
from lightning_sasv.scores import read_scores, write_scores
from lightning_sasv.trials import Scores, TrialClass
from tests.helpers import best_checkpoint, failure_of, metrics_in, quiet_trainer, shared_data

Pairs = tuple[np.ndarray, np.ndarray, np.ndarray]
MISLED = {"B1c", "L2", "L2c", "L3", "L3c", "M3", "J3", "Q3", "L3ct", "M3d"}


def healthy(trials: int = 900, seed: int = 3) -> Pairs:
    priors = CostModel(p_target=0.2, p_nontarget=0.3, p_spoof=0.5)
    asv, cm, labels = simulate(trials, priors, seed=seed)[:3]
    return asv / 5, 2 * cm + 1, labels


def changed(row_of: TrialClass, side: int, value: float) -> Pairs:
    trials = healthy()
    trials[side][np.flatnonzero(trials[2] == row_of)[5]] = value
    return trials


def two_spoofs() -> Pairs:
    asv, cm, labels = healthy()
    kept = np.append(np.flatnonzero(labels != 0), np.flatnonzero(labels == 0)[:2])
    return asv[kept], cm[kept], labels[kept]


def separated() -> Pairs:
    asv, cm, labels = healthy()
    return asv + 50 * (labels == 1), cm - 50 * (labels == 0), labels


def permuted() -> Pairs:
    asv, cm, labels = healthy()
    return asv, cm, np.random.default_rng(1).permutation(labels)


def equal_in_class() -> Pairs:
    labels = healthy()[2]
    return np.where(labels == 1, 0.7, 0.1), np.where(labels == 0, -0.3, 0.3), labels


CASES = {
    "separated": separated,
    "two spoofs": two_spoofs,
    "one of each": lambda: tuple(part[[0, 4, 2]] for part in healthy()),
    "permuted": permuted,
    "equal in each class": equal_in_class,
    "equal": lambda: (np.full(90, 0.3), np.full(90, 0.3), np.arange(90) % 3),
    "1e308": lambda: changed(TrialClass.TARGET, 0, 1e308),
    "-1e308": lambda: changed(TrialClass.SPOOF, 1, -1e308),
    "1e100": lambda: changed(TrialClass.NONTARGET, 0, 1e100),
    "1e12": lambda: changed(TrialClass.NONTARGET, 0, 1e12),
    "-1e12 in cm": lambda: changed(TrialClass.TARGET, 1, -1e12),
    "wrong sign": lambda: (-healthy()[0], -healthy()[1], healthy()[2]),
}
REFUSED = {"equal", "1e308", "-1e308"}
DEFINED = {"separated", "two spoofs", "permuted", "equal in each class", "1e12", "-1e12 in cm"}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SYSTEMS)
def test_every_system_has_a_defined_result(name: str, case: str) -> None:
    asv, cm, labels = CASES[case]()
    system, fused, text = build_system(name), None, ""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            fused = system.fit(asv, cm, labels, speakers=speakers_of(labels))(asv, cm)
        except InputError as error:
            text = str(error)
    if fused is None:
        assert case not in DEFINED, text
        assert 0 < len(text) < 400
        return
    assert case not in REFUSED
    assert all(np.isfinite(part.numpy()).all() for part in fused)
    assert all(np.isfinite(value).all() for value in system.arrays().values())


@pytest.mark.parametrize("name", SYSTEMS)
def test_outliers_of_any_class_and_side_are_said_where_they_change_the_result(name: str) -> None:
    """Whatever an outlier does to the EER of healthy trials, it is not done in silence."""
    asv, cm, labels = healthy()
    speakers = speakers_of(labels)
    plain = build_system(name).fit(asv, cm, labels, speakers=speakers)
    assert plain.warnings == []
    for code in TrialClass:
        for side, value in ((0, 1e12), (0, -1e12), (1, 1e12), (1, -1e12)):
            system = build_system(name).fit(*changed(code, side, value), speakers=speakers)
            rates = [sasv_eers(one(asv, cm).sasv, labels).sasv for one in (plain, system)]
            assert abs(rates[0] - rates[1]) < 0.01 or system.warnings, (code, side, value, rates)


def speakers_of(labels: np.ndarray) -> np.ndarray:
    """Three speakers, each with trials of every class that has enough of them."""
    numbers = np.empty(len(labels), int)
    for code in TrialClass:
        numbers[labels == code] = np.arange(np.sum(labels == code)) % 3
    return numbers


def table_of(path: Path, pairs: Pairs) -> Path:
    asv, cm, labels = pairs
    names = np.array([f"U{number}" for number in range(len(asv))])
    speakers = np.full(len(asv), "S1")
    write_scores(path, Scores(asv, cm, labels, speaker=speakers, utterance=names))
    return path


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table_of(tmp_path / "eval.csv", healthy(seed=4))
    table_of(tmp_path / "good.csv", healthy())
    table_of(tmp_path / "bad.csv", changed(TrialClass.NONTARGET, 0, 1e12))
    return tmp_path


def line_of(path: Path, score: float) -> int:
    lines = enumerate(path.read_text().splitlines()[1:], 2)
    return next(n for n, line in lines if score in map(float, line.split(",")[-2:]))


def said(capfd: pytest.CaptureFixture[str], *words: str) -> list[str]:
    """Warnings and notes of a command, which are on standard error alone."""
    capfd.readouterr()
    main(words)
    shown = capfd.readouterr()
    marks = ("warning: ", "note: ")
    assert not [line for line in shown.out.splitlines() if line.startswith("warning: L")]
    return [line for line in shown.err.splitlines() if line.startswith(marks)]


def fuse(dev: str, out: str, *more: str) -> list[str]:
    return ["fuse", "--dev", dev, "--eval", "eval.csv", "--out", out, *more]


def test_fuse_names_the_outlier_and_every_later_command_repeats_it(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    lines = said(capfd, *fuse("bad.csv", "out"))
    place = f"bad.csv, line {line_of(folder / 'bad.csv', 1e12)}: 1e+12"
    assert [line for line in lines if place in line and "rests on one dev trial" in line]
    assert len(lines) == len(set(lines)) <= 6
    assert all(len(line) < 250 for line in lines)
    metrics = metrics_in(folder / "out")
    found = {name: {one["code"] for one in metrics[name]["warnings"]} for name in metrics}
    assert {name for name in found if "dominated" in found[name]} == MISLED
    assert "order" in found["L2c"]
    assert "slope" in found["B1c"]
    assert not found["L3t"]
    assert read_fitted(folder / "out/fitted/L2c.safetensors").warnings == metrics["L2c"]["warnings"]

    decided = said(capfd, "decide", "eval.csv", "--fitted", "out", "--system", "L2c")
    exported = said(capfd, "export", "--fitted", "out", "--system", "L2c", "--out", "bundle")
    own = [one["text"] for one in metrics["L2c"]["warnings"]]
    assert decided == exported == [f"warning: L2c: {text}" for text in own]
    assert said(capfd, "decide", "eval.csv", "--fitted", "out", "--system", "L3t") == []
    assert json.loads((folder / "bundle/bundle.json").read_text())["warnings"]

    main(["report", "out"])
    page = (folder / "out/report.html").read_text()
    assert f"({place})" in page
    assert "<td>L2c !</td>" in page
    assert "<td>L3t</td>" in page


def test_healthy_scores_are_fused_without_a_word(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert said(capfd, *fuse("good.csv", "out")) == []
    metrics = metrics_in(folder / "out")
    assert all(entry["warnings"] == [] for entry in metrics.values())
    assert said(capfd, "export", "--fitted", "out", "--system", "L3", "--out", "bundle") == []
    main(["report", "out"])
    assert "<td>L2c</td>" in (folder / "out/report.html").read_text()


def test_trim_gives_the_healthy_result_and_says_what_it_left_out(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (line,) = said(capfd, *fuse("bad.csv", "out", "--trim", "20"))
    assert line.startswith("note: B1c, L2")
    assert f"bad.csv, line {line_of(folder / 'bad.csv', 1e12)}" in line
    assert said(capfd, *fuse("good.csv", "plain")) == []
    rates = [metrics_in(folder / name)["L2c"]["eval"]["sasv_eer"] for name in ("out", "plain")]
    assert rates[0] == pytest.approx(rates[1], abs=0.01)
    fitted = read_fitted(folder / "out/fitted/L2c.safetensors")
    assert fitted.config["trim"] == 20
    again = build_system("L2c", trim=fitted.config["trim"])
    again.fit(*changed(TrialClass.NONTARGET, 0, 1e12))
    for name, value in again.arrays().items():
        np.testing.assert_array_equal(value, fitted.arrays()[name])


def test_the_right_one_of_two_files_is_named(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    asv, cm, labels = changed(TrialClass.NONTARGET, 0, 1e12)
    codes = [str(TrialClass(code)) for code in labels]
    rows = [f"S1 U{n} {a!r}" for n, a in enumerate(asv.tolist())]
    (folder / "asv.txt").write_text("".join(f"{row}\n" for row in rows))
    order = np.random.default_rng(0).permutation(len(cm)).tolist()
    (folder / "cm.txt").write_text("".join(f"U{n} {float(cm[n])}\n" for n in order))
    key = "speaker,utterance,label\n" + "".join(f"S1,U{n},{c}\n" for n, c in enumerate(codes))
    (folder / "key.csv").write_text(key)
    lines = said(capfd, *fuse("asv=asv.txt,cm=cm.txt", "out", "--dev-key", "key.csv"))
    row = next(number for number, line in enumerate(rows, 1) if "1000000000000.0" in line)
    assert f"(asv.txt, line {row}: 1e+12)" in lines[0]


@pytest.mark.parametrize("value", [1e308, -1e308])
def test_scores_beyond_computing_are_refused_with_file_and_line(
    folder: Path, capfd: pytest.CaptureFixture[str], value: float
) -> None:
    bad = table_of(folder / "huge.csv", changed(TrialClass.SPOOF, 1, value))
    place = f"huge.csv, line {line_of(bad, value)}: cm_score is {value}"
    assert place in failure_of(capfd, *fuse("huge.csv", "out"))
    words = ["fuse", "--dev", "good.csv", "--eval", "huge.csv", "--out", "out"]
    assert place in failure_of(capfd, *words)
    main(fuse("good.csv", "out"))
    assert place in failure_of(capfd, "decide", "huge.csv", "--fitted", "out")


def test_equal_scores_are_refused_by_file(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    table_of(folder / "equal.csv", CASES["equal"]())
    assert "equal.csv: asv is constant" in failure_of(capfd, *fuse("equal.csv", "out"))


def test_trim_has_to_be_positive(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert "trim must be positive" in failure_of(capfd, *fuse("good.csv", "out", "--trim", "0"))


def test_damaged_warnings_of_a_fitted_file_are_refused(folder: Path) -> None:
    main(fuse("bad.csv", "out"))
    path = folder / "out/fitted/L2c.safetensors"
    content = path.read_bytes()
    assert content.count(b'\\"trials\\"') > 0
    path.write_bytes(content.replace(b'\\"trials\\"', b'\\"TRIALS\\"'))
    with pytest.raises(InputError, match=r"damaged .its warnings are not a list"):
        read_fitted(path)


def test_fit_names_speaker_and_utterance_and_its_checkpoint_remembers(
    twin, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    vectors = twin.dev.cm.vectors.clone()
    row = int(np.flatnonzero(twin.dev.trials.label == TrialClass.TARGET)[3])
    name = twin.dev.trials.utterance[row]
    vectors[twin.dev.cm.ids.index(name)] *= 1e9
    store = EmbeddingStore(twin.dev.cm.ids, vectors, "misleading")
    corpora = {"bad": replace(twin, dev=replace(twin.dev, cm=store)), "good": twin}
    for kind, corpus in corpora.items():
        capfd.readouterr()
        module, trainer = SASVModule(systems=("L2c", "L3t")), quiet_trainer(tmp_path / kind, 1)
        trainer.fit(module, datamodule=(data := shared_data(corpus)))
        assert "warning: L" not in capfd.readouterr().err, "not before the end"
        finish(trainer, module, data)
        lines = [n for n in capfd.readouterr().err.splitlines() if n.startswith("warning: L")]
        metrics = metrics_in(Path(trainer.log_dir))
        codes = [one["code"] for one in metrics["L2c"]["warnings"]]
        loaded = SASVModule.load_from_checkpoint(best_checkpoint(trainer))
        assert [one["code"] for one in loaded.systems[0]["L2c"].warnings] == codes
        if kind == "good":
            assert lines == codes == metrics["L3t"]["warnings"] == []
        else:
            assert codes[0] == "dominated"
            assert f"{twin.dev.trials.speaker[row]}/{name}: " in lines[0]
            assert len(lines) == len(set(lines))


def test_a_table_marks_doubtful_systems(tmp_path: Path) -> None:
    doubt = {"code": "few", "text": "class spoof has 2 dev trials", "value": 2.0, "trials": []}
    values = {"sasv_eer": 0.1, "cllr": 0.5, "t_eer": 0.1}
    seeds = [
        {
            name: {
                "corpus": "x",
                "seed": seed,
                "dev": values,
                "eval": values,
                "fitted": {},
                "warnings": [doubt] if name == "L2" and seed < 3 else [],
            }
            for name in ("B1", "L2")
        }
        for seed in (1, 2, 3)
    ]
    found = [systems_of(one, "x") for one in seeds]
    lines = write_table1(tmp_path, found, ["B1", "L2"]).warnings
    assert lines == ["warning: L2: seed 1, 2: class spoof has 2 dev trials"]
    assert "| L2 ! |" in (tmp_path / "table.md").read_text()
    assert "| B1 |" in (tmp_path / "table.md").read_text()
    for suffix in ("md", "tex"):
        assert (
            "seed 1, 2: class spoof has 2 dev trials" in (tmp_path / f"table.{suffix}").read_text()
        )
    notes = [
        line for line in (tmp_path / "table.csv").read_text().splitlines() if "doubtful" in line
    ]
    assert notes
    assert all(",L2," in line for line in notes)
    metrics = metrics_in(tmp_path)
    assert metrics["L2"]["warnings"][0]["text"].startswith("seed 1, 2: ")


def test_real_scores_raise_no_doubt(shared: Path) -> None:
    dev = read_scores(shared / "data/sasv2022/dev_scores.csv")
    systems = fit_systems(dev.asv, dev.cm, dev.label, speakers=dev.speaker)
    assert {name: one.warnings for name, one in systems.items()} == {name: [] for name in SYSTEMS}
