"""Drift without labels: priors, share outside, distances, and the verdict in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy import Scorer, choose_rule, write_bundle
from lightning_sasv.deploy.dev import Reference, numbered
from lightning_sasv.deploy.drifting import (
    PRIORS,
    SCORES,
    TOO_LITTLE,
    TRUSTED,
    Drift,
    Estimate,
    Shift,
    judge,
    measure,
    outside,
)
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem, fit_systems
from lightning_sasv.metrics.drift import (
    Speakers,
    class_ratios,
    class_weights,
    compare_speakers,
    estimate_priors,
    ks_distance,
)
from lightning_sasv.scores import write_scores
from lightning_sasv.trials import Scores
from tests.deploy.conftest import draw
from tests.helpers import failure_of

COSTS = PRESETS["a-dcf1"]
MADE = {  # priors of spoof, target and nontarget in per cent: estimates by L3t, M3 and M3d
    (5, 90, 5): ((4.8, 89.4, 5.9), (4.1, 90.1, 5.8), (4.6, 89.6, 5.8)),
    (5, 94.05, 0.95): ((4.8, 93.8, 1.5), (4.1, 94.1, 1.8), (4.6, 93.6, 1.8)),
    (100 / 3, 100 / 3, 100 / 3): ((32.5, 32.5, 35.1), (30.6, 34.1, 35.3), (31.2, 33.3, 35.5)),
    (62, 5, 33): ((60.8, 4.6, 34.7), (58.8, 5.2, 36.0), (58.8, 4.9, 36.3)),
    (0, 90, 10): ((0.0, 89.0, 11.0), (0.0, 89.5, 10.5), (0.0, 89.5, 10.5)),
    (1, 98, 1): ((0.9, 97.5, 1.5), (0.7, 97.6, 1.8), (0.9, 97.4, 1.7)),
}


@pytest.fixture(scope="module")
def real_systems(real: tuple[Scores, Scores]) -> dict[str, FusionSystem]:
    return fit_systems(real[0].asv, real[0].cm, real[0].label, ["L3t", "M3", "M3d"])


def scorer_of(system: FusionSystem, dev: Scores) -> Scorer:
    return Scorer(system, choose_rule(system, dev, COSTS), COSTS, {"system": "L3t"})


@pytest.mark.parametrize(("number", "name"), [(0, "L3t"), (1, "M3"), (2, "M3d")])
def test_priors_of_made_shifts_on_real_scores(
    number: int, name: str, real: tuple[Scores, Scores], real_systems: dict[str, FusionSystem]
) -> None:
    new = real[1]
    fused = scorer_of(real_systems[name], real[0]).system(new.asv, new.cm)
    ratios = class_ratios(fused.asv_llr, fused.cm_llr)
    for true, known in MADE.items():
        weights = class_weights(new.label, np.array(true) / 100)
        found = 100 * estimate_priors(ratios, weights)
        assert found == pytest.approx(known[number], abs=0.11), true
        assert found.sum() == pytest.approx(100)


def test_real_drift_is_seen_and_known_values_come_out(
    real: tuple[Scores, Scores], real_systems: dict[str, FusionSystem]
) -> None:
    dev, new = real
    scorer, rows = scorer_of(real_systems["L3t"], dev), np.stack([new.asv, new.cm])
    assert new.speaker is not None
    reference = Reference.of(scorer.system, dev)
    found = measure(scorer, reference, rows, numbered(new.speaker))
    assert (found.trials, found.speakers) == (102_579, 48)
    distances = [one.distance for one in found.scores.values()]
    assert distances == pytest.approx([0.178, 0.229], abs=5e-4)
    assert [one.adjusted for one in found.scores.values()] == [0.002, 0.002]
    halves = [one.dev_halves for one in found.scores.values()]
    assert halves == pytest.approx([0.152, 0.082], abs=0.015)
    assert found.verdict == SCORES
    far = outside(scorer, reference, rows)
    assert far is not None
    shares = [100 * far[new.label == code].mean() for code in range(3)]
    assert shares == pytest.approx([10.7, 0.22, 0.25], abs=0.05)
    assert found.outside is not None
    assert found.outside.low < far.mean() < found.outside.high


@pytest.mark.parametrize(
    ("number", "codes", "distance", "least", "most"),
    [  # dev against eval by class: D, and where p by permuting the 58 speakers lies
        (0, [1], 0.024, 0.9, 1.0),
        (1, [1], 0.083, 0.3, 0.5),
        (0, [2], 0.091, 0.13, 0.3),
        (1, [1, 2], 0.070, 0.005, 0.04),
        (0, [0], 0.272, 0.001, 0.002),
        (1, [0], 0.383, 0.001, 0.002),
    ],
)
def test_classes_of_the_real_scores_by_speaker(
    number: int,
    codes: list[int],
    distance: float,
    least: float,
    most: float,
    real: tuple[Scores, Scores],
) -> None:
    own = [np.isin(one.label, codes) for one in real]
    scores = tuple((one.asv, one.cm)[number][rows] for one, rows in zip(real, own, strict=True))
    groups = tuple(
        np.unique(numbered(one.speaker)[rows], return_inverse=True)[1]  # type: ignore[arg-type]
        for one, rows in zip(real, own, strict=True)
    )
    speakers = np.concatenate([groups[0], groups[1] + 10])
    both = Speakers.of(np.concatenate(scores), speakers, new=48)
    assert len(both.histograms) == 58
    assert both.distance(np.arange(58)[None] >= 10)[0] == pytest.approx(distance, abs=5.1e-4)
    weighted = compare_speakers(scores, groups, np.ones(len(scores[0])))  # type: ignore[arg-type]
    for one in (both, weighted):
        assert least <= one.p_value(999) <= most


@pytest.mark.parametrize(
    ("attack", "share"), [("A10", 2.1), ("A17", 1.0), ("A18", 1.1), ("A11", 0.25), ("A14", 0.2)]
)
def test_few_spoofs_of_a_new_attack_show_in_the_share_outside(
    attack: str, share: float, real: tuple[Scores, Scores], real_systems: dict[str, FusionSystem]
) -> None:
    """Of 5 % spoofs of one attack among bona fide trials at 90 to 5."""
    dev, new = real
    assert new.attack is not None
    scorer, rows = scorer_of(real_systems["L3t"], dev), np.stack([new.asv, new.cm])
    far = outside(scorer, Reference.of(scorer.system, dev), rows)
    assert far is not None
    parts = [far[new.label == 1], far[new.label == 2], far[new.attack == attack]]
    found = sum(p * one.mean() for p, one in zip((0.9, 0.05, 0.05), parts, strict=True))
    assert 100 * found == pytest.approx(share, abs=0.06)


def test_a_change_of_priors_alone_is_no_drift_of_scores(
    real: tuple[Scores, Scores], real_systems: dict[str, FusionSystem]
) -> None:
    """Half of the speakers as dev, the others at 5/90/5: far apart raw, not at their priors."""
    scores, rng = real[1], np.random.default_rng(0)
    assert scores.speaker is not None
    speakers = numbered(scores.speaker)
    dev = np.flatnonzero(speakers % 2 == 0)
    some = [
        rng.choice(np.flatnonzero((speakers % 2 == 1) & (scores.label == code)), count, False)
        for code, count in enumerate((110, 1980, 110))
    ]
    new, rows = np.concatenate(some), np.stack([scores.asv, scores.cm])
    reference = Reference(rows[:, dev], scores.label[dev], speakers[dev] // 2)
    flat = np.full(dev.size, 1 / dev.size)
    assert min(ks_distance(row[new], row[dev], flat) for row in rows) > 0.4
    system = scorer_of(real_systems["L3t"], real[0])
    at_costs = measure(system, reference, rows[:, new], speakers[new] // 2)
    assert at_costs.verdict == TRUSTED, at_costs.reasons
    assert all((one.adjusted or 0) > 0.05 for one in at_costs.scores.values())
    system.costs = PRESETS["equal"]
    other = measure(system, reference, rows[:, new], speakers[new] // 2)
    assert other.verdict == PRIORS
    share = {name: one.value for name, one in other.priors.items()}
    expected = -np.log(share["target"] / (share["nontarget"] + share["spoof"]))
    assert other.new_threshold == pytest.approx(expected)
    assert f"threshold {expected:.4g}" in other.reasons[0]


def test_permuting_speakers_does_not_cry_wolf() -> None:
    """Speakers who differ, nothing else: a test of trials would reject nearly always."""
    from scipy.stats import ks_2samp

    rng, wolves, by_trial = np.random.default_rng(1), 0, 0
    for seed in range(60):
        scores = rng.normal(size=(30, 1)) + rng.normal(size=(30, 40))
        groups = np.repeat(np.arange(30), 40)
        weights = np.full(800, 1 / 800)
        parts = scores.ravel()[:800], scores.ravel()[800:]
        both = compare_speakers(parts, (groups[:800], groups[800:] - 20), weights)
        wolves += both.p_value(99, seed) <= 0.05
        by_trial += ks_2samp(*parts).pvalue <= 0.05
    assert wolves <= 8
    assert by_trial >= 40


def test_a_moved_speaker_set_is_found_and_distances_are_those_of_the_scores() -> None:
    rng = np.random.default_rng(2)
    dev, new = rng.normal(size=1000), rng.normal(1.5, size=500)
    groups = np.arange(1000) // 50, np.arange(500) // 50
    both = compare_speakers((dev, new), groups, np.full(1000, 1e-3))
    assert both.p_value(199) == 1 / 200
    mine = both.distance(np.arange(30)[None] >= 20)[0]
    assert mine == pytest.approx(ks_distance(new, dev, np.full(1000, 1e-3)), abs=0.01)
    assert Speakers.of(dev, groups[0]).splits(10, 99, 0).max() < mine


def found_with(**changes: object) -> Drift:
    """Values with which everything is as on dev, but for some."""
    costs = {"target": 0.9, "nontarget": 0.05, "spoof": 0.05}
    priors = {name: Estimate(share, share - 0.02, share + 0.02) for name, share in costs.items()}
    quiet = {name: Shift(0.05, 0.4, 0.8, 0.1) for name in ("asv", "cm")}
    far = Estimate(0.005, 0.001, 0.02)
    found = Drift("", [], 1000, 20, priors, costs, far, 0.01, quiet, 0.5, 0.4)
    return replace(found, **changes)  # type: ignore[arg-type]


def shift(**changes: float | None) -> dict[str, Shift]:
    return {**found_with().scores, "cm": replace(Shift(0.05, 0.4, 0.8, 0.1), **changes)}


MOVED = {"target": Estimate(0.84, 0.8, 0.9), "nontarget": Estimate(0.1, 0.05, 0.2)}


@pytest.mark.parametrize(
    ("changes", "verdict", "word"),
    [
        ({}, TRUSTED, "near those of the costs"),
        ({"speakers": 4}, TOO_LITTLE, "4 speakers"),
        ({"trials": 199}, TOO_LITTLE, "199 trials"),
        ({"priors": {**found_with().priors, **MOVED}}, PRIORS, "threshold 0.4 instead of 0.5"),
        ({"scores": shift(distance=0.11)}, SCORES, "KS distance 0.110"),
        ({"scores": shift(adjusted=0.04)}, SCORES, "p = 0.04"),
        ({"outside": Estimate(0.03, 0.012, 0.05)}, SCORES, "outside what dev measured"),
        ({"outside": None}, TRUSTED, "near"),
        ({"speakers": None, "scores": shift(p=None, adjusted=None)}, TRUSTED, "cries wolf"),
    ],
)
def test_the_verdict_in_words(changes: dict[str, object], verdict: str, word: str) -> None:
    found, reasons = judge(found_with(**changes))
    assert found == verdict
    assert word in " ".join(reasons)


def test_the_command(
    systems: dict[str, FusionSystem], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def of_speakers(seed: int, count: int) -> Scores:
        trials = draw(seed, (40, 700, 40))
        return replace(trials, speaker=np.array([f"s{k % count}" for k in range(780)]))

    dev = of_speakers(0, 12)
    bundle = write_bundle(tmp_path / "b", systems["L3t"], dev, COSTS, name="L3t")
    write_scores(tmp_path / "new.csv", of_speakers(3, 9))
    capsys.readouterr()
    main(["drift", "--bundle", str(bundle), str(tmp_path / "new.csv"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert (found["trials"], found["speakers"], found["verdict"]) == (780, 9, TRUSTED)
    assert found["outside"] is None  # 40 trials of a class cannot say what happens once in 100
    main(["drift", "--bundle", str(bundle), str(tmp_path / "new.csv")])
    shown = capsys.readouterr().out
    assert "780 trials, 9 speakers" in shown
    assert TRUSTED in shown
    assert "dev has too few trials to say" in shown
    unnamed = replace(of_speakers(3, 9), speaker=None, utterance=None)
    write_scores(tmp_path / "unnamed.csv", unnamed)
    main(["drift", "--bundle", str(bundle), str(tmp_path / "unnamed.csv"), "--json"])
    found = json.loads(capsys.readouterr().out)
    assert found["speakers"] is None
    assert {one["p"] for one in found["scores"].values()} == {None}
    assert "cries wolf" in found["reasons"][-1]
    for trials in (1, 3, 19):  # fewer than the blocks that are drawn
        lines = (tmp_path / "unnamed.csv").read_text().splitlines()
        (tmp_path / "short.csv").write_text("\n".join(lines[: trials + 1]) + "\n")
        main(["drift", "--bundle", str(bundle), str(tmp_path / "short.csv"), "--json"])
        assert json.loads(capsys.readouterr().out)["trials"] == trials
    few = write_bundle(tmp_path / "few", systems["B1"], dev, COSTS, name="B1")
    message = failure_of(capsys, "drift", "--bundle", few, tmp_path / "new.csv")
    assert "no log-likelihood ratio" in message
    assert "--bundle DIR is needed" in failure_of(capsys, "drift", tmp_path / "new.csv")
    (bundle / "dev.safetensors").write_bytes(b"no")
    assert "SHA-256" in failure_of(capsys, "drift", "--bundle", bundle, tmp_path / "new.csv")


def test_a_bundle_without_its_dev_scores_says_so() -> None:
    old = Path(__file__).parents[1] / "fitted_format1" / "bundle"
    with pytest.raises(InputError, match="does not hold its dev scores"):
        Reference.load(old, 2)


def test_models_of_one_speaker_are_one_speaker() -> None:
    models = np.array(["a00/id10318/x", "a00/id10318/y", "a00/id10326/x"])
    assert numbered(models).tolist() == [0, 0, 1]
