"""Speed of the paper's eight systems: fit on dev scores, fuse eval scores.

Peer: the same systems with scikit-learn (``LogisticRegression``, ``GaussianMixture``), numpy and a
stable sort for every EER of the ρ search, written below. The peer fits a stage that several
systems share only once; ours fits every system for itself. The claim is a ratio of at least 3.

Run: ``python benchmarks/bench_fusion.py [--data DIR] [--repeats 7]``; DIR holds
``data/sasv2022/{dev,eval}_scores.csv`` (default: ``$SASV_SHARED`` or ``../shared`` beside the
checkout; simulated scores of the same size where it is absent).
"""

from __future__ import annotations

import argparse
import csv
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

from lightning_sasv.checks import as_labels
from lightning_sasv.decisions import CostModel, simulate
from lightning_sasv.fusion import PAPER_SYSTEMS, fit_systems, fuse_systems

Trials = tuple[np.ndarray, np.ndarray, np.ndarray]


def load(folder: Path) -> tuple[Trials, Trials]:
    """Real scores of dev and eval, or simulated ones of the same size."""
    if not (folder / "data").is_dir():
        print(f"no scores at {folder}: simulating them")
        return simulated(29_548, 0), simulated(102_579, 1)
    dev, evaluation = (
        read(folder / f"data/sasv2022/{part}_scores.csv") for part in ("dev", "eval")
    )
    return dev, evaluation


def read(path: Path) -> Trials:
    """ASV scores, CM scores and labels of one CSV file."""
    with path.open() as file:
        rows = [(row["asv_score"], row["cm_score"], row["label"]) for row in csv.DictReader(file)]
    asv, cm, keys = zip(*rows, strict=True)
    labels = as_labels(keys)
    return np.array(asv, dtype=float), np.array(cm, dtype=float), labels


def simulated(trials: int, seed: int) -> Trials:
    """Gaussian scores with the class proportions of dev."""
    priors = CostModel(p_target=0.05, p_nontarget=0.20, p_spoof=0.75)
    drawn = simulate(trials, priors, seed=seed)
    return drawn.asv, drawn.cm, drawn.labels


def peer_eer(positives: np.ndarray, negatives: np.ndarray) -> float:
    """EER by a stable sort of all scores."""
    positive = np.concatenate([np.ones(len(positives)), np.zeros(len(negatives))])
    order = np.argsort(np.concatenate([positives, negatives]), kind="stable")
    hits = positive[order]
    frr = np.cumsum(hits) / len(positives)
    far = 1 - np.cumsum(1 - hits) / len(negatives)
    best = np.argmin(np.abs(frr - far))
    return float(frr[best] + far[best]) / 2


