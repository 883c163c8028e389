"""Front ends as ONNX graphs: exported with torch, run without it (``runtime.py``).

AASIST is exported as it works on one recording, the time axis in one piece. Of ECAPA the network
alone: onnxruntime's STFT is inexact for windows that are no power of two (error 1e-5 of the largest
bin at 400), so that features are computed by numpy with the window and mel matrix of the module.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256, write_arrays
from lightning_sasv.frontends.aasist import AASIST
from lightning_sasv.frontends.aasist_encoder import in_one_piece
from lightning_sasv.frontends.base import FrontEnd, describe
from lightning_sasv.frontends.ecapa import ECAPA
from lightning_sasv.frontends.runtime import SETTINGS, file_names

OPSET = 17
_CLOVA, _SPEECHBRAIN = "MIT (clovaai/aasist)", "Apache-2.0 (speechbrain/spkrec-ecapa-voxceleb)"
LICENCES = {
    "51d2d9cf0738172f61e2a384ec50a54a55363240f67c971ed55a92435bc1a1c0": _CLOVA,  # AASIST.pth
    "814331d088032bb4c3fa61cc014789eadeed464209dd094ab3a2dd6ffbdce27a": _CLOVA,  # AASIST-L.pth
    "0575cb64845e6b9a10db9bcb74d5ac32b326b8dc90352671d345e2ee3d0126a2": _SPEECHBRAIN,
}
"""Of the published weights, by their SHA-256."""


class _Graph(nn.Module):
    """What is exported: a function of one tensor that gives embeddings, with its module."""

    def __init__(self, module: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.module, self.function = module, function
        self.eval()  # the exporter gives every module the mode that this one has

    def forward(self, values: Tensor) -> Tensor:
        return self.function(values)


def export_front_end(front_end: FrontEnd, folder: str | Path, kind: str) -> dict[str, Any]:
    """Write a front end as ``<kind>.onnx``, with ``<kind>_features.safetensors`` where it needs it.

    Args:
        front_end: AASIST or SpeechBrain's ECAPA.
        folder: Where to write.
        kind: ``asv`` or ``cm``.

    Returns:
        What a bundle says of it: class, weights, sizes, licence, and the SHA-256 of each file.

    Raises:
        InputError: Another class of front end, or a package is missing.
    """
    folder = Path(folder)
    files = [folder / name for name in file_names(kind)]
    if isinstance(front_end, AASIST):
        example = torch.zeros(1, front_end.samples)
        _write(_Graph(front_end, front_end.embed_whole), example, files[0], {0: "batch"})
        files = files[:1]
    elif isinstance(front_end, ECAPA):
        example = torch.zeros(1, 404, front_end.features.compute_fbanks.n_mels)
        network = _Graph(front_end.network, lambda bands: front_end.network(bands).squeeze(1))
        _write(network, example, files[0], {0: "batch", 1: "frames"})
        _write_features(front_end, files[1])
    else:
        raise InputError(
            f"{type(front_end).__name__} cannot be written as a graph: only AASIST and ECAPA can; "
            "export without --with-front-ends, and give the network's weights to `verify`"
        )
    about = describe(front_end) | {"runtime": "onnx", "opset": OPSET}
    unknown = "not known: these are not the published weights"
    found = {LICENCES.get(digest, unknown) for digest in about["weights_sha256"].values()}
    licence = ", ".join(sorted(found)) or unknown
    return about | {"licence": licence, "files": {one.name: sha256(one) for one in files}}


def _write(graph: _Graph, example: Tensor, path: Path, axes: dict[int, str]) -> None:
    """Export a graph whose named axes are free."""
    try:
        import onnx
    except ImportError as error:
        raise InputError(
            f"graphs are written with onnx, which cannot be imported ({error}); install it with: "
            "pip install 'lightning-sasv[onnx]'"
        ) from None
    with warnings.catch_warnings(), in_one_piece(), torch.no_grad():
        warnings.simplefilter("ignore")  # shapes of a fixed length are constants, as they should be
        torch.onnx.export(
            graph,
            (example,),
            str(path),
            dynamo=False,  # the other one ignores free axes of ECAPA, and takes ten times as long
            opset_version=OPSET,
            input_names=["values"],
            output_names=["embedding"],
            dynamic_axes={"values": axes, "embedding": {0: "batch"}},
        )
    onnx.checker.check_model(str(path))


def _write_features(front_end: ECAPA, path: Path) -> None:
    """Window and mel matrix of SpeechBrain's features, and their settings."""
    spectrum, bands = front_end.features.compute_STFT, front_end.features.compute_fbanks
    as_decibels, bands.log_mel = bands.log_mel, False
    try:
        mel = bands(torch.eye(spectrum.n_fft // 2 + 1)[None])[0]
    finally:
        bands.log_mel = as_decibels
    settings = {"hop": spectrum.hop_length, "floor": bands.amin, "range_db": bands.top_db}
    arrays = {"window": spectrum.window.numpy(), "mel": mel.contiguous().numpy()}
    write_arrays(path, arrays, {SETTINGS: json.dumps(settings, sort_keys=True)})
