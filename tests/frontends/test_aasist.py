"""AASIST against golden embeddings of the published implementation, and its parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.signal import firwin
from sklearn.metrics import roc_auc_score

from lightning_sasv.data import EmbeddingStore
from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256
from lightning_sasv.frontends import AASIST, FrontEnd
from lightning_sasv.frontends.aasist import VARIANTS
from lightning_sasv.frontends.aasist_layers import (
    FilterBank,
    ResidualBlock,
    band_pass_filters,
    in_pieces,
)
from lightning_sasv.frontends.audio import read_audio

Golden = dict[str, np.ndarray]


def test_embeddings_and_logits_agree_with_the_published_implementation(
    aasist: AASIST, recordings: list[np.ndarray], golden_aasist: Golden
) -> None:
    assert len(recordings) == 21
    found = aasist.classify(recordings)
    for ours, theirs in ((found.embedding, "emb"), (found.logits, "logits")):
        np.testing.assert_allclose(ours.numpy(), golden_aasist[theirs], rtol=0, atol=1e-4)
        exact = golden_aasist[f"{theirs}_f64"]
        np.testing.assert_allclose(ours.numpy(), exact, rtol=0, atol=1e-4)


def test_in_float64_the_agreement_is_exact(
    weights: Path, recordings: list[np.ndarray], golden_aasist: Golden
) -> None:
    model = AASIST.from_checkpoint(weights / "AASIST.pth").double()
    found = model.classify(recordings[3:4])
    np.testing.assert_allclose(found.embedding, golden_aasist["emb_f64"][3:4], rtol=0, atol=1e-12)
    np.testing.assert_allclose(found.logits, golden_aasist["logits_f64"][3:4], rtol=0, atol=1e-12)


def test_a_recording_with_two_nodes_of_almost_equal_score(weights: Path, shared: Path) -> None:
    """Two scores differ by 1.5e-8; in the other order the embedding would be 0.03 off.

    In float32 the order is a matter of rounding. In float64 it is right, but only with filters that
    are rounded as the published ones are.
    """
    name, data = "MS_D_6131579", shared / "data"
    wanted = EmbeddingStore.from_pickle(data / "mini_la_embeddings" / "cm_embd_dev.pk")
    path = data / "mini_la" / "LA" / "ASVspoof2019_LA_dev" / "flac" / f"{name}.flac"
    model = AASIST.from_checkpoint(weights / "AASIST.pth").double()
    found = model.embed([torch.from_numpy(read_audio(path))])
    torch.testing.assert_close(found.float(), wanted.select([name]), rtol=0, atol=1e-5)


def test_embed_gives_the_embedding_whatever_the_batch(
    aasist: AASIST, recordings: list[np.ndarray], golden_aasist: Golden
) -> None:
    assert isinstance(aasist, FrontEnd)
    assert (aasist.dim, aasist.sample_rate) == (160, 16_000)
    short, long = torch.from_numpy(recordings[0][:30_000]), torch.from_numpy(recordings[1])
    repeated = torch.cat([short, short, short])[:64_600]
    longer = torch.cat([repeated, torch.full((500,), 0.5)])
    together = aasist.embed([short, long])
    assert together.shape == (2, 160)
    assert torch.equal(together[:1], aasist.embed(longer[None]))  # cut and repeated as it should
    np.testing.assert_allclose(together[1], golden_aasist["emb"][1], atol=1e-4)


def test_the_smaller_variant(
    weights: Path, recordings: list[np.ndarray], golden_aasist: Golden
) -> None:
    model = AASIST.from_checkpoint(weights / "AASIST-L.pth")
    assert sum(p.numel() for p in model.parameters()) == 85_306  # as published
    found = model.classify(recordings[1::2])
    assert found.embedding.shape == (10, 160)
    score = (found.logits[:, 1] - found.logits[:, 0]).numpy()
    assert roc_auc_score(golden_aasist["attack"][1::2] == "-", score) > 0.9


def test_the_checkpoint_is_the_published_one(aasist: AASIST, golden_aasist: Golden) -> None:
    assert aasist.weights == {"AASIST.pth": str(golden_aasist["weights_sha256"])}
    assert sum(p.numel() for p in aasist.parameters()) == 297_866
    assert len(aasist.state_dict()) == 229


def test_filters_are_those_of_the_window_method() -> None:
    mel = np.linspace(0, 2595 * np.log10(1 + 8000 / 700), 71)
    edges = 700 * (10 ** (mel / 2595) - 1)
    filters = band_pass_filters().numpy()
    assert filters.shape == (70, 129)
    design: dict[str, Any] = {"window": "hamming", "scale": False, "fs": 16_000}
    for number in range(1, 69):
        peer = firwin(129, edges[number : number + 2], pass_zero=False, **design)
        np.testing.assert_allclose(filters[number], peer, atol=1e-6)
    np.testing.assert_allclose(filters[0], firwin(129, edges[1], **design), atol=1e-6)
    peer = firwin(129, edges[69], pass_zero=False, **design)
    np.testing.assert_allclose(filters[69], peer, atol=1e-6)


def test_filter_bank_in_pieces_is_the_plain_computation() -> None:
    torch.manual_seed(0)
    waveforms = torch.randn(2, 41_000)
    filters = band_pass_filters()[:, None]
    plain = torch.nn.functional.conv1d(waveforms[:, None], filters).abs()
    plain = torch.nn.functional.max_pool2d(plain[:, None], 3).squeeze(1)
    torch.testing.assert_close(FilterBank()(waveforms), plain, rtol=0, atol=1e-6)


@pytest.mark.parametrize("frames", [1, 5, 1200, 1201, 1203, 2402, 3605])
def test_pieces_of_a_block_make_up_the_whole(frames: int) -> None:
    torch.manual_seed(frames)
    block = ResidualBlock(4, 32, first=False).eval()
    block.bn2.running_mean.uniform_(-1, 1)  # type: ignore[union-attr,operator]
    block.bn2.running_var.uniform_(0.5, 2)  # type: ignore[union-attr,operator]
    x = torch.randn(1, 4, 23, frames)
    with torch.no_grad():
        y = block.conv2(torch.selu(block.bn2(block.conv1(x)))) + block.conv_downsample(x)  # type: ignore[misc]
        whole = torch.nn.functional.max_pool2d(y, (1, 3)) if frames >= 3 else None
        if whole is None:
            with pytest.raises(RuntimeError):
                block(x)
        else:
            torch.testing.assert_close(block(x), whole, rtol=1e-4, atol=1e-5)


def test_pieces_see_no_more_than_they_need() -> None:
    sizes = []

    def layer(x: torch.Tensor) -> torch.Tensor:
        sizes.append(x.shape[-1])
        return torch.nn.functional.max_pool2d(x, (1, 3))

    x = torch.randn(1, 1, 23, 10_000)
    assert torch.equal(in_pieces(layer, x, 32), torch.nn.functional.max_pool2d(x, (1, 3)))
    assert len(sizes) > 1
    assert max(sizes) <= 1206


def test_the_first_norm_of_a_block_has_no_effect(weights: Path, recordings: list) -> None:
    state = torch.load(weights / "AASIST.pth", map_location="cpu", weights_only=True)
    changed = AASIST(VARIANTS["AASIST"])
    changed.load_state_dict(
        {k: torch.rand_like(v) if ".bn1." in k and v.ndim else v for k, v in state.items()}
    )
    original = AASIST.from_checkpoint(weights / "AASIST.pth")
    assert torch.equal(changed.eval().embed(recordings[:1]), original.embed(recordings[:1]))


def test_without_a_path_the_cache_is_looked_into(
    weights: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    with pytest.raises(InputError, match="lightning download aasist-weights"):
        AASIST.from_checkpoint()
    cache = tmp_path / "hub" / "checkpoints"
    cache.mkdir(parents=True)
    (cache / "AASIST.pth").symlink_to(weights / "AASIST.pth")
    found = AASIST.from_checkpoint()
    assert found.weights == {"AASIST.pth": sha256(weights / "AASIST.pth")}
