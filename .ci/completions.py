"""Completions for shells, made by shtab from the options of every command.

They are shipped in ``lightning_sasv/starting/completions``, since a shell reads them whenever it
starts and the parsers take seconds to make.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from typing import Any, Literal, get_args, get_origin

import shtab
from parsers import command_parser, training_parser

from lightning_sasv.cli import COMMANDS, TRAINING, command_function
from lightning_sasv.commands.arguments import SEVERAL, optional_place
from lightning_sasv.commands.train import BARE
from lightning_sasv.data.profiles import profiles
from lightning_sasv.decisions.costs import PRESETS
from lightning_sasv.fusion.zoo import GROUPS, KNOWN
from lightning_sasv.models.heads import HEADS
from lightning_sasv.models.objectives import OBJECTIVES
from lightning_sasv.program import Program, shipped_configs
from lightning_sasv.scores.layouts import LAYOUTS
from lightning_sasv.starting import KINDS

PROGRAM = "lightning"
_LONGEST = 72
_UNSEEN = ("print_config", "print_shtab", "help")


def _named() -> dict[str, Sequence[str]]:
    """Values that have names, by the last part of the option."""
    return {
        "config": tuple(shipped_configs()),
        "systems": (*GROUPS, *KNOWN),
        "system": tuple(KNOWN),
        "costs": tuple(PRESETS),
        "corpus": tuple(profiles()),
        "format": tuple(LAYOUTS),
        "key_format": tuple(LAYOUTS),
        "head": tuple(HEADS),
        "objective": tuple(OBJECTIVES),
        "accelerator": ("auto", "cpu", "gpu"),
        "ckpt_path": ("best", "last"),
        "kind": tuple(KINDS),
    }


def completions() -> dict[str, str]:
    """The script of each shell."""
    functions = {"bash": _bash(), "zsh": _zsh()}
    found = {
        shell: shtab.complete(_program(), shell, preamble="\n".join(own))
        for shell, own in functions.items()
    }
    last = next(line for line in found["bash"].splitlines()[::-1] if line.startswith("complete "))
    found["bash"] = f"{found['bash'].rstrip()}\n{last}-sasv\n"
    both = f"#compdef {PROGRAM} {PROGRAM}-sasv\n"
    found["zsh"] = found["zsh"].replace(f"#compdef {PROGRAM}\n", both)
    return {shell: re.sub(r"[ \t]+$", "", text, flags=re.M) for shell, text in found.items()}


def _bash() -> Iterator[str]:
    """Functions that complete names, and files where there are such."""
    for kind, names in _named().items():
        words = f'compgen -W "{" ".join(names)}" -- "$1"'
        yield f'_lightning_{kind}() {{ {words}; _shtab_compgen_files "$1"; }}'


def _zsh() -> Iterator[str]:
    for kind, names in _named().items():
        known = f"'names:name:({' '.join(names)})' 'files:file:_files'"
        yield f"_lightning_{kind}() {{ _alternative {known} }}"


def _program() -> argparse.ArgumentParser:
    """The program as a plain parser: options and what may follow them."""
    program = argparse.ArgumentParser(prog=PROGRAM)
    program.add_argument("--version", action="version", version="")
    listed = program.add_subparsers()
    for name, what in TRAINING.items():
        parser = listed.add_parser(name, help=what)
        _add_all(parser, training_parser(name), [word[2:] for word in BARE])
    for name, (_, _, what) in COMMANDS.items():
        parser, function = listed.add_parser(name, help=what), command_function(name)
        made = command_parser(name)
        bare = [one.dest for one in made._actions if _hint(one) is bool]
        _add_all(parser, made, bare, optional_place(function))
        for also, meant in vars(function)["also"].items():
            _add(parser, [f"--{also}"], also, str, f"{meant}.")
    return program


def _add_all(
    parser: argparse.ArgumentParser, made: Any, bare: Sequence[str], place: str | None = None
) -> None:
    """Options of a command, and those of every command."""
    for action in made._actions:
        if action.dest == place:
            _add(parser, [], action.dest, _hint(action), action.help)
            continue
        words = [word for word in action.option_strings if re.fullmatch(r"-[\w.-]+", word)]
        linked = action.option_strings and not words  # its value is that of another option
        if action.dest.rpartition(".")[2] not in _UNSEEN and not linked:
            hint = None if action.dest in bare else _hint(action)
            _add(parser, words, action.dest, hint, action.help)
    for option in fields(Program):
        word = f"--{option.name.replace('_', '-')}"
        _add(parser, [word], option.name, None if option.type == "bool" else float, "")


def _hint(action: Any) -> Any:
    """The type of an option; text where it has none."""
    return getattr(action, "_typehint", str)


def _add(
    parser: argparse.ArgumentParser, words: list[str], dest: str, hint: Any, text: str | None
) -> None:
    """An option or a place, with what completes it; without a type it stands alone."""
    about = _brief(text or "")
    if hint is None:
        parser.add_argument(*words, dest=dest, action="store_true", help=about)
        return
    several = hint in (list[str], SEVERAL)
    more: dict[str, Any] = {"nargs": "*"} if several else {} if words else {"nargs": "?"}
    choices, kind = _choices(hint), dest.rpartition(".")[2]
    kind = "config" if parser.prog.endswith(" configs") and not words else kind
    if choices:
        more["choices"] = choices
    place: dict[str, Any] = {"dest": dest} if words else {}
    added = parser.add_argument(*(words or [dest]), **place, **more, help=about)
    if kind in _named() and not choices:
        vars(added)["complete"] = dict.fromkeys(("bash", "zsh"), f"_lightning_{kind}")
    elif not choices and (several or str in (hint, *get_args(hint))):
        vars(added)["complete"] = shtab.DIRECTORY if dest == "run" else shtab.FILE


def _choices(hint: Any) -> list[str]:
    """Words that a type allows, if it allows no others."""
    if hint is bool:
        return ["true", "false"]
    if get_origin(hint) is Literal:
        return [str(one) for one in get_args(hint)]
    parts = [one for one in get_args(hint) if one is not type(None)]
    known = [_choices(one) for one in parts]
    found = dict.fromkeys(word for words in known for word in words)
    return list(found) if all(known) else []


def _brief(text: str) -> str:
    """The first words of a help text, as zsh shows them beside an option."""
    plain = " ".join(re.sub(r"[\[\]`%:'\"]", " ", text).split()).partition(". ")[0].rstrip(".")
    return plain if len(plain) <= _LONGEST else plain[:_LONGEST].rpartition(" ")[0] + " …"
