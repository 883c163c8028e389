"""The columns of scores that a system fuses: ASV first, then CM, then measures of quality.

A column's name says its kind: ``asv_…``, ``cm_…`` or ``quality_…``. One ASV and one CM score
without names of their own are the pair, ``asv_score`` and ``cm_score``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from lightning_sasv.checks import Codes, Floats, as_array, as_finite, as_labels, check_same_length
from lightning_sasv.errors import InputError, meant
from lightning_sasv.trials import KINDS, TrialClass
from lightning_sasv.trials import PAIR as PAIR_NAMES

IGNORED = "ignored"
"""In place of the transform of a column that is accepted, and of which nothing is made."""


@dataclass(frozen=True)
class Columns:
    """Names of columns, ordered by kind, and the transform of each where there are transforms.

    Example:
        >>> Columns(("asv_a", "asv_b", "cm_c")).counts
        (2, 1, 0)
    """

    names: tuple[str, ...] = PAIR_NAMES
    transforms: tuple[str, ...] | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if list(self.kinds) != sorted(self.kinds, key=KINDS.index) or min(self.counts[:2]) < 1:
            raise InputError(
                f"columns must be asv_…, then cm_…, then quality_…, at least one of the first "
                f"two each; got {', '.join(self.names)}"
            )
        if len(set(self.names)) < len(self.names):
            raise InputError(f"columns must have different names, got {', '.join(self.names)}")

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """``asv``, ``cm`` or ``quality`` of each column."""
        return tuple(kind_of(name) for name in self.names)

    @cached_property
    def counts(self) -> tuple[int, int, int]:
        """How many columns there are of each kind."""
        asv, cm, quality = (self.kinds.count(kind) for kind in KINDS)
        return asv, cm, quality

    @property
    def scores(self) -> int:
        """How many columns are scores, not measures of quality; they are the first."""
        return sum(self.counts[:2])

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The names in messages; those of the pair are ``asv`` and ``cm``."""
        return tuple(name.removesuffix("_score") if self.is_pair else name for name in self.names)

    @property
    def is_pair(self) -> bool:
        """Whether these are the two scores without names of their own."""
        return self.names == PAIR_NAMES

    @property
    def one_each(self) -> bool:
        """Whether there is one ASV and one CM score, by whatever names."""
        return self.counts[:2] == (1, 1)

    def sides(self) -> tuple[slice, slice]:
        """Places of the ASV and of the CM columns."""
        asv, cm, _ = self.counts
        return slice(0, asv), slice(asv, asv + cm)

    @property
    def used(self) -> Columns:
        """Those that are left after the transforms, which ignore some."""
        if self.transforms is None:
            return self
        words = zip(self.names, self.transforms, strict=True)
        return Columns(tuple(name for name, word in words if word != IGNORED))

    def without_quality(self) -> Columns:
        """The scores alone."""
        return Columns(self.names[: self.scores])

    def take(self, named: Mapping[str, Any]) -> tuple[Any, Any, Any]:
        """ASV scores, CM scores and qualities, (trials, columns) each, from columns by name.

        Args:
            named: Values (trials,) of each column; a single number for one trial will do.

        Raises:
            InputError: A name is missing or unknown.
        """
        missing = [name for name in self.names if name not in named]
        unknown = [name for name in named if name not in self.names]
        if missing or unknown:
            parts = [f"no {', '.join(missing)}"] * bool(missing)
            parts += [f"unknown {', '.join(map(str, unknown))}"] * bool(unknown)
            raise InputError(
                f"this system fuses {', '.join(self.names)}; got {' and '.join(parts)}"
                + (meant(str(unknown[0]), missing or self.names) if unknown else "")
            )
        values = {n: as_finite(np.atleast_1d(as_array(named[n], n)), n) for n in self.names}
        check_same_length(values)
        rows = np.stack([*values.values()], axis=1)
        asv, cm = (rows[:, side] for side in self.sides())
        return asv, cm, rows[:, self.scores :] if self.counts[2] else None


def kind_of(name: str) -> str:
    """``asv``, ``cm`` or ``quality``, by the start of a column's name.

    Example:
        >>> kind_of("cm_aasist")
        'cm'
    """
    kind, line, own = name.partition("_")
    if kind not in KINDS or not line or not own:
        raise InputError(f"a column must be named asv_…, cm_… or quality_…, got {name!r}")
    return kind


PAIR = Columns()
"""One ASV and one CM score without names of their own."""


def as_bytes(columns: Columns) -> np.ndarray:
    """Names as an array that a state can hold."""
    return np.frombuffer("\n".join(columns.names).encode(), np.uint8).copy()


