"""Files that are wrong: the message names file, line and remedy; garbage never becomes data."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.scores import read_scores, read_table, scan, write_scores
from lightning_sasv.scores.reading import Reading
from tests.scores.samples import LINES, toy_scores, write

GOOD, SASV = LINES["csv"], LINES["sasv2022"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("0.5,", "nan,"), "line 3, column asv_score: 'nan'.* score the trial again"),
        (GOOD.replace("0.5,", "inf,"), "line 3, column asv_score: 'inf' is not a finite number"),
        (GOOD.replace("0.5,", "0,5,"), "line 3: 7 columns where 6 .* need a decimal point"),
        (GOOD.replace("0.5,", '"0,5",'), "line 3, column asv_score: '0,5'.* decimal point: 0.5"),
        (GOOD.replace("0.5,", ","), "line 3, column asv_score: '' is not a finite number"),
        (GOOD.replace("0.5,", "half,"), "line 3, column asv_score: 'half' is not a finite"),
        (GOOD.replace("0.5,", "1_0,"), "line 3, column asv_score: '1_0' is not a finite"),
        (GOOD.replace("0.5,", ""), "line 3: 5 columns where 6 are expected .* mend or remove"),
        (GOOD + GOOD.splitlines()[1] + "\n", "line 4: the trial of line 2 stands again; 1 .* rem"),
        (GOOD.replace("spoof", "odd"), "line 3: unknown label 'odd'; csv has target, nontarget"),
        (GOOD.replace("spoof", "1"), "line 3: unknown label '1'"),
        (GOOD.replace("spoof", "bonafide"), "line 3: label 'bonafide' beside 'target'"),
        (GOOD.replace("cm_score", "asv_score"), "line 1: column 'asv_score' stands twice"),
        (GOOD.replace(",", ";"), "line 1: columns are separated by semicolons"),
        (GOOD.splitlines()[0] + "\n", "line 1: the file has no trials"),
        ("", "line 1: the file is empty"),
        ("\n \n", "line 1: the file has no trials"),
        (
            "one\ntwo\n",
            "line 1: cannot tell the format of 1 columns like 'one'; .*nearest are .*--col",
        ),
        ("a b c d e f g\n", "line 1: cannot tell the format of 7 columns"),
        (GOOD.replace("LA_E_2", '"LA_E_2'), "line 3: 2 columns where 6 are expected"),
        (
            "\n\n" + GOOD.replace("\n", "\n\n").replace("0.5,", "x,"),
            "line 7, column asv_score: 'x'",
        ),
        (GOOD + "\n\n" + GOOD.splitlines()[1] + "\n", "line 6: the trial of line 2"),
        (SASV.replace("-1.5", "-1,5"), "line 2, column score: '-1,5'.* point: -1.5"),
        (SASV.replace("-1.5", "NaN"), "line 2, column score: '(?i:nan)'"),
        (SASV.replace("A07 ", ""), "line 2: 4 columns where 5 are expected"),
        (SASV.replace("8147881", "8147880"), "line 2: the trial of line 1 stands again"),
        (LINES["asvspoof2019-cm"].replace("5849185", "2834763"), "line 2: the trial of line 1"),
        (LINES["asvspoof5-t1"].replace("E_000002", "E_000001"), "line 3: the trial of line 2"),
        (LINES["asvspoof5-fusion"].replace(",2\n", ",3\n"), "line 3: unknown label '3'; asvspoof5"),
    ],
)
def test_message_names_file_line_and_remedy(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=rf"scores\.csv, {message}"):
        read_table(write(tmp_path / "scores.csv", text))


def test_named_layout_is_held_to(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tsv", LINES["asvspoof5-t1"])
    with pytest.raises(InputError, match=r"a.tsv, line 1: no column 'spk' .*filename, cm-score"):
        read_table(path, "asvspoof5-t2")
    with pytest.raises(InputError, match=r"a.tsv, line 1: 2 columns where 5"):
        read_table(path, "sasv2022")
    for read in (read_table, lambda path, name: list(scan(path, how=Reading(name)))):
        for name, kind in (("parquet", "Parquet"), ("arrays", "numpy")):
            with pytest.raises(InputError, match=rf"a.tsv: not a readable {kind} file"):
                read(path, name)
    wide = write(tmp_path / "b.tsv", LINES["asvspoof5-t1"].replace("\tcm-score", "\tcm-score\tx"))
    with pytest.raises(InputError, match=r"b.tsv, line 1: unknown column 'x'"):
        read_table(wide)


WORDS = pl.DataFrame({"label": ["target", "spoof"], "score": ["low", "high"]})


@pytest.mark.parametrize("read", [read_table, lambda path: list(scan(path))])
@pytest.mark.parametrize(
    ("name", "save"),
    [
        ("a.parquet", WORDS.write_parquet),
        ("a.jsonl", WORDS.write_ndjson),
        ("a.npz", lambda path: np.savez(path, **WORDS.to_dict(as_series=False))),
        ("b.npz", lambda path: np.savez(path, asv_score=WORDS["score"].to_numpy().astype("U"))),
    ],
)
def test_scores_that_are_words_are_refused_in_files_of_any_kind(
    name: str, save: Callable[[Path], None], read: Callable[[Path], object], tmp_path: Path
) -> None:
    save(tmp_path / name)
    with pytest.raises(InputError, match=rf"{name}, column (asv_)?score: holds String, not num"):
        read(tmp_path / name)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*nothing: No such file"):
        read_table(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"give a file$"):
        read_table(tmp_path)
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores/eval.csv").write_text(GOOD)
    with pytest.raises(InputError, match=r"give a file, such as .*scores/eval\.csv$"):
        read_table(tmp_path)
    (tmp_path / "latin").write_bytes(GOOD.encode() + b"\xe9,u,-,target,1,2\n")
    with pytest.raises(InputError, match=r"latin, line 4: not UTF-8 text; save the file as UTF-8"):
        read_table(tmp_path / "latin")


def test_infinite_fused_scores_are_scores(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a", LINES["sasv2022"].replace("-1.5", "-inf")))
    assert table.frame["sasv_score"].to_list() == [0.97, float("-inf")]


def test_read_scores_needs_both_scores_and_labels(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.csv, line 1: no column 'cm_score' \(read as csv"):
        read_scores(write(tmp_path / "a.csv", "label,asv_score\ntarget,1\n"))
    with pytest.raises(InputError, match=r"no column 'label'"):
        read_scores(write(tmp_path / "a.csv", "cm_score,asv_score\n1,1\n"))


def test_repetitions_are_counted_and_the_first_ten_listed(tmp_path: Path) -> None:
    write_scores(tmp_path / "a.csv", toy_scores(60))
    lines = (tmp_path / "a.csv").read_text().splitlines()
    path = write(tmp_path / "b.csv", "\n".join([*lines, *lines[1:21]]) + "\n")
    with pytest.raises(InputError, match=r"line 62: the trial of line 2 stands again; 20 rep") as e:
        read_table(path)
    assert len(re.findall(r"S\d U\d{5}", str(e.value))) == 10
