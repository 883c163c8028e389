"""What a bundle holds in front of its fusion: the CM head, and what the front ends are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from lightning_sasv.checks import is_tensor
from lightning_sasv.errors import InputError
from lightning_sasv.files import read_arrays, read_yaml, sha256, write_arrays
from lightning_sasv.numerics import double, namespace

HEAD, FRONT_ENDS = "head.safetensors", "frontends"
KINDS = ("asv", "cm")
SIMULATED = (
    "warning: this system was trained on the twin, which is simulated: what it says of recordings "
    "means nothing"
)
_SETTINGS = "lightning_sasv"


@dataclass(frozen=True)
class Head:
    """An MLP with LeakyReLU after each hidden layer, two logits, and no bias at the last.

    Attributes:
        weights: Matrix (in, out) of each layer.
        biases: Vector of each hidden layer.
        negative_slope: Slope of the LeakyReLU.
    """

    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]
    negative_slope: float

    def __post_init__(self) -> None:
        shapes = [one.shape for one in self.weights]
        fits = bool(shapes) and all(len(shape) == 2 for shape in shapes) and shapes[-1][1] == 2
        fits = fits and all(a[1] == b[0] for a, b in pairwise(shapes))
        fits = fits and [one.shape for one in self.biases] == [shape[1:] for shape in shapes[:-1]]
        if not fits or not all(np.isfinite(one).all() for one in (*self.weights, *self.biases)):
            raise ValueError(f"layers of the shapes {shapes}")

    @property
    def dim(self) -> int:
        """Size of the embeddings that it takes."""
        return int(self.weights[0].shape[0])

    def score(self, embedding: Any) -> Any:
        """CM score logit(bona fide) − logit(spoof) of embeddings (…, dim), arrays or tensors.

        In float64, so that the order of a sum, which every processor chooses for itself, does not
        show in a score.
        """
        x, use = double(embedding), namespace(embedding)
        weights, biases = (
            [double(use.asarray(w)) for w in ws] for ws in (self.weights, self.biases)
        )
        for weight, bias in zip(weights, biases, strict=False):
            x = x @ weight + bias
            x = use.where(x > 0, x, self.negative_slope * x)  # not LeakyReLU: float32 in ONNX
        logits = x @ weights[-1]
        return logits[..., 1] - logits[..., 0]

    @classmethod
    def of_state(cls, state: Mapping[str, Any], negative_slope: float) -> Head | None:
        """The head in the state of a trained module, as arrays; ``None`` where it is of another."""
        own = {
            name.removeprefix("head."): value
            for name, value in state.items()
            if name.startswith("head.")
        }
        count = sum(name.startswith("weight_") for name in own)
        layers = [f"weight_{number}" for number in range(count)]
        hidden = [f"bias_{number}" for number in range(count - 1)]
        if own.keys() != {*layers, *hidden} or any(len(one) != 1 for one in own.values()):
            return None
        try:
            weights, biases = ([own[n][0] for n in part] for part in (layers, hidden))
            return cls((*weights,), (*(one.reshape(-1) for one in biases),), float(negative_slope))
        except ValueError:
            return None

    def save(self, path: str | Path) -> Path:
        """Write it, atomically."""
        arrays = {f"weight_{k}": one for k, one in enumerate(self.weights)}
        arrays |= {f"bias_{k}": one for k, one in enumerate(self.biases)}
        settings = json.dumps({"negative_slope": self.negative_slope})
        return write_arrays(path, arrays, {_SETTINGS: settings})

    @classmethod
    def load(cls, path: str | Path) -> Head:
        """Read one that :meth:`save` wrote."""
        try:
            settings, arrays = read_arrays(path, _SETTINGS)
            state = {f"head.{name}": value[None] for name, value in arrays.items()}
            head = cls.of_state(state, settings["negative_slope"])
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path} is damaged ({error}); export the bundle again") from None
        if head is None:
            raise InputError(f"{path} holds no CM head; export the bundle again")
        return head


@dataclass(frozen=True)
class WholeWay:
    """Parts of a bundle beside its fusion.

    Attributes:
        head: The CM head, where there is a checkpoint of one.
        origin: Name and SHA-256 of the checkpoint that it is from.
        front_ends: What is recorded of each front end, by ``asv`` and ``cm``.
        networks: The front ends that are written as graphs.
    """

    head: Head | None = None
    origin: Mapping[str, str] = field(default_factory=dict)
    front_ends: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    networks: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> dict[str, Any]:
        """Write the parts into the folder of a bundle; what its description says of them."""
        described = {kind: dict(about) for kind, about in self.front_ends.items()}
        if self.networks:
            from lightning_sasv.frontends.graphs import export_front_end

            (folder / FRONT_ENDS).mkdir()
            for kind, network in self.networks.items():
                described[kind] |= export_front_end(network, folder / FRONT_ENDS, kind)
        content: dict[str, Any] = {"front_ends": described} if described else {}
        if self.head is not None:
            self.head.save(folder / HEAD)
            content["head"] = {"file": HEAD, "dim": self.head.dim, "checkpoint": dict(self.origin)}
        return content

    def lines(self) -> list[str]:
        """What is said of it at export."""
        if self.head is None:
            return ["no CM head: the bundle takes scores alone, not audio"] * bool(self.front_ends)
        known = ", ".join(
            f"{one['class_path'].rpartition('.')[2]}{' as a graph' * (kind in self.networks)}"
            for kind, one in self.front_ends.items()
        )
        return [f"with the CM head of {self.origin['file']}; front ends: {known or 'not known'}"]


def whole_way(
    fitted: Path,
    system: str,
    cm: str | None,
    asv: str | None,
    with_front_ends: bool,
    own_network: bool = False,
    joint: bool = False,
) -> WholeWay:
    """The head and the front ends of a folder of results.

    Args:
        fitted: Folder of results; of a training it has a checkpoint, and names its embeddings.
        system: Name of the system, which may have a network of its own.
        cm: Weights of AASIST, where they are to be recorded or written.
        asv: Weights of ECAPA.
        with_front_ends: Whether graphs of both are written.
        own_network: Whether the system takes scores of a network of its own.
        joint: Whether that network sees both embeddings, so that there is no CM head.

    Raises:
        InputError: Graphs without a head, or of other weights than the embeddings were made with.
    """
    head, origin = _read_head(fitted, system, own_network)
    recorded = _recorded(fitted)
    if with_front_ends and head is None:
        why = (
            f"the network of {system} sees both embeddings, and a bundle can hold the usual CM "
            "head alone; without --with-front-ends it takes the scores of that network"
            if joint
            else f"{fitted} has no checkpoint of one; give the folder of a training "
            "(`lightning fit`)"
        )
        raise InputError(f"--with-front-ends needs the CM head: {why}")
    if not (with_front_ends or cm or asv):
        return WholeWay(head, origin, recorded if head is not None else {})
    from lightning_sasv.frontends.base import describe
    from lightning_sasv.frontends.corpus import build_networks

    only = None if with_front_ends or (cm and asv) else ("cm" if cm else "asv")
    networks = build_networks(cm, asv, only)
    for kind, network in networks.items():
        check_same_network(describe(network), recorded.get(kind), kind)
    described = recorded | {kind: describe(one) for kind, one in networks.items()}
    if head is not None and "cm" in networks and networks["cm"].dim != head.dim:
        raise InputError(
            f"the CM head takes embeddings of {head.dim} values, the network given by --cm makes "
            f"{networks['cm'].dim}"
        )
    return WholeWay(head, origin, described, networks if with_front_ends else {})


def identity(about: Mapping[str, Any]) -> tuple[Any, ...]:
    """What determines the embeddings of a front end, however it is run and its files are called."""
    return about.get("class_path"), about.get("samples"), sorted(_weights(about).values())


def _weights(about: Mapping[str, Any]) -> dict[str, str]:
    """SHA-256 of each file of weights, of whatever a file says of a front end."""
    found = about.get("weights_sha256")
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, Mapping) else {}


def check_same_network(
    found: Mapping[str, Any], recorded: Mapping[str, Any] | None, kind: str
) -> None:
    """Refuse a network, or weights, other than what was recorded."""
    if recorded is not None and identity(found) != identity(recorded):
        raise InputError(
            f"--{kind}: {_said(found)} is not what was recorded, {_said(recorded)}; scores of "
            "another network, or of other weights, mean nothing to this bundle"
        )


def check_same_weights(given: Any, recorded: Mapping[str, Any], kind: str) -> None:
    """Refuse what is no copy of the weights of a bundle's own graph, which needs none."""
    if isinstance(given, Mapping):
        raise InputError(f"--{kind}: the bundle runs graphs of its own networks; leave this out")
    path = Path(str(given))
    files = [path / name for name in _weights(recorded)] if path.is_dir() else [path]
    sums = {one.name: sha256(one) for one in files}
    check_same_network({**recorded, "weights_sha256": sums}, recorded, kind)


