"""A small bundle that holds the whole way, and recordings to decide on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import soundfile
import torch

from lightning_sasv.cli import main
from lightning_sasv.fitted import save_system
from lightning_sasv.frontends import AASIST, ECAPA
from lightning_sasv.frontends.aasist import VARIANTS
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.models.heads import CMHead
from lightning_sasv.scores import write_scores
from lightning_sasv.trials import Scores

RATE = 16_000


def write_training(
    folder: Path, systems: dict[str, FusionSystem], dev: Scores, head: CMHead
) -> Path:
    """What a training leaves, as far as an export looks at it."""
    for name in ("L3t", "B1"):
        save_system(folder / "fitted" / f"{name}.safetensors", systems[name], {"corpus": "toy"})
    write_scores(folder / "scores" / "dev.csv", dev)
    return write_checkpoint(folder, head)


def write_checkpoint(folder: Path, head: CMHead) -> Path:
    """The checkpoint of a training, as far as an export looks at it."""
    state = {f"head.{name}": value for name, value in head.state_dict().items()}
    content = {"state_dict": state, "hyper_parameters": {"negative_slope": head.negative_slope}}
    (folder / "checkpoints").mkdir(parents=True)
    torch.save(content, folder / "checkpoints" / "best.ckpt")
    return folder


def write_weights(folder: Path) -> Path:
    """A small ECAPA and an AASIST-L; their weights are random, as are their opinions."""
    torch.manual_seed(0)
    small = ECAPA(40, (32, 32, 32, 32, 96), attention_channels=16, dim=24)
    folder.mkdir()
    torch.save(small.network.state_dict(), folder / "embedding_model.ckpt")
    torch.save(AASIST(VARIANTS["AASIST-L"]).state_dict(), folder / "AASIST-L.pth")
    return folder


def write_voice(path: Path, seed: int = 0, seconds: float = 1.0, rate: int = RATE) -> Path:
    """Something like a voice: noise with a pitch."""
    rng, time = np.random.default_rng(seed), np.arange(int(seconds * rate)) / rate
    pitch = 100 + 10 * seed
    sound = sum(np.sin(2 * np.pi * pitch * k * time) / k for k in range(1, 9))
    sound = 0.1 * (np.asarray(sound) + 0.3 * rng.normal(size=time.size))
    path.parent.mkdir(parents=True, exist_ok=True)
    soundfile.write(path, sound, rate)
    return path


def export_whole(training: Path, weights: Path, cm: Path, out: Path, *words: str) -> Path:
    """A bundle with graphs, made by the command."""
    given = ["--cm", str(cm), "--asv", str(weights), "--with-front-ends", *words]
    main(["export", "--fitted", str(training), "--system", "L3t", "--out", str(out), *given])
    return out
