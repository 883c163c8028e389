"""Corpora on disk: round trips, real files, and what is said of incomplete ones."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, EmbeddingStore, load_corpus, make_twin
from lightning_sasv.data.challenge import load_trials, save_corpus
from lightning_sasv.data.embeddings import FORMAT
from lightning_sasv.data.protocols import (
    MARKER,
    TRAIN_PROTOCOL,
    TRIAL_PROTOCOL,
)
from lightning_sasv.errors import InputError
from tests.helpers import failure_of


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


def write_enrolment(folder: Path, dev: dict[str, list[str]]) -> None:
    """Replace the speaker models of dev by enrolment lists, half of the speakers in each."""
    (folder / "embeddings" / "spk_model_dev.safetensors").unlink()
    for number, gender in enumerate(("female", "male")):
        rows = [f"{speaker} {','.join(used)}\n" for speaker, used in list(dev.items())[number::2]]
        path = folder / "protocols" / f"ASVspoof2019.LA.asv.dev.{gender}.trn.txt"
        path.write_text("".join(rows))


def test_speaker_models_are_the_means_of_the_enrolment(twin: Corpus, folder: Path) -> None:
    probes = twin.dev.asv.ids
    lists = {name: probes[5 * n : 5 * n + 3] for n, name in enumerate(twin.dev.models.ids)}
    write_enrolment(folder, lists)
    dev = load_corpus(folder).dev
    assert sorted(dev.models.ids) == sorted(lists)
    for name, used in lists.items():
        mean = torch.stack([dev.asv.select([one])[0] for one in used]).mean(dim=0)
        torch.testing.assert_close(dev.models.select([name])[0], mean)


def test_speaker_missing_from_the_enrolment_lists(twin: Corpus, folder: Path) -> None:
    absent, *others = twin.dev.models.ids
    write_enrolment(folder, dict.fromkeys(others, twin.dev.asv.ids[:2]))
    with pytest.raises(InputError, match=rf"dev: speaker without enrolment model.*{absent}"):
        load_corpus(folder).check()


def test_an_imported_corpus_can_be_renamed_a_simulated_one_never(folder: Path) -> None:
    assert load_corpus(folder, name="SASV 2022").name == "twin"
    (folder / MARKER).write_text("[]")
    with pytest.raises(InputError, match="is damaged"):
        load_corpus(folder)
    (folder / MARKER).write_text('{"name": "field trial"}')
    assert load_corpus(folder).name == "field trial"
    assert load_corpus(folder, name="SASV 2022").name == "SASV 2022"
    (folder / MARKER).unlink()
    assert load_corpus(folder).name == "corpus"  # the folder's


@pytest.mark.parametrize("pickles", [False, True])
def test_a_newer_corpus_takes_the_place_of_an_older_one(folder: Path, pickles: bool) -> None:
    """Also where it has embeddings of the other kind: the older ones would be read first."""
    other = make_twin(0.02, seed=5)
    save_corpus(other, folder, pickles=not pickles)
    save_corpus(other, folder, pickles=pickles)
    assert load_corpus(folder).fingerprint == other.fingerprint
    assert len(list((folder / "embeddings").iterdir())) == 8


def test_a_half_written_twin_is_already_marked(
    twin: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise InputError("No space left")

    monkeypatch.setattr(EmbeddingStore, "save", full)
    with pytest.raises(InputError, match="No space left"):
        save_corpus(twin, tmp_path)
    assert json.loads((tmp_path / MARKER).read_text())["name"] == "twin"


def rewritten(change: Callable[[list[str]], list[str]]) -> Callable[[Path], object]:
    """Change the rows of a list."""
    return lambda path: path.write_text("".join(change(path.read_text().splitlines(True))))


def selected(rows: slice, columns: slice) -> Callable[[Path], object]:
    """Keep some of the embeddings, or some of their dimensions."""

    def change(path: Path) -> None:
        store = EmbeddingStore.load(path)
        EmbeddingStore(store.ids[rows], store.vectors[rows, columns]).save(path)

    return change


def with_nan(path: Path) -> None:
    tensors = load_file(path)
    tensors["vectors"][7, 0] = float("nan")
    save_file(tensors, path, {"format": FORMAT})


STORE, TRAIN = "embeddings/cm_embd_eval.safetensors", f"protocols/{TRAIN_PROTOCOL}"
TRIALS, ALL = "protocols/" + TRIAL_PROTOCOL.format(split="dev"), slice(None)
BROKEN = {
    "missing": (STORE, selected(slice(12, None), ALL),
                ["cm_embd_eval", "no embedding for 12 id(s)", "extract them"]),
    "nan": (STORE, with_nan, ["cm_embd_eval", "1 embedding(s) hold NaN"]),
    "truncated": (STORE, lambda path: path.write_bytes(path.read_bytes()[:-1]),
                  ["cm_embd_eval", "damaged"]),
    "class": (TRIALS, rewritten(lambda rows: [r for r in rows if not r.endswith("nontarget\n")]),
              ["dev trial list has no nontarget trial"]),
    "label": (TRIALS,
              rewritten(lambda r: [*r[:4], r[4].replace("target", "genuine"), *r[5:]]),
              ["asv.dev.gi.trl.txt, line 5", "'genuine'", "target, nontarget, spoof"]),
    "repeated": (TRIALS, rewritten(lambda rows: [*rows, rows[2]]),
                 ["asv.dev.gi.trl.txt", "the trial of line 3 stands again"]),
    "enrolment": (TRIALS, rewritten(
                      lambda rows: [r.replace(rows[0].split()[0] + " ", "NOBODY ") for r in rows]
                  ),
                  ["speaker without enrolment", "NOBODY"]),
    "twice": (TRIALS, lambda path: shutil.copy(path, path.parent.parent / path.name),
              ["more than once", "keep one"]),
    "absent": (TRIALS, Path.unlink, ["ASVspoof2019.LA.asv.dev.gi.trl.txt not found"]),
    "size": (STORE, selected(ALL, slice(100)),
             ["cm_embd_eval", "100 dimensions where 160 were expected"]),
    "unsampled": (TRAIN, rewritten(lambda rows: [r for r in rows if r.endswith("bonafide\n")]),
                  ["training protocol needs", "spoofed speech"]),
}  # fmt: skip
"""Faults of a corpus: the file, what is done to it, and what has to be said of it."""


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_corpus_is_reported_before_any_work(
    folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place, spoil, words = BROKEN[kind]
    spoil(folder / place)
    monkeypatch.chdir(folder)
    commands = [["fit", "--data.root", str(folder), "--trainer.max_epochs=1"]]
    if kind not in ("size", "unsampled"):  # which matter to a training alone
        commands.append(["import", str(folder), "--out", "out"])
    for args in commands:
        message = failure_of(capsys, *args)
        assert 1 <= len(message.splitlines()) <= 2, message
        assert all(word in message for word in words), message
    assert sorted(p.name for p in folder.iterdir() if p.is_dir()) == ["embeddings", "protocols"]


def test_commands_that_write_and_import_a_corpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["simulate", "--out", str(tmp_path / "sim"), "--scale", "0.02"])
    assert "simulated" in capsys.readouterr().out
    assert sorted(p.suffix for p in (tmp_path / "sim" / "embeddings").iterdir()) == [".pk"] * 8
    main(["import", str(tmp_path / "sim"), "--out", str(tmp_path / "store")])
    assert re.search(r"twin: \d+ training utterances, \d+ dev and", capsys.readouterr().out)
    one, two = load_corpus(tmp_path / "sim"), load_corpus(tmp_path / "store")
    assert one.fingerprint == two.fingerprint
    assert json.loads((tmp_path / "store" / MARKER).read_text())["name"] == "twin"


def test_speakers_of_new_trials_are_enrolled_from_lists(
    twin: Corpus, folder: Path, tmp_path: Path
) -> None:
    names = twin.eval.asv.ids[:3]
    (tmp_path / "trials.txt").write_text(f"NEW {names[2]}\nNEW {names[0]}\n")
    (tmp_path / "enrol.txt").write_text(f"NEW {names[0]},{names[1]}\n")
    found = load_trials(folder, tmp_path / "trials.txt", str(tmp_path / "enrol.txt")).eval
    model = twin.eval.asv.select(names[:2]).mean(0)
    probes = twin.eval.asv.select([names[2], names[0]])
    expected = torch.nn.functional.cosine_similarity(probes, model[None])
    torch.testing.assert_close(found.asv_scores, expected)
    assert found.label.tolist() == [-1, -1]
    (tmp_path / "trials.txt").write_text(f"OTHER {names[2]}\n")
    with pytest.raises(InputError, match=r"enrol\.txt: no enrolment of OTHER"):
        load_trials(folder, tmp_path / "trials.txt", str(tmp_path / "enrol.txt"))


def test_an_utterance_of_new_trials_has_one_embedding(
    twin: Corpus, folder: Path, tmp_path: Path
) -> None:
    speaker, probe = twin.eval.trials.speaker[0], twin.eval.trials.utterance[0]
    (tmp_path / "trials.txt").write_text(f"{speaker} {probe}\n")
    store = EmbeddingStore([probe], twin.eval.cm.select([probe]))
    store.save(folder / "cm_embd_more.safetensors")
    assert load_trials(folder, tmp_path / "trials.txt").eval.probes == [probe]
    EmbeddingStore([probe], store.vectors + 1).save(folder / "cm_embd_more.safetensors")
    with pytest.raises(InputError, match="has two embeddings below"):
        load_trials(folder, tmp_path / "trials.txt")
    for path in folder.rglob("spk_model*"):
        path.unlink()
    with pytest.raises(InputError, match=r"no embeddings spk_model.*give --data\.enrolment"):
        load_trials(folder, tmp_path / "trials.txt")


def test_many_pairs_are_compared_trial_by_trial(
    twin: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lightning_sasv.data.corpus.MANY_PAIRS", 10)
    monkeypatch.setattr("lightning_sasv.data.corpus.BLOCK", 100)
    torch.testing.assert_close(replace(twin.eval).asv_scores, twin.eval.asv_scores)
