"""A fusion system as a module: fitted values in buffers, tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.base import Fusion, dev_trials, score_pairs
from lightning_sasv.fusion.densities import State
from lightning_sasv.fusion.doubts import FitWarning, Where, examine, numbered
from lightning_sasv.trials import FusedScores


class FusionSystem(Fusion, nn.Module):
    """ASV and CM scores in, one SASV score out.

    Arguments and stages as for :class:`Fusion`. What ``fit`` learns is kept in float64 buffers
    (``density.*``, ``calibration.*``, ``rho``), which stay float64 when the module around them is
    cast to another type, and follow it to its device. Gradients flow through ``forward``.

    Example:
        >>> system = FusionSystem(rule="sum")
        >>> system(torch.tensor([0.5]), torch.tensor([2.0])).sasv
        tensor([2.5000], dtype=torch.float64)
    """

    rho: Tensor | None
    fitted: Tensor

    def hold(self, state: State) -> None:
        """Make the buffers."""
        self.density = nn.Module() if self.config["density"] else None
        self.calibration = nn.Module() if self.config["calibration"] else None
        for name, value in {"rho": None, **state}.items():
            place, _, own = name.rpartition(".")
            buffer = None if value is None else torch.from_numpy(value)
            self.get_submodule(place).register_buffer(own, buffer)

    def arrays(self) -> State:
        """The state as arrays."""
        return {name: value.numpy(force=True) for name, value in self.named_buffers()}

    @property
    def is_fitted(self) -> bool:
        """Whether scores can be fused: after ``fit``, or at once where nothing is to be learned."""
        return bool(self.fitted)

    def fit(self, asv: Any, cm: Any, labels: Any, where: Where = numbered) -> FusionSystem:
        """Learn everything from development trials.

        What makes the result doubtful (a few far scores, a class of few trials, …) is in
        ``warnings`` afterwards.

        Args:
            asv: ASV scores, (trials,), as tensor, array or list.
            cm: CM scores, (trials,).
            labels: ``TrialClass`` codes or words, (trials,).
            where: Names a trial in a warning, ``where(row, "asv" or "cm")``.

        Returns:
            The system itself.

        Raises:
            InputError: A score that is not finite or constant, an unknown label, a class without
                trials, or lengths that do not agree; what was learned before stays.
        """
        pairs, codes = dev_trials(asv, cm, labels)
        try:
            self.store(self.fit_state(asv, cm, labels))
        except InputError as error:
            doubts = examine(self.config | {"trim": self.trim}, {}, pairs, codes, None, where)
            causes = [one["text"] for one in doubts if one["code"] == "dominated"][:1]
            raise InputError("; ".join([str(error), *causes])) from None
        self.warnings = self.examine(asv, cm, labels, where)
        return self

    def examine(self, asv: Any, cm: Any, labels: Any, where: Where = numbered) -> list[FitWarning]:
        """What makes the fit to these development trials doubtful; arguments as for ``fit``."""
        pairs, codes = dev_trials(asv, cm, labels)
        state = self.arrays()
        fused = self.fuse_pairs(state, pairs).sasv
        return examine(self.config | {"trim": self.trim}, state, pairs, codes, fused, where)

    def forward(self, asv: Any, cm: Any) -> FusedScores:
        """Fuse scores.

        Args:
            asv: ASV scores, (trials,).
            cm: CM scores, (trials,).

        Returns:
            Float64 scores of shape (trials,), on the device of the module.

        Raises:
            InputError: A score that is not finite, or lengths that do not agree.
            RuntimeError: The system has not been fitted.
        """
        checked = zip((asv, cm), score_pairs(asv, cm), strict=True)
        sides = [x if isinstance(x, Tensor) else torch.from_numpy(column) for x, column in checked]
        pairs = torch.stack([x.to(self.fitted.device, torch.float64) for x in sides])
        return self.fuse_pairs(dict(self.named_buffers()), pairs)

    def extra_repr(self) -> str:
        """Names of the stages."""
        shown = ("density", "calibration", "rule", "rho")
        return ", ".join(f"{name}={self.config[name]!r}" for name in shown)

    def store(self, state: State) -> None:
        """Fill buffers by name.

        In place where that is possible, so that whoever holds the buffers (as DDP does) sees the
        new values; by a new buffer where the shape changes or the old one was made in inference
        mode.
        """
        with torch.inference_mode(False), torch.no_grad():
            for name, value in state.items():
                buffer, fresh = self.get_buffer(name), torch.as_tensor(value)
                if buffer.shape == fresh.shape and not buffer.is_inference():
                    buffer.copy_(fresh)
                else:
                    self._replace_buffer(name, fresh.to(buffer.device, buffer.dtype))

    def _replace_buffer(self, name: str, value: Tensor) -> None:
        place, _, own = name.rpartition(".")
        setattr(self.get_submodule(place), own, value)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusionSystem:
        """Follow the surrounding module to another device, but stay float64."""

        def keep_type(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(keep_type, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the number of knots from the state dict, and drop the axis of seeds it once had."""
        for name, buffer in self.named_buffers():
            value = state_dict.get(prefix + name)
            if value is None:
                continue
            if value.ndim == buffer.ndim + 1 and len(value) == 1:
                state_dict[prefix + name] = value = value[0]
            if name in ("calibration.knots", "calibration.llrs") and value.ndim == buffer.ndim:
                self._replace_buffer(name, buffer.new_empty((*buffer.shape[:1], value.shape[-1])))
        super()._load_from_state_dict(state_dict, prefix, *args)
