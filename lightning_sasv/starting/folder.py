"""A folder to start from."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_folder

FILES = Path(__file__).parent / "new"


def init(folder: str) -> Path:
    """Write a folder to start an experiment from: a configuration, a Makefile and a README.

    `make` there lists what it can do; the README says what to change first. Nothing that is there
    already is replaced.

    Args:
        folder: The new folder, e.g. my_experiment.

    Returns:
        The folder.
    """
    path = Path(folder)
    if os.path.lexists(path):
        raise InputError(f"{folder} is there already; choose another name for the new folder")
    with atomic_folder(path) as temporary:
        shutil.copytree(FILES, temporary, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return path
