"""Small things that several tests need."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv.callbacks import FitFusion, KeepBest, SaveLast, WriteResults
from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, SASVDataModule
from lightning_sasv.metrics_file import as_version_1
from lightning_sasv.results import METRICS_FILE, read_metrics


def shared_data(corpus: Corpus, **kwargs: Any) -> SASVDataModule:
    """Data module over a corpus that was made before."""
    data = SASVDataModule(**kwargs)
    data.__dict__["corpus"] = corpus
    return data


def plain_trainer(epochs: int, callbacks: list[pl.Callback], **kwargs: Any) -> pl.Trainer:
    """Trainer on the CPU with these callbacks alone, without logger and progress bar."""
    settings = {
        "logger": False,
        "accelerator": "cpu",
        "num_sanity_val_steps": 0,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "deterministic": True,
    }
    return pl.Trainer(max_epochs=epochs, callbacks=callbacks, **(settings | kwargs))


def quiet_trainer(folder: Path, epochs: int = 2, best: bool = True, **kwargs: Any) -> pl.Trainer:
    """Trainer as that of ``fit``, which ends with the best epoch or not."""
    callbacks = [SaveLast(), FitFusion(), WriteResults(), *kwargs.pop("callbacks", [])]
    kwargs = {"logger": CSVLogger(folder, name="run"), "use_distributed_sampler": False} | kwargs
    return plain_trainer(epochs, [KeepBest(), *callbacks] if best else callbacks, **kwargs)


def best_checkpoint(trainer: pl.Trainer) -> Path:
    """The checkpoint of the best epoch."""
    return Path(trainer.log_dir or "") / "checkpoints" / "best.ckpt"


def metrics_in(folder: Path) -> dict[str, Any]:
    """``metrics.json`` of a folder in the shape of version 1: metrics by system and set."""
    return as_version_1(read_metrics(folder / METRICS_FILE))


def content(path: Path) -> bytes:
    """Bytes of a file; of metrics without what two equal runs do not share.

    That is the date, and the hash of a checkpoint, which names the folder of its run.
    """
    found = path.read_bytes()
    if path.name != METRICS_FILE and b'"lightning_sasv.metrics"' not in found[:60]:
        return found
    return json.dumps(_undated(json.loads(found))).encode()


def results_in(folder: Path, *suffixes: str) -> dict[str, bytes]:
    """Content of the results in a folder, without logs and checkpoints of the training.

    Args:
        folder: The folder.
        suffixes: Kinds of files; by default all.
    """
    found = [p for p in sorted(folder.rglob("*")) if p.is_file() and "training" not in p.parts]
    kept = [p for p in found if not suffixes or p.suffix in suffixes]
    return {str(p.relative_to(folder)): content(p) for p in kept}


def _undated(found: Any) -> Any:
    if isinstance(found, dict):
        return {k: _undated(v) for k, v in found.items() if k not in ("date", "sha256")}
    return [_undated(one) for one in found] if isinstance(found, list) else found


def failure_of(capture: pytest.CaptureFixture[str], *args: str | Path, code: int = 2) -> str:
    """What a command says that must fail with this code."""
    capture.readouterr()
    with pytest.raises(SystemExit) as ended:  # anything else would be a traceback
        main([str(word) for word in args])
    message = capture.readouterr().err
    assert ended.value.code == code, message
    return message


_MEASURED = """import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"""


def run_measured(folder: Path, *args: str) -> tuple[str, float]:
    """Run a command in ``folder``: what it prints, and the peak in GB of its largest process."""
    command = [sys.executable, "-m", "lightning_sasv.cli", *args]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURED, *command],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *lines, kilobytes = done.stdout.splitlines()
    return "\n".join(lines), int(kilobytes) / 2**20
