"""The examples of README.md and docs run as they stand, in one folder, one after the other."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import polars
import pytest
import yaml

from lightning_sasv.cli import main
from lightning_sasv.report.figures import FIGURES
from lightning_sasv.scores import read_scores
from tests.conftest import REPOSITORY

pytestmark = pytest.mark.slow

PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
SMALL = ["--data.scale=0.02", "--trainer.max_epochs=1"]
FEW = ["--replicates=99"]
SMALLER = {
    "fit": SMALL,
    "table": [*SMALL, "--seeds=1", "--replicates=0", "--processes=1"],
    "evaluate": FEW,
    "report": FEW,
}
"""What is added to commands that would take long."""

PARSED = {
    "lightning download": "a download",
    "lightning extract": "recordings and weights",
    "--with-front-ends": "recordings and weights",
    "lightning verify": "recordings and weights",
    "lightning enrol": "recordings and weights",
    "lightning serve": "a service that ends when it is stopped",
    "--data.root embeddings": "recordings and weights",
    "DATA=sasv2022": "a download",
    "--data.root DIR": "a corpus of the reader's own",
    "--data.trials LIST": "trials of the reader's own",
    "make test": "minutes",
    "srun": "SLURM",
    "--launcher slurm": "SLURM",
    "import ray": "ray",
    "$SLURM": "SLURM",
    "AASIST.from_checkpoint": "weights",
    "class_path: my_networks": "weights of the reader's own",
}
"""Examples that are parsed, not run: a text in them, and what running them would need."""


class Block(NamedTuple):
    page: str
    language: str
    text: str


def blocks() -> Iterator[Block]:
    """The fenced blocks of all pages that a reader could run."""
    for page in PAGES:
        for language, text in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.M | re.S):
            runs = language in ("sh", "bash", "yaml", "python")
            if runs or re.match(r"(lightning|make) ", text):
                yield Block(page.relative_to(REPOSITORY).as_posix(), language, text)


BLOCKS = list(blocks())


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a reader of the pages has: the configurations, scores and costs of their own."""
    folder = tmp_path_factory.mktemp("reader")
    (folder / "configs").symlink_to(REPOSITORY / "configs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("L3t", "L3c"):
            main(["fit", "--config", name, *SMALL, "--quiet"])
    shutil.copytree(folder / "runs/L3t/version_0", folder / "results/L3t")
    costs = {"c_miss": 1, "c_fa_nontarget": 10, "c_fa_spoof": 10}
    costs |= {"p_target": 0.9, "p_nontarget": 0.05, "p_spoof": 0.05}
    (folder / "costs.json").write_text(json.dumps(costs))
    for split in ("dev", "eval"):
        frame = polars.read_csv(folder / f"results/L3t/scores/{split}.csv")
        frame = frame.select(name for name in frame.columns if not name.startswith("sasv_"))
        frame.write_csv(folder / f"{split}_scores.csv")
    frame.write_csv(folder / "eval.csv")
    fused = frame.drop("label", "cm_score").rename({"asv_score": "sasv"})
    fused.write_csv(folder / "scores.txt")
    frame.drop("asv_score", "cm_score").write_csv(folder / "key.txt")
    return folder


def needs(text: str) -> str | None:
    """What stands against running an example here."""
    return next((reason for part, reason in PARSED.items() if part in text), None)


def run_line(line: str, lacking: str | None) -> None:
    """Run a line of a shell, or parse it where something is lacking."""
    words = shlex.split(line, comments=True)
    if words[:1] == ["make"]:
        dry = ["make", "--dry-run", "--no-print-directory", *words[1:]]
        done = subprocess.run(dry, cwd=REPOSITORY, capture_output=True, text=True, check=True)
        if "lightning " not in done.stdout:
            return
        words = shlex.split(done.stdout.splitlines()[-1])
    words = words[1:] if words[0] == "srun" else words
    assert Path(words[0]).name == "lightning", line
    if lacking is not None:
        with pytest.raises(SystemExit) as ended:
            main([*words[1:], "--print_config"])
        assert not ended.value.code, line
    else:
        main([*words[1:], *SMALLER.get(words[1], [])])


def run_python(text: str, folder: Path) -> None:
    """Run Python code with what it takes for granted."""
    code = compile(text, "<example>", "exec")
    if needs(text) is not None:
        imports = re.findall(r"^(?:from|import) (?!ray$).*$", text, re.M)
        code = compile("\n".join(imports), "<example>", "exec")
    dev, own = (read_scores(folder / f"{split}_scores.csv") for split in ("dev", "eval"))
    names: dict[str, Any] = {"dev_asv": dev.asv, "dev_cm": dev.cm, "dev_labels": dev.label}
    names |= {"eval_asv": own.asv, "eval_cm": own.cm, "eval_labels": own.label}
    exec(code, names | {"__name__": "example"})


@pytest.fixture
def _few_figures() -> Iterator[None]:
    """Two figures in place of all, which take a minute; and none that an example adds stays."""
    before = dict(FIGURES)
    for name in list(FIGURES)[2:]:
        del FIGURES[name]
    yield
    FIGURES.clear()
    FIGURES.update(before)


@pytest.mark.usefixtures("_few_figures")
@pytest.mark.parametrize("block", BLOCKS, ids=[f"{b.page}-{n}" for n, b in enumerate(BLOCKS)])
def test_examples_run_as_they_stand(
    reader: Path, block: Block, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(reader)
    if block.language == "python":
        named = re.match(r"# (\w+\.py)\n", block.text)
        if named:
            Path(named[1]).write_text(block.text)
        run_python(block.text, reader)
    elif block.language == "yaml":
        named = re.match(r"# (\w+\.yaml), for `lightning (.*?)`", block.text)
        command = named[2] if named else "fit --config example.yaml"
        Path(named[1] if named else "example.yaml").write_text(block.text)
        assert yaml.safe_load(block.text)
        run_line(f"lightning {command}", needs(block.text))
    else:
        for line in block.text.replace("\\\n", "").splitlines():
            if not line.startswith("#"):
                run_line(line, needs(line))
    shown = capsys.readouterr()
    assert "error" not in shown.err
    assert "cannot be recomputed" not in shown.out


def test_every_reason_is_needed_and_every_page_is_read() -> None:
    texts = [block.text for block in BLOCKS]
    assert all(any(part in text for text in texts) for part in PARSED)
    read = {block.page for block in BLOCKS}
    assert {"README.md", "docs/deploy.md", "docs/report.md", "docs/recipes/density.md"} <= read
