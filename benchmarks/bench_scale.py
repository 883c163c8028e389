"""Evaluation from counts beside evaluation of trials in memory: time, memory, bounds, merging.

Scores are simulated (fused scores of normal ASV and CM scores, 1,000 speakers, 13 attacks); both
sides see the same trials in the same run, one thread, processor time. Claims: 1,000 replicates of
seven metrics at least 8 times faster at 1 million trials and 50 times at 10 million, none outside
its bounds, their cost from 1 to 10 million at most 2 times, one state whatever the order of shards.

Run: ``python benchmarks/bench_scale.py [--large] [--file 50] [--billion]``. ``--large`` adds 10
million trials (minutes), ``--file N`` a Parquet file of N million rows in both ways, ``--billion``
10⁹ trials in 64 shards on two processes (``experiments/scale``).
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from lightning_sasv.counting import Counts
from lightning_sasv.counting.state import Source, merged
from lightning_sasv.metrics.bootstrap import bootstrap

SEVEN = ["sasv_eer", "sv_eer", "spf_eer", "min_a_dcf", "act_a_dcf", "cllr", "cllr_min"]
SPEAKERS = np.array([f"s{k:04}" for k in range(1000)])
ATTACKS = np.array([f"A{k:02}" for k in range(13)])


def trials(size: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Labels, speakers, attacks and one fused score."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(3, size, p=[0.6, 0.1, 0.3]).astype(np.int8)
    speakers = rng.integers(0, SPEAKERS.size, size)
    asv = rng.normal(size=size) + 4.6 * (labels == 1) + 2.0 * (labels == 0) + 0.05 * speakers / 1000
    cm = rng.normal(size=size) + 5.0 * (labels > 0)
    scores = -np.logaddexp(-4.6 * (asv - 2.3), -5.0 * (cm - 2.5))
    attacks = np.where(labels == 0, rng.integers(0, ATTACKS.size, size), ATTACKS.size)
    return {"labels": labels, "speakers": speakers, "attacks": attacks, "scores": scores}


def count(case: dict[str, np.ndarray], name: str = "", attacks: bool = False) -> Counts:
    """The state of some trials."""
    counts = Counts()
    names = np.append(ATTACKS, "-")
    kinds = pl.Series(names)[case["attacks"]] if attacks else None
    source = Source(name, case["labels"].size) if name else None
    clusters: Any = pl.Series(SPEAKERS)[case["speakers"]]
    counts.add(case["labels"], clusters, kinds, source=source, sasv=case["scores"])  # type: ignore[arg-type]
    return counts


def timed(function: Callable[[], Any]) -> tuple[float, Any]:
    """Processor seconds, and what a function gives."""
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def replicates(size: int, n: int) -> float:
    """Both ways of 1,000 replicates, of which the exact one makes ``n``; seconds of ours."""
    case = trials(size)
    speakers = SPEAKERS[case["speakers"]]
    seconds, counts = timed(lambda: count(case))
    ours, found = timed(lambda: counts.bootstrap(SEVEN, "speaker", 1000))
    theirs, exact = timed(
        lambda: bootstrap(SEVEN, {"sasv": case["scores"]}, case["labels"], speakers, n)
    )
    theirs *= (1000 + 200) / (n + 200)  # values without each of 200 groups of speakers are made too
    outside = sum(
        int(np.sum(exact[name].replicates < one.low_bounds[:n] - 1e-12))
        + int(np.sum(exact[name].replicates > one.high_bounds[:n] + 1e-12))
        for name, one in found.items()
    )
    width = float((found["sasv_eer"].high_bounds - found["sasv_eer"].low_bounds).mean())
    asked = 8 if size < 5_000_000 else 50
    verdict = "holds" if theirs / ours >= asked and not outside else "FAILS"
    print(
        f"| {size:,} | {1e9 * seconds / size:.0f} ns | {ours:.2f} s | {theirs:.1f} s | "
        f"{theirs / ours:.1f} (asked {asked}) | {outside} of {7 * n:,} | {width:.1e} | {verdict} |",
        flush=True,
    )
    return ours


def digest(counts: Counts, folder: Path) -> str:
    """SHA-256 of the file of a state."""
    return hashlib.sha256(counts.save(folder / "x.counts.safetensors").read_bytes()).hexdigest()


def orders(folder: Path) -> None:
    """64 shards in ten orders and as a tree."""
    shards = [trials(5_000, seed) for seed in range(64)]
    for one in shards:
        one["speakers"] %= 40
    states = lambda: [count(one, f"{k}", attacks=True) for k, one in enumerate(shards)]  # noqa: E731
    rng, found = np.random.default_rng(0), set()
    for _ in range(10):
        every = states()
        found.add(digest(merged(every[k] for k in rng.permutation(64)), folder))
    level = states()
    while len(level) > 1:
        level = [level[k].merge(level[k + 1]) for k in range(0, len(level), 2)]
    found.add(digest(level[0], folder))
    print(f"\n64 shards, ten orders and a tree: {len(found)} SHA-256 (asked 1)")


WAYS = """
import resource, sys, time
from lightning_sasv.evaluation import evaluate
start = time.process_time()
found = evaluate(sys.argv[1], exact=sys.argv[2] == "true", ci="none")
metrics = next(iter(found.metrics.values()))
values = {name: getattr(one, "value", one) for name, one in metrics.items()}
print(time.process_time() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
print(*(repr(float(values[name])) for name in ("sasv_eer", "sv_eer", "spf_eer", "min_a_dcf")))
print(*(repr(float(values[name])) for name in ("cllr", "cllr_min")))
"""


def file(millions: int, folder: Path) -> None:
    """A Parquet file in both ways, each in a process of its own."""
    path = folder / "scores.parquet"
    parts = []
    for seed in range(millions):
        case = trials(1_000_000, seed)
        words = np.array(["spoof", "target", "nontarget"])[case["labels"]]
        parts.append(pl.DataFrame({"label": words, "sasv_score": case["scores"]}))
    pl.concat(parts).write_parquet(path)
    del parts
    found = {}
    for way in ("true", "false"):
        done = subprocess.run(
            [sys.executable, "-c", WAYS, str(path), way], capture_output=True, text=True, check=True
        )
        first, *values = done.stdout.splitlines()
        found[way] = [*map(float, first.split())], values
        print(
            f"{millions} M rows, {'in memory' if way == 'true' else 'counted'}: "
            f"{found[way][0][0]:.1f} s, {found[way][0][1]:.2f} GB"
        )
    same = found["true"][1][0] == found["false"][1][0]
    near = np.allclose(*([float(x) for x in found[way][1][1].split()] for way in found), atol=1e-12)
    ratio, memory = found["false"][0][0] / found["true"][0][0], found["false"][0][1]
    print(
        f"EERs and min a-DCF equal to the bit: {same}; Cllr, Cllr_min within 1e-12: {near}; "
        f"{ratio:.1f} times the time (asked 2), {memory:.2f} GB (asked 0.7)"
    )


def shard(number: int, size: int, folder: str) -> float:
    """Count one shard of the billion; gigabytes of memory."""
    counts: Counts | None = None
    for part in range(0, size, 1 << 18):
        case = trials(min(1 << 18, size - part), number * 10_000 + part // (1 << 18))
        one = count(case, attacks=True)
        counts = one if counts is None else counts.merge(one)
    assert counts is not None
    counts.sources.append(Source(f"shard {number}", size))
    counts.save(Path(folder) / f"{number}.counts.safetensors")
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def billion(folder: Path, size: int = 10**9) -> None:
    """10⁹ trials in 64 shards on two processes, merged, with crossed replicates."""
    start = time.time()
    with ProcessPoolExecutor(2) as pool:
        memory = max(pool.map(shard, range(64), [size // 64] * 64, [str(folder)] * 64))
    made = time.time()
    whole = merged(Counts.load(path) for path in sorted(folder.glob("*.counts.safetensors")))
    merged_at = time.time()
    found = whole.bootstrap(SEVEN, "speaker-attack", 1000)
    end = time.time()
    print(
        f"{sum(whole.trials.values()):,} trials: made and counted {made - start:.0f} s, merged "
        f"{merged_at - made:.0f} s, 1,000 replicates {end - merged_at:.0f} s, together "
        f"{end - start:.0f} s (asked 200); {memory:.2f} GB a process (asked 0.8)"
    )
    for name, one in whole.metrics(names=SEVEN).items():
        ends = found[name]
        print(f"{name}: {one.low:.8f} to {one.high:.8f} [{ends.low:.6f}, {ends.high:.6f}]")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="also 10 million trials")
    parser.add_argument("--file", type=int, default=0, help="a file of so many million rows")
    parser.add_argument("--billion", action="store_true", help="10⁹ trials")
    wanted = parser.parse_args()
    with threadpool_limits(1), tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if wanted.billion:
            billion(folder)
            return
        if wanted.file:
            file(wanted.file, folder)
            return
        print(
            "| trials | counting | counts: 1,000 replicates | exact bootstrap | ratio | outside "
            "bounds | mean width, SASV-EER | |\n|---|---|---|---|---|---|---|---|"
        )
        first = replicates(1_000_000, 1000)
        if wanted.large:
            last = replicates(10_000_000, 20)
            print(f"\nreplicates alone, 1 to 10 million: {last / first:.2f} times (asked 2)")
        orders(folder)


if __name__ == "__main__":
    main()
