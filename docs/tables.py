"""Tables of the pages, from the registries themselves: nothing in them is written by hand."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import indent
from typing import Any

from docstring_parser import parse
from jsonargparse import auto_parser

from lightning_sasv.cli import COMMANDS, TRAINING, command_function
from lightning_sasv.commands.arguments import parser_settings
from lightning_sasv.data.profiles import profiles
from lightning_sasv.decisions import PRESETS
from lightning_sasv.fusion import JOINT_SYSTEMS, KNOWN, PAPER_SYSTEMS
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.metrics.registry import ASV_POINTS, CM_POINTS, METRICS
from lightning_sasv.scores import LAYOUTS

REPOSITORY = Path(__file__).resolve().parents[1]
UNITS = {"rate": "per cent", "bits": "bits", "cost": "cost", "score": "score", "flag": "yes or no"}
SHOWN = {
    "groups": "breakdowns",
    "compared": "comparisons",
    "results": "after training",
    "page": "report",
    "table1": "Table 1",
}


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Rows in Markdown; bars in cells are written so that they do not end them."""
    lines = [list(map(str, row)) for row in rows]
    cells = [headings, ["---"] * len(headings), *lines]
    return "\n".join(
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row) + " |"
        for row in cells
    )


def code(text: object) -> str:
    """A text as code, or nothing."""
    return f"`{text}`" if str(text) else ""


def codes(texts: Iterable[object]) -> str:
    """Several such texts."""
    return ", ".join(map(code, texts))


def metrics() -> str:
    """Every metric."""
    rows = (
        (
            code(one.name),
            one.heading,
            UNITS[one.unit],
            " and ".join(one.columns),
            one.meaning or "",
            ", ".join(said for place, said in SHOWN.items() if place in one.tables),
        )
        for one in METRICS.values()
    )
    return table(("name", "heading", "in", "of", "meaning", "also shown in"), rows)


def layouts() -> str:
    """Every layout of score files, keys and protocols."""
    rows = (
        (
            codes((one.name, *one.aliases)),
            one.about,
            code(one.describe()) if one.separator and not one.open else "any, by their headings",
            "by name or labels" if one.role_by_labels else one.role if one.numbers else "key",
            _labels(one.labels) if "label" in one.columns or one.open else "",
        )
        for one in LAYOUTS.values()
    )
    return table(("name", "what", "columns", "score of", "labels"), rows)


def _labels(words: Mapping[str, str]) -> str:
    """What a label column may say: numbers with what they mean, of words the classes alone."""
    if any(re.fullmatch(r"-?\d+", word) for word in words):
        return ", ".join(f"{code(word)} {label}" for word, label in words.items())
    return ", ".join(dict.fromkeys(words.values()))


def systems() -> str:
    """Every system that has a name; what it is stands first in its configuration."""

    def row(name: str, settings: dict[str, Any]) -> tuple[str, ...]:
        whose = "paper" if name in PAPER_SYSTEMS else "joint" if name in JOINT_SYSTEMS else "ours"
        lines = (REPOSITORY / "configs" / f"{name}.yaml").read_text("utf-8").splitlines()
        about = next(line for line in lines if line.startswith("# ") and line.endswith("."))
        main = [code(settings.get(stage, "")) for stage in ("density", "calibration", "rule")]
        rest = [f"{key}: {value}" for key, value in settings.items() if key not in _STAGES]
        return code(name), whose, about.removeprefix("# ").rstrip("."), *main, codes(rest)

    headings = ("name", "whose", "what", "density", "calibration", "rule", "further settings")
    return table(headings, (row(name, settings) for name, settings in KNOWN.items()))


_STAGES = ("density", "calibration", "rule")


def settings() -> str:
    """Settings of a fusion system."""
    said = {one.arg_name: one.description for one in parse(inspect.getdoc(Fusion) or "").params}
    rows = (
        (code(name), code(one.default), (said[name] or "").replace("``", "`"))
        for name, one in inspect.signature(Fusion).parameters.items()
    )
    return table(("setting", "default", "meaning"), rows)


