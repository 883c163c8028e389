"""A bundle on disk: fitted fusion, decision rule, costs, metadata, and checksums of it all.

``fusion.safetensors`` holds the fitted system, ``bundle.json`` all else, ``checksums.json`` the
SHA-256 of both. The folder appears whole or not at all.
"""

from __future__ import annotations

import platform
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv import __version__
from lightning_sasv.checks import as_finite
from lightning_sasv.decisions import CostModel, as_cost_model, empirical_cost
from lightning_sasv.deploy.bounds import METHOD
from lightning_sasv.deploy.scorer import (
    MEANING,
    DecisionRule,
    Scorer,
    choose_rule,
    fuse_trials,
    read_rule,
    unreachable,
)
from lightning_sasv.errors import InputError
from lightning_sasv.files import (
    atomic_folder,
    check_links,
    inside,
    read_json,
    sha256,
    write_json,
)
from lightning_sasv.fitted import (
    FOLDER,
    SUFFIX,
    FittedSystem,
    frozen,
    read_fitted,
    save_system,
)
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.custom import PARTS
from lightning_sasv.places import BUNDLE, kind_of
from lightning_sasv.plugins import UntrustedError, name_of
from lightning_sasv.scores.sources import read_costs
from lightning_sasv.trials import Scores, TrialClass

FORMAT = "lightning_sasv.bundle/1"
FUSION, METADATA, CHECKSUMS = "fusion.safetensors", "bundle.json", "checksums.json"
CHECKED = (FUSION, METADATA)


def export(
    *,
    fitted: str,
    system: str,
    out: str,
    costs: str = "a-dcf1",
    dev: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a fitted system as a bundle: fusion, threshold, costs, LLR bounds, checksums.

    `lightning_sasv.deploy.load(OUT)` turns the folder into a scorer that accepts or rejects and
    says why, without Lightning. Systems with LLRs decide by the Bayes policy of the costs; those
    without (B1, B1v2, Post) by the threshold on their score that costs least on dev.

    Args:
        fitted: Folder of results, with fitted/SYSTEM.safetensors and scores/dev.csv, as
            `lightning fit` and `lightning fuse --out` write it.
        system: Name of the system, e.g. L3t.
        out: Folder to make; it must not hold anything yet.
        costs: Costs and priors: equal, a-dcf1, asvspoof5, or a JSON or YAML file with c_miss,
            c_fa_nontarget, c_fa_spoof, p_target, p_nontarget and p_spoof.
        dev: Score file of the dev trials, when it is not scores/dev.csv in that folder.
        overwrite: Replace the bundle that is in OUT.

    Returns:
        The folder that was made.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from lightning_sasv.fusion import build_system
        >>> from lightning_sasv.scores import write_scores
        >>> dev = Scores(*np.array([[0.1, 0.6, 0.2], [1, 2, -3]]), np.array([2, 1, 0]))
        >>> with TemporaryDirectory() as place:
        ...     _ = save_system(f"{place}/fitted/B1.safetensors", build_system("B1"), {})
        ...     _ = write_scores(f"{place}/scores/dev.csv", dev)
        ...     out = export(fitted=place, system="B1", out=f"{place}/bundle", costs="equal")
        ...     load(out)(0.6, 2.0).decision
        'accept'
    """
    from lightning_sasv.results import scores_file

    there = (check_links(fitted) / FOLDER).glob(f"*{SUFFIX}")
    found = {path.stem: path for path in sorted(there)}
    if system not in found:  # the name is looked up, never made into a path
        known = f"there are {', '.join(found)}" if found else "there is none"
        raise InputError(f"no fitted system {system!r} in {Path(fitted) / FOLDER}; {known}")
    model, cost_model = _read_exportable(found[system]), read_costs(costs)
    table = scores_file(Path(fitted), "dev") if dev is None else Path(dev)
    if not table.is_file():
        raise InputError(f"no dev scores at {table}; give their file with --dev")
    scores = _read_dev(model, table)
    scores = replace(scores, cm=scores.cm_of(system))
    _check_scores(model, scores, table)
    return write_bundle(
        out, model, scores, cost_model, name=system, about=model.about, overwrite=overwrite
    )


def _read_exportable(path: Path) -> FittedSystem:
    """A fitted system that is made of nothing but ours and what packages register."""
    try:
        return read_fitted(path)
    except UntrustedError as error:
        why = str(error).partition(": ")[2].partition(", which no file")[0]
        raise InputError(
            f"{path.stem} cannot be exported: {why}, and a bundle holds no code"
        ) from None


def _read_dev(system: FittedSystem, path: Path) -> Scores:
    """Scores of the dev trials, in the columns that the system fuses."""
    from lightning_sasv.scores import read_scores, read_table

    columns = system.columns
    if columns.is_pair:
        return read_scores(path)
    table = read_table(path)
    table.need([*columns.names, "label"], "this system")
    named = {name: as_finite(table.numbers(name), f"{path}: {name}") for name in columns.names}
    asv, cm, _ = columns.take(named)
    fused = f"sasv_{system.name}"
    extra = {name: named[name] for name in columns.names[columns.scores :]}
    extra |= {fused: table.numbers(fused)} if fused in table else {}
    return Scores(asv, cm, table.labels(), extra=extra)


def _check_scores(system: FittedSystem, scores: Scores, table: Path) -> None:
    """Refuse dev scores that a different fit made: their own fused score would differ."""
    written = scores.extra.get(f"sasv_{system.name}")
    if written is None or written.dtype.kind != "f":
        return
    if not np.allclose(fuse_trials(system, scores).sasv, written, rtol=1e-5, atol=1e-5):
        raise InputError(
            f"{table} was not scored by this fit of {system.name}: its column sasv_{system.name} "
            "differs from what the fitted system says; fit and score again, or give other scores "
            "with --dev"
        )


def write_bundle(
    out: str | Path,
    system: Fusion,
    dev: Scores,
    costs: CostModel,
    *,
    name: str,
    about: Mapping[str, Any] | None = None,
    overwrite: bool = False,
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

    Raises:
        InputError: ``out`` is there already, the system is not fitted, or no decision follows.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from lightning_sasv.fusion import build_system
        >>> dev = Scores(*np.array([[0.1, 0.6, 0.2], [1, 2, -3]]), np.array([2, 1, 0]))
        >>> with TemporaryDirectory() as place:
        ...     out = write_bundle(f"{place}/b", build_system("B1"), dev, CostModel(), name="B1")
        ...     sorted(path.name for path in out.iterdir())
        ['bundle.json', 'checksums.json', 'fusion.safetensors']
    """
    system = frozen(system, name)
    check_exportable(system.config, name)
    rule = choose_rule(system, dev, costs)
    origin = dict(about or {})
    content = _describe(system, rule, dev, costs) | {"system": name, "about": origin}
    with atomic_folder(out, overwrite and kind_of(out) == BUNDLE) as folder:
        save_system(folder / FUSION, system, {"system": name, **origin})
        write_json(folder / METADATA, content, indent=2)
        sums = {part: sha256(folder / part) for part in CHECKED}
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
        if content["format"] != FORMAT:
            raise InputError(f"{path} has the format {content['format']!r}, expected {FORMAT!r}")
        rule, costs = read_rule(content), as_cost_model(content["costs"])
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"{path} is no description of a bundle ({error!r}); export it again"
        ) from None
    return Scorer(read_fitted(folder / FUSION), rule, costs, content, bounds=bounds)


