"""What an evaluation asks, doubts and tells of files of other people."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from lightning_sasv import evaluation
from lightning_sasv.decisions import PRESETS
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation.definitions import read_points, read_rates
from lightning_sasv.metrics.bootstrap import replicate_weights
from lightning_sasv.metrics.functional import ASVSPOOF5_RATES, ASVRates, a_dcf
from lightning_sasv.metrics.registry import Balance, explained_metrics
from lightning_sasv.scores import convert, read_table, write_scores
from lightning_sasv.scores.reading import reading
from lightning_sasv.scores.sources import read_key, read_source
from tests.scores.samples import toy_scores, write


def evaluated(*files: Path | str, **options: object) -> tuple[dict[str, float], str]:
    """Metrics of the one system, and all that was said."""
    said: list[str] = []
    result = evaluation.evaluate([str(f) for f in files], ci="none", tell=said.extend, **options)
    (found,) = result.metrics.values()
    return found, "\n".join([*said, result.caption])


@pytest.fixture
def cm_file(tmp_path: Path) -> Path:
    """A countermeasure's file: ``utt key score``."""
    scores = toy_scores(300)
    words = np.where(scores.label == 0, "spoof", "bona-fide")
    rows = zip(scores.utterance, words, scores.cm, strict=True)
    return write(tmp_path / "cm.txt", "".join(f"{u} {k} {s}\n" for u, k, s in rows))


@pytest.fixture
def asv_file(tmp_path: Path) -> Path:
    """A verifier's file on other trials, without ids: ``attack key score``."""
    scores = toy_scores(150, seed=1)
    words = np.array(["spoof", "target", "nontarget"])[scores.label]
    rows = zip(scores.attack, words, scores.asv, strict=True)
    return write(tmp_path / "asv.txt", "".join(f"{a} {k} {s}\n" for a, k, s in rows))


def test_unpaired_files_have_a_tandem(cm_file: Path, asv_file: Path, tmp_path: Path) -> None:
    out = tmp_path / "e.json"
    found, said = evaluated(f"asv={asv_file},cm={cm_file}", json=str(out))
    (system,) = json.loads(out.read_text())["systems"].values()
    entry = system["sets"]["trials"]
    assert entry["values"]["min_t_dcf"] == found["min_t_dcf"]
    assert entry["of"]["t_dcf"]["rates"]["fa_spoof"] == found["asv_pfa_spoof"]
    assert {"t_eer", "min_t_dcf", "min_t_dcf_legacy", "asv_pfa_spoof"} <= found.keys()
    assert not {"sasv_eer", "cllr", "min_a_dcf"} & found.keys()
    assert "unpaired: t-DCF and t-EER are those of the two distributions" in said
    assert "a-DCF costs" not in said
    assert found["asv_eer"] == evaluated(asv_file)[0]["asv_eer"]
    alone, said = evaluated(cm_file, asv_rates=str(asv_file))
    assert alone["min_t_dcf"] == found["min_t_dcf"]
    assert "ASV-constrained (2020 on), ASV fixed rates" in said
    with pytest.raises(InputError, match="which need both scores"):
        evaluation.evaluate([f"asv={asv_file},cm={cm_file}"], llrs=True)


def test_unpaired_files_have_intervals_groups_and_differences(
    cm_file: Path, asv_file: Path, tmp_path: Path
) -> None:
    rows = [row.split() for row in cm_file.read_text().splitlines()]
    rng = np.random.default_rng(0)
    attacks = ["A07" if n % 2 and k == "spoof" else "A08" if k == "spoof" else "-"
               for n, (_, k, _) in enumerate(rows)]  # fmt: skip
    files = []
    for name, noise in (("good", 0.0), ("poor", 6.0)):
        scores = [float(s) + rng.normal(0, noise) if noise else float(s) for _, _, s in rows]
        lines = (
            f"{u} {a} {k} {s}\n" for (u, k, _), a, s in zip(rows, attacks, scores, strict=True)
        )
        files.append(f"{name}=asv={asv_file},cm={write(tmp_path / name, ''.join(lines))}")
    found = evaluation.evaluate(files, ci="trial", replicates=99, by="attack", reference="good")
    for system, values in found.metrics.items():
        for metric in ("t_eer", "min_t_dcf", "asv_eer", "cm_eer"):
            ends = found.intervals[system][metric]
            assert ends.low <= values[metric] <= ends.high
    (verdict,) = [one for one in found.comparisons if one.metric == "cm_eer"]
    assert verdict.p < 0.05
    groups = found.groups["attack"]["good"]
    alone = evaluation.evaluate([f"{tmp_path / 'good'}"], by="attack", ci="none").groups["attack"]
    assert [groups[a]["cm_eer"] for a in ("A07", "A08")] == [
        alone["good"][a]["cm_eer"] for a in ("A07", "A08")
    ]
    assert groups["A07"]["asv_eer"] == found.metrics["good"]["asv_eer"]


