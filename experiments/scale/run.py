"""A billion trials in 64 shards, counted and merged; see README.md beside this file.

Run: ``python experiments/scale/run.py [--trials 1000000000] [--shards 64] [--processes 2]
[--exact]``
"""

from __future__ import annotations

import argparse
import hashlib
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from lightning_sasv.counting import Counts
from lightning_sasv.counting.state import Source, merged

SEVEN = ["sasv_eer", "sv_eer", "spf_eer", "min_a_dcf", "act_a_dcf", "cllr", "cllr_min"]
KINDS = {
    "speakers": pl.Enum([f"s{k:04}" for k in range(1000)]),
    "attacks": pl.Enum([*(f"A{k:02}" for k in range(13)), "-"]),
}
AT_ONCE = 1 << 18


def trials(shard: int, size: int) -> Iterator[dict[str, np.ndarray]]:
    """The trials of a shard in batches: 60 % spoofs of 13 attacks, 10 % targets, 30 % nontargets.

    ASV and CM scores are normal, a little higher for some speakers; their LLRs are fused.
    """
    rng = np.random.default_rng(shard)
    for start in range(0, size, AT_ONCE):
        n = min(AT_ONCE, size - start)
        drawn = rng.integers(0, 10, n, np.uint8)
        labels = ((drawn > 5).astype(np.int8) + (drawn > 6)).astype(np.int8)
        speakers = rng.integers(0, 1000, n, np.uint32)
        asv, cm = rng.standard_normal((2, n))
        asv += np.array([2.0, 4.6, 0.0])[labels] + 5e-5 * speakers
        cm += np.array([0.0, 5.0, 5.0])[labels]
        asv, cm = 4.6 * (asv - 2.3), 5.0 * (cm - 2.5)
        apart = np.abs(asv - cm)
        scores = np.minimum(asv, cm) - np.log1p(np.exp(-apart))
        attacks = np.where(labels == 0, rng.integers(0, 13, n, np.uint32), np.uint32(13))
        yield {"labels": labels, "speakers": speakers, "attacks": attacks, "sasv": scores}


def count(shard: int, size: int, folder: Path) -> tuple[float, float, float]:
    """Count one shard; seconds of processor for making and counting it, gigabytes of memory."""
    with threadpool_limits(1):
        made, counted, counts = 0.0, 0.0, Counts()
        parts, start = trials(shard, size), time.process_time()
        for case in parts:
            made += time.process_time() - start
            start = time.process_time()
            names = (pl.Series(case[k]).cat.to(kind) for k, kind in KINDS.items())
            counts.add(case["labels"], *names, sasv=case["sasv"])  # type: ignore[arg-type]
            counted += time.process_time() - start
            start = time.process_time()
        counts.sources.append(Source(f"shard {shard}", size))
        counts.save(folder / f"{shard:02}.counts.safetensors")
    return made, counted, peak()


def again(shards: int, size: int) -> Iterator[dict[str, np.ndarray]]:
    """All trials once more."""
    for shard in range(shards):
        yield from trials(shard, size)


def merge(files: list[Path], path: Path) -> tuple[str, float]:
    """Merge states in an order and write them as one; SHA-256 of the file, gigabytes of memory."""
    merged(map(Counts.load, files)).save(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest(), peak()


def peak() -> float:
    """The most memory that this process has had, in gigabytes."""
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]) / 1e6


def run(shards: int, size: int, processes: int, folder: Path) -> tuple[Counts, dict[str, Any]]:
    """Count all shards, merge them in two orders, draw replicates; print what it took."""
    start = time.time()
    with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
        work = partial(count, size=size, folder=folder)
        made, counted, memory = zip(*pool.map(work, range(shards)), strict=True)
        at = [time.time()]
        files = sorted(folder.glob("??.counts.safetensors"))
        paths = [folder / f"{name}.counts.safetensors" for name in ("all", "reversed")]
        both = pool.map(merge, (files, files[::-1]), paths)
        digests, sizes = zip(*both, strict=True)
    at.append(time.time())
    whole = Counts.load(paths[0])
    found = whole.bootstrap(SEVEN, "speaker-attack", 1000)
    at.append(time.time())
    number = sum(whole.trials.values())
    print(
        f"{number:,} trials in {shards} shards: made {1e9 * sum(made) / number:.0f} ns, "
        f"counted {1e9 * sum(counted) / number:.0f} ns a trial, {max(memory):.2f} GB a process\n"
        f"all shards {at[0] - start:.0f} s, merged in two orders at once and written "
        f"{at[1] - at[0]:.1f} s ({len(set(digests))} SHA-256, {max(sizes):.2f} GB), 1,000 "
        f"crossed replicates {at[2] - at[1]:.1f} s; together {at[2] - start:.0f} s (asked 200)",
        flush=True,
    )
    return whole, found


def main() -> None:
    """Run it, and print bounds, exact values where they are asked for, and intervals."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=10**9)
    parser.add_argument("--shards", type=int, default=64)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--exact", action="store_true", help="make all trials again: exact values")
    given = parser.parse_args()
    size = given.trials // given.shards
    with tempfile.TemporaryDirectory() as folder, threadpool_limits(given.processes):
        whole, found = run(given.shards, size, given.processes, Path(folder))
    exact = whole.refine(again(given.shards, size), names=SEVEN) if given.exact else {}
    for name, one in whole.metrics(names=SEVEN).items():
        shown = f", exact {exact[name].value:.10f}" if name in exact and exact[name].exact else ""
        ends = found[name]
        print(f"{name}: {one.low:.8f} to {one.high:.8f}{shown} [{ends.low:.6f}, {ends.high:.6f}]")


if __name__ == "__main__":
    main()
