"""What a scorer answers: the system's own scores, the optimal decision, and a true reason."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.decisions import PRESETS, CostModel, accept, reason_sentences
from lightning_sasv.deploy import Scorer, load, write_bundle
from lightning_sasv.deploy.decision import BAYES, choose_rule, unreachable
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import SYSTEMS, FusionSystem
from lightning_sasv.metrics.functional import a_dcf
from lightning_sasv.trials import FusedScores, Scores

RAW = {"B1", "B1v2", "Post"}


def scorer_of(system: FusionSystem, dev: Scores, costs: CostModel, bounds: bool = True) -> Scorer:
    return Scorer(system, choose_rule(system, dev, costs), costs, {}, bounds=bounds)


@pytest.mark.parametrize("name", SYSTEMS)
def test_without_bounds_the_answer_is_the_system_and_the_optimal_policy(
    name: str, systems: dict[str, FusionSystem], dev: Scores, far: Scores
) -> None:
    costs = PRESETS["asvspoof5"]
    fused = systems[name](far.asv, far.cm)
    verdict = scorer_of(systems[name], dev, costs)(far.asv, far.cm, bounds=False)
    assert verdict.score == pytest.approx(fused.sasv.numpy(), rel=1e-12)
    if name in RAW:
        assert verdict.asv_llr is None
        assert verdict.cm_llr is None
        on_dev = systems[name](dev.asv, dev.cm).sasv
        expected = fused.sasv > a_dcf(on_dev, dev.label, costs).threshold
    else:
        assert verdict.asv_llr == pytest.approx(fused.asv_llr.numpy(), rel=1e-12, abs=1e-12)
        assert verdict.cm_llr == pytest.approx(fused.cm_llr.numpy(), rel=1e-12, abs=1e-12)
        expected = accept(fused, costs)
    assert np.array_equal(verdict.accepted, expected.numpy())
    assert np.array_equal(verdict.accepted, verdict.margin > 0)
    assert 0 < verdict.accepted.mean() < 1


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in RAW])
def test_bounds_limit_the_llrs_and_then_the_score(
    name: str, systems: dict[str, FusionSystem], dev: Scores, far: Scores
) -> None:
    costs = PRESETS["a-dcf1"]
    scorer = scorer_of(systems[name], dev, costs)
    free, held = scorer(far.asv, far.cm, bounds=False), scorer(far.asv, far.cm)
    assert scorer.rule.bounds is not None
    for side, limits in scorer.rule.bounds._asdict().items():
        llr = getattr(held, side)
        assert np.array_equal(llr, np.clip(getattr(free, side), *limits))
        assert (llr != getattr(free, side)).any()
    a, c = held.asv_llr, held.cm_llr
    rho = systems[name].rho
    if rho is not None:
        expected = -np.logaddexp(np.log1p(-rho.item()) - a, np.log(rho.item()) - c)
    else:
        expected = (a + c) / (math.sqrt(6) if systems[name].rule == "linear" else 1)
    assert held.score == pytest.approx(expected)
    assert np.array_equal(held.accepted, accept(FusedScores(a, c, c), costs))


NONLINEAR = {"rule": "nonlinear", "rho": 0.5}
OTHERS: dict[str, dict[str, Any]] = {
    "given": {"calibration": "given", **NONLINEAR},
    "pav": {"calibration": "pav", **NONLINEAR},
    "pav of a density": {"density": "student_t", "calibration": "pav", **NONLINEAR},
    "mixture": {"density": "mixture", "components": 2, **NONLINEAR},
    "tied": {"density": "tied", "rule": "linear"},
    "cascade": {"density": "diagonal", "calibration": "paper", "rule": "cascade"},
    "ranks": {"density": "gaussian", "transform": "rank", **NONLINEAR},
    "standard": {"density": "student_t", "transform": "standard", **NONLINEAR},
    "quadratic": {"calibration": "multinomial", "order": "quadratic", **NONLINEAR},
}


@pytest.mark.parametrize("name", [*SYSTEMS, *OTHERS])
def test_one_trial_and_many_are_equal_to_torch(
    name: str, systems: dict[str, FusionSystem], dev: Scores, far: Scores
) -> None:
    system = systems.get(name)
    if system is None:
        system = FusionSystem(**OTHERS[name]).fit(dev.asv, dev.cm, dev.label)
    scorer, rows = scorer_of(system, dev, PRESETS["equal"]), range(0, len(far), 9)
    many = scorer(far.asv, torch.from_numpy(far.cm), bounds=False)
    ones = [scorer(float(far.asv[row]), float(far.cm[row]), bounds=False) for row in rows]
    by_torch = system(far.asv, far.cm)
    for side, expected in zip(("asv_llr", "cm_llr", "score"), by_torch, strict=True):
        if getattr(many, side) is not None:
            near = pytest.approx(expected.numpy(), rel=1e-12, abs=1e-12)
            assert getattr(many, side) == near
            near = pytest.approx(expected.numpy()[rows], rel=1e-12, abs=1e-12)
            assert np.array([getattr(one, side) for one in ones]) == near
    if many.asv_llr is not None:
        assert np.array_equal(many.accepted, accept(by_torch, scorer.costs).numpy())
    assert [one.decision for one in ones] == many.decision[rows].tolist()
    assert [one.reason for one in ones] == many.reason[rows].tolist()
    assert {type(one.accepted) for one in ones} == {bool}
    assert {type(one.score) for one in ones} == {float}
    single = scorer(far.asv[:1], far.cm[:1])
    assert single.reason.shape == single.score.shape == (1,)


WEIGHTS = st.floats(0.05, 20)
LLR = st.floats(-30, 30)


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(LLR, LLR), min_size=1, max_size=6), WEIGHTS, WEIGHTS, WEIGHTS)
def test_a_reason_says_what_the_costs_say(
    pairs: list[tuple[float, float]], miss: float, nontarget: float, spoof: float
) -> None:
    costs = CostModel(miss, nontarget, spoof)
    asv, cm = np.array(pairs).T
    accepted = accept(FusedScores(asv, cm, cm), costs)
    untouched = np.zeros_like(accepted), np.ones_like(accepted)
    reasons = reason_sentences(accepted, (asv, cm), untouched, costs)
    for (a, c), good, reason in zip(pairs, accepted.tolist(), reasons.tolist(), strict=True):
        risks = {"nontarget": nontarget * math.exp(-a), "spoof": spoof * math.exp(-c)}
        assert reason.startswith("accepted: target, " if good else "rejected: ")
        assert re.search(r"CM LLR \S+ \(bounded\)", reason) or "CM LLR" not in reason
        assert not re.search(r"ASV LLR \S+ \(bounded\)", reason)
        if max(risks.values()) > miss * (1 + 1e-9):
            assert not good
            assert reason.split(": ")[1].split(",")[0] in {
                name for name, risk in risks.items() if risk > max(risks.values()) * (1 - 1e-9)
            }
        elif not good and max(risks.values()) < miss * (1 - 1e-9):
            assert "both risks add up" in reason
        side, value, word, limit = re.search(
            r"(ASV|CM) LLR (\S+)(?: \(bounded\))? (above|below) ([^,; ]+)", reason
        ).groups()  # type: ignore[union-attr]
        assert float(value) == pytest.approx(a if side == "ASV" else c, rel=1e-3)
        weight = nontarget if side == "ASV" else spoof
        assert float(limit) == pytest.approx(math.log(weight / miss), rel=1e-3, abs=1e-4)
        assert (word == "above") == ((a if side == "ASV" else c) > math.log(weight / miss))


def test_a_clear_spoof_and_a_clear_impostor_are_called_so(
    systems: dict[str, FusionSystem], dev: Scores
) -> None:
    scorer = scorer_of(systems["L3c"], dev, PRESETS["asvspoof5"])
    assert scorer(0.45, -8.0).reason.startswith("rejected: spoof, CM LLR -")
    assert scorer(0.1, 6.0).reason.startswith("rejected: nontarget, ASV LLR -")
    assert scorer(0.7, 6.0).reason.startswith("accepted: target, ASV LLR ")
    raw = scorer_of(systems["Post"], dev, PRESETS["a-dcf1"])
    assert raw(0.7, 6.0).reason.startswith("accepted: score 0.66")
    assert raw(0.7, -5.0).reason.startswith("rejected: score 0.0044")


@pytest.mark.parametrize(
    ("asv", "cm", "match"),
    [
        (float("nan"), 1.0, "asv must be finite"),
        (0.5, [1.0, 2.0], "differ in shape"),
        ([0.5, 0.5], [1.0, math.inf], "cm must be finite"),
        ("loud", 1.0, "asv must hold real numbers"),
        ([[0.5]], [[1.0]], "one-dimensional"),
        ([], [], "asv"),
    ],
)
def test_what_is_no_score_is_refused(
    asv: object, cm: object, match: str, systems: dict[str, FusionSystem], dev: Scores
) -> None:
    with pytest.raises(InputError, match=match):
        scorer_of(systems["L3"], dev, PRESETS["equal"])(asv, cm)


def test_costs_that_leave_nothing_to_decide_are_refused(
    systems: dict[str, FusionSystem], dev: Scores
) -> None:
    with pytest.raises(InputError, match="nothing to decide"):
        choose_rule(systems["L3"], dev, CostModel(0.0, 1.0, 1.0))
    with pytest.raises(InputError, match="nothing to decide"):
        choose_rule(systems["B1"], dev, CostModel(1.0, 0.0, 0.0))
    upside_down = Scores(-dev.asv, -dev.cm, dev.label)
    for costs in (CostModel(1.0, 10.0, 10.0), CostModel(10.0, 1.0, 1.0)):
        with pytest.raises(InputError, match="no threshold"):
            choose_rule(systems["B1"], upside_down, costs)


def test_bounds_that_forbid_a_decision_are_noticed(
    systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path
) -> None:
    harsh, mild = CostModel(1.0, 1e6, 1e6), CostModel(1e6, 1.0, 1.0)
    for costs, forbidden in ((harsh, "accept"), (mild, "reject"), (CostModel(), None)):
        rule = choose_rule(systems["L3"], dev, costs)
        assert rule.kind == BAYES
        assert unreachable(rule, costs) == forbidden
        place = tmp_path / str(forbidden)
        out = write_bundle(place, systems["L3"], dev, costs, name="L3", level=0)
        scorer = load(out)
        assert scorer.metadata["bounds"]["unreachable"] == forbidden
        accepted = scorer([0.9, 0.1], [20.0, -20.0]).accepted.tolist()
        assert accepted == [forbidden != "accept", forbidden == "reject"]
