"""What is asked of SLURM and understood of its answers; its programs are scripts of a few lines."""

from __future__ import annotations

import os
import pickle
import re
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment import jobs, slurm
from lightning_sasv.experiment import launch as launch_module
from lightning_sasv.experiment import run as run_module
from lightning_sasv.experiment.jobs import MOST_RESTARTS, Submitted, Waited, times_file
from lightning_sasv.experiment.recipe import Recipe
from lightning_sasv.experiment.run import Job
from lightning_sasv.experiment.slurm import FORGOTTEN, State
from lightning_sasv.program import Program, cores
from tests.conftest import REPOSITORY
from tests.helpers import failure_of
from tests.slurm.__main__ import ALL
from tests.slurm.__main__ import main as slurm_test
from tests.slurm.cases import CASES

pytestmark = pytest.mark.slow

Cluster = Callable[..., None]
PARTITIONS = """\
PartitionName=main Default=YES MaxTime=01:00:00 State=UP
PartitionName=long Default=NO MaxTime=7-00:00:00 State=UP
PartitionName=free Default=NO MaxTime=UNLIMITED State=UP"""
ASKED = "asked"


def sinfo(memory: int) -> str:
    """It says what nodes have; as the real one it takes but one of two options."""
    return f'case "$*" in *--all*--partition*|*--partition*--all*) exit 1;; esac; echo {memory}'


@pytest.fixture
def cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Replace programs of SLURM by scripts; each notes in a file what it was asked."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SBATCH_PARTITION", raising=False)

    def put(**programs: str) -> None:
        for name, text in programs.items():
            file = tmp_path / "bin" / name
            file.write_text(f'#!/bin/sh\necho {name} "$@" >> {tmp_path / ASKED}\n{text}\n')
            file.chmod(0o755)

    put(
        srun="exit 1",
        sinfo=sinfo(64000),
        scontrol=f"cat <<'END'\n{PARTITIONS}\nEND",
        squeue="echo 7 FAILED 0 None",
        scancel="",
        sacct="echo 'Slurm accounting storage is disabled' >&2; exit 1",
        sbatch="echo Submitted batch job 7",
    )
    return put


@pytest.fixture
def submit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Job]:
    """Submit a job of two seeds, one each, without a look at corpus and folder."""
    pytest.importorskip("submitit")
    monkeypatch.setattr(run_module, "begin", lambda *_: (None, "key", [1, 2]))
    monkeypatch.setattr(jobs, "LOOK", 0.001)
    monkeypatch.setattr(jobs, "ASK_FIRST", 0.0)

    def run(**options: Any) -> Job:
        job = Job(Recipe(threads=3), (1, 2), ("B1",), tmp_path / "table 1", stack=1)
        launch_module.launch(job, "slurm", options=options)
        return job

    return run


def asked(folder: Path, program: str) -> list[str]:
    lines = (folder / ASKED).read_text().splitlines()
    return [line.removeprefix(f"{program} ") for line in lines if line.startswith(f"{program} ")]


def script(**options: Any) -> str:
    """The batch script that these options give."""
    pytest.importorskip("submitit")
    made = launch_module._executor("slurm", Path("jobs"), options, 2)
    made.update_parameters(name=slurm.job_name(Path("table1"), [1986]))
    return str(made._executor._make_submission_file_text("run", "x"))


def test_what_a_job_asks_for(cluster: Cluster) -> None:
    text = script()
    assert "--job-name=sasv-table1-1986\n" in text
    assert "--cpus-per-task=2\n" in text
    assert "--time=60\n" in text  # as the default partition has it
    assert "--signal=USR2@90\n" in text
    assert "--requeue\n" in text
    assert "wckey" not in text


