"""Development trials that mislead a fit: what is said of them, in words and as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypedDict

import numpy as np
from numpy.typing import NDArray

from lightning_sasv.checks import Codes, Floats, is_any
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.calibration import CALIBRATIONS
from lightning_sasv.fusion.densities import Config, State, mahalanobis
from lightning_sasv.fusion.outliers import FAR, FEW, far_scores, misleading_trials
from lightning_sasv.metrics.functional import eer
from lightning_sasv.plugins import name_of
from lightning_sasv.trials import TASKS, TrialClass

LISTED = 100
"""So many trials of a warning are kept."""
SIDES = ("asv", "cm")

Where = Callable[[int, str], str]
"""Names a trial for a reader: ``where(row, side)``, the side being ``asv`` or ``cm``."""


class TrialScore(TypedDict):
    """A trial that a warning is about: where it is found, and its score."""

    at: str
    score: float


class FitWarning(TypedDict):
    """What makes a fit doubtful, plain enough for JSON.

    ``code`` is ``trimmed``, ``few``, ``dominated``, ``slope`` or ``order``; ``text`` says in words
    what was found, of which trials, and what to do; ``value`` is the number found: of trials, or
    the slope, or the EER.

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
    """A warning before its trials have names: ``cells`` are (side, row) of their scores."""

    code: str
    value: float
    found: str
    remedy: str
    cells: NDArray[np.intp] = np.empty((0, 2), np.intp)


def numbered(row: int, side: str) -> str:
    """Names a trial by its place in what was given to ``fit``."""
    return f"trial {row}"


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
            systems.setdefault((kind, one["text"]), []).append(name)
    return [f"{kind}: {', '.join(names)}: {text}" for (kind, text), names in systems.items()]


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


def examine(
    config: Config,
    state: State,
    pairs: Floats,
    codes: Codes,
    fused: Floats | None,
    where: Where,
) -> list[FitWarning]:
    """What makes a fit doubtful.

    Args:
        config: Settings of the system.
        state: What was fitted; empty if the fit failed.
        pairs: Score pairs (2, trials) of the development trials.
        codes: ``TrialClass`` codes (trials,).
        fused: Their fused scores; ``None`` if the fit failed.
        where: Names a trial.
    """
    config = {key: name_of(value) for key, value in config.items()}
    far = far_scores(pairs, codes, config["trim"])
    kept = np.flatnonzero(~far.any(axis=0))
    found = [*_trimmed(config["trim"], far, codes), *_few(config, codes[kept])]
    found += _dominated(config, state, pairs, codes, kept)
    found += _slopes(state) if config["calibration"] in CALIBRATIONS else ()
    if fused is not None:
        found += _orders(pairs[:, kept], codes[kept], fused[kept])
    return [_in_words(doubt, pairs, where) for doubt in found]


def _in_words(doubt: Doubt, pairs: Floats, where: Where) -> FitWarning:
    trials: list[TrialScore] = [
        {"at": where(int(row), SIDES[side]), "score": float(pairs[side, row])}
        for side, row in doubt.cells[:LISTED]
    ]
    shown = [f"{one['at']}: {one['score']:.6g}" for one in trials[:FEW]]
    shown += ["…"] if len(doubt.cells) > FEW else []
    text = doubt.found + (f" ({'; '.join(shown)})" if shown else "")
    text += f"; {doubt.remedy}"
    return {"code": doubt.code, "text": text, "value": float(doubt.value), "trials": trials}


def _trimmed(trim: float, far: NDArray[np.bool_], codes: Codes) -> Iterator[Doubt]:
    left_out = codes[far.any(axis=0)]
    if left_out.size:
        parts = [f"{np.sum(left_out == code)} {code}" for code in TrialClass if code in left_out]
        found = f"trim {trim:g} left out {', '.join(parts)} of {codes.size:,} dev trials"
        remedy = "the fit is that of the others"
        yield Doubt("trimmed", left_out.size, found, remedy, np.argwhere(far))


