"""`lightning fuse | evaluate | decide | convert`: golden values, broken files, comparisons."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from lightning_sasv.cli import main
from lightning_sasv.commands.arguments import by_position, translate
from lightning_sasv.fusion import OUR_SYSTEMS, PAPER_SYSTEMS
from lightning_sasv.results import read_metrics
from lightning_sasv.scores import LAYOUTS, read_table, write_scores
from tests.helpers import failure_of, metrics_in
from tests.scores.samples import toy_scores

SYSTEMS = (*PAPER_SYSTEMS, *OUR_SYSTEMS)
RATES = ("sasv_eer", "sv_eer", "spf_eer")


def shuffled(source: Path, target: Path, seed: int) -> Path:
    """A copy of a table with its rows in another order."""
    header, *rows = source.read_text().splitlines()
    random.Random(seed).shuffle(rows)
    target.write_text("\n".join([header, *rows]) + "\n")
    return target


@pytest.fixture(scope="module")
def real(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with the real scores in another order and what `fuse` made of them."""
    folder = tmp_path_factory.mktemp("real")
    for seed, split in enumerate(("dev", "eval")):
        shuffled(shared / f"data/sasv2022/{split}_scores.csv", folder / f"{split}.csv", seed)
    main(["fuse", "--dev", str(folder / "dev.csv"), "--eval", str(folder / "eval.csv"),
          "--out", str(folder / "out"), "--name", "sasv2022"])  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def golden(shared: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((shared / "golden" / "systems.json").read_text())
    return content


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with small score files and what `fuse` made of them."""
    folder = tmp_path_factory.mktemp("toy")
    for split, seed in (("dev", 0), ("eval", 1)):
        write_scores(folder / f"{split}.csv", toy_scores(seed=seed, speakers=12))
    main(["fuse", "--dev", str(folder / "dev.csv"), "--eval", str(folder / "eval.csv"),
          "--out", str(folder / "out"), "--systems", "L3,L3t,B1"])  # fmt: skip
    return folder


def evaluated(*args: str | Path, out: Path) -> dict[str, Any]:
    """Results of `evaluate` as JSON: systems on the one set that there is, and comparisons."""
    main(["evaluate", *map(str, args), "--json", str(out)])
    content: dict[str, Any] = json.loads(out.read_text())
    assert (content["format"], content["version"]) == ("lightning_sasv.metrics", 2)
    found = {name: next(iter(one["sets"].values())) for name, one in content["systems"].items()}
    return content | {"systems": found}


def of_of(result: dict[str, Any]) -> dict[str, Any]:
    """What the first system's results are of."""
    found: dict[str, Any] = next(iter(result["systems"].values()))["of"]
    return found


def test_evaluate_gives_the_golden_values(
    real: Path, golden: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = evaluated(real / "out/scores/eval.csv", "--ci", "none", out=tmp_path / "e.json")
    written = metrics_in(real / "out")
    assert of_of(result)["trials"] == {"spoof": 63882, "nontarget": 33327, "target": 5370}
    assert list(result["systems"]) == [*SYSTEMS, "asv+cm"]
    for system in PAPER_SYSTEMS:
        found, wanted = result["systems"][system]["values"], golden["systems"][system]["eval"]
        wanted = wanted | wanted.get("with_exact_calibration", {})
        for name in RATES:
            assert 100 * found[name] == pytest.approx(wanted[name], abs=1e-6)
        for name in ("cllr", "cllr_min"):
            assert found[name] == pytest.approx(wanted[name], abs=2e-5)
        if "calibration" not in PAPER_SYSTEMS[system]:
            assert found["min_a_dcf"] == pytest.approx(wanted["min_adcf_default"], abs=1e-6)
        if system in ("B1", "B1v2", "Post"):  # fuse knows that these are no LLRs
            assert written[system]["eval"]["act_a_dcf"] is None
            found = {**found, "act_a_dcf": None}
        assert {name: written[system]["eval"][name] for name in found} == (
            pytest.approx(found, abs=1e-12)
        )
    pair = result["systems"]["asv+cm"]["values"]
    assert 100 * pair["asv_eer"] == pytest.approx(1.6385, abs=5e-5)
    assert 100 * pair["t_eer"] == pytest.approx(2.103168, abs=1e-6)
    ours = {name: result["systems"][name]["values"] for name in OUR_SYSTEMS}
    assert ours["L3t"]["cllr"] <= 0.07
    assert ours["L3t"]["sasv_eer"] <= 0.0140
    assert ours["M3"]["sasv_eer"] <= 0.0140
    shown = capsys.readouterr()
    assert "20.6144" in shown.out
    assert "1.4340" in shown.out
    assert "looks like csv" in shown.err


def test_published_intervals(real: Path, golden: dict[str, Any], tmp_path: Path) -> None:
    result = evaluated(real / "out/scores/eval.csv", "--systems", "L3", "--ci", "trial",
                       "--replicates", "300", out=tmp_path / "e.json")  # fmt: skip
    found = result["systems"]["L3"]["intervals"]["sasv_eer"]
    wanted = golden["systems"]["L3"]["eval"]["ci95_trials"]
    assert 50 * (found["high"] - found["low"]) == pytest.approx(wanted["half"], rel=0.2)


def test_real_protocol_as_key(
    real: Path, shared: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Scores of other layouts, joined to the challenge's own protocol, give the same metrics."""
    fused = real / "out/scores/eval.csv"
    protocol = shared / "data/sasv2022/protocols/ASVspoof2019.LA.asv.eval.gi.trl.txt"
    main(["convert", str(fused), "--to", "asvspoof2021-asv", "--column", "sasv_L3",
          "--out", str(tmp_path / "bare.txt")])  # fmt: skip
    assert len((tmp_path / "bare.txt").read_text().splitlines()[0].split()) == 3
    none = ["--ci", "none"]
    bare = evaluated(
        f"sasv={tmp_path / 'bare.txt'}", "--key", protocol, *none, out=tmp_path / "a.json"
    )
    full = evaluated(fused, "--systems", "L3", *none, out=tmp_path / "b.json")
    of_folder = full["systems"]["L3"]["values"]
    assert of_folder.pop("dev_a_dcf") == pytest.approx(0.0300, abs=1e-4), "its dev is known"
    assert bare["systems"]["bare"]["values"] == of_folder
    rows = (tmp_path / "bare.txt").read_text().splitlines(keepends=True)
    (tmp_path / "short.txt").write_text("".join(rows[: -len(rows) // 100]))
    key = ["--key", protocol, "--json", tmp_path / "c.json"]
    said = failure_of(capsys, "evaluate", f"sasv={tmp_path / 'short.txt'}", *key)
    assert "short.txt: no score for 1,026 of 102,579 trials of " in said
    assert "trl.txt, line " in said
    assert "--allow-missing" in said
    assert not (tmp_path / "c.json").exists()
    main(["evaluate", f"sasv={tmp_path / 'short.txt'}", *map(str, key), "--allow-missing"])
    assert "1,026 of 102,579 trials of the key are left out" in capsys.readouterr().err
    of = read_metrics(tmp_path / "c.json")["short"]["sets"]["trials"]["of"]
    assert sum(of["trials"].values()) == 101553
    assert sum(of["expected"].values()) == 102579
    assert (of["part"], of["cause"]) == (True, "--allow-missing")


def test_decide_on_the_real_scores(
    real: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = {"a-dcf1": (0.0302, 0.47), "asvspoof5": (0.033, 0.15)}
    for name, (bayes, linear) in costs.items():
        capsys.readouterr()
        main(["decide", str(real / "eval.csv"), "--fitted", str(real / "out"), "--system", "L3",
              "--costs", name, "--compare", "--out", str(tmp_path / "d.csv")])  # fmt: skip
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
        found = {row[1]: float(row[5]) for row in rows if row[:1] == ["L3"]}
        assert found["bayes"] == pytest.approx(bayes, abs=1e-3)
        assert found["linear"] == pytest.approx(linear, abs=1e-2)
        assert found["utility"] >= found["bayes"]
    frame = pl.read_csv(tmp_path / "d.csv")
    assert len(frame) == 102579
    rate = frame.group_by("label").agg((pl.col("decision") == "accept").mean()).rows()
    assert dict(rate)["target"] > 0.95
    assert dict(rate)["spoof"] < 0.05


def test_windows_files_are_read_with_a_word_about_it(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "\ufeff" + (toy / "eval.csv").read_text().replace("\n", "\r\n")
    (tmp_path / "dos.csv").write_bytes(text.encode())
    main(["evaluate", str(tmp_path / "dos.csv")])
    assert "begins with a byte-order mark; read all the same" in capsys.readouterr().err
    main(["convert", str(tmp_path / "dos.csv"), "--to", "csv", "--out", str(tmp_path / "ok.csv")])
    assert (tmp_path / "ok.csv").read_bytes() == (toy / "eval.csv").read_bytes()


def test_several_systems_are_compared_in_words(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = read_table(toy / "out/scores/eval.csv")
    paths = []
    for name in ("L3", "B1"):
        main(["convert", str(table.path), "--to", "sasv2022", "--column", f"sasv_{name}",
              "--out", str(tmp_path / f"{name}.txt")])  # fmt: skip
        paths.append(tmp_path / f"{name}.txt")
    capsys.readouterr()
    result = evaluated(*paths, "--replicates", "100", out=tmp_path / "e.json")
    assert list(result["systems"]) == ["L3", "B1"]
    found = {one["metric"]: one for one in result["comparisons"]}
    assert found["sasv_eer"]["drawn"] == ["speaker", "attack"]
    assert found["sasv_eer"]["p"] <= found["sasv_eer"]["p_adjusted"] <= 1
    assert found["sasv_eer"]["verdict"].startswith("L3 is lower than B1 by ")
    difference = [result["systems"][n]["values"]["sasv_eer"] for n in ("L3", "B1")]
    assert found["sasv_eer"]["difference"] == difference[0] - difference[1]
    shown = capsys.readouterr().out
    assert "L3 − B1: " in shown
    assert "→ L3 is lower than B1 by " in shown
    assert "drawn: enrolled speakers × attacks, 100 replicates" in " ".join(shown.split())
    assert "Not distinguishable from L3: none." in shown


def test_breakdown_and_intervals_are_shown(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = evaluated(toy / "eval.csv", "--by", "attack,speaker", "--ci=speaker-attack",
                       "--replicates", "50", out=tmp_path / "e.json")  # fmt: skip
    assert of_of(result)["trials"] == {"spoof": 200, "target": 200, "nontarget": 200}
    assert of_of(result)["costs"]["p_target"] == 0.9
    one = result["systems"]["eval"]
    assert list(one["by"]["attack"]) == ["A07", "A08"]
    assert len(one["by"]["speaker"]) == 12
    assert one["by"]["attack"]["A07"]["t_eer"] > 0
    interval = one["intervals"]["t_eer"]
    assert 0 < interval["low"] < one["values"]["t_eer"] < interval["high"]
    shown = capsys.readouterr().out
    assert "eval by attack" in shown
    assert "eval by speaker" in shown
    words = "95 % intervals, drawn: enrolled speakers × attacks, 50 replicates"
    assert words in " ".join(shown.split())


def test_pair_of_files_with_a_key(toy: Path, tmp_path: Path) -> None:
    for role, layout in (("asv", "kaldi"), ("cm", "asvspoof2021-cm")):
        for split in ("dev", "eval"):
            main(["convert", str(toy / f"{split}.csv"), "--to", layout, "--column",
                  f"{role}_score", "--out", str(tmp_path / f"{split}_{role}.txt")])  # fmt: skip
    keys = {}
    for split in ("dev", "eval"):
        keys[split] = tmp_path / f"{split}_key.txt"
        main(["convert", str(toy / f"{split}.csv"), "--to", "sasv2022-protocol", "--out",
              str(keys[split])])  # fmt: skip
    pair = {s: f"{tmp_path / f'{s}_asv.txt'},{tmp_path / f'{s}_cm.txt'}" for s in keys}
    main(["fuse", "--dev", pair["dev"], "--dev-key", str(keys["dev"]), "--eval", pair["eval"],
          "--eval_key", str(keys["eval"]), "--systems", "L3,L3t,B1", "--out",
          str(tmp_path / "out")])  # fmt: skip
    for name in ("dev", "eval"):
        one, two = (pl.read_csv(f / "out/scores" / f"{name}.csv") for f in (toy, tmp_path))
        assert one.select(sorted(one.columns)).equals(two.select(sorted(two.columns)))
    first = evaluated(pair["eval"], "--key", keys["eval"], out=tmp_path / "a.json")
    second = evaluated(toy / "eval.csv", out=tmp_path / "b.json")
    assert list(first["systems"]) == ["eval_asv+eval_cm"]
    one, two = first["systems"]["eval_asv+eval_cm"], second["systems"]["eval"]
    assert one["values"] == two["values"]
    assert one["of"]["fingerprint"] == two["of"]["fingerprint"]
    assert one["of"]["scores"] == two["of"]["scores"]


def test_decide_without_labels_and_with_costs_from_a_file(
    toy: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pl.read_csv(toy / "eval.csv").drop("label", "attack").write_csv(tmp_path / "bare.csv")
    costs = tmp_path / "costs.yaml"
    costs.write_text("c_miss: 1.0\nc_fa_spoof: 2.0\n")
    main(["decide", str(tmp_path / "bare.csv"), "--fitted", str(toy / "out"), "--costs",
          str(costs), "--out", str(tmp_path / "d.csv")])  # fmt: skip
    shown = capsys.readouterr().out
    assert [line.split()[:2] for line in shown.splitlines() if "L3t" in line] == [["L3t", "bayes"]]
    frame = pl.read_csv(tmp_path / "d.csv")
    assert frame["threshold"][0] == pytest.approx(math.log(3))
    assert set(frame["decision"]) == {"accept", "reject"}


def command(files: list[str], key: str | None = None, allow_missing: bool = False) -> None:
    """A command for the tests below."""


def options_only(*, dev: str, number: int = 1, allow_missing: bool = False) -> None:
    """Another one."""


def short_names(*, files: list[str] | None = None, seeds: str = "1") -> None:
    """One whose options have other names, and take several files."""


def hands_on(*, file: str, options: list[str] | None = None) -> None:
    """One that hands on options that it does not have."""


vars(short_names)["also"] = {"seed_everything": "seeds"}


@pytest.mark.parametrize(
    ("function", "words", "expected"),
    [
        (command, ["a", "b"], ['["a", "b"]']),
        (command, ["a", "--key", "k", "b"], ['["a", "b"]', "--key", "k"]),
        (command, ["--allow-missing", "a"], ['["a"]', "--allow_missing=true"]),
        (command, ["a", "--allow_missing", "false"], ['["a"]', "--allow_missing", "false"]),
        (command, ["a", "--allow-missing=false"], ['["a"]', "--allow_missing=false"]),
        (command, ["-h"], ["-h"]),
        (command, ["--help"], ["--help"]),
        (command, ["--key"], ["--key"]),
        (command, ["--key", "a", "--key=b", "--by", "key"], ["--by", "key", "--key=a,b"]),
        (command, ["--columns", "-,score"], ["--columns=-,score"]),
        (options_only, ["--dev", "x", "--number", "-1"], ["--dev", "x", "--number", "-1"]),
        (short_names, ["--seed-everything=3"], ["--seeds=3"]),
        (short_names, ["--seed_everything", "3"], ["--seeds", "3"]),
        (
            short_names,
            ["--seeds", "2", "--files", "a", "b"],
            ['--files=["a", "b"]', "--seeds", "2"],
        ),
        (short_names, ["--files=a", "--files", "b"], ['--files=["a", "b"]']),
        (short_names, ["--files=[a]"], ["--files=[a]"]),
        (
            hands_on,
            ["--file", "f", "--x=1", "--y", "2"],
            ["--file", "f", '--options=["--x=1", "--y=2"]'],
        ),
    ],
)
def test_words_of_the_command_line(
    function: Callable[..., None], words: list[str], expected: list[str]
) -> None:
    assert translate(function, words) == expected
    assert by_position(function) == (function is command)


def test_pooled_subsets_are_mentioned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [(f"u{n}", "spoof" if n % 2 else "bonafide", "eval" if n % 3 else "progress")
            for n in range(60)]  # fmt: skip
    key = "".join(f"s {u} c t {'A07' if k == 'spoof' else k} {k} notrim {p}\n" for u, k, p in rows)
    (tmp_path / "key.txt").write_text(key)
    (tmp_path / "cm.txt").write_text("".join(f"{u} {n % 7}\n" for n, (u, *_) in enumerate(rows)))
    files = [tmp_path / "cm.txt", "--key", tmp_path / "key.txt"]
    named = ["--key-format", "asvspoof2021-la-key", "--format", "asvspoof2021-cm"]
    result = evaluated(*files, *named, out=tmp_path / "e.json")
    assert sum(of_of(result)["trials"].values()) == 60
    said = capsys.readouterr().err
    assert "subsets eval, progress are pooled" in said
    assert "read as asvspoof2021-la-key" in said
    part = evaluated(*files, "--where", "subset=eval", out=tmp_path / "part.json")
    assert sum(of_of(part)["trials"].values()) == 40
    assert "looks like asvspoof2021-la-key" in capsys.readouterr().err


@pytest.mark.parametrize("layout", LAYOUTS)
def test_convert_writes_into_the_current_folder(
    layout: str,
    toy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Formats that have room for these trials are written under their own name."""
    monkeypatch.chdir(tmp_path)
    source = toy / "eval.csv"
    target = tmp_path / f"eval.{layout}{LAYOUTS[layout].suffix}"
    args = ["convert", str(source), "--to", layout, "--column", "asv_score"]
    if layout in ("bob4", "bob5", "voxceleb", "speechbrain", "asvspoof2021-la-key",
                  "asvspoof2021-la", "asvspoof2021-pa-key", "asvspoof2021-df-key",
                  "asvspoof5-key", "wespeaker-asnorm", "cm-gender", "voxceleb-scores", "espnet",
                  "nist-sre", "bob-measure"):  # fmt: skip
        failure_of(capsys, *args)
        assert not target.exists()
        return
    main(args)
    assert len(read_table(target, layout)) == 600


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("evaluate", ["FILE [...]"]),
        ("fuse", ["--dev DEV --eval EVAL"]),
        ("extract", ["--audio", "--protocol", "--out", "--strict", "--workers", "--device"]),
    ],
)
def test_help(command: str, shown: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert not ended.value.code
    text = capsys.readouterr().out
    assert all(words in text for words in shown)
