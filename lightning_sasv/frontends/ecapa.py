"""ECAPA-TDNN of SpeechBrain, the speaker network behind the ASV score.

Desplanques et al., "ECAPA-TDNN", Interspeech 2020, as SpeechBrain implements and trains it
(``speechbrain/spkrec-ecapa-voxceleb``): 80 log-mel bands, their mean over time subtracted, 192-d
embeddings without further normalisation. Only the tensors of the checkpoint are read; the
``hyperparams.yaml`` beside it could name any code and is left alone.

This is the only module that imports SpeechBrain, and it does so with a guard against a torchaudio
that does not load: PyPI's is built for CUDA; beside a CPU build of torch its compiled library
cannot be opened and the import raises ``OSError``. SpeechBrain needs only torchaudio's Python part,
so that in this case the compiled extension is replaced by a stand-in that says "not available". A
torchaudio that can be imported is left alone.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

from torch import Tensor

from lightning_sasv.errors import InputError, importing
from lightning_sasv.frontends.audio import SAMPLES
from lightning_sasv.frontends.base import (
    Embedder,
    State,
    hub_cache,
    hub_snapshot,
    load_weights,
    read_state,
)

HUB_REPOSITORY = "speechbrain/spkrec-ecapa-voxceleb"
CHECKPOINT = "embedding_model.ckpt"
_BLOCKS = 4
_EXTENSION = "torchaudio._extension"


class ECAPA(Embedder):
    """Fbank, mean normalisation and SpeechBrain's ``ECAPA_TDNN``.

    Args:
        bands: Mel bands.
        channels: Channels of the four blocks and of their aggregation.
        attention_channels: Channels of the attentive pooling.
        dim: Size of an embedding.
        samples: Length that each recording is repeated or cut to; ``None`` takes it whole.
    """

    def __init__(
        self,
        bands: int = 80,
        channels: tuple[int, ...] = (1024, 1024, 1024, 1024, 3072),
        attention_channels: int = 128,
        dim: int = 192,
        samples: int | None = SAMPLES,
    ) -> None:
        super().__init__(dim, samples)
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
        return load_weights(model, state, path, model.network)

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


def _stand_in() -> ModuleType:
    """A ``torchaudio._extension`` without compiled code."""
    module = ModuleType(_EXTENSION)
    module.__dict__.update(
        _IS_TORCHAUDIO_EXT_AVAILABLE=False,
        _IS_ALIGN_AVAILABLE=False,
        fail_if_no_align=lambda function: function,
        _check_cuda_version=lambda: None,
    )
    return module


def import_torchaudio() -> ModuleType:
    """torchaudio, if need be without its compiled extension."""
    try:
        return importlib.import_module("torchaudio")
    except OSError:
        for name in [name for name in sys.modules if name.split(".")[0] == "torchaudio"]:
            del sys.modules[name]
        sys.modules[_EXTENSION] = _stand_in()
        return importlib.import_module("torchaudio")


def _forget_lazy_modules() -> None:
    """Remove SpeechBrain's place-holders of optional packages from ``sys.modules``.

    They raise ``ImportError`` at the first look, and tools that look at every loaded module
    (``inspect``, Hypothesis) fail on them. SpeechBrain's own packages keep their references.
    """
    for name, module in list(sys.modules.items()):
        kinds = {kind.__name__ for kind in type(module).__mro__}
        if "LazyModule" in kinds and name.startswith("speechbrain"):
            del sys.modules[name]


def import_speechbrain(module: str) -> ModuleType:
    """A module of SpeechBrain, e.g. ``lobes.models.ECAPA_TDNN``.

    Raises:
        InputError: SpeechBrain or torchaudio is not installed.
    """
    with importing("ECAPA-TDNN needs SpeechBrain", "audio"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import_torchaudio()
        found = importlib.import_module(f"speechbrain.{module}")
        _forget_lazy_modules()
    return found
