"""A bundle that answers line by line: an object of JSON in, one out, whatever the line was."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TextIO

from lightning_sasv.deploy import Scorer, Verifier
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.deploy.verifier import SCORES_ALONE
from lightning_sasv.errors import InputError
from lightning_sasv.files import finite
from lightning_sasv.limits import LINE_BYTES, parse_json

ID = "id"


class LineAnswers:
    """Answers requests that are lines of JSON.

    Args:
        scorer: Decides on scores.
        verifier: Decides on recordings; ``None`` where the bundle takes scores alone.
        models: Kept models of speakers.
    """

    def __init__(self, scorer: Scorer, verifier: Verifier | None, models: SpeakerModels) -> None:
        self.scorer, self.verifier, self.models = scorer, verifier, models
        pair = scorer.system.columns.is_pair
        self.names = ("asv", "cm") if pair else scorer.columns

    def run(self, asked: TextIO, said: TextIO) -> None:
        """Answer what comes until it ends, each line as soon as it is there."""
        for answer in self.answers(_limited(asked)):
            said.write(f"{answer}\n")
            said.flush()

    def answers(self, lines: Iterable[str]) -> Iterator[str]:
        """A line for each that is not empty; a bad one is answered with an error.

        An ``id`` is given back, with an error too where the line could be read.
        """
        for line in lines:
            if not line.strip():
                continue
            named: dict[str, Any] = {}
            try:
                asked = _read(line)
                named = {ID: asked.pop(ID)} if ID in asked else {}
                said = self._recordings(asked) if "probe" in asked else self._scores(asked)
            except (InputError, OSError) as error:  # or no name that a file can have
                said = {"error": " ".join(str(error).split())[:1000]}
            yield json.dumps(finite(named | said))

    def _scores(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if asked.keys() != {*self.names}:
            raise InputError(f"give {' and '.join(self.names)}, or a probe; got {[*asked][:9]}")
        values = {name: _number(name, asked[name]) for name in self.names}
        given = values.values() if self.scorer.system.columns.is_pair else [values]
        return self.scorer(*given).as_json(reason=True)

    def _recordings(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        if self.verifier is None:
            raise InputError(SCORES_ALONE)
        probe, files, name = (asked.get(key) for key in ("probe", "enrol", "name"))
        files = [files] if isinstance(files, str) else files or []
        texts = [probe, *(files if isinstance(files, list) else [None]), *([name] if name else [])]
        if not all(isinstance(one, str) for one in texts) or (not files) == (name is None):
            raise InputError("give the file of a probe, and enrol (files) or the name of a speaker")
        return self.verifier.decide(files, name, str(probe), self.models).as_json()


def _limited(stream: TextIO) -> Iterator[str]:
    """Lines of a stream; of one that is longer than any sound one its beginning, and no more."""
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="surrogateescape")  # a bad byte is a bad line, not the end
    while line := stream.readline(LINE_BYTES.now + 1):
        rest = line
        while len(rest) > LINE_BYTES.now and not rest.endswith("\n"):
            rest = stream.readline(LINE_BYTES.now + 1)
        yield line


def _read(line: str) -> dict[str, Any]:
    LINE_BYTES.check("this line", len(line))
    found = parse_json(line, "this line")
    if not isinstance(found, dict):
        raise InputError("a line must be an object, {…}")
    return found


def _number(name: str, value: Any) -> float:
    if type(value) not in (int, float):
        raise InputError(f"{name} must be a number, got {json.dumps(value)[:40]}")
    try:
        return float(value)
    except OverflowError:
        raise InputError(f"{name} is too large for a number") from None
