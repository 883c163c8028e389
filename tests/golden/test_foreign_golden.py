"""Other people's files, evaluated as they stand, give what other people's programs give."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from lightning_sasv import evaluation

CONVENTIONS = {
    "asvspoof": "asvspoof",
    "rocch": "rocch",
    "nist-interpolated": "interpolated",
    "interpolated ROC, brentq": "interpolated",
    "max of FNR and FPR at the closest point": "max",
    "bob: threshold of smallest |FAR-FRR|, mean": "asvspoof",
}
"""Conventions of the tools and ours; the rest of the values have none."""

OPTIONS: dict[str, dict[str, Any]] = {
    "itw/btse_inwild.txt": {"columns": "utterance,-,score", "ids": "name"},
    "vally/cm_scores_test.csv": {"labels": "bona=1,spoof=0"},
    "a5cm/predictions.tsv": {
        "columns": "utt score - label - - spk - codec - attack -",
        "labels": "bona=0,spoof=1",
    },
    "npy/fvcaus_scores.npy": {"labels": "target=1,nontarget=0"},
    "relaid/scores.npz": {"labels": "target=1,nontarget=2,spoof=0"},
    "relaid/prism_labels.csv": {"labels": "target=0,nontarget=1,spoof=2"},
    "bob/measure-dev-1.txt": {"allow_missing": True},
    "bob/dev-4col.txt": {"ids": "none"},
    "bob/dev-5col.txt": {"ids": "none"},
    "tdcf2018/cm_dev.txt": {"ids": "none"},
    "wildspoof/tmp_scorefile": {"ids": "none"},
}
"""What has to be added to the name of a file, as its own message says."""

CLASSES = ("lir/LLR_KM.csv", "relaid/llr_target.txt")
PAIRS = ("tdcf2018/asv_dev.txt", "tdcf2019/ASVspoof2019.LA.asv.dev.gi.trl.scores.txt",
         "jspaw/L3_ASV.txt", "relaid/teer_asv.txt")  # fmt: skip


def arguments(entry: dict[str, Any], folder: Path) -> dict[str, Any]:
    """How a golden value's files are given to ``evaluate``."""
    first, *others = entry["files"]
    paths = [str(folder / name) for name in entry["files"]]
    given = dict(OPTIONS.get(first, {}))
    if first in CLASSES:
        return {"files": [f"target={paths[0]},nontarget={paths[1]}"], **given}
    if first in PAIRS and others:
        given = {"ids": "none"} if "tdcf2018" in first else given
        return {"files": [f"asv={paths[0]},cm={paths[1]}"], **given}
    note, metric = entry.get("note") or "", entry["metric"]
    if note.startswith("negated"):
        given["negate"] = "cm"
    sasv = metric in ("sasv_eer", "sv_eer", "spf_eer", "cllr", "cllr_min", "min_a_dcf")
    file = f"sasv={paths[0]}" if "bob/vuln" in first and sasv else paths[0]
    return {"files": [file], **given, **({"key": paths[1]} if others else {})}


def settings(entry: dict[str, Any]) -> dict[str, Any]:
    """Conventions and costs of a golden value as options."""
    said = entry["parameters"]
    found: dict[str, Any] = {"convention": CONVENTIONS.get(said.get("convention"), "asvspoof")}
    if entry["metric"] == "min_a_dcf":
        found["costs"] = said["name"]
    if said.get("logarithm_of_the_file") == "10":
        found["log"] = "asv=10"
    if "p_target" in said:
        found["dcf"] = f"{said['p_target']},{said['c_miss']},{said['c_fa']}"
    if "fixed rates" in said.get("asv", ""):
        found["asv_rates"] = "asvspoof5"
    if said.get("rule", "").startswith("reference"):
        found["t_eer_rule"] = "reference"
    return found


def test_every_value(shared: Path) -> None:
    folder = shared / "data/foreign"
    values = json.loads((shared / "golden/foreign.json").read_text())["values"]
    results: dict[str, dict[str, float]] = {}
    wrong, checked = [], 0
    for entry in values:
        name = entry["metric"]
        given = arguments(entry, folder) | settings(entry)
        key = json.dumps(given, sort_keys=True)
        if key not in results:
            (results[key],) = evaluation.evaluate(**given, ci="none").metrics.values()
        found = results[key]
        if entry["files"][0] in CLASSES:
            name = {"eer": "asv_eer", "cllr": "asv_cllr", "cllr_min": "asv_cllr_min"}[name]
        checked += 1
        value = found.get(name)
        scale = entry["value"] if entry["metric"] in ("asv_cllr",) else 1
        if value is None or abs(value - entry["value"]) > entry["tolerance"] * max(1, scale):
            wrong.append((entry["id"], entry["value"], value, given))
    assert not wrong, "\n".join(map(str, [len(wrong), checked, *wrong[:40]]))
    assert checked == len(values) == 486


def test_the_fusion_tools_own_files(shared: Path, tmp_path: Path) -> None:
    folder = shared / "data/foreign/a5fusion"
    key = str(shared / "data/sasv2022/protocols/ASVspoof2019.LA.asv.eval.gi.trl.txt")
    said: list[str] = []
    fused = evaluation.fuse(
        dev=str(folder / "dev_scores_label.csv"), eval=str(folder / "eval_scores.csv"),
        eval_key=key, systems="L3c", out=str(tmp_path / "fused"), tell=said.extend,
    )  # fmt: skip
    ours = fused.metrics["L3c"]["sets"]["eval"]["values"]["sasv_eer"]
    theirs = evaluation.evaluate([str(folder / "eval_scores_fused.csv")], key=key, ci="none")
    (found,) = theirs.metrics.values()
    assert f"{100 * ours:.4f}" == f"{100 * found['sasv_eer']:.4f}" == "1.4154"
    assert any("asvspoof5-fusion" in line for line in said)


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("itw/btse_inwild.txt", r"several columns could be the score; .*--columns 'utterance,-,s"),
        ("relaid/prism_labels.csv", r"unknown label '0'.* has 0, 1, 2: say which.*--labels"),
        ("relaid/scores.npz", r"unknown label '1'.*--labels"),
        ("vally/cm_scores_test.csv", r"unknown label '1'.*--labels bona=1,spoof=0"),
        ("a5cm/predictions.tsv", r"no column 'label'.*prediction or y_task may be it: --columns"),
        ("wildspoof/tmp_scorefile", r"stands again; 54 repetition.*--ids none"),
        ("bob/measure-dev-1.txt", r"line 26, .*--allow-missing \(54 such rows\)"),
    ],
)
def test_what_a_file_does_not_tell_is_asked(file: str, message: str, shared: Path) -> None:
    from lightning_sasv.errors import InputError

    with pytest.raises(InputError, match=message):
        evaluation.evaluate([str(shared / "data/foreign" / file)])
