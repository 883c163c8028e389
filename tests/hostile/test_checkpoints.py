"""Checkpoints, run folders, fitted files and bundles are data: nothing in them is run or followed.

The checkpoints are those that version 0.1 wrote, with one thing changed.
"""

from __future__ import annotations

import copy
import io
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from pytorch_lightning import Trainer
from pytorch_lightning.callbacks import EarlyStopping

from lightning_sasv.checkpoints import AtomicCheckpointIO, read_checkpoint
from lightning_sasv.cli import main
from lightning_sasv.data import Corpus, SASVDataModule, make_twin
from lightning_sasv.deploy.bundle import load
from lightning_sasv.errors import InputError
from lightning_sasv.fitted import HEADER, read_fitted
from lightning_sasv.models import SASVModule
from lightning_sasv.models.restoring import restoring
from lightning_sasv.places import LOCK
from lightning_sasv.program import Program, using
from lightning_sasv.tensor_files import read_tensor_file
from tests.helpers import quiet_trainer, shared_data
from tests.hostile.conftest import Attack
from tests.hostile.corpus import (
    MARK,
    STARTS,
    WRITES,
    altered_bundle,
    changed,
    checkpoints,
    safetensors,
)

OLD = Path(__file__).parents[1] / "checkpoints_of_0_1"
TINY = ("--data.scale=0.01", "--trainer.accelerator=cpu")


def altered(path: Path, name: str = "best", **settings: Any) -> Path:
    """A good checkpoint with other settings."""
    content = torch.load(OLD / f"{name}.ckpt", weights_only=True)
    content["hyper_parameters"] |= settings
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(content, path)
    return path


