"""Argument parsers whose errors are one line instead of fifty."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from jsonargparse import ArgumentParser

_PLAIN = (
    (r"Parser key \"([^\"]+)\": ?", r"\1: "),
    (r"<class '(?:[\w.]+\.)?Sequence'>", "list such as [a,b]"),
    (r"<class 'NoneType'>", "null"),
    (r"<class '(?:[\w.]+\.)?(\w+)'>", r"\1"),
    (r"typing\.Literal\[(.*?)\]", r"one of \1"),
    (r"\. Got value: ", "; got "),
    (r", or [Ee]xpected an? ", ", or "),
    (r"[Ee]xpected an? (one of|null)", r"expected \1"),
)
"""How jsonargparse words a mistake, and what people call it."""


def one_line(message: str) -> str:
    """The message on one line; of a long list of failed types only what was expected is kept.

    Example:
        >>> one_line("model.lr: Expected a <class 'float'>. Got value: fast")
        'model.lr: Expected a float; got fast'
    """
    text = " ".join(message.split())
    found = re.match(
        r"(?P<key>.*?):.*?Union subtypes.*?Errors: - (?P<wanted>.*?) "
        r"Given value type: .*? Given value: (?P<value>.*)",
        text,
    )
    if found:
        wanted = dict.fromkeys(found["wanted"].split(" - "))  # each once, in order
        text = f"{found['key']}: {', or '.join(wanted)}; got {found['value']}"
    for pattern, plain in _PLAIN:
        text = re.sub(pattern, plain, text)
    return text


class OneLineErrors:
    """Mix-in for a jsonargparse parser: an error is one line on stderr and exit code 2."""

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Report an error in one line; nested parsers leave that to the outermost one."""
        if not self.exit_on_error:  # type: ignore[attr-defined]
            super().error(message, ex)  # type: ignore[misc]
        parser: Any = getattr(ex, "subcommand_parser", None) or self
        prog = parser.prog.replace(" [options]", "")
        text = f"{prog}: error: {one_line(message)} (see {prog} --help)\n"
        self.exit(2, text)  # type: ignore[attr-defined]
        raise SystemExit(2)


class OneLineParser(OneLineErrors, ArgumentParser):
    """The parser of commands that train nothing."""
