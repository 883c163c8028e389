"""Fusion rules: their formulas, their order, and their range."""

from __future__ import annotations

import math
from decimal import Decimal, getcontext

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.fusion.rules import (
    fuse_cascade,
    fuse_linear,
    fuse_nonlinear,
    fuse_sigmoid_product,
    fuse_sigmoid_sum,
    fuse_sum,
)

LLRS = st.floats(-1e6, 1e6)
RHOS = st.floats(0, 1)


def array(value):
    return np.array([value])


def scalar(value):
    return torch.tensor([value], dtype=torch.float64)


def exact_nonlinear(asv, cm, rho):
    """The formula in 60-digit arithmetic, where nothing overflows."""
    getcontext().prec, getcontext().Emax, getcontext().Emin = 60, 10**8, -(10**8)
    asv, cm, rho = Decimal(asv), Decimal(cm), Decimal(rho)
    return float(-((1 - rho) * (-asv).exp() + rho * (-cm).exp()).ln())


@given(asv=LLRS, cm=LLRS, rho=st.floats(0, 1, exclude_min=True, exclude_max=True))
def test_nonlinear_rule_is_its_formula_to_the_last_digits(asv, cm, rho):
    """So it is finite and lies between its two sides, as the formula does."""
    for kind in (scalar, array):
        value = fuse_nonlinear(kind(asv), kind(cm), rho).item()
        assert value == pytest.approx(exact_nonlinear(asv, cm, rho), rel=1e-14, abs=1e-14)


@given(asv=LLRS, cm=LLRS, rho=RHOS, more=st.floats(0, 100))
def test_nonlinear_rule_never_falls_when_an_llr_rises(asv, cm, rho, more):
    base = fuse_nonlinear(scalar(asv), scalar(cm), rho)
    assert fuse_nonlinear(scalar(asv + more), scalar(cm), rho) >= base
    assert fuse_nonlinear(scalar(asv), scalar(cm + more), rho) >= base


@given(asv=LLRS, cm=LLRS)
def test_nonlinear_rule_reduces_to_asv_at_0_and_to_cm_at_1(asv, cm):
    for kind in (scalar, array):
        assert fuse_nonlinear(kind(asv), kind(cm), 0.0).item() == asv
        assert fuse_nonlinear(kind(asv), kind(cm), 1.0).item() == cm


def test_plain_rules_are_their_formulas():
    asv, cm = torch.tensor([0.3, -1.2]).double(), torch.tensor([2.0, -0.5]).double()
    for k in range(2):
        a, c = asv[k].item(), cm[k].item()
        sigma = [1 / (1 + math.exp(-x)) for x in (a, c)]
        assert fuse_sum(asv, cm)[k].item() == pytest.approx(a + c)
        assert fuse_linear(asv, cm)[k].item() == pytest.approx((a + c) / math.sqrt(6))
        assert fuse_sigmoid_sum(asv, cm)[k].item() == pytest.approx(a + sigma[1])
        assert fuse_sigmoid_product(asv, cm)[k].item() == pytest.approx(sigma[0] * sigma[1])
        assert fuse_cascade(asv, cm)[k].item() == min(a, c)


@given(asv=st.floats(-50, 50), cm=st.floats(-50, 50), threshold=st.floats(-50, 50))
def test_cascade_accepts_iff_both_sides_do(asv, cm, threshold):
    accepted = fuse_cascade(scalar(asv), scalar(cm)).item() > threshold
    assert accepted == (asv > threshold and cm > threshold)


@pytest.mark.parametrize("rho", [-0.1, 1.1, math.nan])
def test_rho_outside_the_unit_interval_is_an_error(rho):
    with pytest.raises(ValueError, match=rf"rho must lie in \[0, 1\], got {rho}"):
        fuse_nonlinear(scalar(0.0), scalar(0.0), rho)
