"""How much of a file is read: what is larger than any sound one is refused before it is unpacked.

A few hundred bytes can stand for gigabytes: aliases of aliases, nested brackets, a table of equal
rows. Each limit is far above what the package writes, and all of them are multiplied by
``--limits FACTOR``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from lightning_sasv.errors import InputError
from lightning_sasv.program import program

if TYPE_CHECKING:
    import yaml


class Limit(NamedTuple):
    """The most of something that is read.

    Attributes:
        most: How many, before ``--limits`` multiplies it.
        what: Of what, in plural.
    """

    most: float
    what: str

    @property
    def now(self) -> int:
        """How many, with what ``--limits`` says."""
        return int(self.most * program().limits)

    def check(self, where: object, found: float, anyway: float = 0) -> None:
        """Refuse more than the limit, or than what the size of the file allows anyway."""
        most = max(self.now, int(anyway * program().limits))
        if found > most:
            raise InputError(
                f"{where}: more than {most:,} {self.what}, which no sound file has; where "
                "this one is sound, --limits FACTOR raises the limit"
            )


TEXT_BYTES = Limit(100_000_000, "bytes of JSON or YAML")
JSON_VALUES = Limit(2_000_000, "values in JSON")
YAML_VALUES = Limit(100_000, "values in YAML, its aliases written out")
ALIASES = Limit(1_000, "aliases in YAML")
DEPTH = Limit(64, "levels, one inside the other")
DIGITS = Limit(1_000, "characters of one number")
INTERPOLATED = Limit(200_000, "characters and values put in place of ${…}")
LINE_BYTES = Limit(2_000_000, "bytes in one line")
COLUMNS = Limit(10_000, "columns")
TABLE_CELLS = Limit(20_000_000, "cells in a compressed table of this size")
UNPACKED_BYTES = Limit(200_000_000, "bytes of a file of this size once it is unpacked")
CELLS_PER_BYTE, BYTES_PER_BYTE = 10, 50
"""A compressed table may hold so many per byte of the file, however large it is."""
TEXT_CELLS = Limit(500_000_000, "characters of a column, each name as wide as the widest")
AUDIO_SAMPLES = Limit(200_000_000, "samples of one recording, those of all channels counted")
GRID_POINTS = Limit(100_000, "points of a grid")


def check_depth(where: object, value: Any) -> None:
    """Refuse what is nested more deeply than programs that walk through it can follow."""
    level = [value]
    for depth in range(DEPTH.now + 2):
        DEPTH.check(where, depth if level else 0)
        inner = [one for one in level if isinstance(one, (dict, list))]
        level = [
            child for one in inner for child in (one.values() if isinstance(one, dict) else one)
        ]


def parse_json(content: bytes | str, where: object) -> Any:
    """Content of JSON of a bounded size.

    Raises:
        InputError: It is no JSON, or beyond a limit.
    """
    TEXT_BYTES.check(where, len(content))
    marks: tuple[Any, ...] = (",", "[", "{") if isinstance(content, str) else (b",", b"[", b"{")
    JSON_VALUES.check(where, 1 + sum(content.count(mark) for mark in marks))
    try:
        value = json.loads(content)
    except RecursionError:
        DEPTH.check(where, DEPTH.now + 1)
        raise
    except ValueError as error:
        raise InputError(f"{where} is not valid JSON ({error}); write it again") from None
    check_depth(where, value)
    return value


def _loader() -> Any:
    """PyYAML's safe loader, the one in C where there is one."""
    import yaml

    return getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Count:
    """Counts values while a YAML text is read, those behind aliases as often as they are named."""

    def __init__(self, where: object) -> None:
        self.where = where
        self.values = self.aliases = 0
        self.open: list[tuple[str | None, int]] = []  # anchors of what is not closed, count before
        self.sizes: dict[str, int] = {}  # values behind an anchor

    def add(self, values: int) -> None:
        self.values += values
        YAML_VALUES.check(self.where, self.values)

    def scalar(self, event: yaml.ScalarEvent) -> None:
        self.add(1)
        if (event.tag or event.implicit[0]) and _LIKE_A_NUMBER(event.value):
            DIGITS.check(self.where, len(event.value))
        if event.anchor:
            self.sizes[event.anchor] = 1

    def alias(self, event: yaml.AliasEvent) -> None:
        self.aliases += 1
        ALIASES.check(self.where, self.aliases)
        if event.anchor in [anchor for anchor, _ in self.open]:
            raise InputError(
                f"{self.where}, line {event.start_mark.line + 1}: *{event.anchor} stands inside of "
                "what it stands for; write out what is meant"
            )
        self.add(self.sizes.get(event.anchor, 1))

    def begin(self, event: yaml.CollectionStartEvent) -> None:
        self.open.append((event.anchor, self.values))
        self.add(1)
        DEPTH.check(self.where, len(self.open))

    def end(self, _: yaml.Event) -> None:
        anchor, before = self.open.pop()
        if anchor:
            self.sizes[anchor] = self.values - before


_LIKE_A_NUMBER: Callable[[str], object] = re.compile(r"[-+.\d][\d_:.,eExXa-fA-F+-]*\Z").match


def check_yaml(content: bytes | str, where: object) -> None:
    """Refuse YAML beyond the limits, before anything is made of it.

    Raises:
        InputError: It is beyond a limit, or an alias stands inside of itself.
        yaml.YAMLError: It is no YAML.
    """
    import yaml

    TEXT_BYTES.check(where, len(content))
    alias: Any = b"*" if isinstance(content, bytes) else "*"
    if len(content) <= DEPTH.most and alias not in content:  # too short for any harm
        return
    count = _Count(where)
    kinds: dict[type, Callable[..., None]] = {
        yaml.ScalarEvent: count.scalar,
        yaml.AliasEvent: count.alias,
        yaml.SequenceStartEvent: count.begin,
        yaml.MappingStartEvent: count.begin,
        yaml.SequenceEndEvent: count.end,
        yaml.MappingEndEvent: count.end,
    }
    for event in yaml.parse(content, Loader=_loader()):
        if type(event) in kinds:
            kinds[type(event)](event)


MISTAKES = (ValueError, RecursionError, LookupError, AttributeError)
"""What PyYAML raises beside errors of its own: for ``!!bool x`` a ``KeyError``, say."""


def mistake(error: BaseException) -> str:
    """What PyYAML could not read, in words."""
    if isinstance(error, (ValueError, RecursionError)):
        return str(error)
    return "a value is not of the type that its tag (!!…) says"


def parse_yaml(content: bytes | str, where: object) -> Any:
    """Content of YAML of a bounded size; a mistake in it is reported by line.

    Raises:
        InputError: It is no YAML, or beyond a limit.
    """
    import yaml

    try:
        check_yaml(content, where)
        return yaml.load(content, Loader=_loader())
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise InputError(f"{where}{line}: not valid YAML: {problem}") from None
    except InputError:
        raise
    except MISTAKES as error:
        raise InputError(f"{where}: not valid YAML: {mistake(error)}") from None
