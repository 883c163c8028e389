"""``lightning extract``: from a folder in ASVspoof layout to a corpus that can be trained on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import torch

from lightning_sasv import cli
from lightning_sasv.data import EmbeddingStore
from lightning_sasv.data.challenge import load_corpus
from lightning_sasv.frontends.audio import read_audio
from tests.frontends.toys import Wide, write_corpus, write_tone
from tests.helpers import failure_of

CM = "{class_path: tests.frontends.toys.Moments}"
ASV = "{class_path: tests.frontends.toys.Wide, init_args: {gain: 3.0}}"


@pytest.fixture
def audio(tmp_path: Path) -> Path:
    return write_corpus(tmp_path / "LA")


def run(*args: object) -> None:
    cli.main(["extract", *map(str, args)])


def test_a_corpus_in_asvspoof_layout(
    audio: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ("--audio", audio, "--out", out, "--cm", CM, "--asv", ASV, "--workers", 2)
    run(*words)
    said = capsys.readouterr().out
    assert "12/12" in said
    assert "utt/s left 0:00:00 after 0:00:" in said
    assert "cm_embd_trn: 12 embeddings, 12 of them new" in said
    assert f"lightning fit --data.root {out} --data.protocols {audio}" in said.replace("\n", " ")
    kinds = ("asv_embd", "cm_embd", "spk_model")
    stores = {"cm_embd_trn", *(f"{kind}_{split}" for kind in kinds for split in ("dev", "eval"))}
    assert {p.stem for p in out.glob("*.safetensors")} == stores
    corpus = load_corpus(out, audio)
    assert (len(corpus.dev.trials), len(corpus.eval.trials)) == (12, 12)
    speaker = corpus.dev.models
    enrolled = (audio / "protocols" / "ASVspoof2019.LA.asv.dev.male.trn.txt").read_text().split()
    waves = [
        torch.from_numpy(read_audio(audio / "ASVspoof2019_LA_dev" / "flac" / f"{name}.flac"))
        for name in enrolled[1].split(",")
    ]
    mean = Wide(gain=3.0).embed(waves).mean(dim=0)
    torch.testing.assert_close(speaker.select([enrolled[0]])[0], mean)
    run(*words)
    assert "cm_embd_trn: 12 embeddings, 0 of them new\n" in capsys.readouterr().out


def test_a_list_with_a_configuration_file(audio: Path, tmp_path: Path) -> None:
    for number in range(3):
        write_tone(tmp_path / "wavs" / f"w{number}.wav", 300 + number)
    (tmp_path / "list.txt").write_text("w2\nw0.wav\n")
    (tmp_path / "enrol.txt").write_text("anna w0,w1\n")
    (tmp_path / "extract.yaml").write_text(
        f"audio: {tmp_path / 'wavs'}\nprotocol: {tmp_path / 'list.txt'}\n"
        f"enrolment: {tmp_path / 'enrol.txt'}\nout: {tmp_path / 'out'}\nname: mine\nonly: asv\n"
        "asv:\n  class_path: tests.frontends.toys.Wide\n  init_args:\n    gain: 2.0\n"
    )
    run("--config", tmp_path / "extract.yaml", "--trust-config")
    store = EmbeddingStore.load(tmp_path / "out" / "asv_embd_mine.safetensors")
    assert store.ids == ["w2", "w0.wav", "w0", "w1"]
    models = EmbeddingStore.load(tmp_path / "out" / "spk_model_mine.safetensors")
    torch.testing.assert_close(models.vectors[0], store.select(["w0", "w1"]).mean(dim=0))
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["stores"]["spk_model_mine"]["mean_of"] == "asv_embd_mine"
    assert manifest["source"]["protocol"] == str(tmp_path / "list.txt")


def test_failures_are_listed_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(20):
        write_tone(tmp_path / "wavs" / f"w{number:02d}.wav", 300 + number)
        if number >= 8:
            (tmp_path / "wavs" / f"w{number:02d}.wav").write_text("broken")
    words = ("--audio", tmp_path / "wavs", "--out", tmp_path / "out", "--only", "cm", "--cm", CM)
    run(*words)
    said = capsys.readouterr().out
    assert "cm_embd: 8 embeddings" in said
    assert said.count("cm_embd lacks w") == 10
    assert "and 2 more; manifest.json lists them all" in said
    message = failure_of(capsys, "extract", *words, "--strict")
    assert "12 of 20 recordings could not be embedded (--strict), first w08" in message


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


def test_the_network_of_the_documentation(
    tmp_path: Path, repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lines work as they stand."""
    page = repository / "docs" / "frontends.md"
    code, settings = blocks(page, "python")[0], blocks(page, "yaml")[0]
    (tmp_path / "my_networks.py").write_text(code)
    (tmp_path / "extract.yaml").write_text(settings)
    monkeypatch.chdir(tmp_path)
    layer = torch.nn.Conv1d(1, 256, 400, stride=160)
    torch.save({f"network.{name}": value for name, value in layer.state_dict().items()}, "my.pt")
    write_tone(tmp_path / "recordings" / "a.wav", 300)
    monkeypatch.syspath_prepend(tmp_path)
    run("--config", "extract.yaml", "--trust-config", "--only", "cm")
    store = EmbeddingStore.load(tmp_path / "embeddings" / "cm_embd.safetensors")
    wave = torch.from_numpy(read_audio(tmp_path / "recordings" / "a.wav"))
    torch.testing.assert_close(store.select(["a"]), layer(wave[None, None]).mean(dim=2).detach())


def test_nothing_could_be_embedded(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "list.txt").write_text("absent\n")
    words = ("--audio", tmp_path, "--protocol", tmp_path / "list.txt", "--out", tmp_path / "out")
    message = failure_of(capsys, "extract", *words, "--only", "cm", "--cm", CM)
    assert "none of the recordings could be embedded" in message
    assert not list((tmp_path / "out").glob("*.safetensors"))


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ("{class_path: tests.frontends.toys.Absent}", "no attribute 'Absent'"),
        ("{class_path: tests.absent.Class}", "No module named 'tests.absent'|no attribute"),
        ("{class_path: nowhere_at_all.Class}", "no such module"),
        ("{class_path: torch.nn.Linear, init_args: {in_features: 1, out_features: 2}}", "no front"),
        ("{class_path: tests.frontends.toys.Moments, init_args: {volume: 1}}", "volume"),
        ("{class: tests.frontends.toys.Moments}", "a front end is given as"),
        ("{class_path: 3}", "a front end is given as"),
        ("{class_path: numpy.load, init_args: {file: absent}}", "cannot be made: [Errno 2]"),
        ("absent.pth", "no weights at absent.pth"),
    ],
)
def test_networks_that_cannot_be_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], network: str, says: str
) -> None:
    write_tone(tmp_path / "wavs" / "a.wav", 300)
    words = ("--audio", tmp_path / "wavs", "--out", tmp_path / "out", "--only", "cm")
    message = failure_of(capsys, "extract", *words, "--cm", network)
    assert any(part in message for part in says.split("|"))
    assert message.count("\n") == 1
