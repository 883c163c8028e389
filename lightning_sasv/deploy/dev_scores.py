"""What dev measured, kept in a bundle: scores, classes and speakers by number, no names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from lightning_sasv.checks import Codes, Floats, as_labels
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_arrays, write_arrays
from lightning_sasv.trials import Scores, TrialClass, claimed_speakers

if TYPE_CHECKING:
    from lightning_sasv.metrics.drift import Groups

DEV = "dev.safetensors"


@dataclass(frozen=True)
class Reference:
    """Dev trials that a bundle was made from.

    Attributes:
        scores: One row for each column that the system fuses, (columns, trials).
        label: ``TrialClass`` code of each trial.
        speaker: Number of the enrolled speaker of each trial; ``None`` where dev had no names.
    """

    scores: Floats
    label: Codes
    speaker: Groups | None

    @classmethod
    def of(cls, dev: Scores, quality: Sequence[str] = ()) -> Reference:
        """The reference that dev trials make; ``quality`` names further columns that are fused."""
        rows = [*np.atleast_2d(dev.asv.T), *np.atleast_2d(dev.cm.T)]
        rows += [dev.extra[name] for name in quality]
        speaker = None if dev.speaker is None else numbered(dev.speaker)
        return cls(np.stack(rows).astype(np.float64), as_labels(dev.label), speaker)

    def save(self, path: Path) -> None:
        """Write it, atomically."""
        arrays = {"scores": self.scores, "label": self.label}
        known = {} if self.speaker is None else {"speaker": self.speaker}
        write_arrays(path, arrays | known)

    @classmethod
    def load(cls, bundle: str | Path, columns: int) -> Reference:
        """That of a bundle whose checksums were found right."""
        path = Path(bundle) / DEV
        if not path.is_file():
            raise InputError(
                f"bundle {bundle} does not hold its dev scores, to which new ones are compared; "
                "export it again"
            )
        try:
            found = read_arrays(path)[1]
            scores, label, speaker = found["scores"], found["label"], found.get("speaker")
            if scores.shape != (columns, len(label)) or not np.isfinite(scores).all():
                raise ValueError(f"scores of shape {scores.shape}")
            if speaker is not None and (speaker.shape != label.shape or speaker.min() < 0):
                raise ValueError(f"speakers of shape {speaker.shape}")
            return cls(scores.astype(np.float64), as_labels(label), speaker)
        except (KeyError, ValueError, TypeError, OSError) as error:
            raise InputError(f"{path} is damaged ({error}); export the bundle again") from None

    def of_class(self, code: TrialClass) -> Floats:
        """Scores of the trials of a class, (columns, trials)."""
        return self.scores[:, self.label == code]


def numbered(names: np.ndarray) -> Groups:
    """Speakers of enrolled models as numbers from 0 on."""
    speakers = claimed_speakers(names.astype(str).tolist())
    return np.unique(speakers, return_inverse=True)[1].astype(np.int64)
