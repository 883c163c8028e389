"""ECAPA-TDNN against golden embeddings of SpeechBrain; its weights; the torchaudio guard."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.frontends import ECAPA, FrontEnd
from lightning_sasv.frontends.ecapa import import_speechbrain, import_torchaudio

Golden = dict[str, np.ndarray]


def check(found: np.ndarray, wanted: np.ndarray) -> None:
    """The same to 40 units in the last place of float32, at each recording's largest value.

    Values reach 79, and the golden ones are float32: they are up to 1.05e-4 off what float64 gives,
    and kernels for other instruction sets (AVX2, AVX-512) differ by up to 1.6e-4.
    """
    assert found.shape == wanted.shape
    limit = 40 * np.finfo(np.float32).eps * np.abs(wanted).max(axis=1)  # 2.3e-4 to 3.8e-4
    difference = np.abs(found - wanted).max(axis=1)
    assert (difference < limit).all(), (difference, limit)


def test_embeddings_agree_with_speechbrain(
    ecapa: ECAPA, recordings: list[np.ndarray], golden_ecapa: Golden
) -> None:
    assert isinstance(ecapa, FrontEnd)
    assert (ecapa.dim, ecapa.sample_rate) == (192, 16_000)
    assert len(recordings) == 21
    check(ecapa.embed(recordings).numpy(), golden_ecapa["emb_pad64600"])


def test_in_float64_too(
    weights: Path, recordings: list[np.ndarray], golden_ecapa: Golden, ecapa: ECAPA
) -> None:
    """The recording on which float32 is worst; the two differ by rounding alone."""
    last = recordings[20:]
    exact = ECAPA.from_checkpoint(weights / "ecapa").double().embed(last)
    assert exact.dtype == torch.float64
    check(exact.numpy(), golden_ecapa["emb_pad64600"][20:])
    check(ecapa.embed(last).numpy(), exact.numpy())


def test_whole_recordings(
    weights: Path, recordings: list[np.ndarray], golden_ecapa: Golden
) -> None:
    model = ECAPA.from_checkpoint(weights / "ecapa", samples=None)
    check(model.embed(recordings[:6]).numpy(), golden_ecapa["emb_full"][:6])
    expected = {"embedding_model.ckpt": str(golden_ecapa["weights_sha256"])}
    assert model.weights == expected


def test_sizes_follow_the_checkpoint(tmp_path: Path) -> None:
    small = ECAPA(40, (32, 32, 32, 32, 96), attention_channels=16, dim=24)
    torch.save(small.network.state_dict(), tmp_path / "embedding_model.ckpt")
    loaded = ECAPA.from_checkpoint(tmp_path)
    assert loaded.dim == 24
    waveform = torch.randn(1, 20_000, generator=torch.Generator().manual_seed(0))
    assert torch.equal(loaded.embed(waveform), small.eval().embed(waveform))


def test_weights_from_the_cache_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(InputError, match=r"no ECAPA weights.*spkrec-ecapa-voxceleb"):
        ECAPA.from_checkpoint()
    with pytest.raises(InputError, match="no weights at"):
        ECAPA.from_checkpoint(tmp_path)
    snapshot = tmp_path / "models--speechbrain--spkrec-ecapa-voxceleb" / "snapshots" / "0a1b"
    snapshot.mkdir(parents=True)
    small = ECAPA(40, (32, 32, 32, 32, 96), 16, 24)
    torch.save(small.network.state_dict(), snapshot / "embedding_model.ckpt")
    assert ECAPA.from_checkpoint().dim == 24


def test_front_ends_do_not_import_speechbrain_before_it_is_needed() -> None:
    code = (
        "import sys, lightning_sasv.frontends, lightning_sasv.commands.corpus\n"
        "assert not {'speechbrain', 'torchaudio', 'pytorch_lightning'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_sound_torchaudio_stays_untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = ModuleType("torchaudio")
    monkeypatch.setitem(sys.modules, "torchaudio", sound)
    assert import_torchaudio() is sound


def test_a_torchaudio_without_its_library_is_imported_all_the_same(tmp_path: Path) -> None:
    package = tmp_path / "torchaudio"
    package.mkdir()
    (package / "__init__.py").write_text(
        "from torchaudio._extension import _IS_ALIGN_AVAILABLE, fail_if_no_align\n"
        "@fail_if_no_align\ndef double(x): return 2 * x\n"
    )
    (package / "_extension.py").write_text("raise OSError('libtorch_cuda.so: cannot open')\n")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from lightning_sasv.frontends.ecapa import import_torchaudio\n"
        "found = import_torchaudio()\n"
        "assert found.double(2) == 4 and not found._IS_ALIGN_AVAILABLE\n"
        f"assert found.__file__.startswith({str(tmp_path)!r})"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_speechbrain_the_message_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torchaudio", ModuleType("torchaudio"))
    monkeypatch.setitem(sys.modules, "speechbrain", None)
    monkeypatch.setitem(sys.modules, "speechbrain.lobes.features", None)
    with pytest.raises(InputError, match=r"lightning-sasv\[audio\]"):
        import_speechbrain("lobes.features")
