"""`lightning sweep --search optuna`: points by TPE, trainings ended early, going on."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.experiment import search
from lightning_sasv.experiment.search import PRUNED, REACHED, STARTUP, Prune, open_study
from lightning_sasv.experiment.sweep import SweepRun, sweep
from lightning_sasv.experiment.sweep_file import Sweep
from lightning_sasv.models import SASVModule
from lightning_sasv.program import SEARCH
from lightning_sasv.results import METRICS_FILE, write_metrics
from tests.helpers import quiet_trainer, shared_data

optuna = pytest.importorskip("optuna")

PARAMETERS: dict[str, dict[str, Any]] = {
    "model.lr": {"min": 1e-5, "max": 1e-2, "distribution": "log_uniform_values"},
    "model.class_weights": {"values": [[0.1, 0.9], [0.9, 0.1]]},
    "trainer.max_epochs": {"min": 1, "max": 5},
    "model.objective": {"value": "cm"},
}
CONTENT = {
    "name": "tried",
    "method": "bayes",
    "metric": {"name": "val/sasv_eer", "goal": "minimize"},
    "parameters": PARAMETERS,
    "command": ["lightning", "fit", "${args}"],
}


def plan(**changed: Any) -> Sweep:
    return Sweep(Path("sweep.yaml"), {**CONTENT, **changed})


def test_points_lie_where_the_file_says() -> None:
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=1))
    for _ in range(20):
        point = search.suggest(study.ask(), PARAMETERS)
        assert 1e-5 <= point["model.lr"] <= 1e-2
        assert point["model.class_weights"] in ([0.1, 0.9], [0.9, 0.1])
        assert point["trainer.max_epochs"] in range(1, 6)
        assert point["model.objective"] == "cm"
    for wrong in ({}, {"min": 1, "max": 0}, {"min": 0.0, "max": 1.0, "distribution": "normal"}):
        with pytest.raises(InputError, match=r"model\.lr"):
            search.suggest(study.ask(), {"model.lr": wrong})


@pytest.mark.parametrize(
    "metric", [None, {"name": "eval/sasv_eer"}, {"name": "val/x", "goal": "?"}]
)
def test_a_search_chooses_by_dev_alone(metric: object) -> None:
    with pytest.raises(InputError, match="a metric of dev"):
        search.target_of(plan(metric=metric))


class Runs:
    """In place of processes: what a run with this learning rate would reach on dev."""

    def __init__(self, folder: Path, fails: bool = False) -> None:
        self.folder, self.fails, self.points = folder, fails, list[dict[str, Any]]()

    def __call__(self, *args: Any) -> SweepRun | None:
        _, _, point, _, _, more = args
        assert json.loads(more[SEARCH])["metric"] == "val/sasv_eer"
        self.points.append(point)
        if self.fails:
            return None
        place = self.folder / str(len(list(self.folder.iterdir())))
        place.mkdir()
        value = abs(math.log10(point["model.lr"]) + 4)
        sets = {"dev": {"values": {"sasv_eer": value}}}
        write_metrics(place / METRICS_FILE, {"L3": {"sets": sets}})
        return SweepRun(point, place)


def test_a_search_goes_on_and_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs_of_it").mkdir()
    runs = Runs(tmp_path / "runs_of_it")
    monkeypatch.setattr(search, "run_point", runs)
    assert search.run_search(plan(), tmp_path, 3).tried == 3
    done = search.run_search(plan(), tmp_path, 25)
    assert (done.tried, len(runs.points), done.failed) == (22, 25, [])
    assert search.run_search(plan(), tmp_path, 25).tried == 0
    best = min(abs(math.log10(point["model.lr"]) + 4) for point in runs.points)
    assert f"its val/sasv_eer on dev: {best:.6g}" in capsys.readouterr().out
    halves = runs.points[:10], runs.points[15:]
    near = [sum(abs(math.log10(p["model.lr"]) + 4) for p in half) for half in halves]
    assert near[1] < near[0], "the later points are nearer to the best"


def test_a_search_that_only_fails_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Runs(tmp_path, fails=True)
    monkeypatch.setattr(search, "run_point", runs)
    assert len(search.run_search(plan(), tmp_path, 25).failed) == 3 == len(runs.points)
    file = tmp_path / "sweep.yaml"
    file.write_text(json.dumps(CONTENT))
    with pytest.raises(InputError, match="--runs must be at least 1"):
        sweep(str(file), search="optuna", runs=0)


@pytest.mark.parametrize("others", [0.0, 1.0])
def test_a_training_that_is_worse_than_the_median_is_ended(
    twin: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, others: float
) -> None:
    journal = str(tmp_path / "journal")
    study = open_study(journal, "tried", "minimize")
    for _ in range(STARTUP):
        trial = study.ask()
        trial.report(others, 0)
        study.tell(trial, others)
    mine = study.ask()
    told: Mapping[str, Any] = {"journal": journal, "study": "tried", "trial": mine._trial_id}
    told = {**told, "metric": "val/sasv_eer", "direction": "minimize"}
    monkeypatch.setenv(SEARCH, json.dumps(told))
    trainer = quiet_trainer(tmp_path, epochs=1, callbacks=[Prune()])
    module = SASVModule(hidden_dims=(4,))
    if others == 0.0:
        with pytest.raises(RunError, match="pruned after epoch 0"):
            trainer.fit(module, shared_data(twin))
    else:
        trainer.fit(module, shared_data(twin))
        trainer.validate(module, shared_data(twin), verbose=False)  # what is logged is told
    found = study.trials[mine.number]
    assert (PRUNED in found.user_attrs, REACHED in found.user_attrs) == (not others, bool(others))
    assert list(found.intermediate_values) == [0]
    if others:
        assert found.user_attrs[REACHED] == found.intermediate_values[0]


def test_results_say_what_a_run_reached(tmp_path: Path) -> None:
    entries: dict[str, Any] = {
        name: {"sets": {"dev": {"values": {"sasv_eer": value, "t_eer": math.nan}}}}
        for name, value in (("Post", 0.1), ("L3", 0.2))
    }
    write_metrics(tmp_path / METRICS_FILE, entries)
    assert search._value(tmp_path, "val/L3/sasv_eer") == 0.2
    for wrong in ("val/sasv_eer", "dev/M3/sasv_eer"):
        with pytest.raises(InputError, match="There are dev/L3/sasv_eer, dev/Post/sasv_eer"):
            search._value(tmp_path, wrong)
    write_metrics(tmp_path / METRICS_FILE, {"Post": entries["Post"]})
    assert search._value(tmp_path, "val/sasv_eer") == search._value(tmp_path, "dev/sasv_eer") == 0.1
    assert math.isnan(search._value(tmp_path, "dev/t_eer"))
    with pytest.raises(InputError, match="there are sasv_eer"):
        search._value(tmp_path, "val/a_dcf")
