"""Errors whose message is all that the user needs to see."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches


class InputError(ValueError):
    """A user's mistake. The message names what is wrong, where, and what to do.

    The command line prints the message alone, without a traceback, and exits with code 2.
    """


class RunError(RuntimeError):
    """Something outside of the program broke a run off, e.g. another process of it died.

    The command line prints the message alone and exits with code 1.
    """


@contextmanager
def importing(use: str, extra: str) -> Iterator[None]:
    """Say of a package that cannot be imported what it is for, and which extra of ours has it.

    Example:
        >>> with importing("sheep are counted with no_such_package", "sheep"):
        ...     import no_such_package
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: sheep are counted with no_such_package, which cannot be \
imported (No module named 'no_such_package'); install it with: pip install 'lightning-sasv[sheep]'
    """
    try:
        yield
    except (ImportError, OSError) as error:
        raise InputError(
            f"{use}, which cannot be imported ({error}); install it with: "
            f"pip install 'lightning-sasv[{extra}]'"
        ) from None


def meant(word: str, known: Iterable[str]) -> str:
    """What a mistyped word was probably meant to be, as the end of a message; else nothing.

    Of dotted names the last part is compared, among those with the same beginning first.

    Example:
        >>> meant("evalute", ["evaluate", "export"])
        '; did you mean evaluate?'
        >>> meant("--model.lrr", ["--model.lr", "--model.in_dim"])
        '; did you mean --model.lr?'
    """
    place, dot, name = word.rpartition(".")
    names = {one: one.rpartition(".") for one in known}
    beside = {parts[2]: one for one, parts in names.items() if parts[0] == place}
    anywhere = {("" if dot else "--") + parts[2]: one for one, parts in names.items()}
    near = [beside[one] for one in get_close_matches(name, beside, 1)]
    near += [anywhere[one] for one in get_close_matches(name, anywhere, 1, 0.8)]
    return "".join(f"; did you mean {one}?" for one in near[:1])


def check_name(name: str, known: Collection[str], what: str) -> None:
    """Refuse a name that is none of those known.

    Example:
        >>> check_name("L3d", ["L2c", "L3c"], "no system")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: no system 'L3d'; there are L2c, L3c; did you mean L3c?
    """
    if name not in known:
        raise InputError(f"{what} {name!r}; there are {', '.join(known)}{meant(name, known)}")
