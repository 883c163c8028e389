"""Finding recordings, reading lists and protocols."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from lightning_sasv.data import Corpus
from lightning_sasv.data.challenge import save_corpus
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.lists import AudioFolder, Utterance, corpus_splits, plan, read_list

FILES = ["one.flac", "sub/two.wav", "sub/deep/three.FLAC", "sub/same.wav", "other/same.wav"]


@pytest.fixture
def folder(tmp_path: Path) -> AudioFolder:
    for name in FILES:
        path = tmp_path / "audio" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (tmp_path / "audio" / "notes.txt").touch()
    (tmp_path / "outside.wav").touch()
    return AudioFolder(tmp_path / "audio")


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("one", "one.flac"),
        ("one.flac", "one.flac"),
        ("one.wav", "one.flac"),
        ("two", "sub/two.wav"),
        ("sub/two", "sub/two.wav"),
        ("sub/two.wav", "sub/two.wav"),
        ("three", "sub/deep/three.FLAC"),
        ("deep/three", "sub/deep/three.FLAC"),
        ("sub/deep/three", "sub/deep/three.FLAC"),
        ("sub/same", "sub/same.wav"),
        ("other/same", "other/same.wav"),
        ("sub/../one", "one.flac"),
    ],
)
def test_recordings_are_found_by_name_or_path(folder: AudioFolder, place: str, found: str) -> None:
    assert folder.find(place) == folder.root / found


@pytest.mark.parametrize(
    ("places", "says"),
    [
        (["four", "deep/two", "sub/one", "sub", ".", "audio/one", ""], "no recording of that name"),
        (["same"], r"more than one .*: other/same.wav, sub/same.wav"),
        (["x" * 300, "x/" * 3_000 + "a.wav"], "cannot be looked for: File name too long"),
        (["../outside.wav", "../outside", "sub/../../outside", "/etc/hosts"], "leads out of the a"),
    ],
    ids=["none", "two", "long", "outside"],
)
def test_what_is_not_found(folder: AudioFolder, places: list[str], says: str) -> None:
    for place in places:
        with pytest.raises(InputError, match=says):
            folder.find(place)


@pytest.mark.parametrize(("root", "up"), [(".", ".."), ("..", "../.."), ("../sub", "../..")])
def test_a_folder_that_is_named_from_where_we_are(
    folder: AudioFolder, root: str, up: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of lists lead out of it no more than of any other."""
    monkeypatch.chdir(folder.root / "sub")
    here = AudioFolder(root)
    for place in (f"{up}/outside.wav", f"{up}/audio/../outside", "../../../outside", "/etc/hosts"):
        with pytest.raises(InputError, match="leads out of the a"):
            here.find(place)
    assert here.find("two").resolve() == folder.root / "sub" / "two.wav"  # type: ignore[union-attr]


