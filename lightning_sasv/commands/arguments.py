"""Words of the command line as jsonargparse's ``auto_cli`` takes them; help and errors to read.

A command is a function, its parameters are its options. Three things that people type are foreign
to ``auto_cli`` and are translated here:

- ``--allow-missing`` is ``--allow_missing true``: hyphens inside names, and a bare name for yes;
- several words for a first parameter of type ``list[str]`` (``lightning evaluate A B C``), and for
  options of several files (``lightning verify --enrol A B``);
- functions of keyword-only parameters (``lightning fuse --dev FILE --eval FILE``) have none by
  position.

Help is without the names of Python types, and an error is one line instead of fifty.
"""

from __future__ import annotations

import inspect
import json
import re
from argparse import Action
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import wraps
from importlib import import_module
from itertools import takewhile
from typing import Any, NoReturn, get_type_hints

from jsonargparse import ArgumentParser, DefaultHelpFormatter

from lightning_sasv import gate
from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import read_yaml
from lightning_sasv.gate import texts
from lightning_sasv.program import HELP, from_file, program, with_shipped, with_underscores
from lightning_sasv.terminal import fail

_OF_COMMANDS = ("tell", "begin")
SEVERAL = list[str] | None
"""Type of options that take several words."""
DESTROYS = {"overwrite": "to replace results", "forget": "to remove a speaker's model"}
"""Options that the user alone can give, and what for."""
_TYPE = re.compile(
    r" ?\((?P<required>required, )?type: (?P<type>.*?)(?:, default: (?P<default>.*))?\)$", re.DOTALL
)

_PLAIN = (
    (r"Parser key \"([^\"]+)\": ?", r"\1: "),
    (r"<class '(?:[\w.]+\.)?Sequence'>", "list such as [a,b]"),
    (r"<class 'NoneType'>", "null"),
    (r"<class '(?:[\w.]+\.)?(\w+)'>", r"\1"),
    (r"typing\.Literal\[(.*?)\]", r"one of \1"),
    (r"\. Got value: ", "; got "),
    (r", or [Ee]xpected an? ", ", or "),
    (r"[Ee]xpected an? (one of|null)", r"expected \1"),
    (r"Unexpected config: (.{0,60}).*", r"a configuration has lines 'name: value', not \1"),
)
"""How jsonargparse words a mistake, and what people call it."""

_UNKNOWN = re.compile(r"unrecognized arguments: (--[^\s=]+)|(?:Option|accept option) '([^']+)'")


def plain_help(text: str) -> str:
    """Help of an option with what people need to know: choices, and a default that is one.

    Example:
        >>> plain_help("Replicates. (type: int, default: 1000)")
        'Replicates. (default: 1000)'
        >>> plain_help("Only these. (type: Optional[Literal['cm', 'asv']], default: null)")
        'Only these. (one of cm, asv)'
    """
    text = re.sub(r",? known subclasses: [^)]*", "", text)  # they depend on what was imported
    found = _TYPE.search(text)
    if found is None:
        return text
    choices = re.fullmatch(r"Optional\[Literal\[(.*)\]\]", found["type"])
    default = {"True": "true", "False": "false", None: "null"}.get(
        found["default"], found["default"]
    )
    notes = [f"one of {choices[1]}".replace("'", "")] if choices else []
    notes += ["required"] if found["required"] else []
    notes += [f"default: {default}"] if default != "null" and "Namespace(" not in default else []
    return text[: found.start()] + (f" ({', '.join(notes)})" if notes else "")


