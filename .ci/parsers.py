"""Parsers of the commands, for texts that are made of their options: help, schemas, completions."""

from __future__ import annotations

import io
import os
from contextlib import redirect_stdout, suppress
from typing import Any

from jsonargparse import ArgumentParser, auto_parser
from pytorch_lightning.cli import LightningArgumentParser

from lightning_sasv.cli import command_function
from lightning_sasv.commands.arguments import parser_settings
from lightning_sasv.commands.train import SASVCLI, train


class _FoundError(Exception):
    """Carries a command line whose parsers are made."""


class _Asked(SASVCLI):
    def parse_arguments(self, parser: LightningArgumentParser, args: Any) -> None:
        raise _FoundError(self)


def training_parser(command: str) -> LightningArgumentParser:
    """The parser of a training command."""
    try:
        train([command], _Asked)
    except _FoundError as found:
        return found.args[0]._parser(command)
    raise AssertionError("parsers are made before anything is parsed")


def command_parser(command: str) -> ArgumentParser:
    """The parser of any other command."""
    function = command_function(command)
    return auto_parser(function, **parser_settings(command, function))


def help_text(command: str) -> str:
    """The help of a training command as its parser has it, 100 columns wide."""
    width, shown = os.environ.get("COLUMNS"), io.StringIO()
    os.environ["COLUMNS"] = "100"
    try:
        with redirect_stdout(shown), suppress(SystemExit):
            train([command, "--help"])
    finally:
        os.environ.pop("COLUMNS")
        os.environ.update({} if width is None else {"COLUMNS": width})
    return shown.getvalue()
