"""Front ends as ONNX graphs: written with torch, run without it by onnxruntime.

AASIST is exported as it works on one recording, the time axis in one piece. Of ECAPA the network
alone: onnxruntime's STFT is inexact for windows that are no power of two (error 1e-5 of the largest
bin at 400), so that features are computed by numpy with the window and mel matrix of the module.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.errors import InputError, importing
from lightning_sasv.files import inside, read_arrays, sha256, write_arrays
from lightning_sasv.frontends.audio import RATES, SAMPLES

if TYPE_CHECKING:
    from torch import Tensor, nn

    from lightning_sasv.frontends.base import FrontEnd
    from lightning_sasv.frontends.ecapa import ECAPA

SETTINGS = "lightning_sasv"
Array = np.ndarray
_MOST = 10_000_000
"""Samples that a graph may look at, ten minutes at 16 kHz and a little more."""
_ELSEWHERE = b"location"
"""How a graph names a file with values of its own: any file of this machine, if it were read."""

OPSET = 17
_CLOVA, _SPEECHBRAIN = "MIT (clovaai/aasist)", "Apache-2.0 (speechbrain/spkrec-ecapa-voxceleb)"
LICENCES = {
    "51d2d9cf0738172f61e2a384ec50a54a55363240f67c971ed55a92435bc1a1c0": _CLOVA,  # AASIST.pth
    "814331d088032bb4c3fa61cc014789eadeed464209dd094ab3a2dd6ffbdce27a": _CLOVA,  # AASIST-L.pth
    "0575cb64845e6b9a10db9bcb74d5ac32b326b8dc90352671d345e2ee3d0126a2": _SPEECHBRAIN,
}
"""Of the published weights, by their SHA-256."""


def file_names(kind: str) -> tuple[str, str]:
    """The graph of a kind of front end, and what its features are made with."""
    return f"{kind}.onnx", f"{kind}_features.safetensors"


class Fbank:
    """Log-mel features as SpeechBrain computes them, their mean over time subtracted.

    Frames of a waveform that is padded with half a window of zeros on both sides, times the window,
    power of their spectra times the mel matrix, 10 log10(max(·, floor)), nothing more than
    ``range_db`` below the largest value, minus the mean over time.

    Args:
        window: Window (samples,), as long as the transform.
        mel: Matrix (bins, bands).
        hop: Samples from one frame to the next.
        floor: Least power.
        range_db: Range below the largest value.
    """

    def __init__(self, window: Array, mel: Array, hop: int, floor: float, range_db: float) -> None:
        if mel.ndim != 2 or window.shape != (2 * (len(mel) - 1),) or not 1 <= hop <= window.size:
            raise ValueError(f"window {window.shape}, mel {mel.shape}, hop {hop}")
        self.window, self.mel = window.astype(np.float64), mel.astype(np.float64)
        self.hop, self.floor, self.range_db = int(hop), float(floor), float(range_db)

    @classmethod
    def read(cls, path: Path) -> Fbank:
        """Features of a file that a graph was exported with."""
        try:
            settings, arrays = read_arrays(path, SETTINGS)
            return cls(arrays["window"], arrays["mel"], **settings)
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}); export the bundle again") from None

    def __call__(self, waveform: Array) -> Array:
        """(frames, bands) of a waveform (time,), float32."""
        size = self.window.size
        padded = np.pad(waveform.astype(np.float64), size // 2)
        frames = np.lib.stride_tricks.sliding_window_view(padded, size)[:: self.hop]
        power = np.abs(np.fft.rfft(frames * self.window)) ** 2 @ self.mel
        decibels = 10 * np.log10(np.maximum(power, self.floor))
        decibels = np.maximum(decibels, decibels.max() - self.range_db)
        return np.asarray(decibels - decibels.mean(axis=0), dtype=np.float32)


class GraphFrontEnd:
    """A front end that was exported by :func:`export_front_end`.

    Args:
        folder: Folder of its files.
        kind: ``asv`` or ``cm``.
        about: What the export said of it.
        threads: Threads that a recording may use.

    Raises:
        InputError: A file is missing, altered or no graph, or onnxruntime is not installed.
    """

    def __init__(
        self, folder: str | Path, kind: str, about: Mapping[str, Any], threads: int = 1
    ) -> None:
        try:
            self.dim, self.sample_rate = int(about["dim"]), int(about["sample_rate"])
            self.samples = None if about["samples"] is None else int(about["samples"])
            recorded = {str(name): str(digest) for name, digest in about["files"].items()}
            least, most = RATES
            if not least <= self.sample_rate <= most or not 0 < (self.samples or 1) <= _MOST:
                raise ValueError(f"{self.samples} samples at {self.sample_rate} Hz")
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InputError(f"{folder}: the {kind} front end is not described ({error})") from None
        graph, features = (Path(folder) / name for name in file_names(kind))
        for name in recorded:
            if name not in (graph.name, features.name):
                raise InputError(f"{folder}: {name!r} is no file of a front end")
        for path in (Path(folder) / name for name in recorded):
            inside(Path(folder).parent, path)
            if not path.is_file() or sha256(path) != recorded[path.name]:
                state = "was altered or damaged" if path.is_file() else "is missing"
                raise InputError(f"{path} {state}; export the bundle again")
        self._features = Fbank.read(features) if features.name in recorded else None
        self._path, self._session = graph, _session(graph, threads)
        self._input = self._session.get_inputs()[0].name

    def embed(self, waveforms: Sequence[Array]) -> Array:
        """Embeddings (batch, dim) of waveforms (time,) of any lengths, one by one."""
        return np.stack([self._embed_one(np.asarray(one, np.float32)) for one in waveforms])

    def _embed_one(self, waveform: Array) -> Array:
        if waveform.ndim != 1 or not waveform.size:
            raise InputError(f"a waveform has one axis and samples, got shape {waveform.shape}")
        if self.samples is not None:  # the first ones, or the recording repeated end to end
            waveform = np.resize(waveform[: self.samples], self.samples)
        values = waveform if self._features is None else self._features(waveform)
        try:
            found = np.asarray(self._session.run(None, {self._input: values[None]})[0][0])
        except Exception as error:  # onnxruntime's own classes, which differ by version
            reason = str(error).splitlines()[0][:200]
            raise InputError(f"{self._path} fails on a recording ({reason})") from None
        if found.shape != (self.dim,) or found.dtype.kind != "f":
            raise InputError(
                f"{self._path} gives {found.dtype} {found.shape}, not {self.dim} values"
            )
        return found


def _session(path: Path, threads: int) -> Any:
    content = path.read_bytes()
    if _ELSEWHERE in content:
        raise InputError(f"{path} is refused: it has parts in other files")
    with importing("graphs are run by onnxruntime", "onnx"):
        import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 4  # what is wrong is said here
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime's own classes, which differ from version to version
        reason = str(error).splitlines()[0][:200]
        raise InputError(f"{path} is no graph that can be run ({reason})") from None


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
    import torch
    from torch import nn

    from lightning_sasv.frontends.aasist import AASIST
    from lightning_sasv.frontends.aasist_layers import in_one_piece
    from lightning_sasv.frontends.base import describe
    from lightning_sasv.frontends.ecapa import ECAPA

    folder = Path(folder)
    files = [folder / name for name in file_names(kind)]
    module: nn.Module
    if isinstance(front_end, AASIST):
        files, module, axes = files[:1], front_end, {0: "batch"}
        example = torch.zeros(1, SAMPLES)
    elif isinstance(front_end, ECAPA):
        example = torch.zeros(1, 404, front_end.features.compute_fbanks.n_mels)
        module, axes = nn.Sequential(front_end.network, nn.Flatten()), {0: "batch", 1: "frames"}
        _write_features(front_end, files[1])
    else:
        raise InputError(
            f"{type(front_end).__name__} cannot be written as a graph: only AASIST and ECAPA can; "
            "export without --with-front-ends, and give the network's weights to `verify`"
        )
    with importing("graphs are written with onnx", "onnx"):
        import onnx  # noqa: F401
    with in_one_piece():
        free = {"values": axes, "embedding": {0: "batch"}}
        write_onnx(module, (example,), files[0], ["values"], ["embedding"], free)
    about = describe(front_end) | {"runtime": "onnx", "opset": OPSET}
    unknown = "not known: these are not the published weights"
    found = {LICENCES.get(digest, unknown) for digest in about["weights_sha256"].values()}
    licence = ", ".join(sorted(found)) or unknown
    return about | {"licence": licence, "files": {one.name: sha256(one) for one in files}}


def write_onnx(
    module: nn.Module,
    examples: tuple[Tensor, ...],
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    free: dict[str, dict[int, str]],
) -> None:
    """Write a module as an ONNX graph, and check that it is one.

    Args:
        module: Takes the examples, gives a tensor for each output.
        examples: A tensor for each input.
        path: File to write.
        inputs: Names of the inputs.
        outputs: Names of the outputs.
        free: Names of the axes of inputs and outputs whose lengths are free.
    """
    import onnx
    import torch

    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # constants, as shapes of a fixed length, are constants
        torch.onnx.export(
            module.eval(),  # the exporter gives every module the mode that this one has
            examples,
            str(path),
            dynamo=False,  # the other one ignores free axes of ECAPA, and takes ten times as long
            opset_version=OPSET,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_axes=free,
        )
    onnx.checker.check_model(str(path))


def _write_features(front_end: ECAPA, path: Path) -> None:
    """Window and mel matrix of SpeechBrain's features, and their settings."""
    import torch

    spectrum, bands = front_end.features.compute_STFT, front_end.features.compute_fbanks
    as_decibels, bands.log_mel = bands.log_mel, False
    try:
        mel = bands(torch.eye(spectrum.n_fft // 2 + 1)[None])[0]
    finally:
        bands.log_mel = as_decibels
    settings = {"hop": spectrum.hop_length, "floor": bands.amin, "range_db": bands.top_db}
    arrays = {"window": spectrum.window.numpy(), "mel": mel.contiguous().numpy()}
    write_arrays(path, arrays, {SETTINGS: json.dumps(settings, sort_keys=True)})
