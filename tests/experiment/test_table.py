"""`lightning table`: results, what is kept, what is noticed, what is written."""

from __future__ import annotations

import csv
import json
import shutil
from dataclasses import asdict
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from lightning_sasv.callbacks import KeepBest
from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from lightning_sasv.data import SASVDataModule
from lightning_sasv.data.corpus import Corpus
from lightning_sasv.errors import InputError
from lightning_sasv.experiment import CorpusSettings, ModelSettings, TrainerSettings
from lightning_sasv.experiment import run as run_module
from lightning_sasv.experiment.recipe import check_recipe, parse_seeds
from lightning_sasv.experiment.run import Job, train_stack
from lightning_sasv.fitted import read_fitted_systems
from lightning_sasv.fusion import PAPER_SYSTEMS, SYSTEMS, system_names
from lightning_sasv.fusion.rules import fuse
from lightning_sasv.metrics.bootstrap import resample
from lightning_sasv.metrics.intervals import over_seeds
from lightning_sasv.metrics.registry import metrics_for
from lightning_sasv.models import SASVModule
from lightning_sasv.results import read_metrics, read_results
from lightning_sasv.scores import read_scores
from tests.helpers import (
    best_checkpoint,
    failure_of,
    metrics_in,
    quiet_trainer,
    results_in,
    shared_data,
)

SMALL = ["--data.scale", "0.02", "--epochs", "2", "--replicates", "50", "--processes", "1"]


def table(out: Path, *args: str, seeds: str = "1-2") -> dict[str, Any]:
    main(["table", "--out", str(out), "--seeds", seeds, *SMALL, *args])
    return metrics_in(out)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("table") / "out"
    table(out)
    return out


def test_everything_is_written(finished: Path) -> None:
    metrics = metrics_in(finished)
    assert set(metrics) == set(PAPER_SYSTEMS)
    for seed in (1, 2):
        folder = finished / f"seed{seed}"
        own = metrics_in(folder)
        assert read_fitted_systems(folder).keys() == set(PAPER_SYSTEMS)
        for name in PAPER_SYSTEMS:
            assert own[name]["seed"] == seed
            assert own[name]["corpus"] == "twin"
            assert metrics[name]["per_seed"][str(seed)] == own[name]["eval"]
            assert "ci" not in own[name]
            assert own[name]["eval"]["dev_a_dcf"] >= own[name]["eval"]["min_a_dcf"]
        scores = read_scores(folder / "scores" / "eval.csv")
        assert len(read_scores(finished / f"scores/seed{seed}/eval.csv")) == len(scores) > 0
        fused = read_fitted_systems(folder)["L3c"](scores.asv, scores.cm).sasv
        np.testing.assert_allclose(fused, scores.extra["sasv_L3c"], rtol=1e-12, atol=1e-12)
    for name in PAPER_SYSTEMS:
        values = [v["sasv_eer"] for v in metrics[name]["per_seed"].values()]
        assert metrics[name]["eval"]["sasv_eer"] == pytest.approx(sum(values) / 2)
        assert "ci" not in metrics[name], "of two seeds both values are shown"
    results = read_results(finished)
    assert list(results.systems) == list(PAPER_SYSTEMS)
    assert results.simulated
    assert results.table == (finished / "table.md").read_text()


def test_a_quiet_table_shows_the_table_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for words, seen in (([], True), (["--quiet"], False)):
        table(tmp_path / str(seen), "--systems", "B1", *words, seeds="1")
        said = capsys.readouterr()
        assert ("Epoch" in said.out) == seen
        assert "SASV-EER%" in said.out


