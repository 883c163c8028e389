"""Signals end a command in order: state kept, nobody left behind, a word how to go on, its code.

Moments are drawn from a seed that is printed; `python -m tests.faults.kill_resume` draws more.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from torch import Tensor

from lightning_sasv import signals
from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from lightning_sasv.frontends.audio import Waveforms
from lightning_sasv.scores import write_scores
from tests.faults.forks import is_there, processes_in, running, wait_for
from tests.frontends.toys import Moments, write_tone
from tests.scores.samples import toy_scores

pytestmark = pytest.mark.slow

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129, signal.SIGUSR1: 75}
SECONDS = 10.0
PATIENCE = 30.0  # on a machine that is busy with other tests
SEED = int(os.environ.get("SIGNAL_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
CONFIG = str(base_config().parent / "B1.yaml")
FIT = ["fit", "--config", CONFIG, "--data.scale=0.02", "--trainer.accelerator=cpu"]
FOREVER = [*FIT, "--trainer.max_epochs=100000"]
LAST = "runs/B1/version_0/checkpoints/last.ckpt"

WORK = """
import hashlib, importlib.abc, importlib.util, os, signal, sys, time
from lightning_sasv import cli, signals
def swallows():
    try:
        time.sleep(60)
    except BaseException:
        pass
def breaks():
    try:
        time.sleep(60)
    except BaseException:
        raise ValueError("something else")
def does_not_end():
    try:
        time.sleep(60)
    finally:
        time.sleep(60)
def asks_somebody():
    signals.wait_longer(signal.SIGTERM, 60)
    try:
        time.sleep(60)
    except BaseException:
        time.sleep(1)
        raise KeyboardInterrupt("what was written is with somebody else")
def does_not_come_back():
    hashlib.pbkdf2_hmac("sha256", b"a", b"b", 2_000_000_000)
def imports(seconds=60):
    sys.modules.pop("colorsys", None)
    class Slow(importlib.abc.Loader):
        def exec_module(self, module):
            try:
                time.sleep(seconds)
            except BaseException:  # an extension in C++ would call std::terminate
                os.abort()
    class Finder(importlib.abc.MetaPathFinder):
        def find_spec(self, name, *_):
            return importlib.util.spec_from_loader(name, Slow()) if name == "colorsys" else None
    sys.meta_path.insert(0, Finder())
    import colorsys
def imports_a_moment():
    try:
        imports(1.5)
        time.sleep(60)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("it was left in order")
def finalises():
    class Finalised:
        def __del__(self):
            time.sleep(60)
    Finalised()
    time.sleep(60)
def sleeps():
    time.sleep(60)
def sleeps_shortly():
    time.sleep(1)
def belongs_to_another():
    deadline = time.monotonic() + 30
    while not heard and time.monotonic() < deadline:
        time.sleep(0.01)
    assert heard == [15], heard
def is_hit_in_the_end():
    class Last:
        def __del__(self, kill=os.kill, me=os.getpid(), number=int(sys.argv[2])):
            kill(me, number)
    sys.modules["last"] = type(sys)("last")
    sys.modules["last"].one = Last()
def is_hit_at_once():
    take = signals._Listener.take
    def taken(self):
        take(self)
        os.kill(os.getpid(), int(sys.argv[2]))
        time.sleep(60)
    signals._Listener.take = taken
heard = []
what = sys.argv[1]
if what == "belongs_to_another":
    signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
if what in ("does_not_come_back", "asks_somebody"):
    signals.PATIENCE = 0.5
if what in ("does_not_end", "is_hit_at_once"):
    signals.PATIENCE = 60
if what == "is_hit_at_once":
    is_hit_at_once()
def work(words):
    print("ready", flush=True)
    globals()[what]()
