"""The tangent kernel and the predicted change, against plain autograd and the authors' numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.func import functional_call, jacrev, vmap
from torch.nn import functional

import handrail as hr
from handrail._types import Array
from handrail.tangent import gram_matrix
from handrail.tangent.factors import Factoriser
from tests.conftest import Golden, small_policy, spaces

RNG = np.random.default_rng(0)
FLAT = RNG.normal(size=(5, 3))
IMAGES = RNG.normal(size=(4, 2, 6, 6))


class Tied(nn.Module):
    """Weights used through two doors: a layer called twice, and a weight shared by transposing."""

    def __init__(self) -> None:
        super().__init__()
        self.encode = nn.Linear(3, 8)
        self.mix = nn.Linear(8, 8)
        self.unused = nn.Linear(8, 50)
        self.scale = nn.Parameter(torch.tensor([0.7, 1.1, 0.9]))

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.tanh(self.encode(x))
        hidden = torch.tanh(self.mix(torch.tanh(self.mix(hidden))))
        return functional.linear(hidden, self.encode.weight.T) * self.scale


class PerPosition(nn.Module):
    """A linear layer applied at several positions of each state."""

    def __init__(self) -> None:
        super().__init__()
        self.token = nn.Linear(1, 4)
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.tanh(self.token(x[..., None])).flatten(1))  # type: ignore[no-any-return]


class Guarded(nn.Module):
    """Looks at numbers before it computes with them, which torch.func does not allow."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3))
        self.head = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        assert bool((x * self.scale).isfinite().all())
        return self.head(torch.tanh(x * self.scale))  # type: ignore[no-any-return]


def hooked() -> nn.Sequential:
    """All of its first layer is dead at some states: these say nothing about a closed form."""
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 3))
    module[0].register_forward_hook(lambda _layer, _inputs, output: 2.0 * output - 1.0)
    return module


def frozen_parts() -> nn.Sequential:
    module = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    module[0].requires_grad_(False)
    module[2].weight.requires_grad_(False)
    module[4].bias.requires_grad_(False)
    return module


def batch_norm_in_eval_mode() -> nn.Module:
    module = nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
    module(torch.randn(64, 3))
    return module.eval()


NETWORKS: dict[str, tuple[Callable[[], nn.Module], Array]] = {
    "one hidden layer": (
        lambda: nn.Sequential(nn.Linear(3, 16), nn.ReLU(), nn.Linear(16, 3)),
        FLAT,
    ),
    "three hidden tanh layers": (
        lambda: nn.Sequential(
            *(nn.Linear(3, 9), nn.Tanh(), nn.Linear(9, 7), nn.Tanh()),
            *(nn.Linear(7, 6), nn.Tanh(), nn.Linear(6, 4)),
        ),
        FLAT,
    ),
    "no biases": (
        lambda: nn.Sequential(nn.Linear(3, 9, bias=False), nn.ELU(), nn.Linear(9, 2, bias=False)),
        FLAT,
    ),
    "activation in place": (
        lambda: nn.Sequential(nn.Linear(3, 9), nn.ReLU(inplace=True), nn.Linear(9, 2)),
        FLAT,
    ),
    "layer norm": (
        lambda: nn.Sequential(nn.Linear(3, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)),
        FLAT,
    ),
    "batch norm in eval mode": (batch_norm_in_eval_mode, FLAT),
    "prelu": (lambda: nn.Sequential(nn.Linear(3, 8), nn.PReLU(), nn.Linear(8, 3)), FLAT),
    "prelu of each unit": (
        lambda: nn.Sequential(nn.Linear(3, 4), nn.PReLU(4), nn.Linear(4, 3)),
        FLAT,
    ),
    "a guard": (Guarded, FLAT),
    "a hook on a layer": (hooked, FLAT),
    "convolutions": (
        lambda: nn.Sequential(
            *(nn.Conv2d(2, 3, 3, stride=2, padding=1), nn.ReLU()),
            *(nn.Conv2d(3, 4, 2, dilation=1, bias=False), nn.Tanh()),
            *(nn.Flatten(), nn.Linear(16, 3)),
        ),
        IMAGES,
    ),
    "grouped convolution": (
        lambda: nn.Sequential(
            nn.Conv2d(2, 4, 3, groups=2), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
        ),
        IMAGES,
    ),
    "frozen parts": (frozen_parts, FLAT),
    "tied weights": (Tied, FLAT),
    "linear at several positions": (PerPosition, FLAT),
}


def make_policy(name: str) -> tuple[hr.CategoricalPolicy, Array]:
    torch.manual_seed(0)
    build, states = NETWORKS[name]
    return hr.CategoricalPolicy(build().double()), states


