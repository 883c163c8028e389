"""Every command with small sound files, and every place where it takes a file of somebody else."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import NamedTuple

import yaml

from lightning_sasv.cli import main
from lightning_sasv.counting import Counts
from lightning_sasv.data.protocols import TRAIN_PROTOCOL
from lightning_sasv.models.heads import CMHead
from lightning_sasv.places import COUNTS
from lightning_sasv.scores import write_scores
from tests.bad_input.cases import good_files
from tests.deploy.recordings import export_whole, write_checkpoint, write_voice, write_weights
from tests.frontends.toys import write_corpus
from tests.hostile.test_checkpoints import OLD
from tests.hostile.test_received_files import shards
from tests.scores.samples import toy_scores

SMALL = ["--data.scale=0.01", "--trainer.accelerator=cpu", "--trainer.max_epochs=1"]
SCORED = ["--ckpt_path=good.ckpt", *SMALL]
TABLE = "table --seeds=1 --systems=B1 --epochs=1 --replicates=0 --data.scale=0.01 --out=out"
CM = "--cm={class_path: tests.frontends.toys.Moments}"
EXTRACT = ["extract", "--audio=audio", "--out=out", "--only=cm"]
SOUND: dict[str, list[str]] = {
    "fit": ["fit", "--model.systems=[B1]", *SMALL],
    "validate": ["validate", *SCORED],
    "test": ["test", *SCORED],
    "predict": ["predict", *SCORED],
    "configs": ["configs", "L3c"],
    "init": ["init", "out/new"],
    "schema": ["schema", "costs"],
    "completion": ["completion", "bash"],
    "table": TABLE.split(),
    "extract": [*EXTRACT, CM],
    "sweep": ["sweep", "good.yaml", "--offline"],
    "simulate": ["simulate", "--out=out", "--scale=0.01"],
    "import": ["import", "data", "--out=out"],
    "download": ["download", "sasv2022-scores", "--out=out", "--mirror=https://127.0.0.1:9"],
    "export": ["export", "--fitted=results", "--system=L3t", "--out=out"],
    "drift": ["drift", "good.csv", "--bundle=bundle"],
    "verify": ["verify", "--bundle=whole", "--enrol=a.wav", "--probe=a.wav"],
    "serve": ["serve", "--bundle=bundle", "--stdin"],
    "enrol": ["enrol", "a.wav", "--bundle=whole", "--name=anna", "--speakers=out"],
    "fuse": ["fuse", "--dev=good.csv", "--eval=good.csv", "--systems=B1,L3t", "--out=out"],
    "evaluate": ["evaluate", "good.csv"],
    "merge": ["merge", "good.counts.safetensors", "--out=out/m.counts.safetensors"],
    "referee": ["referee", "claims.yaml"],
    "transfer": ["transfer", "--fitted=results", "--scores=good.csv", "--out=out"],
    "decide": ["decide", "good.csv", "--fitted=results", "--out=out/decided.csv"],
    "convert": ["convert", "good.csv", "--to=parquet", "--out=out/good.parquet"],
    "report": ["report", "results", "--out=out/page.html"],
}
"""Each command as it is meant."""

LONG: dict[str, list[str]] = {
    "fit": [*SOUND["fit"][:-1], "--trainer.max_epochs=100000"],
    "table": [*SOUND["table"], "--epochs=100000"],
    "simulate": ["simulate", "--out=out"],
}
"""Commands that take their time, for signals."""

FAILS = {"download": 1}
"""Codes of sound commands that cannot succeed here: nobody answers."""

FILE = "x.bin"


class Target(NamedTuple):
    """Where a command takes a file: what it is called, where the file has to be, the words."""

    option: str
    place: str
    words: list[str]


def _option(command: str, *words: str, place: str = FILE) -> Target:
    return Target(words[0].partition("=")[0].replace(FILE, "FILE"), place, [command, *words])


def _place(command: str, place: str, *words: str) -> Target:
    """A file in a folder that a command reads."""
    return Target(place, place, list(words) or SOUND[command])


LAST = "runs/B1/version_0/checkpoints/last.ckpt"
PICKLE = "data/embeddings/cm_embd_trn.pk"
STORE = "data/embeddings/cm_embd_trn.safetensors"
FITTED = "results/fitted/L3t.safetensors"
SHARD = "b/shard/manifest.json"
VOICE = (
    "speakers/anna.safetensors",
    *("verify", "--bundle=whole", "--name=anna", "--probe=a.wav"),
)
WHOLE = ("head.safetensors", "frontends/cm.onnx", "frontends/asv_features.safetensors")
PARTS = ("bundle.json", "checksums.json", "dev.safetensors", "fusion.safetensors")
TARGETS: dict[str, list[Target]] = {
    "fit": [
        _option("fit", f"--ckpt_path={FILE}", *SMALL),
        _place("fit", LAST, *SOUND["fit"], "--ckpt_path=last"),
        _place("fit", STORE, "fit", "--data.root=data", *SMALL[1:]),
        _option("fit", f"--data.corpus={FILE}", "--data.root=data", *SMALL[1:]),
    ],
    "validate": [_option("validate", f"--ckpt_path={FILE}", *SMALL)],
    "test": [_option("test", f"--ckpt_path={FILE}", *SMALL)],
    "predict": [_option("predict", f"--ckpt_path={FILE}", *SMALL)],
    "configs": [_option("configs", FILE)],
    "init": [_option("init", f"{FILE}/new")],
    "schema": [_option("schema", FILE)],
    "completion": [],
    "table": [_place("table", "out/recipe.json")],
    "extract": [
        _option("extract", f"--cm={FILE}", *EXTRACT[1:]),
        _option("extract", f"--protocol={FILE}", *EXTRACT[1:], CM),
        _place("extract", "audio/x.tar"),
    ],
    "sweep": [
        _option("sweep", FILE, "--offline"),
        _option("sweep", FILE, "--search=optuna", "--runs=1"),
    ],
    "simulate": [
        _option("simulate", f"--out={FILE}", "--scale=0.01"),
        _option("simulate", f"--corpus={FILE}", "--out=out", "--scale=0.01"),
    ],
    "import": [
        _place("import", PICKLE),
        _place("import", STORE),
        _place("import", SHARD, "import", "a/shard", "b/shard", "--out=out"),
    ],
    "download": [_option("download", f"--out={FILE}", *SOUND["download"][1:])],
    "export": [_place("export", FITTED)],
    "transfer": [
        _option("transfer", f"--scores={FILE}", "--fitted=results", "--out=out"),
        _place("transfer", FITTED),
    ],
    "drift": [
        _option("drift", FILE, "--bundle=bundle"),
        *(_place("drift", f"bundle/{part}") for part in PARTS),
    ],
    "verify": [
        _option("verify", f"--probe={FILE}", "--bundle=whole", "--enrol=a.wav"),
        _option("verify", f"--list={FILE}", "--bundle=whole", "--enrol=a.wav", "--out=out/x.csv"),
        *(_place("verify", f"whole/{part}") for part in WHOLE),
        _place("verify", *VOICE),
    ],
    "serve": [_place("serve", f"bundle/{part}") for part in PARTS],
    "enrol": [_option("enrol", FILE, *SOUND["enrol"][2:])],
    "fuse": [
        _option("fuse", f"--dev={FILE}", "--eval=good.csv", "--systems=B1,L3t", "--out=out"),
        _option("fuse", f"--systems={FILE}", "--dev=good.csv", "--eval=good.csv", "--out=out"),
    ],
    "evaluate": [
        _option("evaluate", FILE, "--ci=speaker"),
        _option("evaluate", f"--costs={FILE}", "good.csv"),
        _place("evaluate", "x.jsonl", "evaluate", "x.jsonl"),
    ],
    "merge": [_option("merge", f"x{COUNTS}", f"--out=out/m{COUNTS}", place=f"x{COUNTS}")],
    "referee": [_option("referee", FILE)],
    "decide": [
        _option("decide", FILE, "--fitted=results", "--out=out/decided.csv"),
        _place("decide", FITTED),
    ],
    "convert": [_option("convert", FILE, "--to=csv", "--out=out/x.csv")],
    "report": [
        _place("report", "results/metrics.json"),
        _place("report", "results/scores/dev.csv"),
    ],
}
for _command, _targets in TARGETS.items():
    _targets.append(Target("--config", "x.yaml", [*SOUND[_command], "--config=x.yaml"]))


def sound_files(folder: Path) -> Path:
    """Everything that the sound commands read."""
    folder.mkdir()
    good_files(folder)
    write_scores(folder / "good.csv", toy_scores(300))
    counts = Counts()
    counts.add(["target", "nontarget", "spoof"], sasv=[2.0, 1.0, 0.0])
    counts.save(folder / f"good{COUNTS}")
    (folder / "claims.yaml").write_text("claims: [{system: x, metric: cm_eer, published: '1.0'}]")
    shutil.copy(OLD / "best.ckpt", folder / "good.ckpt")
    write_corpus(folder / "audio")
    shards(folder)
    fitted, bundle = f"--fitted={folder / 'results'}", f"--out={folder / 'bundle'}"
    main(["export", fitted, "--system=L3t", bundle, "--quiet"])
    shutil.copytree(folder / "results", folder / "training")
    write_checkpoint(folder / "training", CMHead())
    weights = write_weights(folder / "weights")
    whole = (folder / "training", weights, weights / "AASIST-L.pth", folder / "whole")
    export_whole(*whole, "--quiet")
    write_voice(folder / "a.wav")
    sweep = {
        "method": "grid",
        "command": ["lightning", "fit", "--model.systems=[B1]", *SMALL, "${args}"],
        "parameters": {"seed_everything": {"values": [1, 2]}},
    }
    (folder / "good.yaml").write_text(yaml.safe_dump(sweep))
    main(["simulate", f"--out={folder / 'data'}", "--scale=0.01", "--pickles=true", "--quiet"])
    assert list((folder / "data").rglob(TRAIN_PROTOCOL))
    return folder
