"""Policies: softmax, precision, sampling, the NumPy path, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.stats import chisquare
from torch import Tensor, nn

import handrail as hr
from handrail.errors import InvalidPolicy
from handrail.policies import ACTIVATIONS
from tests.conftest import small_policy, spaces

STATES = np.random.default_rng(0).normal(size=(7, 3))


def test_probabilities_are_the_softmax_of_the_module() -> None:
    policy = small_policy()
    with torch.no_grad():
        expected = torch.softmax(policy.module(torch.tensor(STATES)), dim=1).numpy()
    np.testing.assert_allclose(policy.probabilities(STATES), expected, rtol=1e-13)
    np.testing.assert_allclose(policy.log_probabilities(STATES), np.log(expected), rtol=1e-12)


def test_one_observation_gives_one_row() -> None:
    policy = small_policy()
    batch = policy.probabilities(STATES)
    np.testing.assert_allclose(policy.probabilities(STATES[2]), batch[2], rtol=1e-13)
    np.testing.assert_allclose(policy.log_probabilities(STATES[2]), np.log(batch[2]), rtol=1e-12)


def test_log_probabilities_survive_saturation() -> None:
    policy = small_policy(sharpness=1e5)
    logs = policy.log_probabilities(STATES)
    assert np.isfinite(logs).all()
    assert logs.min() < -1000.0  # exp would be zero


def test_a_float32_module_is_evaluated_in_float32_and_normalised_in_float64() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 4), hidden=[16], dtype=torch.float32)
    probabilities = policy.probabilities(STATES)
    assert probabilities.dtype == np.float64
    np.testing.assert_allclose(probabilities.sum(axis=1), 1.0, atol=1e-15)


def test_standard_initialisation_with_biases_and_a_seed_of_its_own() -> None:
    before = torch.random.get_rng_state()
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), hidden=[5000], seed=3)
    assert torch.equal(before, torch.random.get_rng_state())
    torch.manual_seed(3)
    expected = nn.Linear(4, 5000, dtype=torch.float64)
    first = next(iter(policy.module.children()))
    assert isinstance(first, nn.Linear)
    assert torch.equal(first.weight, expected.weight)
    assert torch.equal(first.bias, expected.bias)
    assert policy.dtype == torch.float64


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_numpy_path_agrees_with_torch(activation: str, dtype: torch.dtype) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 4), [64, 32], activation, seed=1, dtype=dtype)
    assert policy.layers() is not None
    accuracy = 1e-13 if dtype == torch.float64 else 1e-6
    for state, expected in zip(STATES, policy.probabilities(STATES), strict=True):
        np.testing.assert_allclose(policy.probabilities(state), expected, rtol=accuracy)


def _step_in_place(module: nn.Module) -> None:
    optimiser = torch.optim.SGD(module.parameters(), lr=0.5)
    module(torch.tensor(STATES)).square().sum().backward()
    optimiser.step()


def _write_through_data(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.data.mul_(1.5)


def _swap_data(module: nn.Module) -> None:
    for parameter in module.parameters():
        parameter.data = parameter.data * 1.5


def _swap_parameter(module: nn.Module) -> None:
    first = next(iter(module.children()))
    assert isinstance(first, nn.Linear)
    first.weight = nn.Parameter(first.weight.detach() * 1.5)


def _swap_layer(module: nn.Module) -> None:
    assert isinstance(module, nn.Sequential)
    module[0] = nn.Linear(3, 32, dtype=torch.float64)


def _change_precision(module: nn.Module) -> None:
    _write_through_data(module.float())


def _assign_state(module: nn.Module) -> None:
    state = {name: value * 1.5 for name, value in module.state_dict().items()}
    module.load_state_dict(state, assign=True)


@pytest.mark.parametrize(
    "change",
    [
        _step_in_place,
        _write_through_data,
        _swap_data,
        _swap_parameter,
        _swap_layer,
        _change_precision,
        _assign_state,
    ],
)
def test_numpy_path_stays_in_step_with_the_weights(change: Callable[[nn.Module], None]) -> None:
    policy = small_policy()
    before = policy.probabilities(STATES[0])
    change(policy.module)
    expected = policy.probabilities(STATES[:1])[0]
    assert np.abs(expected - before).max() > 1e-3  # the change is one that matters
    np.testing.assert_allclose(policy.probabilities(STATES[0]), expected, rtol=1e-5)


def test_modules_beyond_plain_mlps_are_left_to_torch() -> None:
    module = nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.Linear(8, 2)).double()
    policy = hr.CategoricalPolicy(module)
    assert policy.layers() is None
    one = policy.probabilities(STATES[0])
    np.testing.assert_allclose(one, policy.probabilities(STATES)[0], rtol=1e-12)


def test_actions_are_drawn_with_the_policy_s_probabilities() -> None:
    policy = small_policy(n_actions=4, sharpness=3.0)
    rng = np.random.default_rng(0)
    counts = np.bincount([policy.act(STATES[0], rng) for _ in range(20_000)], minlength=4)
    expected = policy.probabilities(STATES[0]) * counts.sum()
    assert chisquare(counts, expected).pvalue > 0.001


def test_same_generator_same_actions() -> None:
    policy = small_policy()
    draws = [
        [policy.act(state, rng) for state in np.tile(STATES, (10, 1))]
        for rng in (np.random.default_rng(5), np.random.default_rng(5))
    ]
    assert draws[0] == draws[1]


def test_observations_of_higher_rank_are_flattened() -> None:
    space = (gym.spaces.Box(0.0, 1.0, (2, 3)), gym.spaces.Discrete(2))
    policy = hr.CategoricalPolicy.mlp(space, hidden=[8])
    states = np.random.default_rng(0).random((5, 2, 3))
    assert policy.probabilities(states).shape == (5, 2)
    assert policy.act(states[0], np.random.default_rng(0)) in (0, 1)


def test_environments_and_vector_environments_give_the_sizes() -> None:
    single = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), hidden=[8])
    several = hr.CategoricalPolicy.mlp(gym.make_vec("CartPole-v1", num_envs=2), hidden=[8])
    assert single.probabilities(np.zeros((1, 4))).shape == (1, 2)
    assert several.probabilities(np.zeros((1, 4))).shape == (1, 2)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: hr.CategoricalPolicy("net"), "needs a torch.nn.Module .* but got str"),  # type: ignore[arg-type]
        (
            lambda: hr.CategoricalPolicy(nn.Linear(2, 2).requires_grad_(False)),
            "no trainable parameter",
        ),
        (lambda: hr.CategoricalPolicy.mlp("CartPole-v1"), "Gymnasium environment .* but got str"),
        (lambda: hr.CategoricalPolicy.mlp(gym.make("Pendulum-v1")), "Actions must be Discrete"),
        (
            lambda: hr.CategoricalPolicy.mlp((gym.spaces.Text(3), gym.spaces.Discrete(2))),
            "Observations must be numbers: .* observes Text\\(1, 3",
        ),
        (
            lambda: hr.CategoricalPolicy.mlp((gym.spaces.Box(0, 1, (2,)), gym.spaces.Discrete(1))),
            "at least two actions",
        ),
        (lambda: hr.CategoricalPolicy.mlp((1, 2, 3)), "a pair .* but got 3 items"),
        (
            lambda: hr.CategoricalPolicy.mlp(spaces(2, 2), activation="swish"),
            "Unknown activation 'swish'. Choose one of relu",
        ),
        (lambda: hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=64), r"lists the widths .* \[64\]"),  # type: ignore[arg-type]
        (lambda: hr.CategoricalPolicy.mlp(spaces(2, 2), hidden=[0]), "positive integers.*\\[0\\]"),
    ],
)
def test_refusals(make: Callable[[], object], message: str) -> None:
    with pytest.raises(hr.errors.InvalidPolicy, match=message):
        make()


def test_states_of_the_wrong_size_are_refused_by_name() -> None:
    policy = small_policy(n_observations=3)
    with pytest.raises(hr.errors.ShapeMismatch, match=r"shape \(2,\); it observes 3 values"):
        policy.probabilities(np.zeros((4, 2)))
    with pytest.raises(hr.errors.ShapeMismatch, match=r"shape \(2,\); it observes 3 values"):
        policy.act(np.zeros(2), np.random.default_rng(0))
    with pytest.raises(hr.errors.ShapeMismatch, match="n > 0"):
        policy.logits(np.zeros((0, 3)))


def test_a_module_that_does_not_return_logits_is_refused() -> None:
    policy = hr.CategoricalPolicy(nn.Sequential(nn.Linear(3, 4), nn.Unflatten(1, (2, 2))))
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"expected a tensor of logits \(n, n_actions\)"
    ):
        policy.probabilities(STATES)


class Casting(nn.Module):
    """Insists on float32, as layers that normalise images do."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x.float())  # type: ignore[no-any-return]


