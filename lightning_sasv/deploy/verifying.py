"""``lightning verify`` and ``lightning enrol``: recordings of people, by a bundle."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.deploy.before_fusion import SIMULATED
from lightning_sasv.deploy.dev import no_verdict
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.deploy.verifier import Verified, Verifier
from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, is_file, read_text
from lightning_sasv.frontends.corpus import Network
from lightning_sasv.places import refuse

SPEAKERS = "speakers"
"""Folder in which models are kept unless another is named."""

COLUMNS = (
    *("speaker", "probe", "decision", "asv_score", "cm_score", "score", "asv_llr", "cm_llr"),
    *("margin", "reason", "notes"),
)
FAILED = "failed"
"""In place of a decision, where a recording could not be used."""


def verify(
    *,
    bundle: str,
    enrol: list[str] | None = None,
    probe: str | None = None,
    name: str | None = None,
    speakers: str = SPEAKERS,
    list: str | None = None,
    out: str = "verified.csv",
    cm: Network = None,
    asv: Network = None,
    fingerprint: str | None = None,
    json: bool = False,
    overwrite: bool = False,
    tell: Callable[[Any], None] = lambda notes: None,
    begin: Callable[..., Callable[..., object]] | None = None,
) -> Verified | VerifiedList:
    """Accept or reject recordings: is this the enrolled speaker, and is it live speech?

    Runs the front ends, the CM head, the fusion and the policy of a bundle. A bundle with graphs
    (`lightning export --with-front-ends`) needs neither torch nor weights.

    Args:
        bundle: Folder that `lightning export` wrote, of a training.
        enrol: Recordings of the speaker.
        probe: Recording to decide on.
        name: Instead of --enrol: the name of a speaker whom `lightning enrol` has kept.
        speakers: Folder in which it has.
        list: File with a probe in each line, or, without --enrol and --name, the name of a speaker
            and a probe; decisions go to --out.
        out: CSV file to write for --list.
        cm: Where the bundle has no graphs: weights of AASIST, or {class_path: ..., init_args: ...}.
        asv: Weights of ECAPA, likewise.
        fingerprint: SHA-256 that the bundle must have.
        json: Print JSON, of a list one line for each probe.
        overwrite: Replace OUT.
        tell: Told what is to be known about recordings.
        begin: Begins a progress bar.

    Returns:
        The verdict on the probe, or those on the list.

    Example:
        >>> verify(bundle="nowhere", enrol=["a.flac"], probe="x.flac")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: no bundle at nowhere; make one with `lightning export`
    """
    if (probe is None) == (list is None):
        raise InputError("give one recording with --probe, or a file of them with --list")
    if enrol and name:
        raise InputError("give recordings of the speaker with --enrol, or a --name, not both")
    if list is None and not (enrol or name):
        raise InputError("whose voice? give recordings with --enrol, or a --name")
    rows = [] if list is None else _read_list(list, (name or "") if enrol or name else None)
    if list is not None and Path(out).exists() and not overwrite:
        refuse(out, "something already")
    verifier = Verifier(bundle, cm, asv, fingerprint)
    given = verifier.enrol(enrol) if enrol else None
    _, notes, seconds = given or (None, [], {})

    @cache
    def model_of(speaker: str) -> np.ndarray:
        """The model that was given, for whomever; else the one that is kept."""
        if given is not None:
            return given[0]
        return SpeakerModels(speakers).read(speaker, verifier.front_ends["asv"])

    without = no_verdict(verifier.scorer.metadata)
    simulated = [SIMULATED] if verifier.scorer.system.simulated else []
    tell([*simulated, *notes, *([without] if without else [])])
    if probe is not None:
        return verifier.verify(model_of(name or ""), probe).after((), seconds)
    advance = begin("verify", len(rows)) if begin else (lambda: None)
    verdicts = _verdicts(verifier, model_of, rows, advance)
    return VerifiedList([*verdicts], Path(out)).write()


def _verdicts(
    verifier: Verifier,
    model_of: Callable[[str], np.ndarray],
    rows: list[tuple[str, str]],
    advance: Callable[..., object],
) -> Iterator[tuple[str, str, Verified | str]]:
    """What is said of each probe, or why nothing is: that does not stop the others."""
    for speaker, probe in rows:
        try:
            yield speaker, probe, verifier.verify(model_of(speaker), probe)
        except InputError as error:
            yield speaker, probe, str(error)
        advance()


@dataclass(frozen=True)
class VerifiedList:
    """What became of a list of probes.

    Attributes:
        rows: Speaker, probe, and the verdict or why there is none.
        out: The file that they are written to.
    """

    rows: list[tuple[str, str, Verified | str]]
    out: Path

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many probes got which decision."""
        words = [one.decision if isinstance(one, Verified) else FAILED for *_, one in self.rows]
        return {word: words.count(word) for word in sorted(set(words))}

    def cells(self) -> Iterator[dict[str, Any]]:
        """The rows as the file has them."""
        for speaker, probe, found in self.rows:
            said = {"speaker": speaker, "probe": probe}
            if isinstance(found, Verified):
                plain = found.as_json() | {"notes": "; ".join(found.notes)}
                yield said | {name: plain[name] for name in COLUMNS[2:]}
            else:
                yield said | dict.fromkeys(COLUMNS[2:]) | {"decision": FAILED, "reason": found}

    def write(self) -> VerifiedList:
        """Write the file, whole or not at all."""
        with atomic_path(self.out) as part, part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            writer.writerows(self.cells())
        return self


