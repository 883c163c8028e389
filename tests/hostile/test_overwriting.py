"""Nothing of another kind, or of other inputs, is replaced; a refused command changes nothing."""

from __future__ import annotations

import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.lists import AudioFolder, Split
from lightning_sasv.frontends.manifest import Manifest
from lightning_sasv.frontends.stores import extract_split
from lightning_sasv.locks import lock
from lightning_sasv.places import stamp
from lightning_sasv.program import FROM_FILE
from lightning_sasv.report.curves import Material
from lightning_sasv.report.drawing import check_figures, write_figures
from lightning_sasv.report.figures import describe
from lightning_sasv.results import read_results
from lightning_sasv.scores import write_scores
from tests.helpers import content
from tests.hostile.conftest import Attack, tree
from tests.scores.samples import toy_scores

CONFIG = f"--config={base_config().parent / 'B1.yaml'}"
SMALL = [CONFIG, "--data.scale=0.01", "--trainer.max_epochs=1"]
CSV = "pytorch_lightning.loggers.CSVLogger"
FOREIGN = {"config.yaml": "a: 1\n", "metrics.csv": "a\n1\n", "scores/eval.csv": "a\n", "x.txt": "x"}


def fill(folder: Path, files: dict[str, str] = FOREIGN) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


# Training


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a training took place."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        main(["fit", *SMALL])
    return folder


@pytest.fixture
def run(trained: Path, here: Path) -> Path:
    """The folder of a run, of one's own to play with."""
    shutil.copytree(trained / "runs", here / "runs")
    return here / "runs" / "B1" / "version_0"


def logger(save_dir: str, **more: str) -> str:
    options = ", ".join(f"{name}: {value!r}" for name, value in more.items())
    return f"--trainer.logger={{class_path: {CSV}, init_args: {{save_dir: {save_dir}, {options}}}}}"


def test_a_refused_resume_changes_nothing(run: Path, attack: Attack) -> None:
    said = attack("fit", *SMALL, "--seed_everything=3", "--ckpt_path=last")
    assert "seed [1986] there, [3] now" in said
    assert (run / "metrics.csv").exists()


@pytest.mark.parametrize("command", ["fit", "test", "validate", "predict"])
def test_a_damaged_checkpoint_changes_nothing(command: str, run: Path, attack: Attack) -> None:
    (run / "checkpoints" / "last.ckpt").write_text("x")
    assert "last.ckpt" in attack(command, *SMALL, "--ckpt_path=last")


def test_a_resumed_run_keeps_what_it_logged(run: Path) -> None:
    before = (run / "metrics.csv").read_text().splitlines()
    main(["fit", *SMALL[:2], "--trainer.max_epochs=2", "--ckpt_path=last"])
    after = (run / "metrics.csv").read_text().splitlines()
    assert after[: len(before)] == before
    assert len(after) > len(before)


@pytest.mark.parametrize(
    "options",
    [
        [logger("foreign", name="", version="")],
        [logger(".", name="foreign", version="")],
        [logger(".", name="..", version="b/foreign")],
        ["--trainer.logger=false", "--trainer.default_root_dir=foreign"],
    ],
)
@pytest.mark.parametrize("command", ["fit", "validate"])
def test_the_folder_of_a_run_is_its_own(
    command: str, options: list[str], run: Path, here: Path, attack: Attack
) -> None:
    fill(here / "foreign")
    best = ["--ckpt_path", str(run / "checkpoints" / "best.ckpt")] if command != "fit" else []
    said = attack(command, *SMALL, *options, *best)
    assert f"{here / 'foreign'} holds other files (config.yaml, " in said
    assert "--overwrite" in said


