"""Bootstrap: weights are repetitions, intervals a peer's, replicates functions of the seed."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any, get_args
from unittest import mock

import numpy as np
import pytest
from confidence_intervals import get_conf_int
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils import resample

from lightning_sasv.metrics import bootstrap as module
from lightning_sasv.metrics.bootstrap import ClusterDraws, impostors, replicate_weights
from lightning_sasv.metrics.bootstrap import resample as draw_all
from lightning_sasv.metrics.functional import (
    COLUMNS,
    Settings,
    a_dcf,
    all_metrics,
    bootstrap,
    eer,
    paired_bootstrap,
)
from lightning_sasv.metrics.functional.eer import Convention, rate_of
from lightning_sasv.metrics.functional.points import Classes
from lightning_sasv.metrics.intervals import Resampled
from lightning_sasv.metrics.registry import values_of
from tests.metrics.oracles import trials

Columns = dict[str, np.ndarray]


def weighted(
    columns: Columns, labels: np.ndarray, w: np.ndarray, convention: Convention = "asvspoof"
) -> dict[str, float]:
    classes = Classes(columns, labels.astype(np.int8)).weighted(w)
    return values_of(list(COLUMNS), classes, Settings(convention=convention))


@given(trials(5), st.sampled_from(get_args(Convention)), st.data())
@settings(max_examples=200)
def test_whole_weights_are_literal_repetitions(
    case: tuple[np.ndarray, ...], convention: Convention, data: st.DataObject
) -> None:
    asv, cm, labels = case
    w = np.array(data.draw(st.lists(st.integers(0, 3), min_size=asv.size, max_size=asv.size)))
    columns = {"asv": asv, "cm": cm, "sasv": asv + cm}
    found = weighted(columns, labels, w, convention)
    drawn = dict(
        zip(
            (*columns, "labels"),
            [np.repeat(x, w) for x in (*columns.values(), labels)],
            strict=True,
        )
    )
    if set(drawn["labels"].tolist()) != {0, 1, 2}:
        whole = all_metrics(**drawn, allow_missing=True) if drawn["labels"].size else {}
        complete = {name for name, value in found.items() if not math.isnan(value)}
        assert complete == {n for n in COLUMNS if not math.isnan(whole.get(n, math.nan))}
        return
    expected = all_metrics(**drawn, llrs=True, convention=convention)
    for name, value in found.items():
        tolerance = 1e-8 if name == "nce_min" else 1e-11  # that is found by iteration
        assert value == pytest.approx(expected[name], abs=tolerance, nan_ok=True), name


@pytest.mark.parametrize("way", ["trial", "speaker", "speaker-attack", "known"])
def test_every_metric_every_way_is_that_of_the_resampled_trials(
    way: str, simulated: Columns, columns: Columns, expected: dict[str, float]
) -> None:
    labels, speaker, attack = (simulated[name] for name in ("labels", "speaker", "attack"))
    impostor = impostors(labels, np.roll(speaker, 1))
    ways = {"trial": None, "speaker": speaker, "speaker-attack": (speaker, attack)}
    clusters = (ways | {"known": (speaker, impostor, attack)})[way]
    found = bootstrap(list(COLUMNS), columns, labels, clusters, n=4, alpha=0.5, seed=2)
    assert set(found) == set(COLUMNS)
    for k, w in enumerate(replicate_weights(labels.size, clusters, 4, seed=2)):
        drawn = all_metrics(*[np.repeat(x, w) for x in (*columns.values(), labels)], llrs=True)
        for name, interval in found.items():
            assert interval.replicates[k] == pytest.approx(drawn[name], abs=1e-9), name
    values = {name: interval.value for name, interval in found.items()}
    assert values == pytest.approx({name: expected[name] for name in COLUMNS}, rel=1e-12)
    assert weighted(columns, labels, np.ones_like(labels)) == pytest.approx(values, rel=1e-12)
    assert all(one.undefined == 0 and one.low <= one.high for one in found.values())


def test_sums_over_drawn_clusters_are_those_of_the_bootstrap(simulated: Columns) -> None:
    speaker = simulated["speaker"]
    rows = np.random.default_rng(0).integers(0, 2, (3, speaker.size))
    weights = np.array([*replicate_weights(speaker.size, speaker, 7, seed=3)])
    assert np.array_equal(ClusterDraws(speaker, 7, 3).sums(rows), rows @ weights.T)


@pytest.mark.parametrize("name", COLUMNS)
def test_every_metric_can_be_compared_in_pairs(
    name: str, simulated: Columns, columns: Columns
) -> None:
    other = {key: 9 * x + np.roll(x, 1) for key, x in columns.items()}
    labels, speaker = simulated["labels"], simulated["speaker"]
    paired = paired_bootstrap(name, columns, other, labels, speaker, n=6, alpha=0.4)
    alone = [bootstrap(name, x, labels, speaker, n=6, alpha=0.4) for x in (columns, other)]
    assert paired.difference == alone[0].value - alone[1].value != 0
    assert paired.replicates.tolist() == (alone[0].replicates - alone[1].replicates).tolist()


def test_closest_t_eer_of_pairs_without_a_concurrent_point(rng: np.random.Generator) -> None:
    labels = np.repeat([0, 1, 2], 200)
    asv = np.array([-4.0, 3.0, 0.0])[labels] + rng.normal(size=600)
    cm = np.array([-2.0, 2.0, 2.0])[labels] + rng.normal(size=600)
    found = bootstrap(["t_eer", "t_eer_closest"], {"asv": asv, "cm": cm}, labels, n=39)
    assert found["t_eer"].undefined == 39
    assert math.isnan(found["t_eer"].low)
    closest = found["t_eer_closest"]
    assert closest.low < closest.value < closest.high < 0.1, "never the end of 33 %"


def test_interval_is_the_packages_on_the_same_draws(simulated: Columns) -> None:
    scores, labels = simulated["sasv"], simulated["labels"]
    draws = [resample(np.arange(scores.size), random_state=k) for k in range(60)]
    classes = Classes({"sasv": scores}, labels.astype(np.int8))
    counts = (np.bincount(drawn, minlength=scores.size) for drawn in draws)
    ours = [rate_of(classes.weighted(w).task("sasv")) for w in counts]
    literal = [
        eer(scores[drawn][labels[drawn] == 1], scores[drawn][labels[drawn] != 1]).value
        for drawn in draws
    ]
    assert ours == literal
    found = Resampled(0.0, np.array(ours)).interval(method="interpolated")
    assert found[:2] == pytest.approx(get_conf_int(literal))


def test_replicates_depend_on_seed_and_number_alone(simulated: Columns) -> None:
    scores, labels = simulated["sasv"], simulated["labels"]
    long = bootstrap("sasv_eer", scores, labels, n=40, seed=3)
    short = bootstrap("sasv_eer", scores, labels, n=15, alpha=0.2, seed=3)
    together = bootstrap(["cllr", "sasv_eer"], {"sasv": scores}, labels, n=40, seed=3)
    other = bootstrap("sasv_eer", scores, labels, n=40, seed=4)
    assert long.replicates[:15].tolist() == short.replicates.tolist()
    assert together["sasv_eer"].replicates.tolist() == long.replicates.tolist()
    assert other.replicates.tolist() != long.replicates.tolist()


def test_named_metric_equals_the_function_on_resampled_trials(simulated: Columns) -> None:
    scores, labels = simulated["sasv"], simulated["labels"]

    def cost(values: np.ndarray, codes: np.ndarray) -> float:
        return a_dcf(values, codes).min

    by_name = bootstrap("min_a_dcf", scores, labels, simulated["speaker"], n=39)
    by_function = bootstrap(cost, scores, labels, simulated["speaker"], n=39)
    assert by_name.replicates == pytest.approx(by_function.replicates, abs=1e-14)
    assert (by_name.value, by_name.low) == pytest.approx((by_function.value, by_function.low))


@pytest.mark.parametrize("block", [module.BLOCK, 7])
def test_trials_are_drawn_uniformly_with_replacement_in_blocks_or_at_once(block: int) -> None:
    with mock.patch.object(module, "BLOCK", block):
        rows = np.array(list(replicate_weights(50, n=4000)))
    assert (rows.sum(axis=1) == 50).all()
    assert rows.mean(axis=0) == pytest.approx(np.ones(50), abs=0.1)
    assert rows.var() == pytest.approx(1 - 1 / 50, abs=0.02)  # multinomial
    covariance = np.cov(rows.T)
    apart = covariance[~np.eye(50, dtype=bool)]
    assert apart.mean() == pytest.approx(-1 / 50, abs=0.002)
    same_block = np.mean([covariance[k, k + 1] for k in (0, 1, 2, 7, 8, 14, 21, 28)])
    assert same_block == pytest.approx(-1 / 50, abs=0.03)


@pytest.mark.parametrize("clusters", [None, np.arange(50) % 9])
def test_trials_drawn_more_often_than_a_byte_holds_count_all_the_same(
    clusters: np.ndarray | None,
) -> None:
    narrow = list(replicate_weights(50, clusters, n=5))
    with mock.patch.object(module, "_NARROW", 1):
        wide = list(replicate_weights(50, clusters, n=5))
    assert [one.dtype for one in (*narrow, *wide)] == [np.int8] * 5 + [np.int64] * 5
    assert np.array_equal(narrow, wide)


def test_clusters_are_drawn_whole() -> None:
    speaker = np.array(["a", "b", "b", "c", "c", "c"])
    for w in replicate_weights(6, speaker, n=50):
        assert w[1] == w[2]
        assert w[3] == w[4] == w[5]
        assert w[0] + w[1] + w[3] == 3


def test_crossed_clusters_multiply_and_bona_fide_has_no_attack() -> None:
    speaker = np.array(["a", "a", "a", "b", "b", "b"])
    attack = np.array(["-", "A1", "A2", "-", "A1", "A2"])
    seen = set()
    for w in replicate_weights(6, (speaker, attack), n=80):
        by_speaker = {"a": w[0], "b": w[3]}
        assert sum(by_speaker.values()) == 2
        for name in ("a", "b"):
            rows = w[speaker == name]
            if rows[0]:
                counts = rows[1:] / rows[0]
                assert counts.sum() == 2
                seen.add(tuple(counts.tolist()))
    assert seen == {(0.0, 2.0), (1.0, 1.0), (2.0, 0.0)}


def test_three_crossed_columns_multiply_and_draw_as_two_do() -> None:
    """The first columns are drawn as they are without the last; its counts multiply theirs."""
    speaker, attack = np.repeat(["a", "b", "c"], 6), np.tile(["-", "-", "-", "-", "A1", "A2"], 3)
    impostor = np.tile(["-", "x", "y", "z", "-", "-"], 3)
    two = replicate_weights(18, (speaker, impostor), n=40, seed=5)
    three = replicate_weights(18, (speaker, impostor, attack), n=40, seed=5)
    for few, all_of_them in zip(two, three, strict=True):
        np.testing.assert_array_equal(few[attack == "-"], all_of_them[attack == "-"])
        for name in "abc":
            mine = speaker == name
            target, *others = all_of_them[mine][:4]
            assert sum(others) == 3 * target
            assert all_of_them[mine][4:].sum() == 2 * target


RECORDED = (
    [[2, 0, 1, 1, 2, 0, 1, 1, 2, 0, 1, 1], [2, 0, 0, 2, 2, 0, 0, 2, 2, 0, 0, 2]],
    [[2, 0, 1, 1, 2, 0, 2, 1, 0, 0, 1, 0], [2, 0, 0, 2, 2, 0, 0, 0, 2, 0, 0, 2]],
)


def test_draws_by_speaker_and_by_attack_are_the_bits_of_ever() -> None:
    """Recorded before crossed columns shared their cells."""
    speaker, attack = np.arange(12) % 4, np.where(np.arange(12) < 6, "-", np.arange(12) % 3)
    by_speaker, crossed = (
        [w.tolist() for w in replicate_weights(12, clusters, n=2, seed=7)]
        for clusters in (speaker, (speaker, attack))
    )
    assert by_speaker == RECORDED[0]
    assert crossed == RECORDED[1]


def test_left_out_values_are_those_without_each_speaker(simulated: Columns) -> None:
    scores, labels, speaker = (simulated[name] for name in ("sasv", "labels", "speaker"))
    clusters = speaker, simulated["attack"]
    found = draw_all({"A": {"sasv": scores}}, labels, {"A": ["sasv_eer", "cllr"]}, clusters, n=2)
    for k, name in enumerate(np.unique(speaker)):
        rest = speaker != name
        wanted = all_metrics(None, None, scores[rest], labels[rest])
        for metric, one in found["A"].items():
            assert one.left_out is not None
            assert one.left_out[k] == pytest.approx(wanted[metric], rel=1e-12)
    by_trial = draw_all({"A": {"sasv": scores}}, labels, {"A": ["sasv_eer"]}, n=2)
    assert by_trial["A"]["sasv_eer"].left_out is None


def test_interval_over_speakers_is_bca_and_trials_may_be_repeated(simulated: Columns) -> None:
    scores, labels, speaker = (simulated[name] for name in ("sasv", "labels", "speaker"))
    found = bootstrap("cllr", scores, labels, speaker, n=199)
    assert (found.method, found.note) == ("bca", "")
    twice = [np.repeat(x, 2) for x in (scores, labels, speaker)]
    again = bootstrap("cllr", *twice, n=199)
    assert (again.low, again.high) == pytest.approx((found.low, found.high), rel=1e-9)
    rows = np.random.default_rng(0).permutation(scores.size)
    mixed = bootstrap("cllr", scores[rows], labels[rows], speaker[rows], n=199)
    assert (mixed.low, mixed.high) == pytest.approx((found.low, found.high), rel=1e-9)
    by_trial = [bootstrap("cllr", *one, n=199) for one in ((scores, labels), twice[:2])]
    assert by_trial[1].half_width == pytest.approx(by_trial[0].half_width / 2**0.5, rel=0.2)
    assert by_trial[0].method == "percentile"
    plain = bootstrap("cllr", scores, labels, speaker, n=199, method="percentile")
    assert plain.replicates.tolist() == found.replicates.tolist()
    assert plain.high < found.high


def test_very_many_speakers_are_left_out_in_groups(simulated: Columns) -> None:
    scores, labels = simulated["sasv"], simulated["labels"]
    speaker = np.arange(scores.size) % 400
    found = draw_all({"A": {"sasv": scores}}, labels, {"A": ["cllr"]}, speaker, n=2)["A"]["cllr"]
    assert found.speakers == 400
    assert found.left_out is not None
    order = np.unique(np.arange(400).astype(str), return_inverse=True)[1]  # by name
    first = all_metrics(None, None, *(x[order[speaker] % 200 != 0] for x in (scores, labels)))
    assert found.left_out.size == 200
    assert found.left_out[0] == pytest.approx(first["cllr"], rel=1e-12)


def test_settings_of_each_system_may_differ(simulated: Columns) -> None:
    columns = {name: {"sasv": simulated["sasv"]} for name in "AB"}
    own = {"A": Settings(dev_threshold=3.0), "B": Settings(dev_threshold=1.0)}
    names = {name: ["dev_a_dcf"] for name in "AB"}
    found = draw_all(columns, simulated["labels"], names, n=2, settings=own)
    assert found["A"]["dev_a_dcf"].value != found["B"]["dev_a_dcf"].value


def test_replicates_without_a_class_are_left_out_and_counted() -> None:
    found = bootstrap("sv_eer", [2.0, 1.0, 0.0, 0.5], [1, 2, 0, 0], n=200)
    assert 0 < found.undefined < 200
    assert np.isnan(found.replicates).sum() == found.undefined
    assert math.isfinite(found.low)


def test_paired_difference_of_a_system_with_itself_and_with_a_worse_one(
    simulated: Columns, rng: np.random.Generator
) -> None:
    scores, labels = simulated["sasv"], simulated["labels"]
    same = paired_bootstrap("sasv_eer", scores, scores, labels, n=50)
    assert same[:4] == (0, 0, 0, 1)
    worse = scores + rng.normal(0, 4, scores.size)
    found = paired_bootstrap("sasv_eer", worse, scores, labels, n=200)
    assert found.difference > 0
    assert 0 < found.low < found.high
    assert found.p_value == pytest.approx(2 / 201)
    back = paired_bootstrap("sasv_eer", scores, worse, labels, n=200)
    assert back.difference == -found.difference
    assert back.replicates.tolist() == (-found.replicates).tolist()


def test_pair_metrics_take_a_pair_of_columns(pair: tuple[np.ndarray, ...]) -> None:
    asv, cm, labels = pair
    found = bootstrap("t_eer", (asv, cm), labels, n=5, alpha=0.5)
    mapping = bootstrap("t_eer", {"asv": asv, "cm": cm}, labels, n=5, alpha=0.5)
    assert found.replicates.tolist() == mapping.replicates.tolist()


def test_memory_does_not_grow_with_the_replicates(simulated: Columns) -> None:
    scores, labels = np.tile(simulated["sasv"], 10), np.tile(simulated["labels"], 10)
    peaks = []
    for n in (39, 200):
        tracemalloc.start()
        bootstrap("sasv_eer", scores, labels, n=n)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < peaks[0] + 100_000


S = [1.0, 0.0, 0.5]


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("sasv_eer", S), {"n": 38}, "38 replicates give no 95 % interval; take at least 39"),
        (("sasv_eer", S), {"alpha": 5}, r"a fraction between 0 and 1 \(0.05 for 95 % intervals\)"),
        (("eer", S), {}, "unknown metric 'eer'"),
        (("sasv_eer", S), {"clusters": ["a", "b"]}, r"clusters\[0\] has shape \(2,\)"),
        (("sasv_eer", S), {"clusters": ["-", "-", "-"]}, "names no cluster"),
        (("t_eer", S), {}, r"need a pair of columns \(asv, cm\)"),
        (("t_eer", {"sasv": S}), {}, r"needs the scores \['asv', 'cm'\]"),
        ((["sasv_eer", "t_eer"], S), {}, "need the columns"),
        (("sasv_eer", S, [1.0, 0.0]), {}, "differ in length"),
        (("nce", (S, [1.0, math.inf, 0.0])), {}, "cm holds infinite values"),
        ((lambda s, y: 0.0, {"sasv": S}), {}, "takes one column"),
    ],
)
def test_mistakes_are_named(arguments: tuple[Any, ...], options: Columns, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        (bootstrap, paired_bootstrap)[len(arguments) - 2](*arguments, [1, 2, 0], **options)
