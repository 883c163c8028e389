"""What must hold on a real SLURM: each case is a function with a limit of its own in seconds."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from tests.slurm.cluster import run
from tests.slurm.lab import (
    ENDLESS,
    HELD,
    LIGHTNING,
    LONG,
    SHORT,
    SLURM,
    CaseError,
    Lab,
    check,
    same,
    until,
)

Case = Callable[[Lab, Path], None]
CASES: dict[str, tuple[Case, float]] = {}
"""By name: the case, and its limit in seconds."""

FIT = ("fit", "--config=L3c", "--data.scale=0.02")


def within(seconds: float) -> Callable[[Case], Case]:
    """Note a case."""

    def note(case: Case) -> Case:
        CASES[case.__name__] = case, seconds
        return case

    return note


def options(text: str) -> str:
    return f"--launcher_options={text}"


@within(300)
def time_limit_requeues_and_resumes(lab: Lab, place: Path) -> None:
    """SLURM's own signal before the limit; the job is paused until it comes."""
    told = lab.table(place, *LONG, *SLURM, options("{timeout_min: 2, slurm_signal_delay_s: 45}"))
    job = told.job()
    number = lab.pause_at_epoch(job, place)
    here = lab.table_here("long", LONG)  # while nothing else is to be done
    until(lambda: _pends(number, signal.SIGUSR2), 100, "SIGUSR2 before the time limit")
    with suppress(ProcessLookupError):
        os.kill(number, signal.SIGCONT)
    told.hears(rf"^job {job} .*ran into its time limit.*\(1 of 3\)", 30)
    told.ends(0, 135)
    same(place / "out", here)


def _pends(number: int, one: signal.Signals) -> bool:
    """Whether a stopped process has a signal before it, or was woken by it and is no more."""
    try:
        status = Path(f"/proc/{number}/status").read_text()
    except FileNotFoundError:
        return True
    waiting = [int(mask, 16) for mask in re.findall(r"^(?:Sig|Shd)Pnd:\s*(\w+)", status, re.M)]
    return any(mask >> (one - 1) & 1 for mask in waiting)


@within(300)
def preempted_job_resumes(lab: Lab, place: Path) -> None:
    asked = options("{slurm_partition: low, slurm_gres: 'seat:1', slurm_nodelist: n1}")
    told = lab.table(place, *LONG, *SLURM, asked)
    job = told.job()
    lab.pause_at_epoch(job, place)
    other = lab.batch(place, "#SBATCH -p high --gres=seat:1 -w n1 --mem=10\nsleep 1\n")
    told.hears(rf"^job {job} .*preempted or requeued.*\(1 of 10\)", 60)
    lab.until_state(other, "COMPLETED")
    told.ends(0, 180)
    same(place / "out", lab.table_here("long", LONG))


@within(300)
def cancelled_job_is_noticed_and_done_again(lab: Lab, place: Path) -> None:
    told = lab.table(place, *LONG, *SLURM)
    job = told.job()
    lab.pause_at_epoch(job, place)
    begun = time.monotonic()
    lab.ask("scancel", job)
    said = told.ends(1, 30)
    check(time.monotonic() - begun < 30, "noticed too late")
    check(f"job {job} (seed 1): it was cancelled" in said, said)
    check(said.count("Traceback") == 0, said)
    lab.table(place, *LONG, *SLURM).ends(0, 180)
    same(place / "out", lab.table_here("long", LONG))


@within(180)
def table_equals_here(lab: Lab, place: Path) -> None:
    """Two jobs, on two nodes: each asks for what a node has once."""
    told = lab.table(place, *SHORT, *SLURM, options("{slurm_gres: 'desk:1'}"))
    said = told.ends(0, 150)
    for seed in (1, 2):
        for state in ("submitted", "RUNNING", "COMPLETED"):
            check(re.search(rf"^job \d+ \(seed {seed}\): {state}", said, re.M), f"{seed} {state}")
    check("sacct" not in said and "submitit" not in said, f"foreign lines: {said}")
    jobs = sorted(set(re.findall(r"^job (\d+)", said, re.M)))
    shown = [lab.ask("scontrol", "--oneliner", "show", "job", job) for job in jobs]
    nodes = {found[1] for one in shown if (found := re.search(r" NodeList=(\S+)", one))}
    check(nodes == {"n1", "n2"}, f"ran on {nodes}")
    names = {found[1] for one in shown if (found := re.search(r"JobName=(\S+)", one))}
    check(names == {"sasv-out-1", "sasv-out-2"}, f"are called {names}")
    same(place / "out", lab.table_here("short", SHORT))


@within(225)
def killed_job_is_explained(lab: Lab, place: Path) -> None:
    told = lab.table(place, *ENDLESS, *SLURM)
    number = lab.pause_at_epoch(told.job(), place)
    os.kill(number, signal.SIGKILL)
    said = told.ends(1, 45)
    check("it was killed by signal 9 (out of memory?)" in said, said)
    check(re.search(r"^  the end of .*_log.err:", said, re.M), f"no end of the log: {said}")
    check("Killed" in said, said)