def test_a_configuration_file_cannot_ask_to_replace(here: Path, configured: Attack) -> None:
    fill(here / "foreign")
    options = "{save_dir: foreign, name: '', version: ''}"
    text = f"overwrite: true\ntrainer: {{logger: {{class_path: {CSV}, init_args: {options}}}}}\n"
    assert "a file cannot ask to replace" in configured(text, "fit", *SMALL)
    main(["fit", *SMALL, "--config=x.yaml", "--overwrite"])
    assert (here / "foreign" / "x.txt").exists()  # what it did not have to replace
    saved = (here / "foreign" / "config.yaml").read_text()
    assert "overwrite: false" in saved


def test_the_same_run_is_made_again_and_another_attack(run: Path, attack: Attack) -> None:
    place = logger("runs/B1", name="", version="version_0")
    said = attack("fit", *SMALL, place, "--seed_everything=2")
    assert "version_0 holds a run of other settings (seed_everything: 1986 there, 2 now)" in said
    said = attack("fit", *SMALL, place, "--data.scale=0.02")
    assert "(data.scale: 0.01 there, 0.02 now)" in said
    scores = (run / "scores" / "eval.csv").read_bytes()
    (run / "scores" / "eval.csv").write_bytes(b"")
    main(["fit", *SMALL, place])
    assert (run / "scores" / "eval.csv").read_bytes() == scores


CHECKPOINTS = "pytorch_lightning.callbacks.ModelCheckpoint"


def test_checkpoints_do_not_go_to_a_folder_of_other_files(
    run: Path, here: Path, attack: Attack
) -> None:
    fill(here / "foreign")
    saves = "--trainer.callbacks+={class_path: %s, init_args: {dirpath: %s, every_n_epochs: 2}}"
    assert "foreign holds other files" in attack("fit", *SMALL, saves % (CHECKPOINTS, "foreign"))
    elsewhere = saves % (CHECKPOINTS, "runs/B1/version_0/checkpoints")
    said = attack("fit", *SMALL, elsewhere, "--model.lr=0.1")
    assert "version_0/checkpoints holds other files" in said


def test_results_do_not_go_to_a_folder_of_other_files(here: Path, attack: Attack) -> None:
    fill(here / "foreign")
    writes = "--trainer.callbacks+={class_path: %s, init_args: {folder: foreign}}"
    writes %= "lightning_sasv.callbacks.WriteResults"
    plain = "--trainer.callbacks=[]"
    assert "foreign holds other files" in attack("fit", *SMALL, plain, writes)


@pytest.mark.parametrize("profiler", ["SimpleProfiler", "AdvancedProfiler"])
def test_profiles_are_not_added_to_other_files(profiler: str, here: Path, attack: Attack) -> None:
    (here / "fit-notes.txt").write_text("my notes\n")
    name = f"pytorch_lightning.profilers.{profiler}"
    options = f"{{class_path: {name}, init_args: {{dirpath: ., filename: notes}}}}"
    said = attack("fit", *SMALL, f"--trainer.profiler={options}")
    assert "fit-notes.txt holds something else than a profile" in said


# Commands on scores


@pytest.fixture
def scores(here: Path) -> Path:
    """Small score files, and what was made of two of them."""
    for name, seed in (("dev", 1), ("eval", 2), ("others", 3)):
        write_scores(here / f"{name}.csv", toy_scores(90, seed))
    main(FUSE)
    main(["report", "out"])
    return here


FUSE = ["fuse", "--dev=dev.csv", "--eval=eval.csv", "--systems=B1,L3", "--out=out"]
DECIDE = ["decide", "eval.csv", "--fitted=out", "--out=file"]
EVALUATE = ["evaluate", "eval.csv", "--json=file", "--ci=none"]
CONVERT = ["convert", "eval.csv", "--to=parquet", "--out=file"]
REPORT = ["report", "out", "--out=file"]
SINGLE = [DECIDE, EVALUATE, CONVERT, REPORT]
NAMES = [words[0] for words in SINGLE]


