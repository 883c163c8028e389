"""Corpora as data: golden lines, the twin in every layout, recognition, broken lists."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from lightning_sasv import evaluation
from lightning_sasv.cli import main
from lightning_sasv.data import (
    Corpus,
    EmbeddingStore,
    SASVDataModule,
    import_corpus,
    load_corpus,
    make_twin,
)
from lightning_sasv.data.challenge import (
    enrolment_lists,
    load_evaluation,
    save_corpus,
    trials_of,
    utterances_of,
)
from lightning_sasv.data.profiles import Profile, profile_named, profiles, recognised
from lightning_sasv.data.protocols import read_enrolment, read_trials, read_utterances
from lightning_sasv.decisions import PRESETS
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.lists import corpus_splits
from lightning_sasv.metrics import Counts
from lightning_sasv.metrics.speakers import zoo
from lightning_sasv.report.sure import known_factors
from lightning_sasv.scores import convert, read_table
from lightning_sasv.trials import Scores, TrialClass, claimed_speakers
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


def copy_golden(shared: Path, corpus: str, folder: Path) -> Path:
    """The golden lines of a corpus in a folder."""
    for path in (shared / "data/corpora" / corpus).iterdir():
        (folder / GOLDEN[corpus].get(path.name, path.name)).write_bytes(path.read_bytes())
    return folder


@pytest.fixture
def golden(shared: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return copy_golden(shared, request.param, tmp_path)


def recognised_as(name: str, folder: Path) -> Profile:
    """The corpus whose lists are in a folder, which has to be this one."""
    found = recognised(folder)
    assert found == profile_named(name)
    return profile_named(name)


def enrolled(profile: Profile, folder: Path) -> dict[str, list[str]]:
    """Speakers of eval."""
    assert profile.eval is not None
    return read_enrolment(*enrolment_lists(profile.eval, folder))


def classes(profile: Profile, split: str, folder: Path) -> list[int]:
    """Targets, nontargets and spoofs of a set."""
    label = trials_of(profile, split, folder).label
    return [int((label == code).sum()) for code in (1, 2, 0)]


@pytest.mark.parametrize("golden", ["asvspoof5"], indirect=True)
def test_lines_of_asvspoof5(golden: Path) -> None:
    profile = recognised_as("asvspoof5", golden)
    assert profile.costs == "asvspoof5"
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
    assert [len(names) for names in enrolled(profile, golden).values()] == [3, 3, 3, 2, 3]
    (golden / "ASVspoof5.dev.track_2.trial.tsv").unlink()
    assert classes(profile, "dev", golden) == [1, 2, 2]  # the list of 2024, without attacks


@pytest.mark.parametrize("golden", ["asvspoof2019_la"], indirect=True)
def test_lines_of_sasv2022_also_with_windows_line_ends(golden: Path) -> None:
    for _ in range(2):
        profile = recognised_as("sasv2022", golden)
        assert classes(profile, "dev", golden) == classes(profile, "eval", golden) == [2, 2, 1]
        assert len(utterances_of(profile, golden)) == 4
        assert sorted(map(len, enrolled(profile, golden).values())) == [11, 11, 19]
        for path in golden.iterdir():
            path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))


@pytest.mark.parametrize("golden", ["spoofceleb"], indirect=True)
def test_lines_of_spoofceleb(golden: Path) -> None:
    profile = recognised_as("spoofceleb", golden)
    train = utterances_of(profile, golden)
    assert len(train) == 3
    assert not any("." in name.rpartition("/")[2] for name in train.utterance)
    assert train.bonafide.tolist() == [name.startswith("a00/") for name in train.utterance]
    rows = trials_of(profile, "dev", golden)
    assert len(rows) == 3
    assert set(rows.speaker) == {"a00/id10318/YYsxcZ5saac-00002-006"}  # its model is an utterance
    spoofed = rows.label == 0
    assert [name.partition("/")[0] for name in rows.utterance[spoofed]] == [*rows.attack[spoofed]]
    text = (golden / "sasv_development_evaluation_protocol.csv").read_text()
    for other in ("enrol,test,label\n" + text, text.replace(",", ", ")):
        (golden / "sasv_development_evaluation_protocol.csv").write_text(other)
        assert trials_of(profile, "dev", golden).label.tolist() == rows.label.tolist()


@pytest.mark.parametrize("golden", ["wildspoof"], indirect=True)
def test_lines_of_wildspoof_have_no_labels(golden: Path) -> None:
    profile = recognised_as("wildspoof", golden)
    rows = trials_of(profile, "eval", golden)
    assert set(rows.label.tolist()) == {-1}
    assert set(rows.speaker) & set(enrolled(profile, golden))
    with pytest.raises(InputError, match=r"wildspoof .* has no train and no dev set"):
        load_corpus(golden)


@pytest.mark.parametrize(
    ("golden", "name", "trials"),
    [("voxceleb", "voxceleb", 3), ("asvspoof2021", "asvspoof2021-la", 1),
     ("asvspoof5", "asvspoof5-progress", 5)],
    indirect=["golden"],
)  # fmt: skip
def test_lines_of_corpora_that_only_evaluate(golden: Path, name: str, trials: int) -> None:
    profile = profile_named(name)
    rows = trials_of(profile, "eval", golden)
    assert len(rows) == trials
    if name == "asvspoof5-progress":
        (golden / "ASVspoof5.eval.track_2.enroll.tsv").rename(golden / profile.eval.enrolment[0][0])  # type: ignore[union-attr]
        assert set(rows.speaker) <= set(enrolled(profile, golden))
        assert set(rows.label.tolist()) == {-1}
        return
    if name == "asvspoof2021-la":
        with pytest.raises(InputError, match="lists of asvspoof2021-la and of asvspoof2021-df are"):
            recognised(golden)
        (golden / "DF.CM.trial_metadata.txt").unlink()
    recognised_as(name, golden)


@pytest.mark.parametrize("golden", ["asvspoof2021"], indirect=True)
def test_lines_of_asvspoof2021_df(golden: Path) -> None:
    df, path = profile_named("asvspoof2021-df"), golden / "DF.CM.trial_metadata.txt"
    (row,) = read_table(path).frame.rows(named=True)
    assert (row["utterance"], row["codec"], row["attack"], row["label"], row["subset"]) == (
        "DF_E_2000011", "nocodec", "A14", "spoof", "progress")  # fmt: skip
    assert path.name in df.eval.lists  # type: ignore[union-attr]
    with pytest.raises(InputError, match="subset is never 'eval'"):
        trials_of(df, "eval", golden)  # the one line is of another subset
    path.write_text(path.read_text().replace(" progress ", " eval "))
    (golden / "DF/CM").mkdir(parents=True)
    path.rename(golden / "DF/CM/trial_metadata.txt")  # as the release has it
    (golden / "LA.ASV.trial_metadata.txt").unlink()
    found = recognised_as("asvspoof2021-df", golden)
    assert (found.where, found.costs) == ("subset=eval", "asvspoof5")
    (split,) = corpus_splits(golden)
    assert [one.id for one in split.utterances] == ["DF_E_2000011"]
    assert not split.enrolment


@pytest.mark.parametrize("golden", ["asvspoof2021"], indirect=True)
def test_ids_of_asvspoof2021_are_those_of_the_audio(golden: Path) -> None:
    path = golden / "LA.ASV.trial_metadata.txt"
    rows = trials_of(profile_named("asvspoof2021-la"), "eval", golden)
    assert (rows.speaker.tolist(), rows.utterance.tolist()) == (["LA_0007"], ["LA_E_5013670"])
    assert rows.more["codec"].tolist() == ["alaw"]
    path.write_text("LA2021-" + path.read_text().replace(" LA_E", " LA2021-LA_E"))
    again = trials_of(profile_named("asvspoof2021-la"), "eval", golden)
    assert (again.speaker.tolist(), again.utterance.tolist()) == (["LA_0007"], ["LA_E_5013670"])


def test_evaluate_takes_costs_and_subset_of_a_corpus(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    key, scores = [], []
    for number in range(300):
        word, subset = ("spoof", "bonafide")[number % 2], ("eval", "progress", "hidden")[number % 3]
        attack = "A14" if word == "spoof" else "bonafide"
        key.append(
            f"LA_0023 DF_E_{number} nocodec asvspoof {attack} {word} notrim {subset} v - - - -"
        )
        scores.append(f"DF_E_{number} {rng.normal() + 2 * (number % 2)}")
    for name, lines in (("DF.CM.trial_metadata.txt", key), ("cm.txt", scores)):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    said: list[str] = []
    given = {"key": str(tmp_path / "DF.CM.trial_metadata.txt"), "ci": "none", "tell": said.extend}
    file = f"cm={tmp_path / 'cm.txt'}"
    found = evaluation.evaluate(file, corpus="asvspoof2021-df", **given)  # type: ignore[arg-type]
    assert sum(found.counts.values()) == 100
    assert "corpus asvspoof2021-df: costs asvspoof5, trials of subset=eval" in said
    assert found.options.settings.costs == PRESETS["asvspoof5"]
    other = evaluation.evaluate(
        file, corpus="asvspoof2021-df", where="subset=hidden", costs="equal", **given
    )  # type: ignore[arg-type]
    assert other.options.settings.costs == PRESETS["equal"]
    assert found.metrics != other.metrics
    assert sum(evaluation.evaluate(file, **given).counts.values()) == 300  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"--corpus nowhere is neither a corpus"):
        evaluation.evaluate(file, corpus="nowhere", **given)  # type: ignore[arg-type]


def test_models_of_one_speaker_are_drawn_together(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(0), ["speaker,utterance,label,sasv_score"]
    for number in range(720):
        word = ("spoof", "target", "nontarget")[number % 3]
        model = f"SPK_{number // 3 % 12:08d}_{number % 2:03d}"
        rows.append(f"{model},u{number},{word},{rng.normal() + 2 * (word == 'target')}")
    path = tmp_path / "s.csv"
    path.write_text("\n".join(rows) + "\n")
    found = evaluation.evaluate(str(path), ci="speaker", replicates=39)
    assert found.draws.systems["s"]["sasv_eer"].speakers == 12
    found.write(tmp_path / "m.json")
    (entry,) = json.loads((tmp_path / "m.json").read_text())["systems"].values()
    assert entry["sets"]["trials"]["of"]["speakers"] == 12
    table = read_table(path)
    claimed = [name[:12] for name in table.text("speaker").tolist()]
    trials = Scores(*np.zeros((2, 720)), table.labels(), table.text("speaker"))
    assert known_factors(trials)["speaker"].tolist() == claimed  # what the report draws
    assert len(zoo(table.numbers("sasv_score"), trials.label, trials.speaker)) == 12
    counts, named = Counts(), Counts()
    counts.add(trials.label, trials.speaker, sasv=table.numbers("sasv_score"))
    named.add(trials.label, claimed, sasv=table.numbers("sasv_score"))
    ours, theirs = (one.bootstrap(["sasv_eer"], n=39)["sasv_eer"] for one in (counts, named))
    assert (ours.low, ours.high) == (theirs.low, theirs.high)


def test_costs_of_every_corpus_are_presets() -> None:
    assert {one.costs for one in profiles().values()} <= PRESETS.keys()


@pytest.mark.parametrize("name", TRAINED)
def test_the_twin_in_every_layout_is_the_same_corpus(
    name: str, twin: Corpus, tmp_path: Path
) -> None:
    save_corpus(twin, tmp_path, layout=name)
    recognised_as(name, tmp_path)
    again = load_corpus(tmp_path)
    again.check()
    assert again.name == "twin"
    assert torch.equal(again.train.vectors, twin.train.vectors)
    assert np.array_equal(again.train.utterances.bonafide, twin.train.utterances.bonafide)
    assert np.array_equal(again.train.utterances.speaker, twin.train.utterances.speaker)
    assert torch.equal(again.train.asv_vectors, twin.train.asv_vectors)
    for split in ("dev", "eval"):
        mine, theirs = getattr(again, split), getattr(twin, split)
        assert np.array_equal(mine.trials.label, theirs.trials.label)
        claimed = claimed_speakers(mine.trials.speaker.tolist())  # of enrolment utterances
        assert claimed == theirs.trials.speaker.tolist()
        assert mine.twin == theirs.twin is not None
        assert np.array_equal(np.char.upper(mine.trials.attack), theirs.trials.attack)
        torch.testing.assert_close(mine.asv_scores, theirs.asv_scores)
        of_trial = mine.probe_vectors[mine.probe_of_trial]
        assert torch.equal(of_trial, theirs.probe_vectors[theirs.probe_of_trial])
    assert ("codec" in again.eval.trials.more) == (name == "asvspoof5")
    kept = import_corpus(str(tmp_path), out=str(tmp_path / "imported"))
    stored = load_corpus(tmp_path / "imported")
    assert stored.fingerprint == kept.fingerprint == again.fingerprint
    assert stored.eval.costs == again.eval.costs == profile_named(name).costs


def test_labels_in_a_blind_test_set_are_named(twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout="wildspoof")
    path = tmp_path / "protocols/protocol_test.tsv"
    lines = path.read_text().splitlines()
    for sign, message in (("\t", "3 columns"), (" ", "a name holds a blank")):
        path.write_text("\n".join([*lines[:2], f"{lines[2]}{sign}target", *lines[3:]]) + "\n")
        with pytest.raises(InputError, match=rf"protocol_test.tsv, line 3: {message}"):
            load_evaluation(tmp_path, None, None, profile_named("wildspoof"))


@pytest.mark.parametrize("name", ["wildspoof", "asvspoof5-progress", "asvspoof2021-la"])
def test_a_test_set_alone_is_only_scored(name: str, twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout=name)
    assert not list(tmp_path.rglob("*embd_trn*"))
    found = load_evaluation(tmp_path, None, None, recognised_as(name, tmp_path)).eval
    torch.testing.assert_close(found.asv_scores, twin.eval.asv_scores)
    assert np.array_equal(found.trials.utterance, twin.eval.trials.utterance)
    known = name == "asvspoof2021-la"
    assert np.array_equal(found.trials.label, twin.eval.trials.label) == known
    assert (set(found.trials.label.tolist()) == {-1}) != known


@pytest.mark.parametrize("name", ["asvspoof2021-df", "voxceleb"])
def test_lists_that_cannot_hold_the_twin(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = failure_of(capsys, "simulate", "--corpus", name, "--out", tmp_path / "x")
    assert f"--corpus {name}" in said
    assert not (tmp_path / "x").exists()


OWN = (REPOSITORY / "docs/corpora.md").read_text().partition("```yml\n")[2].partition("```")[0]
"""The example of the docs."""


def test_a_manifest_that_names_enrolment_and_recordings(twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout="manifest")
    lists = tmp_path / "protocols"
    for split in ("dev", "eval"):
        (lists / f"manifest.{split}.enrolment.csv").unlink()
        frame = pl.read_csv(lists / f"manifest.{split}.csv")
        own = pl.format("{}_A", pl.col("speaker")), pl.format("x/{}.wav", pl.col("utterance"))
        frame = frame.with_columns(own[0].alias("enrolment"), own[1].alias("path"))
        frame.rename({"speaker": "model"}).write_csv(lists / f"manifest.{split}.csv")
    torch.testing.assert_close(load_corpus(tmp_path).eval.asv_scores, twin.eval.asv_scores)
    train, dev, _ = corpus_splits(lists)
    assert dev.utterances[0].place == f"x/{dev.utterances[0].id}.wav"
    assert train.utterances[0].place == train.utterances[0].id
    assert set(dev.enrolment) == set(twin.dev.models.ids)
    text = (lists / "manifest.dev.csv").read_text()
    (lists / "manifest.dev.csv").write_text(text.replace("_A,", "_B,", 1))
    with pytest.raises(InputError, match=r"manifest.dev.csv, line \d+: model \w+ is enrolled with"):
        load_corpus(tmp_path)


def test_a_manifest_of_json_lines(twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout="manifest")
    for path in (tmp_path / "protocols").glob("manifest.*.csv"):
        if "enrolment" not in path.name:
            convert(str(path), "json-lines", str(path.with_suffix(".jsonl")))
            path.unlink()
    again = load_corpus(tmp_path)
    assert np.array_equal(again.train.utterances.bonafide, twin.train.utterances.bonafide)
    assert np.array_equal(again.dev.trials.label, twin.dev.trials.label)
    torch.testing.assert_close(again.eval.asv_scores, twin.eval.asv_scores)


def test_a_manifest_of_recordings(twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout="manifest")
    words = np.array(["spoof", "target", "nontarget"])
    for path in (tmp_path / "protocols").glob("manifest.*.enrolment.csv"):
        path.unlink()
    for data in (twin.dev, twin.eval):
        rows = zip(data.trials.speaker, data.trials.utterance, data.trials.label, strict=True)
        lines = [
            json.dumps({"key": f"t{n}", "lab": str(words[k]), "wav": [f"{s}_A", f"{s}_A", str(u)]})
            for n, (s, u, k) in enumerate(rows)
        ]
        (tmp_path / f"protocols/manifest.{data.name}.csv").unlink()
        (tmp_path / f"protocols/manifest.{data.name}.jsonl").write_text("\n".join(lines) + "\n")
    torch.testing.assert_close(load_corpus(tmp_path).eval.asv_scores, twin.eval.asv_scores)


def test_lists_of_other_kinds_are_refused(twin: Corpus, tmp_path: Path) -> None:
    save_corpus(twin, tmp_path, layout="manifest")
    lists = tmp_path / "protocols"
    (lists / "manifest.train.csv").write_text((lists / "manifest.dev.csv").read_text())
    with pytest.raises(InputError, match=r"manifest.train.csv, line 2: label 'target' in a list"):
        load_corpus(tmp_path)
    save_corpus(twin, tmp_path, layout="manifest")
    frame = pl.read_csv(lists / "manifest.eval.csv")
    frame.drop("label").write_csv(lists / "manifest.eval.csv")
    with pytest.raises(InputError, match=r"manifest.eval.csv: the eval trial list has no labels"):
        load_corpus(tmp_path)
    trials = tmp_path / "protocol_test.tsv"
    for text, message in (
        ("s1\tu1\ns1\tu2,u3\n", r"protocol_test.tsv, line 2: .* is it an enrolment list\?"),
        ("s1\tu1\tx\ns1\tu2\tx\n", r"protocol_test.tsv, line 1: 3 columns"),
    ):
        trials.write_text(text)
        with pytest.raises(InputError, match=message):
            read_trials(trials, "trials")
    trials.write_text("model\tutterance\ns1\tu1\n")
    assert read_trials(trials, "trials").utterance.tolist() == ["u1"]  # a header is none


def test_folders_that_do_not_tell_their_corpus(twin: Corpus, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no lists of a corpus: .*asvspoof5.*--data.corp"):
        load_corpus(tmp_path)
    for name in ("asvspoof5", "spoofceleb", "wildspoof"):
        save_corpus(twin, tmp_path / name, layout=name)
    with pytest.raises(InputError, match=r"lists of asvspoof5 and of spoofceleb .*--data.corpus"):
        load_corpus(tmp_path)
    (tmp_path / "asvspoof5/protocols/ASVspoof5.train.tsv").unlink()
    assert recognised(tmp_path) == profile_named("spoofceleb")  # it has most sets


def test_the_twin_of_a_corpus_of_ones_own(twin: Corpus, tmp_path: Path) -> None:
    """The example of the docs: a column that the twin has not, an enrolment list of both sets."""
    (tmp_path / "own.yaml").write_text(OWN)
    save_corpus(twin, tmp_path / "own", layout=str(tmp_path / "own.yaml"))
    assert (tmp_path / "own/protocols/dev.lst").read_text().split("\n")[0].endswith(" target -")
    again = load_corpus(tmp_path / "own", corpus=str(tmp_path / "own.yaml"))
    again.check()
    for split in ("dev", "eval"):
        mine, theirs = getattr(again, split), getattr(twin, split)
        assert np.array_equal(mine.trials.label, theirs.trials.label)
        torch.testing.assert_close(mine.asv_scores, theirs.asv_scores)


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
    (tmp_path / "below.yaml").write_text(OWN.replace("{train.lst", "{lists/train.lst"))
    below = load_corpus(tmp_path, tmp_path, corpus=str(tmp_path / "below.yaml"))
    assert below.fingerprint == again.fingerprint
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


TRIALS, KEY = "ASVspoof5.dev.track_2.trial.tsv", "ASVspoof5.eval.track_1.tsv"
ENROL = "ASVspoof5.dev.track_2.enroll.tsv"
BROKEN = {
    "another list": (TRIALS, lambda t: "LA_1 LA_D_1 - - bonafide\n" + t,
                     r"dev.track_2.trial.tsv, line 1: unknown label 'bonafide'"),
    "details cut": (KEY, lambda t: "\n".join(t.split("\n")[3:]),
                    r"eval.track_1.tsv: [\d,]+ of [\d,]+ trials of .*eval.track_2.trial.tsv.* "
                    r"are not in it.*line \d+"),
    "trial again": (TRIALS, lambda t: t + t.split("\n")[0] + "\n",
                    r"dev.track_2.trial.tsv, line \d+: the trial of line 1 stands again"),
    "no enrolment": (ENROL, lambda t: "\n".join(t.split("\n")[1:]),
                     r"dev.track_2.trial.tsv, line \d+: dev: speaker without enrolment model"),
    "enrolment utterance": (ENROL, lambda t: t.replace("_A\n", "_B\n", 1),
                            r"dev.track_2.enroll.tsv, line 1: no embedding for 1 id.s. of the "
                            r"enrolment of .*asv_embd_dev.*first: \w+_B"),
    "gender": (TRIALS, lambda t: t.replace(" F ", " X ", 1),
               r"dev.track_2.trial.tsv, line \d+: gender is 'X'.*expected F\|M"),
    "attack": (TRIALS, lambda t: t.replace(" A01 ", " B99 ", 1),
               r"dev.track_2.trial.tsv, line \d+: attack is 'B99'"),
    "codec of the details": (KEY, lambda t: t.replace(" C04 ", " X04 ", 1),
                             r"eval.track_1.tsv, line \d+: codec is 'X04'"),
    "attack of training": ("ASVspoof5.train.tsv", lambda t: t.replace(" A01 ", " B99 ", 1),
                           r"ASVspoof5.train.tsv, line \d+: attack is 'B99'"),
    "no embedding of training": ("ASVspoof5.train.tsv", lambda t: t.replace("TW_T_", "TW_X_", 1),
                                 r"ASVspoof5.train.tsv, line 1: .*cm_embd_trn.*no embedding for 1"),
    "no embedding": (TRIALS, lambda t: t.replace("TW_D_", "TW_X_", 1),
                     r"are not in it|dev.track_2.trial.tsv, line 1: .*no embedding for 1 id"),
}  # fmt: skip


ONE_LINE = ("gender", "attack", "codec of the details", "attack of training", "no embedding",
            "no embedding of training")  # fmt: skip


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_lists_are_named(kind: str, twin: Corpus, tmp_path: Path) -> None:
    name, spoil, message = BROKEN[kind]
    save_corpus(twin, tmp_path, layout="asvspoof5")
    path = tmp_path / "protocols" / name
    before = path.read_text()
    path.write_text(spoil(before))
    with pytest.raises(InputError, match=message) as raised:
        load_corpus(tmp_path).check()
    if kind in ONE_LINE:
        pairs = zip(before.split("\n"), path.read_text().split("\n"), strict=True)
        line = next(number for number, (old, new) in enumerate(pairs, 1) if old != new)
        assert re.search(rf"line {line}\b", str(raised.value))


def test_dev_and_eval_of_other_corpora(twin: Corpus, tmp_path: Path) -> None:
    other, root = make_twin(0.02, 5), tmp_path / "a"
    save_corpus(twin, root, layout="asvspoof5")
    save_corpus(other, tmp_path / "b", layout="spoofceleb")
    ways = [str(tmp_path / "b"), f"spoofceleb={tmp_path / 'b'}"]
    ways.append(f"spoofceleb={tmp_path / 'b/embeddings'},{tmp_path / 'b/protocols'}")
    for way in ways:
        found = SASVDataModule(str(root), corpus="asvspoof5", eval_corpus=way).corpus
        assert torch.equal(found.train.vectors, twin.train.vectors)
        torch.testing.assert_close(found.dev.asv_scores, twin.dev.asv_scores)
        torch.testing.assert_close(found.eval.asv_scores, other.eval.asv_scores)
        assert found.eval.name == "eval"
        assert found.eval.corpus is not None
        assert found.dev.corpus is None
    save_corpus(twin, tmp_path / "all/asvspoof5", layout="asvspoof5")
    save_corpus(other, tmp_path / "all/spoofceleb", layout="spoofceleb")
    names = {"corpus": "asvspoof5", "dev_corpus": "spoofceleb"}
    below = SASVDataModule(str(tmp_path / "all"), **names).corpus  # type: ignore[arg-type]
    torch.testing.assert_close(below.dev.asv_scores, other.dev.asv_scores)
    torch.testing.assert_close(below.eval.asv_scores, twin.eval.asv_scores)
    both = SASVDataModule(scale=0.02, dev_corpus=ways[0], eval_corpus=ways[0])
    both.setup("fit")
    assert torch.equal(both.corpus.dev.label, other.dev.label)
    blind = tmp_path / "blind"
    save_corpus(twin, blind, layout="wildspoof")
    with pytest.raises(InputError, match=r"--data.eval_corpus .*wildspoof have no labels"):
        _ = SASVDataModule(str(root), corpus="asvspoof5", eval_corpus=str(blind)).corpus
    with pytest.raises(InputError, match=r"--data.dev_corpus spoofceleb: where is it\?"):
        _ = SASVDataModule(scale=0.02, dev_corpus="spoofceleb").corpus
    with pytest.raises(InputError, match=r"wildspoof .* has no dev set"):
        _ = SASVDataModule(str(root), corpus="asvspoof5", dev_corpus=str(blind)).corpus


def test_the_whole_way(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lists, a training, scores by codec, a submission; another corpus, and what is lost there."""
    monkeypatch.chdir(tmp_path)
    main(["simulate", "--out", "asvspoof5", "--scale", "0.02", "--corpus", "asvspoof5"])
    assert "twin" in capsys.readouterr().out
    for name in ("wildspoof", "manifest"):
        main(["simulate", "--out", name, "--scale", "0.02", "--corpus", name, "--seed", "1"])
    said = failure_of(capsys, "fit", "--data.root", "asvspoof5", "--data.corpus", "spoofceleb")
    assert "train.csv not found below" in said
    said = failure_of(capsys, "fit", "--data.root", "wildspoof")
    assert "wildspoof" in said
    assert "has no train and no dev set" in said
    main(["fit", "--data.root", "asvspoof5", "--trainer.max_epochs=1", "--model.systems=[L3c]"])
    assert "asvspoof5: lists of asvspoof5" in capsys.readouterr().out
    (scores,) = Path("runs").rglob("scores/eval.csv")
    made = json.loads((scores.parents[1] / "metrics.json").read_text())["systems"]["L3c"]["sets"]
    assert [made[split]["of"]["costs"]["name"] for split in ("dev", "eval")] == ["asvspoof5"] * 2
    found = evaluation.evaluate([str(scores)], by="codec,gender,attack_tag", ci="none")
    assert set(found.groups["codec"]["L3c"]) == {"-", "C01", "C04", "C11"}
    tags = found.groups["attack_tag"]["L3c"]  # with all bona fide trials each
    assert {tag for tag, one in tags.items() if one["sasv_eer"] >= 0} == {"AC1", "AC2", "AC3"}
    key = "asvspoof5/protocols/ASVspoof5.eval.track_2.trial.tsv"
    convert(str(scores), "asvspoof5-t2", "sub.tsv", key=key, column="sasv_L3c")
    words = ["--data.root=asvspoof5", "--data.eval_corpus=manifest=manifest"]
    main(["fit", *words, "--trainer.max_epochs=1", "--model.systems=[L3c]"])
    (there,) = (p for p in Path("runs").rglob("scores/eval.csv") if p != scores)
    of = json.loads((there.parents[1] / "metrics.json").read_text())["systems"]["L3c"]["sets"]
    assert [of[split]["of"]["trained_on"] for split in ("dev", "eval")] == ["twin", "twin"]
    assert [(of[s]["of"]["scale"], of[s]["of"]["twin_seed"]) for s in ("dev", "eval")] == [
        (0.02, 0), (0.02, 1)]  # fmt: skip
    assert of["eval"]["of"]["costs"]["name"] == "a-dcf1"  # those of the corpus that is evaluated
    capsys.readouterr()
    main(["transfer", "--fitted", str(scores.parents[1]), "--scores", str(there), "--draws=2"])
    said = capsys.readouterr().out
    assert "Label budget of L3c" in said
    content = json.loads(Path("results/transfer/transfer.json").read_text())["systems"]["L3c"]
    assert content["verdict"].startswith("lost: ")  # another twin has other embeddings
    assert content["lost"]["hter"]["low"] > 0


