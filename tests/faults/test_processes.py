"""Two and three processes give what one gives: every trial once, the same bits, the same training.

The processes of a group are forked, and run one command after the other; how Lightning starts
processes itself is tried once.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config, leaving_group
from lightning_sasv.errors import InputError, RunError
from tests.faults.forks import FORKS, LIMIT, running, wait_for
from tests.helpers import metrics_in

pytestmark = [pytest.mark.ddp, pytest.mark.slow]

CONFIG = str(base_config().parent / "L3c.yaml")
SMALL = ["--config", CONFIG, "--data.scale=0.02", "--trainer.accelerator=cpu"]
TWO = ["--trainer.devices=2", "--trainer.strategy=ddp"]
EXACT = [*SMALL, "--trainer.precision=64-true", "--trainer.use_distributed_sampler=true"]
RUN = Path("runs", "L3c", "version_0")
CHECKPOINT = RUN / "checkpoints" / "last.ckpt"
UNEVEN = ["fit", *EXACT, "--data.batch_size=23", "--data.score_batch_size=101"]
EMPTY = ["fit", *EXACT, "--data.batch_size=2", "--data.score_batch_size=99999"]
JOINT = ["--model.head=film", "--model.systems=[F3]", "--model.dropout=0.2"]
JOINT += ["--model.hidden_dims=[16,8]", "--trainer.logger.init_args.name=L3c"]
CONCAT = ["--model.head=concat", "--model.systems=[E2]", *JOINT[3:]]
TRAININGS = {
    "uneven": [*UNEVEN, "--trainer.max_epochs=2"],
    "empty": [*EMPTY, "--trainer.max_epochs=1", "--trainer.limit_train_batches=1"],
    "a_dcf": [*UNEVEN, "--trainer.max_epochs=1", "--model.objective=a_dcf"],
    "film": [*UNEVEN, "--trainer.max_epochs=1", *JOINT],
    "concat": [*UNEVEN, "--trainer.max_epochs=1", *CONCAT],
}
"""Shares of different sizes; and batches, of training and of scoring, that leave some with none."""
EVALUATIONS = {
    stage: [stage, *SMALL, f"--data.score_batch_size={size}", f"--ckpt_path={CHECKPOINT.name}"]
    for stage, size in (("validate", 101), ("test", 99999), ("predict", 101))
}


def run_as(rank: int, ports: list[int], folder: Path, commands: dict[str, list[str]]) -> None:
    """Run commands, each in a folder and a group of its own, as one process of several."""
    log = os.open(folder / f"log{rank}", os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.environ.update(MASTER_ADDR="127.0.0.1", LOCAL_RANK=str(rank))
    for port, (name, words) in zip(ports, commands.items(), strict=True):
        os.environ["MASTER_PORT"] = str(port)
        os.chdir(folder / name)
        main(words)
        assert not dist.is_initialized()  # or the end of Python could be that of a thread of gloo


def run_group(
    folder: Path, count: int, commands: dict[str, list[str]], checkpoint: Path | None = None
) -> Path:
    """Run commands by a group of processes; each finds a copy of the checkpoint in its folder."""
    with ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in commands]
        for one in free:
            one.bind(("127.0.0.1", 0))
        ports = [one.getsockname()[1] for one in free]
    size = [f"--trainer.devices={count}", *(["--trainer.strategy=ddp"] if count > 1 else [])]
    for name in commands:
        (folder / name).mkdir()
        if checkpoint is not None:
            shutil.copy(checkpoint, folder / name)
    words = {name: [*command, *size] for name, command in commands.items()}
    group = [
        FORKS.Process(target=run_as, args=(rank, ports, folder, words)) for rank in range(count)
    ]
    for process in group:
        process.start()
    for rank, process in enumerate(group):
        process.join(LIMIT)
        process.kill()
        assert process.exitcode == 0, (folder / f"log{rank}").read_text()[-2000:]
    return folder


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """Trainings by one, two and three processes, and evaluations of one and the same checkpoint."""
    folders = {count: tmp_path_factory.mktemp(f"by{count}") for count in (1, 2, 3)}
    for count, folder in folders.items():
        run_group(folder, count, TRAININGS)
    for count, folder in folders.items():
        run_group(folder, count, EVALUATIONS, folders[1] / "uneven" / CHECKPOINT)
    return folders


def metrics(folder: Path) -> dict[str, Any]:
    [found] = metrics_in(folder / RUN).values()
    return dict(found)


def assert_same(mine: dict[str, Any], theirs: dict[str, Any], within: float) -> None:
    """Compare metrics: the same ones, each equal within an absolute difference."""
    assert mine.keys() == theirs.keys()
    for key, value in theirs.items():
        expected = pytest.approx(value, abs=within, rel=0) if isinstance(value, float) else value
        assert mine[key] == expected, key


def last_epoch(folder: Path) -> tuple[int, dict[str, torch.Tensor]]:
    """Number of steps, and the weights."""
    checkpoint = torch.load(folder / CHECKPOINT, weights_only=True)
    return checkpoint["global_step"], checkpoint["state_dict"]


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluation_gives_the_same_bits(groups: dict[int, Path], name: str, count: int) -> None:
    mine, theirs = (groups[number] / name for number in (count, 1))
    written = sorted(path.relative_to(theirs) for path in theirs.rglob("scores/*"))
    assert written
    for file in written:
        assert (mine / file).read_bytes() == (theirs / file).read_bytes()
    if name != "predict":  # which does not look at the labels
        split = "dev" if name == "validate" else "eval"
        assert metrics(mine)["fitted"] == metrics(theirs)["fitted"]
        assert_same(metrics(mine)[split], metrics(theirs)[split], within=1e-12)


def assert_same_training(mine: Path, theirs: Path) -> None:
    """In double precision the order of summation shows in the last digits alone."""
    (steps, weights), (expected_steps, expected) = last_epoch(mine), last_epoch(theirs)
    assert steps == expected_steps
    assert weights.keys() == expected.keys()
    for name, value in expected.items():
        within = 1e-13 if name.startswith("head.") else 1e-6  # fits stop within a tolerance
        torch.testing.assert_close(weights[name], value, rtol=within, atol=within)
    for split in ("dev", "eval"):
        assert_same(metrics(mine)[split], metrics(theirs)[split], within=1e-6)


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("name", TRAININGS)
def test_training_is_the_same_to_rounding(groups: dict[int, Path], name: str, count: int) -> None:
    assert_same_training(groups[count] / name, groups[1] / name)


def test_processes_that_lightning_starts(groups: dict[int, Path], tmp_path: Path) -> None:
    with running(tmp_path, *TRAININGS["uneven"], *TWO) as process:
        output, errors = process.communicate(timeout=LIMIT)
    assert process.returncode == 0, output + errors
    assert_same_training(tmp_path, groups[1] / "uneven")


def test_a_process_that_dies_ends_the_run(tmp_path: Path) -> None:
    with running(tmp_path, "fit", *SMALL, *TWO, "--trainer.max_epochs=100000") as process:
        wait_for(process, tmp_path, "runs/L3c/version_0/metrics.csv")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert children, "no second process was started"
        os.kill(int(children[0]), signal.SIGKILL)
        _, errors = process.communicate(timeout=60)  # far less than the timeout of the group
    assert process.returncode == 1, errors
    assert "another process of this run died" in errors


@pytest.mark.parametrize(
    ("error", "left"),
    [(None, True), (InputError("no"), True), (SystemExit(2), True), (RunError("lost"), False)],
)
def test_a_group_is_left_unless_an_exchange_may_be_under_way(
    error: BaseException | None, left: bool, tmp_path: Path
) -> None:
    dist.init_process_group("gloo", f"file://{tmp_path}/store", rank=0, world_size=1)
    try:
        with suppress(InputError, RunError, SystemExit), leaving_group():
            if error is not None:
                raise error
        assert dist.is_initialized() != left
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
