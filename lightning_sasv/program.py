"""What was said to the program as a whole, beside the options of a command, and what it may use."""

from __future__ import annotations

import atexit
import gc
import importlib.util
import math
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TypeVar

from lightning_sasv.errors import InputError, meant

Result = TypeVar("Result")

ENVIRONMENT = frozenset(
    {"SASV2022_ROOT", "SLURM_JOB_ID", "SLURM_ARRAY_TASK_ID", "TMPDIR", "USER"}
    | {f"WANDB_{name}" for name in ("RUN_GROUP", "NAME", "PROJECT", "MODE", "ENTITY", "TAGS")}
)
"""Variables of the environment that a file may read or set; none that could hold a secret."""

FROM_FILE, HANDED_ON = "LIGHTNING_SASV_FROM_FILE", "LIGHTNING_SASV_PROGRAM"
"""Variables for processes that a sweep starts: that it did, and what options it was given."""

SEARCH = "LIGHTNING_SASV_SEARCH"
"""Variable by which a search tells a training which of its trials it is."""

WRITTEN = "LIGHTNING_SASV_WRITTEN"
"""Variable for such a process: the file in which it notes where its results are."""

SAFE_PATH = "PYTHONSAFEPATH"
"""Set, a new Python does not look for modules in the current folder, where foreign files may be."""

WITHOUT_GIT = ("WANDB_DISABLE_GIT", "WANDB_DISABLE_CODE")
"""Set, W&B does not run git in the current folder, whose ``.git/config`` can name programs."""

HELP = """\
options of every command:
  --trust-config        Let configuration files name classes of any package, and run their code.
  --quiet               Print results and errors only: no notes, no progress bars.
  --wait                Wait while another command writes to the same place.
  --limits FACTOR       Read files that are FACTOR times larger than what is taken for sound.
"""


def collect_rarely() -> None:
    """Look for cyclic garbage rarely, and not at the end of the process.

    Importing torch and Lightning makes half a million objects that are there to stay. Looking
    through them again and again, and once more at the end, took a third of a small ``fit``.
    """
    gc.set_threshold(100_000, 20, 50)
    atexit.register(gc.freeze)


@dataclass(frozen=True)
class Program:
    """Options of every command.

    Args:
        trust_config: Configuration files may name any class.
        quiet: Results and errors only.
        wait: Wait for another writer of the same place instead of giving up.
        limits: Factor on every limit of what is read.
    """

    trust_config: bool = False
    quiet: bool = False
    wait: bool = False
    limits: float = 1.0

    def words(self) -> list[str]:
        """The options as words of a command line, to hand them on to another process."""
        flags = [name for name in ("trust_config", "quiet", "wait") if getattr(self, name)]
        words = [f"--{name.replace('_', '-')}" for name in flags]
        return words if self.limits == 1 else [*words, f"--limits={self.limits!r}"]


_said = Program()
_MOST_THREADS = 1024
_BOOLEANS = ("true", "false")
_CONFIG = ("-c", "--config")
_OPTION = re.compile(r"(?<=^--)[^=]+")


def program() -> Program:
    """What holds now."""
    return _said


@contextmanager
def using(said: Program) -> Iterator[Program]:
    """Let ``said`` hold, in every thread of this process, until the end of the block."""
    global _said
    before, _said = _said, said
    git = {} if said.trust_config else {name: os.environ.get(name, "true") for name in WITHOUT_GIT}
    try:
        with safe_path(said.trust_config), _variables(git):
            if not said.trust_config:
                _import_matplotlib_elsewhere()
            yield said
    finally:
        _said = before


def call_as(said: Program, function: Callable[..., Result], *args: object) -> Result:
    """Call a function in another process with what held where the call was asked for."""
    with using(said):
        return function(*args)


def _import_matplotlib_elsewhere() -> None:
    """Keep a ``matplotlibrc`` of the current folder, which can have LaTeX run, out of matplotlib.

    It looks there first, when it is imported; Lightning's metrics import it in every training.
    """
    there = os.path.lexists("matplotlibrc") and "matplotlib" not in sys.modules
    found = importlib.util.find_spec("matplotlib") if there else None
    if found is not None and found.origin is not None:
        with chdir(Path(found.origin).parent):
            importlib.import_module("matplotlib")


@contextmanager
def safe_path(trusted: bool = False) -> Iterator[None]:
    """Have processes that are started here import nothing from the current folder.

    Args:
        trusted: The current folder holds modules to be used: it comes last in the module path.
    """
    here = str(Path.cwd()) if trusted else ""
    added = [here] if trusted and here not in sys.path else []
    sys.path += added
    try:
        with _variables({SAFE_PATH: "1"}):
            yield
    finally:
        sys.path[:] = [folder for folder in sys.path if folder not in added]


