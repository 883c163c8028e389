"""``lightning export`` and ``lightning download`` as they are typed."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch

from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, load_corpus, make_twin
from lightning_sasv.data.challenge import save_corpus
from lightning_sasv.data.downloads import SOURCES
from lightning_sasv.decisions import empirical_cost
from lightning_sasv.deploy import load
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import save_system
from lightning_sasv.fusion import build_system
from lightning_sasv.metrics.functional import bootstrap
from lightning_sasv.scores import read_scores, write_scores
from lightning_sasv.trials import Scores
from tests.data.file_server import FileServer, serving
from tests.helpers import failure_of


@pytest.fixture(autouse=True)
def direct(monkeypatch: pytest.MonkeyPatch) -> None:
    """No proxy between the tests and their server, and no mirror from outside."""
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "127.0.0.1")
    monkeypatch.delenv("SASV_MIRROR", raising=False)
    monkeypatch.setattr("time.sleep", lambda seconds: None)


# -- export -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of results as ``fit`` leaves it, with two fitted systems."""
    folder = tmp_path_factory.mktemp("results")
    rng = np.random.default_rng(0)
    label = np.repeat([0, 1, 2], (300, 120, 200))
    asv = np.array([0.4, 0.7, 0.1])[label] + 0.1 * rng.normal(size=len(label))
    cm = np.array([-5.0, 6.0, 5.0])[label] + 2 * rng.normal(size=len(label))
    extra = {}
    for name in ("L3t", "B1"):
        system = build_system(name).fit(asv, cm, label)
        extra[f"sasv_{name}"] = system(asv, cm).sasv.numpy()
        about = {"corpus": "toy", "seed": 1986}
        save_system(folder / "fitted" / f"{name}.safetensors", system, about)
    write_scores(folder / "scores" / "dev.csv", Scores(asv, cm, label, extra=extra))
    return folder


