"""``lightning export``: from a folder of results to a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.checks import as_finite
from lightning_sasv.deploy.before_fusion import SIMULATED, WholeWay
from lightning_sasv.deploy.bundle import write_bundle
from lightning_sasv.deploy.decision import fuse_trials
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import FOLDER, SUFFIX, FittedSystem, frozen, read_fitted
from lightning_sasv.fusion.columns import Columns
from lightning_sasv.places import check_links
from lightning_sasv.plugins import UntrustedError
from lightning_sasv.scores.sources import Tell, read_costs, silent
from lightning_sasv.trials import OWN_CM, Scores, claimed_speakers

DEFAULT = "M3d"


def export(
    *,
    fitted: str,
    system: str | None = None,
    out: str,
    costs: str = "a-dcf1",
    dev: str | None = None,
    with_front_ends: bool = False,
    cm: str | None = None,
    asv: str | None = None,
    level: float | None = None,
    onnx: bool = False,
    overwrite: bool = False,
    tell: Tell = silent,
) -> Path:
    """Write a fitted system as a bundle: fusion, threshold, costs, LLR bounds, checksums.

    `lightning_sasv.deploy.load(OUT)` turns the folder into a scorer that accepts or rejects and
    says why, without Lightning. Systems with LLRs decide by the Bayes policy of the costs; those
    without (B1, B1v2, Post) by the threshold on their score that costs least on dev.

    Args:
        fitted: Folder of results, with fitted/SYSTEM.safetensors and scores/dev.csv, as
            `lightning fit` and `lightning fuse --out` write it.
        system: Name of the system, e.g. L3t. By default M3d, in which nobody is rejected for a
            better score; it is fitted to the dev scores where the folder has none.
        out: Folder to make; it must not hold anything yet.
        costs: Costs and priors: equal, a-dcf1, asvspoof5, or a JSON or YAML file with c_miss,
            c_fa_nontarget, c_fa_spoof, p_target, p_nontarget, p_spoof and, if wanted, c_abstain.
        dev: Score file of the dev trials, when it is not scores/dev.csv in that folder.
        with_front_ends: Write AASIST and ECAPA as ONNX graphs into the bundle, so that
            `lightning verify` needs neither torch nor weights; their licences are recorded.
        cm: Weights of AASIST (by default those in PyTorch's cache), for --with-front-ends, or to
            record their SHA-256 where the embeddings of the training do not say it.
        asv: Folder with the weights of ECAPA (by default in the hub's cache), likewise.
        level: Level of the verdict unsure: what is outside of what dev measured is not accepted, in
            about this share of trials of speakers like those of dev. By default 0.01 where dev has
            the trials for it; 0 for no such verdict.
        onnx: Write CM head (where there is one), fusion and policy as one ONNX graph too,
            policy.onnx, checked with onnxruntime.
        overwrite: Replace the bundle that is in OUT.
        tell: Told what was not asked for.

    Returns:
        The folder that was made.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> from lightning_sasv.deploy import load
        >>> from lightning_sasv.fitted import save_system
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
    from lightning_sasv.deploy.before_fusion import whole_way
    from lightning_sasv.fusion.zoo import of_network
    from lightning_sasv.results import scores_file

    _check_folder(Path(fitted))
    there = (check_links(fitted) / FOLDER).glob(f"*{SUFFIX}")
    found, name = {path.stem: path for path in sorted(there)}, system or DEFAULT
    if system is not None and system not in found:  # it is looked up, never made into a path
        known = f"there are {', '.join(found)}" if found else "there is none"
        raise InputError(f"no fitted system {system!r} in {Path(fitted) / FOLDER}; {known}")
    cost_model = read_costs(costs)
    table = scores_file(Path(fitted), "dev") if dev is None else Path(dev)
    if not table.is_file():
        raise InputError(f"no dev scores at {table}; give their file with --dev")
    if name in found:
        model = _read_exportable(found[name])
        scores = _read_set(model, table)
        _check_scores(model, scores, table)
    else:
        model, scores = _fit_default(found, table)
    if system is None:
        origin = "of this folder" if name in found else f"fitted to {table}"
        tell([f"{name}, {origin}: nobody is rejected for a better score; --system takes another"])
    more = scores_file(Path(fitted), "eval")
    evaluation = _read_if_there(model, more) if dev is None else None
    joint = of_network(model.config) is not None
    own = joint or f"{OWN_CM}{name}" in scores.extra
    whole = whole_way(Path(fitted), name, cm, asv, with_front_ends, own, joint)
    tell([*whole.lines(), *([SIMULATED] if with_front_ends and model.simulated else [])])
    return write_bundle(
        out,
        model,
        scores,
        cost_model,
        name=name,
        about=model.about,
        overwrite=overwrite,
        evaluation=evaluation,
        more=partial(_write_more, whole, onnx),
        level=level,
        card=True,
    )


def _check_folder(fitted: Path) -> None:
    """Say what was meant by a folder that can hold no fitted systems."""
    if not fitted.is_dir():
        raise InputError(
            f"no folder of results at {fitted}; make one with `lightning fit` or `fuse --out`"
        )
    seeds = sorted(path for path in fitted.glob("seed[0-9]*") if (path / FOLDER).is_dir())
    if seeds and not (fitted / FOLDER).is_dir():
        raise InputError(f"{fitted} holds results of seeds; give one of them: --fitted {seeds[0]}")


def _write_more(whole: WholeWay, onnx: bool, folder: Path, scorer: Scorer) -> dict[str, Any]:
    """What a bundle holds beside its fusion, and what it says of that."""
    found = whole.write(folder)
    if onnx:
        from lightning_sasv.deploy.graph import write_graph

        found["graph"] = write_graph(folder, scorer, whole.head)
    return found


def _read_if_there(system: FittedSystem, path: Path) -> Scores | None:
    """Scores that are only described: none where there are none, or other columns."""
    if path.is_file():
        with suppress(InputError):
            return _read_set(system, path)
    return None


def _fit_default(found: Mapping[str, Path], table: Path) -> tuple[FittedSystem, Scores]:
    """The default system, fitted to dev scores of the columns that the others of a folder fuse."""
    from lightning_sasv.fusion import JOINT_SYSTEMS, build_system

    if found and found.keys() <= JOINT_SYSTEMS.keys():
        listed, first = ", ".join(found), next(iter(found))
        raise InputError(
            f"{table} holds scores of networks of {listed}, which {DEFAULT} cannot take: add "
            f"--system {first}"
        )
    others = [_read_exportable(path) for path in [*found.values()][:1]]
    model = build_system(DEFAULT)
    columns = others[0].columns.without_quality() if others else model.columns
    scores = _read_columns(columns, DEFAULT, table)
    names = None if columns.is_pair else columns.names
    model.fit(scores.asv, scores.cm, scores.label, columns=names)
    made = frozen(model, DEFAULT)
    for other in others:
        made.about, made.fitted_on = other.about, other.fitted_on
    return made, scores


def _read_exportable(path: Path) -> FittedSystem:
    """A fitted system that is made of nothing but ours and what packages register."""
    try:
        return read_fitted(path)
    except UntrustedError as error:
        why = str(error).partition(": ")[2].partition(", which no file")[0]
        raise InputError(
            f"{path.stem} cannot be exported: {why}, and a bundle holds no code"
        ) from None


def _read_set(system: FittedSystem, path: Path) -> Scores:
    """Scores of trials, in the columns that a system fuses."""
    return _read_columns(system.columns, str(system.name), path)


def _read_columns(columns: Columns, name: str, path: Path) -> Scores:
    """The same by the names of columns and system; speakers are those of the enrolled models."""
    from lightning_sasv.scores import read_scores

    pair = columns.is_pair
    scores = read_scores(path).of_system(name) if pair else _read_named(columns, name, path)
    if scores.speaker is None:
        return scores
    return replace(scores, speaker=np.array(claimed_speakers(scores.speaker.astype(str).tolist())))


def _read_named(columns: Columns, name: str, path: Path) -> Scores:
    """Scores of several columns, as they are written."""
    from lightning_sasv.scores import read_table

    table = read_table(path)
    table.need([*columns.names, "label"], "this system")
    named = {one: as_finite(table.numbers(one), f"{path}: {one}") for one in columns.names}
    asv, cm, _ = columns.take(named)
    fused = f"sasv_{name}"
    extra = {one: named[one] for one in columns.names[columns.scores :]}
    extra |= {fused: table.numbers(fused)} if fused in table else {}
    known = {one: table.text(one) for one in ("speaker", "attack") if one in table}
    return Scores(asv, cm, table.labels(), extra=extra, **known)


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
