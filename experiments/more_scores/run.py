"""Two verifiers and two countermeasures in place of one of each; see README.md beside this file.

Run: ``python experiments/more_scores/run.py [--data DIR] [--scale 1.0] [--out DIR]``
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import numpy as np
import polars as pl
import torch

from lightning_sasv.data import make_twin
from lightning_sasv.data.corpus import Corpus, TrialSet
from lightning_sasv.evaluation import fuse
from lightning_sasv.fusion.logistic import logistic_of_side
from lightning_sasv.trials import TrialClass

FIRST = ("asv_first", "cm_first")
NAMES = ("asv_first", "asv_second", "cm_first", "cm_second")
SYSTEMS = "B1,B1c,L2,L2c,L3,L3c,L3t,M3,J3,Q3,Q3cv"
SHOWN = ("sasv_eer", "sv_eer", "spf_eer", "cllr", "cllr_min", "policy_a_dcf")


def countermeasure(corpus: Corpus, dims: slice) -> tuple[np.ndarray, float]:
    """Logistic regression of bona fide against spoof on some dimensions of the CM embedding."""
    vectors = corpus.train.vectors[:, dims].double().numpy().T
    bonafide = corpus.train.utterances.bonafide
    pos, neg = vectors[:, bonafide], vectors[:, ~bonafide]
    weights = 0.5 / pos.shape[1], 0.5 / neg.shape[1]
    names = [f"dimension {k}" for k in range(len(vectors))]
    return logistic_of_side(pos, neg, weights, 1e-3, names)


def verifier(data: TrialSet, dims: slice) -> np.ndarray:
    """Cosine of probe and model by some dimensions of the ASV embedding."""
    probes = data.asv.select(data.trials.utterance.tolist())[:, dims].double()
    models = data.models.select(data.trials.speaker.tolist())[:, dims].double()
    return torch.cosine_similarity(probes, models).numpy()


def twin_scores(corpus: Corpus, folder: Path) -> dict[str, Path]:
    """Four scores of every trial of the twin, as two CSV files.

    Each verifier sees one half of the ASV embedding, each countermeasure one half of the CM
    embedding, so that their errors differ; the countermeasures are fitted to the training set.
    """
    folder.mkdir(parents=True, exist_ok=True)
    halves = slice(0, 80), slice(80, 160)
    maps = [(half, *countermeasure(corpus, half)) for half in halves]
    files = {}
    for data in (corpus.dev, corpus.eval):
        scores = [verifier(data, half) for half in (slice(0, 96), slice(96, 192))]
        for half, weight, bias in maps:
            probes = data.probe_vectors[:, half].double().numpy() @ weight + bias
            scores.append(probes[data.probe_of_trial.numpy()])
        words = {int(code): str(code) for code in TrialClass}
        trials = {name: getattr(data.trials, name).tolist() for name in ("speaker", "utterance")}
        trials["label"] = [words[code] for code in data.label.tolist()]
        files[data.name] = folder / f"{data.name}_scores.csv"
        pl.DataFrame(trials | dict(zip(NAMES, scores, strict=True))).write_csv(files[data.name])
    return files


def show(
    title: str, files: dict[str, Path], out: Path, pair: tuple[str, str], own: str = ""
) -> None:
    """Fuse the pair and all columns, and print a table of both."""
    print(f"\n{title}\n\n| system | columns | {' | '.join(SHOWN)} |\n{'|---' * (2 + len(SHOWN))}|")
    for columns, scores, systems in (
        ("pair", ",".join(pair), "L3c,L3t,M3,Q3,Q3cv"),
        ("four", None, SYSTEMS + own),
    ):
        paths = {"dev": str(files["dev"]), "eval": str(files["eval"])}
        target = str(out / columns)
        found = fuse(**paths, systems=systems, out=target, scores=scores, overwrite=True)
        for name, entry in found.metrics.items():
            values = entry["sets"]["eval"]["values"]
            rates = [100 * values[key] if key.endswith("eer") else values.get(key) for key in SHOWN]
            cells = ["–" if one is None else f"{one:.3f}" for one in rates]
            print(f"| {name} | {columns} | {' | '.join(cells)} |")
        for name, reason in found.failed.items():
            print(f"| {name} | {columns} | not fitted: {reason} |")


def main() -> None:
    """Both experiments; that on real scores only where they are."""
    shared = Path(os.environ.get("SASV_SHARED", Path(__file__).parents[3] / "shared"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=shared / "data/sasv2022_more")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--out", type=Path, default=Path("results/more_scores"))
    options = parser.parse_args()
    files = twin_scores(make_twin(options.scale), options.out / "twin_scores")
    show("Twin (simulated)", files, options.out / "twin", FIRST)
    files = {part: options.data / f"{part}_scores.csv" for part in ("dev", "eval")}
    if all(file.is_file() for file in files.values()):
        own = f",{Path(__file__).with_name('systems.yaml')}"
        show("SASV 2022", files, options.out / "sasv2022", ("asv_ecapa", "cm_aasist"), own)
    else:
        print(f"\nSASV 2022 is left out: no dev_scores.csv and eval_scores.csv in {options.data}")


if __name__ == "__main__":
    main()
