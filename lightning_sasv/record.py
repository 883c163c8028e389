"""What a result says of itself: the block ``of`` of a system on a set, and its words for people.

- what was scored, and by which trainings: corpus, simulated, scale, twin_seed, seeds;
- SHA-256 of the trials and of their scores: fingerprint, scores;
- counts by class of what was scored and of the protocol: trials, expected, part, cause;
- how misses are spread: speakers, speakers_without_miss, largest_miss_share, attacks;
- how numbers were made: checkpoint, costs, tandem_costs, eer_convention, t_eer, t_dcf, cllr,
  software, device, threads, precision, date.
"""

from __future__ import annotations

import hashlib
import math
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv import __version__
from lightning_sasv.checks import EmptyClassError, as_scores
from lightning_sasv.decisions.costs import PRESETS, CostModel
from lightning_sasv.metrics.functional.dcf import rates_at_eer
from lightning_sasv.metrics.functional.points import Classes, Unpaired
from lightning_sasv.metrics.registry import DEFAULTS, Settings, explained
from lightning_sasv.scores.layouts import LABELS
from lightning_sasv.trials import TWIN, TrialClass, claimed_speakers

if TYPE_CHECKING:
    import polars as pl

    from lightning_sasv.scores import ScoreTable

NOT_RECORDED = "not recorded"
"""What version 1 and old checkpoints do not say."""

Of = dict[str, Any]
FIELDS = (
    *("corpus", "simulated", "scale", "twin_seed", "seeds", "fingerprint", "scores", "trials"),
    *("expected", "part", "cause", "speakers", "speakers_without_miss", "largest_miss_share"),
    *("attacks", "checkpoint", "costs", "tandem_costs", "eer_convention", "t_eer", "t_dcf"),
    *("cllr", "software", "device", "threads", "precision", "date"),
)
"""Every field of a block."""


def unrecorded(**known: Any) -> Of:
    """A block of which only some fields are known."""
    return dict.fromkeys(FIELDS, NOT_RECORDED) | known


@dataclass(frozen=True)
class Origin:
    """Where scores come from, and how they were made.

    Attributes:
        corpus: Name of the corpus, if it has one.
        simulated: Whether it is the twin, whatever it is called.
        scale: Size of the twin.
        twin_seed: Seed of the twin.
        seeds: Training seeds; none of score files.
        checkpoint: File name, epoch, step and SHA-256; ``None`` for score files.
        device: ``cpu``, or ``cuda:`` and its name.
        threads: CPU threads, where they matter.
        precision: Of the network, or of the arithmetic on its scores.
        trained_on: Corpus of the training, where it was meant to be another one.
        expected: Trials of each class of the protocol, where only a part of them is known of.
        cause: Why it is a part.
    """

    corpus: str | None
    simulated: bool | None = None
    scale: float | None = None
    twin_seed: int | None = None
    seeds: tuple[int, ...] | None = None
    checkpoint: Mapping[str, Any] | None = None
    device: str = "cpu"
    threads: int | None = None
    precision: str = "64-true"
    trained_on: str | None = None
    expected: Mapping[str, int] | None = None
    cause: str | None = None