class CommandHelp(DefaultHelpFormatter):
    """Help without the names of Python types, and with paragraphs in the description."""

    def _expand_help(self, action: Action) -> str:
        if action.dest == "print_config":
            return "Print these options as a configuration file and exit."
        return plain_help(super()._expand_help(action))

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        paragraphs = re.split(r"\n\s*\n", text)
        return "\n\n".join(
            super(CommandHelp, self)._fill_text(p, width, indent) for p in paragraphs
        )


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
    """Mix-in for a jsonargparse parser: an error is one line on stderr and exit code 2.

    Its help ends with the options of every command.
    """

    def parse_args(self, args: Any = None, *others: Any, **more: Any) -> Any:
        """Parse, and take the word to replace things from the user alone."""
        try:
            config: Any = super().parse_args(args, *others, **more)  # type: ignore[misc]
        except ImportError as error:  # a class in the place of a section
            self.error(str(error), error)
        for option in DESTROYS:
            check_typed(option, config.get(option), args or ())
        return config

    def format_help(self, *args: Any, **kwargs: Any) -> str:
        """The help text."""
        text: str = super().format_help(*args, **kwargs)  # type: ignore[misc]
        return f"{text}\n{HELP}"

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Report an error in one line; nested parsers leave that to the outermost one."""
        if not self.exit_on_error:  # type: ignore[attr-defined]
            super().error(message, ex)  # type: ignore[misc]
        parser: Any = getattr(ex, "subcommand_parser", None) or self
        prog = parser.prog.replace(" [options]", "")
        denied = re.search(r"Importing '([^']+)' is not allowed", message)
        said = f"{one_line(message)}{suggestion(message, parser)} (see {prog} --help)"
        fail(gate.refusal(denied[1]) if denied else said, who=prog)


def suggestion(message: str, parser: Any) -> str:
    """The option that somebody meant who typed, or wrote into a file, one that there is not."""
    found, known = _UNKNOWN.search(message), list(parser._option_string_actions)
    if found is None:
        return ""
    option, key = found.groups()
    return meant(option, known) if option else meant(key, [name.lstrip("-") for name in known])


def check_typed(option: str, wanted: object, words: Sequence[str]) -> None:
    """Let the user alone ask for what destroys something, not a file that somebody sent."""
    typed = any(word.partition("=")[0] == f"--{option}" for word in words) and not from_file()
    if wanted and not typed and not program().trust_config:
        raise InputError(
            f"{option}: a file cannot ask {DESTROYS[option]}; give --{option} on the command line, "
            "or trust the file with --trust-config"
        )


class CommandParser(OneLineErrors, ArgumentParser):
    """Parser of the commands that train nothing; its help calls a list of files by its name."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, formatter_class=CommandHelp, allow_abbrev=False, **kwargs)

    def parse_args(self, *args: Any, **kwargs: Any) -> Any:
        """Parse; addresses of other machines are the user's to give, not a file's."""
        config = super().parse_args(*args, **kwargs)
        for key, value in config.items():
            for text in texts(value):
                gate.admit_plain(text, key)
        return config

    def format_help(self, *args: Any, **kwargs: Any) -> str:
        """The help text."""
        for action in self._actions:
            if not action.option_strings and "ITEM" in str(action.metavar):
                action.metavar = f"{action.dest.upper().removesuffix('S')} [...]"
        return super().format_help(*args, **kwargs)


DESCRIBED = {"columns": str | None}
"""Columns of files are described in words; those of frames, in Python, by a mapping."""

Command = Callable[..., None]


def options_of(
    name: str, also: Mapping[str, str] | None = None, typed: Mapping[str, Any] | None = None
) -> Callable[[Command], Command]:
    """Give a command the options and the help of the public function that it calls.

    The function is imported by :func:`prepared`, so that commands can stand together though each
    needs something else.

    Args:
        name: The public function, as ``PACKAGE.FUNCTION`` of this package.
        also: Further names of options, and what they stand for.
        typed: Types of options for which the function takes more than words can say.
    """

    def decorate(command: Command) -> Command:
        vars(command).update(public=name, also=also or {}, typed=typed or {})
        return command

    return decorate


