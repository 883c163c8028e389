"""Chooses how to train on a corpus of a few hundred recordings, by its dev set alone.

CV-SA, cross-validation over speakers × attacks: each attack in turn is left out of train and of the
fit, and each dev speaker out of the fit; only trials of that speaker are scored, of its spoofs only
those of that attack. The parts are pooled; bona fide trials are in them once for each attack, so
spoofs count as often. Criterion: least SASV-EER, then least Cllr_min, means over the seeds: two for
all points, six for the best three.

`choose.py --root DIR --protocols DIR` scores every point of sweep.yaml, writes choice.csv, and
shows what the choice, trained with six seeds, gives on eval, speaker by speaker. With the options
of one point it scores that one, as a run of `lightning sweep`, or with `--eval` evaluates it.
"""

from __future__ import annotations

import argparse
import csv
import json
import logging
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import yaml
from pytorch_lightning import Trainer

from lightning_sasv.console import print_line, print_written
from lightning_sasv.data import Corpus, SASVDataModule
from lightning_sasv.data.challenge import load_corpus
from lightning_sasv.data.corpus import TrainingSet, TrialSet
from lightning_sasv.data.protocols import UtteranceList
from lightning_sasv.experiment.recipe import digest
from lightning_sasv.experiment.sweep_file import grid
from lightning_sasv.fusion import build_system
from lightning_sasv.metrics.functional import cllr_min, eer, sasv_eers
from lightning_sasv.models import SASVModule
from lightning_sasv.models.heads import RECIPES
from lightning_sasv.results import METRICS_FILE, write_metrics
from lightning_sasv.trials import TrialClass

HERE = Path(__file__).parent
SEEDS, FINAL_SEEDS, FINALISTS = (1986, 1987), tuple(range(1986, 1992)), 3
KNOWN = ("network", "class_weights", "lr", "weight_decay", "epochs")
"""A network is head, objective and system, as cm/fused/L3."""
NEURAL = "A08"
"""The one attack of the mini corpus that ends in a neural vocoder, unlike all of train and dev."""


def without(corpus: Corpus, attack: str | None) -> Corpus:
    """The same corpus, but for an attack in its training set."""
    rows = corpus.train.utterances
    keep = rows.attack != attack
    columns = {
        name: values for name, values in vars(rows).items() if isinstance(values, np.ndarray)
    }
    kept = UtteranceList(**{name: values[keep] for name, values in columns.items()})
    return replace(corpus, train=TrainingSet(kept, corpus.train.cm, corpus.train.find_asv))


def trained(corpus: Corpus, point: dict[str, Any], seeds: Sequence[int]) -> SASVModule:
    """Heads after the last epoch: no dev trial is looked at."""
    head, objective, system = point["network"].split("/")
    settings = {name: point[name] for name in ("lr", "weight_decay", "class_weights")}
    shape = {n: v for n, v in RECIPES.get(system, {}).items() if n in ("hidden_dims", "lr_decay")}
    settings |= {"head": head, "objective": objective, **shape}
    module = SASVModule(**settings, systems=(), seeds=tuple(seeds))
    data = SASVDataModule(seeds=tuple(seeds))
    data.__dict__["corpus"] = corpus
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            max_epochs=point["epochs"],
            accelerator="cpu",
            limit_val_batches=0,
            enable_model_summary=False,
            default_root_dir=folder,
            **quiet,
        ).fit(module, data)
    return module


@torch.no_grad()
def pairs_of(module: SASVModule, corpus: Corpus, split: str) -> np.ndarray:
    """The two scores of each trial that systems fuse, (seeds, 2, trials)."""
    data: TrialSet = getattr(corpus, split)
    module.head.eval()
    if module.joint:
        scores = module.head.score(data.trial_vectors(torch.arange(len(data.trials))))
        return module.parts[0].pair(scores).double().numpy().transpose(0, 2, 1)
    found = module.head.score(data.probe_vectors).double().view(len(module.seeds), -1)
    asv = data.asv_scores.double().expand(len(module.seeds), -1)
    return torch.stack([asv, found[:, data.probe_of_trial]], 1).numpy()


def parts(corpus: Corpus) -> Iterator[tuple[str, str, np.ndarray, np.ndarray]]:
    """Attack and speaker that are left out, trials of the fit, trials that are scored."""
    dev = corpus.dev.trials
    spoof = dev.label == TrialClass.SPOOF
    for attack in sorted(set(dev.attack[spoof].tolist())):
        for speaker in sorted(set(dev.speaker.tolist())):
            of_attack, of_speaker = spoof & (dev.attack == attack), dev.speaker == speaker
            yield attack, speaker, ~of_speaker & ~of_attack, of_speaker & (~spoof | of_attack)


def cross_validate(
    corpus: Corpus, point: dict[str, Any], systems: Sequence[str], seeds: Sequence[int] = SEEDS
) -> list[dict[str, float]]:
    """CV-SA of a training with each system: SASV-EER and Cllr_min of the pooled parts.

    Both are means over the seeds.
    """
    label, attacks = corpus.dev.trials.label, sorted({attack for attack, *_ in parts(corpus)})
    scores = {
        attack: pairs_of(trained(without(corpus, attack), point, seeds), corpus, "dev")
        for attack in attacks
    }
    values = []
    for name in systems:
        pooled: list[list[tuple[np.ndarray, np.ndarray]]] = [[] for _ in seeds]
        for attack, _, fit, scored in parts(corpus):
            times = np.where(label[scored] == TrialClass.SPOOF, len(attacks), 1)
            for seed, pair in zip(pooled, scores[attack], strict=True):
                system = build_system(name).fit(*pair[:, fit], label[fit])
                fused = np.asarray(system(*pair[:, scored]).sasv)
                seed.append((fused.repeat(times), label[scored].repeat(times)))
        found = [tuple(map(np.concatenate, zip(*seed, strict=True))) for seed in pooled]
        rates = [sasv_eers(*one).sasv for one in found]
        lowest = [cllr_min(s[c == 1], s[c != 1]) for s, c in found]
        values.append({"sasv_eer": float(np.mean(rates)), "cllr_min": float(np.mean(lowest))})
    return values


