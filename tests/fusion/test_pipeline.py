"""Many systems at once: they share nothing, and never see labels of what they fuse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from lightning_sasv.fusion import fit_and_fuse, fit_systems, system
from lightning_sasv.trials import Scores
from tests.fusion.conftest import ALONE


@pytest.fixture(scope="module")
def dev(trials):
    return Scores(*(part[:1500].numpy() for part in trials))


@pytest.fixture(scope="module")
def unseen(trials):
    return Scores(*(part[1500:].numpy() for part in trials))


def test_overrides_reach_every_system(dev):
    systems = fit_systems(dev.asv, dev.cm, dev.label, ["L3", "L3c"], rho=0.5)
    assert [one.rho.item() for one in systems.values()] == [0.5, 0.5]


def test_labels_of_the_fused_trials_change_nothing(dev, unseen):
    """Any other evaluation labels, even impossible ones, give the same fits and scores."""
    systems, fused = fit_and_fuse(dev, unseen)
    generator = np.random.default_rng(0)
    others = [generator.permutation(unseen.label), np.full_like(unseen.label, 99)]
    for labels in others:
        again, scores = fit_and_fuse(dev, dataclasses.replace(unseen, label=labels))
        assert list(again) == list(systems)
        for name in fused:
            first, second = systems[name].state_dict(), again[name].state_dict()
            assert all(torch.equal(first[key], second[key]) for key in first | second)
            assert torch.equal(fused[name].sasv, scores[name].sasv)


def test_no_fit_ever_sees_other_labels_or_scores_than_those_of_dev(dev, unseen, monkeypatch):
    """Every label and score on its way into a fit is recorded: it is dev's, and dev's alone."""
    seen = []
    original = system.FusionSystem.fit_state

    def spy(self, trials):
        seen.append(trials)
        return original(self, trials)

    monkeypatch.setattr(system.FusionSystem, "fit_state", spy)
    fit_and_fuse(dev, unseen)
    assert len(seen) == len(ALONE)
    for trials in seen:
        assert np.array_equal(trials.scores, [dev.asv, dev.cm])
        assert np.array_equal(trials.codes, dev.label)
