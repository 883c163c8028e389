"""What a file may have made: kinds at their places, with plain arguments; the rest needs trust."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
import torch
import wandb
from pytorch_lightning.cli import LightningCLI

from lightning_sasv.cli import main
from lightning_sasv.commands.train import base_config
from tests.hostile.conftest import Attack
from tests.hostile.corpus import MARK, STARTS, WRITES, checkpoints

pytestmark = pytest.mark.usefixtures("evil")

Capture = pytest.CaptureFixture[str]
SMALL = ("--data.scale=0.02", "--trainer.accelerator=cpu", "--trainer.fast_dev_run=true")
RUNS, WRITE = json.dumps(STARTS), json.dumps(WRITES)
LOADS = "{class_path: torch.load, init_args: {f: x.ckpt, weights_only: false}}"
DDP = "trainer: {strategy: {class_path: pytorch_lightning.strategies.DDPStrategy, init_args: {%s}}}"
LOGGER = "trainer: {logger: {class_path: pytorch_lightning.loggers.%s, init_args: {%s}}}"
CALLBACK = "trainer: {callbacks: [{class_path: pytorch_lightning.callbacks.%s, init_args: {%s}}]}"

LAMBDA = CALLBACK % ("LambdaCallback", "on_fit_start: %s")
PROFILER = "trainer: {profiler: {class_path: pytorch_lightning.profilers.%s, %s}}"

CONFIGS = {
    "tag": "data: {root: !!python/object/apply:os.system ['touch mark']}",
    "new tag": "data: {root: !!python/object/new:os.system ['touch mark']}",
    "module tag": "data: !!python/module:evil_module x",
    "class": "trainer: {callbacks: [{class_path: evil_module.Evil}]}",
    "class as text": "trainer: {callbacks: [evil_module.Evil]}",
    "class under a dotted key": "trainer.callbacks: [{class_path: evil_module.Evil}]",
    "class by alias": "x: &x evil_module.Evil\ntrainer: {callbacks: [{class_path: *x}]}",
    "class put together": "data: {name: Evil}\n"
    "trainer: {callbacks: [{class_path: 'evil_module.${data.name}'}]}",
    "function": LAMBDA % "evil_module.run",
    "function put together": "data: {name: evil_module}\n" + LAMBDA % "'${data.name}.run'",
    "function of another module": LAMBDA % "torch.os.abort",
    "subprocess": "trainer: {logger: {class_path: subprocess.Popen, init_args: {args: [touch, "
    "mark]}}}",
    "deep": "data: " + "[" * 5000 + "]" * 5000,
}


@pytest.mark.parametrize("suffix", [".yaml", ".txt", ""])
@pytest.mark.parametrize("name", CONFIGS)
def test_configurations_run_nothing(name: str, suffix: str, here: Path, attack: Attack) -> None:
    (here / f"x{suffix}").write_text(CONFIGS[name])
    said = attack("fit", "--config", f"x{suffix}", *SMALL)
    assert "tag" not in name or f"x{suffix}, line 1: not valid YAML" in said
    if name == "class":
        assert f"x{suffix} asks for evil_module.Evil" in said
        assert "--trust-config" in said


@pytest.mark.parametrize("option", ["--config=outer.yaml", "--trainer=inner.yaml"])
def test_included_files_are_checked_too(option: str, here: Path, attack: Attack) -> None:
    (here / "inner.yaml").write_text("callbacks:\n  - class_path: evil_module.Evil\n")
    (here / "outer.yaml").write_text("trainer: inner.yaml\n")
    assert "asks for evil_module.Evil" in attack("fit", option, *SMALL)


OBJECTS = {
    "fusion, A3": f"model: {{fusion: {{rho: {RUNS}}}}}",
    "fusion, a file": f"model: {{fusion: {{rho: {WRITE}}}}}",
    "object, A12": DDP % f"ddp_comm_state: {RUNS}",
    "object, a function, A7": DDP % f"ddp_comm_state: {LOADS}",
    "object, our function, A7": DDP % f"ddp_comm_state: {WRITE}",
    "a kind in the place of another": DDP
    % "ddp_comm_state: {class_path: pytorch_lightning.callbacks.Timer}",
    "a kind as a function": DDP % "ddp_comm_hook: pytorch_lightning.callbacks.ModelCheckpoint",
    "a method of a kind": CALLBACK
    % ("LambdaCallback", "setup: pytorch_lightning.callbacks.Timer.setup"),
    "our function": LAMBDA % "lightning_sasv.files.write_text",
    "mapping of any values": CALLBACK % ("RichProgressBar", f"console_kwargs: {{file: {WRITE}}}"),
    "list in a mapping": CALLBACK % ("RichProgressBar", f"console_kwargs: {{a: [{{b: {RUNS}}}]}}"),
    "arguments without names": CALLBACK
    % ("Timer", f"duration: null}}, dict_kwargs: {{interval: {RUNS}"),
    "accelerator": "trainer: {accelerator: {class_path: "
    "pytorch_lightning.accelerators.CPUAccelerator}}",
    "cluster": "trainer: {plugins: [{class_path: lightning_fabric.plugins.environments."
    "LightningEnvironment}]}",
    "checkpoint plugin, A8": "trainer: {plugins: [{class_path: "
    "lightning_fabric.plugins.TorchCheckpointIO}]}",
    "checkpoint plugin of Lightning": "trainer: {plugins: [{class_path: "
    "pytorch_lightning.plugins.io.AsyncCheckpointIO}]}",
    "module of torch": "trainer: {callbacks: [torch.nn.Linear]}",
    "our other classes": "trainer: {callbacks: [lightning_sasv.callbacks.NoteInterrupt]}",
    "model": "model: {class_path: pytorch_lightning.demos.boring_classes.BoringModel}",
    "data": "data: {class_path: pytorch_lightning.demos.boring_classes.BoringDataModule}",
    "saving of configurations": "trainer: {callbacks: [{class_path: "
    "pytorch_lightning.cli.SaveConfigCallback, init_args: {parser: null, config: null}}]}",
    "not what is written": "weights_only: false",
    "registry": "trainer: {model_registry: somebody/model}",
    "remote folder": "trainer: {default_root_dir: 'ftp://example.org/x'}",
    "type by interpolation": "data: {name: '${oc.coerce:evil_module.Evil,1}'}",
    "a strategy for another device": "trainer: {strategy: {class_path: "
    "pytorch_lightning.strategies.FSDPStrategy}}",
    "a strategy that asks more of a model": "trainer: {strategy: {class_path: "
    "pytorch_lightning.strategies.ModelParallelStrategy}}",
    "a strategy whose package is absent": "trainer: {strategy: {class_path: "
    "pytorch_lightning.strategies.DeepSpeedStrategy}}",
    "pruning by something else": CALLBACK % ("ModelPruning", "pruning_fn: os.system"),
    "a text for a function": PROFILER
    % ("PyTorchProfiler", "init_args: {}, dict_kwargs: {on_trace_ready: x}"),
    "a text for a stream": CALLBACK % ("RichProgressBar", "console_kwargs: {file: x}"),
    "a part that the model lacks": CALLBACK % ("BackboneFinetuning", ""),
    "a base class": CALLBACK % ("BaseFinetuning", ""),
    "no such device": CALLBACK % ("EMAWeightAveraging", "device: -1"),
    "no name of a folder": 'trainer: {default_root_dir: "a\\0b"}',
}


@pytest.mark.parametrize("name", OBJECTS)
def test_no_file_makes_other_objects(name: str, here: Path, configured: Attack) -> None:
    """Nor what Lightning refuses, or what fails as it is set up; that is told in a line too."""
    checkpoints()["system"](here / "x.ckpt")
    configured(OBJECTS[name], "fit", *SMALL)
    if torch.distributed.is_initialized():  # the strategy that asks more came as far as that
        torch.distributed.destroy_process_group()


SERVER = "http://127.0.0.1:9"
ADDRESSES = {
    "settings, B1": LOGGER
    % ("WandbLogger", f"project: x}}, dict_kwargs: {{settings: {{a: {SERVER}}}"),
    "settings": LOGGER % ("WandbLogger", f"settings: {{base_url: '{SERVER}'}}"),
    "any other argument": LOGGER % ("WandbLogger", "project: x}, dict_kwargs: {force: true"),
    "a local file as settings": LOGGER % ("WandbLogger", "config: /etc/hosts"),
    "tracking server": LOGGER % ("MLFlowLogger", f"tracking_uri: '{SERVER}'"),
    "place of artefacts": LOGGER % ("MLFlowLogger", "artifact_location: 'file:x'"),
    "key": LOGGER % ("CometLogger", "api_key: x"),
    "folder elsewhere": LOGGER % ("CSVLogger", "save_dir: 'ftp://example.org/x'"),
    "in a list": "trainer: {logger: [{class_path: pytorch_lightning.loggers.MLFlowLogger, "
    f"init_args: {{tracking_uri: '{SERVER}'}}}}]}}",
    "name of a checkpoint": CALLBACK % ("ModelCheckpoint", "filename: ../../x"),
    "name of a profile": "trainer: {profiler: {class_path: "
    "pytorch_lightning.profilers.SimpleProfiler, init_args: {filename: /tmp/x}}}",
    "folder of a log": LOGGER % ("TensorBoardLogger", "save_dir: runs, sub_dir: ../../../x"),
    "list of batches": CALLBACK % ("SpikeDetection", "exclude_batches_path: x.yaml"),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_no_file_chooses_a_server_or_any_file(name: str, configured: Attack) -> None:
    said = configured(ADDRESSES[name], "fit", *SMALL)
    assert "x.yaml" in said
    assert "--trust-config" in said


@pytest.mark.parametrize("line", [f"base_url = {SERVER}", "http_proxy = 127.0.0.1:9"])
def test_no_folder_chooses_the_server(line: str, here: Path, attack: Attack) -> None:
    (here / "wandb").mkdir()
    (here / "wandb" / "settings").write_text(f"[default]\nentity = me\n{line}\n")
    assert "wandb/settings sets" in attack("fit", "--trainer.logger=WandbLogger", *SMALL)
    ours = "--trainer.logger=lightning_sasv.loggers.wandb_logger"
    assert "wandb/settings sets" in attack("fit", ours, *SMALL)


def test_no_folder_chooses_the_server_of_comet(here: Path, attack: Attack) -> None:
    (here / ".comet.config").write_text(f"[comet]\nurl_override = {SERVER}\n")
    assert ".comet.config" in attack("fit", "--trainer.logger=CometLogger", *SMALL)


OTHERS = {
    "download": (["download", "sasv2022-scores"], f"mirror: '{SERVER}'\nout: out\n"),
    "evaluate": (["evaluate"], f"files: ['{SERVER}/x.csv']\n"),
    "table": (["table", "--seeds=1", "--systems=B1"], f"data: {{root: '{SERVER}'}}\nout: out\n"),
}


@pytest.mark.parametrize("command", OTHERS)
def test_no_file_sends_another_command_to_a_server(command: str, configured: Attack) -> None:
    words, text = OTHERS[command]
    assert "leads to another machine" in configured(text, *words)


def test_no_file_has_a_speaker_forgotten(here: Path, configured: Attack) -> None:
    (here / "speakers").mkdir()
    (here / "speakers" / "anna.safetensors").touch()
    text = "forget: anna\nspeakers: speakers\n"
    assert "give --forget on the command line" in configured(text, "enrol")
    main(["enrol", "--forget=anna", "--speakers=speakers"])
    assert not (here / "speakers" / "anna.safetensors").exists()


def test_no_value_is_taken_from_another_file(here: Path, configured: Attack) -> None:
    (here / "secret").write_text("s3cret\n")
    text = f"model: {{systems: '{here / 'secret'}'}}\n"
    assert "s3cret" not in configured(text, "fit", *SMALL)


SECRETS = {
    "B2": "data: {name: '${oc.env:THE_SECRET}'}",
    "with a default": "data: {name: '${oc.env:THE_SECRET,x}'}",
    "decoded": "data: {name: '${oc.decode:${oc.env:THE_SECRET}}'}",
    "put together": "seed_everything: 1\ndata: {name: '${oc.env:THE_${data.protocols}}', "
    "protocols: SECRET}",
    "key": "data: {name: '${oc.env:WANDB_API_KEY}'}",
    "server": "data: {name: '${oc.env:WANDB_BASE_URL}'}",
}


FIT = ("fit", *SMALL)
TABLE = ("table", "--out=out", "--seeds=1", "--systems=B1", SMALL[0])


@pytest.mark.parametrize("name", SECRETS)
def test_no_file_reads_a_secret(
    name: str, configured: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("THE_SECRET", "WANDB_API_KEY", "WANDB_BASE_URL"):
        monkeypatch.setenv(variable, "s3cret")
    for words in (FIT, TABLE):
        said = configured(SECRETS[name], *words)
        assert "of the environment" in said or words == TABLE  # it takes fewer settings
        assert "s3cret" not in said


@pytest.mark.parametrize("text", ["${nope:1}", "${data.name}", "${data.x}", "${", "${oc.env:}"])
def test_references_that_lead_nowhere(text: str, configured: Attack) -> None:
    for words in (FIT, TABLE):
        configured(f"data: {{name: '{text}'}}\n", *words)


def test_variables_of_the_list_and_of_the_user_are_read(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_RUN_GROUP", "mine")
    monkeypatch.setenv("THE_SECRET", "also")
    (here / "x.yaml").write_text("data: {name: '${oc.env:WANDB_RUN_GROUP}'}\n")
    main([*FIT, "--config", "x.yaml", "--trainer.logger.name=${oc.env:THE_SECRET}"])


NETWORK = "{class_path: %s, init_args: {%s}}"
EXTRACT = ("extract", "--audio=.", "--out=out", "--only=cm")
NETWORKS = {
    "A4": NETWORK % ("torch.os.system", f"command: touch {MARK}"),
    "A5": NETWORK % ("subprocess.Popen", f"args: [touch, {MARK}]"),
    "a module": NETWORK % ("evil_module.Evil", ""),
    "ours": NETWORK % ("lightning_sasv.files.write_text", f"path: {MARK}, text: x"),
    "beyond ours": NETWORK % ("lightning_sasv.frontends.AASIST.from_checkpoint.x", ""),
    "inside ours": NETWORK
    % ("lightning_sasv.frontends.AASIST", f"sizes: {{class_path: subprocess.Popen, a: {MARK}}}"),
}


@pytest.fixture
def recording(here: Path) -> None:
    (here / "a.wav").write_bytes(b"RIFF")


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("name", NETWORKS)
def test_no_file_makes_other_networks(
    name: str, here: Path, attack: Attack, configured: Attack
) -> None:
    assert "--trust-config" in configured(f"cm: {NETWORKS[name]}\n", *EXTRACT)
    (here / "x.yaml").write_text(NETWORKS[name])
    attack(*EXTRACT, "--cm=x.yaml")


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize("option", ["--conf", "--con"])
def test_options_are_not_abbreviated(option: str, here: Path, attack: Attack) -> None:
    (here / "x.yaml").write_text(f"cm: {NETWORKS['A5']}\n")
    for words in (EXTRACT, FIT):
        attack(*words, option, "x.yaml")


@pytest.mark.usefixtures("recording")
@pytest.mark.parametrize(
    ("words", "text"), [(FIT, CONFIGS["class"]), (EXTRACT, f"cm: {NETWORKS['a module']}")]
)
def test_pipes_pass_the_same_gate(words: tuple[str, ...], text: str, attack: Attack) -> None:
    """A6."""
    end, start = os.pipe()
    os.write(start, text.encode())
    os.close(start)
    assert "evil_module.Evil" in attack(*words, "--config", f"/dev/fd/{end}")
    os.close(end)


@pytest.mark.usefixtures("recording")
def test_a_message_holds_no_control_characters(configured: Attack) -> None:
    network = NETWORK % ('"evil\\e]0;title\\a.Evil"', "")
    callback = 'trainer: {callbacks: ["evil\\e[2J.Evil"]}\n'
    for said in (configured(f"cm: {network}", *EXTRACT), configured(callback, *FIT)):
        assert "evil" in said
        assert said.rstrip("\n").isprintable()


TYPED = "--trainer.callbacks=evil_module.Evil"


def test_names_on_the_command_line_are_the_users_choice(here: Path) -> None:
    main(["fit", TYPED, *SMALL])
    assert Path(MARK).exists()


@pytest.mark.parametrize("name", ["evil_module.Other", "evil_module.Evil.setup"])
def test_a_typed_name_admits_that_name_alone(name: str, here: Path, capfd: Capture) -> None:
    (here / "x.yaml").write_text(f"trainer: {{callbacks: [{name}]}}\n")
    with pytest.raises(SystemExit):
        main(["fit", "--config", "x.yaml", "--trainer.callbacks+=evil_module.Evil", *SMALL])
    assert name in capfd.readouterr().err


def test_trust_admits_everything(here: Path) -> None:
    (here / "x.yaml").write_text(
        "trainer: {callbacks: [{class_path: evil_module.Evil}]}\n"
        "data: {name: '${oc.env:HOME}${oc.coerce:str,x}'}\n"
    )
    main(["fit", "--config", "x.yaml", "--trust-config", *SMALL])
    assert Path(MARK).exists()


LARGE = """
trainer:
  max_epochs: 1
  profiler: {class_path: pytorch_lightning.profilers.SimpleProfiler}
  strategy: {class_path: pytorch_lightning.strategies.SingleDeviceStrategy}
  plugins:
    - {class_path: lightning_sasv.checkpoints.AtomicCheckpointIO}
    - {class_path: pytorch_lightning.plugins.precision.Precision}
  callbacks:
    - {class_path: lightning_sasv.callbacks.FitFusion}
    - {class_path: lightning_sasv.callbacks.WriteResults}
    - {class_path: lightning_sasv.callbacks.SaveLast}
    - {class_path: EarlyStopping, init_args: {monitor: val/cm_eer}}
    - {class_path: pytorch_lightning.callbacks.RichProgressBar, init_args: {theme: {metrics: dim}}}
    - pytorch_lightning.callbacks.ModelSummary
    - {class_path: pytorch_lightning.callbacks.Timer, init_args: {duration: '00:01:00:00'}}
    - {class_path: pytorch_lightning.callbacks.OnExceptionCheckpoint, init_args: {dirpath: runs/e}}
  logger:
    - {class_path: pytorch_lightning.loggers.CSVLogger, init_args: {save_dir: runs, name: x}}
    - class_path: pytorch_lightning.loggers.WandbLogger
      init_args: {save_dir: runs, offline: true, project: x, tags: [a, b]}
