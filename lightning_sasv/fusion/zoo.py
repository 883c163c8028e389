"""The named systems: the paper's eight, and ours. A system is configuration, nothing more."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from typing import TYPE_CHECKING, Any, TypedDict

from lightning_sasv.errors import InputError, meant
from lightning_sasv.fusion.base import Fusion
from lightning_sasv.fusion.doubts import Where, failure_lines, numbered
from lightning_sasv.plugins import Other
from lightning_sasv.trials import FusedScores, Scores

if TYPE_CHECKING:
    from lightning_sasv.fusion.system import FusionSystem

PAPER_SYSTEMS: dict[str, dict[str, Any]] = {
    "B1": {"rule": "sum"},
    "B1c": {"calibration": "paper", "rule": "sum"},
    "L2": {"density": "gaussian", "rule": "linear"},
    "L2c": {"density": "gaussian", "calibration": "paper", "rule": "linear"},
    "L3": {"density": "gaussian", "rule": "nonlinear"},
    "L3c": {"density": "gaussian", "calibration": "paper", "rule": "nonlinear"},
    "B1v2": {"rule": "sigmoid_sum"},
    "Post": {"rule": "sigmoid_product"},
}

OUR_SYSTEMS: dict[str, dict[str, Any]] = {
    # Student-t densities: heavy tails keep the LLRs calibrated.
    "L3t": {"density": "student_t", "rule": "nonlinear"},
    # LLRs from a class-balanced multinomial logistic regression on the score pair.
    "M3": {"calibration": "multinomial", "rule": "nonlinear"},
    # Both affine maps learned from the log-loss of the nonlinear score at an operating point.
    "J3": {"calibration": "joint", "rule": "nonlinear", "rho": "priors", "costs": "asvspoof5"},
    # M3 with the squares of the standardised scores.
    "Q3": {"calibration": "multinomial", "order": "squares", "rule": "nonlinear"},
    # Order, penalty and transforms chosen by cross-validation over the speakers of dev.
    "Q3cv": {
        "calibration": "multinomial",
        "rule": "nonlinear",
        "penalty": "cv",
        "order": "cv",
        "transform": "cv",
    },
    # L3c with targets as positives of its CM side: with all bona fide speech its slope can be < 0.
    "L3ct": {
        "density": "gaussian",
        "calibration": "paper",
        "rule": "nonlinear",
        "cm_positives": "target",
    },
    # M3 with each LLR from its own side and no weight below 0: never rejected for a better score.
    "M3d": {"calibration": "monotone", "rule": "nonlinear"},
}

SYSTEMS: dict[str, dict[str, Any]] = PAPER_SYSTEMS | OUR_SYSTEMS

JOINT_SYSTEMS: dict[str, dict[str, Any]] = {
    # One SASV score of a network that sees both embeddings: Baseline2's, and with FiLM.
    "E2": {"calibration": "single", "rule": "nonlinear", "rho": 0.5},
    "F2": {"calibration": "single", "rule": "nonlinear", "rho": 0.5},
    # Two LLRs of three logits of such a network.
    "E3": {"calibration": "given", "rule": "nonlinear"},
    "F3": {"calibration": "given", "rule": "nonlinear"},
}
"""Systems whose network gives the scores of a trial itself; they fuse no ASV and CM scores."""

KNOWN: dict[str, dict[str, Any]] = SYSTEMS | JOINT_SYSTEMS
"""Every system that has a name."""

GROUPS = {"paper": PAPER_SYSTEMS, "ours": OUR_SYSTEMS, "all": SYSTEMS, "joint": JOINT_SYSTEMS}
"""Words for several systems; ``all`` are those of a pair of scores."""


def of_network(config: Mapping[str, Any]) -> str | None:
    """What a network is trained for whose own scores a system takes; nothing for a pair's.

    Example:
        >>> [of_network(KNOWN[name]) for name in ("E2", "F3", "L3")]
        ['fused', 'three_class', None]
    """
    made = {"single": "fused", "given": "three_class"}
    return made.get(str(config.get("calibration")))


class FusionSettings(TypedDict, total=False):
    """Settings of a fusion system as a configuration gives them; see :class:`Fusion`.

    Example:
        >>> settings: FusionSettings = {"rho": 0.25, "trim": 3.0}
        >>> build_system("L3", **settings).config["trim"]
        3.0
    """

    density: str | Other | None
    calibration: str | Other | None
    rule: str | Other
    rho: float | str
    dof: float
    components: int
    penalty: float | str | None
    effective_prior: float
    cm_positives: str
    costs: str | dict[str, float]
    trim: float | None
    order: str
    transform: str | dict[str, str]


def build_system(
    name: str, settings: FusionSettings | None = None, **overrides: Any
) -> FusionSystem:
    """A named system, unfitted.

    Args:
        name: A key of :data:`KNOWN`, or any other name with ``settings``.
        settings: Those of a system of one's own, in place of ours.
        **overrides: Arguments of :class:`FusionSystem` that replace those of the configuration.

    Raises:
        InputError: The name is unknown, or a fusion system has no such argument.

    Example:
        >>> build_system("L3", rho=0.25).config["rho"]
        0.25
    """
    from lightning_sasv.fusion.system import FusionSystem

    if settings is None and name not in KNOWN:
        listed = f"{', '.join(KNOWN)}{meant(name, KNOWN)}"
        raise InputError(f"unknown system {name!r}; expected one of {listed}")
    known = signature(Fusion).parameters
    wanted = (KNOWN[name] if settings is None else dict(settings)) | overrides
    for setting in wanted:
        if setting not in known:
            raise InputError(
                f"a fusion system has no setting {setting!r}; expected one of {', '.join(known)}"
                f"{meant(setting, known)}"
            )
    system = FusionSystem(**wanted)
    system.name = name
    return system


def system_names(text: str) -> list[str]:
    """Names of systems from ``paper``, ``joint``, …, or a list with commas, in YAML's way too.

    Raises:
        InputError: A name is unknown, or there is none.

    Example:
        >>> system_names("L3c,ours")
        ['L3c', 'L3t', 'M3', 'J3', 'Q3', 'Q3cv', 'L3ct', 'M3d']
    """
    parts = [part.strip() for part in re.split(r"[][,'\"]", text) if part.strip()]
    names = [name for part in parts for name in GROUPS.get(part, [part])]
    unknown = [name for name in names if name not in KNOWN]
    if unknown or not names:
        name = (unknown or [text])[0]
        raise InputError(
            f"--systems: unknown system {name!r}; expected paper, ours, all, joint, or some "
            f"of {', '.join(KNOWN)}{meant(name, [*GROUPS, *KNOWN])}"
        )
    return list(dict.fromkeys(names))


def fit_systems(
    asv: Any,
    cm: Any,
    labels: Any,
    names: Iterable[str] | Mapping[str, FusionSettings] | None = None,
    where: Where = numbered,
    *,
    speakers: Any = None,
    quality: Any = None,
    columns: Sequence[str] | None = None,
    failures: dict[str, str] | None = None,
    **overrides: Any,
) -> dict[str, FusionSystem]:
    """Named systems, each fitted to the same development trials.

    Args:
        asv: ASV scores of the development trials.
        cm: CM scores of the development trials.
        labels: ``TrialClass`` codes or words of the development trials.
        names: Keys of :data:`SYSTEMS`, or settings of systems by their names; by default all of
            :data:`SYSTEMS` that these trials allow: without speakers none that needs them.
        where: Names a trial in the ``warnings`` of a system, see ``FusionSystem.fit``.
        speakers: Enrolled speaker of each trial.
        quality: Measures of quality of each trial.
        columns: Names of all columns.
        failures: Where given, a system that cannot be fitted is noted here with the reason, and
            the others go on.
        **overrides: Arguments of :class:`FusionSystem` that replace those of every system.

    Raises:
        InputError: A system cannot be fitted; with ``failures`` only if none can.

    Example:
        >>> asv, cm, labels = [0.1, 0.6, 0.2, 0.7], [1.0, 2.0, 1.5, -3.0], [2, 1, 2, 0]
        >>> own: dict[str, FusionSettings] = {"Mine": {"density": "tied", "rule": "linear"}}
        >>> sorted(fit_systems(asv, cm, labels, ["L2", "L3"])), [*fit_systems(asv, cm, labels, own)]
        (['L2', 'L3'], ['Mine'])
    """
    wanted = names if isinstance(names, Mapping) else dict.fromkeys(names or SYSTEMS)
    if joint := [name for name in wanted if name in JOINT_SYSTEMS]:
        raise InputError(
            f"{joint[0]} takes scores of a network of its own, not an ASV and a CM score: train it "
            f"with `lightning fit --config {joint[0]}` or `lightning table`"
        )
    systems = {name: build_system(name, own, **overrides) for name, own in wanted.items()}
    if names is None and speakers is None:
        systems = {name: system for name, system in systems.items() if not system.needs_speakers}
    more = {"speakers": speakers, "quality": quality, "columns": columns}
    reasons: dict[str, str] = {}
    for name, system in systems.items():
        try:
            system.fit(asv, cm, labels, where, **more)
        except InputError as error:
            if failures is None:
                raise
            reasons[name] = str(error).removeprefix(system.label)
    check_some_left(systems, reasons)
    if failures is not None:
        failures.update(reasons)
    return {name: system for name, system in systems.items() if name not in reasons}


def check_some_left(systems: Iterable[str], reasons: Mapping[str, str]) -> None:
    """Raise if every system has a reason why it could not be fitted."""
    if reasons and not set(systems) - set(reasons):
        said = dict.fromkeys(reasons.values())
        raise InputError(next(iter(said)) if len(said) == 1 else "; ".join(failure_lines(reasons)))


def fuse_systems(
    systems: Mapping[str, Any], asv: Any, cm: Any, quality: Any = None
) -> dict[str, FusedScores]:
    """Scores of every system on trials whose labels are none of its business.

    Args:
        systems: Fitted systems by name.
        asv: ASV scores.
        cm: CM scores.
        quality: Measures of quality, where the systems were fitted with them.

    Example:
        >>> fuse_systems({"B1": build_system("B1")}, [0.5], [2.0])["B1"].sasv.tolist()
        [2.5]
    """
    return {name: system(asv, cm, quality) for name, system in systems.items()}


def fit_and_fuse(
    dev: Scores, evaluation: Scores, names: Iterable[str] | None = None, **overrides: Any
) -> tuple[dict[str, FusionSystem], dict[str, FusedScores]]:
    """Fit named systems on development scores and fuse evaluation scores with them.

    The labels of the evaluation trials are not looked at.

    Args:
        dev: Development scores with labels.
        evaluation: Scores to fuse.
        names: Keys of :data:`SYSTEMS`; by default all that the development trials allow.
        **overrides: Arguments of :class:`FusionSystem` that replace those of every system.

    Returns:
        The fitted systems and their scores of the evaluation trials, by name.

    Example:
        >>> import numpy as np
        >>> dev = Scores(np.array([0.1, 0.6, 0.2]), np.array([1.0, 2.0, -3.0]), np.array([2, 1, 0]))
        >>> systems, fused = fit_and_fuse(dev, dev, ["B1"])
        >>> fused["B1"].sasv.round(decimals=1).tolist()
        [1.1, 2.6, -2.8]
    """
    systems = fit_systems(dev.asv, dev.cm, dev.label, names, speakers=dev.speaker, **overrides)
    return systems, fuse_systems(systems, evaluation.asv, evaluation.cm)


def pack_system(system: FusionSystem) -> dict[str, Any]:
    """Configuration and fitted state, plain enough for ``torch.load(..., weights_only=True)``.

    Example:
        >>> sorted(pack_system(build_system("B1")))
        ['config', 'state_dict']
    """
    return {"config": dict(system.config), "state_dict": system.state_dict()}


def unpack_system(packed: Mapping[str, Any]) -> FusionSystem:
    """The system that :func:`pack_system` packed, now or when it still knew ``copies``.

    Example:
        >>> unpack_system(pack_system(build_system("B1"))).rule
        'sum'
    """
    from lightning_sasv.fusion.system import FusionSystem

    config = {name: value for name, value in packed["config"].items() if name != "copies"}
    system = FusionSystem(**config)
    system.load_state_dict(packed["state_dict"])
    return system
