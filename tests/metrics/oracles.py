"""Slow, plain restatements of the definitions, to judge the metrics by."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from hypothesis import strategies as st

Point = tuple[Fraction, Fraction]


def asvspoof_eer(pos: Any, neg: Any) -> tuple[float, float]:
    """Reject one score after the other, positives first among equals; first smallest gap wins."""
    tagged = sorted([(float(s), 0) for s in pos] + [(float(s), 1) for s in neg])
    best = (1.0, 0.5, tagged[0][0] - 0.001)
    rejected = [0, 0]
    for score, kind in tagged:
        rejected[kind] += 1
        frr, far = rejected[0] / len(pos), (len(neg) - rejected[1]) / len(neg)
        if abs(frr - far) < best[0]:
            best = (abs(frr - far), (frr + far) / 2, score)
    return best[1], best[2]


def operating_points(pos: Any, neg: Any) -> list[Point]:
    """(FRR, FAR) of "accept all" and of every distinct threshold, as exact fractions."""
    points = [(Fraction(0), Fraction(1))]
    for threshold in sorted({float(s) for s in (*pos, *neg)}):
        frr = Fraction(sum(s <= threshold for s in pos), len(pos))
        far = Fraction(sum(s > threshold for s in neg), len(neg))
        points.append((frr, far))
    return points


def interpolated_eer(points: list[Point]) -> float:
    """Where the polyline of the operating points meets FRR = FAR."""
    for (x, y), (v, w) in itertools.pairwise(points):
        if x <= y and v >= w:
            share = (y - x) / ((y - x) + (v - w)) if (y - x) + (v - w) else Fraction(0)
            return float(x + share * (v - x))
    raise AssertionError("the curve does not cross the diagonal")


def max_eer(points: list[Point]) -> float:
    return float(min(max(point) for point in points))


def rocch_eer(points: list[Point]) -> float:
    """Smallest FRR = FAR that mixing two operating points can reach."""
    best = Fraction(1)
    for (x, y), (v, w) in itertools.product(points, repeat=2):
        if x <= y and v >= w:
            width = (y - x) + (v - w)
            best = min(best, x + (y - x) / width * (v - x) if width else x)
    return float(best)


def check_rates(rate: Callable[[str], Any], pos: Any, neg: Any) -> None:
    """An equal error rate is that of the definition under every convention."""
    assert tuple(rate("asvspoof")) == asvspoof_eer(pos, neg)
    exact = operating_points(pos, neg)
    rules = {"interpolated": interpolated_eer, "max": max_eer, "rocch": rocch_eer}
    for convention, oracle in rules.items():
        assert abs(rate(convention)[0] - oracle(exact)) <= 1e-14, convention


def cllr(pos: Any, neg: Any) -> float:
    terms = [np.mean(np.logaddexp(0, -np.asarray(pos))), np.mean(np.logaddexp(0, np.asarray(neg)))]
    return float(sum(terms) / 2 / math.log(2))


def a_dcf(tar: Any, non: Any, spf: Any, weights: tuple[float, float, float]) -> float:
    """Smallest normalised cost over "accept all" and every score as a threshold."""
    costs = []
    for threshold in (-math.inf, *tar, *non, *spf):
        rates = [np.mean(np.asarray(tar) <= threshold)]
        rates += [np.mean(np.asarray(part) > threshold) for part in (non, spf)]
        if threshold == -math.inf:
            rates = [0.0, 1.0, 1.0]
        costs.append(sum(w * r for w, r in zip(weights, rates, strict=True)))
    return float(min(costs) / min(weights[0], weights[1] + weights[2]))


def tandem_polylines(asv: Any, cm: Any, labels: Any) -> tuple[np.ndarray, np.ndarray]:
    """Operating points of ASV (miss, fa_non, fa_spf) and CM (miss, fa) at distinct thresholds."""
    asv, cm, labels = (np.asarray(x) for x in (asv, cm, labels))
    tar, non, spf = asv[labels == 1], asv[labels == 2], asv[labels == 0]
    first = [(0.0, 1.0, 1.0)]
    for t in sorted(set(asv.tolist())):
        first.append((np.mean(tar <= t), np.mean(non > t), np.mean(spf > t)))
    bona, spoof = cm[labels != 0], cm[labels == 0]
    second = [(0.0, 1.0)]
    for t in sorted(set(cm.tolist())):
        second.append((np.mean(bona <= t), np.mean(spoof > t)))
    return np.array(first), np.array(second)


def concurrent_values(asv: Any, cm: Any, labels: Any) -> list[float]:
    """Common error rate of every concurrent point, cell by cell.

    In a cell both curves are straight, at shares t and s of their segments. miss = fa_non means
    q (1 + Pn - Pm) = 1, and fa_non = fa_spf means q Pn = F Ps, with q and F linear in s and the
    ASV rates linear in t: eliminating s leaves a quadratic in t. Should it vanish, a whole segment
    solves it, of which the ends are given. Whatever it gives is a point only
    if it satisfies both equations inside the cell.
    """
    first, second = tandem_polylines(asv, cm, labels)
    found = []
    for (m0, n0, p0), (m1, n1, p1) in itertools.pairwise(first):
        n, p, a = (np.array(x) for x in ((n1 - n0, n0), (p1 - p0, p0), (0.0, 0.0)))
        a = np.array([n1 - n0 - (m1 - m0), 1 + n0 - m0])
        for (c0, f0), (c1, f1) in itertools.pairwise(second):
            q0, dq, df = 1 - c0, c0 - c1, f1 - f0
            for solution in _cell_solutions(n, p, a, (q0, dq), (f0, df)):
                t, s = np.clip(solution, 0, 1)
                passed, accepted = q0 + s * dq, f0 + s * df
                first_gap = passed * np.polyval(a, t) - 1
                second_gap = passed * np.polyval(n, t) - accepted * np.polyval(p, t)
                if max(abs(first_gap), abs(second_gap)) < 1e-12:
                    found.append(float(passed * np.polyval(n, t)))
    return found


def _cell_solutions(
    n: np.ndarray,
    p: np.ndarray,
    a: np.ndarray,
    q: tuple[float, float],
    f: tuple[float, float],
) -> list[tuple[float, float]]:
    (q0, dq), (f0, df) = q, f
    if dq == 0:  # only spoofs between the CM thresholds: q is fixed, so is 1 + Pn - Pm
        if q0 == 0:
            return []
        ts = (
            [(1 / q0 - a[1]) / a[0]] if a[0] else ([0.0, 1.0] if abs(a[1] * q0 - 1) < 1e-12 else [])
        )
        pairs = []
        for t in ts:
            needed, spoof = q0 * np.polyval(n, t), np.polyval(p, t)
            if spoof > 1e-12 and df:
                pairs.append((t, (needed / spoof - f0) / df))
            elif abs(needed - f0 * spoof) < 1e-12:
                pairs.append((t, 0.0))
        return pairs
    corners = [(t, (1 / np.polyval(a, t) - q0) / dq) for t in (0, 1) if np.polyval(a, t) > 0]
    corners += [((1 / x - a[1]) / a[0], s) for s, x in ((0, q0), (1, q0 + dq)) if a[0] and x > 0]
    left = np.polymul(np.polyadd((f0 - df * q0 / dq) * a, [df / dq]), p)
    roots = np.roots(np.trim_zeros(np.polysub(n, left), "f"))
    real = [float(r.real) for r in np.atleast_1d(roots)]
    return corners + [(t, (1 / np.polyval(a, t) - q0) / dq) for t in real if np.polyval(a, t) > 0]


def tied_scores(min_size: int = 1, max_size: int = 9) -> st.SearchStrategy[np.ndarray]:
    """Few scores with many ties among them."""
    element = st.integers(-4, 4).map(lambda k: k / 2)
    return st.lists(element, min_size=min_size, max_size=max_size).map(np.array)


@st.composite
def trials(draw: st.DrawFn, max_per_class: int = 6) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """ASV scores, CM scores and labels of a few trials of every class, with many ties."""
    sizes = [draw(st.integers(1, max_per_class)) for _ in range(3)]
    labels = np.repeat([0, 1, 2], sizes)
    shuffled = np.array(draw(st.permutations(labels.tolist())))
    asv, cm = (draw(tied_scores(labels.size, labels.size)) for _ in range(2))
    return asv + (shuffled == 1), cm + (shuffled != 0), shuffled
