"""First steps without a checkout: our configurations, a folder to start from, help for editors.

All of it is shipped as text, so that it comes at once: schemas and completions take seconds to make
(`make help-texts`).
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Literal

from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import atomic_folder, read_text
from lightning_sasv.program import shipped_configs

__all__ = ["completion", "configs", "init", "schema"]

_COMPLETIONS, _SCHEMAS, _NEW = (
    Path(__file__).parent / name for name in ("completions", "schemas", "new")
)
KINDS = {
    "fit": "configuration of fit, validate, test and predict (--config)",
    "table": "configuration of table (--config)",
    "systems": "fusion systems of your own (--systems)",
    "costs": "costs and priors (--costs)",
    "corpus": "a corpus on disk (--data.corpus)",
    "claims": "published values (lightning referee)",
    "sweep": "a sweep (lightning sweep)",
}
"""What files there are, and which option or command takes them."""


def configs(name: str | None = None) -> str:
    """Our configurations with a line on each, or the text of one of them.

    `lightning fit --config NAME` takes them by name; what a file of your own says goes before.

    Args:
        name: The one to show, e.g. L3c; all are listed without it.

    Returns:
        The list, or the text.

    Example:
        >>> print(configs("L3c"), end="")
        # Nonlinear fusion of calibrated LLRs, the paper's best system.
        model:
          systems: [L3c]
    """
    known = shipped_configs()
    if name is None:
        return _listed({one: _about(path) for one, path in known.items()})
    if name not in known:
        listed = f"ours are {', '.join(known)}{meant(name, known)}"
        raise InputError(f"no configuration {name!r}; {listed}")
    return read_text(known[name])


def _about(path: Path) -> str:
    """What a configuration is for: the first sentence of the remark at its head."""
    lines = read_text(path).splitlines()
    end = next((n for n, line in enumerate(lines) if not line.startswith("#")), len(lines))
    remark = " ".join(line.lstrip("# ") for line in lines[:end])
    return f"{remark.partition('. ')[0].removesuffix('.')}."


def _listed(about: dict[str, str]) -> str:
    """A line for each name."""
    width = max(map(len, about))
    return "".join(f"{name:<{width}}  {text}\n" for name, text in about.items())


def schema(kind: str | None = None) -> str:
    """JSON schema of a kind of YAML file, for editors and checks of your own.

    In an editor with a YAML language server the first line of a file names its schema:
    `# yaml-language-server: $schema=fit.schema.json`, written by
    `lightning schema fit > fit.schema.json`. `lightning fit --check` sees more.

    Args:
        kind: fit, table, systems, costs, corpus, claims or sweep; all are listed without it.

    Returns:
        The schema, or the list.

    Example:
        >>> "c_fa_spoof" in schema("costs")
        True
    """
    if kind is None:
        return _listed(KINDS)
    if kind not in KINDS:
        raise InputError(f"no schema of {kind!r}; there are {', '.join(KINDS)}{meant(kind, KINDS)}")
    return read_text(_SCHEMAS / f"{kind}.json")


def completion(shell: Literal["bash", "zsh"]) -> str:
    """Completion of commands, options and named values for a shell.

    `eval "$(lightning completion bash)"` in ~/.bashrc, or the output as a file `_lightning` in a
    folder of zsh's `fpath`.

    Args:
        shell: bash or zsh.

    Returns:
        The script.

    Example:
        >>> "lightning-sasv" in completion("bash")
        True
    """
    return read_text(_COMPLETIONS / f"lightning.{shell}")


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
        shutil.copytree(_NEW, temporary, dirs_exist_ok=True, copy_function=shutil.copyfile)
    return path