def test_headline_is_the_mean_with_its_interval_of_seeds_and_speakers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Against Student's t and the literal replicates of each seed's score file."""
    out = tmp_path / "out"
    table(out, "--systems", "B1,L3c", seeds="1-3")
    shown = " ".join(capsys.readouterr().out.split())
    assert (
        "Mean over 3 seeds [95 %: BCa, drawn: seeds × enrolled speakers, 50 replicates; " in shown
    )
    files = [read_scores(out / f"seed{seed}/scores/eval.csv") for seed in (1, 2, 3)]
    assert files[0].speaker is not None
    entry = read_metrics(out / "metrics.json")["L3c"]["sets"]["eval"]
    for metric in ("sasv_eer", "cllr", "min_a_dcf"):
        seeds = [
            resample(
                {"L3c": {"sasv": one.extra["sasv_L3c"]}},
                one.label,
                {"L3c": [metric]},
                (files[0].speaker,),
                50,
            )["L3c"][metric]
            for one in files
        ]
        wanted, found = over_seeds(seeds).interval(), entry["intervals"][metric]
        assert (found["low"], found["high"]) == (max(wanted.low, 0.0), wanted.high)
        assert (found["method"], found["drawn"]) == ("bca", ["seed", "speaker"])
        assert (found["replicates"], found["seeds"], found["speakers"]) == (50, 3, 48)
        assert entry["values"][metric] == pytest.approx(np.mean([one.value for one in seeds]))
    with (out / "table.csv").open() as file:
        rows = {(row["system"], row["metric"]): row for row in csv.DictReader(file)}
    row, ends = rows["L3c", "SASV-EER %"], entry["intervals"]["sasv_eer"]
    assert float(row["mean"]) == pytest.approx(100 * entry["values"]["sasv_eer"])
    assert float(row["sd"]) == pytest.approx(100 * entry["spread"]["sasv_eer"])
    assert [float(row["low"]), float(row["high"])] == [100 * ends["low"], 100 * ends["high"]]
    names = ("method", "drawn", "replicates", "seeds", "speakers")
    assert [row[name] for name in names] == ["bca", "seed speaker", "50", "3", "48"]
    mean, low, high, sd = (float(row[name]) for name in ("mean", "low", "high", "sd"))
    text = f"{mean:.2f} [{low:.2f}, {high:.2f}] ± {sd:.2f}"
    assert f"| {text} |" in (out / "table.md").read_text()
    assert json.loads((out / "metrics.json").read_text())["comparisons"][0]["drawn"] == [
        *("seed", "speaker")
    ]
    capsys.readouterr()
    table(out, "--systems", "B1,L3c", "--paper", "false", seeds="1")
    shown = " ".join(capsys.readouterr().out.split())
    assert "One seed [95 %: BCa, drawn: enrolled speakers, 50 replicates; 48 speakers]" in shown
    assert "paper" not in shown
    one = read_metrics(out / "metrics.json")["L3c"]["sets"]["eval"]["intervals"]["sasv_eer"]
    alone = resample(
        {"L3c": {"sasv": files[0].extra["sasv_L3c"]}},
        files[0].label,
        {"L3c": ["sasv_eer"]},
        (files[0].speaker,),
        50,
    )["L3c"]["sasv_eer"].interval()
    assert (one["low"], one["high"], one["drawn"]) == (alone.low, alone.high, ["speaker"])


def test_finished_seeds_are_not_trained_again_and_every_page_says_simulated(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = results_in(finished)

    def fail(*_: Any) -> None:
        raise AssertionError("trained again")

    monkeypatch.setattr(run_module, "train_stack", fail)
    table(finished)
    assert results_in(finished) == before
    typeset = [line for line in (finished / "table.tex").read_text().splitlines() if line[0] != "%"]
    shown = capsys.readouterr().out, (finished / "table.md").read_text(), "".join(typeset)
    assert all("Simulated" in text for text in shown)
    with (finished / "table.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert {row["corpus"] for row in rows} == {"twin"}
    assert all("simulated corpus" in row["note"] for row in rows)
    assert len(rows) == len(PAPER_SYSTEMS) * len(metrics_for("table1"))


def test_only_missing_seeds_and_systems_are_computed(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    trained: list[tuple[int, ...]] = []

    def spy(job: Job, seeds: list[int], *args: Any) -> Any:
        trained.append(tuple(seeds))
        return train_stack(job, seeds, *args)

    monkeypatch.setattr(run_module, "train_stack", spy)
    table(out, "--systems", "B1", seeds="1-2")
    table(out, "--systems", "B1,L3c", seeds="1-3")
    assert trained == [(1, 2), (1, 2), (3,)]
    metrics = metrics_in(out)
    assert set(metrics) == {"B1", "L3c"}
    whole = metrics_in(finished)
    for seed in ("1", "2"):
        for name in ("B1", "L3c"):
            assert metrics[name]["per_seed"][seed] == whole[name]["per_seed"][seed]


@pytest.mark.parametrize(
    "path",
    [
        *("metrics.json", "scores/eval.csv", "fitted/L3c.safetensors", "checkpoints/best.ckpt"),
        "draws.json",
    ],
)
def test_what_was_removed_is_made_again(finished: Path, path: str) -> None:
    before = results_in(finished)
    (finished / "seed1" / path).unlink()
    table(finished)
    assert results_in(finished) == before


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--epochs", "1"], "epochs 2 there, 1 now"),
        (["--hidden_dims", "[8]"], "hidden_dims [258, 128, 64] there, [8] now"),
        (["--data.twin_seed", "1"], "data "),
        (["--epochs", "1", "--seeds", "3"], "epochs 2 there, 1 now"),  # not even beside them
    ],
)
def test_another_configuration_is_noticed(
    finished: Path, capsys: pytest.CaptureFixture[str], args: list[str], words: str
) -> None:
    before = results_in(finished)
    message = failure_of(capsys, "table", "--out", finished, "--seeds", "1-2", *SMALL, *args)
    assert "another configuration" in message
    assert words in message
    assert results_in(finished) == before


def test_results_without_a_noted_recipe_are_not_mixed_either(finished: Path) -> None:
    recipe = finished / "recipe.json"
    noted = recipe.read_bytes()
    recipe.unlink()
    with pytest.raises(SystemExit):
        table(finished, "--threads", "2")
    recipe.write_bytes(noted)


def test_overwrite_replaces_them(tmp_path: Path) -> None:
    out = tmp_path / "out"
    table(out, "--systems", "B1")
    (out / "seedling").mkdir()
    (out / "seedling" / "mine.txt").write_text("not a result")
    first = results_in(out)
    table(out, "--systems", "B1", "--data.twin_seed", "5", "--overwrite", "true")
    assert results_in(out).keys() == first.keys()
    assert results_in(out) != first
    assert (out / "seedling" / "mine.txt").exists()
    kept = results_in(out)
    for mistake in (["--epochs", "0"], ["--data.root", "nowhere"], ["--hidden_dims", "[0]"]):
        with pytest.raises(SystemExit):
            table(out, "--systems", "B1", "--overwrite", "true", *mistake)
        assert results_in(out) == kept


def test_seed_checkpoint_can_be_tested(
    finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished / "seed2", "seed2")
    main(["test", "seed2"])
    found = metrics_in(tmp_path / "seed2")  # the checkpoint that its results are of
    expected = metrics_in(finished / "seed2")
    for name in PAPER_SYSTEMS:
        assert found[name]["eval"]["sasv_eer"] == expected[name]["eval"]["sasv_eer"]
        assert found[name]["seed"] == 2


def test_fit_of_one_seed_is_the_same_code(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`lightning fit` and `lightning table` of one seed end with the same bits."""
    monkeypatch.chdir(tmp_path)
    whole = table(tmp_path / "out", "--systems", "L3c", seeds="7")["L3c"]
    config = ["--config", str(repository / "configs/L3c.yaml"), "--seed_everything", "7"]
    main(["fit", *config, "--data.scale", "0.02", "--trainer.max_epochs", "2"])
    run = tmp_path / "runs/L3c/version_0"
    alone = metrics_in(run)["L3c"]
    assert (alone["dev"], alone["eval"]) == (whole["dev"], whole["per_seed"]["7"])
    for split in ("dev", "eval"):
        mine, theirs = (f / f"scores/{split}.csv" for f in (tmp_path / "out/seed7", run))
        assert mine.read_bytes() == theirs.read_bytes()


