"""The closed form of plain networks against torch's graph, and when it is left to torch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import handrail as hr
from handrail.policies.layers import Chain, in_float64
from handrail.tangent.factors import Factoriser, OuterFactor


def shared_activation(between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 9), between, nn.Linear(9, 5), between, nn.Linear(5, 3))


CHAINS: dict[str, Callable[[], nn.Sequential]] = {
    "one layer": lambda: nn.Sequential(nn.Linear(6, 3)),
    "tanh": lambda: nn.Sequential(nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)),
    "deep": lambda: nn.Sequential(
        nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 7), nn.ReLU(), nn.Linear(7, 3)
    ),
    "no bias": lambda: nn.Sequential(
        nn.Linear(6, 9, bias=False), nn.ReLU(), nn.Linear(9, 3, bias=False)
    ),
    "in place": lambda: nn.Sequential(
        nn.Linear(6, 9), nn.ReLU(inplace=True), nn.Linear(9, 5), nn.ReLU(inplace=True),
        nn.Linear(5, 3),
    ),
    "flattened": lambda: nn.Sequential(nn.Flatten(), nn.Linear(6, 9), nn.Tanh(), nn.Linear(9, 3)),
    "no activation": lambda: nn.Sequential(nn.Linear(6, 9), nn.Linear(9, 3)),
    "one activation twice": lambda: shared_activation(nn.Tanh()),
    "activation at both ends": lambda: nn.Sequential(nn.Tanh(), nn.Linear(6, 3), nn.Tanh()),
}  # fmt: skip


def make(name: str) -> tuple[nn.Sequential, Tensor, Tensor]:
    """A network, states and weights of two functionals per state."""
    torch.manual_seed(5)
    shape = (7, 2, 3) if name == "flattened" else (7, 6)
    module = CHAINS[name]().double()
    return module, torch.randn(shape).double(), torch.randn(7, 2, 3).double()


@pytest.mark.parametrize("name", CHAINS)
def test_inputs_and_signals_are_those_of_the_graph(name: str) -> None:
    module, states, weights = make(name)
    chain = Chain.of(module)
    assert chain is not None
    passed = chain.passes(states.clone(), weights)
    factors = Factoriser(module, states.clone())(states.clone(), weights)
    assert len(passed) == len(factors) == sum(type(m) is nn.Linear for m in module)
    for one, factor in zip(passed, factors, strict=True):
        assert isinstance(factor, OuterFactor)
        torch.testing.assert_close(one.inputs, factor.inputs, rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(one.signals, factor.signals, rtol=1e-13, atol=1e-14)
        assert one.has_bias == factor.has_bias
        assert not one.inputs.requires_grad
        assert not one.signals.requires_grad


@pytest.mark.parametrize("name", CHAINS)
def test_products_sum_to_the_gradient_that_torch_computes(name: str) -> None:
    module, states, weights = make(name)
    chain = Chain.of(module)
    assert chain is not None
    total = (module(states.clone()) * weights[:, 0]).sum()
    linear = [layer for layer in module if isinstance(layer, nn.Linear)]
    for layer, one in zip(linear, chain.passes(states.clone(), weights[:, :1]), strict=True):
        (expected,) = torch.autograd.grad(total, layer.weight, retain_graph=True)
        torch.testing.assert_close(one.signals[:, 0].T @ one.inputs, expected)


def test_weights_are_looked_up_at_every_pass() -> None:
    module, states, weights = make("tanh")
    chain = Chain.of(module)
    assert chain is not None
    before = chain.passes(states, weights)[0].signals
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(2.0)
    assert not torch.allclose(chain.passes(states, weights)[0].signals, before)


def frozen() -> nn.Module:
    module = CHAINS["deep"]()
    module[2].weight.requires_grad_(False)
    return module


def tied() -> nn.Module:
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer)


def tied_weights() -> nn.Module:
    module = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 6))
    module[2].weight = module[0].weight
    return module


def hooked() -> nn.Module:
    module = CHAINS["deep"]()
    module[0].register_forward_hook(lambda _, __, output: 2.0 * output)
    return module


class Doubling(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2.0 * super().forward(input)


@pytest.mark.parametrize(
    "module",
    [
        frozen(),
        tied(),
        tied_weights(),
        hooked(),
        nn.Sequential(Doubling(6, 3)),
        nn.Sequential(nn.Linear(6, 9), nn.LayerNorm(9), nn.Linear(9, 3)),
        nn.Sequential(nn.Linear(6, 9), nn.GELU(), nn.Linear(9, 3)),
        nn.Sequential(nn.Sequential(nn.Linear(6, 3))),
        nn.Sequential(nn.Linear(3, 3), nn.Flatten(), nn.Linear(6, 3)),
        nn.Sequential(nn.Flatten(2), nn.Linear(6, 3)),
        nn.Sequential(nn.Tanh()),
        nn.Linear(6, 3),
    ],
    ids=lambda module: type(module).__name__,
)
def test_anything_else_is_left_to_torch(module: nn.Module) -> None:
    assert Chain.of(module) is None


def test_a_layer_applied_to_every_row_of_an_observation() -> None:
    """Flattened only behind it: nothing that takes whole observations may be used."""
    torch.manual_seed(7)
    module = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(9, 2)).double()
    policy = hr.CategoricalPolicy(module)
    states = np.random.default_rng(0).normal(size=(4, 3, 3))
    logits = policy.logits(states)
    with torch.no_grad():
        np.testing.assert_allclose(logits, module(torch.tensor(states)).numpy(), atol=1e-15)
    for seed in range(20):
        draws = np.random.default_rng(seed), np.random.default_rng(seed)
        own = policy.actor(draws[0])(states[0])
        assert own == policy.draw(policy.outputs(states[:1]), [draws[1]])[0]
    result = hr.enforce(policy, [hr.AtLeast(0.9, action=1, where=hr.Points(states[:2]))])
    assert result.satisfied
    assert (policy.probabilities(states[:2])[:, 1] >= 0.9 - 1e-6).all()


@pytest.mark.parametrize(
    "module",
    [*(CHAINS[name]() for name in CHAINS if name != "flattened"), frozen(), tied()],
    ids=lambda module: f"{len(list(module))} layers",
)
def test_a_copy_in_float64_is_the_same_network_and_independent(module: nn.Module) -> None:
    torch.manual_seed(6)
    states = torch.randn(7, 6)
    copied = in_float64(module)
    expected = module(states.clone())
    found = copied(states.double())
    assert found.dtype == torch.float64
    torch.testing.assert_close(found.float(), expected, rtol=1e-5, atol=1e-6)
    ours, theirs = list(copied.parameters()), list(module.parameters())
    assert [p.requires_grad for p in ours] == [p.requires_grad for p in theirs]
    assert all(torch.equal(a, b.double()) for a, b in zip(ours, theirs, strict=True))
    with torch.no_grad():
        for parameter in ours:
            parameter.add_(1.0)
    torch.testing.assert_close(module(states.clone()), expected)
