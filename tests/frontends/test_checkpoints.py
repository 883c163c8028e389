"""Checkpoints that are not those of the network are refused with the entry that is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.frontends import AASIST, ECAPA, ECAPAChallenge

NETWORKS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "aasist": (AASIST, AASIST),
    "ecapa": (ECAPA, lambda: ECAPA(40, (32, 32, 32, 32, 96), 16, 24).network),
    "challenge": (ECAPAChallenge, lambda: ECAPAChallenge(16)),
}


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("aasist", {"pool_T.proj.bias": None}, r"1 missing, first: pool_T.proj.bias"),
        ("aasist", {"pos_S": None}, r"1 missing, first: pos_S"),
        ("aasist", {"head.weight": torch.zeros(3)}, r"1 not known, first: head.weight"),
        (
            "aasist",
            {"out_layer.weight": torch.zeros(2, 161)},
            r"\(2, 161\) where \(2, 160\) was exp",
        ),
        ("aasist", {"out_layer.bias": torch.full((2,), torch.nan)}, r"out_layer.bias holds NaN"),
        ("aasist", {"pos_S": torch.zeros(1, 23, 48)}, r"neither AASIST nor AASIST-L: pos_S has"),
        ("aasist", {"epoch": 3}, r"entry 'epoch' is not a tensor but int"),
        ("ecapa", {"fc.conv.weight": None}, "not a checkpoint of SpeechBrain's ECAPA_TDNN"),
        ("ecapa", {"fc.conv.bias": torch.zeros(23)}, r"conv.bias has shape \(23,\) where \(24,\)"),
        ("challenge", {"torchfbank.1.mel_scale.fb": None}, "1 missing, first: torchfbank.1.mel_s"),
        ("challenge", {"fc6.bias": torch.zeros(3)}, r"fc6.bias has shape \(3,\) where \(192,\)"),
    ],
)
def test_a_checkpoint_that_does_not_fit(
    tmp_path: Path, name: str, change: dict[str, Any], says: str
) -> None:
    front_end, network = NETWORKS[name]
    path = tmp_path / "embedding_model.ckpt"
    state = network().state_dict() | change
    torch.save({key: value for key, value in state.items() if value is not None}, path)
    with pytest.raises(InputError, match=says):
        front_end.from_checkpoint(tmp_path if name == "ecapa" else path)
