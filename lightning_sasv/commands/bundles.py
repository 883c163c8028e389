"""``lightning export``, ``drift``, ``verify``, ``enrol`` and ``serve``: bundles for deployment."""

from __future__ import annotations

import json as json_text
from pathlib import Path
from typing import Any

from lightning_sasv import deploy, service
from lightning_sasv.commands.arguments import DESCRIBED, options_of
from lightning_sasv.console import print_line, print_note, print_notes, print_written, progress
from lightning_sasv.files import finite, read_json


@options_of("deploy.export")
def export(**options: Any) -> None:
    """Say what :func:`deploy.export` wrote."""
    from lightning_sasv.fusion.doubts import warning_lines

    folder = deploy.export(**options, tell=print_notes)
    about = read_json(folder / "bundle.json")
    for line in _summary(folder, about, options["costs"]):
        print_line(line)
    print_notes(warning_lines({about["system"]: about.get("warnings", [])}))


def _summary(folder: Path, about: dict[str, Any], costs: str) -> list[str]:
    """What was written, in a few lines."""
    from lightning_sasv.deploy.card import given_by_network, inversion_lines, unsure_lines

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
    lines += [*inversion_lines(about), *unsure_lines(about)]
    if given := given_by_network(about):
        lines.append(f"it takes {given} (columns asv_score and cm_score)")
    return [*lines, f"bundle fingerprint: {deploy.fingerprint(folder)}"]


def _as_line(value: dict[str, Any]) -> str:
    return json_text.dumps(finite(value), allow_nan=False)


@options_of("deploy.drift", typed=DESCRIBED)
def drift(json: bool, **options: Any) -> None:
    """Print what :func:`deploy.drift` finds."""
    found = deploy.drift(**options, tell=print_notes)
    for line in [_as_line(found.as_json())] if json else found.lines():
        print_line(line)


@options_of("deploy.verify")
def verify(json: bool, **options: Any) -> None:
    """Print what :func:`deploy.verify` decides."""
    from lightning_sasv.deploy.verifying import VerifiedList

    with progress("probe") as begin:
        found = deploy.verify(**options, tell=print_notes, begin=begin)
    if not isinstance(found, VerifiedList):
        lines = [_as_line(found.as_json())] if json else found.lines()
    elif json:
        lines = list(map(_as_line, found.cells()))
    else:
        said = ", ".join(f"{count} {word}" for word, count in found.counts.items())
        lines = [f"{len(found.rows)} probes: {said}"]
    for line in lines:
        print_line(line)
    if isinstance(found, VerifiedList) and not json:
        print_written(found.out)


@options_of("deploy.enrol")
def enrol(**options: Any) -> None:
    """Say what :func:`deploy.enrol` has kept or removed."""
    path = deploy.enrol(**options, tell=print_notes)
    kept = options["forget"] is None
    print_note(f"Kept in {path}, readable by you alone" if kept else f"Removed {path}")


@options_of("service.serve")
def serve(**options: Any) -> None:
    """Run :func:`service.serve` until it is stopped."""
    service.serve(**options, tell=print_notes)
