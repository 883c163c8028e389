"""Write the texts that are shipped because they take seconds to make: `make help-texts`.

The help of the training commands, JSON schemas of YAML files, completions for shells.
"""

import json
from pathlib import Path

from lightning_sasv.cli import with_functions
from lightning_sasv.commands.completions import completions
from lightning_sasv.commands.parsers import help_text
from lightning_sasv.commands.schemas import schemas
from lightning_sasv.commands.train import STAGES

PACKAGE = Path(__file__).parents[1] / "lightning_sasv"


def write(place: str, text: str) -> None:
    """Write a text below the package."""
    file = PACKAGE / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    for command in STAGES:
        write(f"commands/help/{command}.txt", help_text(command))
    for kind, schema in schemas().items():
        write(f"starting/schemas/{kind}.json", json.dumps(schema, indent=1) + "\n")
    for shell, script in completions(with_functions()).items():
        write(f"starting/completions/lightning.{shell}", script)
