"""Console scripts ``lightning`` and ``lightning-sasv``: finds the command, imports only that.

Each command is a function in ``lightning_sasv.commands``; its signature and docstring are its
options and its help. The four training commands are Lightning's own command line.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import NoReturn

from lightning_sasv import __version__, gate, signals
from lightning_sasv.errors import InputError, RunError, meant
from lightning_sasv.program import (
    HELP,
    collect_rarely,
    read_options,
    using,
    with_shipped,
    with_underscores,
)
from lightning_sasv.terminal import BROKEN_OFF, fail, terminal

TRAINING = {
    "fit": "train the CM head, fit the fusion systems on dev, evaluate the best checkpoint",
    "validate": "score dev with a checkpoint and write scores and metrics",
    "test": "score eval with a checkpoint and write scores and metrics",
    "predict": "score eval, or the trials of --data.trials, with a checkpoint; no metrics",
}
COMMANDS = {
    "configs": ("starting", "configs", "list our configurations, or show one"),
    "init": ("starting", "init", "write a folder to start an experiment from"),
    "table": ("table", "table", "Table 1: every system, every seed, beside the paper's numbers"),
    "extract": ("corpus", "extract", "turn audio into ECAPA-TDNN and AASIST embeddings"),
    "sweep": ("table", "sweep", "run a W&B sweep file, online or offline"),
    "simulate": ("corpus", "simulate", "write the twin corpus to disk"),
    "import": (
        "corpus",
        "import_corpus",
        "turn the challenge's embedding pickles into stores, or join shards of `extract`",
    ),
    "download": ("corpus", "download", "fetch public scores, protocols, embeddings or weights"),
    "export": ("bundles", "export", "write a fitted system as a checked bundle for deployment"),
    "drift": ("bundles", "drift", "whether the thresholds of a bundle hold on new scores"),
    "verify": ("bundles", "verify", "accept or reject recordings: the enrolled speaker, live?"),
    "enrol": ("bundles", "enrol", "keep the model of a speaker for verify, or forget it"),
    "serve": ("bundles", "serve", "answer over HTTP by a bundle: scores and recordings"),
    "fuse": ("scores", "fuse", "fit fusion systems on dev scores, fuse eval scores"),
    "evaluate": ("scores", "evaluate", "every metric of score files; compares systems"),
    "merge": ("scores", "merge", "add counts of trials that `evaluate --state` wrote"),
    "referee": ("scores", "referee", "published values against what their score files give"),
    "decide": ("scores", "decide", "accept or reject each trial at given costs and priors"),
    "transfer": ("scores", "transfer", "systems fitted on one corpus on the scores of another"),
    "convert": ("scores", "convert", "turn a score file into another format"),
    "report": ("scores", "report", "results as an HTML page and figures"),
    "schema": ("starting", "schema", "JSON schema of a kind of YAML file, for editors"),
    "completion": ("starting", "completion", "completion of commands and options for a shell"),
}
"""Command: module of ``lightning_sasv.commands``, function, what it does."""

OF_FIT = ("table",)
"""Commands that take configurations of ``fit``, in which one value may refer to another."""


def usage() -> str:
    """The help of the program itself."""
    rows = [*TRAINING.items(), *((name, what) for name, (_, _, what) in COMMANDS.items())]
    lines = "\n".join(f"  {name:<10} {what}" for name, what in rows)
    return (
        "usage: lightning COMMAND [options]     (lightning-sasv is the same program)\n\n"
        "Spoofing-aware speaker verification: train, fuse, evaluate, decide.\n\n"
        f"commands:\n{lines}\n\n"
        f"{HELP}\n"
        "`lightning COMMAND --help` lists the options of a command.\n"
        "First steps: `lightning fit --config L3c` trains on the embedded twin, a simulated\n"
        "corpus; `--data.root DIR` takes real embeddings and protocols; `lightning init DIR`\n"
        "writes a folder to go on from.\n"
    )


def _fail_on_file(error: OSError) -> NoReturn:
    """Report a file that the system refuses; what has no file is no mistake of the user's."""
    if error.filename is None:
        raise error
    fail(f"cannot use {str(error.filename)[:300]!r}: {error.strerror}")


def _fail_for_memory(error: Exception) -> NoReturn:
    """Report that there is no room, which PyTorch says by an error of another kind."""
    asked = re.search(r"tried to allocate ([\d.]+ \w+)", str(error), re.IGNORECASE)
    if asked is None and not isinstance(error, MemoryError):
        raise error
    said = f"PyTorch asked for {asked[1]}" if asked else str(error)
    fail(f"out of memory{': ' * bool(said)}{said}", BROKEN_OFF)


def command_function(command: str) -> Callable[..., None]:
    """The function that a command is, with its options; its module is imported."""
    from lightning_sasv.commands.arguments import prepared

    module, name, _ = COMMANDS[command]
    return prepared(getattr(import_module(f"lightning_sasv.commands.{module}"), name))


def _run_function(command: str, args: Sequence[str]) -> None:
    from jsonargparse import auto_cli

    from lightning_sasv.commands import arguments
    from lightning_sasv.commands.loading import open_imports, read_within_limits, resolving

    function = command_function(command)
    words = arguments.translate(function, args)
    refers = command in OF_FIT and any("${" in word for word in words)
    read_within_limits(interpolations=refers)
    open_imports()
    with resolving() if refers else nullcontext():
        auto_cli(
            arguments.described(function, words),
            args=words,
            parser_mode="omegaconf+" if refers else "yaml",
            **arguments.parser_settings(command, function),
        )


def main(args: Sequence[str] | None = None) -> None:
    """Entry point of ``lightning-sasv``.

    Args:
        args: Command and options; by default those of the process.
    """
    own_process = args is None
    if own_process:
        collect_rarely()
        signals.obey()
    with terminal():
        try:
            with signals.listening(to_the_end=own_process):
                said, words = read_options(sys.argv[1:] if args is None else args)
                words = with_underscores(words)
                with using(said), gate.command(words):
                    _run(words)
        except InputError as error:
            fail(" ".join(str(error).split()))
        except OSError as error:
            _fail_on_file(error)
        except RunError as error:
            fail(str(error), BROKEN_OFF)
        except RecursionError:
            fail("what is read is nested too deeply; write it with fewer levels")
        except (MemoryError, RuntimeError) as error:
            _fail_for_memory(error)
        except KeyboardInterrupt as error:
            signals.leave(error)


def _run(words: Sequence[str]) -> None:
    command = words[0] if words else "--help"
    if command in ("-h", "--help"):
        sys.stdout.write(usage())
    elif command == "--version":
        sys.stdout.write(f"lightning-sasv {__version__}\n")
    elif command in COMMANDS and " ".join(words[1:]).replace("=", " ") == "--print costs":
        model = import_module("lightning_sasv.decisions.costs").PRESETS["a-dcf1"]
        sys.stdout.write("".join(f"{name}: {value}\n" for name, value in model.as_dict().items()))
    elif command in COMMANDS:
        _run_function(command, words[1:])
    elif command in TRAINING and {"-h", "--help"} & set(words):
        sys.stdout.write(
            (Path(__file__).parent / f"commands/help/{command}.txt").read_text("utf-8")
        )
    elif command in TRAINING:
        import_module("lightning_sasv.commands.train").train(with_shipped(words))
    else:
        known = [*TRAINING, *COMMANDS]
        there = f"commands: {', '.join(known)}{meant(command, known)}"
        fail(f"unknown command {command!r}; {there} (see lightning --help)")


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
    if not sys.flags.safe_path:
        del sys.path[0]  # the current folder: python -m puts it first, the scripts do not
    main()
