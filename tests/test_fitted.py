"""Fitted systems survive the disk exactly, and damage is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import load_system, load_systems, save_system
from lightning_sasv.fusion import SYSTEMS, build_system


@pytest.mark.parametrize("name", SYSTEMS)
def test_round_trip(name: str, twin: Corpus, tmp_path: Path) -> None:
    asv, label = twin.dev.asv_scores.double(), twin.dev.label
    noise = torch.randn(len(label), generator=torch.Generator().manual_seed(0)).double()
    cm = 4.0 * (label != 0) - 2 + noise
    system = build_system(name).fit(asv, cm, label)
    save_system(tmp_path / "fitted" / f"{name}.safetensors", system, {"corpus": "twin"})
    again = load_systems(tmp_path)[name]
    for mine, theirs in zip(system(asv, cm), again(asv, cm), strict=True):
        assert torch.equal(mine, theirs)


def test_damage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no fitted system at"):
        load_system(tmp_path / "absent.safetensors")
    with pytest.raises(InputError, match="no fitted systems in"):
        load_systems(tmp_path)
    path = tmp_path / "x.safetensors"
    save_file({"a": torch.zeros(1)}, path)
    with pytest.raises(InputError, match="not a fitted system"):
        load_system(path)
    save_system(path, build_system("L3"), {})
    whole = path.read_bytes()
    path.write_bytes(whole[:-3])
    with pytest.raises(InputError, match="is damaged"):
        load_system(path)
    path.write_bytes(whole.replace(b"gaussian", b"gaussiam"))
    with pytest.raises(InputError, match="gaussiam"):
        load_system(path)


def test_a_matrix_that_is_no_covariance_is_damage(tmp_path: Path, twin: Corpus) -> None:
    asv, label = twin.dev.asv_scores.double(), twin.dev.label
    cm = 4.0 * (label != 0) + torch.linspace(-1, 1, len(label), dtype=torch.float64)
    for name in ("L3", "L3t"):
        system = build_system(name).fit(asv, cm, label)
        matrices = [v for v in system.state_dict().values() if v.shape[-2:] == (2, 2)]
        matrices[0].copy_(-torch.eye(2).expand_as(matrices[0]))
        path = save_system(tmp_path / f"{name}.safetensors", system, {})
        with pytest.raises(InputError, match="is damaged"):
            load_system(path)
