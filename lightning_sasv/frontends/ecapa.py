"""ECAPA-TDNN of SpeechBrain, the speaker network behind the ASV score.

Desplanques et al., "ECAPA-TDNN", Interspeech 2020, as SpeechBrain implements and trains it
(``speechbrain/spkrec-ecapa-voxceleb``): 80 log-mel bands, their mean over time subtracted, 192-d
embeddings without further normalisation. Only the tensors of the checkpoint are read; the
``hyperparams.yaml`` beside it could name any code and is left alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256
from lightning_sasv.frontends.audio import SAMPLE_RATE, SAMPLES, Waveforms, as_batch
from lightning_sasv.frontends.base import device_of, one_by_one
from lightning_sasv.frontends.speechbrain_guard import import_speechbrain
from lightning_sasv.frontends.weights import (
    State,
    hub_cache,
    hub_snapshot,
    load_by_name,
    read_state,
)

HUB_REPOSITORY = "speechbrain/spkrec-ecapa-voxceleb"
CHECKPOINT = "embedding_model.ckpt"
_BLOCKS = 4


class ECAPA(nn.Module):
    """Fbank, mean normalisation and SpeechBrain's ``ECAPA_TDNN``.

    Args:
        bands: Mel bands.
        channels: Channels of the four blocks and of their aggregation.
        attention_channels: Channels of the attentive pooling.
        dim: Size of an embedding.
        samples: Length that each recording is repeated or cut to; ``None`` takes it whole.
    """

    sample_rate = SAMPLE_RATE

    def __init__(
        self,
        bands: int = 80,
        channels: tuple[int, ...] = (1024, 1024, 1024, 1024, 3072),
        attention_channels: int = 128,
        dim: int = 192,
        samples: int | None = SAMPLES,
    ) -> None:
        super().__init__()
        self.dim, self.samples = dim, samples
        self.weights: dict[str, str] | None = None
        self.features = import_speechbrain("lobes.features").Fbank(n_mels=bands)
        self.network = import_speechbrain("lobes.models.ECAPA_TDNN").ECAPA_TDNN(
            bands,
            channels=list(channels),
            kernel_sizes=[5, 3, 3, 3, 1],
            dilations=[1, 2, 3, 4, 1],
            attention_channels=attention_channels,
            lin_neurons=dim,
        )

    @classmethod
    def from_checkpoint(
        cls, directory: str | Path | None = None, samples: int | None = SAMPLES
    ) -> ECAPA:
        """The network of a SpeechBrain checkpoint, its sizes known by its shapes.

        Args:
            directory: Folder with ``embedding_model.ckpt``, or that file; by default the
                snapshot of ``speechbrain/spkrec-ecapa-voxceleb`` in the hub's cache.
            samples: Length that each recording is repeated or cut to; ``None`` takes it whole.
        """
        path = _checkpoint_path(directory)
        state = read_state(path)
        model = cls(**_sizes(state, path), samples=samples)
        load_by_name(model.network, state, path)
        model.weights = {path.name: sha256(path)}
        return model.eval()

    @torch.inference_mode()
    def embed(self, waveforms: Waveforms) -> Tensor:
        """Embeddings (batch, dim) of 16 kHz waveforms of any lengths."""
        device, dtype = device_of(self)
        batches = (batch.to(device, dtype) for batch in as_batch(waveforms, self.samples))
        return torch.cat([self(part) for batch in batches for part in one_by_one(batch)])

    def forward(self, waveforms: Tensor) -> Tensor:
        """Embeddings of waveforms of one length, (batch, time); features are always float32."""
        bands = self.features(waveforms.float())  # (batch, frames, bands)
        bands = bands - bands.mean(dim=1, keepdim=True)
        return self.network(bands.to(waveforms.dtype)).squeeze(1)


def _checkpoint_path(directory: str | Path | None) -> Path:
    """The checkpoint that was named, or the one in the hub's cache."""
    if directory is None:
        snapshot = hub_snapshot(HUB_REPOSITORY, CHECKPOINT)
        if snapshot is None:
            raise InputError(
                f"no ECAPA weights: give a folder with {CHECKPOINT} of {HUB_REPOSITORY} "
                f"(from the Hugging Face hub), or put that model into the hub's cache {hub_cache()}"
            )
        return snapshot / CHECKPOINT
    path = Path(directory)
    return path / CHECKPOINT if path.is_dir() else path


def _sizes(state: State, source: Path) -> dict[str, Any]:
    """Constructor arguments that a checkpoint's shapes imply."""
    try:
        first = state["blocks.0.conv.conv.weight"]
        blocks = [state[f"blocks.{i}.tdnn2.conv.conv.weight"] for i in range(1, _BLOCKS)]
        last = state["mfa.conv.conv.weight"]
        return {
            "bands": first.shape[1],
            "channels": (*(weight.shape[0] for weight in [first, *blocks, last]),),
            "attention_channels": state["asp.tdnn.conv.conv.weight"].shape[0],
            "dim": state["fc.conv.weight"].shape[0],
        }
    except (KeyError, IndexError) as error:
        raise InputError(
            f"{source} is not a checkpoint of SpeechBrain's ECAPA_TDNN: no {error}; "
            "checkpoints of the challenge are loaded by ECAPAChallenge"
        ) from None
