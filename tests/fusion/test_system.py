"""A fusion system as a module, and many at once: they share nothing, and see dev alone."""

from __future__ import annotations

import copy
import dataclasses
import io
import warnings
from itertools import pairwise

import numpy as np
import pytest
import torch

from lightning_sasv.decisions import CostModel
from lightning_sasv.fusion import (
    CALIBRATIONS,
    DENSITIES,
    JOINT_SYSTEMS,
    KNOWN,
    PAPER_SYSTEMS,
    RULES,
    SYSTEMS,
    FusionSystem,
    build_system,
    fit_and_fuse,
    fit_systems,
    pack_system,
    unpack_system,
)
from lightning_sasv.trials import Scores
from tests.fusion.conftest import ALONE

VARIANTS = {
    **{name: SYSTEMS[name] for name in ALONE},
    "pav": {"calibration": "pav", "rule": "nonlinear"},
    "mixture": {"density": "mixture", "rule": "nonlinear", "rho": "grid_risk"},
    "textbook": {"density": "diagonal", "calibration": "effective_prior", "rule": "cascade"},
}


def small(trials, count=600):
    return tuple(part[:count] for part in trials)


def same(first, second):
    return all(torch.equal(one, other) for one, other in zip(first, second, strict=True))


@pytest.fixture(params=VARIANTS)
def variant(request):
    return VARIANTS[request.param]


def test_state_survives_a_parent_and_a_weights_only_file(trials, variant):
    parents = [torch.nn.ModuleDict({"fusion": FusionSystem(**variant)}) for _ in range(2)]
    system, fresh = (parent["fusion"] for parent in parents)
    system.fit(*small(trials))
    parents[1].load_state_dict(parents[0].state_dict(), strict=True)
    file = io.BytesIO()
    torch.save(pack_system(system), file)
    file.seek(0)
    restored = unpack_system(torch.load(file, weights_only=True))
    assert restored.config == system.config
    for one in (fresh, restored):
        assert one.is_fitted
        assert one.state_dict().keys() == system.state_dict().keys()
        assert same(one.state_dict().values(), system.state_dict().values())
        assert same(one(*trials[:2]), system(*trials[:2]))


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_fit_works_without_gradients_and_in_inference_mode(trials, variant, mode):
    plain = FusionSystem(**variant).fit(*small(trials))
    outside = FusionSystem(**variant)
    with mode():
        inside = FusionSystem(**variant).fit(*(part.clone() for part in small(trials)))
        outside.fit(*(part.clone() for part in small(trials)))
    for system in (inside, outside):
        assert same(system.state_dict().values(), plain.state_dict().values())
        assert not any(buffer.requires_grad for buffer in system.buffers())
    assert not any(buffer.is_inference() for buffer in outside.buffers())
    outside.load_state_dict(plain.state_dict())
    inside.fit(*small(trials))  # and again, outside


def test_fit_writes_into_the_buffers_it_has(trials):
    system = build_system("L3c")
    places = {name: buffer.data_ptr() for name, buffer in system.named_buffers()}
    system.fit(*small(trials)).fit(*trials)
    assert places == {name: buffer.data_ptr() for name, buffer in system.named_buffers()}


@pytest.mark.parametrize("cast", ["half", "float", "bfloat16", "double"])
def test_state_stays_float64_when_a_parent_is_cast(trials, cast):
    parent = torch.nn.ModuleDict({"fusion": build_system("L3c").fit(*small(trials))})
    before = copy.deepcopy(parent["fusion"].state_dict())
    getattr(parent, cast)()
    after = parent["fusion"].state_dict()
    assert same(before.values(), after.values())
    assert parent["fusion"].rho.dtype == torch.float64


