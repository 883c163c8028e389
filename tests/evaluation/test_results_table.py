"""One object holds what an evaluation finds: from frames and files, to tables and files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import lightning_sasv
from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import Results, evaluate
from lightning_sasv.metrics.functional import all_metrics
from lightning_sasv.results import read_metrics
from lightning_sasv.scores import write_scores
from tests.helpers import failure_of
from tests.scores.samples import toy_scores


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    scores = toy_scores(speakers=12)
    noise = np.random.default_rng(0).normal(size=scores.asv.size)
    scores.extra["sasv_A"] = scores.asv * 4 + scores.cm
    scores.extra["sasv_B"] = scores.extra["sasv_A"] + 1e-3 * noise
    scores.extra["sasv_C|_"] = noise
    return write_scores(tmp_path_factory.mktemp("frames") / "eval.csv", scores)


@pytest.fixture(scope="module")
def found(file: Path) -> Results:
    return evaluate(file, systems="A,B,C|_", compare=True, replicates=199, by="attack")


pandas, pyarrow = (pytest.importorskip(name) for name in ("pandas", "pyarrow"))  # there in CI


def columns_of(file: Path) -> dict[str, np.ndarray]:
    return {one.name: one.to_numpy() for one in pl.read_csv(file)}


def frames_of(file: Path, kind: str) -> Any:
    if kind in ("polars", "lazy"):
        return pl.read_csv(file) if kind == "polars" else pl.scan_csv(file)
    arrays = columns_of(file)
    if kind == "pandas":
        return pandas.DataFrame(arrays)
    return pyarrow.table(arrays) if kind == "pyarrow" else arrays


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "pyarrow", "arrays"])
def test_frames_and_paths_give_the_same(file: Path, kind: str) -> None:
    options: dict[str, Any] = {"systems": "A", "replicates": 39}
    path, frame = evaluate(file, **options), evaluate(frames_of(file, kind), **options)
    assert frame.metrics == path.metrics
    assert frame.intervals == path.intervals
    assert frame.of["A"]["fingerprint"] == path.of["A"]["fingerprint"]


def test_columns_of_frames_are_renamed_and_labels_may_be_codes(file: Path) -> None:
    given = columns_of(file)
    codes = np.array([["spoof", "target", "nontarget"].index(word) for word in given["label"]])
    frame = {"s": given["sasv_A"], "label": codes}
    (values,) = evaluate(frame, columns={"s": "sasv"}, ci="none").metrics.values()
    assert values == all_metrics(None, None, given["sasv_A"], codes)
    for wrong, words in (
        ({**frame, "label": codes + 1}, "label 3 is none of 0"),
        ({**frame, "label": codes % 2}, "labels 0 and 1 alone do not tell .*target=1,nontarget=0"),
        ({**frame, "sasv_score": codes}, "two columns are sasv_score"),
        ({"label": codes}, "columns: no column 's'; there are label"),
        ({**frame, "s": np.where(codes == 0, np.nan, 1.0)}, "frame, line"),
        ({**frame, "s": np.zeros((2, 2))}, "column s: expected one value per trial"),
        ({**frame, "speaker": np.array([None] * codes.size)}, "speaker: a value is missing"),
        ({**frame, "label": codes[1:]}, "frame: .*height of column"),
        (7, "int is no table"),
        ([frame], "list is no table"),
    ):
        with pytest.raises(InputError, match=words):
            evaluate(wrong, columns={"s": "sasv"}, ci="none")


def test_values_intervals_and_comparisons_by_name(found: Results, file: Path) -> None:
    assert found.value("A", "sasv_eer") == found.metrics["A"]["sasv_eer"]
    interval = found.interval("A", "sasv_eer")
    assert interval is not None
    assert interval.low <= found.value("A", "sasv_eer") <= interval.high
    assert found.interval("A", "cllr_min") is None
    with pytest.raises(InputError, match="no system 'D'; there are A, B"):
        found.value("D", "sasv_eer")
    with pytest.raises(InputError, match=r"no metric of A 'sasv_err'.*did you mean sasv_eer"):
        found.value("A", "sasv_err")
    pairs = found.compare()
    assert [(one.first, one.second) for one in pairs] == [("A", "B"), ("A", "C|_"), ("B", "C|_")]
    assert pairs == [one for one in found.comparisons if one.metric == "sasv_eer"]
    later = evaluate(file, systems="A,B,C|_", replicates=199)
    assert not later.comparisons
    assert later.compare("cllr") == found.compare("cllr")
    with pytest.raises(InputError, match="no compared metric 'asv_threshold'"):
        found.compare("asv_threshold")


def test_bold_is_the_whole_set_or_nothing(found: Results, file: Path) -> None:
    assert found.best("sasv_eer") == {"A", "B"}
    assert not found.best("cllr_min")  # not compared
    against = evaluate(file, systems="A,B,C|_", compare=True, replicates=39, reference="C|_")
    assert not against.best("sasv_eer")
    alike = evaluate(file, systems="A,B", compare=True, replicates=39)
    assert not alike.best("sasv_eer")
    assert "**" not in alike.to_markdown()


def test_long_frames(found: Results) -> None:
    frame = found.to_polars()
    assert frame.columns[:4] == ["system", "set", "group", "metric"]
    assert set(frame["set"]) == {"eval"}
    assert frame.filter(system="B", group="attack=A07", metric="spf_eer").height == 1
    other = found.to_pandas()
    assert isinstance(other, pandas.DataFrame)
    assert list(other.columns) == frame.columns
    assert other["metric"].tolist() == frame["metric"].to_list()


def test_pandas_needs_no_pyarrow(file: Path) -> None:
    code = f"""
