"""Errors whose message is all that the user needs to see."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


class InputError(ValueError):
    """A user's mistake. The message names what is wrong, where, and what to do.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


class RunError(RuntimeError):
    """Something outside of the program broke a run off, e.g. another process of it died.

    The command line prints the message alone and exits with code 1.
    """


def meant(word: str, known: Iterable[str]) -> str:
    """What a mistyped word was probably meant to be, as the end of a message; else nothing.

    Example:
        >>> meant("evalute", ["evaluate", "export"])
        '; did you mean evaluate?'
    """
    return "".join(f"; did you mean {one}?" for one in get_close_matches(word, list(known), 1))
