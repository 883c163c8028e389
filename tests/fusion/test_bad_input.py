"""Bad input of a fusion system: every error names the argument and the offending value."""

from __future__ import annotations

import math

import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSystem, build_system

GOOD = {
    "asv": torch.tensor([0.1, 0.9, 0.2, 0.3, 0.8, 0.15]),
    "cm": torch.tensor([-1.0, 2.0, 1.5, -2.0, 1.0, 2.5]),
    "labels": torch.tensor([0, 1, 2, 0, 1, 2]),
}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"labels": [0, 0, 2, 0, 2, 2]}, "no target trial .code 1. among 6"),
        ({"labels": [1, 1, 2, 1, 2, 2]}, "no spoof trial .code 0."),
        ({"labels": ["spoof", "target"] * 3}, "no nontarget trial .code 2."),
        ({"labels": [0, 1, 2, 0, 1, 3]}, r"labels\[5\] is 3; expected 0"),
        ({"labels": [0, 1, 2]}, r"labels have shape \(3,\), but there are 6 trials"),
        ({"asv": [0.1, math.nan, 0.2, 0.3, 0.8, 0.15]}, "asv must be finite.*got nan at index 1"),
        ({"cm": [0.1, 0.2, 1e101, 0.3, 0.8, 0.15]}, "cm must be finite.*got 1e.101 at index 2"),
        ({"asv": [0.5] * 6}, "asv is constant: all 6 values are 0.5"),
        ({"cm": [3.0] * 6}, "cm is constant: all 6 values are 3.0"),
        ({"cm": [0.1, 0.2, 0.3]}, r"asv and cm differ in shape: \(6,\) and \(3,\)"),
        ({"asv": [], "cm": []}, "asv must have at least one score"),
        ({"cm": torch.rand(2, 6)}, r"cm must be one-dimensional, got shape \(2, 6\)"),
    ],
)
@pytest.mark.parametrize("name", ["B1", "L3c", "M3"])
def test_bad_development_trials_are_errors_that_name_the_argument(name, wrong, message):
    """What a column and a label may be is tested with the checks themselves."""
    with pytest.raises(InputError, match=message):
        build_system(name).fit(**(GOOD | wrong))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"rule": "product"}, "unknown rule 'product'"),
        ({"calibration": "platt"}, "unknown calibration 'platt'"),
        ({"density": "laplace"}, "unknown density 'laplace'; expected one of gaussian"),
        ({"rho": 1.5}, r"rho must lie in \[0, 1\], got 1.5"),
        ({"rho": -0.1, "rule": "nonlinear"}, r"rho must lie in \[0, 1\], got -0.1"),
        ({"rho": None}, "rho must be a number, got None"),
        ({"rho": "best"}, "unknown rho 'best'; expected grid_eer, grid_risk, priors, or a fixed"),
        ({"dof": 0.0}, "dof must be positive and finite, got 0"),
        ({"dof": "four"}, "dof must be a number, got 'four'"),
        ({"components": 0}, "components must be at least 1 and whole, got 0"),
        ({"components": 2.5}, "components must be at least 1 and whole, got 2.5"),
        ({"components": 10**9}, "components must be at most 1000, got 1000000000"),
        ({"penalty": "none"}, "penalty must be a number, got 'none'"),
        ({"penalty": -1.0}, "penalty must be finite and at least 0, got -1"),
        ({"penalty": math.nan}, "penalty must be finite"),
        ({"effective_prior": None}, "effective_prior must be a number, got None"),
        ({"effective_prior": 0.0}, r"effective_prior must lie in \(0, 1\), got 0"),
        ({"effective_prior": 1.0}, r"effective_prior must lie in \(0, 1\), got 1"),
        ({"cm_positives": "spoof"}, "cm_positives .* got 'spoof'"),
        ({"costs": "free"}, "unknown cost model 'free'"),
        ({"costs": {"c_miss": -1.0}}, "c_miss must be a finite cost of at least 0, got -1"),
        ({"costs": {"c_mis": 1.0}}, "unknown fields .'c_mis'."),
        ({"costs": {"c_miss": None}}, "costs must be numbers, got None for c_miss"),
        ({"costs": 3}, "costs must be a CostModel"),
        ({"costs": {"p_target": 0.5}}, "must be 1, got 1.16666"),
    ],
)
def test_bad_configuration_is_an_error_even_where_no_stage_uses_it(arguments, message):
    with pytest.raises(InputError, match=message):
        FusionSystem(**arguments)


def test_unknown_settings_and_bad_scores_to_fuse_are_errors(trials):
    for setting in ("copies", "rhoo"):
        with pytest.raises(InputError, match=f"no setting {setting!r}; expected one of density"):
            build_system("L3", **{setting: 2})
    with pytest.raises(InputError, match="cm must be finite"):
        build_system("L3").fit(*(part[:600] for part in trials))([0.1], [math.nan])
