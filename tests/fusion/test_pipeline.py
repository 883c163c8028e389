"""Many systems at once: they share work, never state, and never see labels of what they fuse."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from lightning_sasv.fusion import (
    SYSTEMS,
    build_system,
    fit_and_fuse,
    fit_systems,
    fuse_systems,
    system,
)
from lightning_sasv.trials import Scores


@pytest.fixture(scope="module")
def dev(trials):
    return Scores(*(part[:1500].numpy() for part in trials))


@pytest.fixture(scope="module")
def unseen(trials):
    return Scores(*(part[1500:].numpy() for part in trials))


def states(systems):
    return {
        (name, key): value
        for name, one in systems.items()
        for key, value in one.state_dict().items()
    }


def same(first, second):
    assert first.keys() == second.keys()
    return all(torch.equal(first[key], second[key]) for key in first)


def test_shared_fits_are_those_of_every_system_alone(dev):
    together = fit_systems(dev.asv, dev.cm, dev.label)
    alone = {name: build_system(name).fit(dev.asv, dev.cm, dev.label) for name in SYSTEMS}
    assert same(states(together), states(alone))


def test_shared_scores_are_those_of_every_system_alone(dev, unseen):
    systems = fit_systems(dev.asv, dev.cm, dev.label)
    fused = fuse_systems(systems, unseen.asv, unseen.cm)
    for name, scores in fused.items():
        for values, expected in zip(scores, systems[name](unseen.asv, unseen.cm), strict=True):
            assert torch.equal(values, expected)


def test_a_gaussian_is_fitted_once_for_four_systems(dev, monkeypatch):
    fits = []
    gaussian = type(build_system("L2").density)
    original = gaussian.fit
    monkeypatch.setattr(gaussian, "fit", lambda *args: fits.append(1) or original(*args))
    fit_systems(dev.asv, dev.cm, dev.label, ["L2", "L2c", "L3", "L3c"])
    assert len(fits) == 1


def test_systems_that_shared_a_fit_are_independent_afterwards(dev, unseen):
    systems = fit_systems(dev.asv, dev.cm, dev.label, ["L2", "L3"])
    before = systems["L3"](unseen.asv, unseen.cm).sasv
    systems["L2"].fit(unseen.asv, unseen.cm, unseen.label)
    assert torch.equal(systems["L3"](unseen.asv, unseen.cm).sasv, before)


def test_equal_configurations_with_different_fits_are_not_confused(dev, unseen):
    systems = {
        "dev": build_system("L2c").fit(dev.asv, dev.cm, dev.label),
        "unseen": build_system("L2c").fit(unseen.asv, unseen.cm, unseen.label),
        "mixed": build_system("L2c").fit(unseen.asv, unseen.cm, unseen.label),
    }
    systems["mixed"].calibration.load_state_dict(systems["dev"].calibration.state_dict())
    fused = fuse_systems(systems, unseen.asv, unseen.cm)
    for name, scores in fused.items():
        assert torch.equal(scores.sasv, systems[name](unseen.asv, unseen.cm).sasv)


def test_overrides_reach_every_system(dev):
    systems = fit_systems(dev.asv, dev.cm, dev.label, ["L3", "L3c"], rho=0.5)
    assert [one.rho.item() for one in systems.values()] == [0.5, 0.5]
    rows = np.stack([dev.cm, 2 * dev.cm])
    stacked = fit_systems(dev.asv, rows, dev.label, ["B1", "L3"], copies=2)
    assert fuse_systems(stacked, dev.asv, rows)["B1"].sasv.shape == rows.shape


def test_labels_of_the_fused_trials_change_nothing(dev, unseen):
    """Any other evaluation labels, even impossible ones, give the same fits and scores."""
    systems, fused = fit_and_fuse(dev, unseen)
    generator = np.random.default_rng(0)
    others = [generator.permutation(unseen.label), np.full_like(unseen.label, 99)]
    for labels in others:
        again, scores = fit_and_fuse(dev, dataclasses.replace(unseen, label=labels))
        assert same(states(systems), states(again))
        for name in fused:
            assert torch.equal(fused[name].sasv, scores[name].sasv)


def test_no_fit_ever_sees_other_labels_or_scores_than_those_of_dev(dev, unseen, monkeypatch):
    """Every label and score on its way into a fit is recorded: it is dev's, and dev's alone."""
    seen = []
    original = system.FusionSystem.fit_pairs

    def spy(self, pairs, labels, shared):
        seen.append((pairs, labels))
        return original(self, pairs, labels, shared)

    monkeypatch.setattr(system.FusionSystem, "fit_pairs", spy)
    fit_and_fuse(dev, unseen)
    assert len(seen) == len(SYSTEMS)
    for pairs, labels in seen:
        assert np.array_equal(labels, dev.label)
        assert np.array_equal(pairs, np.stack([dev.asv, dev.cm]))


def test_fusing_never_changes_a_fitted_system(dev, unseen):
    systems = fit_systems(dev.asv, dev.cm, dev.label)
    before = {key: value.clone() for key, value in states(systems).items()}
    fuse_systems(systems, unseen.asv, unseen.cm)
    assert same(before, states(systems))
