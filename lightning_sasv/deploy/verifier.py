"""From recordings to a decision: front ends, CM head, fusion and policy of a bundle."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from lightning_sasv.deploy.before_fusion import (
    FRONT_ENDS,
    HEAD,
    KINDS,
    Head,
    check_same_network,
    check_same_weights,
)
from lightning_sasv.deploy.bundle import load
from lightning_sasv.deploy.dev import DEV, Reference
from lightning_sasv.deploy.scorer import Scorer
from lightning_sasv.deploy.speakers import SpeakerModels
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.audio import read_recording
from lightning_sasv.fusion.zoo import of_network
from lightning_sasv.trials import TrialClass

if TYPE_CHECKING:
    from lightning_sasv.frontends.corpus import Network

Source = str | Path | bytes
"""A recording: its file, or its content."""

SCORES_ALONE = (
    "this service takes scores, not audio: export its bundle of a training with "
    "--with-front-ends, or start it with --cm and --asv"
)


@dataclass(frozen=True)
class Verified:
    """What is said of a probe.

    Attributes:
        decision: ``accept``, ``reject`` or ``unsure``.
        asv_score: Cosine of the probe and the speaker's model.
        cm_score: Score of the CM head.
        score: The fused score.
        asv_llr: LLR of target against nontarget; ``None`` where the system has none.
        cm_llr: LLR of target against spoof.
        margin: Distance to the decision boundary, see :class:`~.scorer.Verdict`.
        reason: Why, in words.
        seconds: Time of each step.
        notes: What must be said about the recordings.
        outside: Whether the scores lie outside what dev measured; ``None`` where that is not known.

    Example:
        >>> found = Verified("accept", 0.7, 9.0, 3.0, 6.0, 9.0, 2.5, "accepted: target", {}, ())
        >>> found.as_json()["decision"]
        'accept'
    """

    decision: str
    asv_score: float
    cm_score: float
    score: float
    asv_llr: float | None
    cm_llr: float | None
    margin: float
    reason: str
    seconds: Mapping[str, float]
    notes: tuple[str, ...]
    outside: bool | None = None

    def after(self, notes: Sequence[str], seconds: Mapping[str, float]) -> Verified:
        """The same with what was said and the time that was spent before, at the enrolment."""
        spent = {n: s + seconds.get(n, 0.0) for n, s in self.seconds.items()}
        return replace(self, notes=(*notes, *self.notes), seconds=spent)

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return vars(self) | {"seconds": dict(self.seconds), "notes": list(self.notes)}

    def lines(self) -> list[str]:
        """The same in words."""
        total = sum(self.seconds.values()) or 1.0
        shares = ", ".join(f"{n} {100 * s / total:.1f} %" for n, s in self.seconds.items())
        llrs = ""
        if self.asv_llr is not None and self.cm_llr is not None:
            llrs = f"ASV LLR {self.asv_llr:.3f}, CM LLR {self.cm_llr:.3f}, "
        return [
            self.decision,
            self.reason,
            f"{llrs}margin {self.margin:.3f} (ASV score {self.asv_score:.4f}, CM score "
            f"{self.cm_score:.4f}, fused {self.score:.4f})",
            f"time {total:.2f} s: {shares}",
            *self.notes,
        ]


class _Clock:
    """Seconds of named steps, added up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            took = time.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + took