SETTINGS: dict[str, dict[str, Any]] = {
    "a class as a value": {"fusion": {"rho": STARTS}},
    "a function as a value": {"fusion": {"rho": WRITES}},
    "a class in a list": {"systems": ["B1", STARTS]},
    "a class in place of the settings": {"fusion": STARTS},
    "a class path alone": {"class_path": "os.system"},
    "Lightning's own word": {"_class_path": "lightning_sasv.files.write_text"},
    "an instantiator": {"_instantiator": "os.system"},
    "arguments": {"dict_kwargs": {"a": 1}},
    "a variable": {"fusion": {"rho": "${oc.env:SECRET}"}},
    "a variable in a list": {"systems": ["${oc.env:SECRET}"]},
    "a resolver": {"fusion": {"rule": "x${oc.decode:1}"}},
    "no such setting": {"logger": "x"},
    "a text for a number": {"lr": "1e-3"},
    "a truth value for a number": {"in_dim": True},
    "a number for a list": {"hidden_dims": 8},
    "numbers in a mapping": {"fusion": {"costs": {"c_miss": "x"}}},
    "an unknown fusion setting": {"fusion": {"copies": 10**9}},
    "wide": {"hidden_dims": [3_000_000, 3_000_000]},
    "deep": {"hidden_dims": [1] * 10_000},
    "a wide input": {"in_dim": 2**40},
    "seeds": {"seeds": list(range(10_000))},
    "systems": {"systems": ["B1"] * 10_000},
    "components": {"fusion": {"density": "mixture", "components": 10**9}},
    "not a number": {"lr": float("nan")},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_are_plain_values_of_the_right_size(name: str, here: Path) -> None:
    altered(here / "x.ckpt", **SETTINGS[name])
    with pytest.raises(InputError):
        SASVModule.load_from_checkpoint(here / "x.ckpt")
    assert not Path(MARK).exists()


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("fit", "a class as a value"),
        ("validate", "a class in a list"),
        ("test", "a variable"),
        ("test", "wide"),
        ("predict", "a function as a value"),
    ],
)
def test_no_command_makes_anything_of_settings(
    command: str, name: str, here: Path, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hidden-word")
    altered(here / "x.ckpt", **SETTINGS[name])
    said = attack(command, "--ckpt_path=x.ckpt", *TINY)
    assert "x.ckpt is refused" in said
    assert "hidden-word" not in said


def test_settings_of_the_data_module_are_plain_values(here: Path) -> None:
    assert SASVDataModule.load_from_checkpoint(OLD / "best.ckpt").scale == 0.01
    content = torch.load(OLD / "best.ckpt", weights_only=True)
    for bad in (WRITES, "${oc.env:HOME}", 3):
        content["datamodule_hyper_parameters"]["root"] = bad
        torch.save(content, here / "x.ckpt")
        with pytest.raises(InputError):
            SASVDataModule.load_from_checkpoint(here / "x.ckpt")
    assert not Path(MARK).exists()


def packed(path: Path) -> None:
    """A checkpoint whose tensors are deflated: 100 MB in a few kilobytes."""
    content = io.BytesIO()
    torch.save({"state_dict": {"x": torch.ones(1)}}, content)
    with zipfile.ZipFile(content) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        for record in old.infolist():
            size = 100 * 2**20 if record.filename.endswith("data/0") else 0
            new.writestr(record.filename, bytes(size) or old.read(record))


def overlapping(path: Path) -> None:
    """A directory in which one record stands a thousand times."""
    torch.save({"state_dict": {"x": torch.ones(10_000)}}, path)
    with zipfile.ZipFile(path, "a") as archive:
        record = next(r for r in archive.filelist if r.filename.endswith("data/0"))
        for number in range(1000):
            copy = zipfile.ZipInfo(f"archive/data/{number + 1}")
            for part in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(copy, part, getattr(record, part))
            archive.filelist.append(copy)
        archive._didModify = True  # type: ignore[attr-defined]


def two_pickles(path: Path) -> None:
    torch.save({"state_dict": {"x": torch.ones(1)}}, path)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("archive/DATA.PKL", b"\x80\x02cos\nsystem\nX\x04\0\0\0true\x85R.")


def laughing() -> list[Any]:
    inner: list[Any] = ["ha"] * 10
    for _ in range(20):
        inner = [inner] * 10
    return inner


def endless() -> list[Any]:
    inside: list[Any] = []
    inside.append(inside)
    return inside


def with_state(**more: Any) -> Callable[[Path], object]:
    return lambda path: torch.save({"state_dict": {"x": torch.ones(1)}, **more}, path)


BOMBS: dict[str, Callable[[Path], object]] = {
    "deflated": packed,
    "overlapping": overlapping,
    "two pickles": two_pickles,
    "a tensor of one number spread out": with_state(y=torch.ones(1).expand(2**20, 2**20)),
    "one memory for many": with_state(y=[torch.ones(2**18)] * 1000),
    "sparse": with_state(y=torch.eye(2).to_sparse()),
    "meta": with_state(y=torch.ones(2**20, 2**20, device="meta")),
    "bytes": with_state(y=bytearray(b"x")),
    "lists of lists": with_state(y=laughing()),
    "a list of itself": with_state(y=endless()),
    "a long number": with_state(y=10**5000),
    "a type": with_state(y=torch.float32),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs(name: str, here: Path) -> None:
    BOMBS[name](here / "x.ckpt")
    with pytest.raises(InputError, match=r"x\.ckpt is (refused|damaged)"):
        read_checkpoint(here / "x.ckpt")


def test_a_bomb_given_to_a_command(here: Path, attack: Attack) -> None:
    packed(here / "x.ckpt")
    assert "would unpack to 104,85" in attack("test", "--ckpt_path=x.ckpt", *TINY)


def test_limits_can_be_raised(tmp_path: Path) -> None:
    torch.save(list(range(300_000)), tmp_path / "x.pt")
    with pytest.raises(InputError, match="--limits"):
        read_tensor_file(tmp_path / "x.pt")
    with using(Program(limits=2)):
        assert read_tensor_file(tmp_path / "x.pt") == list(range(300_000))


BASE = "model: {systems: [B1]}\nckpt_path: last\n"
READERS = {
    "as it is": BASE,
    "no plugin": BASE + "trainer: {plugins: []}\n",
    "nothing": BASE + "trainer: {plugins: null}\n",
    "weights": BASE + "weights_only: false\ntrainer: {plugins: []}\n",
    "Lightning's": BASE + "trainer: {plugins: [{class_path: "
    "pytorch_lightning.plugins.TorchCheckpointIO}]}\n",
    "another thread": BASE + "trainer: {plugins: [{class_path: "
    "pytorch_lightning.plugins.io.AsyncCheckpointIO}]}\n",
}


@pytest.mark.parametrize("name", READERS)
def test_whatever_a_configuration_says_checkpoints_are_data(
    name: str, here: Path, configured: Attack
) -> None:
    """In a run folder that somebody sent."""
    folder = here / "runs" / "B1" / "version_0" / "checkpoints"
    folder.mkdir(parents=True)
    checkpoints()["system"](folder / "last.ckpt")
    said = configured(READERS[name], "fit", *TINY)
    assert name != "as it is" or "last.ckpt is refused: it asks for" in said


def test_what_a_scheduler_left_is_data(here: Path, attack: Attack) -> None:
    """Lightning would find hpc_ckpt_N.ckpt by itself."""
    checkpoints()["system"](here / "hpc_ckpt_1.ckpt")
    said = attack("fit", "--ckpt_path=hpc_ckpt_1.ckpt", "--trainer.plugins=[]", *TINY)
    assert "hpc_ckpt_1.ckpt is refused: it asks for" in said
    said = attack("fit", "--ckpt_path=hpc", "--trainer.plugins=[]", *TINY)
    assert "give the file itself" in said


@pytest.mark.parametrize(
    "address",
    ["file://{}", "local://{}", "filecache::file://{}", "http://127.0.0.1:1/x", "registry:x"],
)
def test_addresses_need_trust(address: str, here: Path, configured: Attack) -> None:
    checkpoints()["system"](here / "x.ckpt")
    path = address.format(here / "x.ckpt")
    text = f"ckpt_path: '{path}'\nweights_only: null\ntrainer: {{plugins: []}}\n"
    assert "--trust-config" in configured(text, "test", *TINY)


def test_a_good_checkpoint_is_read_without_our_plugin(here: Path) -> None:
    shutil.copy(OLD / "best.ckpt", here / "x.ckpt")
    main(["test", "--ckpt_path=x.ckpt", "--trainer.plugins=[]", *TINY])
    assert list(here.rglob("metrics.json"))


def test_a_module_is_loaded_with_settings_of_a_file(tmp_path: Path) -> None:
    module = SASVModule.load_from_checkpoint(OLD / "best.ckpt")
    assert module.head.hidden_dims == (8, 4)
    (tmp_path / "h.yaml").write_text("hidden_dims: [8, 4]\nsystems: [L3c, B1]\nlr: 0.5\n")
    again = SASVModule.load_from_checkpoint(OLD / "best.ckpt", hparams_file=tmp_path / "h.yaml")
    assert (again.lr, again.seeds) == (0.5, module.seeds)
    for name, value in module.state_dict().items():
        assert torch.equal(value, again.state_dict()[name])
    (tmp_path / "h.yaml").write_text("fusion: !!python/object/apply:os.system ['touch mark']\n")
    with pytest.raises(InputError, match=r"h\.yaml"):
        SASVModule.load_from_checkpoint(OLD / "best.ckpt", hparams_file=tmp_path / "h.yaml")


@pytest.fixture(scope="module")
def tiny() -> Corpus:
    return make_twin(0.01)


def go_on(tiny: Corpus, folder: Path, path: Path | None, epochs: int = 2) -> Trainer:
    """Go on with a training as ``fit`` and ``table`` do."""
    early = EarlyStopping("val/cm_eer", patience=9)
    trainer = quiet_trainer(folder, epochs, callbacks=[early], plugins=[AtomicCheckpointIO()])
    with restoring():
        module = SASVModule(hidden_dims=(4,), systems=("L3c",))
        trainer.fit(module, datamodule=shared_data(tiny), ckpt_path=path)
    return trainer


@pytest.fixture(scope="module")
def state(tiny: Corpus, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A good checkpoint of one epoch."""
    trainer = go_on(tiny, tmp_path_factory.mktemp("good"), None, 1)
    return torch.load(Path(trainer.log_dir or "") / "checkpoints/last.ckpt", weights_only=True)


PROGRESS = ("loops", "fit_loop", "epoch_progress", "current")
SAVED = (
    "callbacks",
    "SaveLast{'monitor': None, 'mode': 'min', 'every_n_train_steps': 0, "
    "'every_n_epochs': 1, 'train_time_interval': None}",
)
EARLY = ("callbacks", "EarlyStopping{'monitor': 'val/cm_eer', 'mode': 'min'}")
ADAM = ("optimizer_states", 0)
STATES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "no version": (("pytorch-lightning_version",), "x"),
    "a version of another kind": (("pytorch-lightning_version",), 3),
    "loops": (("loops",), [1]),
    "a loop": (("loops", "fit_loop"), "x"),
    "an unknown loop": (("loops", "callbacks"), {}),
    "an epoch of text": ((*PROGRESS, "ready"), "x"),
    "a huge epoch": ((*PROGRESS, "ready"), 10**18),
    "an epoch below zero": ((*PROGRESS, "completed"), -1),
    "a method": ((*PROGRESS, "increment_ready"), 1),
    "no total": (("loops", "fit_loop", "epoch_loop.batch_progress"), {}),
    "steps": (("loops", "fit_loop", "epoch_loop.state_dict", "_batches_that_stepped"), "x"),
    "callbacks": (("callbacks",), ["x"]),
    "a callback": ((*SAVED[:1], "KeepBest"), 3),
    "a rate": (("callbacks", "KeepBest", "rate"), torch.ones(5)),
    "a head": (("callbacks", "KeepBest", "head", "weight_0"), torch.ones(5)),
    "a fused part": (("callbacks", "KeepBest", "fusion", "L3c.rho"), "x"),
    "an unknown part": (("callbacks", "KeepBest", "fusion", "x"), torch.ones(5)),
    "patience": ((*EARLY, "wait_count"), "x"),
    "a score": ((*EARLY, "best_score"), [1]),
    "a path": ((*SAVED, "best_model_path"), 3),
    "no optimiser": (("optimizer_states",), "x"),
    "no moments": ((*ADAM, "state", 0), {"step": torch.tensor(1.0)}),
    "a moment": ((*ADAM, "state", 0, "exp_avg"), torch.ones(2)),
    "a moment of text": ((*ADAM, "state", 0, "exp_avg"), "x"),
    "a step": ((*ADAM, "state", 0, "step"), torch.tensor(float("nan"))),
    "a rate of text": ((*ADAM, "param_groups", 0, "lr"), "x"),
    "a rate of infinity": ((*ADAM, "param_groups", 0, "lr"), float("inf")),
    "a switch": ((*ADAM, "param_groups", 0, "maximize"), True),
    "seeds": (("seeds",), list(range(1000))),
    "no seeds": (("seeds",), 3),
}


@pytest.mark.parametrize("name", STATES)
def test_a_training_goes_on_from_sound_states_alone(
    name: str, state: dict[str, Any], tiny: Corpus, tmp_path: Path
) -> None:
    torch.save(changed(state, *STATES[name]), tmp_path / "x.ckpt")
    with pytest.raises(InputError, match="does not fit this run"):
        go_on(tiny, tmp_path, tmp_path / "x.ckpt")


def test_paths_in_a_checkpoint_are_not_followed(
    state: dict[str, Any], tiny: Corpus, tmp_path: Path
) -> None:
    """A callback removes what it takes for its own last file, at any address."""
    victim = tmp_path / "victim.ckpt"
    victim.write_text("x")
    bad = copy.deepcopy(state)
    saved = bad["callbacks"][SAVED[1]]
    saved["best_model_path"] = saved["last_model_path"] = f"local://{victim}"
    saved["best_k_models"] = {str(victim): torch.tensor(0.0)}
    torch.save(bad, tmp_path / "x.ckpt")
    trainer = go_on(tiny, tmp_path, tmp_path / "x.ckpt")
    assert victim.read_text() == "x"
    assert trainer.checkpoint_callback is not None
    assert str(victim) not in str(trainer.checkpoint_callback.state_dict())
    with pytest.raises(InputError, match="--trust-config"):
        AtomicCheckpointIO().remove_checkpoint(f"local://{victim}")


def test_a_command_says_so_in_a_line(here: Path, attack: Attack) -> None:
    content = torch.load(OLD / "last.ckpt", weights_only=True)
    torch.save(changed(content, *STATES["an epoch of text"]), here / "x.ckpt")
    said = attack("fit", "--config", str(OLD / "config.yaml"), "--ckpt_path=x.ckpt")
    assert "does not fit this run: its fit_loop" in said


def test_a_hostile_checkpoint_in_the_folder_of_a_table(here: Path, attack: Attack) -> None:
    words = ["table", "--seeds=1", "--systems=B1", "--epochs=1", "--replicates=0", "--processes=1"]
    words += ["--data.scale=0.01", "--out=out"]
    main(words)
    last = next(here.rglob("last.ckpt"))
    shutil.rmtree(here / "out" / "seed1")
    checkpoints()["system"](last)
    assert "last.ckpt is refused: it asks for" in attack(*words)


LINKS = {
    "a configuration": "config.yaml",
    "settings": "hparams.yaml",
    "numbers": "metrics.csv",
    "scores": "scores",
    "a score file": "scores/eval.csv",
    "checkpoints": "checkpoints/best.ckpt",
    "to nothing": "config.yaml",
    "to nothing in a folder": "scores/eval.csv",
}


GO_ON = ("fit", "--config", str(OLD / "config.yaml"), "--ckpt_path=last")


def received(run: Path) -> Path:
    """A run that somebody sent."""
    (run / "checkpoints").mkdir(parents=True)
    shutil.copy(OLD / "last.ckpt", run / "checkpoints")
    return run


@pytest.mark.parametrize("name", LINKS)
def test_nothing_is_written_through_links(name: str, here: Path, attack: Attack) -> None:
    """Its parts lead elsewhere (``attack`` compares every file)."""
    run = received(here / "runs" / "L3c" / "version_0")
    link = run / LINKS[name]
    target = here / "elsewhere" / link.name
    target.mkdir(parents=True) if name == "scores" else target.parent.mkdir()
    if name != "scores" and "nothing" not in name:
        target.write_text("mine")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(target)
    said = attack(*GO_ON, "--trainer.max_epochs=3")
    assert f"{link.name} is a link that leads out of " in said
    assert "runs/L3c/version_0; put the file itself there" in said


def test_nothing_is_written_through_hard_links(here: Path, attack: Attack) -> None:
    """Other names of the same file: Lightning would write to it in place."""
    run = received(here / "runs" / "L3c" / "version_0")
    names = ("config.yaml", "hparams.yaml", "metrics.csv", "scores/eval.csv", "metrics.json")
    (run / "scores").mkdir()
    for name in names:
        other = here / Path(name).name
        other.write_text("{}\n")
        (run / name).hardlink_to(other)
    main([*GO_ON, "--trainer.max_epochs=3"])
    assert [(here / Path(name).name).read_text() for name in names] == ["{}\n"] * len(names)
    assert not any((run / name).read_text() == "{}\n" for name in names)


FUSE = ("fuse", "--dev=x.csv", "--eval=x.csv", "--systems=B1", "--out=out")


def test_a_lock_that_is_a_link_is_refused(scored: Path, attack: Attack) -> None:
    (scored / "out").mkdir()
    (scored / "out" / LOCK).symlink_to(scored / "nothing")
    assert f"{LOCK} is a link" in attack(*FUSE)


def test_a_run_that_is_a_link_is_not_taken_up(here: Path, attack: Attack) -> None:
    (here / "runs" / "L3c").mkdir(parents=True)
    (here / "runs" / "L3c" / "version_7").symlink_to(received(here / "elsewhere"))
    assert "version_7 is a link that leads out of runs/L3c" in attack(*GO_ON)


@pytest.mark.parametrize("part", ["scores/eval.csv", "fitted/B1.safetensors", "metrics.json"])
def test_nothing_is_read_or_written_through_links_of_results(
    part: str, scored: Path, attack: Attack
) -> None:
    main(FUSE)
    moved = (scored / "out" / part).rename(scored / "moved")
    (scored / "out" / part).symlink_to(moved)
    for words in (
        ("report", "out"),
        ("decide", "x.csv", "--fitted=out", "--out=out/d.csv"),
        ("export", "--fitted=out", "--system=B1", "--out=bundle"),
        FUSE,
    ):
        assert "is a link that leads out of" in attack(*words)


def test_links_inside_a_folder_stay(scored: Path) -> None:
    main(FUSE)
    (scored / "out" / "scores" / "eval.csv").unlink()
    (scored / "out" / "scores" / "eval.csv").symlink_to("dev.csv")
    (scored / "linked").symlink_to("out")
    main(["report", "linked"])


def test_a_bundle_holds_its_own_files(here: Path) -> None:
    bundle = altered_bundle(here / "bundle", ["name"], "L3")
    moved = (bundle / "fusion.safetensors").rename(here / "moved")
    (bundle / "fusion.safetensors").symlink_to(moved)
    with pytest.raises(InputError, match="leads out of"):
        load(bundle)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("costs", "c_miss"), 10**400),
        (("decision", "threshold"), 10**400),
        (("bounds", "asv_llr"), "x"),
        (("decision",), [[[[]]]]),
    ],
)
def test_absurd_numbers_in_a_bundle(place: tuple[str, ...], value: Any, here: Path) -> None:
    with pytest.raises(InputError, match=r"bundle|costs|bounds"):
        load(altered_bundle(here / "bundle", place, value))


def test_a_fitted_system_with_a_deep_header(here: Path) -> None:
    """As deep as JSON is followed by nobody: a line, no RecursionError."""
    header = {"__metadata__": {HEADER: "[" * 100_000}}
    (here / "x.safetensors").write_bytes(safetensors(header))
    with pytest.raises(InputError, match=r"x\.safetensors"):
        read_fitted(here / "x.safetensors")
