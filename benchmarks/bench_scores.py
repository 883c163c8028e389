"""Speed of score files: reading, joining to a key, and a whole evaluation with intervals.

Claims, on files of ``--rows`` rows (10 million by default) that are made for the purpose:

1. reading and checking a score file is at least 5 times faster than ``numpy.genfromtxt``, which is
   timed on one hundredth of the rows in the same run and scaled up (it is linear in the rows);
2. joining the trials to a key in another order takes less than 20 s and the process, which has
   read both files as well, less than 6 GB;
3. ``lightning evaluate`` on the eval set with every metric and 1,000 bootstrap replicates of each
   EER takes less than 15 s, start of the program included. The eval set is the real one (fused by
   L3) from ``--data``, ``$SASV_SHARED`` or ``../shared``; simulated scores of the same size where
   these are absent;
4. the page that ``lightning report`` makes of all systems on that eval set is smaller than 5 MB and
   drawn by headless Chromium within 3 s of being opened (median of five; left out where selenium,
   chromium or chromedriver is not installed);
5. ``lightning evaluate`` of the large file costs less than 12 times as much as of its first tenth;
6. ``lightning evaluate`` of 300 trials with its 1,000 replicates takes at most 1.5 times the
   processor time of importing numpy, scipy.special and polars, and less than 1.5 s (medians of 15
   turns with byte code cached, as of an installed package; ``--start`` measures this alone).

Run: ``python benchmarks/bench_scores.py [--rows 10000000] [--data DIR] [--folder DIR]``. Needs
1.2 GB of disk for a while.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from lightning_sasv.decisions import CostModel, simulate
from lightning_sasv.fusion import fit_systems
from lightning_sasv.scores import read_scores, write_scores
from lightning_sasv.trials import Scores, TrialClass

SHARE = 100
TYPES = "U7,U13,U3,U9,f8,f8"
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}

FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
         "--disable-sync", "--no-first-run", "--window-size=1280,900")  # fmt: skip
DRAWN = """const done = arguments[0];
const look = () => document.documentElement.dataset.ready ? done(performance.now())
  : setTimeout(look, 5);