def from_bytes(values: Any) -> Columns:
    """Names from such an array.

    Raises:
        InputError: It holds something else.
    """
    try:
        return Columns(tuple(bytes(np.asarray(values, np.uint8)).decode().split("\n")))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"its columns are no names of scores ({error})") from None


@dataclass(frozen=True)
class DevTrials:
    """Development trials to fit to, checked.

    Attributes:
        columns: What the scores are.
        scores: Values (columns, trials).
        codes: ``TrialClass`` codes (trials,).
        speakers: Enrolled speakers (trials,), where they are known.
    """

    columns: Columns
    scores: Floats
    codes: Codes
    speakers: np.ndarray | None = None

    def only(self, kept: Any) -> DevTrials:
        """The trials of a mask."""
        if np.all(kept):
            return self
        speakers = None if self.speakers is None else self.speakers[kept]
        scores = np.ascontiguousarray(self.scores[:, kept])
        return DevTrials(self.columns, scores, self.codes[kept], speakers)


def score_columns(
    asv: Any, cm: Any, quality: Any = None, names: Sequence[str] | None = None
) -> tuple[Columns, Floats]:
    """Scores as one float64 array (columns, trials), checked, and what they are.

    Args:
        asv: ASV scores, (trials,) or (trials, k).
        cm: CM scores, (trials,) or (trials, m).
        quality: Measures of quality, (trials,) or (trials, q), if there are any.
        names: Names of all columns; else ``asv_1``, ``asv_2``, …, ``cm_1``, …, ``quality_1``, ….

    Raises:
        InputError: A score is not a number, not finite or huge, or the shapes do not agree.
    """
    kinds = {"asv": asv, "cm": cm} | ({} if quality is None else {"quality": quality})
    given = {kind: as_array(part, kind) for kind, part in kinds.items()}
    parts = [part[:, None] if part.ndim == 1 else part for part in given.values()]
    _check_shapes(given, parts)
    columns = _named([part.shape[1] for part in parts], names)
    values = [part[:, k] for part in parts for k in range(part.shape[1])]
    checked = [as_finite(v, name) for v, name in zip(values, columns.shown, strict=True)]
    return columns, np.stack(checked)


def _check_shapes(given: Mapping[str, np.ndarray], parts: Sequence[np.ndarray]) -> None:
    """Refuse what has another number of axes or of rows than scores have."""
    for kind, part in zip(given, parts, strict=True):
        if part.ndim != 2 or part.shape[1] < 1:
            raise InputError(
                f"{kind} must have the shape (trials,) or (trials, columns), got {part.shape}"
            )
    rows, cm_rows, *more = map(len, parts)
    if not rows:
        raise InputError("asv must have at least one score")
    if rows != cm_rows:
        shapes = {kind: given[kind].shape for kind in ("asv", "cm")}
        several = [kind for kind, shape in shapes.items() if len(shape) > 1]
        if len(several) == 1:
            raise InputError(
                f"{several[0]} must be one-dimensional, got shape {shapes[several[0]]}, or have a "
                "row for each trial"
            )
        raise InputError(f"asv and cm differ in shape: {shapes['asv']} and {shapes['cm']}")
    if more and more[0] != rows:
        raise InputError(f"quality has {more[0]} rows, but there are {rows} trials")


def _named(counts: list[int], names: Sequence[str] | None) -> Columns:
    if names is None:
        if counts == [1, 1]:
            return PAIR
        kinds = zip(KINDS, counts, strict=False)
        return Columns(tuple(f"{kind}_{k + 1}" for kind, count in kinds for k in range(count)))
    columns = Columns(tuple(names))
    if list(columns.counts) != [*counts, 0][:3]:
        raise InputError(
            f"there are {' and '.join(map(str, counts))} columns, but their names are "
            f"{', '.join(columns.names)}"
        )
    return columns


def dev_trials(
    asv: Any,
    cm: Any,
    labels: Any,
    speakers: Any = None,
    quality: Any = None,
    columns: Sequence[str] | None = None,
) -> DevTrials:
    """Checked development trials, every class among them; arguments as for ``FusionSystem.fit``."""
    (named, scores), codes = score_columns(asv, cm, quality, columns), as_labels(labels)
    trials = scores.shape[1]
    if len(codes) != trials:
        raise InputError(f"labels have shape {codes.shape}, but there are {trials} trials")
    for code in TrialClass:
        if not (codes == code).any():
            raise InputError(
                f"labels hold no {code} trial (code {int(code)}) among {trials}; "
                "a fit needs spoof (0), target (1) and nontarget (2)"
            )
    if speakers is not None:
        speakers = np.asarray(speakers).astype(str)
        if speakers.shape != codes.shape:
            raise InputError(f"speakers have shape {speakers.shape}, but there are {trials} trials")
    return DevTrials(named, scores, codes, speakers)
