"""Names that lead elsewhere are text; files with absurd headers are refused."""

from __future__ import annotations

import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_sasv.data.embeddings import FORMAT, EmbeddingStore
from lightning_sasv.decisions import PRESETS
from lightning_sasv.deploy.bundle import load, write_bundle
from lightning_sasv.deploy.card import MARKDOWN, PAGE
from lightning_sasv.errors import InputError
from lightning_sasv.files import write_json
from lightning_sasv.fitted import HEADER, read_fitted, save_system
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.scores import read_scores, write_scores
from lightning_sasv.trials import Scores
from tests.frontends.toys import write_tone
from tests.hostile.conftest import Attack
from tests.hostile.corpus import NAMES, safetensors, stores
from tests.scores.samples import toy_scores

SCORES = toy_scores(90)
STORES = stores({"format": FORMAT})
SCRIPT = NAMES["script"]


def fitted(name: str = "L3t") -> FusionSystem:
    return build_system(name).fit(SCORES.asv, SCORES.cm, SCORES.label)


def scores_of(name: str) -> Scores:
    """Scores with the name as a speaker, an utterance and an attack."""
    speaker, utterance = np.array(SCORES.speaker, object), np.array(SCORES.utterance, object)
    speaker[:10] = utterance[0] = name
    attack = np.where(SCORES.label == 0, name, "-").astype(object)
    return replace(SCORES, speaker=speaker, utterance=utterance, attack=attack)


@pytest.mark.parametrize("name", NAMES)
def test_names_in_score_files(name: str, here: Path, attack: Attack) -> None:
    write_scores(here / "x.csv", scores_of(NAMES[name]))
    if "\0" in NAMES[name]:
        assert "x.csv, line 2: a NUL byte" in attack("evaluate", "x.csv", "--json", "out/x.json")
        return
    read = read_scores("x.csv")
    assert read.utterance is not None
    assert read.utterance[0] == NAMES[name]
    attack("evaluate", "x.csv", "--by", "attack,speaker", "--json", "out/x.json", refused=False)
    json.loads(Path("out/x.json").read_text())
    attack("fuse", "--dev=x.csv", "--eval=x.csv", "--out=out/f", "--systems=L3t", refused=False)
    attack("decide", "x.csv", "--fitted=out/f", "--out=out/d.csv", refused=False)
    attack("convert", "x.csv", "--to=parquet", "--out=out/x.parquet", refused=False)
    attack("report", "out/f", refused=False)
    page = (here / "out" / "f" / "report.html").read_text(encoding="utf-8")
    assert SCRIPT not in page


@pytest.mark.parametrize("name", ["script", "controls", "right to left", "link"])
def test_names_on_cards(name: str, here: Path, attack: Attack) -> None:
    write_scores(here / "x.csv", scores_of(NAMES[name]))
    attack("fuse", "--dev=x.csv", "--eval=x.csv", "--out=out/f", "--systems=L3t", refused=False)
    attack("export", "--fitted=out/f", "--system=L3t", "--out=out/b", refused=False)
    for file in (MARKDOWN, PAGE):
        text = (here / "out" / "b" / file).read_text()
        assert "alert" in text or "a\\" in text  # it is shown
        assert not {"\x1b", "\u202e"} & {*text}
        assert SCRIPT not in text
        assert "](javascript" not in text or file == PAGE  # where it is no link
        assert ("<code>lightning drift</code> says" in text) == (file == PAGE)


@pytest.mark.parametrize("part", ["system", "corpus", "attack", "folder", "table"])
def test_report_shows_names_as_text(part: str, here: Path, attack: Attack) -> None:
    folder = here / "out"
    shown = SCRIPT
    system = SCRIPT if part == "system" else "X"
    scores = toy_scores(90)
    text = "speaker,utterance,attack,label,asv_score,cm_score,sasv_" + system + "\n"
    keys = ("spoof", "target", "nontarget")
    for row, code in enumerate(scores.label):
        attacker = (SCRIPT if part == "attack" else "A07") if code == 0 else "-"
        a, c = float(scores.asv[row]), float(scores.cm[row])
        text += f"S{row},U{row},{attacker},{keys[code]},{a},{c},{a + c}\n"
    (folder / "scores").mkdir(parents=True)
    (folder / "scores" / "eval.csv").write_text(text)
    if part == "corpus":
        write_json(folder / "metrics.json", {"X": {"corpus": SCRIPT, "eval": {}}})
    if part == "table":
        (folder / "table.md").write_text(f"| {SCRIPT} | x |\n|---|---|\n| 1 | 2 |\n")
    if part == "folder":
        shown = "<img src=x onerror=alert(1)>"
        folder = folder.rename(folder.with_name(shown))
        (here / "out").mkdir()
    attack("report", str(folder), "--out", "out/report.html", refused=False)
    page = (here / "out" / "report.html").read_text(encoding="utf-8")
    assert shown not in page
    escaped = shown.replace("<", "&lt;").replace(">", "&gt;")
    assert escaped in page or shown.replace("<", "\\u003c").replace(">", "\\u003e") in page