look();"""

READ = """
import resource, sys, time
from lightning_sasv.scores import read_table
started = time.perf_counter()
table = read_table(sys.argv[1])
seconds = time.perf_counter() - started
print(len(table), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""
JOIN = """
import resource, sys, time
from lightning_sasv.scores import read_table
from lightning_sasv.scores.join import join_key
scores, key = read_table(sys.argv[1]), read_table(sys.argv[2])
started = time.perf_counter()
joined = join_key(scores, key)
seconds = time.perf_counter() - started
assert joined.missing == joined.extra == 0
print(len(joined.table), seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6)
"""


def make_files(folder: Path, rows: int) -> tuple[Path, Path, Path]:
    """A score table, the key of its trials in another order, and the first rows of the table."""
    rng = np.random.default_rng(0)
    label = rng.integers(0, 3, rows)
    frame = pl.DataFrame({"s": rng.integers(0, 2000, rows), "u": np.arange(rows), "k": label})
    frame = frame.select(
        (pl.lit("LA_") + pl.col("s").cast(pl.String).str.zfill(4)).alias("speaker"),
        (pl.lit("LA_T_") + pl.col("u").cast(pl.String).str.zfill(8)).alias("utterance"),
        pl.when(pl.col("k") == 0).then(pl.lit("A07")).otherwise(pl.lit("-")).alias("attack"),
        pl.col("k").replace_strict({0: "spoof", 1: "target", 2: "nontarget"}).alias("label"),
    )
    scores, key, part = folder / "scores.csv", folder / "key.txt", folder / "part.csv"
    numbers = {"asv_score": rng.normal(size=rows), "cm_score": 3 * rng.normal(size=rows)}
    full = frame.with_columns(**{name: pl.Series(values) for name, values in numbers.items()})
    full.write_csv(scores)
    full.head(max(1, rows // SHARE)).write_csv(part)
    full.head(rows // 10).write_csv(folder / "tenth.csv")
    shuffled = frame[rng.permutation(rows)].with_columns(pl.col("attack").replace("-", "bonafide"))
    shuffled.write_csv(key, separator=" ", include_header=False)
    return scores, key, part


def measured(script: str, *args: Path) -> tuple[int, float, float]:
    """Rows, seconds and peak memory in GB of a process of its own."""
    command = [sys.executable, "-c", script, *map(str, args)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=ENVIRONMENT)
    rows, seconds, memory = done.stdout.split()
    return int(rows), float(seconds), float(memory)


def genfromtxt_seconds(part: Path) -> float:
    """What numpy takes for one hundredth of the rows."""
    started = time.perf_counter()
    np.genfromtxt(part, delimiter=",", skip_header=1, dtype=TYPES, encoding="utf-8")
    return time.perf_counter() - started


def eval_scores(data: Path) -> tuple[Scores, str]:
    """The eval set with one fused score."""
    folder = data / "data" / "sasv2022"
    if folder.is_dir():
        dev, evaluation = (read_scores(folder / f"{part}_scores.csv") for part in ("dev", "eval"))
        origin = "real scores"
    else:
        dev, evaluation = simulated(29_548, 0), simulated(102_579, 1)
        origin = f"simulated scores (no data at {data})"
    system = fit_systems(dev.asv, dev.cm, dev.label, ["L3"])["L3"]
    evaluation.extra["sasv_L3"] = system(evaluation.asv, evaluation.cm).sasv.numpy()
    return evaluation, origin


def simulated(trials: int, seed: int) -> Scores:
    """Gaussian scores with the class proportions of dev."""
    drawn = simulate(trials, CostModel(p_target=0.05, p_nontarget=0.2, p_spoof=0.75), seed=seed)
    speaker = np.array([f"S{n % 48}" for n in range(trials)])
    utterance = np.array([f"U{n}" for n in range(trials)])
    columns = (drawn.asv, drawn.cm, drawn.labels)
    return Scores(*columns, speaker=speaker, utterance=utterance)


def evaluate_seconds(path: Path, way: str, out: Path) -> tuple[float, float, list[str]]:
    """Wall and processor time of `lightning evaluate`, and the metrics that got intervals."""
    command = [sys.executable, "-m", "lightning_sasv.cli", "evaluate", str(path), "--ci", way]
    command += ["--replicates", "1000", "--json", str(out)]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
    seconds = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = after.ru_utime - used.ru_utime + after.ru_stime - used.ru_stime
    return seconds, processor, list(json.loads(out.read_text())["systems"]["L3"]["intervals"])


def make_page(data: Path, folder: Path) -> Path:
    """The page of every system on the eval set, by the commands that users type."""
    source = data / "data" / "sasv2022"
    if not source.is_dir():
        source = folder
        write_scores(folder / "dev_scores.csv", simulated(29_548, 0))
        write_scores(folder / "eval_scores.csv", simulated(102_579, 1))
    files = [f"--{part}={source / f'{part}_scores.csv'}" for part in ("dev", "eval")]
    for words in (["fuse", *files, "--out", str(folder / "fused")], ["report", folder / "fused"]):
        command = [sys.executable, "-m", "lightning_sasv.cli", *map(str, words)]
        subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
    return folder / "fused" / "report.html"


def opening_seconds(page: Path, profile: Path, times: int = 5) -> list[float] | None:
    """Seconds from navigation until every figure is drawn; nothing without a browser."""
    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if browser is None or driver is None or find_spec("selenium") is None:
        return None
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in (*FLAGS, f"--user-data-dir={profile}"):
        options.add_argument(flag)
    running = webdriver.Chrome(options, Service(driver))
    try:
        seconds = []
        for _ in range(times):
            running.get(page.as_uri())
            seconds.append(float(running.execute_async_script(DRAWN)) / 1000)
        return seconds
    finally:
        running.quit()


def measure_page(data: Path, folder: Path) -> None:
    """Size of the page and the time until it is drawn."""
    page = make_page(data, folder)
    print(f"report of 102,579 trials: {page.stat().st_size / 1e6:.1f} MB (claim: below 5)")
    seconds = opening_seconds(page, folder / "profile")
    if seconds is None:
        print("  not opened: no selenium, chromium or chromedriver")
    else:
        print(f"  drawn in {np.median(seconds):.2f} s (claim: below 3)")


def measure_growth(whole: Path, tenth: Path) -> None:
    """Seconds of `lightning evaluate` on a file and on its first tenth."""
    seconds = []
    for path in (whole, tenth):
        command = [sys.executable, "-m", "lightning_sasv.cli", "evaluate", str(path)]
        started = time.perf_counter()
        subprocess.run(command, capture_output=True, check=True, env=ENVIRONMENT)
        seconds.append(time.perf_counter() - started)
    print(
        f"lightning evaluate of the large file: {seconds[0]:.1f} s, {seconds[1]:.1f} s of its ",
        end="",
    )
    print(f"first tenth: {seconds[0] / seconds[1]:.1f} times (claim: below 12)")


def measure_start(folder: Path, turns: int = 15) -> None:
    """Processor time of a whole `lightning evaluate`, and of importing what it would need."""
    scores = simulated(300, 0)
    columns: dict[str, Any] = {"speaker": scores.speaker, "utterance": scores.utterance}
    columns |= {"label": [TrialClass(k).name.lower() for k in scores.label]}
    columns |= {"sasv_score": scores.asv + scores.cm}
    pl.DataFrame(columns).write_csv(folder / "small.csv")
    columns |= {"asv_score": scores.asv, "cm_score": scores.cm}
    pl.DataFrame(columns).write_csv(folder / "three.csv")
    command = ["-m", "lightning_sasv.cli", "evaluate"]
    ways = {
        "SASV scores": [*command, str(folder / "small.csv")],
        "ASV, CM and SASV scores": [*command, str(folder / "three.csv")],
        "imports": ["-c", "import numpy, scipy.special, polars"],
    }
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")  # as pip leaves it
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in ways}
    for _ in range(1 + turns):
        for name, words in ways.items():
            before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            subprocess.run(
                [sys.executable, *words], capture_output=True, check=True, env=environment
            )
            after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            found[name].append((used, seconds - started))
    medians = {name: np.median(own[1:], axis=0) for name, own in found.items()}
    imports = medians.pop("imports")
    print(f"imports of numpy, scipy.special and polars: {imports[0]:.2f} s on a processor")
    for name, (used, seconds) in medians.items():
        print(f"lightning evaluate of 300 trials, {name}: {used:.2f} s on a processor, ", end="")
        print(f"{used / imports[0]:.2f} times that (claim: at most 1.5)")
        print(f"  {seconds:.2f} s in all (claim: below 1.5)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    shared = Path(__file__).resolve().parents[2] / "shared"
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("SASV_SHARED", shared)))
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--folder", type=Path, default=None, help="where to put the files")
    parser.add_argument("--start", action="store_true", help="measure the start alone")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        measure_start(folder)
        if options.start:
            return
        scores, key, part = make_files(folder, options.rows)
        size = scores.stat().st_size / 1e6
        peer = genfromtxt_seconds(part) * SHARE
        rows, seconds, memory = measured(READ, scores)
        print(f"read and check {rows:,} rows ({size:.0f} MB): {seconds:.1f} s, {memory:.1f} GB")
        print(f"  numpy.genfromtxt: {peer:.0f} s (1 % of the rows timed, times {SHARE})")
        print(f"  {peer / seconds:.1f} times faster (claim: at least 5)")
        rows, seconds, memory = measured(JOIN, scores, key)
        print(f"join {rows:,} trials to a key: {seconds:.1f} s (claim: below 20)")
        print(f"  peak memory with both files read: {memory:.1f} GB (claim: below 6)")
        measure_growth(scores, folder / "tenth.csv")
        evaluation, origin = eval_scores(options.data)
        write_scores(folder / "eval.csv", evaluation)
        for way in ("trial", "speaker"):
            seconds, processor, metrics = evaluate_seconds(
                folder / "eval.csv", way, folder / "e.json"
            )
            print(f"lightning evaluate --ci {way}, {len(evaluation):,} {origin}, 1,000 replicates:")
            print(f"  {seconds:.1f} s, of which {processor:.1f} s on a processor (claim: below 15)")
            print(f"  intervals of {', '.join(metrics)}")
        measure_page(options.data, folder)


if __name__ == "__main__":
    main()
