"""Fitting the fusion systems on the dev scores."""

from __future__ import annotations

import math

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.callbacks.write_results import origin_of, trials_of
from lightning_sasv.console import print_notes
from lightning_sasv.data.corpus import TrialSet
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import warning_lines
from lightning_sasv.fusion.doubts import Where
from lightning_sasv.fusion.zoo import check_some_left
from lightning_sasv.metrics.functional import a_dcf, sasv_eers
from lightning_sasv.models import SASVModule
from lightning_sasv.models.scoring import ScoredTrials, has_every_class


class FitFusion(Callback):
    """Fits every system of the module on dev and logs ``val/sasv_eer`` of the first one.

    Each seed has systems of its own, fitted to its own scores. It works in
    ``on_validation_epoch_end``, before any checkpoint is saved, so a checkpoint always has the
    systems that were fitted to the scores of its own weights, and the logged value is there to be
    monitored. Without ``each_epoch`` nothing is fitted while training, and the systems are fitted
    in the ``validate`` after it, to the scores of the best epoch.

    What makes a fit doubtful is in the ``warnings`` of its system; ``validate`` and ``test`` say
    it, once. A system that the scores allow no fit of has its reason there, and nothing else is
    written of it; if there is no other it is an error.

    Args:
        each_epoch: Fit after every epoch of a training; ``validate`` and ``test`` then use what
            the checkpoint holds.
        says: Say what makes a fit doubtful.
    """

    def __init__(self, each_epoch: bool = True, says: bool = True) -> None:
        self.each_epoch, self.says = each_epoch, says
        self._said: list[str] = []

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Fit, then log the dev SASV-EER of each system."""
        training = trainer.state.fn == TrainerFn.FITTING
        if trainer.sanity_checking or (training and not self.each_epoch):
            return
        scored = pl_module.scored_trials()
        if not has_every_class(scored.label):
            rank_zero_warn("dev was scored in part and lacks a class of trials: nothing is fitted")
            return
        where = _names_of(pl_module.trial_set(), scored)
        speakers = pl_module.trial_set().trials.speaker[scored.kept.numpy()]
        trials = trials_of(trainer, pl_module)
        for seed, cm, systems in zip(pl_module.seeds, scored.cm, pl_module.systems, strict=True):
            origin, reasons = origin_of(trainer, pl_module, seed), dict[str, str]()
            given, more = scored.sides(cm)[:2], scored.fitting(cm)
            for name, system in systems.items():
                if system.is_fitted and not training and self.each_epoch:
                    system.warnings = system.examine(*given, scored.label, where, **more)
                    continue
                try:
                    system.fit(*given, scored.label, where, speakers=speakers, **more)
                    system.fitted_on = trials.block(origin)
                except InputError as error:
                    reasons[name] = str(error).removeprefix(system.label)
                    system.forget(reasons[name])
            check_some_left(systems, reasons)
        self._log(pl_module, scored)
        if not training:
            self._say(trainer, pl_module)

    def on_test_epoch_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Say what a checkpoint tells of its systems."""
        self._say(trainer, pl_module)

    def _say(self, trainer: Trainer, pl_module: SASVModule) -> None:
        """Say what was not said before."""
        found = [{n: one.warnings for n, one in systems.items()} for systems in pl_module.systems]
        lines = dict.fromkeys(line for systems in found for line in warning_lines(systems))
        new = [line for line in lines if line not in self._said]
        self._said += new
        if self.says and trainer.is_global_zero:
            print_notes(new)

    @staticmethod
    def _log(pl_module: SASVModule, scored: ScoredTrials) -> None:
        for number, name in enumerate(pl_module.names):
            own = [systems[name] for systems in pl_module.systems]
            there = all(system.is_fitted for system in own)
            pairs = zip(own, scored.cm, strict=True) if there else ()
            fused = [system(*scored.sides(cm)).sasv for system, cm in pairs]
            rate = _mean([sasv_eers(one, scored.label).sasv for one in fused])
            pl_module.log(f"val/{name}/sasv_eer", rate)
            if number == 0:
                pl_module.log("val/sasv_eer", rate, prog_bar=True)
                costs = [a_dcf(one, scored.label, pl_module.costs).min for one in fused]
                pl_module.log("val/a_dcf", _mean(costs))


def _mean(values: list[float]) -> float:
    """The mean over seeds; NaN of a system that could not be fitted."""
    return sum(values) / len(values) if values else math.nan


def _names_of(data: TrialSet, scored: ScoredTrials) -> Where:
    """Names trials by speaker and utterance."""
    rows = scored.kept.nonzero()[:, 0]

    def where(row: int, side: str) -> str:
        place = int(rows[row])
        return f"{data.trials.speaker[place]}/{data.trials.utterance[place]}"

    return where
