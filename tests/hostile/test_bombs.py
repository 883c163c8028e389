"""A few bytes that stand for gigabytes or for years are refused in a moment, by a line."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lightning_sasv import limits
from lightning_sasv.cli import main
from lightning_sasv.data.challenge import MARKER, corpus_name
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_json, read_yaml
from lightning_sasv.program import Program, using
from lightning_sasv.scores import read_table, write_scores
from tests.hostile import bombs
from tests.hostile.conftest import Attack
from tests.scores.samples import toy_scores

PATIENCE = 20
"""Seconds, of which most are the import of Lightning on a busy machine."""


@pytest.fixture(autouse=True)
def in_time() -> Iterator[None]:
    start = time.process_time()
    yield
    assert time.process_time() - start < PATIENCE


@pytest.mark.usefixtures("scored")
@pytest.mark.parametrize("name", bombs.YAML)
def test_yaml(name: str, attack: Attack, configured: Attack) -> None:
    assert "x.yaml" in configured(bombs.YAML[name], "fit")
    assert "x.yaml" in attack("evaluate", "x.csv", "--costs", "x.yaml")
    assert "x.yaml" in attack("sweep", "x.yaml", "--offline")
    attack("extract", "--config", "x.yaml")


@pytest.mark.parametrize("name", ["aliases", "itself", "closed brackets"])
def test_yaml_as_the_value_of_an_option_or_from_a_pipe(
    name: str, here: Path, attack: Attack
) -> None:
    text = bombs.YAML[name]
    attack("fit", f"--data={text}")
    attack("extract", "--audio=.", "--out=out", f"--cm={{{text}}}")
    (here / "section.yaml").write_text(text)
    attack("fit", "--data", "section.yaml")
    (here / "outer.yaml").write_text("data: section.yaml\n")
    attack("fit", "--config", "outer.yaml")
    for command in ("fit", "extract"):
        read, write = os.pipe()
        os.write(write, text.encode())
        os.close(write)
        attack(command, "--config", f"/dev/fd/{read}")
        os.close(read)


def test_many_keys_are_within_the_limits(configured: Attack) -> None:
    """OmegaConf has a limit of its own, below ours."""
    text = "\n".join(f"k{number}: 1" for number in range(11_000))
    assert "does not accept option 'k0'" in configured(text, "predict")


@pytest.mark.parametrize("command", ["fit", "extract", "sweep"])
def test_a_device_without_end(command: str, attack: Attack) -> None:
    option = [] if command == "sweep" else ["--config"]
    with using(Program(limits=0.01)):
        attack(command, *option, "/dev/zero", "--limits=0.01")


@pytest.mark.parametrize("name", bombs.INTERPOLATED)
def test_interpolations(name: str, configured: Attack) -> None:
    assert "${…}" in configured(bombs.INTERPOLATED[name], "fit")


FUSED = "speaker,utterance,attack,label,asv_score,cm_score,sasv_X\n" + "".join(
    f"S,U{row},-,{('target', 'nontarget', 'spoof')[row % 3]},{row},{row},{row}\n"
    for row in range(30)
)


@pytest.mark.parametrize("name", bombs.JSON)
def test_json(name: str, here: Path, attack: Attack) -> None:
    text = bombs.JSON[name]
    (here / "x" / "scores").mkdir(parents=True)
    (here / "x" / "scores" / "eval.csv").write_text(FUSED)
    for place in ("x/metrics.json", "x/recipe.json", "costs.json", f"x/{MARKER}"):
        (here / place).write_text(text)
    assert "metrics.json" in attack("report", "x", "--out=out/x.html")
    assert "costs.json" in attack("evaluate", "x/scores/eval.csv", "--costs=costs.json")
    with pytest.raises(InputError, match=MARKER):
        corpus_name(here / "x", None)
    for place in ("manifest.json", "bundle.json", "checksums.json"):
        (here / place).write_text(text)
        with pytest.raises(InputError, match=place):
            read_json(place)


@pytest.mark.parametrize("name", bombs.OTHER_KINDS)
def test_other_kinds_of_files_are_named(name: str, here: Path, attack: Attack) -> None:
    (here / "x").write_bytes(bombs.OTHER_KINDS[name])
    for words in (("evaluate", "x"), ("convert", "x", "--to=csv", "--out=out/x.csv")):
        said = attack(*words)
        assert name in said
        assert "Windows" not in said


@pytest.mark.parametrize("name", bombs.TEXTS)
def test_absurd_lines(name: str, here: Path, attack: Attack) -> None:
    (here / "x.csv").write_bytes(bombs.TEXTS[name])
    assert "x.csv" in attack("evaluate", "x.csv", "--ci=speaker")


@pytest.mark.parametrize("name", bombs.PICKLES)
def test_pickles(name: str, here: Path) -> None:
    (here / "x.pk").write_bytes(bombs.PICKLES[name])
    with pytest.raises(InputError, match=r"x\.pk"):
        EmbeddingStore.from_pickle("x.pk")


MEASURED = """
import re, sys
from lightning_sasv.cli import main
for path in sys.argv[1:]:
    try:
        main(["evaluate", path, "--limits=0.1"])
    except SystemExit as ended:
        assert ended.code == 2
print(int(re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())[1]) // 1024)
"""


def test_tables_of_equal_rows_take_no_memory(here: Path) -> None:
    bombs.equal_rows(here / "rows.parquet")
    bombs.long_cell(here / "cell.parquet")
    assert all(path.stat().st_size < 1_000_000 for path in here.glob("*.parquet"))
    words = [sys.executable, "-c", MEASURED, "rows.parquet", "cell.parquet"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert "rows.parquet: more than 2,000,000 cells" in done.stderr
    assert "cell.parquet: more than 20,000,000 bytes" in done.stderr
    assert int(done.stdout) < 400  # megabytes


def test_limits_can_be_raised(here: Path) -> None:
    (here / "x.yaml").write_text("a: [" + "1, " * 150_000 + "1]\n")
    with pytest.raises(InputError, match="--limits FACTOR"):
        read_yaml("x.yaml")
    with using(Program(limits=2)):
        assert len(read_yaml("x.yaml")["a"]) == 150_001


def test_sound_files_are_far_from_the_limits(here: Path) -> None:
    """A thousandth of the limits is enough for our own files."""
    write_scores(here / "x.csv", toy_scores(300))
    with using(Program(limits=0.1)):
        main(["convert", "x.csv", "--to=parquet", "--out=out/x.parquet", "--limits=0.1"])
        assert len(read_table("out/x.parquet")) == 300


def test_memory_and_depth_that_end_are_a_line(
    monkeypatch: pytest.MonkeyPatch, scored: Path, attack: Attack
) -> None:
    def fails(error: type[Exception]) -> None:
        def read(*_: object, **__: object) -> None:
            raise error

        monkeypatch.setattr("lightning_sasv.scores.sources.read_plain", read)

    fails(RecursionError)
    assert "nested too deeply" in attack("convert", "x.csv", "--to=csv", "--out=out/y.csv")
    fails(MemoryError)
    with pytest.raises(SystemExit, match="1"):
        main(["convert", "x.csv", "--to=csv", "--out=out/y.csv"])


def test_every_limit_is_documented(repository: Path) -> None:
    page = (repository / "docs" / "formats.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([\d,]+) \| ([^|]+) \|", page, re.MULTILINE)
    every = [one for one in vars(limits).values() if isinstance(one, limits.Limit)]
    assert {f"{limit.most:,.0f} {limit.what}" for limit in every} <= {" ".join(row) for row in rows}