def test_operating_points_of_countermeasures(cm_file: Path) -> None:
    usual, said = evaluated(cm_file)
    same, _ = evaluated(cm_file, cm_dcf="asvspoof5")
    assert same["cm_min_dcf"] == pytest.approx(usual["cm_min_dcf"])
    equal, said = evaluated(cm_file, cm_dcf="equal")
    table = read_table(cm_file)
    pos, neg = (table.numbers("cm_score")[(table.frame["label"] == k).to_numpy()]
                for k in ("bonafide", "spoof"))  # fmt: skip
    grid = np.concatenate([[-np.inf], pos, neg])
    assert equal["cm_min_dcf"] == min((pos <= t).mean() + (neg > t).mean() for t in grid)
    assert "CM DCF: prior of spoofs 0.5, costs 1, 1" in said
    with pytest.raises(InputError, match="--cm-dcf x: expected asvspoof5, equal"):
        evaluated(cm_file, cm_dcf="x")


def test_signs_and_logarithms(cm_file: Path, tmp_path: Path) -> None:
    found, _ = evaluated(cm_file)
    turned, said = evaluated(cm_file, negate="cm")
    assert turned["cm_eer"] == pytest.approx(1 - found["cm_eer"], abs=0.01)
    assert "the sign may be reversed: --negate cm" in said
    equal = "".join(f"{row.rpartition(' ')[0]} 1.5\n" for row in cm_file.read_text().splitlines())
    same, said = evaluated(write(tmp_path / "equal.txt", equal))
    assert same["cm_eer"] == 1  # by the convention; with the other sign too
    assert "--negate" not in said
    assert "1 distinct value on" in said
    text = "".join(
        f"{u} {k} {np.exp(float(s))}\n"
        for u, k, s in (row.split() for row in cm_file.read_text().splitlines())
    )
    ratios, said = evaluated(write(tmp_path / "lr.txt", text))
    assert "it may be a likelihood ratio: --log cm" in said
    again, _ = evaluated(tmp_path / "lr.txt", log="cm")
    assert again["cm_cllr"] == pytest.approx(found["cm_cllr"])
    assert ratios["cm_eer"] == found["cm_eer"]
    with pytest.raises(InputError, match=r"cm.txt, line \d+: cm_score is -.*--log cm is for lik"):
        evaluated(cm_file, log="cm")
    with pytest.raises(InputError, match="--negate asv: the file has cm_score"):
        evaluated(cm_file, negate="asv")


def test_base_of_logarithms(cm_file: Path, tmp_path: Path) -> None:
    found, _ = evaluated(cm_file)
    text = "".join(
        f"{u} {k} {float(s) / np.log(10)}\n"
        for u, k, s in (row.split() for row in cm_file.read_text().splitlines())
    )
    again, said = evaluated(write(tmp_path / "base10.txt", text), log="cm=10")
    assert again["cm_cllr"] == pytest.approx(found["cm_cllr"])
    assert "cm_score is turned from base 10 to e" in said
    for wrong in ("cm=e", "cm=1", "cm=", "x=10"):
        with pytest.raises(InputError, match=f"--log {wrong[0]}"):
            reading(log=wrong)


def test_every_command_is_told_what_files_are(tmp_path: Path) -> None:
    """``fuse``, ``decide`` and ``convert`` read as ``evaluate`` does."""
    scores = toy_scores(240)
    plain = write_scores(tmp_path / "plain.csv", scores)
    codes = np.array([2, 0, 1])[scores.label]
    rows = zip(scores.speaker, scores.utterance, -scores.asv, np.exp(scores.cm), codes, strict=True)
    text = "".join(f"{s};{u}.wav {a} {c} {k}\n".replace(";", " dir/") for s, u, a, c, k in rows)
    odd = str(write(tmp_path / "odd.txt", text))
    said = {"columns": "spk utt asv cm label", "labels": "target=0,nontarget=1,spoof=2",
            "ids": "name", "negate": "asv", "log": "cm"}  # fmt: skip
    fused = [
        evaluation.fuse(dev=f, eval=f, systems="L3", out=str(tmp_path / f"out{n}"), **how)
        for n, (f, how) in enumerate([(str(plain), {}), (odd, said)])
    ]
    a, b = (one.metrics["L3"]["sets"]["eval"]["values"]["sasv_eer"] for one in fused)
    assert a == pytest.approx(b)
    decided = [
        evaluation.decide(f, str(tmp_path / "out0"), out=str(tmp_path / f"d{n}.csv"), **how)
        for n, (f, how) in enumerate([(str(plain), {}), (odd, said)])
    ]
    assert decided[0].frame["decision"].equals(decided[1].frame["decision"])
    assert decided[1].frame["utterance"].to_list() == scores.utterance.tolist()
    convert(odd, "csv", str(tmp_path / "again.csv"), **said)
    again = read_table(tmp_path / "again.csv")
    np.testing.assert_allclose(again.numbers("cm_score"), scores.cm, rtol=1e-9)
    assert again.labels().tolist() == scores.label.tolist()


