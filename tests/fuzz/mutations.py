"""Broken files: random bytes, random text, and valid files with some bytes changed."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

EXAMPLES = int(os.environ.get("SASV_FUZZ_EXAMPLES", "200"))
"""Examples of each test; ``make fuzz`` takes 10,000."""

fuzzed = partial(
    settings,
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    derandomize="SASV_FUZZ_EXAMPLES" not in os.environ,
)()

WORDS = ["nan", "inf", "-1", "1e999", '"', "'", "\t", "\r\n", "\n\n", ",", " ", "\0", "\ufeff"]
WORDS += ["../../x", "<script>", "é", "\ud7ff", "{}", "[", "&a", "*a", "!!python/name:os.system"]
ROWS = st.lists(
    st.lists(
        st.sampled_from(
            ["target", "spoof", "bonafide", "-", "1", "0", "0.5", "nan", "x", "", '"', "1,5",
             "label", "asv_score", "cm_score", "score", "speaker", "utterance", "filename",
             "cm-score", "é", "\ufeff", "\r", "1e999", "\x00", "A07"]
        ),
        max_size=6,
    ),
    max_size=5,
)  # fmt: skip
"""Words of score files in any order."""


@st.composite
def mutations(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid file with a few pieces cut out, doubled, overwritten or put in."""
    content = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        size = draw(st.integers(0, min(40, len(content) - start)))
        kind = draw(st.integers(0, 3))
        piece = bytes(content[start : start + size])
        if kind == 1:
            piece += piece
        elif kind == 2:
            piece = draw(st.binary(max_size=8))
        else:
            piece = draw(st.sampled_from(WORDS)).encode() if kind == 3 else b""
        content[start : start + size] = piece
    return bytes(content)


def contents(*valid: bytes) -> st.SearchStrategy[bytes]:
    """What a file may hold: anything, or almost one of the valid files."""
    rows = st.tuples(st.sampled_from([" ", ",", "\t"]), ROWS).map(
        lambda drawn: "\n".join(drawn[0].join(row) for row in drawn[1])
    )
    texts = st.text(max_size=200) | rows
    wild = st.binary(max_size=200) | texts.map(str.encode)
    start = st.sampled_from([b"", *valid])
    return st.one_of(
        st.sampled_from(valid).flatmap(mutations), st.tuples(start, wild).map(b"".join)
    )


def bytes_of(folder: Path, write: Callable[[Path], object]) -> bytes:
    """Bytes of a file that one of our writers writes."""
    path = folder / "valid"
    write(path)
    return path.read_bytes()
