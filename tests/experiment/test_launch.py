"""Jobs in processes of their own, through submitit's local executor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.cli import main
from lightning_sasv.errors import RunError
from lightning_sasv.experiment import launch as launch_module
from lightning_sasv.experiment import run as run_module
from lightning_sasv.experiment.jobs import Waited
from lightning_sasv.experiment.recipe import Recipe
from lightning_sasv.experiment.run import Job
from tests.helpers import failure_of, metrics_in

SMALL = ["--data.scale", "0.02", "--epochs", "1", "--replicates", "40", "--systems", "B1,L3c"]


def table(out: Path, *args: str) -> dict[str, Any]:
    main(["table", "--out", str(out), "--seeds", "1-3", *SMALL, *args])
    return metrics_in(out)


def test_submitted_jobs_give_the_results_of_one_process(tmp_path: Path) -> None:
    """Two jobs: seeds 1 and 2 together, 3 alone."""
    options = ["--seeds_per_job", "2", "--launcher_options", "{timeout_min: 5}"]
    there = table(tmp_path / "there", "--launcher", "local", *options)
    assert len(list((tmp_path / "there/training").iterdir())) == 2
    assert len(list((tmp_path / "there/jobs").rglob("*_result.pkl"))) == 2
    here = table(tmp_path / "here")
    for name in ("B1", "L3c"):
        assert there[name]["seeds"] == here[name]["seeds"] == [1, 2, 3]
        assert there[name]["ci"].keys() == here[name]["ci"].keys()
        for seed, values in here[name]["per_seed"].items():
            for key in ("sasv_eer", "cllr"):  # other sums of floats: equal up to rounding
                assert there[name]["per_seed"][seed][key] == pytest.approx(values[key], rel=1e-3)
    before = sorted((tmp_path / "there/jobs").rglob("*.pkl"))
    assert table(tmp_path / "there", "--launcher", "local", *options) == there
    assert sorted((tmp_path / "there/jobs").rglob("*.pkl")) == before, "submitted again"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--launcher", "slurm"], "slurm cluster"),
        (["--launcher", "local", "--launcher_options", "{moon: 1}"], "moon"),
        (["--launcher", "local", "--launcher_options", "{slurm_moon: 1}"], "moon"),
        (["--launcher", "local", "--seeds_per_job", "0"], "--seeds_per_job"),
        (["--launcher", "local", "--data.root", "nowhere"], "no data folder at nowhere"),
    ],
)
def test_mistakes_are_reported_before_anything_is_submitted(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    args: list[str],
    words: str,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no srun there
    out = ["table", "--out", tmp_path / "out", "--seeds", "1-3"]
    message = failure_of(capsys, *out, *SMALL, *args)
    assert words in message
    assert message.count("\n") == 1
    assert not list(tmp_path.rglob("*_submitted.pkl"))


def test_a_failed_job_is_named_with_its_logs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(job: Job) -> None:
        raise OSError(f"no disk for seed {job.seeds[0]}")

    monkeypatch.setattr(run_module, "run_job", fail)
    recipe = Recipe(data={"scale": 0.02}, trainer={"max_epochs": 1})
    job = Job(recipe, (1, 2), ("B1",), tmp_path / "out", stack=2)
    with pytest.raises(RunError, match=r"1 of 1 submitted jobs failed .*no disk for seed 1") as e:
        launch_module.launch(job, "local")
    assert str(tmp_path / "out/jobs") in str(e.value)


class Interrupted:
    """A submitted job during which somebody presses Ctrl-C."""

    job_id = "1"
    cancelled = False

    def result(self) -> None:
        raise KeyboardInterrupt

    def cancel(self, check: bool = True) -> None:
        self.cancelled = True


def test_an_interrupt_cancels_the_submitted_jobs(tmp_path: Path) -> None:
    jobs = [Waited(Interrupted(), (1,)), Waited(Interrupted(), (2,))]
    waiting = launch_module._cancelling(jobs, "local")
    with pytest.raises(KeyboardInterrupt, match="were cancelled"), waiting:
        launch_module._wait(jobs, "local", tmp_path)
    assert all(one.job.cancelled for one in jobs)


def test_a_submission_that_fails_cancels_those_before_it() -> None:
    jobs = [Waited(Interrupted(), (1,))]
    waiting = launch_module._cancelling(jobs, "local")
    with pytest.raises(RunError, match=r"cannot submit: .*were cancelled \(1\)"), waiting:
        launch_module._submit(None, Job(Recipe(), (1,), ("B1",), Path("out")), "local")
    assert jobs[0].job.cancelled