def test_best_epoch_of_each_seed_is_that_of_its_own_run(twin: Corpus, tmp_path: Path) -> None:
    seeds, best = (21, 22, 23), KeepBest(save=False)
    module = SASVModule(seeds=seeds)
    trainer = quiet_trainer(tmp_path / "all", epochs=4, best=False, callbacks=[best])
    trainer.fit(module, shared_data(twin, seeds=seeds))
    for copy, seed in enumerate(seeds):
        alone = SASVModule(seeds=(seed,))
        trainer = quiet_trainer(tmp_path / str(seed), epochs=4)
        trainer.fit(alone, shared_data(twin, seeds=(seed,)))
        kept = torch.load(best_checkpoint(trainer), weights_only=True)
        assert kept["epoch"] == int(best.epoch[copy])
        for name, value in module.head.select(copy).state_dict().items():
            torch.testing.assert_close(value, kept["state_dict"][f"head.{name}"], rtol=0, atol=1e-4)
            assert torch.equal(alone.head.state_dict()[name], kept["state_dict"][f"head.{name}"])


def test_options_have_the_defaults_of_the_module_and_of_the_data_module() -> None:
    for kind, own in ((SASVModule, ModelSettings()), (SASVDataModule, CorpusSettings())):
        theirs = {name: p.default for name, p in signature(kind).parameters.items()}
        of_others = ("seeds", "systems", "own_systems", "trials", "enrolment")  # table's; predict's
        assert asdict(own) == {n: d for n, d in theirs.items() if n not in of_others}
    base = yaml.safe_load(base_config().read_text())["trainer"]
    ours = asdict(TrainerSettings())
    assert {name: base.get(name, ours[name]) for name in ours} == ours