class Verifier:
    """Decides on recordings by a bundle that holds the whole way.

    Args:
        bundle: Folder that ``lightning export`` wrote, of a training.
        cm: Where the bundle has no graphs: weights of AASIST, or another network, see ``extract``.
        asv: Weights of ECAPA, likewise.
        fingerprint: SHA-256 that the bundle must have.
        threads: Threads that one recording may use.

    Raises:
        InputError: The bundle takes scores alone, is altered, or the networks are others than it
            was made with.

    Example:
        >>> Verifier("nowhere")
        Traceback (most recent call last):
        lightning_sasv.errors.InputError: no bundle at nowhere; make one with `lightning export`
    """

    def __init__(
        self,
        bundle: str | Path,
        cm: Network = None,
        asv: Network = None,
        fingerprint: str | None = None,
        threads: int = 1,
    ) -> None:
        self.scorer = load(bundle, fingerprint=fingerprint)
        folder, about = Path(bundle), self.scorer.metadata
        self.front_ends: dict[str, Any] = dict(about.get("front_ends") or {})
        if "head" not in about or not self.scorer.system.columns.is_pair:
            raise InputError(f"bundle {bundle} takes scores, not audio: {_why_scores(self.scorer)}")
        self._head, self._apart = Head.load(folder / HEAD), _between_classes(folder)
        given = {"cm": cm, "asv": asv}
        if holds_graphs(self.front_ends):
            for kind in (kind for kind, one in given.items() if one is not None):
                check_same_weights(given[kind], self.front_ends[kind], kind)
            self._networks = _graphs(folder / FRONT_ENDS, self.front_ends, threads)
        else:
            self._networks = _modules(given, self.front_ends, bundle)
        if self._networks["cm"].dim != self._head.dim:
            raise InputError(f"bundle {bundle}: the CM head does not fit its front end")

    def _embed(self, kind: str, source: Source, name: str | None, clock: _Clock) -> Any:
        """Embedding of a recording, and what must be said about it."""
        network = self._networks[kind]
        samples = getattr(network, "samples", None)
        with clock.step("reading"):
            waveform, note = read_recording(source, network.sample_rate, samples, name)
        with clock.step(f"{kind.upper()} front end"):
            vector = np.asarray(network.embed([waveform])[0], np.float64)
        if not np.isfinite(vector).all():
            called = name or _name_of(source)
            raise InputError(f"{called}: the {kind.upper()} front end gave no numbers")
        return vector, note

    def enrol(
        self, recordings: Sequence[Source], names: Sequence[str] | None = None
    ) -> tuple[np.ndarray, list[str], dict[str, float]]:
        """Model of a speaker: the mean embedding of enrolment recordings.

        Returns:
            The model, what must be said about the recordings, and the time of each step.
        """
        if not recordings:
            raise InputError("no enrolment recordings; give at least one")
        clock, called = _Clock(), dict(enumerate(names or ()))
        found = [
            self._embed("asv", one, called.get(number), clock)
            for number, one in enumerate(recordings)
        ]
        notes = [note for _, note in found if note]
        vectors = np.stack([vector for vector, _ in found])
        for number, cosine in self._strangers(vectors):
            name = called.get(number) or _name_of(recordings[number])
            notes.append(
                f"{name}: does not sound like the other enrolment recordings (cosine "
                f"{cosine:.2f}); are they all of one speaker?"
            )
        return vectors.mean(axis=0), notes, clock.seconds

    def _strangers(self, vectors: np.ndarray) -> list[tuple[int, float]]:
        """Recordings whose cosine with the mean of the others is nearer to dev's nontargets."""
        if len(vectors) < 2 or self._apart is None:
            return []
        others = vectors.sum(axis=0) - vectors
        cosines = [_cosine(*pair) for pair in zip(vectors, others, strict=True)]
        return [(number, one) for number, one in enumerate(cosines) if one < self._apart]

    def verify(self, model: np.ndarray, probe: Source, name: str | None = None) -> Verified:
        """Decide whether a probe is the speaker of a model, and alive.

        Args:
            model: Of :meth:`enrol`.
            probe: The recording.
            name: What it is called in messages.
        """
        clock = _Clock()
        speaker, note = self._embed("asv", probe, name, clock)
        spoof, _ = self._embed("cm", probe, name, clock)
        if speaker.shape != model.shape:
            raise InputError(f"the speaker's model has {model.size} values, not {speaker.size}")
        with clock.step("CM head and fusion"):
            asv = _cosine(model, speaker)
            cm = float(self._head.score(spoof))
            said = self.scorer(asv, cm)
            found = said.as_json(reason=True)
        return Verified(
            **found,
            asv_score=asv,
            cm_score=cm,
            seconds=clock.seconds,
            notes=(note,) if note else (),
            outside=None if said.outside is None else bool(said.outside),
        )

    def decide(
        self,
        enrol: Sequence[Source],
        name: str | None,
        probe: Source,
        models: SpeakerModels,
        called: Sequence[str] | None = None,
    ) -> Verified:
        """:meth:`verify` of a probe and recordings of the speaker, or a kept model.

        Args:
            enrol: Recordings of the speaker.
            name: Without them: whose model is read.
            probe: The recording to decide on.
            models: Kept models of speakers.
            called: What the recordings are called in messages, the probe last.
        """
        if not enrol:
            model = models.read(str(name), self.front_ends["asv"])
            return self.verify(model, probe, called[-1] if called else None)
        model, notes, seconds = self.enrol(enrol, called and called[:-1])
        return self.verify(model, probe, called[-1] if called else None).after(notes, seconds)


