"""A checkpoint knows what it is: the commands use what it was made with, or say otherwise."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from jsonargparse import Namespace

from lightning_sasv.cli import main
from lightning_sasv.commands.from_checkpoint import Origin
from lightning_sasv.commands.runs import place_results
from lightning_sasv.commands.train import base_config
from lightning_sasv.data import make_twin
from lightning_sasv.data.challenge import save_corpus
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, sha256
from lightning_sasv.results import write_metrics
from lightning_sasv.scores import read_scores, read_table
from tests.helpers import failure_of

CONFIGS = base_config().parent
CPU = "--trainer.accelerator=cpu"
TWIN = ["--data.scale=0.01", "--data.twin_seed=3", "--seed_everything=7"]
MADE = ["--model.hidden_dims=[8,4]", "--model.lr=0.01", "--trainer.max_epochs=2", CPU]
RUN = Path("runs/L3c/version_0")
BEST, LAST = RUN / "checkpoints/best.ckpt", RUN / "checkpoints/last.ckpt"

Capture = pytest.CaptureFixture[str]


def fit(folder: Path, *args: str) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main(["fit", "--config", str(CONFIGS / "L3c.yaml"), *MADE, *args])
    return folder


@pytest.fixture(scope="module")
def on_twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a training on a small twin took place."""
    return fit(tmp_path_factory.mktemp("twin"), *TWIN)


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a training on a corpus on disk took place; its name is a made-up one."""
    folder = tmp_path_factory.mktemp("disk")
    save_corpus(make_twin(0.01, 5), folder / "data")
    (folder / "data" / "corpus.json").unlink()
    return fit(folder, "--data.root=data", "--data.name=mine")


@pytest.fixture
def here(on_twin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The first of these folders, of one's own to play with, as the current folder."""
    shutil.copytree(on_twin, tmp_path / "a")
    monkeypatch.chdir(tmp_path / "a")
    return tmp_path / "a"