import sys
sys.modules["pyarrow"] = None
import pandas
from lightning_sasv.evaluation import evaluate
found = evaluate(pandas.read_csv({str(file)!r}), systems="A", ci="none")
assert len(found.to_pandas()) == len(found.to_polars())
found.to_latex(), found.to_markdown(), found._repr_html_(), found.to_json()
assert "torch" not in sys.modules
assert "scipy.optimize" not in sys.modules, "it takes longer to import than all else here"
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("kind", "right"), [("float", True), ("str", False)])
def test_users_programs_see_the_types(tmp_path: Path, kind: str, right: bool) -> None:
    """``py.typed`` is in the wheel (``test_dependencies``); the types behind it are told apart."""
    pytest.importorskip("mypy", reason="mypy is there in CI")
    program = tmp_path / "user.py"
    program.write_text(
        "from lightning_sasv.evaluation import evaluate\n"
        f'value: {kind} = evaluate("x.csv").value("L3c", "sasv_eer")\n'
    )
    command = [sys.executable, "-m", "mypy", "--no-site-packages", "--ignore-missing-imports"]
    command += ["--follow-imports=silent", f"--cache-dir={os.devnull}", str(program)]
    root = Path(lightning_sasv.__file__).parents[1]
    done = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "MYPYPATH": str(root)},
        cwd=tmp_path,
    )  # fmt: skip
    assert (done.returncode == 0) == right, done.stdout
    assert ('expression has type "float", variable has type "str"' in done.stdout) != right


def test_tables_for_papers_and_notebooks(found: Results) -> None:
    cell = re.escape(f"{100 * found.value('A', 'sasv_eer'):.2f} [")
    markdown, latex, html = found.to_markdown(), found.to_latex(), found._repr_html_()
    assert re.search(rf"\| A \| \*\*{cell}", markdown)
    assert r"| C\|_ |" in markdown
    assert re.search(rf"\nA & \\textbf\{{{cell}", latex)
    assert r"C|\_ &" in latex
    caption = re.search(r"\\caption\{(.*)\}", latex)
    assert caption
    drawn = "199 replicates of 12 speakers, bca; misses of the worst speaker: A"
    for words in ("a-DCF costs a-dcf1", "asvspoof convention", drawn, "bold"):
        assert words in caption[1]
        assert words in markdown
        assert words in html
    assert latex.count(r"\toprule") == latex.count(r"\bottomrule") == 1
    assert re.search(rf"<th>A</th><td><b>{cell}", html)
    hostile = evaluate({"sasv_<b>": [1.0, 0.5, 0.0], "label": [1, 2, 0]})
    assert "<b>" not in hostile._repr_html_()


