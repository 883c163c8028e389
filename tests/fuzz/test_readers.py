"""Every reader returns valid data or raises InputError, whatever the file holds."""

from __future__ import annotations

import hashlib
import json
import math
import pickle
from collections import OrderedDict
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st

from lightning_sasv.checkpoints import read_checkpoint
from lightning_sasv.commands.configs import check_configs
from lightning_sasv.data.challenge import corpus_name
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.pickles import load_pickle
from lightning_sasv.data.protocols import (
    MARKER,
    read_enrolment,
    read_trials,
    read_utterances,
)
from lightning_sasv.decisions import PRESETS, read_costs
from lightning_sasv.deploy.bundle import CHECKSUMS, load, write_bundle
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.sweep import read_sweep
from lightning_sasv.files import read_yaml
from lightning_sasv.fitted import read_fitted, save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.results import read_metrics, read_results, write_metrics
from lightning_sasv.scores import LAYOUTS, ScoreTable, read_scores, read_table, write_table
from lightning_sasv.scores.table import from_scores
from tests.fuzz.mutations import bytes_of, contents, fuzzed
from tests.scores.samples import LINES, toy_scores

FOLDER = TemporaryDirectory()
HERE = Path(FOLDER.name)
SCORES = toy_scores(90)


def file_of(content: bytes, name: str = "file") -> Path:
    """A file of this content."""
    path = HERE / name
    path.write_bytes(content)
    return path


def fitted(name: str) -> FusionSystem:
    return build_system(name).fit(SCORES.asv, SCORES.cm, SCORES.label)


TRIALS = b"S1 U1 bonafide target\nS1 U2 bonafide nontarget\nS2 U3 A07 spoof\n"
UTTERANCES = b"S1 U1 - - bonafide\nS1 U2 - A01 spoof\n"
ENROLMENT = b"S1 U1,U2\nS2 U3\n"
STORE = EmbeddingStore(["a", "b", "c"], torch.arange(12.0).reshape(3, 4))
STORED = bytes_of(HERE, STORE.save)
PICKLES = [
    pickle.dumps(dict(zip(STORE.ids, STORE.vectors.numpy(), strict=True)), n) for n in (2, 5)
]
PICKLES.append(pickle.dumps(OrderedDict(a=np.float32(1), b=[1, "x", None])))
SYSTEMS = [
    bytes_of(HERE, partial(save_system, system=fitted(name), about={"seed": 1}))
    for name in ("B1", "L3c", "L3t", "M3")
]
METRICS = bytes_of(HERE, lambda p: write_metrics(p, {"B1": {"corpus": "x", "eval": {"cllr": 0.5}}}))
SWEEP = b"method: grid\ncommand: [a, ${args}]\nparameters: {x: {values: [1, 2]}, y: {value: 3}}\n"
COSTS = b"c_miss: 1\nc_fa_nontarget: 10\nc_fa_spoof: 20\np_target: 0.9\np_nontarget: 0.05\n"
COSTS += b"p_spoof: 0.05\n"
CONFIG = (
    b"model:\n  systems: [B1]\ndata: {scale: 0.02}\ntrainer:\n  logger:\n  - class_path: torch.x\n"
)
CHECKPOINT = bytes_of(HERE, lambda p: torch.save({"state_dict": {"x": torch.ones(3)}}, p))


@fuzzed
@given(contents(TRIALS))
def test_trials(content: bytes) -> None:
    try:
        trials = read_trials(file_of(content))
    except InputError:
        return
    assert len(trials) > 0
    assert set(trials.label.tolist()) <= {0, 1, 2}


@fuzzed
@given(contents(UTTERANCES))
def test_utterances(content: bytes) -> None:
    try:
        found = read_utterances(file_of(content))
    except InputError:
        return
    assert len(found) == len(set(found.utterance.tolist())) > 0


@fuzzed
@given(contents(ENROLMENT))
@example(b"S1 ,\n")
@example(b"\t\x01")
def test_enrolment(content: bytes) -> None:
    try:
        found = read_enrolment(file_of(content))
    except InputError:
        return
    assert all(name and all(names) for name, names in found.items())
    assert all(found.values())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_scores_of_a_named_layout(layout: str) -> None:
    table = from_scores(SCORES, HERE)
    text = LINES.get(layout)
    valid = text.encode() if text else bytes_of(HERE, lambda p: write_table(p, table, layout))

    @settings_of_layouts
    @given(contents(valid), st.booleans())
    def check(content: bytes, mend: bool) -> None:
        try:
            found = read_table(file_of(content), layout, mend=mend)
        except InputError:
            return
        _check_table(found)

    check()