"""


def test_a_runs_own_configuration_passes(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And W&B runs no git in a folder, whose .git/config could name programs."""
    wandb.teardown()  # it keeps the environment of the first run in a process
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    (here / "git").write_text(f"#!/bin/sh\ntouch {here / 'git_ran'}\n")
    (here / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{here}{os.pathsep}{os.environ['PATH']}")
    (here / "x.yaml").write_text(LARGE)
    main(["fit", "--config", "x.yaml", *SMALL[:2]])
    again = here / "runs" / "x" / "version_0" / "config.yaml"
    assert "${" not in again.read_text()
    main(["fit", "--config", str(again)])
    assert (here / "runs" / "x" / "version_1" / "metrics.json").exists()
    assert not (here / "git_ran").exists()
    assert "WANDB_DISABLE_GIT" not in os.environ


class AdmittedError(Exception):
    """The configuration was admitted."""


@pytest.mark.parametrize("part", ["", "data", "logger", "model", "trainer"])
def test_our_own_configurations_pass(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(cli: LightningCLI) -> None:
        raise AdmittedError

    monkeypatch.setattr(LightningCLI, "instantiate_classes", stop)
    files = sorted((base_config().parent / part).glob("*.yaml"))
    assert files
    with pytest.raises(AdmittedError):
        main(["fit", *(f"--config={path}" for path in files)])