def peer_calibration(scores: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Slopes and intercepts of both sides, as in the paper."""
    maps = []
    sides = [(scores[:, 0], labels != 0, labels == 1), (scores[:, 1], labels >= 0, labels != 0)]
    for values, used, positive in sides:
        truth = positive[used]
        prior = truth.mean()
        weight = np.where(truth, prior, 1 - prior)
        model = LogisticRegression().fit(values[used, None], truth, sample_weight=weight)
        maps.append([model.coef_[0, 0], model.intercept_[0] - np.log(prior / (1 - prior))])
    return np.array(maps)


def peer_llrs(models: list[GaussianMixture], scores: np.ndarray) -> np.ndarray:
    """LLRs target/nontarget and target/spoof."""
    spoof, target, nontarget = (model.score_samples(scores) for model in models)
    return np.stack([target - nontarget, target - spoof], axis=1)


def peer_nonlinear(llrs: np.ndarray, rho: float) -> np.ndarray:
    """The nonlinear rule."""
    with np.errstate(divide="ignore"):
        return -np.logaddexp(np.log(1 - rho) - llrs[:, 0], np.log(rho) - llrs[:, 1])


def peer_rho(llrs: np.ndarray, labels: np.ndarray) -> float:
    """The paper's search."""
    low, high, best, least = 0.0, 1.0, 0.0, np.inf
    for _ in range(5):
        for rho in np.linspace(low, high, 10):
            fused = peer_nonlinear(llrs, rho)
            value = peer_eer(fused[labels == 1], fused[labels != 1])
            if value <= least:
                best, least = rho, value
        low, high = (best, high) if high - best < best - low else (low, best)
        if low >= high:
            break
    return best


def peer(dev: Trials, evaluation: Trials) -> dict[str, np.ndarray]:
    """All eight systems with scikit-learn."""
    scores, labels = np.stack(dev[:2], axis=1), dev[2]
    unseen = np.stack(evaluation[:2], axis=1)
    models = [GaussianMixture(1).fit(scores[labels == code]) for code in range(3)]
    llrs, unseen_llrs = peer_llrs(models, scores), peer_llrs(models, unseen)
    raw_map, llr_map = peer_calibration(scores, labels), peer_calibration(llrs, labels)
    better = unseen_llrs * llr_map[:, 0] + llr_map[:, 1]
    rho = peer_rho(llrs, labels)
    rho_c = peer_rho(llrs * llr_map[:, 0] + llr_map[:, 1], labels)
    return {
        "B1": unseen.sum(axis=1),
        "B1c": (unseen * raw_map[:, 0] + raw_map[:, 1]).sum(axis=1),
        "L2": unseen_llrs.sum(axis=1) / np.sqrt(6),
        "L2c": better.sum(axis=1) / np.sqrt(6),
        "L3": peer_nonlinear(unseen_llrs, rho),
        "L3c": peer_nonlinear(better, rho_c),
        "B1v2": unseen[:, 0] + expit(unseen[:, 1]),
        "Post": expit(unseen[:, 0]) * expit(unseen[:, 1]),
    }


def ours(dev: Trials, evaluation: Trials) -> dict[str, np.ndarray]:
    """All eight systems with this package."""
    systems = fit_systems(*dev, names=PAPER_SYSTEMS)
    fused = fuse_systems(systems, *evaluation[:2])
    return {name: scores.sasv.numpy() for name, scores in fused.items()}


def eer_words(fused: dict[str, np.ndarray], labels: np.ndarray) -> list[str]:
    """SASV-EER of each system in per cent, to see that both sides do the same."""
    return [
        f"{name} {100 * peer_eer(scores[labels == 1], scores[labels != 1]):.4f}"
        for name, scores in fused.items()
    ]


def timed(run: Callable[..., Any], *arguments: Any) -> tuple[float, Any]:
    """Seconds and result of one run."""
    start = time.perf_counter()
    result = run(*arguments)
    return time.perf_counter() - start, result


def main() -> None:
    """Print the two times and their ratio."""
    default = Path(os.environ.get("SASV_SHARED", Path(__file__).parents[2] / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    dev, evaluation = load(arguments.data)
    print(f"{len(dev[0])} dev trials, {len(evaluation[0])} eval trials, one thread")
    times: dict[str, list[float]] = {"ours": [], "scikit-learn": []}
    with threadpool_limits(1):
        for repeat in range(arguments.repeats + 1):  # the first one warms up
            for name, run in (("ours", ours), ("scikit-learn", peer)):
                seconds, fused = timed(run, dev, evaluation)
                times[name].append(seconds)
                if repeat == 0:
                    print(f"{name:>13} SASV-EER %:", *eer_words(fused, evaluation[2]))
    medians = {name: statistics.median(values[1:]) for name, values in times.items()}
    for name, seconds in medians.items():
        spread = f"{min(times[name][1:]):.3f} to {max(times[name][1:]):.3f}"
        print(f"{name:>13}: {seconds:.3f} s (median of {arguments.repeats}, {spread})")
    print(f"ratio: {medians['scikit-learn'] / medians['ours']:.1f}")


if __name__ == "__main__":
    main()
