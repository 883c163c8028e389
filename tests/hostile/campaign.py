"""`make attack`: every hostile file, signal and environment against every command.

Prints a line for each: command, where the attack came in, the attack, exit code, lines of output,
whether there was a traceback, and files left behind. Ends with 1 if anything was run or written
that should not be, or did not end.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from rich.console import Console
from rich.progress import track

from tests.faults.forks import FORKS, is_there
from tests.hostile import environments
from tests.hostile.attacks import SECRET, VARIABLES, Maker, evil_module, hostile_files
from tests.hostile.conftest import tree
from tests.hostile.corpus import MARK
from tests.hostile.targets import FAILS, LONG, SOUND, TARGETS, Target, sound_files
from tests.hostile.test_signals import CODES, SECONDS
from tests.hostile.victim import begin

LIMIT = 120.0
"""Seconds after which a command counts as hung."""

PLACES = ("out", "runs")
"""Where a command may write."""

HEAD = ("command", "by", "attack", "exit", "lines", "traceback", "left behind", "")


@dataclass
class Outcome:
    """What came of an attack."""

    code: int | None
    seconds: float
    said: str
    left: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Attack:
    """One attack on one command."""

    command: str
    way: str
    kind: str
    name: str
    run: Callable[[Path], Outcome]

    @property
    def key(self) -> str:
        """Its name; moments of signals, which are drawn, do not count."""
        return (
            f"{self.command} {self.way if self.kind != 'signal' else ''} {self.kind}: {self.name}"
        )

    def row(self, outcome: Outcome) -> tuple[str, ...]:
        """The line of the table."""
        code = "none" if outcome.code is None else str(outcome.code)
        lines = str(len(outcome.said.splitlines()))
        traceback = "TRACEBACK" if "Traceback" in outcome.said else "-"
        found = ", ".join(outcome.faults)
        left = " ".join(outcome.left[:3]) or "-"
        attack = f"{self.kind}: {self.name}"
        return (self.command, self.way, attack, code, lines, traceback, left, found)


class Record(NamedTuple):
    """What is kept of an attack: which, its line of the table, the last words of one that found."""

    key: str
    row: Sequence[str]
    said: list[str]


def start(words: list[str], folder: Path, number: int = 0, after: float = 0.0) -> Outcome:
    """Run a command, send it a signal if one is given, and wait for its end."""
    log = folder.parent / "log"
    log.touch()
    process = FORKS.Process(target=begin, args=(words, folder, log, VARIABLES))
    process.start()
    begun = time.monotonic()
    while number and not log.with_suffix(".begun").exists() and process.is_alive():
        time.sleep(0.01)
    process.join(after)
    if number and process.is_alive():
        begun = time.monotonic()
        os.kill(process.pid or 0, number)
    process.join(LIMIT)
    taken = time.monotonic() - begun
    group = process.pid or 0
    outcome = Outcome(process.exitcode, taken, log.read_text(errors="replace"))
    if process.exitcode is None:
        outcome.faults.append("hangs")
    elif is_there(group):
        outcome.faults.append("processes left")
    if is_there(group):
        os.killpg(group, signal.SIGKILL)
    process.kill()
    process.join()
    return outcome


def give(make: Maker, target: Target, folder: Path) -> Outcome:
    """Put a hostile file where a command takes it."""
    path = folder / target.place
    path.parent.mkdir(parents=True, exist_ok=True)
    make(path)
    evil_module(folder)
    before = tree(folder.parent)
    outcome = start(target.words, folder)
    if outcome.code not in (0, 1, 2, None):
        outcome.faults.append(f"code {outcome.code}")
    if outcome.code and not outcome.said.strip():
        outcome.faults.append("no word")
    return judged(outcome, folder, before)


def send(number: signal.Signals, words: list[str], after: float, folder: Path) -> Outcome:
    """Send a signal to a command at some moment."""
    before = tree(folder.parent)
    outcome = start(words, folder, number, after)
    if outcome.code not in (CODES[number], 0, FAILS.get(words[0], 0)):
        outcome.faults.append(f"code {outcome.code}")
    if outcome.seconds > SECONDS and outcome.code == CODES[number]:
        outcome.faults.append(f"{outcome.seconds:.0f} s")
    return judged(outcome, folder, before)


def put(environment: environments.Environment, words: list[str], folder: Path) -> Outcome:
    """Run a sound command on odd ground."""
    before = tree(folder.parent)
    begun = time.monotonic()
    done = environments.run(words, environment, folder, timeout=LIMIT)
    said = (done.stdout + done.stderr).decode(errors="replace")
    outcome = Outcome(done.returncode, time.monotonic() - begun, said)
    if done.returncode not in {FAILS.get(words[0], code) for code in environment.codes}:
        outcome.faults.append(f"code {done.returncode}")
    return judged(outcome, folder, before)


def judged(outcome: Outcome, folder: Path, before: dict[Path, bytes]) -> Outcome:
    """See what a command left behind, and what it should not have done."""
    after = tree(folder.parent)
    new = [path for path, data in after.items() if before.get(path) != data]
    new += [path for path in before if path not in after]
    logs = [path for path in new if path.parent == folder.parent]
    new = [path for path in new if path not in logs]
    outcome.left = sorted(str(path.relative_to(folder)) for path in new)
    found = {
        "mark": any(folder.parent.rglob(MARK)),
        "traceback": "Traceback" in outcome.said,
        "secret": SECRET in outcome.said
        or any(SECRET.encode() in after.get(path, b"") for path in new),
        "files": any(Path(path).parts[0] not in PLACES for path in outcome.left),
    }
    outcome.faults += [name for name, is_so in found.items() if is_so]
    return outcome


def attacks(seed: int) -> Iterator[Attack]:
    """Every attack on every command."""
    draw = random.Random(seed)
    files = hostile_files()
    for command, sound in SOUND.items():
        for target in TARGETS[command]:
            for kind, makers in files.items():
                for name, make in makers.items():
                    run = partial(give, make, target)
                    yield Attack(command, target.option, kind, name, run)
        for number in CODES:
            words, after = LONG.get(command, sound), draw.uniform(0.1, 3 if command in LONG else 1)
            once = partial(send, number, words, after)
            yield Attack(command, f"after {after:.1f} s", "signal", number.name, once)
        for name, environment in environments.ENVIRONMENTS.items():
            there = partial(put, environment, sound)
            yield Attack(command, "ground", "environment", name, there)


def carry_out(attack: Attack, sound: Path) -> Outcome:
    """Try one attack in a folder of its own, with sound files beside the hostile one."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(shutil.copytree(sound, Path(place, "a")))
        try:
            return attack.run(folder)
        except Exception as error:  # the others go on
            return Outcome(None, 0, "", faults=[f"campaign: {error!r}"[:200]])


