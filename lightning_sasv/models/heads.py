"""Heads by name, those that see both embeddings, and the systems that are made of these."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from lightning_sasv import gate
from lightning_sasv.data.corpus import ASV_DIM
from lightning_sasv.errors import InputError
from lightning_sasv.fusion import build_system
from lightning_sasv.fusion.zoo import of_network
from lightning_sasv.models.stacked import Head, MLPHead
from lightning_sasv.plugins import Other, Registry, as_other, name_of

IN_DIM = 160
"""Size of an AASIST embedding."""

COSINE = 10.0
"""What the cosine is multiplied with, so that it is as wide as other inputs."""

Given = str | dict[str, str | dict[str, str | int | float | bool | None]]
"""A head as a configuration names it: a name, or ``class_path`` and ``init_args``."""


class CMHead(MLPHead):
    """MLP with LeakyReLU after each hidden layer and two logits (0 spoof, 1 bona fide).

    The default widths 258-128-64 have 83,074 parameters; 256-128-64 have 82,496, the "82.5 k" of
    the paper. It sees the CM embedding alone.

    Args:
        in_dim: Size of the embedding.
        hidden_dims: Widths of the hidden layers.
        negative_slope: Slope of the LeakyReLU.
        seeds: Seed of each copy's initialisation.
        dropout: Share of the hidden units that are left out of a training step.

    Example:
        >>> import torch
        >>> head = CMHead()
        >>> head(torch.zeros(4, 160)).shape
        torch.Size([4, 2])
        >>> CMHead(seeds=(1, 2, 3))(torch.zeros(3, 4, 160)).shape
        torch.Size([3, 4, 2])
    """

    joint = False

    def __init__(
        self,
        in_dim: int = IN_DIM,
        hidden_dims: Sequence[int] = (258, 128, 64),
        negative_slope: float = 0.3,
        seeds: Sequence[int] = (0,),
        dropout: float = 0.0,
    ) -> None:
        settings = (in_dim, ASV_DIM, hidden_dims, negative_slope, dropout)
        super().__init__(*settings, logits=2, seeds=seeds)
        self.make_layers(in_dim)

    @property
    def in_dim(self) -> int:
        """Size of the embedding."""
        return self.cm_dim

    def forward(self, x: Tensor) -> Tensor:
        """Logits of embeddings.

        Args:
            x: (batch, dim) for all copies, or (copies, batch, dim).

        Returns:
            (copies, batch, 2), or (batch, 2) when ``x`` is (batch, dim) and there is one copy.
        """
        plain = x.ndim == 2 and len(self.seeds) == 1
        if x.ndim == 2:
            x = x.expand(len(self.seeds), *x.shape)
        logits = self.through(x)
        return logits[0] if plain else logits

    def of_trials(self, x: Tensor) -> Tensor:
        """Logits of CM embeddings."""
        found: Tensor = self(x)
        return found


class ConcatHead(MLPHead):
    """``concat``: an MLP on the raw embeddings in a row, Baseline2 of the challenge.

    [enrolment 192, probe 192, CM 160] → 256-128-64 → two logits have 180,800 parameters. It has to
    learn what a cosine is from the speakers of the training set.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.make_layers(2 * self.asv_dim + self.cm_dim)

    def of_trials(self, x: Tensor) -> Tensor:
        """Logits of embeddings, which lie in a row already."""
        return self.through(x.expand(len(self.seeds), *x.shape) if x.ndim == 2 else x)

    def forward(self, enrolment: Tensor, probe: Tensor, cm: Tensor) -> Tensor:
        """See the class."""
        return self.through(torch.cat([enrolment, probe, cm], -1))