@dataclass(frozen=True)
class Trials:
    """Labelled trials that were scored.

    Attributes:
        table: The trials; it says if they are a part.
    """

    table: ScoreTable

    @cached_property
    def _lines(self) -> pl.Series:
        """``speaker⇥utterance⇥attack⇥label`` of each trial, ``-`` for what is not known."""
        import polars as pl

        names = ("speaker", "utterance", "attack", "label")
        cells = [
            pl.col(name).cast(pl.String).fill_null("-") if name in self.table else pl.lit("-")
            for name in names
        ]
        return self.table.frame.select(pl.concat_str(cells, separator="\t")).to_series()

    @cached_property
    def speakers(self) -> pl.Series | None:
        """Enrolled speaker of each trial, where they are known; models of one speaker are one."""
        import polars as pl

        known = "speaker" in self.table
        return pl.Series(claimed_speakers(self.table.frame["speaker"])) if known else None

    @cached_property
    def labels(self) -> np.ndarray:
        """``TrialClass`` codes; bona fide speech of unknown speaker counts as target."""
        import polars as pl

        words = self.table.frame["label"].cast(pl.Enum(LABELS))
        codes = words.to_physical().to_numpy().astype(np.int64)
        return np.where(codes == len(TrialClass), int(TrialClass.TARGET), codes)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of the lines in ascending order, each ended by a line feed."""
        text = "".join(f"{line}\n" for line in self._lines.sort().to_list())
        return hashlib.sha256(text.encode()).hexdigest()

    def digest(self, columns: Mapping[str, Any]) -> str:
        """SHA-256 of columns of scores by their names, float64, trials in the order of the lines.

        Args:
            columns: Scores of each trial.
        """
        found, order = hashlib.sha256(), self._order
        for name in sorted(columns):
            found.update(np.asarray(columns[name], dtype="<f8")[order].tobytes())
        return found.hexdigest()

    @cached_property
    def _order(self) -> np.ndarray:
        return self._lines.arg_sort().to_numpy()

    def block(self, origin: Origin) -> Of:
        """The fields about trials."""
        import polars as pl

        counts, known = self.table.counts(), self.table.expected or origin.expected
        expected = counts if known is None else dict(known)
        part = counts != expected
        spoof = pl.col("label") == "spoof"
        attacks = self.table.frame.filter(spoof)["attack"] if "attack" in self.table else None
        other = {"trained_on": origin.trained_on} if origin.trained_on else {}
        return other | {
            "corpus": origin.corpus,
            "simulated": origin.simulated or origin.corpus == TWIN or None,
            "scale": origin.scale,
            "twin_seed": origin.twin_seed,
            "seeds": None if origin.seeds is None else list(origin.seeds),
            "fingerprint": self.fingerprint,
            "trials": counts,
            "expected": expected,
            "part": part,
            "cause": self.table.cause or origin.cause if part else None,
            "speakers": None if self.speakers is None else self.speakers.n_unique(),
            "attacks": None if attacks is None else attacks.n_unique(),
        }


Columns = Mapping[str, Any]
"""Scores of each trial: ``asv``, ``cm`` and ``sasv``, as far as a system has them."""


def set_entry(
    columns: Columns, values: Mapping[str, float], trials: Trials, origin: Origin, how: Settings
) -> dict[str, Any]:
    """What ``metrics.json`` says of a system on a set.

    Args:
        columns: The scores.
        values: Metrics of these scores.
        trials: The trials.
        origin: Where the scores come from.
        how: Costs and conventions of the metrics.
    """
    arrays, classes = _classes(columns, trials)
    of = trials.block(origin) | {
        "scores": trials.digest(arrays),
        **_misses(arrays, values, trials),
        "checkpoint": None if origin.checkpoint is None else dict(origin.checkpoint),
        "costs": named_costs(how.costs),
        "tandem_costs": named_costs(how.tandem_costs),
        "eer_convention": how.convention,
        **({} if how.asv_points == DEFAULTS.asv_points else {"asv_points": how.asv_points}),
        **({} if how.cm_point is None else {"cm_point": how.cm_point}),
        "t_eer": _t_eer(values, how),
        "t_dcf": _t_dcf(classes, how) if "min_t_dcf" in values else None,
        "cllr": "nontarget and spoof pooled by count",
        "software": software(),
        "device": origin.device,
        "threads": origin.threads,
        "precision": origin.precision,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    reasons = {name: "infinite" for name, value in values.items() if math.isinf(value)}
    undefined = [name for name, value in values.items() if math.isnan(value)]
    reasons |= explained(undefined, classes, how).undefined
    return {"values": dict(values), "undefined": reasons, "of": of}


def _classes(columns: Columns, trials: Trials) -> tuple[dict[str, np.ndarray], Classes]:
    """Scores by column, and their classes: of its own trials each, where they are unpaired."""
    if not trials.table.unpaired:
        arrays = {name: as_scores(column, name) for name, column in columns.items()}
        return arrays, Classes(arrays, trials.labels)
    arrays = {name: np.asarray(column, np.float64) for name, column in columns.items()}
    return arrays, Unpaired(arrays, trials.labels)


def _misses(columns: Columns, values: Mapping[str, float], trials: Trials) -> Of:
    """How the misses at the threshold of the SASV-EER are spread over speakers."""
    none: Of = {"speakers_without_miss": None, "largest_miss_share": None}
    threshold = values.get("sasv_threshold", math.nan)
    speakers = trials.speakers
    if speakers is None or math.isnan(threshold):
        return none
    missed = (trials.labels == TrialClass.TARGET) & (columns["sasv"] <= threshold)
    found = speakers.filter(missed).value_counts()["count"]
    share = found.max() / len(speakers.filter(missed)) if len(found) else None  # type: ignore[operator]
    return {"speakers_without_miss": speakers.n_unique() - len(found), "largest_miss_share": share}


def named_costs(costs: CostModel) -> Of:
    """Costs and priors with their name: that of the preset with these numbers, or ``own``."""
    name = next((name for name, preset in PRESETS.items() if preset == costs), "own")
    return {"name": name, **costs.as_dict()}


def settings_of(of: Of) -> Settings | None:
    """Costs and convention of results; nothing where they are not recorded."""
    costs, fields = of["costs"], CostModel().as_dict()
    if not isinstance(costs, Mapping) or not fields.keys() <= costs.keys():
        return None
    known = {name: costs[name] for name in (*fields, "c_abstain") if name in costs}
    return Settings(CostModel(**known), convention=of["eer_convention"])


def _t_eer(values: Mapping[str, float], how: Settings) -> Of | None:
    exists = values.get("t_eer_exists", math.nan)
    if math.isnan(exists):
        return None
    point, rho = ("concurrent", None) if exists else ("closest", 0.5)
    if how.t_eer_rule == "reference":
        point, rho = "reference", 0.5
    residual = values["t_eer_residual"]
    return {"rule": how.t_eer_rule, "point": point, "rho": rho, "residual": residual}


def _t_dcf(classes: Classes, how: Settings) -> Of:
    """Versions of the t-DCFs, and the verifier's error rates in them."""
    versions = {"min_t_dcf": "2019", "min_t_dcf_legacy": "legacy"}
    if how.asv_rates is not None:
        fixed = how.asv_rates._asdict()
        return {"version": versions, "rates_from": "fixed", "rates": fixed}
    try:
        rates = rates_at_eer(classes)._asdict()
    except EmptyClassError:
        rates = None
    return {"version": versions, "rates_from": "these scores", "rates": rates}


