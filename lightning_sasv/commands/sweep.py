"""``lightning sweep``: a W&B sweep file, online or offline."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from lightning_sasv.errors import RunError


def sweep(file: str, project: str | None = None, offline: bool = False) -> None:
    """Run a W&B sweep file.

    When logged in to W&B, the sweep is registered there and an agent runs here; agents on other
    machines can join it. When not, or without network, the grid of the same file runs here point
    by point with offline W&B runs, which `wandb sync` sends later.

    Args:
        file: Sweep file, e.g. experiments/table1/sweep.yaml.
        project: W&B project; by default the one that the file names.
        offline: Run offline even when logged in.
    """
    from lightning_sasv.experiment.sweep import read_sweep, run_offline, run_online
    from lightning_sasv.loggers import wandb_mode

    console = Console(highlight=False, soft_wrap=True)
    plan = read_sweep(file)
    if not offline and wandb_mode() == "online":
        number = run_online(plan, project or plan.project)
        console.print(f"sweep {number} of {plan.name} has ended")
        return
    plan.command()
    count = len(plan.points())
    console.print(f"{plan.name}: {count} runs, W&B offline")
    tried, failed = run_offline(plan, Path.cwd())
    if failed:
        listed = "; ".join(str(point) for point in failed[:10])
        rest = f"; {count - tried} were not tried" if tried < count else ""
        raise RunError(f"{len(failed)} of {tried} runs failed{rest}: {listed}")
    console.print("send the runs with: wandb sync runs/wandb/offline-run-*")
