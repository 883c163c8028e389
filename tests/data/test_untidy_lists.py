"""Lists as they circulate: the true lines, untidy, with headers, endings or other white space."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lightning_sasv.data.challenge import enrolment_lists, trials_of, utterances_of
from lightning_sasv.data.profiles import Profile, profile_named
from lightning_sasv.data.protocols import read_enrolment, read_trials, read_trials_to_score
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.lists import corpus_splits
from tests.data.test_profiles import copy_golden

CORPORA = {
    "sasv2022": "asvspoof2019_la",
    "asvspoof5": "asvspoof5",
    "asvspoof5-progress": "asvspoof5",
    "spoofceleb": "spoofceleb",
    "wildspoof": "wildspoof",
    "voxceleb": "voxceleb",
    "asvspoof2021-la": "asvspoof2021",
    "asvspoof2021-df": "asvspoof2021",
}
"""Corpora, and the folders of their lines."""
WORD = re.compile(r"\b(bonafide|spoof|target|nontarget)\b")
ID = re.compile(r"\b((?:[TDE]|LA_[TDE]|DF_E|UTT)_A?\d{5,})(?=[\s,]|$)", re.M)
TEN = "SPEAKER_ID FLAC_FILE_NAME GENDER CODEC CODEC_Q CODEC_SEED ATTACK_TAG ATTACK_LABEL KEY TMP"
FIVE = "TARGET_SPEAKER FLAC_FILE_NAME TARGET_GENDER ATTACK_LABEL ASV_KEY"
HEADERS = {
    "ASVspoof5.train.tsv": TEN,
    "ASVspoof5.eval.track_1.tsv": TEN,
    "ASVspoof5.dev.track_2.trial.tsv": FIVE,
    "ASVspoof5.eval.track_2.trial.tsv": FIVE,
    "ASVspoof5.eval.track_2.enroll.tsv": "TARGET_SPEAKER FLAC_FILE_NAMES",
    "ASVspoof5.track_2.progress.trial.txt": "speaker utterance",
    "ASVspoof5.track_2.progress.enroll.txt": "speaker utterances",
    "ASVspoof2019.LA.asv.dev.gi.trl.txt": "speaker utterance attack key",
    "ASVspoof2019.LA.asv.eval.male.trn.txt": "speaker enrolment",
    "ASVspoof2019.LA.cm.train.trn.txt": "speaker_id filename env attack key",
    "sasv_development_evaluation_protocol.csv": "enrolment file,test file,label",
    "protocol_test.tsv": "model\tutterance",
    "protocol_enroll.tsv": "model\tenrolment",
    "veri_test2.txt": "label enrol test",
    "LA.ASV.trial_metadata.txt": "spk utt codec trans attack key trim subset",
}


def lines(change: Callable[[str], str]) -> Callable[[str, str], str]:
    """A change of each line."""
    return lambda text, _: "".join(change(line) + "\n" for line in text.splitlines())


def _ended(text: str, _: str) -> str:
    """Ids with the ending of their recordings; what a coded one was made of is no id."""
    return "\n".join(
        ID.sub(r"\1.flac", one, count=0 if "," in one else 1) for one in text.split("\n")
    )


VARIANTS: dict[str, Callable[[str, str], str]] = {
    "windows line ends": lambda text, _: text.replace("\n", "\r\n"),
    "byte-order mark": lambda text, _: "\ufeff" + text,
    "no last line end": lambda text, _: text.rstrip("\n"),
    "blank lines": lambda text, _: text.replace("\n", "\n\n"),
    "blank at the end": lines(lambda line: line + " "),
    "blank before": lines(lambda line: " " + line),
    "tab at the end": lambda text, _: text if "flac," in text else text.replace("\n", "\t\n"),
    "two blanks": lambda text, _: text.replace(" ", "  "),
    "tabs": lambda text, _: text.replace(" ", "\t"),
    "two tabs": lambda text, _: text.replace(" ", "\t\t").replace("\t", "\t\t"),
    "blanks": lambda text, _: text.replace("\t", " "),
    "blank after commas": lambda text, _: text.replace(",", ", "),
    "upper case": lambda text, _: WORD.sub(lambda found: found[0].upper(), text),
    "hyphen": lambda text, _: text.replace("bonafide", "bona-fide"),
    "endings": _ended,
    "no endings": lambda text, _: text.replace(".flac", "").replace(".wav", ""),
    "from the folder": lambda text, _: re.sub(r"(?m)(?<![/\w])(?=a\d\d/)", "./", text),
    "comment": lambda text, _: "# made today\n" + text,
    "header": lambda text, name: f"{HEADERS[name]}\n{text}" if name in HEADERS else text,
    "heading in capitals": lambda text, _: text.replace("file,speaker,", "File,Speaker,"),
}  # fmt: skip


def content(profile: Profile, folder: Path) -> dict[str, Any]:
    """Everything that is read of the lists of a corpus."""
    found: dict[str, Any] = {}
    if profile.train is not None:
        found["train"] = [column.tolist() for column in utterances_of(profile, folder).columns()]
    for split, files in profile.sets():
        if split == "train" or not any(any(folder.rglob(name)) for name in files.lists):
            continue
        rows = trials_of(profile, split, folder)
        found[split] = [column.tolist() for column in rows.columns()], sorted(rows.more)
        lists = enrolment_lists(files, folder, present=True)
        found[f"{split} enrolment"] = read_enrolment(*lists, plain=profile.plain)
    splits = corpus_splits(folder, profile.name)
    return found | {"extract": [(one.name, one.utterances, one.enrolment) for one in splits]}


@pytest.mark.parametrize("corpus", CORPORA)
def test_untidy_lists_say_the_same(corpus: str, shared: Path, tmp_path: Path) -> None:
    profile = profile_named(corpus)
    copy_golden(shared, CORPORA[corpus], tmp_path)
    (tmp_path / "ASVspoof5.dev.track_1.tsv").unlink(missing_ok=True)  # of other lines
    if corpus == "asvspoof5-progress":
        enrolment = tmp_path / "ASVspoof5.eval.track_2.enroll.tsv"
        enrolment.rename(tmp_path / "ASVspoof5.track_2.progress.enroll.txt")
    if corpus == "asvspoof2021-df":
        keys = tmp_path / "DF.CM.trial_metadata.txt"
        keys.write_text(keys.read_text().replace(" progress ", " eval "))
    true = {path: path.read_text() for path in tmp_path.iterdir()}
    wanted, tried = content(profile, tmp_path), 0
    for variant, change in VARIANTS.items():
        others = {path: change(text, path.name) for path, text in true.items()}
        tried += others != true
        for path, text in others.items() if others != true else ():
            path.write_text(text, newline="")
        assert content(profile, tmp_path) == wanted, variant
    assert tried > 9


ENROLMENT = {
    "as written": 'model,enrolment\nm1,"e1,e2"\nm2,e3\n',
    "other order": 'enrolment,model\n"e1,e2",m1\ne3,m2\n',
    "further columns": 'model,gender,enrolment\nm1,f,"e1,e2"\nm2,m,e3\n',
    "other names": 'speaker,utterances\nm1,"e1,e2"\nm2,e3\n',
    "no header": 'm1,"e1,e2"\nm2,e3\n',
    "a blank": 'model,enrolment\nm1,"e1, e2"\nm2, e3\n',
    "a list": "m1 e1,e2\nm2 e3\n",
}


@pytest.mark.parametrize("kind", ENROLMENT)
def test_enrolment_is_read_by_its_headings(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "manifest.dev.enrolment.csv"
    path.write_text(ENROLMENT[kind])
    assert read_enrolment(path) == {"m1": ["e1", "e2"], "m2": ["e3"]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("m1,e1\nm1,e2\n", "line 2: the speaker of line 1 stands again: m1; remove .* one line"),
        ("LA_1 LA_D_4 bonafide target\n", r"line 1: a name holds a blank; has this line more col"),
        ("model,enrolment\nm1\n", "line 2: a name is empty; expected a speaker and its utt"),
    ],
)
def test_lists_that_enrol_nobody(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "enrolment.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=message):
        read_enrolment(path)


OWN = [
    {"model": "m1", "utterance": "u1", "label": "target", "enrolment": "e1,e2"},
    {"model": "m1", "utterance": "u2", "label": "nontarget", "enrolment": "e1,e2"},
    {"model": "m2", "utterance": "u3", "label": "spoof", "enrolment": "e3"},
]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize("order", [1, -1])
def test_headings_of_a_manifest_count_and_not_their_order(
    kind: str, order: int, tmp_path: Path
) -> None:
    """The claimed model, what enrols it, who is heard, and the recording beside its id."""
    heard = [{"speaker": f"s{n}", "path": f"x/{n}.wav"} for n in range(3)]
    rows = [dict(list((a | b).items())[::order]) for a, b in zip(OWN, heard, strict=True)]
    path = tmp_path / f"manifest.dev.{kind}"
    if kind == "jsonl":
        path = path.with_suffix(".jsonl.gz")
        path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in rows).encode()))
    else:
        frame = pl.DataFrame(rows)
        frame.write_parquet(path) if kind == "parquet" else frame.write_csv(path)
    found = read_trials(path, {"jsonl": "json-lines"}.get(kind, kind))
    assert found.speaker.tolist() == ["m1", "m1", "m2"]
    assert found.utterance.tolist() == ["u1", "u2", "u3"]
    assert found.enrolment() == {"m1": ["e1", "e2"], "m2": ["e3"]}
    assert found.more["test_speaker"].tolist() == ["s0", "s1", "s2"]
    assert found.path is not None
    assert found.path.tolist() == ["x/0.wav", "x/1.wav", "x/2.wav"]
    scored = read_trials_to_score(path)
    assert scored.utterance.tolist() == ["u1", "u2", "u3"]
    assert scored.label.tolist() == found.label.tolist() == [1, 2, 0]


def test_utterances_that_enrol_in_the_place_of_a_model(tmp_path: Path) -> None:
    rows = [("u1", "e1", "target"), ("u2", "e1", "nontarget"), ("u3", "e3", "spoof")]
    names = ("utterance", "enrolment", "label")
    objects = [json.dumps(dict(zip(names, row, strict=True))) for row in rows]
    lists = {"csv": ["# made today", *map(",".join, [names, *rows])], "json-lines": objects}
    for layout, written in lists.items():
        text, path = "\n".join(written) + "\n", tmp_path / layout
        for content in (text.encode(), gzip.compress(text.encode())):
            path.write_bytes(content)
            assert read_trials(path, layout).enrolment() == {"e1": ["e1"], "e3": ["e3"]}


SIX = "ref_speaker\tref_utts\ttest_speaker\ttest_utt\tlabel\tnum_ref\n"
REFERENCES = SIX + "s1\te1,e2\ts1\tu1\ttarget\t2\ns1\te1,e2\ts2\tu2\tnontarget\t2\n"
REFERENCES += "s2\te3\ts2\tu3\tspoof\t1\n"


@pytest.mark.parametrize(
    ("columns", "models"),
    [
        ("spk enrolment test_speaker utt label num_ref", ["s1", "s1", "s2"]),
        ("- enrolment test_speaker utt label -", ["e1,e2", "e1,e2", "e3"]),
    ],
)
def test_trials_with_their_references(columns: str, models: list[str], tmp_path: Path) -> None:
    """Six columns of other toolkits, described in a corpus of one's own."""
    path = tmp_path / "trials.tsv"
    for text in (REFERENCES, REFERENCES.removeprefix(SIX)):
        path.write_text(text)
        found = read_trials(path, columns)
        assert found.speaker.tolist() == models
        assert found.utterance.tolist() == ["u1", "u2", "u3"]
        assert [*found.enrolment().values()] == [["e1", "e2"], ["e3"]]
        assert found.more["test_speaker"].tolist() == ["s1", "s2", "s2"]