def test_ties_are_counted(cm_file: Path, tmp_path: Path) -> None:
    text = "".join(
        f"{u} {k} {round(float(s) / 4)}\n"
        for u, k, s in (row.split() for row in cm_file.read_text().splitlines())
    )
    found, said = evaluated(write(tmp_path / "few.txt", text))
    low, high = said.split("EER lies between ")[1].split(" %")[0].split(" and ")
    assert float(low) < 100 * found["cm_eer"] <= float(high) + 0.005


def test_rates_and_points(tmp_path: Path) -> None:
    assert read_rates("asvspoof5") == ASVSPOOF5_RATES
    write(tmp_path / "r.json", '{"miss": 0.1, "fa_nontarget": 0.2, "fa_spoof": 0.3}')
    assert read_rates(str(tmp_path / "r.json")) == ASVRates(0.1, 0.2, 0.3)
    assert read_points("sre16") == ((0.01, 1.0, 1.0), (0.005, 1.0, 1.0))
    for text in ("0.1", "x", "2,1,1"):
        with pytest.raises(InputError, match="--asv-rates"):
            read_rates(text)
        with pytest.raises(InputError, match="--dcf"):
            read_points(text)


def test_keys_together_bring_the_codec(tmp_path: Path) -> None:
    trials = "".join(f"S{n % 3} U{n} M {'A17' if n % 2 else 'bonafide'} "
                     f"{'spoof' if n % 2 else ('target', 'nontarget')[n % 4 // 2]}\n"
                     for n in range(12))  # fmt: skip
    track1 = "".join(f"R{n % 5} U{n} M {'C05' if n % 3 else '-'} 2 - - "
                     f"{'A17 spoof' if n % 2 else 'bonafide bonafide'} -\n"
                     for n in range(12))  # fmt: skip
    keys = write(tmp_path / "t.tsv", trials), write(tmp_path / "e.tsv", track1)
    key = read_key(",".join(map(str, keys)))
    assert key is not None
    assert key.frame["codec"].to_list() == ["C05" if n % 3 else "-" for n in range(12)]
    assert key.frame["speaker"].to_list() == [f"S{n % 3}" for n in range(12)]
    write(keys[1], track1.replace("U7 ", "V7 "))
    with pytest.raises(InputError, match=r"1 of 12 trials of .*t.tsv are not in it"):
        read_key(",".join(map(str, keys)))


