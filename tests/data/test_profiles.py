"""Corpora as data: golden lines, the twin in every layout, recognition, broken lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_sasv import evaluation
from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, load_corpus
from lightning_sasv.data.challenge import (
    enrolment_of,
    load_evaluation,
    save_corpus,
    trials_of,
    utterances_of,
)
from lightning_sasv.data.profiles import Profile, profile_named, profiles, recognised
from lightning_sasv.data.protocols import read_utterances
from lightning_sasv.decisions import PRESETS
from lightning_sasv.errors import InputError
from lightning_sasv.scores import convert, read_table
from tests.conftest import REPOSITORY
from tests.helpers import failure_of

TRAINED = ["sasv2022", "asvspoof5", "spoofceleb", "manifest"]
GOLDEN = {
    "asvspoof5": {
        "ASVspoof5.train.tsv": "ASVspoof5.train.tsv",
        "ASVspoof5.dev.track_1.tsv": "ASVspoof5.dev.track_1.tsv",
        "ASVspoof5.dev.track_2.trial.tsv": "ASVspoof5.dev.track_2.trial.tsv",
        "form.eval.track_1.tsv": "ASVspoof5.eval.track_1.tsv",
        "form.eval.track_2.trial.tsv": "ASVspoof5.eval.track_2.trial.tsv",
        "ASVspoof5.track_2.progress.enroll.txt": "ASVspoof5.eval.track_2.enroll.tsv",
    },
    "asvspoof2019_la": {},
    "spoofceleb": {
        "metadata.development.csv": "train.csv",
        "form.sasv_development_evaluation_protocol.csv": "sasv_development_evaluation_protocol.csv",
    },
    "wildspoof": {
        "form.protocol_enroll.tsv": "protocol_enroll.tsv",
        "form.protocol_test.tsv": "protocol_test.tsv",
    },
    "voxceleb": {},
    "asvspoof2021": {},
}
"""True lines under the names that the lists have in the release."""


@pytest.fixture
def golden(shared: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """The golden lines of a corpus."""
    source = shared / "data/corpora" / request.param
    for path in source.iterdir():
        name = GOLDEN[request.param].get(path.name, path.name)
        (tmp_path / name).write_bytes(path.read_bytes())
    return tmp_path


def classes(profile: Profile, split: str, folder: Path) -> list[int]:
    """Targets, nontargets and spoofs of a set."""
    label = trials_of(profile, split, folder).label
    return [int((label == code).sum()) for code in (1, 2, 0)]


@pytest.mark.parametrize("golden", ["asvspoof5"], indirect=True)
def test_lines_of_asvspoof5(golden: Path) -> None:
    profile = recognised(golden)
    assert profile is not None
    assert (profile.name, profile.costs) == ("asvspoof5", "asvspoof5")
    track1 = golden / "ASVspoof5.dev.track_1.tsv"
    assert len(read_utterances(track1, "asvspoof5-metadata")) == 5
    with pytest.raises(InputError, match=r"2 of 5 trials .* are not in it"):
        trials_of(profile, "dev", golden)  # other lines of the true lists
    track1.unlink()
    assert classes(profile, "dev", golden) == classes(profile, "eval", golden) == [2, 1, 2]
    train = utterances_of(profile, golden)
    assert train.utterance[0] == "T_0000000000"
    assert (train.attack[0], train.bonafide[0]) == ("A05", False)
    dev, rows = (trials_of(profile, split, golden) for split in ("dev", "eval"))
    assert {"gender"} <= dev.more.keys()
    assert {"test_speaker", "gender", "codec", "codec_quality", "codec_seed"} <= rows.more.keys()
    assert set(rows.more["codec_quality"][rows.more["codec"] == "-"]) <= {"-"}
    assert set(dev.attack[dev.label != 0]) == {"-"}
    assert profile.eval is not None
    assert [len(names) for names in enrolment_of(profile.eval, golden).values()] == [3, 3, 3, 2, 3]


@pytest.mark.parametrize("golden", ["asvspoof2019_la"], indirect=True)
def test_lines_of_sasv2022_also_with_windows_line_ends(golden: Path) -> None:
    for _ in range(2):
        profile = recognised(golden)
        assert profile is not None
        assert profile.name == "sasv2022"
        assert classes(profile, "dev", golden) == classes(profile, "eval", golden) == [2, 2, 1]
        assert len(utterances_of(profile, golden)) == 4
        assert profile.eval is not None
        sizes = sorted(len(one) for one in enrolment_of(profile.eval, golden).values())
        assert sizes == [11, 11, 19]
        for path in golden.iterdir():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("golden", ["spoofceleb"], indirect=True)
def test_lines_of_spoofceleb(golden: Path) -> None:
    profile = recognised(golden)
    assert profile is not None
    assert profile.name == "spoofceleb"
    train = utterances_of(profile, golden)
    assert len(train) == 3
    assert not any("." in name.rpartition("/")[2] for name in train.utterance)
    assert train.bonafide.tolist() == [name.startswith("a00/") for name in train.utterance]
    rows = trials_of(profile, "dev", golden)
    assert rows.model is not None
    assert len(rows) == 3
    for model, speaker in zip(rows.model.tolist(), rows.speaker.tolist(), strict=True):
        assert model.split("/")[1] == speaker
    spoofed = rows.label == 0
    assert [name.partition("/")[0] for name in rows.utterance[spoofed]] == [*rows.attack[spoofed]]
    text = (golden / "sasv_development_evaluation_protocol.csv").read_text()
    (golden / "sasv_development_evaluation_protocol.csv").write_text("enrol,test,label\n" + text)
    assert trials_of(profile, "dev", golden).label.tolist() == rows.label.tolist()


@pytest.mark.parametrize("golden", ["wildspoof"], indirect=True)
def test_lines_of_wildspoof_have_no_labels(golden: Path) -> None:
    profile = recognised(golden)
    assert profile is not None
    assert profile.name == "wildspoof"
    rows = trials_of(profile, "eval", golden)
    assert set(rows.label.tolist()) == {-1}
    assert profile.eval is not None
    assert set(rows.speaker) & set(enrolment_of(profile.eval, golden))
    with pytest.raises(InputError, match=r"wildspoof .* has no train and no dev set"):
        load_corpus(golden)


@pytest.mark.parametrize(
    ("golden", "name", "trials"),
    [("voxceleb", "voxceleb", 3), ("asvspoof2021", "asvspoof2021-la", 1)],
    indirect=["golden"],
)
def test_lines_of_corpora_that_only_evaluate(golden: Path, name: str, trials: int) -> None:
    rows = trials_of(profile_named(name), "eval", golden)
    assert len(rows) == trials
    assert name in ("voxceleb", *[p.name for p in [recognised(golden)] if p])


def test_costs_of_every_corpus_are_presets() -> None:
    assert {one.costs for one in profiles().values()} <= PRESETS.keys()


@pytest.mark.parametrize("name", TRAINED)
def test_the_twin_in_every_layout_is_the_same_corpus(
    name: str, twin: Corpus, tmp_path: Path
) -> None:
    save_corpus(twin, tmp_path, layout=name)
    found = recognised(tmp_path)
    assert found is not None
    assert found.name == name
    again = load_corpus(tmp_path)
    again.check()
    assert again.name == "twin"
    assert torch.equal(again.train.vectors, twin.train.vectors)
    assert np.array_equal(again.train.utterances.bonafide, twin.train.utterances.bonafide)
    assert np.array_equal(again.train.utterances.speaker, twin.train.utterances.speaker)
    for split in ("dev", "eval"):
        mine, theirs = getattr(again, split), getattr(twin, split)
        assert np.array_equal(mine.trials.label, theirs.trials.label)
        assert np.array_equal(mine.trials.speaker, theirs.trials.speaker)
        assert np.array_equal(np.char.upper(mine.trials.attack), theirs.trials.attack)
        torch.testing.assert_close(mine.asv_scores, theirs.asv_scores)
        of_trial = mine.probe_vectors[mine.probe_of_trial]
        assert torch.equal(of_trial, theirs.probe_vectors[theirs.probe_of_trial])
    assert ("codec" in again.eval.trials.more) == (name == "asvspoof5")


def test_a_blind_test_set_is_only_scored(twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout="wildspoof")
    assert not list(tmp_path.rglob("*trn*"))
    found = load_evaluation(tmp_path, None, None, profile_named("wildspoof")).eval
    torch.testing.assert_close(found.asv_scores, twin.eval.asv_scores)
    assert set(found.trials.label.tolist()) == {-1}


OWN = (REPOSITORY / "docs/corpora.md").read_text().partition("```yml\n")[2].partition("```")[0]
"""The example of the docs."""


def test_a_corpus_of_ones_own(twin: Corpus, tmp_path: Path) -> None:
    (tmp_path / "own.yaml").write_text(OWN)
    save_corpus(twin, tmp_path)
    lists = tmp_path / "lists"
    lists.mkdir()
    words = np.array(["spoof", "target", "nontarget"])
    rows = twin.train.utterances
    label = np.where(rows.bonafide, "bonafide", "spoof")
    columns = zip(rows.utterance, rows.speaker, label, strict=True)
    (lists / "train.lst").write_text("".join(" ".join(row) + "\n" for row in columns))
    for data in (twin.dev, twin.eval):
        trials = zip(
            data.trials.speaker, data.trials.utterance, words[data.trials.label], strict=True
        )
        text = "".join(f"{s} {u} {k} phone\n" for s, u, k in trials)
        (lists / f"{data.name}.lst").write_text(text)
    again = load_corpus(tmp_path, lists, corpus=str(tmp_path / "own.yaml"))
    assert np.array_equal(again.dev.trials.label, twin.dev.trials.label)
    torch.testing.assert_close(again.eval.asv_scores, twin.eval.asv_scores)
    assert set(again.eval.trials.more["device"]) == {"phone"}
    for wrong, message in (
        (OWN.replace("about", "abuot"), r"own.yaml: corpus own: cannot use 'abuot'.*about"),
        (OWN.replace("lists: {train", "files: {train"), "corpus own, train: expected lists"),
        ("about: nothing\n", "no set; give train, dev, eval"),
        (OWN.replace('"utt spk key"', "nolayout"), "unknown format 'nolayout'"),
    ):
        (tmp_path / "own.yaml").write_text(wrong)
        with pytest.raises(InputError, match=message):
            profile_named(str(tmp_path / "own.yaml"))
    with pytest.raises(InputError, match=r"asvspoof6 is neither a corpus .*asvspoof5"):
        profile_named("asvspoof6")


BROKEN = {
    "another list": ("ASVspoof5.dev.track_2.trial.tsv", lambda t: "LA_1 LA_D_1 - - bonafide\n" + t,
                     r"dev.track_2.trial.tsv, line 1: unknown label 'bonafide'"),
    "details cut": ("ASVspoof5.eval.track_1.tsv", lambda t: "\n".join(t.split("\n")[3:]),
                    r"eval.track_1.tsv: [\d,]+ of [\d,]+ trials of .* are not in it"),
    "trial again": ("ASVspoof5.dev.track_2.trial.tsv", lambda t: t + t.split("\n")[0] + "\n",
                    r"dev.track_2.trial.tsv, line \d+: the trial of line 1 stands again"),
    "no enrolment": ("ASVspoof5.dev.track_2.enroll.tsv", lambda t: "\n".join(t.split("\n")[1:]),
                     r"dev: speaker without enrolment model"),
    "enrolment utterance": ("ASVspoof5.dev.track_2.enroll.tsv", lambda t: t.replace("_A\n", "_B\n"),
                            r"asv_embd_dev.safetensors: no embedding for \d+ id"),
}  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_lists_are_named(kind: str, twin: Corpus, tmp_path: Path) -> None:
    name, spoil, message = BROKEN[kind]
    save_corpus(twin, tmp_path, layout="asvspoof5")
    path = tmp_path / "protocols" / name
    path.write_text(spoil(path.read_text()))
    with pytest.raises(InputError, match=message):
        load_corpus(tmp_path).check()


def test_the_whole_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, a training, scores by codec, a submission; a test set without labels."""
    monkeypatch.chdir(tmp_path)
    for name in ("asvspoof5", "wildspoof"):
        main(["simulate", "--out", name, "--scale", "0.02", "--corpus", name])
    assert "twin" in capsys.readouterr().out
    said = failure_of(capsys, "fit", "--data.root", "asvspoof5", "--data.corpus", "spoofceleb")
    assert "train.csv not found below" in said
    said = failure_of(capsys, "fit", "--data.root", "wildspoof")
    assert "wildspoof" in said
    assert "has no train and no dev set" in said
    main(["fit", "--data.root", "asvspoof5", "--trainer.max_epochs=1", "--model.systems=[L3c]"])
    assert "asvspoof5: lists of asvspoof5" in capsys.readouterr().out
    (scores,) = Path("runs").rglob("scores/eval.csv")
    found = evaluation.evaluate([str(scores)], by="codec,gender", ci="none")
    assert set(found.groups["codec"]["L3c"]) == {"-", "C01", "C04", "C11"}
    key = "asvspoof5/protocols/ASVspoof5.eval.track_2.trial.tsv"
    convert(str(scores), "asvspoof5-t2", "sub.tsv", key=key, column="sasv_L3c")
    main(["predict", str(scores.parents[1]), "--data.root", "wildspoof"])
    (blind,) = Path("runs").rglob("trials.csv")
    trials = "wildspoof/protocols/protocol_test.tsv"
    convert(str(blind), "wildspoof", "w.tsv", key=trials, column="sasv_L3c")
    assert len(Path("w.tsv").read_text().splitlines()) == len(read_table(scores))
