"""Every file we write appears whole or not at all: writers are killed at each step of writing."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch

from lightning_sasv.checkpoints import AtomicCheckpointIO, read_checkpoint
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.protocols import read_trials, write_trials
from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy.bundle import load, write_bundle
from lightning_sasv.files import write_text
from lightning_sasv.fitted import read_fitted, save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.record import unrecorded
from lightning_sasv.report import write_report
from lightning_sasv.results import merge_metrics, read_metrics, write_metrics
from lightning_sasv.scores import read_table, write_scores, write_table
from lightning_sasv.scores.table import from_scores
from tests.faults.forks import finish
from tests.scores.samples import toy_scores

SCORES = toy_scores(90)
STORE = EmbeddingStore([f"u{n}" for n in range(50)], torch.rand(50, 8))
TRIALS = "".join(f"S{n} U{n} bonafide target\n" for n in range(500))
METRICS = {"B1": {"sets": {"eval": {"values": {"cllr": 0.5}, "of": unrecorded()}}}}


def fitted() -> FusionSystem:
    return build_system("L3t").fit(SCORES.asv, SCORES.cm, SCORES.label)


def trial_list(path: Path) -> None:
    source = path.with_name("source")
    source.write_text(TRIALS)
    write_trials(path, read_trials(source))


def page(path: Path) -> None:
    folder = path.parent / "results"
    write_scores(folder / "scores" / "eval.csv", SCORES)
    save_system(folder / "fitted" / "L3t.safetensors", fitted(), {})
    write_report(str(folder), str(path))


def is_page(path: Path) -> None:
    assert path.read_text().rstrip().endswith("</html>")


WRITERS: dict[str, tuple[Callable[[Path], object], Callable[[Path], object]]] = {
    "text": (lambda p: write_text(p, TRIALS), lambda p: p.read_text() == TRIALS or 1 / 0),
    "protocol": (trial_list, read_trials),
    "store": (STORE.save, EmbeddingStore.load),
    "pickle": (STORE.to_pickle, EmbeddingStore.from_pickle),
    "system": (lambda p: save_system(p, fitted(), {}), read_fitted),
    "scores": (lambda p: write_scores(p, SCORES), read_table),
    "parquet": (lambda p: write_table(p, from_scores(SCORES, p), "parquet"), read_table),
    "asvspoof5": (
        lambda p: write_table(p, from_scores(SCORES, p), "sasv2022-protocol"),
        read_table,
    ),
    "metrics": (lambda p: write_metrics(p, METRICS), read_metrics),
    "merged": (lambda p: merge_metrics(p, METRICS), read_metrics),
    "checkpoint": (
        lambda p: AtomicCheckpointIO().save_checkpoint({"state_dict": {"x": torch.rand(9)}}, p),
        read_checkpoint,
    ),
    "page": (page, is_page),
}
"""Writer, and reader that raises where a file is not whole."""

MOMENTS = {
    "before the flush": "os.fsync",
    "between flush and rename": "os.chmod",
    "before the rename": "os.rename",
}


def die() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("unreachable")


def is_of(path: Path, file: int) -> bool:
    """Whether an open file is the temporary one of ``path``."""
    return f".{path.name}." in str(Path(f"/proc/self/fd/{file}").readlink())


def write_and_die(writer: str, moment: str, path: Path) -> None:
    """Write ``path``, and be killed at a moment of that (not of a file that it is made from)."""
    torch.set_num_threads(1)
    sync = os.fsync

    def fsync(fd: Any) -> None:
        if is_of(path, fd):
            die()
        sync(fd)

    def audit(event: str, args: tuple[object, ...]) -> None:
        if event == MOMENTS[moment] and f".{path.name}." in str(args[0]):
            die()

    if MOMENTS[moment] == "os.fsync":
        os.fsync = fsync
    sys.addaudithook(audit)
    WRITERS[writer][0](path)


needs_proc = pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")


@needs_proc
@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("writer", WRITERS)
def test_killed_writer_leaves_nothing_or_the_old_file(
    writer: str, moment: str, tmp_path: Path
) -> None:
    write, read = WRITERS[writer]
    path = tmp_path / "result.bin"
    assert finish(write_and_die, writer, moment, path) == -signal.SIGKILL
    assert not path.exists()
    write(path)
    read(path)
    old = path.read_bytes()
    assert finish(write_and_die, writer, moment, path) == -signal.SIGKILL
    assert path.read_bytes() == old


@needs_proc
@pytest.mark.parametrize("writer", WRITERS)
def test_failed_writer_leaves_no_temporary_file(
    writer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "result.bin"
    real = os.fsync

    def full(file: int) -> None:
        if is_of(path, file):
            raise OSError(28, "No space left on device")
        real(file)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ValueError, match=r"result.bin.*No space left"):
        WRITERS[writer][0](path)
    assert not path.exists()
    assert not list(tmp_path.glob(".*"))


def export_and_die(out: Path, step: int) -> None:
    """Export a bundle, and be killed before one of its renames."""
    seen = 0

    def audit(event: str, args: tuple[object, ...]) -> None:
        nonlocal seen
        if event == "os.rename":  # three files, and the folder itself
            if seen == step:
                die()
            seen += 1

    torch.set_num_threads(1)
    sys.addaudithook(audit)
    export(out)


def export(out: Path) -> None:
    write_bundle(out, fitted(), SCORES, PRESETS["equal"], name="L3t")


@pytest.mark.parametrize("step", range(4))
def test_killed_export_leaves_no_bundle(step: int, tmp_path: Path) -> None:
    out = tmp_path / "bundle"
    assert finish(export_and_die, out, step) == -signal.SIGKILL
    assert not out.exists()
    export(out)
    assert load(out)(SCORES.asv, SCORES.cm).accepted.shape == (len(SCORES.asv),)