cli._run = work
cli.main()
"""


HARD_OF_HEARING = ("swallows", "breaks", "does_not_come_back", "imports", "finalises")


@contextmanager
def working(what: str, ignored: tuple[int, ...] = ()) -> Iterator[subprocess.Popen[str]]:
    """A command that does nothing but what a signal should break off."""

    def ignore() -> None:
        for number in CODES:
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    command, pipe = [sys.executable, "-c", WORK, what], subprocess.PIPE
    process = subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=ignore)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.3)  # and now it works
        yield process
    finally:
        process.kill()
        process.communicate()


def ended(process: subprocess.Popen[str], number: int, limit: float = PATIENCE) -> str:
    """Wait for the end of a process that got a signal; its last line."""
    start = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert time.monotonic() - start < limit
    assert process.returncode == CODES[signal.Signals(number)], errors
    assert "Traceback" not in errors
    return errors.splitlines()[-1]


def told(what: str, number: int) -> str:
    """The last line of a command that got a signal at its work."""
    with working(what) as process:
        process.send_signal(number)
        return ended(process, number)


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_each_signal_has_its_code_and_its_word(number: signal.Signals) -> None:
    how = "interrupted" if number == signal.SIGINT else f"stopped by {number.name}"
    assert told("sleeps", number) == f"lightning: {how}; {signals.ADVICE}"


@pytest.mark.parametrize(
    ("what", "number", "said"),
    [
        *(
            (what, signal.SIGTERM, "stopped by SIGTERM; what was written")
            for what in HARD_OF_HEARING
        ),
        ("asks_somebody", signal.SIGTERM, "with somebody else"),  # it asked for time, and has it
        ("imports_a_moment", signal.SIGUSR1, "it was left in order"),  # heard when that has ended
    ],
)
def test_a_signal_is_not_lost(what: str, number: int, said: str) -> None:
    assert said in told(what, number)


def test_a_second_signal_ends_at_once() -> None:
    with working("does_not_end") as process:
        process.send_signal(signal.SIGTERM)
        time.sleep(signals.SAME + 0.5)
        assert process.poll() is None
        for _ in range(20):  # where the first was heard late, one may count as the same
            process.send_signal(signal.SIGINT)
            time.sleep(signals.SAME + 0.5)
            if process.poll() is not None:
                break
        assert "stopped by SIGTERM" in ended(process, signal.SIGTERM)


@pytest.mark.parametrize("number", CODES, ids=lambda number: number.name)
def test_the_first_and_the_last_moment(number: signal.Signals) -> None:
    """As soon as it listens; and while the interpreter takes itself apart, its work done."""

    def run(what: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", WORK, what, str(int(number))]
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)

    first, last = run("is_hit_at_once"), run("is_hit_in_the_end")
    assert first.returncode == CODES[number]
    assert signals.ADVICE in first.stderr
    assert (last.returncode, last.stdout, last.stderr) == (0, "ready\n", "")


def test_one_signal_sent_twice_is_one() -> None:
    """``timeout`` sends it to the process and to its group."""
    with working("does_not_end") as process:
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        time.sleep(signals.SAME)
        assert process.poll() is None


@pytest.mark.parametrize(
    ("what", "number", "ignored"),
    [
        ("sleeps_shortly", signal.SIGHUP, True),
        ("sleeps_shortly", signal.SIGINT, True),
        ("belongs_to_another", signal.SIGTERM, False),  # inside a job of submitit
    ],
)
def test_a_signal_that_is_ignored_or_anothers_stays_so(
    what: str, number: int, ignored: bool
) -> None:
    with working(what, ignored=(number,) if ignored else ()) as process:
        process.send_signal(number)
        assert process.wait(60) == 0


def end_of(process: subprocess.Popen[str], number: int, group: bool) -> str:
    """Send a signal to a command, or its group; nothing of it is left, and it says how to go on."""
    start = time.monotonic()
    (os.killpg if group else os.kill)(process.pid, number)
    said = ended(process, number)
    while is_there(process.pid) and time.monotonic() - start < PATIENCE:
        time.sleep(0.05)
    taken = time.monotonic() - start
    sys.stdout.write(f"seed {SEED}: ended {taken:.2f} s after {signal.Signals(number).name}\n")
    assert taken < PATIENCE
    return said


CASES = {
    "fit": (FOREVER, LAST, "go on with --ckpt_path last"),
    "two ranks": (
        [*FOREVER, "--trainer.devices=2", "--trainer.strategy=ddp"],
        LAST,
        "go on with --ckpt_path last",
    ),
    "table": (
        ["table", "--out=out", "--data.scale=0.02", "--epochs=100000", "--processes=2"],
        "out/training/*/last.ckpt",
        "the same command goes on",
    ),
    "sweep": (
        ["sweep", "sweep.yaml", "--offline"],
        LAST,
        "finished runs are kept: the same command goes on",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_whole_family_ends(case: str, tmp_path: Path) -> None:
    """By a signal and a way of sending it that are drawn, while everybody works."""
    draw = random.Random(f"{SEED} {case}")
    number, group = draw.choice([*CODES]), draw.random() < 0.5
    args, begun, advice = CASES[case]
    words = ["lightning", *FOREVER, "${args}"]
    content = {"method": "grid", "command": words, "parameters": {"seed_everything": {"value": 1}}}
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(content))
    with running(tmp_path, *args) as process:
        wait_for(process, tmp_path, begun)
        said = end_of(process, number, group)
        assert not processes_in(tmp_path), f"seed {SEED}"
    assert advice in said, f"seed {SEED}"
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("case", ["two ranks", "table"])
def test_at_the_start(case: str, tmp_path: Path) -> None:
    """While modules are imported and helpers are started; there may be nothing to go on from."""
    draw = random.Random(f"{SEED} {case}")
    args = CASES[case][0]
    with running(tmp_path, *args) as process:
        wait_until_it_listens(process)
        time.sleep(draw.uniform(0, 8))
        assert process.poll() is None
        said = end_of(process, draw.choice([*CODES]), group=True)
        assert not processes_in(tmp_path), f"seed {SEED}"
    assert "again" in said or "go on" in said or "goes on" in said, f"seed {SEED}"


def wait_until_it_listens(process: subprocess.Popen[str]) -> None:
    """Before a Python program has begun, nobody can hear anything."""
    caught = 0
    while not caught >> (signal.SIGUSR1 - 1) & 1:
        assert process.poll() is None
        time.sleep(0.01)
        status = Path(f"/proc/{process.pid}/status").read_text()
        caught = int(status.partition("SigCgt:")[2].split()[0], 16)


def test_fuse(tmp_path: Path) -> None:
    """No matter when: it is stopped, or it was done."""
    draw = random.Random(f"{SEED} fuse")
    write_scores(tmp_path / "dev.csv", toy_scores(3000))
    number = draw.choice([*CODES])
    with running(tmp_path, "fuse", "--dev=dev.csv", "--eval=dev.csv", "--out=out") as process:
        wait_until_it_listens(process)
        time.sleep(draw.uniform(0, 3))
        if process.poll() is None:
            process.send_signal(number)
        _, errors = process.communicate(timeout=60)
    assert process.returncode in (0, CODES[number]), (SEED, errors)
    assert "Traceback" not in errors
    assert not list(tmp_path.rglob("*.tmp"))


class Stopping(Moments):
    """Its third batch brings a signal, and takes long."""

    number: int | None = None

    def embed(self, waveforms: Waveforms) -> Tensor:
        embedded = super().embed(waveforms)
        if len(self.calls) == 3 and Stopping.number is not None:
            os.kill(os.getpid(), Stopping.number)
            time.sleep(1)
        return embedded


def test_extract_keeps_what_it_has_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(20):
        write_tone(tmp_path / "audio" / f"u{number:02d}.wav", 100 + 7 * number)
    network = f"{{class_path: {__name__}.Stopping}}"
    words = [f"--audio={tmp_path / 'audio'}", f"--cm={network}", "--only=cm", "--workers=1"]
    words = ["extract", *words, "--batch_size=4"]
    main([*words, f"--out={tmp_path / 'whole'}"])
    monkeypatch.setattr(Stopping, "number", signal.SIGHUP)
    capsys.readouterr()
    with pytest.raises(SystemExit) as code:
        main([*words, f"--out={tmp_path / 'out'}"])
    assert code.value.code == CODES[signal.SIGHUP]
    assert "what was embedded is kept: the same command goes on" in capsys.readouterr().err
    monkeypatch.setattr(Stopping, "number", None)
    main([*words, f"--out={tmp_path / 'out'}"])
    found = re.search(r"20 embeddings, (\d+) of them new", capsys.readouterr().out)
    assert found is not None
    assert 0 <= int(found[1]) <= 12, "what was embedded before the signal is kept"
    whole, gone_on = (tmp_path / name / "cm_embd.safetensors" for name in ("whole", "out"))
    assert gone_on.read_bytes() == whole.read_bytes()


@contextmanager
def signal_once(path: Path, number: int, process: int | None = None) -> Iterator[None]:
    """Send this or another process a signal when a file has been written."""
    done, begun = threading.Event(), time.time_ns()

    def send() -> None:
        over = False
        while not over:
            over = done.wait(0.02)  # the file may have been written since it was looked for
            if over and signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                return
            if path.exists() and path.stat().st_mtime_ns > begun:
                os.kill(process or os.getpid(), number)
                return

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def stopped_fit(words: list[str], number: int, capsys: pytest.CaptureFixture[str]) -> str:
    """Stop a ``fit`` in this process after its first epoch; what it says."""
    with signal_once(Path(LAST), number), pytest.raises(SystemExit) as code:
        main(words)
    assert code.value.code == CODES[signal.Signals(number)]
    return capsys.readouterr().err.splitlines()[-1]


SLURM = {
    "SLURM_JOB_ID": "7",
    "SLURM_NTASKS": "1",
    "SLURM_PROCID": "0",
    "SLURM_LOCALID": "0",
    "SLURM_NODEID": "0",
    "SLURM_NNODES": "1",
    "SLURM_JOB_NAME": "sasv",
}


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of SLURM; what its ``scontrol`` was asked is in the file."""
    asked = tmp_path / "asked"
    (tmp_path / "bin").mkdir()
    script = f'#!/bin/sh\necho "$@" >> {asked}\necho "JobId=7 Requeue=${{ALLOWED:-1}}"\n'
    (tmp_path / "bin" / "scontrol").write_text(script)
    (tmp_path / "bin" / "scontrol").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    for name, value in SLURM.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    asked.touch()
    return asked


