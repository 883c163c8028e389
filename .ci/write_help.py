"""Write the help of the training commands, which is shipped: `make help-texts`."""

from pathlib import Path

from lightning_sasv.commands.train import STAGES, help_text

FOLDER = Path(__file__).parents[1] / "lightning_sasv" / "commands" / "help"

if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for command in STAGES:
        (FOLDER / f"{command}.txt").write_text(help_text(command), encoding="utf-8")