def _few(config: Config, codes: Codes) -> Iterator[Doubt]:
    stage, parameters = _parameters(config)
    for code in TrialClass:
        trials = int(np.sum(codes == code))
        if trials < parameters:
            found = f"class {code} has {trials} dev trial(s), fewer than the {parameters} "
            found += f"parameters of the {stage}"
            remedy = "give more dev trials, or take a system with less to fit"
            yield Doubt("few", trials, found, remedy)


def _parameters(config: Config) -> tuple[str, int]:
    """The first stage that is fitted, and how many numbers it fits (a density: to each class)."""
    if config["density"] is not None:
        own = {"diagonal": 4, "tied": 2, "mixture": 6 * config["components"] - 1}
        return f"{config['density']} density", own.get(config["density"], 5)
    maps = {"paper": 4, "effective_prior": 4, "joint": 4, "multinomial": 6}
    return f"{config['calibration']} calibration", maps.get(config["calibration"], 0)


def _dominated(
    config: Config, state: State, pairs: Floats, codes: Codes, kept: NDArray[np.intp]
) -> Iterator[Doubt]:
    """Classes whose width a few trials decide, where a fit goes by that."""
    for code in TrialClass:
        own = kept[codes[kept] == code]
        points = _as_weighed(config, state, pairs[:, own], code)
        for side in _sides_that_count(config, code) if own.size >= _parameters(config)[1] else ():
            rows = own[misleading_trials(points[side])]
            if rows.size:
                found = f"the variance of the {SIDES[side]} scores of class {code} rests on "
                found += "one dev trial" if rows.size == 1 else f"{rows.size} dev trials"
                remedy = f"correct such scores, leave them out (trim: {FAR:g}, say), or take L3t"
                cells = np.column_stack([np.full_like(rows, side), rows])
                yield Doubt("dominated", rows.size, found, remedy, cells)


def _sides_that_count(config: Config, code: TrialClass) -> Iterable[int]:
    """Sides whose scores of a class matter to a fit by more than their order."""
    if config["density"] is not None or config["calibration"] in ("multinomial", "joint"):
        return (0, 1)
    if config["calibration"] in (None, "pav"):
        return ()
    asv = code != TrialClass.SPOOF
    cm = code != TrialClass.NONTARGET or config["cm_positives"] == "bonafide"
    return [side for side, counts in enumerate((asv, cm)) if counts]


def _as_weighed(config: Config, state: State, points: Floats, code: TrialClass) -> Floats:
    """Points (2, n) of a class as the fit weighs them: a Student-t draws those far out nearer."""
    if config["density"] != "student_t" or not state:
        return points
    mean, scatter, dof = state["density.mean"], state["density.scatter"], config["dof"]
    distance, _ = mahalanobis(points, mean[code], scatter[code])
    return np.asarray(np.sqrt((dof + 2) / (dof + distance)) * (points - mean[code][:, None]))


def _slopes(state: State) -> Iterator[Doubt]:
    """Sides on which the calibration turns scores round, or takes no notice of them."""
    slopes = np.ones(2)
    if "calibration.weight" in state:
        slopes = np.diagonal(state["calibration.weight"])
    elif "calibration.llrs" in state:
        slopes = np.ptp(state["calibration.llrs"], axis=1)
    for name, slope in zip(SIDES, slopes, strict=True):
        if slope <= 0:
            found = f"the calibration of the {name} side has no positive slope"
            remedy = "a higher score should count more: check scores and labels of dev"
            yield Doubt("slope", slope, found, remedy)


def _orders(pairs: Floats, codes: Codes, fused: Floats) -> Iterator[Doubt]:
    """Scores that rank the classes the wrong way round."""
    for name, scores in zip((*SIDES, "sasv"), (*pairs, fused), strict=True):
        _, positive, negative = TASKS[name]
        rate = eer(scores[is_any(codes, positive)], scores[is_any(codes, negative)]).value
        if rate > 0.5:
            above, below = (" and ".join(map(str, part)) for part in (positive, negative))
            found = f"{'fused' if name == 'sasv' else name} scores of dev do not rank {above} above"
            found += f" {below}: the EER is above 50 %"
            remedy = "this fit is of no use" if name == "sasv" else "check their sign and labels"
            yield Doubt("order", rate, found, remedy)
