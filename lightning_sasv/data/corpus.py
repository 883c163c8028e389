"""A corpus: training utterances, and dev and eval trials, each with the embeddings they need."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from lightning_sasv.checks import BLOCK
from lightning_sasv.data.embeddings import EmbeddingStore
from lightning_sasv.data.protocols import TrialList, UtteranceList
from lightning_sasv.errors import InputError
from lightning_sasv.trials import SPLITS, UNKNOWN, TrialClass

ASV_DIM, CM_DIM = 192, 160
"""Sizes of the ECAPA-TDNN and AASIST embeddings."""
MANY_PAIRS = 1 << 26
"""More pairs of probes and models are not all compared: 0.3 GB of cosines."""


def mean_models(
    store: EmbeddingStore, enrolment: Mapping[str, Sequence[str]], source: str
) -> EmbeddingStore:
    """Model of each speaker: the mean embedding of its enrolment utterances."""
    vectors = [store.select(names).mean(dim=0) for names in enrolment.values()]
    return EmbeddingStore(list(enrolment), torch.stack(vectors), source)


def _hash(start: str, tensors: Iterable[Tensor]) -> str:
    """Hash of a text and the bytes of tensors."""
    found = hashlib.blake2b(start.encode(), digest_size=16)
    for tensor in tensors:
        found.update(tensor.contiguous().view(torch.uint8).numpy().data)
    return found.hexdigest()


@dataclass(frozen=True)
class TrainingSet:
    """Utterances from which training trials are drawn, with their embeddings.

    Attributes:
        utterances: The training protocol.
        cm: CM embeddings.
        find_asv: Gives the ASV embeddings, which only some trainings need, when one does.
    """

    utterances: UtteranceList
    cm: EmbeddingStore
    find_asv: Callable[[], EmbeddingStore] | None = None

    @cached_property
    def vectors(self) -> Tensor:
        """CM embedding of each utterance of the protocol, in its order."""
        return self._select(self.cm)

    def _select(self, store: EmbeddingStore) -> Tensor:
        names = self.utterances.utterance
        try:
            return store.select(names.tolist())
        except InputError as error:
            raise InputError(f"{self.utterances.place(names, store)}{error}") from None

    @cached_property
    def asv(self) -> EmbeddingStore:
        """ASV embeddings.

        Raises:
            InputError: There are none.
        """
        try:
            if self.find_asv is None:
                raise InputError("the corpus has no ASV embeddings of its training set")
            return self.find_asv()
        except InputError as error:
            raise InputError(
                f"{error}; this objective or head compares the speakers of training trials: "
                "`lightning extract --train_asv` writes asv_embd_trn, the challenge has it too; "
                "--model.objective cm (table: --one-network) does without"
            ) from None

    @cached_property
    def asv_vectors(self) -> Tensor:
        """ASV embedding of each utterance of the protocol, in its order."""
        return self._select(self.asv)

    @cached_property
    def asv_fingerprint(self) -> str:
        """Hash of the ASV embeddings, which that of the corpus leaves out."""
        return _hash("asv_train", [self.asv_vectors])


@dataclass(frozen=True)
class TrialSet:
    """Trials to be scored, with the embeddings of their probes and enrolled speakers.

    Attributes:
        name: ``dev`` or ``eval``, or another name for trials of which nothing is measured.
        trials: The trials.
        asv: ASV embeddings of the probes.
        cm: CM embeddings of the probes.
        models: ASV embeddings of the enrolled speakers (mean over their enrolment utterances).
        more: Further scores of each trial, ``asv_…``, ``cm_…`` or ``quality_…``, by their names.
        corpus: Name of the corpus that they are of, where it is another than that of training.
        costs: Preset of the costs that results on them have.
        twin: Scale and seed of the twin that they are of, where that is known.
    """

    name: str
    trials: TrialList
    asv: EmbeddingStore
    cm: EmbeddingStore
    models: EmbeddingStore
    more: Mapping[str, np.ndarray] = field(default_factory=dict)
    corpus: str | None = None
    costs: str = "a-dcf1"
    twin: tuple[float, int] | None = None

    def __post_init__(self) -> None:
        if self.asv.dim != self.models.dim:
            raise InputError(
                f"{self.models.source} has {self.models.dim} dimensions, {self.asv.source} "
                f"{self.asv.dim}; probes and speakers need the same front end"
            )
        for code in TrialClass if self.name in SPLITS else ():
            if not (self.trials.label == code).any():
                file = self.trials.where(0).rpartition(", line ")[0] if self.trials.where else ""
                known = "labels" if (self.trials.label == UNKNOWN).all() else f"{code} trial"
                raise InputError(
                    f"{file}: the {self.name} trial list has no {known}".removeprefix(": ")
                    + ("; `lightning predict --data.trials` scores it" if known == "labels" else "")
                )

    @cached_property
    def _unique(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(self.trials.utterance, return_inverse=True)

    @property
    def probes(self) -> list[str]:
        """The distinct probe utterances: each is scored by the CM once."""
        return self._unique[0].tolist()

    @cached_property
    def probe_of_trial(self) -> Tensor:
        """For each trial, the number of its probe in ``probes``."""
        return torch.from_numpy(self._unique[1].reshape(-1))

    @cached_property
    def probe_vectors(self) -> Tensor:
        """CM embedding of each distinct probe."""
        return self._of_probes(self.cm)

    def _of_probes(self, store: EmbeddingStore) -> Tensor:
        return store.vectors[self._rows_of_probes(store)]

    def _rows_of_probes(self, store: EmbeddingStore) -> Tensor:
        try:
            return store.rows(self.probes)
        except InputError as error:
            at = self.trials.place(self.trials.utterance, store)
            raise InputError(f"{at}{error}") from None

    @cached_property
    def label(self) -> Tensor:
        """``TrialClass`` code of each trial, int64."""
        return torch.from_numpy(self.trials.label.astype(np.int64))

    def check(self) -> None:
        """Look up every embedding."""
        _ = self.asv_scores, self.probe_vectors

    @cached_property
    def _enrolled(self) -> tuple[Tensor, Tensor]:
        """ASV embeddings of the enrolled speakers, and for each trial the number of its own."""
        speakers, model_of_trial = np.unique(self.trials.speaker, return_inverse=True)
        try:
            models = self.models.select(speakers.tolist())
        except InputError as error:
            at = self.trials.place(self.trials.speaker, self.models)
            raise InputError(f"{at}{self.name}: speaker without enrolment model: {error}") from None
        return models, torch.from_numpy(model_of_trial.reshape(-1))

    @cached_property
    def _probe_asv(self) -> Tensor:
        return self._of_probes(self.asv)

    def trial_vectors(self, rows: Tensor) -> Tensor:
        """Embeddings of trials in a row: ASV of speaker and probe, CM of the probe."""
        (models, of_trial), probe = self._enrolled, self.probe_of_trial[rows]
        parts = models[of_trial[rows]], self._probe_asv[probe], self.probe_vectors[probe]
        return torch.cat(parts, dim=1)

    @cached_property
    def asv_scores(self) -> Tensor:
        """Cosine of each trial's probe and enrolled speaker; nothing here is trained.

        Every probe is compared with every speaker in one matrix product, and each trial picks
        its cell.
        """
        own, of_trial = self._enrolled
        models = normalize(own, dim=1)
        if len(self.probes) * len(models) > MANY_PAIRS:  # nothing of all probes is in memory
            rows = self._rows_of_probes(self.asv)[self.probe_of_trial]
            pairs = zip(torch.split(rows, BLOCK), torch.split(of_trial, BLOCK), strict=True)
            vectors = ((normalize(self.asv.vectors[a], dim=1), models[b]) for a, b in pairs)
            return torch.cat([(probe * model).sum(dim=1) for probe, model in vectors])
        probes = normalize(self._of_probes(self.asv), dim=1)
        cosines = probes @ models.T  # (probes, speakers)
        return cosines[self.probe_of_trial, of_trial]


@dataclass(frozen=True)
class Corpus:
    """The three sets of an experiment.

    Attributes:
        name: What results are labelled with: ``twin`` for the simulated corpus, never a real
            corpus' name.
        train: Training utterances.
        dev: Development trials, on which everything is fitted.
        eval: Evaluation trials.
    """

    name: str
    train: TrainingSet
    dev: TrialSet
    eval: TrialSet

    def check(self) -> None:
        """Look up every embedding, so that a missing one is reported before any work."""
        _ = self.train.vectors
        for data in (self.dev, self.eval):
            data.check()

    @property
    def others(self) -> bool:
        """Whether dev or eval are of another corpus than that of training."""
        return any(one.corpus is not None for one in (self.dev, self.eval))

    @property
    def cm_stores(self) -> tuple[EmbeddingStore, ...]:
        """CM embeddings of all sets."""
        return self.train.cm, self.dev.cm, self.eval.cm

    @property
    def sizes(self) -> str:
        """Numbers of utterances and trials, in words."""
        return (
            f"{len(self.train.utterances):,} training utterances, {len(self.dev.trials):,} dev and "
            f"{len(self.eval.trials):,} eval trials"
        )

    @cached_property
    def fingerprint(self) -> str:
        """Hash of the corpus: two with the same one are the same.

        The ASV embeddings of the training set, which most trainings do not look at, have
        a hash of their own: ``train.asv_fingerprint``.
        """
        lists = (self.train.utterances, self.dev.trials, self.eval.trials)
        columns = [values for one in lists for values in one.columns()]
        texts = ["\n".join(map(str, values.tolist())) for values in columns]
        tensors = [self.train.vectors]
        for data in (self.dev, self.eval):
            tensors += [data.probe_vectors, data.asv_scores]
            texts += list(data.more)
            tensors += [torch.from_numpy(values) for values in data.more.values()]
        return _hash("".join([self.name, *texts]), tensors)


class TrialsAlone(Corpus):
    """Trials that are only scored, in the place of eval: there is no training set and no dev.

    Args:
        name: Name of the corpus that they are of.
        trials: The trials.
    """

    def __init__(self, name: str, trials: TrialSet) -> None:
        vars(self).update(name=name, eval=trials)

    def check(self) -> None:
        """Look up every embedding."""
        self.eval.check()

    @property
    def others(self) -> bool:
        """There is no training that they could be of."""
        return False

    @property
    def cm_stores(self) -> tuple[EmbeddingStore, ...]:
        """CM embeddings of the trials."""
        return (self.eval.cm,)
