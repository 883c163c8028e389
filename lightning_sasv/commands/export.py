"""``lightning export``: a fitted system as a folder that can be deployed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lightning_sasv.console import print_line
from lightning_sasv.errors import InputError

if TYPE_CHECKING:
    from lightning_sasv.fusion import FusionSystem
    from lightning_sasv.trials import Scores


def export(
    *, fitted: str, system: str, out: str, costs: str = "a-dcf1", dev: str | None = None
) -> None:
    """Write a fitted system as a bundle: fusion, threshold, costs, LLR bounds, checksums.

    `lightning_sasv.deploy.load(OUT)` turns the folder into a scorer that accepts or rejects and
    says why, without Lightning. Systems with LLRs decide by the Bayes policy of the costs; those
    without (B1, B1v2, Post) by the threshold on their score that costs least on dev.

    Args:
        fitted: Folder of results, with fitted/SYSTEM.safetensors and scores/dev.csv, as
            `lightning fit` and `lightning fuse --out` write it.
        system: Name of the system, e.g. L3t.
        out: Folder to make; it must not be there yet.
        costs: Costs and priors: equal, a-dcf1, asvspoof5, or a JSON or YAML file with c_miss,
            c_fa_nontarget, c_fa_spoof, p_target, p_nontarget and p_spoof.
        dev: Score file of the dev trials, when it is not scores/dev.csv in that folder.
    """
    from lightning_sasv.decisions import read_costs
    from lightning_sasv.deploy.bundle import fingerprint, write_bundle
    from lightning_sasv.scores import read_scores

    path = _find_system(Path(fitted), system)
    model, about = _load(path)
    cost_model = read_costs(costs)
    table = Path(dev) if dev is not None else Path(fitted) / "scores" / "dev.csv"
    if not table.is_file():
        raise InputError(f"no dev scores at {table}; give their file with --dev")
    scores = read_scores(table)
    _check_scores(model, scores, system, table)
    folder = write_bundle(out, model, scores, cost_model, name=system, about=about)
    for line in _summary(folder, costs, fingerprint(folder)):
        print_line(line)


def _find_system(folder: Path, name: str) -> Path:
    """File of a fitted system; the name is looked up, never made into a path."""
    from lightning_sasv.fitted import FOLDER, SUFFIX

    found = {path.stem: path for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}"))}
    if name not in found:
        there = f"there are {', '.join(found)}" if found else "there is none"
        raise InputError(f"no fitted system {name!r} in {folder / FOLDER}; {there}")
    return found[name]


def _load(path: Path) -> tuple[FusionSystem, dict[str, Any]]:
    """A fitted system, and what its file says of its origin."""
    from safetensors import safe_open

    from lightning_sasv.fitted import HEADER, load_system

    system = load_system(path)
    with safe_open(path, framework="pt") as file:
        origin = json.loads(file.metadata()[HEADER]).get("about")
    if not isinstance(origin, dict):
        raise InputError(f"{path} is damaged: it does not say where it comes from")
    return system, origin


def _check_scores(system: FusionSystem, scores: Scores, name: str, table: Path) -> None:
    """Refuse dev scores that a different fit made: their own fused score would differ."""
    import numpy as np

    written = scores.extra.get(f"sasv_{name}")
    if written is None or written.dtype.kind != "f":
        return
    again = system(np.array(scores.asv), np.array(scores.cm)).sasv.numpy()
    if not np.allclose(again, written, rtol=1e-5, atol=1e-5):
        raise InputError(
            f"{table} was not scored by this fit of {name}: its column sasv_{name} differs from "
            "what the fitted system says; fit and score again, or give other scores with --dev"
        )


def _summary(folder: Path, costs: str, fingerprint: str) -> list[str]:
    """What was written, in a few lines."""
    about = json.loads((folder / "bundle.json").read_text(encoding="utf-8"))
    dev, limits, rule = about["dev"], about["bounds"], about["decision"]
    lines = [
        f"{about['system']} (corpus {about['about'].get('corpus', 'not named')}) in {folder}",
        f"decision: {rule['kind']} at the costs {costs}, threshold {rule['threshold']:.4g}",
        f"on dev: a-DCF {dev['a_dcf']:.4f}, misses {100 * dev['p_miss']:.2f} %, accepted "
        f"nontargets {100 * dev['p_fa_nontarget']:.2f} %, spoofs {100 * dev['p_fa_spoof']:.2f} %",
    ]
    if limits is not None:
        asv, cm = limits["asv_llr"], limits["cm_llr"]
        lines.append(f"LLR bounds: ASV {asv[0]:.2f} to {asv[1]:.2f}, CM {cm[0]:.2f} to {cm[1]:.2f}")
        if limits["unreachable"]:
            lines.append(
                f"warning: within these bounds no trial can be {limits['unreachable']}ed at these "
                "costs; more dev trials would widen them, load(…, bounds=False) lifts them"
            )
    return [*lines, f"fingerprint: {fingerprint}"]
