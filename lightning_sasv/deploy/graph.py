"""CM head, fusion and policy of a bundle as one ONNX graph, in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from lightning_sasv.deploy.before_fusion import Head
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.errors import InputError, RunError
from lightning_sasv.frontends.graphs import OPSET, write_onnx
from lightning_sasv.fusion.system import FusionSystem

GRAPH, TOLERANCE = "policy.onnx", 1e-5
OUTPUTS = ("decision", "margin", "score", "asv_llr", "cm_llr")
"""``decision`` is 0 for reject, 1 for accept, 2 for unsure."""
_EXAMPLE, _CHECKED = 2, 7


class _Policy(nn.Module):
    """What is exported: scores (trials, columns), or an ASV score and a CM embedding."""

    def __init__(self, scorer: Scorer, head: Head | None) -> None:
        super().__init__()
        self.scorer = scorer
        self.system = FusionSystem(**scorer.system.config)
        self.system.store(scorer.system.arrays())
        self.head = head

    def forward(self, first: Tensor, embedding: Tensor | None = None) -> tuple[Tensor, ...]:
        scores = first.T.double()
        if self.head is not None:
            scores = torch.stack([first.double(), self.head.score(embedding)])
        state = dict(self.system.named_buffers())
        own = self.system.sides(state, scores, self.scorer.system.columns)
        numbers = self.scorer.numbers(*own, self.scorer.bounds)
        asv, cm, score, margin, gain = numbers[2:]
        decision = (margin > 0).long()
        if isinstance(gain, Tensor):
            decision = torch.where(gain > 0, 2, decision)
        if self.scorer.measured is not None:
            judged = scores[: self.scorer.system.columns.scores]
            outside = self.scorer.measured.outside(judged, self.scorer.level)
            decision = torch.where(outside & (decision == 1), 2, decision)
        return decision, margin, score, asv, cm


def write_graph(folder: Path, scorer: Scorer, head: Head | None = None) -> dict[str, Any]:
    """Write ``policy.onnx``, and check with onnxruntime that it says what the scorer says.

    Inputs: ``asv`` (trials,) in float64 and ``embedding`` (trials, dim) in float32 where there is a
    CM head, else ``scores`` (trials, columns) in float64. Outputs: :data:`OUTPUTS`.

    Args:
        folder: Where to write.
        scorer: What the graph is to say.
        head: The CM head.

    Returns:
        What the description of a bundle says of it.

    Raises:
        InputError: onnx or onnxruntime is missing, or a stage has no operators in ONNX.
        RunError: The graph says something else.
    """
    try:
        import onnx  # noqa: F401
        import onnxruntime
    except ImportError as error:
        raise InputError(
            f"--onnx needs onnx and onnxruntime, which cannot be imported ({error}); install them "
            "with: pip install 'lightning-sasv[onnx]'"
        ) from None
    head = head if scorer.system.columns.is_pair else None
    names = ("scores",) if head is None else ("asv", "embedding")
    path, exporter = folder / GRAPH, cast("Any", torch.onnx)
    for operator, written in _OPERATORS.items():
        exporter.register_custom_op_symbolic(operator, written, OPSET)
    given = tuple(map(torch.from_numpy, _trials(scorer, head, _EXAMPLE)))
    free = {name: {0: "trials"} for name in (*names, *OUTPUTS)}
    try:
        write_onnx(_Policy(scorer, head), given, path, names, OUTPUTS, free)
    except torch.onnx.errors.OnnxExporterError as error:
        said = " ".join(str(error).split())[:160]
        raise InputError(
            f"{scorer.system.name} cannot be written as a graph, because a stage of it has no "
            f"operators in ONNX; export it without --onnx ({said})"
        ) from None
    finally:
        for operator in _OPERATORS:
            exporter.unregister_custom_op_symbolic(operator, OPSET)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    checked = _trials(scorer, head, _CHECKED)
    found = session.run(None, dict(zip(names, checked, strict=True)))
    worst = _difference(scorer, head, checked, found)
    if not worst <= TOLERANCE:
        raise RunError(f"the graph differs from the scorer by {worst:.2g} on {_CHECKED} trials")
    return {"file": GRAPH, "inputs": list(names), "outputs": list(OUTPUTS), "difference": worst}


def _log_add(graph: Any, first: Any, second: Any) -> Any:
    """``max + log(1 + e^(−|difference|))``: every operator has a kernel for float64."""
    gap = graph.op("Neg", graph.op("Abs", graph.op("Sub", first, second)))
    one = graph.op("Constant", value_t=torch.tensor(1.0, dtype=torch.float64))
    tail = graph.op("Log", graph.op("Add", one, graph.op("Exp", gap)))
    return graph.op("Add", graph.op("Max", first, second), tail)


def _places(graph: Any, knots: Any, values: Any, *_: Any) -> Any:
    """Number of ascending knots below each value, by bisection: memory for the values alone."""

    def whole(number: int) -> Any:
        return graph.op("Constant", value_t=torch.tensor(number))

    (count,) = knots.type().sizes()
    nothing = torch.zeros(1, dtype=torch.int64)
    place = graph.op("ConstantOfShape", graph.op("Shape", values), value_t=nothing)
    for power in reversed(range(count.bit_length())):
        further = graph.op("Add", place, whole(1 << power))
        last = graph.op("Sub", graph.op("Min", further, whole(count)), whole(1))
        below = graph.op("Less", graph.op("Gather", knots, last), values)
        fits = graph.op("Not", graph.op("Greater", further, whole(count)))
        place = graph.op("Where", graph.op("And", fits, below), further, place)
    return place


_OPERATORS: dict[str, Callable[..., Any]] = {
    "aten::logaddexp": _log_add,
    "aten::searchsorted": _places,
}
"""What the exporter cannot write itself."""


def _trials(scorer: Scorer, head: Head | None, count: int) -> list[np.ndarray]:
    """Inputs to try the graph on."""
    random = np.random.default_rng(count)
    if head is None:
        return [random.normal(size=(count, len(scorer.columns)))]
    embeddings = random.normal(size=(count, head.dim)).astype(np.float32)
    return [random.uniform(-0.2, 0.9, size=count), embeddings]


def _difference(scorer: Scorer, head: Head | None, given: list[np.ndarray], found: Any) -> float:
    """Largest difference, relative to values above 1, to what the scorer says of the same."""
    scores = given[0].T if head is None else np.stack([given[0], head.score(given[1])])
    verdict = scorer(dict(zip(scorer.columns, scores, strict=True)))
    words = np.array(["reject", "accept", "unsure"])[found[0]]
    near = np.abs(verdict.margin) < TOLERANCE
    if (words != verdict.decision)[~near].any():
        return math.inf
    pairs = zip(("margin", "score", "asv_llr", "cm_llr"), found[1:], strict=True)
    named = [(getattr(verdict, name), value) for name, value in pairs]
    return max(
        float((np.abs(own - value) / np.maximum(1, np.abs(own))).max())
        for own, value in named
        if own is not None
    )
