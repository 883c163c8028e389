"""Evaluation from counts beside evaluation of trials in memory: time, memory, bounds, merging.

Scores are simulated (fused scores of normal ASV and CM scores, 1,000 speakers, 13 attacks); both
sides see the same trials in the same run, one thread, processor time; of 1 million trials the
shortest of three runs of each. Claims: 1,000 replicates of
seven metrics at least 8 times faster at 1 million trials and 50 times at 10 million, none outside
its bounds, their cost from 1 to 50 million at most 2 times, one state whatever the order of shards;
50 million rows exact in 0.7 GB and twice the time of the way in memory.

Run: ``python benchmarks/bench_scale.py [--large] [--file 50] [--key 10] [--scores FILE]``.
``--large`` adds 10 million trials (minutes; the exact bootstrap from the slope between 39 and 79
replicates) and our replicates of 50 million, ``--file N`` a Parquet file of N million rows in both
ways, ``--key N`` a key of N million trials in the same and in another order, ``--scores FILE``
scores of your own: replicates of speakers, and of speakers × attacks, against their bounds. 10⁹
trials: ``experiments/scale``.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from threadpoolctl import threadpool_limits

from lightning_sasv.counting import Counts
from lightning_sasv.counting.state import Source, merged
from lightning_sasv.metrics.bootstrap import bootstrap
from lightning_sasv.scores import read_table

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


def timed(function: Callable[[], Any], repeat: int = 1) -> tuple[float, Any]:
    """Processor seconds of the shortest of several runs, and what a function gives."""
    seconds = []
    for _ in range(repeat):
        start = time.process_time()
        found = function()
        seconds.append(time.process_time() - start)
    return min(seconds), found


def replicates(size: int, n: int) -> float:
    """Both ways of 1,000 replicates, of which the exact one makes ``n``; seconds of ours."""
    count(trials(3000)).bootstrap(SEVEN, "speaker", 39)  # what is imported once is not timed
    case = trials(size)
    speakers = SPEAKERS[case["speakers"]]
    seconds, counts = timed(lambda: count(case))
    ours, found = timed(lambda: counts.bootstrap(SEVEN, "speaker", 1000), 3)
    of = {"sasv": case["scores"]}, case["labels"], speakers
    theirs, exact = timed(lambda: bootstrap(SEVEN, *of, n), 3 if n == 1000 else 1)
    if n < 1000:  # what is done once must not be multiplied: only the slope is
        longer, _ = timed(lambda: bootstrap(SEVEN, *of, 2 * n + 1))
        theirs += (longer - theirs) / (n + 1) * (1000 - n)
    outside = beyond(exact, found, n)
    width = float((found["sasv_eer"].high_bounds - found["sasv_eer"].low_bounds).mean())
    asked = 8 if size < 5_000_000 else 50
    holds = theirs / ours >= asked and not outside and width <= 1e-4
    print(
        f"| {size:,} | {1e9 * seconds / size:.0f} ns | {ours:.2f} s | {theirs:.1f} s | "
        f"{theirs / ours:.1f} (asked {asked}) | {outside} of {7 * n:,} | {width:.1e} | "
        f"{'holds' if holds else 'FAILS'} |",
        flush=True,
    )
    return ours


def beyond(exact: dict[str, Any], found: dict[str, Any], n: int) -> int:
    """How many replicates of the exact bootstrap lie outside their bounds."""
    return sum(
        int(np.sum(exact[name].replicates < one.low_bounds[:n] - 1e-12))
        + int(np.sum(exact[name].replicates > one.high_bounds[:n] + 1e-12))
        for name, one in found.items()
    )


def own_scores(path: str) -> None:
    """Replicates of scores in a file, by speaker and by speaker × attack, against their bounds."""
    table = read_table(path)
    fused = [name for name in table.score_columns if name.startswith("sasv_")]
    scores = table.numbers(fused[0]) if fused else sum(map(table.numbers, table.score_columns))
    labels, speakers, attacks = table.labels(), table.text("speaker"), table.text("attack")
    counts = Counts()
    counts.add(labels, speakers, attacks, sasv=scores)
    for way, clusters in (("speaker", speakers), ("speaker-attack", (speakers, attacks))):
        ours, found = timed(lambda way=way: counts.bootstrap(SEVEN, way, 1000))
        theirs, exact = timed(
            lambda clusters=clusters: bootstrap(SEVEN, {"sasv": scores}, labels, clusters, 1000)
        )
        print(
            f"{len(table):,} trials by {way}: {beyond(exact, found, 1000)} of 7,000 replicates "
            f"outside their bounds (asked 0); {ours:.2f} against {theirs:.2f} s"
        )


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


PEAK = "int(open('/proc/self/status').read().split('VmHWM:')[1].split()[0]) / 1e6"
"""Gigabytes of a process; what getrusage says of it begins with the memory of its parent."""

WAYS = f"""
import sys, time
from lightning_sasv.evaluation import evaluate
start = time.process_time()
found = evaluate(sys.argv[1], exact=sys.argv[2] == "true", ci="none")
metrics = next(iter(found.metrics.values()))
values = {{name: getattr(one, "value", one) for name, one in metrics.items()}}
print(time.process_time() - start, {PEAK})
print(*(repr(float(values[name])) for name in ("sasv_eer", "sv_eer", "spf_eer", "min_a_dcf")))
print(*(repr(float(values[name])) for name in ("cllr", "cllr_min")))
"""


def file(millions: int, folder: Path) -> None:
    """A Parquet file in both ways, each in a process of its own, and the counted way of a fifth."""
    paths = {part: folder / f"{part}.parquet" for part in (millions, max(millions // 5, 1))}
    for part, path in paths.items():
        write_rows(path, part)
    found = {}
    for way in ("true", "false"):
        found[way] = evaluated(paths[millions], way)
        print(
            f"{millions} M rows, {'in memory' if way == 'true' else 'counted'}: "
            f"{found[way][0]:.1f} s, {found[way][1]:.2f} GB",
            flush=True,
        )
    few = min(paths)
    less = evaluated(paths[few], "false")
    same = found["true"][2] == found["false"][2]
    near = np.allclose(*([float(x) for x in found[way][3].split()] for way in found), atol=1e-12)
    seconds, memory = found["false"][:2]
    print(
        f"EERs and min a-DCF equal to the bit: {same}; Cllr, Cllr_min within 1e-12: {near}; "
        f"{seconds / found['true'][0]:.1f} times the time (asked 2), {memory:.2f} GB (asked 0.7); "
        f"from {few} to {millions} M rows {seconds / less[0]:.1f} times the time (asked 5.5)"
    )


def write_rows(path: Path, millions: int) -> None:
    """A Parquet file of labels and scores, a million rows at a time."""
    words = pl.Series(["spoof", "target", "nontarget"])

    def frames() -> Iterator[pl.DataFrame]:
        for seed in range(millions):
            case = trials(1_000_000, seed)
            yield pl.DataFrame({"label": words[case["labels"]], "sasv_score": case["scores"]})

    pl.concat([frame.lazy() for frame in frames()]).sink_parquet(path)


def evaluated(path: Path, way: str) -> tuple[float, float, str, str]:
    """Processor seconds, gigabytes, EERs with the a-DCF, and Cllrs of a file in one way."""
    command = [sys.executable, "-c", WAYS, str(path), way]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    first, rates, sums = done.stdout.splitlines()
    seconds, memory = map(float, first.split())
    return seconds, memory, rates, sums


KEYED = f"""
import sys, time
from lightning_sasv.scores.keys import Space
from lightning_sasv.scores import scan
start = time.process_time()
rows = sum(map(len, scan("scores.parquet", sys.argv[1], space=Space(float(sys.argv[2])))))
print(rows, time.process_time() - start, {PEAK})
"""


def key(millions: int, folder: Path) -> None:
    """Labels of a key in the order of the scores, in another one, and in ranges on disk."""
    rng, rows = np.random.default_rng(0), millions * 1_000_000
    frame = pl.DataFrame(
        {
            "speaker": pl.Series(SPEAKERS)[rng.integers(0, SPEAKERS.size, rows)],
            "utterance": pl.int_range(rows, eager=True).cast(pl.String).str.zfill(9),
            "label": pl.Series(["target", "nontarget", "spoof"])[rng.integers(0, 3, rows)],
        }
    )
    scores = pl.Series("sasv_score", rng.normal(size=rows))
    frame.drop("label").with_columns(scores).write_parquet(folder / "scores.parquet")
    frame.write_parquet(folder / "key.parquet")
    frame.sample(rows, shuffle=True, seed=0).write_parquet(folder / "other.parquet")
    del frame, scores
    for name, memory, what in (
        ("key", "inf", "same order"),
        ("other", "inf", "another order, in memory"),
        ("other", "1e9", "another order, on disk"),
    ):
        command = [sys.executable, "-c", KEYED, f"{name}.parquet", memory]
        done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=folder)
        found, seconds, size = map(float, done.stdout.split())
        print(f"key of {found:,.0f} trials, {what}: {seconds:.1f} s, {size:.2f} GB")


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--large", action="store_true", help="also 10 million trials")
    parser.add_argument("--file", type=int, default=0, help="a file of so many million rows")
    parser.add_argument("--key", type=int, default=0, help="a key of so many million trials")
    parser.add_argument("--scores", help="a score file with speakers and attacks")
    wanted = parser.parse_args()
    with threadpool_limits(1), tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if wanted.file or wanted.key or wanted.scores:
            if wanted.scores:
                own_scores(wanted.scores)
            if wanted.file:
                file(wanted.file, folder)
            if wanted.key:
                key(wanted.key, folder)
            return
        print(
            "| trials | counting | counts: 1,000 replicates | exact bootstrap | ratio | outside "
            "bounds | mean width, SASV-EER | |\n|---|---|---|---|---|---|---|---|"
        )
        first = replicates(1_000_000, 1000)
        if wanted.large:
            replicates(10_000_000, 39)
            parts = (count(trials(10_000_000, seed)) for seed in range(5))
            many = merged(parts)
            last, _ = timed(lambda: many.bootstrap(SEVEN, "speaker", 1000))
            print(f"\nreplicates alone, 1 to 50 million: {last / first:.2f} times (asked 2)")
        orders(folder)


if __name__ == "__main__":
    main()
