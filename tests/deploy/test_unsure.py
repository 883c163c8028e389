"""The third verdict: what dev did not measure is not accepted, and deciding nothing has a price."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.decisions import PRESETS, CostModel, empirical_cost
from lightning_sasv.deploy import Scorer, choose_rule, load, write_bundle
from lightning_sasv.deploy.card_measured import (
    REPLICATES,
    WIDTH,
    Attack,
    attack_bars,
    measured_on,
)
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.fusion.conformal import Measured, measure
from lightning_sasv.fusion.densities import fit_student_t
from lightning_sasv.metrics.bootstrap import ClusterDraws
from lightning_sasv.metrics.intervals import percentile_ends
from lightning_sasv.trials import Scores, TrialClass
from tests.deploy.conftest import draw

COSTS = PRESETS["a-dcf1"]


def brute_p(dev: Scores, x: tuple[float, float]) -> list[float]:
    """p-values of one pair by the definition."""
    found = []
    for code in TrialClass:
        own = np.stack([dev.asv, dev.cm])[:, dev.label == code]
        mean, scatter = fit_student_t(own, code, {"dof": 4.0})
        inverse = np.linalg.inv(scatter)
        mine = (np.array(x) - mean) @ inverse @ (np.array(x) - mean)
        theirs = [(one - mean) @ inverse @ (one - mean) for one in own.T]
        count = sum(one >= mine for one in theirs)
        found.append((1 + count) / (own.shape[1] + 1))
    return found


@pytest.fixture(scope="module")
def measured(dev: Scores) -> Measured:
    return measure(np.stack([dev.asv, dev.cm]), dev.label)


def test_p_values_are_those_of_the_definition(dev: Scores, measured: Measured) -> None:
    for x in [(0.7, 6.0), (0.3, 0.0), (1.2, -9.0), (0.45, 20.0), (-1.0, -30.0)]:
        assert measured.p_values(x) == pytest.approx(brute_p(dev, x), abs=1e-12)


@given(st.sampled_from([1, 4, 99, 150, 999]), st.floats(0.0005, 0.6))
def test_outside_is_every_p_at_most_the_level(count: int, level: float) -> None:
    random, labels = np.random.default_rng(count), np.repeat([0, 1, 2], count + 1)
    scores = random.normal(size=(2, len(labels))).round(1)  # with ties
    found = measure(scores, labels)
    trials = np.concatenate([3 * random.normal(size=(2, 200)), scores], axis=1)
    expected = np.max(found.p_values(trials), axis=0) <= level
    assert np.array_equal(found.outside(trials, level), expected)
    for row in range(0, trials.shape[1], 37):
        one = tuple(trials[:, row].tolist())
        assert found.outside(one, level) is bool(expected[row])
    assert found.least_level == 1 / (count + 2)


def test_a_level_holds_for_trials_like_those_of_dev() -> None:
    dev, fresh = draw(5, (3000, 3000, 3000)), draw(6, (4000, 4000, 4000))
    found = measure(np.stack([dev.asv, dev.cm]), dev.label)
    p = np.array(found.p_values(np.stack([fresh.asv, fresh.cm])))
    for code in TrialClass:
        share = (p[code][fresh.label == code] <= 0.05).mean()
        assert 0.035 < share < 0.065


def test_only_accepts_become_unsure_and_one_trial_is_as_many(
    systems: dict[str, FusionSystem], dev: Scores, far: Scores, tmp_path: Path
) -> None:
    system = systems["L3t"]
    made = write_bundle(tmp_path / "b", system, dev, COSTS, name="L3t")
    scorer, plain = load(made), Scorer(system, choose_rule(system, dev, COSTS), COSTS, {})
    assert scorer.level == 0.01
    found, before = scorer(far.asv, far.cm), plain(far.asv, far.cm)
    assert np.array_equal(found.unsure, before.accepted & found.outside)
    assert np.array_equal(found.accepted, before.accepted & ~found.outside)
    assert found.unsure.any()
    assert (found.outside & ~before.accepted).any()
    assert set(found.decision) == {"accept", "reject", "unsure"}
    for row in range(60):
        one = scorer(float(far.asv[row]), float(far.cm[row]))
        assert (one.decision, one.reason) == (found.decision[row], found.reason[row])
        assert one.outside == found.outside[row]
    said = dict(zip(found.decision.tolist(), found.reason.tolist(), strict=True))
    assert said["unsure"].startswith("unsure: not measured here; otherwise accepted: target")
    noted = found.reason[found.outside & ~found.unsure]
    assert all(one.startswith("rejected") and one.endswith(" (not measured here)") for one in noted)
    assert before.outside is None
    content = json.loads((made / "bundle.json").read_text())["unsure"]
    assert content["level"] == 0.01
    assert "in about 1 % of trials of speakers like those of dev" in content["meaning"]
    here = scorer(dev.asv, dev.cm)
    for name, flags in (("unsure", here.unsure), ("outside", here.outside)):
        shares = content["shares"]["dev"][name]
        assert shares == {str(c): flags[dev.label == c].mean() for c in TrialClass}


def test_levels_for_which_dev_is_too_small(
    systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path
) -> None:
    small = draw(3, (120, 98, 120))
    without = load(write_bundle(tmp_path / "a", systems["L3"], small, COSTS, name="L3"))
    assert without.measured is None
    why = without.metadata["unsure"]["why"]
    assert "needs 99 dev trials of each class, and there are 98 of target" in why
    assert "the least possible level is 0.0101" in why
    with pytest.raises(InputError, match=r"--level 0\.01: .*least possible level is 0\.0101"):
        write_bundle(tmp_path / "b", systems["L3"], small, COSTS, name="L3", level=0.01)
    made = write_bundle(tmp_path / "c", systems["L3"], small, COSTS, name="L3", level=1 / 99)
    assert load(made).level == 1 / 99
    enough = draw(3, (120, 99, 120))
    assert load(write_bundle(tmp_path / "d", systems["L3"], enough, COSTS, name="L3")).level == 0.01
    for wrong in (-0.1, 1.0, math.nan):
        with pytest.raises(InputError, match="--level must lie in"):
            write_bundle(tmp_path / "e", systems["L3"], dev, COSTS, name="L3", level=wrong)


def test_a_price_of_deciding_nothing(
    systems: dict[str, FusionSystem], dev: Scores, far: Scores, tmp_path: Path
) -> None:
    costs = CostModel(1.0, 10.0, 20.0, 0.9, 0.05, 0.05, c_abstain=0.2)
    scorer = load(write_bundle(tmp_path / "b", systems["M3d"], dev, costs, name="M3d", level=0))
    assert scorer.costs == costs
    found = scorer(far.asv, far.cm)
    risks = np.stack(
        [
            10 * 0.05 * np.exp(-found.asv_llr) + 20 * 0.05 * np.exp(-found.cm_llr),
            np.full(len(far), 0.9),
            0.2 * (0.9 + 0.05 * np.exp(-found.asv_llr) + 0.05 * np.exp(-found.cm_llr)),
        ]
    )
    assert np.array_equal(found.unsure, risks.argmin(axis=0) == 2)
    assert np.array_equal(found.accepted, risks.argmin(axis=0) == 0)
    assert found.unsure.any()
    row = int(np.flatnonzero(found.unsure)[0])
    one = scorer(float(far.asv[row]), float(far.cm[row]))
    assert one.decision == "unsure"
    assert one.reason.startswith("unsure: deciding nothing costs least; otherwise ")
    assert one.reason == found.reason[row]
    cost = empirical_cost(found.accepted, far.label, costs, found.unsure)
    parts = [0.9, 0.05, 0.05]
    paid = 0.2 * sum(p * u for p, u in zip(parts, cost.unsure, strict=True))
    errors = 0.9 * cost.p_miss + 0.5 * cost.p_fa_nontarget + 1.0 * cost.p_fa_spoof
    assert cost.cost == pytest.approx(errors + paid)


def test_intervals_of_the_card_draw_what_is_paid_for_unsure_too(
    systems: dict[str, FusionSystem],
) -> None:
    """Every measure of a replicate is that of the trials of the speakers it drew."""
    trials = draw(8, (400, 400, 400))
    trials = replace(trials, speaker=np.array([f"s{k * k % 31}" for k in range(1200)]))
    costs = replace(COSTS, c_abstain=0.2)
    scorer = Scorer(systems["M3d"], choose_rule(systems["M3d"], trials, costs), costs, {})
    verdict, labels = scorer.of(trials), trials.label
    speakers, groups = np.unique(trials.speaker, return_inverse=True)
    drawn = []
    for times in np.asarray(ClusterDraws(trials.speaker, REPLICATES).weights):
        rows = np.repeat(np.arange(1200), times.astype(int)[groups])
        cost = empirical_cost(verdict.accepted[rows], labels[rows], costs, verdict.unsure[rows])
        drawn.append([cost.normalised, cost.p_miss, cost.unsure[1]])
    assert len(speakers) > 10
    table = {name: cells for name, *cells in measured_on(scorer, {"dev": trials})}
    ends = [percentile_ends(one) for one in np.array(drawn).T]
    names = ("policy a-DCF", "targets rejected", "unsure nontargets")
    for name, (low, high), factor in zip(names, ends, (1, 100, 100), strict=True):
        words = table[name][1].removesuffix(" %").split(" to ")
        assert [float(one) for one in words] == pytest.approx(
            [factor * low, factor * high], abs=0.0051 if factor > 1 else 5.1e-5
        ), name
    assert table["unsure nontargets"][0] != "0.00 %"


@pytest.mark.parametrize("name", ["mean", "target", "spoof"])
def test_a_damaged_measure_is_refused(name: str, measured: Measured) -> None:
    arrays = measured.arrays()
    assert Measured.of_arrays(arrays, 2).least_level == measured.least_level
    for wrong in (arrays[name][::-1] * np.nan, arrays[name][:0], arrays[name].astype(np.float32)):
        with pytest.raises(InputError):
            Measured.of_arrays({**arrays, name: wrong}, 2)
    with pytest.raises(InputError, match="missing or unknown"):
        Measured.of_arrays({k: v for k, v in arrays.items() if k != name}, 2)
    with pytest.raises(InputError, match="not of 3 columns"):
        Measured.of_arrays(arrays, 3)
    with pytest.raises(InputError, match="positive definite"):
        Measured.of_arrays({**arrays, "scatter": -arrays["scatter"]}, 2)


def test_what_stands_beside_the_longest_bar_of_an_attack_fits_in() -> None:
    page = attack_bars([Attack("A01", 9, 0.9, 0.1, None), Attack("A02", 9, 0.0, 0.0, None)])
    words = re.findall(r'<text x="([\d.]+)" y="\d+" font-size="10">([^<]*)<', page)
    assert len(words) == 2
    assert all(float(x) + 5.6 * len(text) <= WIDTH for x, text in words)
