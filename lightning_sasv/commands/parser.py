"""Argument parsers whose errors are one line instead of fifty."""

from __future__ import annotations

import re
from typing import Any, NoReturn

from jsonargparse import ArgumentParser


def one_line(message: str) -> str:
    """The message on one line; of a long list of failed types only what was expected is kept."""
    text = " ".join(message.split())
    found = re.match(
        r"(?P<key>.*?):.*?Union subtypes.*?Errors: - (?P<wanted>.*?) "
        r"Given value type: .*? Given value: (?P<value>.*)",
        text,
    )
    if not found:
        return text
    wanted = found["wanted"].replace(" - ", ", or ")
    return f"{found['key']}: {wanted}; got {found['value']}"


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