def evaluate(corpus: Corpus, point: dict[str, Any]) -> dict[str, Any]:
    """What a point gives on eval, trained with six seeds, its system fitted on all of dev."""
    module, rows = trained(corpus, point, FINAL_SEEDS), corpus.eval.trials
    dev, evaluation = (pairs_of(module, corpus, split) for split in ("dev", "eval"))
    name, label = system_of(point), corpus.dev.trials.label
    fits = [build_system(name).fit(*pair, label) for pair in dev]
    fused = [np.asarray(one(*pair).sasv) for one, pair in zip(fits, evaluation, strict=True)]
    rates = [100 * sasv_eers(one, rows.label).sasv for one in fused]
    neural, mean = rows.attack == NEURAL, np.mean(fused, axis=0)
    target = rows.label == TrialClass.TARGET
    speakers = {}
    for name in sorted(set(rows.speaker.tolist())):
        own = rows.speaker == name
        speakers[str(name)] = 100 * sasv_eers(mean[own], rows.label[own]).sasv
    found = {"SASV-EER of each seed": rates, "mean": float(np.mean(rates)), "speakers": speakers}
    if neural.any():
        rest = ~neural
        found["without " + NEURAL] = float(
            np.mean([100 * sasv_eers(one[rest], rows.label[rest]).sasv for one in fused])
        )
        apart = [100 * eer(one[target], one[neural]).value for one in fused]
        found["SPF-EER of " + NEURAL] = float(np.mean(apart))
    return found


def system_of(point: dict[str, Any]) -> str:
    """The system of a point."""
    name: str = point["network"].split("/")[2]
    return name


def sweep_points() -> list[dict[str, Any]]:
    """The points of sweep.yaml, values as their types."""
    content = yaml.safe_load((HERE / "sweep.yaml").read_text())
    return [{n: _value(v) for n, v in point.items()} for point in grid(content["parameters"])]


def _value(text: object) -> Any:
    found = json.loads(text) if isinstance(text, str) and text[:1] == "[" else text
    return tuple(found) if isinstance(found, list) else found


def main() -> None:
    """Score one point or all, or evaluate one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", required=True, help="embeddings")
    parser.add_argument("--protocols", help="protocols, where they are not below ROOT")
    parser.add_argument("--out", default="results/small_corpus")
    parser.add_argument("--eval", action="store_true", help="the point's values on eval")
    parser.add_argument("--network", help="head/objective/system, as film/three_class/F3")
    parser.add_argument("--class_weights", type=_value)
    for name, number in (("lr", float), ("weight_decay", float), ("epochs", int)):
        parser.add_argument(f"--{name}", type=number)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    torch.set_num_threads(1)
    _run(load_corpus(args.root, args.protocols), Path(args.out), args)


def _run(corpus: Corpus, out: Path, args: argparse.Namespace) -> None:
    """Do what was asked for."""
    point = {name: getattr(args, name) for name in KNOWN}
    out.mkdir(parents=True, exist_ok=True)
    if args.eval:
        for name, value in evaluate(corpus, point).items():
            print_line(f"{name}: {json.dumps(value)}")
    elif None not in point.values():
        folder = out / digest(list(map(str, point.values())))
        folder.mkdir(exist_ok=True)
        [found] = cross_validate(corpus, point, [system_of(point)])
        sets = {"dev": {"values": found}}
        write_metrics(folder / METRICS_FILE, {system_of(point): {"sets": sets}})
        print_line(f"CV-SA: {found}")
        print_written(folder)
    else:
        print_written(_choose(corpus, out / "choice.csv"))


def _choose(corpus: Corpus, path: Path) -> Path:
    """Score every point of sweep.yaml, the best again, and evaluate the choice."""
    rows = list[dict[str, Any]]()
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*KNOWN, "seeds", "sasv_eer", "cllr_min"])
        writer.writeheader()
        for points in trainings(sweep_points()):
            values = cross_validate(corpus, points[0], [system_of(point) for point in points])
            for point, found in zip(points, values, strict=True):
                rows.append({**point, "seeds": len(SEEDS), **found})
                writer.writerow(rows[-1])
            file.flush()
        for row in sorted(rows, key=_criterion)[:FINALISTS]:
            [found] = cross_validate(corpus, row, [system_of(row)], FINAL_SEEDS)
            rows.append({**row, "seeds": len(FINAL_SEEDS), **found})
            writer.writerow(rows[-1])
    best = min((row for row in rows if row["seeds"] == len(FINAL_SEEDS)), key=_criterion)
    print_line(f"chosen: {best}")
    for name, value in evaluate(corpus, best).items():
        print_line(f"eval, {name}: {json.dumps(value)}")
    return path


def trainings(points: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Points that share a training: they differ in the system alone."""
    found: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        network = point["network"].rpartition("/")[0]
        found.setdefault(str({**point, "network": network}), []).append(point)
    return list(found.values())


def _criterion(row: dict[str, Any]) -> tuple[float, float]:
    return row["sasv_eer"], row["cllr_min"]


if __name__ == "__main__":
    main()
