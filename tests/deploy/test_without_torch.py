"""Recordings to a decision in an environment that has no torch, not only one that hides it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import sysconfig
from pathlib import Path

from tests.conftest import REPOSITORY
from tests.deploy.conftest import Place

NEEDED = (
    *("numpy", "numpy.libs", "onnxruntime", "flatbuffers", "google", "packaging", "safetensors"),
    *(
        "soundfile.py",
        "_soundfile.py",
        "_soundfile_data",
        "typing_extensions.py",
        "cffi",
        "_cffi_backend*",
        "pycparser",
    ),
)
CODE = """
import importlib.util, json, sys
assert importlib.util.find_spec("torch") is None
from lightning_sasv.deploy import Verifier, load
bundle, enrol, probe = sys.argv[1:]
verifier = Verifier(bundle)
model, _, _ = verifier.enrol([enrol])
found = verifier.verify(model, probe)
assert load(bundle)(found.asv_score, found.cm_score).decision == found.decision
print(json.dumps(found.as_json()))
"""


def test_a_bundle_with_graphs_needs_no_torch_anywhere(place: Place, tmp_path: Path) -> None:
    packages = Path(sysconfig.get_paths()["purelib"])
    for pattern in NEEDED:
        for path in packages.glob(pattern):
            (tmp_path / path.name).symlink_to(path)
    (tmp_path / "lightning_sasv").symlink_to(REPOSITORY / "lightning_sasv")
    assert importlib.util.find_spec("torch") is not None
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(tmp_path)!r})"]
    command[-1] += f"\n{CODE}"
    words = [str(place.bundle), str(place["a"]), str(place["x"])]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["decision"] in ("accept", "reject", "unsure")
    assert found["reason"]