def test_what_the_user_asks_for_stays(cluster: Cluster) -> None:
    text = script(
        slurm_partition="long",
        timeout_min=5,
        cpus_per_task=8,
        slurm_wckey="mine",
        slurm_setup=["module load x", "module load y"],
        slurm_additional_parameters={"no-requeue": True, "licenses": "a:1"},
    )
    for line in ("--time=5", "--cpus-per-task=8", "--wckey=mine", "--licenses=a:1"):
        assert f"#SBATCH {line}\n" in text
    assert "\nmodule load x\nmodule load y\n" in text
    assert "--signal=USR2@60\n" in text
    assert "--requeue\n" not in text


def test_memory_is_asked_for_where_nodes_have_some(cluster: Cluster) -> None:
    assert slurm.memory({})["mem_gb"] >= 2
    for said in ({"mem_gb": 1}, {"slurm_mem_per_cpu": "1G"}):
        assert slurm.memory(said) == {}
    cluster(sinfo=sinfo(1))  # SLURM was not told
    assert slurm.memory({}) == {}


def test_no_more_memory_is_asked_for_than_a_node_of_the_partition_has(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster(sinfo=sinfo(1500))
    assert slurm.memory({}) == {"mem_gb": 1500 / 1024}
    assert asked(tmp_path, "sinfo")[-1].endswith("--partition=main")
    assert slurm.memory({"slurm_partition": "long,free"})
    assert asked(tmp_path, "sinfo")[-1].endswith("--partition=long,free")
    text = script(mem_gb=1500 / 1024)
    assert "--mem=1500MB\n" in text


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"slurm_partition": "mian"}, "no partition mian .*main, long, free.*did you mean main"),
        ({"timeout_min": 61}, r"partition main allows 60 minutes, 61 asked.*\{timeout_min: 60\}"),
        ({"slurm_partition": "long", "slurm_time": 20_000}, "allows 10080 minutes"),
        ({"slurm_time": "1-0"}, "partition main allows 60 minutes, 1440 asked"),
        ({"mem_gb": 63}, "mem_gb 63: no node of partition main has more than 62.5 GB"),
        ({"tasks_per_node": 2}, "tasks_per_node 2: a job is one process"),
        ({"slurm_ntasks_per_node": 2}, "ntasks_per_node 2"),
        ({"nodes": 2}, "nodes 2"),
        ({"slurm_moon": 1}, "moon"),
    ],
)
def test_what_no_node_can_give_is_refused(
    cluster: Cluster, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        script(**options)


def test_limits_that_are_none(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "--time=120\n" in script(slurm_partition="free")
    assert "--time=100\n" in script(timeout_min=100, slurm_qos="goes-beyond")
    monkeypatch.setenv("SBATCH_PARTITION", "long")  # sbatch takes that before the script's
    assert "--time=120\n" in script()
    cluster(scontrol="exit 1", sinfo="exit 1")  # SLURM does not tell
    assert "--time=120\n" in script(slurm_partition="any")


@pytest.mark.parametrize(("minutes", "seconds"), [(1, 12), (5, 60), (120, 90), (None, 90)])
def test_the_margin_is_in_proportion(minutes: int | None, seconds: int) -> None:
    assert slurm.margin(minutes) == seconds


def test_the_margin_of_a_time_in_words(cluster: Cluster) -> None:
    text = script(slurm_time="0:05:00")
    assert "--time=0:05:00\n" in text
    assert "--signal=USR2@60\n" in text


def test_states_are_read(cluster: Cluster) -> None:
    rows = "7  PENDING  2  Nodes required for job are DOWN, DRAINED or reserved\n8 RUNNING 0 None"
    cluster(squeue=f"cat <<'END'\n{rows}\nEND")
    found = slurm.states(["7", "8", "9"])
    assert found is not None
    assert found["7"] == State("PENDING", 2, "Nodes required for job are DOWN, DRAINED or reserved")
    assert found["8"] == State("RUNNING")
    assert found["9"] == State(FORGOTTEN)


def test_states_of_the_accounts(cluster: Cluster, tmp_path: Path) -> None:
    """Asked for where there are accounts, and for what squeue has forgotten."""
    cluster(squeue="echo slurm_load_jobs error: Invalid job id specified >&2; exit 1")
    assert slurm.states(["7"]) == {"7": State(FORGOTTEN)}
    assert not asked(tmp_path, "sacct")
    cluster(
        scontrol="echo 'AccountingStorageType   = accounting_storage/slurmdbd'",
        sacct="echo 'CANCELLED by 1000'",
    )
    assert slurm.states(["7"]) == {"7": State("CANCELLED")}


def test_no_answer_is_no_state(cluster: Cluster) -> None:
    cluster(squeue="echo Unable to contact slurm controller >&2; exit 1")
    assert slurm.states(["7"]) is None


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("PartitionTimeLimit", "timeout_min"),
        ("ReqNodeNotAvail, UnavailableNodes:n1", "sinfo -R"),
        ("Nodes required for job are DOWN, DRAINED or reserved", "sinfo -R"),
        ("JobHeldUser", "scontrol release"),
        ("launch failed requeued held", "scontrol release"),
        ("QOSMaxWallDurationPerJobLimit", "timeout_min"),
        ("AssocMaxCpuPerJobLimit", "so much"),
        ("InvalidAccount", "account"),
        ("Priority", ""),
        ("Resources", ""),
        ("QOSMaxJobsPerUserLimit", ""),
        ("BeginTime", ""),
        ("", ""),
    ],
)
def test_reasons_that_do_not_pass_have_a_hint(reason: str, words: str) -> None:
    found = slurm.hint(reason)
    assert words in found
    assert bool(words) == bool(found)