@pytest.mark.parametrize("name", ["traversal", "absolute", "NUL", "long", "script"])
def test_names_in_protocols(name: str, here: Path, attack: Attack) -> None:
    """The embeddings lack such names: they are refused, never looked for on disk."""
    data = here / "data"
    data.mkdir()
    EmbeddingStore(["U1"], torch.ones(1, 160)).save(data / "cm_embd_trn.safetensors")
    (data / "ASVspoof2019.LA.cm.train.trn.txt").write_text("S1 U1 - - bonafide\n")
    for split in ("dev", "eval"):
        rows = f"{NAMES[name]} U1 bonafide target\nS1 {NAMES[name]} bonafide nontarget\n"
        path = data / f"ASVspoof2019.LA.asv.{split}.gi.trl.txt"
        path.write_text(rows + f"S1 U1 {NAMES[name]} spoof\n")
        for stem, dim in (("asv_embd", 192), ("cm_embd", 160), ("spk_model", 192)):
            EmbeddingStore(["U1", "S1"], torch.rand(2, dim)).save(
                data / f"{stem}_{split}.safetensors"
            )
    attack("fit", "--data.root", "data", "--trainer.accelerator=cpu")


@pytest.mark.parametrize("name", ["traversal", "absolute", "NUL", "script"])
@pytest.mark.parametrize("column", ["id", "place"])
def test_names_in_lists_of_audio(name: str, column: str, here: Path, attack: Attack) -> None:
    """A list cannot reach a recording outside of the folder, nor name a file that is written."""
    write_tone(here.parent.parent / "outside.wav", 440)
    write_tone(here / "audio" / "inside.wav", 440)
    listed = f"{NAMES[name]} inside\n" if column == "id" else f"x {NAMES[name]}\ny inside\n"
    (here / "list.txt").write_text(listed)
    args = ["--audio=audio", "--protocol=list.txt", "--out=out", "--only=cm"]
    args += ["--cm={class_path: tests.frontends.toys.Moments}"]
    if "\0" in NAMES[name]:
        assert "list.txt, line 1: a NUL byte" in attack("extract", *args)
        return
    attack("extract", *args, refused=False)
    ids = EmbeddingStore.load("out/cm_embd.safetensors").ids
    assert ids == ([NAMES[name]] if column == "id" else ["y"])


@pytest.mark.parametrize("name", ["../../outside", "/outside", "\0", "", ".", "x" * 5000])
def test_names_of_systems(name: str, here: Path, attack: Attack) -> None:
    write_scores(here / "out" / "scores" / "dev.csv", SCORES)
    save_system(here / "out" / "fitted" / "L3t.safetensors", fitted(), {})
    attack("export", "--fitted=out", f"--system={name}", "--out=bundle")
    attack("decide", "out/scores/dev.csv", "--fitted=out", f"--system={name}", "--out=x.csv")


def test_line_breaks_in_quoted_cells(here: Path, attack: Attack) -> None:
    rows = 'S1,"U1\nS2,U9,-,target,9,9",-,target,0.5,1\n'
    text = "speaker,utterance,attack,label,asv_score,cm_score\n" + rows
    (here / "x.csv").write_text(text)
    assert "x.csv, line" in attack("evaluate", "x.csv")
    assert "x.csv, line" in attack("convert", "x.csv", "--to=sasv2022", "--out=out/x")


@pytest.mark.parametrize("name", STORES)
def test_stores_with_absurd_headers(name: str, here: Path, attack: Attack) -> None:
    (here / "x.safetensors").write_bytes(STORES[name])
    with pytest.raises(InputError, match=r"x\.safetensors"):
        EmbeddingStore.load("x.safetensors")
    with pytest.raises(InputError, match=r"x\.safetensors"):
        read_fitted("x.safetensors")
    (here / "data").mkdir()
    (here / "data" / "cm_embd_trn.safetensors").write_bytes(STORES[name])
    (here / "data" / "ASVspoof2019.LA.cm.train.trn.txt").write_text("S1 U1 - - bonafide\n")
    assert "cm_embd_trn.safetensors" in attack("import", "data", "--out", "out")


HEADERS: dict[str, dict[str, Any]] = {
    "no format": {"format": None},
    "no configuration": {"config": None},
    "text": {"config": "os.system"},
    "unknown setting": {"config": {"class_path": "os.system"}},
    "other rule": {"config": {"rule": "__import__"}},
    "other density": {"config": {"density": "os.system"}},
    "copies": {"config": {"copies": 10**9}},
    "endless components": {"config": {"density": "mixture", "components": 10**9}},
    "many components": {"config": {"density": "gmm", "components": 10**12}},
    "costs": {"config": {"costs": "../../x"}},
}


@pytest.mark.parametrize("name", HEADERS)
def test_fitted_systems_with_altered_headers(name: str, here: Path, attack: Attack) -> None:
    write_scores(here / "x.csv", SCORES)
    path = save_system(here / "bad" / "fitted" / "L3t.safetensors", fitted(), {})
    content = path.read_bytes()
    size = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + size])
    ours = json.loads(header["__metadata__"][HEADER])
    for key, value in HEADERS[name].items():
        ours[key] = ours[key] | value if isinstance(value, dict) else value
    header["__metadata__"][HEADER] = json.dumps(ours)
    path.write_bytes(safetensors(header, content[8 + size :]))
    assert "L3t.safetensors" in attack("decide", "x.csv", "--fitted=bad", "--out=out/d.csv")


@pytest.mark.parametrize("part", ["fusion.safetensors", "bundle.json", "checksums.json"])
def test_altered_bundles(part: str, here: Path) -> None:
    bundle = write_bundle(here / "bundle", fitted(), SCORES, PRESETS["equal"], name="L3t")
    content = bytearray((bundle / part).read_bytes())
    content[len(content) // 2] ^= 1
    (bundle / part).write_bytes(content)
    with pytest.raises(InputError, match="bundle"):
        load(bundle)
