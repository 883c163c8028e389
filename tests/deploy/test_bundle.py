"""Bundles on disk: exact, atomic, checked, and free of torch."""

from __future__ import annotations

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from lightning_sasv.decisions import PRESETS, empirical_cost
from lightning_sasv.deploy import Scorer, bundle, choose_rule, load, write_bundle
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import SYSTEMS, FusionSystem, build_system
from lightning_sasv.trials import Scores

COSTS = PRESETS["a-dcf1"]
RAW = {"B1", "B1v2", "Post"}
PARTS = ["bundle.json", "checksums.json", "dev.safetensors", "fusion.safetensors"]
PARTS += ["measured.safetensors"]


@pytest.fixture
def made(systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path) -> Path:
    about = {"corpus": "toy", "seed": 7}
    return write_bundle(tmp_path / "made", systems["L3t"], dev, COSTS, name="L3t", about=about)


def rewrite(folder: Path, old: str, new: str) -> None:
    """Change the description of a bundle, and its checksum with it."""
    text = (folder / "bundle.json").read_text()
    assert old in text
    (folder / "bundle.json").write_text(text.replace(old, new, 1))
    sums = json.loads((folder / "checksums.json").read_text())
    sums["bundle.json"] = hashlib.sha256((folder / "bundle.json").read_bytes()).hexdigest()
    (folder / "checksums.json").write_text(json.dumps(sums))


@pytest.mark.parametrize("name", SYSTEMS)
def test_a_loaded_bundle_answers_like_the_system_it_was_made_from(
    name: str, systems: dict[str, FusionSystem], dev: Scores, far: Scores, tmp_path: Path
) -> None:
    rule = choose_rule(systems[name], dev, COSTS)
    here = Scorer(systems[name], rule, COSTS, {})(far.asv, far.cm)
    made = write_bundle(tmp_path / name, systems[name], dev, COSTS, name=name, level=0)
    there = load(made)
    again = there(far.asv, far.cm)
    assert there.rule == rule
    assert there.costs == COSTS
    assert (rule.kind == "bayes") == (there.metadata["bounds"] is not None) == (name not in RAW)
    assert there.metadata["decision"]["kind"] == rule.kind
    for field in ("accepted", "score", "asv_llr", "cm_llr", "margin", "reason"):
        mine, theirs = getattr(here, field), getattr(again, field)
        assert (mine is None and theirs is None) or np.array_equal(mine, theirs)


def test_bounds_can_be_switched_off_when_loading(made: Path, far: Scores) -> None:
    free, held = load(made, bounds=False)(far.asv, far.cm), load(made)(far.asv, far.cm)
    assert not np.array_equal(free.asv_llr, held.asv_llr)
    assert np.array_equal(load(made)(far.asv, far.cm, bounds=False).score, free.score)


def test_metadata_say_what_the_bundle_is(made: Path, dev: Scores) -> None:
    content = json.loads((made / "bundle.json").read_text())
    assert sorted(path.name for path in made.iterdir()) == PARTS
    assert content["system"] == "L3t"
    assert content["about"] == {"corpus": "toy", "seed": 7}
    assert content["decision"]["kind"] == "bayes"
    assert content["decision"]["threshold"] == pytest.approx(math.log((0.5 + 1.0) / 0.9))
    assert content["costs"]["c_fa_spoof"] == 20
    assert content["dev"]["trials"] == {"spoof": 400, "target": 150, "nontarget": 250}
    verdict = load(made)(dev.asv, dev.cm)
    actual = empirical_cost(verdict.accepted, dev.label, COSTS, verdict.unsure)
    assert content["dev"]["a_dcf"] == actual.normalised
    assert content["dev"]["p_fa_spoof"] == actual.p_fa_spoof
    assert {"lightning-sasv", "torch", "numpy", "python"} <= content["versions"].keys()
    assert content["created"].endswith("+00:00")
    sums = json.loads((made / "checksums.json").read_text())
    for name in ("bundle.json", "fusion.safetensors"):
        assert sums[name] == hashlib.sha256((made / name).read_bytes()).hexdigest()


