"""Files as people have them: each gives the right number, or is asked about; none is misread."""

from __future__ import annotations

import bz2
import gzip
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from lightning_sasv import evaluation
from lightning_sasv.errors import InputError
from lightning_sasv.limits import Limit
from lightning_sasv.metrics.functional import eer
from lightning_sasv.scores import convert, read_table, stream, text
from tests.scores.samples import toy_scores

SCORES = toy_scores(90)
LABEL, ASV, CM = SCORES.label, SCORES.asv.round(6), SCORES.cm.round(6)
SASV = (ASV + CM / 20).round(6)
S, U, A = SCORES.speaker, [f"LA_E_{n}" for n in SCORES.utterance], SCORES.attack
WORDS = np.array(["spoof", "target", "nontarget"])[LABEL]
BONA = np.where(LABEL == 0, "spoof", "bonafide")
VERIFIED = LABEL != 0
ONE = (LABEL == 1).astype(int)
FILL = ["-"] * len(U)
RIGHT = {
    "cm": eer(CM[LABEL != 0], CM[LABEL == 0])[0],
    "asv": eer(ASV[LABEL == 1], ASV[LABEL == 2])[0],
    "sasv": eer(SASV[LABEL == 1], SASV[LABEL != 1])[0],
}


def rows(*columns: Any, sep: str = " ", head: str = "", end: str = "\n") -> str:
    """Lines of some columns."""
    body = [sep.join(map(str, row)) for row in zip(*columns, strict=True)]
    return end.join([*([head] if head else []), *body, ""])


def asv_rows(*columns: Any, **look: str) -> str:
    """Lines of the trials that are no spoofs."""
    return rows(*(np.asarray(column)[VERIFIED] for column in columns), **look)


def array(*values: np.ndarray, **named: np.ndarray) -> bytes:
    """A file of numpy."""
    stream = io.BytesIO()
    np.save(stream, *values) if values else np.savez(stream, **named)
    return stream.getvalue()


CM_KEY = rows(S, U, FILL, A, BONA)
KEY = rows(S, U, A, WORDS)
CM_FILE = rows(U, A, BONA, CM)
PATHS = [f"/Data/x/{u}.FLAC" for u in U]
PAIRS = [f"{s}*{u}" for s, u in zip(S, U, strict=True)]
COMMAS = [str(c).replace(".", ",") for c in CM]
P_SPOOF = 1 / (1 + np.exp(CM / 4))

