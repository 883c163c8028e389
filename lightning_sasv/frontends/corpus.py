"""Extraction of whole corpora: every split with every network, and the speaker models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lightning_sasv.data.embeddings import SUFFIX
from lightning_sasv.errors import InputError
from lightning_sasv.frontends.aasist import AASIST
from lightning_sasv.frontends.base import FrontEnd, build_front_end
from lightning_sasv.frontends.ecapa import ECAPA
from lightning_sasv.frontends.extract import Extraction, Progress, extract, speaker_models
from lightning_sasv.frontends.lists import AudioFolder, Split
from lightning_sasv.frontends.manifest import Manifest
from lightning_sasv.frontends.pipeline import Resources

Network = dict[str, Any] | str | None
"""A front end as users give it: weights of the usual one, a class path, or the cached weights."""


def build_networks(cm: Network, asv: Network, only: str | None = None) -> dict[str, FrontEnd]:
    """The networks by kind: AASIST for ``cm`` and ECAPA for ``asv``, or those of a class path.

    Args:
        cm: Checkpoint of AASIST, ``{class_path: …}``, or ``None`` for the cached checkpoint.
        asv: Folder of ECAPA, ``{class_path: …}``, or ``None`` for the cached checkpoint.
        only: ``cm`` or ``asv``, where the other is not wanted.
    """
    found: dict[str, FrontEnd] = {}
    if only != "asv":
        found["cm"] = build_front_end(cm) if isinstance(cm, dict) else AASIST.from_checkpoint(cm)
    if only != "cm":
        found["asv"] = build_front_end(asv) if isinstance(asv, dict) else ECAPA.from_checkpoint(asv)
    return found


@dataclass(frozen=True)
class CorpusExtraction:
    """How a corpus is extracted.

    Attributes:
        folder: The recordings.
        out: Folder to write to.
        resources: Batch size, workers and device.
        overwrite: Replace embeddings that other weights have made.
        strict: Raise an error where a recording cannot be embedded.
        train_asv: Make ASV embeddings of the training split too.
        bar: Context manager that shows the progress of one store.
    """

    folder: AudioFolder
    out: Path
    resources: Resources
    overwrite: bool = False
    strict: bool = False
    train_asv: bool = False
    bar: Callable[[], AbstractContextManager[Progress]] | None = None

    def run(
        self, networks: Mapping[str, FrontEnd], splits: Sequence[Split]
    ) -> dict[str, Extraction]:
        """Extract every split with every network; results by the name of the store."""
        results: dict[str, Extraction] = {}
        for kind, network in networks.items():
            for split in splits:
                if kind == "cm" or split.name != "trn" or self.train_asv:
                    results |= self._split(kind, network, split)
        return results

    def _split(self, kind: str, network: FrontEnd, split: Split) -> dict[str, Extraction]:
        """One split with one network and, for ASV, its speaker models."""
        stem = split.stem(f"{kind}_embd")
        utterances = split.with_enrolment if kind == "asv" else split.utterances
        for utterance in utterances[
            :1
        ]:  # searches the folder now, not in a thread with a time limit
            with suppress(InputError):
                self.folder.find(utterance.place)
        arguments = (network, utterances, self.folder.find, self.out / (stem + SUFFIX))
        options: dict[str, Any] = {"overwrite": self.overwrite, "strict": self.strict}
        if self.bar is None:
            done = extract(*arguments, self.resources, **options)
        else:
            with self.bar() as progress:
                done = extract(*arguments, self.resources, **options, progress=progress)
        results = {stem: done}
        if kind == "asv" and split.enrolment and done.store is not None:
            models = split.stem("spk_model")
            path = self.out / (models + SUFFIX)
            problems = speaker_models(done.store, split.enrolment, path)
            Manifest(self.out).add_models(models, stem, problems)
            results[models] = Extraction(None, problems)
        return results