@pytest.mark.parametrize("format", ["sasv2022", "wildspoof", "asvspoof5-t2", "asvspoof5-t1"])
def test_submissions_are_checked_against_the_trial_list(format: str, tmp_path: Path) -> None:
    write_scores(tmp_path / "s.csv", toy_scores(60))
    table = read_table(tmp_path / "s.csv").frame
    rows = table.select("speaker", "utterance", "attack", "label").rows()[::-1]
    label = format == "sasv2022"
    lines = [" ".join(row if label else row[:2]) for row in rows]
    key = write(tmp_path / "trials.txt", "\n".join(lines) + "\n")
    out = tmp_path / "out.txt"
    convert(str(tmp_path / "s.csv"), format, str(out), key=str(key), column="cm_score")
    again = read_table(out, format)
    assert again.frame["utterance"].to_list() == [row[1] for row in rows]
    write(key, key.read_text() + ("S0 V1 A07 spoof\n" if label else "S0 V1\n"))
    with pytest.raises(InputError, match=r"no score for 1 of 61 trials"):
        convert(str(tmp_path / "s.csv"), format, str(tmp_path / "o2"), key=str(key))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("".join(f"u{n} {n / 7:.4f} {n / 3:.4f}\n" for n in range(9)), "could be the score"),
        ("".join(f"m{n} u{n} {n % 2}\n" for n in range(9)), r"3 '0' \(label\?\)"),
        ("".join(f"x{n} {n / 7:.4f} {n % 2}\n" for n in range(9)), "--columns 'utterance,score,l"),
        ("".join(f"{'ab'[n % 2]} u{n} {n / 7:.4f}\n" for n in range(20)), "cannot tell"),
        ("".join(f"m{n} u{n} a {n / 7:.4f}\n" for n in range(9)), "nearest are .*bob4"),
    ],
)
def test_contradictions_are_asked_about(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        read_table(write(tmp_path / "s.txt", text))


def test_speakers_are_no_attacks(tmp_path: Path) -> None:
    rows = (f"U{n} S{n % 4} {('bonafide', 'spoof')[n % 3 > 1]} {n / 7:.4f}\n" for n in range(24))
    table = read_table(write(tmp_path / "s.txt", "".join(rows)))
    assert table.frame.columns == ["utterance", "column2", "label", "cm_score"]


def test_columns_and_labels_describe_any_text(tmp_path: Path) -> None:
    rows = [(f"u{n}", n % 2, n / 7) for n in range(8)]
    for sign in (" ", "\t", ",", "  "):
        for head in ("", sign.join(["a", "b", "c"]) + "\n"):
            text = head + "".join(f"{u}{sign}{k}{sign}{s}\n" for u, k, s in rows)
            path = str(write(tmp_path / "s.txt", text))
            how = reading(columns="utt,label,score", labels="bona=1,spoof=0")
            table = read_source(path, how=how)
            assert table.frame["label"].to_list() == ["spoof", "bonafide"] * 4
            assert table.frame["cm_score"].to_list() == [row[2] for row in rows]
    with pytest.raises(InputError, match=r"3 columns .* where --columns names 2"):
        read_source(path, how=reading(columns="utt score"))
    for wrong in ("bona", "x=1", "bona=1,spoof=1"):
        with pytest.raises(InputError, match="--labels"):
            reading(labels=wrong)


def test_macro_is_the_mean_over_parts(tmp_path: Path) -> None:
    files = []
    for seed in (0, 1, 2):
        scores = toy_scores(90, seed)
        scores.extra["sasv_score"] = scores.asv + scores.cm / 10 + seed
        scores.extra["part"] = np.full(90, f"p{seed}")
        files.append(write_scores(tmp_path / f"p{seed}.csv", scores))
    alone = [evaluated(file)[0]["min_a_dcf"] for file in files]
    found, _ = evaluated(*files, macro=True)
    assert found["macro_a_dcf"] == pytest.approx(np.mean(alone))
    text = [file.read_text().splitlines() for file in files]
    whole = write(tmp_path / "all.csv", "\n".join([text[0][0], *(r for t in text for r in t[1:])]))
    again, _ = evaluated(whole, macro=True, by="part", ids="none")
    assert again["macro_a_dcf"] == found["macro_a_dcf"] < found["common_a_dcf"]
    assert again["common_a_dcf"] == pytest.approx(found["common_a_dcf"])
    scores = [(read_table(f).numbers("sasv_score"), read_table(f).labels()) for f in files]
    grid = np.unique(np.concatenate([s for s, _ in scores]))
    costs = np.mean([[a_dcf(s, c, threshold=t).actual for t in grid] for s, c in scores], axis=0)
    assert found["common_a_dcf"] == pytest.approx(costs.min())
    by_attack, _ = evaluated(files[0], macro=True, by="attack")
    table = read_table(files[0])
    parts = [table.frame["attack"].is_in(["-", one]).to_numpy() for one in ("A07", "A08")]
    sasv, labels = table.numbers("sasv_score"), table.labels()
    assert by_attack["macro_a_dcf"] == pytest.approx(
        np.mean([a_dcf(sasv[rows], labels[rows]).min for rows in parts])
    )
    with pytest.raises(InputError, match="--macro needs the parts"):
        evaluated(files[0], macro=True)


def _balanced_cost(
    score: np.ndarray, label: np.ndarray, codec: np.ndarray, counts: np.ndarray
) -> float:
    """Actual a-DCF whose rates are means over codecs, of drawn trials."""
    model, rates = PRESETS["a-dcf1"], []
    accepted = score > -model.log_beta
    for code, wrong in ((1, ~accepted), (2, accepted), (0, accepted)):
        each = []
        for name in np.unique(codec):
            cell = (label == code) & (codec == name)
            if counts[cell].sum():
                each.append((counts * wrong)[cell].sum() / counts[cell].sum())
        rates.append(np.mean(each))
    return float(np.dot(model.weights, rates) / model.default_cost)


def test_every_condition_can_count_the_same(tmp_path: Path) -> None:
    scores = toy_scores(300)
    scores.extra["sasv_score"] = scores.asv + scores.cm / 10
    codec = scores.extra["codec"] = np.full(300, "none")
    for code in (0, 1, 2):
        codec[np.flatnonzero(scores.label == code)[:20]] = "C01"  # the other 80 are not coded
    file = write_scores(tmp_path / "s.csv", scores)
    found, said = evaluated(file, weights="codec")
    assert "each codec counts the same in each class" in said
    again = np.repeat(np.arange(300), np.where(codec == "C01", 4, 1))
    own = {"asv": scores.asv, "cm": scores.cm, "sasv": scores.extra["sasv_score"]}
    columns = {role: column[again] for role, column in own.items()}
    wanted = explained_metrics(columns, scores.label[again]).values
    for name in ("sasv_eer", "cllr", "cllr_min", "min_a_dcf", "asv_eer", "cm_cllr_min", "t_eer"):
        assert found[name] == pytest.approx(wanted[name], abs=1e-8, nan_ok=True), name
    assert found["cllr"] != pytest.approx(evaluated(file)[0]["cllr"], abs=1e-6)
    speakers = np.array([f"s{n // 3 % 12}" for n in range(300)])
    file = write_scores(tmp_path / "t.csv", replace(scores, speaker=speakers))
    out = str(tmp_path / "out.json"), str(tmp_path / "out.csv")
    result = evaluation.evaluate(
        str(file), weights="codec", ci="speaker", replicates=60, json=out[0], csv=out[1]
    )
    drawn = result.draws.systems["t"]["act_a_dcf"].replicates
    wanted_ones = [
        _balanced_cost(own["sasv"], scores.label, codec, counts)
        for counts in replicate_weights(300, speakers, 60)
    ]
    np.testing.assert_allclose(drawn, wanted_ones, rtol=1e-8)
    entry = json.loads(Path(out[0]).read_text())["systems"]["t"]["sets"]["trials"]
    assert entry["weights"] == "codec"
    ends = result.interval("t", "act_a_dcf")
    assert ends is not None
    assert entry["intervals"]["act_a_dcf"]["low"] == ends.low
    rows = pl.read_csv(out[1]).filter(pl.col("metric") == "act_a_dcf")
    assert rows.select("group", "low").rows() == [("weights=codec", ends.low)]
    with pytest.raises(InputError, match=r"no column 'room'.*--weights needs it"):
        evaluated(file, weights="room")


@pytest.mark.parametrize("apart", [-9, 3, 9])
def test_fractions_that_add_up_to_more_than_all_have_thresholds(apart: float) -> None:
    """Balanced weights are no whole numbers; whole ones in the same proportions give the same."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        label = np.append([0, 1, 2], rng.integers(0, 3, 57)).astype(np.int8)
        asv = rng.normal(size=60) + apart * (label == 1)
        columns = {"asv": asv, "cm": rng.normal(size=60) + apart * (label > 0)}
        columns["sasv"] = columns["asv"] + columns["cm"]
        drawn = np.append([1, 1, 1], rng.integers(0, 4, 57))
        balance = Balance.of(rng.choice(["a", "b", "c"], 60, p=[0.6, 0.3, 0.1]), label)
        found = explained_metrics(columns, label, weights=balance.weights(drawn)).values
        counts = np.bincount(balance.cells, drawn).astype(int)[balance.cells]
        many = 1_000 * math.lcm(*counts[counts > 0].tolist())  # an EER is to a trial
        whole = drawn * (many // np.maximum(counts, 1))
        wanted = explained_metrics(columns, label, weights=whole).values
        for name in ("asv_threshold", "cm_threshold", "sasv_threshold", "sasv_eer", "min_a_dcf"):
            assert found[name] == pytest.approx(wanted[name], abs=1e-6), (seed, name)


def test_det_curves_of_two_classes(cm_file: Path, asv_file: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    out = tmp_path / "figures"
    found, _ = evaluated(f"asv={asv_file},cm={cm_file}", figures=str(out))
    assert sorted(path.suffix for path in out.iterdir()) == [".csv", ".pdf", ".png", ".svg"]
    points = pl.read_csv(out / "det.csv")
    assert set(points["task"]) == {"asv", "cm"}
    cm = points.filter(pl.col("task") == "cm")
    near = cm.with_columns((pl.col("miss") - pl.col("false_acceptance")).abs().alias("gap"))
    row = near.sort("gap").row(0, named=True)
    assert (row["miss"] + row["false_acceptance"]) / 2 == pytest.approx(found["cm_eer"], abs=0.01)
    (out / "det.png").write_bytes(b"something else")
    with pytest.raises(InputError, match=r"det.png holds something else"):
        evaluated(cm_file, figures=str(out))
