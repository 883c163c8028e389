"""Settings of a fusion system, as a configuration gives them."""

from __future__ import annotations

from inspect import signature
from typing import get_args, get_type_hints

import numpy as np
import pytest

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


@pytest.mark.parametrize("trim", [0, -1, float("nan"), float("inf"), "much"])
def test_trim_is_positive(trim):
    with pytest.raises(InputError, match="trim must be"):
        build_system("L2", trim=trim)


def test_trim_fits_as_if_far_scores_were_not_there(trials):
    asv, cm, labels = (np.asarray(part) for part in trials)
    plain = build_system("L2c").fit(asv, cm, labels)
    far = [np.append(asv, [1e12, 0.1]), np.append(cm, [0.0, -1e9]), np.append(labels, [2, 1])]
    trimmed = build_system("L2c", trim=20).fit(*far)
    assert trimmed.config["trim"] == 20
    for name, value in plain.arrays().items():
        np.testing.assert_array_equal(trimmed.arrays()[name], value)
