"""Public files and what was published of them: downloads, ``make golden``, the page of claims.

The files come from a server on this machine, with the pins of the real ones. Two cannot be made
again byte for byte (a column of theirs is not in the reference data): theirs are of a stand-in.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import yaml

from experiments.referee import golden
from lightning_sasv.cli import main
from lightning_sasv.data import download, downloads
from lightning_sasv.data.downloads import SOURCES, Source
from lightning_sasv.evaluation import Verdict, referee
from lightning_sasv.files import sha256
from tests.conftest import REPOSITORY
from tests.data.file_server import serving

CLAIMS = REPOSITORY / "experiments/referee/claims.yaml"
PAGE = REPOSITORY / "docs/referee.md"
MADE = ("dev_more_scores.csv", "eval_more_scores.csv")
SLOW = ("J3", "Q3", "Q3cv")
"""Systems whose golden values are tested elsewhere, with four scores."""

Claim = dict[str, Any]


def claims_in(path: Path) -> list[Claim]:
    return list(yaml.safe_load(path.read_text())["claims"])


def files_of(claim: Claim) -> list[Claim]:
    return [*claim["files"], *claim.get("dev", ())]


def published_files(shared: Path) -> dict[str, bytes]:
    """Content of the files of ``sasv2022-more`` and of J-SPAW2's CM, by place."""
    data, found = shared / "data", dict[str, bytes]()
    for name in ("dev_scores_label.csv", "eval_scores.csv"):
        found[f"published/{name}"] = (data / "foreign/a5fusion" / name).read_bytes()
    for split in ("dev", "eval"):
        protocol = f"protocols/ASVspoof2019.LA.asv.{split}.gi.trl.txt"
        found[protocol] = (data / "sasv2022" / protocol).read_bytes()
        trials = pl.read_csv(
            data / f"sasv2022_more/{split}_scores.csv", schema_overrides={"asv_xvector": pl.String}
        )
        bona = pl.col("attack") == "-"
        score = pl.col("asv_xvector")  # as in the source: dev as it is, eval with six decimals
        asv = trials.select(
            pl.when(bona).then(pl.lit("bonafide")).otherwise("attack"),
            "label",
            score if split == "dev" else score.map_elements(_six_decimals, pl.String),
        )
        cm = trials.unique("utterance", maintain_order=True).select(
            "utterance",
            "speaker",
            pl.when(bona).then(pl.lit("A00")).otherwise("attack"),
            pl.when(bona).then(pl.lit("bonafide")).otherwise(pl.lit("spoof")).alias("key"),
            pl.col("cm_ocsoftmax").map_elements(_of_float32, pl.String),
            pl.lit("-").alias("gender"),
        )
        names = (one.format(split=split) for one in downloads.MORE.values())
        for name, frame in zip(names, (asv, cm), strict=True):
            text = frame.write_csv(separator=" ", include_header=False)
            found[f"published/{name}"] = text.encode()
    found["jspaw2/L3_CM.txt"] = (data / "foreign/jspaw/L3_CM.txt").read_bytes()
    return found


def _six_decimals(text: str) -> str:
    return f"{float(text):.6f}"


def _path(source: Source) -> str:
    return source.url("http://x").removeprefix("http://x")


def _of_float32(value: float) -> str:
    return repr(float(np.float32(value)))


