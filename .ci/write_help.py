"""Write the texts that are shipped because they take seconds to make: `make help-texts`.

The help of the training commands, JSON schemas of YAML files, completions for shells.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from completions import completions
from parsers import help_text
from schemas import schemas

from lightning_sasv.cli import TRAINING

PACKAGE = Path(__file__).parents[1] / "lightning_sasv"


def texts() -> Iterator[tuple[Path, str]]:
    """Each text and its place."""
    for command in TRAINING:
        yield PACKAGE / f"commands/help/{command}.txt", help_text(command)
    for kind, schema in schemas().items():
        yield PACKAGE / f"starting/schemas/{kind}.json", json.dumps(schema, indent=1) + "\n"
    for shell, script in completions().items():
        yield PACKAGE / f"starting/completions/lightning.{shell}", script


if __name__ == "__main__":
    for place, text in texts():
        place.parent.mkdir(exist_ok=True)
        place.write_text(text, encoding="utf-8")
