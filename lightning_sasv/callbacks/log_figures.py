"""Figures of the eval results in Weights & Biases."""

from __future__ import annotations

import importlib.util

from pytorch_lightning import Callback, LightningModule, Trainer
from pytorch_lightning.loggers import WandbLogger

from lightning_sasv.callbacks.run_folder import is_dry_run
from lightning_sasv.callbacks.write_results import written_folder

SHOWN = ("distributions", "boundaries", "det", "operating_points", "forest", "speakers")


class LogFigures(Callback):
    """Logs the figures ``SHOWN`` after ``test``.

    Does nothing without a W&B logger or without matplotlib (extra ``report``). The figures are
    drawn from the files that ``WriteResults`` has written, as ``lightning report`` draws them.
    """

    def on_test_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Draw and log."""
        loggers = [one for one in trainer.loggers if isinstance(one, WandbLogger)]
        folder = written_folder(trainer)  # every process takes part in finding it
        if folder is None or not loggers or is_dry_run(trainer):
            return
        if not trainer.is_global_zero or importlib.util.find_spec("matplotlib") is None:
            return
        from lightning_sasv.report.curves import Material
        from lightning_sasv.report.drawing import draw, look
        from lightning_sasv.report.figures import describe
        from lightning_sasv.results import read_results

        for figure in describe(Material.of(read_results(folder)), SHOWN):
            with look():
                drawing = draw(figure)
            for logger in loggers if drawing is not None else []:
                logger.log_image(f"figures/{figure.name}", [drawing])