def test_export_writes_a_bundle_that_decides(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bundles" / "door"
    main(["export", "--fitted", str(results), "--system", "L3t", "--costs", "asvspoof5",
          "--out", str(out)])  # fmt: skip
    text = capsys.readouterr().out
    assert "L3t (corpus toy)" in text
    assert "decision: bayes" in text
    mark = re.search(r"bundle fingerprint: ([0-9a-f]{64})", text)
    assert mark is not None
    scorer = load(out, fingerprint=mark[1])
    assert scorer.metadata["about"] == {"corpus": "toy", "seed": 1986}
    assert [scorer(a, c).decision for a, c in ((0.7, 6), (0.4, -6), (0.1, 5))] == [
        "accept", "reject", "reject",
    ]  # fmt: skip


def test_without_a_system_m3d_is_fitted_and_nobody_is_rejected_for_a_better_score(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_scores(results / "scores" / "eval.csv", read_scores(results / "scores" / "dev.csv"))
    main(["export", "--fitted", str(results), "--out", str(tmp_path / "m3d")])
    shown = capsys.readouterr()
    said = " ".join((shown.out + shown.err).split())
    assert "M3d (corpus toy)" in said
    assert "M3d, fitted to" in said
    assert "nobody is rejected for a better score" in said
    dev = read_scores(results / "scores" / "dev.csv")
    size = f"{len(dev):,}"
    for split in ("dev", "eval"):
        assert f"inversions: 0 of {size} {split} trials are rejected, though an accepted" in said
    scorer = load(tmp_path / "m3d")
    own = build_system("M3d").fit(dev.asv, dev.cm, dev.label)
    np.testing.assert_allclose(scorer(dev.asv, dev.cm, bounds=False).score, own(dev.asv, dev.cm)[2])
    main(["export", "--fitted", str(results), "--system", "L3t", "--out", str(tmp_path / "l3t")])
    found = load(tmp_path / "l3t").metadata["inversions"]["dev"]
    accepted = load(tmp_path / "l3t")(dev.asv, dev.cm).accepted
    better = (dev.asv[:, None] >= dev.asv) & (dev.cm[:, None] >= dev.cm)
    assert found["count"] == (~accepted & (better & accepted).any(axis=1)).sum()
    assert found["count"] == found["target"] + found["nontarget"] + found["spoof"]
    assert f"inversions: {found['count']} of {size} dev trials" in capsys.readouterr().out


def missed_share(rejected: np.ndarray, labels: np.ndarray) -> float:
    return float(rejected[labels == 1].mean())


def test_few_speakers_have_no_intervals_on_a_card(results: Path, tmp_path: Path) -> None:
    dev = read_scores(results / "scores" / "dev.csv")
    speaker = np.array([f"s{k % 9}" for k in range(len(dev))])
    named = dataclasses.replace(dev, speaker=speaker, extra={})
    write_scores(results / "scores" / "eval.csv", named)
    main(["export", "--fitted", str(results), "--system", "L3t", "--out", str(tmp_path / "b")])
    text = (tmp_path / "b" / "CARD.md").read_text()
    assert "eval: 9 speakers are too few for intervals." in text
    for name in ("policy a-DCF", "targets rejected", "SASV-EER"):
        row = next(line for line in text.splitlines() if line.startswith(f"| {name} |"))
        assert row.endswith("| – |")


def test_the_card_says_what_was_measured(results: Path, tmp_path: Path) -> None:
    dev = read_scores(results / "scores" / "dev.csv")
    spoof = dev.label == 0
    attack = np.where(spoof, np.where(np.arange(len(dev)) % 2, "A<1>", "A|2"), "-")
    speaker = np.array([f"s{k % 12}" for k in range(len(dev))])
    named = dataclasses.replace(dev, attack=attack, speaker=speaker, extra={})
    write_scores(results / "scores" / "eval.csv", named)
    main(["export", "--fitted", str(results), "--system", "L3t", "--out", str(tmp_path / "b")])
    text, page = ((tmp_path / "b" / name).read_text() for name in ("CARD.md", "card.html"))
    scorer = load(tmp_path / "b")
    verdict = scorer(dev.asv, dev.cm)
    missed = (~verdict.accepted & ~verdict.unsure)[dev.label == 1].mean()
    assert f"| targets rejected | {100 * missed:.2f} % |" in text
    costs = empirical_cost(verdict.accepted, dev.label, scorer.costs, verdict.unsure)
    row = next(line for line in text.splitlines() if line.startswith("| policy a-DCF |"))
    value, low, high = re.search(r"\| ([\d.]+) \| ([\d.]+) to ([\d.]+) \|$", row).groups()  # type: ignore[union-attr]
    assert float(value) == pytest.approx(costs.normalised, abs=5e-5)
    assert float(low) < float(value) < float(high)
    rejected = (~verdict.accepted & ~verdict.unsure).astype(float)
    drawn = bootstrap(missed_share, rejected, dev.label, speaker, 400, method="percentile")
    ends = f"{100 * drawn.low:.2f} to {100 * drawn.high:.2f} %"
    assert (
        f"| targets rejected | {100 * missed:.2f} % | – | {100 * missed:.2f} % | {ends} |" in text
    )
    assert "eval: 12 speakers: intervals of this kind hold the truth in about 4 of 5 cases." in text
    first = (attack == "A<1>") & spoof
    assert f"| A&lt;1> | {first.sum()} | {100 * verdict.accepted[first].mean():.2f} % |" in text
    assert "| A\\|2 | " in text
    for words in ("LLR bounds", "inversions: ", "in about 1 % of trials of speakers like those of",
                  "| c_miss |", "SASV-EER", "mode 0600", "corpus toy", "Apache-2.0", "numpy",
                  "Limits of use"):  # fmt: skip
        assert words in text, words
        assert words.strip("| ") in page
    assert page.count("<svg") == page.count("</svg>") == 2
    assert "<script" not in page
    assert "A<1>" not in page
    (tmp_path / "b" / "CARD.md").write_text(text.replace("Limits of use", "No limits"))
    with pytest.raises(InputError, match=r"CARD\.md does not match its SHA-256"):
        load(tmp_path / "b")


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_export_takes_costs_from_a_file(suffix: str, results: Path, tmp_path: Path) -> None:
    costs = {"c_miss": 1.0, "c_fa_nontarget": 2.0, "c_fa_spoof": 3.0,
             "p_target": 0.5, "p_nontarget": 0.25, "p_spoof": 0.25}  # fmt: skip
    path = tmp_path / f"costs.{suffix}"
    lines = "".join(f"{name}: {value}\n" for name, value in costs.items())
    path.write_text(json.dumps(costs) if suffix == "json" else lines)
    main(["export", "--fitted", str(results), "--system", "B1", "--costs", str(path),
          "--out", str(tmp_path / "b")])  # fmt: skip
    scorer = load(tmp_path / "b")
    assert scorer.costs.as_dict() == costs
    assert scorer.metadata["decision"]["kind"] == "threshold"


def test_mistakes_of_export_are_one_line_and_write_nothing(
    results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(**changes: str) -> str:
        words = {"fitted": str(results), "system": "L3t", "costs": "equal",
                 "out": str(tmp_path / "out" / "b")} | changes  # fmt: skip
        said = failure_of(capsys, "export", *(x for k, v in words.items() for x in (f"--{k}", v)))
        assert said.count("\n") == 1, said
        return said

    assert "no fitted system '../fitted/L3t'" in wrong(system="../fitted/L3t")
    for text, match in (
        ("c_miss: -1\n", "c_miss must be"),
        ("c_mis: 1\n", "c_mis"),
        ("p_spoof: 0.9\n", "must be 1"),
        ("{", "cannot use the costs in"),
        ("- 1\n", "one number per name"),
        ("", "one number per name"),
        ("c_miss: no\n", "got False for c_miss"),
        ("c_miss: [1]\n", "got [1] for c_miss"),
    ):
        (tmp_path / "costs").write_text(text)
        assert match in wrong(costs=str(tmp_path / "costs"))
    scores = read_scores(results / "scores" / "dev.csv")
    write_scores(tmp_path / "other.csv", dataclasses.replace(scores, cm=scores.cm + 0.5))
    assert "was not scored by this fit of L3t" in wrong(dev=str(tmp_path / "other.csv"))
    keep = scores.label != 2
    two = Scores(scores.asv[keep], scores.cm[keep], scores.label[keep])
    write_scores(tmp_path / "two.csv", two)
    assert "have no nontarget" in wrong(dev=str(tmp_path / "two.csv"))
    assert not (tmp_path / "out").exists()
    assert "is there already" in wrong(out=str(tmp_path))


# -- download ---------------------------------------------------------------------------------


def published(scores: Scores, labels: bool) -> bytes:
    """The published file that scores come from: no ids, and labels as floats if at all."""
    columns = [scores.asv.tolist(), scores.cm.tolist()]
    columns += [scores.label.astype(float).tolist()] if labels else []
    header = ["asv_score,cm_score,sasv_label" if labels else "asv_score,cm_score"]
    rows = (",".join(map(repr, row)) for row in zip(*columns, strict=True))
    return "".join(f"{line}\n" for line in [*header, *rows]).encode()


def url_path(name: str, number: int) -> str:
    return SOURCES[name][number].url("http://x").removeprefix("http://x")


def pinned(
    monkeypatch: pytest.MonkeyPatch, contents: Mapping[str, Sequence[bytes]]
) -> dict[str, bytes]:
    """Contents under their real addresses, with their own sizes and hashes pinned."""
    files = {}
    for name, bodies in contents.items():
        pins = []
        for number, (source, body) in enumerate(zip(SOURCES[name], bodies, strict=True)):
            files[url_path(name, number)] = body
            digest = hashlib.sha256(body).hexdigest()
            pins.append(dataclasses.replace(source, size=len(body), sha256=digest))
        monkeypatch.setitem(SOURCES, name, tuple(pins))
    return files


def test_real_scores_protocols_and_weights_have_their_pins(
    shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The files as published, byte by byte: those pinned in the source table, unchanged."""
    data = shared / "data"
    real = {
        split: read_scores(data / "sasv2022" / f"{split}_scores.csv") for split in ("dev", "eval")
    }
    files = {url_path("sasv2022-scores", 0): published(real["dev"], True)}
    files |= {url_path("sasv2022-scores", 1): published(real["eval"], False)}
    for name, folder in (("sasv2022-protocols", data / "sasv2022" / "protocols"),
                         ("aasist-weights", data / "weights")):  # fmt: skip
        for number, source in enumerate(SOURCES[name]):
            files[url_path(name, number)] = (folder / Path(source.place).name).read_bytes()
    out = str(tmp_path / "sasv2022")
    with serving(files) as server:
        mirror = ["--mirror", server.address]
        for _ in range(2):
            main(["download", "sasv2022-scores", "--out", out, *mirror])
        assert len(server.seen) == 4
        main(["download", "sasv2022-protocols", "--out", out, *mirror])
        assert len(server.seen) == 7
        main(["download", "aasist-weights", "--out", str(tmp_path / "w"), *mirror])
    text = capsys.readouterr().out
    assert "dev_scores.csv: 29,548 trials" in text
    assert "eval_scores.csv: 102,579 trials" in text
    assert f"next: lightning download sasv2022-embeddings --out {out}" in text
    for split, scores in real.items():
        mine = read_scores(tmp_path / "sasv2022" / f"{split}_scores.csv")
        for column, values in scores.columns().items():
            assert np.array_equal(mine.columns()[column], values), column
    assert {path.name for path in (tmp_path / "w").iterdir()} == {"AASIST-L.pth", "AASIST.pth"}


@pytest.fixture(scope="module")
def small() -> Corpus:
    return make_twin(0.01)


@pytest.fixture
def corpus_server(
    small: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[FileServer]:
    """A small simulated corpus under the real addresses."""
    folder = save_corpus(small, tmp_path / "origin", pickles=True)
    contents = {}
    for name in ("sasv2022-protocols", "sasv2022-embeddings"):
        paths = [folder / source.place for source in SOURCES[name]]
        contents[name] = [p.read_bytes() if p.exists() else p.name.encode() for p in paths]
    with serving(pinned(monkeypatch, contents)) as server:
        yield server


def test_protocols_and_embeddings_are_a_corpus(
    corpus_server: FileServer,
    small: Corpus,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SASV_MIRROR", corpus_server.address)
    first = url_path("sasv2022-embeddings", 0)
    assert first.startswith("/media/sasv-challenge/SASVC2022_Baseline/1545f2bb")
    assert first.endswith("/embeddings/asv_embd_dev.pk")
    corpus_server.faults[first] = [("cut", 40_000)]
    main(["download", "sasv2022-embeddings"])
    assert "next: lightning download sasv2022-protocols --out sasv2022" in capsys.readouterr().out
    main(["download", "sasv2022-protocols"])
    assert "next: lightning table --data.root sasv2022" in capsys.readouterr().out
    found = load_corpus("sasv2022")
    assert found.name == "SASV 2022"
    for mine, theirs in ((found.dev, small.dev), (found.eval, small.eval)):
        assert torch.equal(mine.label, theirs.label)
        assert torch.allclose(mine.asv_scores, theirs.asv_scores, atol=1e-6)
        assert torch.equal(mine.probe_vectors, theirs.probe_vectors)
    assert torch.equal(found.train.vectors, small.train.vectors)
    count = len(corpus_server.seen)
    main(["download", "sasv2022-embeddings"])
    assert len(corpus_server.seen) == count
    assert not list(Path("sasv2022").rglob("tmp*"))


def test_own_score_files_are_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    protocol = b"s1 u1 bonafide target\ns1 u2 A07 spoof\ns1 u3 bonafide nontarget\n"
    scores = Scores(np.array([0.5, 0.25, 0.0]), np.array([1.0, 2.0, 3.0]), np.array([1, 0, 2]))
    contents = {
        "sasv2022-scores": [published(scores, True), published(scores, False)],
        "sasv2022-protocols": [protocol] * 5,
    }
    (tmp_path / "dev_scores.csv").write_text("my own\n")
    with serving(pinned(monkeypatch, contents)) as server:
        words = ["download", "sasv2022-scores", "--out", str(tmp_path), "--mirror", server.address]
        assert "dev_scores.csv is there already and differs" in failure_of(capsys, *words)
        assert (tmp_path / "dev_scores.csv").read_text() == "my own\n"
        (tmp_path / "dev_scores.csv").unlink()
        main(words)
        main(words)
    assert read_scores(tmp_path / "eval_scores.csv").utterance.tolist() == ["u1", "u2", "u3"]  # type: ignore[union-attr]
    assert not list(tmp_path.glob(".*"))
