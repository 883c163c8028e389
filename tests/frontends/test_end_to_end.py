"""Real audio to a SASV-EER: extract, fit, evaluate on the small corpus of real recordings.

The corpus is small (220 training recordings, 54 target trials in eval, so that one of them is
1.9 % of the miss rate), and its training set has as many bona fide as spoofed recordings where that
of SASV 2022 has nine times fewer. Hence the settings of ``configs/model/small_corpus.yaml``.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from lightning_sasv import cli
from lightning_sasv.data import EmbeddingStore, SASVDataModule
from lightning_sasv.data.challenge import load_corpus
from lightning_sasv.frontends import AASIST
from lightning_sasv.metrics.functional import eer
from lightning_sasv.metrics_file import values_in
from lightning_sasv.models import SASVModule
from lightning_sasv.results import METRICS_FILE, read_metrics
from lightning_sasv.trials import TrialClass
from tests.helpers import best_checkpoint, quiet_trainer

Metrics = dict[str, dict[str, Any]]


def evaluate(root: Path, protocols: Path, folder: Path, seed: int, settings: Path) -> Metrics:
    """Metrics by system on eval, of the checkpoint with the best CM EER on dev."""
    chosen = yaml.safe_load(settings.read_text())
    data = SASVDataModule(root=str(root), protocols=str(protocols), seeds=(seed,))
    module = SASVModule(systems=("L3c", "B1"), seeds=(seed,), **chosen["model"])
    trainer = quiet_trainer(folder, chosen["trainer"]["max_epochs"])
    trainer.fit(module, data)
    best = best_checkpoint(trainer)
    for stage in (trainer.validate, trainer.test):
        stage(module, datamodule=data, ckpt_path=best, verbose=False)
    return metrics_below(folder)


def metrics_below(folder: Path) -> Metrics:
    (found,) = folder.rglob(METRICS_FILE)
    return {name: values_in(entry, "eval") for name, entry in read_metrics(found).items()}


def check(metrics: Metrics) -> None:
    """Far from chance, below 8 %, and better than the plain sum."""
    assert metrics["L3c"]["sasv_eer"] < 0.08
    assert metrics["L3c"]["sasv_eer"] < metrics["B1"]["sasv_eer"] - 0.02
    assert metrics["L3c"]["sv_eer"] < 0.05
    assert metrics["L3c"]["spf_eer"] < 0.25  # attacks that training has not seen
    assert metrics["B1"]["cm_eer"] < 0.3  # AASIST alone: 0.258


@pytest.mark.parametrize("seed", [1986, 1987])
def test_the_trained_head_on_ready_made_embeddings(
    shared: Path, tmp_path: Path, repository: Path, seed: int
) -> None:
    data, settings = shared / "data", repository / "configs" / "model" / "small_corpus.yaml"
    check(evaluate(data / "mini_la_embeddings", data / "mini_la/LA", tmp_path, seed, settings))


def check_embeddings(found: EmbeddingStore, wanted: EmbeddingStore) -> None:
    """Every wanted embedding is there, with the same values.

    One recording in some hundreds may have two nodes in AASIST's graphs whose scores differ by less
    than the precision of float32; it may take the other order.
    """
    difference = (found.select(wanted.ids) - wanted.vectors).abs().amax(dim=1)
    difference /= wanted.vectors.abs().max()
    assert int((difference > 1e-5).sum()) <= len(wanted) // 100
    assert float(difference.max()) < 0.05


def own_cm_eers(aasist: AASIST, root: Path, protocols: Path) -> dict[str, float]:
    """CM EER of AASIST's own logits on dev and eval."""
    corpus = load_corpus(root, protocols)
    found = {}
    for name, split in (("dev", corpus.dev), ("eval", corpus.eval)):
        trials = split.trials
        spoofed = dict(zip(trials.utterance, trials.label == TrialClass.SPOOF, strict=True))
        with torch.no_grad():
            logits = aasist.out_layer(split.cm.select(list(spoofed)))
        score, spoof = (logits[:, 1] - logits[:, 0]).numpy(), np.array(list(spoofed.values()))
        found[name] = float(eer(score[~spoof], score[spoof]).value)
    return found


def demo_commands(repository: Path, audio: Path, folder: Path) -> list[list[str]]:
    """Words of the commands that ``make audio-demo`` would run; nothing is run or installed."""
    words = ["audio-demo", f"AUDIO={audio}", f"DEMO={folder}", f"VENV={folder / 'absent'}"]
    if shutil.which("make") is None:
        pytest.skip("there is no make here")
    command = ["make", "--dry-run", "--no-print-directory", *words]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, check=True)
    lines = [shlex.split(line) for line in done.stdout.splitlines() if "/lightning " in line]
    return [[str(repository / w) if w.startswith("configs/") else w for w in x[1:]] for x in lines]


def test_the_demo_finds_the_weights_beside_the_audio(repository: Path, shared: Path) -> None:
    for audio in (shared / "data" / "mini_la", shared / "data" / "mini_la" / "LA"):
        extract, fit, table = demo_commands(repository, audio, Path("demo"))
        assert (extract[0], fit[0], table[0]) == ("extract", "fit", "table")
        for option, name in (("--cm", "AASIST.pth"), ("--asv", "ecapa")):
            path = Path(extract[extract.index(option) + 1])
            assert path.samefile(shared / "data" / "weights" / name)


@pytest.mark.slow
@pytest.mark.timeout(3600)  # five minutes of CPU time, on a machine that may be busy
def test_from_audio_to_the_sasv_eer(
    shared: Path, aasist: AASIST, tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What ``make audio-demo`` runs, on all 646 recordings."""
    audio, out = shared / "data" / "mini_la", tmp_path / "demo" / "embeddings"
    extract, fit, table = demo_commands(repository, audio, tmp_path / "demo")
    monkeypatch.chdir(tmp_path)
    cli.main([*extract, "--strict"])
    for path in (shared / "data" / "mini_la_embeddings").glob("*.pk"):
        if path.stem != "asv_embd_trn":  # not needed, hence not made
            found = EmbeddingStore.load(out / f"{path.stem}.safetensors")
            check_embeddings(found, EmbeddingStore.from_pickle(path))
    own = own_cm_eers(aasist, out, audio)
    assert own == pytest.approx({"dev": 0.158, "eval": 0.258}, abs=0.01)
    cli.main([*fit, "--seed_everything", "1986"])
    check(metrics_below(tmp_path / "runs"))
    cli.main([*table, "--seeds", "1986", "--replicates", "40"])
    check(metrics_below(tmp_path / "demo" / "table1" / "seed1986"))
