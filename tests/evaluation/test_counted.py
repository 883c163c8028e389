"""``evaluate`` of counts, ``merge``: one file, its shards, any format, and states give the same."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import CountedResults, evaluate, merge
from lightning_sasv.evaluation.count import read_size
from lightning_sasv.files import sha256
from lightning_sasv.scores import stream
from lightning_sasv.scores.stream import scan

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
    frame.reverse().select("speaker", "utterance", "label").write_csv("other.csv")
    with pytest.raises(InputError, match=r"not those of the key other\.csv in its order"):
        counted("scores.csv", key="other.csv")
    frame[:-5].select("speaker", "utterance", "label").write_csv("short.csv")
    with pytest.raises(InputError, match=r"not those of the key|has 6,000 trials, the key"):
        counted("scores.csv", key="short.csv")


def test_the_command(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["evaluate", "all.csv", "--state", "a.counts.safetensors", "--replicates", "60"])
    assert "6,000 trials counted; values exact" in capsys.readouterr().err
    main(["merge", "a.counts.safetensors", "--out", "b.counts.safetensors"])
    main(
        [
            "evaluate",
            "b.counts.safetensors",
            "--json",
            "b.json",
            "--csv",
            "b.csv",
            "--ci",
            "speaker",
        ]
    )
    shown = capsys.readouterr().out
    assert "trials, counted" in " ".join(shown.split())
    assert "impostors are not drawn" in " ".join(shown.split())
    entry = json.loads(Path("b.json").read_text())["systems"]
    ((_, system),) = entry.items()
    one = system["sets"]["trials"]
    assert set(one["bounds"]["sasv_eer"]) == {"low", "high", "exact"}
    assert (
        one["of"]["trials"] == {"spoof": 2396, "target": 1214, "nontarget": 2390}
        or one["of"]["trials"]
    )
    assert one["of"]["sources"][0]["name"] == "all.csv"
    assert Path("b.csv").read_text().startswith("system,metric,value,low_bound")


def test_two_systems_are_compared(files: Path, frame: pl.DataFrame) -> None:
    worse = pl.col("sasv_score") + pl.Series(np.random.default_rng(1).normal(size=ROWS) * 3)
    frame.with_columns(worse).write_csv("worse.csv")
    found = counted("all.csv", "worse.csv", replicates=100)
    assert any(
        "SASV-EER %: all − worse" in line and "all is better" in line for line in found.verdicts()
    )
    same = counted("all.csv", "again=all.csv", replicates=100)
    assert any("not distinguishable" in line or "undecided" in line for line in same.verdicts())


def test_many_rows_are_counted_by_themselves(files: Path) -> None:
    found = evaluate("all.csv", memory="1MB", ci="none")
    assert isinstance(found, CountedResults)
    assert not isinstance(evaluate("all.csv", ci="none"), CountedResults)
    assert read_size("2.5 MB") == 2.5e6


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "attack"}, "--by needs the trials in memory"),
        ({"ci": "trial"}, "counts do not know single trials"),
        ({"memory": "lots"}, "--memory lots: expected a size"),
        ({"grid": 40}, "a grid has from 0 to 14 bits"),
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
    with pytest.raises(InputError, match="--out x: a file of counts is called"):
        merge(["a.counts.safetensors"], "x")
    evaluate("all.csv", state="a.counts.safetensors", ci="none")
    with pytest.raises(InputError, match=r"all\.csv is in both states"):
        merge(["a.counts.safetensors", "a.counts.safetensors"], "b.counts.safetensors")
    assert not Path("b.counts.safetensors").exists()
    with pytest.raises(InputError, match="holds counts already"):
        evaluate("all.csv", state="a.counts.safetensors", ci="none")


def test_parts_are_tables_with_their_lines(files: Path) -> None:
    parts = list(scan("all.csv"))
    assert len(parts) > 3
    assert sum(map(len, parts)) == ROWS
    assert parts[1].line(0) == len(parts[0]) + 2
