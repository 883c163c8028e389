"""Several optimiser steps inside one Lightning step, with no more overhead than they need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

import torch
from pytorch_lightning import LightningModule, Trainer
from pytorch_lightning.core.optimizer import LightningOptimizer
from pytorch_lightning.profilers import PassThroughProfiler
from pytorch_lightning.strategies import SingleDeviceStrategy
from pytorch_lightning.utilities.model_helpers import is_overridden
from torch import Tensor, nn
from torch.optim import Adam, Optimizer
from torch.optim.adam import adam

_HOOKS = ("on_before_backward", "on_after_backward", "on_before_optimizer_step")
_STEP_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def is_plain(trainer: Trainer) -> bool:
    """Whether PyTorch's own ``backward`` and ``step`` do all that Lightning's would.

    That is so on one device in full precision, where nothing has to be scaled or shared between
    processes, unless a profiler, a callback or the module wants to see each step.
    """
    listeners = [*trainer.callbacks, trainer.lightning_module]  # type: ignore[attr-defined]
    return (
        isinstance(trainer.strategy, SingleDeviceStrategy)
        and trainer.precision in ("32-true", "64-true")
        and isinstance(trainer.profiler, PassThroughProfiler)  # type: ignore[attr-defined]
        and not any(is_overridden(hook, one) for hook in _HOOKS for one in listeners)
    )


def bare_step(optimizer: Optimizer) -> Callable[[], object]:
    """The step of an optimiser, without what PyTorch adds to it, where that is known.

    A fused Adam of one group of parameters, all of which have a gradient, is one call of its own
    functional form; ``step`` spends a quarter of its time on hooks, profiling and collecting its
    state. The state is the optimiser's own, and so are the results.

    Args:
        optimizer: The optimiser. Its state must not be replaced while the step is in use.
    """
    listened = "step" in vars(optimizer) or any(getattr(optimizer, hooks) for hooks in _STEP_HOOKS)
    if type(optimizer) is not Adam or len(optimizer.param_groups) > 1 or listened:
        return optimizer.step
    (group,) = optimizer.param_groups
    parameters = group["params"]
    bare = group["fused"] and not (group["amsgrad"] or group["maximize"] or group["capturable"])
    if not bare or any(parameter not in optimizer.state for parameter in parameters):
        return optimizer.step  # the first step makes the state
    states = [optimizer.state[parameter] for parameter in parameters]
    means, squares, steps = (
        [state[key] for state in states] for key in ("exp_avg", "exp_avg_sq", "step")
    )
    beta1, beta2 = group["betas"]

    def step() -> None:
        with torch.no_grad():
            adam(
                parameters,
                [parameter.grad for parameter in parameters],
                means,
                squares,
                [],
                steps,
                fused=True,
                amsgrad=False,
                beta1=beta1,
                beta2=beta2,
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )

    return step


class InnerSteps:
    """Optimiser steps of one ``training_step`` under manual optimisation.

    Lightning's ``manual_backward`` and wrapped optimiser add a quarter to the time of so small a
    step; they are called only where they are needed. Otherwise the Trainer, whose ``global_step``
    a checkpoint goes by, is told of the steps in the end.

    Args:
        module: The module that trains, with one optimiser.
        parameters: What it trains.
    """

    def __init__(self, module: LightningModule, parameters: Iterable[nn.Parameter]) -> None:
        optimizer = cast("LightningOptimizer", module.optimizers())
        self._trainer, self._parameters = module.trainer, list(parameters)
        self._plain = is_plain(self._trainer)
        self._backward: Callable[..., None] = module.manual_backward
        self._step: Callable[[], object] = optimizer.step
        if self._plain:
            self._backward, self._step = Tensor.backward, bare_step(optimizer.optimizer)
        self._taken = 0

    def take(self, output: Tensor, gradient: Tensor) -> None:
        """One step, given the derivative of the loss with respect to the output."""
        for parameter in self._parameters:  # a fifth of what zero_grad costs
            parameter.grad = None
        self._backward(output, gradient=gradient)
        self._step()
        self._taken += 1

    def finish(self) -> None:
        """Count the steps that the Trainer did not see."""
        if self._plain:
            progress = self._trainer.fit_loop.epoch_loop.manual_optimization.optim_step_progress
            for counter in (progress.total, progress.current):
                counter.ready += self._taken
                counter.completed += self._taken
