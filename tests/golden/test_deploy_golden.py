"""M3d, decisions that are not monotone, and the third verdict on the real scores."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.decisions import (
    PRESETS,
    abstain,
    accept,
    empirical_cost,
    inversions,
    worth_below,
)
from lightning_sasv.fitted import frozen
from lightning_sasv.fusion import FusionSystem, fit_systems
from lightning_sasv.fusion.conformal import measure
from lightning_sasv.fusion.logistic import Basis, multinomial_loss
from lightning_sasv.metrics.functional import cllr, sasv_eers
from lightning_sasv.report.decided import decided
from lightning_sasv.scores import read_scores, read_table
from lightning_sasv.trials import CLASS_ORDER, FusedScores, Scores, TrialClass

COSTS = ("a-dcf1", "asvspoof5", "equal")


@pytest.fixture(scope="module")
def real(shared: Path) -> dict[str, Scores]:
    folder = shared / "data" / "sasv2022"
    return {split: read_scores(folder / f"{split}_scores.csv") for split in ("dev", "eval")}


@pytest.fixture(scope="module")
def systems(real: dict[str, Scores]) -> dict[str, FusionSystem]:
    dev = real["dev"]
    return fit_systems(dev.asv, dev.cm, dev.label, ["M3d", "L3", "L3c", "L3t", "M3", "J3", "B1c"])


def fused(system: FusionSystem, trials: Scores) -> FusedScores:
    return FusedScores(*(part.numpy() for part in system(trials.asv, trials.cm)))


def policy(llrs: FusedScores, labels: np.ndarray) -> list[float]:
    found = (empirical_cost(accept(llrs, costs), labels, costs) for costs in COSTS)
    return [round(float(one.normalised), 4) for one in found]


def test_m3d_is_the_published_map(
    real: dict[str, Scores], systems: dict[str, FusionSystem]
) -> None:
    system, dev, evaluation = systems["M3d"], real["dev"], real["eval"]
    state = system.arrays()
    weight, bias = state["calibration.weight"], state["calibration.bias"]
    assert weight[[0, 1], [0, 1]] == pytest.approx([26.00896, 1.614351], rel=1e-6)
    assert not weight[[0, 1], [1, 0]].any()
    assert bias == pytest.approx([-11.76242, -3.929733], rel=1e-6)
    theta = np.column_stack([weight, bias])
    loss, _, _ = Basis(np.stack([dev.asv, dev.cm])).pair_loss(theta, multinomial_loss(dev.label))
    assert loss == pytest.approx(0.0453672, abs=1e-7)
    assert system.rho.item() == pytest.approx(0.8889, abs=5e-5)
    assert system.warnings == []
    llrs = fused(system, evaluation)
    target = evaluation.label == 1
    assert 100 * sasv_eers(llrs.sasv, evaluation.label).sasv == pytest.approx(1.395, abs=5e-4)
    assert cllr(llrs.sasv[target], llrs.sasv[~target]) == pytest.approx(0.090, abs=5e-4)
    assert policy(llrs, evaluation.label) == [0.0306, 0.0333, 0.0343]


def test_inversions_of_the_zoo(real: dict[str, Scores], systems: dict[str, FusionSystem]) -> None:
    evaluation = real["eval"]
    scores = np.stack([evaluation.asv, evaluation.cm])
    expected = {
        "L3": [58, 105, 46],
        "L3c": [39, 86, 28],
        "L3t": [20, 1351, 6],
        "M3": [826, 1957, 634],
        **{name: [0, 0, 0] for name in ("J3", "B1c", "M3d")},
    }
    for name, counts in expected.items():
        llrs = fused(systems[name], evaluation)
        found = [inversions(accept(llrs, costs), scores) for costs in COSTS]
        assert [int(one.sum()) for one in found] == counts, name
        if name in ("L3t", "M3"):  # nontargets, targets, spoofs
            classes = [int(np.sum(evaluation.label[found[1]] == code)) for code in (2, 1, 0)]
            assert classes == {"L3t": [1315, 20, 16], "M3": [1934, 11, 12]}[name]


def test_four_columns(shared: Path) -> None:
    folder = shared / "data" / "sasv2022_more"
    sets = {}
    for split in ("dev", "eval"):
        table = read_table(folder / f"{split}_scores.csv")
        names = ("asv_ecapa", "asv_xvector", "cm_aasist", "cm_ocsoftmax")
        scores = np.stack([table.numbers(name) for name in names])
        sets[split] = Scores(scores[:2].T, scores[2:].T, table.labels())
    dev, evaluation = sets["dev"], sets["eval"]
    systems = fit_systems(dev.asv, dev.cm, dev.label, ["M3d", "M3"])
    every = np.concatenate([evaluation.asv.T, evaluation.cm.T])
    llrs = fused(systems["M3d"], evaluation)
    target = evaluation.label == 1
    assert 100 * sasv_eers(llrs.sasv, evaluation.label).sasv == pytest.approx(0.894, abs=5e-4)
    assert cllr(llrs.sasv[target], llrs.sasv[~target]) == pytest.approx(0.041, abs=5e-4)
    assert policy(llrs, evaluation.label) == [0.0209, 0.0190, 0.0243]
    for name, counts in {"M3d": [0, 0], "M3": [949, 2473]}.items():
        llrs = fused(systems[name], evaluation)
        found = [int(inversions(accept(llrs, costs), every).sum()) for costs in COSTS[:2]]
        assert found == counts, name


OUTSIDE = {  # per cent at 0.1, 1 and 5 %; None where the page gives no decimals
    "target": (0, 0.22, 4.3),
    "nontarget": (0, 0.25, 3.3),
    "spoof": (0, 10.7, 33.1),
    "A07": (0, 16.8, 54),
    "A08": (0, 3.5, 17),
    "A09": (0, 2.1, 25),
    "A10": (0, 37.0, 77),
    "A11": (0, 0.45, 8),
    "A12": (0, 26.5, 63),
    "A13": (0, 0.04, 5),
    "A14": (0, 0.18, 2.9),
    "A15": (0, 14.3, 51),
    "A16": (0, 2.4, 13),
    "A17": (0, 15.5, 47),
    "A18": (0, 17.6, 56),
    "A19": (0, 2.5, 11),
}


def test_shares_outside_what_dev_measured(real: dict[str, Scores]) -> None:
    dev, evaluation = real["dev"], real["eval"]
    found = measure(np.stack([dev.asv, dev.cm]), dev.label)
    scores = np.stack([evaluation.asv, evaluation.cm])
    groups = {str(code): evaluation.label == code for code in TrialClass}
    groups |= {name: evaluation.attack == name for name in OUTSIDE if name.startswith("A")}
    p = np.array(found.p_values(scores))
    for k, level in enumerate((0.001, 0.01, 0.05)):
        outside = found.outside(scores, level)
        assert np.array_equal(outside, p.max(axis=0) <= level)
        for name, where in groups.items():
            expected = OUTSIDE[name][k]
            tolerance = {0: 0.0, 1: 0.051, 2: 0.51}[k] if expected >= 2 else 0.0051
            assert 100 * outside[where].mean() == pytest.approx(expected, abs=tolerance), name
    for pair in ((0.70, 40.0), (5.0, 9.0), (1.0, 20.0), (-1.0, -30.0)):
        assert 0.0006 < max(found.p_values(pair)) < 0.00095
        assert found.outside(pair, 0.001)
    own = {1: (0.07, 1.92, 6.6), 2: (0, 0.35, 3.3), 0: (2.9, 13.7, 33.5)}
    for code, shares in own.items():
        for level, share in zip((0.001, 0.01, 0.05), shares, strict=True):
            rate = 100 * (p[code][evaluation.label == code] <= level).mean()
            assert rate == pytest.approx(share, abs=0.051)
    assert sum(map(len, found.distances)) == 29_548


def test_what_becomes_unsure_and_what_that_catches(
    real: dict[str, Scores], systems: dict[str, FusionSystem]
) -> None:
    dev, evaluation = real["dev"], real["eval"]
    measured = measure(np.stack([dev.asv, dev.cm]), dev.label)
    outside = measured.outside(np.stack([evaluation.asv, evaluation.cm]), 0.01)
    spoof = evaluation.label == 0
    for name, costs, shares, caught, below in (
        ("L3t", "a-dcf1", (0.06, 0, 0.09), 39, 1.7),
        ("L3t", "asvspoof5", (0.11, 0, 0.32), 46, 1.3),
        ("M3d", "a-dcf1", None, 42, None),
        ("M3d", "asvspoof5", None, 49, None),
    ):
        accepted = accept(fused(systems[name], evaluation), costs)
        unsure = accepted & outside
        assert 100 * (unsure & spoof).sum() / (accepted & spoof).sum() == pytest.approx(
            caught, abs=0.51
        )
        if shares is not None:
            for code, share in zip(CLASS_ORDER, shares, strict=True):
                found = 100 * unsure[evaluation.label == code].mean()
                assert found == pytest.approx(share, abs=0.0051)
            assert worth_below(unsure, evaluation.label, costs) == pytest.approx(below, abs=0.051)


PRICES = {  # cost over the usual normaliser, and abstentions at the priors in per cent
    ("L3t", "a-dcf1"): ".0031 26.5 .0072 10.8 .0117 7.7 .0192 4.5 .0270 2.2 .0313 0.2 .0313 0",
    ("M3d", "a-dcf1"): ".0080 15.7 .0115 6.7 .0139 4.6 .0178 3.2 .0262 1.6 .0305 0.1 .0306 0",
    ("L3", "a-dcf1"): ".0106 6.9 .0139 3.6 .0167 2.7 .0194 2.1 .0261 1.2 .0300 0.1 .0301 0",
    ("L3t", "asvspoof5"): ".0021 11.4 .0062 5.8 .0097 4.1 .0142 3.0 .0276 1.4 .0329 0.1 .0330 0",
    ("M3d", "asvspoof5"): ".0099 7.2 .0138 3.2 .0166 2.4 .0210 1.7 .0290 0.8 .0334 0.0 .0333 0",
    ("L3", "asvspoof5"): ".0145 3.6 .0175 2.1 .0199 1.7 .0233 1.3 .0292 0.8 .0328 0.1 .0329 0",
}


@pytest.mark.parametrize(("name", "preset"), PRICES)
def test_abstaining_at_a_price(
    name: str, preset: str, real: dict[str, Scores], systems: dict[str, FusionSystem]
) -> None:
    evaluation = real["eval"]
    llrs, expected = fused(systems[name], evaluation), iter(PRICES[name, preset].split())
    plain = accept(llrs, preset)
    for price in (0.01, 0.05, 0.1, 0.2, 0.5, 0.9, np.inf):
        costs = replace(PRESETS[preset], c_abstain=price)
        unsure = abstain(llrs, costs)
        assert np.array_equal(accept(llrs, costs), plain)
        found = empirical_cost(plain & ~unsure, evaluation.label, costs, unsure)
        share = sum(p * u for p, u in zip(costs.priors, found.unsure, strict=True))
        assert float(found.normalised) == pytest.approx(float(next(expected)), abs=5.1e-5)
        assert 100 * share == pytest.approx(float(next(expected)), abs=0.056)  # two roundings
        if (name, preset, price) == ("L3t", "a-dcf1", 0.01):
            assert 100 * found.unsure[1] == pytest.approx(99.95, abs=0.005)
    assert not unsure.any()
    assert costs.most_c_abstain == pytest.approx(
        {"a-dcf1": 0.952, "asvspoof5": 0.909}[preset], abs=5e-4
    )


def test_the_report_counts_inversions_and_unsure(
    real: dict[str, Scores], systems: dict[str, FusionSystem]
) -> None:
    for name, counts in {"L3t": (1351, 46), "M3d": (0, 49)}.items():
        own = frozen(systems[name], name)
        found = decided(own, real["eval"], PRESETS["asvspoof5"], real["dev"])
        assert found is not None
        assert found.inversions == counts[0]
        assert found.caught is not None
        assert 100 * found.caught == pytest.approx(counts[1], abs=0.51)
        assert found.cost[1] < found.cost[0]
        prices = [float(one) for one in PRICES[name, "asvspoof5"].split()]
        assert [one.price for one in found.priced] == [0.05, 0.1, 0.2, 0.5]
        costs = [one.cost for one in found.priced]
        assert costs == pytest.approx(prices[2:10:2], abs=5.1e-5)
    assert found.unsure is not None
    assert decided(own, real["eval"], PRESETS["asvspoof5"], None)[2] is None  # type: ignore[index]