@pytest.fixture(scope="module")
def public(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What the two downloads leave, as far as the reference data have their files."""
    folder = tmp_path_factory.mktemp("public")
    content = published_files(shared)
    stand_ins = [place for place in content if "gender" in place]

    def pinned(source: Source) -> Source:
        if source.place not in stand_ins:
            return source
        own = folder / "stand-in"
        own.write_bytes(content[source.place])
        return replace(source, size=own.stat().st_size, sha256=sha256(own))

    sources = {name: tuple(pinned(one) for one in own) for name, own in SOURCES.items()}
    sources["referee"] = tuple(s for s in SOURCES["referee"] if s.place in content)
    every = {s.place: s for own in sources.values() for s in own}
    with (
        pytest.MonkeyPatch.context() as patch,
        serving({_path(every[place]): own for place, own in content.items()}) as server,
    ):
        patch.setenv("no_proxy", "127.0.0.1")
        patch.setenv("SASV_MIRROR", server.address)
        patch.setattr(downloads, "SOURCES", sources)
        download("sasv2022-more", out=str(folder))
        main(["download", "referee", "--out", str(folder)])
        yield folder


def test_four_scores_of_every_trial(public: Path, shared: Path) -> None:
    pins = {one["path"]: one["sha256"] for c in claims_in(golden.GOLDEN) for one in files_of(c)}
    for split, name in zip(("dev", "eval"), MADE, strict=True):
        assert sha256(public / name) == pins[name]
        found = pl.read_csv(public / name)
        wanted = pl.read_csv(shared / f"data/sasv2022_more/{split}_scores.csv")
        assert found.drop("cm_ocsoftmax").equals(wanted.drop("cm_ocsoftmax"))
        difference = (found["cm_ocsoftmax"] - wanted["cm_ocsoftmax"]).abs().max()
        assert isinstance(difference, float)
        assert difference <= 5.1e-10  # nine digits of a float32


def test_what_an_owner_asks_for_is_said(public: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["download", "referee", "--out", str(public)])
    said = " ".join(capsys.readouterr().out.split())
    assert "takamichi-lab/j-spaw2: for non-commercial use only, says its owner" in said


def test_files_of_other_trials_are_not_joined(public: Path, tmp_path: Path) -> None:
    for name in ("published", "protocols"):
        (tmp_path / name).mkdir()
        for file in (public / name).iterdir():
            (tmp_path / name / file.name).symlink_to(file)
    for name in (one.format(split="dev") for one in downloads.MORE.values()):
        file = tmp_path / "published" / name
        lines = file.read_text().splitlines(keepends=True)
        file.unlink()
        file.write_text("".join([*lines[1:], lines[0]] if "asv" in name else lines[1:]))
        with pytest.raises(ValueError, match="its trials are not those of"):
            downloads._tabulate(tmp_path, "dev", downloads.MORE)
        file.unlink()
        file.symlink_to(public / "published" / name)


@pytest.mark.parametrize("path", [CLAIMS, golden.GOLDEN], ids=["claims", "golden"])
def test_claims_are_of_pinned_files(path: Path) -> None:
    pins = {source.place: source.sha256 for own in SOURCES.values() for source in own}
    named = {(one["path"], one["sha256"]) for claim in claims_in(path) for one in files_of(claim)}
    assert {(name, digest) for name, digest in named if name not in MADE} <= pins.items()
    assert all(claim["published"] for claim in claims_in(path))


def test_golden_values_are_those_of_other_tools(shared: Path) -> None:
    two, four = (
        json.loads((shared / f"golden/{name}.json").read_text())["systems"]
        for name in ("systems", "more_scores")
    )
    names = {"eval": "min_adcf_default", "eval, costs asvspoof5": "min_adcf_asvspoof5"}
    seen = 0
    for claim in claims_in(golden.GOLDEN):
        system, metric, own_set = claim["system"], claim["metric"], claim.get("set")
        if own_set is None:
            continue  # whole files; what was measured on them is in words, in foreign.md
        if own_set == "eval, four scores" or system not in two:
            found = four[system if "four" in own_set else f"{system}_pair"]["eval"]
        else:
            found = two[system]["eval"] | two[system]["eval"].get("with_exact_calibration", {})
        value = found[names[own_set] if metric == "min_a_dcf" else metric]
        digits = len(claim["published"].partition(".")[2])
        assert claim["published"] == f"{value:.{digits}f}", claim
        seen += 1
    assert seen == 80


@pytest.fixture(scope="module")
def quick_golden(public: Path) -> Path:
    """Golden values of the files that are here and of systems that are fitted fast."""
    kept = [
        claim
        for claim in claims_in(golden.GOLDEN)
        if all(_is_there(public, one) for one in files_of(claim))
        and not (claim["system"] in SLOW and "four" in claim["set"])
        and claim.get("set") != "eval, costs asvspoof5"
    ]
    assert len(kept) == 59
    path = public / "golden.json"
    path.write_text(json.dumps({"claims": kept}))
    return path


def _is_there(folder: Path, file: Claim) -> bool:
    return (folder / file["path"]).is_file() and sha256(folder / file["path"]) == file["sha256"]


def test_make_golden(public: Path, quick_golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert golden.main(["--data", str(public), "--claims", str(quick_golden)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["system", "metric", "set", "value", "expected", "equal"]
    assert lines[-1].startswith("59 of 59 values are equal")
    assert all(line.endswith("  yes") for line in lines[1:-1])
    assert any(line.split()[:3] == ["L3c", "sasv_eer", "eval"] for line in lines)


def test_make_golden_ends_with_one_where_a_value_differs(
    public: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (right,) = (c for c in claims_in(golden.GOLDEN) if c["system"] == "J-SPAW2 L3, CM")
    path = tmp_path / "golden.json"
    path.write_text(json.dumps({"claims": [right, {**right, "published": "14.7400"}]}))
    assert golden.main(["--data", str(public), "--claims", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].endswith("  yes")
    assert lines[2].endswith("  differs")
    assert lines[-1].startswith("1 of 2 values")
    assert golden.main(["--data", str(tmp_path), "--claims", str(path)]) == 1
    assert "cannot be recomputed (no file jspaw2/L3_CM.txt)" in capsys.readouterr().out
    assert golden.main(["--data", str(tmp_path), "--claims", "nowhere.yaml"]) == 2


def test_make_golden_fetches(public: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a folder the files are fetched to the cache; here from the server of ``public``."""
    (one,) = (c for c in claims_in(golden.GOLDEN) if c["system"] == "J-SPAW2 L3, CM")
    path = tmp_path / "golden.json"
    path.write_text(json.dumps({"claims": [one]}))
    few = {"referee": downloads.SOURCES["referee"]}
    monkeypatch.setattr(golden, "NAMES", tuple(few))
    assert golden.main(["--cache", str(tmp_path / "cache"), "--claims", str(path)]) == 0
    assert (tmp_path / "cache/jspaw2/L3_CM.txt").is_file()


def test_make_golden_takes_a_folder() -> None:
    command = ["make", "--dry-run", "golden", "SCORES=my scores"]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert 'experiments/referee/golden.py --data "my scores"' in done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def verdicts(public: Path) -> list[Verdict]:
    """Verdicts on the claims of the page."""
    return referee(str(CLAIMS), files=str(public), replicates=39)


def _kind(status: str) -> str:
    """A verdict without intervals, which vary with the number of draws."""
    return re.split(r"[,;(]", status)[0].strip()


def test_the_page_is_what_its_files_give(verdicts: list[Verdict]) -> None:
    shown = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.read_text().splitlines()
        if line.startswith("| ") and "`" in line
    ]
    ordered = sorted(verdicts, key=lambda one: one.is_open)  # open ones stand in a table below
    assert len(shown) == len(ordered) == 55
    for row, one in zip(shown, ordered, strict=True):
        system, metric, own_set, published, value, status, note = one.row
        assert row[:4] == [system, metric, own_set, published]
        assert row[6] == " ".join(note.split())
        if not published.startswith("±"):  # half widths vary with the draws
            assert row[4] == value
            assert _kind(row[5]) == _kind(status)
    about = yaml.safe_load(CLAIMS.read_text())["about"].strip()
    assert PAGE.read_text().startswith(f"# Published and recomputed\n\n{about}\n")
    open_ones = [one.claim["system"] for one in verdicts if one.is_open]
    assert len(open_ones) == 6
    assert not {"B1", "L3c", "J-SPAW2 L3, CM"} & set(open_ones)