def as_json(settings: Any) -> Any:
    """Settings without the difference of tuples and lists."""
    return json.loads(json.dumps(dict(settings)))


CONFIG = """
data: {scale: 0.02, batch_size: 12, score_batch_size: "${data.batch_size}"}
model: {systems: [B1, L3c], lr: 1.0e-3, fusion: {trim: 5}}
trainer: {max_epochs: 1, accelerator: cpu, precision: 64-true}
seed_everything: 3
"""


def test_table_takes_the_configurations_and_the_names_of_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text(CONFIG)
    words = ["--config", "own.yaml", "--model.hidden-dims", "[8,4]"]
    main(["table", *words, "--replicates=0", "--out=by_file"])
    main(["fit", *words])
    ours, theirs = (
        torch.load(f"{folder}/checkpoints/best.ckpt", weights_only=True)
        for folder in ("by_file/seed3", "runs/B1/version_0")
    )
    assert as_json(ours["hyper_parameters"]) == as_json(theirs["hyper_parameters"])
    assert ours["state_dict"].keys() == theirs["state_dict"].keys()
    for name, value in theirs["state_dict"].items():  # in 64 bits, down to the last
        assert torch.equal(ours["state_dict"][name], value), name
    noted = json.loads(Path("by_file/recipe.json").read_text())
    wanted = {"accelerator": "cpu", "devices": 1, "precision": "64-true", "max_epochs": 1}
    assert {name: noted[f"trainer.{name}"] for name in wanted} == wanted
    assert (noted["data.batch_size"], noted["model.in_dim"], noted["model.lr"]) == (12, 160, 1e-3)
    for other, said in (
        (["--trainer.precision=32-true"], "trainer.precision 64-true there, 32-true now"),
        (["--data.batch-size=24"], "data.batch_size 12 there, 24 now"),
        (["--lr=0.5"], "model.lr 0.001 there, 0.5 now"),
    ):
        message = failure_of(capsys, "table", *words, "--out=by_file", *other)
        assert said in message
    noted["trainer.accelerator"] = "cuda"
    Path("by_file/recipe.json").write_text(json.dumps(noted))
    message = failure_of(capsys, "table", *words, "--out=by_file")
    assert "trainer.accelerator cuda there, cpu now" in message


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--config", "wandb"], "wandb.yaml: table cannot use 'trainer.logger'"),
        (["--config", "ddp"], "ddp.yaml: table cannot use 'trainer.strategy'"),
        (["--config", "own.yaml"], "table cannot use 'model.lrr'; did you mean model.lr?"),
        (["--config", "replacing.yaml"], "a file cannot ask to replace results"),
        (["--trainer.devices", "2"], "--trainer.devices: a table trains on one device"),
        (["--trainer.accelerator", "tpu"], "the Trainer refuses its settings"),
        (["--trainer.precision", "7"], "Precision '7' is invalid"),
        (["--model.in_dim", "100"], "160 dimensions where 100 were expected"),
        (["--model.fusion.rho", "7"], "rho"),
        (["--epochs", "0"], "--trainer.max_epochs must be at least 1, got 0"),
    ],
)
def test_what_a_table_cannot_use_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("own.yaml").write_text("model: {lrr: 3}\n")
    Path("replacing.yaml").write_text("overwrite: true\n")
    assert said in failure_of(capsys, "table", "--data.scale=0.01", "--systems=L3", *words)
    assert not Path("results/table1/recipe.json").exists()


def test_parsing() -> None:
    assert parse_seeds("1986-1988, 3") == [1986, 1987, 1988, 3]
    assert system_names("paper") == list(PAPER_SYSTEMS)
    assert system_names("all") == list(SYSTEMS)
    assert system_names("L3c,B1,L3c") == ["L3c", "B1"]
    with pytest.raises(InputError, match="names no seed"):
        parse_seeds("5-3")


