"""A bundle on disk: fitted fusion, decision rule, costs, metadata, and checksums of it all.

``fusion.safetensors`` holds the fitted system, ``dev.safetensors`` the dev trials, ``bundle.json``
all else, ``checksums.json`` the SHA-256 of each. The folder appears whole or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lightning_sasv import __version__
from lightning_sasv.decisions import CostModel, as_cost_model, empirical_cost, inversions
from lightning_sasv.deploy.before_fusion import FRONT_ENDS
from lightning_sasv.deploy.bounds import METHOD
from lightning_sasv.deploy.decision import (
    MEANING,
    checked_scores,
    choose_rule,
    read_rule,
    unreachable,
)
from lightning_sasv.deploy.dev import DEV, Reference, choose_level, read_measured
from lightning_sasv.deploy.dev import describe as describe_unsure
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_folder, inside, read_json, sha256, write_json
from lightning_sasv.fitted import frozen, read_fitted, save_system
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.settings import PARTS
from lightning_sasv.places import BUNDLE, kind_of
from lightning_sasv.plugins import name_of
from lightning_sasv.trials import CLASS_ORDER, Scores, TrialClass

FORMAT, OLD_FORMAT = "lightning_sasv.bundle/2", "lightning_sasv.bundle/1"
FUSION, METADATA, CHECKSUMS = "fusion.safetensors", "bundle.json", "checksums.json"
CHECKED = (FUSION, METADATA)


def write_bundle(
    out: str | Path,
    system: Fusion,
    dev: Scores,
    costs: CostModel,
    *,
    name: str,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
    evaluation: Scores | None = None,
    more: Callable[[Path, Scorer], Mapping[str, Any]] | None = None,
    level: float | None = None,
    card: bool = False,
) -> Path:
    """Write a bundle: the folder ``out`` appears whole, or nothing is written.

    Args:
        out: Folder to make; it must not hold anything yet.
        system: Fitted system, as a module or as it was read.
        dev: Development trials, which give threshold and bounds.
        costs: Costs and priors of the application.
        name: Name of the system.
        about: Where the system comes from (corpus, seed, …).
        overwrite: Replace a bundle that is there, but nothing else.
        evaluation: Evaluation trials, where there are any, to say what was measured on them.
        more: Writes further parts into the folder; what it returns is part of the description.
        level: Level of the verdict ``unsure``; by default 1 % where dev has the trials for it.
        card: Write the model card, ``CARD.md`` and ``card.html``, too.

    Raises:
        InputError: ``out`` is there already, the system is not fitted, or no decision follows.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> import numpy as np
        >>> from lightning_sasv.fusion import build_system
        >>> dev = Scores(*np.array([[0.1, 0.6, 0.2], [1, 2, -3]]), np.array([2, 1, 0]))
        >>> with TemporaryDirectory() as place:
        ...     out = write_bundle(f"{place}/b", build_system("B1"), dev, CostModel(), name="B1")
        ...     sorted(path.name for path in out.iterdir())
        ['bundle.json', 'checksums.json', 'dev.safetensors', 'fusion.safetensors']
    """
    system = frozen(system, name)
    check_exportable(system.config, name)
    rule = choose_rule(system, dev, costs)
    origin = dict(about or {})
    unsure = choose_level(system, dev, level)
    scorer = Scorer(system, rule, costs, {}, measured=unsure.measured, level=unsure.level)
    content = _describe(scorer, dev) | {"system": name, "about": origin}
    sets = {"dev": dev} | ({} if evaluation is None else {"eval": evaluation})
    content["inversions"] = {split: _inversions(scorer, one) for split, one in sets.items()}
    content["unsure"] = describe_unsure(unsure, scorer, sets)
    with atomic_folder(out, overwrite and kind_of(out) == BUNDLE) as folder:
        save_system(folder / FUSION, system, {"system": name, **origin})
        Reference.of(system, dev).save(folder / DEV)
        content |= more(folder, scorer) if more is not None else {}
        unsure.save(folder)
        write_json(folder / METADATA, content, indent=2)
        if card:
            from lightning_sasv.deploy.card import write_card

            write_card(folder, content, scorer, sets)
        parts = sorted(path for path in folder.rglob("*") if path.is_file())
        sums = {path.relative_to(folder).as_posix(): sha256(path) for path in parts}
        write_json(folder / CHECKSUMS, sums, indent=2)
    return Path(out)


def check_exportable(config: Mapping[str, Any], name: str) -> None:
    """Refuse a system that is made of classes of another package: a bundle holds no code."""
    for place in PARTS:
        part = name_of(config[place])
        if isinstance(config[place], dict) or "." in str(part):
            raise InputError(
                f"{name} cannot be exported: its {place} is the class {part}, and a bundle holds "
                "no code; install a package that registers it as an entry point of "
                f"{PARTS[place].group} under a name of its own, and fit the system with that name"
            )


def load(bundle: str | Path, *, bounds: bool = True, fingerprint: str | None = None) -> Scorer:
    """The scorer of a bundle, after its checksums were found right.

    Args:
        bundle: Folder that ``lightning export`` or :func:`write_bundle` wrote.
        bounds: Keep LLRs within what the development data support.
        fingerprint: SHA-256 of ``checksums.json`` that the bundle must have. Checksums inside a
            folder show damage; only one that is kept elsewhere shows a deliberate change.

    Raises:
        InputError: The bundle is incomplete, altered, or not of this format.

    Example:
        >>> load("nowhere")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: no bundle at nowhere; make one with `lightning export`
    """
    folder = Path(bundle)
    _check(folder, fingerprint)
    path = folder / METADATA
    try:
        content = read_json(path)
        if content["format"] not in (FORMAT, OLD_FORMAT):
            raise InputError(f"{path} has the format {content['format']!r}, expected {FORMAT!r}")
        rule, costs = read_rule(content), as_cost_model(content["costs"])
        system = read_fitted(folder / FUSION)
        unsure = read_measured(folder, content, system)
        ends = content.get("front_ends") or {}
        if not isinstance(ends, dict) or not all(isinstance(one, dict) for one in ends.values()):
            raise ValueError("front_ends")
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path} is no description of a bundle ({error!r}); export it again"
        ) from None
    found = unsure.measured
    return Scorer(system, rule, costs, content, bounds=bounds, measured=found, level=unsure.level)


load_bundle = load


def fingerprint(bundle: str | Path) -> str:
    """SHA-256 of the checksums of a bundle: it changes with any byte of the bundle.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     fingerprint(write_json(f"{folder}/checksums.json", {}).parent)[:8]
        'ca3d163b'
    """
    return sha256(Path(bundle) / CHECKSUMS)


def _inversions(scorer: Scorer, trials: Scores) -> dict[str, int]:
    """How many trials of each class are rejected though an accepted one is nowhere better."""
    scores = checked_scores(scorer.system, trials)[: scorer.system.columns.scores]
    found = inversions(scorer.of(trials).margin > 0, scores)
    counts = {str(code): int((found & (trials.label == code)).sum()) for code in TrialClass}
    return {"count": int(found.sum()), "trials": len(trials), **counts}


def _describe(scorer: Scorer, dev: Scores) -> dict[str, Any]:
    """Everything about a bundle that is not in the fitted system."""
    from lightning_sasv.frontends.manifest import versions  # not needed to load one

    system, rule, costs = scorer.system, scorer.rule, scorer.costs
    verdict = scorer.of(dev)
    found = empirical_cost(verdict.accepted, dev.label, costs, verdict.unsure)
    limits = None
    if rule.bounds is not None:
        more = {"method": METHOD, "unreachable": unreachable(rule, costs)}
        limits = {**rule.bounds._asdict(), **more}
    return {
        "format": FORMAT,
        "decision": {"kind": rule.kind, "threshold": rule.threshold, "meaning": MEANING[rule.kind]},
        "costs": costs.as_dict(),
        "bounds": limits,
        "fusion": system.config,
        **({} if system.columns.is_pair else {"columns": list(system.columns.names)}),
        **({"warnings": system.warnings} if system.warnings else {}),
        "dev": {
            "trials": {str(code): int((dev.label == code).sum()) for code in TrialClass},
            "a_dcf": float(found.normalised),
            **{name: float(getattr(found, name)) for name in found._fields[2:5]},
            "unsure": dict(zip(map(str, CLASS_ORDER), found.unsure, strict=True)),
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "lightning-sasv": __version__,
            **versions("torch", "numpy", "safetensors"),
        },
    }


def _check(folder: Path, expected: str | None) -> None:
    """Compare every file with its checksum."""
    if not folder.is_dir():
        raise InputError(f"no bundle at {folder}; make one with `lightning export`")
    for name in (CHECKSUMS, *CHECKED):
        _check_there(folder, name)
    if expected is not None and fingerprint(folder) != expected.lower():
        raise InputError(
            f"bundle {folder} has the bundle fingerprint {fingerprint(folder)}, not {expected}: "
            "it is another bundle, or it was altered"
        )
    try:
        sums = read_json(folder / CHECKSUMS)
        graphs = {name for name in sums if name.startswith(FRONT_ENDS)}  # checked where they run
        wanted = {name: str(sums[name]) for name in {*CHECKED, *sums} - graphs}
    except (KeyError, TypeError, ValueError, AttributeError):
        raise InputError(f"{folder / CHECKSUMS} is damaged; export the bundle again") from None
    for name, digest in wanted.items():
        _check_there(folder, name)
        if sha256(folder / name) != digest:
            raise InputError(
                f"{folder / name} does not match its SHA-256 in {CHECKSUMS}: the bundle was "
                "altered or damaged; export it again"
            )


def _check_there(folder: Path, name: str) -> None:
    if not (folder / name).is_file():
        raise InputError(f"bundle {folder} is incomplete: {name} is missing; export it again")
    inside(folder, folder / name)
