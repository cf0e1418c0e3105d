"""The metric of a policy where no constraint speaks, against dense matrices and divergences."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import handrail as hr
from handrail._minimum_norm import MinimumNorm
from handrail._types import Array
from handrail.constraints import Tolerance, expand
from handrail.enforcement.elsewhere import Anchor, Elsewhere, influence_between
from handrail.enforcement.enforcer import make_enforcer
from handrail.enforcement.iteration import enforce_rows
from handrail.enforcement.linearisation import Linearisation
from handrail.enforcement.program import LeastChange, LeastInfluence
from handrail.enforcement.references import Constrained, References
from handrail.policies import GaussianPolicy, GreedyPolicy, Policy
from handrail.policies.quantity import MEAN, PROBABILITY
from handrail.tangent import Gradient, take_step
from tests.conftest import spaces

STATES = np.random.default_rng(0).normal(size=(9, 3))
POLICIES: dict[str, Policy] = {
    "two actions": hr.CategoricalPolicy.mlp(spaces(3, 2), [7], seed=0),
    "four actions": hr.CategoricalPolicy.mlp(spaces(3, 4), [6, 5], seed=1, activation="tanh"),
    "means": GaussianPolicy(torch.nn.Linear(3, 2, dtype=torch.float64), [0.5, 2.0]),
}


def coordinates(policy: Policy) -> Array:
    """y (n, k) at the reference states."""
    return policy.natural(policy.outputs(STATES))[0]


def jacobian(policy: Policy, values: Any) -> Array:
    """Of a function of the policy (n,) over all weights, by central differences."""
    columns = []
    for number, parameter in enumerate(policy.parameters):
        for index in range(parameter.numel()):
            unit = [torch.zeros_like(one) for one in policy.parameters]
            unit[number][np.unravel_index(index, parameter.shape)] = 1.0
            ends = []
            for sign in (1.0, -1.0):
                take_step(policy, Gradient(tuple(unit)), sign * 1e-6)
                ends.append(np.array(values(policy), dtype=np.float64).ravel())
                take_step(policy, Gradient(tuple(unit)), -sign * 1e-6)
            columns.append((ends[0] - ends[1]) / 2e-6)
    return np.stack(columns, axis=1)


def flat(gradient: Gradient) -> Array:
    result: Array = torch.cat([part.reshape(-1) for part in gradient.parts]).numpy()
    return result


def divergence(before: Array, after: Array, policy: Policy) -> Any:
    """Kullback-Leibler, state by state (n,)."""
    if isinstance(policy, GaussianPolicy):
        return 0.5 * (((after - before) / policy.std) ** 2).sum(axis=1)
    return (before * np.log(before / after)).sum(axis=1)


@pytest.mark.parametrize("name", POLICIES)
def test_a_squared_change_of_the_coordinates_is_twice_the_divergence(name: str) -> None:
    policy = POLICIES[name]
    outputs = policy.outputs(STATES)
    raw = policy.raw(STATES)
    moved = policy.head(raw + 1e-3 * np.random.default_rng(1).normal(size=raw.shape))
    change = policy.natural(moved)[0] - policy.natural(outputs)[0]
    expected = 2.0 * divergence(outputs, moved, policy)
    np.testing.assert_allclose((change**2).sum(axis=1), expected, rtol=5e-3)


@pytest.mark.parametrize("name", POLICIES)
def test_the_kernel_is_that_of_the_coordinates(name: str) -> None:
    policy = POLICIES[name]
    anchor = Anchor(policy, STATES, coordinates=100)
    by_hand = jacobian(policy, coordinates)
    np.testing.assert_allclose(anchor.kernel, by_hand @ by_hand.T, rtol=1e-5, atol=1e-8)
    np.testing.assert_array_equal(anchor.values, coordinates(policy))
    weights = np.random.default_rng(2).normal(size=anchor.values.size)
    np.testing.assert_allclose(
        flat(anchor.direction(weights)), weights @ by_hand, rtol=1e-5, atol=1e-8
    )
    direction = anchor.direction(weights)
    np.testing.assert_allclose(
        anchor.effect(direction), by_hand @ flat(direction), rtol=1e-5, atol=1e-8
    )


def unlike_before(seed: int, knows: bool) -> float:
    """How far the other actions move to each other where one is held down, on average."""
    policy = hr.CategoricalPolicy.mlp(spaces(2, 4), [64], seed=seed, activation="tanh")
    box = hr.Box([0.2, 0.2], [0.5, 0.5])
    expansion = expand([hr.AtMost(0.05, 1, box, name="not to the right")], policy)
    states = np.random.default_rng(0).uniform(-1.0, 1.0, (300, 2))
    outside, inside = states[~box.contains(states)], box.sample(200, np.random.default_rng(1))
    constrained = Constrained(expansion, states) if knows else None
    references = References(outside, "given", constrained=constrained)
    enforcer = make_enforcer(expansion, hr.Everywhere(), policy, Tolerance())
    before = among_others(policy, inside)
    enforcer.hold(policy, Elsewhere(references, 1e-4)).raise_if_unsatisfied()
    assert policy.outputs(inside)[:, 1].max() <= 0.05
    return float(np.abs(among_others(policy, inside) - before).mean())


def among_others(policy: Policy, states: Array) -> Array:
    """Probabilities of the others (n, 3), if it is not action 1."""
    others = policy.outputs(states)[:, [0, 2, 3]]
    result: Array = others / others.sum(axis=1, keepdims=True)
    return result


def test_not_to_the_right_says_nothing_about_the_other_ways() -> None:
    """Left is as good a way not to go to the right as up and down are, but was not asked for."""
    for seed in range(3):
        assert unlike_before(seed, knows=True) < 0.75 * unlike_before(seed, knows=False)


@pytest.mark.parametrize("count", [9, 300])
def test_of_many_references_too_the_metric_stays_that_of_its_weights(count: int) -> None:
    """Of more than fit into a tile, products with rows were those of other weights."""
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), [64], seed=1)
    states = np.random.default_rng(0).normal(size=(count, 3))
    anchor = Anchor(policy, states, coordinates=1000)
    weights = np.random.default_rng(2).normal(size=anchor.size)
    direction = anchor.direction(weights)
    take_step(policy, direction, 0.1)
    np.testing.assert_array_equal(flat(anchor.direction(weights)), flat(direction))
    rows = expand([hr.AtLeast(0.9, 0, hr.Points(states[:4]))], policy).rows()
    model = Linearisation(policy, rows, policy.outputs(rows.states))
    cross = model.cross(np.arange(4), anchor.functionals)
    of_rows = np.stack([flat(model.direction(unit)) for unit in np.eye(4)])
    np.testing.assert_allclose(cross @ weights, of_rows @ flat(direction), rtol=1e-9)


@pytest.mark.parametrize(("reach", "unvisited"), [(1e-3, 32), (0.1, 0)])
def test_what_reaches_far_is_meant_for_what_was_never_visited_too(
    reach: float, unvisited: int
) -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(2, 2), [8], seed=0)
    rng = np.random.default_rng(0)
    visited, space = rng.uniform(0.0, 1.0, (256, 2)), rng.uniform(-1.0, 0.0, (256, 2))
    elsewhere = Elsewhere(References(visited, "given", space), reach)
    rows = expand([hr.AtLeast(0.9, 0, hr.Points([0.5, 0.5]))], policy).rows()
    anchor = elsewhere.anchor(Linearisation(policy, rows, policy.outputs(rows.states)))
    known = set(policy.natural(policy.outputs(space))[0][:, 0].tolist())
    found = anchor.values[:, 0].tolist()
    assert sum(value in known for value in found) == unvisited
    assert len(found) - unvisited == (224 if unvisited else 64)


def test_of_too_many_coordinates_one_stands_for_all_of_a_state() -> None:
    policy = POLICIES["four actions"]
    anchor = Anchor(policy, STATES, coordinates=20)
    every = coordinates(policy)
    chosen = every[np.arange(9), np.arange(9) % 4]
    np.testing.assert_allclose(anchor.values[:, 0], 2.0 * chosen)  # √4
    assert anchor.kernel.shape == (9, 9)


@pytest.mark.parametrize("reach", [0.0, 1e-3, 1.0])
@pytest.mark.parametrize("name", ["two actions", "four actions"])
def test_a_step_of_least_influence_is_the_one_of_the_dense_metric(name: str, reach: float) -> None:
    """Equalities: min Δᵀ M Δ with A Δ = b has Δ = M⁻¹Aᵀ (A M⁻¹Aᵀ)⁻¹ b."""
    policy = POLICIES[name]
    places = np.random.default_rng(3).normal(size=(3, 3))
    rules = [hr.AtLeast(0.9, 0, hr.Points(one), name=f"{i}") for i, one in enumerate(places)]
    rows = expand(rules, policy).rows()
    model = Linearisation(policy, rows, policy.outputs(rows.states))
    anchor = Anchor(policy, STATES, coordinates=100)
    geometry = LeastInfluence(model, anchor, reach)
    ridge = anchor.ridge(reach)
    everything = np.arange(3)
    of_rows = np.stack([flat(model.direction(unit)) for unit in np.eye(3)])
    of_references = np.stack([flat(anchor.direction(unit)) for unit in np.eye(len(anchor.kernel))])
    metric = of_references.T @ of_references + ridge * np.eye(of_rows.shape[1])
    inverse = np.linalg.inv(metric)
    factor = geometry.matrix(everything)
    np.testing.assert_allclose(factor @ factor.T, of_rows @ inverse @ of_rows.T, rtol=1e-4)
    asked = np.array([0.1, -0.2, 0.3])
    multipliers = np.linalg.solve(of_rows @ inverse @ of_rows.T, asked)
    answer = MinimumNorm(np.zeros(3), multipliers, True, 1.0, "by hand")
    step = geometry.direction(geometry.coefficients(everything, answer))
    expected = inverse @ of_rows.T @ multipliers
    assert np.linalg.norm(flat(step) - expected) < 1e-3 * np.linalg.norm(expected)
    np.testing.assert_allclose(model.effect(step), asked, rtol=1e-3)


def test_working_sets_know_what_was_asked_before() -> None:
    policy = POLICIES["two actions"]
    places = np.random.default_rng(4).normal(size=(5, 3))
    rows = expand([hr.AtLeast(0.9, 0, hr.Points(places), name="all")], policy).rows()
    model = Linearisation(policy, rows, policy.outputs(rows.states))
    anchor = Anchor(policy, STATES, coordinates=100)
    grown, whole = LeastInfluence(model, anchor, 0.1), LeastInfluence(model, anchor, 0.1)
    grown.matrix(np.array([1, 3]))
    some, every = grown.matrix(np.arange(5)), whole.matrix(np.arange(5))
    np.testing.assert_allclose(some @ some.T, every @ every.T, rtol=1e-10)


def test_a_large_reach_is_the_shortest_way_of_the_weights() -> None:
    policy = POLICIES["two actions"]
    rows = expand([hr.AtLeast(0.9, 0, hr.Points(STATES[:2]), name="two")], policy).rows()
    model = Linearisation(policy, rows, policy.outputs(rows.states))
    geometry = LeastInfluence(model, Anchor(policy, STATES, 100), 1e6)
    short = LeastChange(model)
    factor, other = geometry.matrix(np.arange(2)), short.matrix(np.arange(2))
    scale = (other @ other.T)[0, 0] / (factor @ factor.T)[0, 0]
    np.testing.assert_allclose(scale * factor @ factor.T, other @ other.T, rtol=1e-4)


def held_along(reach: float) -> tuple[Policy, int]:
    """A policy that had to move by two in log-odds, and the linearisations that took."""
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), [1000], seed=0)
    raw = policy.raw(STATES[:1])[0]
    bound = 1.0 / (1.0 + np.exp(raw[1] - raw[0] - 2.0))
    rows = expand([hr.AtLeast(bound, 0, hr.Points(STATES[:1]))], policy).rows()
    found = enforce_rows(policy, rows, 1e-6, Elsewhere(References(STATES[1:], "given"), reach))
    assert found.satisfied
    return policy, found.iterations


def test_from_a_reach_of_one_on_the_shortest_way_is_taken() -> None:
    """There the weights count more than all references together."""
    shortest, _ = held_along(10.0)
    for reach, is_the_same in ((1.0, True), (0.99, False)):
        outputs = held_along(reach)[0].outputs(STATES)
        assert np.array_equal(outputs, shortest.outputs(STATES)) == is_the_same


def test_what_reaches_far_goes_there_in_larger_steps() -> None:
    """Whose gradients are taken anew each: most of the work."""
    assert held_along(0.1)[1] == 1
    assert held_along(0.09)[1] == 2


def test_what_is_saturated_everywhere_still_has_a_metric() -> None:
    policy = hr.CategoricalPolicy(torch.nn.Linear(3, 2, dtype=torch.float64))
    with torch.no_grad():
        policy.parameters[1].copy_(torch.tensor([2000.0, -2000.0]))
    anchor = Anchor(policy, STATES, 100)
    assert anchor.unit == 1.0
    assert np.isfinite(anchor.damped(anchor.ridge(0.0)).solve(np.ones(9))).all()


def greedy(n_actions: int = 3) -> GreedyPolicy:
    torch.manual_seed(3)
    layers = torch.nn.Linear(3, 16), torch.nn.Tanh(), torch.nn.Linear(16, n_actions)
    return GreedyPolicy(torch.nn.Sequential(*layers).double())


def test_what_preferred_actions_are_worth_is_among_the_coordinates() -> None:
    policy, places = greedy(), np.random.default_rng(5).normal(size=(4, 3))
    rows = expand([hr.Prefer(1, by=0.5, where=hr.Points(places), name="one")], policy).rows()
    worth = Linearisation(policy, rows, policy.outputs(rows.states)).worth(100)
    assert worth is not None
    np.testing.assert_array_equal(worth[0], places)  # once, though over two others
    np.testing.assert_array_equal(worth[1], [[0.0, 3.0, 0.0]] * 4)
    anchor = Anchor(policy, STATES, 9, worth)
    assert anchor.size == 13

    def values(of: Policy) -> Array:
        every = np.sqrt(3.0) * of.outputs(STATES)
        return np.concatenate(
            [every[np.arange(9), np.arange(9) % 3], 3.0 * of.outputs(places)[:, 1]]
        )

    by_hand = jacobian(policy, values)
    np.testing.assert_allclose(anchor.kernel, by_hand @ by_hand.T, rtol=1e-5, atol=1e-8)
    direction = anchor.direction(np.arange(13.0))
    np.testing.assert_allclose(flat(direction), np.arange(13.0) @ by_hand, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(anchor.effect(direction), by_hand @ flat(direction), rtol=1e-5)
    np.testing.assert_array_equal(anchor.values_of(policy), anchor.values)


def test_where_probabilities_are_asked_for_nothing_is_worth_more() -> None:
    policy = POLICIES["two actions"]
    rows = expand([hr.Prefer(1, by=0.5, where=hr.Points(STATES[:2]))], policy).rows()
    assert Linearisation(policy, rows, policy.outputs(rows.states)).worth(100) is None


def test_to_prefer_an_action_the_others_become_worth_less() -> None:
    """Raised values would be learned by all states before, and raised again."""
    policy, places = greedy(), np.random.default_rng(6).normal(size=(3, 3))
    rules = [hr.Prefer(1, by=2.0, where=hr.Points(places), name="one")]
    before = policy.outputs(places)
    held = hr.enforce(policy, rules, references=STATES, reach=1e-3).raise_if_unsatisfied()
    change = policy.outputs(places) - before
    assert np.abs(change[:, 1]).mean() < 0.3
    assert change[:, [0, 2]].max() < -1.7
    assert held.iterations < 6


def test_values_are_moved_far_at_once() -> None:
    """Their units are anybody's: hundreds take no more steps than tenths."""
    policy, places = greedy(), np.random.default_rng(6).normal(size=(3, 3))
    rules = [hr.Prefer(1, by=500.0, where=hr.Points(places), name="one")]
    held = hr.enforce(policy, rules, references=STATES, reach=1e-3).raise_if_unsatisfied()
    assert held.iterations <= 12


