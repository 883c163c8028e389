"""Costs and priors of the three classes of trials, and the presets of the field."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from numbers import Real

from lightning_sasv.errors import InputError, meant

_LEAST = 1e-300
"""Below it a quotient loses digits."""


@dataclass(frozen=True)
class CostModel:
    """Detection costs and class priors of a spoofing-aware verification application.

    Attributes:
        c_miss: Cost of rejecting a target.
        c_fa_nontarget: Cost of accepting a nontarget.
        c_fa_spoof: Cost of accepting a spoof.
        p_target: Prior probability of a target.
        p_nontarget: Prior probability of a nontarget.
        p_spoof: Prior probability of a spoof.
        c_abstain: Cost of deciding nothing, of whatever class the trial is; never where infinite.

    Raises:
        InputError: A cost below 0 or infinite, a prior outside [0, 1], or priors that do not sum
            to one.

    Example:
        >>> costs = CostModel(c_fa_spoof=20.0, p_target=0.9, p_nontarget=0.05, p_spoof=0.05)
        >>> costs.weight_fa_spoof, round(costs.spoof_share, 3)
        (1.0, 0.952)
    """

    c_miss: float = 1.0
    c_fa_nontarget: float = 1.0
    c_fa_spoof: float = 1.0
    p_target: float = 1 / 3
    p_nontarget: float = 1 / 3
    p_spoof: float = 1 / 3
    c_abstain: float = math.inf

    def __post_init__(self) -> None:
        for name in ("c_miss", "c_fa_nontarget", "c_fa_spoof"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) < math.inf):
                raise InputError(f"{name} must be a finite cost of at least 0, got {value!r}")
        if not (isinstance(self.c_abstain, Real) and float(self.c_abstain) >= 0):
            raise InputError(f"c_abstain must be a cost of at least 0, got {self.c_abstain!r}")
        for name in ("p_target", "p_nontarget", "p_spoof"):
            value = getattr(self, name)
            if not (isinstance(value, Real) and 0 <= float(value) <= 1):
                raise InputError(f"{name} must be a probability in [0, 1], got {value!r}")
        total = self.p_target + self.p_nontarget + self.p_spoof
        if abs(total - 1) > 1e-10:
            raise InputError(
                f"p_target + p_nontarget + p_spoof must be 1, got {total:.12g} "
                f"({self.p_target} + {self.p_nontarget} + {self.p_spoof})"
            )

    @property
    def weight_miss(self) -> float:
        """C_miss π_tar."""
        return self.c_miss * self.p_target

    @property
    def weight_fa_nontarget(self) -> float:
        """C_fa,non π_non."""
        return self.c_fa_nontarget * self.p_nontarget

    @property
    def weight_fa_spoof(self) -> float:
        """C_fa,spf π_spf."""
        return self.c_fa_spoof * self.p_spoof

    @property
    def weights(self) -> tuple[float, float, float]:
        """The weights of target, nontarget and spoof."""
        return self.weight_miss, self.weight_fa_nontarget, self.weight_fa_spoof

    @property
    def priors(self) -> tuple[float, float, float]:
        """The priors of target, nontarget and spoof."""
        return self.p_target, self.p_nontarget, self.p_spoof

    @property
    def log_weights(self) -> tuple[float, float, float]:
        """Logs of the weights of target, nontarget and spoof; −inf where one is 0."""
        target, nontarget, spoof = (math.log(w) if w > 0 else -math.inf for w in self.weights)
        return target, nontarget, spoof

    @property
    def spoof_share(self) -> float:
        """ρ of the cost-weighted priors, ``C_fa,spf π_spf / (C_fa,non π_non + C_fa,spf π_spf)``.

        With equal costs it is the paper's spoof prevalence π_spf / (π_non + π_spf).
        """
        total = self.weight_fa_nontarget + self.weight_fa_spoof
        if total == 0:
            raise InputError(
                "rho is undefined: c_fa_nontarget p_nontarget and c_fa_spoof p_spoof are both 0"
            )
        return self.weight_fa_spoof / total

    @property
    def log_beta(self) -> float:
        """Log of the weighted prior odds ``C_miss π_tar / (C_fa,non π_non + C_fa,spf π_spf)``.

        The Bayes policy accepts scores above ``−log β``. It is ±inf where one side has no weight.
        """
        negative = self.weight_fa_nontarget + self.weight_fa_spoof
        if negative == 0 or self.weight_miss == 0:
            return math.inf if negative == 0 else -math.inf
        odds = self.weight_miss / negative
        if _LEAST < odds < math.inf:
            return math.log(odds)
        return math.log(self.weight_miss) - math.log(negative)

    @property
    def most_c_abstain(self) -> float:
        """What ``c_abstain`` must stay below to be the least risk anywhere.

        ``C_miss C*/(C_miss + C*)`` with ``C*`` the larger cost of a false acceptance, of classes
        that occur.
        """
        false = (self.c_fa_nontarget, self.p_nontarget), (self.c_fa_spoof, self.p_spoof)
        worst = max((cost for cost, prior in false if prior > 0), default=0.0)
        miss = self.c_miss if self.p_target > 0 else 0.0
        return miss * worst / (miss + worst) if miss and worst else 0.0

    @property
    def idle_c_abstain(self) -> str | None:
        """What is said of a finite ``c_abstain`` that can never act."""
        if self.c_abstain == math.inf or self.c_abstain < self.most_c_abstain:
            return None
        return (
            f"warning: c_abstain {self.c_abstain:g} never acts: at these costs abstaining can cost "
            f"least only below {self.most_c_abstain:.4g}"
        )

    def as_dict(self) -> dict[str, float]:
        """The fields by name, ``c_abstain`` only where it is finite."""
        found = asdict(self)
        if self.c_abstain == math.inf:
            del found["c_abstain"]
        return found

    @property
    def default_cost(self) -> float:
        """Cost of the better of "always reject" and "always accept": the a-DCF normaliser."""
        return min(self.weight_miss, self.weight_fa_nontarget + self.weight_fa_spoof)


PRESETS: dict[str, CostModel] = {
    # Unit costs and a flat prior of 1/3 for each class: the paper's simulation.
    "equal": CostModel(),
    # The defaults of the a-DCF (Shim et al. 2024).
    "a-dcf1": CostModel(1.0, 10.0, 20.0, 0.9, 0.05, 0.05),
    # ASVspoof 5, track 2.
    "asvspoof5": CostModel(1.0, 10.0, 10.0, 0.9405, 0.0095, 0.05),
}


def cost_preset(name: str) -> CostModel:
    """Preset by name: ``equal``, ``a-dcf1`` or ``asvspoof5``.

    Example:
        >>> cost_preset("asvspoof5").p_spoof
        0.05
    """
    try:
        return PRESETS[name]
    except KeyError:
        listed = f"presets: {', '.join(PRESETS)}{meant(name, PRESETS)}"
        raise InputError(f"unknown cost model {name!r}; {listed}") from None


def as_cost_model(costs: CostModel | str | Mapping[str, float]) -> CostModel:
    """Cost model from itself, a preset's name, or a mapping with the fields of ``CostModel``.

    Example:
        >>> as_cost_model({"c_fa_spoof": 2}).c_fa_spoof
        2.0
    """
    if isinstance(costs, CostModel):
        return costs
    if isinstance(costs, str):
        return cost_preset(costs)
    if not isinstance(costs, Mapping):
        raise InputError(f"costs must be a CostModel, a preset's name or a mapping, got {costs!r}")
    known = {field.name for field in fields(CostModel)}
    unknown = sorted(str(name) for name in set(costs) - known)
    if unknown:
        raise InputError(
            f"costs have unknown fields {unknown}; expected {', '.join(sorted(known))}"
            f"{meant(unknown[0], known)}"
        )
    return CostModel(**{name: _number(name, value) for name, value in costs.items()})


def _number(name: str, value: object) -> float:
    """A field as a float; numbers in words, as some files have them, are read."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        shown = (
            repr(value)[:100]
            if not isinstance(value, int) or isinstance(value, bool)
            else "one too large"
        )
        raise InputError(f"costs must be numbers, got {shown} for {name}") from None
