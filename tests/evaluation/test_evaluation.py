"""Metrics, intervals and comparisons of tables, against the functions they rest on."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.run import Options, evaluate_tables
from lightning_sasv.evaluation.systems import gather
from lightning_sasv.metrics.bootstrap import impostors
from lightning_sasv.metrics.functional import (
    Settings,
    all_metrics,
    bootstrap,
    by_group,
    cross_entropy,
    paired_bootstrap,
)
from lightning_sasv.metrics.registry import METRICS, metrics_for
from lightning_sasv.report.tables import print_evaluation, print_groups, print_metrics
from lightning_sasv.scores import ScoreTable, read_table, write_scores
from lightning_sasv.scores.sources import names_of_files
from lightning_sasv.trials import TrialClass
from tests.scores.samples import LINES, toy_scores, write

SETTINGS = Settings()


@pytest.fixture
def table(tmp_path: Path) -> ScoreTable:
    scores = toy_scores(speakers=12)
    scores.extra["test_speaker"] = np.roll(scores.speaker, 1)
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
    result = evaluate_tables({"a": table}, Options(ci="trial", replicates=39))
    assert result.metrics["a"]["asv_eer"] == 0
    assert set(result.intervals["a"]) == {
        *("asv_eer", "asv_cllr", "asv_cllr_min", "asv_cllr_calib", "asv_min_dcf", "asv_act_dcf")
    }


DRAWN = {
    "known": ("speaker", "impostor", "attack"),
    "speaker": ("speaker",),
    "speaker-attack": ("speaker", "attack"),
    "trial": ("trial",),
}


@pytest.mark.parametrize("way", DRAWN)
def test_intervals_are_those_of_the_metrics_module(table: ScoreTable, way: str) -> None:
    found = evaluate_tables({"eval": table}, Options(ci=way, replicates=39, seed=3))
    assert found.draws.drawn == DRAWN[way]
    columns = {
        "speaker": table.text("speaker"),
        "attack": table.text("attack"),
        "impostor": impostors(table.labels(), table.text("test_speaker")),
    }
    clusters = tuple(columns[name] for name in DRAWN[way] if name in columns) or None
    for name, scores in gather({"eval": table}).columns.items():
        metrics = list(found.intervals[name])
        wanted = bootstrap(metrics, scores, table.labels(), clusters, 39, seed=3)
        assert wanted
        for metric, one in wanted.items():
            got = found.draws.systems[name][metric]
            assert got.value == one.value
            np.testing.assert_array_equal(got.replicates, one.replicates)
            ends = found.intervals[name][metric]
            assert (ends.low, ends.high) == pytest.approx((one.low, one.high), rel=1e-14)
            assert ends.method == one.method
    (entry,) = found.to_dict()["systems"]["A"]["sets"].values()
    assert entry["intervals"]["sasv_eer"].keys() == {
        *("low", "high", "level", "method", "drawn", "replicates", "undefined", "seed", "note")
    }


def test_comparison_is_a_paired_bootstrap_of_the_same_draws(table: ScoreTable) -> None:
    options = Options(ci="speaker", compare=True, replicates=40, seed=5, systems=("A", "B"))
    result = evaluate_tables({"eval": table}, options)
    pairs = {(one.metric, one.first, one.second) for one in result.comparisons}
    scores = table.numbers("sasv_A"), table.numbers("sasv_B")
    wanted = ("sasv_eer", "sv_eer", "spf_eer", "cllr", "min_a_dcf")
    assert pairs == {(metric, "A", "B") for metric in wanted}
    for one in result.comparisons:
        clusters = table.text("speaker")
        judge = paired_bootstrap(one.metric, *scores, table.labels(), clusters, 40, seed=5)
        assert one.difference == judge.difference
        assert (one.low, one.high, one.p) == (judge.low, judge.high, judge.p_value)
        a, b = (result.draws.systems[name][one.metric].replicates for name in "AB")
        np.testing.assert_array_equal(a - b, judge.replicates)


def test_families_and_their_replicates(table: ScoreTable) -> None:
    scores = toy_scores(speakers=12)
    extra = {f"sasv_{name}": scores.cm + k * scores.asv for k, name in enumerate("CDE")}
    table = replace(table, frame=table.frame.drop("asv_score", "cm_score").with_columns(**{
        name: pl.Series(column) for name, column in extra.items()}))  # fmt: skip
    wanted = Options(compare=True, replicates=50)
    best = evaluate_tables({"eval": table}, wanted)
    assert {one.family for one in best.comparisons} == {"10 pairs, holm"}
    assert best.draws.replicates == 399
    assert "399 replicates: with fewer, Holm over 10 pairs could not reject" in best.notes
    given = evaluate_tables({"eval": table}, replace(wanted, reference="D"))
    assert {one.family for one in given.comparisons} == {"4 against D, holm"}
    assert {one.second for one in given.comparisons} == {"D"}
    assert given.draws.replicates == 159
    none = evaluate_tables({"eval": table}, replace(wanted, adjust="none", pairs="all"))
    assert none.draws.replicates == 50
    assert all(one.p == one.p_adjusted for one in none.comparisons)
    with pytest.raises(InputError, match="--reference: no system 'Z'; there are A, B, C, D, E"):
        evaluate_tables({"eval": table}, replace(wanted, reference="Z"))
    with pytest.raises(InputError, match="--reference and --pairs all are two families"):
        evaluate_tables({"eval": table}, replace(wanted, reference="D", pairs="all"))


def test_what_is_drawn_depends_on_what_is_known(table: ScoreTable) -> None:
    plain = replace(table, frame=table.frame.drop("test_speaker"))
    found = evaluate_tables({"x": plain}, Options(replicates=39))
    assert found.draws.drawn == ("speaker", "attack")
    assert "impostors are not known (no column test_speaker): intervals leave them out" in (
        found.notes
    )
    assert "act_a_dcf" in found.intervals["A"]
    assert "cllr_min" not in found.intervals["A"], "the main metrics, unless --ci is given"
    nobody = replace(plain, frame=plain.frame.drop("speaker"))
    told = evaluate_tables({"x": nobody}, Options())
    assert not told.intervals
    assert any("no intervals: speakers are not known" in note for note in told.notes)
    known = evaluate_tables({"x": nobody}, Options(compare=True, replicates=99, systems=("A", "B")))
    assert known.draws.drawn == ("trial",)
    assert not known.intervals, "no interval that would be too narrow, unless asked for"
    assert "speakers are not known (no column speaker): trials are drawn" in known.notes
    assert not any(one.apart for one in known.comparisons)
    asked = evaluate_tables({"x": nobody}, Options(ci="trial", replicates=39))
    assert asked.intervals["A"]["sasv_eer"].method == "percentile"
    assert not evaluate_tables({"x": table}, Options(ci="none")).draws.systems
    compared = Options(ci="none", compare=True, replicates=99, systems=("A", "B"))
    only = evaluate_tables({"x": table}, compared)
    assert only.comparisons
    assert not only.intervals
    cm_only = table.take(np.flatnonzero(table.labels() != 2))
    notes = evaluate_tables({"x": cm_only}, Options(replicates=39)).notes
    assert not any("impostors" in note for note in notes)


def test_large_files_have_intervals_if_asked_for(
    table: ScoreTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightning_sasv.evaluation.compare.LARGE", 599)
    found = evaluate_tables({"x": table}, Options(replicates=39))
    assert not found.intervals
    assert "no intervals of 600 trials unless --ci" in found.notes
    assert evaluate_tables({"x": table}, Options(ci="known", replicates=39)).intervals


def test_few_speakers_have_their_own_values_in_place_of_an_interval(tmp_path: Path) -> None:
    scores = toy_scores()
    scores.extra["sasv_A"], scores.extra["sasv_B"] = scores.cm + scores.asv, scores.cm
    write_scores(tmp_path / "x.csv", scores)
    table = read_table(tmp_path / "x.csv")
    found = evaluate_tables({"x": table}, Options())
    assert not found.intervals
    assert "6 speakers are too few for intervals" in found.notes
    own = by_group(scores.speaker, scores.label, sasv=scores.extra["sasv_A"])
    words = ", ".join(f"{name} {100 * one['sasv_eer']:.2f}" for name, one in own.items())
    assert f"SASV-EER % of each speaker, A: {words}" in found.notes
    pair = replace(table, frame=table.frame.drop("sasv_A", "sasv_B"))
    said = evaluate_tables({"x": pair}, Options()).notes
    assert said[-2:] == (found.notes[0], "--by speaker shows their own values")
    compared = evaluate_tables({"x": table}, Options(compare=True, systems=("A", "B")))
    assert compared.comparisons[0].verdict == "A and B: no verdict, 6 speakers are too few"
    assert all(math.isnan(one.low) for one in compared.intervals["A"].values())


def test_what_has_no_value_or_no_spread_is_explained(table: ScoreTable) -> None:
    bare = replace(table, frame=table.frame.filter(pl.col("label") != "nontarget"))
    found = evaluate_tables({"x": bare}, Options(ci="none"))
    assert "no nontarget trials: – stands for what needs them" in found.notes
    apart = table.frame.with_columns(sasv_A=pl.Series((table.labels() == 1).astype(float)))
    speakers = pl.Series([f"S{k % 12}" for k in range(len(table))])
    apart = apart.with_columns(speaker=speakers)
    found = evaluate_tables({"x": replace(table, frame=apart)}, Options(replicates=39))
    (note,) = [one for one in found.notes if "the same in every replicate" in one]
    assert note.startswith("A: SASV-EER, SV-EER, SPF-EER, ")
    assert not any(one.startswith("no ") for one in found.notes)


def test_scores_that_are_no_llrs_are_named(table: ScoreTable) -> None:
    apart = 100 * (table.numbers("sasv_A") + 20 * (table.labels() == 1))
    table = replace(table, frame=table.frame.with_columns(sasv_A=pl.Series(apart)))
    plain = evaluate_tables({"x": table}, Options(ci="none"))
    (note,) = [one for one in plain.notes if one.startswith("A: Cllr")]
    assert "the score is no log-likelihood ratio" in note
    assert not math.isnan(plain.metrics["A"]["act_a_dcf"])
    left = evaluate_tables({"x": table}, Options(Settings(not_llr=True), ci="none"))
    assert math.isnan(left.metrics["A"]["act_a_dcf"])
    assert not any("log-likelihood" in one for one in left.notes)


def test_values_and_intervals_as_csv(table: ScoreTable, tmp_path: Path) -> None:
    found = evaluate_tables({"x": table}, Options(replicates=39, by=("attack",)))
    frame = pl.read_csv(found.write_csv(tmp_path / "out.csv"))
    one = frame.filter(system="A", metric="sasv_eer").filter(pl.col("group").is_null())
    ends = found.intervals["A"]["sasv_eer"]
    row = ("A", "eval", None, "sasv_eer", found.metrics["A"]["sasv_eer"], ends.low, ends.high)
    assert one.row(0) == (*row, "bca", "speaker × impostor × attack", 39)
    assert frame.filter(group="attack=A07", metric="spf_eer", system="A").height == 1
    found.write_csv(tmp_path / "out.csv", overwrite=False)
    (tmp_path / "note.csv").write_text("mine\n")
    with pytest.raises(InputError, match="holds something else"):
        found.write_csv(tmp_path / "note.csv", overwrite=False)


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
    with pytest.raises(InputError, match=r"--by atack needs it; did you mean attack\?"):
        evaluate_tables({"eval": table}, Options(by=("atack",)))
    with pytest.raises(InputError, match=r"no system 'asv\+cn'; there are .*did you mean asv\+cm"):
        evaluate_tables({"eval": table}, Options(reference="asv+cn", compare=True))


def test_breakdown_by_speaker_says_whose_errors_they_are(
    table: ScoreTable, capsys: pytest.CaptureFixture[str]
) -> None:
    result = evaluate_tables({"eval": table}, Options(by=("speaker",), replicates=39))
    labels, speaker, scores = table.labels(), table.text("speaker"), table.numbers("sasv_B")
    accepted = scores > result.metrics["B"]["sasv_threshold"]
    assert list(result.speakers) == ["A", "B"]  # the pair has no score of its own
    for name, one in result.speakers["B"].items():
        own = speaker == name
        assert one.misses == (own & (labels == TrialClass.TARGET) & ~accepted).sum()
        assert one.accepted_spoofs == (own & (labels == TrialClass.SPOOF) & accepted).sum()
        assert one.eer == result.groups["speaker"]["B"][name]["sasv_eer"]
    errors = result.to_dict()["systems"]["B"]["sets"][result.set_name]["errors"]["speaker"]
    assert errors == {name: one._asdict() for name, one in result.speakers["B"].items()}
    print_evaluation(result)
    shown = capsys.readouterr().out
    first = next(iter(result.speakers["B"].values()))
    cells = (first.targets, first.misses, first.nontargets, first.accepted_nontargets)
    assert [first.speaker, *map(str, cells)] in [
        row.replace("│", " ").split()[:5] for row in shown.splitlines()
    ]
    assert "39 replicates of 12 speakers" in " ".join(shown.split())
    assert "EERs: asvspoof convention; Cllr in bits; a-DCF costs a-dcf1" in shown


def test_columns_that_may_be_scores_are_named(tmp_path: Path) -> None:
    scores = toy_scores(60)
    scores.extra.update(fusion=scores.asv + scores.cm, asv_llr=scores.asv)
    scores.extra.update(cm_score_Post=scores.cm, gender=np.full(60, "f"))
    found = gather({"x": read_table(write_scores(tmp_path / "x.csv", scores))})
    (note,) = [one for one in found.notes if "not evaluated" in one]
    assert "numbers that are not evaluated: fusion, asv_llr; --columns" in note
    assert not gather({"x": read_table(write_scores(tmp_path / "y.csv", toy_scores(60)))}).notes


def test_breakdown_by_attack_is_about_the_attack(
    table: ScoreTable, capsys: pytest.CaptureFixture[str]
) -> None:
    options = Options(Settings(not_llr=True), by=("attack",), replicates=39, systems=("A",))
    result = evaluate_tables({"eval": table}, options)
    labels, attack, scores = table.labels(), table.text("attack"), table.numbers("sasv_A")
    for name, one in result.attacks["A"].items():
        own = attack == name
        assert one.spoofs == own.sum()
        assert one.accepted == np.mean(scores[own] > result.metrics["A"]["sasv_threshold"])
        keep = own | (labels == 1)
        judge = bootstrap("spf_eer", *(x[keep] for x in (scores, labels, table.text("speaker"))),
                          n=39)  # fmt: skip
        assert one.spf_eer is not None
        assert (one.spf_eer.low, one.spf_eer.high) == (judge.low, judge.high)
        assert result.groups["attack"]["A"][name]["spf_eer"] == judge.value
        entry = result.to_dict()["systems"]["A"]["sets"][result.set_name]
        assert entry["errors"]["attack"][name] == {"spoofs": one.spoofs, "accepted": one.accepted}
        assert entry["by_intervals"]["attack"][name]["spf_eer"]["high"] == judge.high
        rows = result.to_polars().filter(group=f"attack={name}", metric="spf_eer")
        assert rows.select("low", "drawn", "n").rows() == [(judge.low, "speaker", 39)]
    print_evaluation(result)
    shown = capsys.readouterr().out
    by_attack = shown[shown.index("A by attack") :]
    assert "SPF-EER %" in by_attack
    assert "accepted %" in by_attack
    assert "SASV-EER %" not in by_attack
    assert "SV-EER %" not in by_attack
    assert "no LLR" in shown
    assert "misses of the worst speaker" in shown
    assert not evaluate_tables({"x": table}, Options(ci="none")).attacks


def test_bad_options(table: ScoreTable) -> None:
    with pytest.raises(InputError, match="10 replicates give no 95 % interval; take at least 39"):
        evaluate_tables({"eval": table}, Options(ci="trial", replicates=10))
    with pytest.raises(InputError, match="--ci must be one of known, speaker, speaker-attack, tr"):
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
    print_groups("[/system]", "codec", groups)
    shown = capsys.readouterr().out
    for group, values in groups.items():
        assert group in shown
        for name, value in values.items():
            assert f" {METRICS[name].text(value)} " in shown
    assert "[/system] by codec" in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


def test_many_systems_are_rows_under_one_title(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    fused = {"sasv_eer": 0.0142, "sv_eer": 0.0192, "cllr": 0.16, "act_a_dcf": 0.0767}
    metrics: dict[str, dict[str, float]] = {f"system {k}": fused for k in range(12)}
    metrics["pair"] = {"asv_eer": 0.0164}
    print_metrics(metrics, {}, "a title", "a caption", {"misses": {"system 3": "7 %"}})
    shown = capsys.readouterr().out
    for text in ("a title", "a caption", " system 0 ", " ASV EER % ", " misses "):
        assert shown.count(text) == 1
    print_metrics({name: metrics[name] for name in ("system 0", "pair")}, {}, "a title", "b")
    assert "│ metric" in capsys.readouterr().out.replace("┃", "│")


def test_systems_side_by_side_can_be_compared(table: ScoreTable) -> None:
    alone = evaluate_tables({"a": table}, Options())
    assert "3 systems in one file; --compare tests their differences" in alone.notes
    assert not alone.comparisons
    compared = evaluate_tables({"a": table}, Options(compare=True, replicates=39))
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
        evaluate_tables({"x": table}, Options(ci="trial", replicates=39, llrs=llrs))
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
    interval = found.intervals["x"]["nce"]
    assert interval.low < value < interval.high


def test_groups_without_a_class_are_explained(table: ScoreTable) -> None:
    first = table.text("speaker")[0]
    keep = (table.text("speaker") != first) | (table.labels() != TrialClass.NONTARGET)
    part = table.take(np.flatnonzero(keep))
    reasons: dict[str, dict[str, str]] = {}
    found = by_group(
        part.text("speaker"), part.labels(), sasv=part.numbers("sasv_A"), reasons=reasons
    )
    assert math.isnan(found[first]["sv_eer"])
    assert "no nontarget trials" in reasons[first]["sv_eer"]
    assert reasons.keys() == {first}
    notes = evaluate_tables({"x": part}, Options(by=("speaker",), ci="none")).notes
    assert any(f"1 of 12 groups have no nontarget trial ({first})" in note for note in notes)