READ: dict[str, tuple[str, str | bytes, dict[str, Any]]] = {
    "commas, no header": ("cm", rows(U, CM, BONA, sep=","), {}),
    "comma and blank": ("cm", rows(U, BONA, CM, sep=", "), {}),
    "comma, blank, header": ("cm", rows(BONA, U, CM, sep=", ", head="label, utt, score"), {}),
    "tabs, header": ("cm", rows(U, CM, BONA, sep="\t", head="utt\tscore\tkey"), {}),
    "header in capitals": ("cm", rows(U, CM, BONA, sep=",", head="FileName,Score,LABEL"), {}),
    "labels in capitals": ("cm", rows(U, A, np.char.upper(BONA), CM), {}),
    "other words": ("cm", rows(U, np.where(VERIFIED, "Genuine", "FAKE"), CM), {}),
    "booleans": ("cm", rows(U, VERIFIED, CM, sep=",", head="utt,is_bonafide,score"), {}),
    "CR LF": ("cm", rows(U, A, BONA, CM, end="\r\n"), {}),
    "CR": ("cm", rows(U, A, BONA, CM, end="\r"), {}),
    "byte-order mark": ("cm", b"\xef\xbb\xbf" + CM_FILE.encode(), {}),
    "UTF-16": ("cm", CM_FILE.encode("utf-16"), {}),
    "no last line end, blank lines": ("cm", CM_FILE.replace("\n", " \n\n").rstrip(), {}),
    "last column empty": ("cm", rows(U, BONA, CM, [""] * len(U), sep=","), {}),
    "comment before": ("cm", "# system X, run 3\n" + CM_FILE, {}),
    "comment within": ("cm", CM_FILE[:900] + CM_FILE[900:].replace("\n", "\n# half\n", 1), {}),
    "header after a hash": ("cm", rows(U, CM, BONA, head="# utt score label"), {}),
    "powers of ten": ("cm", rows(U, A, BONA, [f"{c:.9e}" for c in CM]), {}),
    "whole numbers": ("cm", rows(U, A, BONA, (CM * 1e6).round().astype(int)), {}),
    "quotes": ("cm", rows([f'"{u}"' for u in U], [f'"{b}"' for b in BONA], CM, sep=","), {}),
    "index of pandas": ("cm", rows(range(90), U, BONA, CM, sep=",", head=",utt,label,score"), {}),
    "further columns": ("cm", rows(U, S, BONA, CM, A, sep=",", head="utt,who,key,score,what"), {}),
    "two probabilities": ("cm", rows(U, BONA, P_SPOOF, 1 - P_SPOOF, sep=",",
                                     head="utt,label,p_spoof,p_bonafide"), {}),
    "paths": ("cm", rows(PATHS, CM), {"key": CM_KEY, "ids": "name"}),
    "key in another order": ("cm", rows(U, CM), {"key": "\n".join(CM_KEY.split("\n")[::-1])}),
    "scores alone": ("cm", rows(CM), {"key": CM_KEY}),
    "numbers as labels": ("cm", rows(U, VERIFIED.astype(int), CM, sep=",", head="utt,label,score"),
                          {"labels": "bona=1,spoof=0"}),
    "Kaldi": ("asv", asv_rows(S, U, ASV), {"key": asv_rows(S, U, WORDS)}),
    "WeSpeaker with commas": ("asv", asv_rows(S, U, ASV, WORDS, sep=","), {}),
    "VoxCeleb list": ("asv", asv_rows(ONE, S, U, ASV), {}),
    "SpeechBrain with tabs": ("asv", asv_rows(S, U, ONE, ASV, sep="\t"), {}),
    "ESPnet with commas": ("asv", asv_rows(PAIRS, ASV, ONE, sep=","), {}),
    "NIST": ("asv", asv_rows(S, U, FILL, ASV, head="modelid segmentid side LLR"),
             {"key": asv_rows(S, U, FILL, WORDS, sep="\t",
                              head="modelid\tsegmentid\tside\ttargettype")}),
    "other words of verification": ("asv", asv_rows(S, U, np.where(ONE, "same", "different"), ASV,
                                                    sep=",", head="enroll,test,label,score"), {}),
    "a-DCF in capitals": ("sasv", rows(S, U, SASV, np.char.upper(WORDS)), {}),
    "SASV 2022 with tabs": ("sasv", rows(S, U, A, WORDS, SASV, sep="\t"), {}),
    "WildSpoof": ("sasv", rows(S, U, SASV, sep="\t"), {"key": KEY}),
    "track 2 with two tabs": ("sasv", rows(S, U, FILL, FILL, SASV, sep="\t\t", head="\t\t".join(
        ("spk", "filename", "cm-score", "asv-score", "sasv-score"))), {"key": KEY}),
    "gzip": ("cm", gzip.compress(CM_FILE.encode()), {}),
    "gzip in parts, CR LF, key": ("cm", b"".join(
        gzip.compress(f"{u} {c}\r\n".encode()) for u, c in zip(U, CM, strict=True)),
        {"key": gzip.compress(CM_KEY.encode())}),
    "gzip, UTF-16": ("cm", gzip.compress(CM_FILE.encode("utf-16")), {}),
    "npy": ("cm", array(CM[:, None]), {"key": CM_KEY}),
    "npy of whole numbers": ("cm", array((CM * 1e6).round().astype(int)), {"key": CM_KEY}),
    "npy of log posteriors": ("cm", array(np.stack([-CM, CM], 1)), {"key": CM_KEY}),
    "npz": ("cm", array(scores=CM, labels=BONA), {}),
}  # fmt: skip

