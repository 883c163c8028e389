"""Every layout: recognised, read right, written so that it reads back the same."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.errors import InputError
from lightning_sasv.scores import (
    LAYOUTS,
    ScoreTable,
    layout_named,
    read_scores,
    read_table,
    write_scores,
    write_table,
)
from lightning_sasv.scores.layouts import LABELS, SCORES
from tests.scores.samples import LINES, toy_scores, write

TEXT_LAYOUTS = [name for name, one in LAYOUTS.items() if one.separator and one.recognised]
INEXACT = {"a-dcf", "speechbrain", "asvspoof5-key", "bob-vuln", "bob-pad"}
"""Where the sample has trailing zeros, rows that do not count or cells that are empty."""


def test_every_entry_has_a_sample() -> None:
    assert LINES.keys() | {"parquet", "arrays"} == LAYOUTS.keys()


@pytest.mark.parametrize("name", TEXT_LAYOUTS)
def test_layout_is_recognised_and_reads_back_what_it_writes(name: str, tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "file", LINES[name]))
    assert (table.layout, table.guessed) == (name, True)
    named = read_table(tmp_path / "file", name)
    assert named.frame.equals(table.frame)
    assert not named.guessed
    blanks = read_table(write(tmp_path / "blanks", LINES[name].replace("\t", "  ")))
    assert blanks.frame.equals(table.frame)
    assert read_table(write_table(tmp_path / "again", table, name)).frame.equals(table.frame)
    for layout in (blanks.layout, read_table(tmp_path / "again").layout):
        assert layout == name
    assert name in INEXACT or (tmp_path / "again").read_text() == LINES[name]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("sasv2022", {"label": ["target", "spoof"], "attack": ["-", "A07"],
                      "sasv_score": [0.97, -1.5], "speaker": ["LA_0015"] * 2}),
        ("a-dcf", {"label": ["spoof", "target"], "sasv_score": [-2.3, 1.25]}),
        ("wespeaker", {"label": ["target", "nontarget"], "asv_score": [0.51234, -0.01234]}),
        ("asvspoof2019-cm", {"label": ["spoof", "bonafide"], "cm_score": [-3.1, 4.25],
                             "attack": ["A11", "-"]}),
        ("asvspoof2019-asv", {"label": ["target", "nontarget", "spoof"],
                              "asv_score": [12.3, -7.5, 3.25]}),
        ("asvspoof2021-la-key", {"codec": ["alaw", "none"], "subset": ["eval", "progress"],
                                 "attack": ["A07", "-"], "label": ["spoof", "bonafide"]}),
        ("asvspoof2021-df-key", {"vocoder": ["traditional_vocoder", "bonafide", "unknown"],
                                 "vcc_team": ["-", "-", "team20"],
                                 "vcc_language": ["-", "-", "E"]}),
        ("asvspoof2019-cm-protocol", {"environment": ["-", "aaa"], "attack": ["A11", "-"]}),
        ("asvspoof5-t2", {"cm_score": [0.01], "asv_score": [0.01], "sasv_score": [0.04]}),
        ("asvspoof5-key", {"utterance": ["E_000001", "E_000002"], "label": ["target", "spoof"]}),
        ("asvspoof5-fusion", {"label": ["target", "nontarget", "spoof"],
                              "asv_score": [0.5, 0.25, 0.75], "cm_score": [1.5, 1.0, -3.0]}),
        ("voxceleb", {"label": ["target", "nontarget"], "speaker": ["id10270/x/00001.wav"] * 2}),
        ("voxsrc", {"speaker": ["id10270/x/00001.wav", "id1/x.wav"],
                    "asv_score": [0.7512, -0.05]}),
        ("asvspoof5-metadata", {"attack": ["A05", "-"], "attack_tag": ["AC3", "-"],
                                "codec": ["-", "C05"], "label": ["spoof", "bonafide"]}),
        ("bob4", {"label": ["target", "nontarget"], "asv_score": [1.5, -0.5]}),
        ("bob5", {"label": ["target", "nontarget"], "speaker": ["m1", "m1"]}),
        ("bob-vuln", {"label": ["target", "nontarget", "spoof"], "attack": ["-", "-", "replay"]}),
    ],
)  # fmt: skip
def test_columns_mean_what_they_should(
    name: str, expected: dict[str, list[object]], tmp_path: Path
) -> None:
    table = read_table(write(tmp_path / "file", LINES[name]))
    for column, values in expected.items():
        assert table.frame[column].to_list() == values


def test_further_columns_are_kept(tmp_path: Path) -> None:
    text = "label,asv_score,cm_score,fold,age\ntarget,1,2,01,1.5\nspoof,3,4,02,2.0\n"
    table = read_table(write(tmp_path / "a.csv", text))
    assert table.frame["fold"].to_list() == ["01", "02"]
    assert table.frame["age"].to_list() == [1.5, 2.0]
    rows = [row.split(",") for row in LINES["bob-vuln"].splitlines()]
    text = "\n".join(",".join([*row[:2], f"t{n}", *row[2:]]) for n, row in enumerate(rows))
    table = read_table(write(tmp_path / "a.csv", text.replace("t0", "probe_template_id")))
    assert table.layout == "bob-vuln"
    assert table.frame["probe_template_id"].to_list() == ["t1", "t2", "t3"]
    assert table.frame["label"].to_list() == ["target", "nontarget", "spoof"]


def test_scores_of_the_absent_subsystem_are_absent(tmp_path: Path) -> None:
    header = LINES["asvspoof5-t2"].splitlines()[0]
    table = read_table(write(tmp_path / "a.tsv", f"{header}\ns\tu\t-\t0.5\t0.04\ns\tv\t-\t1\t2\n"))
    assert table.score_columns == ["asv_score", "sasv_score"]
    write_table(tmp_path / "b.tsv", table, "asvspoof5-t2")
    assert (tmp_path / "b.tsv").read_text().splitlines()[1] == "s\tu\t-\t0.5\t0.04"
    with pytest.raises(InputError, match=r"a.tsv, line 3, column cm_score: '-' is not"):
        read_table(write(tmp_path / "a.tsv", f"{header}\ns\tu\t1\t0.5\t0\ns\tv\t-\t1\t2\n"))


def test_fused_score_of_the_fusion_table(tmp_path: Path) -> None:
    text = "asv_score,cm_score,sasv_label,fused_score\n0.5,1.5,1,2.0\n0.5,1.5,0,-2.0\n"
    table = read_table(write(tmp_path / "a.csv", text))
    assert table.frame["sasv_score"].to_list() == [2.0, -2.0]
    write_table(tmp_path / "b.csv", table, "asvspoof5-fusion")
    assert (tmp_path / "b.csv").read_text() == text


@pytest.mark.parametrize("format", ["csv", "parquet"])
def test_names_of_files_are_no_patterns(format: str, tmp_path: Path) -> None:
    """``a[1]`` is the file of that name, not ``a1``."""
    for name, scores in (("a1", toy_scores(30)), ("a[1]", toy_scores(60)), ("a*", toy_scores(90))):
        write_scores(tmp_path / "new.csv", scores)
        write_table(tmp_path / name, read_table(tmp_path / "new.csv"), format)
    assert [len(read_table(tmp_path / name)) for name in ("a1", "a[1]", "a*")] == [30, 60, 90]


def test_aliases() -> None:
    assert layout_named("kaldi") is layout_named("asvspoof2021-asv")
    assert layout_named("kaldi-trials") is layout_named("asvspoof5-trials")
    assert layout_named("wedefense") is layout_named("asvspoof5-t1")
    with pytest.raises(InputError, match=r"unknown format 'x'; formats: csv"):
        layout_named("x")


def test_role_of_a_single_score(tmp_path: Path) -> None:
    path = write(tmp_path / "file", LINES["sasv2022"])
    assert read_table(path).score_columns == ["sasv_score"]
    assert read_table(path, role="cm").score_columns == ["cm_score"]
    pair = write(tmp_path / "pair.csv", LINES["csv"])
    assert read_table(pair, role="asv").score_columns == ["asv_score"]
    with pytest.raises(InputError, match=r"line 1: no column sasv_score"):
        read_table(pair, role="sasv")
    plain = write(tmp_path / "plain.csv", "utterance,label,score\nu,bonafide,1.0\nv,spoof,0.5\n")
    assert read_table(plain).score_columns == ["cm_score"]


def test_untidy_white_space_is_no_matter(tmp_path: Path) -> None:
    tidy = read_table(write(tmp_path / "a", LINES["sasv2022"]))
    for text in (
        LINES["sasv2022"].replace(" ", "\t"),
        LINES["sasv2022"].replace(" ", "   "),
        LINES["sasv2022"].replace("\n", "  \n\n"),
        "\n  " + LINES["sasv2022"].rstrip("\n"),
    ):
        assert read_table(write(tmp_path / "b", text)).frame.equals(tidy.frame)
    csv = write(tmp_path / "c.csv", "\n" + LINES["csv"].replace("LA_E_1", '"LA_E_1"') + "\n\n")
    assert read_table(csv).frame.equals(read_table(write(tmp_path / "d", LINES["csv"])).frame)


def test_byte_order_mark_and_windows_line_ends_can_be_mended(tmp_path: Path) -> None:
    wanted = read_table(write(tmp_path / "a", LINES["csv"])).frame
    dos = LINES["csv"].replace("\n", "\r\n")
    for raw in (dos.encode(), dos.encode("utf-8-sig"), dos.encode("utf-16")):
        (tmp_path / "b").write_bytes(raw)
        with pytest.raises(InputError, match=r"b, line 1: .*lightning convert"):
            read_table(tmp_path / "b", mend=False)
        table = read_table(tmp_path / "b")
        assert table.frame.equals(wanted)
        assert re.search("CR LF|byte-order mark", table.notes[0])
    (tmp_path / "b").write_bytes(LINES["csv"].replace("\n", "\r").encode())
    table = read_table(tmp_path / "b")
    assert table.frame.equals(wanted)
    assert "line ends of one CR" in table.notes[0]


def test_our_table_reads_back_exactly(tmp_path: Path) -> None:
    scores = toy_scores()
    scores.extra["sasv_L3c"] = scores.asv / 3 * 1e-300
    scores.extra["room"] = np.array([f'r {n}, "{n}"' for n in range(len(scores))])
    write_scores(tmp_path / "a.csv", scores)
    again = read_scores(tmp_path / "a.csv")
    assert again.columns().keys() == scores.columns().keys()
    for name, values in scores.columns().items():
        np.testing.assert_array_equal(again.columns()[name], values)


def test_parquet_holds_the_same_as_csv(tmp_path: Path) -> None:
    write_scores(tmp_path / "a.csv", toy_scores())
    table = read_table(tmp_path / "a.csv")
    write_table(tmp_path / "a.parquet", table, "parquet")
    again = read_table(tmp_path / "a.parquet")
    assert again.layout == "parquet"
    assert again.frame.equals(table.frame)
    (tmp_path / "b.parquet").write_bytes((tmp_path / "a.parquet").read_bytes()[:200])
    with pytest.raises(InputError, match=r"b.parquet: not a readable Parquet file"):
        read_table(tmp_path / "b.parquet")
    pl.DataFrame({"label": ["target", None], "asv_score": [1, 2]}).write_parquet(tmp_path / "c")
    with pytest.raises(InputError, match=r"c, row 2, column label: a value is missing"):
        read_table(tmp_path / "c")
    pl.DataFrame({"label": ["target"], "asv_score": ["1"]}).write_parquet(tmp_path / "d")
    with pytest.raises(InputError, match=r"d, column asv_score: holds String"):
        read_table(tmp_path / "d")


def test_trials_of_an_utterance_become_one_row(tmp_path: Path) -> None:
    text = "speaker,utterance,attack,label,cm_score\na,u,-,target,1.5\nb,u,-,nontarget,1.5\n"
    table = read_table(write(tmp_path / "a.csv", text))
    write_table(tmp_path / "cm.txt", table, "asvspoof2019-cm")
    assert (tmp_path / "cm.txt").read_text() == "u - bonafide 1.5\n"
    other = read_table(write(tmp_path / "b.csv", text.replace("target,1.5\nb", "target,1.0\nb")))
    with pytest.raises(InputError, match=r"the trials of 'u' differ"):
        write_table(tmp_path / "cm2.txt", other, "asvspoof2019-cm")
    assert not (tmp_path / "cm2.txt").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bob4", "cannot say that this trial is 'spoof'"),
        ("voxceleb", "has no label 'spoof'"),
        ("asvspoof2021-la-key", "no column 'codec'"),
        ("sasv2022", "takes one sasv score, the file has asv_score, cm_score"),
    ],
)
def test_what_a_layout_cannot_say_is_refused(name: str, message: str, tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.csv", LINES["csv"]))
    with pytest.raises(InputError, match=message):
        write_table(tmp_path / "out", table, name)
    assert [path.name for path in tmp_path.iterdir()] == ["a.csv"]


@pytest.mark.parametrize("name", TEXT_LAYOUTS)
def test_every_layout_is_turned_into_every_other_or_refused(name: str, tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "file", LINES[name]))
    for other in LAYOUTS:
        try:
            write_table(tmp_path / "other", table, other)
        except InputError:
            continue
        assert read_table(tmp_path / "other", other).frame.height


def test_names_with_blanks_do_not_fit_into_columns_between_blanks(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a.csv", LINES["csv"].replace("LA_E_2", "LA E 2")))
    with pytest.raises(InputError, match=r"a.csv, line 3: 'LA E 2' cannot be written"):
        write_table(tmp_path / "out", table, "sasv2022", column="asv_score")


NAMES = st.text(st.characters(categories=("L", "N"), include_characters="_-./"), min_size=1)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
WORDS = {"asv": ("target", "nontarget"), "cm": ("bonafide", "spoof"), "sasv": LABELS[:3]}


def kind_of_labels(name: str) -> tuple[str, ...]:
    if LAYOUTS[name].claimed:
        return WORDS["sasv"] if name == "bob-vuln" else WORDS["asv"]
    words = tuple(dict.fromkeys(LAYOUTS[name].labels.values()))
    return LABELS[:3] if set(words) == set(LABELS) else words


@st.composite
def tables(draw: st.DrawFn, name: str) -> ScoreTable:
    """Any table that a layout can hold."""
    size = draw(st.integers(1, 6))
    layout = LAYOUTS[name]
    names = layout.columns or ("speaker", "utterance", "attack", "label", *SCORES, "sasv_X")
    names = [n if n != "score" else f"{layout.role or 'sasv'}_score" for n in names if n[0] != "_"]
    names = [one for n in names for one in n.split("*")]
    column = st.lists(NAMES, min_size=size, max_size=size)
    columns: dict[str, list[object]] = {}
    for one in names:
        if one.endswith(("_score", "_norm")) or one.startswith("sasv_"):
            columns[one] = draw(st.lists(FLOATS, min_size=size, max_size=size))
        elif one not in ("label", "attack", "real_speaker"):
            columns[one] = draw(column)  # a star is none of its letters
    columns["utterance"] = draw(st.lists(NAMES, min_size=size, max_size=size, unique=True))
    label = draw(st.lists(st.sampled_from(kind_of_labels(name)), min_size=size, max_size=size))
    if "attack" in names:
        columns["attack"] = ["A07" if word == "spoof" else "-" for word in label]
    if "real_speaker" in names:
        claimed = columns[layout.claimed]
        same = zip(label, claimed, strict=True)
        columns["real_speaker"] = [c if word == "target" else f"{c}x" for word, c in same]
    keep = [n for n in (*names, "utterance") if n in columns]
    frame = pl.DataFrame({n: columns[n] for n in dict.fromkeys(keep)})
    if "label" in names or layout.claimed:
        frame = frame.with_columns(pl.Series("label", label, pl.Enum(LABELS)))
    if "utterance" not in names:
        frame = frame.drop("utterance")
    return ScoreTable(frame, Path("drawn"))


@pytest.mark.parametrize("name", list(LAYOUTS))
def test_any_table_survives_the_way_through_a_file(
    name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("round") / "file"

    @given(tables(name))
    @settings(max_examples=30, deadline=None)
    def round_trip(table: ScoreTable) -> None:
        write_table(path, table, name)
        again = read_table(path, name)
        assert set(again.frame.columns) == set(table.frame.columns)
        assert again.frame.select(table.frame.columns).equals(table.frame)

    round_trip()


def test_json_lines_are_a_table(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        '{"model": "s1", "utterance": "u1", "label": "target", "codec": "C01", "score": 0.5}\n\n'
        '{"model": "s1", "utterance": "u2", "label": "spoof", "codec": "-", "score": 1e-3}\n'
    )
    table = read_table(path)
    assert table.frame["codec"].to_list() == ["C01", "-"]
    assert table.text("speaker").tolist() == ["s1", "s1"]
    assert table.numbers("sasv_score").tolist() == [0.5, 0.001]
    assert table.line(1) == 3
    write_table(tmp_path / "b.jsonl", table, "json-lines")
    assert read_table(tmp_path / "b.jsonl").frame.equals(table.frame)
    path.write_text('{"key": "t1", "lab": "target", "wav": ["a.wav", "b.wav", "c.wav"]}\n')
    toolkit = read_table(path)
    assert toolkit.frame.row(0, named=True) == {
        "trial_key": "t1", "label": "target", "speaker": "a.wav,b.wav",
        "enrolment": "a.wav,b.wav", "utterance": "c.wav",
    }  # fmt: skip
    for second, message in (
        ('{"key": "t2"}', "line 2: enrolment is not in every line"),
        ('{"key": "t2", "lab": null, "wav": ["a"]}', "line 2, lab: expected a text"),
        ("[1]", "line 2: expected an object"),
        ("{", "line 2 is not valid JSON"),
    ):
        path.write_text('{"key": "t1", "lab": "target", "wav": ["a", "b"]}\n' + second + "\n")
        with pytest.raises(InputError, match=message):
            read_table(path)
