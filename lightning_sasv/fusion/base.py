"""What a fusion system is: transforms, density, calibration and rule by name, without torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats, count, positive, real
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.choice import SEARCHES, Choice, choose, find_rho, initial_rho
from lightning_sasv.fusion.columns import (
    IGNORED,
    PAIR,
    Columns,
    DevTrials,
    as_bytes,
    dev_trials,
    kind_of,
    score_columns,
)
from lightning_sasv.fusion.densities import (
    Config,
    Single,
    Stage,
    State,
    at_place,
    beside_quality,
    of_place,
)
from lightning_sasv.fusion.doubts import FitWarning, slopes_of
from lightning_sasv.fusion.guards import check_sizes, check_widths, constant_columns, far_scores
from lightning_sasv.fusion.logistic import ORDERS
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.fusion.settings import (
    PARTS,
    USUAL,
    check_settings,
    chosen_by_cv,
    named_parts,
)
from lightning_sasv.fusion.transforms import (
    CHOSEN,
    TRANSFORM,
    Transform,
    check_transform,
    columns_of,
    laid_out,
    words_for,
)
from lightning_sasv.plugins import Other
from lightning_sasv.trials import KINDS, FusedScores

SIZED_BY_DATA = ("calibration.knots", "calibration.llrs", "transform.value")
"""Values whose last axis is as long as the data made it."""
_FEW = 64


class Fusion:
    """The configuration of a fusion system, and what is computed from it and a fitted state.

    The way of the scores of a trial is: transform (column by column), density (to two LLRs),
    calibration (of the scores, or of the two LLRs), rule (to one score). Each stage is named by a
    plain string, so that a system is configuration. There may be any number of ASV and of CM
    scores; without a density and a calibration each side is the mean of its columns.

    Args:
        density: Class-conditional density of the scores: ``None`` (scores go through),
            ``gaussian``, ``tied``, ``diagonal``, ``student_t`` or ``mixture``.
        calibration: ``None``, ``paper``, ``effective_prior``, ``pav``, ``multinomial``, ``joint``
            or ``monotone``; ``given`` for scores that are LLRs already, ``single`` for one score in
            the places of both.
        rule: ``sum``, ``linear``, ``nonlinear``, ``sigmoid_sum``, ``sigmoid_product`` or
            ``cascade``. Each of these three may also be what an installed package registers, by its
            name, or a name and settings of another package's class (see docs/extend.md).
        rho: Spoof prevalence of the nonlinear rule: a number in [0, 1], ``grid_eer`` (the paper's
            search for the least SASV-EER), ``grid_risk`` (least empirical decision risk at
            ``costs``) or ``priors`` (from ``costs``).
        dof: Degrees of freedom of ``student_t``.
        components: Components per class of ``mixture``.
        penalty: Ridge strength of the calibration; ``None`` takes the recipe's own, ``cv`` chooses
            it (``multinomial``).
        effective_prior: Prior of the positive class at which ``effective_prior`` is trained.
        cm_positives: Positives of the CM calibration: ``bonafide`` (paper) or ``target``.
        costs: Cost model of ``grid_risk``, ``priors`` and ``joint``: a preset's name or the
            fields of a ``CostModel``.
        trim: Leave development scores out of the fit that lie more than this many interquartile
            ranges beyond the quartiles of their class; ``None`` keeps them all.
        order: Features of ``multinomial``: ``linear``, ``squares``, ``quadratic``, or ``cv``.
        transform: ``none``, ``standard``, ``logit``, ``rank`` or ``cv``, for all columns or as a
            mapping from a column's name to a word. ``cv`` chooses by cross-validation over the
            speakers of dev, and needs ``multinomial`` without a density.

    Raises:
        InputError: A setting that is unknown, no number, or out of range, whoever uses it.
    """

    def __init__(
        self,
        density: str | Other | None = None,
        calibration: str | Other | None = None,
        rule: str | Other = "sum",
        rho: float | str = "grid_eer",
        *,
        dof: float = 4.0,
        components: int = 2,
        penalty: float | str | None = None,
        effective_prior: float = 0.5,
        cm_positives: str = "bonafide",
        costs: str | dict[str, float] | CostModel = "a-dcf1",
        trim: float | None = None,
        order: str = "linear",
        transform: Transform = "none",
    ) -> None:
        super().__init__()
        self.costs = as_cost_model(costs)
        self.config: dict[str, Any] = {
            **named_parts(density=density, calibration=calibration, rule=rule),
            "rho": rho if isinstance(rho, str) else real("rho", rho),
            "dof": positive("dof", dof),
            "components": count("components", components),
            "penalty": penalty if penalty in (None, CHOSEN) else real("penalty", penalty),
            "effective_prior": real("effective_prior", effective_prior),
            "cm_positives": cm_positives,
            "costs": costs if isinstance(costs, str) else self.costs.as_dict(),
        }
        # files of systems without these stay as they were before them
        more: dict[str, Any] = {"trim": None if trim is None else positive("trim", trim)}
        more |= {"order": order, "transform": check_transform(transform)}
        self.config |= {name: value for name, value in more.items() if value != USUAL[name]}
        check_settings(USUAL | self.config)
        self.rule: str | Other = self.config["rule"]
        self.name: str | None = None
        self.columns = PAIR
        self.choice: Choice | None = None
        self.warnings: list[FitWarning] = []
        self.fitted_on: dict[str, Any] | None = None  # what the fit was made of, if that is known
        self.hold(self.start_state())

    @property
    def gives_llrs(self) -> bool:
        """Whether the two sides are log-likelihood ratios, which a cost model can be applied to.

        They are after a density and after a calibration. A system with neither (B1, B1v2, Post)
        hands its raw scores on.
        """
        return self.config["density"] is not None or self.config["calibration"] is not None

    @property
    def is_of_pair(self) -> bool:
        """Whether there is a verifier's and a countermeasure's side, not one score for both."""
        return self.config["calibration"] != "single"

    @property
    def simulated(self) -> bool:
        """Whether it was fitted on simulated trials, as far as that is known."""
        return (self.fitted_on or {}).get("simulated") is True

    @property
    def needs_fit(self) -> bool:
        """Whether there is anything to learn."""
        searched = self.rule == "nonlinear" and self.config["rho"] in SEARCHES
        return self.gives_llrs or searched

    @property
    def needs_speakers(self) -> bool:
        """Whether something is chosen by cross-validation over speakers."""
        return bool(chosen_by_cv(USUAL | self.config))

    @property
    def uses_quality(self) -> bool:
        """Whether measures of quality are looked at."""
        return bool(self.config["calibration"] == "multinomial")

    @property
    def trim(self) -> float | None:
        """How far scores may lie in a fit; ``None`` where nothing is left out or fitted."""
        return self.config.get("trim") if self.needs_fit else None

    def hold(self, state: State) -> None:
        """Keep a state; called once with the one before any fit."""
        self._state = state

    def arrays(self) -> State:
        """The state as arrays."""
        return dict(self._state)

    def values(self) -> dict[str, Any]:
        """What was learned, as plain numbers, words and lists; long tables are left out.

        ``slopes`` are those of a calibration of one ASV and one CM side.
        """
        state = {name: np.asarray(value) for name, value in self.arrays().items()}
        few = {name: value for name, value in state.items() if value.size <= _FEW}
        found = {name: value.tolist() for name, value in few.items() if value.dtype.kind == "f"}
        columns = laid_out(self.columns, state)
        if columns.transforms is not None:
            found["transform"] = dict(zip(columns.names, columns.transforms, strict=True))
        if "chosen.order" in state:
            found["chosen.order"] = ORDERS[int(state["chosen.order"])]
        slopes = slopes_of(self.config, state)
        return found | ({"slopes": slopes} if slopes else {})

    def start_state(self, columns: Columns | None = None) -> State:
        """Values before any fit, by the names and in the shapes of the fitted ones.

        Args:
            columns: The columns that are fused, by default the pair.
        """
        columns = columns or self._with_words(PAIR, ["none", "none"])
        state: State = {"fitted": np.array(not self.needs_fit)}
        rho = initial_rho(self.config["rho"], self.costs)
        if self.rule == "nonlinear":
            state["rho"] = np.array(rho)
        if not columns.is_pair:
            state["names"] = as_bytes(columns)
        if self.needs_speakers:
            state |= at_place("chosen", {"order": 0, "penalty": 0.0, "criterion": 0.0})
        for place, stage, settings in self._steps(columns):
            state |= at_place(place, stage.start(settings))
        return state

    def fit_state(self, trials: DevTrials) -> State:
        """Everything that is learned from development trials; see ``FusionSystem.fit``.

        What was chosen by cross-validation is in ``choice`` afterwards.
        """
        trials = trials.only(~far_scores(trials.scores, trials.codes, self.trim).any(axis=0))
        columns, chosen = self._decided(trials)
        state, scores = self.start_state(columns), trials.scores
        if self.choice is not None:
            best = self.choice.best
            parts = {"order": ORDERS.index(best.order), "penalty": best.penalty}
            state |= at_place("chosen", parts | {"criterion": best.criterion})
        for place, stage, usual in self._steps(columns):
            settings = {**usual, **chosen}
            check_sizes(place, trials.codes, settings)
            values = stage.fit(scores, trials.codes, settings)
            if place == "density":
                check_widths(values, scores, trials.codes, settings)
            state |= at_place(place, values)
            scores = stage.apply(values, scores, settings)
        if "rho" in state and self.config["rho"] in SEARCHES:
            pairs = np.stack(self._sides(scores, columns))
            state["rho"] = np.array(find_rho(self.config["rho"], pairs, trials.codes, self.costs))
        return state | {"fitted": np.array(True)}

    def dev_trials(
        self,
        asv: Any,
        cm: Any,
        labels: Any,
        *,
        speakers: Any = None,
        quality: Any = None,
        columns: Sequence[str] | None = None,
    ) -> DevTrials:
        """Checked development trials with no more than a fit looks at; see ``FusionSystem.fit``."""
        if not self.uses_quality:
            quality = None
            columns = columns and [name for name in columns if kind_of(name) != "quality"]
        own = speakers if self.needs_speakers else None
        return dev_trials(asv, cm, labels, own, quality, columns)

    @property
    def label(self) -> str:
        """How messages about it begin."""
        return "" if self.name is None else f"{self.name}: "

    def checked(self, asv: Any, cm: Any, quality: Any = None) -> tuple[Columns, Floats]:
        """Scores to fuse as one array (columns, trials), and what they are.

        Raises:
            InputError: A score that is not finite, or columns that are not those of the fit.
        """
        columns, scores = score_columns(asv, cm, quality if self.uses_quality else None)
        if self.columns.is_pair and not self.needs_fit and "transform" not in self.config:
            return columns, scores  # a plain mean of each kind, of any number of columns
        if columns.counts != self.columns.counts:
            counts = zip(columns.counts, KINDS, strict=True)
            given = " and ".join(f"{count} {kind}" for count, kind in counts if count)
            raise InputError(
                f"{self.label}got {given} columns, but it was fitted to "
                f"{', '.join(self.columns.names)}"
            )
        return self.columns, scores

    def fuse_pairs(self, state: State, scores: Any, columns: Columns | None = None) -> FusedScores:
        """LLRs and fused scores of checked scores (columns, trials), arrays or tensors like state.

        Args:
            state: Fitted values.
            scores: Scores of trials.
            columns: What they are, by default what the system was fitted to.

        Raises:
            RuntimeError: The state is not fitted.
        """
        asv, cm = self.sides(state, scores, columns)
        return FusedScores(asv, cm, fuse(self.rule, state.get("rho"), asv, cm))

    def sides(self, state: State, scores: Any, columns: Columns | None = None) -> tuple[Any, Any]:
        """The two sides that the rule fuses, LLRs if there are any; see :meth:`fuse_pairs`."""
        if not state["fitted"]:
            raise RuntimeError("this FusionSystem is not fitted; call fit on development trials")
        columns = laid_out(columns or self.columns, state)
        for place, stage, settings in self._steps(columns):
            scores = stage.apply(of_place(place, state), scores, settings)
        return self._sides(scores, columns)

    def single(self, state: State) -> Callable[[Sequence[float]], tuple[float, float]]:
        """:meth:`sides` as a function of the scores of one trial, all in plain floats.

        It is twenty times as fast as arrays of length one.

        Args:
            state: Fitted values, arrays.
        """
        columns = laid_out(self.columns, state)
        stages = list[Single]()
        for place, stage, settings in self._steps(columns):
            if stage.single is None:
                return lambda scores: self._single_by_arrays(state, scores)
            stages.append(stage.single(of_place(place, state), settings))
        sides = None if self.gives_llrs else columns.used.sides()

        def both(scores: Sequence[float]) -> tuple[float, float]:
            for stage in stages:
                scores = stage(scores)
            if sides is None:
                return scores[0], scores[1]
            asv, cm = (scores[side] for side in sides)
            return sum(asv) / len(asv), sum(cm) / len(cm)

        return both

    def _single_by_arrays(self, state: State, scores: Sequence[float]) -> tuple[float, float]:
        asv, cm = self.sides(state, np.array(scores)[:, None])
        return asv[0].item(), cm[0].item()

    def check_state(self, state: State) -> None:
        """Raise unless a state (arrays) has the names and shapes of this system and makes sense.

        Raises:
            InputError: A value is missing, of another shape, not finite, or out of its range.
        """
        if not state.get("fitted", False):
            raise InputError("it is not fitted")
        columns = columns_of(state)
        self._check_shapes(state, self.start_state(columns))
        if not 0 <= state.get("chosen.order", 0) < len(ORDERS):
            raise InputError(f"chosen.order is {state['chosen.order']}, the number of no order")
        self.columns = columns
        with np.errstate(all="ignore"):
            scores = self.fuse_pairs(state, np.zeros((len(columns.names), 1)))
        if not np.isfinite(scores).all():
            raise InputError(f"a trial of zeros is given the scores {np.ravel(scores).tolist()}")

    def _check_shapes(self, state: State, expected: State) -> None:
        """Raise unless a state has the names and shapes of another, and finite values.

        Raises:
            InputError: A value is missing, unknown, of another shape, or not finite.
        """
        if state.keys() != expected.keys():
            odd = sorted(state.keys() ^ expected.keys())
            raise InputError(f"missing or unknown values {odd}")
        shapes = {name: value.shape for name, value in expected.items()}
        if "transform.value" in state:
            shapes["transform.value"] = state["transform.value"].shape  # as long as the others say
        if self.config["calibration"] == "pav":
            knots = state["calibration.knots"]
            if knots.ndim != 2 or (knots[:, 1:] < knots[:, :-1]).any():
                raise InputError("calibration.knots must ascend on both sides")
            shapes |= dict.fromkeys(("calibration.knots", "calibration.llrs"), knots[:2].shape)
        for name, value in state.items():
            if value.shape != shapes[name] or not np.isfinite(value).all():
                raise InputError(
                    f"{name} must be finite and of shape {shapes[name]}, got {value.shape}"
                )

    def _decided(self, trials: DevTrials) -> tuple[Columns, Config]:
        """Columns with the transform of each, and what else was chosen by cross-validation."""
        settings, self.choice, chosen = USUAL | self.config, None, dict[str, Any]()
        words = words_for(settings["transform"], trials.columns)
        constant = constant_columns(trials)
        words = [IGNORED if out else word for out, word in zip(constant, words, strict=True)]
        if self.needs_speakers:
            self.choice = choose(trials, settings["order"], settings["penalty"], words)
            best = self.choice.best
            words = list(best.transforms)
            chosen = {"chosen_order": best.order, "penalty": best.penalty}
        return self._with_words(trials.columns, words), chosen

    def _with_words(self, columns: Columns, words: Sequence[str]) -> Columns:
        """Columns with the transform of each, unless they are a pair that has none."""
        transformed = "transform" in self.config or not columns.is_pair
        return replace(columns, transforms=tuple(words)) if transformed else columns

    def _steps(self, columns: Columns) -> Iterator[tuple[str, Stage, Config]]:
        """The stages there are, each with its place and with settings that say what it is given."""
        settings = USUAL | self.config | {"costs": self.costs, "label": self.label}
        if columns.transforms is not None:
            yield "transform", TRANSFORM, settings | {"columns": columns}
        columns = columns.used
        if self.config["density"] is not None:
            stage, scores = PARTS["density"].find(self.config["density"]), columns.without_quality()
            quality = columns.names[columns.scores :]
            stage = beside_quality(stage, columns.scores) if quality else stage
            yield "density", stage, settings | {"columns": scores}
            columns = Columns((*PAIR.names, *quality))
        if self.config["calibration"] is not None:
            stage = PARTS["calibration"].find(self.config["calibration"])
            yield "calibration", stage, settings | {"columns": columns}

    def _sides(self, scores: Any, columns: Columns) -> tuple[Any, Any]:
        """LLR pairs, or the mean of the columns of each kind where there are no LLRs."""
        if self.gives_llrs:
            return scores[0], scores[1]
        asv, cm = (scores[place].mean(0) for place in columns.used.sides())
        return asv, cm
