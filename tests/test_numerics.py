"""Formulas for arrays and tensors, and the minimiser: known minima, scales, no minimum at all."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.numerics import double, log_add, minimise, namespace, sigmoid, softmax

VALUES = np.array([-1e6, -800.0, -40.0, -1e-9, 0.0, 0.3, 40.0, 800.0, 1e6])


def test_arrays_and_tensors_give_the_same_numbers() -> None:
    tensor = torch.from_numpy(VALUES)
    assert namespace(VALUES) is np
    assert namespace(tensor) is torch
    assert double(tensor.float()).dtype == torch.float64
    np.testing.assert_allclose(sigmoid(VALUES), sigmoid(tensor), rtol=1e-15)
    for other in (VALUES[::-1].copy(), np.full(9, -np.inf)):
        found = log_add(VALUES, other)
        np.testing.assert_allclose(found, np.logaddexp(VALUES, other), rtol=1e-15)
        np.testing.assert_allclose(found, log_add(tensor, torch.from_numpy(other)), rtol=1e-15)
    parts = softmax([tensor, 0 * tensor])
    np.testing.assert_allclose(softmax([VALUES, 0 * VALUES]), parts, rtol=1e-15)
    np.testing.assert_allclose(parts[:, 0], sigmoid(VALUES), rtol=1e-14)
    assert log_add(np.array([-np.inf]), np.array([-np.inf]))[0] == -np.inf


@pytest.mark.parametrize("scales", [(0, 0), (6, -6), (-8, 3)])
def test_units_of_the_parameters_do_not_matter(scales: tuple[int, int]) -> None:
    unit = 10.0 ** np.array(scales)
    matrix = np.array([[2.0, 1.0], [1.0, 2.0]])

    def objective(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        y = x * unit - [1.0, -2.0]
        return y @ matrix @ y / 2, unit * (matrix @ y), np.outer(unit, unit) * matrix

    found = minimise(objective, np.array([1.0, 1.0]) / unit)
    np.testing.assert_allclose(found * unit, [1.0, -2.0], rtol=1e-9)


def test_a_saddle_is_left_downhill() -> None:
    def objective(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        value = (x[0] ** 2 - 1) ** 2 + x[1] ** 2
        gradient = np.array([4 * x[0] * (x[0] ** 2 - 1), 2 * x[1]])
        return value, gradient, np.diag([12 * x[0] ** 2 - 4, 2.0])

    np.testing.assert_allclose(np.abs(minimise(objective, np.array([0.1, 1.0]))), [1, 0], atol=1e-9)


def test_a_minimum_at_infinity_gives_a_bounded_answer() -> None:
    def falling(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return float(np.exp(-x[0])), -np.exp(-x), np.exp(-x)[None]

    assert 20 < minimise(falling, np.zeros(1))[0] < 200


def test_functions_without_a_minimum_are_errors() -> None:
    def falling(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return float(x[0]), np.ones(1), np.zeros((1, 1))

    with pytest.raises(InputError, match=r"no minimum within 20 steps .*need a larger penalty"):
        minimise(falling, np.zeros(1), 20)

    def overflows(x: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
        return -float(np.exp(900.0 + x[0])), -np.ones(1), np.eye(1)

    with pytest.raises(InputError, match="no minimum within the range of floats"):
        minimise(overflows, np.zeros(1))
