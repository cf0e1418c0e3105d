"""Proofs about two networks at once: another policy, or the same one at the mirrored state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from scipy.optimize import brentq
from scipy.special import expit, logit, softmax
from stable_baselines3 import PPO
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.constraints import CloseTo, Difference, Paired
from handrail.errors import InvalidCertificate
from handrail.policies import ACTIVATIONS, MEAN, PROBABILITY, TwinNetwork, joined
from handrail.proof import provable_layers, verify_certificates, write_certificates
from handrail.proof.margin import log_sum_exp
from handrail.proof.pair import GapMargin, difference_margins
from handrail.proof.relaxation import Relaxation
from handrail.regions.cells import Cells
from handrail.sb3 import Handrail, policy_of
from tests.proof.test_certificate import KINDS, WIDTHS, boxes_and_others, planted

SPACE = gym.spaces.Box(-2.0, 2.0, (2,))
BOX = hr.Box([-1.0, -0.5], [1.0, 0.5])
NEGATIVE: dict[int, Any] = {0: hr.Mean({0: -1.0})}
EXCHANGED = {0: 1, 1: 0}


def gaussian(seed: int, hidden: list[int], activation: str = "tanh", n: int = 1) -> hr.Policy:
    actions = gym.spaces.Box(-1.0, 1.0, (n,))
    return hr.GaussianPolicy.mlp((SPACE, actions), hidden, activation, seed=seed)


def categorical(seed: int, hidden: list[int], activation: str = "relu", n: int = 3) -> hr.Policy:
    return hr.CategoricalPolicy.mlp((SPACE, gym.spaces.Discrete(n)), hidden, activation, seed=seed)


def with_fixed_layers(seed: int, hidden: list[int], **given: Any) -> hr.Policy:
    """A network with layers that are not learned, away from where it begins."""
    actions = gym.spaces.Box(-1.0, 1.0, (1,))
    policy = hr.GaussianPolicy.mlp((SPACE, actions), hidden, "tanh", seed=seed, **given)
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for one in policy.parameters:
            one.add_(torch.as_tensor(0.2 * rng.normal(size=tuple(one.shape))))
    return policy


def network(*layers: tuple[Array, Array]) -> nn.Sequential:
    """With these weights and biases, and ReLU between them."""
    modules: list[nn.Module] = []
    for weight, bias in layers:
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.as_tensor(weight))
            layer.bias.copy_(torch.as_tensor(bias))
        modules += [layer, nn.ReLU()]
    return nn.Sequential(*modules[:-1])


def grid(n: int = 201) -> Array:
    low, high = BOX.bounds
    axes = [np.linspace(*ends, n) for ends in zip(low, high, strict=True)]
    return np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)


# --- the margin of a difference of probabilities, against what it is made of ---------------------

LARGEST = (0.0, 1e-6, 0.05, 0.4, 0.9)


def gaps(margin: GapMargin, raw: Array) -> Array:
    """Of the first over the second, with the sign."""
    n = margin.n_actions
    p = softmax(raw[:, :n], axis=1)[:, margin.action]
    q = softmax(raw[:, n:], axis=1)[:, margin.other]
    result: Array = margin.sign * (p - q)
    return result


def logits(n_actions: int, scale: float, n: int = 2000) -> Array:
    return scale * np.random.default_rng(0).normal(size=(n, 2 * n_actions))


@pytest.mark.parametrize("largest", LARGEST)
@pytest.mark.parametrize(("n_actions", "sign", "scale"), [(2, 1, 1), (3, -1, 4), (5, 1, 20)])
def test_its_sign_says_whether_it_holds(
    largest: float, n_actions: int, sign: float, scale: float
) -> None:
    margin = GapMargin(0, n_actions - 1, n_actions, largest, float(sign))
    raw = logits(n_actions, scale)
    values, found = margin.of_raw(raw, raw), gaps(margin, raw)
    assert (found[values > 1e-9] <= largest + 1e-12).all()
    assert (found[values < -1e-9] >= largest - 1e-12).all()


@pytest.mark.parametrize("largest", LARGEST[1:])
def test_twice_it_is_how_far_both_log_odds_may_move(largest: float) -> None:
    margin = GapMargin(1, 1, 2, largest, 1.0)
    for raw in logits(2, 2.0, 30):
        x, y = raw[1] - raw[0], raw[3] - raw[2]
        m = 2.0 * margin.of_raw(raw[None], raw[None])[0]
        root = brentq(lambda t, x=x, y=y: expit(x + t) - expit(y - t) - largest, -40.0, 40.0)
        assert m == pytest.approx(root, abs=1e-8)


@pytest.mark.parametrize("largest", LARGEST)
@pytest.mark.parametrize(("n_actions", "sign", "scale"), [(2, 1, 1), (3, -1, 4), (5, 1, 3)])
def test_tangents_are_below_it_and_touch_it(
    largest: float, n_actions: int, sign: float, scale: float
) -> None:
    margin = GapMargin(0, n_actions - 1, n_actions, largest, float(sign))
    raw = logits(n_actions, scale, 500)
    values = margin.of_raw(raw, raw)
    for at in range(20):
        rows, constants = margin.differences(raw[at])
        assert np.abs(rows).sum(axis=1).max() <= 2.0 + 1e-12  # what rounding counts on
        below = -log_sum_exp(raw @ rows.T + constants)
        assert (below <= values + 1e-9).all()
        assert below[at] == pytest.approx(values[at], abs=1e-7)


@pytest.mark.parametrize("largest", LARGEST[1:])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_slack_is_the_least_there_is(largest: float, sign: float) -> None:
    """Where one of them is almost 0 or 1; and nowhere less."""
    margin = GapMargin(0, 0, 2, largest, sign)
    raw = logits(2, 4.0)
    values, found = margin.of_raw(raw, raw), gaps(margin, raw)
    for value, gap in zip(values, found, strict=True):
        if value > 0.0:
            assert largest - gap >= margin.slack(value) - 1e-12
            assert abs(margin.worst_value(value)) >= gap - 1e-12
    step = 0.3
    extreme = expit(logit(largest) - 2.0 * step)  # q = 0, p as far from the bound as allowed
    assert margin.slack(step) == pytest.approx(largest - extreme, rel=1e-9)
    assert np.isnan(margin.slack(-0.1))
    assert margin.worst_value(step) * sign == pytest.approx(extreme, rel=1e-9)


@pytest.mark.parametrize("largest", LARGEST[1:])
def test_a_violation_is_never_larger_than_its_margin_says(largest: float) -> None:
    margin = GapMargin(0, 0, 3, largest, 1.0)
    raw = logits(3, 3.0)
    values, found = margin.of_raw(raw, raw), gaps(margin, raw)
    assert (values < 0.0).any()
    for value, gap in zip(values, found, strict=True):
        assert gap - largest <= margin.violation(value) + 1e-12


def test_probabilities_are_never_one_apart() -> None:
    assert not GapMargin(0, 0, 2, 1.0, 1.0).can_break
    assert GapMargin(0, 0, 2, 0.99, 1.0).can_break


# --- closed forms, and brute force ---------------------------------------------------------------


def test_of_two_linear_networks_the_largest_difference_is_exact() -> None:
    """(K - L) s is largest at a corner of the box."""
    rng = np.random.default_rng(0)
    old, new = gaussian(0, []), gaussian(1, [])
    gain = rng.normal(size=(2, 1, 2))
    for policy, one in zip((old, new), gain, strict=True):
        with torch.no_grad():
            policy.module[0].weight.copy_(torch.as_tensor(one))  # type: ignore[index]
            policy.module[0].bias.zero_()  # type: ignore[index]
    largest = float(np.abs(gain[1] - gain[0])[0] @ [1.0, 0.5])
    answer = hr.certify(new, hr.within(old, largest + 1e-9, BOX))[0]
    assert answer.certified
    assert answer.cells == 2  # the box itself, for each of the two bounds
    assert answer.highest == pytest.approx(largest, abs=1e-9)
    assert answer.lowest == pytest.approx(-largest, abs=1e-9)
    assert hr.certify(new, hr.within(old, largest - 1e-9, BOX))[0].status == "counterexample"


PAIRS = [
    (gaussian(0, [30], "relu"), gaussian(1, [20], "relu")),
    (gaussian(0, [8, 8]), gaussian(1, [8, 8])),
    (gaussian(0, [8, 8], "gelu", 2), gaussian(1, [12], "relu", 2)),  # other depth, activation
    (categorical(0, [30], n=2), categorical(1, [30], n=2)),
    (categorical(0, [8, 8], "tanh"), categorical(1, [8, 8], "tanh")),
    (categorical(0, [20], "relu"), categorical(1, [], "relu")),
    # beside controllers, of different depth; scaled, and bounded
    (
        with_fixed_layers(0, [6, 6], residual=[[0.5, -1.0]]),
        with_fixed_layers(1, [8], residual=[[-0.5, 0.4]]),
    ),
    (with_fixed_layers(2, [8], bounded="tanh"), with_fixed_layers(3, [6, 6], scale="auto")),
    (
        gaussian(0, [12], "relu"),
        with_fixed_layers(4, [8], scale="auto", bounded="tanh", residual=[[0.3, 0.3]]),
    ),
]


@pytest.mark.parametrize(("new", "old"), PAIRS, ids=str)
def test_just_above_the_difference_is_proven_and_just_below_is_not(
    new: hr.Policy, old: hr.Policy
) -> None:
    states = grid()
    gap = new.outputs(states) - old.outputs(states)
    for rule in hr.within(old, 0.3, BOX):
        assert isinstance(rule, CloseTo)
        largest = float(np.abs(gap[:, rule.action]).max())
        above = hr.certify(new, CloseTo(old, 1.05 * largest + 1e-3, rule.action, BOX))
        assert above.certified, above
        assert above.highest is not None
        assert above.lowest is not None
        assert above.highest >= gap[:, rule.action].max()
        assert above.lowest <= gap[:, rule.action].min()
        below = hr.certify(new, CloseTo(old, 0.95 * largest, rule.action, BOX))
        assert below.status == "counterexample"
        state = np.array(below.state)[None]
        there = np.abs(new.outputs(state) - old.outputs(state))[0, rule.action]
        assert below.violation == pytest.approx(there - 0.95 * largest, abs=1e-12)


SYMMETRIES: list[tuple[hr.Policy, Any, Any]] = [
    (gaussian(0, [30], "relu"), [-1, -1], NEGATIVE),
    (gaussian(0, [8, 8]), [-1, 1], {0: hr.Mean(0)}),
    (gaussian(1, [8], "tanh", 2), [[0, 1], [1, 0]], {0: hr.Mean(1), 1: hr.Mean({0: -1.0})}),
    (gaussian(1, [8], "tanh"), [[0.6, 0.8], [-0.8, 0.6]], {0: hr.Mean({0: 0.5})}),
    (categorical(0, [30], n=2), [-1, -1], EXCHANGED),
    (categorical(0, [8, 8], "tanh"), [1, -1], {0: 2, 2: 0}),
]


@pytest.mark.parametrize(("policy", "mirror", "swap"), SYMMETRIES)
def test_an_asymmetry_is_measured_from_both_sides(
    policy: hr.Policy, mirror: Any, swap: Any
) -> None:
    matrix = np.asarray(mirror, dtype=float)
    matrix = np.diag(matrix) if matrix.ndim == 1 else matrix
    states = grid()
    here, there = policy.outputs(states), policy.outputs(states @ matrix.T)
    columns = []
    for action in range(here.shape[1]):
        image = swap.get(action, action)
        weights: Any = image.dimension if isinstance(image, hr.Mean) else image
        weights = weights if isinstance(weights, dict) else {weights: 1.0}
        columns.append(here[:, action] - sum(w * there[:, k] for k, w in weights.items()))
    largest = float(np.abs(columns).max())
    above = hr.certify(policy, hr.Symmetric(BOX, mirror, swap, within=1.05 * largest + 1e-3))
    assert above.certified, above
    assert above.highest is not None
    assert above.lowest is not None
    assert max(above.highest, -above.lowest) >= largest
    below = hr.certify(policy, hr.Symmetric(BOX, mirror, swap, within=0.95 * largest))
    assert below.status == "counterexample"
    assert below.violation is not None
    assert 0.0 < below.violation <= 0.06 * largest


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("moved", [1e-3, 0.3])
def test_bounds_of_networks_of_the_same_layers_are_below_the_margin(
    activation: str, moved: float
) -> None:
    rng = np.random.default_rng(0)
    for means in (True, False):
        make = gaussian if means else categorical
        old, new = (provable_layers(make(0, [6, 6], activation)) for _ in range(2))
        new = replace(
            new,
            weights=tuple(w + moved * rng.normal(size=w.shape) for w in new.weights),
            biases=tuple(b + moved * rng.normal(size=b.shape) for b in new.biases),
        )
        twin, both = TwinNetwork.of(new, old), joined(new, old)
        assert twin is not None
        low = rng.normal(size=(20, 2))
        cells = Cells.boxes(low, low + 10.0 ** rng.uniform(-2.0, 0.5, size=(20, 1)))
        one = np.eye(new.n_outputs)[0]
        quantity = MEAN if means else PROBABILITY
        for margin in difference_margins(quantity, Difference(one, one), 0.1):
            lowest = Relaxation(twin.layers, margin).bounds(cells).lowest
            for share in rng.random((60, 20, 2)):
                states = cells.low + share * (cells.high - cells.low)
                found = margin.of_raw(both.outputs(states), states)
                assert (lowest <= found + 1e-9).all()


def test_what_did_not_change_is_proven_at_once() -> None:
    """No unit differs, so nothing is lost around any of them."""
    policy = gaussian(0, [30, 30], "relu")
    answer = hr.certify(policy, hr.within(policy, 1e-9, BOX))[0]
    assert answer.certified
    assert answer.cells == 2


def test_a_small_change_takes_few_cells() -> None:
    """Side by side these took 3,472: what bounding each unit for itself costs."""
    spaces = (gym.spaces.Box(-2, 2, (4,)), gym.spaces.Box(-1, 1, (1,)))
    old, new = (hr.GaussianPolicy.mlp(spaces, [64, 64], "tanh", seed=0) for _ in range(2))
    noise = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in new.parameters:
            size = 0.01 * one.abs().mean()
            one.add_(size * torch.randn(one.shape, generator=noise, dtype=one.dtype))
    box = hr.Box([-0.5] * 4, [0.5] * 4)
    states = box.sample(5000, np.random.default_rng(0))
    largest = float(np.abs(new.outputs(states) - old.outputs(states)).max())
    answer = hr.certify(new, hr.within(old, 3.0 * largest, box))[0]
    assert answer.certified
    assert answer.cells < 100


def test_a_symmetric_network_is_proven_to_be_so() -> None:
    """Odd: no bias, and tanh."""
    policy = gaussian(0, [16, 16])
    with torch.no_grad():
        for layer in policy.module.modules():
            if isinstance(layer, nn.Linear):
                layer.bias.zero_()
    small = hr.Box([0.3, 0.1], [0.5, 0.2])
    answer = hr.certify(policy, hr.Symmetric(small, [-1, -1], NEGATIVE, within=0.02))
    assert answer.certified


# --- points, precision, obstacles ----------------------------------------------------------------


def test_points_are_evaluated() -> None:
    old, new = gaussian(0, [8]), gaussian(1, [8])
    states = hr.Points(grid(5))
    gap = float(np.abs(new.outputs(states.states) - old.outputs(states.states)).max())
    (close,) = hr.certify(new, hr.within(old, gap + 1e-9, states))
    assert (close.status, close.method) == ("certified", "evaluation")
    (far,) = hr.certify(new, hr.within(old, gap - 1e-9, states))
    assert far.status == "counterexample"
    (allowed,) = hr.certify(new, hr.within(old, gap - 1e-9, states), tolerance=1e-6)
    assert allowed.certified


@pytest.mark.parametrize("which", ["new", "old"])
def test_the_less_exact_of_two_precisions_counts(which: str) -> None:
    """Identical networks differ by nothing in float64; as one acts in float32, by its rounding."""
    policy, single = gaussian(0, [8]), gaussian(0, [8])
    single.module.to(torch.float32)
    new, old = (single, policy) if which == "new" else (policy, single)
    where = hr.Points([[0.5, 0.25]])
    assert hr.certify(policy, hr.within(policy, 1e-9, where)).certified
    answer = hr.certify(new, hr.within(old, 1e-6, where))[0]
    assert answer.status == "unknown"
    assert "too near to its bound for float32" in answer.reason
    assert hr.certify(new, hr.within(old, 1e-4, where)).certified


def test_a_network_that_cannot_be_looked_into_is_told() -> None:
    odd = hr.GaussianPolicy(
        nn.Sequential(nn.Linear(2, 4), nn.LayerNorm(4), nn.Linear(4, 1)).double(), 0.1
    )
    new = gaussian(0, [8])
    rules = hr.within(odd, 0.5, BOX)
    (answer,) = hr.certify(new, rules)
    assert answer.status == "unknown"
    assert answer.reason.startswith("the policy that it is compared with: layer '1', LayerNorm(")
    hr.enforce(new, rules).raise_if_unsatisfied()  # held where it is searched
    states = BOX.sample(5000, np.random.default_rng(0))
    assert np.abs(new.outputs(states) - odd.outputs(states)).max() <= 0.5


# --- held, saved, edited -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "rules"),
    [
        (gaussian(1, [40], "tanh"), hr.within(gaussian(0, [12, 12]), 0.1, BOX)),
        (categorical(1, [60]), hr.within(categorical(0, [20], "tanh"), 0.05, BOX)),
        (gaussian(1, [40], "tanh"), [hr.Symmetric(BOX, [-1, -1], NEGATIVE, within=0.05)]),
        (categorical(1, [60]), [hr.Symmetric(BOX, [-1, -1], {0: 2, 2: 0}, within=0.02)]),
    ],
    ids=["means", "probabilities", "symmetric means", "symmetric probabilities"],
)
def test_they_are_held_on_regions_and_proven(
    policy: hr.Policy, rules: list[Paired], tmp_path: Path
) -> None:
    assert hr.measure(policy, rules).worst_violation > 0.0
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    assert all(one.certified for one in result.certificates)
    states = BOX.sample(20_000, np.random.default_rng(2))
    for rule in rules:
        rows = rule.rows_at(states, policy.outputs(states[:1]).shape[1])
        assert rows.violations_of(policy).max() <= 0.0
    path = tmp_path / "certificates.json"
    write_certificates(path, policy, rules, result.certificates)
    assert len(verify_certificates(path, policy, rules)) == len(rules)


def test_a_certificate_is_about_one_other_policy(tmp_path: Path) -> None:
    new, old = gaussian(1, [8]), gaussian(0, [8])
    path = tmp_path / "certificates.json"
    rules = hr.within(old, 2.0, BOX)
    write_certificates(path, new, rules, hr.certify(new, rules))
    with pytest.raises(InvalidCertificate, match="has another weights than when it was proven"):
        verify_certificates(path, new, hr.within(gaussian(2, [8]), 2.0, BOX))
    mirror = [hr.Symmetric(BOX, [-1, -1], NEGATIVE, within=2.0)]
    write_certificates(path, new, mirror, hr.certify(new, mirror))
    with pytest.raises(InvalidCertificate, match="has another weights than when it was proven"):
        verify_certificates(path, new, [hr.Symmetric(BOX, [1, -1], NEGATIVE, within=2.0)])


def test_an_edit_is_proven_to_change_nothing_else() -> None:
    policy = categorical(0, [200], n=2)
    corner = hr.Box([0.8, 0.3], [1.0, 0.5])
    bound = float(policy.outputs(grid())[:, 1].min())
    rules = [
        hr.AtLeast(bound + 0.1, 1, corner, name="corner"),
        *hr.within(policy, 0.05, hr.Box([-1.0, -0.5], [0.0, 0.5]), name="elsewhere"),
    ]
    before = policy.outputs(grid())
    result = hr.edit(policy, rules, prove=True).raise_if_refused()
    assert [one.certified for one in result.enforcement.certificates] == [True, True]
    left = grid()[:, 0] <= 0.0
    assert np.abs(policy.outputs(grid()) - before)[left].max() <= 0.05
    assert np.abs(policy.outputs(grid()) - before).max() > 0.0


# --- while it learns -----------------------------------------------------------------------------

UPRIGHT = hr.Box([0.9, -0.3, -0.5], [1.0, 0.3, 0.5])


def rules_of_learning(policy: hr.Policy) -> list[hr.Constraint]:
    """Near the top as it was at the start; further out symmetric."""
    mirror = hr.Symmetric(
        hr.Box([0.5, 0.5, -1.0], [0.8, 0.8, 1.0]), [1, -1, -1], NEGATIVE, within=0.05, name="odd"
    )
    return [*hr.within(policy, 0.1, UPRIGHT, name="old"), mirror]


def test_a_learner_holds_them_and_goes_on_where_it_was(tmp_path: Path) -> None:
    env = gym.make("Pendulum-v1", max_episode_steps=20)
    policy = hr.GaussianPolicy.mlp(env, [30], "tanh", seed=0)
    rules = rules_of_learning(policy)
    settings = {"step_size": 1e-2, "seed": 0, "selection": hr.Everywhere(prove=True)}
    agent = hr.Reinforce(env, policy, rules, **settings)  # type: ignore[arg-type]
    agent.learn(episodes=2)
    agent.save(tmp_path / "agent.safetensors")
    again = hr.Reinforce.load(
        tmp_path / "agent.safetensors", gym.make("Pendulum-v1", max_episode_steps=20)
    )
    for one in (agent, again):
        one.learn(episodes=2)
    for mine, theirs in zip(agent.policy.parameters, again.policy.parameters, strict=True):
        assert torch.equal(mine, theirs)
    assert hr.certify(again.policy, rules).certified
    evaluation = hr.evaluate(again, env, rules, episodes=2)
    assert evaluation.worst_violation is not None
    assert evaluation.worst_violation <= 0.0


def test_a_model_of_stable_baselines3_holds_them() -> None:
    model = PPO("MlpPolicy", "Pendulum-v1", n_steps=64, seed=0, learning_rate=3e-3, device="cpu")
    rules = rules_of_learning(policy_of(model))
    model.learn(128, callback=Handrail(rules))
    states = UPRIGHT.sample(2000, np.random.default_rng(0))
    moved = rules[0].rows_at(states, 1).violations_of(policy_of(model))  # type: ignore[attr-defined]
    assert moved.max() <= 1e-5
    assert hr.measure(policy_of(model), rules).worst_violation <= 1e-5


# --- soundness: planted violations ---------------------------------------------------------------

Weights = tuple[Array, Array]


def stacked(*parts: Weights) -> Weights:
    """Units beside each other."""
    return np.concatenate([w for w, _ in parts]), np.concatenate([b for _, b in parts])


def deepened(hidden: Weights, outward: Weights, deep: bool) -> nn.Sequential:
    """One hidden layer of ReLU, or two that compute the same."""
    if not deep:
        return network(hidden, outward)
    width = len(hidden[1])
    return network(hidden, (np.eye(width), np.zeros(width)), outward)


def bump(rng: np.random.Generator, region: hr.Region, kind: str, width: float) -> Any:
    """A state, and a network that is about 1 there and within ±0.3 almost everywhere else."""
    at, inward, bias, outward, offset = planted(rng, region, kind, width)
    sign = rng.choice([-1.0, 1.0])
    return at, (inward, bias), -sign * outward, sign * (3.0 - offset)


def base(rng: np.random.Generator, n_in: int, n_out: int) -> tuple[Weights, Weights]:
    hidden = rng.normal(size=(8, n_in)), rng.normal(size=8)
    return hidden, (0.1 * rng.normal(size=(n_out, 8)), 0.1 * rng.normal(size=n_out))


def planted_distance(rng: np.random.Generator, means: bool, kind: str, width: float) -> Any:
    """Two policies that are too far apart at a state, and there almost only."""
    region = boxes_and_others(rng)
    at, bumped, through, offset = bump(rng, region, kind, width)
    n_out = int(rng.integers(1, 3)) if means else int(rng.integers(2, 5))
    hidden, (outward, bias) = base(rng, len(at), n_out)
    action = int(rng.integers(n_out))
    unit = np.eye(n_out)[action]
    new = deepened(
        stacked(hidden, bumped),
        (np.concatenate([outward, np.outer(unit, through)], axis=1), bias + offset * unit),
        deep=bool(rng.integers(2)),
    )
    if rng.integers(2):  # the same layers
        none = np.zeros((n_out, len(through)))
        old = deepened(
            stacked(hidden, bumped),
            (np.concatenate([outward, none], axis=1), bias),
            deep=len(new) > 3,
        )
    else:
        old = deepened(hidden, (outward, bias), deep=bool(rng.integers(2)))
    policies = [
        hr.GaussianPolicy(one, 1.0) if means else hr.CategoricalPolicy(one) for one in (new, old)
    ]
    gap = float(np.abs(np.diff([one.outputs(at[None])[0, action] for one in policies]))[0])
    return policies[0], CloseTo(policies[1], 0.8 * gap, action, region), at


def planted_asymmetry(rng: np.random.Generator, means: bool, kind: str, width: float) -> Any:
    """A policy that is symmetric, but for a bump that the mirrored state does not have."""
    region = boxes_and_others(rng)
    at, bumped, through, offset = bump(rng, region, kind, width)
    n_in = len(at)
    factors = rng.choice([-1.0, 1.0], n_in)
    factors[int(np.flatnonzero(np.ptp(np.stack(region.bounds), axis=0) > 0.0)[0])] = -1.0
    n_out = int(rng.integers(1, 3)) if means else int(rng.integers(2, 5))
    (inward, bias), (outward, constant) = base(rng, n_in, n_out)
    # g_a(s) + sign_a g_order(a)(R s) is symmetric, if signs and order undo themselves.
    order = np.arange(n_out)[:: rng.choice([-1, 1])]
    signs = np.ones(n_out)
    if means:
        signs[:] = rng.choice([-1.0, 1.0])
    hidden = stacked((inward, bias), (inward * factors, bias), bumped)
    action = int(rng.integers(n_out))
    unit = np.eye(n_out)[action]
    mirrored = signs[:, None] * outward[order]
    full = np.concatenate([outward, mirrored, np.outer(unit, through)], axis=1)
    total = constant + signs * constant[order] + offset * unit
    module = deepened(hidden, (full, total), deep=bool(rng.integers(2)))
    policy = hr.GaussianPolicy(module, 1.0) if means else hr.CategoricalPolicy(module)
    swap: dict[int, Any] = {
        a: hr.Mean({int(order[a]): float(signs[a])}) if means else int(order[a])
        for a in range(n_out)
    }
    tight = hr.Symmetric(region, factors, swap, within=1e-9)
    gap = float(tight.rows_at(at[None], n_out).violations_of(policy).max())
    return policy, hr.Symmetric(region, factors, swap, within=0.8 * gap), at


PLANTED = {"distance": planted_distance, "asymmetry": planted_asymmetry}


def check_planted(name: str, means: bool, count: int, cells: int) -> int:
    """How many of so many planted violations were found; none of them is proven not to be there."""
    rng = np.random.default_rng([list(PLANTED).index(name), means, count])
    found = 0
    for index in range(count):
        kind, width = KINDS[index % 3], WIDTHS[index % 4]
        policy, rule, at = PLANTED[name](rng, means, kind, width)
        n_actions = policy.outputs(at[None]).shape[1]
        assert rule.rows_at(at[None], n_actions).violations_of(policy).max() > 0.0  # it is planted
        answer = hr.certify(policy, rule, budget=hr.Budget(cells, seconds=20.0))
        assert answer.status != "certified"
        if answer.status == "counterexample":
            found += 1
            state = np.array(answer.state)[None]
            assert rule.where.contains(state)[0]
            measured = rule.rows_at(state, n_actions).violations_of(policy).max()
            assert answer.violation == pytest.approx(measured, abs=1e-9)
            assert measured > 0.0
    return found


@pytest.mark.parametrize("means", [True, False], ids=["means", "probabilities"])
@pytest.mark.parametrize("name", PLANTED)
def test_no_false_certificates(name: str, means: bool) -> None:
    assert check_planted(name, means, 12, cells=500) >= 6  # most are found, not only not proven


@pytest.mark.slow
@pytest.mark.parametrize("means", [True, False], ids=["means", "probabilities"])
@pytest.mark.parametrize("name", PLANTED)
def test_no_false_certificates_among_many(name: str, means: bool) -> None:
    check_planted(name, means, 1_000, cells=2_000)