def double_loop(policy: hr.CategoricalPolicy, states: Array, other: Array) -> Array:
    """The oracle: one autograd gradient per state and action, all pairs."""

    def gradients(points: Array) -> Tensor:
        rows = []
        for point in torch.tensor(points):
            probabilities = torch.softmax(policy.module(point[None])[0], dim=0)
            for probability in probabilities:
                parts = torch.autograd.grad(
                    probability, policy.parameters, retain_graph=True, allow_unused=True
                )
                flat = [
                    torch.zeros(p.numel(), dtype=torch.float64) if g is None else g.flatten()
                    for p, g in zip(policy.parameters, parts, strict=True)
                ]
                rows.append(torch.cat(flat))
        return torch.stack(rows)

    kernel: Array = (gradients(states) @ gradients(other).T).numpy()
    n_actions = len(kernel) // len(states)
    return kernel.reshape(len(states), n_actions, len(other), n_actions)


@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_is_exact(name: str) -> None:
    policy, states = make_policy(name)
    expected = double_loop(policy, states, states)
    kernel = hr.tangent.tangent_kernel(policy, states)
    np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_between_different_states_is_exact(name: str) -> None:
    policy, states = make_policy(name)
    expected = double_loop(policy, states[:2], states[2:])
    kernel = hr.tangent.tangent_kernel(policy, states[:2], states[2:])
    np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize("name", ["one hidden layer", "three hidden tanh layers", "layer norm"])
def test_kernel_agrees_with_torch_func(name: str) -> None:
    policy, states = make_policy(name)
    parameters = {n: p.detach() for n, p in policy.module.named_parameters()}

    def probabilities(theta: dict[str, Tensor], state: Tensor) -> Tensor:
        return torch.softmax(functional_call(policy.module, theta, (state[None],))[0], dim=0)

    jacobian = vmap(jacrev(probabilities), in_dims=(None, 0))(parameters, torch.tensor(states))
    rows = torch.cat([j.flatten(2) for j in jacobian.values()], dim=2)
    expected = torch.einsum("iap,jbp->iajb", rows, rows).numpy()
    kernel = hr.tangent.tangent_kernel(policy, states)
    np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("name", "closed_forms", "remaining"),
    [
        ("three hidden tanh layers", 4, 0),
        ("convolutions", 3, 0),
        ("layer norm", 2, 2),
        ("grouped convolution", 1, 2),
        ("prelu", 2, 1),
        ("a hook on a layer", 1, 2),
        ("frozen parts", 2, 0),
        ("tied weights", 0, 5),
        ("linear at several positions", 2, 0),
    ],
)
def test_the_fast_path_is_taken_exactly_where_it_is_right(
    name: str, closed_forms: int, remaining: int
) -> None:
    policy, states = make_policy(name)
    factoriser = Factoriser(policy.module, torch.tensor(states))
    assert len(factoriser._layers) == closed_forms
    assert len(factoriser._rest) == remaining


def test_the_paper_s_block_layout(golden: Golden) -> None:
    kernel = hr.tangent.tangent_kernel(golden.policy, golden["kernel_states"], flat=True)
    expected = golden["kernel"]
    np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-10 * np.abs(expected).max())
    blocks = hr.tangent.tangent_kernel(golden.policy, golden["kernel_states"])
    n_actions = blocks.shape[1]
    np.testing.assert_array_equal(kernel[:n_actions, n_actions : 2 * n_actions], blocks[0, :, 1, :])


@settings(max_examples=50, deadline=None)
@given(
    n=st.integers(1, 12),
    n_observations=st.integers(1, 5),
    n_actions=st.integers(2, 5),
    sharpness=st.floats(0.1, 30.0),
    seed=st.integers(0, 1000),
)
def test_kernel_is_symmetric_and_positive_semidefinite(
    n: int, n_observations: int, n_actions: int, sharpness: float, seed: int
) -> None:
    policy = small_policy(n_observations, n_actions, seed, sharpness)
    states = np.random.default_rng(seed).normal(size=(n, n_observations))
    kernel = hr.tangent.tangent_kernel(policy, states, flat=True)
    scale = np.abs(kernel).max()
    np.testing.assert_allclose(kernel, kernel.T, rtol=0, atol=1e-12 * scale)
    assert np.linalg.eigvalsh(kernel).min() >= -1e-10 * scale


