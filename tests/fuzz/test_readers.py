"""Every reader returns valid data or raises InputError, whatever the file holds."""

from __future__ import annotations

import gzip
import hashlib
import json
import math
import os
import pickle
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lightning_sasv.checkpoints import read_checkpoint
from lightning_sasv.commands.configs import check_readable
from lightning_sasv.counting import Counts
from lightning_sasv.data.challenge import corpus_name
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.pickles import load_pickle
from lightning_sasv.data.protocols import MARKER, read_enrolment, read_trials, read_utterances
from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy.bundle import CHECKSUMS, load, write_bundle
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.sweep_file import read_sweep
from lightning_sasv.files import read_yaml, write_json
from lightning_sasv.fitted import read_fitted, save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.metrics_file import parts_of
from lightning_sasv.record import unrecorded
from lightning_sasv.results import read_metrics, read_results, write_metrics
from lightning_sasv.scores import LAYOUTS, ScoreTable, read_scores, read_table, scan, write_table
from lightning_sasv.scores.sources import read_costs
from lightning_sasv.scores.table import from_scores
from tests.scores.samples import LINES, toy_scores

EXAMPLES = int(os.environ.get("SASV_FUZZ_EXAMPLES", "200"))
"""Examples of each test; ``make fuzz`` takes 10,000."""

fuzzed = partial(
    settings,
    deadline=None,
    max_examples=EXAMPLES,
    suppress_health_check=list(HealthCheck),
    derandomize="SASV_FUZZ_EXAMPLES" not in os.environ,
)()

WORDS = ["nan", "inf", "-1", "1e999", '"', "'", "\t", "\r\n", "\n\n", ",", " ", "\0", "\ufeff"]
WORDS += ["../../x", "<script>", "é", "\ud7ff", "{}", "[", "&a", "*a", "!!python/name:os.system"]
ROWS = st.lists(
    st.lists(
        st.sampled_from(
            ["target", "spoof", "bonafide", "-", "1", "0", "0.5", "nan", "x", "", '"', "1,5",
             "label", "asv_score", "cm_score", "score", "speaker", "utterance", "filename",
             "cm-score", "é", "\ufeff", "\r", "1e999", "\x00", "A07"]
        ),
        max_size=6,
    ),
    max_size=5,
)  # fmt: skip
"""Words of score files in any order."""


@st.composite
def mutations(draw: st.DrawFn, valid: bytes) -> bytes:
    """A valid file with a few pieces cut out, doubled, overwritten or put in."""
    content = bytearray(valid)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(content)))
        size = draw(st.integers(0, min(40, len(content) - start)))
        kind = draw(st.integers(0, 3))
        piece = bytes(content[start : start + size])
        if kind == 1:
            piece += piece
        elif kind == 2:
            piece = draw(st.binary(max_size=8))
        else:
            piece = draw(st.sampled_from(WORDS)).encode() if kind == 3 else b""
        content[start : start + size] = piece
    return bytes(content)


def contents(*valid: bytes) -> st.SearchStrategy[bytes]:
    """What a file may hold: anything, or almost one of the valid files."""
    rows = st.tuples(st.sampled_from([" ", ",", "\t"]), ROWS).map(
        lambda drawn: "\n".join(drawn[0].join(row) for row in drawn[1])
    )
    texts = st.text(max_size=200) | rows
    wild = st.binary(max_size=200) | texts.map(str.encode)
    start = st.sampled_from([b"", *valid])
    return st.one_of(
        st.sampled_from(valid).flatmap(mutations), st.tuples(start, wild).map(b"".join)
    )


def bytes_of(folder: Path, write: Callable[[Path], object]) -> bytes:
    """Bytes of a file that one of our writers writes."""
    path = folder / "valid"
    write(path)
    return path.read_bytes()


FOLDER = TemporaryDirectory()
HERE = Path(FOLDER.name)
SCORES = toy_scores(90)


class Reader(NamedTuple):
    """A reader, what must hold of all that it returns, valid files to alter, and broken ones."""

    read: Callable[[Path], Any]
    right: Callable[[Any], bool]
    valid: Sequence[bytes]
    examples: Sequence[bytes] = ()
    name: str = "file"  # where it is read from
    share: int = 1  # one of so many examples is tried


def right_table(table: ScoreTable) -> bool:
    table.where(len(table) - 1)
    numbers = {name: table.numbers(name) for name in table.score_columns}
    return (
        len(table) > 0
        and not any(table.frame.null_count().row(0))
        and not any(np.isnan(values).any() for values in numbers.values())
        and all(np.isfinite(numbers.get(name, 0)).all() for name in ("asv_score", "cm_score"))
        and not (table.ids and table.frame.select(table.ids).is_duplicated().any())
    )