def prepared(command: Command) -> Command:
    """The command with its options and its help, see :func:`options_of`.

    All but ``tell`` and ``begin``, through which the function speaks to the command, and the
    example at the end, which is for Python.
    """
    said = vars(command)
    package, _, name = said["public"].partition(".")
    function = getattr(import_module(f"lightning_sasv.{package}"), name)
    given = inspect.signature(function).parameters.values()
    options = [option for option in given if option.name not in _OF_COMMANDS]
    texts = {option.name: option.annotation for option in options}
    where = {"__annotations__": texts, "__module__": function.__module__}
    hints = get_type_hints(type("Options", (), where))  # not of what the function returns
    hints |= said["typed"]
    options = [option.replace(annotation=hints[option.name]) for option in options]
    said["__signature__"] = inspect.Signature(options)
    command.__annotations__ = hints
    command.__doc__ = (inspect.getdoc(function) or "").partition("\nExample:")[0]
    return command


def parser_settings(name: str, function: Callable[..., Any]) -> dict[str, Any]:
    """What jsonargparse is told of a command; its docstring says what it does, before "Args:"."""
    about = (inspect.getdoc(function) or "").partition("\nArgs:")[0].replace("``", "`").strip()
    return {
        "prog": f"lightning {name}",
        "description": about,
        "parser_class": CommandParser,
        "as_positional": by_position(function),
    }


def described(function: Command, words: Sequence[str]) -> Command:
    """The command with the help of its options where it is asked for, which takes long to parse."""
    if any(word in ("-h", "--help") or word.startswith("--print_config") for word in words):
        return function
    plain = wraps(function)(lambda **options: function(**options))
    plain.__doc__ = None
    return plain


def by_position(function: Callable[..., Any]) -> bool:
    """Whether required parameters of a command are given by position."""
    parameters = inspect.signature(function).parameters.values()
    return any(p.kind is not inspect.Parameter.KEYWORD_ONLY for p in parameters)


def optional_place(function: Callable[..., Any]) -> str | None:
    """The parameter that words by position are given to though it may be left out, if any."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or not by_position(function):
        return None
    return first.name if get_type_hints(function)[first.name] in (SEVERAL, str | None) else None


def options_from_files(function: Callable[..., Any], words: Sequence[str]) -> list[str]:
    """The words with options in place of the configuration files of the training commands.

    Args:
        function: A command that has their options under other names as well.
        words: What stands after the command's name.

    Raises:
        InputError: A file says something that the command cannot use.
    """

    def options(file: str) -> Iterator[str]:
        for key, value in _settings(function, read_yaml(file), file):
            if key in DESTROYS:
                check_typed(key, value, words)
            yield f"--{key}={value if isinstance(value, str) else json.dumps(value)}"

    return replaced(with_shipped(words), ("-c", "--config"), options)


def replaced(
    words: Sequence[str], options: Collection[str], others: Callable[[str], Iterable[str]]
) -> list[str]:
    """The words, with others in place of each of these options and its value.

    Example:
        >>> replaced(["fit", "--a", "1", "--b=2"], ["--a", "--b"], lambda value: [f"--c={value}"])
        ['fit', '--c=1', '--c=2']
    """
    found, rest = list[str](), list(words)
    while rest:
        option, sign, value = rest.pop(0).partition("=")
        if option in options and (sign or rest):
            found += others(value if sign else rest.pop(0))
        else:
            found.append(f"{option}{sign}{value}")
    return found


def _settings(
    function: Callable[..., Any], content: Any, file: str, key: str = ""
) -> Iterator[tuple[str, Any]]:
    """Settings of a file by the names of a command's options."""
    known = {**dict.fromkeys(option_names(function)), **vars(function)["also"]}
    inside = f"{key}." if key else ""
    if key in known:
        yield known[key] or key, content
    elif isinstance(content, dict) and any(name.startswith(inside) for name in known):
        for name, value in content.items():
            yield from _settings(function, value, file, f"{inside}{name}")
    elif content is not None or key:
        name = function.__name__
        if not key:
            raise InputError(
                f"{file}: a configuration has lines 'name: value', not {content!s:.60}"
            )
        raise InputError(f"{file}: {name} cannot use {key!r}{meant(key, known)}")