DAMAGED = r"scores: not a readable gzip file \(.+\); write it again"

ASKED: dict[str, tuple[str | bytes, str, dict[str, str]]] = {
    "bzip2": (bz2.compress(CM_FILE.encode()), "compressed by bzip2.* unpack it", {}),
    "gzip twice": (gzip.compress(gzip.compress(b"x")), "compressed by gzip.* unpack it", {}),
    "gzip of nothing": (gzip.compress(b""), "line 1: the file is empty", {}),
    "gzip that was cut": (gzip.compress(CM_FILE.encode())[:-20], DAMAGED, {}),
    "gzip with more behind": (gzip.compress(CM_FILE.encode()) + b"more", DAMAGED, {}),
    "gzip that was altered": (
        gzip.compress(CM_FILE.encode())[:-8] + b"\0" * 8, DAMAGED, {}),
    "JSON": ('{"utt": "a", "score": 1}\n', "this is JSON", {}),
    "JSON of many lines": ('[\n {"utt": "a",\n  "score": 1}\n]\n', "this is JSON", {}),
    "semicolons": (rows(U, BONA, COMMAS, sep=";", head="utt;label;score"), "by semicolons", {}),
    "bars": (rows(U, BONA, CM, sep="|"), "by bars", {}),
    "decisions as scores": (rows(U, BONA, ONE), "--columns 'utterance,label,score'", {}),
    "decimal comma": (rows(U, A, BONA, COMMAS), r"line 1, .*write a decimal point: ", {}),
    "decimal comma, no layout": (rows(S, U, WORDS, COMMAS), "1, .*write a decimal point: ", {}),
    "paths": (rows(PATHS, CM), "90 would match: --ids name", {"key": CM_KEY}),
    "ids in lower case": (rows([u.lower() for u in U], CM), "in lower case 90", {"key": CM_KEY}),
    "missing trials": (rows(U[:-2], CM[:-2]), "no score for 2 of 90.*--allow-mi", {"key": CM_KEY}),
    "repeated ids": (CM_FILE + CM_FILE.split("\n")[0], "line 91: .*--ids none", {}),
    "not a number": (CM_FILE + "LA_E_x - bonafide n/a\n", "line 91, column score: 'n/a'", {}),
    "a short line": (CM_FILE + "LA_E_x bonafide 1.5\n", "line 91: 3 columns where 4", {}),
    "score first": (rows(CM, U), "--columns 'score,utterance'", {"key": CM_KEY}),
    "two scores": (rows(U, -CM, CM, BONA), "--columns 'utterance,-,score,label'", {}),
    "label last": (asv_rows(S, U, ASV, ONE), "--columns 'speaker,utterance,score,label'", {}),
    "numbers as labels": (asv_rows(S, U, ONE, ASV, head="enrol test label score"),
                          "--labels bona=1,spoof=0 or target=1,nontarget=0", {}),
    "other booleans": (rows(U, ~VERIFIED, CM, sep=",", head="utt,is_spoof,score"),
                       "is_spoof may be it: --columns 'utterance,label,score' --labels", {}),
    "score of spoofs": (rows(U, BONA, P_SPOOF, sep=",", head="utt,label,p_spoof"),
                        "p_spoof may be one: --columns 'utterance,label,score'", {}),
    "array with labels": (array(np.stack([CM, ONE], 1)), "a label or a decision", {"key": CM_KEY}),
    "arrays of two lengths": (array(scores=CM, labels=BONA[1:]), "have the same length", {}),
}  # fmt: skip


def evaluated(folder: Path, content: str | bytes, options: dict[str, Any]) -> dict[str, Any]:
    """Metrics of a file."""
    file, key = folder / "scores", folder / "key"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    if "key" in options:
        own = options["key"]
        key.write_bytes(own if isinstance(own, bytes) else f"{own.strip()}\n".encode())
        options = {**options, "key": str(key)}
    (found,) = evaluation.evaluate([str(file)], ci="none", **options).metrics.values()
    return found


