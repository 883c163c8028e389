"""Audio in tar files, and extraction split over machines."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest
import torch

from lightning_sasv import cli
from lightning_sasv.data import EmbeddingStore, load_corpus
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import Member, members_of, read_audio
from lightning_sasv.frontends.lists import AudioFolder, corpus_splits
from lightning_sasv.frontends.manifest import Manifest, Shard, are_shards
from tests.frontends.toys import write_corpus, write_tone
from tests.helpers import failure_of

NETWORKS = ("--cm", "{class_path: tests.frontends.toys.Moments}")
NETWORKS += ("--asv", "{class_path: tests.frontends.toys.Wide}", "--workers", "1")


def extract(audio: Path, out: Path, *words: str) -> None:
    cli.main(["extract", "--audio", str(audio), "--out", str(out), *NETWORKS, *words, "--quiet"])


@pytest.fixture
def packed(tmp_path: Path) -> Path:
    """The tones of a corpus in tar files, as a release has them, beside its lists."""
    whole, tars = write_corpus(tmp_path / "LA"), tmp_path / "tars"
    tars.mkdir()
    for split in ("train", "dev", "eval"):
        files = sorted((whole / f"ASVspoof2019_LA_{split}" / "flac").iterdir())
        for letter, part in (("a", files[:5]), ("b", files[5:])):
            with tarfile.open(tars / f"flac_{split}_a{letter}.tar", "w") as tar:
                for file in part:
                    tar.add(file, f"flac_{split}/{file.name}")
    (whole / "protocols").rename(tars / "protocols")
    return tars


def test_recordings_are_read_in_the_tar_file(packed: Path, tmp_path: Path) -> None:
    folder = AudioFolder(packed)
    assert len(folder.files) == 36
    there = sorted((tmp_path / "LA").rglob("*.flac"))
    for file in there[::9]:
        found = folder.find(file.stem)
        assert isinstance(found, Member)
        assert (read_audio(found) == read_audio(file)).all()
    assert folder.find(f"flac_train/{there[-1].stem}") == folder.find(there[-1].stem)
    unpacked = packed / there[0].name
    unpacked.write_bytes(there[0].read_bytes())
    assert AudioFolder(packed).find(there[0].stem) == unpacked
    before = {path.name for path in packed.iterdir()}
    extract(packed, tmp_path / "tarred")
    assert {path.name for path in packed.iterdir()} == before  # nothing was unpacked
    extract(tmp_path / "LA", tmp_path / "files", "--protocol", str(packed / "protocols"))
    for stem in ("cm_embd_trn", "asv_embd_dev", "spk_model_eval"):
        one, other = (
            EmbeddingStore.load(tmp_path / way / f"{stem}.safetensors")
            for way in ("tarred", "files")
        )
        assert one.ids == other.ids
        assert torch.equal(one.vectors, other.vectors)


@pytest.mark.parametrize("part", ["data", "header", "end"])
def test_a_tar_file_that_is_cut_short_is_named_and_the_rest_goes_on(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], part: str
) -> None:
    tar = packed / "flac_train_ab.tar"
    members, wrong = members_of(tar)
    assert (len(members), wrong) == (7, "")
    last = members[4]
    at = {"data": last.start + 900, "header": last.start - 200, "end": last.start - 512}[part]
    tar.write_bytes(tar.read_bytes()[:at])
    kept, wrong = members_of(tar)
    assert kept == members[:4]
    assert f"{tar} is cut short at byte {at:,}" in wrong
    out = tmp_path / "out"
    cli.main(["extract", "--audio", str(packed), "--out", str(out), *NETWORKS, "--only", "cm"])
    said = " ".join(capsys.readouterr().out.split())
    name, protocol = Path(last.name).stem, next(packed.rglob("*.cm.train.trn.txt"))
    line = [row.split()[1] for row in protocol.read_text().splitlines()].index(name) + 1
    assert f"lacks {name}: {protocol}, line {line}: no recording of that name" in said
    assert "flac_train_ab.tar is cut short" in said
    store = EmbeddingStore.load(out / "cm_embd_trn.safetensors")
    assert len(store) == 9
    noted = json.loads((out / "manifest.json").read_text())["stores"]["cm_embd_trn"]
    assert len(noted["failures"]) == 3


def test_what_is_no_tar_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.tar").write_bytes(b"nothing of the kind" * 100)
    write_tone(tmp_path / "u.wav", 200)
    folder = AudioFolder(tmp_path)
    assert folder.find("u") == tmp_path / "u.wav"
    with pytest.raises(InputError, match=r"no recording .*a\.tar cannot be read as a tar file"):
        folder.find("v")
    for name in ("b.tar.gz", "c.zip"):
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(InputError, match=r"b\.tar\.gz is compressed .*unpack it; .*c\.zip is"):
        AudioFolder(tmp_path).find("v")


def test_the_set_whose_folder_has_the_recording(packed: Path) -> None:
    write_tone(packed / "other/flac/u.wav", 200)
    for name in ("ASVspoof2019_LA_dev", "ASVspoof2019_LA_eval"):
        write_tone(packed / name / "flac/u.wav", 300)
    folder, (train, dev, _) = AudioFolder(packed), corpus_splits(packed)
    with pytest.raises(InputError, match="more than one recording of that name"):
        folder.find("u", train.audio)
    assert folder.find("u", dev.audio) == packed / "ASVspoof2019_LA_dev/flac/u.wav"


def test_shards_together_are_the_whole(packed: Path, tmp_path: Path) -> None:
    shards = [tmp_path / f"shard{number}" for number in (1, 2, 3)]
    for number, out in enumerate(shards, 1):
        extract(packed, out, "--shard", f"{number}/3")
    assert not list(tmp_path.glob("shard*/spk_model*"))
    cli.main(["import", *map(str, reversed(shards)), "--out", str(tmp_path / "joined"), "--quiet"])
    extract(packed, tmp_path / "whole")
    stems = {path.stem for path in (tmp_path / "whole").glob("*_embd_*.safetensors")}
    assert stems == {path.stem for path in (tmp_path / "joined").glob("*.safetensors")}
    for stem in stems:
        one, other = (
            EmbeddingStore.load(tmp_path / way / f"{stem}.safetensors")
            for way in ("joined", "whole")
        )
        assert one.ids == other.ids
        assert torch.equal(one.vectors, other.vectors)
    joined, whole = (load_corpus(tmp_path / way, packed, "x") for way in ("joined", "whole"))
    torch.testing.assert_close(joined.eval.asv_scores, whole.eval.asv_scores)
    manifest = json.loads((tmp_path / "joined/manifest.json").read_text())
    assert (manifest["joined"], manifest["stores"]["cm_embd_trn"]["utterances"]) == (3, 12)


def test_shards_that_do_not_go_together(
    packed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    extract(packed, one, "--shard", "1/2", "--only", "cm")
    out = ("--out", tmp_path / "joined")
    assert "shards 2/2 are missing" in failure_of(capsys, "import", one, *out)
    assert "shard 1/2 stands twice" in failure_of(capsys, "import", one, one, *out)
    louder = NETWORKS[1][:-1] + ", init_args: {gain: 2.0}}"
    extract(packed, two, "--shard", "2/2", "--only", "cm", "--cm", louder)
    assert "made by another front end" in failure_of(capsys, "import", one, two, *out)
    (two / "cm_embd_dev.parts").mkdir()
    assert "is not finished" in failure_of(capsys, "import", one, two, *out)
    again = ("extract", "--audio", packed, "--out", one, *NETWORKS)
    assert "holds embeddings of shard 1/2" in failure_of(capsys, *again, "--shard", "2/2")
    assert "holds embeddings of shard 1/2" in failure_of(capsys, *again)
    assert "expected e.g. 3/16" in failure_of(capsys, *again, "--shard", "3/2")
    assert "holds no shard" in failure_of(capsys, "import", one, tmp_path, *out)


def test_parts_of_a_list() -> None:
    for count in (1, 3, 7, 20):
        parts = [Shard(number + 1, count).of(range(13)) for number in range(count)]
        assert [item for part in parts for item in part] == list(range(13))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_a_manifest_of_somebody_else_makes_no_shard(tmp_path: Path) -> None:
    for name in ("theirs", "ours", "none"):
        (tmp_path / name).mkdir()
    (tmp_path / "theirs" / "manifest.json").write_text('{"name": "a corpus"}')
    Manifest(tmp_path / "ours").add(shard="1/2")
    assert not are_shards([tmp_path / "theirs", tmp_path / "none", tmp_path / "absent"])
    assert are_shards([tmp_path / "theirs", tmp_path / "ours"])