PARTS = {
    "OC-softmax, sign turned": ("air/ocsoftmax_checkpoint_cm_score.txt", "cm_eer", "asvspoof"),
    "RawGAT-ST": ("rawgat/RawGAT_ST_mul_Scores.txt", "cm_eer", "asvspoof"),
    "J-SPAW2 L3, ASV": ("jspaw/L3_ASV.txt", "asv_eer", "asvspoof"),
}
"""Golden values whose whole files are not here: parts of these files."""


@pytest.mark.parametrize("system", PARTS)
def test_whole_files_are_read_as_their_parts_are(system: str, shared: Path, tmp_path: Path) -> None:
    (claim,) = (c for c in claims_in(golden.GOLDEN) if c["system"] == system)
    name, metric, convention = PARTS[system]
    known = json.loads((shared / "golden/foreign.json").read_text())["values"]
    values = [
        one["value"]
        for one in known
        if one["files"] == [name]
        and one["metric"] == metric
        and one["parameters"].get("convention") == convention
    ]
    part = shared / "data/foreign" / name
    (own,) = {round(100 * value, 6) for value in values if value < 0.5}  # of the right sign
    path = tmp_path / "part.json"
    file = {"path": str(part), "sha256": sha256(part)}
    path.write_text(json.dumps({"claims": [{**claim, "files": [file], "published": f"{own:.4f}"}]}))
    (found,) = referee(str(path))
    assert found.status == "equal"
