"""Every command bears odd names, odd environments and odd terminals; data are shown as text."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from lightning_sasv.cli import COMMANDS, TRAINING, main
from lightning_sasv.console import Terminal, print_line
from lightning_sasv.files import write_json
from lightning_sasv.scores import write_scores
from lightning_sasv.terminal import clean
from tests.frontends.toys import write_tone
from tests.hostile.conftest import Attack
from tests.hostile.environments import ENVIRONMENTS, NAME, NAMES, TOGETHER, Environment, run
from tests.scores.samples import toy_scores

pytestmark = pytest.mark.slow

TEXT = NAME.replace("\udcff", "")
CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
RAW = "a\x1b]0;x\x07\x1b[2J\x9b1m\r\u202e\u2028\x7f"


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of an odd name, with what the commands read, under odd names."""
    folder = tmp_path_factory.mktemp("odd") / NAME
    folder.mkdir()
    plain = folder.parent / "dev.csv"
    write_scores(plain, toy_scores(300))
    shutil.copy(plain, folder / f"{NAME}.csv")
    fused = ["--dev", str(plain), "--eval", str(plain), "--systems", "B1,L3t"]
    main(["fuse", *fused, "--out", str(folder.parent / "fused")])
    shutil.copytree(folder.parent / "fused", folder / f"{NAME}.run")
    bundle = ["--fitted", str(folder.parent / "fused"), "--system=L3t", "--dev", str(plain)]
    main(["export", *bundle, "--out", str(folder.parent / "bundle")])
    shutil.copytree(folder.parent / "bundle", folder / f"{NAME}.bundle")
    main(["simulate", "--out", str(folder.parent / "twin"), "--scale", "0.005"])
    shutil.copytree(folder.parent / "twin", folder / f"{TEXT}.twin")
    write_tone(folder.parent / "x.wav", 440)
    (folder / f"{TEXT}.audio").mkdir()
    shutil.copy(folder.parent / "x.wav", folder / f"{TEXT}.audio" / "x.wav")
    (folder / f"{NAME}.yaml").write_text("method: grid\n")
    return folder


SCORES = f"{NAME}.csv"
SMALL = ["--trainer.accelerator=cpu", "--trainer.max_epochs=1"]
WORDS: dict[str, tuple[int, list[str]]] = {
    "fit": (0, ["--data.root", f"{TEXT}.twin", *SMALL]),
    "validate": (2, ["--ckpt_path", f"{TEXT}.ckpt"]),
    "test": (2, ["--ckpt_path", f"{NAME}.ckpt"]),
    "predict": (2, ["--config", f"{TEXT}.yaml"]),
    "table": (0, ["--out", f"{NAME}.t", "--seeds=1", "--systems=B1", "--data.scale=0.005"]),
    "configs": (2, [NAME]),
    "init": (0, [f"{NAME}.new"]),
    "schema": (2, [NAME]),
    "completion": (2, [NAME]),
    "extract": (2, ["--audio", f"{NAME}.audio", "--out", f"{NAME}.embeddings"]),
    "sweep": (2, [f"{NAME}.yaml", "--offline"]),
    "simulate": (0, ["--out", f"{NAME}.corpus", "--scale=0.005"]),
    "import": (0, [f"{TEXT}.twin", "--out", f"{NAME}.stores"]),
    "download": (2, [NAME, "--out", f"{NAME}.files"]),
    "export": (
        0,
        ["--fitted", f"{NAME}.run", "--system=L3t", "--out", f"{NAME}.b", "--dev", SCORES],
    ),
    "fuse": (0, ["--dev", SCORES, "--eval", SCORES, "--systems=B1", "--out", f"{NAME}.fused"]),
    "evaluate": (0, [SCORES, SCORES, "--by=attack", "--json", f"{NAME}.json"]),
    "merge": (2, [f"{NAME}.counts.safetensors", "--out", f"{NAME}.all.counts.safetensors"]),
    "referee": (2, [f"{NAME}.yaml"]),
    "decide": (0, [SCORES, "--fitted", f"{NAME}.run", "--system=L3t", "--out", f"{NAME}.d"]),
    "transfer": (0, ["--fitted", f"{NAME}.run", "--scores", SCORES, "--out", f"{NAME}.x"]),
    "drift": (0, [SCORES, "--bundle", f"{NAME}.bundle"]),
    "verify": (2, ["--bundle", f"{NAME}.bundle", "--enrol", NAME, "--probe", f"{NAME}.wav"]),
    "enrol": (2, [f"{NAME}.wav", "--bundle", f"{NAME}.bundle", "--name", TEXT]),
    "serve": (0, ["--bundle", f"{NAME}.bundle", "--stdin"]),
    "convert": (0, [SCORES, "--to=parquet", "--out", f"{NAME}.parquet"]),
    "report": (0, [f"{NAME}.run", "--out", f"{NAME}.html"]),
}


def check_shown(shown: bytes) -> str:
    """The output in ASCII, if it is that, and no traceback."""
    text = shown.decode("ascii")
    assert "Traceback" not in text, text
    assert not CONTROLS.search(text), text
    return text


def test_every_command_is_tried() -> None:
    assert WORDS.keys() == {*COMMANDS, *TRAINING}


@pytest.mark.parametrize("command", WORDS)
def test_all_at_once(command: str, odd: Path) -> None:
    code, words = WORDS[command]
    done = run([command, *words], TOGETHER, odd)
    said = check_shown(done.stderr)
    assert done.returncode == code, said
    if code:
        assert len(said.splitlines()) == 1, said
    check_shown(done.stdout)