@pytest.mark.parametrize("name", PARTS)
def test_a_changed_byte_anywhere_and_a_short_or_missing_file_are_noticed(
    name: str, made: Path
) -> None:
    whole = (made / name).read_bytes()
    for place in {0, len(whole) // 3, len(whole) // 2, len(whole) - 2}:
        changed = bytearray(whole)
        changed[place] ^= 1
        (made / name).write_bytes(bytes(changed))
        with pytest.raises(InputError, match=r"SHA-256|damaged"):
            load(made)
    (made / name).write_bytes(whole)
    load(made)
    (made / name).write_bytes(whole[:-5])
    with pytest.raises(InputError, match=r"SHA-256|damaged"):
        load(made)
    (made / name).unlink()
    with pytest.raises(InputError, match=f"incomplete: {name} is missing"):
        load(made)


def test_a_raised_threshold_is_noticed_even_with_new_checksums(made: Path) -> None:
    mark = bundle.fingerprint(made)
    load(made, fingerprint=mark.upper())
    sums = (made / "checksums.json").read_text()
    rewrite(made, '"c_fa_spoof": 20.0', '"c_fa_spoof": 0.01')
    new = (made / "checksums.json").read_text()
    (made / "checksums.json").write_text(sums)
    with pytest.raises(InputError, match=r"bundle\.json does not match its SHA-256"):
        load(made)
    (made / "checksums.json").write_text(new)
    assert load(made).costs.c_fa_spoof == 0.01
    with pytest.raises(InputError, match="bundle fingerprint"):
        load(made, fingerprint=mark)


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("lightning_sasv.bundle/2", "lightning_sasv.bundle/9", "bundle/9"),
        ('"kind": "bayes"', '"kind": "coin"', "coin"),
        ('"costs"', '"prices"', "no description of a bundle"),
        ('"c_miss": 1.0', '"c_miss": -1.0', "c_miss"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(
    old: str, new: str, match: str, made: Path
) -> None:
    rewrite(made, old, new)
    with pytest.raises(InputError, match=match):
        load(made)


@pytest.mark.parametrize("broken", ["save_system", "write_json", "sha256"])
def test_a_failure_while_writing_leaves_nothing(
    broken: str,
    monkeypatch: pytest.MonkeyPatch,
    systems: dict[str, FusionSystem],
    dev: Scores,
    tmp_path: Path,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(bundle, broken, fail)
    with pytest.raises(InputError, match="No space left"):
        write_bundle(tmp_path / "b", systems["L3"], dev, COSTS, name="L3")
    assert not list(tmp_path.iterdir())


def test_a_folder_with_something_in_it_is_never_replaced(
    made: Path, systems: dict[str, FusionSystem], dev: Scores, tmp_path: Path
) -> None:
    before = {path.name: path.read_bytes() for path in made.iterdir()}
    with pytest.raises(InputError, match="is there already"):
        write_bundle(made, systems["L3"], dev, COSTS, name="L3")
    assert {path.name: path.read_bytes() for path in made.iterdir()} == before
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="is there already"):
        write_bundle(tmp_path / "file", systems["L3"], dev, COSTS, name="L3")
    (tmp_path / "empty").mkdir()
    load(write_bundle(tmp_path / "empty", systems["L3"], dev, COSTS, name="L3"))


def test_only_a_fitted_system_makes_a_bundle(dev: Scores, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it is not fitted"):
        write_bundle(tmp_path / "b", build_system("L3"), dev, COSTS, name="L3")
    with pytest.raises(InputError, match="no bundle at"):
        load(tmp_path / "b")


def test_a_bundle_is_used_without_torch_or_lightning(made: Path) -> None:
    code = (
        "import sys\n"
        "from lightning_sasv.deploy import load\n"
        f"verdict = load({str(made)!r})(0.7, 6.0)\n"
        "print(verdict.decision, verdict.reason, file=sys.stderr)\n"
        "print(chr(10).join({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr.startswith("accept accepted: target")
    loaded = set(done.stdout.split())
    heavy = {"pytorch_lightning", "lightning_fabric", "lightning", "torchmetrics", "wandb"}
    assert not loaded & (heavy | {"jsonargparse", "rich", "polars", "matplotlib", "pooch", "torch"})
    assert "safetensors" in loaded


def test_a_bundle_of_version_0_1_is_read_and_written_the_same(tmp_path: Path) -> None:
    """Made by the last version that wrote fitted systems of format 1; see its README."""
    folder = Path(__file__).parents[1] / "fitted_format1"
    known, scorer = json.loads((folder / "scores.json").read_text()), load(folder / "bundle")
    verdict = scorer(known["trials"]["asv"], known["trials"]["cm"])
    for name, expected in known["bundle"].items():
        found = getattr(verdict, name)
        if found.dtype.kind == "f":
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
        else:
            assert found.tolist() == expected
    generator = np.random.default_rng(22)
    labels = generator.integers(0, 3, 300)
    means = np.array([[0.4, -2.0], [0.6, 2.0], [0.1, 1.8]])
    asv, cm = (means[labels] + generator.standard_normal((300, 2)) * [0.15, 1.2]).T
    dev, about = Scores(asv, cm, labels), {"corpus": "synthetic"}
    more = {"name": "L3t", "about": about, "level": 0}
    out = write_bundle(tmp_path / "b", scorer.system, dev, scorer.costs, **more)
    old, new = (json.loads((one / "bundle.json").read_text()) for one in (folder / "bundle", out))
    for content in (old, new):
        del content["created"], content["versions"]
    assert old["fusion"].pop("copies") == 1
    assert new.pop("inversions").keys() == {"dev"}
    assert (old.pop("format")[-2:], new.pop("format")[-2:]) == ("/1", "/2")
    assert new.pop("unsure")["why"] == "no level was asked for (--level 0)"
    assert set(new["dev"].pop("unsure").values()) == {0.0}
    for side in ("asv_llr", "cm_llr"):
        assert new["bounds"].pop(side) == pytest.approx(old["bounds"].pop(side), rel=1e-9)
    assert new["dev"].pop("a_dcf") == pytest.approx(old["dev"].pop("a_dcf"), rel=1e-12)
    assert new == old
