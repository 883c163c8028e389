"""A fusion system: density, calibration and rule by name, fitted on development trials."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor, nn

from lightning_sasv.decisions.costs import CostModel, as_cost_model
from lightning_sasv.errors import InputError
from lightning_sasv.fusion.calibration import CalibrationSettings
from lightning_sasv.fusion.inputs import as_label_rows, check_pairs_spread, score_pairs
from lightning_sasv.fusion.numbers import count, positive, real
from lightning_sasv.fusion.rules import PLAIN_RULES, RULES, fuse_nonlinear
from lightning_sasv.fusion.search import SEARCHES, find_rho, initial_rho
from lightning_sasv.fusion.sharing import SharedStages
from lightning_sasv.fusion.stage import Stage, store
from lightning_sasv.fusion.stages import build_calibration, build_density
from lightning_sasv.trials import FusedScores


class FusionSystem(nn.Module):
    """ASV and CM scores in, one SASV score out.

    The way of a score pair is: density (to two LLRs), calibration (of the two scores or LLRs),
    rule (to one score). Each stage is named by a plain string, so that a system is configuration.
    What ``fit`` learns is kept in float64 buffers whose first axis counts stacked seeds, and
    stays float64 when the module around it is cast to another type.

    Args:
        density: Class-conditional density of the score pair: ``None`` (scores go through),
            ``gaussian``, ``tied``, ``diagonal``, ``student_t`` or ``mixture``.
        calibration: ``None``, ``paper``, ``effective_prior``, ``pav``, ``multinomial`` or
            ``joint``.
        rule: ``sum``, ``linear``, ``nonlinear``, ``sigmoid_sum``, ``sigmoid_product`` or
            ``cascade``.
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
        copies: Number of stacked seeds.

    Example:
        >>> system = FusionSystem(rule="sum")
        >>> system(torch.tensor([0.5]), torch.tensor([2.0])).sasv
        tensor([2.5000], dtype=torch.float64)
    """

    rho: Tensor | None
    fitted: Tensor

    def __init__(
        self,
        density: str | None = None,
        calibration: str | None = None,
        rule: str = "sum",
        rho: float | str = "grid_eer",
        *,
        dof: float = 4.0,
        components: int = 2,
        penalty: float | None = None,
        effective_prior: float = 0.5,
        cm_positives: str = "bonafide",
        costs: str | dict[str, float] | CostModel = "a-dcf1",
        copies: int = 1,
    ) -> None:
        super().__init__()
        if rule not in RULES:
            raise InputError(f"unknown rule {rule!r}; expected one of {', '.join(RULES)}")
        self.config: dict[str, Any] = {
            "density": density,
            "calibration": calibration,
            "rule": rule,
            "rho": rho if isinstance(rho, str) else real("rho", rho),
            "dof": positive("dof", dof),
            "components": count("components", components),
            "penalty": None if penalty is None else real("penalty", penalty),
            "effective_prior": real("effective_prior", effective_prior),
            "cm_positives": cm_positives,
            "costs": costs if isinstance(costs, str) else asdict(as_cost_model(costs)),
            "copies": count("copies", copies),
        }
        self.copies: int = self.config["copies"]
        self.rule = rule
        self.costs = as_cost_model(costs)
        self.density = build_density(
            density, self.copies, dof=self.config["dof"], components=self.config["components"]
        )
        settings = CalibrationSettings(
            self.config["penalty"], self.config["effective_prior"], cm_positives, self.costs
        )
        self.calibration = build_calibration(calibration, settings, self.copies)
        start = initial_rho(self.config["rho"], self.costs)
        prevalence = torch.full((self.copies,), start, dtype=torch.float64)
        self.register_buffer("rho", prevalence if rule == "nonlinear" else None)
        self.register_buffer("fitted", torch.full((self.copies,), not self._needs_fit()))

    @property
    def gives_llrs(self) -> bool:
        """Whether the two sides are log-likelihood ratios, which a cost model can be applied to.

        They are after a density and after a calibration. A system with neither (B1, B1v2, Post)
        hands its raw scores on.
        """
        return self.density is not None or self.calibration is not None

    @property
    def is_fitted(self) -> bool:
        """Whether scores can be fused: after ``fit``, or at once where nothing is to be learned."""
        return bool(self.fitted.all())

    def fit(self, asv: Any, cm: Any, labels: Any) -> FusionSystem:
        """Learn everything from development trials.

        Args:
            asv: ASV scores, (trials,) or (copies, trials).
            cm: CM scores, (trials,) or (copies, trials); seed k is fitted to row k alone.
            labels: ``TrialClass`` codes, (trials,) or (copies, trials).

        Returns:
            The system itself.

        Raises:
            InputError: A score that is not finite or constant, a code outside {0, 1, 2}, a class
                without trials, or shapes that do not agree with each other or with ``copies``.
        """
        self.fit_pairs(score_pairs(asv, cm), labels, SharedStages())
        return self

    def forward(self, asv: Any, cm: Any) -> FusedScores:
        """Fuse scores.

        Args:
            asv: ASV scores, (trials,) or (copies, trials).
            cm: CM scores, (trials,) or (copies, trials).

        Returns:
            Float64 scores of shape (trials,), or (copies, trials) for stacked seeds or scores.

        Raises:
            InputError: A score that is not finite, or shapes that do not agree.
            RuntimeError: The system has not been fitted.
        """
        return self.fuse_pairs(score_pairs(asv, cm), SharedStages())

    def fit_pairs(self, pairs: Tensor, labels: Any, shared: SharedStages) -> None:
        """Fit to checked score pairs, sharing stages with other systems on the same trials.

        Args:
            pairs: Score pairs, (2, trials) or (copies, 2, trials).
            labels: ``TrialClass`` codes.
            shared: Stages that have been fitted to these pairs already.
        """
        with torch.inference_mode(False), torch.no_grad():
            scores = self._rows(pairs, allowed=(1, self.copies))
            check_pairs_spread(scores)
            codes = as_label_rows(labels, self.copies, scores.shape[-1]).to(scores.device)
            store(self, fitted=torch.full_like(self.fitted, not self._needs_fit()))
            for key, stage in self._stages():
                scores = shared.fit(key, stage, scores, codes)
            self._search_rho(scores, codes)
            store(self, fitted=torch.ones_like(self.fitted))

    def fuse_pairs(self, pairs: Tensor, shared: SharedStages) -> FusedScores:
        """Fuse checked score pairs, sharing stages with other systems on the same trials.

        Args:
            pairs: Score pairs, (2, trials) or (rows, 2, trials).
            shared: Stages that have been applied to these pairs already.
        """
        if not self.is_fitted:
            raise RuntimeError("this FusionSystem is not fitted; call fit on development trials")
        rows = 1 if pairs.ndim == 2 else len(pairs)
        scores = self._rows(pairs, allowed=(rows,) if self.copies == 1 else (1, self.copies))
        for key, stage in self._stages():
            scores = shared.apply(key, stage, scores)
        asv_llr, cm_llr = scores.unbind(dim=1)
        if self.rho is None:
            sasv = PLAIN_RULES[self.rule](asv_llr, cm_llr)
        else:
            sasv = fuse_nonlinear(asv_llr, cm_llr, self.rho[:, None])
        fused = FusedScores(asv_llr, cm_llr, sasv)
        if pairs.ndim == 2 and self.copies == 1:
            return FusedScores(*(values[0] for values in fused))
        return fused

    def select(self, copy: int) -> FusionSystem:
        """The system of one stacked seed, as a system of its own."""
        if not 0 <= copy < self.copies:
            raise InputError(f"copy must lie in 0..{self.copies - 1}, got {copy}")
        single = FusionSystem(**(self.config | {"copies": 1})).to(self.fitted.device)
        single.load_state_dict(
            {name: value[copy : copy + 1].clone() for name, value in self.state_dict().items()}
        )
        return single

    def extra_repr(self) -> str:
        """Names of the stages."""
        shown = ("density", "calibration", "rule", "rho", "copies")
        return ", ".join(f"{name}={self.config[name]!r}" for name in shown)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusionSystem:
        """Follow the surrounding module to another device, but stay float64."""

        def keep_type(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(keep_type, recurse)  # type: ignore[no-untyped-call]
        return self

    def _searches_rho(self) -> bool:
        return self.rho is not None and self.config["rho"] in SEARCHES

    def _needs_fit(self) -> bool:
        return self.gives_llrs or self._searches_rho()

    def _rows(self, pairs: Tensor, allowed: tuple[int, ...]) -> Tensor:
        """Score pairs (rows, 2, trials) on our device, a single row repeated for every copy."""
        rows = (pairs if pairs.ndim == 3 else pairs[None]).to(self.fitted.device)
        if len(rows) not in allowed:
            raise InputError(f"asv and cm have {len(rows)} rows, the system {self.copies} copies")
        return rows if len(rows) > 1 else rows.expand(self.copies, -1, -1)

    def _stages(self) -> list[tuple[str, Stage]]:
        """The stages there are, each with all that determines its fit."""
        density = ["density", "dof", "components"]
        calibration = ["calibration", "penalty", "effective_prior", "cm_positives", "costs"]
        stages = ((density, self.density), (density + calibration, self.calibration))
        return [
            (repr([self.config[name] for name in names]), stage)
            for names, stage in stages
            if stage is not None
        ]

    def _search_rho(self, scores: Tensor, labels: Tensor) -> None:
        """Search ρ of each seed on its LLR pairs (copies, 2, trials), if it is to be searched."""
        if self.rho is None or not self._searches_rho():
            return
        rows = zip(scores, labels, strict=True)
        found = [find_rho(self.config["rho"], *row, self.costs) for row in rows]
        store(self, rho=self.rho.new_tensor(found))
