"""A fusion system as a module: fitted values in buffers, tensors in, tensors out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from lightning_sasv.errors import InputError
from lightning_sasv.fusion.base import SIZED_BY_DATA, Fusion
from lightning_sasv.fusion.columns import DevTrials
from lightning_sasv.fusion.densities import State
from lightning_sasv.fusion.doubts import FitWarning, Where, examine, failed, numbered
from lightning_sasv.fusion.guards import SingularError
from lightning_sasv.fusion.transforms import columns_of
from lightning_sasv.trials import FusedScores


class FusionSystem(Fusion, nn.Module):
    """ASV and CM scores, any number of each, in, one SASV score out.

    Arguments and stages as for :class:`Fusion`. What ``fit`` learns is kept in float64 buffers
    (``transform.*``, ``density.*``, ``calibration.*``, ``rho``), which stay float64 when the module
    around them is cast to another type, and follow it to its device. Names of columns, where there
    are more than the pair, are in the buffer ``names``. Gradients flow through ``forward``.

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
        self.register_buffer("rho", None)
        for name, value in state.items():
            self._make_buffer(name, torch.as_tensor(value))

    def _make_buffer(self, name: str, value: Tensor) -> None:
        """Make a buffer, in place of the one of that name if there is one."""
        place, _, own = name.rpartition(".")
        if place and getattr(self, place, None) is None:
            self.add_module(place, nn.Module())
        self.get_submodule(place).register_buffer(own, value)

    def arrays(self) -> State:
        """The state as arrays."""
        return {name: value.numpy(force=True) for name, value in self.named_buffers()}

    @property
    def is_fitted(self) -> bool:
        """Whether scores can be fused: after ``fit``, or at once where nothing is to be learned."""
        return bool(self.fitted)

    def fit(
        self,
        asv: Any,
        cm: Any,
        labels: Any,
        where: Where = numbered,
        *,
        speakers: Any = None,
        quality: Any = None,
        columns: Sequence[str] | None = None,
    ) -> FusionSystem:
        """Learn everything from development trials.

        What makes the result doubtful (a few far scores, a class of few trials, …) is in
        ``warnings`` afterwards, what was fused in ``columns``, and what cross-validation tried and
        chose in ``choice``.

        Args:
            asv: ASV scores, (trials,) or (trials, k), as tensor, array or list.
            cm: CM scores, (trials,) or (trials, m).
            labels: ``TrialClass`` codes or words, (trials,).
            where: Names a trial in a warning, ``where(row, column)``; the column is ``asv`` or
                ``cm`` for the pair, else the name of the column.
            speakers: Enrolled speaker of each trial, (trials,), which ``cv`` needs.
            quality: Measures of quality, (trials,) or (trials, q): linear features of
                ``multinomial`` that no other stage looks at.
            columns: Names of all columns, ``asv_…``, then ``cm_…``, then ``quality_…``; by default
                ``asv_1``, ``asv_2``, …, or those of the pair.

        Returns:
            The system itself.

        Raises:
            InputError: A score that is not finite, columns that are constant or nearly singular,
                an unknown label, a class without trials, or lengths that do not agree; what was
                learned before stays.
        """
        more = {"speakers": speakers, "quality": quality, "columns": columns}
        trials = self.dev_trials(asv, cm, labels, **more)
        try:
            self.store(self.fit_state(trials))
        except SingularError:
            raise
        except InputError as error:
            doubts = self._examine({}, trials, where)
            causes = [one["text"] for one in doubts if one["code"] == "dominated"][:1]
            raise InputError("; ".join([str(error), *causes])) from None
        self.warnings = self._examine(self.arrays(), trials, where)
        return self

    def forget(self, reason: str) -> None:
        """Be as before any fit, for a reason that is kept among the warnings."""
        self.store(self.start_state())
        self.warnings = [failed(reason)]

    def examine(
        self, asv: Any, cm: Any, labels: Any, where: Where = numbered, **more: Any
    ) -> list[FitWarning]:
        """What makes the fit to these development trials doubtful; arguments as for ``fit``."""
        return self._examine(self.arrays(), self.dev_trials(asv, cm, labels, **more), where)

    def _examine(self, state: State, trials: DevTrials, where: Where) -> list[FitWarning]:
        """The same; the state of a fit that failed is empty."""
        fused = self.fuse_pairs(state, trials.scores, trials.columns).sasv if state else None
        return examine(self.config | {"trim": self.trim}, state, trials, fused, where)

    def forward(self, asv: Any, cm: Any, quality: Any = None) -> FusedScores:
        """Fuse scores.

        Args:
            asv: ASV scores, (trials,) or (trials, k), the columns in the order of ``fit``.
            cm: CM scores, (trials,) or (trials, m).
            quality: Measures of quality, where the system was fitted with them.

        Returns:
            Float64 scores of shape (trials,), on the device of the module.

        Raises:
            InputError: A score that is not finite, or shapes that are not those of the fit.
            RuntimeError: The system has not been fitted.
        """
        columns, checked = self.checked(asv, cm, quality)
        places = (*columns.sides(), slice(columns.scores, None))
        rows = [
            values.reshape(checked.shape[1], -1).T  # a tensor keeps its gradient
            if isinstance(values, Tensor)
            else torch.from_numpy(checked[place])
            for values, place in zip((asv, cm, quality), places, strict=True)
            if len(checked[place])
        ]
        scores = torch.cat([row.to(self.fitted.device, torch.float64) for row in rows])
        return self.fuse_pairs(dict(self.named_buffers()), scores, columns)

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
        self.columns = columns_of(state)
        known = dict(self.named_buffers())
        for name in known.keys() - state.keys():
            place, _, own = name.rpartition(".")
            delattr(self.get_submodule(place), own)
        with torch.inference_mode(False), torch.no_grad():
            for name, value in state.items():
                fresh, buffer = torch.as_tensor(value), known.get(name)
                if buffer is None or buffer.shape != fresh.shape or buffer.is_inference():
                    self._make_buffer(name, fresh.to(self.fitted.device))
                else:
                    buffer.copy_(fresh)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> FusionSystem:
        """Follow the surrounding module to another device, but stay float64."""

        def keep_type(tensor: Tensor) -> Tensor:
            moved = fn(tensor)
            return moved if moved.dtype == tensor.dtype else tensor.to(moved.device)

        super()._apply(keep_type, recurse)  # type: ignore[no-untyped-call]
        return self

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take columns and sizes from the state dict, and drop the axis of seeds it once had."""
        own = {name.removeprefix(prefix) for name in state_dict if name.startswith(prefix)}
        if "names" in own or "transform.word" in own or not self.columns.is_pair:
            self._take_layout(state_dict, prefix)
        for name, buffer in self.named_buffers():
            value = state_dict.get(prefix + name)
            if value is None:
                continue
            if value.ndim == buffer.ndim + 1 and len(value) == 1:
                state_dict[prefix + name] = value = value[0]
            if name in SIZED_BY_DATA and value.ndim == buffer.ndim:
                self._make_buffer(name, buffer.new_empty((*buffer.shape[:-1], value.shape[-1])))
        super()._load_from_state_dict(state_dict, prefix, *args)

    def _take_layout(self, state_dict: dict[str, Any], prefix: str) -> None:
        """Make the buffers of the columns that a state dict is of."""
        names = ("names", "transform.word", "transform.size", "transform.value")
        found = {
            n: state_dict[prefix + n].numpy(force=True) for n in names if prefix + n in state_dict
        }
        columns = columns_of(found)
        self.store(self.start_state(columns) | {"fitted": self.fitted.numpy(force=True)})
        self.columns = columns
