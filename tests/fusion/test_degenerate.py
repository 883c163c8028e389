"""Degenerate development trials: a finite answer or a clear error, never NaN."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lightning_sasv.errors import InputError
from lightning_sasv.fusion import CALIBRATIONS, DENSITIES, FusionSystem

TRIALS = 12

COLUMNS = st.one_of(
    st.lists(st.floats(-3, 3), min_size=TRIALS, max_size=TRIALS),
    st.lists(st.sampled_from([0.0, 1.0, 2.0]), min_size=TRIALS, max_size=TRIALS),
    st.lists(st.floats(-1e100, 1e100), min_size=TRIALS, max_size=TRIALS),
    st.lists(st.sampled_from([-1e90, -1e-90, 0.0, 1.0, 1e90]), min_size=TRIALS, max_size=TRIALS),
).map(np.array)


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize(
    "kind", ["one cm value per class", "two trials", "one trial", "collinear", "far out"]
)
def test_degenerate_classes_give_finite_llrs(density, kind):
    generator = torch.Generator().manual_seed(0)
    asv = torch.randn(30, generator=generator, dtype=torch.float64)
    cm = torch.randn(30, generator=generator, dtype=torch.float64)
    labels = torch.arange(30) % 3
    asv, cm, labels = {
        "one cm value per class": (asv, labels.double(), labels),
        "two trials": (asv[:6], cm[:6], labels[:6]),
        "one trial": (asv[:3], cm[:3], labels[:3]),
        "collinear": (asv, 2 * asv - 1, labels),
        "far out": (1e8 + 1e8 * asv, 1e-8 * cm, labels),
    }[kind]
    components = 1 if kind == "one trial" else 2
    system = FusionSystem(density=density, rule="nonlinear", components=components)
    fused = system.fit(asv, cm, labels)(asv, cm)
    assert all(torch.isfinite(values).all() for values in fused)


@pytest.mark.parametrize("density", ["gaussian", "tied", "student_t", "mixture"])
def test_collinear_scores_of_huge_scale_are_a_clear_error(density):
    generator = torch.Generator().manual_seed(0)
    asv = 1e12 * torch.randn(30, generator=generator, dtype=torch.float64)
    with pytest.raises(ValueError, match=r"collinear in class \w+: covariance .* is singular"):
        FusionSystem(density=density).fit(asv, 2 * asv, torch.arange(30) % 3)


@pytest.mark.parametrize("calibration", [None, *CALIBRATIONS])
@pytest.mark.parametrize("density", [None, *DENSITIES])
@settings(max_examples=8)
@given(asv=COLUMNS, cm=COLUMNS, rho=st.sampled_from(["grid_eer", "grid_risk"]))
def test_any_finite_scores_give_finite_scores_or_an_input_error(density, calibration, asv, cm, rho):
    labels = np.arange(TRIALS) % 3
    system = FusionSystem(density, calibration, "nonlinear", rho)
    try:
        system.fit(asv, cm, labels)
    except InputError:
        assert not system.is_fitted
        return
    assert all(torch.isfinite(values).all() for values in system(asv, cm))
    assert all(torch.isfinite(buffer).all() for buffer in system.buffers())


@pytest.mark.parametrize("calibration", ["paper", "effective_prior", "multinomial", "joint"])
def test_llrs_beyond_the_range_of_a_fit_are_named(calibration):
    """A class of no spread and another far away: the LLRs are too large to be standardised."""
    asv = np.array([0.0, 1.0, 1e60, 0.5, 1.0, -1e60, 0.2, 1.0, 2e60])
    cm = np.array([-1.0, 1.0, 1.0, -2.0, 1.5, 0.5, -1.5, 0.8, 1.2])
    with pytest.raises(InputError, match=r"(asv|cm) must be finite .at most 1e.100 in size., got"):
        FusionSystem("gaussian", calibration).fit(asv, cm, np.arange(9) % 3)
