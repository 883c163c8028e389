"""How much faster is our training than a plain per-item Lightning version of the same thing?

Both train the 258-128-64 head for epochs of 25,380 sampled trials in batches of 24 (1,058 steps) on
the full-scale twin (simulated embeddings at the size of the real corpus), and both score its 29,548
dev trials. The plain version is what one writes first: a Dataset that draws one trial per item from
dictionaries of embeddings, a DataLoader, `nn.Linear` layers, Adam and automatic optimisation. It
logs nothing, while ours logs once an epoch. No progress bar in either. One thread each, they take
turns, and medians over the rounds are compared. Then three stacked seeds of objective `fused`, and
of the heads `concat` and `film`, beside those of the CM head.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import resource
import statistics
import tempfile
import time
import warnings

import pytorch_lightning as pl
import torch
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, cross_entropy
from torch.utils.data import DataLoader, Dataset

from lightning_sasv.data import Corpus, SASVDataModule
from lightning_sasv.models import SASVModule
from lightning_sasv.models.heads import RECIPES

CLAIMS = {"train": 2.0, "dev": 10.0}
"""How many times faster ours has to be, at full scale."""
OTHERS = {"Post": ("objective fused", 1.4), "E2": ("head concat", 2.5), "F3": ("head film", None)}
"""How many times an epoch of the CM head one of these may take, by system."""


class PlainTrials(Dataset[tuple[Tensor, int]]):
    """One randomly drawn training trial per item."""

    def __init__(self, corpus: Corpus) -> None:
        lists = corpus.train.utterances
        vectors = corpus.train.cm.vectors.numpy()
        self.cm = dict(zip(corpus.train.cm.ids, vectors, strict=True))
        self.bonafide: dict[str, list[str]] = {}
        self.spoof: dict[str, list[str]] = {}
        for speaker, name, genuine in zip(
            lists.speaker.tolist(), lists.utterance.tolist(), lists.bonafide.tolist(), strict=True
        ):
            (self.bonafide if genuine else self.spoof).setdefault(speaker, []).append(name)
        self.size = len(lists)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, _: int) -> tuple[Tensor, int]:
        kind = random.random()
        if kind < 0.5:
            speaker = random.choice(list(self.bonafide))
            _, probe = random.sample(self.bonafide[speaker], 2)
        elif kind < 0.75:
            first, second = random.sample(list(self.bonafide), 2)
            random.choice(self.bonafide[first])
            probe = random.choice(self.bonafide[second])
        else:
            speaker = random.choice(list(self.spoof))
            random.choice(self.bonafide[speaker])
            probe = random.choice(self.spoof[speaker])
        return torch.from_numpy(self.cm[probe]), int(kind < 0.75)


class PlainDev(Dataset[tuple[Tensor, Tensor, Tensor]]):
    """One dev trial per item: enrolled model, probe, CM embedding."""

    def __init__(self, corpus: Corpus) -> None:
        dev = corpus.dev
        self.rows = list(
            zip(dev.trials.speaker.tolist(), dev.trials.utterance.tolist(), strict=True)
        )
        self.model, self.asv, self.cm = (
            dict(zip(store.ids, store.vectors.numpy(), strict=True))
            for store in (dev.models, dev.asv, dev.cm)
        )

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, row: int) -> tuple[Tensor, Tensor, Tensor]:
        speaker, utterance = self.rows[row]
        parts = (self.model[speaker], self.asv[utterance], self.cm[utterance])
        return tuple(torch.from_numpy(part) for part in parts)  # type: ignore[return-value]


class PlainModule(pl.LightningModule):
    """The same head and loss, written plainly."""

    def __init__(self) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for i, o in ((160, 258), (258, 128), (128, 64)):
            layers += [nn.Linear(i, o), nn.LeakyReLU(0.3)]
        self.net = nn.Sequential(*layers, nn.Linear(64, 2, bias=False))
        self.register_buffer("weight", torch.tensor([0.1, 0.9]))

    def training_step(self, batch: tuple[Tensor, Tensor], _: int) -> Tensor:
        return cross_entropy(self.net(batch[0]), batch[1], self.weight)

    def validation_step(self, batch: tuple[Tensor, Tensor, Tensor], _: int) -> None:
        model, asv, cm = batch
        self.scores.append(torch.stack([cosine_similarity(model, asv), self.net(cm)[:, 1]]))

    def on_validation_start(self) -> None:
        self.scores: list[Tensor] = []

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=5e-5, weight_decay=1e-3)


class Clock(pl.Callback):
    """Seconds of the processor in each training epoch and each validation: one thread, no waiting.

    Beside other work they can still be compared.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, list[float]] = {"train": [], "dev": []}

    def on_train_epoch_start(self, *_: object) -> None:
        self.start = time.process_time()

    def on_train_epoch_end(self, *_: object) -> None:
        self.seconds["train"].append(time.process_time() - self.start)

    def on_validation_start(self, *_: object) -> None:
        self.start = time.process_time()

    def on_validation_end(self, *_: object) -> None:
        self.seconds["dev"].append(time.process_time() - self.start)


