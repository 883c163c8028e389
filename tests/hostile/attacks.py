"""Every hostile file of the tests, by kind and name: what the campaign gives to every command."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import yaml

from lightning_sasv.data.embeddings import FORMAT
from lightning_sasv.scores import write_scores
from lightning_sasv.trials import Scores
from tests.hostile import bombs, test_gate_attacks
from tests.hostile.corpus import EVIL, MARK, NAMES, changed, checkpoints, pickles, stores
from tests.hostile.test_checkpoints import BOMBS, OLD, READERS, SETTINGS, STATES, altered
from tests.hostile.test_commands_from_files import COMMANDS, PARAMETERS, VALUES
from tests.hostile.test_launcher_options import OPTIONS
from tests.hostile.test_misleading_data import CASES
from tests.hostile.test_names_and_headers import scores_of
from tests.hostile.test_received_files import DESCRIPTIONS, HEADS, ROWS, SETS, TARS, headed

Maker = Callable[[Path], object]
SECRET = "s3cret-word"
VARIABLES = dict.fromkeys(("THE_SECRET", "SECRET", "SOME_TOKEN", "WANDB_API_KEY"), SECRET)
"""Variables of the environment that no file may read."""

SWEEP = {"method": "grid", "program": "evil_module.py", "parameters": {"seed": {"value": 1}}}
TABLE = {"launcher": "slurm"}


def writer(content: str | bytes | Mapping[str, Any]) -> Maker:
    """What writes a file with this content."""
    text = yaml.safe_dump(dict(content)) if isinstance(content, Mapping) else content
    data = text if isinstance(text, bytes) else text.encode()
    return lambda path: path.write_bytes(data)


def _altered(settings: dict[str, Any]) -> Maker:
    return lambda path: altered(path, **settings)


def _state(places: tuple[Any, ...], value: object) -> Maker:
    """A checkpoint to go on from, with one thing changed."""

    def make(path: Path) -> None:
        content = torch.load(OLD / "last.ckpt", weights_only=True)
        torch.save(changed(content, places, value), path)

    return make


def _table(scores: Scores) -> Maker:
    """A score file of any name."""
    return lambda path: write_scores(path.with_suffix(".csv"), scores).rename(path)


def evil_module(folder: Path) -> None:
    """Modules that leave a mark when they are imported, and a program that does when it is run."""
    for name in ("evil_module", "pickle", "random"):
        (folder / f"{name}.py").write_text(EVIL)
    (folder / "lightning").write_text(f"#!/bin/sh\ntouch {MARK}\n")
    (folder / "lightning").chmod(0o755)


def _written(contents: Mapping[str, Any]) -> dict[str, Maker]:
    return {name: writer(content) for name, content in contents.items()}


def _sweeps() -> dict[str, Maker]:
    parts = (("command", COMMANDS), ("parameters", PARAMETERS), ("parameters", VALUES))
    found = {
        f"{key}, {name}": SWEEP | {key: value}
        for key, values in parts
        for name, value in values.items()
    }
    return _written(found) | {"a large grid": writer(bombs.grid())}


def _configurations() -> dict[str, str]:
    gate = test_gate_attacks
    return {
        f"{kind}, {name}": text
        for kind, texts in {
            "code": gate.CONFIGS,
            "object": gate.OBJECTS,
            "address": gate.ADDRESSES,
            "secret": gate.SECRETS,
            "network": gate.NETWORKS,
            "reader": READERS,
            "interpolation": bombs.INTERPOLATED,
            "bomb": bombs.YAML,
        }.items()
        for name, text in texts.items()
    } | {f"option, {name}": f"cm: {text}" for name, text in gate.NETWORKS.items()}


def hostile_files() -> dict[str, dict[str, Maker]]:
    """Makers of hostile files: kind, name, and what writes the file to a path."""
    return {
        "yaml": _written(_configurations()),
        "launcher": _written({n: TABLE | {"launcher_options": x} for n, x in OPTIONS.items()}),
        "sweep": _sweeps(),
        "checkpoint": {**checkpoints(), **BOMBS},
        "settings": {name: _altered(settings) for name, settings in SETTINGS.items()},
        "state": {name: _state(*change) for name, change in STATES.items()},
        "pickle": _written(pickles() | bombs.PICKLES),
        "store": _written(stores({"format": FORMAT})),
        "json": _written(bombs.JSON),
        "text": _written(bombs.TEXTS | bombs.OTHER_KINDS),
        "name": {name: _table(scores_of(text)) for name, text in NAMES.items()},
        "misleading": {name: _table(Scores(*case())) for name, case in CASES.items()},
        "corpus": _written({name: SETS | more for name, more in DESCRIPTIONS.items()}),
        "tar": _written(TARS),
        "rows": _written({name: json.dumps(row) for name, row in ROWS.items()}),
        "head": _written({name: headed(text) for name, text in HEADS.items()}),
    }
