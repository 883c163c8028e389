"""Fitting the fusion systems on the dev scores after every validation epoch."""

from __future__ import annotations

from pytorch_lightning import Callback, Trainer
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn

from lightning_sasv.metrics import SASVEER
from lightning_sasv.models import SASVModule
from lightning_sasv.models.scoring import ScoredTrials, has_every_class


class FitFusion(Callback):
    """Fits every system of the module on dev and logs ``val/sasv_eer`` of the first one.

    Fits only while training: ``validate`` and ``test`` use what the checkpoint holds. It works in
    ``on_validation_epoch_end``, before any ``ModelCheckpoint`` saves, so a checkpoint always has
    the systems that were fitted to the scores of its own weights, and the logged value is there
    to be monitored.
    """

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: SASVModule) -> None:  # type: ignore[override]
        """Fit, then log the dev SASV-EER of each system."""
        if trainer.sanity_checking:
            return
        scored = pl_module.scored_trials()
        if not has_every_class(scored.label):
            rank_zero_warn("dev was scored in part and lacks a class of trials: nothing is fitted")
            return
        if trainer.state.fn == TrainerFn.FITTING:
            for system in pl_module.systems.values():
                system.fit(scored.asv, scored.cm, scored.label)
        self._log(pl_module, scored)

    @staticmethod
    def _log(pl_module: SASVModule, scored: ScoredTrials) -> None:
        for number, (name, system) in enumerate(pl_module.systems.items()):
            fused = system(scored.asv, scored.cm).sasv.view(len(pl_module.seeds), -1)
            rates = []
            for row in fused:
                metric = SASVEER(sync_on_compute=False)  # every process holds every trial
                metric.update(row, scored.label)
                rates.append(float(metric.compute()))
            mean = sum(rates) / len(rates)
            pl_module.log(f"val/{name}/sasv_eer", mean)
            if number == 0:
                pl_module.log("val/sasv_eer", mean, prog_bar=True)
