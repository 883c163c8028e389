"""A configuration file names only classes of packages that are trusted, unless told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from lightning_sasv.cli import main
from lightning_sasv.commands.configs import check_configs
from lightning_sasv.commands.train import base_config
from lightning_sasv.errors import InputError

HOSTILE = """
trainer:
  callbacks:
    - class_path: {name}
      init_args: {{}}
"""


@pytest.fixture
def evil(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that leaves a mark when it is imported."""
    mark = tmp_path / "mark"
    text = f"open({str(mark)!r}, 'w')\nfrom pytorch_lightning import Callback\n"
    (tmp_path / "evil.py").write_text(text + "class Evil(Callback):\n    pass\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return mark


def test_foreign_class_is_refused_before_it_is_imported(
    evil: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("hostile.yaml").write_text(HOSTILE.format(name="evil.Evil"))
    with pytest.raises(SystemExit) as ended:
        main(["fit", "--config", "hostile.yaml", "--data.scale", "0.02"])
    assert ended.value.code == 2
    message = capsys.readouterr().err
    assert "hostile.yaml asks for the class evil.Evil" in message
    assert "--trust-config" in message
    assert not evil.exists()


@pytest.mark.parametrize("option", ["--config=outer.yaml", "--trainer=inner.yaml"])
def test_included_files_are_checked_too(evil: Path, option: str) -> None:
    Path("inner.yaml").write_text("callbacks:\n  - class_path: evil.Evil\n")
    Path("outer.yaml").write_text("trainer: inner.yaml\n")
    with pytest.raises(InputError, match=r"inner.yaml asks for the class evil\.Evil"):
        check_configs(["fit", option])


def test_trusted_on_demand(evil: Path) -> None:
    Path("mine.yaml").write_text(HOSTILE.format(name="evil.Evil"))
    args = ["fit", "--config", "mine.yaml", "--trust-config", "--data.scale=0.02"]
    assert check_configs(args) == ["fit", "--config", "mine.yaml", "--data.scale=0.02"]
    main([*args, "--trainer.fast_dev_run=true", "--config", str(base_config().parent / "B1.yaml")])
    assert evil.exists()


def test_our_own_configurations_are_trusted() -> None:
    for path in base_config().parent.rglob("*.yaml"):
        check_configs(["fit", "--config", str(path)])
