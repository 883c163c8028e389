"""Writes constraints-hashed.txt: what CI installs, each file with its SHA-256.

Run by `make hashes` after a change of constraints.txt. pip itself chooses the files; PyTorch is
left out, because builds for CPU and for CUDA share a version and differ in their hashes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

HEAD = """\
# What CI installs (Linux x86-64, Python 3.11) with the SHA-256 of each file, for pip's
# --require-hashes. Written by `make hashes` from constraints.txt; torch is pinned there alone,
# because its CPU and CUDA builds share a version and differ in their hashes.
"""
WANTED = (".[audio,report,onnx,serve,docs,dev]", "hatchling", "editables")


def main() -> None:
    """Ask pip what it would install, and note the hashes."""
    root = Path(__file__).parents[1]
    words = ["install", "--quiet", "--dry-run", "--ignore-installed", "--report", "-"]
    command = [sys.executable, "-m", "pip", *words, "--constraint", "constraints.txt", *WANTED]
    done = subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)
    lines = []
    for item in json.loads(done.stdout)["install"]:
        name, version = item["metadata"]["name"], item["metadata"]["version"]
        if name not in ("lightning-sasv", "torch"):
            found = item["download_info"]["archive_info"]["hashes"]["sha256"]
            lines.append(f"{name}=={version} --hash=sha256:{found}\n")
    (root / "constraints-hashed.txt").write_text(HEAD + "".join(sorted(lines, key=str.lower)))


if __name__ == "__main__":
    main()
