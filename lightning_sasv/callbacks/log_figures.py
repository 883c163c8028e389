"""Figures of the eval results in Weights & Biases."""

from __future__ import annotations

import importlib.util

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import WandbLogger

from lightning_sasv.callbacks.write_results import WriteResults, is_dry_run

SHOWN = ("distributions", "boundaries", "det")


class LogFigures(Callback):
    """Logs score distributions, decision boundaries and DET curves after ``test``.

    Does nothing without a W&B logger or without matplotlib (extra ``report``). The figures are
    drawn from the files that ``WriteResults`` has written, as ``lightning report`` draws them.
    """

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log."""
        writers = [c for c in trainer.callbacks if isinstance(c, WriteResults)]  # type: ignore[attr-defined]
        loggers = [one for one in trainer.loggers if isinstance(one, WandbLogger)]
        if not (writers and loggers) or is_dry_run(trainer):
            return
        folder = writers[0].folder_of(trainer)  # every process takes part in finding it
        if not trainer.is_global_zero or importlib.util.find_spec("matplotlib") is None:
            return
        from lightning_sasv.report.drawing import style
        from lightning_sasv.report.figures import DRAWINGS
        from lightning_sasv.report.pairs import find_pairs
        from lightning_sasv.results import read_results

        results = read_results(folder)
        pairs, _ = find_pairs(results.scores, results.systems)
        for name in SHOWN:
            with style():
                figure = DRAWINGS[name](results, pairs)
            for logger in loggers if figure is not None else []:
                logger.log_image(f"figures/{name}", [figure])
