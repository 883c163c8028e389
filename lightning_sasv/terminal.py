"""Standard output and error as they are: in any encoding, closed, full, or read by ``head``."""

from __future__ import annotations

import codecs
import errno
import os
import re
import select
import sys
import unicodedata
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import NoReturn

BROKEN_OFF, USER_ERROR = 1, 2

_CONTROLS = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # C0, DEL, C1
    "\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff"  # direction, line ends, mark
    "\ud800-\udfff\ufff9-\ufffb\U000e0000-\U000e007f]"  # no characters at all, invisible ones
)
_PLAIN = {
    **dict.fromkeys("–—−─━", "-"),
    **dict.fromkeys("‘’", "'"),
    **dict.fromkeys("“”„", '"'),
    **{"·": ".", "×": "x", "→": ">", "←": "<", "±": "+-", "✓": "+", "✗": "x", "…": "~"},
    **{"π": "pi", "μ": "mu", "λ": "lambda", "τ": "tau", "ρ": "rho", "≤": "<=", "≥": ">="},
}
"""What our own texts hold beside ASCII, for terminals that know nothing else."""


def _escaped(found: re.Match[str]) -> str:
    code = ord(found[0])
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is no UTF-8, e.g. in the name of a file
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else found[0].encode("unicode_escape").decode()


def clean(text: object) -> str:
    r"""A text from a file or a name, to be shown in one line: what would act on a terminal is seen.

    Example:
        >>> print(clean("a\x1b[2Jb\nc\u202ed\udcff"))
        a\x1b[2Jb\x0ac\u202ed\xff
    """
    return _CONTROLS.sub(_escaped, str(text))


def in_a_row(text: str) -> str:
    r"""A text in a line or cell of Markdown, neither of which it ends; it links to nothing.

    Example:
        >>> print(in_a_row("a|b\n[c](d)"))
        a\|b [c]\(d)
    """
    return clean(" ".join(text.split())).replace("|", r"\|").replace("](", r"]\(")


def _nearest(error: UnicodeError) -> tuple[str, int]:
    """Error handler of encoding: the nearest text that the encoding knows."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    return "".join(map(_nearest_to, text)), error.end


def _nearest_to(character: str) -> str:
    plain = unicodedata.normalize("NFKD", _PLAIN.get(character, character))
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    return plain if plain and plain.isascii() else character.encode("unicode_escape").decode()


codecs.register_error("lightning_sasv.nearest", _nearest)


def fail(message: str, code: int = USER_ERROR, who: str = "lightning") -> NoReturn:
    """End the program with a line on standard error."""
    with suppress(OSError, ValueError):  # nobody is there to read it
        sys.stderr.write(f"{who}: error: {clean(message)}\n")
        sys.stderr.flush()
    raise SystemExit(code)


def _open_streams() -> None:
    """Give closed streams an end: a file that is opened later must not become one of them."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number, which is this one
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, "w" if number else "r", closefd=False))  # noqa: SIM115


@contextmanager
def _any_character(stream: object) -> Iterator[None]:
    """Let a stream take what its encoding cannot say."""
    before = getattr(stream, "errors", None)
    if before is None or not hasattr(stream, "reconfigure"):
        yield
        return
    stream.reconfigure(errors="lightning_sasv.nearest")
    try:
        yield
    finally:
        with suppress(OSError, ValueError):
            stream.reconfigure(errors=before)


def format_warning(message: Warning | str, *_: object, **__: object) -> str:
    """A warning in one line."""
    return f"lightning: warning: {clean(' '.join(str(message).split()))}\n"


def _reader_is_gone() -> bool:
    """Whether standard output is a pipe that nobody reads; what it held may be lost already."""
    with suppress(OSError, ValueError, AttributeError):
        poll = select.poll()
        poll.register(sys.stdout.fileno(), 0)
        return any(event & select.POLLERR for _, event in poll.poll(0))
    return False


def _why_broken() -> OSError | None:
    """Why standard output takes nothing more, if so; what it still holds is given up then."""
    try:
        sys.stdout.flush()
        if _reader_is_gone():
            raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    except OSError as error:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return error
    except ValueError:  # closed by somebody
        pass
    return None


def _end_if_broken() -> None:
    """A reader that has gone has enough; a full device is the user's to empty."""
    broken = _why_broken()
    if isinstance(broken, BrokenPipeError):
        raise SystemExit(0)
    if broken is not None:
        fail(f"cannot write to standard output: {broken.strerror}", BROKEN_OFF)


@contextmanager
def terminal() -> Iterator[None]:
    """Prepare the streams for whatever a command prints, and bear what becomes of them.

    A reader that goes away, as ``head`` does, ends the program without a word; a full device with
    a line and exit code 1.
    """
    _open_streams()
    with ExitStack() as stack:
        stack.callback(setattr, warnings, "formatwarning", warnings.formatwarning)
        warnings.formatwarning = format_warning
        for stream in (sys.stdout, sys.stderr):
            stack.enter_context(_any_character(stream))
        try:
            yield
        except OSError as error:
            _end_if_broken()
            if error.strerror is None:  # no word of the system's
                raise
            fail(f"the system refuses to go on: {error.strerror}", BROKEN_OFF)
        except SystemExit as ended:
            if ended.code:
                _why_broken()
            else:
                _end_if_broken()
            raise
        _end_if_broken()