def trainer(clock: Clock, model: pl.LightningModule, folder: str) -> pl.Trainer:
    """A quiet Trainer for one epoch."""
    return pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False if isinstance(model, PlainModule) else CSVLogger(folder),
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        limit_val_batches=1.0,
        check_val_every_n_epoch=2,
        callbacks=[clock],
    )


def main() -> None:
    """Measure and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="size of the twin")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    for name in ("pytorch_lightning", "pytorch_lightning.utilities.rank_zero"):
        logging.getLogger(name).setLevel(logging.ERROR)
    torch.set_num_threads(1)

    start = time.perf_counter()
    corpus = SASVDataModule(scale=args.scale).corpus
    made = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"twin at scale {args.scale:g}: made in {made:.1f} s, process peak {peak:.0f} MB")

    plain_train = DataLoader(PlainTrials(corpus), batch_size=24)
    plain_dev = DataLoader(PlainDev(corpus), batch_size=24)
    ours, plain = Clock(), Clock()
    with tempfile.TemporaryDirectory() as folder:
        for number in range(args.rounds):
            data = SASVDataModule(seeds=(number,))
            data.__dict__["corpus"] = corpus
            for clock, model, kwargs in (
                (ours, SASVModule(seeds=(number,)), {"datamodule": data}),
                (plain, PlainModule(), {}),
            ):
                runner = trainer(clock, model, folder)
                runner.fit(model, **(kwargs or {"train_dataloaders": plain_train}))
                runner.validate(model, **(kwargs or {"dataloaders": plain_dev}), verbose=False)
    for what, wanted in CLAIMS.items():
        mine, theirs = (statistics.median(clock.seconds[what]) for clock in (ours, plain))
        unit = "epoch" if what == "train" else "pass"
        print(
            f"{what}: plain {theirs:.3f} s, ours {mine:.3f} s a {unit}: {theirs / mine:.2f} times "
            f"faster, {'as' if theirs / mine >= wanted else 'NOT as'} claimed ({wanted:g})"
        )
    compare_networks(corpus, args.rounds)


def compare_networks(corpus: Corpus, rounds: int) -> None:
    """Print what other objectives and heads cost: epochs of three stacked seeds, in turns."""
    clocks, seeds = {name: Clock() for name in ("B1", *OTHERS)}, (1, 2, 3)
    _ = corpus.train.asv_vectors  # made once, as the corpus is
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for system, clock in clocks.items():
                data = SASVDataModule(seeds=seeds)
                data.__dict__["corpus"] = corpus
                model = SASVModule(seeds=seeds, systems=(system,), **RECIPES.get(system, {}))
                trainer(clock, model, folder).fit(model, datamodule=data)
    plain = statistics.median(clocks["B1"].seconds["train"])
    for system, (name, wanted) in OTHERS.items():
        mine = statistics.median(clocks[system].seconds["train"])
        kept = "as" if mine <= (wanted or math.inf) * plain else "NOT as"
        print(
            f"{name}: {mine:.3f} s, CM head {plain:.3f} s an epoch of three seeds: "
            f"{mine / plain:.2f} times" + (f", {kept} claimed ({wanted})" if wanted else "")
        )


if __name__ == "__main__":
    main()
