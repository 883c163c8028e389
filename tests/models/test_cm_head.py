"""The CM head: size, equality with plain layers, stacking."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from lightning_sasv.models import CMHead


def plain_copy(head: CMHead, copy: int = 0) -> nn.Sequential:
    """The same network built from ``nn.Linear``."""
    widths = (head.in_dim, *head.hidden_dims, 2)
    layers: list[nn.Module] = []
    for layer in range(len(widths) - 1):
        last = layer == len(head.hidden_dims)
        linear = nn.Linear(widths[layer], widths[layer + 1], bias=not last, dtype=head.dtype)
        linear.weight.data.copy_(head.get_parameter(f"weight_{layer}")[copy].T)
        if not last:
            linear.bias.data.copy_(head.get_parameter(f"bias_{layer}")[copy, 0])
        layers += [linear] if last else [linear, nn.LeakyReLU(0.3)]
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    ("widths", "count"),
    [
        ((258, 128, 64), 83_074),
        ((256, 128, 64), 82_496),
        ((128, 64), 160 * 128 + 128 + 8_256 + 128),
    ],
)
def test_number_of_parameters_and_default(widths: tuple[int, ...], count: int) -> None:
    assert sum(p.numel() for p in CMHead(hidden_dims=widths).parameters()) == count
    head = CMHead()
    assert (head.in_dim, head.hidden_dims, head.negative_slope) == (160, (258, 128, 64), 0.3)


@pytest.mark.parametrize("hidden", [(258, 128, 64), (7,), (2, 2)])
def test_same_as_plain_layers(hidden: tuple[int, ...]) -> None:
    head = CMHead(hidden_dims=hidden).double()
    x = torch.randn(24, 160, dtype=torch.float64)
    torch.testing.assert_close(head(x), plain_copy(head)(x), rtol=1e-12, atol=1e-12)
    logits = head(x)
    torch.testing.assert_close(head.score(x), logits[:, 1] - logits[:, 0])


def test_stacked_heads_are_separate_heads() -> None:
    stacked = CMHead(seeds=(5, 6, 7)).double()
    x = torch.randn(3, 10, 160, dtype=torch.float64)
    for copy, seed in enumerate((5, 6, 7)):
        alone = CMHead(seeds=(seed,)).double()
        torch.testing.assert_close(stacked(x)[copy], alone(x[copy]), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(stacked.select(copy)(x[copy]), alone(x[copy]))
        assert stacked.select(copy).state_dict().keys() == alone.state_dict().keys()
    assert stacked(x[0]).shape == (3, 10, 2)
    assert stacked.score(x).shape == (3, 10)


def test_initialisation_follows_the_seed_alone() -> None:
    torch.manual_seed(0)
    first = CMHead(seeds=(1,))
    torch.manual_seed(1)
    again, other = CMHead(seeds=(1,)), CMHead(seeds=(2,))
    assert torch.equal(first.get_parameter("weight_0"), again.get_parameter("weight_0"))
    assert not torch.equal(first.get_parameter("weight_0"), other.get_parameter("weight_0"))


def test_initialisation_has_the_spread_of_linear_layers() -> None:
    head, bound = CMHead(seeds=range(50)), 160**-0.5
    for name in ("weight_0", "bias_0"):
        values = head.get_parameter(name).detach()
        assert values.abs().max() <= bound
        assert float(values.std()) == pytest.approx(bound / 3**0.5, rel=0.02)
    assert nn.Linear(160, 258).weight.abs().max() <= bound
