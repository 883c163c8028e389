"""Bundles of systems of several scores: they take scores by name, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.decisions import PRESETS, accept
from lightning_sasv.deploy import export, load, write_bundle
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.trials import FusedScores, Scores

NAMES = ("asv_a", "asv_b", "cm_c", "quality_q")


@pytest.fixture(scope="module")
def trials() -> Scores:
    random = np.random.default_rng(0)
    labels = np.arange(900) % 3
    asv = random.normal(size=(900, 2)) + 2 * (labels == 1)[:, None]
    cm = random.normal(size=(900, 1)) + 2 * (labels != 0)[:, None]
    return Scores(asv, cm, labels, extra={"quality_q": random.normal(size=900)})


@pytest.fixture(scope="module", params=["Q3", "L3t", "B1"])
def system(request: pytest.FixtureRequest, trials: Scores) -> FusionSystem:
    more = {"quality": trials.extra["quality_q"], "columns": NAMES}
    return build_system(request.param).fit(trials.asv, trials.cm, trials.label, **more)


def named(trials: Scores, rows: slice | int) -> dict[str, np.ndarray]:
    columns = (*trials.asv.T, *trials.cm.T, trials.extra["quality_q"])
    return {name: column[rows] for name, column in zip(NAMES, columns, strict=True)}


def test_a_bundle_scores_by_name_as_the_system_does(
    system: FusionSystem, trials: Scores, tmp_path: Path
) -> None:
    costs = PRESETS["equal"]
    scorer = load(write_bundle(tmp_path / "b", system, trials, costs, name=str(system.name)))
    assert scorer.columns == system.columns.names
    assert scorer.metadata["columns"] == list(system.columns.names)
    given = {name: named(trials, slice(50))[name] for name in scorer.columns}
    verdict = scorer(given, bounds=False)
    own = (trials.asv[:50], trials.cm[:50], trials.extra["quality_q"][:50])
    fused = FusedScores(*(part.numpy() for part in system(*own)))
    np.testing.assert_allclose(verdict.score, fused.sasv, rtol=1e-12)
    if system.gives_llrs:
        assert np.array_equal(verdict.accepted, accept(fused, costs))
        assert (scorer(given).asv_llr <= scorer.rule.bounds.asv_llr.upper).all()
    one = scorer({name: float(values[3]) for name, values in given.items()}, bounds=False)
    assert isinstance(one.accepted, bool)
    assert one.score == pytest.approx(verdict.score[3])
    assert one.reason == verdict.reason[3]


def test_missing_and_unknown_names_are_refused(
    system: FusionSystem, trials: Scores, tmp_path: Path
) -> None:
    costs = PRESETS["equal"]
    scorer = load(write_bundle(tmp_path / "b", system, trials, costs, name=str(system.name)))
    given = {name: float(named(trials, 0)[name]) for name in scorer.columns}
    for wrong, message in (
        ({"asv_a": 1.0, "cm_c": 2.0}, "got no asv_b"),
        ({**given, "cm_d": 1.0}, "unknown cm_d"),
        ({**given, "asv_b": float("nan")}, "asv_b must be finite"),
        ({**given, "asv_b": [1.0, 2.0]}, "differ in length"),
    ):
        with pytest.raises(InputError, match=message):
            scorer(wrong)
    with pytest.raises(InputError, match=r"takes asv_a, asv_b, cm_c.*give a mapping"):
        scorer(0.5, 2.0)


def test_a_pair_may_be_named_too(trials: Scores, tmp_path: Path) -> None:
    asv, cm = trials.asv[:, 0], trials.cm[:, 0]
    pair = build_system("L3").fit(asv, cm, trials.label)
    dev = Scores(asv, cm, trials.label)
    scorer = load(write_bundle(tmp_path / "b", pair, dev, PRESETS["equal"], name="L3"))
    assert "columns" not in scorer.metadata
    one = scorer({"asv_score": 1.0, "cm_score": 0.5})
    assert one.score == scorer(1.0, 0.5).score
    with pytest.raises(InputError, match="cm is missing"):
        scorer(1.0)


def test_export_reads_the_columns_and_needs_no_torch(trials: Scores, tmp_path: Path) -> None:
    names = NAMES[:3]
    system = build_system("Q3").fit(trials.asv, trials.cm, trials.label, columns=names)
    save_system(tmp_path / "out/fitted/Q3.safetensors", system, {})
    words, rows = ["spoof", "target", "nontarget"], np.column_stack([trials.asv, trials.cm])
    fused = system(trials.asv, trials.cm).sasv.tolist()
    lines = [f"speaker,utterance,label,{','.join(names)},sasv_Q3"]
    lines += [
        f"s{k % 5},u{k},{words[code]},{','.join(map(repr, row))},{fused[k]!r}"
        for k, (code, row) in enumerate(zip(trials.label, rows.tolist(), strict=True))
    ]
    (tmp_path / "out/scores").mkdir()
    file = tmp_path / "out/scores/dev.csv"
    file.write_text("\n".join(lines) + "\n")
    made = export(fitted=str(tmp_path / "out"), system="Q3", out=str(tmp_path / "bundle"))
    code = (
        "import sys; from lightning_sasv.deploy import load; "
        f"v = load({str(made)!r})(dict(asv_a=3.0, asv_b=3.0, cm_c=3.0)); "
        "assert 'torch' not in sys.modules; print(v.decision)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "accept\n"
    other = lines[:1] + [line.rsplit(",", 1)[0] + ",0.25" for line in lines[1:]]
    file.write_text("\n".join(other) + "\n")
    with pytest.raises(InputError, match="was not scored by this fit of Q3"):
        export(fitted=str(tmp_path / "out"), system="Q3", out=str(tmp_path / "again"))
