"""Time and memory of the metrics beside plain peers, on the real evaluation scores.

    python benchmarks/bench_metrics.py [--data DIR] [--growth] [--replicates 100] [--repeat 7]

The peers are measured in the same run: the ASVspoof tools' EER and t-EER search and the SASV
baseline's EER, restated in numpy and scikit-learn; scikit-learn's isotonic regression; the packages
a-dcf and confidence-intervals. What is scaled up from a smaller measurement says so. Seconds are
processor time, one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import csv
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from metrics_peers import (
    CLASSES,
    asvspoof_eer,
    baseline_eer,
    isotonic_cllr_min,
    package_a_dcf,
    searched_t_eer,
)

from lightning_sasv.metrics.bootstrap import resample
from lightning_sasv.metrics.functional import (
    a_dcf,
    all_metrics,
    bootstrap,
    cllr_decomposition,
    cllr_min,
    cm_dcf,
    cross_entropy,
    det_curve,
    ece_curve,
    sasv_eers,
    t_dcf,
    t_eer,
)

Columns = dict[str, np.ndarray]


def read_scores(folder: Path, part: str = "eval") -> Columns:
    """The real scores of one set."""
    with (folder / f"{part}_scores.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    labels = np.array([CLASSES[row["label"]] for row in rows])
    asv, cm = (np.array([float(row[f"{name}_score"]) for row in rows]) for name in ("asv", "cm"))
    return {
        "asv": asv,
        "cm": cm,
        "labels": labels,
        "speaker": np.array([r["speaker"] for r in rows]),
    }


def simulate(size: int, seed: int = 0) -> Columns:
    """Scores of the shape of the real ones."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size, p=[0.6228, 0.0523, 0.3249])
    asv = np.array([0.52, 0.717, 0.163])[labels]
    asv += np.array([0.235, 0.109, 0.12])[labels] * rng.standard_normal(size)
    cm = np.array([-4.2, 8.39, 8.17])[labels]
    cm += np.array([3.03, 1.26, 1.55])[labels] * rng.standard_normal(size)
    return {"asv": asv, "cm": cm, "labels": labels, "speaker": rng.integers(0, 48, size)}


def load(folder: Path | None) -> tuple[Columns, str]:
    """Scores and where they are from."""
    root = Path(__file__).parents[1]
    shared = Path(os.environ.get("SASV_SHARED", root.parent / "shared")) / "data/sasv2022"
    place = folder or shared
    if (place / "eval_scores.csv").is_file():
        columns, dev = read_scores(place), read_scores(place, "dev")
        return columns | {"L3c": fused(dev, columns)}, "the real evaluation scores"
    columns, dev = simulate(102_579), simulate(20_000, seed=1)
    found = columns | {"L3c": fused(dev, columns)}
    return found, "simulated scores (the real ones are absent)"


def fused(dev: Columns, columns: Columns) -> np.ndarray:
    """The score of the system L3c, fitted on dev."""
    from lightning_sasv.fusion import build_system

    system = build_system("L3c")
    system.fit(dev["asv"], dev["cm"], dev["labels"])
    return np.asarray(system(columns["asv"], columns["cm"]).sasv)