@pytest.mark.parametrize("command", SINGLE, ids=NAMES)
@pytest.mark.parametrize("file", ["dev.csv", "out/metrics.json", "out/report.html", "note.txt"])
def test_a_file_of_another_kind_is_not_replaced(
    command: list[str], file: str, scores: Path, attack: Attack
) -> None:
    (scores / "note.txt").write_text("my notes\n")
    if (command, file) == (REPORT, "out/report.html"):
        return  # its own
    words = [word.replace("=file", f"={file}") for word in command]
    assert f"{file} holds something else" in attack(*words)
    main([*words, "--overwrite"])


OTHERS = {
    "decide": ["decide", "others.csv", *DECIDE[2:]],
    "evaluate": ["evaluate", "others.csv", *EVALUATE[2:]],
    "convert": ["convert", "others.csv", *CONVERT[2:]],
    "report": ["report", "copy", "--out=file"],
}


@pytest.mark.parametrize("command", SINGLE, ids=NAMES)
def test_a_file_made_of_other_inputs_is_not_replaced(
    command: list[str], scores: Path, attack: Attack
) -> None:
    shutil.copytree(scores / "out", scores / "copy")
    main(command)
    first = content(scores / "file")
    main(command)  # the same again
    assert content(scores / "file") == first
    others = OTHERS[command[0]]
    assert "--overwrite" in attack(*others)
    main([*others, "--overwrite"])
    assert content(scores / "file") != first


def test_decisions_at_other_costs_replace_those_on_the_same_scores(scores: Path) -> None:
    main(DECIDE)
    first = (scores / "file").read_bytes()
    main([*DECIDE, "--costs=equal"])
    assert (scores / "file").read_bytes() != first


def test_decisions_do_not_replace_their_own_scores(scores: Path, attack: Attack) -> None:
    assert "holds something else" in attack("decide", "eval.csv", "--fitted=out", "--out=eval.csv")


def test_figures_replace_those_of_the_same_folder_alone(scores: Path, attack: Attack) -> None:
    shutil.copytree(scores / "out", scores / "copy")
    fill(scores / "figures", {"det.png": "my drawing"})
    assert "det.png holds something else" in attack("report", "out", "--figures=figures")
    (scores / "figures" / "det.png").unlink()
    one = describe(Material.of(read_results("out")))[:1]
    assert len(write_figures("figures", one, "a note", stamp("report", "out"))) == 3
    check_figures("figures", one, stamp("report", "out"), overwrite=False)
    for path in (scores / "figures").iterdir():
        with pytest.raises(InputError, match="holds something else"):
            check_figures("figures", one, stamp("report", "copy"), overwrite=False)
        path.unlink()


def test_a_page_beside_its_results_is_replaced_after_a_move(scores: Path) -> None:
    (scores / "out").rename(scores / "moved")
    main(["report", "moved"])


TABLE = ["table", "--seeds=1", "--systems=B1", "--epochs=1", "--data.scale=0.005", "--replicates=0"]


@pytest.mark.parametrize("command", [FUSE, [*TABLE, "--out=out"]], ids=["fuse", "table"])
@pytest.mark.parametrize("kind", ["files", "run", "corpus"])
def test_results_go_to_a_folder_of_their_own(
    command: list[str], kind: str, trained: Path, scores: Path, attack: Attack
) -> None:
    if kind == "files":
        fill(scores / "there", {"metrics.json": "{}", "scores/eval.csv": "a\n"})
    elif kind == "run":
        shutil.copytree(trained / "runs" / "B1" / "version_0", scores / "there")
    else:
        fill(scores / "there", {"corpus.json": '{"name": "twin"}\n'})
    words = {"files": "other files (metrics.json, scores)"}
    holds = words | {"run": "a training run", "corpus": "a corpus"}
    assert f"there holds {holds[kind]}" in attack(*command[:-1], "--out=there")


@pytest.mark.usefixtures("scores")
def test_a_file_cannot_tell_table_to_replace(configured: Attack) -> None:
    assert "a file cannot ask to replace" in configured("out: out\noverwrite: true\n", *TABLE)