@pytest.fixture
def there(on_disk: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The second one."""
    shutil.copytree(on_disk, tmp_path / "b")
    monkeypatch.chdir(tmp_path / "b")
    return tmp_path / "b"


def scores(folder: Path, split: str = "eval") -> Any:
    return read_scores(folder / "scores" / f"{split}.csv").extra["sasv_L3c"]


def written(capture: Capture) -> Path:
    """Where the last command says that it wrote."""
    return Path(capture.readouterr().out.rpartition("Written to ")[2].strip())


# What it was made with


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_a_checkpoint_alone_is_enough(command: str, here: Path, capsys: Capture) -> None:
    main([command, "--ckpt_path", str(BEST)])
    folder, split = written(capsys), "dev" if command == "validate" else "eval"
    assert (scores(folder, split) == scores(RUN, split)).all()
    assert [path.name for path in Path("runs").iterdir()] == ["L3c"]  # not of another system
    assert folder.is_relative_to(RUN)


def test_the_configuration_of_a_test_says_what_was_used(here: Path) -> None:
    main(["test", "--ckpt_path", str(LAST)])
    (file,) = RUN.glob("tests/*/config.yaml")
    used = yaml.safe_load(file.read_text())
    assert used["data"]["scale"] == 0.01
    assert used["data"]["twin_seed"] == 3
    assert used["seed_everything"] == 7
    assert used["model"]["hidden_dims"] == [8, 4]
    assert used["ckpt_path"] == str(LAST)


def test_a_run_folder_means_its_best(here: Path, capsys: Capture) -> None:
    main(["test", str(RUN)])
    assert written(capsys) == RUN
    main(["test", "--ckpt_path", str(RUN)])
    assert written(capsys) == RUN
    for one in read_json(RUN / "metrics.json")["systems"]["L3c"]["sets"].values():
        assert one["of"]["checkpoint"]["sha256"] == sha256(BEST)
    main(["test", "--ckpt_path", str(LAST)])
    (one,) = read_json(written(capsys) / "metrics.json")["systems"]["L3c"]["sets"].values()
    named = {"file": "last.ckpt", "epoch": 1, "sha256": sha256(LAST)}
    assert one["of"]["checkpoint"].items() >= named.items()


@pytest.mark.parametrize("words", [[str(RUN)], ["--config", str(CONFIGS / "L3c.yaml")]])
def test_best_and_last_are_found(words: list[str], here: Path, capsys: Capture) -> None:
    for name in ("best", "last"):
        main(["validate", *words, "--ckpt_path", name])
        assert written(capsys).is_relative_to(RUN)
        assert len(list(RUN.glob(f"tests/{name}-*"))) == 1


def test_the_data_are_those_of_the_checkpoint(there: Path, capsys: Capture) -> None:
    main(["test", str(RUN)])
    folder = written(capsys)
    assert (scores(folder) == scores(RUN)).all()
    assert '"mine"' in (folder / "metrics.json").read_text()


def test_the_data_are_found_from_another_folder(
    there: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """The root was given relative to the folder of the training."""
    content = torch.load(BEST, weights_only=True)  # as if trained where it lies now
    content["made_with"]["corpus"]["root"] = str(there / "data")
    torch.save(content, BEST)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    main(["test", "--ckpt_path", str(there / BEST)])
    done = capsys.readouterr()
    assert done.err == ""
    assert (
        scores(Path(done.out.rpartition("Written to ")[2].strip())) == scores(there / RUN)
    ).all()


def test_data_that_have_moved_are_asked_for(there: Path, on_disk: Path, capsys: Capture) -> None:
    (there / "data").rename(there / "moved")
    content = torch.load(BEST, weights_only=True)
    content["made_with"]["corpus"]["root"] = "/nowhere/data"
    torch.save(content, BEST)
    said = failure_of(capsys, "test", RUN)
    assert "were at data, which is not there; give --data.root" in said
    main(["test", str(RUN), "--data.root=moved", "--data.name=mine"])
    assert "the same corpus as the checkpoint's" in capsys.readouterr().err


def test_other_data_only_on_request(there: Path, capsys: Capture) -> None:
    content = torch.load(BEST, weights_only=True)
    content["made_with"]["corpus"]["root"] = str(there / "data")
    torch.save(content, BEST)
    save_corpus(make_twin(0.01, 6), there / "data")
    (there / "data" / "corpus.json").unlink()
    assert "are not those that" in failure_of(capsys, "test", RUN)
    before = (RUN / "metrics.json").read_bytes()
    main(["test", str(RUN), "--data.root=data", "--data.name=mine"])
    done = capsys.readouterr()
    assert "other data than the checkpoint's: mine (corpus fingerprint " in done.err
    assert (RUN / "metrics.json").read_bytes() == before
    main(["test", str(RUN), "--data.root=null", "--data.scale=0.01"])
    assert "other data than the checkpoint's: twin (corpus fingerprint " in capsys.readouterr().err
    assert len(list(RUN.glob("tests/*"))) == 2  # each on its own


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--model.systems=[B1]", "systems ['L3c'], not ['B1']; --refit true fits"),
        ("--model.lr=0.5", "lr 0.01, not 0.5"),
        ("--model.hidden_dims=[4]", "hidden_dims [8, 4], not [4]"),
        ("--seed_everything=8", "seed_everything [7], not 8"),
    ],
)
def test_other_settings_are_refused(option: str, says: str, here: Path, capsys: Capture) -> None:
    before = sorted(here.rglob("*"))
    assert says in failure_of(capsys, "test", RUN, option)
    assert sorted(here.rglob("*")) == before


def test_other_systems_are_fitted_on_dev_on_request(here: Path, capsys: Capture) -> None:
    main(["test", str(RUN), "--model.systems=[B1c,L3c]", "--refit"])
    folder = written(capsys)
    assert folder.parent == RUN / "tests"
    mine, theirs = (read_scores(f / "scores/eval.csv") for f in (folder, RUN))
    assert (mine.extra["sasv_L3c"] == theirs.extra["sasv_L3c"]).all()  # the same head and dev
    assert (mine.cm == theirs.cm).all()
    assert set(mine.extra) == {"sasv_B1c", "sasv_L3c"}
    assert (folder / "scores" / "dev.csv").is_file()


def test_what_was_not_recorded_is_said(here: Path, capsys: Capture) -> None:
    content = torch.load(BEST, weights_only=True)
    del content["made_with"]
    torch.save(content, BEST)
    main(["test", str(RUN)])
    assert "best.ckpt does not record its corpus: used is twin" in capsys.readouterr().err
    del content["datamodule_hyper_parameters"]
    torch.save(content, BEST)
    assert "does not say which data it was made with" in failure_of(capsys, "test", RUN)


HOSTILE: dict[str, Any] = {
    "no mapping": [1],
    "an unknown part": {"x": 1},
    "a class": {"corpus": {"root": {"class_path": "os.system"}}},
    "a number for a place": {"corpus": {"root": 3}},
    "a tensor": {"trainer": {"precision": torch.ones(1)}},
    "a long list": {"changed": [3] * 1000},
}


def test_records_are_plain(here: Path, capsys: Capture) -> None:
    content = torch.load(LAST, weights_only=True)
    for record in HOSTILE.values():
        torch.save(content | {"made_with": record}, LAST)
        with pytest.raises(InputError, match="is damaged"):
            Origin.read(LAST)
    for command in ("fit", "test"):
        assert "is damaged" in failure_of(capsys, command, "--ckpt_path", LAST)


# None


@pytest.mark.parametrize("command", ["validate", "test", "predict"])
def test_without_a_checkpoint_nothing_is_scored(command: str, here: Path, capsys: Capture) -> None:
    before = sorted(here.rglob("*"))
    for words in ([], ["--config", str(CONFIGS / "L3c.yaml")]):
        assert "give --ckpt_path or a run folder" in failure_of(capsys, command, *words)
    for name in ("best", "last"):
        said = failure_of(capsys, command, "--ckpt_path", name, "--model.systems=[Post]")
        assert f"--ckpt_path {name}: there is none in runs/Post; give the file" in said
    assert "holds no checkpoints/best.ckpt" in failure_of(capsys, command, "runs")
    assert sorted(here.rglob("*")) == before


def test_a_training_without_a_last_epoch_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    small = ["--data.scale=0.01", "--trainer.max_epochs=1", "--evaluate=false", CPU]
    main(["fit", "--config", str(CONFIGS / "L3c.yaml"), "--ckpt_path=last", *small])
    assert "there is none in runs/L3c; the training begins anew" in capsys.readouterr().err
    assert LAST.is_file()


# Whose results


def test_results_of_another_checkpoint_have_a_folder_of_their_own(
    here: Path, capsys: Capture
) -> None:
    whole = {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file()}
    shutil.copy(LAST, RUN / "checkpoints" / "epoch=1.ckpt")
    main(["test", "--ckpt_path", str(RUN / "checkpoints" / "epoch=1.ckpt")])
    main(["validate", "--ckpt_path", str(LAST)])
    digest = sha256(LAST)[:8]
    for name, split in (("epoch=1", "eval"), ("last", "dev")):
        folder = RUN / "tests" / f"{name}-{digest}"
        assert [path.stem for path in (folder / "scores").iterdir()] == [split]
        assert (folder / "metrics.json").is_file()
    assert all(path.read_bytes() == content for path, content in whole.items())


def test_the_configuration_of_a_run_leads_no_test_into_it(here: Path, capsys: Capture) -> None:
    """That of a resumed one names the folder of the run and its last checkpoint."""
    main(["fit", str(RUN), "--trainer.max_epochs=3", "--evaluate=false"])
    before = {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file()}
    main(["test", "--config", str(RUN / "config.yaml")])
    assert written(capsys).name == f"last-{sha256(LAST)[:8]}"
    assert all(path.read_bytes() == content for path, content in before.items())


def test_results_of_the_best_join_those_of_the_same_file_alone(here: Path) -> None:
    def place(stage: str, checkpoint: Path, **asked: Any) -> str | None:
        trainer = Namespace(logger=False, default_root_dir=None)
        config = Namespace(trainer=trainer, model=Namespace(systems=["L3c"]))
        return place_results(stage, config, checkpoint, asked)

    digest, file = sha256(BEST), RUN / "metrics.json"
    for known, own in ((digest, True), ("0" * 64, False), (None, False)):
        of = {"of": {"checkpoint": {"sha256": known}}}
        write_metrics(file, {"L3c": {"sets": {"dev": of}}})
        tests = str(RUN / "tests" / f"best-{digest[:8]}")
        assert place("test", BEST) == (str(RUN) if own else tests)
        assert place("predict", BEST) == tests
        assert str(place("test", BEST, systems=["B1"])).startswith(f"{tests}-")
        assert place("test", LAST) == str(RUN / "tests" / f"last-{sha256(LAST)[:8]}")
    file.unlink()
    assert place("test", BEST) == str(RUN)


def test_a_part_is_not_put_in_place_of_the_whole(here: Path, capsys: Capture) -> None:
    before = {path: path.read_bytes() for path in RUN.rglob("*") if path.is_file()}
    main(["test", str(RUN), "--trainer.limit_test_batches=2", "--data.score_batch_size=100"])
    folder = written(capsys)
    assert folder.parent == RUN / "tests"
    assert folder.name.startswith(f"best-{sha256(BEST)[:8]}-")
    assert all(path.read_bytes() == content for path, content in before.items())


def test_links_in_a_received_run_are_not_followed(here: Path, capsys: Capture) -> None:
    (here / "elsewhere").mkdir()
    (RUN / "tests").symlink_to(here / "elsewhere")
    assert "is a link that leads out of" in failure_of(capsys, "test", "--ckpt_path", LAST)
    assert not any((here / "elsewhere").iterdir())


# New trials


@pytest.fixture
def rows(there: Path) -> list[list[str]]:
    """Every third eval trial; the folder ``new`` holds embeddings of eval and nothing else."""
    shutil.copytree(there / "data", there / "new")
    shutil.rmtree(there / "new" / "protocols")
    for name in ("cm_embd_trn", "asv_embd_dev", "cm_embd_dev", "spk_model_dev"):
        (there / "new" / "embeddings" / f"{name}.safetensors").unlink()
    (list_,) = (there / "data").rglob("*.asv.eval.gi.trl.txt")
    lines = list_.read_text().splitlines()
    return [line.split() for line in lines[::3]]


@pytest.mark.parametrize("columns", [(0, 1), (0, 1, 3), (0, 1, 2, 3)])
def test_a_checkpoint_scores_a_new_list(
    columns: tuple[int, ...], rows: list[list[str]], capsys: Capture
) -> None:
    Path("list.txt").write_text("".join(f"{' '.join(row[c] for c in columns)}\n" for row in rows))
    main(["predict", "--ckpt_path", str(BEST), "--data.root=new", "--data.trials=list.txt"])
    done = capsys.readouterr()
    assert f"scores {len(rows):,} trials of list.txt" in done.err
    folder = Path(done.out.rpartition("Written to ")[2].strip())
    (file,) = (folder / "scores").iterdir()
    table, whole = read_table(file), read_table(RUN / "scores" / "eval.csv")
    assert file.name == "trials.csv"
    assert ("label" in table) == (3 in columns)
    assert ("attack" in table) == (2 in columns)
    assert table.frame["utterance"].to_list() == [row[1] for row in rows]
    for name in ("asv_score", "cm_score", "sasv_L3c"):
        assert (table.numbers(name) == whole.numbers(name)[::3]).all()


def test_a_list_is_for_predict_and_needs_its_embeddings(
    rows: list[list[str]], capsys: Capture
) -> None:
    given = ["--ckpt_path", BEST, "--data.trials=list.txt"]
    Path("list.txt").write_text("NOBODY U1\n")
    assert "is for predict alone" in failure_of(capsys, "test", *given, "--data.root=new")
    said = failure_of(capsys, "predict", *given, "--data.root=new")
    assert "spk_model below new: no embedding for 1 id(s), first: NOBODY" in said
    Path("list.txt").write_text("only_one_column\n")
    assert "list.txt" in failure_of(capsys, "predict", *given, "--data.root=new")
