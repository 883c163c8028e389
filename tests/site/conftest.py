"""The docs site, built once as `make docs` does it, and the tools that it is made with."""

from __future__ import annotations

import functools
import os
import runpy
import shlex
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.report.conftest import browser, chromium, driver

__all__ = ["browser", "chromium", "driver"]

BUILT = ("build", "site", ".cache")


@pytest.fixture(scope="session")
def tools(repository: Path) -> Iterator[Any]:
    """The modules of docs/: scripts, which import each other by their bare names."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(repository / "docs")
        import equations
        import generate
        import links

        yield type("Tools", (), {"equations": equations, "generate": generate, "links": links})
    for name in ("equations", "generate", "links", "tables"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="session")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, by the commands of `make docs` in a folder that sees the checkout."""
    folder = tmp_path_factory.mktemp("docs")
    for path in repository.iterdir():
        if path.name not in BUILT:
            (folder / path.name).symlink_to(path)
    (folder / "mkdocs.yml").unlink()  # the builder would follow it
    shutil.copyfile(repository / "mkdocs.yml", folder / "mkdocs.yml")
    dry = ["make", "--dry-run", "--no-print-directory", "docs", f"PYTHON={sys.executable}"]
    told = subprocess.run(dry, cwd=repository, capture_output=True, text=True, check=True).stdout
    steps = [line for line in told.splitlines() if "docs/" in line or "zensical" in line]
    assert len(steps) == 4, told
    for step in steps:
        program, *words = shlex.split(step)
        if words[0].endswith("render.py"):
            write_unrun(repository / "docs/tutorials", folder / words[1])
        else:
            run([str(Path(sys.executable).with_name(Path(program).name)), *words], folder)
    return folder / "site"


def write_unrun(tutorials: Path, folder: Path) -> None:
    """The pages of the tutorials without what they print and draw: other tests run them."""
    render = runpy.run_path(str(tutorials / "render.py"))
    for path in tutorials.glob("[0-9]*.py"):
        parts = render["cells"](path.read_text("utf-8"))
        text = [one.content if one.is_text else f"```python\n{one.content}\n```" for one in parts]
        (folder / f"{path.stem}.md").write_text("\n\n".join(text), "utf-8")


def run(command: list[str], folder: Path, code: int = 0) -> str:
    """What a command says; its exit code must be the one expected."""
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=os.environ | {"NO_COLOR": "1"}
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


class _Silent(SimpleHTTPRequestHandler):
    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="session")
def address(site: Path) -> Iterator[str]:
    """The site on a server of its own."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Silent, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
