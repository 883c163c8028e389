"""Columns that no system can do anything with, or not this one; scores that decide too much.

They are found before they do harm: columns that are constant, copies, too many or too narrow, and
scores that lie far from those of their class, or decide alone how these spread.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, check_spread
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.columns import DevTrials
from lightning_sasv.fusion.densities import COVARIANCE_FLOOR, DENSITIES, Config, State
from lightning_sasv.fusion.logistic import products
from lightning_sasv.fusion.transforms import domain
from lightning_sasv.plugins import name_of
from lightning_sasv.trials import TrialClass


class SingularError(InputError):
    """A density that is nearly singular in a column; the message has the remedy."""


CONSTANT = 1e-12
"""A standard deviation below this share of max(1, |mean|) is none."""
COPY = 1e-9
"""Columns are copies of each other if their correlation is so close to 1 or −1."""
SINGULAR, NARROW, SMALL = 1e-6, 1e-4, 0.01
"""Variances in a class below the first are an error, below the second doubtful; a column whose
standard deviation over all trials is below the third is merely in small units."""


def constant_columns(trials: DevTrials) -> list[bool]:
    """Which columns are constant on dev, and so ignored.

    Raises:
        InputError: All columns of a kind are.
    """
    columns, scores = trials.columns, trials.scores
    if columns.counts == (1, 1, 0):
        for row, name in zip(scores, columns.shown, strict=True):
            check_spread(row, name)
        return [False, False]
    scale = np.maximum(1.0, np.abs(scores.mean(axis=1)))
    constant = scores.std(axis=1) <= CONSTANT * scale
    for kind, place in zip(("ASV", "CM"), columns.sides(), strict=True):
        if constant[place].all():
            names = ", ".join(columns.shown[place])
            value = scores[place][0, 0]
            raise InputError(
                f"{names} is constant: all {scores.shape[1]} values are {value}"
                if place.stop - place.start == 1
                else f"all {kind} columns are constant on dev: {names}"
            )
    return [bool(one) for one in constant]


def copies(scores: Floats) -> Iterator[tuple[int, int]]:
    """Pairs of columns that are copies of each other, but for a factor and an offset."""
    with np.errstate(all="ignore"):
        centred = scores - scores.mean(axis=1, keepdims=True)
        size = np.abs(centred).max(axis=1, keepdims=True)
        centred /= np.where(size > 0, size, 1.0)
        products = centred @ centred.T
        own = np.sqrt(np.diagonal(products))
        correlation = np.abs(products / np.outer(own, own))
    for j in range(len(scores)):
        for i in range(j):
            if correlation[i, j] > 1 - COPY:
                yield i, j


def check_sizes(place: str, codes: Codes, settings: Config) -> None:
    """Raise where there are more columns than trials of a class, or more features than trials.

    A pair is fitted to any number of trials; that they are few is a warning.
    """
    columns = settings["columns"]
    if place == "transform" or columns.one_each:
        return
    for code in TrialClass:
        trials = int(np.count_nonzero(codes == code))
        if columns.scores > trials:
            raise InputError(
                f"{columns.scores} columns, but class {code} has only {trials} dev trial(s); "
                "give more trials or fewer columns"
            )
    order = settings.get("chosen_order", settings["order"])
    features = len(columns.names) + len(products(order, columns.scores))
    if place == "calibration" and features > len(codes):
        raise InputError(
            f"{features} features (order: {order}) of {len(columns.names)} columns, but only "
            f"{len(codes)} dev trials; give more trials or fewer columns"
        )


def check_widths(values: State, scores: Floats, codes: Codes, settings: Config) -> None:
    """Raise where a density is nearly singular in a column, unless it is of a pair.

    Raises:
        InputError: Of the first such class and column, with the remedy.
    """
    if settings["columns"].one_each:
        return
    for code, column, variance in narrow(name_of(settings["density"]), values, codes):
        if variance < SINGULAR:
            words = "; ".join(width_in_words(code, column, variance, scores, settings))
            raise SingularError(f"{settings['label']}{words}")


def narrow(
    density: str | None, values: State, codes: Codes
) -> Iterator[tuple[TrialClass, int, float]]:
    """Classes and columns in which one of our densities is nearly singular.

    The variance is that of the class, or of the component, or of the scatter, before the floor.
    What has no more trials than columns is left out: it is always singular.
    """
    found = values.get("covariance", values.get("scatter"))
    if density not in DENSITIES or found is None:
        return
    variances = np.diagonal(found, axis1=-2, axis2=-1) - COVARIANCE_FLOOR  # (3, …, d)
    weights = values.get("weight", np.ones(variances.shape[:-1]))
    trials = np.array([np.count_nonzero(codes == code) for code in TrialClass])
    enough = variances.shape[-1] < (weights.T * trials).T
    variances = np.where(enough[..., None], variances, np.inf)
    least = variances.reshape(len(TrialClass), -1, variances.shape[-1]).min(axis=1)
    for column in range(least.shape[1]):
        for code in TrialClass:
            if least[code, column] < NARROW:
                yield code, column, max(float(least[code, column]), 0.0)


def width_in_words(
    code: TrialClass, column: int, variance: float, scores: Floats, settings: Config
) -> tuple[str, str]:
    """What is wrong with a column, and the remedy."""
    name, values = settings["columns"].shown[column], scores[column]
    remedy = "logit" if domain(values) is not None else "rank"
    if values.std() < SMALL:
        remedy = "standard"
    found = f"the {settings['density']} density of class {code} is nearly singular in {name}: its "
    return f"{found}variance is {variance:.2g}", f"give this column transform: {remedy}"


FEW = 4
"""So many trials should not decide how wide the scores of a class are."""
SMALL_CLASS, APART = 100, 5.0
"""Four of fewer trials than this weigh much in any case; only those farther out mislead."""
FAR = 10.0
"""What ``trim`` could be, in interquartile ranges beyond the quartiles."""


def far_scores(pairs: Floats, codes: Codes, trim: float | None) -> NDArray[np.bool_]:
    """Which scores (2, trials) lie far beyond the quartiles of their class.

    Args:
        pairs: Score pairs (2, trials).
        codes: ``TrialClass`` codes (trials,).
        trim: More interquartile ranges than this are far; ``None`` if nothing is. Where the range
            of a class is 0 nothing is either: it does not say how far scores usually lie.
    """
    far = np.zeros(pairs.shape, bool)
    if trim is not None:
        for code in TrialClass:
            own = codes == code
            low, high = np.quantile(pairs[:, own], [0.25, 0.75], axis=1)[..., None]
            reach = trim * (high - low)
            beyond = (pairs[:, own] < low - reach) | (pairs[:, own] > high + reach)
            far[:, own] = beyond & (reach > 0)
    return far


def deciding_trials(values: Floats) -> NDArray[np.intp]:
    """The trials, up to four, that decide the variance of a class; as a rule there are none.

    Four trials do if without them the variance changes by more than half of itself. Of all subsets
    of a size, a window of the ranked values has the least variance, and all but a window the most;
    the most can be half as large again only where there are fewer than twelve values.

    Args:
        values: Scores of one class.

    Returns:
        Their places in ``values``, ascending.

    Example:
        >>> deciding_trials(np.append(np.arange(50.0), 1e12))
        array([50])
    """
    size, variance = values.size, values.var()
    if size <= FEW:
        return np.arange(size)
    if np.ptp(values) <= 8 * np.spacing(np.abs(values).max()):  # equal but for rounding
        return np.arange(0)
    ends = [*range(FEW), *range(size - FEW, size)]
    ranked = np.partition(values, ends)
    rest = _narrowest(ranked, FEW)[0]
    for removed in range(1, FEW + 1) if rest < variance / 2 else ():
        least, start = _narrowest(ranked, removed)
        if least < variance / 2 and least <= 2 * rest:  # the others make no such difference
            order = np.argpartition(values, ends)
            return np.sort(np.delete(order, slice(start, start + size - removed)))
    if size < 3 * FEW:
        blocks = np.argsort(values)[np.arange(size - FEW + 1)[:, None] + np.arange(FEW)]
        without = [np.delete(values, block).var() for block in blocks]
        if max(without) > 1.5 * variance:
            return np.sort(blocks[np.argmax(without)])
    return np.arange(0)


def _narrowest(ranked: Floats, removed: int) -> tuple[float, int]:
    """Least variance of a window of all but some values, and where it starts."""
    kept = ranked.size - removed
    return min((float(ranked[n : n + kept].var()), n) for n in range(removed + 1))


def misleading_trials(values: Floats) -> NDArray[np.intp]:
    """The trials, up to four, that decide the variance of a class although they should not.

    Without its four most extreme trials a small healthy class loses half of its variance as a rule
    (always of 10 trials, in 1 to 68 of 100 classes of 50, the more skewed the more often; from 100
    on it is rare). So in a class of fewer than 100 they must also lie more than 5 interquartile
    ranges beyond the quartiles, as in 2 to 8 of 100 skewed classes of 50.
    """
    found = deciding_trials(values)
    if FEW < values.size < SMALL_CLASS and found.size:
        low, high = np.quantile(values, [0.25, 0.75])
        beyond = np.maximum(low - values[found], values[found] - high)
        return found[beyond > APART * (high - low)]
    return found