def right_parts(tables: list[ScoreTable]) -> bool:
    return all(right_table(replace(table, by_row=True)) for table in tables)


def right_counts(counts: Counts) -> bool:
    sizes = [int(one.fine.sum()) for one in counts.columns.values()]
    return sizes == [sum(counts.trials.values())] * len(sizes) and bool(counts.metrics() or True)


def right_store(store: EmbeddingStore) -> bool:
    shapes = store.vectors.shape == (len(store.ids), store.dim) == store.select(store.ids).shape
    return shapes and store.vectors.dtype == torch.float32 and store.vectors.isfinite().all()


def decides(scorer: Any) -> bool:
    return scorer(SCORES.asv[:3], SCORES.cm[:3]).accepted.shape == (3,)


def fitted(name: str) -> FusionSystem:
    return build_system(name).fit(SCORES.asv, SCORES.cm, SCORES.label)


def folder_of(name: str, files: dict[str, bytes]) -> Path:
    for place, content in files.items():
        (HERE / name / place).parent.mkdir(parents=True, exist_ok=True)
        (HERE / name / place).write_bytes(content)
    return HERE / name


def load_with_right_checksums(path: Path) -> Any:
    """Whoever alters a bundle can alter its checksums too."""
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    sums = json.loads(BUNDLE[CHECKSUMS]) | {path.name: digest}
    (path.parent / CHECKSUMS).write_text(json.dumps(sums))
    return load(path.parent)


def read_config(path: Path) -> bool:
    read_yaml(path)
    check_readable(["fit", "--config", str(path)])
    return True


def read_points(path: Path) -> tuple[Any, Any]:
    sweep = read_sweep(path)
    return sweep.points(), sweep.command()


STORE = EmbeddingStore(["a", "b", "c"], torch.arange(12.0).reshape(3, 4))
VECTORS = dict(zip(STORE.ids, STORE.vectors.numpy(), strict=True))
PICKLES = [pickle.dumps(VECTORS, 2), pickle.dumps(VECTORS, 5)]
PICKLES.append(pickle.dumps(OrderedDict(a=np.float32(1), b=[1, "x", None])))
SYSTEMS = [
    bytes_of(HERE, partial(save_system, system=fitted(name), about={"seed": 1}))
    for name in ("B1", "L3c", "L3t", "M3")
]
_PART = unrecorded(part=True, trials={"target": 1}, expected={"target": 2})
METRICS = bytes_of(
    HERE,
    lambda p: write_metrics(p, {"B1": {"sets": {"eval": {"values": {"cllr": 0.5}, "of": _PART}}}}),
)
_OLD = {"B1": {"corpus": "x", "eval": {"cllr": 0.5}}}
OLD_METRICS = bytes_of(HERE, lambda p: write_json(p, _OLD))
SWEEP = b"method: grid\ncommand: [a, ${args}]\nparameters: {x: {values: [1, 2]}, y: {value: 3}}\n"
COSTS = b"c_miss: 1\nc_fa_nontarget: 10\nc_fa_spoof: 20\np_target: 0.9\np_nontarget: 0.05\n"
CONFIG = (
    b"model:\n  systems: [B1]\ndata: {scale: 0.02}\ntrainer:\n  logger:\n  - class_path: torch.x\n"
)
CHECKPOINT = bytes_of(HERE, lambda p: torch.save({"state_dict": {"x": torch.ones(3)}}, p))
TEXTS = {name: text.encode() for name, text in LINES.items()}
PACKED = gzip.compress(TEXTS["csv"])
WRITTEN = {
    name: bytes_of(HERE, lambda p, name=name: write_table(p, from_scores(SCORES, p), name))
    for name in ("csv", "parquet", "arrays")
}
_COUNTS = Counts(("asv", "cm"))
_COUNTS.add(SCORES.label, SCORES.speaker, SCORES.attack, asv=SCORES.asv, cm=SCORES.cm)
COUNTS = bytes_of(HERE, lambda p: _COUNTS.save(f"{p}.counts.safetensors").replace(p))
RESULTS = {
    "scores/eval.csv": WRITTEN["csv"],
    "fitted/L3c.safetensors": SYSTEMS[1],
    "metrics.json": METRICS,
    "table.md": b"| system | x |\n|---|---|\n| B1 | 1 |\n",
}
write_bundle(HERE / "whole", fitted("L3t"), SCORES, PRESETS["equal"], name="L3t")
BUNDLE = {path.name: path.read_bytes() for path in (HERE / "whole").iterdir()}

