"""Corpora on disk: round trips, real files, and what is said of incomplete ones."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, EmbeddingStore, load_corpus
from lightning_sasv.data.challenge import MARKER, save_corpus
from lightning_sasv.data.embeddings import FORMAT
from lightning_sasv.errors import InputError


@pytest.fixture
def folder(twin: Corpus, tmp_path: Path) -> Path:
    """The small twin on disk."""
    return save_corpus(twin, tmp_path / "corpus")


@pytest.mark.parametrize("pickles", [False, True])
def test_round_trip(twin: Corpus, tmp_path: Path, pickles: bool) -> None:
    again = load_corpus(save_corpus(twin, tmp_path, pickles))
    assert again.fingerprint == twin.fingerprint
    assert again.name == "twin"


def test_another_corpus_has_another_fingerprint(twin: Corpus, folder: Path) -> None:
    path = folder / "embeddings" / "cm_embd_eval.safetensors"
    store = EmbeddingStore.load(path)
    vectors = store.vectors.clone()
    vectors[3, 5] += 1e-3
    EmbeddingStore(store.ids, vectors).save(path)
    assert load_corpus(folder).fingerprint != twin.fingerprint


def test_real_embeddings_with_enrolment_lists(shared: Path, tmp_path: Path) -> None:
    """Without speaker models the enrolment lists are used; the pickled models are their means."""
    source, lists = shared / "data/mini_la_embeddings", shared / "data/mini_la/LA"
    corpus = load_corpus(source, lists, "mini LA")
    corpus.check()
    assert (len(corpus.dev.trials), len(corpus.eval.trials)) == (196, 396)
    assert corpus.name == "mini LA"
    for path in source.glob("*.pk"):
        if not path.name.startswith("spk_model"):
            shutil.copy(path, tmp_path)
    with pytest.raises(InputError, match=r"no embedding for \d+ id"):
        load_corpus(tmp_path, lists)  # these pickles lack the enrolment utterances


def test_a_simulated_corpus_never_takes_a_real_name(folder: Path) -> None:
    assert load_corpus(folder, name="SASV 2022").name == "twin"
    (folder / MARKER).write_text("[]")
    with pytest.raises(InputError, match="is damaged"):
        load_corpus(folder)


def spoil_embeddings(path: Path, kind: str) -> None:
    """Break the eval embeddings of a corpus."""
    store = EmbeddingStore.load(path)
    if kind == "missing":
        EmbeddingStore(store.ids[12:], store.vectors[12:]).save(path)
    elif kind == "size":
        EmbeddingStore(store.ids, store.vectors[:, :100]).save(path)
    elif kind == "nan":
        tensors = load_file(path)
        tensors["vectors"][7, 0] = float("nan")
        save_file(tensors, path, {"format": FORMAT})
    elif kind == "truncated":
        path.write_bytes(path.read_bytes()[:-1])


def spoil_trials(path: Path, kind: str) -> None:
    """Break the dev trial list of a corpus."""
    text = path.read_text()
    if kind == "class":
        rows = [row for row in text.splitlines() if not row.endswith("nontarget")]
        path.write_text("\n".join(rows) + "\n")
    elif kind == "enrolment":
        path.write_text(text.replace(text.split()[0] + " ", "NOBODY "))
    elif kind == "twice":
        shutil.copy(path, path.parent.parent / path.name)
    elif kind == "absent":
        path.unlink()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("missing", ["cm_embd_eval", "no embedding for 12 id(s)", "extract them"]),
        ("size", ["cm_embd_eval", "100 dimensions where 160 were expected"]),
        ("nan", ["cm_embd_eval", "1 embedding(s) hold NaN"]),
        ("class", ["dev trial list has no nontarget trial"]),
        ("enrolment", ["speaker without enrolment", "NOBODY"]),
        ("twice", ["more than once", "keep one"]),
        ("truncated", ["cm_embd_eval", "damaged"]),
        ("absent", ["ASVspoof2019.LA.asv.dev.gi.trl.txt not found"]),
    ],
)
def test_incomplete_corpus_is_reported_before_any_work(
    folder: Path,
    kind: str,
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spoil_embeddings(folder / "embeddings" / "cm_embd_eval.safetensors", kind)
    spoil_trials(folder / "protocols" / "ASVspoof2019.LA.asv.dev.gi.trl.txt", kind)
    monkeypatch.chdir(folder)
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--data.root", str(folder), "--trainer.max_epochs", "1"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message
    assert not list(folder.glob("runs/**/*.ckpt"))
    assert not list(folder.glob("runs/**/scores"))


def test_commands_that_write_and_import_a_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["simulate", "--out", str(tmp_path / "sim"), "--scale", "0.02"])
    assert "simulated" in capsys.readouterr().out
    assert sorted(p.suffix for p in (tmp_path / "sim" / "embeddings").iterdir()) == [".pk"] * 7
    main(["import", str(tmp_path / "sim"), "--out", str(tmp_path / "store")])
    one, two = load_corpus(tmp_path / "sim"), load_corpus(tmp_path / "store")
    assert one.fingerprint == two.fingerprint
    assert json.loads((tmp_path / "store" / MARKER).read_text())["name"] == "twin"
