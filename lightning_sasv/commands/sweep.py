"""``lightning sweep``: a W&B sweep file, online or offline."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from lightning_sasv.errors import InputError


def sweep(file: str, project: str = "lightning_sasv", offline: bool = False) -> None:
    """Run the grid of a W&B sweep file.

    When logged in to W&B, the sweep is registered there and an agent runs here; agents on other
    machines can join it. When not, or without network, the same grid runs here point by point with
    offline W&B runs, which `wandb sync` sends later.

    Args:
        file: Sweep file, e.g. experiments/table1/sweep.yaml.
        project: W&B project.
        offline: Run offline even when logged in.
    """
    from lightning_sasv.experiment.sweep import read_sweep, run_offline, run_online
    from lightning_sasv.loggers import wandb_mode

    console = Console(highlight=False, soft_wrap=True)
    plan = read_sweep(file)
    if not offline and wandb_mode() == "online":
        number = run_online(plan, project)
        console.print(f"sweep {number} of {plan.name}: {len(plan.points)} runs")
        return
    console.print(f"{plan.name}: {len(plan.points)} runs, W&B offline")
    failed = run_offline(plan, Path.cwd())
    if failed:
        listed = "; ".join(str(point) for point in failed[:10])
        raise InputError(f"{len(failed)} of {len(plan.points)} runs failed: {listed}")
    console.print("send the runs with: wandb sync --sync-all runs/wandb")