@pytest.mark.parametrize(
    ("state", "shown", "words"),
    [
        (State("CANCELLED"), "", "was cancelled"),
        (State("FAILED"), "ExitCode=137:0", "was killed by signal 9 (out of memory?)"),
        (State("FAILED"), "ExitCode=0:11", "was killed by signal 11"),
        (State("FAILED", 0, "NonZeroExitCode"), "ExitCode=1:0", "FAILED (NonZeroExitCode, exit co"),
        (State("BOOT_FAIL"), "", "ended as BOOT_FAIL"),
        (State("OUT_OF_MEMORY"), "", "mem_gb"),
        (State("TIMEOUT"), "", "timeout_min"),
        (State(FORGOTTEN), "", "not known to SLURM any more"),
    ],
)
def test_ends_in_words(cluster: Cluster, state: State, shown: str, words: str) -> None:
    cluster(scontrol=f"echo JobId=7 {shown}")
    assert words in slurm.why_ended("7", state)


ANSWERS = """
n=$(cat {0}/turn 2>/dev/null || echo 0); echo $((n + 1)) > {0}/turn
case $n in
0) echo 7 PENDING 0 PartitionTimeLimit ;;
1) echo 7 RUNNING 0 None ;;
2) echo 7 PENDING 1 BeginTime ;;
3) echo 7 PENDING 2 BeginTime ;;
4) echo 7 PENDING 3 BeginTime ;;
5) echo 7 REQUEUE_HOLD 3 JobHeldUser ;;
*) echo 7 FAILED 3 NonZeroExitCode ;;
esac
"""