@pytest.mark.parametrize("name", READ)
def test_read(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    role, content, options = READ[name]
    found = evaluated(tmp_path, content, options)
    assert found[f"{role}_eer"] == pytest.approx(RIGHT[role], abs=1e-12)
    assert role == "sasv" or "sasv_eer" not in found
    monkeypatch.setattr(stream, "PART", 1500)  # in several parts, as very many trials are
    monkeypatch.setattr(stream, "ROWS", 40)
    counted = evaluated(tmp_path, content, {**options, "exact": False})
    assert counted[f"{role}_eer"].value == found[f"{role}_eer"]
    assert counted.keys() <= found.keys()


@pytest.mark.parametrize("name", ASKED)
def test_asked(name: str, tmp_path: Path) -> None:
    content, message, options = ASKED[name]
    for exact in (True, False) if name.startswith("gzip") else (True,):
        with pytest.raises(InputError, match=message) as raised:
            evaluated(tmp_path, content, {**options, "exact": exact})
        assert "\n" not in str(raised.value)


def test_gzip_is_named_and_counted_like_the_plain_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    names = ("utt", "label", "score")
    objects = (dict(zip(names, row, strict=True)) for row in zip(U, BONA, CM, strict=True))
    lines = "\n".join(map(json.dumps, objects))
    for name, content in (("eval.txt.gz", CM_FILE), ("b.jsonl.gz", lines)):
        Path(name).write_bytes(gzip.compress(content.encode()))
    found = evaluation.evaluate(["eval.txt.gz", "b.jsonl.gz"], ci="none")
    assert list(found.metrics) == ["eval", "b"]
    assert found.metrics["eval"]["cm_eer"] == found.metrics["b"]["cm_eer"] == RIGHT["cm"]
    assert stream.rows_of("eval.txt.gz") == len(U)
    assert convert("eval.txt.gz", to="csv").name == "eval.csv.csv"
    many = rows(range(100_000), np.random.default_rng(1).normal(size=100_000))
    Path("many.gz").write_bytes(gzip.compress(many.encode(), 1))
    assert stream.rows_of("many.gz") == pytest.approx(100_000, rel=0.1)
    Path("endless.gz").write_bytes(gzip.compress(b"U1 - spoof 0.5\n" * 10_000))
    monkeypatch.setattr(text, "UNPACKED_BYTES", Limit(50_000, "bytes"))
    for read in (read_table, lambda path: list(stream.scan(path))):
        with pytest.raises(InputError, match=r"endless\.gz: more than 50,000 bytes, .* --limits"):
            read("endless.gz")


def test_ratios_of_r_by_class(tmp_path: Path) -> None:
    said: list[str] = []
    for name, code in (("target", 1), ("nontarget", 2)):
        lines = [f'"{n}",{x}\n' for n, x in enumerate(np.exp(5 * ASV[code == LABEL]), 1)]
        (tmp_path / name).write_text("".join(['"","x"\n', *lines]))
    files = [f"target={tmp_path / 'target'},nontarget={tmp_path / 'nontarget'}"]
    for options in ({}, {"columns": "-,score"}):
        (found,) = evaluation.evaluate(
            files, ci="none", tell=said.extend, **options
        ).metrics.values()
        assert found["asv_eer"] == pytest.approx(RIGHT["asv"])
    assert any("it may be a likelihood ratio: --log asv" in line for line in said)
    with (tmp_path / "nontarget").open("a") as file:
        file.write('"no","-1"\n')
    with pytest.raises(InputError, match=r"nontarget, line 32: asv_score is -1\.0; --log asv"):
        evaluation.evaluate(files, ci="none", log="asv")
    swapped = files[0].replace("nontarget=", "bonafide=")
    with pytest.raises(InputError, match=r"nontarget, line 2: label 'bonafide' beside 'target'"):
        evaluation.evaluate(swapped, ci="none")