def test_columns_of_every_make_give_the_same_float64_scores(trials):
    """Tensors, arrays (read-only, reversed, foreign byte order), lists, words: without warning."""
    single = [part.float() for part in small(trials, 300)[:2]]
    asv, cm = (part.double().numpy() for part in single)
    labels = trials[2][:300].numpy()
    expected = build_system("L3c").fit(asv, cm, labels)
    frozen = asv.copy()
    frozen.flags.writeable = False
    makes = [
        (*single, torch.from_numpy(labels).to(torch.uint8)),
        (frozen, cm[::-1].copy()[::-1], labels.astype(np.uint8)),
        (asv.astype(">f8"), cm.astype(np.longdouble), labels.astype(">u4")),
        (single[0].numpy(), cm, labels.astype(np.float64)),
        (list(asv), tuple(cm), np.array(["spoof", "target", "nontarget"])[labels].tolist()),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make in makes:
            system = build_system("L3c").fit(*make)
            assert same(system.state_dict().values(), expected.state_dict().values())
            fused = system(*make[:2])
            assert all(values.dtype == torch.float64 for values in fused)
            assert same(fused, expected(asv, cm))
    assert FusionSystem(rule="sum")(*single).sasv.dtype == torch.float64


def test_trials_do_not_influence_each_other(trials):
    system = build_system("L3c").fit(*small(trials))
    whole = system(*trials[:2]).sasv
    parts = [system(trials[0][i:j], trials[1][i:j]).sasv for i, j in pairwise(range(0, 4001, 500))]
    assert torch.allclose(torch.cat(parts), whole, rtol=1e-12)


def test_order_of_the_development_trials_does_not_matter(trials):
    order = torch.randperm(600, generator=torch.Generator().manual_seed(0))
    first = build_system("L3c").fit(*small(trials))(*trials[:2])
    second = build_system("L3c").fit(*(part[order] for part in small(trials)))(*trials[:2])
    assert torch.allclose(first.sasv, second.sasv, rtol=1e-8, atol=1e-8)


def test_gradients_flow_through_a_fitted_system(trials):
    system = build_system("L3c").fit(*small(trials))
    asv, cm = (part[:5].clone().requires_grad_() for part in trials[:2])
    system(asv, cm).sasv.sum().backward()
    step = 1e-6
    with torch.no_grad():
        slope = (system(asv + step, cm).sasv - system(asv - step, cm).sasv) / (2 * step)
    assert torch.allclose(asv.grad, slope, rtol=1e-5, atol=1e-5)


def test_a_system_is_rebuilt_from_its_configuration(variant):
    system = FusionSystem(**variant)
    again = FusionSystem(**system.config)
    assert again.config == system.config
    assert [*again.state_dict()] == [*system.state_dict()]
    costs = FusionSystem(calibration="joint", costs=CostModel(), dof=np.float64(3)).config
    assert costs["costs"]["c_miss"] == 1.0
    assert type(costs["dof"]) is float


def test_systems_without_anything_to_learn_are_ready_at_once(trials):
    ready = {name for name in SYSTEMS if build_system(name).is_fitted}
    assert ready == {"B1", "B1v2", "Post"}
    for name in SYSTEMS.keys() - ready:
        with pytest.raises(RuntimeError, match="not fitted"):
            build_system(name)(*trials[:2])


def test_a_failed_fit_changes_nothing(trials):
    asv, cm, labels = small(trials)
    cm_apart = cm + 1e3 * (labels != 0)
    system = FusionSystem(density="gaussian", calibration="effective_prior")
    with pytest.raises(ValueError, match="separates"):
        system.fit(asv, cm_apart, labels)
    assert not system.is_fitted
    before = copy.deepcopy(system.fit(asv, cm, labels).state_dict())
    for wrong, message in ((cm_apart, "separates"), (torch.zeros_like(cm), "constant")):
        with pytest.raises(ValueError, match=message):
            system.fit(asv, wrong, labels)
    assert same(system.state_dict().values(), before.values())


def test_the_zoo_is_configuration():
    assert list(PAPER_SYSTEMS) == ["B1", "B1c", "L2", "L2c", "L3", "L3c", "B1v2", "Post"]
    assert list(SYSTEMS)[8:] == ["L3t", "M3", "J3", "Q3", "Q3cv", "L3ct", "M3d"]
    assert [*KNOWN][15:] == [*JOINT_SYSTEMS] == ["E2", "F2", "E3", "F3"]
    assert build_system("L3c", rho=0.5).rho.item() == 0.5
    assert "rho=0.5" in repr(build_system("L3c", rho=0.5))
    with pytest.raises(ValueError, match="unknown system 'L4'"):
        build_system("L4")


@pytest.mark.parametrize("density", [None, *DENSITIES])
@pytest.mark.parametrize("calibration", [None, *(n for n in CALIBRATIONS if n != "single")])
@pytest.mark.parametrize("rule", RULES)
def test_every_combination_of_stages_works(trials, density, calibration, rule):
    asv, cm, labels = small(trials, 150)
    system = FusionSystem(density, calibration, rule).fit(asv, cm, labels)
    fused = system(asv, cm)
    assert all(torch.isfinite(values).all() for values in fused)
    assert fused.sasv[labels == 1].mean() > fused.sasv[labels != 1].mean()


@pytest.mark.parametrize("name", ALONE)
def test_scores_far_outside_the_fitted_range_stay_finite(trials, name):
    system = build_system(name).fit(*small(trials))
    grid = torch.tensor([-1e100, -1e6, -1.0, 0.0, 1.0, 1e6, 1e100], dtype=torch.float64)
    asv, cm = (part.flatten() for part in torch.meshgrid(grid, grid, indexing="ij"))
    assert all(torch.isfinite(values).all() for values in system(asv, cm))


@pytest.mark.parametrize("scale", [1e-12, 1e-7, 1.0, 1e7, 1e12])
@pytest.mark.parametrize("name", ["B1c", "M3", "J3"])
def test_calibration_copes_with_any_unit_of_the_scores(trials, name, scale):
    asv, cm, labels = small(trials)
    system = build_system(name).fit(asv, scale * cm, labels)
    fused = system(asv, scale * cm)
    assert all(torch.isfinite(values).all() for values in fused)
    if name != "B1c":  # the penalty of the paper's recipe does know units
        expected = build_system(name).fit(asv, cm, labels)(asv, cm)
        assert torch.allclose(fused.cm_llr, expected.cm_llr, rtol=1e-5, atol=1e-5)


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
    original = FusionSystem.fit_state

    def spy(self, trials):
        seen.append(trials)
        return original(self, trials)

    monkeypatch.setattr(FusionSystem, "fit_state", spy)
    fit_and_fuse(dev, unseen)
    assert len(seen) == len(ALONE)
    for trials in seen:
        assert np.array_equal(trials.scores, [dev.asv, dev.cm])
        assert np.array_equal(trials.codes, dev.label)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("name", ALONE)
def test_cuda_gives_the_scores_of_the_cpu(trials, name):
    expected = build_system(name).fit(*trials)(*trials[:2])
    device = [part.cuda() for part in trials]
    system = build_system(name).cuda().fit(*device)
    fused = system(*device[:2])
    assert fused.sasv.is_cuda
    mixed = system(trials[0], device[1])  # one side from the CPU
    assert torch.equal(mixed.sasv, fused.sasv)
    assert torch.allclose(fused.sasv.cpu(), expected.sasv, rtol=1e-8, atol=1e-8)