class FilmHead(Head):
    """``film``: the CM embedding conditioned on the ASV pair, and the pair gated by the CM side.

    With e and p of unit length, a = e·p, and u = [e, p, √d e∘p, 10 a]:

    - h = φ((W x + b) ∘ (1 + γ) + β), (γ, β) a linear map of u that starts at 0 (FiLM), then the
      further hidden layers;
    - v = φ(R [√d |e − p|, √d e∘p]) ∘ σ(G h), the speakers' interaction behind a gate;
    - logits = O [h, v, 10 a]: the cosine has a path of its own.

    After BiSASV (Interspeech 2026), whose parts these are; sizes and scales are our own.
    """

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__(*args, **settings)
        if not self.hidden_dims:
            raise InputError("model.hidden_dims: the head film needs a hidden layer")
        first, last = self.hidden_dims[0], self.hidden_dims[-1]
        self.layer("cm", self.cm_dim, first)
        self.layer("film", 3 * self.asv_dim + 1, 2 * first, zero=True)
        for number, width in enumerate(self.hidden_dims[1:], 1):
            self.layer(number, self.hidden_dims[number - 1], width)
        self.layer("pair", 2 * self.asv_dim, last)
        self.layer("gate", last, last)
        self.layer("out", 2 * last + 1, self.logits)
        self.reset_parameters()

    def forward(self, enrolment: Tensor, probe: Tensor, cm: Tensor) -> Tensor:
        """See the class."""
        e, p = normalize(enrolment, dim=-1), normalize(probe, dim=-1)
        product = e * p
        cosine, wide = COSINE * product.sum(-1, keepdim=True), self.asv_dim**0.5 * product
        gain, shift = self.linear("film", torch.cat([e, p, wide, cosine], -1)).chunk(2, -1)
        h = self.activated(torch.addcmul(shift, self.linear("cm", cm), 1 + gain))
        for number in range(1, len(self.hidden_dims)):
            h = self.activated(self.linear(number, h))
        pair = torch.cat([self.asv_dim**0.5 * (e - p).abs(), wide], -1)
        v = self.activated(self.linear("pair", pair)) * self.linear("gate", h).sigmoid()
        return self.linear("out", torch.cat([h, v, cosine], -1))


def _as_head(thing: Any, **settings: Any) -> Callable[..., Head]:
    """A head of others: a subclass of :class:`Head`, with settings of its own."""
    if not (isinstance(thing, type) and issubclass(thing, Head)):
        raise InputError("it is no subclass of lightning_sasv.models.stacked.Head")
    return partial(thing, **settings) if settings else thing


HEADS: Registry[Callable[..., Head]] = Registry(
    {"cm": CMHead, "concat": ConcatHead, "film": FilmHead}, "heads", "head", _as_head
)
"""Heads by name; a new one is an entry."""


def find_head(given: Given) -> tuple[str | Other, Callable[..., Head]]:
    """What makes a head, and how checkpoints name it.

    Args:
        given: A name of :data:`HEADS`, a class of yours, or ``class_path`` and ``init_args``. A
            class is imported where a package registers it, where the user typed its name on the
            command line, or with ``--trust-config``.
    """
    try:
        other = as_other(given)
    except InputError as error:
        raise InputError(f"model.head: {error}, got {str(given)[:100]}") from None
    name = name_of(other)
    if other is None or not isinstance(name, str):
        raise InputError(f"model.head: expected one of {', '.join(HEADS)}, got {given!r}")
    try:
        if "." in name and gate.is_typed(name):
            settings = {} if isinstance(other, str) else other["settings"]
            return other, _as_head(pkgutil.resolve_name(name), **settings)
        return other, HEADS.find(other)
    except (InputError, ImportError, AttributeError) as error:
        raise InputError(f"model.head: {error}") from None


def make_head(settings: Mapping[str, Any], seeds: Sequence[int]) -> Head:
    """The head that settings of a ``SASVModule`` ask for.

    Args:
        settings: ``head``, ``in_dim``, ``asv_dim``, ``hidden_dims``, ``negative_slope``,
            ``dropout`` and ``objective``.
        seeds: A seed for each copy.
    """
    _, make = find_head(settings["head"])
    cm_dim = IN_DIM if settings["in_dim"] is None else settings["in_dim"]
    shape = (settings["hidden_dims"], settings["negative_slope"])
    if make is CMHead:
        return CMHead(cm_dim, *shape, seeds, settings["dropout"])
    asv_dim = ASV_DIM if settings["asv_dim"] is None else settings["asv_dim"]
    logits = 3 if settings["objective"] == "three_class" else 2
    asked = {
        "cm_dim": cm_dim, "asv_dim": asv_dim, "hidden_dims": shape[0], "negative_slope": shape[1],
        "dropout": settings["dropout"], "logits": logits, "seeds": seeds,
    }  # fmt: skip
    return make(**asked) if make in (ConcatHead, FilmHead) else _made_by_others(make, asked)


