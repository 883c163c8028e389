"""Two writers of one place: one of them is refused by name, or waits; nothing is mixed."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from lightning_fabric.plugins.environments.slurm import SLURMEnvironment
from pytorch_lightning import Trainer

from lightning_sasv import locks
from lightning_sasv.cli import main
from lightning_sasv.commands.run_folder import _check_address
from lightning_sasv.commands.train import base_config
from lightning_sasv.errors import InputError
from lightning_sasv.evaluation import fusing
from lightning_sasv.locks import Owner, lock, myself, next_version, owner_of
from lightning_sasv.places import LOCK
from lightning_sasv.program import Program, using
from lightning_sasv.scores import write_scores
from tests.faults.forks import FORKS
from tests.helpers import content, failure_of
from tests.hostile.conftest import tree
from tests.hostile.victim import begin
from tests.scores.samples import toy_scores

HOLD = """
import sys, time
from lightning_sasv.locks import lock
with lock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the lock of a folder."""
    words = [sys.executable, "-c", HOLD, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield process
        finally:
            process.kill()


def leave(folder: Path, **differs: Any) -> Owner:
    """A lock as somebody else would have left it."""
    owner = replace(myself(), **differs)
    folder.mkdir(exist_ok=True)
    (folder / LOCK).write_text(json.dumps(asdict(owner)))
    return owner


def test_a_second_writer_is_refused_by_name_of_the_first(tmp_path: Path) -> None:
    with holder(tmp_path / "out") as process:
        said = f"{tmp_path / 'out'} is being written to .*process {process.pid} on "
        with pytest.raises(InputError, match=f"{said}{socket.gethostname()}, since 20.*--wait"):
            lock(tmp_path / "out").__enter__()
        with lock(tmp_path / "other"), lock(tmp_path / "out" / "below"), lock(tmp_path):
            assert owner_of(tmp_path / "out") is not None


def test_a_killed_writer_is_recognised(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with holder(tmp_path) as process:
        process.kill()  # it is not waited for: it stays as a zombie
        while Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
            time.sleep(0.01)
        assert (tmp_path / LOCK).exists()
        assert owner_of(tmp_path) is None
        with lock(tmp_path):
            assert owner_of(tmp_path) is not None
        assert f"from a command that was killed (process {process.pid} on" in capfd.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    leave(tmp_path, pid=os.getppid(), birth="1")
    with lock(tmp_path):
        pass


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_a_lock_goes_however_the_work_ends(tmp_path: Path, error: type[BaseException]) -> None:
    def work() -> None:
        with lock(tmp_path / "a" / "b", tmp_path / "c"):
            assert (tmp_path / "c" / LOCK).exists()
            raise error

    with pytest.raises(error):
        work()
    assert not list(tmp_path.iterdir())  # what was made for it and is empty has gone too


def test_another_machine_is_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leave(tmp_path, host="node7", pid=1, system="x", job="55")
    monkeypatch.setenv("PATH", "")  # no SLURM to ask
    with pytest.raises(InputError, match=rf"process 1 on node7, SLURM job 55, .* remove .*{LOCK}"):
        lock(tmp_path).__enter__()


@pytest.mark.parametrize(
    ("answer", "ended"),
    [
        ("echo RUNNING", False),
        ("echo SUSPENDED", False),
        ("echo STAGE_OUT", False),
        ("echo SIGNALING", False),
        ("echo CANCELLED", True),
        ("true", True),
        ("echo 'slurm_load_jobs error: Invalid job id specified' >&2; exit 1", True),
        ("echo 'slurm_load_jobs error: Unable to contact slurm controller' >&2; exit 1", False),
    ],
)
def test_slurm_is_asked_for_a_job_on_another_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, ended: bool
) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{answer}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    leave(tmp_path / "out", host="node7", system="x", job="55")
    assert (owner_of(tmp_path / "out") is None) == ended


def test_a_job_that_was_requeued_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(tmp_path, host="node7", system="x", job="55", restarts="0")
    monkeypatch.setenv("SLURM_JOB_ID", "55")
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    with lock(tmp_path):
        pass


@pytest.mark.parametrize("content", ["", "{", "[" * 9000, "{}", '{"host": 1}', '{"pid": -1}', "1"])
def test_a_lock_that_names_nobody_is_left_to_the_user(tmp_path: Path, content: str) -> None:
    (tmp_path / LOCK).write_text(content)
    with pytest.raises(InputError, match="does not say who"):
        lock(tmp_path).__enter__()
    assert (tmp_path / LOCK).read_text() == content


def test_without_hard_links_the_lock_is_made_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    with lock(tmp_path), pytest.raises(InputError, match=f"process {os.getpid()}"):
        lock(tmp_path).__enter__()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("dead", [False, True])
def test_of_many_at_once_one_has_the_lock(tmp_path: Path, dead: bool) -> None:
    inside, most, done = 0, 0, 0
    count = threading.Lock()

    def work() -> None:
        nonlocal inside, most, done
        with lock(tmp_path):
            with count:
                inside += 1
                most = max(most, inside)
            time.sleep(0.001)
            with count:
                inside, done = inside - 1, done + 1

    if dead:
        leave(tmp_path, pid=2**22 + 1)
    with using(Program(wait=True, quiet=True)), pytest.MonkeyPatch.context() as patch:
        patch.setattr(locks, "POLL_SECONDS", 0.001)
        threads = [threading.Thread(target=work) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (most, done) == (1, 12)
    assert not list(tmp_path.iterdir())


# Commands


@pytest.fixture
def scores(here: Path) -> Path:
    write_scores(here / "dev.csv", toy_scores(90))
    write_scores(here / "eval.csv", toy_scores(120))
    return here


FUSE = ["fuse", "--dev=dev.csv", "--eval=eval.csv", "--systems=B1,L2", "--out=out"]
TABLE = ["table", "--out=out", "--seeds=1", "--systems=B1", "--epochs=1", "--data.scale=0.005"]


@pytest.mark.parametrize("command", [FUSE, TABLE])
def test_a_command_on_a_folder_that_is_written_to_is_refused_and_changes_nothing(
    command: list[str], scores: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with holder(scores / "out") as process:
        before = tree(scores)
        said = failure_of(capfd, *command)
        assert f"process {process.pid} on {socket.gethostname()}, since" in said
        assert len(said.splitlines()) == 1
        assert tree(scores) == before


def pause(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """Let fusing stop before it writes; the events are that it has, and that it may go on."""
    ready, go = threading.Event(), threading.Event()
    write = fusing.write_results

    def slow(*args: Any, **kwargs: Any) -> Path:
        ready.set()
        assert go.wait(30)
        return write(*args, **kwargs)

    monkeypatch.setattr(fusing, "write_results", slow)
    return ready, go


def in_thread(function: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_two_fusions_into_one_folder_leave_the_results_of_one(
    scores: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    main([*FUSE[:-1], "--out=alone"])
    ready, go = pause(monkeypatch)
    first = in_thread(lambda: main(FUSE))
    assert ready.wait(30)
    assert f"process {os.getpid()} on" in failure_of(capfd, *FUSE, "--dev=eval.csv")
    go.set()
    first.join()
    left, alone = (
        {path.relative_to(scores / name): content(path) for path in tree(scores / name)}
        for name in ("out", "alone")
    )
    assert left == alone


def test_one_who_waits_comes_after_the_first(
    scores: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    with holder(scores / "out") as process:
        tell = locks._tell
        monkeypatch.setattr(locks, "POLL_SECONDS", 0.05)

        def tell_and_end(note: str) -> None:
            tell(note)
            process.kill()

        monkeypatch.setattr(locks, "_tell", tell_and_end)
        main([*FUSE, "--wait"])
        assert f"waiting for process {process.pid}" in capfd.readouterr().err
    assert (scores / "out" / "metrics.json").exists()


# Runs

CONFIG = f"--config={base_config().parent / 'B1.yaml'}"
FIT = ["fit", CONFIG, "--data.scale=0.01", "--trainer.max_epochs=1"]


def test_fits_that_start_at_once_have_folders_of_their_own(here: Path) -> None:
    words = [sys.executable, "-m", "lightning_sasv.cli", *FIT]
    started = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    runs = sorted((here / "runs" / "B1").iterdir())
    assert [run.name for run in runs] == ["version_0", "version_1"]
    names = [{path.relative_to(run) for path in tree(run)} for run in runs]
    assert names[0] == names[1]
    assert content(runs[0] / "metrics.json") == content(runs[1] / "metrics.json")


def test_many_who_want_the_next_number_have_one_each(tmp_path: Path) -> None:
    numbers: list[int] = []

    def work() -> None:
        with next_version(tmp_path / "runs") as number:
            (tmp_path / "runs" / f"version_{number}" / "x").touch()
            numbers.append(number)

    threads = [in_thread(work) for _ in range(20)]
    for thread in threads:
        thread.join()
    assert sorted(numbers) == list(range(20))


def test_a_run_that_still_runs_is_not_resumed(
    here: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    main(FIT)
    run = here / "runs" / "B1" / "version_0"
    with holder(run) as process:
        before = tree(here)
        for command in ("fit", "test"):
            said = failure_of(capfd, command, *FIT[1:], "--ckpt_path=last")
            assert f"{run} is being written to by another command (process {process.pid}" in said
        assert tree(here) == before


@pytest.mark.ddp
@pytest.mark.parametrize("occupied", [True, False])
def test_processes_that_somebody_else_started_share_a_folder_or_are_refused(
    occupied: bool, here: Path
) -> None:
    """As srun and torchrun start them."""
    run = here / "runs" / "B1" / "version_0"
    words = [*FIT, "--evaluate=false", "--trainer.limit_train_batches=1", "--trainer.devices=2"]
    words += ["--trainer.accelerator=cpu", "--trainer.strategy=ddp"]
    if occupied:
        run.mkdir(parents=True)
        (run / "thesis.tex").touch()
        words.append("--trainer.logger.init_args.version=0")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    shared |= {"TORCHELASTIC_RUN_ID": "x", "GROUP_RANK": "0", "LOCAL_WORLD_SIZE": "2"}
    started = [
        FORKS.Process(
            target=begin,
            args=(words, here, here / rank, {**shared, "RANK": rank, "LOCAL_RANK": rank}),
        )
        for rank in "01"
    ]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    said = [(here / rank).read_text() for rank in "01"]
    assert [process.exitcode for process in started] == [2 * occupied] * 2, said
    assert [path.name for path in run.parent.iterdir()] == ["version_0"]
    assert ("thesis.tex" in said[0]) == occupied
    assert not said[1] or not occupied


def test_processes_that_cannot_find_each_other_are_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Otherwise they would look for the first node until SLURM ends them."""
    monkeypatch.setenv("MASTER_ADDR", "no-such-node.invalid")
    strategy = SimpleNamespace(cluster_environment=SLURMEnvironment())
    trainer = cast("Trainer", SimpleNamespace(strategy=strategy, world_size=2))
    with pytest.raises(InputError, match=r"no-such-node\.invalid, has no address here"):
        _check_address(trainer)
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    _check_address(trainer)
