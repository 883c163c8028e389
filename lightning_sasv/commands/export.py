"""``lightning export``: a fitted system as a folder that can be deployed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from lightning_sasv import deploy
from lightning_sasv.commands.arguments import options_of
from lightning_sasv.console import print_line, print_notes
from lightning_sasv.deploy.card import given_by_network, inversion_lines, unsure_lines
from lightning_sasv.files import read_json
from lightning_sasv.fusion.doubts import warning_lines


@options_of(deploy.export)
def export(**options: Any) -> None:
    """Say what :func:`deploy.export` wrote."""
    folder = deploy.export(**options, tell=print_notes)
    for line in _summary(folder, options["costs"]):
        print_line(line)
    about = read_json(folder / "bundle.json")
    print_notes(warning_lines({about["system"]: about.get("warnings", [])}))


def _summary(folder: Path, costs: str) -> list[str]:
    """What was written, in a few lines."""
    about = read_json(folder / "bundle.json")
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