READERS = {
    "trials": Reader(
        read_trials,
        lambda trials: len(trials) > 0 and set(trials.label.tolist()) <= {0, 1, 2},
        [b"S1 U1 bonafide target\nS1 U2 bonafide nontarget\nS2 U3 A07 spoof\n"],
    ),
    "utterances": Reader(
        read_utterances,
        lambda found: len(found) == len(set(found.utterance.tolist())) > 0,
        [b"S1 U1 - - bonafide\nS1 U2 - A01 spoof\n"],
    ),
    "enrolment": Reader(
        read_enrolment,
        lambda found: all(name and names and all(names) for name, names in found.items()),
        [b"S1 U1,U2\nS2 U3\n"],
        [b"S1 ,\n", b"\t\x01"],
    ),
    "scores of any layout": Reader(read_table, right_table, list(TEXTS.values())),
    "scores in parts": Reader(lambda path: list(scan(path)), right_parts, list(TEXTS.values())),
    "packed scores": Reader(read_table, right_table, [PACKED]),
    "packed scores in parts": Reader(lambda path: list(scan(path)), right_parts, [PACKED]),
    "counts": Reader(Counts.load, right_counts, [COUNTS]),
    "score pairs": Reader(
        read_scores,
        lambda scores: (
            len(scores.asv) == len(scores.cm) == len(scores.label) > 0
            and set(np.unique(scores.label)) <= {0, 1, 2}
        ),
        [TEXTS["csv"]],
    ),
    "pickle": Reader(load_pickle, lambda _: True, PICKLES),
    "pickled embeddings": Reader(EmbeddingStore.from_pickle, right_store, PICKLES),
    "embeddings": Reader(EmbeddingStore.load, right_store, [bytes_of(HERE, STORE.save)]),
    "fitted system": Reader(
        lambda path: read_fitted(path)(SCORES.asv, SCORES.cm),
        lambda fused: fused.sasv.shape[-1] == len(SCORES.asv),
        SYSTEMS,
    ),
    "metrics": Reader(
        read_metrics, lambda found: isinstance(parts_of(found), list), [METRICS, OLD_METRICS]
    ),
    "marker of a corpus": Reader(
        lambda path: corpus_name(path.parent, None),
        lambda name: isinstance(name, str),
        [b'{"name": "x"}'],
        name=MARKER,
    ),
    "sweep": Reader(
        read_points,
        lambda found: (
            all(isinstance(point, dict) for point in found[0])
            and all(isinstance(word, str) for word in found[1])
        ),
        [SWEEP],
        [
            b"\x80",
            SWEEP.replace(b"[a, ${args}]", b"3"),
            SWEEP.replace(b"{values: [1, 2]}", b"{values: 1}"),
        ],
    ),
    "costs": Reader(
        lambda path: read_costs(str(path)),
        lambda costs: math.isclose(
            costs.p_target + costs.p_nontarget + costs.p_spoof, 1, abs_tol=1e-6
        ),
        [COSTS + b"p_spoof: 0.05\n"],
        [b"x: 1\n2: 1\n"],
    ),
    "configuration": Reader(read_config, bool, [CONFIG], name="config.yaml"),
    "checkpoint": Reader(
        read_checkpoint, lambda found: isinstance(found["state_dict"], dict), [CHECKPOINT]
    ),
    "bundle with right checksums": Reader(
        load_with_right_checksums, decides, [BUNDLE["bundle.json"]], name="signed/bundle.json"
    ),
}
for layout in (None, *LAYOUTS):
    valid = TEXTS.get(layout or "csv") or WRITTEN[layout or "csv"]  # every entry has a sample
    read = partial(read_table, format=layout)
    READERS[f"scores as {layout}"] = Reader(read, right_table, [valid], share=4)
folder_of("signed", BUNDLE)
for part in BUNDLE:
    place = folder_of(f"bundle-{part}", BUNDLE).name
    READERS[f"bundle of a broken {part}"] = Reader(
        lambda path: load(path.parent), decides, [BUNDLE[part]], (), f"{place}/{part}", len(BUNDLE)
    )
for part in RESULTS:
    place = folder_of(f"results-{Path(part).stem}", RESULTS)
    READERS[f"results with a broken {part}"] = Reader(
        lambda path, place=place: read_results(place),
        lambda results: bool(results.fused),
        [RESULTS[part]],
        name=f"{place.name}/{part}",
        share=40,
    )


@pytest.mark.parametrize("name", READERS)
def test_reader(name: str) -> None:
    reader = READERS[name]
    path = HERE / reader.name
    named = path if path.parent == HERE else path.parent

    @type(fuzzed)(fuzzed, max_examples=max(5, fuzzed.max_examples // reader.share))
    @given(contents(*reader.valid))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        said, found = "", None
        try:
            found = reader.read(path)
        except InputError as error:
            said = str(error)
        assert str(named) in said if said else reader.right(found)

    for content in reader.examples:
        check = example(content)(check)
    check()
