"""Fusion of any number of scores: against scikit-learn, brute force, and what must not matter."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import ndtri
from sklearn.linear_model import LogisticRegression

from lightning_sasv.errors import InputError
from lightning_sasv.fitted import read_fitted, save_system
from lightning_sasv.fusion import (
    CALIBRATIONS,
    DENSITIES,
    RULES,
    FusionSystem,
    build_system,
    fit_systems,
    pack_system,
    unpack_system,
)
from lightning_sasv.fusion.choice import PENALTIES, choose, folds_of
from lightning_sasv.fusion.columns import Columns, dev_trials
from lightning_sasv.fusion.logistic import ORDERS, Basis, multinomial_loss
from lightning_sasv.fusion.transforms import apply_transforms, fit_transforms
from tests.fusion.conftest import ALONE


def drawn(trials=600, asv=2, cm=2, seed=0):
    """Scores of overlapping classes, (trials, k) and (trials, m), labels and speakers."""
    random = np.random.default_rng(seed)
    labels = random.integers(0, 3, trials)
    shared = random.standard_normal((trials, 1))
    left = 1.5 * (labels == 1)[:, None] + 0.7 * (labels == 0)[:, None] + 0.3 * shared
    right = 1.2 * (labels != 0)[:, None]
    columns = random.standard_normal((trials, asv + cm))
    speakers = np.array([f"s{k}" for k in random.integers(0, 12, trials)])
    return columns[:, :asv] + left, columns[:, asv:] + right, labels, speakers


ASV, CM, LABELS, SPEAKERS = drawn()


def multinomial(order="linear", penalty=None, **more):
    return FusionSystem(
        calibration="multinomial", order=order, penalty=penalty, rule="nonlinear", **more
    )


def features(standard, order):
    """Features (trials, p), written out."""
    columns = [*standard.T]
    d = len(columns)
    if order == "squares":
        columns += [standard[:, i] ** 2 for i in range(d)]
    if order == "quadratic":
        columns += [standard[:, i] * standard[:, j] for i in range(d) for j in range(i, d)]
    return np.stack(columns, axis=1)


@pytest.mark.parametrize("order", ORDERS)
def test_every_order_has_the_log_loss_of_scikit_learn(order):
    scores = np.concatenate([ASV, CM], axis=1)
    standard = (scores - scores.mean(axis=0)) / scores.std(axis=0)
    model = LogisticRegression(
        C=np.inf, class_weight="balanced", solver="newton-cg", tol=1e-10, max_iter=2000
    ).fit(features(standard, order), LABELS)
    log = model.predict_log_proba(features(standard, order))
    fused = multinomial(order).fit(ASV, CM, LABELS)(ASV, CM)
    np.testing.assert_allclose(fused.asv_llr, log[:, 1] - log[:, 2], atol=2e-5)
    np.testing.assert_allclose(fused.cm_llr, log[:, 1] - log[:, 0], atol=2e-5)


@pytest.mark.parametrize("order", ORDERS)
def test_gradient_and_hessian_are_finite_differences(order):
    random = np.random.default_rng(1)
    basis = Basis(np.concatenate([ASV, CM], axis=1)[:200].T.copy(), order)
    loss, theta = (
        multinomial_loss(LABELS[:200].astype(np.int8)),
        random.normal(size=(2, basis.size)),
    )
    _, gradient, hessian = basis.pair_loss(theta, loss)
    for k in range(theta.size):
        step = np.zeros(theta.size)
        step[k] = 1e-6
        up, down = (theta + sign * step.reshape(theta.shape) for sign in (1, -1))
        values = [basis.pair_loss(one, loss) for one in (up, down)]
        slope = (values[0][0] - values[1][0]) / 2e-6
        assert slope == pytest.approx(gradient.ravel()[k], abs=1e-8)
        curve = (values[0][1] - values[1][1]) / 2e-6
        rows = hessian.reshape(theta.size, theta.size)
        np.testing.assert_allclose(curve.ravel(), rows[k], atol=1e-8)


def test_blocks_make_no_difference():
    asv, cm, labels, _ = drawn(9_000)
    whole = np.concatenate([asv, cm], axis=1).T.copy()
    basis, loss = Basis(whole, "quadratic"), multinomial_loss(labels.astype(np.int8))
    theta = np.random.default_rng(0).normal(size=(2, basis.size))
    kept = basis.pair_loss(theta, loss)
    basis._made = {}  # as where there are too many trials to keep their features
    for one, other in zip(kept, basis.pair_loss(theta, loss), strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(basis.places) == 3
    full = features(whole.T, "quadratic")
    parts = np.concatenate([basis.block(place) for place in basis.places], axis=1)
    np.testing.assert_array_equal(parts[:-1], full.T)


def brute_force(order, penalty, words, folds):
    """The criterion from a plain optimiser, fold by fold."""
    from scipy.optimize import minimize

    scores, losses = np.concatenate([ASV, CM], axis=1), np.empty(len(LABELS))
    for fold in range(folds.max() + 1):
        train, columns = folds != fold, scores.copy()
        for k, word in enumerate(words):
            if word == "rank":
                value, place = np.unique(scores[train, k], return_inverse=True)
                counts = np.bincount(LABELS[train])
                mass = np.bincount(place, 1 / (3 * counts[LABELS[train]]))
                heights = ndtri(np.cumsum(mass) - mass / 2)
                columns[:, k] = np.interp(scores[:, k], value, heights)
        standard = (columns - columns[train].mean(axis=0)) / columns[train].std(axis=0)
        phi = np.column_stack([features(standard, order), np.ones(len(LABELS))])
        weight = 1 / (3 * np.bincount(LABELS[train])[LABELS[train]])

        def log_posteriors(theta, rows):
            tn, ts = rows @ theta.reshape(2, -1).T[:, 0], rows @ theta.reshape(2, -1).T[:, 1]
            logits = np.stack([-ts, np.zeros_like(ts), -tn], axis=1)
            return logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)

        def objective(theta, phi=phi, train=train, weight=weight):
            log = log_posteriors(theta, phi[train])
            own = log[np.arange(len(log)), LABELS[train]]
            ridge = theta.reshape(2, -1)[:, :-1]
            return -(weight @ own) + penalty / 2 * np.sum(ridge**2)

        found = minimize(objective, np.zeros(2 * phi.shape[1]), tol=1e-12).x
        log = log_posteriors(found, phi[~train])
        losses[~train] = -log[np.arange(len(log)), LABELS[~train]]
    return np.mean([losses[code == LABELS].mean() for code in range(3)])


def test_the_criterion_is_that_of_a_plain_cross_validation():
    trials = dev_trials(ASV, CM, LABELS, speakers=SPEAKERS)
    folds = folds_of(trials.speakers, trials.codes)
    names = sorted(set(SPEAKERS))
    assert folds.max() == 9
    assert [folds[name == SPEAKERS][0] for name in names] == [k % 10 for k in range(12)]
    for order, penalty, words in (("linear", 1e-3, ["none"] * 4), ("squares", 1e-2, ["rank"] * 4)):
        (found,) = choose(trials, order, penalty, words).tried
        expected = brute_force(order, penalty, words, folds)
        assert found.criterion == pytest.approx(expected, abs=1e-6)


def test_a_choice_goes_by_the_rules():
    system = build_system("Q3cv").fit(ASV, CM, LABELS, speakers=SPEAKERS)
    choice = system.choice
    first = choice.tried[: 3 * len(PENALTIES)]
    assert [(c.order, c.penalty) for c in first] == [(o, p) for o in ORDERS for p in PENALTIES]
    best = min(first, key=lambda c: c.criterion)
    assert choice.best.criterion <= best.criterion * (1 + 1e-6)
    fixed = multinomial(
        choice.best.order,
        choice.best.penalty,
        transform=dict(zip(system.columns.names, choice.best.transforms, strict=True)),
    ).fit(ASV, CM, LABELS)
    np.testing.assert_allclose(system(ASV, CM).sasv, fixed(ASV, CM).sasv, rtol=1e-9)
    again = build_system("Q3cv").fit(ASV, CM, LABELS, speakers=SPEAKERS)
    assert again.choice == choice
    partly = multinomial("squares", "cv").fit(ASV, CM, LABELS, speakers=SPEAKERS)
    assert [c.order for c in partly.choice.tried] == ["squares"] * 4


@pytest.mark.parametrize(
    ("speakers", "message"),
    [
        (None, "needs the enrolled speaker of each dev trial"),
        (["a"] * 600, "at least 2 dev speakers, got 1: a"),
        (np.where(LABELS == 0, "a", "b"), "without the dev speaker.s. a there is no spoof trial"),
        (["a", "b"], r"speakers have shape \(2,\), but there are 600 trials"),
    ],
)
def test_folds_that_cannot_be_made_are_errors(speakers, message):
    with pytest.raises(InputError, match=message):
        build_system("Q3cv").fit(ASV, CM, LABELS, speakers=speakers)


def test_systems_that_need_speakers_are_left_out_without_them():
    assert list(fit_systems(ASV[:, 0], CM[:, 0], LABELS)) == ALONE
    failures: dict[str, str] = {}
    systems = fit_systems(ASV, CM, LABELS, ["Q3", "Q3cv"], failures=failures)
    assert list(systems) == ["Q3"]
    assert "speaker" in failures["Q3cv"]
    with pytest.raises(InputError, match="speaker"):
        fit_systems(ASV, CM, LABELS, ["Q3cv"], failures={})


@pytest.mark.parametrize("density", DENSITIES)
@pytest.mark.parametrize("calibration", [None, "paper", "multinomial", "pav"])
@pytest.mark.parametrize("rule", ["nonlinear", "linear"])
def test_densities_in_any_number_of_dimensions(density, calibration, rule):
    system = FusionSystem(density, calibration, rule).fit(ASV, CM, LABELS)
    fused = system(ASV, CM)
    assert all(torch.isfinite(part).all() for part in fused)
    assert fused.sasv[LABELS == 1].mean() > fused.sasv[LABELS != 1].mean()


PAIR_ALONE = ("pav", "given", "single")


@pytest.mark.parametrize("calibration", PAIR_ALONE)
def test_calibrations_of_a_pair_alone(calibration):
    with pytest.raises(InputError, match=f"{calibration} takes one ASV and one CM score, not asv"):
        FusionSystem(None, calibration, "sum").fit(ASV, CM, LABELS)


@pytest.mark.parametrize("calibration", [name for name in CALIBRATIONS if name not in PAIR_ALONE])
@pytest.mark.parametrize("rule", RULES)
def test_calibrations_of_any_number_of_columns(calibration, rule):
    system = FusionSystem(None, calibration, rule).fit(ASV, CM, LABELS)
    assert all(torch.isfinite(part).all() for part in system(ASV, CM))
    if calibration not in ("multinomial",):  # each side by its own columns
        weight = system.calibration.weight
        assert not weight[0, 2:].any()
        assert not weight[1, :2].any()


def test_log_densities_are_those_of_scipy():
    scores = np.concatenate([ASV, CM], axis=1)
    for density, make in (
        ("gaussian", lambda mean, cov: stats.multivariate_normal(mean, cov)),
        ("student_t", lambda mean, cov: stats.multivariate_t(mean, cov, df=4)),
    ):
        system = FusionSystem(density).fit(ASV, CM, LABELS)
        state = system.arrays()
        width = state.get("density.covariance", state.get("density.scatter"))
        log = [make(state["density.mean"][k], width[k]).logpdf(scores) for k in range(3)]
        fused = system(ASV, CM)
        np.testing.assert_allclose(fused.asv_llr, log[1] - log[2], rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(fused.cm_llr, log[1] - log[0], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("B1", lambda a, c: a + c),
        ("B1v2", lambda a, c: a + 1 / (1 + np.exp(-c))),
        ("Post", lambda a, c: 1 / (1 + np.exp(-a)) / (1 + np.exp(-c))),
    ],
)
def test_systems_without_llrs_take_the_mean_of_each_kind(name, function):
    expected = function(ASV.mean(axis=1), CM.mean(axis=1))
    for system in (build_system(name), build_system(name).fit(ASV, CM, LABELS)):
        np.testing.assert_allclose(system(ASV, CM).sasv, expected, rtol=1e-12)


@settings(max_examples=15)
@given(st.permutations(range(3)), st.permutations(range(2)), st.sampled_from(["Q3", "L3t", "J3"]))
def test_the_order_of_columns_makes_no_difference(first, second, name):
    asv, cm, labels, _ = drawn(asv=3)
    plain = build_system(name).fit(asv, cm, labels)(asv, cm)
    turned = asv[:, first], cm[:, second]
    fused = build_system(name).fit(*turned, labels)(*turned)
    np.testing.assert_allclose(fused.sasv, plain.sasv, rtol=1e-5, atol=1e-5)


@settings(max_examples=15)
@given(st.integers(0, 3), st.floats(0.01, 100), st.floats(-50, 50), st.booleans())
def test_units_of_a_column_make_no_difference_at_a_small_penalty(column, factor, offset, turned):
    scores = np.concatenate([ASV, CM], axis=1)
    scores[:, column] = (-factor if turned else factor) * scores[:, column] + offset
    asv, cm = scores[:, :2], scores[:, 2:]
    plain = build_system("Q3").fit(ASV, CM, LABELS)(ASV, CM)
    fused = build_system("Q3").fit(asv, cm, LABELS)(asv, cm)
    np.testing.assert_allclose(fused.asv_llr, plain.asv_llr, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(fused.cm_llr, plain.cm_llr, rtol=1e-5, atol=1e-5)


VALUES = st.one_of(
    st.floats(-3, 3), st.sampled_from([0.0, 1.0, -1.0]), st.floats(-1e80, 1e80), st.just(7.0)
)


@settings(max_examples=60)
@given(st.lists(VALUES, min_size=60, max_size=60), st.sampled_from(["L3", "M3", "Q3", "B1c", "J3"]))
def test_any_further_column_gives_finite_scores_or_an_input_error(values, name):
    asv = np.column_stack([ASV[:60], values])
    try:
        system = build_system(name).fit(asv, CM[:60], LABELS[:60])
    except InputError:
        return
    assert all(torch.isfinite(part).all() for part in system(asv, CM[:60]))


@settings(max_examples=40)
@given(st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.25, 1.0]), min_size=30, max_size=30))
def test_rank_is_the_normal_score_of_the_class_balanced_distribution(values):
    values, codes = np.array(values), np.arange(30, dtype=np.int8) % 3
    state = fit_transforms(["rank"], values[None], codes, ["x"])
    (found,) = apply_transforms(state, values[None])
    below = np.array([np.mean([(values[codes == k] < v).mean() for k in range(3)]) for v in values])
    equal = np.array(
        [np.mean([(values[codes == k] == v).mean() for k in range(3)]) for v in values]
    )
    np.testing.assert_allclose(found, ndtri(below + equal / 2), atol=1e-9)
    far = apply_transforms(state, np.array([[-9.0, 9.0]]))
    np.testing.assert_allclose(far[0], [found.min(), found.max()])


def test_logit_knows_its_domain_and_clips():
    codes = np.array([0, 1, 2], np.int8)
    inside = fit_transforms(["logit"], np.array([[0.2, 0.9, 0.5]]), codes, ["x"])
    values = np.array([0.2, 0.9, -3.0, 4.0])
    (found,) = apply_transforms(inside, values[None])
    ends = np.log(1e-7) - np.log1p(-1e-7)
    np.testing.assert_allclose(found, [np.log(0.25), np.log(9), ends, -ends])
    cosine = fit_transforms(["logit"], np.array([[-0.2, 0.9, 0.5]]), codes, ["x"])
    np.testing.assert_allclose(
        apply_transforms(cosine, values[None, :2]), [2 * np.arctanh(values[:2])]
    )
    message = r"logit needs asv_1 within .* but it lies in \[0.2, 1.5\]"
    with pytest.raises(InputError, match=message):
        fit_transforms(["logit"], np.array([[0.2, 1.5, 0.5]]), codes, ["asv_1"])


@pytest.mark.parametrize("word", ["standard", "rank", "logit"])
def test_transforms_come_first_and_standard_is_nothing_to_a_multinomial(word):
    asv, cm = np.tanh(ASV), np.tanh(CM)
    system = build_system("L3", transform=word).fit(asv, cm, LABELS)
    words = fit_transforms([word] * 4, np.concatenate([asv, cm], axis=1).T, LABELS, ["x"] * 4)
    made = apply_transforms(words, np.concatenate([asv, cm], axis=1).T).T
    plain = build_system("L3").fit(made[:, :2], made[:, 2:], LABELS)(made[:, :2], made[:, 2:])
    np.testing.assert_allclose(system(asv, cm).sasv, plain.sasv, rtol=1e-9, atol=1e-9)
    if word == "standard":
        changed = build_system("Q3", transform=word).fit(asv, cm, LABELS)(asv, cm)
        expected = build_system("Q3").fit(asv, cm, LABELS)(asv, cm)
        np.testing.assert_allclose(changed.sasv, expected.sasv, rtol=1e-6, atol=1e-6)


STATES = {
    "several": (build_system("Q3"), {}),
    "chosen": (build_system("Q3cv"), {"speakers": SPEAKERS}),
    "rank": (build_system("L3t", transform={"cm_2": "rank"}), {}),
    "named": (build_system("M3"), {"columns": ["asv_a", "asv_b", "cm_x", "cm_y"]}),
    "quality": (build_system("Q3"), {"quality": ASV[:, 0] * CM[:, 0]}),
    "constant": (build_system("L3c"), {"constant": True}),
    "mean": (build_system("Post"), {}),
}


@pytest.mark.parametrize("kind", STATES)
def test_a_state_keeps_its_columns_through_every_file(kind, tmp_path):
    system, more = STATES[kind]
    more = dict(more)
    cm = np.column_stack([CM, np.ones(len(CM))]) if more.pop("constant", False) else CM
    quality = more.get("quality")
    system.fit(ASV, cm, LABELS, **more)
    expected = system(ASV, cm, quality)
    file = io.BytesIO()
    torch.save(pack_system(system), file)
    file.seek(0)
    unpacked = unpack_system(torch.load(file, weights_only=True))
    name = f"{system.name}.safetensors"
    save_system(tmp_path / name, system, {})
    read = read_fitted(tmp_path / name)
    assert unpacked.columns == read.columns == system.columns
    assert [*unpacked.state_dict()] == [*system.state_dict()]
    for other in (unpacked, read):
        for found, known in zip(other(ASV, cm, quality), expected, strict=True):
            np.testing.assert_allclose(found, known, rtol=1e-12, atol=1e-12)
    if kind != "rank":  # and a pair again
        back = unpacked.fit(ASV[:, 0], CM[:, 0], LABELS, speakers=SPEAKERS)
        assert back.columns.is_pair
        assert "names" not in back.state_dict()


def test_quality_is_a_linear_feature_of_a_multinomial_and_of_nothing_else():
    quality = np.random.default_rng(5).normal(size=600) + LABELS
    system = build_system("Q3").fit(ASV, CM, LABELS, quality=quality)
    assert system.columns.names[-1] == "quality_1"
    assert system.calibration.weight.shape == (2, 5)
    assert system.calibration.quadratic.shape == (2, 4, 4)
    with pytest.raises(InputError, match="fitted to asv_1, asv_2, cm_1, cm_2, quality_1"):
        system(ASV, CM)
    other = build_system("L3").fit(ASV, CM, LABELS, quality=quality)
    assert other.columns.names == ("asv_1", "asv_2", "cm_1", "cm_2")
    plain = build_system("L3").fit(ASV, CM, LABELS)(ASV, CM)
    np.testing.assert_array_equal(other(ASV, CM, quality).sasv, plain.sasv)
    both = FusionSystem("gaussian", "multinomial").fit(ASV, CM, LABELS, quality=quality)
    assert both.calibration.weight.shape == (2, 3)
    assert torch.isfinite(both(ASV, CM, quality).sasv).all()


def test_gradients_flow_through_every_stage():
    asv, cm = (torch.tensor(part[:8], requires_grad=True) for part in (ASV, CM))
    for name in ("Q3", "L3t", "J3"):
        system = build_system(name).fit(ASV, CM, LABELS)
        system(asv, cm).sasv.sum().backward()
        assert asv.grad.abs().sum() > 0
        asv.grad = cm.grad = None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"columns": ["asv_a", "cm_b"]}, "2 and 2 columns, but their names are asv_a, cm_b"),
        ({"columns": ["asv_a", "asv_a", "cm_b", "cm_c"]}, "different names"),
        ({"columns": ["asv_a", "cm_b", "asv_c", "cm_d"]}, "asv_…, then cm_…, then quality_"),
        ({"columns": ["asv_a", "asv_b", "cm_c", "x"]}, "named asv_…, cm_… or quality_…, got 'x'"),
        ({"quality": [1.0]}, "quality has 1 rows, but there are 600 trials"),
        ({"cm": CM[:9]}, r"asv and cm differ in shape: \(600, 2\) and \(9, 2\)"),
        ({"asv": ASV[:, :, None]}, r"asv must have the shape .*, got \(600, 2, 1\)"),
        ({"cm": np.where(np.arange(1200).reshape(600, 2) == 7, np.nan, CM)}, "cm_2 .* at index 3"),
        ({"cm": np.ones((600, 2))}, "all CM columns are constant on dev: cm_1, cm_2"),
        ({"cm": np.ones(600)}, "cm_1 is constant: all 600 values are 1.0"),
    ],
)
def test_bad_columns_are_errors_that_name_them(wrong, message):
    good = {"asv": ASV, "cm": CM, "labels": LABELS}
    with pytest.raises(InputError, match=message):
        build_system("Q3").fit(**(good | wrong))


def test_what_a_fit_cannot_do_with_columns_is_said():
    with pytest.raises(InputError, match="transform names the column asv_3; there are asv_1"):
        build_system("Q3", transform={"asv_3": "rank"}).fit(ASV, CM, LABELS)
    few = np.array([0] * 3 + [1] * 30 + [2] * 30)
    with pytest.raises(InputError, match="4 columns, but class spoof has only 3 dev trial"):
        build_system("L3").fit(ASV[:63], CM[:63], few)
    wide, labels = drawn(30, 6, 4)[:2], np.arange(30) % 3
    with pytest.raises(
        InputError, match=r"65 features .order: quadratic. of 10 columns, but only 30"
    ):
        multinomial("quadratic").fit(*wide, labels)
    after = multinomial("quadratic", density="gaussian").fit(*wide, labels)  # of two LLRs alone
    assert after.calibration.quadratic.shape == (2, 2, 2)
    with pytest.raises(InputError, match="got 1 asv and 2 cm columns, but it was fitted to asv_1"):
        build_system("Q3").fit(ASV, CM, LABELS)(ASV[:, 0], CM)


def test_narrow_columns_are_warned_of_and_then_refused():
    for scale, code in ((5e-3, "narrow"), (5e-4, None)):
        cm = np.column_stack([CM[:, 0], scale * CM[:, 1] / CM[:, 1].std()])
        system = build_system("L3")
        if code is None:
            message = r"L3: the gaussian density of class \w+ is nearly singular in cm_2: its "
            with pytest.raises(InputError, match=message + r"variance is .*transform: standard"):
                system.fit(ASV, cm, LABELS)
        else:
            texts = [one["text"] for one in system.fit(ASV, cm, LABELS).warnings]
            assert any("cm_2" in text and "transform: standard" in text for text in texts)
    small = 5e-4 * CM / CM.std()  # a pair is fitted as ever, with a word of warning
    pair = build_system("L3").fit(ASV[:, 0], small[:, 0], LABELS)
    assert "narrow" in [one["code"] for one in pair.warnings]


def test_named_scores_are_taken_by_name():
    columns = Columns(("asv_a", "asv_b", "cm_c", "quality_q"))
    named = {"cm_c": [3.0, 3.5], "asv_b": [2.0, 2.5], "asv_a": [1.0, 1.5], "quality_q": [4.0, 4.5]}
    asv, cm, quality = columns.take(named)
    assert asv.tolist() == [[1.0, 2.0], [1.5, 2.5]]
    assert cm.tolist() == [[3.0], [3.5]]
    assert quality.tolist() == [[4.0], [4.5]]
    with pytest.raises(InputError, match=r"got no asv_b, cm_c and unknown asv_bb"):
        columns.take({"asv_a": 1.0, "asv_bb": 2.0, "quality_q": 3.0})
    with pytest.raises(InputError, match="columns differ in length"):
        columns.take(named | {"asv_a": [1.0]})
