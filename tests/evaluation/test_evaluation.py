"""Metrics, intervals and comparisons of tables, against the functions they rest on."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.compare import Difference, paired_difference, verdict
from lightning_sasv.evaluation.run import Options, evaluate_tables
from lightning_sasv.evaluation.systems import WAYS, gather
from lightning_sasv.metrics.functional import (
    Settings,
    all_metrics,
    bootstrap,
    by_group,
    cross_entropy,
    paired_bootstrap,
)
from lightning_sasv.metrics.registry import METRICS, metrics_for
from lightning_sasv.report.tables import print_groups, print_metrics
from lightning_sasv.scores import ScoreTable, read_table, write_scores
from lightning_sasv.scores.sources import names_of_files
from tests.scores.samples import LINES, toy_scores, write

SETTINGS = Settings()


@pytest.fixture
def table(tmp_path: Path) -> ScoreTable:
    scores = toy_scores()
    scores.extra["sasv_A"] = scores.asv * 4 + scores.cm
    scores.extra["sasv_B"] = np.minimum(scores.asv * 10, scores.cm)
    write_scores(tmp_path / "eval.csv", scores)
    return read_table(tmp_path / "eval.csv")


def test_systems_of_a_table(table: ScoreTable) -> None:
    found = gather({"eval": table})
    assert list(found.columns) == ["A", "B", "asv+cm"]
    assert [set(one) for one in found.columns.values()] == [{"sasv"}, {"sasv"}, {"asv", "cm"}]
    for name, metrics in found.metrics(SETTINGS).items():
        columns = [found.columns[name].get(role) for role in ("asv", "cm", "sasv")]
        assert metrics == all_metrics(*columns, table.labels())
    one_fused = replace(table, frame=table.frame.drop("sasv_B"))
    only = gather({"eval": one_fused}).columns
    assert {name: set(one) for name, one in only.items()} == {"A": {"asv", "cm", "sasv"}}
    assert list(gather({"eval": table}, only=("B",)).columns) == ["B"]
    with pytest.raises(InputError, match="no system 'C'; there are A, B, asv"):
        gather({"eval": table}, only=("C",))


def test_systems_of_several_tables_share_their_trials(table: ScoreTable) -> None:
    rows = np.random.default_rng(0).permutation(len(table))
    first = replace(table, frame=table.frame.drop("sasv_B", "asv_score", "cm_score"))
    second = replace(table, frame=table.frame.drop("sasv_A", "asv_score", "cm_score")).take(rows)
    found = gather({"x": first, "y": second})
    assert {name: set(one) for name, one in found.columns.items()} == {"x": {"sasv"}, "y": {"sasv"}}
    np.testing.assert_array_equal(found.columns["y"]["sasv"], table.numbers("sasv_B"))
    short = second.take(np.arange(590))
    for pair in ({"x": first, "y": short}, {"x": short, "y": first}):
        with pytest.raises(InputError, match="no score for 10 of 600 trials"):
            gather(pair)
        assert len(gather(pair, allow_missing=True).labels) == 590


def test_labels_of_a_countermeasure_judge_the_countermeasure(tmp_path: Path) -> None:
    text = "".join(f"u{n} {'-' if n % 2 else 'A07'} {'bonafide' if n % 2 else 'spoof'} {n % 7}\n"
                   for n in range(50))  # fmt: skip
    cm = read_table(write(tmp_path / "cm.txt", text))
    found = gather({"cm": cm})
    values = found.metrics(SETTINGS)["cm"]
    assert set(values) == {"cm_eer", "cm_threshold", "cm_cllr", "cm_cllr_min", "cm_cllr_calib",
                           "cm_min_dcf", "cm_act_dcf"}  # fmt: skip
    expected = all_metrics(None, cm.numbers("cm_score"), None, np.arange(50) % 2)
    assert values == expected
    asv = replace(cm, frame=cm.frame.rename({"cm_score": "asv_score"}))
    with pytest.raises(InputError, match=r"cm.txt, line 1: labels only say bonafide or spoof"):
        gather({"asv": asv})


def test_tables_without_labels_or_scores_are_refused(table: ScoreTable, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no column 'label'"):
        gather({"x": replace(table, frame=table.frame.drop("label"))})
    with pytest.raises(InputError, match="line 1: no scores among speaker, utterance"):
        gather({"x": table.without_scores()})
    targets = table.take(np.flatnonzero(table.labels() == 1))
    with pytest.raises(InputError, match=r"no metric of A is defined on these trials \(200 target"):
        evaluate_tables({"x": targets}, Options())


def test_verification_alone_gives_what_it_can(tmp_path: Path) -> None:
    table = read_table(write(tmp_path / "a", LINES["wespeaker"]))
    result = evaluate_tables({"a": table}, Options(ci="trial", replicates=20))
    assert result.metrics["a"]["asv_eer"] == 0
    assert set(result.intervals["a"]) == {"asv_eer"}


@pytest.mark.parametrize("way", WAYS)
def test_intervals_are_those_of_the_metrics_module(table: ScoreTable, way: str) -> None:
    found = evaluate_tables({"eval": table}, Options(ci=way, replicates=25, seed=3))
    columns = [table.text(name) for name in WAYS[way]]
    clusters = None if not columns else columns[0] if len(columns) == 1 else tuple(columns)
    for name, scores in gather({"eval": table}).columns.items():
        metrics = list(found.intervals[name])
        wanted = bootstrap(metrics, scores, table.labels(), clusters, 25, seed=3)
        assert wanted
        for metric, one in wanted.items():
            got = found.intervals[name][metric]
            assert got.value == one.value
            np.testing.assert_array_equal(got.replicates, one.replicates)
            assert got.interval() == pytest.approx((one.low, one.high), rel=1e-14)


def test_comparison_is_a_paired_bootstrap(table: ScoreTable) -> None:
    options = Options(compare=True, replicates=40, seed=5, systems=("A", "B"))
    result = evaluate_tables({"eval": table}, options)
    speakers = {"trial": None, "speaker": table.text("speaker")}
    pairs = {(one.metric, one.first, one.second) for one in result.comparisons}
    scores = table.numbers("sasv_A"), table.numbers("sasv_B")
    wanted = ("sasv_eer", "sv_eer", "spf_eer", "cllr", "min_a_dcf")
    assert pairs == {(metric, "A", "B") for metric in wanted}
    for one in result.comparisons:
        for way, clusters in speakers.items():
            judge = paired_bootstrap(one.metric, *scores, table.labels(), clusters, 40, seed=5)
            assert one.difference == judge.difference
            found = one.ways[way]
            assert (found.low, found.high, found.p_value) == (judge.low, judge.high, judge.p_value)


def test_p_value_counts_the_rarer_side() -> None:
    found = paired_difference(np.array([-1.0, -2.0, -3.0, 1.0, math.nan]))
    assert found.p_value == 2 * (1 + 1) / (4 + 1)
    assert paired_difference(np.zeros(9)).p_value == 1


CLEAR, UNCLEAR, EQUAL = Difference(-2, -1, 0.01), Difference(-1, 1, 0.5), Difference(0, 0, 1)


@pytest.mark.parametrize(
    ("difference", "ways", "words"),
    [
        (-1.5, {"trial": CLEAR, "speaker": CLEAR}, "A is better than B"),
        (1.5, {"trial": Difference(1, 2, 0.01)}, "B is better than A on these trials"),
        (-1.5, {"trial": CLEAR, "speaker": UNCLEAR}, "on these speakers; others may tell otherw"),
        (-1.5, {"trial": UNCLEAR, "speaker": CLEAR}, "A seems better than B, but not beyond"),
        (-0.5, {"trial": UNCLEAR, "speaker": UNCLEAR}, "A and B cannot be told apart"),
        (0.0, {"trial": EQUAL, "speaker": EQUAL}, "A and B are equal"),
    ],
)
def test_verdict(difference: float, ways: dict[str, Difference], words: str) -> None:
    assert words in verdict("A", "B", difference, ways)


def test_breakdown_by_any_column(table: ScoreTable) -> None:
    result = evaluate_tables({"eval": table}, Options(by=("attack", "speaker")))
    for column in ("attack", "speaker"):
        fused, attacks = table.numbers("sasv_A"), column == "attack"
        expected = by_group(table.text(column), table.labels(), sasv=fused, attacks=attacks)
        assert list(result.groups[column]["A"]) == list(expected)
        for group, values in expected.items():
            assert result.groups[column]["A"][group] == pytest.approx(values, nan_ok=True)
    assert list(result.groups["attack"]["A"]) == ["A07", "A08"]
    with pytest.raises(InputError, match=r"no column 'room' .*; --by room needs it"):
        evaluate_tables({"eval": table}, Options(by=("room",)))


def test_bad_options(table: ScoreTable) -> None:
    with pytest.raises(InputError, match="--replicates must be at least 1, got 0"):
        evaluate_tables({"eval": table}, Options(ci="trial", replicates=0))
    with pytest.raises(InputError, match="--ci must be one of trial, speaker, speaker-attack"):
        evaluate_tables({"eval": table}, Options(ci="moon"))


def test_names_of_files(tmp_path: Path) -> None:
    assert names_of_files(["a/x.csv", "b/y.txt"]) == {"x": "a/x.csv", "y": "b/y.txt"}
    assert list(names_of_files(["r/a/x.csv", "r/b/x.csv"])) == ["a/x", "b/x"]
    assert list(names_of_files(["x.csv", "x.csv"])) == ["x", "x#2"]
    assert list(names_of_files(["/r/x.csv", "/r/x.csv", "/q/x.csv"])) == ["r/x", "r/x#2", "q/x"]
    assert list(names_of_files(["/x.csv", "r/x.csv"])) == ["/x", "r/x"]
    assert list(names_of_files(["asv=a/s.txt,cm=b/c.txt", "cm=b/c.txt"])) == ["s+c", "c"]


@pytest.mark.parametrize("width", [60, 80, 200])
def test_breakdowns_show_every_number_whole(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    names = [metric.name for metric in metrics_for("groups")]
    groups = {
        group: {name: n + 0.123456 * k for n, name in enumerate(names)}
        for k, group in enumerate(("A07", "[/b]", "A very long name of an attack"))
    }
    print_groups("[/system]", "attack", groups)
    shown = capsys.readouterr().out
    for group, values in groups.items():
        assert group in shown
        for name, value in values.items():
            assert f" {METRICS[name].text(value)} " in shown
    assert "[/system] by attack" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


def test_systems_side_by_side_can_be_compared(table: ScoreTable) -> None:
    alone = evaluate_tables({"a": table}, Options())
    assert "3 systems in one file; --compare tests their differences" in alone.notes
    assert not alone.comparisons
    compared = evaluate_tables({"a": table}, Options(compare=True, replicates=5))
    assert compared.comparisons
    assert not any("--compare" in note for note in compared.notes)


def test_whether_a_concurrent_point_exists_is_said_in_words(
    capsys: pytest.CaptureFixture[str],
) -> None:
    metrics = {"one": {"t_eer_exists": 1.0}, "two": {"t_eer_exists": 0.0}}
    print_metrics(metrics, {}, "[/title]", "[/caption]")
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["yes", "│", "no"] in [row[-4:-1] for row in rows]


def test_cross_entropy_is_wanted_by_name_and_has_intervals(tmp_path: Path) -> None:
    scores = toy_scores(120)
    write_scores(tmp_path / "x.csv", scores)
    table = read_table(tmp_path / "x.csv")
    plain, found = (
        evaluate_tables({"x": table}, Options(ci="trial", replicates=20, llrs=llrs))
        for llrs in (False, True)
    )
    assert found.metrics["x"].items() > plain.metrics["x"].items()
    value = cross_entropy(scores.asv, scores.cm, scores.label).value
    assert found.metrics["x"]["nce"] == pytest.approx(value)
    assert found.intervals["x"].keys() - plain.intervals["x"].keys() == {
        "nce",
        "nce_min",
        "policy_a_dcf",
    }
    low, high = found.intervals["x"]["nce"].interval()
    assert low < value < high
