"""How large the house is, and how much of it a command walks through.

Prints files and lines of code of the package (neither blank, comment nor docstring) and lines of
text of the tests; then, for ``fit`` (one system, one epoch, a twin of scale 0.02), ``table`` (the
same with two seeds in one process) and ``evaluate`` (a file of simulated scores):

- files of the package that are imported;
- files that are touched: a frame of theirs ran that is not of the module itself. The body of a
  class is such a frame;
- files of which a function was called;
- functions that were called, lambdas and comprehensions counted.

Nothing is timed, and nothing fails: later work adds rooms.

Run: ``python benchmarks/journeys.py [--largest 10]``.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import subprocess
import sys
import tempfile
import threading
import tokenize
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "lightning_sasv"
SMALL = ["--data.scale", "0.02"]
JOURNEYS = {
    "fit": [
        "fit",
        "--config",
        str(ROOT / "configs" / "L3c.yaml"),
        "--trainer.max_epochs=1",
        *SMALL,
    ],
    "table": ["table", "--systems=L3c", "--seeds=1-2", "--epochs=1", "--processes=1", *SMALL],
    "evaluate": ["evaluate", "scores.csv"],
}
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def code_lines(path: Path) -> int:
    """Lines of a file that are neither blank, comment nor docstring."""
    with path.open("rb") as file:
        tokens = [t for t in tokenize.tokenize(file.readline) if t.type not in _NO_CODE]
    lines = {n for token in tokens[1:-1] for n in range(token.start[0], token.end[0] + 1)}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        text = node.value if isinstance(node, ast.Expr) else None
        if isinstance(text, ast.Constant) and isinstance(text.value, str):
            lines -= set(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    return len(lines)


def walk(args: list[str]) -> dict[str, Any]:
    """Run a command in this process and note which code objects of the package ran."""
    ran: set[CodeType] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            ran.add(frame.f_code)

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        from lightning_sasv.cli import main

        main(args)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    own = [code for code in ran if Path(code.co_filename).is_relative_to(PACKAGE)]
    touched = [code for code in own if code.co_name != "<module>"]
    called = [code for code in touched if code.co_flags & inspect.CO_OPTIMIZED]
    files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    return {
        "imported": len({f for f in files if f and Path(f).is_relative_to(PACKAGE)}),
        "touched": len({code.co_filename for code in touched}),
        "with calls": len({code.co_filename for code in called}),
        "functions": len({(code.co_filename, code.co_qualname) for code in called}),
        "packages": Counter(
            str(Path(name).parent.relative_to(PACKAGE))
            for name in {code.co_filename for code in touched}
        ),
    }


def journey(name: str, folder: Path) -> dict[str, Any]:
    """What a command walks through, run in a process of its own."""
    words = [sys.executable, __file__, "--walk", str(folder / f"{name}.json"), *JOURNEYS[name]]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        words, cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{name} failed:\n{done.stderr}")
    found: dict[str, Any] = json.loads((folder / f"{name}.json").read_text())
    return found


def main() -> None:
    """Print the sizes and the journeys."""
    if sys.argv[1:2] == ["--walk"]:
        Path(sys.argv[2]).write_text(json.dumps(walk(sys.argv[3:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--largest", type=int, default=0, help="list so many largest files too")
    options = parser.parse_args()
    sizes = {path: code_lines(path) for path in sorted(PACKAGE.rglob("*.py"))}
    tests = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py")]
    print(f"package: {len(sizes)} files, {sum(sizes.values()):,} lines of code")
    print(f"tests: {len(tests)} files, {sum(len(t.splitlines()) for t in tests):,} lines of text")
    for path in sorted(sizes, key=lambda p: -sizes[p])[: options.largest]:
        print(f"  {sizes[path]:4d} {path.relative_to(PACKAGE)}")
    columns = ("imported", "touched", "with calls", "functions")
    print(f"\n{'files':10s}{''.join(f'{column:>12s}' for column in columns)}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write = "from tests.scores.samples import toy_scores as toy; from lightning_sasv.scores "
        write += f"import write_scores as write; write({str(folder / 'scores.csv')!r}, toy(300))"
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        subprocess.run([sys.executable, "-c", write], env=environment, check=True)
        for command in JOURNEYS:
            found = journey(command, folder)
            print(f"{command:10s}{''.join(f'{found[column]:12d}' for column in columns)}")
            print("  " + ", ".join(f"{k} {v}" for k, v in sorted(found["packages"].items())))


if __name__ == "__main__":
    main()