class Counting(nn.Module):
    """Remembers how many states it was shown, and answers accordingly."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 2)
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen = self.seen + len(x)
        return self.linear(x) * self.seen  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("make", "buffer"),
    [
        (lambda: nn.utils.spectral_norm(nn.Linear(3, 2)), "weight_u"),
        (lambda: nn.utils.parametrizations.spectral_norm(nn.Linear(3, 2)), "_u"),
        (Counting, "seen"),
    ],
)
def test_a_network_that_remembers_states_is_refused_and_forgets_them(
    make: Callable[[], nn.Module], buffer: str
) -> None:
    torch.manual_seed(0)
    policy = hr.CategoricalPolicy(nn.Sequential(make(), nn.Linear(2, 2)))
    before = {name: value.clone() for name, value in policy.module.state_dict().items()}
    rule = hr.AtLeast(0.9, 0, hr.Points([1.0, 2.0, 3.0]))
    with pytest.raises(
        hr.errors.InvalidPolicy, match=f"changes its buffer '{buffer}' whenever.*eval"
    ):
        hr.enforce(policy, [rule])
    after = policy.module.state_dict()
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    if make is not Counting:
        policy.module.eval()
        assert hr.enforce(policy, [rule]).satisfied


def test_a_float64_copy_where_the_module_allows_it() -> None:
    single = hr.CategoricalPolicy.mlp(spaces(3, 4), hidden=[16], dtype=torch.float32)
    double = single.in_float64(STATES)
    assert double.dtype == torch.float64
    assert single.dtype == torch.float32
    np.testing.assert_allclose(
        double.probabilities(STATES), single.probabilities(STATES), rtol=1e-6
    )
    assert double.in_float64(STATES) is double
    stubborn = hr.CategoricalPolicy(Casting())
    assert stubborn.in_float64(STATES) is stubborn
    hr.enforce(stubborn, [hr.AtLeast(0.9, 0, hr.Points(STATES[0]))]).raise_if_unsatisfied()


def test_a_bare_module_is_refused_with_the_remedy() -> None:
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"got Linear. Wrap .* CategoricalPolicy\(module\)"
    ):
        hr.enforce(nn.Linear(3, 2), [hr.AtLeast(0.9, 0, hr.Points(STATES[0]))])  # type: ignore[arg-type]
    assert repr(small_policy()) == "CategoricalPolicy(Sequential, 227 trainable parameters)"


def test_a_network_that_ends_in_a_softmax_of_its_own_is_refused() -> None:
    inside = nn.Sequential(nn.Linear(4, 2), nn.Sequential(nn.Softmax(dim=-1)))
    with pytest.raises(
        InvalidPolicy, match=r"ends in Softmax, .* takes logits .* Leave that layer"
    ):
        hr.CategoricalPolicy(inside)