REQUESTS = {
    "{slurm_partition: gpu}": "no partition gpu (partitions: main, low, high)",
    "{mem_gb: 900}": "mem_gb 900",
    "{timeout_min: 120}": "partition main allows 60 minutes, 120 asked",
    "{tasks_per_node: 2}": "tasks_per_node 2",
    "{nodes: 2}": "nodes 2",
}
ALL_IN_ONE = """
import sys
from lightning_sasv.cli import main
for text in sys.argv[2:]:
    try:
        main(["table", *sys.argv[1].split(), f"--launcher_options={text}"])
    except SystemExit as ended:
        print(ended.code, file=sys.stderr)
"""


@within(90)
def wrong_requests_are_refused(lab: Lab, place: Path) -> None:
    """One line each, and nothing in the folder."""
    words = " ".join(("--out=out", *SHORT, *SLURM))
    program = [*LIGHTNING[:2], "-c", ALL_IN_ONE, words, *REQUESTS]
    lines = lab.start(place, program).ends(0, 90).splitlines()
    check(len(lines) == 2 * len(REQUESTS), "\n".join(lines))
    for line, code, expected in zip(lines[::2], lines[1::2], REQUESTS.values(), strict=True):
        check(expected in line and code == "2", f"{line} {code}")
    check(not (place / "out").exists(), f"left {place / 'out'}")


@within(135)
def refused_submission_cancels_those_before(lab: Lab, place: Path) -> None:
    """First all are refused, then the second."""
    programs = place / "bin"
    programs.mkdir()
    stub = programs / "sbatch"
    refuse = "echo 'sbatch: error: QOSMaxSubmitJobPerUserLimit' >&2\nexit 1\n"
    path = f"{programs}:{lab.environment['PATH']}"
    real = run("which", "sbatch").stdout.strip()
    for begun, text in {
        False: refuse,
        True: f"mkdir once && exec {real} --hold $@\n{refuse}",
    }.items():
        stub.write_text(f"#!/bin/sh\n{text}")
        stub.chmod(0o755)
        said = lab.table(place, *SHORT, *SLURM, PATH=path).ends(1, 40)
        check("cannot submit: " in said and "QOSMaxSubmitJobPerUserLimit" in said, said)
        check("Traceback" not in said, said)
        if not begun:
            check(not (place / "out").exists(), "a refused submission leaves files")
            continue
        found = re.search(r"the submitted jobs were cancelled \((\d+)\)", said)
        check(found is not None, said)
        lab.until_state(found[1] if found else "", "CANCELLED", "", seconds=30)


@within(180)
def sigterm_of_the_command_cancels(lab: Lab, place: Path) -> None:
    told = lab.table(place, *ENDLESS, *SLURM)
    job = told.job()
    told.hears(rf"^job {job} .*RUNNING", 60)
    told.tell(signal.SIGTERM)
    said = told.ends(143, 22)
    check("the submitted jobs were cancelled" in said, said)
    lab.until_state(job, "CANCELLED", "", seconds=45)


@within(225)
def one_command_for_a_folder(lab: Lab, place: Path) -> None:
    """The second is told who has it; what a killed one leaves is taken over; SIGINT cancels."""
    first = lab.table(place, *SHORT, *SLURM, *HELD)
    held = first.hears(r"^job \d+ .*PENDING, JobHeldUser; it is held: `scontrol release ID`")
    second = lab.table(place, *SHORT, *SLURM, *HELD).ends(2, 60)
    check(f"process {first.process.pid} on " in second, second)
    first.tell(signal.SIGKILL)
    first.process.wait()
    third = lab.table(place, *SHORT, *SLURM, *HELD)
    job = third.job()
    check("took over" in third.said, third.said)
    third.tell(signal.SIGINT)
    said = third.ends(130, 15)
    check("the submitted jobs were cancelled" in said, said)
    lab.until_state(job, "CANCELLED", "", seconds=30)
    lab.ask("scancel", held.split()[1])


@within(90)
def drained_node_is_named(lab: Lab, place: Path) -> None:
    lab.ask("scontrol", "update", "nodename=n2", "state=drain", "reason=test")
    try:
        told = lab.table(place, *ENDLESS, *SLURM, options("{slurm_nodelist: n2}"))
        told.hears(r"^job \d+ .*PENDING, .*; no node for it is up: `sinfo -R` says why", 50)
    finally:
        lab.ask("scontrol", "update", "nodename=n2", "state=resume")
    told.tell(signal.SIGTERM)
    told.ends(143, 22)


@within(270)
def forgotten_job_is_not_waited_for(lab: Lab, place: Path) -> None:
    """The command sleeps while SLURM forgets its job."""
    told = lab.table(place, *ENDLESS, *SLURM, *HELD)
    job = told.job()
    told.tell(signal.SIGSTOP)
    lab.ask("scancel", job)
    until(lambda: not lab.state(job), 140, f"SLURM forgets job {job}")
    told.tell(signal.SIGCONT)
    said = told.ends(1, 30)
    check("is not known to SLURM any more" in said, said)


