"""What makes a fit to development trials doubtful: how it is found, in words and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, is_any
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.calibration import CALIBRATIONS
from lightning_sasv.fusion.columns import PAIR, Columns, DevTrials
from lightning_sasv.fusion.densities import Config, State, mahalanobis, of_place
from lightning_sasv.fusion.guards import (
    FAR,
    FEW,
    constant_columns,
    copies,
    far_scores,
    misleading_trials,
    narrow,
    width_in_words,
)
from lightning_sasv.fusion.logistic import ORDERS, products
from lightning_sasv.fusion.transforms import WORDS, apply_transforms
from lightning_sasv.metrics.functional import eer
from lightning_sasv.plugins import name_of
from lightning_sasv.trials import TASKS, TrialClass

LISTED = 100
"""So many trials of a warning are kept."""
FAILED = "failed"
"""Code of the one warning of a system that could not be fitted: its reason."""

Where = Callable[[int, str], str]
"""Names a trial: ``where(row, column)``, the columns of the pair being ``asv`` and ``cm``."""


class TrialScore(TypedDict):
    """A trial that a warning is about: where it is found, and its score."""

    at: str
    score: float


class FitWarning(TypedDict):
    """What makes a fit doubtful, plain enough for JSON.

    ``code`` is ``trimmed``, ``constant``, ``copy``, ``few``, ``dominated``, ``narrow``, ``slope``,
    ``fixed`` or ``order``, or ``failed`` where there is no fit; ``text`` says in words what was
    found, of which trials, and what to do; ``value`` is the number found: of trials, the constant,
    the variance, the slope, or the EER.

    Example:
        >>> from lightning_sasv.fusion import build_system
        >>> asv, cm, labels = [0.1, 0.6, 0.2, 0.3], [1.0, 2.0, -3.0, -2.0], [2, 1, 0, 0]
        >>> build_system("L2").fit(asv, cm, labels).warnings[0]["text"][:48]
        'class spoof has 2 dev trial(s), fewer than the 5'
    """

    code: str
    text: str
    value: float
    trials: list[TrialScore]


class Doubt(NamedTuple):
    """A warning before its trials have names: ``cells`` are (column, row) of their scores."""

    code: str
    value: float
    found: str
    remedy: str
    cells: NDArray[np.intp] = np.empty((0, 2), np.intp)


def numbered(row: int, side: str) -> str:
    """Names a trial by its place in what was given to ``fit``."""
    return f"trial {row}"


TWO_CLASS = ("paper", "effective_prior", "pav")
"""Calibrations of each side apart."""
REGRESSIONS = ("multinomial", "joint", "monotone")
"""Calibrations that go by the scores of all three classes."""


def examine(
    config: Config,
    state: State,
    trials: DevTrials,
    fused: Floats | None,
    where: Where,
) -> list[FitWarning]:
    """What makes a fit doubtful.

    Args:
        config: Settings of the system.
        state: What was fitted; empty if the fit failed.
        trials: The development trials.
        fused: Their fused scores; ``None`` if the fit failed.
        where: Names a trial.
    """
    config = {key: name_of(value) for key, value in config.items()}
    if "chosen.order" in state:
        config["order"] = ORDERS[int(state["chosen.order"])]
    scores, codes = trials.scores, trials.codes
    far = far_scores(scores, codes, config["trim"])
    kept = np.flatnonzero(~far.any(axis=0))
    seen = _as_seen(state, trials)
    found = [*_trimmed(config["trim"], far, codes), *_idle(trials)]
    found += _few(config, seen.columns, codes[kept])
    found += _dominated(config, state, seen, kept, trials.columns)
    found += _narrow(config, state, seen.only(~far.any(axis=0)))
    if config["calibration"] == "monotone" and state:
        found += _held_at_zero(state, PAIR if config["density"] else seen.columns)
    else:
        found += _slopes(config, state)
    if fused is not None:
        found += _orders(trials.columns, scores[:, kept], codes[kept], fused[kept])
    return [_in_words(doubt, trials, where) for doubt in found]


def _in_words(doubt: Doubt, trials: DevTrials, where: Where) -> FitWarning:
    listed: list[TrialScore] = [
        {"at": where(int(row), trials.columns.shown[k]), "score": float(trials.scores[k, row])}
        for k, row in doubt.cells[:LISTED]
    ]
    shown = [f"{one['at']}: {one['score']:.6g}" for one in listed[:FEW]]
    shown += ["…"] if len(doubt.cells) > FEW else []
    text = doubt.found + (f" ({'; '.join(shown)})" if shown else "")
    text += f"; {doubt.remedy}"
    return {"code": doubt.code, "text": text, "value": float(doubt.value), "trials": listed}


def _as_seen(state: State, trials: DevTrials) -> DevTrials:
    """The trials as the stages after the transforms see them."""
    if "transform.word" not in state:
        return trials
    own = of_place("transform", state)
    words = tuple(WORDS[number] for number in own["word"].tolist())
    columns = replace(trials.columns, transforms=words).used
    return replace(trials, columns=columns, scores=apply_transforms(own, trials.scores))


def _idle(trials: DevTrials) -> Iterator[Doubt]:
    """Columns that say nothing, or nothing that another does not say."""
    names = trials.columns.shown
    if trials.columns.is_pair:
        return
    constant = constant_columns(trials)
    for k in np.flatnonzero(constant):
        found = f"the column {names[k]} is constant on dev ({trials.scores[k, 0]:.6g})"
        yield Doubt("constant", trials.scores[k, 0], found, "it is ignored")
    others = np.flatnonzero(~np.array(constant))
    for i, j in copies(trials.scores[others]):
        found = f"the columns {names[others[i]]} and {names[others[j]]} are copies of each other"
        yield Doubt("copy", 1.0, found, "leave one of them out")


def _trimmed(trim: float, far: NDArray[np.bool_], codes: Codes) -> Iterator[Doubt]:
    left_out = codes[far.any(axis=0)]
    if left_out.size:
        parts = [f"{np.sum(left_out == code)} {code}" for code in TrialClass if code in left_out]
        found = f"trim {trim:g} left out {', '.join(parts)} of {codes.size:,} dev trials"
        remedy = "the fit is that of the others"
        yield Doubt("trimmed", left_out.size, found, remedy, np.argwhere(far))


def _few(config: Config, columns: Columns, codes: Codes) -> Iterator[Doubt]:
    stage, parameters = _parameters(config, columns)
    for code in TrialClass:
        trials = int(np.sum(codes == code))
        if trials < parameters:
            found = f"class {code} has {trials} dev trial(s), fewer than the {parameters} "
            found += f"parameters of the {stage}"
            remedy = "give more dev trials, or take a system with less to fit"
            yield Doubt("few", trials, found, remedy)


def _parameters(config: Config, columns: Columns) -> tuple[str, int]:
    """The first stage that is fitted, and how many numbers it fits (a density: to each class)."""
    d = columns.scores
    if config["density"] is not None:
        full, components = d + d * (d + 1) // 2, config["components"]
        own = {"diagonal": 2 * d, "tied": d, "mixture": (full + 1) * components - 1}
        return f"{config['density']} density", own.get(config["density"], full)
    order = config.get("order", "linear")
    features = len(columns.names) + len(products(order, d)) + 1
    maps = dict.fromkeys(("paper", "effective_prior", "joint", "monotone"), d + 2)
    maps["multinomial"] = 2 * features
    return f"{config['calibration']} calibration", maps.get(config["calibration"], 0)


def _dominated(
    config: Config, state: State, trials: DevTrials, kept: NDArray[np.intp], given: Columns
) -> Iterator[Doubt]:
    """Classes whose width a few trials decide, where a fit goes by that."""
    columns, scores, codes = trials.columns, trials.scores, trials.codes
    for code in TrialClass:
        own = kept[codes[kept] == code]
        points = _as_weighed(config, state, scores[:, own], code)
        enough = own.size >= _parameters(config, columns)[1]
        for k in _columns_that_count(config, columns, code) if enough else ():
            rows = own[misleading_trials(points[k])]
            if rows.size and config["density"] is None and not columns.one_each:
                # a regression on standardised columns goes by the width of the whole column
                rows = np.intersect1d(rows, kept[misleading_trials(scores[k, kept])])
            if rows.size:
                found = f"the variance of the {columns.shown[k]} scores of class {code} rests on "
                found += "one dev trial" if rows.size == 1 else f"{rows.size} dev trials"
                remedy = f"correct such scores, leave them out (trim: {FAR:g}, say)"
                remedy += ", or take L3t" if config["density"] != "student_t" else ""
                place = given.names.index(columns.names[k])
                cells = np.column_stack([np.full_like(rows, place), rows])
                yield Doubt("dominated", rows.size, found, remedy, cells)


def _columns_that_count(config: Config, columns: Columns, code: TrialClass) -> Iterable[int]:
    """Columns whose scores of a class matter to a fit by more than their order."""
    asv, cm = (range(*side.indices(columns.scores)) for side in columns.sides())
    if config["density"] is not None or config["calibration"] in REGRESSIONS:
        return [*asv, *cm]
    if config["calibration"] in (None, "pav", "given"):
        return ()
    of_asv = code != TrialClass.SPOOF
    of_cm = code != TrialClass.NONTARGET or config["cm_positives"] == "bonafide"
    return [*(asv if of_asv else ()), *(cm if of_cm else ())]


def _as_weighed(config: Config, state: State, points: Floats, code: TrialClass) -> Floats:
    """Points (d, n) of a class as the fit weighs them: a Student-t draws those far out nearer."""
    if config["density"] != "student_t" or not state:
        return points
    mean, scatter, dof = state["density.mean"], state["density.scatter"], config["dof"]
    distance, _ = mahalanobis(points, mean[code], scatter[code])
    weight = np.sqrt((dof + len(mean[code])) / (dof + distance))
    return np.asarray(weight * (points - mean[code][:, None]))


def _narrow(config: Config, state: State, trials: DevTrials) -> Iterator[Doubt]:
    """Columns in which a density is nearly singular, though not so much that it is an error."""
    settings, values = {**config, "columns": trials.columns}, of_place("density", state)
    for code, column, variance in narrow(config["density"], values, trials.codes):
        found = width_in_words(code, column, variance, trials.scores, settings)
        yield Doubt("narrow", variance, *found)


def _held_at_zero(state: State, columns: Columns) -> Iterator[Doubt]:
    """Columns that do not count, because their weight would be negative."""
    for row, side in zip(state["calibration.weight"], columns.sides(), strict=True):
        for name in (n for n, w in zip(columns.shown[side], row[side], strict=True) if w == 0):
            found = f"the weight of {name} would be negative; it is fixed at 0"
            remedy = "the column does not count: check its sign, and the labels of dev"
            yield Doubt("fixed", 0.0, found, remedy)


def _slopes(config: Config, state: State) -> Iterator[Doubt]:
    """Sides on which the calibration turns scores round, or takes no notice of them."""
    for name, slope in slopes_of(config, state).items():
        if slope <= 0:
            found = f"the calibration of the {name} side has no positive slope ({slope:.3g})"
            remedy = "a higher score should count more: check scores and labels of dev"
            bonafide = config["calibration"] in TWO_CLASS and config["cm_positives"] == "bonafide"
            if name == "cm" and bonafide:
                remedy += ", or take cm_positives: target (L3ct is L3c with it)"
            yield Doubt("slope", slope, found, remedy)


def slopes_of(config: Config, state: State) -> dict[str, float]:
    """How steeply a calibration of ours of one ASV and one CM score, or LLR, rises, by side."""
    weight, llrs = state.get("calibration.weight"), state.get("calibration.llrs")
    if name_of(config["calibration"]) not in CALIBRATIONS:
        return {}
    if weight is not None and weight.shape == (2, 2) and "calibration.quadratic" not in state:
        slopes = np.diagonal(weight)
    elif llrs is not None:
        slopes = np.ptp(llrs, axis=1)
    else:
        return {}
    return dict(zip(("asv", "cm"), slopes.tolist(), strict=True))


def _orders(columns: Columns, scores: Floats, codes: Codes, fused: Floats) -> Iterator[Doubt]:
    """Scores that rank the classes the wrong way round."""
    ranked = [*zip(columns.kinds, columns.shown, scores, strict=True), ("sasv", "fused", fused)]
    for kind, name, values in ranked:
        if kind not in TASKS:
            continue
        _, positive, negative = TASKS[kind]
        rate = eer(values[is_any(codes, positive)], values[is_any(codes, negative)]).value
        if rate > 0.5:
            above, below = (" and ".join(map(str, part)) for part in (positive, negative))
            found = f"{name} scores of dev do not rank {above} above {below}: the EER is above 50 %"
            remedy = "this fit is of no use" if kind == "sasv" else "check their sign and labels"
            yield Doubt("order", rate, found, remedy)


def warning_lines(found: Mapping[str, Sequence[FitWarning]]) -> list[str]:
    """Warnings of systems by name, each said once for all systems that it is of.

    Example:
        >>> few: FitWarning = {"code": "few", "text": "too few trials", "value": 2, "trials": []}
        >>> warning_lines({"L2": [few], "L3": [few], "B1": []})
        ['warning: L2, L3: too few trials']
    """
    systems: dict[tuple[str, str], list[str]] = {}
    for name, warnings in found.items():
        for one in warnings:
            kind = "note" if one["code"] == "trimmed" else "warning"
            text = f"not fitted: {one['text']}" if one["code"] == FAILED else one["text"]
            systems.setdefault((kind, text), []).append(name)
    return [f"{kind}: {', '.join(names)}: {text}" for (kind, text), names in systems.items()]


def failed(reason: str) -> FitWarning:
    """The one warning of a system that could not be fitted."""
    return {"code": FAILED, "text": reason, "value": 0.0, "trials": []}


def failure_lines(reasons: Mapping[str, str]) -> list[str]:
    """What is said of systems that could not be fitted; of several with one reason it is once.

    Example:
        >>> failure_lines({"L2": "no spoof trial", "L3": "no spoof trial"})
        ['L2, L3: not fitted: no spoof trial']
    """
    lines = warning_lines({name: [failed(reason)] for name, reason in reasons.items()})
    return [line.removeprefix("warning: ") for line in lines]


def reason_of(warnings: Iterable[FitWarning]) -> str | None:
    """Why a system could not be fitted; nothing if it could."""
    return next((one["text"] for one in warnings if one["code"] == FAILED), None)


def is_doubtful(warnings: Iterable[FitWarning]) -> bool:
    """Whether they say more than what was left out."""
    return any(one["code"] != "trimmed" for one in warnings)


def marked(name: str, doubtful: bool) -> str:
    """The name of a system as tables have it: with a sign of exclamation if its fit is doubtful."""
    return f"{name} !" if doubtful else name


def as_warnings(value: Any) -> list[FitWarning]:
    """Warnings as a file has them.

    Raises:
        InputError: They are something else.
    """
    try:
        return [
            {
                "code": str(one["code"]),
                "text": str(one["text"]),
                "value": float(one["value"]),
                "trials": [{"at": str(t["at"]), "score": float(t["score"])} for t in one["trials"]],
            }
            for one in value
        ]
    except (TypeError, KeyError, ValueError, OverflowError):
        raise InputError("its warnings are not a list of code, text, value and trials") from None