def test_the_training_recipe_can_be_chosen(tmp_path: Path) -> None:
    options = ["--lr", "1e-3", "--weight_decay", "0.03", "--class_weights", "[0.5,0.5]"]
    table(tmp_path / "out", "--systems", "B1", *options, seeds="1")
    checkpoint = torch.load(tmp_path / "out/seed1/checkpoints/best.ckpt", weights_only=True)
    chosen = checkpoint["hyper_parameters"]
    assert (chosen["lr"], chosen["weight_decay"]) == (1e-3, 0.03)
    assert tuple(chosen["class_weights"]) == (0.5, 0.5)
    trainer = quiet_trainer(tmp_path)
    module = SASVModule(lr=1e-3, weight_decay=0.03, class_weights=(0.5, 0.5), seeds=(1,))
    trainer.fit(module, SASVDataModule(scale=0.02, seeds=(1,)))
    best = torch.load(best_checkpoint(trainer), weights_only=True)
    for name, value in best["state_dict"].items():
        if name.startswith("head."):
            assert torch.equal(checkpoint["state_dict"][name], value)
    with pytest.raises(SystemExit):
        table(tmp_path / "out", "--systems", "B1", seeds="1")  # results of another recipe


def test_settings_that_only_one_recipe_has_are_named(tmp_path: Path) -> None:
    (tmp_path / "seed1").mkdir()
    (tmp_path / "seed1/metrics.json").write_text("{}")
    (tmp_path / "recipe.json").write_text('{"model.lr": 1, "model.old": 2}')
    words = r"\(model.lr 1 there, 3 now, model.old 2 there, not noted now\)"
    with pytest.raises(InputError, match=words):
        check_recipe(tmp_path, {"model.lr": 3})


def test_post_and_b1v2_have_networks_of_their_own(finished: Path, tmp_path: Path) -> None:
    """The others are what they are beside one network, to the bit."""
    table(tmp_path / "one", "--one-network", seeds="1-2")
    for seed in ("seed1", "seed2"):
        places = (finished / seed, tmp_path / "one" / seed)
        mine, one = (read_scores(place / "scores/eval.csv") for place in places)
        for name, column in one.extra.items():
            own = name in ("sasv_Post", "sasv_B1v2")
            assert np.array_equal(mine.extra[name], column) is not own, name
        assert np.array_equal(mine.cm, one.cm)
        for name in ("Post", "B1v2"):
            fused = fuse(SYSTEMS[name]["rule"], 0.5, mine.asv, mine.of_system(name).cm)
            np.testing.assert_allclose(mine.extra[f"sasv_{name}"], fused, rtol=1e-12)
        assert "cm_score_Post" not in one.extra
        kept = {path.name for path in (finished / seed / "checkpoints").iterdir()}
        assert kept == {"best.ckpt", "best_Post.ckpt", "best_B1v2.ckpt"}
    assert "networks of their own" in (finished / "table.md").read_text()
    assert "the same network as B1" in (tmp_path / "one" / "table.md").read_text()
    loaded = SASVModule.load_from_checkpoint(finished / "seed1/checkpoints/best_B1v2.ckpt")
    assert (loaded.hparams["objective"], loaded.names) == ("fused", ("B1v2",))


def test_systems_are_added_to_a_network_that_was_trained_without(tmp_path: Path) -> None:
    """Columns of one network stay when those of another are written beside them."""
    out = tmp_path / "out"
    table(out, "--systems", "Post", seeds="1")
    first = read_scores(out / "seed1/scores/eval.csv")
    assert not (out / "seed1/checkpoints/best.ckpt").exists()
    table(out, "--systems", "B1,Post", seeds="1")
    both = read_scores(out / "seed1/scores/eval.csv")
    assert np.array_equal(both.extra["sasv_Post"], first.extra["sasv_Post"])
    assert np.array_equal(both.extra["sasv_B1"], both.asv + both.cm)
    assert np.array_equal(both.of_system("Post").cm, first.cm)
    assert not any("different runs" in note for note in read_results(out).notes)
    found = ["--fitted", str(out / "seed1"), "--system", "Post"]
    main(["export", *found, "--out", str(tmp_path / "bundle")])
