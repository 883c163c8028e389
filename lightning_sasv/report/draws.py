"""Draws of the systems of a report; those of each training seed of a table are kept beside it.

``draws.json`` holds for each system of a seed the replicates of its metrics. Replicate r of all
seeds and systems is drawn alike, so that they are put together later, whoever made them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.checks import Floats
from lightning_sasv.decisions.costs import CostModel
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, write_json
from lightning_sasv.metrics.bootstrap import factors, resample
from lightning_sasv.metrics.intervals import FEWEST_SPEAKERS, Resampled
from lightning_sasv.metrics.registry import Settings
from lightning_sasv.metrics_file import of_in
from lightning_sasv.record import Of
from lightning_sasv.results import METRICS_FILE, PREFIX, read_metrics, scores_file
from lightning_sasv.scores import read_table
from lightning_sasv.trials import Scores

DRAWN = ("sasv_eer", "cllr", "min_a_dcf")
"""Metrics that have intervals in reports and tables, the one that decides first."""
DRAWS_FILE, FORMAT = "draws.json", "lightning_sasv.draws 1"
OVER_SEEDS = ("speaker",)
"""What is drawn beside training seeds."""

Draws = dict[str, dict[str, Resampled]]
"""Replicates of one training seed, by system and metric."""


def settings_of(of: Of) -> Settings | None:
    """Costs and convention of results; nothing where they are not recorded."""
    costs, convention = of["costs"], of["eer_convention"]
    fields = CostModel().as_dict()
    if not isinstance(costs, Mapping) or not fields.keys() <= costs.keys():
        return None
    known = {name: costs[name] for name in (*fields, "c_abstain") if name in costs}
    return Settings(CostModel(**known), convention=convention)


def known_factors(scores: Scores) -> dict[str, np.ndarray]:
    """What is known and can be drawn: enrolled speakers, impostors, attacks of each trial."""
    test = scores.extra.get("test_speaker", scores.extra.get("real_speaker"))
    return dict(factors(scores.label, scores.speaker, test, scores.attack))


def few_speakers(scores: Scores) -> str | None:
    """Why there are no intervals of these trials; nothing where there are."""
    speakers = known_factors(scores).get("speaker")
    if speakers is None:
        return "Speakers are not known: no intervals."
    number = len(np.unique(speakers))
    return None if number >= FEWEST_SPEAKERS else f"No intervals: {number} speakers are too few."


def draw(
    fused: Mapping[str, Floats], scores: Scores, of: Of, n: int, drawn: Sequence[str] | None = None
) -> Draws:
    """Replicates of systems on the same trials.

    Args:
        fused: Fused scores by system.
        scores: The trials, of speakers that are known.
        of: What the results are of; costs that are not recorded have no replicates.
        n: Replicates.
        drawn: What is drawn; by default all that is known.
    """
    how, known = settings_of(of), known_factors(scores)
    wanted = DRAWN if how is not None else DRAWN[:2]
    return resample(
        {name: {"sasv": column} for name, column in fused.items()},
        scores.label,
        dict.fromkeys(fused, wanted),
        tuple(column for name, column in known.items() if drawn is None or name in drawn),
        n,
        settings=how or Settings(),
    )


def draw_seeds(folders: Sequence[Path], names: Sequence[str], n: int) -> list[Draws]:
    """Replicates of the seeds of a table as they are beside them; ``n`` where there are none."""
    noted = [_read(folder / DRAWS_FILE) for folder in folders]
    with suppress(KeyError, TypeError, ValueError):
        sizes = [
            len(own[name]["metrics"][DRAWN[0]]["replicates"]) for own in noted for name in names
        ]
        n = min(sizes)
    return [draw_seed(folder, names, n, keep=False) for folder in folders]


def draw_seed(folder: Path, names: Sequence[str], n: int, keep: bool = True) -> Draws:
    """Replicates of a training seed by enrolled speaker: those beside it, and what they lack.

    Args:
        folder: The folder ``seed<N>`` of a table.
        names: Its systems.
        n: Replicates.
        keep: Whether new ones are written beside it.

    Returns:
        Replicates of each system; none where speakers are too few, or not known.
    """
    metrics = read_metrics(folder / METRICS_FILE)
    blocks = {name: of_in(metrics.get(name, {}), "eval") for name in names}
    noted = _read(folder / DRAWS_FILE)
    found = {name: own for name in names if (own := _usable(noted.get(name), blocks[name], n))}
    lacking = [name for name in names if name not in found]
    if lacking:
        scores = read_table(scores_file(folder, "eval")).to_scores()
        if few_speakers(scores):
            return {}
        fused = {name: scores.extra[f"{PREFIX}{name}"] for name in lacking}
        new = draw(fused, scores, blocks[lacking[0]], n, OVER_SEEDS)
        found |= new
        if keep:
            noted |= {name: _content(own, blocks[name]) for name, own in new.items()}
            content = {"format": FORMAT, "drawn": list(OVER_SEEDS), "seed": 0, "systems": noted}
            write_json(folder / DRAWS_FILE, content)
    return {name: found[name] for name in names}


def _of(block: Of) -> dict[str, Any]:
    """What replicates are of."""
    return {name: block[name] for name in ("scores", "costs", "eer_convention")}


def _content(own: Mapping[str, Resampled], of: Of) -> dict[str, Any]:
    metrics = {
        metric: {
            "value": one.value,
            "replicates": one.replicates.tolist(),
            "left_out": None if one.left_out is None else one.left_out.tolist(),
            "speakers": one.speakers,
        }
        for metric, one in own.items()
    }
    return {"of": _of(of), "metrics": metrics}


def _read(path: Path) -> dict[str, Any]:
    """Systems of a file of draws; nothing where it is absent or something else."""
    with suppress(InputError):
        content = read_json(path) if path.is_file() else None
        if isinstance(content, dict) and content.get("format") == FORMAT:
            systems = content.get("systems")
            return systems if isinstance(systems, dict) else {}
    return {}


def _usable(noted: Any, of: Of, n: int) -> dict[str, Resampled]:
    """The first ``n`` replicates that were noted, if they are of these scores and enough."""
    with suppress(KeyError, TypeError, ValueError, AttributeError):
        if noted is None or noted["of"] != _of(of):
            return {}
        found = {
            str(metric): Resampled(
                float(one["value"]),
                np.array(one["replicates"][:n], float),
                np.array(one["left_out"], float),
                int(one["speakers"]),
            )
            for metric, one in noted["metrics"].items()
        }
        if all(one.replicates.shape == (n,) for one in found.values()):
            return found
    return {}
