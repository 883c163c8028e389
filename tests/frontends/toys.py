"""Front ends of a few lines, and a corpus of a few tones."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import soundfile
import torch
from torch import Tensor

from lightning_sasv.frontends.audio import Waveforms
from lightning_sasv.frontends.base import as_batch
from lightning_sasv.frontends.lists import Utterance
from lightning_sasv.frontends.pipeline import Resources

CPU = Resources(batch_size=4, workers=2, device="cpu")


def named(*numbers: int) -> list[Utterance]:
    """Utterances ``u00``, ``u01``, … of the fixture ``audio``."""
    return [Utterance(f"u{number:02d}", f"u{number:02d}") for number in numbers]


class Moments:
    """Embeds a waveform as its first moments; not a Module, without weights of its own."""

    dim, sample_rate = 160, 16_000

    def __init__(self, gain: float = 1.0, seconds: float = 0.0) -> None:
        self.gain, self.seconds = gain, seconds
        self.weights = {"gain": str(gain)}
        self.calls: list[int] = []
        self.threads: set[str] = set()

    def embed(self, waveforms: Waveforms) -> Tensor:
        (batch,) = as_batch(waveforms, 8_000)
        self.calls.append(len(batch))
        self.threads.add(threading.current_thread().name)
        time.sleep(self.seconds)
        powers = torch.linspace(0.1, 3, self.dim)
        return self.gain * (batch.abs()[:, :, None] ** powers).mean(dim=1)


class Wide(Moments):
    """The same with the size of a speaker embedding."""

    dim = 192


class Trained(torch.nn.Module):
    """A Module that does not say where its weights come from."""

    dim, sample_rate = 1, 8_000

    def __init__(self, value: float) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor(value))

    def embed(self, waveforms: Waveforms) -> Tensor:
        rows = [torch.as_tensor(row).abs().mean() for row in waveforms]
        return (self.scale * torch.stack(rows))[:, None]


def write_tone(path: Path, frequency: float, seconds: float = 0.6) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    time_axis = np.arange(int(16_000 * seconds)) / 16_000
    level = 0.1 + 0.8 * (frequency % 97) / 97
    soundfile.write(path, level * np.sin(2 * np.pi * frequency * time_axis), 16_000)


def write_corpus(root: Path) -> Path:
    """A corpus of 36 tones in the layout of ASVspoof 2019 LA: two speakers a split."""
    number = 0

    def recording(split: str) -> str:
        nonlocal number
        number += 1
        name = f"X_{split[0].upper()}_{number:04d}"
        write_tone(root / f"ASVspoof2019_LA_{split}" / "flac" / f"{name}.flac", 100 + 7 * number)
        return name

    def write(name: str, lines: list[str]) -> None:
        path = root / "protocols" / f"ASVspoof2019.LA.{name}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in lines))

    train = []
    for speaker in ("S1", "S2"):
        train += [f"{speaker} {recording('train')} - - bonafide" for _ in range(3)]
        train += [f"{speaker} {recording('train')} - A01 spoof" for _ in range(3)]
    write("cm.train.trn", train)
    for split in ("dev", "eval"):
        trials = []
        for speaker, other, gender in (("S3", "S4", "female"), ("S4", "S3", "male")):
            enrolled = [recording(split) for _ in range(2)]
            write(f"asv.{split}.{gender}.trn", [f"{speaker} {','.join(enrolled)}"])
            for _ in range(2):
                probe = recording(split)
                trials.append(f"{speaker} {probe} bonafide target")
                trials.append(f"{other} {probe} bonafide nontarget")
                trials.append(f"{speaker} {recording(split)} A02 spoof")
        write(f"asv.{split}.gi.trl", trials)
    return root
