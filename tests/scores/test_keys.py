"""Labels of a key in any order, joined in memory or in ranges on disk: always the same trials."""

from __future__ import annotations

import math
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.scores import ScoreTable, read_table, scan, stream
from lightning_sasv.scores.keys import Space
from lightning_sasv.scores.reading import Reading

ROWS = 700


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(2)
    frame = pl.DataFrame(
        {
            "speaker": [f"s{k}" for k in rng.integers(0, 9, ROWS)],
            "utterance": [f"u{k:04}" for k in range(ROWS)],
            "attack": ["-"] * ROWS,
            "label": rng.choice(["target", "nontarget"], ROWS),
            "sasv_score": rng.normal(size=ROWS),
        }
    )
    frame.drop("label", "attack").write_csv(tmp_path / "scores.csv")
    key = frame.drop("sasv_score")
    key.write_csv(tmp_path / "key.csv")
    key.sample(ROWS, shuffle=True, seed=1).write_csv(tmp_path / "shuffled.csv")
    late = pl.concat([key[:400], key[400:].sample(300, shuffle=True, seed=2)])
    late.write_csv(tmp_path / "late.csv")
    (tmp_path / "scratch").mkdir()
    monkeypatch.setattr(stream, "PART", 3000)
    monkeypatch.setattr(stream, "ROWS", 90)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def trials(parts: Iterator[ScoreTable]) -> pl.DataFrame:
    columns = ["utterance", "speaker", "attack", "label", "sasv_score"]
    return pl.concat([part.frame.select(columns) for part in parts]).sort("utterance")


@pytest.mark.parametrize("key", ["key.csv", "shuffled.csv", "late.csv"])
@pytest.mark.parametrize("memory", [math.inf, 40_000])
def test_any_order_gives_the_same_trials(folder: Path, key: str, memory: float) -> None:
    truth = trials(scan("scores.csv", "key.csv"))
    assert truth["label"].cast(str).to_list() == pl.read_csv("key.csv")["label"].to_list()
    space = Space(memory, "scratch")
    assert trials(scan("scores.csv", key, space=space)).equals(truth)
    assert trials(scan("scores.csv", read_table(key), space=space)).equals(truth)
    assert not list(Path("scratch").iterdir())
    assert not space.notes