def _cosine(one: np.ndarray, other: np.ndarray) -> float:
    norms = float(np.linalg.norm(one) * np.linalg.norm(other))
    return float(one @ other) / norms if norms > 0 else 0.0


def _name_of(source: Source) -> str:
    return "a recording" if isinstance(source, bytes) else str(source)


def _between_classes(folder: Path) -> float | None:
    """The middle of the medians of dev's targets and nontargets; bundles of format 1 have none."""
    if not (folder / DEV).is_file():
        return None
    dev = Reference.load(folder, 2)
    classes = TrialClass.TARGET, TrialClass.NONTARGET
    return float(np.mean([np.median(dev.scores[0, dev.label == code]) for code in classes]))


def holds_graphs(front_ends: Mapping[str, Any]) -> bool:
    """Whether a bundle that describes its front ends so holds graphs of both."""
    return all((front_ends.get(kind) or {}).get("runtime") == "onnx" for kind in KINDS)


def _why_scores(scorer: Scorer) -> str:
    """Why a bundle cannot take audio, and what could."""
    if of_network(scorer.system.config) is not None:
        return (
            f"{scorer.metadata['system']} takes what a network says that sees both embeddings, and "
            "a bundle can hold the usual CM head alone; export a system of a pair of scores (M3d)"
        )
    if not scorer.system.columns.is_pair:
        return f"it fuses {', '.join(scorer.columns)}; export a system of one ASV and one CM score"
    return (
        "it holds no CM head; export the folder of a training (`lightning fit`), best with "
        "--with-front-ends"
    )


def _graphs(folder: Path, described: Mapping[str, Any], threads: int) -> dict[str, Any]:
    from lightning_sasv.frontends.graphs import GraphFrontEnd

    return {kind: GraphFrontEnd(folder, kind, described[kind], threads) for kind in KINDS}


def _modules(
    given: Mapping[str, Network], described: Mapping[str, Any], bundle: str | Path
) -> dict[str, Any]:
    """The torch networks, with the weights that the bundle records."""
    try:
        from lightning_sasv.frontends.base import describe
        from lightning_sasv.frontends.corpus import build_networks
    except ImportError as error:
        raise InputError(
            f"bundle {bundle} holds no graphs of its front ends, and torch cannot be imported "
            f"({error}); export it with --with-front-ends"
        ) from None
    networks = build_networks(given["cm"], given["asv"])
    for kind, network in networks.items():
        if kind not in described:
            raise InputError(
                f"bundle {bundle} does not say which {kind.upper()} front end its scores come "
                "from; export it again with --cm and --asv, or --with-front-ends"
            )
        check_same_network(describe(network), described[kind], kind)
    return dict(networks)
