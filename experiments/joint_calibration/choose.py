"""Which calibration of the LLRs of F3 dev chooses, each of its speakers held out in turn.

Run: ``python experiments/joint_calibration/choose.py FOLDER`` with the folder of ``lightning table
--systems F3``. Prints means over its seeds; the columns of eval play no part in the choice.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions import PRESETS, accept, empirical_cost
from lightning_sasv.fusion import FusionSystem
from lightning_sasv.scores import read_scores
from lightning_sasv.trials import FusedScores, Scores, TrialClass

TRIED = ("given", "paper", "effective_prior", "multinomial", "joint", "monotone", "pav")
COSTS = ("a-dcf1", "asvspoof5", "equal")


def llrs(calibration: str, fitted_to: Scores, of: Scores) -> Floats:
    """Both LLRs (2, trials) of trials by a calibration that was fitted to others."""
    system = FusionSystem(calibration=calibration, rule="nonlinear", rho=0.5)
    system.fit(fitted_to.asv, fitted_to.cm, fitted_to.label)
    return np.stack([np.asarray(side) for side in system(of.asv, of.cm)[:2]])


def part(trials: Scores, chosen: np.ndarray) -> Scores:
    """Some of the trials."""
    return Scores(trials.asv[chosen], trials.cm[chosen], trials.label[chosen])


def held_out(calibration: str, dev: Scores) -> Floats:
    """LLRs of each dev speaker by a calibration that was fitted to the others."""
    found = np.empty((2, len(dev)))
    for speaker in np.unique(dev.speaker):
        own = dev.speaker == speaker
        found[:, own] = llrs(calibration, part(dev, ~own), part(dev, own))
    return found


def measures(sides: Floats, labels: np.ndarray) -> list[float]:
    """Cross-entropy in nats with the classes equally often, and the policy a-DCF at three costs."""
    logs = np.stack([-sides[1], np.zeros_like(sides[1]), -sides[0]])  # spoof, target, nontarget
    logs -= np.logaddexp.reduce(logs)
    entropy = float(np.mean([-logs[code, labels == code].mean() for code in TrialClass]))
    fused = FusedScores(*sides, sides[0])
    costs = [empirical_cost(accept(fused, name), labels, PRESETS[name]) for name in COSTS]
    return [entropy, *(float(one.normalised) for one in costs)]


def main() -> None:
    """Print a row for each calibration."""
    places = sorted(Path(sys.argv[1]).glob("seed*/scores"))
    sets = [
        tuple(read_scores(one / f"{name}.csv").of_system("F3") for name in ("dev", "eval"))
        for one in places
    ]
    names = ("cross-entropy", *COSTS)
    print("| calibration |", " | ".join(f"{s} {n}" for s in ("dev", "eval") for n in names), "|")
    print("|---" * (1 + 2 * len(names)) + "|")
    for calibration in TRIED:
        rows = [
            measures(held_out(calibration, dev), dev.label)
            + measures(llrs(calibration, dev, evaluation), evaluation.label)
            for dev, evaluation in sets
        ]
        print(f"| {calibration} |", " | ".join(f"{one:.3f}" for one in np.mean(rows, axis=0)), "|")


if __name__ == "__main__":
    main()