def seconds(function: Callable[[], object], repeat: int) -> float:
    """Processor time of the shortest of several runs: other programs' load counts less in it."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        function()
        times.append(time.process_time() - start)
    return min(times)


def row(what: str, ours: float, peers: list[tuple[str, float, float]], sort: float) -> None:
    """One line per peer: seconds of both, their ratio, and the ratio that was asked."""
    for name, theirs, wanted in peers:
        held = "holds" if theirs / ours >= wanted else "FAILS"
        print(
            f"| {what} | {ours:.4f} | {ours / sort:.1f} | {name} | {theirs:.3f} "
            f"| {theirs / ours:.1f} | {wanted:g} | {held} |"
        )


def compare(columns: Columns, repeat: int, replicates: int) -> None:
    """The table of speeds."""
    asv, cm, labels = (columns[name] for name in ("asv", "cm", "labels"))
    scores = asv + cm
    tar, non, spf = (scores[labels == CLASSES[k]] for k in ("target", "nontarget", "spoof"))
    neg = np.concatenate([non, spf])
    sort = seconds(lambda: np.sort(scores), repeat)
    stable = seconds(lambda: np.sort(scores, kind="mergesort"), repeat)
    print(f"\nOne sort of the scores: {1e3 * sort:.1f} ms (stable: {1e3 * stable:.1f} ms)\n")
    print("| what | ours s | sorts | peer | peer s | ratio | asked | |")
    print("|---|---|---|---|---|---|---|---|")
    three = ((tar, neg), (tar, non), (tar, spf))
    assert sasv_eers(scores, labels)[:3] == tuple(asvspoof_eer(*task) for task in three)
    row(
        "three EERs",
        seconds(lambda: sasv_eers(scores, labels), 3 * repeat),
        [
            ("ASVspoof tools", seconds(lambda: [asvspoof_eer(*t) for t in three], repeat), 10),
            ("SASV baseline", seconds(lambda: [baseline_eer(*t) for t in three], repeat), 2),
        ],
        sort,
    )
    assert abs(cllr_min(tar, neg) - isotonic_cllr_min(tar, neg)) < 1e-9
    isotonic = seconds(lambda: isotonic_cllr_min(tar, neg), repeat)
    row(
        "Cllr_min",
        seconds(lambda: cllr_min(tar, neg), 3 * repeat),
        [
            ("scikit-learn isotonic", isotonic, 5),
            ("PYLLR's 16 ms of 7 ms sorts", 16 / 7 * stable, 5),
        ],
        sort,
    )
    whole = seconds(lambda: cllr_decomposition(tar, neg), 3 * repeat)
    row("Cllr, Cllr_min, Cllr_calib", whole, [("scikit-learn isotonic", isotonic, 1)], sort)
    compare_t_eer(asv, cm, labels, repeat, sort)
    assert abs(a_dcf(scores, labels).min - package_a_dcf(tar, non, spf)) < 1e-12
    row(
        "min a-DCF",
        seconds(lambda: a_dcf(scores, labels), 3 * repeat),
        [("a-dcf package", seconds(lambda: package_a_dcf(tar, non, spf), repeat), 10)],
        sort,
    )
    compare_bootstrap(columns, scores, replicates, sort)
    print("\n| 1,000 replicates of the SASV-EER | by trial s | by speaker s |\n|---|---|---|")
    for name, column in (("plain sum", scores), ("L3c", columns["L3c"])):
        times = [
            seconds(lambda x=column, c=clusters: bootstrap("sasv_eer", x, labels, c), 3)
            for clusters in (None, columns["speaker"])
        ]
        print(f"| {name} | {times[0]:.3f} | {times[1]:.3f} |")
    compare_crossed(columns)


def compare_crossed(columns: Columns) -> None:
    """Eleven systems, three metrics, 1,000 replicates: by speaker, and crossed with two more."""
    rng, labels = np.random.default_rng(0), columns["labels"]
    impostor = np.where(labels == CLASSES["nontarget"], rng.integers(0, 19, labels.size), "-")
    attack = np.where(labels == CLASSES["spoof"], rng.integers(0, 13, labels.size), "-")
    noise = rng.standard_normal(labels.size)
    systems = {f"L3c {k}": {"sasv": columns["L3c"] + 0.1 * k * noise} for k in range(11)}
    names = dict.fromkeys(systems, ("sasv_eer", "cllr", "min_a_dcf"))
    ways = {"speaker": columns["speaker"], "crossed": (columns["speaker"], impostor, attack)}
    by_speaker, crossed = (
        seconds(lambda c=clusters: resample(systems, labels, names, c), 1)
        for clusters in ways.values()
    )
    held = "holds" if crossed <= 3 * by_speaker else "FAILS"
    print(
        f"\n1,000 replicates of three metrics of eleven systems: by speaker {by_speaker:.1f} s, "
        f"speaker × impostor × attack {crossed:.1f} s, {crossed / by_speaker:.2f} times ({held}, 3)"
    )


def compare_t_eer(
    asv: np.ndarray, cm: np.ndarray, labels: np.ndarray, repeat: int, sort: float
) -> None:
    """The concurrent t-EER: exact, beside a full search of a tenth and a decimated search."""
    tenth = np.random.default_rng(0).permutation(labels.size)[::10]
    part = asv[tenth], cm[tenth], labels[tenth]
    assert abs(searched_t_eer(*part, 1) - t_eer(*part, rule="reference").value) < 1e-12
    full = 100 * seconds(lambda: searched_t_eer(*part, 1), 2)
    decimated = seconds(lambda: searched_t_eer(asv, cm, labels, 200), 2)
    row(
        "concurrent t-EER",
        seconds(lambda: t_eer(asv, cm, labels), 3 * repeat),
        [
            ("full search (100 x that of a tenth)", full, 1000),
            ("every 200th ASV threshold", decimated, 5),
        ],
        sort,
    )
    reference = seconds(lambda: t_eer(asv, cm, labels, rule="reference"), repeat)
    row("the same by the reference rule", reference, [("full search", full, 1)], sort)


def compare_bootstrap(columns: Columns, scores: np.ndarray, replicates: int, sort: float) -> None:
    """1,000 replicates by trial and by speaker; the package's time is scaled from fewer."""
    from confidence_intervals import evaluate_with_conf_int

    labels, speaker = columns["labels"], columns["speaker"]
    number = np.unique(speaker, return_inverse=True)[1]

    def metric(truth: np.ndarray, values: np.ndarray) -> float:
        return asvspoof_eer(values[truth == 1], values[truth != 1])

    for unit, clusters, conditions in (("trial", None, None), ("speaker", speaker, number)):
        ours = seconds(lambda c=clusters: bootstrap("sasv_eer", scores, labels, c), 2)
        theirs = seconds(
            lambda c=conditions: evaluate_with_conf_int(
                scores, metric, labels, c, num_bootstraps=replicates
            ),
            1,
        )
        name = f"confidence-intervals (scaled from {replicates})"
        row(f"1,000 replicates by {unit}", ours, [(name, theirs * 1000 / replicates, 10)], sort)


