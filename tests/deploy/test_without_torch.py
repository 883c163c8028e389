"""Recordings to a decision in an environment that has no torch, not only one that hides it."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
import sysconfig
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lightning_sasv.deploy import Verifier
from lightning_sasv.files import _plain_arrays, read_arrays, write_arrays
from tests.conftest import REPOSITORY
from tests.deploy.conftest import Place
from tests.deploy.recordings import write_voice

NEEDED = (
    *("numpy", "numpy.libs", "onnxruntime", "flatbuffers", "google", "packaging"),
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
for absent in ("torch", "safetensors", "scipy"):
    assert importlib.util.find_spec(absent) is None
from lightning_sasv.deploy import Verifier, load
from lightning_sasv.errors import InputError
bundle, enrol, probe, slow = sys.argv[1:]
verifier = Verifier(bundle)
model, _, _ = verifier.enrol([enrol])
found = verifier.verify(model, probe)
assert load(bundle)(found.asv_score, found.cm_score).decision == found.decision
try:
    verifier.verify(model, slow)
except InputError as error:
    print(json.dumps(found.as_json() | {"said": str(error)}))
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
    slow = write_voice(tmp_path / "slow.wav", rate=8_000)
    words = [str(place.bundle), str(place["a"]), str(place["x"]), str(slow)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["decision"] in ("accept", "reject", "unsure")
    assert found["reason"]
    assert "8000 Hz is resampled to 16000 Hz with scipy, which cannot be imported" in found["said"]
    verifier = Verifier(place.bundle)
    here = verifier.verify(verifier.enrol([place["a"]])[0], place["x"])
    assert found["asv_score"] == pytest.approx(here.asv_score, abs=1e-6)
    assert found["decision"] == here.decision


KINDS = ("float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint8", "bool")


def test_arrays_are_read_without_safetensors_as_with_it(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    shapes = [(), (0, 3), (1,), (7,), (2, 3, 4)]
    arrays = {
        f"{kind} {shape}": (9 * random.normal(size=shape)).astype(kind)
        for kind in KINDS
        for shape in shapes
    }
    path = write_arrays(tmp_path / "some.safetensors", arrays, {"head": '{"a": 1}', "b": "c"})
    texts, found = _plain_arrays(path.read_bytes())
    about, expected = read_arrays(path, "head")
    assert (texts, about) == ({"head": '{"a": 1}', "b": "c"}, {"a": 1})
    assert found.keys() == expected.keys() == arrays.keys()
    for name, one in expected.items():
        assert (found[name].dtype, found[name].shape) == (one.dtype, one.shape)
        assert np.array_equal(found[name], one)


@given(st.data())
def test_a_damaged_file_of_arrays_is_an_error_without_safetensors_too(data: st.DataObject) -> None:
    with TemporaryDirectory() as place:
        arrays = {"x": np.arange(4.0), "y": np.arange(3, dtype=np.int8)}
        content = write_arrays(Path(place) / "x.safetensors", arrays).read_bytes()
    cut = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(ValueError):
        _plain_arrays(content[:cut])
    changed = bytearray(content)
    changed[data.draw(st.integers(0, 7 + int.from_bytes(content[:8], "little")))] ^= data.draw(
        st.integers(1, 255)
    )
    with suppress(ValueError):  # or another name, or another type of the same size
        _plain_arrays(bytes(changed))
