"""From recordings to a decision: verify and enrol, and what can be wrong with recordings."""

from __future__ import annotations

import csv
import json
import os
import shutil
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import soundfile
import torch
from torch.nn.functional import cosine_similarity

from lightning_sasv.cli import main
from lightning_sasv.deploy import Verifier, load, verify
from lightning_sasv.deploy.before_fusion import Head, check_same_network, whole_way
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import save_system
from lightning_sasv.frontends import AASIST, ECAPA
from lightning_sasv.frontends.audio import read_audio, read_recording
from lightning_sasv.frontends.base import describe
from lightning_sasv.frontends.manifest import Manifest
from lightning_sasv.fusion import FusionSystem, build_system
from lightning_sasv.models.heads import CMHead
from lightning_sasv.trials import Scores
from tests.deploy.conftest import HEAD, Place
from tests.deploy.recordings import export_whole, write_checkpoint, write_voice
from tests.deploy.test_bundle import rewrite
from tests.helpers import failure_of

Capture = pytest.CaptureFixture[str]


def run(*words: object) -> None:
    main([str(word) for word in words])


def said_by(capture: Capture, *words: object) -> str:
    capture.readouterr()
    run(*words)
    return capture.readouterr().out


def expected(place: Place) -> tuple[float, float]:
    """ASV and CM score of x, enrolled with a and b, by torch."""
    sounds = [read_audio(place[name]) for name in "abx"]
    a, b, x = ECAPA.from_checkpoint(place.asv).embed(sounds).double()
    with torch.no_grad():
        cm = HEAD.score(AASIST.from_checkpoint(place.cm).embed(sounds[2:]))
    return float(cosine_similarity((a + b) / 2, x, dim=0)), float(cm)


def test_a_probe_is_decided_as_by_torch(place: Place, capsys: Capture) -> None:
    words = ["verify", "--bundle", place.bundle, "--enrol", place["a"], place["b"]]
    found = json.loads(said_by(capsys, *words, "--probe", place["x"], "--json"))
    asv, cm = expected(place)
    assert found["asv_score"] == pytest.approx(asv, abs=1e-5)
    assert found["cm_score"] == pytest.approx(cm, abs=1e-4)
    verdict = load(place.bundle)(found["asv_score"], found["cm_score"])
    assert found["decision"] == verdict.decision
    for name in ("score", "asv_llr", "cm_llr", "margin", "reason"):
        assert found[name] == getattr(verdict, name)
    assert found["seconds"].keys() == {
        *("reading", "ASV front end", "CM front end", "CM head and fusion"),
    }
    shown = said_by(capsys, *words, "--probe", place["x"])
    assert shown.splitlines()[0] == verdict.decision
    assert verdict.reason in shown
    assert "margin" in shown
    assert "ASV front end" in shown
    assert "%" in shown


def test_torch_front_ends_decide_alike_and_only_with_the_weights_recorded(
    place: Place, shared: Path, tmp_path: Path, capsys: Capture
) -> None:
    given, out = ["--cm", place.cm, "--asv", place.asv], tmp_path / "b"
    run("export", "--fitted", place.training, "--system", "L3t", "--out", out, *given)
    assert not (out / "frontends").exists()
    words = ["--bundle", out, "--enrol", place["a"], place["b"], "--probe", place["x"]]
    found = json.loads(said_by(capsys, "verify", *words, *given, "--json"))
    graph = Verifier(place.bundle)
    model, notes, _ = graph.enrol([place["a"], place["b"]])
    other = graph.verify(model, place["x"])
    assert notes == []
    assert found["asv_score"] == pytest.approx(other.asv_score, abs=1e-5)
    assert found["cm_score"] == pytest.approx(other.cm_score, abs=1e-4)
    wrong = ["--cm", shared / "data/weights/AASIST.pth", "--asv", place.asv]
    message = failure_of(capsys, "verify", *words, *wrong)
    assert "--cm" in message
    assert "is not what was recorded" in message


