"""The folder of one seed of a table: what is finished in it, and filling it; and its Trainer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from lightning_fabric.utilities.exceptions import MisconfigurationException
from pytorch_lightning import Callback, LightningDataModule, Trainer

from lightning_sasv import results
from lightning_sasv.callbacks import FitFusion, LeaveSignals, WriteResults
from lightning_sasv.callbacks.standard import usable
from lightning_sasv.callbacks.write_results import finish
from lightning_sasv.checkpoints import AtomicCheckpointIO, identity
from lightning_sasv.errors import InputError
from lightning_sasv.experiment.recipe import Recipe, damaged, digest, read_noted
from lightning_sasv.files import write_json
from lightning_sasv.fitted import read_fitted
from lightning_sasv.fusion import KNOWN, FusionSettings, build_system
from lightning_sasv.fusion.doubts import reason_of
from lightning_sasv.fusion.zoo import check_some_left
from lightning_sasv.gate import fits
from lightning_sasv.metrics_file import Metrics
from lightning_sasv.models import SASVModule
from lightning_sasv.trials import SPLITS

if TYPE_CHECKING:
    from lightning_sasv.experiment.run import Job

FAILED_FILE = "failed.json"
"""In the folder of a seed: keys of systems that could not be fitted there, and the reasons."""


@dataclass(frozen=True)
class SeedFolder:
    """The folder ``seed<N>`` of a table, laid out like any folder of results.

    Attributes:
        path: The folder.
        key: Key of the training; entries with another key are not ours. One without any was not
            finished.
        own: Settings of the systems that are not ours.
        networks: Systems with a network of their own, and the hash of the ASV embeddings that it
            learnt from.
    """

    path: Path
    key: str
    own: Mapping[str, FusionSettings] = field(default_factory=dict)
    networks: Mapping[str, str] = field(default_factory=dict)

    def metrics(self) -> Metrics:
        """What is finished; results of another configuration are an error, never mixed in."""
        file = self.path / results.METRICS_FILE
        found = results.read_metrics(file) if file.exists() else {}
        for name, entry in found.items():
            if entry.get("key", self.key) != self.key:
                raise InputError(
                    f"{self.path} holds results of another configuration, data set or version "
                    f"({name}); choose another --out, or add --overwrite to replace them"
                )
        return {name: entry for name, entry in found.items() if "key" in entry}

    def missing(self, systems: Iterable[str]) -> list[str]:
        """Systems without a finished result under their present configuration.

        Metrics are noted as finished last; where one of the other files has been removed since,
        every system is missing.
        """
        found = self.metrics()
        if not self._is_whole(found):
            return list(systems)
        keys = {name: entry.get("system_key") for name, entry in {**found, **self.failed()}.items()}
        return [name for name in systems if keys.get(name) != self.system_key(name)]

    def _is_whole(self, found: Metrics) -> bool:
        """Whether all files of finished results are there."""
        files = [results.scores_file(self.path, split) for split in SPLITS]
        files += [results.fitted_file(self.path, name) for name in found]
        files += [self.checkpoint(entry.get("network")) for entry in found.values()]
        return all(file.is_file() for file in files)

    def drop(self, systems: Iterable[str]) -> None:
        """Forget results that are of no use; all of them where a file is gone."""
        file, done = self.path / results.METRICS_FILE, self.metrics()
        kept = {name: done[name] for name in done if name not in set(systems)}
        if done and (len(kept) < len(done) or not self._is_whole(done)):
            results.write_metrics(file, kept if self._is_whole(done) else {})

    def checkpoint(self, network: str | None) -> Path:
        """The checkpoint of the shared network, or of a system's own."""
        return results.checkpoint_file(self.path, network)

    def failed(self) -> dict[str, dict[str, str]]:
        """Systems that could not be fitted: their ``system_key`` and ``reason``."""
        file = self.path / FAILED_FILE
        found = read_noted(file) if file.exists() else {}
        if not fits(found, dict[str, dict[str, str]]):
            raise damaged(file)
        return found

    def system_key(self, name: str) -> str:
        """Key of a fusion system's configuration, and of what its own network learnt from."""
        config = build_system(name, self.own.get(name)).config
        return digest([config, self.networks[name]] if name in self.networks else config)

    def with_earlier(self, systems: Sequence[str]) -> SeedFolder:
        """The same, with the settings of systems of others that an earlier command fitted here."""
        names = [name for name in self.metrics() if name not in (*KNOWN, *systems)]
        earlier = {name: read_fitted(results.fitted_file(self.path, name)).config for name in names}
        return replace(self, own={**self.own, **cast("Mapping[str, FusionSettings]", earlier)})


