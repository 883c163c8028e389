"""A second look makes values exact: equal to those of the trials in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from lightning_sasv.errors import InputError
from lightning_sasv.metrics.bounds import available
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.registry import Settings, explained
from tests.counting.cases import COLUMNS, count, edge_scores

NAMES = available(dict.fromkeys(COLUMNS), Settings())
SUMS = ("cllr", "cllr_calib", "asv_cllr", "cm_cllr", "asv_cllr_calib", "cm_cllr_calib")


def random_case(seed: int) -> dict[str, np.ndarray]:
    """A few trials with ties, scores on edges and next to them."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 25))
    known = np.concatenate([edge_scores(), np.arange(-3.0, 4.0), rng.uniform(-8, 8, 20)])
    case = {name: rng.choice(known, n) for name in COLUMNS}
    case["labels"] = np.append([0, 1, 2], rng.integers(0, 3, n - 3)).astype(np.int8)
    case["clusters"] = rng.choice(["a", "b", "c"], n)
    return case | {"attacks": np.where(case["labels"] == 0, "A1", "-")}


@pytest.mark.parametrize("convention", ["asvspoof", "interpolated", "max", "rocch"])
def test_refined_values_are_exact(convention: Any) -> None:
    own = Settings(convention=convention)
    for seed in range(40):
        case = random_case(seed)
        classes = Classes({name: case[name] for name in COLUMNS}, case["labels"])
        truth = explained(NAMES, classes, own).values
        state = count(case, 3)
        order = np.random.default_rng(seed).permutation(case["labels"].size)
        halves = [
            {name: values[part] for name, values in case.items()}
            for part in np.array_split(order, 2)
        ]
        for name, one in state.refine(halves, own).items():
            if name.endswith("_eer"):
                assert one.value == truth[name], (seed, name)
            elif math.isnan(truth[name]):
                assert math.isnan(one.value), (seed, name)
            else:
                assert one.value == pytest.approx(truth[name], abs=1e-12), (seed, name)
            assert one.exact or math.isnan(truth[name])


def test_refined_values_of_many_trials() -> None:
    rng = np.random.default_rng(5)
    labels = rng.integers(0, 3, 60_000).astype(np.int8)
    asv, cm = rng.normal(size=(2, labels.size))
    case = {"asv": asv + 3 * (labels == 1) + (labels == 0), "cm": cm + 3 * (labels > 0)}
    case |= {"sasv": case["asv"] + case["cm"], "labels": labels}
    case |= {"clusters": np.full(labels.size, "a"), "attacks": np.full(labels.size, "-")}
    truth = explained(NAMES, Classes({n: case[n] for n in COLUMNS}, labels), Settings()).values
    for name, one in count(case).refine([case]).items():
        exact = name not in SUMS and "cllr" not in name
        assert one.value == (truth[name] if exact else pytest.approx(truth[name], abs=1e-12)), name


def test_other_trials_are_refused() -> None:
    case = {name: np.array([0.0, 1.0, 2.0, 3.0]) for name in COLUMNS}
    case |= {"labels": np.array([0, 1, 2, 1], np.int8)}
    case |= {"clusters": np.array(["a"] * 4), "attacks": np.array(["-"] * 4)}
    state = count(case)
    fewer = {name: values[:-1] for name, values in case.items()}
    with pytest.raises(InputError, match="are not those that were counted"):
        state.refine([fewer, fewer])
    with pytest.raises(InputError, match="are not those that were counted"):
        state.refine([{**case, "sasv": 99 * case["sasv"]}])
