"""Exact enforcement: the issue's numbers, precision, failure without a trace."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import SAC
from torch import nn

import handrail as hr
from handrail.constraints import expand, measure_fresh
from handrail.enforcement import iteration as enforce_module
from handrail.enforcement.elsewhere import Elsewhere
from handrail.enforcement.iteration import enforce_rows
from handrail.enforcement.references import references_around
from handrail.errors import SolverFailure
from handrail.sb3 import policy_of
from tests.conftest import sharpen, small_policy, spaces
from tests.support import cartpole

CARTPOLE = gym.make("CartPole-v1")


@pytest.mark.parametrize("seed", range(20))
def test_cartpole_from_random_networks(seed: int) -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[5000], seed=seed)
    enforcement = hr.enforce(policy, cartpole.constraints())
    assert enforcement.satisfied
    assert enforcement.iterations <= 8
    measured = hr.measure(policy, cartpole.constraints())
    assert measured.worst_violation <= 1e-6
    assert enforcement.worst_violation == measured.worst_violation


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "network", [{"hidden": [5000]}, {"hidden": [64, 64], "activation": "tanh"}]
)
def test_networks_and_precisions(network: dict[str, Any], dtype: torch.dtype) -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, **network, seed=5, dtype=dtype)
    enforcement = hr.enforce(policy, cartpole.constraints()).raise_if_unsatisfied()
    assert hr.measure(policy, cartpole.constraints()).worst_violation <= 1e-6
    assert policy.dtype == dtype
    assert enforcement.iterations <= 8


def random_set(rng: np.random.Generator) -> tuple[Any, list[hr.Constraint]]:
    """1-50 constraints of every kind that a random teacher network meets with a little room."""
    n_observations, n_actions = int(rng.integers(2, 13)), int(rng.integers(2, 7))
    n = int(rng.integers(1, 51))
    space = spaces(n_observations, n_actions)
    teacher = hr.CategoricalPolicy.mlp(space, hidden=[64], seed=int(rng.integers(10**9)))
    sharpen(teacher, float(rng.uniform(1.0, 12.0)))
    states = rng.normal(size=(n, n_observations))
    wanted = np.clip(teacher.probabilities(states), 1e-4, 1.0 - 1e-4)
    rules: list[hr.Constraint] = []
    for i in range(n):
        action, where, name = int(rng.integers(n_actions)), hr.Points(states[i]), f"r{i}"
        p = float(wanted[i, action])
        kind = rng.integers(4)
        if kind == 0:
            rules.append(hr.AtLeast(0.98 * p, action, where, name))
        elif kind == 1:
            rules.append(hr.AtMost(min(1.02 * p, 0.99999), action, where, name))
        elif kind == 2:
            rules.append(hr.Equal(p, action, where, name))
        else:
            rules.append(hr.Between(0.95 * p, min(1.05 * p, 0.99999), action, where, name))
    return space, rules


NETWORKS = [{"hidden": [1000]}, {"hidden": [64, 64], "activation": "tanh"}]


def failures_of_sets(n: int, network: dict[str, Any]) -> list[str]:
    """Of n random consistent sets, why those that were not held were not."""
    rng = np.random.default_rng(1)
    failures = []
    for seed in range(n):
        space, rules = random_set(rng)
        policy = hr.CategoricalPolicy.mlp(space, **network, seed=seed)
        enforcement = hr.enforce(policy, rules)
        if enforcement.satisfied:
            assert hr.measure(policy, rules).worst_violation <= 1e-6
        else:
            failures.append(enforcement.reason)
    return failures


@pytest.mark.parametrize("network", NETWORKS)
def test_forty_random_consistent_sets(network: dict[str, Any]) -> None:
    assert failures_of_sets(40, network) == []


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS)
def test_two_hundred_random_consistent_sets(network: dict[str, Any]) -> None:
    failures = failures_of_sets(200, network)
    assert len(failures) <= 1
    assert all(failures)  # each with a reason


def half_planes(n: int, seed: int = 0) -> list[hr.Constraint]:
    """Points on both sides of the switching line 4 φ + φ̇ = 0, with a gap between them."""
    rng = np.random.default_rng(seed)
    states = np.zeros((8 * n, 4))
    states[:, 0] = rng.uniform(-2.4, 2.4, len(states))
    states[:, 2] = rng.uniform(-0.25, 0.25, len(states))
    states[:, 3] = rng.uniform(-2.0, 2.0, len(states))
    side = 4.0 * states[:, 2] + states[:, 3]
    right, left = states[side > 0.5][: n // 2], states[side < -0.5][: n // 2]
    return [
        hr.AtLeast(0.95, cartpole.RIGHT, hr.Points(right), name="right"),
        hr.AtLeast(0.95, cartpole.LEFT, hr.Points(left), name="left"),
    ]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize(
    "network", [{"hidden": [5000]}, {"hidden": [64, 64], "activation": "tanh"}]
)
def test_a_thousand_points(network: dict[str, Any], dtype: torch.dtype) -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, **network, seed=1, dtype=dtype)
    rules = half_planes(1000)
    enforcement = hr.enforce(policy, rules).raise_if_unsatisfied()
    measured = hr.measure(policy, rules)
    assert len(measured) == 1000
    assert measured.worst_violation <= 1e-6
    assert len(enforcement.active) < 100


@pytest.mark.slow
def test_ten_thousand_points() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[5000], seed=1)
    rules = half_planes(10_000)
    hr.enforce(policy, rules).raise_if_unsatisfied()
    assert hr.measure(policy, rules).worst_violation <= 1e-6


@pytest.mark.parametrize("sharpness", [10.0, 100.0, 1000.0])
def test_saturated_networks_can_be_moved(sharpness: float) -> None:
    """Output weights a thousand times too large: probabilities of 1e-300 on the wrong side."""
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[5000], seed=1)
    sharpen(policy, sharpness)
    hr.enforce(policy, cartpole.constraints()).raise_if_unsatisfied()
    assert hr.measure(policy, cartpole.constraints()).worst_violation <= 1e-6


def test_relations_between_states_hold() -> None:
    policy = small_policy(n_actions=3, sharpness=5.0)
    rng = np.random.default_rng(0)
    states = rng.normal(size=(6, 3))
    rules: list[hr.Constraint] = [
        hr.Symmetric(hr.Points(states[:3]), [-1, -1, -1], {0: 2, 2: 0}, name="mirror"),
        hr.Linear([hr.Term(states[3], 0), hr.Term(states[4], 0, -1)], lower=0.2, name="more"),
        hr.AtLeast(0.9, {0: 1, 2: 1}, hr.Points(states[5]), name="either side"),
    ]
    hr.enforce(policy, rules).raise_if_unsatisfied()
    assert hr.measure(policy, rules).worst_violation <= 1e-6
    left = policy.probabilities(states[:3])
    np.testing.assert_allclose(left, policy.probabilities(-states[:3])[:, [2, 1, 0]], atol=3e-6)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("n_actions", [2, 3, 6])
def test_whole_distributions_can_be_prescribed(n_actions: int, dtype: torch.dtype) -> None:
    """Rows that depend on each other, one of them only at the very edge of what is possible."""
    rng = np.random.default_rng(n_actions)
    states = rng.normal(size=(5, 3))
    wanted = rng.dirichlet(np.ones(n_actions), size=5).clip(1e-3)
    wanted /= wanted.sum(axis=1, keepdims=True)
    rules: list[hr.Constraint] = [
        hr.Equal(float(p), action, hr.Points(state), name=f"s{i} a{action}")
        for i, state in enumerate(states[:4])
        for action, p in enumerate(wanted[i])
    ]
    rules += [
        hr.Equal(float(p), a, hr.Points(states[4]), f"e{a}") for a, p in enumerate(wanted[4, :-1])
    ]
    rules.append(hr.AtLeast(float(wanted[4, -1]), n_actions - 1, hr.Points(states[4]), name="edge"))
    policy = hr.CategoricalPolicy.mlp(spaces(3, n_actions), hidden=[256], seed=0, dtype=dtype)
    hr.enforce(policy, rules, tolerance=1e-6).raise_if_unsatisfied()
    np.testing.assert_allclose(policy.probabilities(states), wanted, atol=2e-6)
    assert hr.diagnose(policy, rules).feasible


def test_convolutional_policies_obey() -> None:
    torch.manual_seed(0)
    module = nn.Sequential(
        *(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 32), nn.LayerNorm(32)),
        *(nn.Tanh(), nn.Linear(32, 3)),
    )
    policy = hr.CategoricalPolicy(module)
    images = np.random.default_rng(0).random((10, 1, 8, 8))
    rules = [hr.AtLeast(0.8, 2, hr.Points(images), name="images")]
    hr.enforce(policy, rules).raise_if_unsatisfied()
    assert hr.measure(policy, rules).worst_violation <= 1e-6


def test_bounds_close_to_zero_and_one() -> None:
    policy = small_policy()
    states = np.random.default_rng(0).normal(size=(4, 3))
    rules: list[hr.Constraint] = [
        hr.AtLeast(0.99999, 0, hr.Points(states[0]), name="sure"),
        hr.AtMost(1e-5, 1, hr.Points(states[1]), name="never"),
        hr.Between(0.4999999, 0.5, 2, hr.Points(states[2]), name="narrow"),
        hr.Equal(1e-4, 2, hr.Points(states[3]), name="rare"),
    ]
    hr.enforce(policy, rules, tolerance=1e-7).raise_if_unsatisfied()
    assert hr.measure(policy, rules).worst_violation <= 1e-7


@pytest.mark.parametrize("seed", range(6))
def test_inequalities_end_on_the_right_side(seed: int) -> None:
    """Within the tolerance is enough, but `measure` should not call the result violated."""
    policy = hr.CategoricalPolicy.mlp(
        CARTPOLE, hidden=[64, 64], activation="tanh", seed=seed, dtype=torch.float32
    )
    hr.enforce(policy, cartpole.constraints(), tolerance=1e-4).raise_if_unsatisfied()
    assert hr.measure(policy, cartpole.constraints()).satisfied


def test_frozen_parameters_stay() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[500], seed=0)
    first = next(iter(policy.module.children())).requires_grad_(False)
    before = [p.clone() for p in first.parameters()]
    hr.enforce(policy, cartpole.constraints()).raise_if_unsatisfied()
    assert all(torch.equal(a, b) for a, b in zip(before, first.parameters(), strict=True))


def test_what_is_reported() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[1000], seed=0)
    reference = np.random.default_rng(0).normal(scale=0.1, size=(50, 4))
    weights = [p.detach().clone() for p in policy.parameters]
    probabilities = policy.probabilities(reference)
    enforcement = hr.enforce(policy, cartpole.constraints(), references=reference)
    moved = sum(
        (p.detach() - w).square().sum() for p, w in zip(policy.parameters, weights, strict=True)
    )
    assert enforcement.parameter_change == pytest.approx(float(moved) ** 0.5, rel=1e-12)
    change = np.abs(policy.probabilities(reference) - probabilities).max()
    assert enforcement.influence is not None
    assert enforcement.influence.largest_change == pytest.approx(change, rel=1e-12)
    assert enforcement.reason == ""
    assert len(enforcement.history) == enforcement.iterations > 0
    violations = [step.measured_violation for step in enforcement.history]
    assert violations == sorted(violations, reverse=True)
    assert all(step.predicted_violation <= 1e-6 for step in enforcement.history)


def test_an_obedient_policy_is_not_touched() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[1000], seed=0)
    hr.enforce(policy, cartpole.constraints())
    weights = [p.detach().clone() for p in policy.parameters]
    again = hr.enforce(policy, cartpole.constraints())
    assert again.satisfied
    assert again.iterations == 0
    assert again.parameter_change == 0.0
    assert all(torch.equal(p, w) for p, w in zip(policy.parameters, weights, strict=True))


def unchanged(policy: hr.CategoricalPolicy, weights: list[torch.Tensor]) -> bool:
    return all(torch.equal(p, w) for p, w in zip(policy.parameters, weights, strict=True))


CONTRADICTORY: list[hr.Constraint] = [
    hr.AtLeast(0.9, 0, hr.Points([0.0, 0.0, 0.0]), name="left"),
    hr.AtLeast(0.9, 1, hr.Points([1e-7, 0.0, 0.0]), name="right"),
]


def test_failure_leaves_no_trace_and_has_a_reason() -> None:
    policy = small_policy()
    weights = [p.detach().clone() for p in policy.parameters]
    enforcement = hr.enforce(policy, CONTRADICTORY)
    assert not enforcement.satisfied
    assert unchanged(policy, weights)
    assert "'left' and 'right' ask opposite things 1e-07 apart" in enforcement.reason
    assert "Relax one of them" in enforcement.reason
    assert enforcement.worst_violation == hr.measure(policy, CONTRADICTORY).worst_violation
    with pytest.raises(hr.errors.UnsatisfiedConstraints, match="'left' and 'right'"):
        enforcement.raise_if_unsatisfied()


def test_a_network_without_the_capacity_says_so() -> None:
    """A linear policy cannot alternate along a line; no row contradicts its neighbour."""
    policy = hr.CategoricalPolicy(nn.Linear(1, 2).double())
    rules: list[hr.Constraint] = [
        hr.AtLeast(0.9, i % 2, hr.Points([float(i)]), name=f"p{i}") for i in range(6)
    ]
    weights = [p.detach().clone() for p in policy.parameters]
    enforcement = hr.enforce(policy, rules)
    assert not enforcement.satisfied
    assert unchanged(policy, weights)
    assert "cannot hold together" in enforcement.reason or "ask opposite" in enforcement.reason


def test_running_out_of_iterations_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforce_module, "MAX_ITERATIONS", 1)
    monkeypatch.setattr(enforce_module, "descend", lambda *_: True)  # nowhere
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[1000], seed=0)
    weights = [p.detach().clone() for p in policy.parameters]
    enforcement = hr.enforce(policy, cartpole.constraints(), tolerance=1e-9)
    assert not enforcement.satisfied
    assert unchanged(policy, weights)
    assert "After 1 linearisation the worst violation is" in enforcement.reason
    assert "or rescale the observations so that they vary alike." in enforcement.reason
    monkeypatch.setattr(enforce_module, "_NEARLY", 1e12)
    nearly = hr.enforce(policy, cartpole.constraints(), tolerance=1e-9)
    assert nearly.reason.endswith("relax the constraints, or raise the tolerance.")


def test_an_interruption_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[1000], seed=0)
    weights = [p.detach().clone() for p in policy.parameters]
    taken: list[Any] = []

    def interrupted(policy: hr.CategoricalPolicy, *arguments: Any) -> Any:
        if taken:
            raise KeyboardInterrupt
        taken.append(original(policy, *arguments))
        return taken[-1]

    original = enforce_module._line_search
    monkeypatch.setattr(enforce_module, "_line_search", interrupted)
    with pytest.raises(KeyboardInterrupt):
        hr.enforce(policy, cartpole.constraints(), tolerance=1e-9)
    assert unchanged(policy, weights)


@pytest.mark.parametrize("tolerance", [0.0, -1e-6, float("nan"), float("inf")])
def test_bad_tolerances_are_refused(tolerance: float) -> None:
    with pytest.raises(hr.errors.InvalidArgument, match="must be a finite number above 0"):
        hr.enforce(small_policy(), CONTRADICTORY, tolerance=tolerance)


def test_diverged_weights_are_named() -> None:
    policy = small_policy()
    with torch.no_grad():
        policy.parameters[0][0, 0] = float("nan")
    with pytest.raises(hr.errors.InvalidPolicy, match="not finite"):
        hr.enforce(policy, [hr.AtLeast(0.5, 0, hr.Points(np.ones(3)))])
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"logits are not finite at \[1.0, 1.0, 1.0\]"
    ):
        policy.act(np.ones(3), np.random.default_rng(0))


def test_two_demands_that_nearly_contradict_each_other_are_both_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(enforce_module, "descend", lambda *_: True)  # nowhere
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[64], seed=0)
    rules = [
        hr.AtLeast(0.95, 1, hr.Points([0.2, 0, 0, 0]), "push right"),
        hr.AtLeast(0.95, 0, hr.Points([0.3, 0, 0, 0]), "push left"),
    ]
    reason = hr.enforce(policy, rules).reason
    assert "of 'push left', above the tolerance" in reason
    assert "The nearest that asks the opposite is 'push right', 0.1 away" in reason


def test_states_at_which_a_network_overflows_are_named() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[8], seed=0)
    rules = [
        hr.AtLeast(0.95, 1, hr.Points([0.2, 0, 0, 0]), "here"),
        hr.AtLeast(0.95, 0, hr.Points([1e300, 0, 0, 0]), "beyond"),
    ]
    weights = [p.detach().clone() for p in policy.parameters]
    for verb in (hr.enforce, hr.diagnose):
        with pytest.raises(
            SolverFailure, match=r"at 'beyond' is too large .* its state is 1e\+300"
        ):
            verb(policy, rules)
    assert unchanged(policy, weights)


def test_what_a_proof_cannot_be_about_is_said_to_be_measured() -> None:
    policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[64], seed=0)
    here, there = [0.2, 0, 0, 0], [-0.2, 0, 0, 0]
    relation = hr.Linear([hr.Term(here, 0), hr.Term(there, 0)], lower=1.2, name="both")
    inside = hr.AtLeast(0.6, 1, hr.Box([0.5, 0, 0, 0], [0.6, 0, 0, 0.1]), "box")
    result = hr.enforce(policy, [relation], prove=True)
    assert result.satisfied
    assert not result.proven
    assert result.measured == ("both",)
    assert "Not proven, but measured at each of their states: 'both'." in str(result)
    result = hr.enforce(policy, [relation, inside], prove=True)
    assert result.measured == ("both",)
    assert [one.name for one in result.certificates] == ["box"]
    assert "Not proven" not in str(hr.enforce(policy, [relation]))
    edited = hr.edit(policy, [relation], prove=True)
    assert edited.unchanged
    assert str(edited).endswith(
        "at each of their states: 'both'. " + str(result).split("'both'. ")[1]
    )
    other = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[64], seed=1)
    assert "Not proven, but measured at each" in str(hr.edit(other, [relation, inside], prove=True))
    proving = hr.Everywhere(prove=True)
    agent = hr.Reinforce("CartPole-v1", other, [relation], selection=proving)
    assert agent.first_enforcement is not None
    assert agent.first_enforcement.measured == ("both",)


def test_what_is_almost_there_needs_no_new_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a little above 0.95 to it: where another linearisation would end, too."""
    where = hr.Points([[0.0, 0.0, 0.25, 0.05], [0.3, 0.1, 0.2, 0.5]])
    rules = [hr.AtMost(0.95, 1, where, name="right")]

    def held(policy: hr.CategoricalPolicy) -> hr.Enforcement:
        rows = expand(rules, policy).fixed
        assert rows is not None
        return enforce_rows(policy, rows, 1e-6, Elsewhere(references_around(rules), 0.1))

    states = np.random.default_rng(0).normal(size=(100, 4))
    for seed in range(8):
        policy = hr.CategoricalPolicy.mlp(CARTPOLE, hidden=[64, 64], activation="tanh", seed=seed)
        hr.enforce(policy, [hr.Between(0.951, 0.954, 1, where)]).raise_if_unsatisfied()
        other = policy.with_module(deepcopy(policy.module))
        found = held(policy)
        with monkeypatch.context() as patch:
            patch.setattr(enforce_module, "_LITTLE", 0.0)
            another = held(other)
        assert (found.iterations, another.iterations) == (1, 2)
        assert found.satisfied
        assert found.worst_violation <= 0.0
        np.testing.assert_allclose(policy.outputs(states), other.outputs(states), atol=1e-5)