def enrol_again(folder: Path) -> None:
    """Compare some probes of SpoofCeleb's eval trials with a second recording of their speaker."""
    (path,) = folder.rglob("sasv_evaluation_evaluation_protocol.csv")
    text = path.read_text()
    again = [line.replace("/enrolment.", "/again.") for line in text.splitlines()[:60]]
    path.write_text("\n".join([text.rstrip(), *again]) + "\n")
    (stored,) = folder.rglob("asv_embd_eval.pk")
    store = EmbeddingStore.from_pickle(stored)
    models = [name for name in store.ids if name.endswith("/enrolment")]
    names = [*store.ids, *(name.replace("/enrolment", "/again") for name in models)]
    EmbeddingStore(names, torch.cat([store.vectors, store.select(models)])).to_pickle(stored)


def test_the_whole_way_from_spoofceleb_to_wildspoof(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Training from SpoofCeleb, its trials by attack, WildSpoof's test set as a submission."""
    monkeypatch.chdir(tmp_path)
    for name in ("spoofceleb", "wildspoof"):
        main(["simulate", "--out", name, "--scale", "0.02", "--corpus", name])
    said = capsys.readouterr().out
    assert "540 training utterances, 602 dev and 2,079 eval trials in spoofceleb" in said
    assert "(simulated, scale 0.02): 2,079 eval trials in wildspoof" in said  # it has no others
    enrol_again(Path("spoofceleb"))
    words = ["--data.root", "spoofceleb", "--trainer.max_epochs=1", "--model.systems=[L3c]"]
    main(["fit", *words])
    assert "spoofceleb: lists of spoofceleb" in capsys.readouterr().out
    (scores,) = Path("runs").rglob("scores/eval.csv")
    table = read_table(scores)
    protocol = Path("spoofceleb/protocols/sasv_evaluation_evaluation_protocol.csv").read_text()
    rows = [line.split(",") for line in protocol.splitlines()]
    assert table.text("utterance").tolist() == [test.removesuffix(".flac") for _, test, _ in rows]
    assert table.text("speaker").tolist() == [enrol.removesuffix(".flac") for enrol, _, _ in rows]
    assert [str(TrialClass(code)) for code in table.labels()] == [word for *_, word in rows]
    found = evaluation.evaluate([str(scores)], by="attack", ci="speaker", replicates=39)
    assert set(found.groups["attack"]["L3c"]) == {
        test[:3] for _, test, word in rows if word == "spoof"
    }
    speakers = {enrol.split("/")[1] for enrol, _, _ in rows}
    assert found.draws.systems["L3c"]["sasv_eer"].speakers == len(speakers)
    main(["predict", str(scores.parents[1]), "--data.root", "wildspoof"])
    (blind,) = Path("runs").rglob("trials.csv")
    trials = Path("wildspoof/protocols/protocol_test.tsv")
    convert(str(blind), "wildspoof", "w.tsv", key=str(trials), column="sasv_L3c")
    made = [line.split("\t") for line in Path("w.tsv").read_text().splitlines()]
    assert [one[:2] for one in made] == [line.split() for line in trials.read_text().splitlines()]
    values = read_table(blind).numbers("sasv_L3c")
    assert [float(one[2]) for one in made] == pytest.approx(values.tolist())