@within(225)
def ddp_by_srun_equals_one_process(lab: Lab, place: Path) -> None:
    words = (*FIT, "--trainer.max_epochs=1")
    here = lab.reference("fit", words)
    ddp = (*words, "--config=ddp", "--trainer.accelerator=cpu")
    for nodes, tasks in ((2, 1), (1, 2)):
        own = place / f"{nodes}x{tasks}"
        own.mkdir()
        srun = ("srun", f"--nodes={nodes}", f"--ntasks-per-node={tasks}", "--mem=100")
        trainer = (f"--trainer.num_nodes={nodes}", f"--trainer.devices={tasks}")
        told = lab.start(own, [*srun, *LIGHTNING, *ddp, *trainer], MASTER_ADDR="127.0.0.1")
        said = told.ends(0, 135)
        check("sync_dist" not in said, said)
        _close(_metrics(own), _metrics(here))


def _metrics(place: Path) -> object:
    [file] = place.glob("runs/*/version_0/metrics.json")
    return json.loads(file.read_text())["systems"]


def _close(there: object, here: object, name: str = "metrics") -> None:
    """Fail unless all numbers agree to a millionth; what is said of the making may differ."""
    if isinstance(here, dict) and isinstance(there, dict):
        check(there.keys() == here.keys(), f"{name} has other entries")
        for key in here.keys() - {"of", "date", "checkpoint"}:
            _close(there[key], here[key], f"{name}.{key}")
    elif isinstance(here, list) and isinstance(there, list):
        for one, other in zip(there, here, strict=True):
            _close(one, other, name)
    elif isinstance(here, float) and isinstance(there, int | float):
        check(abs(there - here) <= 1e-6 * max(1, abs(here)), f"{name}: {there}, not {here}")
    else:
        check(there == here, f"{name}: {there}, not {here}")


@within(225)
def misuse_of_srun_is_one_line(lab: Lab, place: Path) -> None:
    ddp = (*FIT, "--config=ddp", "--trainer.accelerator=cpu", "--trainer.devices=1")
    known = {"MASTER_ADDR": "127.0.0.1"}
    for srun, words, variables, expected in (
        (("-N2", "-n2"), FIT, known, "ntasks-per-node"),
        (("-N2", "--ntasks-per-node=1"), ddp, known, "num_nodes"),
        (("-N2", "--ntasks-per-node=1"), (*ddp, "--trainer.num_nodes=2"), {}, "MASTER_ADDR"),
    ):
        command = lab.start(place, ["srun", *srun, "--mem=100", *LIGHTNING, *words], **variables)
        said = command.ends(2, 90)
        check(expected in said and "Traceback" not in said, said)
        lines = {line for line in said.splitlines() if not line.startswith("srun: ")}
        check(len(lines) == 1, f"more than one line: {said}")


@within(300)
def fit_saves_and_goes_on(lab: Lab, place: Path) -> None:
    """SIGTERM ends it with 143; SIGUSR1 saves, requeues, and the job goes on by itself."""
    words = (*FIT, "--trainer.max_epochs=250")
    fit = " ".join(f"'{word}'" for word in (*LIGHTNING, *words))
    head = "#SBATCH --mem=100 --requeue --output=log --open-mode=append\n"
    first = lab.batch(place, f"{head}srun {fit}\n")
    number = lab.pause_at_epoch(first, place)
    lab.ask("scancel", "--signal=TERM", first)
    os.kill(number, signal.SIGCONT)
    lab.until_state(first, "FAILED", seconds=45)
    check("ExitCode=143:0" in lab.ask("scontrol", "show", "job", first), "not exit code 143")
    kept = (place / "log").read_text()
    check("--ckpt_path last" in kept, kept)
    second = lab.batch(place, f"{head}srun {fit} --ckpt_path=last\n")
    until(lambda: lab.state(second) == "RUNNING", 30, f"job {second} RUNNING")
    note = place / "runs/L3c/version_0/slurm.json"
    until(lambda: json.loads(note.read_text())["job"] == second, 60, f"the note of job {second}")
    lab.ask("scancel", "--signal=USR1", second)
    until(lambda: "Restarts=1" in lab.ask("scontrol", "show", "job", second), 30, "a restart")
    lab.until_state(second, "COMPLETED", seconds=135)
    check("is back in the queue and goes on by itself" in (place / "log").read_text(), "unsaid")
    check(not [*place.glob("hpc_ckpt*")], "a checkpoint of Lightning's in the working directory")
    runs = [path.name for path in (place / "runs/L3c").glob("version_*")]
    check(runs == ["version_0"], f"runs: {runs}")
    here = lab.reference("fit-long", words)
    _close(_metrics(place), _metrics(here))


__all__ = ["CASES", "CaseError"]
