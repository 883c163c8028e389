"""What a fusion system is: density, calibration and rule by name, of one seed, without torch."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np

from lightning_sasv.checks import (
    Codes,
    Floats,
    as_finite,
    as_labels,
    check_spread,
    count,
    positive,
    real,
)
from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.custom import PARTS
from lightning_sasv.fusion.densities import Config, Stage, State
from lightning_sasv.fusion.doubts import FitWarning
from lightning_sasv.fusion.outliers import far_scores
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.fusion.search import SEARCHES, find_rho, initial_rho
from lightning_sasv.plugins import Other, as_other
from lightning_sasv.trials import FusedScores, TrialClass

STAGES = ("density", "calibration")
MOST_COMPONENTS = 1000
_FEW = 64


class Fusion:
    """The configuration of a fusion system, and what is computed from it and a fitted state.

    The way of a score pair is: density (to two LLRs), calibration (of the two scores or LLRs),
    rule (to one score). Each stage is named by a plain string, so that a system is configuration.

    Args:
        density: Class-conditional density of the score pair: ``None`` (scores go through),
            ``gaussian``, ``tied``, ``diagonal``, ``student_t`` or ``mixture``.
        calibration: ``None``, ``paper``, ``effective_prior``, ``pav``, ``multinomial`` or
            ``joint``.
        rule: ``sum``, ``linear``, ``nonlinear``, ``sigmoid_sum``, ``sigmoid_product`` or
            ``cascade``. Each of these three may also be what an installed package registers, by its
            name, or a name and settings of another package's class (see docs/extend.md).
        rho: Spoof prevalence of the nonlinear rule: a number in [0, 1], ``grid_eer`` (the paper's
            search for the least SASV-EER), ``grid_risk`` (least empirical decision risk at
            ``costs``) or ``priors`` (from ``costs``).
        dof: Degrees of freedom of ``student_t``.
        components: Components per class of ``mixture``.
        penalty: Ridge strength of the calibration; ``None`` takes the recipe's own.
        effective_prior: Prior of the positive class at which ``effective_prior`` is trained.
        cm_positives: Positives of the CM calibration: ``bonafide`` (paper) or ``target``.
        costs: Cost model of ``grid_risk``, ``priors`` and ``joint``: a preset's name or the
            fields of a ``CostModel``.
        trim: Leave development scores out of the fit that lie more than this many interquartile
            ranges beyond the quartiles of their class; ``None`` keeps them all.

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
        penalty: float | None = None,
        effective_prior: float = 0.5,
        cm_positives: str = "bonafide",
        costs: str | dict[str, float] | CostModel = "a-dcf1",
        trim: float | None = None,
    ) -> None:
        super().__init__()
        self.costs = as_cost_model(costs)
        self.config: dict[str, Any] = {
            **_parts(density=density, calibration=calibration, rule=rule),
            "rho": rho if isinstance(rho, str) else real("rho", rho),
            "dof": positive("dof", dof),
            "components": count("components", components),
            "penalty": None if penalty is None else real("penalty", penalty),
            "effective_prior": real("effective_prior", effective_prior),
            "cm_positives": cm_positives,
            "costs": costs if isinstance(costs, str) else asdict(self.costs),
        }
        if trim is not None:  # files of systems without it stay as they were before it
            self.config["trim"] = positive("trim", trim)
        _check(self.config)
        self.rule: str | Other = self.config["rule"]
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
    def simulated(self) -> bool:
        """Whether it was fitted on simulated trials, as far as that is known."""
        return (self.fitted_on or {}).get("simulated") is True

    @property
    def needs_fit(self) -> bool:
        """Whether there is anything to learn."""
        searched = self.rule == "nonlinear" and self.config["rho"] in SEARCHES
        return self.gives_llrs or searched

    @property
    def trim(self) -> float | None:
        """How far scores may lie in a fit; ``None`` where nothing is left out or fitted."""
        return self.config.get("trim") if self.needs_fit else None

    def hold(self, state: State) -> None:
        """Keep a state; called once with the one before any fit."""
        raise NotImplementedError

    def arrays(self) -> State:
        """The state as arrays."""
        raise NotImplementedError

    def values(self) -> dict[str, Any]:
        """What was learned, as plain numbers and lists; long tables are left out."""
        state = {name: np.asarray(value) for name, value in self.arrays().items()}
        few = {name: value for name, value in state.items() if value.size <= _FEW}
        return {name: value.tolist() for name, value in few.items() if value.dtype.kind == "f"}

    def start_state(self) -> State:
        """Values before any fit, by the names and in the shapes of the fitted ones."""
        state: State = {"fitted": np.array(not self.needs_fit)}
        rho = initial_rho(self.config["rho"], self.costs)
        if self.rule == "nonlinear":
            state["rho"] = np.array(rho)
        for place, stage in self._stages():
            values = stage.start(self._settings())
            state |= {f"{place}.{name}": value for name, value in values.items()}
        return state

    def fit_state(self, asv: Any, cm: Any, labels: Any) -> State:
        """Everything that is learned from development trials; see ``FusionSystem.fit``."""
        (pairs, codes), state = dev_trials(asv, cm, labels), self.start_state()
        kept = ~far_scores(pairs, codes, self.trim).any(axis=0)
        pairs, codes = pairs[:, kept], codes[kept]
        for name, side in zip(("asv", "cm"), pairs, strict=True):
            check_spread(side, name)
        for place, stage in self._stages():
            values = stage.fit(pairs, codes, self._settings())
            state |= {f"{place}.{name}": value for name, value in values.items()}
            pairs = stage.apply(values, pairs, self._settings())
        if "rho" in state and self.config["rho"] in SEARCHES:
            state["rho"] = np.array(find_rho(self.config["rho"], pairs, codes, self.costs))
        return state | {"fitted": np.array(True)}

    def fuse_pairs(self, state: State, pairs: Any) -> FusedScores:
        """LLRs and fused scores of checked score pairs (2, trials), arrays or tensors like state.

        Raises:
            RuntimeError: The state is not fitted.
        """
        if not state["fitted"]:
            raise RuntimeError("this FusionSystem is not fitted; call fit on development trials")
        for place, stage in self._stages():
            own = [name for name in state if name.startswith(place)]
            values = {name.removeprefix(f"{place}."): state[name] for name in own}
            pairs = stage.apply(values, pairs, self._settings())
        asv, cm = pairs
        return FusedScores(asv, cm, fuse(self.rule, state.get("rho"), asv, cm))

    def check_state(self, state: State) -> None:
        """Raise unless a state (arrays) has the names and shapes of this system and makes sense.

        Raises:
            InputError: A value is missing, of another shape, not finite, or out of its range.
        """
        if not state.get("fitted", False):
            raise InputError("it is not fitted")
        expected = self.start_state()
        if state.keys() != expected.keys():
            odd = sorted(state.keys() ^ expected.keys())
            raise InputError(f"missing or unknown values {odd}")
        if "calibration.knots" in state:  # as many as there were in the data, ascending
            knots = state["calibration.knots"]
            if knots.ndim != 2 or (np.diff(knots) < 0).any():
                raise InputError("calibration.knots must ascend on both sides")
            expected |= dict.fromkeys(("calibration.knots", "calibration.llrs"), knots[:2])
        for name, value in state.items():
            if value.shape != expected[name].shape or not np.isfinite(value).all():
                raise InputError(
                    f"{name} must be finite and of shape {expected[name].shape}, got {value.shape}"
                )
        with np.errstate(all="ignore"):
            scores = self.fuse_pairs(state, np.zeros((2, 1)))
        if not np.isfinite(scores).all():
            raise InputError(f"a trial of zeros is given the scores {np.ravel(scores).tolist()}")

    def _settings(self) -> Config:
        return self.config | {"costs": self.costs}

    def _stages(self) -> list[tuple[str, Stage]]:
        """The stages there are, each with its place."""
        there = [place for place in STAGES if self.config[place] is not None]
        return [(place, PARTS[place].find(self.config[place])) for place in there]