def _made_by_others(make: Callable[..., Head], asked: dict[str, Any]) -> Head:
    """A head that is not ours, tried on two trials; what it does wrong is said in a line."""
    name = getattr(getattr(make, "func", make), "__qualname__", "the head")
    copies, wanted = len(asked["seeds"]), asked["logits"]
    try:
        head = make(**asked)
        head.reset_parameters()
        if any(one.is_meta for one in head.parameters()):  # only shapes are wanted
            return head
        with torch.no_grad():
            found = head.eval().of_trials(torch.ones(2, 2 * head.asv_dim + head.cm_dim))
        head.train()
    except Exception as error:  # whatever the code of others raises
        said = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise InputError(f"model.head: {name} cannot be used: {said}") from error
    for key, value in head.state_dict().items():
        if value.shape[:1] != (copies,):
            raise InputError(
                f"model.head: {key} of {name} has the shape {tuple(value.shape)}; every tensor of "
                f"a head begins with the axis of its copies, {copies} here, as `layer` makes them"
            )
    if found.shape != (copies, 2, wanted):
        raise InputError(
            f"model.head: {name} gives {tuple(found.shape)} for two trials, not "
            f"{(copies, 2, wanted)}: copies, trials, logits"
        )
    return head


_CONCAT = {"head": "concat", "hidden_dims": (256, 128, 64), "lr": 1e-4, "lr_decay": 1e-4}
_FILM = {"head": "film", "hidden_dims": (128, 64), "lr": 1e-4}
_SCORE = {"objective": "fused", "class_weights": (0.1, 0.9, 0.1)}
_LOGITS = {"objective": "three_class", "class_weights": (1.0, 1.0, 1.0)}
RECIPES: dict[str, dict[str, Any]] = {
    "E2": _CONCAT | _SCORE,  # Baseline2's
    "E3": _CONCAT | _LOGITS,
    "F2": _FILM | _SCORE,
    "F3": _FILM | _LOGITS,
}
"""Networks of the joint systems, as ``configs/<name>.yaml`` have them and a table trains them."""


def fitting_systems(
    head: Given, objective: str, systems: Sequence[str], own: Mapping[str, Any]
) -> tuple[str, list[str], list[str]]:
    """Which systems a head has scores for, and what it is trained for.

    Args:
        head: The head.
        objective: One of ``objectives.OBJECTIVES``.
        systems: Names of systems.
        own: Settings of those that are not ours.

    Returns:
        The objective, which is ``auto`` no more for joint heads; systems that stay; and what is
        to be said of the others.

    Raises:
        InputError: None is left, or one needs another head.
    """
    named, given = name_of(find_head(head)[0]), objective
    if named == "cm":
        if other := [name for name in systems if name in RECIPES]:
            wanted = RECIPES[other[0]]["head"]
            raise InputError(
                f"model.systems: {other[0]} is a system of the head {wanted}; add --model.head "
                f"{wanted} (`lightning configs {other[0]}` shows its recipe)"
            )
        return objective, list(systems), []
    kinds = {name: of_network(build_system(name, own.get(name)).config) for name in systems}
    for name in [name for name in kinds if name in RECIPES and named in ("concat", "film")]:
        kinds[name] = kinds[name] if RECIPES[name]["head"] == named else None
    if objective == "auto":
        objective = next((kind for kind in kinds.values() if kind), "three_class")
    wanted = "three_class" if objective == "three_class" else "fused"
    kept = [name for name in systems if kinds[name] == wanted]
    left = [name for name in systems if name not in kept]
    if systems and not kept:
        known = [name for name in RECIPES if RECIPES[name]["head"] == named] or [*RECIPES]
        if given != "auto":
            known = [name for name in known if (RECIPES[name]["objective"] == wanted)]
        raise InputError(
            f"model.systems: {', '.join(left)} cannot use the scores of the head {named} with the "
            f"objective {objective}; its systems are {', '.join(known)}: "
            f"--model.systems [{known[-1]}]"
        )
    said = f"left out: {', '.join(left)}; the head {named} (objective {objective}) gives scores "
    return objective, kept, [f"{said}of its own, for {', '.join(kept)}"] if left else []
