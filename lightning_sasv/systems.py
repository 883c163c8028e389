"""Systems as a command line names them: our own by name, and those of a reader's own YAML files.

    systems:
      MyL3: {density: mixture, components: 4, calibration: effective_prior, rule: nonlinear}

A file names settings of :class:`lightning_sasv.fusion.FusionSystem`, and ``override: true`` where a
system of ours is to have others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from inspect import signature
from typing import TYPE_CHECKING, Any, cast

from lightning_sasv.errors import InputError, meant
from lightning_sasv.files import is_file, read_text, read_yaml
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.settings import PARTS
from lightning_sasv.fusion.zoo import GROUPS, KNOWN, FusionSettings, system_names
from lightning_sasv.plugins import as_other

if TYPE_CHECKING:
    import yaml

Systems = dict[str, FusionSettings]
"""Settings of systems by name."""

OVERRIDE = "override"
NAME = re.compile(r"[A-Za-z][\w+-]{0,63}", re.ASCII)
_TAKEN = ("score", "norm", "llr", *GROUPS)
"""Names that columns of score files or groups of systems have already."""


def read_systems(text: str) -> Systems:
    """Systems by ``L3c,my.yaml``: names, groups of names (paper, ours, all, joint), and YAML files.

    Raises:
        InputError: A name or a setting is unknown, or a file has a system of one of our names.
    """
    parts = [text] if is_file(text) else re.split(r"[][,'\"]", text)
    found: Systems = {}
    for part in (part.strip() for part in parts if part.strip()):
        if not part.endswith((".yaml", ".yml")) and not is_file(part):
            found |= {name: cast("FusionSettings", KNOWN[name]) for name in system_names(part)}
            continue
        own = _read(part)
        if twice := [name for name in own if name in found and KNOWN.get(name) != found[name]]:
            raise InputError(f"--systems: {part} has the system {twice[0]} of another file")
        found |= own
    return found or {name: {} for name in system_names(text)}


def own_systems(systems: Systems) -> Systems:
    """Those that are not ours as they are."""
    return {name: own for name, own in systems.items() if KNOWN.get(name) != own}


def _read(path: str) -> Systems:
    """The systems of a file."""
    content, where = read_yaml(path), _Places(path)
    if not isinstance(content, dict) or not isinstance(content.get("systems"), dict):
        raise InputError(f"{path}: expected `systems:` and below it settings by name of system")
    if more := [key for key in content if key != "systems"]:
        raise where.error([more[0]], "a file of systems has nothing beside systems")
    if not content["systems"]:
        raise where.error(["systems"], "there is none")
    where.refuse_twice(["systems"])
    return {name: _settings(name, own, where) for name, own in content["systems"].items()}


def _settings(name: Any, given: Any, where: _Places) -> FusionSettings:
    """Settings of one system, checked."""
    place = ["systems", name]
    if not isinstance(name, str) or not NAME.fullmatch(name) or name in _TAKEN:
        raise where.error(place, "a name is of letters, digits, _, + and -, and no word of ours")
    if not isinstance(given, dict):
        raise where.error(place, "expected settings, such as {density: gaussian, rule: nonlinear}")
    where.refuse_twice(place)
    override, own = given.get(OVERRIDE, False), {k: v for k, v in given.items() if k != OVERRIDE}
    if not isinstance(override, bool):
        raise where.error([*place, OVERRIDE], f"expected true or false, got {override!r}")
    if name in KNOWN and not override:
        raise where.error(
            place, f"{name} is a built-in system; choose another name, or add {OVERRIDE}: true"
        )
    return _checked(own, place, where)


def _checked(given: dict[Any, Any], place: list[Any], where: _Places) -> FusionSettings:
    """Settings that a fusion system has, each with a value that it takes, and all together."""
    known, own = signature(Fusion).parameters, dict[str, Any]()
    for key, value in given.items():
        if key not in known:
            listed = f"expected one of {', '.join([*known, OVERRIDE])}{meant(str(key), known)}"
            raise where.error([*place, key], f"a fusion system has no such setting; {listed}")
        try:
            own[key] = as_other(value) if key in PARTS else value
        except InputError as error:
            raise where.error([*place, key], str(error)) from None
    try:
        Fusion(**own)
    except (InputError, TypeError, ValueError) as error:
        said = [key for key in own if re.search(rf"\b{key}\b", str(error))]
        raise where.error([*place, *said[:1]], str(error)) from None
    return cast("FusionSettings", own)


class _Places:
    """Where keys stand in a YAML file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def _nodes(self, keys: Iterable[Any]) -> Iterator[yaml.Node]:
        """The node of each key on the way, as far as there are any."""
        import yaml

        node = yaml.compose(read_text(self.path), Loader=yaml.SafeLoader)
        for key in keys:
            pairs = node.value if isinstance(node, yaml.MappingNode) else []
            here = [pair for pair in pairs if pair[0].value == str(key)]
            if not here:
                return
            yield here[-1][0]
            node = here[-1][1]
        yield node

    def error(self, keys: list[Any], text: str) -> InputError:
        """What is wrong at a key."""
        lines = [node.start_mark.line + 1 for node in [*self._nodes(keys)][: len(keys)]]
        line = f", line {lines[-1]}" if lines else ""
        return InputError(f"{self.path}{line}, {'.'.join(map(str, keys))[:200]}: {text}")

    def refuse_twice(self, keys: list[Any]) -> None:
        """Refuse a key that stands twice in a mapping: YAML would take the last without a word."""
        *on_the_way, node = self._nodes(keys)
        if len(on_the_way) < len(keys):  # it was merged from elsewhere
            return
        names = [key.value for key, _ in node.value if isinstance(key.value, str)]
        if twice := [name for name in names if names.count(name) > 1]:
            raise self.error([*keys, twice[0]], "stands twice")