def test_a_slurm_job_is_requeued_once_and_goes_on(
    slurm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said = stopped_fit(FOREVER, signal.SIGUSR1, capsys)
    assert said.endswith("job 7 is back in the queue and goes on by itself")
    assert slurm.read_text().splitlines() == ["show job 7", "requeue 7"]
    assert not list(Path().glob("hpc_ckpt*"))
    monkeypatch.setenv("SLURM_RESTART_COUNT", "1")
    assert "--ckpt_path last" in stopped_fit(FOREVER, signal.SIGUSR1, capsys)
    assert slurm.read_text().count("requeue") == 1
    assert [path.name for path in Path("runs/B1").iterdir()] == ["version_0"]


def test_a_job_that_may_not_be_requeued_is_not(
    slurm: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ALLOWED", "0")
    assert "--ckpt_path last" in stopped_fit(FOREVER, signal.SIGUSR1, capsys)
    assert slurm.read_text().splitlines() == ["show job 7"]


def test_a_job_that_slurm_ends_amid_its_answer_says_that_it_is_requeued(
    slurm: Path, tmp_path: Path
) -> None:
    """A requeue ends the process that asked for it; one that is refused says how to go on."""
    for does, expected in {
        "kill -TERM $PPID; sleep 30": "job 7 is back in the queue and goes on by itself",
        "exit 1": "go on with --ckpt_path last",
    }.items():
        answer = f'case "$1" in requeue) sleep 1; {does};; esac; echo Requeue=1'
        (tmp_path / "bin" / "scontrol").write_text(f"#!/bin/sh\n{answer}\n")
        command = [sys.executable, "-m", "lightning_sasv.cli", *FOREVER, "--quiet"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        with signal_once(Path(LAST), signal.SIGUSR1, process.pid):
            said = process.communicate(timeout=120)[1]
        assert process.returncode == 75
        assert said.splitlines()[-1].endswith(expected)
        shutil.rmtree("runs")


def test_a_training_leaves_the_signals_of_others_alone(
    slurm: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inside a job of submitit, which would requeue it; Lightning would end the training."""
    heard: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: heard.append(number))
    try:
        with signal_once(Path(LAST), signal.SIGTERM):
            main([*FIT, "--trainer.max_epochs=3"])
    finally:
        signal.signal(signal.SIGTERM, before)
    assert heard == [signal.SIGTERM]
    assert Path(LAST).parents[1].joinpath("metrics.json").exists()


def test_no_training_goes_on_from_a_leftover(slurm: Path) -> None:
    """Lightning would, in every job that is started in this folder."""
    Path("hpc_ckpt_1.ckpt").write_text("not even a checkpoint")
    main([*FIT, "--trainer.max_epochs=1", "--evaluate=false"])
    assert Path(LAST).exists()