def test_the_command_prints_and_writes_the_same_object(
    found: Results, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert json.loads(found.to_json())["version"] == 2
    main(["evaluate", str(file), "--systems", "A,B,C|_", "--compare", "--replicates", "199",
          "--by", "attack", "--json", str(tmp_path / "a.json"),
          "--csv", str(tmp_path / "a.csv")])  # fmt: skip
    assert found.caption in " ".join(capsys.readouterr().out.split())
    frame = pl.read_csv(tmp_path / "a.csv")
    assert frame.equals(pl.read_csv(found.write_csv(tmp_path / "b.csv")))
    mine = json.loads(found.to_json())["systems"]
    theirs = read_metrics(tmp_path / "a.json")
    for name, entry in mine.items():
        for part in ("values", "intervals", "undefined", "by"):
            assert entry["sets"]["eval"][part] == theirs[name]["sets"]["eval"][part]


def test_systems_are_named_in_front_of_their_files(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.read_csv(file)
    ids = ["speaker", "utterance", "label"]
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    frame.select(*ids, "sasv_A").write_csv(one)
    frame.select(*ids, "asv_score").write_csv(two)
    cm = tmp_path / "cm.csv"
    frame.select(*ids, "cm_score").write_csv(cm)
    options: dict[str, Any] = {"ci": "none"}
    assert list(evaluate([f"mine={one}"], **options).metrics) == ["mine"]
    pair = f"pair=asv={two},cm={cm}"
    found = evaluate([f"mine={one}", pair, str(one)], **options)
    assert list(found.metrics) == ["mine", "pair", "one"]
    assert set(found.systems.columns["pair"]) == {"asv", "cm"}
    assert list(evaluate([f"cm={cm}"], **options).metrics) == ["cm"]
    again = evaluate([f"x={one}", f"x={one}"], **options)
    assert list(again.metrics) == ["x", "x#2"]
    odd = tmp_path / "a=b.csv"
    odd.write_bytes(one.read_bytes())
    assert list(evaluate([str(odd)], **options).metrics) == ["A"]
    assert "nowhere.csv" in failure_of(capsys, "evaluate", "mine=nowhere.csv")


def test_scores_of_dev_give_its_threshold_and_the_reference(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = pl.read_csv(file)
    dev = tmp_path / "dev.csv"
    frame.with_columns(pl.col("sasv_A") + 0.25, pl.col("sasv_B") - 0.25).write_csv(dev)
    found = evaluate(file, systems="A,B", compare=True, replicates=199, dev=str(dev))
    for name, shift in (("A", 0.25), ("B", -0.25)):
        scores, labels = frame[f"sasv_{name}"].to_numpy(), frame["label"].to_numpy()
        own = all_metrics(None, None, scores, evaluate_labels(labels))
        rates = [np.mean(scores[labels == kind] > own["a_dcf_threshold"] + shift)
                 for kind in ("target", "nontarget", "spoof")]  # fmt: skip
        cost = 0.9 * (1 - rates[0]) + 10 * 0.05 * rates[1] + 20 * 0.05 * rates[2]
        assert found.metrics[name]["dev_a_dcf"] == pytest.approx(cost / 0.9, abs=1e-12)
    assert "others are compared with the best on dev, by --dev" in found.notes
    one, two = tmp_path / "one.csv", tmp_path / "two.csv"
    frame.select("speaker", "utterance", "label", "sasv_A").write_csv(one)
    frame.select("speaker", "utterance", "label", pl.col("sasv_A")).write_csv(two)
    alone = evaluate(f"mine={one}", ci="none", dev=str(two)).metrics["mine"]
    assert alone["dev_a_dcf"] == pytest.approx(alone["min_a_dcf"], abs=1e-12)
    said = failure_of(capsys, "evaluate", str(file), "--systems", "A,B", "--dev", str(two))
    assert "--dev: no fused score of B among A; name its file B=FILE" in said


def evaluate_labels(words: np.ndarray) -> np.ndarray:
    """Codes of labels."""
    return np.array([{"spoof": 0, "target": 1, "nontarget": 2}[word] for word in words])