def test_blocks_and_tiles_make_no_difference(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = small_policy()
    states = RNG.normal(size=(23, 3))
    whole = hr.tangent.tangent_kernel(policy, states)
    between = hr.tangent.tangent_kernel(policy, states[:9], states)
    monkeypatch.setattr(gram_matrix, "TILE", 4)
    monkeypatch.setattr(gram_matrix, "BLOCK_BYTES", 1)
    assert len(gram_matrix.Functionals(policy, states, np.ones((23, 1, 3))).blocks()) == 6
    np.testing.assert_allclose(
        hr.tangent.tangent_kernel(policy, states), whole, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(
        hr.tangent.tangent_kernel(policy, states[:9], states), between, rtol=1e-12, atol=1e-15
    )


def test_a_float32_network_has_a_float64_kernel() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[32], dtype=torch.float32)
    double = hr.CategoricalPolicy.mlp(spaces(3, 3), hidden=[32])
    double.module.load_state_dict(policy.module.state_dict())
    kernel, expected = (
        hr.tangent.tangent_kernel(policy, FLAT),
        hr.tangent.tangent_kernel(double, FLAT),
    )
    assert kernel.dtype == np.float64
    np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_what_is_dead_at_some_states_is_not_taken_for_a_closed_form_there() -> None:
    torch.manual_seed(0)
    policy = hr.CategoricalPolicy(hooked().double())
    with torch.no_grad():
        policy.module[0].bias.sub_(2.0)  # type: ignore[index]
    dead, alive = np.zeros((2, 3)), 20.0 * FLAT[:3]
    for states, other in ((dead, alive), (alive, dead)):
        expected = double_loop(policy, states, other)
        kernel = hr.tangent.tangent_kernel(policy, states, other)
        np.testing.assert_allclose(kernel, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        (nn.BatchNorm1d(8), "BatchNorm1d '1' mixes the states of a batch.*eval"),
        (nn.Dropout(0.5), "Dropout '1' is random in training mode.*eval"),
    ],
)
def test_layers_without_a_policy_per_state_are_refused(layer: nn.Module, message: str) -> None:
    policy = hr.CategoricalPolicy(
        nn.Sequential(nn.Linear(3, 8), layer, nn.ReLU(), nn.Linear(8, 2)).double()
    )
    with pytest.raises(hr.errors.InvalidPolicy, match=message):
        hr.tangent.tangent_kernel(policy, FLAT)
    with pytest.raises(hr.errors.InvalidPolicy, match=message):
        hr.enforce(policy, [hr.AtLeast(0.9, 0, hr.Points(FLAT[0]))])


def kernel_prediction(golden: Golden, states: Array) -> Array:
    """Theorems 2 and 3 as the paper writes them: ϑ(s, s_e) Π^I G, with the explicit kernel."""
    policy, batch_states = golden.policy, golden["states"]
    probabilities = policy.probabilities(batch_states)
    returns = np.zeros_like(probabilities)
    actions = golden["actions"].astype(int)
    returns[np.arange(len(actions)), actions] = golden["normalised_returns"]
    kernel = hr.tangent.tangent_kernel(policy, states, batch_states, flat=True)
    change = golden.step_size * kernel @ (returns / probabilities).ravel()
    return change.reshape(len(states), -1)


def test_predicted_change_at_the_batch_and_anywhere_else(golden: Golden) -> None:
    for states in (golden["states"], golden["constrained_states"]):
        predicted = hr.predict_change(golden.policy, golden.batch, states, golden.step_size)
        np.testing.assert_allclose(predicted, kernel_prediction(golden, states), atol=1e-14)


def test_theorem_1_and_the_batch_average(golden: Golden) -> None:
    """One kernel entry per pair of batch state-actions, and E Θ Π^I G / n_B of the remark."""
    states, actions = golden["states"], golden["actions"].astype(int)
    n = len(states)
    predicted = hr.predict_change(golden.policy, golden.batch, states, golden.step_size)
    kernel = hr.tangent.tangent_kernel(golden.policy, states)
    picked = kernel[np.arange(n)[:, None], actions[:, None], np.arange(n)[None], actions[None]]
    taken = golden.policy.probabilities(states)[np.arange(n), actions]
    theorem_1 = golden.step_size * picked @ (golden["normalised_returns"] / taken)
    np.testing.assert_allclose(predicted[np.arange(n), actions], theorem_1, atol=1e-14)

    n_actions = predicted.shape[1]
    sum_channels = np.tile(np.eye(n_actions), n)  # the paper's E
    average = sum_channels @ kernel_prediction(golden, states).ravel() / n
    np.testing.assert_allclose(predicted.mean(axis=0), average, atol=1e-14)


def test_the_same_batch_over_and_over_is_a_nonlinear_differential_equation() -> None:
    """The remark on theorem 1: ẋ = β/x, whose solutions are x² = x₀² + 2βτ."""
    policy = small_policy(3, 2)
    state, action, g, step_size = FLAT[:1], 0, 2.0, 1e-5
    batch = hr.Batch(state, [action], [g])
    for _ in range(20):
        x = policy.probabilities(state)[0, action]
        kernel = hr.tangent.tangent_kernel(policy, state)[0, action, 0, action]
        beta = kernel * g
        predicted = hr.predict_change(policy, batch, state, step_size)[0, action]
        assert predicted == pytest.approx(step_size * beta / x, rel=1e-9)
        hr.tangent.take_step(policy, hr.tangent.policy_gradient(policy, batch).direction, step_size)
        grown = policy.probabilities(state)[0, action] ** 2 - x**2
        assert grown == pytest.approx(2.0 * beta * step_size, rel=1e-3)


