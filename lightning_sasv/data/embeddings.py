"""Embeddings of utterances or speakers: one contiguous float32 tensor and an index of ids."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from lightning_sasv.errors import InputError
from lightning_sasv.files import atomic_path, write_arrays

FORMAT = "lightning_sasv.embeddings/1"
SUFFIX = ".safetensors"


class EmbeddingStore:
    """Embeddings by id, memory-mapped when they come from disk.

    Args:
        ids: Id of each row (utterance or speaker).
        vectors: (len(ids), dim) tensor; converted to contiguous float32.
        source: Where the embeddings come from, for messages.
    """

    def __init__(self, ids: Sequence[str], vectors: Tensor, source: str = "embeddings") -> None:
        if vectors.ndim != 2 or len(ids) != len(vectors):
            raise InputError(
                f"{source}: {len(ids)} ids do not fit a tensor of shape {tuple(vectors.shape)}"
            )
        self.ids = list(ids)
        self.vectors = vectors.to(torch.float32).contiguous()
        self.source = source
        self._row = {name: row for row, name in enumerate(self.ids)}
        if len(self._row) != len(self.ids):
            raise InputError(f"{source}: {len(self.ids) - len(self._row)} ids stand more than once")
        self._refuse_nonfinite()

    def _refuse_nonfinite(self) -> None:
        parts = (~torch.isfinite(part).all(dim=1) for part in torch.split(self.vectors, 1 << 16))
        bad = torch.cat([torch.zeros(0, dtype=torch.bool), *parts]).nonzero().flatten()
        if len(bad):
            names = ", ".join(self.ids[int(row)] for row in bad[:10])
            raise InputError(
                f"{self.source}: {len(bad)} embedding(s) hold NaN or infinity, first: {names}; "
                "extract them again"
            )

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, name: object) -> bool:
        return name in self._row

    @property
    def dim(self) -> int:
        """Size of an embedding."""
        return self.vectors.shape[1]

    def rows(self, names: Iterable[str]) -> Tensor:
        """Row number of each id, as int64; ids that are not there are listed in the error."""
        found = np.fromiter((self._row.get(name, -1) for name in names), dtype=np.int64)
        if (found < 0).any():
            missing = list(dict.fromkeys(name for name in names if name not in self._row))
            raise InputError(
                f"{self.source}: no embedding for {len(missing)} id(s), first: "
                f"{', '.join(missing[:10])}; extract them or correct the protocol"
            )
        return torch.from_numpy(found)

    def select(self, names: Sequence[str]) -> Tensor:
        """Embeddings of ``names``, (len(names), dim); of all in order the store itself, no copy."""
        return self.vectors if list(names) == self.ids else self.vectors[self.rows(names)]

    def require_dim(self, dim: int) -> EmbeddingStore:
        """Return self, or say that the embeddings have another size than ``dim``."""
        if self.dim != dim:
            raise InputError(
                f"{self.source}: embeddings have {self.dim} dimensions where {dim} were expected"
            )
        return self

    @classmethod
    def from_pickle(cls, path: str | Path) -> EmbeddingStore:
        """Import one of the challenge's pickles (``asv_embd_dev.pk`` …) without running its code.

        Only numpy arrays and plain containers are admitted; see ``lightning_sasv.data.pickles``.
        """
        from lightning_sasv.data.pickles import load_pickle

        content = load_pickle(path)
        if not isinstance(content, dict):
            raise InputError(
                f"{path}: expected a dictionary of embeddings, found a {type(content).__name__}"
            )
        for name, value in content.items():
            numeric = isinstance(value, np.ndarray) and value.dtype.kind == "f"
            if not (isinstance(name, str) and numeric):
                raise InputError(f"{path}: entry {name!r} is not an array of floats under a name")
        if not content:
            raise InputError(f"{path}: no embeddings inside")
        names, arrays = list(content), [value.reshape(-1) for value in content.values()]
        for name, array in zip(names, arrays, strict=True):
            if array.size != arrays[0].size:
                raise InputError(
                    f"{path}: embedding of {name} has {array.size} dimensions, "
                    f"that of {names[0]} has {arrays[0].size}"
                )
        stacked = np.stack(arrays).astype(np.float32, copy=False)
        return cls(names, torch.from_numpy(stacked), str(path))

    def save(self, path: str | Path) -> Path:
        """Write the store to ``path`` (safetensors), atomically."""
        ids = np.frombuffer("\n".join(self.ids).encode(), np.uint8)
        return write_arrays(path, {"ids": ids, "vectors": self.vectors}, {"format": FORMAT})

    def to_pickle(self, path: str | Path) -> Path:
        """Write the embeddings as the challenge does: a pickled ``{id: vector}``, atomically."""
        content = dict(zip(self.ids, self.vectors.numpy(), strict=True))
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            pickle.dump(content, file)
        return Path(path)

    @classmethod
    def load(cls, path: str | Path) -> EmbeddingStore:
        """Open a store written by ``save``; the vectors stay memory-mapped."""
        path = Path(path)
        if not path.is_file():
            raise InputError(f"no embeddings at {path}")
        try:
            with safe_open(path, framework="pt") as file:
                if (file.metadata() or {}).get("format") != FORMAT:
                    raise InputError(f"{path} is not an embedding store of this package")
                vectors = file.get_tensor("vectors")
                ids = bytes(file.get_tensor("ids").numpy()).decode().split("\n")
        except (SafetensorError, OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"{path} is damaged or not a safetensors file ({error}); write it again"
            ) from None
        return cls(ids, vectors, str(path))
