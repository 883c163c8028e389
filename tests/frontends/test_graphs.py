"""Front ends as ONNX graphs: equal to torch, at other batches and lengths, and checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from lightning_sasv.errors import InputError
from lightning_sasv.files import sha256
from lightning_sasv.frontends import AASIST, ECAPA
from lightning_sasv.frontends.graphs import Fbank, GraphFrontEnd, export_front_end
from tests.frontends.toys import Moments

Made = tuple[Path, dict[str, dict[str, Any]]]
SHOWN = (0, 20)


@pytest.fixture(scope="session")
def made(aasist: AASIST, ecapa: ECAPA, tmp_path_factory: pytest.TempPathFactory) -> Made:
    folder = tmp_path_factory.mktemp("graphs")
    about = {"cm": export_front_end(aasist, folder, "cm")}
    return folder, about | {"asv": export_front_end(ecapa, folder, "asv")}


def test_aasist_agrees_with_torch_and_with_golden_values(
    made: Made, aasist: AASIST, recordings: list[np.ndarray], golden_aasist: dict[str, np.ndarray]
) -> None:
    graph = GraphFrontEnd(made[0], "cm", made[1]["cm"])
    some = [recordings[k] for k in SHOWN]
    found = graph.embed(some)
    assert found.shape == (2, graph.dim)
    assert np.abs(found - aasist.embed(some).numpy()).max() < 1e-5
    assert np.abs(found - golden_aasist["emb"][list(SHOWN)]).max() < 1e-4


def test_ecapa_agrees_with_torch(made: Made, ecapa: ECAPA, recordings: list[np.ndarray]) -> None:
    graph = GraphFrontEnd(made[0], "asv", made[1]["asv"])
    some = [recordings[k] for k in SHOWN]
    found, wanted = graph.embed(some), ecapa.embed(some).numpy()
    assert np.abs(found - wanted).max() < 4e-4  # of values up to 86
    first, second = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (found, wanted))
    assert np.abs(first @ first.T - second @ second.T).max() < 2e-6


def test_features_by_numpy_are_speechbrains(made: Made, ecapa: ECAPA) -> None:
    waveform = torch.randn(5_000, generator=torch.Generator().manual_seed(0)) * 0.1
    waveform[2_000:2_800] = 0.0  # silence reaches the floor of 80 dB
    bands = ecapa.features(waveform[None])[0]
    wanted = (bands - bands.mean(dim=0)).numpy()
    found = Fbank.read(made[0] / "asv_features.safetensors")(waveform.numpy())
    assert found.dtype == np.float32
    assert np.abs(found - wanted).max() < 2e-3
    assert np.abs(found - wanted).mean() < 1e-5


def test_graphs_take_other_batches_and_lengths_than_the_example(
    made: Made, aasist: AASIST, ecapa: ECAPA
) -> None:
    generator = torch.Generator().manual_seed(1)
    waveforms = torch.randn(2, aasist.samples, generator=generator) * 0.1
    bands = torch.randn(3, 150, 80, generator=generator)
    graphs = {kind: GraphFrontEnd(made[0], kind, made[1][kind]) for kind in ("asv", "cm")}
    with torch.inference_mode():
        wanted = {"cm": aasist(waveforms), "asv": ecapa.network(bands).squeeze(1)}
    for kind, values in (("cm", waveforms), ("asv", bands)):
        (found,) = graphs[kind]._session.run(None, {"values": values.numpy()})
        assert found.shape == wanted[kind].shape
        assert np.abs(found - wanted[kind].numpy()).max() < 4e-4
    assert not ecapa.network.training
    assert not aasist.training


def test_short_recordings_are_repeated_and_whole_ones_taken_whole(
    made: Made, ecapa: ECAPA, recordings: list[np.ndarray]
) -> None:
    short = recordings[0][:9_000]
    repeated = GraphFrontEnd(made[0], "asv", made[1]["asv"])
    assert np.abs(repeated.embed([short]) - ecapa.embed([short]).numpy()).max() < 4e-4
    whole = GraphFrontEnd(made[0], "asv", made[1]["asv"] | {"samples": None})
    bands = ecapa.features(torch.from_numpy(short)[None])
    with torch.inference_mode():
        wanted = ecapa.network(bands - bands.mean(dim=1, keepdim=True)).squeeze(1)
    assert np.abs(whole.embed([short]) - wanted.numpy()).max() < 4e-4


def test_what_is_recorded_of_a_graph(made: Made, aasist: AASIST) -> None:
    cm, asv = made[1]["cm"], made[1]["asv"]
    assert cm["class_path"] == "lightning_sasv.frontends.aasist.AASIST"
    assert cm["weights_sha256"] == aasist.weights
    assert (cm["dim"], cm["sample_rate"], cm["samples"]) == (160, 16_000, 64_600)
    assert cm["licence"].startswith("MIT")
    assert asv["licence"].startswith("Apache-2.0")
    assert {*cm["files"], *asv["files"]} == {path.name for path in made[0].iterdir()}
    assert (made[0] / "cm.onnx").stat().st_size < 2e6  # the time axis is not unrolled


@pytest.mark.parametrize("name", ["cm.onnx", "cm_features.safetensors", "../cm.onnx"])
def test_files_that_are_not_what_was_recorded_are_refused(
    name: str, made: Made, tmp_path: Path
) -> None:
    about = made[1]["cm"] | {"files": {name: "0" * 64}}
    with pytest.raises(InputError, match=r"is missing|no file of a front end"):
        GraphFrontEnd(tmp_path, "cm", about)
    (tmp_path / "cm.onnx").write_bytes((made[0] / "cm.onnx").read_bytes()[:-1])
    with pytest.raises(InputError, match="was altered or damaged"):
        GraphFrontEnd(tmp_path, "cm", made[1]["cm"])


def test_no_graph_of_another_network_and_none_from_a_text(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Moments cannot be written as a graph"):
        export_front_end(Moments(), tmp_path, "cm")
    text = tmp_path / "cm.onnx"
    text.write_text("not a graph")
    about = {"dim": 2, "sample_rate": 16_000, "samples": None, "files": {text.name: sha256(text)}}
    with pytest.raises(InputError, match=r"cm\.onnx is no graph"):
        GraphFrontEnd(tmp_path, "cm", about)


def test_a_graph_with_parts_in_other_files_is_refused(tmp_path: Path) -> None:
    """A graph can name any file of the machine for the values of a tensor."""
    import onnx
    from onnx import TensorProto, helper

    outside = helper.make_tensor("w", TensorProto.FLOAT, [1], [0.0])
    outside.ClearField("float_data")
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="../secret")
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1]) for n in ("values", "y")]
    node = helper.make_node("Add", ["values", "w"], ["y"])
    graph = helper.make_graph([node], "g", values[:1], values[1:], [outside])
    path = tmp_path / "cm.onnx"
    path.write_bytes(helper.make_model(graph).SerializeToString())
    assert onnx.load(str(path), load_external_data=False).graph.initializer[0].external_data
    about = {"dim": 1, "sample_rate": 16_000, "samples": None, "files": {path.name: sha256(path)}}
    with pytest.raises(InputError, match="parts in other files"):
        GraphFrontEnd(tmp_path, "cm", about)