def test_absolute_paths_below_the_folder_are_fine(
    folder: AudioFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = folder.root / "sub" / "two.wav"
    assert folder.find(str(path)) == path
    monkeypatch.chdir(folder.root)
    assert AudioFolder(".").find(str(path)) == path
    assert AudioFolder(".").find(str(path.with_suffix(""))) == Path("sub/two.wav")


def test_linked_folders_are_followed_once(folder: AudioFolder) -> None:
    (folder.root / "sub" / "loop").symlink_to(folder.root)
    assert folder.files == sorted(FILES)


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a\nb.wav\n\na\n", [("a", "a"), ("b.wav", "b.wav")]),
        ("\ufeffa\r\nb\r\n", [("a", "a"), ("b", "b")]),
        ("a x/1.wav\nb x/2.wav\n", [("a", "x/1.wav"), ("b", "x/2.wav")]),
        (
            "s1 a bonafide target\ns2 a bonafide nontarget\ns1 b A01 spoof\n",
            [("a", "a"), ("b", "b")],
        ),
        ("s1 a - - bonafide\ns1 b - A01 spoof\n", [("a", "a"), ("b", "b")]),
    ],
)
def test_lists(tmp_path: Path, text: str, found: list[tuple[str, str]]) -> None:
    _, read = read_list(write(tmp_path / "list.txt", text))
    assert read == tuple(Utterance(*pair) for pair in found)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a\nb c d\n", "line 2: 3 columns where 1 are expected"),
        ("a b c\n", r"line 1: 3 columns; expected 1 \(utterance or path"),
        ("\n\n", "line 1: the file has no trials"),
        ("a 1.wav\na 2.wav\n", "utterance a stands for two files, 1.wav and 2.wav"),
    ],
)
def test_lists_that_make_no_sense(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(InputError, match=says):
        read_list(write(tmp_path / "list.txt", text))
    with pytest.raises(InputError, match=r"cannot read .*absent\.txt"):
        read_list(tmp_path / "absent.txt")


def test_protocols_of_a_real_corpus(shared: Path) -> None:
    audio = AudioFolder(shared / "data" / "mini_la" / "LA")
    train, dev, evaluation = plan(audio)
    assert [len(split.utterances) for split in (train, dev, evaluation)] == [220, 146, 240]
    assert [len(split.with_enrolment) for split in (dev, evaluation)] == [162, 264]
    assert [len(split.enrolment) for split in (train, dev, evaluation)] == [0, 4, 6]
    assert dev.stem("asv_embd") == "asv_embd_dev"
    for split in (train, dev, evaluation):
        assert all(audio.find(u.place).stem == u.id for u in split.with_enrolment)
    assert plan(audio, str(audio.root)) == [train, dev, evaluation]


@pytest.mark.parametrize("name", ["asvspoof5", "spoofceleb", "wildspoof"])
def test_lists_of_every_corpus(
    name: str, twin: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_corpus(twin, tmp_path, layout=name)
    audio = AudioFolder(tmp_path)
    splits = {split.name: split for split in plan(audio, corpus=name)}
    assert plan(audio) == [*splits.values()]  # recognised
    assert f"lists of {name}; --corpus says otherwise" in capsys.readouterr().out
    assert len(splits["eval"].utterances) == len(twin.eval.probes)
    assert len(splits["eval"].enrolment) == len(twin.eval.models)
    assert splits["eval"].has_models == (name != "spoofceleb")  # whose trials name an utterance
    assert ("trn" in splits) == (name != "wildspoof")
    assert not any(one.id.endswith(".flac") for one in splits["eval"].with_enrolment)
    for split in splits.values():  # every name has its line, also that of an enrolment list
        for one in {split.with_enrolment[0], split.with_enrolment[-1]}:
            assert split.lines is not None
            path, line = re.fullmatch(
                r"(.*), line (\d+): gone", split.lines.of(one.id, "gone")
            ).groups()  # type: ignore[union-attr]
            assert one.id in Path(path).read_text().splitlines()[int(line) - 1]
        assert split.lines.of("nobody", "gone") == "gone"  # type: ignore[union-attr]
    with pytest.raises(InputError, match=r"no protocols of sasv2022 below .*--corpus is one of"):
        plan(audio, corpus="sasv2022")


def test_lists_that_were_misread(tmp_path: Path, shared: Path) -> None:
    """Lists of corpora.md that became other utterances, or one column."""
    lines = shared / "data/corpora"
    for name, first in (
        ("asvspoof5/ASVspoof5.train.tsv", "T_0000000000"),
        ("asvspoof5/ASVspoof5.dev.trial.txt", "D_"),
        ("asvspoof5/form.key_t2.tsv", "E_"),
        ("spoofceleb/metadata.development.csv", "a0"),
        ("spoofceleb/form.sasv_development_evaluation_protocol.csv", "a0"),
        ("wildspoof/form.protocol_test.tsv", "UTT_"),
        ("wildspoof/submission.tsv", "UTT_"),
        ("asvspoof2021/DF.CM.trial_metadata.txt", "DF_E_"),
    ):
        _, found = read_list(lines / name)
        assert all(one.id.startswith(first[:2]) for one in found), name
        assert found[0].id.startswith(first), name
    with pytest.raises(InputError, match="looks like an enrolment list; give --enrolment"):
        read_list(lines / "asvspoof5/ASVspoof5.track_2.progress.enroll.txt")


def test_a_single_list(folder: AudioFolder, tmp_path: Path) -> None:
    enrolment = write(tmp_path / "enrol.txt", "s1 one,three\n")
    (split,) = plan(folder, write(tmp_path / "my.dev.trl.txt", "s1 two - target\n"), [enrolment])
    assert (split.name, split.enrolment) == ("dev", {"s1": ["one", "three"]})
    assert [u.id for u in split.with_enrolment] == ["two", "one", "three"]
    (split,) = plan(folder, write(tmp_path / "list.txt", "two\n"))
    assert split.stem("cm_embd") == "cm_embd"
    (split,) = plan(folder, write(tmp_path / "list.txt", "two\n"), name="test")
    assert split.stem("cm_embd") == "cm_embd_test"


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", "..", ".x", "-x", "a b", "a\0", "x" * 51])
def test_names_that_cannot_be_part_of_a_file_name(
    folder: AudioFolder, tmp_path: Path, name: str
) -> None:
    protocol = write(tmp_path / "list.txt", "two\n")
    for where in (protocol, None):
        with pytest.raises(InputError, match=r"--name .* cannot be part of a file name"):
            plan(folder, where, name=name)


@pytest.mark.parametrize("name", ["test", "test_2", "v1.0", "mein-größter", ""])
def test_names_that_can(folder: AudioFolder, name: str) -> None:
    (split,) = plan(folder, name=name)
    assert split.stem("cm_embd") == (f"cm_embd_{name}" if name else "cm_embd")


def test_without_a_list_every_recording_is_taken(folder: AudioFolder) -> None:
    (split,) = plan(folder)
    assert [u.id for u in split.utterances] == [name.split(".")[0] for name in sorted(FILES)]
    assert all(folder.find(u.place).is_file() for u in split.utterances)


def test_folders_without_anything(tmp_path: Path, shared: Path) -> None:
    with pytest.raises(InputError, match="no audio folder at"):
        AudioFolder(tmp_path / "absent")
    with pytest.raises(InputError, match="no recordings"):
        plan(AudioFolder(tmp_path))
    with pytest.raises(InputError, match="no protocols of ASVspoof 2019 LA"):
        plan(AudioFolder(tmp_path), str(tmp_path))
    assert corpus_splits(tmp_path) == []
    with pytest.raises(InputError, match="--name and --enrolment are for a single list"):
        plan(AudioFolder(shared / "data" / "mini_la"), name="x")


@pytest.mark.parametrize(
    ("name", "says"), [(b"a\nb.wav", "with a line break"), (b"a\xff.wav", "that is not UTF-8")]
)
def test_file_names_that_no_list_can_hold(tmp_path: Path, name: bytes, says: str) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    with pytest.raises(InputError, match=f"file name {says}: 'a.*; rename it"):
        plan(AudioFolder(tmp_path))


def test_two_files_of_one_id(tmp_path: Path) -> None:
    for name in ("a.wav", "a.flac"):
        (tmp_path / name).touch()
    with pytest.raises(InputError, match=r"utterance a stands for two files"):
        plan(AudioFolder(tmp_path))
