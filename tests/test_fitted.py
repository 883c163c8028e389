"""Fitted systems survive the disk exactly, score without torch, and damage is named."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.numpy import save_file

from lightning_sasv.decisions import simulate
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import FORMAT, HEADER, read_fitted, read_fitted_systems, save_system
from lightning_sasv.fusion import SYSTEMS, FusionSystem, build_system, unpack_system

OLD = Path(__file__).parent / "fitted_format1"
OLD_SCORES = json.loads((OLD / "scores.json").read_text())
OLD_TRIALS = OLD_SCORES["trials"]["asv"], OLD_SCORES["trials"]["cm"]
TRIALS = simulate(600, seed=3)
VARIANTS = SYSTEMS | {
    "pav": {"calibration": "pav", "rule": "nonlinear"},
    "mixture": {"density": "mixture", "rule": "cascade"},
    "tied": {"density": "tied", "calibration": "effective_prior", "rule": "nonlinear"},
}


def fitted(name: str) -> FusionSystem:
    speakers = np.arange(600) % 4
    return FusionSystem(**VARIANTS[name]).fit(*TRIALS[:3], speakers=speakers)


def contents(path: Path, framework: str) -> tuple[dict[str, str], dict[str, Any]]:
    with safe_open(path, framework) as file:
        return file.metadata(), {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118


@pytest.mark.parametrize("name", VARIANTS)
def test_a_file_gives_the_same_scores_with_and_without_torch(name: str, tmp_path: Path) -> None:
    system = fitted(name)
    save_system(tmp_path / "fitted" / f"{name}.safetensors", system, {"corpus": "toy"})
    again = read_fitted_systems(tmp_path)[name]
    assert (again.name, again.config, again.about) == (name, system.config, {"corpus": "toy"})
    assert again.gives_llrs == system.gives_llrs
    assert again.values() == system.values()
    assert again.rho == (None if system.rho is None else system.rho.item())
    unseen = simulate(2000, seed=4)
    for mine, theirs in zip(system(*unseen[:2]), again(*unseen[:2]), strict=True):
        assert isinstance(theirs, np.ndarray)
        np.testing.assert_allclose(theirs, mine, rtol=1e-12, atol=1e-12)


def test_reading_and_scoring_do_not_import_torch(tmp_path: Path) -> None:
    path = save_system(tmp_path / "L3t.safetensors", fitted("L3t"), {})
    code = f"""
import sys
from lightning_sasv.fitted import read_fitted, save_system
system = read_fitted({str(path)!r})
print(system([0.5], [2.0]).sasv, system.values()["rho"])
save_system({str(tmp_path / "again.safetensors")!r}, system, system.about)
assert "torch" not in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)
    assert (tmp_path / "again.safetensors").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("name", OLD_SCORES["expected"])
def test_files_of_format_1_give_the_scores_they_gave(name: str, tmp_path: Path) -> None:
    system = read_fitted(OLD / f"{name}.safetensors")
    assert "copies" not in system.config
    assert system.about == {"corpus": "synthetic", "seed": 22}
    again = read_fitted(save_system(tmp_path / f"{name}.safetensors", system, system.about))
    assert FORMAT.encode() in (tmp_path / f"{name}.safetensors").read_bytes()
    for one in (system, again):
        for side, values in one(*OLD_TRIALS)._asdict().items():
            expected = OLD_SCORES["expected"][name][side]
            np.testing.assert_allclose(values, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", OLD_SCORES["expected"])
def test_state_dicts_of_format_1_are_loaded(name: str) -> None:
    """As checkpoints hold them, with a first axis of one, inside a parent module."""
    header, state = contents(OLD / f"{name}.safetensors", "pt")
    config = json.loads(header[HEADER])["config"]
    packed = unpack_system({"config": config, "state_dict": state})
    del config["copies"]
    parent = torch.nn.ModuleDict({"fusion": FusionSystem(**config)})
    parent.load_state_dict({f"fusion.{key}": value for key, value in state.items()}, strict=True)
    for one in (packed, parent["fusion"]):
        expected = OLD_SCORES["expected"][name]["sasv"]
        np.testing.assert_allclose(one(*OLD_TRIALS).sasv, expected, rtol=1e-12, atol=1e-12)


def test_damage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no fitted system at"):
        read_fitted(tmp_path / "absent.safetensors")
    with pytest.raises(InputError, match="no fitted systems in"):
        read_fitted_systems(tmp_path)
    path = tmp_path / "x.safetensors"
    save_file({"a": np.zeros(1)}, path)
    with pytest.raises(InputError, match="not a fitted system"):
        read_fitted(path)
    save_system(path, build_system("L3"), {})
    with pytest.raises(InputError, match=r"is damaged \(it is not fitted\)"):
        read_fitted(path)
    whole = save_system(path, fitted("L3"), {}).read_bytes()
    altered = whole.replace(b"gaussian", b"gaussiam")
    for content, message in ((whole[:-3], "is damaged"), (altered, "gaussiam")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            read_fitted(path)


@pytest.mark.parametrize(
    ("variant", "name", "value"),
    [
        ("L3", "density.covariance", -np.tile(np.eye(2), (3, 1, 1))),
        ("L3t", "density.scatter", np.zeros((3, 2, 2))),
        ("L3", "density.mean", np.zeros((2, 2))),
        ("L3", "density.mean", np.full((3, 2), np.nan)),
        ("L3", "rho", np.array(1.5)),
        ("L3", "rho", None),
        ("L3", "more", np.zeros(1)),
        ("B1c", "calibration.bias", np.array([np.inf, 0.0])),
        ("mixture", "density.weight", np.full((3, 2), -0.5)),
        ("pav", "calibration.knots", np.zeros((2, 2))),
        ("pav", "calibration.llrs", np.zeros(3)),
    ],
)
def test_values_that_make_no_sense_are_damage(
    variant: str, name: str, value: np.ndarray | None, tmp_path: Path
) -> None:
    path = save_system(tmp_path / "x.safetensors", fitted(variant), {})
    header, state = contents(path, "numpy")
    state.pop(name, None)
    save_file(state if value is None else state | {name: value}, path, header)
    with pytest.raises(InputError, match=r"x\.safetensors is damaged"):
        read_fitted(path)