def make_trainer(callbacks: Sequence[Callback], **settings: Any) -> Trainer:
    """A Trainer as in ``configs/base.yaml``."""
    return Trainer(
        **{"devices": 1, **settings, "accelerator": usable(settings.get("accelerator", "auto"))},
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        deterministic=True,
        callbacks=[*callbacks, LeaveSignals()],
        plugins=[AtomicCheckpointIO()],
        enable_model_summary=False,
    )


def device_settings(recipe: Recipe) -> dict[str, str]:
    """Device and precision that a Trainer takes on this machine, by their plain names."""
    try:
        made = make_trainer([], logger=False, enable_checkpointing=False, **recipe.trainer)
    except (MisconfigurationException, ValueError, TypeError, ImportError) as error:
        said = " ".join(str(error).split())
        raise InputError(f"the Trainer refuses its settings: {said}") from None
    return {"accelerator": made.strategy.root_device.type, "precision": str(made.precision)}


def fill(
    folder: SeedFolder,
    module: SASVModule,
    data: LightningDataModule,
    missing: Sequence[str],
    epoch: int,
    device: Mapping[str, Any],
) -> None:
    """Fit and evaluate the systems of one seed and write everything.

    Args:
        folder: Where to write.
        module: The head of the seed, and its systems.
        data: The corpus.
        missing: Systems whose results, if there are any, are of no use.
        epoch: The best epoch.
        device: Settings of the Trainer that trained it.
    """
    file = folder.path / results.METRICS_FILE
    folder.drop(missing)
    fit = FitFusion(each_epoch=False, says=False)  # said at the end, of all seeds together
    network = next((name for name in module.names if name in folder.networks), None)
    writes = WriteResults(str(folder.path), logs=False, beside=True, own=network is not None)
    callbacks = [fit, writes]
    settings = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = make_trainer(callbacks, default_root_dir=folder.path, **settings, **device)
    finish(trainer, module, data)
    checkpoint = folder.checkpoint(network)
    trainer.save_checkpoint(checkpoint, weights_only=True)
    found = results.read_metrics(file)
    _note_failed(folder, module)
    weights = identity(checkpoint) | {"epoch": epoch, "step": None}
    for name in [name for name in module.names if name in found]:
        own = {"key": folder.key, "best_epoch": epoch, "system_key": folder.system_key(name)}
        found[name] |= own | ({} if network is None else {"network": network})
        for one in found[name]["sets"].values():
            one["of"]["checkpoint"] = weights
    results.write_metrics(file, found)


def failures(job: Job) -> dict[str, str]:
    """Systems of a job that could not be fitted for a seed, each with its reason.

    Raises:
        InputError: There is no other.
    """
    found: dict[str, str] = {}
    for seed in reversed(job.seeds):
        failed = SeedFolder(job.out / f"seed{seed}", "").failed()
        found |= {n: f"{one['reason']} (seed {seed})" for n, one in failed.items()}
    found = {name: found[name] for name in job.systems if name in found}
    check_some_left(job.systems, found)
    return found


def _note_failed(folder: SeedFolder, module: SASVModule) -> None:
    """Note which systems of a seed could not be fitted, and why."""
    why = {name: reason_of(one.warnings) for name, one in module.systems[0].items()}
    failed = {
        name: {"system_key": folder.system_key(name), "reason": reason}
        for name, reason in why.items()
        if reason is not None
    }
    others = {n: one for n, one in folder.failed().items() if n not in why}
    if failed | others:
        write_json(folder.path / FAILED_FILE, others | failed)
    else:
        (folder.path / FAILED_FILE).unlink(missing_ok=True)