def test_what_a_sweep_types_counts_as_a_file(
    scores: Path, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FROM_FILE, "1")
    assert "a file cannot ask to replace" in attack(*TABLE, "--out=out", "--overwrite")


def test_fusing_other_scores_needs_a_word(scores: Path, attack: Attack) -> None:
    first = {path: content(path) for path in tree(scores / "out")}
    main(FUSE)
    assert {path: content(path) for path in tree(scores / "out")} == first
    main([*FUSE, "--systems=B1"])  # the same scores
    said = attack(*FUSE, "--eval=others.csv")
    assert "out/scores/eval.csv holds something else, or what was made of other scores" in said
    main([*FUSE, "--eval=others.csv", "--overwrite"])


def test_a_transfer_does_not_replace_results_of_a_fusion(scores: Path, attack: Attack) -> None:
    said = attack("transfer", "--fitted=out", "--scores=eval.csv", "--out=out")
    assert "out holds results of another command" in said


def test_a_report_says_what_is_not_complete(scores: Path) -> None:
    results = read_results(scores / "out")
    assert not results.notes
    with lock(scores / "out"):
        assert "Still being written to (process" in read_results(scores / "out").notes[0]
    (scores / "out" / "metrics.json").unlink()  # as after a kill
    assert "has not finished" in read_results(scores / "out").notes[0]
    main(FUSE)
    for seed in (1, 2, 3):
        shutil.copytree(scores / "out", scores / "table" / f"seed{seed}")
    (scores / "table" / "seed1" / "metrics.json").unlink()
    found = read_results(scores / "table")
    assert found.source.name == "seed2"
    assert "Not finished: seed1." in found.notes


# Corpora, embeddings, bundles


def test_a_corpus_goes_to_a_folder_of_its_own(here: Path, attack: Attack) -> None:
    fill(here / "foreign")
    twin = ["simulate", "--scale=0.005", "--out"]
    assert "foreign holds other files" in attack(*twin, "foreign")
    main([*twin, "twin"])
    first = tree(here / "twin")
    main([*twin, "twin"])  # the same again
    assert tree(here / "twin") == first
    assert "twin holds another corpus" in attack(*twin, "twin", "--seed=1")
    assert "twin holds another corpus" in attack(*twin, "twin", "--scale=0.01")
    assert "foreign holds other files" in attack("import", "twin", "--out=foreign")
    main(["import", "twin", "--out=stores"])
    main(["import", "twin", "--out=stores"])
    main([*twin, "twin", "--seed=1", "--overwrite"])
    assert "stores holds another corpus" in attack("import", "twin", "--out=stores")


def test_a_bundle_is_replaced_on_demand_and_nothing_else(scores: Path, attack: Attack) -> None:
    export = ["export", "--fitted=out", "--system=L3", "--out=bundle"]
    main(export)
    first = tree(scores / "bundle")
    assert "bundle is there already" in attack(*export, "--costs=equal")
    main([*export, "--costs=equal", "--overwrite"])
    assert tree(scores / "bundle").keys() == first.keys()
    assert tree(scores / "bundle") != first
    assert "out is there already" in attack(*export[:-1], "--out=out", "--overwrite")
    assert not [path for path in scores.iterdir() if path.name.startswith(".")]


def test_speaker_models_of_another_origin_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "spk_model.safetensors").write_text("mine")
    split = Split("", (), {"S1": ["U1"]})
    with pytest.raises(InputError, match="holds speaker models of another origin"):
        extract_split("asv", None, split, AudioFolder(tmp_path), tmp_path)  # type: ignore[arg-type]


def test_manifests_written_at_once_lose_nothing(tmp_path: Path) -> None:
    manifests = [Manifest(tmp_path) for _ in range(8)]  # each has read the empty one
    with ThreadPoolExecutor() as pool:
        for number, manifest in enumerate(manifests):
            pool.submit(manifest.add, {f"store{number}": {}})
    assert len(Manifest(tmp_path).content["stores"]) == 8
