"""Settings of a fusion system, and bad input: every error names argument and value."""

from __future__ import annotations

import math
from inspect import signature
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.fusion import FusionSettings, FusionSystem, build_system
from lightning_sasv.plugins import Other, Simple

PLAIN = {str, int, float, type(None), dict[str, float], dict[str, str]}


def test_settings_are_those_of_a_system_and_plain():
    hints = get_type_hints(FusionSettings)
    parameters = signature(FusionSystem).parameters
    full = build_system("Q3", trim=3, transform="rank")
    assert list(hints) == list(parameters) == list(full.config)
    assert list(hints)[:-3] == list(build_system("B1").config)
    for hint in hints.values():
        assert set(get_args(hint) or [hint]) <= {*PLAIN, Other}
    own = get_type_hints(Other)
    assert own == {"class": str, "settings": dict[str, Simple]}
    assert set(get_args(Simple)) <= {*PLAIN, bool}


def test_trim_fits_as_if_far_scores_were_not_there(trials):
    asv, cm, labels = (np.asarray(part) for part in trials)
    plain = build_system("L2c").fit(asv, cm, labels)
    far = [np.append(asv, [1e12, 0.1]), np.append(cm, [0.0, -1e9]), np.append(labels, [2, 1])]
    trimmed = build_system("L2c", trim=20).fit(*far)
    assert trimmed.config["trim"] == 20
    for name, value in plain.arrays().items():
        np.testing.assert_array_equal(trimmed.arrays()[name], value)


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
        ({"asv": np.ma.masked_less(GOOD["asv"].numpy(), 0.12)}, "asv holds masked values"),
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
        *(({"trim": trim}, "trim must be") for trim in (0, -1, math.nan, math.inf, "much")),
        ({"transform": "log"}, "unknown transform 'log'; expected one of none, standard, logit"),
        ({"transform": {"asv_1": "ranks"}}, "unknown transform 'ranks' of asv_1.*mean rank"),
        ({"transform": 3}, "unknown transform 3"),
        ({"order": "cubic", "calibration": "multinomial"}, "unknown order 'cubic'"),
        ({"order": "squares"}, "order: squares needs calibration: multinomial"),
        ({"penalty": "cv", "calibration": "paper"}, "penalty: cv needs calibration: multinomial"),
        ({"transform": "cv", "density": "tied"}, "transform: cv needs calibration: multinomial"),
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