def _read_list(path: str, speaker: str | None) -> list[tuple[str, str]]:
    """Speaker and probe of each line; a line is a probe where one speaker is meant by all."""
    rows: list[tuple[str, str]] = []
    for number, line in enumerate(read_text(path, "list").splitlines(), start=1):
        words = line.split(maxsplit=1) if speaker is None else [speaker, line.strip()]
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if len(words) < 2:
            raise InputError(
                f"{path}, line {number}: {line[:100]!r} names no speaker; give the speaker of all "
                "with --enrol or --name, or write NAME PROBE in each line"
            )
        beside = Path(path).parent / words[-1]
        probe = str(beside) if is_file(beside) else words[-1].strip()
        rows.append((words[0], probe))
    if not rows:
        raise InputError(f"{path} lists no probes")
    return rows


def enrol(
    files: list[str] | None = None,
    bundle: str | None = None,
    name: str | None = None,
    speakers: str = SPEAKERS,
    forget: str | None = None,
    cm: Network = None,
    asv: Network = None,
    fingerprint: str | None = None,
    overwrite: bool = False,
    *,
    tell: Callable[[Any], None] = lambda notes: None,
) -> Path:
    """Keep the model of a speaker for `lightning verify --name`, or forget it.

    A model is the mean embedding of recordings: personal data. Its file can be read by its owner
    alone; the recordings are not kept.

    Args:
        files: Recordings of the speaker; none with --forget.
        bundle: Folder that `lightning export` wrote, of a training.
        name: Name of the speaker.
        speakers: Folder of speaker models.
        forget: Remove the model of this speaker.
        cm: Where the bundle has no graphs: weights of AASIST, or {class_path: ..., init_args: ...}.
        asv: Weights of ECAPA, likewise.
        fingerprint: SHA-256 that the bundle must have.
        overwrite: Replace the model of this name.
        tell: Told what is to be known about the recordings.

    Returns:
        The file that was written, or removed.

    Example:
        >>> enrol(forget="anna", speakers="nowhere")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: nobody is enrolled as 'anna' in nowhere
    """
    kept = SpeakerModels(speakers)
    if forget is not None:
        if files or name:
            raise InputError("--forget NAME removes a model; it takes no recordings and no --name")
        return kept.forget(forget)
    if bundle is None or name is None or not files:
        raise InputError("lightning enrol --bundle DIR --name NAME FILE…: give all three")
    kept.check(name, overwrite)
    verifier = Verifier(bundle, cm, asv, fingerprint)
    model, notes, _ = verifier.enrol(files)
    tell(notes)
    return kept.keep(name, model, verifier.front_ends["asv"], overwrite)
