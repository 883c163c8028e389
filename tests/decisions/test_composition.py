"""Aitchison geometry of three classes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.decisions import (
    CostModel,
    closure,
    ilr,
    ilr_of_llrs,
    inverse_ilr,
    perturb,
    posteriors,
)
from lightning_sasv.trials import FusedScores

PARTS = st.lists(st.floats(1e-6, 1e6), min_size=3, max_size=3)
COORDINATES = st.lists(st.floats(-30, 30), min_size=2, max_size=2)


@settings(max_examples=60, deadline=None)
@given(parts=PARTS, scale=st.floats(1e-3, 1e3))
def test_ilr_is_its_formula_has_an_inverse_and_only_ratios_matter(parts, scale):
    first, second = ilr(parts).tolist()
    p1, p2, p3 = parts
    assert first == pytest.approx(math.log(p2 / p1) / math.sqrt(2), abs=1e-9)
    assert second == pytest.approx(math.log(p3**2 / (p1 * p2)) / math.sqrt(6), abs=1e-9)
    np.testing.assert_allclose(inverse_ilr(ilr(parts)), closure(parts), rtol=1e-9)
    np.testing.assert_allclose(ilr([scale * part for part in parts]), ilr(parts), atol=1e-8)


@settings(max_examples=60, deadline=None)
@given(coordinates=COORDINATES)
def test_inverse_ilr_is_closed_and_undone_by_ilr(coordinates):
    parts = inverse_ilr(coordinates)
    assert parts.sum().item() == pytest.approx(1)
    np.testing.assert_allclose(ilr(parts), coordinates, atol=1e-9)


@settings(max_examples=60, deadline=None)
@given(first=PARTS, second=PARTS)
def test_perturbation_is_addition_of_coordinates_and_distances_are_kept(first, second):
    np.testing.assert_allclose(ilr(perturb(first, second)), ilr(first) + ilr(second), atol=1e-8)
    product = closure([x * y for x, y in zip(first, second, strict=True)])
    np.testing.assert_allclose(perturb(first, second), product, rtol=1e-9)
    ratio = np.log(np.array(first)) - np.log(np.array(second))
    aitchison = math.sqrt(((ratio - ratio.mean()) ** 2).sum())
    assert np.linalg.norm(ilr(first) - ilr(second)) == pytest.approx(aitchison, abs=1e-8)


@settings(max_examples=60, deadline=None)
@given(asv=st.floats(-20, 20), cm=st.floats(-20, 20), parts=PARTS)
def test_posterior_is_prior_plus_likelihood_in_coordinates(asv, cm, parts):
    """P̃ = π̃ + w̃, with w̃ from the two LLRs (eqs. w1 and w2)."""
    total = sum(parts)
    spoof, nontarget = parts[0] / total, parts[1] / total
    costs = CostModel(p_spoof=spoof, p_nontarget=nontarget, p_target=1 - spoof - nontarget)
    if min(spoof, nontarget, costs.p_target) < 1e-9:
        return
    one = FusedScores(np.array([asv]), np.array([cm]), np.zeros(1))
    posterior = posteriors(one, costs)[0]
    prior = ilr([costs.p_spoof, costs.p_nontarget, costs.p_target])
    weight = ilr_of_llrs([asv], [cm])[0]
    np.testing.assert_allclose(ilr(posterior), prior + weight, atol=1e-5)
    likelihood = [math.exp(-cm), math.exp(-asv), 1.0]
    np.testing.assert_allclose(ilr(likelihood), weight, atol=1e-9)


def test_uniform_composition_is_the_origin():
    np.testing.assert_allclose(ilr([1 / 3] * 3), [0, 0], atol=1e-15)
    np.testing.assert_allclose(inverse_ilr([0.0, 0.0]), [1 / 3] * 3)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ilr([0.0, 0.5, 0.5]), "positive and finite, got 0"),
        (lambda: closure([-1.0, 1.0, 1.0]), "positive and finite, got -1"),
        (lambda: perturb([1.0, 1.0, 1.0], [1.0, math.nan, 1.0]), "positive and finite, got nan"),
        (lambda: ilr([1.0, 1.0]), r"shape \(..., 3\), got \(2,\)"),
        (lambda: inverse_ilr([1.0]), r"shape \(..., 2\), got \(1,\)"),
    ],
)
def test_bad_compositions_are_errors(call, message):
    with pytest.raises(ValueError, match=message):
        call()
