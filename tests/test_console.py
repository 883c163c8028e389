"""What is said, and what is not."""

from __future__ import annotations

import warnings

import pytest
from lightning_fabric.plugins.environments import SLURMEnvironment
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.console import progress, quiet

SYNC = "It is recommended to use `self.log('{}', ..., sync_dist=True)` when logging on epoch level"


def heard(*texts: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        quiet()
        for text in texts:
            rank_zero_warn(text)
    return [str(one.message) for one in caught]


def test_warnings_that_mean_nothing_are_not_heard() -> None:
    ours = ["val/B1/sasv_eer", "dev/cllr", "eval/t_eer"]
    nothing = ["predict returned None if it was on purpose", "The dirpath has changed from a to b"]
    assert heard(*map(SYNC.format, ours), *nothing) == []
    others = [SYNC.format("my/value"), "something else"]
    assert heard(*others) == others


def test_srun_is_named_in_a_job_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/usr/bin/srun")
    monkeypatch.delenv("SLURM_NTASKS", raising=False)
    for job in (None, "1"):
        if job:
            monkeypatch.setenv("SLURM_JOB_ID", job)
        else:
            monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            quiet()
            SLURMEnvironment.detect()
        assert bool(caught) is bool(job)


def test_the_rate_is_that_of_all_the_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not of the last half minute, and not of what was done before."""
    now = [0.0]
    monkeypatch.setattr("rich.console.monotonic", lambda: now[0])
    with progress("utt", output=True) as begin:
        advance = begin("x", 120, 100)
        for seconds in (50.0, 60.0):
            now[0] = seconds
            advance(10)
    assert "0.3 utt/s" in capsys.readouterr().out
