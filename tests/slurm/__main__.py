"""``python -m tests.slurm [CASE …]``: every case on a real SLURM, several at a time."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.slurm.cases import CASES
from tests.slurm.cluster import NoClusterError, cluster, install
from tests.slurm.lab import OVER, PATIENCE, CaseError, Lab

AT_ONCE = 4
"""Cases at a time: most of them wait for SLURM most of the time."""

ALL, INSTALLING = 440.0, 120.0
"""Seconds for everything, of which for the packages: without them in that time nothing is run; a
case that is not done in the end has failed, and the daemons are ended."""


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run_case(lab: Lab, name: str) -> bool:
    """Run a case; whether it holds, within its limit."""
    case, limit = CASES[name]
    begun, why = time.monotonic(), ""
    try:
        case(lab, lab.place(name))
    except CaseError as error:
        why = str(error)
    except Exception:  # of any kind: the other cases go on
        why = traceback.format_exc()
    seconds = time.monotonic() - begun
    if not why and seconds > limit * PATIENCE:
        why = f"took {seconds:.0f} s of {limit * PATIENCE:.0f}"
    say(f"{'FAILED' if why else 'ok':<7}{name} ({seconds:.0f} s){f': {why}' if why else ''}")
    return not why


def main(names: list[str]) -> int:
    """Run the cases of these names, or all; the exit code."""
    if unknown := set(names) - set(CASES):
        say(f"slurm-test: no case {', '.join(unknown)}; cases: {', '.join(CASES)}")
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # commands are to hear it
    signal.signal(signal.SIGTERM, lambda *_: OVER.set())
    begun = time.monotonic()
    wanted = names or sorted(CASES, key=lambda name: -CASES[name][1])  # the longest first
    with tempfile.TemporaryDirectory(prefix="sasv-slurm.", ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        place.chmod(0o755)
        try:
            install(INSTALLING)
            (place / "cluster").mkdir()
            with cluster(place / "cluster") as environment:
                left = ALL * PATIENCE - (time.monotonic() - begun)
                held = _run(Lab(environment, place / "cases"), wanted, left)
        except NoClusterError as error:
            say(f"slurm-test: skipped, no case was run: {error}")
            return 0
    failed = len(wanted) - sum(held)
    outcome = f"{failed} of {len(wanted)} cases failed" if failed else f"{len(wanted)} cases hold"
    say(f"slurm-test: {outcome}, {time.monotonic() - begun:.0f} s")
    return min(failed, 1)


def _run(lab: Lab, names: list[str], seconds: float) -> list[bool]:
    hurrying = threading.Thread(target=lab.hurry)
    hurrying.start()
    alarm = threading.Timer(seconds, OVER.set)
    alarm.start()
    try:
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(lambda name: run_case(lab, name), names))
    finally:
        alarm.cancel()
        OVER.set()
        hurrying.join()
        lab.end()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
