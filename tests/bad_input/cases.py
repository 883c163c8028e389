"""The table of mistakes: command, files, and what the message has to say."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch

from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.fitted import save_system
from lightning_sasv.fusion import build_system
from lightning_sasv.scores import write_scores
from tests.scores.samples import toy_scores


class Case(NamedTuple):
    """One mistake: its name, the command line, and what the message has to say."""

    name: str
    args: str
    words: tuple[str, ...]


HEADER = "speaker,utterance,attack,label,asv_score,cm_score\n"
GOOD = HEADER + "S1,U1,-,target,0.5,1.5\nS1,U2,-,nontarget,0.1,1.0\nS1,U3,A07,spoof,0.4,-3\n"
FUSED = GOOD.replace("cm_score", "sasv_X,cm_score").replace("0.", "0.5,0.")
SWEEP = "method: grid\ncommand: [lightning, fit, '${args}']\nparameters: {a: {values: [1]}}\n"
PROTOCOL = "ASVspoof2019.LA.cm.train.trn.txt"


def good_files(folder: Path) -> None:
    """Files without a mistake, which every case may use."""
    scores = toy_scores(60)
    write_scores(folder / "good.csv", scores)
    results = folder / "results"
    write_scores(results / "scores" / "dev.csv", scores)
    for name in ("B1", "L3t"):
        system = build_system(name).fit(scores.asv, scores.cm, scores.label)
        save_system(results / "fitted" / f"{name}.safetensors", system, {"corpus": "x"})


def damaged(path: Path) -> None:
    path.write_bytes(b"\x93not a file of any kind\x00" * 9)


def saved(content: object) -> Callable[[Path], object]:
    return lambda path: torch.save(content, path)


BROKEN: dict[str, str | Callable[[Path], object]] = {
    "damaged.yaml": damaged,
    "broken.yaml": "a: [\n",
    "unknown.yaml": "data: {batch: 3}\n",
    "list.yaml": "[1, 2]\n",
    "itself.yaml": "data: &a [*a]\n",
    "refers.yaml": "data: {name: '${data.no}'}",
    "damaged.ckpt": damaged,
    "empty.ckpt": "",
    "weights.ckpt": saved({"weights": torch.ones(3)}),
    "other.ckpt": saved({"state_dict": {"x": torch.ones(3)}, "pytorch-lightning_version": "2.5.0"}),
    "short.yaml": "method: grid\nparameters: {}\n",
    "random.yaml": SWEEP.replace("grid", "random"),
    "valueless.yaml": SWEEP.replace("values: [1]", "min: 1"),
    f"pickled/{PROTOCOL}": "S1 U1 - - bonafide\n",
    "pickled/cm_embd_trn.pk": damaged,
    f"short/{PROTOCOL}": "S1 U1 - - bonafide\nS1 U2 -\n",
    "wavs/a.wav": "x",
    "damaged.pth": damaged,
    "list.txt": "a b c\n",
    "empty.csv": "",
    "header.csv": HEADER,
    "damaged.csv": damaged,
    "row.csv": GOOD + "S1,U4\n",
    "label.csv": GOOD.replace(",target", ",good"),
    "nan.csv": GOOD.replace("1.5", "nan"),
    "comma.csv": GOOD.replace("0.5", "0,5"),
    "column.csv": GOOD.replace("cm_score", "x"),
    "twice.csv": GOOD + "S1,U1,-,target,1,1\n",
    "unlabelled.csv": "speaker,utterance,asv_score,cm_score\nS1,U1,1,2\nS1,U2,3,4\n",
    "spoofless.csv": "\n".join(GOOD.splitlines()[:3]) + "\n",
    "blank.csv": GOOD.replace("U1", "U 1"),
    "negative.yaml": "c_miss: -1\n",
    "words.yaml": "c_miss: x\n",
    "numbers.yaml": "- 1\n",
    "bad/fitted/L3t.safetensors": damaged,
    "store/fitted/L3t.safetensors": EmbeddingStore(["a"], torch.ones(1, 3)).save,
    "unread/scores/eval.csv": FUSED,
    "unread/metrics.json": "{",
}
"""Text or maker of files with a mistake; a case has those that its command line names."""

EXPORT = "export --fitted results --out out --system "
EXTRACT = "extract --audio wavs --out out "
SMALL = " --data.scale=0.02 --trainer.max_epochs=1 --trainer.accelerator=cpu"
TRAINING = [
    Case("no such option", "fit --data.scal 1", ("--data.scal",)),
    Case("word for a number", "fit --model.lr fast", ("model.lr", "float", "fast")),
    Case("no such config", "fit --config nowhere.yaml", ("nowhere.yaml",)),
    Case("config is a folder", "fit --config results", ("results",)),
    Case("config of bytes", "fit --config damaged.yaml", ("damaged.yaml",)),
    Case("broken YAML", "fit --config broken.yaml", ("broken.yaml", "line 2")),
    Case("YAML in itself", "fit --config itself.yaml", ("itself.yaml, line 1", "stands inside")),
    Case("unknown key", "fit --config unknown.yaml", ("batch",)),
    Case("config is a list", "fit --config list.yaml", ("lines 'name: value', not [1, 2]",)),
    Case("no data", "fit --data.root nowhere", ("no data folder at nowhere",)),
    Case("empty data", "fit --data.root .", ("cm.train.trn.txt", "not found below")),
    Case("scale below 0", "fit --data.scale -1", ("scale", "-1")),
    Case("scale is NaN", "fit --data.scale nan", ("scale", "nan")),
    Case("batch of 0", "fit --data.batch_size 0", ("batch_size", "at least 1, got 0")),
    Case("no threads", "fit --threads 0", ("--threads", "0")),
    Case("a batch beyond numbers", f"fit --data.score_batch_size {10**20}", ("below 2³¹",)),
    Case("threads beyond any machine", "fit --threads 100000000", ("--threads", "1,024")),
    Case("fit at no rate", "fit --model.lr -1", ("model.lr", "must be positive", "-1.0")),
    Case("fit weights", "fit --model.class_weights [0,1]", ("class_weights", "[0.0, 1.0]")),
    Case("weight decay", "fit --model.weight_decay=-1", ("model.weight_decay", "-1.0")),
    Case("widths", "fit --model.hidden_dims [64,0]", ("at least 1", "[64, 0]")),
    Case("seed below 0", "fit --seed_everything -1", ("--seed_everything", "got -1")),
    Case("seed too large", "fit --seed_everything 4294967296", ("0 to 4294967295",)),
    Case("seed of letters", "fit --seed_everything x", ("seed_everything", "int", "got x")),
    Case("no list", "fit --model.hidden_dims x", ("model.hidden_dims: Expected a list", "got x")),
    Case("fusion setting", "fit --model.fusion '{rh: 1}'", ("model.fusion", "'rh'")),
    Case("fusion value", "fit --model.fusion '{rho: 2}'", ("rho", "[0, 1]", "2")),
    Case("flag refers", "fit --data.name '${data.nowhere}'", ("data.nowhere", "not found")),
    Case("config refers", "fit --config refers.yaml", ("no",)),
    Case("unknown system", "fit --model.systems [L9]", ("L9", "L3c")),
    Case("no systems", "fit --model.systems []" + SMALL, ("logger[0]", "model.systems[0]} not")),
    Case("bad trainer", f"fit --trainer.profiler=nothing{SMALL}", ("Trainer", "profiler")),
    Case("negative epochs", "fit --trainer.max_epochs=-5 --data.scale=0.02", ("max_epochs",)),
    Case("no checkpoint", "validate --ckpt_path nowhere.ckpt --data.scale=0.02", ("nowhere.ckpt",)),
    Case("damaged checkpoint", "test --ckpt_path damaged.ckpt", ("damaged.ckpt is damaged",)),
    Case("empty checkpoint", "test --ckpt_path empty.ckpt", ("empty.ckpt is damaged",)),
    Case("weights alone", "predict --ckpt_path weights.ckpt", ("weights.ckpt is no checkpoint",)),
    Case(
        "of another model",
        "test --ckpt_path other.ckpt --data.scale=0.02",
        ("other.ckpt is refused",),
    ),
    Case("fit another", f"fit --ckpt_path other.ckpt{SMALL}", ("other.ckpt is refused",)),
]
EXPERIMENTS = [
    Case("seeds", "table --seeds x --out out", ("--seeds", "cannot read 'x'")),
    Case("seeds of no digits", "table --seeds ² --out out", ("--seeds", "cannot read")),
    Case("many seeds", "table --seeds 1986-19910 --out out", ("too much",)),
    Case("large seed", "table --seeds 9999999999 --out out", ("too much",)),
    Case("table widths", "table --hidden_dims [8,0] --out out", ("model.hidden_dims",)),
    Case("no jobs", "table --launcher local --seeds_per_job 0 --out out", ("--seeds_per_job",)),
    Case("no jobs, checked", "table --seeds_per_job 0 --check", ("--seeds_per_job",)),
    Case("empty configuration", "fit --config empty.csv", ("empty.csv holds no settings",)),
    *(
        Case(f"scores as configuration of {command}", f"{command} --config good.csv", words)
        for command, words in {
            "fit": ("lines 'name: value', not speaker,",),
            "table": ("good.csv: a configuration has lines",),
            "evaluate": ("a configuration has lines",),
        }.items()
    ),
    Case("seed twice", "table --seeds 1,1 --out out", ("--seeds", "twice")),
    Case("table of no system", "table --systems L9 --out out", ("L9",)),
    Case("no epochs", "table --epochs 0 --out out", ("--trainer.max_epochs", "at least 1, got 0")),
    Case("learning rate", "table --lr 0 --out out", ("model.lr", "positive", "0.0")),
    Case("weights", "table --class_weights [0,1] --out out", ("model.class_weights", "[0.0, 1.0]")),
    Case("replicates", "table --replicates=-1 --out out", ("--replicates", "-1")),
    Case("table of no data", "table --data.root nowhere --out out", ("no data folder at nowhere",)),
    Case("launcher", "table --launcher moon --out out", ("launcher", "moon")),
    Case("out is a file", "table --out good.csv", ("good.csv",)),
    Case("no sweep", "sweep nowhere.yaml", ("nowhere.yaml",)),
    Case("sweep of bytes", "sweep damaged.yaml", ("damaged.yaml", "not valid YAML")),
    Case("sweep lacks a key", "sweep short.yaml", ("command",)),
    Case("random sweep", "sweep random.yaml --offline", ("grid", "random")),
    Case("sweep without values", "sweep valueless.yaml --offline", ("'a'", "values")),
    Case("simulate nothing", "simulate", ("out",)),
    Case("twin below 0", "simulate --out=out --scale=-1", ("scale", "-1")),
    Case("twin of infinity", "simulate --out=out --scale=inf", ("scale", "inf")),
    Case("simulate into a file", "simulate --out=good.csv", ("good.csv",)),
    Case("import nothing", "import nowhere --out=out", ("no data folder at nowhere",)),
    Case("import in place", "import results --out=results", ("--out results",)),
    Case("import of a damaged pickle", "import pickled --out=out", ("cm_embd_trn.pk",)),
    Case("import of a short protocol", "import short --out=out", ("line 2", "3 columns where 5")),
    Case("mirror", "download aasist-weights --out out --mirror nowhere", ("begin with https://",)),
    Case("download of what", "download moon", ("moon", "sasv2022-scores")),
    Case(
        "download into a file",
        "download aasist-weights --out good.csv --mirror http://127.0.0.1:9",
        ("good.csv",),
    ),
]
AUDIO = [
    Case("no audio", "extract --audio nowhere --out out", ("no audio folder at nowhere",)),
    Case("no recordings", "extract --audio . --out out", ("no recordings",)),
    Case("extract nowhere", "extract --audio .", ("out",)),
    Case("device", EXTRACT + "--device moon", ("moon",)),
    Case("batch size", EXTRACT + "--batch_size 0", ("batch", "0")),
    Case("name of a file", EXTRACT + "--name ../x", ("--name", "cannot be part of a file name")),
    Case("long name", EXTRACT + "--name " + 300 * "x", ("--name",)),
    Case("damaged weights", EXTRACT + "--only cm --cm damaged.pth", ("damaged.pth",)),
    Case("no weights", EXTRACT + "--only asv --asv nowhere", ("nowhere",)),
    Case("three columns", EXTRACT + "--protocol list.txt", ("list.txt, line 1", "3 columns")),
]
SCORE_FILES = [
    Case("no file", "evaluate nowhere.csv", ("nowhere.csv", "No such file")),
    Case("a folder", "evaluate results", ("results", "give a file")),
    Case("empty", "evaluate empty.csv", ("empty.csv, line 1", "empty")),
    Case("header alone", "evaluate header.csv", ("header.csv, line 1", "no trials")),
    Case("not text", "evaluate damaged.csv", ("damaged.csv, line 1",)),
    Case("short row", "evaluate row.csv", ("line 5",)),
    Case("unknown label", "evaluate label.csv", ("line 2", "'good'")),
    Case("format", "evaluate good.csv --format moon", ("unknown format 'moon'; formats: csv,",)),
    Case("columns", "evaluate good.csv --format a-dcf", ("line 1: 6 columns where 4 are",)),
    Case("column", "evaluate good.csv --by moon", ("line 1: no column 'moon'",)),
    Case("where", "evaluate good.csv --where moon", ("--where", "COLUMN=VALUE")),
    Case("where none", "evaluate good.csv --where attack=A99", ("never 'A99'",)),
    Case("system", "evaluate good.csv --systems L9", ("L9",)),
    Case("evaluate nothing", "evaluate", ("the following arguments are required: files",)),
    Case("no such flag", "evaluate good.csv --moon", ("unrecognized arguments: --moon",)),
    Case("no such flag before another", "evaluate --moon --ci none good.csv", ("--moon",)),
    Case("no value before a flag", "evaluate good.csv --ci --json a", ("--ci: expected one",)),
    Case("costs", "evaluate good.csv --costs moon", ("--costs moon is neither a preset", "a-dcf1")),
    Case("interval", "evaluate good.csv --ci moon", ("ci", "moon", "'speaker-attack'")),
    Case("no replicates", "evaluate good.csv --ci trial --replicates 0", ("replicates", "0")),
    Case("key", "evaluate good.csv --key nowhere", ("nowhere",)),
    Case("json into a file", "evaluate good.csv --ci=none --json=good.csv/x", ("good.csv",)),
    Case("costs below 0", "evaluate good.csv --costs negative.yaml", ("negative.yaml", "c_miss")),
    Case("costs of words", "evaluate good.csv --costs words.yaml", ("words.yaml",)),
    Case("fuse one", "fuse --dev good.csv", ("the following arguments are required: eval",)),
    Case("fuse nothing", "fuse --dev nowhere --eval good.csv --out out", ("nowhere",)),
    Case("fuse no system", "fuse --dev good.csv --eval good.csv --systems L9 --out out", ("L9",)),
    Case("fuse without labels", "fuse --dev unlabelled.csv --eval good.csv --out out", ("label",)),
    Case("fuse without a class", "fuse --dev spoofless.csv --eval good.csv --out out", ("spoof",)),
    Case("fuse into a file", "fuse --dev good.csv --eval good.csv --out good.csv", ("good.csv",)),
    Case("merge of nothing", "merge", ("required: states",)),
    Case(
        "merge of scores",
        "merge good.csv --out all.counts.safetensors",
        ("good.csv holds no counts",),
    ),
    Case("referee of nothing", "referee nowhere.yaml", ("nowhere.yaml",)),
    Case("decide by nothing", "decide good.csv", ("--fitted DIR is needed",)),
    Case("decide by nobody", "decide good.csv --fitted nowhere", ("no fitted systems in nowhere",)),
    Case("decide by L9", "decide good.csv --fitted results --system L9", ("L9",)),
    Case("decide by a sum", "decide good.csv --fitted results --system B1", ("no log-likelihood",)),
    Case("policy", "decide good.csv --fitted results --policy moon", ("policy", "moon")),
    Case("decide nothing", "decide nowhere.csv --fitted results", ("nowhere.csv",)),
    Case("damaged system", "decide good.csv --fitted bad", ("L3t.safetensors", "damaged")),
    Case("store for a system", "decide good.csv --fitted store", ("L3t.safetensors",)),
    Case("decide into a file", "decide good.csv --fitted results --out good.csv/x", ("good.csv",)),
    Case(
        "transfer of nothing",
        "transfer --fitted nowhere --scores good.csv --out out",
        ("no fitted systems in nowhere",),
    ),
    Case("convert to nothing", "convert good.csv", ("--to FORMAT is needed, one of csv, parq",)),
    Case("convert to the moon", "convert good.csv --to moon", ("moon",)),
    Case("in place", "convert good.csv --to csv --out good.csv", ("good.csv is the file that is",)),
    Case("convert a column", "convert good.csv --to bob4 --column moon", ("moon",)),
    Case("which column", "convert good.csv --to sasv2022", ("choose one with --column",)),
    Case("no numbers", "convert good.csv --to a-dcf --column attack", ("not hold numbers",)),
    Case("convert names with blanks", "convert blank.csv --to sasv2022-protocol", ("'U 1'",)),
    Case("report of nothing", "report nowhere", ("nowhere",)),
    Case("report of a file", "report good.csv", ("good.csv",)),
    Case("report of broken metrics", "report unread", ("metrics.json", "JSON")),
    Case("export nothing", "export --fitted nowhere --system L3t --out out", ("nowhere",)),
    Case("export L9", EXPORT + "L9", ("no fitted system 'L9' in", "there are B1, L3t")),
    Case("export from nothing", "export --fitted . --system L3t --out out", ("there is none",)),
    Case("export to nothing", "export --fitted x --system y", ("required: out",)),
    Case("export elsewhere", EXPORT + "../../L3t", ("../../L3t",)),
    Case("export over a file", EXPORT + "L3t --out good.csv", ("good.csv",)),
    Case("export with other scores", EXPORT + "L3t --dev nowhere.csv", ("nowhere.csv",)),
    Case("drift of nothing", "drift good.csv", ("--bundle DIR is needed",)),
    Case("drift of no bundle", "drift good.csv --bundle nowhere", ("no bundle at nowhere",)),
    Case("verify with nothing", "verify --bundle nowhere", ("--probe",)),
    Case("verify by nothing", "verify --bundle x --enrol a --probe b", ("no bundle at x",)),
    Case("enrol nobody", "enrol a.wav --bundle x", ("--name NAME",)),
    Case("serve nothing", "serve --bundle nowhere --port 0", ("no bundle at nowhere",)),
    Case("serve all", "serve --bundle x --host 0.0.0.0", ("LIGHTNING_SASV_TOKEN",)),
    Case("forget nobody", "enrol --forget anna", ("nobody is enrolled as 'anna'",)),
    Case("front ends without a head", EXPORT + "L3t --with-front-ends", ("needs the CM head",)),
    Case("export at no costs", EXPORT + "L3t --costs numbers.yaml", ("numbers.yaml",)),
    Case("no such command", "fitt", ("fitt", "fit")),
    Case("empty name", "evaluate ''", ("",)),
    Case("option without value", "evaluate good.csv --costs", ("costs",)),
    Case("configuration that is none", "configs L3cc", ("'L3cc'", "did you mean L3c?")),
    Case("schema of nothing", "schema fits", ("'fits'", "did you mean fit?")),
    Case("unknown shell", "completion fish", ("'bash', 'zsh'", "fish")),
    Case("folder that is there", "init results", ("results is there already", "another name")),
    Case("one place too many", "report results results", ("results",)),
]
LONG = "x" * 5000
LONG_NAMES = [
    Case(f"name too long in {args.split()[0]}", args, ("xxxxx", "too long"))
    for args in (
        f"evaluate {LONG}",
        f"fuse --dev {LONG} --eval good.csv",
        f"decide good.csv --fitted {LONG}",
        f"convert {LONG} --to csv",
        f"report {LONG}",
        f"sweep {LONG}",
        f"import {LONG} --out=out",
        f"simulate --out={LONG}",
        f"export --fitted {LONG} --system L3t --out out",
        f"table --data.root {LONG} --out out",
        f"fit --data.root {LONG}",
        f"extract --audio {LONG} --out out",
    )
]
CORRUPTED = {  # what is said of a score file, whichever command reads it; then what to do
    "nan.csv": ("line 2, column cm_score", ";"),
    "comma.csv": ("line 2: ", ";"),
    "column.csv": ("line 1: no column", ";"),
    "twice.csv": ("line 5: the trial of line 2 stands again", ";"),
}
READING = {
    "dev": "fuse --dev {} --eval good.csv --out out",
    "eval": "fuse --dev good.csv --eval {} --out out",
    "evaluate": "evaluate {} --json out.json",
    "decide": "decide {} --fitted results --out out.csv",
}
CORRUPTIONS = [
    Case(f"{file} in {where}", args.format(file), (file, *words))
    for file, words in CORRUPTED.items()
    for where, args in READING.items()
    if (file, where) != ("column.csv", "evaluate")  # one score is enough there
]
CASES = [*TRAINING, *EXPERIMENTS, *AUDIO, *SCORE_FILES, *LONG_NAMES, *CORRUPTIONS]
