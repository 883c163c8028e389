"""``evaluate`` of counts, ``merge``: one file, its shards, any format, and states give the same."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import CountedResults, evaluate, merge, sizes
from lightning_sasv.evaluation.sizes import available_memory, read_size
from lightning_sasv.files import sha256
from lightning_sasv.metrics.bounds import bounded_text, ends_text
from lightning_sasv.report import write_report
from lightning_sasv.scores import stream
from lightning_sasv.scores.stream import scan
from tests.helpers import failure_of

ROWS = 6000


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rng = np.random.default_rng(11)
    labels = rng.choice(3, ROWS, p=[0.4, 0.2, 0.4])
    asv = rng.normal(size=ROWS) + 3 * (labels == 1) + (labels == 0)
    cm = rng.normal(size=ROWS) + 4 * (labels > 0)
    attacks = np.where(labels == 0, rng.choice(["A1", "A2"], ROWS), "-")
    return pl.DataFrame(
        {
            "speaker": [f"s{k:02}" for k in rng.integers(0, 20, ROWS)],
            "utterance": [f"u{k}" for k in range(ROWS)],
            "attack": attacks,
            "label": np.array(["spoof", "target", "nontarget"])[labels],
            "asv_score": asv,
            "cm_score": cm,
            "sasv_score": asv + cm,
        }
    )


@pytest.fixture
def files(frame: pl.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    frame.write_csv(tmp_path / "all.csv")
    frame.write_parquet(tmp_path / "all.parquet", row_group_size=700)
    for k in range(3):
        frame[2000 * k : 2000 * (k + 1)].write_csv(tmp_path / f"shard{k}.csv")
    monkeypatch.setattr(stream, "PART", 40_000)  # several parts of a small file
    monkeypatch.setattr(stream, "ROWS", 1000)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def counted(*given: str, **options: Any) -> CountedResults:
    found = evaluate(list(given), **{"exact": False, "replicates": 60, **options})
    assert isinstance(found, CountedResults)
    return found


def test_values_are_those_of_the_exact_way(files: Path) -> None:
    exact = evaluate("all.csv", exact=True, ci="speaker-attack", replicates=60)
    found = counted("all.csv", ci="speaker-attack")
    for name, one in found.metrics["all"].items():
        assert one.exact, name
        assert one.value == pytest.approx(exact.value("all", name), abs=1e-12), name
    for name, one in found.intervals["all"].items():
        assert one.low_between[0] - 1e-12 <= one.low <= one.low_between[1] + 1e-12, name
        assert one.high_between[0] - 1e-12 <= one.high <= one.high_between[1] + 1e-12, name
        truth = exact.intervals["all"].get(name)
        if truth is not None and truth.method == "bca" and not name.startswith("t_"):
            assert one.low == pytest.approx(truth.low, abs=0.02), name
            assert one.high == pytest.approx(truth.high, abs=0.02), name


def test_one_file_its_shards_and_every_format_are_one_state(files: Path) -> None:
    evaluate("all.csv", state="a.counts.safetensors", ci="none")
    states = []
    for k in range(3):
        states.append(f"{k}.counts.safetensors")
        evaluate(f"shard{k}.csv", state=states[-1], ci="none")
    merge(states, "m.counts.safetensors")
    merge(states[::-1], "n.counts.safetensors")
    assert sha256("m.counts.safetensors") == sha256("n.counts.safetensors")
    whole, parts = counted("a.counts.safetensors"), counted("m.counts.safetensors")
    parquet, text = counted("all.parquet"), counted("all.csv")
    (a,), (b,), (c,), (d,) = (one.metrics.values() for one in (whole, parts, parquet, text))
    assert a == b
    assert c == d
    assert {name: one.exact for name, one in d.items()} == dict.fromkeys(d, True)
    for name, one in a.items():
        assert one.low - 1e-12 <= d[name].value <= one.high + 1e-12, name
    (first,), (second,), (third,) = (one.intervals.values() for one in (whole, parts, parquet))
    ends = [{n: (one.low, one.high) for n, one in own.items()} for own in (first, second, third)]
    assert ends[0] == ends[1] == ends[2]
    again = counted("m.counts.safetensors", refine="shard0.csv,shard1.csv,shard2.csv")
    assert next(iter(again.metrics.values())) == d


def test_standard_input_gives_bounds(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = io.BytesIO(Path("all.csv").read_bytes())
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(content))
    (found,) = evaluate("-", ci="none").metrics.values()
    (truth,) = counted("all.csv", ci="none").metrics.values()
    for name, one in found.items():
        assert one.low - 1e-12 <= truth[name].value <= one.high + 1e-12  # type: ignore[attr-defined]


def test_a_key_in_the_same_order(files: Path, frame: pl.DataFrame) -> None:
    frame.select("speaker", "utterance", "sasv_score").write_csv("scores.csv")
    frame.select("speaker", "utterance", "attack", "label").write_csv("key.csv")
    with_key = counted("scores.csv", key="key.csv", ci="none").metrics["scores"]
    alone = counted("all.csv", ci="none").metrics["all"]
    assert {name: alone[name] for name in with_key} == with_key
    frame[:-5].select("speaker", "utterance", "label").write_csv("short.csv")
    found = counted("scores.csv", key="short.csv", ci="none")
    assert sum(found.states["scores"].trials.values()) == ROWS - 5
    assert any("5 scores belong to no trial of the key" in note for note in found.notes)


def test_a_key_in_any_order_gives_the_same_state(files: Path, frame: pl.DataFrame) -> None:
    key = frame.select("speaker", "utterance", "attack", "label")
    frame.select("speaker", "utterance", "sasv_score").write_csv("scores.csv")
    key.write_csv("key.csv")
    key.sample(fraction=1, shuffle=True, seed=4).write_csv("other.csv")
    ways: list[dict[str, Any]] = [
        {"key": "key.csv"},
        {"key": "other.csv"},
        {"key": "other.csv", "memory": "300KB", "scratch": "scratch"},
    ]
    states = [f"{k}.counts.safetensors" for k in range(3)]
    found = [counted("scores.csv", state=s, **way) for s, way in zip(states, ways, strict=True)]
    assert len({sha256(state) for state in states}) == 1
    assert found[0].metrics == found[1].metrics == found[2].metrics
    assert not list(Path("scratch").iterdir())


def test_groups_of_a_state(files: Path, frame: pl.DataFrame) -> None:
    exact = evaluate("all.csv", by="attack,speaker", ci="none")
    found = counted("all.csv", by="attack,speaker", ci="none", state="a.counts.safetensors")
    again = counted("a.counts.safetensors", by="attack,speaker", ci="none")
    assert next(iter(again.groups["attack"].values())) == found.groups["attack"]["all"]
    for column in ("attack", "speaker"):
        groups = found.groups[column]["all"]
        assert groups.keys() == exact.groups[column]["all"].keys()
        for group, values in groups.items():
            for name, one in values.items():
                truth = exact.groups[column]["all"][group][name]
                if not np.isnan(truth):
                    assert one.low - 1e-12 <= truth <= one.high + 1e-12, (group, name)
                if one.exact:
                    assert one.value == pytest.approx(truth, abs=1e-12), (group, name)
    block = found.to_dict()["systems"]["all"]["sets"]["trials"]
    assert block["by"]["attack"].keys() == block["by_bounds"]["attack"].keys() == {"A1", "A2"}
    frame.drop("attack").write_csv("none.csv")
    with pytest.raises(InputError, match="--by attack: these counts know no attacks"):
        counted("none.csv", by="attack")


def test_the_command(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "all.csv", "--state", "a.counts.safetensors", "--replicates", "60"])
    said = " ".join(capsys.readouterr().err.split())
    assert re.search(r"6,000 rows: counted \(\d\.\d GB\); values exact after a second read", said)
    main(["merge", "a.counts.safetensors", "--out", "b.counts.safetensors"])
    more = "--json b.json --csv b.csv --ci speaker --by attack --replicates 60"
    main(["evaluate", "b.counts.safetensors", *more.split()])
    shown = capsys.readouterr().out
    assert "trials, counted" in " ".join(shown.split())
    assert "impostors are not drawn" in " ".join(shown.split())
    assert "b by attack" in shown
    entry = json.loads(Path("b.json").read_text())["systems"]
    ((_, system),) = entry.items()
    one = system["sets"]["trials"]
    assert set(one["bounds"]["sasv_eer"]) == {"low", "high", "exact"}
    words = pl.read_csv("all.csv")["label"]
    assert one["of"]["trials"] == {word: (words == word).sum() for word in words.unique()}
    assert one["of"]["sources"][0]["name"] == "all.csv"
    assert Path("b.csv").read_text().startswith("system,metric,value,low_bound")
    said = failure_of(capsys, "evaluate", "b.counts.safetensors", "--ci", "none", "--figures", "f")
    assert "--figures f needs the trials in memory" in said


def test_two_systems_are_compared(files: Path, frame: pl.DataFrame) -> None:
    worse = pl.col("sasv_score") + pl.Series(np.random.default_rng(1).normal(size=ROWS) * 3)
    frame.with_columns(worse).write_csv("worse.csv")
    found = counted("all.csv", "worse.csv", replicates=100)
    exact = evaluate(["all.csv", "worse.csv"], exact=True, ci="speaker-attack", replicates=100)
    truth = {one.metric: one for one in exact.comparisons}
    assert {one.metric for one in found.comparisons} == truth.keys()
    decided = [one for one in found.comparisons if not one.verdict.startswith("undecided")]
    assert {"sasv_eer", "min_a_dcf", "cllr"} <= {one.metric for one in decided}
    for one in decided:
        assert one.apart == truth[one.metric].apart, one.metric
        assert one.p_adjusted == pytest.approx(truth[one.metric].p_adjusted, abs=0.03)
        assert one.low == pytest.approx(truth[one.metric].low, abs=0.01)
    said = {one["metric"]: one for one in found.to_dict()["comparisons"]}
    assert said["sasv_eer"]["verdict"].startswith("all is lower than worse by")
    same = counted("all.csv", "again=all.csv", replicates=100, ci="speaker")
    assert not any(one.apart for one in same.comparisons)


def test_families_of_more_systems(files: Path, frame: pl.DataFrame) -> None:
    for name, noise in (("b", 0.5), ("c", 3.0)):
        worse = pl.col("sasv_score") + np.random.default_rng(1).normal(size=ROWS) * noise
        frame.with_columns(worse).write_csv(f"{name}.csv")
    names = ["all.csv", "b.csv", "c.csv"]
    found = counted(*names, replicates=60, adjust="holm")
    assert found.options.replicates == 119  # enough for Holm over three pairs
    assert len([one for one in found.comparisons if one.metric == "sasv_eer"]) == 3
    assert "119 replicates" in " ".join(found.notes)
    against = counted(*names, reference="c", adjust="none")
    pairs = {(one.first, one.second) for one in against.comparisons}
    assert pairs == {("all", "c"), ("b", "c")}
    assert any("--grid 9 counts more finely" in note for note in counted("c.csv", grid=0).notes)
    with pytest.raises(InputError, match="--reference: no system 'd'"):
        counted(*names, reference="d")
    with pytest.raises(InputError, match="--ci trial: counts do not pair the trials of several"):
        counted(*names, ci="trial")
    alone = counted("all.csv", ci="trial")
    assert alone.intervals["all"]["sasv_eer"].method == "percentile"
    assert "trials (impostors are not drawn from counts), 60 replicates, percent" in alone.caption
    frame[:-1].write_csv("fewer.csv")
    apart = counted("all.csv", "fewer.csv")
    assert not apart.comparisons
    assert any("counted on other trials" in note for note in apart.notes)


def test_many_rows_are_counted_by_themselves(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = evaluate("all.csv", memory="1MB", ci="none")
    assert isinstance(found, CountedResults)
    assert not isinstance(evaluate("all.csv", ci="none"), CountedResults)
    assert read_size("2.5 MB") == 2.5e6
    monkeypatch.setattr(sizes, "MANY", 1000)
    few = pl.DataFrame({"label": ["spoof", "nontarget", "target"], "sasv_score": [-1.5, 0.2, 2.0]})
    pl.concat([few] * 1000).write_parquet("dense.parquet")
    assert Path("dense.parquet").stat().st_size < 10 * 1000  # of text that would be few rows
    assert isinstance(evaluate("dense.parquet", ci="trial", replicates=39), CountedResults)
    assert not isinstance(evaluate("dense.parquet", ci="none"), CountedResults)


def test_limits_of_all_cgroups_are_respected(tmp_path: Path) -> None:
    for path, text in (
        ("proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:  8000 kB\n"),
        ("proc/self/cgroup", "0::/slurm/job_7/step_0\n"),
        ("sys/fs/cgroup/slurm/job_7/step_0/memory.max", "max\n"),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    assert available_memory(str(tmp_path)) == 8000 * 1024
    (tmp_path / "sys/fs/cgroup/slurm/job_7/memory.max").write_text("5000000\n")
    assert available_memory(str(tmp_path)) == 5_000_000
    assert available_memory(str(tmp_path / "none")) == math.inf


def test_merging_says_what_is_lost(files: Path) -> None:
    notes = list[str]()
    evaluate("shard0.csv", state="0.counts.safetensors", ci="none", grid=9)
    evaluate("shard1.csv", state="1.counts.safetensors", ci="none", costs="equal")
    merge(["0.counts.safetensors"], "x.counts.safetensors", tell=notes.extend)
    assert not notes
    merge(
        ["0.counts.safetensors", "1.counts.safetensors"], "m.counts.safetensors", tell=notes.extend
    )
    said = " ".join(notes)
    assert "sasv: the grid by speaker is the coarsest of the states, 7 bits in place of 9" in said
    assert re.search(r"sasv: costs at the thresholds .* become bounds", said)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "codec"}, "--by codec needs the trials in memory"),
        ({"memory": "lots"}, "--memory lots: expected a size"),
        ({"grid": 40}, "a grid has from 0 to 14 bits"),
        ({"llrs": True}, "--llrs needs the trials in memory"),
        ({"t_eer_rule": "reference"}, "--t-eer-rule reference needs the trials in memory"),
        ({"refine": "all.csv"}, "only a state of counts is refined"),
        ({"refine": "all.csv", "exact": True}, "only states of counts are refined"),
    ],
)
def test_what_counts_cannot_do(files: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        evaluate("all.csv", **{"exact": "auto" if "memory" in options else False, **options})


def test_bad_files(files: Path, frame: pl.DataFrame) -> None:
    text = Path("all.csv").read_text().splitlines()
    text[5500] = text[5500].rsplit(",", 1)[0] + ",nan"
    Path("nan.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(InputError, match=r"nan\.csv, line 5501, column sasv_score"):
        counted("nan.csv")
    frame.with_columns(pl.lit(None, pl.Float64).alias("sasv_score")).write_parquet("null.parquet")
    with pytest.raises(InputError, match=r"null\.parquet, row 1, column sasv_score"):
        counted("null.parquet")
    Path("cut.parquet").write_bytes(Path("all.parquet").read_bytes()[:9000])
    Path("empty.csv").write_text("")
    for name, message in (
        ("cut.parquet", "readable Parquet"),
        ("empty.csv", "line 1: the file is"),
    ):
        with pytest.raises(InputError, match=rf"{name}.*{message}"):
            counted(name, begin=lambda *_: lambda *_: None)  # of how many rows, for a bar
        with pytest.raises(InputError, match=rf"{name}.*{message}"):
            evaluate(name, memory="1KB")
    with pytest.raises(InputError, match="--state x: a file of counts is called"):
        counted("all.csv", state="x")
    with pytest.raises(InputError, match="--out x: a file of counts is called"):
        merge(["a.counts.safetensors"], "x")
    evaluate("all.csv", state="a.counts.safetensors", ci="none")
    with pytest.raises(InputError, match=r"all\.csv is in both states"):
        merge(["a.counts.safetensors", "a.counts.safetensors"], "b.counts.safetensors")
    with pytest.raises(InputError, match=r"all\.csv holds no counts; .*evaluate --state"):
        merge(["all.csv"], "b.counts.safetensors")
    assert not Path("b.counts.safetensors").exists()
    with pytest.raises(InputError, match="holds counts already"):
        evaluate("all.csv", state="a.counts.safetensors", ci="none")


def test_what_a_state_cannot_do(files: Path, frame: pl.DataFrame) -> None:
    """Another grid by hand, exact values or trials of counts, files that are not all of a state."""
    for name, part in (("a", frame[:3000]), ("b", frame[3000:])):
        part.write_csv(f"{name}.csv")
        evaluate(f"{name}.csv", state=f"{name}.counts.safetensors", ci="none")
    merge(["a.counts.safetensors", "b.counts.safetensors"], "m.counts.safetensors")
    for options, message in (
        ({"grid": 9}, r"--grid 9: m\.counts\.safetensors was counted with 7 bits of sasv.*again"),
        ({"exact": True}, r"--exact true: m\.counts.*holds counts, no trials.*--refine FILE,FILE"),
        ({"by": "codec"}, r"--by codec .*a state holds no trials\): evaluate its files instead"),
        (
            {"refine": "a.csv"},
            r"not those that were counted; .* 6,000 trials.*--refine a.csv,b.csv",
        ),
    ):
        with pytest.raises(InputError, match=message):
            evaluate("m.counts.safetensors", ci="none", **options)  # type: ignore[arg-type]
    frame.select("speaker", "utterance", "label", "sasv_score").write_csv("fused.csv")
    with pytest.raises(InputError, match=r"fused\.csv.*no asv scores, which were counted"):
        evaluate("m.counts.safetensors", ci="none", refine="fused.csv")
    with pytest.raises(InputError, match=r"a state is of one system, here are 2 files.*merge"):
        evaluate(["a.csv", "b.csv"], ci="none", state="x.counts.safetensors")
    assert counted("m.counts.safetensors", ci="none", grid=7).metrics
    found = counted("m.counts.safetensors", ci="none", refine="b.csv,a.csv", exact=True)
    (metrics,) = found.metrics.values()
    assert all(one.exact for name, one in metrics.items() if name != "t_eer_closest")


def test_a_key_beside_a_state(files: Path, frame: pl.DataFrame) -> None:
    """Trials that two shards share are seen by their number alone."""
    frame[:4000].write_csv("a.csv")
    frame[3900:].write_csv("b.csv")
    for name in ("a", "b"):
        evaluate(f"{name}.csv", state=f"{name}.counts.safetensors", ci="none")
    merge(["a.counts.safetensors", "b.counts.safetensors"], "m.counts.safetensors")
    frame.select("speaker", "utterance", "label").write_csv("key.csv")
    with pytest.raises(InputError, match=r"m\.counts.* does not count the trials of the key, but"):
        evaluate("m.counts.safetensors", key="key.csv", ci="none", allow_missing=True)
    with pytest.raises(InputError, match=r"a\.counts.* does not count the trials of the key, but"):
        evaluate("a.counts.safetensors", key="key.csv", ci="none")
    found = counted("a.counts.safetensors", key="key.csv", ci="none", allow_missing=True)
    assert any("does not count the trials of the key" in note for note in found.notes)
    evaluate("all.csv", state="c.counts.safetensors", ci="none")
    assert counted("c.counts.safetensors", key="key.csv", ci="none", exact="auto").metrics


def test_a_class_that_no_shard_has(
    files: Path, frame: pl.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    left = frame.filter(pl.col("label") != "target").select(
        "speaker", "utterance", "attack", "label", "sasv_score"
    )
    for name, part in (("a", left[:1500]), ("b", left[1500:])):
        part.write_csv(f"{name}.csv")
        main(["evaluate", f"{name}.csv", "--state", f"{name}.counts.safetensors", "--ci", "none"])
        said = " ".join(capsys.readouterr().err.split())
        assert f"{name}.csv: no target trials, and no metric without them; the state" in said
    merge(["a.counts.safetensors", "b.counts.safetensors"], "m.counts.safetensors")
    with pytest.raises(InputError, match=r"m\.counts\.safetensors: no target trials.*all classes"):
        evaluate("m.counts.safetensors", ci="speaker")


def test_parts_are_tables_with_their_lines(files: Path) -> None:
    parts = list(scan("all.csv"))
    assert len(parts) > 3
    assert sum(map(len, parts)) == ROWS
    assert parts[1].line(0) == len(parts[0]) + 2


def test_the_page_of_a_state(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    found = counted("all.csv", state="a.counts.safetensors")
    main(["report", "a.counts.safetensors", "--replicates", "60", "--figures", "figures"])
    assert "6,000 trials, counted: a.html" in " ".join(capsys.readouterr().out.split())
    page = Path("a.html").read_text()
    (bounds,) = counted("a.counts.safetensors", ci="none").metrics.values()
    assert bounded_text("sasv_eer", bounds["sasv_eer"]) in page
    ends = found.states["all"].bootstrap(["sasv_eer"], "speaker-attack", 60)["sasv_eer"]
    assert ends_text("sasv_eer", ends.ends) in page
    assert page.count("<svg") == 3
    assert "<script" not in page
    assert "all.csv" in page
    assert "A2" in page
    assert {path.name for path in Path("figures").iterdir()} >= {"det_sasv.svg", "det_cm.png"}
    main(["report", "a.counts.safetensors", "--replicates", "0"])  # its own page is replaced
    assert "95 % interval" in page
    assert "95 % interval" not in Path("a.html").read_text()
    Path("b.html").write_text("mine")
    with pytest.raises(InputError, match=r"b\.html holds something else"):
        write_report("a.counts.safetensors", out="b.html")


def test_what_happens_to_labels_of_countermeasures(files: Path, frame: pl.DataFrame) -> None:
    spoof = frame["label"] == "spoof"
    words = pl.Series("label", ["spoof" if one else "bonafide" for one in spoof])
    both = frame.with_columns(words).select(
        "speaker", "utterance", "label", "asv_score", "cm_score"
    )
    both.write_csv("cm.csv")
    assert counted("cm.csv", ci="none").metrics["cm"].keys() == {
        name for name in counted("all.csv", ci="none").metrics["all"] if name.startswith("cm_")
    }
    both.sort(words).reverse().write_csv("sorted.csv")  # spoofs alone at first
    with pytest.raises(InputError, match=r"sorted\.csv, line \d+: labels say bonafide here"):
        counted("sorted.csv")


def test_lines_of_later_parts_are_named(files: Path, frame: pl.DataFrame) -> None:
    text = Path("all.csv").read_text().splitlines()
    text[5000] = text[5000].rsplit(",", 1)[0] + ",word"
    Path("word.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(InputError, match=r"word\.csv, line 5001.*word"):
        counted("word.csv")
    text[5000] = "a,b"
    Path("short.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(InputError, match=r"short\.csv, line 5001"):
        counted("short.csv")
    text[5000] = text[4999].replace("u4998", "u4998\0")
    Path("nul.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(InputError, match=r"nul\.csv, line 5001: a NUL byte"):
        counted("nul.csv")
    late = pl.when(pl.col("utterance") != "u5432").then(pl.col("sasv_score"))
    frame.with_columns(late.alias("sasv_score")).write_parquet("late.parquet")
    with pytest.raises(InputError, match=r"late\.parquet, row 5433, column sasv_score"):
        counted("late.parquet")
    whole = Path("all.parquet").read_bytes()
    Path("cut.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut\.parquet.*write it again"):
        counted("cut.parquet")


def test_one_shard_without_speakers_or_without_a_class(files: Path, frame: pl.DataFrame) -> None:
    frame[:3000].write_csv("one.csv")
    frame[3000:].drop("speaker").filter(pl.col("label") != "target").write_csv("two.csv")
    for name in ("one", "two"):
        evaluate(f"{name}.csv", state=f"{name}.counts.safetensors", ci="none")
    merge(["one.counts.safetensors", "two.counts.safetensors"], "m.counts.safetensors")
    found = counted("m.counts.safetensors", ci="speaker")
    state = next(iter(found.states.values()))
    assert sum(state.trials.values()) == 3000 + (frame[3000:]["label"] != "target").sum()
    assert next(iter(found.intervals.values()))["sasv_eer"].low > 0  # trials of nobody stay
    assert "-" in {row.speaker for row in state.rows}
    frame.filter(pl.col("label") != "target").write_csv("none.csv")
    left = counted("none.csv", ci="none").metrics["none"]
    assert "sasv_eer" not in left
    assert "cm_eer" in left