def test_what_is_said_while_waiting(
    cluster: Cluster,
    submit: Callable[..., Job],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A job waits, runs, is out of time, is preempted, is out of time, held, and killed."""
    monkeypatch.setattr(jobs, "GRACE", {"FAILED": 0.0})
    monkeypatch.setattr(launch_module, "split_job", lambda job: [job])
    out = tmp_path / "table 1"
    seen: list[State] = []

    def move(one: Waited, state: State) -> None:
        folder = Path(one.job.paths.folder)
        if state.restarts in (1, 3):
            times_file(folder, "7").write_text("." if state.restarts == 1 else "..")
        if state.name == "FAILED":
            Path(one.job.paths.stderr).write_text("begins\n\nslurmstepd: task 0: Killed\x1b[0m\n")
        seen.append(state)
        known(one, state)

    known = Waited.move
    monkeypatch.setattr(Waited, "move", move)
    cluster(
        squeue=ANSWERS.format(tmp_path),
        scontrol="echo PartitionName=main Default=YES MaxTime=UNLIMITED ExitCode=0:9",
    )
    with pytest.raises(RunError, match=r"1 of 1 .*job 7 .*killed by signal 9 .*the same command"):
        submit()
    said = capsys.readouterr().err.splitlines()
    job = "job 7 (seeds 1, 2)"
    assert said[0] == f"{job}: submitted"
    assert said[1].startswith(f"{job}: PENDING, PartitionTimeLimit; its partition allows less time")
    assert said[2] == f"{job}: RUNNING"
    assert said[3] == f"{job}: ran into its time limit, goes on from its last epoch (1 of 3)"
    assert f"{job}: was preempted or requeued, goes on from its last epoch (2 of 10)" in said
    assert f"{job}: ran into its time limit, goes on from its last epoch (2 of 3)" in said
    assert f"{job}: REQUEUE_HOLD, JobHeldUser; it is held: `scontrol release ID`" in said
    assert f"{job}: FAILED, it was killed by signal 9 (out of memory?)" in said
    assert said[-3].strip().startswith(f"the end of {out}")
    assert said[-1].strip() == "slurmstepd: task 0: Killed" + "�[0m" or "Killed" in said[-1]
    assert not asked(tmp_path, "sacct")


def test_a_job_that_says_what_went_wrong_is_quoted(
    cluster: Cluster, submit: Callable[..., Job], tmp_path: Path
) -> None:
    """Of its traceback the last line."""
    trace = "Traceback:\n  File x\nlightning_sasv.errors.InputError: no such corpus\n"
    cluster(
        sbatch=f"""
folder=$(dirname "$1")
{sys.executable} - "$folder" <<'END'
import pickle, sys
with open(sys.argv[1] + "/7_0_result.pkl", "wb") as file:
    pickle.dump(("error", {trace!r}), file)
END
echo Submitted batch job 7"""
    )
    with pytest.raises(RunError, match=r"2 of 2 .*job 7 \(seed 1\): InputError: no such corpus"):
        submit()


def test_too_many_time_limits_are_told_in_words() -> None:
    error = RuntimeError(
        "---\nUncompletedJobError: Job not requeued because: timed-out too many times.\n---"
    )
    assert jobs.cause(error).startswith("it ran into its time limit 4 times: --launcher_options")


def test_a_refused_submission_is_one_line_and_leaves_nothing(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Through the whole command: its folder is not there afterwards."""
    pytest.importorskip("submitit")
    lines = (
        "sbatch: error: bad account\nsbatch: error: Batch job submission failed: Invalid account"
    )
    cluster(sbatch=f"cat >&2 <<'END'\n{lines}\nEND\nexit 1")
    words = ["--data.scale=0.02", "--epochs=1", "--replicates=0", "--systems=B1", "--seeds=1"]
    out = tmp_path / "out"
    options = "--launcher_options={timeout_min: 5}"
    said = failure_of(capsys, "table", f"--out={out}", *words, "--launcher=slurm", options, code=1)
    assert "--launcher slurm: cannot submit: bad account; Invalid account" in said
    assert said.count("\n") == 1
    assert not out.exists()


def test_a_second_submission_that_fails_cancels_the_first(
    cluster: Cluster, submit: Callable[..., Job], tmp_path: Path
) -> None:
    once = f"mkdir {tmp_path}/once 2>/dev/null || exit 1"
    cluster(sbatch=f"{once}\necho Submitted batch job 7")
    with pytest.raises(RunError, match=r"cannot submit.*were cancelled \(7\)"):
        submit()
    assert asked(tmp_path, "scancel") == ["7"]
    cluster(sbatch=f"{once}\necho Submitted batch job 7", scancel="exit 1")
    (tmp_path / "once").rmdir()
    with pytest.raises(RunError, match="could not be cancelled: scancel 7"):
        submit()


def test_a_job_is_not_started_again_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[Any] = []
    job = Job(Recipe(), (1,), ("B1",), Path("out"))
    call = Submitted(Program(), ran.append, job)
    for restarts in ("", "0", str(MOST_RESTARTS)):
        monkeypatch.setenv("SLURM_RESTART_COUNT", restarts)
        call()
    assert ran == [job] * 3
    monkeypatch.setenv("SLURM_RESTART_COUNT", str(MOST_RESTARTS + 1))
    with pytest.raises(RunError, match="more than 10 times"):
        call()


def test_a_job_whose_time_is_over_is_noted_and_stays_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    submitit = pytest.importorskip("submitit")
    place = SimpleNamespace(paths=SimpleNamespace(folder=tmp_path), job_id="7")
    monkeypatch.setattr(submitit, "JobEnvironment", lambda: place)
    call = Submitted(Program(), print, Job(Recipe(), (1,), ("B1",), Path("out")))
    for times in (1, 2):
        assert pickle.loads(pickle.dumps(call.checkpoint().function)) == call
        assert times_file(tmp_path, "7").stat().st_size == times


@pytest.mark.parametrize(
    ("variables", "most"),
    [
        ({}, 8),
        ({"PER_TASK": "2", "ON_NODE": "4"}, 2),
        ({"ON_NODE": "4"}, 4),
        ({"PER_TASK": "x"}, 8),
    ],
)
def test_helpers_stay_within_the_allocation(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], most: int
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    for name in ("PER_TASK", "ON_NODE"):
        monkeypatch.delenv(f"SLURM_CPUS_{name}", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(f"SLURM_CPUS_{name}", value)
    assert cores() == most


def test_a_machine_with_srun_is_no_job(
    cluster: Cluster,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Lightning would advise to use it, on every login node."""
    for name in [name for name in os.environ if name.startswith("SLURM_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    main(["fit", "--config=B1", "--data.scale=0.02", "--trainer.max_epochs=1", "--evaluate=false"])
    said = capsys.readouterr()
    assert "srun" not in said.err + said.out


def test_the_recipe_for_ray_makes_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it stands in docs/cluster.md, but for its size and Ray itself."""
    text = (REPOSITORY / "docs/cluster.md").read_text()
    [code] = re.findall(r"^```python\n(.*?import ray.*?)^```", text, re.M | re.S)
    assert len([line for line in code.splitlines() if line]) <= 15
    for whole, small in {
        "CorpusSettings()": "CorpusSettings(scale=0.02)",
        "TrainerSettings()": "TrainerSettings(max_epochs=1)",
        "/shared/table1": str(tmp_path / "table1"),
    }.items():
        assert whole in code
        code = code.replace(whole, small)
    ran: list[Any] = []

    def remote(**_: Any) -> Any:
        return lambda run: SimpleNamespace(remote=lambda job: ran.append(job) or run(job))

    ray = SimpleNamespace(init=lambda: None, remote=remote, get=list)
    monkeypatch.setitem(sys.modules, "ray", ray)
    exec(code, {})
    assert [job.seeds for job in ran] == [(1986,), (1987,)]
    assert (tmp_path / "table1/table.csv").exists()
    assert len(list((tmp_path / "table1/training").iterdir())) == 2


def test_where_no_slurm_can_be_set_up_the_reason_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make slurm-test` succeeds then, and claims nothing."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        assert slurm_test([]) == 0
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
    said = capsys.readouterr().out
    assert said.startswith("slurm-test: skipped, no case was run: it needs root")
    assert slurm_test(["moon"]) == 2


@pytest.mark.parametrize("name", CASES)
def test_every_case_has_a_limit_below_that_of_all(name: str) -> None:
    assert 0 < CASES[name][1] <= ALL