settings_of_layouts = type(fuzzed)(fuzzed, max_examples=max(10, fuzzed.max_examples // 10))


def _check_table(table: ScoreTable) -> None:
    for name in ("asv_score", "cm_score"):
        if name in table:
            assert np.isfinite(table.numbers(name)).all()
    assert not any(table.frame.null_count().row(0))


@fuzzed
@given(contents(*(text.encode() for text in LINES.values())))
def test_scores_of_any_layout(content: bytes) -> None:
    try:
        table = read_table(file_of(content))
    except InputError:
        return
    _check_table(table)


@fuzzed
@given(contents(LINES["csv"].encode()))
def test_score_pairs(content: bytes) -> None:
    try:
        scores = read_scores(file_of(content))
    except InputError:
        return
    assert len(scores.asv) == len(scores.cm) == len(scores.label) > 0
    assert set(np.unique(scores.label)) <= {0, 1, 2}


@fuzzed
@given(contents(*PICKLES))
def test_pickles(content: bytes) -> None:
    try:
        load_pickle(file_of(content))
    except InputError:
        return


@fuzzed
@given(contents(*PICKLES))
def test_embedding_pickles(content: bytes) -> None:
    try:
        store = EmbeddingStore.from_pickle(file_of(content))
    except InputError:
        return
    _check_store(store)


@fuzzed
@given(contents(STORED))
def test_embedding_stores(content: bytes) -> None:
    try:
        store = EmbeddingStore.load(file_of(content))
    except InputError:
        return
    _check_store(store)


def _check_store(store: EmbeddingStore) -> None:
    assert store.vectors.shape == (len(store.ids), store.dim)
    assert store.vectors.dtype == torch.float32
    assert torch.isfinite(store.vectors).all()
    assert len(store.select(store.ids)) == len(store.ids)


@fuzzed
@given(contents(*SYSTEMS))
def test_fitted_systems(content: bytes) -> None:
    path = file_of(content)
    try:
        fused = read_fitted(path)(SCORES.asv, SCORES.cm)
    except InputError:
        return
    assert fused.sasv.shape[-1] == len(SCORES.asv)


@fuzzed
@given(st.data())
def test_bundles(data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(sorted(BUNDLE)))
    for name, content in BUNDLE.items():
        (HERE / "bundle" / name).write_bytes(content)
    file_of(data.draw(contents(BUNDLE[part])), f"bundle/{part}")
    try:
        scorer = load(HERE / "bundle")
    except InputError:
        return
    assert scorer(SCORES.asv[:3], SCORES.cm[:3]).accepted.shape == (3,)


def _bundle() -> dict[str, bytes]:
    folder = write_bundle(HERE / "bundle", fitted("L3t"), SCORES, PRESETS["equal"], name="L3t")
    return {path.name: path.read_bytes() for path in folder.iterdir()}


BUNDLE = _bundle()


@fuzzed
@given(contents(BUNDLE["bundle.json"]))
def test_bundles_with_right_checksums(content: bytes) -> None:
    """Whoever alters a bundle can alter its checksums too."""
    for name, valid in BUNDLE.items():
        (HERE / "bundle" / name).write_bytes(valid)
    file_of(content, "bundle/bundle.json")
    sums = json.loads(BUNDLE[CHECKSUMS]) | {"bundle.json": hashlib.sha256(content).hexdigest()}
    file_of(json.dumps(sums).encode(), f"bundle/{CHECKSUMS}")
    try:
        scorer = load(HERE / "bundle")
    except InputError:
        return
    assert scorer(SCORES.asv[:3], SCORES.cm[:3]).accepted.shape == (3,)


@fuzzed
@given(contents(METRICS))
def test_metrics(content: bytes) -> None:
    try:
        found = read_metrics(file_of(content))
    except InputError:
        return
    assert isinstance(found, dict)


@fuzzed
@given(contents(b'{"name": "x"}'))
def test_corpus_markers(content: bytes) -> None:
    file_of(content, MARKER)
    try:
        assert isinstance(corpus_name(HERE, None), str)
    except InputError:
        return


@fuzzed
@given(contents(SWEEP))
@example(b"\x80")
@example(SWEEP.replace(b"[a, ${args}]", b"3"))
@example(SWEEP.replace(b"{values: [1, 2]}", b"{values: 1}"))
def test_sweeps(content: bytes) -> None:
    try:
        sweep = read_sweep(file_of(content))
        points, command = sweep.points(), sweep.command()
    except InputError:
        return
    assert all(isinstance(point, dict) for point in points)
    assert all(isinstance(word, str) for word in command)


@fuzzed
@given(contents(COSTS))
@example(b"x: 1\n2: 1\n")
def test_cost_files(content: bytes) -> None:
    try:
        costs = read_costs(str(file_of(content)))
    except InputError:
        return
    assert math.isclose(costs.p_target + costs.p_nontarget + costs.p_spoof, 1, abs_tol=1e-6)


@fuzzed
@given(contents(CONFIG))
def test_configurations(content: bytes) -> None:
    path = file_of(content, "config.yaml")
    try:
        read_yaml(path)
        check_configs(["fit", "--config", str(path)])
    except InputError:
        return


@fuzzed
@given(contents(CHECKPOINT))
def test_checkpoints(content: bytes) -> None:
    try:
        found = read_checkpoint(file_of(content))
    except InputError:
        return
    assert isinstance(found["state_dict"], dict)


@settings_of_layouts
@given(st.data())
def test_folders_of_results(data: st.DataObject) -> None:
    part = data.draw(st.sampled_from(sorted(RESULTS)))
    for name, content in RESULTS.items():
        (HERE / "results" / name).write_bytes(content)
    file_of(data.draw(contents(RESULTS[part])), f"results/{part}")
    try:
        results = read_results(HERE / "results")
    except InputError:
        return
    assert results.fused


def _results() -> dict[str, bytes]:
    for name in ("scores", "fitted"):
        (HERE / "results" / name).mkdir(parents=True)
    scores = bytes_of(HERE, lambda p: write_table(p, from_scores(SCORES, p)))
    return {
        "scores/eval.csv": scores,
        "fitted/L3c.safetensors": SYSTEMS[1],
        "metrics.json": METRICS,
        "table.md": b"| system | x |\n|---|---|\n| B1 | 1 |\n",
    }


RESULTS = _results()
