"""Docstrings as the site shows them: an extension of Griffe, which mkdocstrings reads code with."""

from __future__ import annotations

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"^Example:$", re.MULTILINE)
_ROLE = re.compile(r":(?:class|func|data|meth|mod|attr|exc):`~?([\w.]+)`")


class Docstrings(griffe.Extension):
    """Our docstrings in the words that Griffe knows: sections ``Examples``, and plain code."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Change the docstring of one object."""
        if obj.docstring is not None:
            text = _EXAMPLE.sub("Examples:", obj.docstring.value)
            obj.docstring.value = _ROLE.sub(r"`\1`", text)