@contextmanager
def _variables(wanted: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment until the end of the block."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def from_file() -> bool:
    """Whether a sweep started this process: its command line is then the content of a file."""
    return any(os.environ.get(name) for name in (FROM_FILE, "WANDB_SWEEP_ID"))


def handed_on() -> dict[str, str]:
    """Variables for a process whose command line comes from a file: what holds here holds there."""
    return {FROM_FILE: "1", HANDED_ON: " ".join(program().words()), SAFE_PATH: "1"}


def read_options(words: Sequence[str]) -> tuple[Program, list[str]]:
    """As ``take_options``, together with what was handed on by the command that started this one.

    A file neither asks for trust nor raises its own limits.
    """
    typed, _ = take_options(words)
    if from_file() and (typed.trust_config or typed.limits != 1):
        raise InputError(
            "--trust-config and --limits cannot be given by a sweep file; give them to the "
            f"command that runs it: lightning sweep FILE {' '.join(typed.words())}"
        )
    return take_options([*os.environ.get(HANDED_ON, "").split(), *words])


def with_underscores(words: Sequence[str]) -> list[str]:
    """The words with options as Python and configurations spell them; hyphens are equal.

    Example:
        >>> with_underscores(["fit", "--data.batch-size=8", "--ckpt-path", "a-b"])
        ['fit', '--data.batch_size=8', '--ckpt_path', 'a-b']
    """
    return [_OPTION.sub(lambda found: found[0].replace("-", "_"), word) for word in words]


def shipped_configs() -> dict[str, Path]:
    """Our own configurations by name: those of the checkout, or inside an installed package."""
    package = Path(__file__).parent
    places = (package / "configs", package.parent / "configs")
    folder = next((place for place in places if (place / "base.yaml").is_file()), places[0])
    return {path.stem: path for path in sorted(folder.rglob("*.yaml"))}


def with_shipped(words: Sequence[str]) -> list[str]:
    """The words with the files of our own configurations in place of their bare names.

    ``--config debug`` is ``configs/trainer/debug.yaml``, unless there is a file of that name.

    Raises:
        InputError: There is neither.
    """
    found = list(words)
    for place, word in enumerate(found):
        option, sign, value = word.partition("=")
        last = found[place - 1] if place else ""
        if option in _CONFIG and sign:
            found[place] = f"{option}={_config(value)}"
        elif last in _CONFIG and not word.startswith("-"):
            found[place] = _config(word)
    return found


def _config(name: str) -> str:
    """The file of a configuration."""
    if not re.fullmatch(r"\w+", name) or Path(name).exists():
        return name
    known = shipped_configs()
    if name not in known:
        raise InputError(
            f"--config {name}: no such file, and none of our configurations, which are "
            f"{', '.join(known)}{meant(name, known)}"
        )
    return str(known[name])


def take_options(words: Sequence[str]) -> tuple[Program, list[str]]:
    """The options of every command, and the words without them.

    Example:
        >>> take_options(["fit", "--trust-config", "--limits=2", "--config", "x.yaml"])[1]
        ['fit', '--config', 'x.yaml']
    """
    names = {field.name for field in fields(Program)}
    said: dict[str, float] = {}
    others: list[str] = []
    rest = list(words)
    while rest:
        word = rest.pop(0)
        option, sign, value = word.partition("=")
        name = option[2:].replace("-", "_")
        if not option.startswith("--") or name not in names:
            others.append(word)
        elif name == "limits":
            said[name] = _factor(value if sign else "".join(rest[:1]))
            del rest[: not sign]
        elif sign:
            said[name] = _yes_or_no(option, value)
        else:
            said[name] = not rest or rest[0] not in _BOOLEANS or _yes_or_no(option, rest.pop(0))
    return Program(**said), others  # type: ignore[arg-type]


def _factor(text: str) -> float:
    try:
        factor = float(text)
    except ValueError:
        factor = math.nan
    if not 0 < factor < math.inf:
        raise InputError(f"--limits must be a number above 0, got {text[:100]!r}")
    return factor


def _yes_or_no(option: str, text: str) -> bool:
    if text not in _BOOLEANS:
        raise InputError(f"{option} is true or false, got {text[:100]!r}")
    return text == "true"


def cores() -> int:
    """Processor cores that this process may use; in a SLURM job no more than it was given."""
    free = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on every system
        free = len(os.sched_getaffinity(0))
    given = (os.environ.get(f"SLURM_CPUS_{name}", "") for name in ("PER_TASK", "ON_NODE"))
    return min(free, *(int(number) for number in given if number.isdecimal() and int(number)), free)


def check_threads(threads: int) -> None:
    """Refuse so many threads that PyTorch would end the process where it cannot start them.

    Raises:
        InputError: They are none, or more than any machine has use for.
    """
    if not 1 <= threads <= _MOST_THREADS:
        raise InputError(f"--threads must lie in 1 to {_MOST_THREADS:,}, got {threads}")
