"""The challenge's ECAPA-TDNN: names, features against torchaudio, network against plain numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_sasv.frontends import ECAPAChallenge, FrontEnd
from lightning_sasv.frontends.ecapa import import_torchaudio
from lightning_sasv.frontends.ecapa_challenge import MelSpectrogram, mel_filters

NAMES = {  # of published checkpoints, with 1024 channels
    "torchfbank.0.flipped_filter": (1, 1, 2),
    "torchfbank.1.spectrogram.window": (400,),
    "torchfbank.1.mel_scale.fb": (257, 80),
    "conv1.weight": (1024, 80, 5),
    "layer1.conv1.weight": (1024, 1024, 1),
    "layer2.convs.6.weight": (128, 128, 3),
    "layer3.bns.6.running_var": (128,),
    "layer3.se.se.1.weight": (128, 1024, 1),
    "layer3.se.se.3.weight": (1024, 128, 1),
    "layer4.weight": (1536, 3072, 1),
    "attention.0.weight": (256, 4608, 1),
    "attention.2.running_mean": (256,),
    "attention.4.weight": (1536, 256, 1),
    "bn5.weight": (3072,),
    "fc6.weight": (192, 3072),
    "bn6.num_batches_tracked": (),
}


def random_network(channels: int = 16) -> ECAPAChallenge:
    """A network with random weights and random running statistics."""
    torch.manual_seed(1)
    model = ECAPAChallenge(channels)
    for name, buffer in model.named_buffers():
        if name.endswith("running_mean"):
            buffer.normal_(0, 0.3)
        elif name.endswith("running_var"):
            buffer.uniform_(0.5, 2)
    return model.eval()


@pytest.fixture(scope="module")
def waveform() -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    return 0.1 * torch.randn(20_000, generator=generator)


def test_names_and_shapes_are_those_of_published_checkpoints() -> None:
    state = ECAPAChallenge(1024).state_dict()
    assert {name: tuple(state[name].shape) for name in NAMES} == NAMES
    conv, norm = 2, 5  # entries of each
    assert sum(name.startswith("layer2.") for name in state) == 11 * conv + 9 * norm


def test_checkpoint_of_a_training_loads_by_name(tmp_path: Path, waveform: torch.Tensor) -> None:
    model = random_network()
    state = {f"speaker_encoder.{name}": value for name, value in model.state_dict().items()}
    state["speaker_loss.weight"] = torch.zeros(5994, 192)
    torch.save(state, tmp_path / "pretrain.model")
    loaded = ECAPAChallenge.from_checkpoint(tmp_path / "pretrain.model")
    assert isinstance(loaded, FrontEnd)
    assert list(loaded.weights or {}) == ["pretrain.model"]
    assert torch.equal(loaded.embed([waveform]), model.embed([waveform]))
    plain = {k: v for k, v in model.state_dict().items() if not k.startswith("torchfbank.")}
    torch.save(plain, tmp_path / "plain.pt")
    loaded = ECAPAChallenge.from_checkpoint(tmp_path / "plain.pt")
    torch.testing.assert_close(loaded.embed([waveform]), model.embed([waveform]))


def test_result_is_finite_and_depends_on_the_recording_alone(waveform: torch.Tensor) -> None:
    model = random_network()
    alone = model.embed([waveform])
    assert alone.shape == (1, 192)
    assert torch.isfinite(alone).all()
    noise = torch.randn(3, 70_000)
    assert torch.equal(model.embed([*noise, waveform])[3:], alone)
    assert not torch.allclose(model.embed(noise[:1]), alone, atol=1e-2)


def test_result_does_not_depend_on_the_unit_of_the_samples(waveform: torch.Tensor) -> None:
    """The logarithm makes a gain an offset, and the mean over time is subtracted."""
    model = random_network()
    reference, louder = model.embed([100 * waveform]), model.embed([3e4 * waveform])
    torch.testing.assert_close(louder, reference, rtol=1e-3, atol=1e-3)


def test_features_are_those_of_torchaudio(waveform: torch.Tensor) -> None:
    torchaudio = import_torchaudio()
    peer = torchaudio.transforms.MelSpectrogram(
        sample_rate=16_000,
        n_fft=512,
        win_length=400,
        hop_length=160,
        f_min=20,
        f_max=7600,
        window_fn=torch.hamming_window,
        n_mels=80,
    )
    torch.testing.assert_close(mel_filters(80, 20.0, 7600.0), peer.mel_scale.fb, atol=2e-5, rtol=0)
    ours, theirs = MelSpectrogram()(waveform[None]), peer(waveform[None])
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-4)
    assert {f"torchfbank.1.{name}" for name in peer.state_dict()} <= NAMES.keys()


class Reference:
    """The same network in plain numpy, float64, frame by frame."""

    def __init__(self, model: ECAPAChallenge) -> None:
        self.state = {name: value.double().numpy() for name, value in model.state_dict().items()}

    def conv(self, name: str, x: np.ndarray, dilation: int = 1) -> np.ndarray:
        weight, bias = self.state[f"{name}.weight"], self.state[f"{name}.bias"]
        reach = weight.shape[2] // 2 * dilation
        padded = np.pad(x, ((0, 0), (reach, reach)))
        frames = x.shape[1]
        taps = [padded[:, k * dilation : k * dilation + frames] for k in range(weight.shape[2])]
        return np.einsum("oik,kit->ot", weight, np.stack(taps)) + bias[:, None]

    def norm(self, name: str, x: np.ndarray) -> np.ndarray:
        s = {key: self.state[f"{name}.{key}"] for key in ("weight", "bias")}
        mean, var = self.state[f"{name}.running_mean"], self.state[f"{name}.running_var"]
        shape = (-1, *[1] * (x.ndim - 1))
        y = (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + 1e-5)
        return y * s["weight"].reshape(shape) + s["bias"].reshape(shape)

    def block(self, name: str, x: np.ndarray, dilation: int) -> np.ndarray:
        groups = np.split(self.norm(f"{name}.bn1", np.maximum(self.conv(f"{name}.conv1", x), 0)), 8)
        for i in range(7):
            before = groups[i] if i == 0 else groups[i] + groups[i - 1]
            convolved = np.maximum(self.conv(f"{name}.convs.{i}", before, dilation), 0)
            groups[i] = self.norm(f"{name}.bns.{i}", convolved)
        y = np.maximum(self.conv(f"{name}.conv3", np.concatenate(groups)), 0)
        y = self.norm(f"{name}.bn3", y)
        squeezed = np.maximum(self.conv(f"{name}.se.se.1", y.mean(1, keepdims=True)), 0)
        return y / (1 + np.exp(-self.conv(f"{name}.se.se.3", squeezed))) + x

    def __call__(self, bands: np.ndarray) -> np.ndarray:
        logs = np.log(bands + 1e-6)
        x = self.conv("conv1", logs - logs.mean(1, keepdims=True))
        x = self.norm("bn1", np.maximum(x, 0))
        x1 = self.block("layer1", x, 2)
        x2 = self.block("layer2", x + x1, 3)
        x3 = self.block("layer3", x + x1 + x2, 4)
        x = np.maximum(self.conv("layer4", np.concatenate([x1, x2, x3])), 0)
        spread = np.sqrt(np.maximum(x.var(1, ddof=1, keepdims=True), 1e-4))
        context = np.concatenate([x, 0 * x + x.mean(1, keepdims=True), 0 * x + spread])
        hidden = self.norm("attention.2", np.maximum(self.conv("attention.0", context), 0))
        weight = np.exp(self.conv("attention.4", np.tanh(hidden)))
        weight /= weight.sum(1, keepdims=True)
        mean = (x * weight).sum(1)
        deviation = np.sqrt(np.maximum((x**2 * weight).sum(1) - mean**2, 1e-4))
        pooled = self.norm("bn5", np.concatenate([mean, deviation]))
        return self.norm("bn6", self.state["fc6.weight"] @ pooled + self.state["fc6.bias"])


def test_network_is_the_formula_in_plain_numpy(waveform: torch.Tensor) -> None:
    model = random_network().double()
    batch = waveform[None].double()
    with torch.no_grad():
        ours = model(batch)[0].numpy()
        bands = model.torchfbank(batch)[0].numpy()
    np.testing.assert_allclose(ours, Reference(model)(bands), rtol=1e-8, atol=1e-8)