STREAMS = {name: one for name, one in ENVIRONMENTS.items() if one.shell}


@pytest.mark.parametrize("name", STREAMS)
@pytest.mark.parametrize("words", [["--help"], ["evaluate", SCORES]])
def test_streams(name: str, words: list[str], odd: Path) -> None:
    done = run(words, STREAMS[name], odd)
    assert done.returncode in ((1,) if name == "full device" else STREAMS[name].codes)
    said = done.stderr.decode()
    assert "Traceback" not in said
    assert "Exception ignored" not in said
    if name == "full device":
        assert said.splitlines()[-1].endswith("No space left on device")


TRAININGS = {
    "fit": ["fit", "--data.scale=0.01", *SMALL],
    "table": [
        "table",
        "--seeds=1",
        "--systems=B1",
        "--epochs=1",
        "--replicates=0",
        "--data.scale=0.01",
    ],
}


@pytest.mark.parametrize("command", TRAININGS)
def test_streams_of_trainings(command: str, here: Path) -> None:
    """Nobody has to read the progress of a training; a full device breaks it off."""
    done = run(TRAININGS[command], STREAMS["reader gone"], here)
    assert (done.returncode, done.stderr) == (0, b"")
    assert list(here.rglob("scores/eval.csv"))
    (here / "again").mkdir()
    done = run(TRAININGS[command], STREAMS["full device"], here / "again")
    assert done.returncode == 1
    assert b"No space left on device" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_an_error_for_nobody_keeps_its_code(odd: Path) -> None:
    for shell in ("2>/dev/full", "2>&-", ">&- 2>&-"):
        assert run(["evaluate", "nothing"], Environment(shell=shell), odd).returncode == 2


@pytest.mark.parametrize("name", NAMES)
def test_names_of_files(name: str, here: Path, attack: Attack) -> None:
    file = f"./{NAMES[name]}"
    Path(file).parent.mkdir(exist_ok=True)
    write_scores(here / "plain.csv", toy_scores(90))
    shutil.copy("plain.csv", file)
    said = attack("evaluate", file, "plain.csv", file, refused=False)
    said += attack("convert", file, "--to=csv", f"--out=out/{NAMES[name]}", refused=False)
    said += attack("fuse", f"--dev={file}", "--eval", file, "--out=out/f", refused=False)
    said += attack("report", "out/f", refused=False)
    assert not CONTROLS.search(said)
    assert "looks like csv" in said


def test_brackets_are_no_markup(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["simulate", "--out", "a[/b]c", "--scale=0.005"])
    assert "a[/b]c" in capsys.readouterr().out
    print_line("[bold]x[/bold] :smile:")
    assert capsys.readouterr().out == "[bold]x[/bold] :smile:\n"


def test_control_characters_from_files(scored: Path, attack: Attack) -> None:
    attack("fuse", "--dev=x.csv", "--eval=x.csv", "--systems=B1", "--out=out", refused=False)
    write_json(scored / "out" / "metrics.json", {"B1": {"corpus": RAW, "eval": {}}})
    said = attack("report", "out", "--out=out/y.html", refused=False)
    assert r"a\x1b]0;x\x07\x1b[2J\x9b1m\x0d\u202e\u2028\x7f" in said
    text = f'trainer: {{callbacks: [{{class_path: "{RAW}"}}]}}\n'
    (scored / "x.yaml").write_text(text, "utf-8")
    for words in (["fit", "--config=x.yaml"], ["evaluate", RAW], [RAW], ["fit", f"--{RAW}"]):
        assert not CONTROLS.search(attack(*words))


def test_what_is_shown_is_clean(capsys: pytest.CaptureFixture[str]) -> None:
    assert clean("a\x1b\x00\x85\u2067\ud800\udc80b\n") == r"a\x1b\x00\x85\u2067\ud800\x80b\x0a"
    assert clean("ä 😀 → [x]") == "ä 😀 → [x]"
    Terminal().print(RAW)
    assert not CONTROLS.search(capsys.readouterr().out)


def test_a_narrow_terminal_loses_no_number(
    scored: Path, monkeypatch: pytest.MonkeyPatch, attack: Attack
) -> None:
    monkeypatch.setenv("COLUMNS", "1")
    narrow = attack("evaluate", "x.csv", refused=False)
    monkeypatch.setenv("COLUMNS", "80")
    assert narrow == attack("evaluate", "x.csv", refused=False)


def test_quiet(scored: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = {
        "evaluate": ["x.csv"],
        "fuse": ["--dev=x.csv", "--eval=x.csv", "--systems=B1", "--out=out"],
        "convert": ["x.csv", "--to=parquet", "--out=x.parquet"],
        "report": ["out"],
        "simulate": ["--out=twin", "--scale=0.005"],
        "fit": ["--data.scale=0.01", *SMALL],
    }
    for command, options in words.items():
        main([command, *options, "--quiet"])
        shown = capfd.readouterr()
        assert not shown.err
        assert "Written to" not in shown.out
        assert bool(shown.out) == (command in ("evaluate", "fuse", "fit"))
    with pytest.raises(SystemExit):
        main(["evaluate", "nothing", "--quiet"])
    assert "nothing" in capfd.readouterr().err


def test_no_colour(odd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Terminal().no_color
    assert sys.stdout.errors != "lightning_sasv.nearest"  # only while a command runs
