"""Console scripts ``lightning`` and ``lightning-sasv``: finds the command, imports only that.

Each command is a function in ``lightning_sasv.commands``; its signature and docstring are its
options and its help. The four training commands are Lightning's own command line.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import NoReturn

from lightning_sasv import __version__
from lightning_sasv.errors import InputError, RunError

TRAINING = {
    "fit": "train the CM head, fit the fusion systems on dev, evaluate the best checkpoint",
    "validate": "score dev with a checkpoint and write scores and metrics",
    "test": "score eval with a checkpoint and write scores and metrics",
    "predict": "score eval with a checkpoint and write scores only",
}
COMMANDS = {
    "table": ("table", "table", "Table 1: every system, every seed, beside the paper's numbers"),
    "extract": ("extract", "extract", "turn audio into ECAPA-TDNN and AASIST embeddings"),
    "sweep": ("table", "sweep", "run a W&B sweep file, online or offline"),
    "simulate": ("corpus", "simulate", "write the twin corpus to disk"),
    "import": (
        "corpus",
        "import_corpus",
        "turn the challenge's embedding pickles into memory-mapped stores",
    ),
    "download": ("download", "download", "fetch public scores, protocols, embeddings or weights"),
    "export": ("export", "export", "write a fitted system as a checked bundle for deployment"),
    "fuse": ("scores", "fuse", "fit fusion systems on dev scores, fuse eval scores"),
    "evaluate": ("scores", "evaluate", "every metric of score files; compares systems"),
    "decide": ("scores", "decide", "accept or reject each trial at given costs and priors"),
    "convert": ("scores", "convert", "turn a score file into another format"),
    "report": ("report", "report", "results as an HTML page and figures"),
}
"""Command: module of ``lightning_sasv.commands``, function, what it does."""

CLASSES = {"extract": ("--config", "--cm", "--asv")}
"""Options through which a configuration file could name classes, beside those of training."""

BROKEN_OFF, USER_ERROR, INTERRUPTED = 1, 2, 130


def usage() -> str:
    """The help of the program itself."""
    rows = [*TRAINING.items(), *((name, what) for name, (_, _, what) in COMMANDS.items())]
    lines = "\n".join(f"  {name:<10} {what}" for name, what in rows)
    return (
        "usage: lightning COMMAND [options]     (lightning-sasv is the same program)\n\n"
        "Spoofing-aware speaker verification: train, fuse, evaluate, decide.\n\n"
        f"commands:\n{lines}\n\n"
        "`lightning COMMAND --help` lists the options of a command.\n"
        "First steps: `lightning fit --config configs/L3c.yaml` trains on the embedded twin,\n"
        "a simulated corpus; `--data.root DIR` takes real embeddings and protocols instead.\n"
    )


def _fail(message: str, code: int = USER_ERROR) -> NoReturn:
    sys.stderr.write(f"lightning: error: {message}\n")
    raise SystemExit(code)


def _fail_on_file(error: OSError) -> NoReturn:
    """Report a file that the system refuses; what has no file is no mistake of the user's."""
    if error.filename is None:
        raise error
    _fail(f"cannot use {str(error.filename)[:300]!r}: {error.strerror}")


def command_function(command: str) -> Callable[..., None]:
    """The function that a command is; its module is imported."""
    module, name, _ = COMMANDS[command]
    function: Callable[..., None] = getattr(
        import_module(f"lightning_sasv.commands.{module}"), name
    )
    return function


def _run_function(command: str, args: Sequence[str]) -> None:
    from jsonargparse import auto_cli

    from lightning_sasv.commands import arguments

    if command in CLASSES:
        from lightning_sasv.commands.configs import check_configs

        args = check_configs(args, CLASSES[command])
    function = command_function(command)
    auto_cli(
        function,
        args=arguments.translate(function, args),
        prog=f"lightning {command}",
        description=arguments.description(function),
        parser_class=arguments.CommandParser,
        as_positional=arguments.by_position(function),
    )


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of ``lightning-sasv``.

    Args:
        args: Command and options; by default those of the process.
    """
    if args is None:
        args = sys.argv[1:]
    if not args or args[0] in ("-h", "--help"):
        sys.stdout.write(usage())
        return
    if args[0] == "--version":
        sys.stdout.write(f"lightning-sasv {__version__}\n")
        return
    try:
        _run(args[0], args)
    except InputError as error:
        _fail(" ".join(str(error).split()))
    except OSError as error:
        _fail_on_file(error)
    except RunError as error:
        _fail(str(error), BROKEN_OFF)
    except KeyboardInterrupt as error:
        _fail(f"interrupted; {str(error) or 'what was written so far is kept'}", INTERRUPTED)


def _run(command: str, args: Sequence[str]) -> None:
    if command in COMMANDS:
        _run_function(command, args[1:])
    elif command in TRAINING:
        import_module("lightning_sasv.commands.train").train(args)
    else:
        known = ", ".join([*TRAINING, *COMMANDS])
        _fail(f"unknown command {command!r}; commands: {known} (see lightning --help)")


def _other_owner() -> Callable[[], object] | None:
    """Another package's ``lightning`` script, when one is installed beside ours."""
    for entry in entry_points(group="console_scripts", name="lightning"):
        if not entry.value.startswith("lightning_sasv"):
            return lambda: entry.load()()
    return None


def lightning() -> None:
    """Entry point of ``lightning``: commands that are not ours go to the name's other owner."""
    words = sys.argv[1:]
    foreign = bool(words) and not words[0].startswith("-")
    foreign = foreign and words[0] not in (*TRAINING, *COMMANDS)
    other = _other_owner() if foreign else None
    if other is not None:
        other()
    else:
        main()


if __name__ == "__main__":
    main()