def option_names(function: Callable[..., Any]) -> list[str]:
    """Names of the options of a command; groups of them by each member."""
    names: list[str] = []
    for name, hint in get_type_hints(function).items():
        inner = [f"{name}.{one.name}" for one in fields(hint)] if is_dataclass(hint) else [name]
        names += inner
    return names


def translate(function: Callable[..., Any], words: Sequence[str]) -> list[str]:
    """The words for ``auto_cli``.

    Args:
        function: The command.
        words: What stands after the command's name.
    """
    hints, also = get_type_hints(function), vars(function).get("also", {})
    passes = hints.get("options") == SEVERAL  # to another command what this one does not know
    known = {*option_names(function), "help", "print_config"} if passes else {}
    options, places, passed = list[str](), list[str](), list[str]()
    several: dict[str, list[str]] = {}
    rest = with_underscores(words)
    rest = options_from_files(function, rest) if also else rest
    while rest:
        word = rest.pop(0)
        name, sign, value = word[2:].partition("=")
        name = also.get(name, name)
        values = [value] if sign else [*takewhile(lambda one: not one.startswith("--"), rest)]
        if not word.startswith("--"):
            (options if word == "-h" else places).append(word)
        elif passes and name not in known:
            passed.append(f"{word}={rest.pop(0)}" if values and not sign else word)
        elif hints.get(name) == SEVERAL and not passes:
            several.setdefault(name, []).extend(values)
            del rest[: 0 if sign else len(values)]
        else:
            options += [f"--{name}={value}"] if sign else _option(name, hints, rest)
    places, given = _placed(function, hints, places)
    given += [f"--{name}={_listed(files)}" for name, files in several.items() if files]
    options = given + _keys_together(options)
    return places + options + [f"--options={json.dumps(passed)}"] * bool(passed)


def _option(name: str, hints: Mapping[str, Any], rest: list[str]) -> list[str]:
    """An option without a sign, with the value that follows it, if any."""
    if hints.get(name) is bool and (not rest or rest[0] not in ("true", "false")):
        return [f"--{name}=true"]
    if not rest or rest[0].startswith("--") or name in ("help", "print_config"):
        return [f"--{name}"]
    value = rest.pop(0)
    return [f"--{name}={value}"] if re.match(r"-[^-\d]", value) else [f"--{name}", value]


def _listed(files: Sequence[str]) -> str:
    """Several words as one; a list may have been given as such."""
    return files[0] if files[0].startswith("[") else json.dumps(files)


def _placed(
    function: Callable[..., Any], hints: Mapping[str, Any], places: list[str]
) -> tuple[list[str], list[str]]:
    """Words by position, and the option that some are where the first parameter is optional."""
    first = next(iter(inspect.signature(function).parameters), "")
    if places and hints.get(first) == list[str]:
        return [json.dumps(places)], []
    if not places or optional_place(function) is None:
        return places, []
    if hints[first] == SEVERAL:
        return [], [f"--{first}={json.dumps(places)}"]
    return places[1:], [f"--{first}={places[0]}"]


def _keys_together(options: list[str]) -> list[str]:
    """Several keys (``--key A --key B``) as one value with commas."""
    names = [word.partition("=")[0] for word in options]
    again = {
        name
        for name in names
        if name[:2] == "--" and name.endswith("key") and names.count(name) > 1
    }
    together: dict[str, list[str]] = {}
    rest: list[str] = []
    words = iter(options)
    for word in words:
        name, sign, value = word.partition("=")
        if name in again:
            together.setdefault(name, []).append(value if sign else next(words, ""))
        else:
            rest.append(word)
    return rest + [f"{name}={','.join(values)}" for name, values in together.items()]
