"""Enrols the speakers of a small corpus and decides on trials of its protocol, by a bundle.

Run: ``python experiments/verify/demo.py --bundle DIR --audio DIR [--trials 20] [--set eval]``. The
audio is in the layout of ASVspoof 2019 LA. Prints decisions by class and attack, the share of time
of each step, and, with ``--scores``, how far scores are from those that a training wrote.
"""

from __future__ import annotations

import argparse
from collections import Counter, defaultdict
from pathlib import Path

from lightning_sasv import deploy
from lightning_sasv.console import progress
from lightning_sasv.deploy import Verified
from lightning_sasv.deploy.verifying import VerifiedList
from lightning_sasv.frontends.audio import SUFFIXES
from lightning_sasv.scores import read_scores


def read_rows(paths: list[Path]) -> list[list[str]]:
    """Words of each line of some protocols."""
    return [line.split() for path in paths for line in path.read_text().splitlines() if line]


def print_counts(result: VerifiedList, kinds: list[str]) -> None:
    """Decisions by class and attack."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for kind, cells in zip(kinds, result.cells(), strict=True):
        counts[kind][cells["decision"]] += 1
    for kind, decisions in sorted(counts.items()):
        shown = ", ".join(f"{count} {word}" for word, count in sorted(decisions.items()))
        print(f"{kind:<20} {shown}")


def print_times(result: VerifiedList) -> None:
    """Seconds of a probe, and the share of each step."""
    found = [one for *_, one in result.rows if isinstance(one, Verified)]
    total = Counter[str]()
    for one in found:
        total.update(one.seconds)  # type: ignore[arg-type]
    whole = sum(total.values())
    shares = ", ".join(f"{name} {100 * took / whole:.1f} %" for name, took in total.items())
    print(f"{whole / len(found):.2f} s a probe: {shares}")


def print_differences(result: VerifiedList, path: Path) -> None:
    """Largest differences from the scores of a training."""
    known = read_scores(path)
    pairs = zip(known.speaker.tolist(), known.utterance.tolist(), strict=True)
    rows = {pair: row for row, pair in enumerate(pairs)}
    apart = {"asv_score": 0.0, "cm_score": 0.0}
    for speaker, probe, one in result.rows:
        if not isinstance(one, Verified):  # a recording that could not be used
            continue
        row = rows[speaker, Path(probe).stem]
        for name, column in zip(apart, (known.asv, known.cm), strict=True):
            apart[name] = max(apart[name], abs(getattr(one, name) - column[row]))
    shown = ", ".join(f"{name} {value:.1e}" for name, value in apart.items())
    print(f"largest differences from {path}: {shown}")


def main() -> None:
    """Enrol, verify, count."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bundle", required=True)
    parser.add_argument("--audio", type=Path, required=True)
    parser.add_argument("--set", default="eval", choices=("dev", "eval"))
    parser.add_argument("--trials", type=int, default=20, help="of each class")
    parser.add_argument("--scores", type=Path, help="scores that the training wrote of this set")
    parser.add_argument("--out", type=Path, default=Path("results/verify_demo"))
    said = parser.parse_args()
    found = {path.stem: path for path in said.audio.rglob("*") if path.suffix in SUFFIXES}
    kept = said.out / "speakers"
    for speaker, names in read_rows(sorted(said.audio.rglob(f"*asv.{said.set}.*male.trn.txt"))):
        files = [str(found[name]) for name in names.split(",")]
        options = {"bundle": said.bundle, "speakers": str(kept), "overwrite": True}
        deploy.enrol(files, name=speaker, **options)
    by_class: dict[str, list[list[str]]] = defaultdict(list)
    for row in read_rows(sorted(said.audio.rglob(f"*asv.{said.set}.gi.trl.txt"))):
        by_class[row[3]].append(row)
    rows = [row for some in by_class.values() for row in some[: said.trials]]
    listed = said.out / "trials.txt"
    listed.write_text("".join(f"{row[0]} {found[row[1]]}\n" for row in rows))
    out = str(said.out / "verified.csv")
    with progress("probe") as begin:
        result = deploy.verify(
            bundle=said.bundle,
            list=str(listed),
            speakers=str(kept),
            out=out,
            overwrite=True,
            begin=begin,
        )
    assert isinstance(result, VerifiedList)
    print_counts(result, [f"{row[3]} {row[2]}" for row in rows])
    print_times(result)
    if said.scores is not None:
        print_differences(result, said.scores)
    print(f"written to {out}")


if __name__ == "__main__":
    main()