def test_ranges_are_read_from_disk(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [len(part) for part in scan("scores.csv", "shuffled.csv", space=Space(40_000))]
    assert len(sizes) > 3
    assert max(sizes) < ROWS / 2


@pytest.mark.parametrize("memory", [math.inf, 40_000])
def test_trials_without_scores(folder: Path, memory: float) -> None:
    scores = pl.read_csv("scores.csv")
    scores.filter(~pl.col("utterance").is_in(["u0050", "u0650"])).write_csv("few.csv")
    space = Space(memory, "scratch")
    with pytest.raises(
        InputError, match=r"few\.csv: no score for 2 of 700 trials of .*u0\d50, s\d u0\d50; score"
    ):
        list(scan("few.csv", "late.csv", space=space))
    assert not list(Path("scratch").iterdir())
    how = Reading(allow_missing=True)
    assert trials(scan("few.csv", "late.csv", how, space=space)).height == ROWS - 2
    assert any("2 of 700 trials of the key are left out" in note for note in space.notes)
    scores[:-50].write_csv("short.csv")
    with pytest.raises(InputError, match=r"no score for 50 of 700 trials"):
        list(scan("short.csv", "key.csv", space=space))


@pytest.mark.parametrize("memory", [math.inf, 40_000])
def test_trials_twice_and_scores_too_many(folder: Path, memory: float) -> None:
    scores, space = pl.read_csv("scores.csv"), Space(memory, "scratch")
    pl.concat([scores, scores[600:601]]).write_csv("twice.csv")
    with pytest.raises(InputError, match=r"twice\.csv, line 702: the trial of line 602 stands"):
        list(scan("twice.csv", "shuffled.csv", space=space))
    key = pl.read_csv("shuffled.csv")
    pl.concat([key, key[:1]]).write_csv("key2.csv")
    with pytest.raises(InputError, match=r"key2\.csv, line 702: the trial of line 2 stands again"):
        list(scan("scores.csv", "key2.csv", space=space))
    key.filter(pl.col("utterance") != "u0003").write_csv("fewer.csv")
    assert trials(scan("scores.csv", "fewer.csv", space=space)).height == ROWS - 1
    assert any("1 scores belong to no trial" in note for note in space.notes)
    key.with_columns(pl.col("utterance") + "x").write_csv("other.csv")
    with pytest.raises(InputError, match=r"share no trial|no score for 700 of 700"):
        list(scan("scores.csv", "other.csv", space=space))


def test_labels_that_contradict_the_key(folder: Path) -> None:
    wrong = pl.read_csv("key.csv").with_columns(
        label=pl.when(pl.col("utterance") == "u0500")
        .then(pl.lit("spoof"))
        .otherwise(pl.col("label"))
    )
    wrong.with_columns(sasv_score=pl.lit(0.5)).write_csv("labelled.csv")
    for key in ("key.csv", "shuffled.csv"):
        with pytest.raises(InputError, match=r"labelled\.csv, line 502: label 'spoof' where"):
            list(scan("labelled.csv", key))


def test_scores_of_utterances_count_for_each_of_their_trials(folder: Path) -> None:
    key = pl.read_csv("key.csv")
    double = pl.concat([key, key.with_columns(speaker=pl.lit("again"))])
    double.write_csv("double.csv")
    pl.read_csv("scores.csv").select("utterance", cm_score="sasv_score").write_csv("cm.csv")
    for memory in (math.inf, 40_000):
        found = pl.concat([t.frame for t in scan("cm.csv", "double.csv", space=Space(memory))])
        assert found.height == 2 * ROWS
        pairs = found.group_by("utterance").agg(pl.col("cm_score").n_unique())
        assert pairs["cm_score"].to_list() == [1] * ROWS


def test_two_files_of_one_system(folder: Path) -> None:
    scores = pl.read_csv("scores.csv")
    scores.rename({"sasv_score": "asv_score"}).write_csv("asv.csv")
    other = scores.select("speaker", "utterance", cm_score=pl.col("sasv_score") + 1)
    other.sample(ROWS, shuffle=True, seed=3).write_csv("cm.csv")
    both = scan([("cm", "cm.csv"), ("asv", "asv.csv")], "shuffled.csv")
    found = pl.concat([part.frame for part in both])
    assert found.height == ROWS
    assert (found["cm_score"] == found["asv_score"] + 1).all()


@pytest.mark.parametrize("memory", [math.inf, 40_000])
@pytest.mark.parametrize("key", ["key.csv", "shuffled.csv"])
def test_a_trial_of_two_files_is_named_by_a_line_of_its_own(
    folder: Path, key: str, memory: float
) -> None:
    scores = pl.read_csv("scores.csv")
    scores.rename({"sasv_score": "asv_score"}).write_csv("asv.csv")
    for seed in (None, 3):
        other = scores.select("speaker", "utterance", cm_score="sasv_score")
        (other if seed is None else other.sample(ROWS, shuffle=True, seed=seed)).write_csv("cm.csv")
        files = [("cm", "cm.csv"), ("asv", "asv.csv")]
        for part in scan(files, key, space=Space(memory, "scratch")):
            for column in ("asv_score", "cm_score"):
                file, line = part.where(len(part) - 1, column).split(", line ")
                cells = Path(file).read_text().splitlines()[int(line) - 1].split(",")
                assert cells[:2] == list(part.frame.select("speaker", "utterance").row(-1))


@pytest.mark.parametrize("text", ["label,sasv_score\nspoof,0.25", "s1 u1 0.25 spoof"])
def test_a_last_line_without_its_end(text: str, tmp_path: Path) -> None:
    (tmp_path / "one").write_text(text)
    (found,) = scan(tmp_path / "one")
    assert found.numbers("sasv_score").tolist() == [0.25]


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_and_nothing_is_left(folder: Path) -> None:
    with (
        largest_file(4_000),
        pytest.raises(InputError, match=r"--scratch scratch: cannot write the scores .* GB and"),
    ):
        list(scan("scores.csv", "shuffled.csv", space=Space(40_000, "scratch")))
    assert not list(Path("scratch").iterdir())
