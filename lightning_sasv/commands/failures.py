"""What errors of Lightning's and of the system mean to the user."""

from __future__ import annotations

import re
import traceback

from lightning_fabric.utilities.exceptions import MisconfigurationException

from lightning_sasv.commands.arguments import one_line
from lightning_sasv.commands.configs import FAILED, blamed
from lightning_sasv.commands.loading import below
from lightning_sasv.errors import InputError, RunError

_LOST_PROCESS = ("Connection closed by peer", "gloo", "NCCL", "Timed out waiting")
_LIGHTNING = ("pytorch_lightning", "lightning_fabric")


def _is_lightnings(error: Exception) -> bool:
    """Whether Lightning itself says that a value is none, e.g. a strategy for another device."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    package = frame.f_globals.get("__name__", "").partition(".")[0]
    return isinstance(error, ValueError | TypeError | RuntimeError) and package in _LIGHTNING


def _of_object(text: str) -> str:
    """What is said of an object that could not be made, without the other things it could be."""
    found = FAILED.search(text)  # one of several loggers, say
    refused = re.search(r"\[Errno \d+\] ([^:]+): ('[^']*')", text)
    if refused:
        return f"cannot use {refused[2]}: {refused[1]}; choose another file or directory"
    return found[0] if found else text


def _of_system(error: OSError) -> InputError | None:
    """What an error with a file means; one of a stream is a matter of the terminal."""
    if error.filename is not None:
        where = f"cannot use {error.filename}: {error.strerror}"
        return InputError(f"{where}; choose another file or directory")
    if error.strerror:
        return None
    return InputError(one_line(str(error)))  # Lightning's own text, e.g. of a missing checkpoint


def as_message(error: Exception) -> InputError | RunError | None:
    """What an error of Lightning's means to the user; nothing for a mistake of ours."""
    if isinstance(error, OSError):
        return _of_system(error)
    found = below(error)
    if found is not None:
        return found
    if isinstance(error, ValueError) and "Does not validate against" in str(error):
        return InputError(_of_object(one_line(str(error))))
    if isinstance(error, MisconfigurationException) or _is_lightnings(error):
        return InputError(f"the Trainer refuses its settings: {one_line(str(error))}")
    if isinstance(error, RuntimeError) and any(word in str(error) for word in _LOST_PROCESS):
        return RunError(
            "another process of this run died or did not answer in time; its own message stands "
            "above. Resume with --ckpt_path last"
        )
    return blamed(error)