# What became of it

PLACES = References(np.array([[0.0, 0.5], [1.0, -0.25]]), "given")


def test_probabilities_before_and_after() -> None:
    before, after = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.88, 0.12], [0.3, 0.7]])
    found = influence_between(PLACES, before, after, PROBABILITY)
    assert (found.states, found.action, found.changed_choices) == (2, 1, 1)
    assert found.largest_change == pytest.approx(0.3)
    assert found.mean_change == pytest.approx(0.16)
    assert (found.mean_before, found.mean_after) == pytest.approx((0.25, 0.41))
    assert (
        found.with_names(["x", "phi"], ["left", "right"])
        == "P(right) 0.25 → 0.41 on average, at most 0.3 at (x = 1, phi = -0.25)"
    )


@pytest.mark.parametrize("rounding", [-1e-12, 1e-12])
def test_rounding_does_not_choose_between_two_that_change_alike(rounding: float) -> None:
    before = np.array([[0.9, 0.1], [0.6, 0.4]])
    after = np.array([[0.9, 0.1], [0.3 + rounding, 0.7]])
    assert influence_between(PLACES, before, after, PROBABILITY).action == 1


def test_mean_actions_before_and_after() -> None:
    before, after = np.array([[1.0, 5.0], [2.0, 5.0]]), np.array([[-1.0, 5.5], [2.0, 5.0]])
    found = influence_between(PLACES, before, after, MEAN)
    assert found.changed_choices is None
    assert (
        found.with_names(["x", "phi"], ["torque", "brake"])
        == "mean torque 1.50 → 0.50 on average, at most 2 at (x = 0, phi = 0.5)"
    )