@pytest.mark.parametrize(("n_actions", "symmetric"), [(2, True), (3, False)])
def test_blocks_between_two_states_are_symmetric_for_two_actions_only(
    n_actions: int, symmetric: bool
) -> None:
    """docs/explanation/paper.md, note 21; what is symmetric is the kernel as a whole."""
    policy = small_policy(3, n_actions, sharpness=3.0)
    kernel = hr.tangent.tangent_kernel(policy, FLAT)
    size = np.abs(kernel).max()
    between, within = kernel[0, :, 1, :], kernel[0, :, 0, :]
    assert (np.abs(between - between.T).max() < 1e-12 * size) == symmetric
    np.testing.assert_allclose(within, within.T, rtol=0, atol=1e-12 * size)
    np.testing.assert_allclose(between, kernel[1, :, 0, :].T, rtol=0, atol=1e-12 * size)


def test_prediction_error_is_second_order_in_the_step_size() -> None:
    policy = small_policy(sharpness=3.0)
    batch = hr.Batch(FLAT, [0, 1, 2, 0, 1], [1.0, -0.5, 2.0, 0.3, -1.0])
    errors = []
    for step_size in (1e-3, 1e-4):
        predicted = hr.predict_change(policy, batch, FLAT, step_size)
        moved = small_policy(sharpness=3.0)
        loss = torch.log_softmax(moved.module(torch.tensor(FLAT)), dim=1)
        weighted = loss[torch.arange(5), torch.tensor([0, 1, 2, 0, 1])] @ torch.tensor(
            np.asarray(batch.returns)
        )
        weighted.backward()
        with torch.no_grad():
            for parameter in moved.parameters:
                assert parameter.grad is not None
                parameter.add_(parameter.grad, alpha=step_size)
        actual = moved.probabilities(FLAT) - policy.probabilities(FLAT)
        errors.append(np.abs(predicted - actual).max())
    assert errors[1] < 0.02 * errors[0]  # 0.01 to second order


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((np.zeros((0, 3)), [], []), "n > 0"),
        ((FLAT, [0, 1], np.ones(5)), r"5 states, but actions \(2,\)"),
        ((FLAT, [0] * 5, np.ones(4)), r"returns \(4,\)"),
        ((FLAT, [0.5] * 5, np.ones(5)), "Actions must be indices"),
        ((FLAT, [0, 0, 0, 0, -1], np.ones(5)), "Actions must be indices .* from -1"),
        (
            (np.full((5, 3), np.nan), [0] * 5, np.ones(5)),
            "states of a batch are not finite at step 0",
        ),
        ((FLAT, [0] * 5, [1, 1, np.inf, 1, 1]), "returns of a batch are not finite at step 2"),
    ],
)
def test_bad_batches_are_refused(arguments: tuple[Any, Any, Any], message: str) -> None:
    with pytest.raises(hr.errors.InvalidBatch, match=message):
        hr.Batch(*arguments)


def test_a_batch_with_an_unknown_action_is_refused() -> None:
    batch = hr.Batch(FLAT, [0, 0, 0, 0, 3], np.ones(5))
    with pytest.raises(
        hr.errors.ShapeMismatch, match="takes action 3, but the policy has 3 actions"
    ):
        hr.predict_change(small_policy(), batch, FLAT, 0.1)
    narrow = hr.Batch(FLAT[:, :2], [0] * 5, np.ones(5))
    with pytest.raises(hr.errors.ShapeMismatch, match=r"shape \(2,\); it observes 3 values"):
        hr.predict_change(small_policy(), narrow, FLAT, 0.1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_gradients_are_summed_from_kept_factors_of_the_weights_as_they_were(
    dtype: torch.dtype,
) -> None:
    """In float64 whatever the network computes in, against autograd of a copy in float64."""
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[8, 6], seed=0, dtype=dtype)
    weights, wanted = RNG.normal(size=(5, 2, 2)), RNG.normal(size=(5, 2))
    exact = policy.in_float64(FLAT)
    raw = exact.module(torch.tensor(FLAT))
    summed = (torch.tensor(np.einsum("nr,nra->na", wanted, weights)) * raw).sum()
    expected = torch.autograd.grad(summed, tuple(exact.parameters))
    functionals = gram_matrix.Functionals(policy, FLAT, weights)
    functionals.keep()
    with torch.no_grad():
        policy.parameters[0].add_(1.0)
    for part, other in zip(functionals.combined(wanted).parts, expected, strict=True):
        torch.testing.assert_close(part, other, rtol=1e-12, atol=1e-12)
