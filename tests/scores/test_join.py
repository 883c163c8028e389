"""Scores and keys are joined by trial id, and nothing is lost without a word."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.scores import join as join_module
from lightning_sasv.scores import read_table, write_scores
from lightning_sasv.scores.columns import read_columns
from lightning_sasv.scores.join import join_key
from lightning_sasv.scores.read import read_plain
from lightning_sasv.scores.reading import Reading
from lightning_sasv.scores.sources import read_key, read_source
from lightning_sasv.scores.table import ScoreTable
from tests.scores.samples import LINES, toy_scores, write


@pytest.fixture
def key(tmp_path: Path) -> ScoreTable:
    return read_table(write_scores(tmp_path / "key.csv", toy_scores(300))).without_scores()


def scores_of(key: ScoreTable, rows: np.ndarray) -> ScoreTable:
    """Scores that tell which row of the key they belong to."""
    frame = key.frame.select("speaker", "utterance").with_columns(
        pl.int_range(pl.len()).cast(pl.Float64).alias("sasv_score")
    )
    return ScoreTable(frame[rows], Path("scores.txt"), line=lambda row: row + 1)


def test_order_of_rows_does_not_matter(key: ScoreTable) -> None:
    order = np.random.default_rng(1).permutation(len(key))
    joined = join_key(scores_of(key, order), key)
    assert joined.table.frame["sasv_score"].to_list() == list(range(len(key)))
    assert joined.table.frame["label"].to_list() == key.frame["label"].to_list()
    assert (joined.missing, joined.extra, joined.notes) == (0, 0, ())
    assert joined.table.where(0) == f"scores.txt, line {int(np.argmin(order)) + 1}"


def test_missing_trials_are_counted_listed_and_only_left_out_on_demand(key: ScoreTable) -> None:
    scores = scores_of(key, np.arange(15, len(key)))
    said = r"scores.txt: no score for 15 of 300 .*key.csv, line 2 .*; .* pass --allow-missing"
    with pytest.raises(InputError, match=said) as error:
        join_key(scores, key)
    assert str(error.value).count(" U0") == 10
    joined = join_key(scores, key, allow_missing=True)
    assert joined.missing == 15
    assert joined.rows.tolist() == list(range(15, 300))
    assert joined.table.frame["sasv_score"].to_list() == list(range(15, 300))
    assert "15 of 300 trials of the key are left out" in joined.notes[0]


def test_extra_trials_are_counted_and_listed(key: ScoreTable) -> None:
    scores = scores_of(key, np.arange(len(key)))
    joined = join_key(scores, key.take(np.arange(280)))
    assert joined.extra == 20
    assert joined.notes[0].startswith("scores.txt: 20 of 300 scores belong to no trial of the key")
    assert joined.notes[0].count(" U0") == 10


def test_files_without_a_common_trial(key: ScoreTable) -> None:
    with pytest.raises(InputError, match=r"share no trial .*give the right key"):
        join_key(scores_of(key, np.arange(10)), key.take(np.arange(20, 40)), allow_missing=True)


def test_file_endings_in_the_way_are_named(tmp_path: Path) -> None:
    scores = read_table(write(tmp_path / "s.txt", "u1.flac 1.5\nu2.flac 0.5\n"))
    key = read_table(write(tmp_path / "k.txt", "a u1 bonafide target\na u2 A07 spoof\n"))
    with pytest.raises(InputError, match=r"file endings 2 would match: --ids name"):
        join_key(scores, key)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (["LA_0007 LA_E_5", "LA_0007 LA_E_6"],
         ["LA2021-LA_0007-alaw-ita_tx LA2021-LA_E_5-alaw-ita_tx",
          "LA_0007-g722-loc_tx LA_E_6-g722-loc_tx"]),
        (["a00/id1/x a00/id1/y", "a00/id1/x a06/id1/y"],  # the folder is part of the id
         ["a00/id1/x.flac e/a00/id1/y.flac", "a00/id1/x.flac a06/id1/y.flac"]),
        (["id10270/x/00001 id10270/y/00001", "id10270/x/00001 id10300/y/00001"],
         ["vox/id10270/x/00001.wav id10270/y/00001.wav",
          "id10270/x/00001.wav id10300/y/00001.wav"]),
    ],
)  # fmt: skip
def test_ids_of_corpora_without_folders_and_endings(
    tmp_path: Path, ours: list[str], theirs: list[str]
) -> None:
    rows = zip(ours, theirs, ("target", "spoof"), strict=True)
    lines = [(f"{one} {n}.5", f"{other} {word}") for n, (one, other, word) in enumerate(rows)]
    files = [
        write(tmp_path / name, "".join(f"{row[place]}\n" for row in lines))
        for place, name in enumerate(("scores.txt", "key.txt"))
    ]
    with pytest.raises(InputError, match=r"file endings 2 would match: --ids name"):
        join_key(*map(read_table, files))
    scores, key = (read_plain(file, Reading(ids="name")) for file in files)
    assert join_key(scores, key).table.frame["score"].to_list() == [0.5, 1.5]


def test_hashes_that_collide_change_nothing(
    key: ScoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = np.random.default_rng(2).permutation(len(key))[:200]
    wanted = join_key(scores_of(key, order), key, allow_missing=True)
    for hashes in (
        lambda table, ids: table.frame["utterance"].str.slice(4).cast(int).to_numpy(),
        lambda table, ids: np.arange(len(table)),
    ):
        monkeypatch.setattr(join_module, "id_hashes", lambda *args, f=hashes: f(*args).astype("u8"))
        found = join_key(scores_of(key, order), key, allow_missing=True)
        assert found.table.frame.equals(wanted.table.frame)


def test_scores_of_trials_do_not_fit_a_key_of_utterances(tmp_path: Path) -> None:
    key = read_table(write(tmp_path / "key.txt", "s u1 - - bonafide\ns u2 - A07 spoof\n"))
    scores = read_table(write(tmp_path / "s.txt", "a u1 1\nb u1 2\na u2 3\n"))
    with pytest.raises(InputError, match=r"s.txt, line 1: the scores are of trials.*\(u1\)"):
        join_key(scores, key)


def test_labels_of_the_scores_must_not_contradict_the_key(key: ScoreTable, tmp_path: Path) -> None:
    path = write_scores(tmp_path / "scores.csv", toy_scores(300))
    assert len(join_key(read_table(path), key).table) == 300
    text = path.read_text().splitlines()
    text[5] = re.sub("(non)?target|spoof", lambda m: "spoof" if "t" in m[0] else "target", text[5])
    wrong = read_table(write(path, "\n".join(text)))
    with pytest.raises(InputError, match=r"scores.csv, line 6: label .* where the key says"):
        join_key(wrong, key)


def test_without_ids_rows_are_taken_in_order_and_said_so(tmp_path: Path) -> None:
    scores = read_table(write(tmp_path / "a.csv", LINES["asvspoof5-fusion"]))
    key = "a u1 bonafide target\nb u1 bonafide nontarget\na u2 A07 spoof\n"
    joined = join_key(scores, read_table(write(tmp_path / "key.txt", key)))
    assert joined.table.frame["speaker"].to_list() == ["a", "b", "a"]
    assert "no trial ids to join by" in joined.notes[0]
    short = read_table(write(tmp_path / "short.txt", key.splitlines()[0] + "\n"))
    with pytest.raises(InputError, match=r"a.csv, line 4: 3 rows where .*short.txt has 1"):
        join_key(scores, short)


def test_pair_of_files(tmp_path: Path) -> None:
    asv = write(tmp_path / "asv.txt", "a u1 0.5\nb u1 0.25\na u2 0.125\n")
    cm = write(tmp_path / "cm.txt", "u2 -1.5\nu1 2.5\n")
    key = write(tmp_path / "key.txt", "a u2 A07 spoof\nb u1 bonafide nontarget\na u1 - target\n")
    labels = read_key(str(key))
    notes: list[str] = []
    table = read_source(f"{asv},{cm}", labels, tell=notes.extend)
    assert table.frame["asv_score"].to_list() == [0.125, 0.25, 0.5]
    assert table.frame["cm_score"].to_list() == [-1.5, 2.5, 2.5]
    assert table.frame["label"].to_list() == ["spoof", "nontarget", "target"]
    assert "looks like asvspoof2021-asv" in notes[0]
    with pytest.raises(InputError, match=r"asv.txt, line 1: asv_score is in .* already"):
        read_source(f"{asv},{asv}")
    both = read_source(f"asv={asv},cm={asv}")
    assert both.frame["asv_score"].equals(both.frame["cm_score"])
    odd = write(tmp_path / "asv=odd,cm=x.txt", "u2 -1.5\nu1 2.5\n")
    assert len(read_source(str(odd))) == 2
    write(cm, "u1 2.5\n")
    with pytest.raises(
        InputError, match=r"cm.txt: no score for 1 of 3 trials of .*asv.txt, line 3"
    ):
        read_source(f"{asv},{cm}")
    assert len(read_source(f"{asv},{cm}", how=Reading(allow_missing=True))) == 2


def test_a_cell_that_is_no_number_is_named_by_its_own_file(tmp_path: Path) -> None:
    asv = "speaker,utterance,label,asv_score,asv_y\ns,u1,target,1,n/a\ns,u2,spoof,2.5,1.5\n"
    asv += "s,u3,nontarget,0.5,2.5\n"
    write(tmp_path / "a.csv", asv)
    write(tmp_path / "b.csv", "speaker,utterance,cm_score\ns,u3,1.5\ns,u2,2.5\ns,u1,2.25\n")
    with pytest.raises(InputError, match=r"a\.csv, line 2, column asv_y: 'n/a' is not"):
        read_columns(f"asv={tmp_path / 'a.csv'},cm={tmp_path / 'b.csv'}")