def top_of_pendulum() -> list[hr.Constraint]:
    """A fallen pole is pushed back: on ReLU units behind a tanh."""
    right = hr.Box([0.9, 0.05, 0.0], [1.0, 0.3, 1.0])
    left = hr.Box([0.9, -0.3, -1.0], [1.0, -0.05, 0.0])
    return [
        hr.AtMost(-1.0, hr.Mean(0), right, name="falls right: push left"),
        hr.AtLeast(1.0, hr.Mean(0), left, name="falls left: push right"),
    ]


def fresh_actor(seed: int) -> hr.Policy:
    return policy_of(
        SAC("MlpPolicy", "Pendulum-v1", policy_kwargs={"net_arch": [64, 64]}, seed=seed)
    )


def test_a_fresh_network_that_linearising_cannot_hold_is_held(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three of 22 fresh actors used to be refused here; this is one of them."""
    rules, selection = top_of_pendulum(), hr.Everywhere(margin=1.0)
    with monkeypatch.context() as patch:
        patch.setattr(enforce_module, "descend", lambda *_: True)  # nowhere
        refused = hr.enforce(fresh_actor(2), rules, selection=selection)
    assert "no further step improves it" in refused.reason
    policy = fresh_actor(2)
    held = hr.enforce(policy, rules, selection=selection).raise_if_unsatisfied()
    assert held.worst_violation <= 0.0
    assert measure_fresh(policy, rules, 10_000, seed=1).worst_violation <= 0.0


def test_what_descending_spoils_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    def spoiled(policy: hr.Policy, _: object) -> bool:
        with torch.no_grad():
            policy.parameters[0].fill_(torch.inf)
        return False

    monkeypatch.setattr(enforce_module, "descend", spoiled)
    policy = fresh_actor(2)
    before = [one.detach().clone() for one in policy.parameters]
    assert not hr.enforce(policy, top_of_pendulum(), selection=hr.Everywhere(margin=1.0)).satisfied
    assert all(map(torch.equal, before, policy.parameters))


def test_what_contradicts_itself_is_not_descended(monkeypatch: pytest.MonkeyPatch) -> None:
    """No way leads there, however small the steps."""

    def never(*_: object) -> bool:
        raise AssertionError

    monkeypatch.setattr(enforce_module, "descend", never)
    policy = small_policy()
    at = hr.Points(np.zeros((1, 3)))
    rules = [hr.AtLeast(0.9, a, at, name=f"all to {a}") for a in range(2)]
    assert not hr.enforce(policy, rules).satisfied
