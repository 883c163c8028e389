"""W&B that fails in the middle of a run changes nothing in the results."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import wandb
from pytorch_lightning.loggers import CSVLogger

from lightning_sasv.data import Corpus
from lightning_sasv.loggers import SteadyWandbLogger
from lightning_sasv.models import SASVModule
from tests.helpers import content, quiet_trainer, shared_data

BUCKET = {
    "id": "1",
    "name": "run",
    "displayName": "run",
    "project": {"name": "lightning_sasv", "entity": {"name": "me"}},
}
ANSWER = {
    "viewer": {"id": "1", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}},
    "serverInfo": {"features": [], "latestLocalVersionInfo": None, "cliVersionInfo": "{}"},
    "upsertBucket": {"bucket": BUCKET, "inserted": True},
    "model": {"bucket": None},
}


class DyingServer(ThreadingHTTPServer):
    """Answers like W&B until a run has begun and sends its first values; then it is gone."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.begun = self.gone = False


class Answers(BaseHTTPRequestHandler):
    server: DyingServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.begun |= b"upsertBucket" in body
        if "file_stream" in self.path:
            self.server.gone = True
            threading.Thread(target=self._vanish).start()
            return
        content = json.dumps({"data": ANSWER}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_GET(self) -> None:
        self.do_POST()

    def _vanish(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[DyingServer]:
    server = DyingServer()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    if not server.gone:
        server.shutdown()
        server.server_close()


def fit(folder: Path, *args: str, **environment: str) -> tuple[Path, str]:
    """Train in a process of its own; the folder of the results and what was said."""
    folder.mkdir()
    command = [sys.executable, "-m", "lightning_sasv.cli", "fit", *args, "--data.scale=0.02"]
    done = subprocess.run(
        [*command, "--trainer.max_epochs=3", "--seed_everything=7"],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "runs/B1/version_0", done.stdout + done.stderr


def test_a_server_that_vanishes_in_mid_run(
    server: DyingServer, repository: Path, tmp_path: Path
) -> None:
    plain, _ = fit(tmp_path / "plain")
    environment = {
        "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}",
        "WANDB_API_KEY": "0123456789" * 4,
        "WANDB_MODE": "online",
        "WANDB_FINISH_TIMEOUT": "3",
        "WANDB_CONFIG_DIR": str(tmp_path / "config"),
    }
    config = str(repository / "configs/logger/wandb.yaml")
    logged, said = fit(tmp_path / "logged", "--config", config, **environment)
    assert server.begun, said
    assert server.gone, said
    for name in ("metrics.json", "scores/dev.csv", "scores/eval.csv"):
        assert content(logged / name) == content(plain / name)
    assert list((tmp_path / "logged/runs/wandb").glob("run-*/run-*.wandb")), "nothing left to sync"


class FailingRun:
    """A run of W&B whose service dies after the first values."""

    def __init__(self) -> None:
        self.calls, self.id = 0, "abc"
        self.config = SimpleNamespace(update=lambda *_, **__: None)

    def log(self, *_: Any, **__: Any) -> None:
        self.calls += 1
        if self.calls > 1:
            raise BrokenPipeError("the service has gone")


def test_a_service_that_dies_is_told_once(twin: Corpus, tmp_path: Path) -> None:
    def train(name: str, *loggers: Any) -> bytes:
        module, data = SASVModule(), shared_data(twin)
        logger = [CSVLogger(tmp_path / name, name="run"), *loggers]
        trainer = quiet_trainer(tmp_path / name, epochs=3, logger=logger)
        trainer.fit(module, data)
        trainer.test(module, data, ckpt_path="best", verbose=False)
        return content(Path(trainer.log_dir) / "metrics.json")

    run = FailingRun()
    with pytest.warns(UserWarning, match="without it: the service has gone") as told:
        logged = train("logged", SteadyWandbLogger(experiment=run))  # type: ignore[arg-type]
    assert sum("the service has gone" in str(one.message) for one in told) == 1
    assert run.calls == 2
    assert logged == train("plain")


def test_a_server_that_refuses_the_run_leaves_it_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: list[str] = []

    def init(*, mode: str, **_: Any) -> FailingRun:
        modes.append(mode)
        if mode == "online":
            raise wandb.errors.CommError("no route to host")
        return FailingRun()

    monkeypatch.setattr(wandb, "init", init)
    logger = SteadyWandbLogger(save_dir=tmp_path, mode="online")
    with pytest.warns(UserWarning, match="kept offline: no route to host"):
        assert isinstance(logger.experiment, FailingRun)
    assert modes == ["online", "offline"]
