"""The one place that imports SpeechBrain, with a guard against a torchaudio that does not load.

PyPI's torchaudio is built for CUDA; beside a CPU build of torch its compiled library cannot be
opened and the import raises ``OSError``. SpeechBrain needs only torchaudio's Python part, so that
in this case the compiled extension is replaced by a stand-in that says "not available". A
torchaudio that can be imported is left alone.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Callable
from types import ModuleType
from typing import Any

from lightning_sasv.errors import InputError

_EXTENSION = "torchaudio._extension"


def _stand_in() -> ModuleType:
    """A ``torchaudio._extension`` without compiled code."""

    def fail_if_no_align(function: Callable[..., Any]) -> Callable[..., Any]:
        return function

    module = ModuleType(_EXTENSION)
    module.__dict__.update(
        _IS_TORCHAUDIO_EXT_AVAILABLE=False,
        _IS_ALIGN_AVAILABLE=False,
        fail_if_no_align=fail_if_no_align,
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
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import_torchaudio()
            found = importlib.import_module(f"speechbrain.{module}")
            _forget_lazy_modules()
            return found
    except ImportError as error:
        raise InputError(
            f"ECAPA-TDNN needs SpeechBrain, which cannot be imported ({error}); "
            "install it with: pip install 'lightning-sasv[audio]'"
        ) from None
