"""Scores on the full-scale twin, the CM trained by the recipe, beside the real statistics.

The values are those of the authors' run on SASV 2022 (see also ``docs/twin.md``): means
and standard deviations of both scores, their skewness and correlation.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import torch
from scipy.stats import skew

from lightning_sasv.data import Corpus, make_twin
from lightning_sasv.models import SASVModule
from lightning_sasv.trials import TrialClass
from tests.helpers import best_checkpoint, quiet_trainer, shared_data

pytestmark = pytest.mark.slow


class Wanted(NamedTuple):
    asv: tuple[float, float]
    cm: tuple[float, float]
    skew: tuple[float, float]
    correlation: float


CLASSES = {
    ("dev", TrialClass.TARGET): Wanted((0.715, 0.102), (8.56, 1.09), (-1.4, -1.5), 0.11),
    ("dev", TrialClass.NONTARGET): Wanted((0.184, 0.125), (8.20, 1.86), (-0.1, -2.8), 0.11),
    ("dev", TrialClass.SPOOF): Wanted((0.438, 0.202), (-6.10, 1.82), (0.4, 0.4), 0.33),
    ("eval", TrialClass.TARGET): Wanted((0.717, 0.109), (8.39, 1.26), (-2.1, -1.3), 0.17),
    ("eval", TrialClass.NONTARGET): Wanted((0.163, 0.120), (8.17, 1.55), (0.2, -2.1), 0.10),
    ("eval", TrialClass.SPOOF): Wanted((0.520, 0.235), (-4.20, 3.03), (-0.6, 0.1), 0.27),
}
ATTACKS = {  # mean cosine, mean and standard deviation of the CM score
    "A01": (0.35, -5.3, 1.6),
    "A02": (0.27, -7.8, 1.2),
    "A03": (0.60, -6.3, 1.2),
    "A04": (0.75, -4.6, 1.5),
    "A05": (0.36, -6.6, 1.8),
    "A06": (0.31, -6.0, 1.7),
    "A07": (0.64, -2.2, 1.7),
    "A08": (0.55, -7.2, 2.3),
    "A09": (0.22, -9.3, 1.2),
    "A10": (0.72, -1.2, 1.8),
    "A11": (0.70, -4.5, 1.4),
    "A12": (0.67, -1.7, 1.8),
    "A13": (0.48, -3.5, 0.7),
    "A14": (0.66, -6.2, 1.4),
    "A15": (0.67, -2.4, 1.7),
    "A16": (0.76, -4.6, 1.7),
    "A17": (0.15, -4.0, 2.9),
    "A18": (0.22, -2.2, 3.5),
    "A19": (0.32, -5.7, 2.2),
}


class Scored(NamedTuple):
    corpus: Corpus
    asv: dict[str, np.ndarray]
    cm: dict[str, np.ndarray]
    epoch: int


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Scored:
    """Scores of dev and eval by the best checkpoint of seed 1986."""
    corpus = make_twin()
    module, trainer = SASVModule(), quiet_trainer(tmp_path_factory.mktemp("twin"), epochs=3)
    trainer.fit(module, shared_data(corpus))
    best = torch.load(best_checkpoint(trainer), weights_only=True)
    module.load_state_dict(best["state_dict"])
    asv, cm = {}, {}
    for data in (corpus.dev, corpus.eval):
        with torch.no_grad():
            scores = module.head.score(data.probe_vectors)[data.probe_of_trial]
        asv[data.name], cm[data.name] = data.asv_scores.double().numpy(), scores.double().numpy()
    return Scored(corpus, asv, cm, best["epoch"])


def test_every_epoch_ties_and_the_first_is_kept(scored: Scored) -> None:
    assert scored.epoch == 0


@pytest.mark.parametrize(("split", "code"), CLASSES, ids=lambda value: str(value))
def test_classes(scored: Scored, split: str, code: TrialClass) -> None:
    wanted = CLASSES[split, code]
    where = getattr(scored.corpus, split).trials.label == code
    asv, cm = scored.asv[split][where], scored.cm[split][where]
    assert (asv.mean(), asv.std()) == pytest.approx(wanted.asv, abs=0.012)
    assert cm.mean() == pytest.approx(wanted.cm[0], abs=0.5)
    assert cm.std() == pytest.approx(wanted.cm[1], rel=0.15)
    assert skew(asv) == pytest.approx(wanted.skew[0], abs=0.25)
    assert skew(cm) == pytest.approx(wanted.skew[1], abs=0.4)
    assert np.corrcoef(asv, cm)[0, 1] == pytest.approx(wanted.correlation, abs=0.12)


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks(scored: Scored, attack: str) -> None:
    split = "dev" if attack < "A07" else "eval"
    cosine, mean, deviation = ATTACKS[attack]
    where = getattr(scored.corpus, split).trials.attack == attack
    asv, cm = scored.asv[split][where], scored.cm[split][where]
    assert asv.mean() == pytest.approx(cosine, abs=0.012)
    assert 0.075 < asv.std() < 0.135
    assert cm.mean() == pytest.approx(mean, abs=0.5)
    assert cm.std() == pytest.approx(deviation, rel=0.15)


def test_cm_scores_dwarf_asv_scores_and_eval_is_harder(scored: Scored) -> None:
    """What makes the sum of raw scores fail, and eval attacks worse than those of dev."""
    assert scored.cm["eval"].std() > 10 * scored.asv["eval"].std()
    spoof = {
        split: scored.cm[split][getattr(scored.corpus, split).trials.label == TrialClass.SPOOF]
        for split in ("dev", "eval")
    }
    assert (spoof["eval"] > 0).mean() > 5 * (spoof["dev"] > 0).mean()