def software() -> dict[str, str | None]:
    """Versions of what computes."""
    try:
        torch: str | None = version("torch")
    except PackageNotFoundError:
        torch = None
    own = {"lightning_sasv": __version__, "torch": torch, "numpy": np.__version__}
    return own | {"python": platform.python_version()}


# Words


def is_part(of: Mapping[str, Any]) -> bool:
    """Whether only some of the trials were scored."""
    return of.get("part") is True


def set_title(split: str, of: Mapping[str, Any]) -> str:
    """``eval``, or ``part of eval: 1,443 of 5,214 trials``.

    Example:
        >>> of = {"part": True, "trials": {"target": 9}, "expected": {"target": 1200}}
        >>> set_title("dev", of), set_title("dev", {"part": False})
        ('part of dev: 9 of 1,200 trials', 'dev')
    """
    if not is_part(of):
        return split
    there, all_of_them = (sum(of[field].values()) for field in ("trials", "expected"))
    return f"part of {split}: {there:,} of {all_of_them:,} trials"


def simulated_words(of: Mapping[str, Any]) -> str:
    """That a result is of a simulated corpus, and of what size of it; nothing of a real one.

    Example:
        >>> simulated_words({"simulated": True, "scale": 0.1}), simulated_words({"scale": None})
        ('simulated, scale 0.1', '')
    """
    if of.get("simulated") is not True:
        return ""
    scale = of.get("scale")
    return f"simulated, scale {f'{scale:g}' if isinstance(scale, int | float) else NOT_RECORDED}"


def share_words(of: Mapping[str, Any]) -> str:
    """The largest share of the misses that one speaker has; of several seeds the range.

    Example:
        >>> share_words({"largest_miss_share": 27 / 76}), share_words({})
        ('36 %', '')
        >>> share_words({"largest_miss_share": {"1": 0.2, "2": 0.3}})
        '20–30 %'
    """
    share = of.get("largest_miss_share")
    found = list(share.values()) if isinstance(share, Mapping) else [share]
    known = sorted({f"{100 * one:.0f}" for one in found if isinstance(one, int | float)}, key=float)
    return "–".join([known[0], *known[1:][-1:]]) + " %" if known else ""


def costs_words(of: Mapping[str, Any], field: str = "costs") -> str:
    """The costs of a result: their name, their numbers where they have none, or ``not recorded``.

    Example:
        >>> costs_words({"costs": named_costs(PRESETS["equal"])}), costs_words({})
        ('equal', 'not recorded')
        >>> costs_words({"costs": named_costs(CostModel(c_miss=2.0))})
        'own: C 2, 1, 1; π 0.333, 0.333, 0.333'
    """
    costs = of.get(field, NOT_RECORDED)
    if not isinstance(costs, Mapping):
        return NOT_RECORDED
    if costs.get("name") in PRESETS:
        return str(costs["name"])
    numbers = [costs.get(name) for name in CostModel().as_dict()]
    shown = [f"{one:.3g}" if isinstance(one, int | float) else NOT_RECORDED for one in numbers]
    return f"own: C {', '.join(shown[:3])}; π {', '.join(shown[3:])}"