def _said(about: Mapping[str, Any]) -> str:
    sums = ", ".join(f"{name} {digest[:12]}…" for name, digest in _weights(about).items())
    return f"{str(about.get('class_path')).rpartition('.')[2]} ({sums or 'no weights'})"


def _read_head(fitted: Path, system: str, own_network: bool) -> tuple[Head | None, dict[str, str]]:
    """The head of the checkpoint of a training, if there is one of the usual kind."""
    from lightning_sasv.results import checkpoint_file

    places = [checkpoint_file(fitted, system), *([] if own_network else [checkpoint_file(fitted)])]
    path = next((one for one in places if one.is_file()), None)
    if path is None:
        return None, {}
    from lightning_sasv.tensor_files import read_tensor_file

    content = read_tensor_file(path)
    state = content.get("state_dict") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(state, dict):
        raise InputError(f"{path} is no checkpoint of a training; give a folder that `fit` wrote")
    settings = content.get("hyper_parameters")
    settings = settings if isinstance(settings, dict) else {}
    if settings.get("head", "cm") != "cm":  # it sees more than the CM embedding
        return None, {}
    slope = settings.get("negative_slope", 0.3)
    own = {
        name: (one.float() if one.element_size() < 4 else one).numpy()  # which has no bfloat16
        for name, one in state.items()
        if str(name).startswith("head.") and is_tensor(one)
    }
    head = Head.of_state(own, slope)
    return head, {"file": path.name, "sha256": sha256(path)} if head is not None else {}


def _recorded(fitted: Path) -> dict[str, dict[str, Any]]:
    """What the manifest of a training's embeddings says of the networks that made them."""
    found: dict[str, dict[str, Any]] = {}
    with suppress(InputError, OSError, AttributeError, KeyError, TypeError):
        from lightning_sasv.frontends.manifest import Manifest

        data = read_yaml(fitted / "config.yaml")["data"]
        root = data.get("root") or data.get("init_args", {}).get("root")
        folders = [Path(root), Path(root) / "embeddings"] if root else []
        for kind in KINDS if folders else ():
            for folder in folders:
                about = Manifest(folder).front_end_of(f"{kind}_embd_dev")
                if isinstance(about, dict) and "class_path" in about:
                    found[kind] = about | {"runtime": "torch"}
    return found