def test_with_graphs_nothing_but_numpy_onnxruntime_and_soundfile(place: Place) -> None:
    code = (
        "import sys\n"
        "from lightning_sasv.deploy import Verifier\n"
        f"verifier = Verifier({str(place.bundle)!r})\n"
        f"model, _, _ = verifier.enrol([{str(place['a'])!r}])\n"
        f"print(verifier.verify(model, {str(place['x'])!r}).decision)\n"
        "print(*sorted({name.split('.')[0] for name in sys.modules}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    decision, modules = done.stdout.splitlines()
    assert decision in ("accept", "reject", "unsure")
    found = set(modules.split())
    assert {"numpy", "onnxruntime", "soundfile", "safetensors"} <= found
    heavy = {"torch", "scipy", "polars", "rich", "onnx", "pytorch_lightning", "jsonargparse"}
    assert not found & heavy


def test_speakers_are_kept_for_their_owner_alone_and_forgotten(
    place: Place, tmp_path: Path, capsys: Capture
) -> None:
    models = tmp_path / "kept"
    there = ["--speakers", models]
    made = ["enrol", "--bundle", place.bundle, "--name", "anna", *there, place["a"], place["b"]]
    before = os.umask(0)
    try:
        assert "readable by you alone" in said_by(capsys, *made)
    finally:
        os.umask(before)
    file = models / "anna.safetensors"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(models.stat().st_mode) == 0o700
    words = ["verify", "--bundle", place.bundle, "--probe", place["x"], "--json"]
    kept = json.loads(said_by(capsys, *words, "--name", "anna", *there))
    fresh = json.loads(said_by(capsys, *words, "--enrol", place["a"], place["b"]))
    assert kept["asv_score"] == pytest.approx(fresh["asv_score"], abs=1e-6)
    assert "a model of anna already" in failure_of(capsys, *made)
    said_by(capsys, *made, "--overwrite")
    unknown = failure_of(capsys, *words, "--name", "hanna", *there)
    assert "nobody is enrolled as 'hanna'" in unknown
    assert "did you mean anna?" in unknown
    assert "no name of a speaker" in failure_of(capsys, *words, "--name", "../anna", *there)
    assert "Removed" in said_by(capsys, "enrol", "--forget", "anna", *there)
    assert not file.exists()
    assert "nobody is enrolled" in failure_of(capsys, "enrol", "--forget", "anna", *there)


def test_a_model_of_another_network_is_refused(
    place: Place, tmp_path: Path, capsys: Capture
) -> None:
    about = json.loads((place.bundle / "bundle.json").read_text())["front_ends"]["asv"]
    models = SpeakerModels(tmp_path)
    (digest,) = about["weights_sha256"].values()
    models.keep("ina", np.ones(24), about | {"weights_sha256": {"renamed.ckpt": digest}})
    assert models.read("ina", about).tolist() == [1.0] * 24
    models.keep("otto", np.ones(24), about | {"weights_sha256": {"x": "0"}})
    with pytest.raises(InputError, match="made by another network"):
        models.read("otto", about)
    (tmp_path / "max.safetensors").write_bytes(b"nothing")
    with pytest.raises(InputError, match="no speaker model"):
        models.read("max", about)


NAMES = {  # what is said of each; nothing where it is a name
    "José": "",
    "Jose\u0301": "a model of .* already",  # the same letters, the last one written as two
    "प्रिया": "",
    "anna@example.org": "",
    "Anna-Lena_2": "",
    "x" * 200: "",
    "x" * 201: "is too long",
    "王" * 100: "is too long",
    **dict.fromkeys(["", ".a", "a/b", "../a", "a b", "a\0b", "\u0301a", "\udcff"], "is no name of"),
}


def test_names_of_speakers(tmp_path: Path) -> None:
    models = SpeakerModels(tmp_path / "kept")
    for name, said in NAMES.items():
        if said:
            with pytest.raises(InputError, match=said):
                models.keep(name, np.ones(2), {}, overwrite=False)
        else:
            file = models.keep(name, np.ones(2), {}, overwrite=False)
            assert (file.parent, name in models) == (tmp_path / "kept", True)
            assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert len(models.names()) == sum(not said for said in NAMES.values())
    assert {file.suffix for file in (tmp_path / "kept").iterdir()} == {".safetensors"}
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write"):
        SpeakerModels(tmp_path / "file").keep("anna", np.ones(2), {})


def test_of_two_who_enrol_a_name_at_a_time_one_succeeds(tmp_path: Path) -> None:
    def keep(number: int) -> int | None:
        try:
            SpeakerModels(tmp_path).keep("anna", np.full(2, number), {}, overwrite=False)
        except InputError:
            return None
        return number

    with ThreadPoolExecutor(8) as pool:
        found = [one for one in pool.map(keep, range(8)) if one is not None]
    assert SpeakerModels(tmp_path).read("anna", {}).tolist() == [found[0]] * 2
    assert len(found) == 1


def test_a_list_of_probes(place: Place, tmp_path: Path, capsys: Capture) -> None:
    broken = tmp_path / "broken.wav"
    broken.write_text("no audio at all")
    listed, out = tmp_path / "probes.txt", tmp_path / "out.csv"
    listed.write_text(f"# probes\n{place['x']}\n\nbroken.wav\n{place['a']}\n{'x' * 5_000}\n")
    words = ["verify", "--bundle", place.bundle, "--enrol", place["a"], "--list", listed]
    shown = said_by(capsys, *words, "--out", out)
    assert "4 probes" in shown
    assert "2 failed" in shown
    with out.open() as file:
        rows = list(csv.DictReader(file))
    assert [row["probe"] for row in rows[:3]] == [str(place["x"]), str(broken), str(place["a"])]
    assert "no such file" in rows[3]["reason"]
    assert rows[1]["decision"] == "failed"
    assert "cannot be read as audio" in rows[1]["reason"]
    assert float(rows[2]["asv_score"]) == pytest.approx(1, abs=1e-6)
    assert "holds something already" in failure_of(capsys, *words, "--out", out)
    listed.write_text(f"{place['x']}\n")
    unnamed = [word for word in words if word not in ("--enrol", place["a"])]
    message = failure_of(capsys, *unnamed, "--out", tmp_path / "new.csv")
    assert "line 1" in message
    assert "names no speaker" in message
    there = ["--speakers", tmp_path / "kept"]
    run("enrol", "--bundle", place.bundle, "--name", "anna", place["a"], *there)
    slow = write_voice(tmp_path / "slow.wav", 2, rate=8_000)
    listed.write_text(f"{slow}\n")
    kept = ["--name", "anna", "--speakers", tmp_path / "kept", "--out", out, "--overwrite"]
    (line,) = said_by(capsys, *unnamed, *kept, "--json").splitlines()
    assert json.loads(line)["speaker"] == "anna"
    assert json.loads(line)["notes"].startswith(f"{slow}: resampled from 8000 Hz")
    listed.write_text(f"anna {place['x']}\nnobody {place['x']}\n")
    named = [*unnamed, "--speakers", tmp_path / "kept", "--out", tmp_path / "new.csv", "--json"]
    lines = [json.loads(line) for line in said_by(capsys, *named).splitlines()]
    assert [line["decision"] == "failed" for line in lines] == [False, True]
    assert "nobody is enrolled" in lines[1]["reason"]


def with_length(flac: bytes, samples: int) -> bytes:
    """A FLAC file whose header says another number of samples; 0 is for a stream."""
    fields = int.from_bytes(flac[18:26], "big") >> 36 << 36 | samples
    return flac[:18] + fields.to_bytes(8, "big") + flac[26:]


def bad_recordings(folder: Path, hours: Path) -> dict[str, tuple[Path, str]]:
    """Recordings that cannot be decided on, and what is said of each."""

    def sound(name: str, samples: np.ndarray, rate: int = 16_000) -> Path:
        soundfile.write(folder / name, samples, rate)
        return folder / name

    def floats(name: str, samples: np.ndarray) -> Path:
        soundfile.write(folder / name, samples, 16_000, subtype="FLOAT")
        return folder / name

    headed = sound("head.wav", np.zeros(0))
    text, empty = folder / "text.wav", folder / "empty.flac"
    text.write_text("this is no audio\n" * 100)
    empty.write_bytes(b"")
    whole = write_voice(folder / "whole.flac", seconds=3.0).read_bytes()
    (folder / "cut.flac").write_bytes(whole[: len(whole) // 2])
    (folder / "stream.flac").write_bytes(with_length(whole, 0))
    wave = 0.1 * np.sin(np.arange(32_000))
    half = sound("half.wav", wave)
    half.write_bytes(half.read_bytes()[:30_000])
    (folder / "page.ogg").write_bytes(sound("whole.ogg", np.r_[wave, wave]).read_bytes()[:-1])
    return {
        "page": (folder / "page.ogg", "cut short, the page that ends it is missing"),
        "half": (half, "cut short, its header says that more was to follow"),
        "still": (sound("still.wav", np.full(32_000, 0.3)), "nothing but silence"),
        "text": (text, "cannot be read as audio"),
        "empty": (empty, "cannot be read as audio"),
        "cut": (folder / "cut.flac", "cut short"),
        "short": (sound("short.wav", 0.1 * np.ones(3_200)), "0.20 s of audio are too little"),
        "silence": (sound("silence.wav", np.zeros(32_000)), "nothing but silence in its first 2.0"),
        "late": (sound("late.wav", np.r_[np.zeros(64_600), wave]), "silence in its first 4.0 s"),
        "opposite": (sound("both.wav", np.stack([wave, -wave], axis=1)), "nothing but silence"),
        "stream": (folder / "stream.flac", "does not say how long it is"),
        "rate": (sound("rate.wav", 0.1 * np.ones(4_000), 100), "its header says 100 samples"),
        "hours": (hours, "180 minutes of audio are too much"),
        "nan": (floats("nan.wav", np.r_[wave, np.nan]), "holds NaN or infinite samples"),
        "loud": (floats("loud.wav", 32_768 * wave), r"samples reach 3\.28e\+03, where full scale"),
        "head": (headed, "0.00 s of audio are too little"),
        "missing": (folder / "missing.wav", "no such file"),
    }


def test_each_bad_recording_is_named(
    place: Place, hours: Path, tmp_path: Path, capsys: Capture
) -> None:
    verifier = Verifier(place.bundle)
    model, _, _ = verifier.enrol([place["a"]])
    for name, (path, message) in bad_recordings(tmp_path, hours).items():
        with pytest.raises(InputError, match=message) as error:
            verifier.verify(model, path)
        assert path.name in str(error.value), name
        assert "object at 0x" not in str(error.value)
        if path.is_file() and name != "late":
            with pytest.raises(InputError, match=message):
                read_recording(path.read_bytes(), 16_000, None, name)
    words = ["verify", "--bundle", place.bundle, "--enrol", place["a"], "--probe"]
    assert "nothing but silence" in failure_of(capsys, *words, tmp_path / "silence.wav")


def test_a_bundle_without_the_verdict_unsure_says_so(
    place: Place, tmp_path: Path, capsys: Capture
) -> None:
    out = Path(shutil.copytree(place.bundle, tmp_path / "b"))
    rewrite(out, '"level": 0.01', '"level": 0.0')
    words = ["verify", "--bundle", out, "--enrol", place["a"], "--probe", place["x"]]
    run(*words)
    assert "no verdict unsure for what dev did not measure" in capsys.readouterr().err


def test_another_rate_is_resampled_and_said(place: Place, tmp_path: Path) -> None:
    slow = write_voice(tmp_path / "slow.wav", 2, rate=8_000)
    verifier = Verifier(place.bundle)
    model, _, _ = verifier.enrol([place["a"]])
    found = verifier.verify(model, slow)
    assert found.notes == (
        f"{slow}: resampled from 8000 Hz, the networks were measured at 16000 Hz",
    )
    assert found.notes[0] in found.lines()


FORMS = {  # file, subtype, how far its samples may be from those of the 16-bit file
    "a b.wav": ("PCM_16", 0.0),
    "Jürgen 王.wav": ("PCM_24", 2e-5),
    "float.wav": ("FLOAT", 2e-5),
    "double.aiff": ("DOUBLE", 2e-5),
    "x.FLAC": ("PCM_24", 2e-5),
    "x.ogg": ("VORBIS", 0.2),
    "x.mp3": ("MPEG_LAYER_III", 0.2),
}


@pytest.mark.parametrize("name", FORMS)
def test_one_recording_in_any_form_is_one_recording(
    name: str, place: Place, tmp_path: Path
) -> None:
    whole, _ = soundfile.read(place["x"])
    subtype, apart = FORMS[name]
    path = tmp_path / name
    soundfile.write(path, np.stack([whole, whole], axis=1), 16_000, subtype=subtype)  # two channels
    for source in (path, path.read_bytes()):
        found, note = read_recording(source, 16_000, None)
        assert note == ""
        assert len(found) == pytest.approx(len(whole), abs=2_400)  # mp3 begins with more
        if apart < 0.1:
            assert np.abs(found - whole).max() <= apart
        assert found.std() == pytest.approx(whole.std(), rel=0.1)


def test_a_wav_file_of_a_pipe_has_no_length_and_is_whole(place: Place, tmp_path: Path) -> None:
    whole, _ = soundfile.read(place["x"])
    soundfile.write(tmp_path / "x.wav", whole, 16_000)
    content = (tmp_path / "x.wav").read_bytes()
    at = content.index(b"data") + 4
    for size in (b"\xff" * 4, b"\xff\xff\xff\x7f"):
        piped = content[:4] + size + content[8:at] + size + content[at + 4 :]
        assert len(read_recording(piped, 16_000, None)[0]) == len(whole)
    cut = content[: 3 * len(content) // 4]
    assert len(read_recording(cut, 16_000, 4_000)[0]) == 4_000  # what is wanted is there


def test_a_name_that_is_no_text_is_a_name(place: Place, tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.flac"
    with open(path, "wb") as file:  # noqa: PTH123
        file.write(place["x"].read_bytes())
    assert len(read_recording(os.fsdecode(path), 16_000, None)[0]) == 16_000


def test_a_file_that_may_not_be_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(InputError, match="you may not read this file"):
        read_recording(place["x"], 16_000, None)


def test_recordings_of_two_speakers_are_noted(
    place: Place, dev: Scores, monkeypatch: pytest.MonkeyPatch
) -> None:
    verifier = Verifier(place.bundle)
    middle = (np.median(dev.asv[dev.label == 1]) + np.median(dev.asv[dev.label == 2])) / 2
    for cosine, noted in ((middle - 0.01, True), (middle + 0.01, False)):
        pair = [np.array([1.0, 0.0]), np.array([cosine, np.sqrt(1 - cosine**2)])]
        rest = iter([*pair, pair[0], pair[0], pair[1]])
        monkeypatch.setattr(verifier._networks["asv"], "embed", lambda _, rest=rest: [next(rest)])
        notes = verifier.enrol([place["a"], place["b"]])[1]
        said = f"sound like the other enrolment recordings (cosine {cosine:.2f})"
        assert [said in note for note in notes] == [True, True] * noted
        notes = verifier.enrol([place["a"]] * 2 + [place["b"]], ["one", "two", "three"])[1]
        assert [note.partition(":")[0] for note in notes] == ["three"] * noted
    monkeypatch.setattr(verifier._networks["asv"], "embed", lambda _: [np.array([np.nan])])
    with pytest.raises(InputError, match=r"a\.flac: the ASV front end gave no numbers"):
        verifier.enrol([place["a"]])


def test_weights_given_to_a_bundle_with_graphs_must_be_theirs(
    place: Place, shared: Path, tmp_path: Path
) -> None:
    shutil.copy(place.cm, tmp_path / "renamed.pth")
    Verifier(place.bundle, cm=str(tmp_path / "renamed.pth"), asv=str(place.asv))
    with pytest.raises(InputError, match=r"--cm: AASIST \(AASIST.pth .*is not what was recorded"):
        Verifier(place.bundle, cm=str(shared / "data/weights/AASIST.pth"))
    with pytest.raises(InputError, match="cannot read"):
        Verifier(place.bundle, asv=str(tmp_path))
    with pytest.raises(InputError, match="graphs of its own networks; leave this out"):
        Verifier(place.bundle, asv={"class_path": "some.Network"})
    made = {"class_path": "some.Network", "samples": 5}
    for said in ("nothing", [5], {"x": 5}, None):  # of a file, which may say anything
        with pytest.raises(InputError, match=r"--cm: Network \(.*is not what was recorded, Other"):
            check_same_network(made, {"class_path": "Other", "weights_sha256": said}, "cm")


def test_the_time_of_the_enrolment_counts(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    verifier, models = Verifier(place.bundle), SpeakerModels(place.folder)
    made = verifier.enrol([place["a"]])[0], ["a note"], {"reading": 1000.0, "ASV front end": 2000.0}
    monkeypatch.setattr(Verifier, "enrol", lambda *_: made)
    told: list[str] = []
    given = {"bundle": str(place.bundle), "enrol": [str(place["a"])], "probe": str(place["x"])}
    by_command = verify(**given, tell=told.extend)
    found = verifier.decide([place["a"]], None, place["x"], models)
    assert found.notes == ("a note",)
    assert "a note" in told
    for one in (found, by_command):
        steps = [1000 < one.seconds["reading"] < 1999, one.seconds["ASV front end"] > 2000]
        assert all(steps)
        assert one.seconds["CM front end"] < 1000


def test_a_bundle_and_its_recordings_may_lie_on_a_disk_that_cannot_be_written(
    place: Place, tmp_path: Path
) -> None:
    """As far as names go: nothing in the folder of a bundle is written, made or touched."""
    bundle = Path(shutil.copytree(place.bundle, tmp_path / "b"))
    before = {path: path.stat().st_mtime_ns for path in [bundle, *bundle.rglob("*")]}
    verifier = Verifier(bundle)
    verifier.verify(verifier.enrol([place["a"]])[0], place["x"])
    assert {path: path.stat().st_mtime_ns for path in [bundle, *bundle.rglob("*")]} == before


def test_a_lying_header_does_not_fill_the_memory(tmp_path: Path) -> None:
    """No more is read than the header or the network says, whatever follows."""
    path = write_voice(tmp_path / "x.flac", seconds=2.0)
    assert len(read_recording(path, 16_000, 16_000)[0]) == 16_000
    short, _ = read_recording(with_length(path.read_bytes(), 9_000), 16_000, None)
    assert short.shape == (9_000,)
    with pytest.raises(InputError, match="cut short"):
        read_recording(with_length(path.read_bytes(), 60 * 16_000), 16_000, 64_600)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("--probe x.flac", "whose voice?"),
        ("--enrol a.flac", "give one recording with --probe"),
        ("--enrol a.flac --name anna --probe x.flac", "not both"),
        ("--enrol a.flac --probe x.flac --list y.txt", "give one recording with --probe"),
    ],
)
def test_what_was_meant_is_asked(place: Place, words: str, says: str, capsys: Capture) -> None:
    assert says in failure_of(capsys, "verify", "--bundle", place.bundle, *words.split())


def test_an_altered_bundle_is_refused(place: Place, tmp_path: Path, capsys: Capture) -> None:
    bundle = tmp_path / "b"
    words = ["verify", "--bundle", bundle, "--enrol", place["a"], "--probe", place["x"]]
    for part in ("frontends/cm.onnx", "frontends/asv_features.safetensors", "head.safetensors"):
        shutil.copytree(place.bundle, bundle)
        content = bytearray((bundle / part).read_bytes())
        content[len(content) // 2] ^= 1
        (bundle / part).write_bytes(bytes(content))
        assert "altered or damaged" in failure_of(capsys, *words)
        (bundle / part).unlink()
        assert "missing" in failure_of(capsys, *words)
        shutil.rmtree(bundle)


def test_bundles_without_the_way_say_what_they_lack(
    place: Place, tmp_path: Path, capsys: Capture
) -> None:
    scores = tmp_path / "scores"
    shutil.copytree(place.training, scores, ignore=shutil.ignore_patterns("checkpoints"))
    export = ["export", "--fitted", scores, "--system", "L3t", "--out", tmp_path / "b"]
    assert "needs the CM head" in failure_of(capsys, *export, "--with-front-ends")
    run(*export)
    words = ["verify", "--bundle", tmp_path / "b", "--enrol", place["a"], "--probe", place["x"]]
    assert "it holds no CM head; export the folder of a training" in failure_of(capsys, *words)
    torch.save({"nothing": 1}, scores / "best.ckpt")
    (scores / "checkpoints").mkdir()
    (scores / "best.ckpt").rename(scores / "checkpoints" / "best.ckpt")
    assert "no checkpoint of a training" in failure_of(capsys, *export, "--overwrite")
    torch.save({"state_dict": {"head.weight_0": "none"}}, scores / "checkpoints" / "best.ckpt")
    (scores / "config.yaml").write_text("seed: 1\n")  # which names no data
    run(*export, "--overwrite")
    assert "head" not in json.loads((tmp_path / "b" / "bundle.json").read_text())


def test_a_network_of_both_embeddings_is_no_part_of_a_bundle_which_says_so(
    place: Place, dev: Scores, tmp_path: Path, capsys: Capture
) -> None:
    training = tmp_path / "training"
    shutil.copytree(place.training, training)
    joint = build_system("F3").fit(dev.asv, dev.cm, dev.label)
    save_system(training / "fitted" / "F3.safetensors", joint, {})
    export = ["export", "--fitted", training, "--system", "F3", "--out", tmp_path / "b"]
    message = failure_of(capsys, *export, "--with-front-ends")
    assert "the network of F3 sees both embeddings" in message
    assert "without --with-front-ends it takes the scores of that network" in message
    run(*export)
    assert "its network, which is no part of it" in capsys.readouterr().out
    words = ["verify", "--bundle", tmp_path / "b", "--enrol", place["a"], "--probe", place["x"]]
    assert "export a system of a pair of scores (M3d)" in failure_of(capsys, *words)


def test_the_export_says_what_the_bundle_holds(place: Place) -> None:
    about = json.loads((place.bundle / "bundle.json").read_text())
    assert about["front_ends"]["cm"]["runtime"] == "onnx"
    assert about["front_ends"]["cm"]["licence"] == "MIT (clovaai/aasist)"
    assert about["front_ends"]["asv"]["licence"].startswith("not known")  # made for this test
    assert about["head"]["checkpoint"]["file"] == "best.ckpt"
    modes = {stat.S_IMODE(p.stat().st_mode) for p in place.bundle.rglob("*") if p.is_file()}
    assert len(modes) == 1  # whoever may read one part may read all
    sums = json.loads((place.bundle / "checksums.json").read_text())
    files = {p.relative_to(place.bundle).as_posix() for p in place.bundle.rglob("*") if p.is_file()}
    assert sums.keys() == files - {"checksums.json"}


def test_the_networks_of_the_embeddings_are_recorded_and_held_to(
    place: Place, shared: Path, tmp_path: Path, capsys: Capture
) -> None:
    """A training on extracted embeddings names their manifest: no weights need to be given."""
    training, root = tmp_path / "training", tmp_path / "embeddings"
    shutil.copytree(place.training, training)
    (training / "config.yaml").write_text(f"data: {{root: {root}}}\n")
    networks = {"cm": AASIST.from_checkpoint(place.cm), "asv": ECAPA.from_checkpoint(place.asv)}
    for kind, network in networks.items():
        Manifest(root).add_store(f"{kind}_embd_dev", front_end=describe(network))
    export = ["export", "--fitted", training, "--system", "L3t", "--out", tmp_path / "b"]
    run(*export)
    about = json.loads((tmp_path / "b" / "bundle.json").read_text())["front_ends"]
    for kind, network in networks.items():
        assert about[kind] == {**describe(network), "runtime": "torch"}
    wrong = ["--cm", shared / "data/weights/AASIST.pth", "--asv", place.asv]
    message = failure_of(capsys, *export, *wrong, "--with-front-ends", "--overwrite")
    assert "is not what was recorded" in message


def test_a_bundle_of_the_twin_says_that_it_is_simulated(
    place: Place, systems: dict[str, FusionSystem], tmp_path: Path, capsys: Capture
) -> None:
    training = Path(shutil.copytree(place.training, tmp_path / "training"))
    save_system(training / "fitted" / "L3t.safetensors", systems["L3t"], {"corpus": "twin"})
    export_whole(training, place.asv, place.cm, tmp_path / "b")
    words = ["verify", "--bundle", tmp_path / "b", "--enrol", place["a"], "--probe", place["x"]]
    said = [capsys.readouterr().err]
    run(*words)
    for one in (*said, capsys.readouterr().err):
        assert "what it says of recordings means nothing" in " ".join(one.split())


def test_a_folder_of_seeds_or_none_is_named(place: Place, tmp_path: Path, capsys: Capture) -> None:
    shutil.copytree(place.training / "fitted", tmp_path / "table" / "seed7" / "fitted")
    words = ["export", "--out", tmp_path / "b", "--fitted"]
    message = failure_of(capsys, *words, tmp_path / "table")
    assert f"give one of them: --fitted {tmp_path / 'table' / 'seed7'}" in message
    assert "no folder of results at" in failure_of(capsys, *words, tmp_path / "nowhere")


def test_a_head_of_a_dozen_layers_is_kept(tmp_path: Path) -> None:
    deep = CMHead(in_dim=8, hidden_dims=(6,) * 11, seeds=(0,))
    state = {f"head.{name}": value.numpy() for name, value in deep.state_dict().items()}
    head = Head.of_state(state, deep.negative_slope)
    assert head is not None
    values = np.random.default_rng(0).normal(size=(5, 8)).astype(np.float32)
    with torch.no_grad():
        wanted = deep.score(torch.from_numpy(values)).numpy().ravel()
    found = Head.load(head.save(tmp_path / "head.safetensors")).score(values)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_system_with_a_network_of_its_own_gets_no_head_of_another(
    place: Place, tmp_path: Path
) -> None:
    training = tmp_path / "training"
    shutil.copytree(place.training, training)
    found = whole_way(training, "L3t", None, None, False, own_network=True)
    assert found.head is None
    write_checkpoint(tmp_path / "other", HEAD)
    own = tmp_path / "other" / "checkpoints" / "best.ckpt"
    own.rename(training / "checkpoints" / "best_L3t.ckpt")
    found = whole_way(training, "L3t", None, None, False, own_network=True)
    assert found.head is not None
    assert found.origin["file"] == "best_L3t.ckpt"
    half = write_checkpoint(tmp_path / "half", deepcopy(HEAD).bfloat16())
    found = whole_way(half, "L3t", None, None, False)
    assert found.head is not None
    assert found.head.weights[0].dtype == np.float32