def show(rows: Sequence[Sequence[str]]) -> None:
    """Print a table of texts."""
    widths = [max(map(len, column)) for column in zip(HEAD, *rows, strict=True)]
    for row in (HEAD, *rows):
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        sys.stdout.write(line.rstrip() + "\n")


def read_arguments(words: list[str] | None) -> argparse.Namespace:
    """The options of the campaign."""
    parser = argparse.ArgumentParser(prog="make attack ARGS='…'", description=__doc__)
    parser.add_argument("--only", help="commands, separated by commas; by default all")
    kinds = ", ".join([*hostile_files(), "signal", "environment"])
    parser.add_argument(
        "--attack", help=f"kinds, separated by commas: {kinds}; or one 'kind: name'"
    )
    parser.add_argument("--by", help="where the attack comes in, e.g. --by=--config")
    parser.add_argument("--seed", type=int, default=0, help="of what is drawn")
    share = "part of them, drawn by the seed, e.g. 0.01 for a first look"
    parser.add_argument("--share", type=float, default=1.0, help=share)
    parser.add_argument("--shard", default="1/1", help="I/N: the I-th of N parts")
    minutes = "begin no further attack after so many; those that were begun are ended"
    parser.add_argument("--minutes", type=float, default=float("inf"), help=minutes)
    log = "keep what came of each attack in a file, and leave out those that are in it"
    parser.add_argument("--log", type=Path, help=log)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    return parser.parse_args(words)


def choose(options: argparse.Namespace) -> list[Attack]:
    """The attacks that are wanted, in an order that makes the first ones a fair sample."""
    commands = options.only.split(",") if options.only else list(SOUND)
    kinds = options.attack.split(",") if options.attack else None
    chosen = [
        one
        for one in attacks(options.seed)
        if one.command in commands
        and (kinds is None or one.kind in kinds or f"{one.kind}: {one.name}" in kinds)
        and options.by in (None, one.way)
    ]
    draw = random.Random(options.seed)
    chosen = [one for one in chosen if draw.random() < options.share]
    draw.shuffle(chosen)
    part, parts = map(int, options.shard.split("/"))
    return chosen[part - 1 :: parts]


def tried(options: argparse.Namespace, chosen: list[Attack]) -> Iterator[Record]:
    """Carry out attacks until the time is over."""
    end = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(options.workers) as pool:
        sound = sound_files(Path(place, "sound")) if chosen else Path(place)

        def try_one(one: Attack) -> Outcome | None:
            return carry_out(one, sound) if time.monotonic() < end else None

        done = track(
            pool.map(try_one, chosen), "Attacks", len(chosen), console=Console(stderr=True)
        )
        for one, outcome in zip(chosen, done, strict=True):
            if outcome is not None:
                said = outcome.said.strip().splitlines()[-1:] if outcome.faults else []
                yield Record(one.key, one.row(outcome), [line[:500] for line in said])


def main(words: list[str] | None = None) -> int:
    """Carry out the campaign; 1 if anything was found."""
    options = read_arguments(words)
    chosen, records = choose(options), list[Record]()
    if options.log and options.log.exists():
        known = [Record(*json.loads(line)) for line in options.log.read_text().splitlines()]
        records = [one for one in known if one.key in {attack.key for attack in chosen}]
    done = {one.key for one in records}
    for record in tried(options, [one for one in chosen if one.key not in done]):
        records.append(record)
        if options.log:
            with options.log.open("a") as file:
                file.write(json.dumps(record) + "\n")
    found = [one for one in records if one.row[-1]]
    show([one.row for one in records])
    sys.stdout.write(f"\n{len(records)} of {len(chosen)} attacks tried, found in {len(found)}\n")
    if found:
        show([one.row for one in found])
    sys.stdout.writelines(f"{one.key} said: {line}\n" for one in found for line in one.said)
    return int(bool(found) or not records)
