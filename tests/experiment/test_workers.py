"""Work shared between processes: the same results, told failures, and nothing left behind."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment import table
from lightning_sasv.experiment.workers import Workers, usable_processes
from lightning_sasv.files import write_text
from tests.experiment.jobs import (
    no_preparation,
    note,
    number_in,
    ready,
    refuse,
    run_at_once,
    sleep,
    start_and_wait,
    wait_for,
)
from tests.helpers import results_in

pytestmark = pytest.mark.slow

SMALL = ["--seeds=1-3", "--seeds_per_job=2", "--systems=B1,L3c", "--data.scale=0.02"]
SMALL += ["--epochs=2", "--replicates=40"]


def test_two_processes_give_the_bits_of_one(tmp_path: Path) -> None:
    for number in ("1", "2"):
        main(["table", *SMALL, "--processes", number, "--out", str(tmp_path / number)])
    one, two = results_in(tmp_path / "1"), results_in(tmp_path / "2")
    assert {"metrics.json", "seed3/scores/eval.csv", "seed3/checkpoints/best.ckpt"} <= one.keys()
    assert [name for name in one if one[name] != two[name]] == []
    groups = [p.read_text() for p in (tmp_path / "2" / "training").glob("*/group.json")]
    assert len(groups) == 2


def test_number_of_processes_follows_cores_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    assert usable_processes(2, 1, 1) == 1
    assert usable_processes(2, 8, 1) == 2
    assert usable_processes(0, None, 1) == 1
    with pytest.raises(InputError, match="--processes must be at least 1, got 0"):
        usable_processes(2, 0, 1)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(6)))
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert usable_processes(9, None, 1) == 4
    assert usable_processes(9, None, 2) == 3
    assert usable_processes(2, None, 1) == 2
    assert usable_processes(9, None, 64) == 1
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert usable_processes(9, None, 1) == 1


def is_gone(process: int) -> bool:
    """Whether a process ends within some seconds; one that nobody waits for counts as ended."""
    for _ in range(100):
        status = Path(f"/proc/{process}/stat")
        if not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z":
            return True
        time.sleep(0.1)
    return False


@pytest.mark.parametrize(("prepare", "prepared"), [(ready, "ready for it"), (refuse, "None")])
def test_work_is_done_here_and_there_with_what_was_prepared(
    tmp_path: Path, prepare: Callable[[str], object], prepared: str
) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    Workers(prepare, "it").run(lambda: note(here), note, [(there,)])
    assert number_in(here) == os.getpid() != number_in(there)
    assert there.read_text().endswith(prepared)


def test_a_failure_there_is_told_here(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="failed: no luck; what is finished is kept"):
        run_at_once(lambda: note(tmp_path / "here"), refuse, [("luck",)])
    assert (tmp_path / "here").exists()


def test_a_process_that_dies_is_told(tmp_path: Path) -> None:
    path = tmp_path / "there"
    with pytest.raises(RunError, match="ended with code -9"):
        run_at_once(lambda: os.kill(wait_for(path), signal.SIGKILL), sleep, [(path,)])


def test_a_failure_here_ends_the_others(tmp_path: Path) -> None:
    path = tmp_path / "there"

    def fail() -> None:
        wait_for(path)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_at_once(fail, sleep, [(path,)])
    assert is_gone(number_in(path))


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")
def test_processes_end_with_a_killed_parent(tmp_path: Path) -> None:
    path = tmp_path / "there"
    parent = multiprocessing.get_context("spawn").Process(target=start_and_wait, args=(path,))
    parent.start()
    child = wait_for(path)
    os.kill(parent.pid or 0, signal.SIGKILL)
    parent.join()
    assert is_gone(child)


def test_helpers_without_work_are_ended(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("first", "second")]
    with Workers(sleep, paths[0]) as workers:
        workers.keep(1)
        process = wait_for(paths[0])
    assert is_gone(process)
    with Workers(note, paths[1]) as workers:
        workers.keep(1)
        process = wait_for(paths[1])
        workers.run(lambda: None, note, [])
        assert is_gone(process), "before the end of the block"


def test_a_helper_that_died_before_its_work_is_told(tmp_path: Path) -> None:
    path = tmp_path / "there"
    with Workers(sleep, path) as workers:
        workers.keep(1)
        process = wait_for(path)
        os.kill(process, signal.SIGKILL)
        assert is_gone(process)
        with pytest.raises(RunError, match="ended with code -9"):
            workers.run(lambda: None, note, [(tmp_path / "never",)])


class StartedError(Exception):
    pass


def test_workers_start_early_for_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def started(seeds: str, stack: int, processes: int) -> int:
        with pytest.raises(StartedError) as told:
            table(seeds, out=str(tmp_path), seeds_per_job=stack, processes=processes)
        return int(str(told.value))

    def keep(_: Workers, number: int) -> None:
        raise StartedError(number)

    write_text(tmp_path / "recipe.json", '{"lightning_sasv": "0.1.0"}')  # a table was begun here
    monkeypatch.setattr(Workers, "keep", keep)
    monkeypatch.setattr(Workers, "__exit__", lambda *_: None)
    found = []
    for seed in (1, 2):
        found.append(started("1-4", 2, 8))
        write_text(tmp_path / f"seed{seed}" / "metrics.json", "{}")
    found += [started("1-4", 2, 8), started("1-2", 2, 8), started("3-5", 1, 2)]
    assert found == [1, 1, 0, 0, 1]


def test_a_mistake_leaves_no_helper_behind(tmp_path: Path) -> None:
    before = set(multiprocessing.active_children())
    bad = [*SMALL, "--processes=2", "--data.root", str(tmp_path / "nowhere")]
    with pytest.raises(SystemExit):
        main(["table", *bad, "--out", str(tmp_path / "out")])
    assert set(multiprocessing.active_children()) == before


def test_an_interrupt_does_not_reach_a_helper_that_is_starting(tmp_path: Path) -> None:
    there = tmp_path / "there"
    with Workers(no_preparation) as workers:
        workers.keep(1)
        for process in multiprocessing.active_children():
            for _ in range(20):
                os.kill(process.pid or 0, signal.SIGINT)
                time.sleep(0.1)
        workers.run(lambda: None, note, [(there,)])
    assert there.exists()
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
