"""Descriptions of corpora, shards, archives, speaker models and requests of somebody else."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.hostile.conftest import Attack

TRIALS = "asvspoof5-trials"


def corpus(here: Path, **more: Any) -> str:
    """A description of a corpus of two lists, with something else in it."""
    sets = {name: {"lists": {f"{name}.txt": TRIALS}} for name in ("dev", "eval")}
    (here / "x.yaml").write_text(json.dumps(sets | more))
    return "x.yaml"


OUT_OF_THE_FOLDER = ("../../x.txt", "/outside.txt", "a/../../x.txt", "..", "", "a\0b", "**/**/x")


@pytest.mark.parametrize("name", OUT_OF_THE_FOLDER)
def test_lists_of_a_corpus_stay_in_its_folder(name: str, here: Path, attack: Attack) -> None:
    """``simulate --corpus`` would write them wherever the description says."""
    listed = {"dev.txt": TRIALS}
    places: list[dict[str, Any]] = [
        {"lists": {name: TRIALS}},
        {"lists": listed, "details": {name: TRIALS}},
    ]
    if name and "\0" not in name:
        places += [{"lists": listed, "enrolment": name}, {"lists": listed, "audio": name}]
    for place in places:
        file = corpus(here, dev=place)
        words = ("--scale=0.005", "--out=out", f"--corpus={file}")
        assert "x.yaml: corpus x, dev: " in attack("simulate", *words)


DESCRIPTIONS: dict[str, dict[str, Any]] = {
    "no lists": {"dev": {"lists": {}}},
    "a list of lists": {"dev": {"lists": ["dev.txt"]}},
    "details of another kind": {"dev": {"lists": {"dev.txt": TRIALS}, "details": ["x"]}},
    "an ending that nothing has": {"ending": "moon"},
    "an open group": {"values": {"utterance": "(a"}},
    "a range the wrong way round": {"values": {"utterance": "[z-a]"}},
    "years of trying": {"values": {"utterance": r"(\w+)+!"}},
    "years of trying without groups": {"values": {"utterance": r"\w?" * 40 + "!"}},
    "a number": {"values": {"utterance": 5}},
}


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_of_corpora(name: str, here: Path, attack: Attack) -> None:
    file = corpus(here, **DESCRIPTIONS[name])
    assert "corpus x" in attack("simulate", "--scale=0.005", "--out=out", f"--corpus={file}")