def presets() -> str:
    """Costs and priors that have names."""
    fields = ("c_miss", "c_fa_nontarget", "c_fa_spoof", "p_target", "p_nontarget", "p_spoof")
    rows = (
        (
            code(name),
            *(f"{getattr(one, field):.4g}" for field in fields),
            f"{one.spoof_share:.3f}",
            f"{-one.log_beta:+.3f}".replace("-", "−"),
        )
        for name, one in PRESETS.items()
    )
    return table(("preset", *map(code, fields), "ρ̃", "threshold −log β̃"), rows)


def points() -> str:
    """Operating points of the DCFs of a verifier and of a countermeasure."""
    rows = [
        (code(f"--dcf {name}"), *(", ".join(f"{x[k]:g}" for x in found) for k in range(3)))
        for name, found in ASV_POINTS.items()
    ]
    rows += [
        (code(f"--cm-dcf {name}"), *(f"{x:g}" for x in found)) for name, found in CM_POINTS.items()
    ]
    return table(("option", "prior of targets, of spoofs", "miss", "false acceptance"), rows)


def corpora() -> str:
    """Every corpus, with the lists of its sets."""
    rows = (
        (
            f"{code(name)}<br>{one.about}<br>costs {code(one.costs)}",
            kind,
            "<br>".join(f"{code(file)} ({layout})" for file, layout in files.lists.items()),
            "<br>or ".join("<br>".join(map(code, group)) for group in files.enrolment),
            codes(files.audio),
        )
        for name, one in profiles().items()
        for kind, files in one.sets()
    )
    return table(("corpus", "set", "lists (layout)", "enrolment", "audio"), rows)


def options() -> str:
    """The options of every command, as its help has them."""
    parts = ["## Training\n\nOptions of `fit`; `validate`, `test` and `predict` share them.\n"]
    parts += [table(("command", "does"), ((code(n), said) for n, said in TRAINING.items()))]
    told = (REPOSITORY / "lightning_sasv/commands/help/fit.txt").read_text("utf-8")
    parts += ['??? note "lightning fit --help"', indent(f"```text\n{told}```", "    ")]
    for name, (_, _, said) in COMMANDS.items():
        function = command_function(name)
        parser: Any = auto_parser(function, **parser_settings(name, function))
        rows, about = [_option(one) for one in parser._actions], _linked(parser.description)
        parts += [f"## lightning {name}\n\n{said[0].upper()}{said[1:]}.\n\n{about}"]
        parts += [table(("option", "default", "meaning"), [row for row in rows if row])]
    return "\n\n".join(parts)


def _option(action: Any) -> tuple[str, ...]:
    """A row of an option; none for what every command has."""
    if action.dest in ("help", "config", "print_config") or action.help in (None, "==SUPPRESS=="):
        return ()
    if not action.option_strings:
        return code(action.dest.upper()), "", _linked(action.help)
    default = action.default
    shown = "" if default is None or str(default).startswith(("Namespace", "==")) else default
    shown = {True: "true", False: "false"}[shown] if isinstance(shown, bool) else shown
    return codes(action.option_strings), code(shown), _linked(action.help)


def _linked(text: str) -> str:
    """A text in which pages that it names are links, and nothing is taken for HTML."""
    text = text.replace("``", "`").replace("<", "&lt;").replace("*", "\\*")
    text = re.sub(r"\$(?=\w)", "\\$", text)
    return re.sub(r"docs/(\w+)\.md", r"[\1](../\1.md)", text)


TABLES: dict[str, Callable[[], str]] = {
    "metrics": metrics,
    "layouts": layouts,
    "systems": systems,
    "settings": settings,
    "presets": presets,
    "points": points,
    "corpora": corpora,
    "options": options,
}
"""Tables by the names that pages ask for them with."""