def fingerprint(bundle: str | Path) -> str:
    """SHA-256 of the checksums of a bundle: it changes with any byte of the bundle.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     fingerprint(write_json(f"{folder}/checksums.json", {}).parent)[:8]
        'ca3d163b'
    """
    return sha256(Path(bundle) / CHECKSUMS)


def _describe(
    system: FittedSystem, rule: DecisionRule, dev: Scores, costs: CostModel
) -> dict[str, Any]:
    """Everything about a bundle that is not in the fitted system."""
    scorer = Scorer(system, rule, costs, {})
    found = empirical_cost(scorer.decide(fuse_trials(system, dev)).accepted, dev.label, costs)
    limits = None
    if rule.bounds is not None:
        more = {"method": METHOD, "unreachable": unreachable(rule, costs)}
        limits = {**rule.bounds._asdict(), **more}
    return {
        "format": FORMAT,
        "decision": {"kind": rule.kind, "threshold": rule.threshold, "meaning": MEANING[rule.kind]},
        "costs": asdict(costs),
        "bounds": limits,
        "fusion": system.config,
        **({} if system.columns.is_pair else {"columns": list(system.columns.names)}),
        **({"warnings": system.warnings} if system.warnings else {}),
        "dev": {
            "trials": {str(code): int((dev.label == code).sum()) for code in TrialClass},
            "a_dcf": float(found.normalised),
            **{name: float(getattr(found, name)) for name in found._fields[2:]},
        },
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "lightning-sasv": __version__,
            "python": platform.python_version(),
            **{package: version(package) for package in ("torch", "numpy", "safetensors")},
        },
    }


def _check(folder: Path, expected: str | None) -> None:
    """Compare every file with its checksum."""
    if not folder.is_dir():
        raise InputError(f"no bundle at {folder}; make one with `lightning export`")
    for name in (CHECKSUMS, *CHECKED):
        if not (folder / name).is_file():
            raise InputError(f"bundle {folder} is incomplete: {name} is missing; export it again")
        inside(folder, folder / name)
    if expected is not None and fingerprint(folder) != expected.lower():
        raise InputError(
            f"bundle {folder} has the bundle fingerprint {fingerprint(folder)}, not {expected}: "
            "it is another bundle, or it was altered"
        )
    try:
        sums = read_json(folder / CHECKSUMS)
        wanted = {name: str(sums[name]) for name in CHECKED}
    except (KeyError, TypeError, ValueError):
        raise InputError(f"{folder / CHECKSUMS} is damaged; export the bundle again") from None
    for name, digest in wanted.items():
        if sha256(folder / name) != digest:
            raise InputError(
                f"{folder / name} does not match its SHA-256 in {CHECKSUMS}: the bundle was "
                "altered or damaged; export it again"
            )