def score_pairs(asv: Any, cm: Any) -> Floats:
    """Both scores of each trial as one float64 array (2, trials), checked.

    Raises:
        InputError: A score is not a number, not finite or huge, or the lengths do not agree.
    """
    sides = as_finite(asv, "asv"), as_finite(cm, "cm")
    if not len(sides[0]):
        raise InputError("asv must have at least one score")
    if len(sides[0]) != len(sides[1]):
        raise InputError(f"asv and cm differ in shape: {sides[0].shape} and {sides[1].shape}")
    return np.stack(sides)


def dev_trials(asv: Any, cm: Any, labels: Any) -> tuple[Floats, Codes]:
    """Checked score pairs (2, trials) and codes to fit to, every class among them."""
    pairs, codes = score_pairs(asv, cm), as_labels(labels)
    trials = pairs.shape[1]
    if len(codes) != trials:
        raise InputError(f"labels have shape {codes.shape}, but there are {trials} trials")
    for code in TrialClass:
        if not (codes == code).any():
            raise InputError(
                f"labels hold no {code} trial (code {int(code)}) among {trials}; "
                "a fit needs spoof (0), target (1) and nontarget (2)"
            )
    return pairs, codes


def _parts(**given: Any) -> dict[str, str | Other | None]:
    """What a system is made of, each by its name; an error where there is none such."""
    found: dict[str, str | Other | None] = {}
    for place, name in given.items():
        try:
            found[place] = part = as_other(name)
        except InputError as error:
            raise InputError(f"{place}: {error}, got {str(name)[:100]}") from None
        if part is None and place == "rule":
            raise InputError("unknown rule None; a system needs one")
        if part is not None and (place, part) != ("rule", "nonlinear"):
            PARTS[place].find(part)
    return found


def _check(config: Config) -> None:
    """Raise at numbers out of range."""
    if config["components"] > MOST_COMPONENTS:
        raise InputError(
            f"components must be at most {MOST_COMPONENTS}, got {config['components']}"
        )
    penalty, prior = config["penalty"], config["effective_prior"]
    if penalty is not None and not 0 <= penalty < float("inf"):
        raise InputError(f"penalty must be finite and at least 0, got {penalty}")
    if not 0 < prior < 1:
        raise InputError(f"effective_prior must lie in (0, 1), got {prior}")
    if config["cm_positives"] not in ("bonafide", "target"):
        raise InputError(
            f"cm_positives must be 'bonafide' or 'target', got {config['cm_positives']!r}"
        )
