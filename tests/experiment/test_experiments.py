"""Experiments with programs of their own.

``small_corpus``: cross-validation over speakers × attacks, and what it leaves out.
``more_scores``: runs on the twin, and says what it leaves out.
"""

from __future__ import annotations

import importlib.util
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.data.challenge import load_corpus
from lightning_sasv.fitted import read_fitted_systems
from lightning_sasv.models import SASVModule
from lightning_sasv.trials import TrialClass

POINT = {"network": "cm/cm/B1", "lr": 2e-4, "weight_decay": 0.03, "class_weights": (0.9, 0.1)}


def test_points_that_share_a_training_are_trained_once(choose: Any) -> None:
    groups = choose.trainings(choose.sweep_points())
    assert sorted(map(len, groups)) == [1] * 60 + [3] * 40
    for points in groups:
        assert len({point["network"].rpartition("/")[0] for point in points}) == 1


@pytest.mark.parametrize("network", ["film/three_class/F3", "concat/fused/E2"])
def test_joint_heads_are_points_too(choose: Any, network: str) -> None:
    [found] = choose.cross_validate(
        make_twin(0.01), {**POINT, "network": network, "epochs": 1}, [network[-2:]], (1986,)
    )
    assert 0 <= found["sasv_eer"] < 1


def test_all_of_it_runs(
    choose: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the points to the choice and its values on eval, with smaller numbers."""
    points = [{**POINT, "epochs": 1}, {**POINT, "network": "film/fused/F2", "epochs": 1}]
    monkeypatch.setattr(choose, "sweep_points", lambda: points)
    for name, value in {"SEEDS": (1,), "FINAL_SEEDS": (1, 2), "FINALISTS": 1}.items():
        monkeypatch.setattr(choose, name, value)
    path = choose._choose(make_twin(0.01), tmp_path / "choice.csv")
    assert len(path.read_text().splitlines()) == 1 + 2 + 1
    said = capsys.readouterr().out
    assert "chosen: " in said
    assert "eval, SPF-EER of A08" in said


@pytest.fixture(scope="module")
def choose(repository: Path) -> Any:
    path = repository / "experiments" / "small_corpus" / "choose.py"
    spec = importlib.util.spec_from_file_location("choose", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_nothing_that_is_scored_was_seen(choose: Any, twin: Corpus) -> None:
    rows, seen = twin.dev.trials, np.zeros(len(twin.dev.trials), int)
    for attack, speaker, fit, scored in choose.parts(twin):
        assert attack not in set(rows.attack[fit])
        assert speaker not in set(rows.speaker[fit])
        assert set(rows.speaker[scored]) == {speaker}
        assert set(rows.attack[scored & (rows.label == TrialClass.SPOOF)]) == {attack}
        left = choose.without(twin, attack).train
        assert attack not in set(left.utterances.attack)
        assert len(left.vectors) == len(left.utterances) < len(twin.train.utterances)
        seen += scored
    bonafide = rows.label != TrialClass.SPOOF
    assert set(seen[~bonafide]) == {1}
    assert set(seen[bonafide]) == {6}, "once for each attack, as often as spoofs are counted"


def test_a_point_is_scored_and_evaluated(choose: Any) -> None:
    corpus, point = make_twin(0.01), {**POINT, "epochs": 3}
    first, other = choose.cross_validate(corpus, point, ["B1", "Post"])
    assert 0 <= first["sasv_eer"] < 0.5
    assert first != other
    found = choose.evaluate(corpus, point)
    assert len(found["SASV-EER of each seed"]) == 6
    assert len(found["speakers"]) == 48
    assert "without A08" in found


def test_the_configuration_is_the_choice(choose: Any, repository: Path) -> None:
    """configs/model/small_corpus.yaml is one of the points, and what README.md says was chosen."""
    config = yaml.safe_load((repository / "configs/model/small_corpus.yaml").read_text())
    own = {**config["model"], "epochs": config["trainer"]["max_epochs"]}
    own["class_weights"], objective = tuple(own["class_weights"]), own.pop("objective")
    own["network"] = f"{own.pop('head', 'cm')}/{objective}/L3"
    assert own in choose.sweep_points()
    lines = (repository / "experiments/small_corpus/README.md").read_text().splitlines()
    [chosen] = [line for line in lines if line.startswith("| **")]
    words = [word.strip(" *") for word in chosen.split("|")[1:]]
    weights = tuple(float(word) for word in words[1].split(","))
    assert (words[0], weights) == (own["network"], own["class_weights"])
    assert (float(words[2]), int(words[3])) == (own["weight_decay"], own["epochs"])
    SASVModule(**config["model"])


def test_the_mini_corpus_of_real_audio(choose: Any, shared: Path) -> None:
    root = shared / "data" / "mini_la_embeddings"
    if not root.is_dir():
        pytest.skip(f"the embeddings of the mini corpus are not at {root}")
    corpus = load_corpus(root, shared / "data" / "mini_la")
    assert len(list(choose.parts(corpus))) == 6 * 4
    [found] = choose.cross_validate(corpus, {**POINT, "epochs": 1}, ["B1"])
    assert 0 <= found["sasv_eer"] <= 1


def test_more_scores_run_on_the_twin_alone(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["--scale", "0.02", "--data", "nowhere", "--out", "out"]
    monkeypatch.setattr(sys, "argv", ["run.py", *words])
    runpy.run_path(str(repository / "experiments/more_scores/run.py"), run_name="__main__")
    text = capsys.readouterr().out
    assert "| Q3cv | four |" in text
    assert "SASV 2022 is left out: no dev_scores.csv and eval_scores.csv in nowhere" in text
    names = ("asv_first", "asv_second", "cm_first", "cm_second")
    assert read_fitted_systems(tmp_path / "out/twin/four")["Q3cv"].columns.names == names
    assert read_fitted_systems(tmp_path / "out/twin/pair")["M3"].columns.names == names[::2]