def reset_peak() -> None:
    """Forget the largest memory so far, where Linux allows it."""
    Path("/proc/self/clear_refs").write_text("5")


def memory(field: str) -> int:
    """Bytes of a line of /proc/self/status."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"no {field} in /proc/self/status")


def closest_point(asv: np.ndarray, cm: np.ndarray, labels: np.ndarray) -> None:
    """The t-EER of a pair without a concurrent point."""
    assert not t_eer(asv, cm, labels).exists


PLAIN = "one sort of the scores"  # for comparison: what any exact metric may cost
TASKS: dict[str, tuple[Callable[..., object], str]] = {  # each with the input it takes
    PLAIN: (lambda s, y: np.sort(s), "score"),
    "three EERs": (sasv_eers, "score"),
    "Cllr parts": (cllr_decomposition, "classes"),
    "min a-DCF": (a_dcf, "score"),
    "CM DCF": (cm_dcf, "classes"),
    "t-EER": (t_eer, "pair"),
    "t-EER, closest point": (closest_point, "llrs"),
    "t-EER, reference rule": (lambda a, c, y: t_eer(a, c, y, rule="reference"), "pair"),
    "t-DCF": (t_dcf, "pair"),
    "cross-entropy": (cross_entropy, "llrs"),
    "DET curve": (det_curve, "classes"),
    "ECE curve": (lambda p, n: ece_curve(p, n, [-1.0, 0.0, 1.0]), "classes"),
    "10 replicates": (lambda s, y: bootstrap("sasv_eer", s, y, n=10, alpha=0.5), "score"),
    "all metrics of three scores": (all_metrics, "three"),
}


def child(size: int, task: str) -> None:
    """Time and peak memory of one task with its input, beyond what the process held before."""
    start = memory("VmRSS")
    function, kind = TASKS[task]
    columns = simulate(size)
    asv, cm, labels = columns["asv"], columns["cm"], columns["labels"].astype(np.int8)
    scores = 10 * asv + cm
    given = {
        "score": (scores, labels),
        "classes": (scores[labels == 1], scores[labels != 1]),
        "pair": (asv, cm, labels),
        "three": (asv, cm, scores, labels),
        # Spoofs that the verifier rejects, as a likelihood ratio of both scores does.
        "llrs": (10 * (asv - 0.45 - 1.0 * (labels == 0)), cm - 2, labels),
    }[kind]
    del columns, asv, cm, scores, labels
    function(*given)
    reset_peak()
    elapsed = seconds(lambda: function(*given), 5)
    raw = sum(column.nbytes for column in given if column.dtype == np.float64)
    print(elapsed, memory("VmHWM") - start, raw)


def growth() -> None:
    """10 million trials beside 1 million, each in a process of its own."""
    print("\n| what | 1 M s | 10 M s | ratio (asked <= 13) | peak / raw scores (asked <= 12) | |")
    print("|---|---|---|---|---|---|")
    for task in TASKS:
        found = []
        for size in (1_000_000, 10_000_000):
            command = [sys.executable, __file__, "--child", str(size), task]
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            found.append([float(x) for x in run.stdout.split()])
        (small, _, _), (large, peak, raw) = found
        held = "holds" if large / small <= 13 and peak / raw <= 12 else "FAILS"
        held = "for comparison" if task == PLAIN else held
        ratio = f"{large / small:.1f} | {peak / raw:.1f} | {held} |"
        print(f"| {task} | {small:.3f} | {large:.2f} | {ratio}")


def bootstrap_memory(data: Path | None) -> None:
    """Peak memory of 1,000 replicates, beyond the process with its data."""
    columns, _ = load(data)
    scores, labels = columns["asv"] + columns["cm"], columns["labels"]
    bootstrap("sasv_eer", scores, labels, n=2, alpha=0.9)
    start = memory("VmRSS")
    reset_peak()
    bootstrap("sasv_eer", scores, labels, columns["speaker"])
    bootstrap("sasv_eer", scores, labels)
    used = (memory("VmHWM") - start) / 1e9
    peer = 1000 * labels.size * 8 / 1e9
    print(
        f"\n1,000 replicates need {used:.3f} GB (asked < 0.3); the package's indices {peer:.2f} GB"
    )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, help="folder with eval_scores.csv")
    parser.add_argument("--growth", action="store_true", help="10 million trials instead")
    parser.add_argument("--replicates", type=int, default=100, help="of the peer's bootstrap")
    parser.add_argument("--repeat", type=int, default=7, help="runs of which the shortest counts")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(int(arguments.child[0]), arguments.child[1])
        return
    columns, source = load(arguments.data)
    print(f"{columns['labels'].size:,} trials: {source}. One thread, shortest of several runs.")
    if arguments.growth:
        growth()
        return
    compare(columns, arguments.repeat, arguments.replicates)
    bootstrap_memory(arguments.data)


if __name__ == "__main__":
    main()
