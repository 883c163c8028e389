"""The minimiser: known minima, bad scales, saddles, and functions without a minimum."""

from __future__ import annotations

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from lightning_sasv.fusion.newton import minimise


def with_derivatives(function):
    """An objective whose derivatives come from autograd."""

    def objective(parameters):
        value = function(parameters)
        gradient = torch.autograd.functional.jacobian(function, parameters)
        return value, gradient, torch.autograd.functional.hessian(function, parameters)

    return objective


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def start(*values):
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize("first", [-1.2, 0.0, 3.0])
def test_a_curved_valley(first):
    found = minimise(with_derivatives(rosenbrock), start(first, 1.0))
    assert torch.allclose(found, start(1.0, 1.0), atol=1e-9)


@settings(max_examples=15, deadline=None)
@given(scales=st.tuples(st.floats(-2, 12), st.floats(-2, 12)))
@example(scales=(0.0, 12.0))  # rounding leaves a gradient of 4e-4 in these units
def test_units_of_the_parameters_do_not_matter(scales):
    unit = 10.0 ** start(*scales)

    def function(x):
        y = x * unit
        return (y[0] - 1) ** 2 + (y[1] + 2) ** 2 + y[0] * y[1] + (y[0] - y[1]) ** 4

    reference = minimise(with_derivatives(lambda x: function(x / unit)), start(0.0, 0.0))
    found = minimise(with_derivatives(function), start(0.0, 0.0))
    assert torch.allclose(found * unit, reference, rtol=1e-6)


def test_a_saddle_is_left_downhill():
    found = minimise(with_derivatives(lambda x: (x[0] ** 2 - 1) ** 2 + x[1] ** 2), start(0.1, 1.0))
    assert found[0].abs().item() == pytest.approx(1.0)
    assert found[1].item() == pytest.approx(0.0, abs=1e-9)


def test_a_function_without_a_minimum_is_an_error():
    with pytest.raises(ValueError, match=r"no minimum within 50 Newton steps \(gradient norm"):
        minimise(
            with_derivatives(lambda x: x[0] + 0.1 * x[0] ** 2 - 10 * x[0].exp()), start(0.0), 50
        )


def test_a_minimum_at_infinity_gives_a_bounded_answer():
    found = minimise(with_derivatives(lambda x: torch.exp(-x[0])), start(0.0))
    assert 20 < found.item() < 200


def test_a_slope_that_no_step_descends_is_an_error_and_no_answer():
    """The value is NaN everywhere but at the start, as after an overflow."""

    def objective(x):
        value = torch.where(x[0] == 0, 1.0, torch.nan)
        return value, torch.ones(1, dtype=torch.float64), torch.eye(1, dtype=torch.float64)

    with pytest.raises(ValueError, match=r"no minimum .*gradient norm 1.0e\+00"):
        minimise(objective, start(0.0))
