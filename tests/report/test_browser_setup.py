"""The browser is installed once, however many test processes ask for it at the same time."""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.packages import installed
from tests.report.conftest import installed_browser

APT_GET = """#!/bin/sh
mkdir "{folder}/dpkg.lock" || {{ echo "could not get lock" >&2; exit 100; }}
echo "$2" >> "{folder}/calls"
/bin/sleep 0.1
if [ "$2" = install ]; then
  for name in chromium chromedriver; do
    echo '#!/bin/sh' > "{folder}/$name"
    /bin/chmod +x "{folder}/$name"
  done
fi
rmdir "{folder}/dpkg.lock"
"""


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A path without browser, whose apt-get bears no second one beside it, like the real one."""
    apt_get = tmp_path / "apt-get"
    apt_get.write_text(APT_GET.format(folder=tmp_path))
    apt_get.chmod(0o755)
    for name in ("mkdir", "rmdir"):
        (tmp_path / name).symlink_to(f"/bin/{name}")
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "locks").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "locks"))
    return tmp_path


def test_only_one_process_installs(machine: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda _: installed_browser(), range(4)))
    assert found == [(str(machine / "chromium"), str(machine / "chromedriver"))] * 4
    assert (machine / "calls").read_text().split() == ["update", "install"]


def test_what_hinders_the_installation_is_said(machine: Path) -> None:
    (machine / "dpkg.lock").mkdir()
    assert installed_browser() == "apt-get install failed: could not get lock"
    (machine / "apt-get").unlink()
    assert installed_browser() == "no chromium and no apt-get to install it with"


def test_lists_that_cannot_be_renewed_may_do(machine: Path) -> None:
    script = (machine / "apt-get").read_text()
    (machine / "apt-get").write_text(script.replace("mkdir", '[ "$2" = install ] && mkdir', 1))
    assert installed_browser() == (str(machine / "chromium"), str(machine / "chromedriver"))


def test_an_installation_that_does_not_end_is_not_waited_for(machine: Path) -> None:
    (machine / "apt-get").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    said = installed(("chromium",), lambda: None, seconds=0.2)
    assert said == "apt-get update does not end in time"
