"""Speed of the paper's eight systems, and of Q3 and Q3cv on four scores: fit on dev, fuse eval.

Peer: the same systems with scikit-learn (``LogisticRegression``, ``GaussianMixture``), numpy and a
stable sort for every EER of the ρ search, written below. The peer fits a stage that several
systems share only once; ours fits every system for itself. The claim is a ratio of at least 3.

Of four scores (``data/sasv2022_more``, or simulated ones): Q3 in at most 0.5 s, its regression at
least 3 times as fast as scikit-learn's (lbfgs, tol 1e-8) at equal log-loss on the same features;
Q3cv in at most 15 s. ``--large`` adds 10 columns of a million trials: at most 60 s and 4 GB.

Run: ``python benchmarks/bench_fusion.py [--data DIR] [--repeats 7] [--large]``; DIR holds
``data/sasv2022/{dev,eval}_scores.csv`` (default: ``$SASV_SHARED`` or ``../shared`` beside the
checkout; simulated scores of the same size where it is absent).
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
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
from lightning_sasv.fusion import PAPER_SYSTEMS, build_system, fit_systems, fuse_systems
from lightning_sasv.fusion.logistic import Basis, minimise_pair_loss, multinomial_loss

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


def several(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Two ASV and two CM scores of each trial, (trials, 2) each, labels and speakers."""
    path = folder / f"data/sasv2022_more/{part}_scores.csv"
    if not path.is_file():
        first = simulated({"dev": 29_548, "eval": 102_579}[part], len(part))
        noise = np.random.default_rng(len(part)).normal(size=(2, len(first[0])))
        asv, cm = (np.stack([x, x + one], 1) for x, one in zip(first[:2], noise, strict=True))
        return asv, cm, first[2], np.arange(len(cm)) % 10
    with path.open() as file:
        rows = list(csv.DictReader(file))
    names = ("asv_ecapa", "asv_xvector", "cm_aasist", "cm_ocsoftmax")
    scores = np.array([[float(row[name]) for name in names] for row in rows])
    labels, speakers = as_labels([row["label"] for row in rows]), [row["speaker"] for row in rows]
    return scores[:, :2], scores[:, 2:], labels, np.array(speakers)


def bench_several(folder: Path, repeats: int) -> None:
    """Times of Q3 and Q3cv on four scores, and of scikit-learn on the features of Q3."""
    asv, cm, labels, speakers = several(folder, "dev")
    unseen = several(folder, "eval")[:2]
    scores = np.concatenate([asv, cm], axis=1)
    centre, scale = scores.mean(axis=0), scores.std(axis=0)
    standard = (scores - centre) / scale
    features = np.concatenate([standard, standard**2], axis=1)
    weight = 1 / (3 * np.bincount(labels)[labels])
    codes, rows = labels.astype(np.int8), standard.T.copy()

    def q3() -> Any:
        return build_system("Q3").fit(asv, cm, labels)(*unseen)

    def regression() -> float:
        basis = Basis(rows, "squares")
        loss, start = multinomial_loss(codes), np.zeros((2, basis.size))
        theta = minimise_pair_loss(basis, loss, 1e-10, start)
        return basis.pair_loss(theta, loss)[0]

    def sklearn() -> float:
        model = LogisticRegression(C=1e10, tol=1e-8, max_iter=10_000)
        model.fit(features, labels, sample_weight=weight)
        log = model.predict_log_proba(features)[np.arange(len(labels)), labels]
        return -float(weight @ log)

    def q3cv() -> Any:
        return build_system("Q3cv").fit(asv, cm, labels, speakers=speakers)

    medians = {}
    for run, times in ((q3, repeats), (regression, repeats), (sklearn, min(repeats, 3)), (q3cv, 1)):
        found = [timed(run) for _ in range(times)]
        medians[run] = statistics.median(seconds for seconds, _ in found)
        loss = f", log-loss {found[0][1]:.10f}" if isinstance(found[0][1], float) else ""
        print(f"{run.__name__:>13}: {medians[run]:.3f} s (median of {times}){loss}")
    print(f"ratio of the regressions: {medians[sklearn] / medians[regression]:.1f}")


def bench_large(columns: int = 10, trials: int = 1_000_000) -> None:
    """Time and memory of Q3 on many trials of many columns."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 3, trials).astype(np.int8)
    scores = random.standard_normal((trials, columns))
    half = columns // 2
    scores[:, :half] += 1.5 * (labels == 1)[:, None]
    scores[:, half:] += 1.8 * (labels != 0)[:, None]
    seconds, _ = timed(build_system("Q3").fit, scores[:, :half], scores[:, half:], labels)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"{columns} x {trials:,}: {seconds:.1f} s, {memory:.2f} GB at most in the process")


def main() -> None:
    """Print the two times and their ratio, then those of several scores."""
    default = Path(os.environ.get("SASV_SHARED", Path(__file__).parents[2] / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--large", action="store_true")
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
    with threadpool_limits(1):
        bench_several(arguments.data, arguments.repeats)
        if arguments.large:
            bench_large()


if __name__ == "__main__":
    main()
