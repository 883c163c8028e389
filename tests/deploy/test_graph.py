"""CM head, fusion and policy as one ONNX graph: what the scorer says, at any number of trials."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch

from lightning_sasv.cli import main
from lightning_sasv.decisions import PRESETS, CostModel
from lightning_sasv.deploy import Scorer, choose_rule, graph, load
from lightning_sasv.deploy.before_fusion import Head
from lightning_sasv.deploy.graph import write_graph
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.fitted import save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.fusion.conformal import measure
from lightning_sasv.scores import write_scores
from lightning_sasv.trials import Scores

onnxruntime = pytest.importorskip("onnxruntime")
COSTS = PRESETS["a-dcf1"]
WORDS = np.array(["reject", "accept", "unsure"])


def run(path: Path, **given: np.ndarray) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, given))


def scorer_of(system: FusionSystem, dev: Scores, costs: CostModel = COSTS) -> Scorer:
    measured = measure(np.stack([dev.asv, dev.cm]), dev.label)
    return Scorer(system, choose_rule(system, dev, costs), costs, {}, measured=measured)


def assert_same(scorer: Scorer, found: list[Any], *given: Any) -> None:
    verdict = scorer(*given)
    assert WORDS[found[0]].tolist() == verdict.decision.tolist()
    for name, values in zip(("margin", "score", "asv_llr", "cm_llr"), found[1:], strict=True):
        own = getattr(verdict, name)
        if own is not None:
            assert values.dtype == np.float64
            np.testing.assert_allclose(values, own, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["B1", "L2c", "L3", "L3t", "M3d", "Q3", "B1v2", "Post"])
def test_the_graph_says_what_the_scorer_says(
    name: str, systems: dict[str, FusionSystem], dev: Scores, far: Scores, tmp_path: Path
) -> None:
    costs = COSTS if name != "L3t" else CostModel(1, 10, 20, 0.9, 0.05, 0.05, c_abstain=0.2)
    scorer = scorer_of(systems[name], dev, costs)
    about = write_graph(tmp_path, scorer)
    assert about["inputs"] == ["scores"]
    assert about["difference"] < 1e-10
    for count in (1, 500):
        trials = np.stack([far.asv, far.cm], axis=1)[:count]
        assert_same(scorer, run(tmp_path / "policy.onnx", scores=trials), *trials.T)


def test_with_a_head_it_takes_embeddings(
    systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path
) -> None:
    random = np.random.default_rng(0)
    shapes = [(160, 12), (12, 2)]
    weights = tuple(random.normal(size=shape).astype(np.float32) for shape in shapes)
    head = Head(weights, (random.normal(size=12).astype(np.float32),), 0.3)
    scorer = scorer_of(systems["L3"], dev)
    assert write_graph(tmp_path, scorer, head)["inputs"] == ["asv", "embedding"]
    asv, embedding = random.uniform(0, 1, 33), random.normal(size=(33, 160)).astype(np.float32)
    found = run(tmp_path / "policy.onnx", asv=asv, embedding=embedding)
    assert_same(scorer, found, asv, head.score(embedding))


def test_a_graph_that_says_something_else_is_an_error(
    systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(graph, "TOLERANCE", -1.0)
    with pytest.raises(RunError, match="differs from the scorer"):
        write_graph(tmp_path, scorer_of(systems["M3d"], dev))
    monkeypatch.undo()


@pytest.mark.parametrize(
    "settings",
    [
        {"calibration": "pav", "rule": "nonlinear", "rho": 0.5},
        {"density": "student_t", "calibration": "pav", "rule": "nonlinear", "rho": 0.5},
        {"density": "gaussian", "rule": "nonlinear", "rho": 0.5, "transform": "rank"},
    ],
)
def test_curves_between_knots_have_a_graph(
    settings: dict[str, Any], dev: Scores, far: Scores, tmp_path: Path
) -> None:
    """PAV and normal scores look values up among those of dev; also those that dev has itself."""
    scorer = scorer_of(FusionSystem(**settings).fit(dev.asv, dev.cm, dev.label), dev)
    assert write_graph(tmp_path, scorer)["difference"] < 1e-10
    nodes = {node.op_type for node in onnx.load(str(tmp_path / "policy.onnx")).graph.node}
    assert "ReduceSum" not in nodes  # bisection: no table of trials and knots, which can be huge
    for trials in (far, dev):
        scores = np.stack([trials.asv, trials.cm], axis=1)
        assert_same(scorer, run(tmp_path / "policy.onnx", scores=scores), *scores.T)


def test_a_stage_without_operators_is_named_as_the_reason(
    systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(graph._OPERATORS, "aten::logaddexp", _no_operator)
    with pytest.raises(InputError, match=r"cannot be written as a graph, .* export it without"):
        write_graph(tmp_path, scorer_of(systems["L3"], dev))


def _no_operator(*_: Any) -> Any:
    raise torch.onnx.errors.UnsupportedOperatorError("aten::logaddexp", 17, None)


def test_export_writes_it_into_the_bundle(dev: Scores, tmp_path: Path) -> None:
    save_system(
        tmp_path / "fitted/M3d.safetensors", build_system("M3d").fit(dev.asv, dev.cm, dev.label), {}
    )
    write_scores(tmp_path / "scores/dev.csv", dev)
    main(["export", "--fitted", str(tmp_path), "--onnx", "--out", str(tmp_path / "b")])
    scorer = load(tmp_path / "b")
    assert scorer.metadata["graph"]["file"] == "policy.onnx"
    trials = np.stack([dev.asv, dev.cm], axis=1)[:9]
    assert_same(scorer, run(tmp_path / "b" / "policy.onnx", scores=trials), *trials.T)
