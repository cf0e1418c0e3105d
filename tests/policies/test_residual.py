"""A network beside a controller, and one whose outputs stay within a range."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.spaces import Box

import handrail as hr
from handrail.errors import InvalidConstraint, InvalidPolicy
from handrail.export import open_export
from handrail.policies import Architecture, Scaler
from handrail.policies.scaler import onto_range
from handrail.proof.question import provable_layers
from handrail.rulebook import load_rulebook, parse, with_settings

OBSERVED = Box(-1.0, 1.0, (3,), dtype=np.float64)
ACTIONS = Box(np.array([-2.0, 0.0]), np.array([2.0, 5.0]), dtype=np.float64)
SPACES = OBSERVED, ACTIONS
STATES = np.random.default_rng(0).uniform(-1.0, 1.0, size=(50, 3))
GAIN = np.array([[1.0, 0.5, -3.0], [-0.2, 0.3, 0.0]])


def moved(policy: hr.GaussianPolicy, size: float = 0.3) -> hr.GaussianPolicy:
    """No weight is 0 any more."""
    rng = np.random.default_rng(4)
    with torch.no_grad():
        for parameter in policy.parameters:
            parameter.add_(torch.tensor(size * rng.normal(size=parameter.shape)).to(parameter))
    return policy


def make(**options: Any) -> hr.GaussianPolicy:
    return moved(hr.GaussianPolicy.mlp(SPACES, **{"hidden": [12], "seed": 1, **options}))


EVERY: list[dict[str, Any]] = [
    {"bounded": "tanh"},
    {"bounded": "hardtanh"},
    {"residual": GAIN},
    {"residual": GAIN, "scale": [1.0, 2.0, 3.0], "hidden": [8, 8], "activation": "tanh"},
    {"residual": GAIN, "bounded": "tanh", "scale": "auto"},
    {
        "residual": [hr.Affine(-GAIN[0]), hr.Affine(-GAIN[1], 2.5)],
        "bounded": "hardtanh",
        "centre": [1.0, 2.0, 3.0],
    },
]


# --- closed forms -------------------------------------------------------------------------------


@pytest.mark.parametrize("bounded", ["tanh", "hardtanh"])
def test_means_stay_within_the_range_of_the_actions(bounded: Any) -> None:
    policy = hr.GaussianPolicy.mlp(SPACES, [12], seed=1, bounded=bounded)
    plain = hr.GaussianPolicy.mlp(SPACES, [12], seed=1).mean(STATES)
    share = np.tanh(plain) if bounded == "tanh" else np.clip(plain, -1.0, 1.0)
    expected = ACTIONS.low + (ACTIONS.high - ACTIONS.low) * (share + 1.0) / 2.0
    np.testing.assert_allclose(policy.mean(STATES), expected, atol=1e-14)
    far = moved(policy, 50.0).mean(STATES)
    assert (far >= ACTIONS.low).all()
    assert (far <= ACTIONS.high).all()
    ends = policy.output_range()
    assert ends is not None
    np.testing.assert_array_equal(np.stack(ends), [ACTIONS.low, ACTIONS.high])


def test_the_range_is_never_left_by_a_rounding() -> None:
    rng = np.random.default_rng(0)
    low = rng.normal(size=500) * 10.0 ** rng.uniform(-6, 6, 500)
    high = low + 10.0 ** rng.uniform(-6, 6, 500)
    for dtype, to in ((torch.float64, np.float64), (torch.float32, np.float32)):
        ends = low.astype(to).astype(np.float64), high.astype(to).astype(np.float64)
        half, middle = onto_range(*ends, dtype).arrays()
        for m, h, below, above in zip(middle, half, *ends, strict=True):
            assert Fraction(below) <= Fraction(float(m)) - Fraction(float(h))
            assert Fraction(float(m)) + Fraction(float(h)) <= Fraction(above)
        unit = np.finfo(to).eps * np.maximum(np.abs(ends[0]), np.abs(ends[1]))
        assert (2.0 * half >= ends[1] - ends[0] - 4.0 * unit).all()


def test_the_range_of_a_network_is_that_of_its_own_precision() -> None:
    """Found by the oracle of tests/proof/test_rounding.py: float32 rounds up what is in between."""
    rng = np.random.default_rng(0)
    for dtype in (torch.float32, torch.float64):
        scaler = Scaler(10.0 ** rng.uniform(-3, 3, 300), 1e3 * rng.normal(size=300), dtype)
        low, high = scaler.range_of(1.0)
        ends = [
            scaler(torch.full((300,), one, dtype=dtype)).double().numpy() for one in (-1.0, 1.0)
        ]
        assert (low <= ends[0]).all()
        assert (ends[1] <= high).all()
        for f, o, below, above in zip(*scaler.arrays(), low, high, strict=True):
            assert Fraction(below) <= Fraction(float(o)) - Fraction(float(f))
            assert Fraction(float(o)) + Fraction(float(f)) <= Fraction(above)
        np.testing.assert_allclose(high, ends[1], rtol=1e-6 if dtype == torch.float32 else 1e-14)


def test_it_begins_as_the_controller() -> None:
    for given in (GAIN, [hr.Affine(-GAIN[0]), hr.Affine(-GAIN[1])]):
        policy = hr.GaussianPolicy.mlp(SPACES, [12], seed=1, residual=given, scale=[1.0, 2.0, 3.0])
        np.testing.assert_allclose(policy.mean(STATES), -STATES @ GAIN.T, atol=1e-14)
    names = ["a", "b", "c"]
    formulas = [hr.Formula("2*a - (b + 1)/2", names), hr.Formula("0", names)]
    policy = hr.GaussianPolicy.mlp(SPACES, [12], seed=1, residual=formulas)
    expected = 2.0 * STATES[:, 0] - 0.5 * STATES[:, 1] - 0.5
    np.testing.assert_allclose(policy.mean(STATES)[:, 0], expected, atol=1e-14)
    clipped = hr.GaussianPolicy.mlp(SPACES, [12], residual=GAIN, bounded="hardtanh")
    expected = np.clip(-STATES @ GAIN.T, ACTIONS.low, ACTIONS.high)
    np.testing.assert_allclose(clipped.mean(STATES), expected, atol=1e-14)


def test_the_network_is_added_to_the_controller() -> None:
    policy = make(residual=GAIN)
    alone = moved(hr.GaussianPolicy.mlp(SPACES, [12], seed=1))
    with torch.no_grad():
        for own, other in zip(alone.parameters, policy.parameters, strict=True):
            own.copy_(other)
    expected = alone.mean(STATES) - STATES @ GAIN.T
    np.testing.assert_allclose(policy.mean(STATES), expected, atol=1e-13)
    np.testing.assert_allclose(
        hr.tangent.tangent_kernel(policy, STATES[:5]),
        hr.tangent.tangent_kernel(alone, STATES[:5]),
        rtol=1e-12,
    )


@pytest.mark.parametrize("options", EVERY)
def test_gradients_are_those_of_finite_differences(options: Any) -> None:
    policy = make(**options)
    batch = hr.Batch(STATES, np.zeros((50, 2)), np.linspace(-1.0, 2.0, 50))
    gradient = hr.tangent.policy_gradient(policy, batch)
    for parameter, part in zip(policy.parameters, gradient.direction.parts, strict=True):
        index = tuple(size // 2 for size in parameter.shape)
        losses = []
        for step in (1e-6, -1e-6):
            with torch.no_grad():
                parameter[index] += step
            losses.append(hr.tangent.policy_gradient(policy, batch).loss)
            with torch.no_grad():
                parameter[index] -= step
        found = (losses[1] - losses[0]) / 2e-6
        assert part[index].item() == pytest.approx(found, rel=1e-4, abs=1e-5)
    change = hr.tangent.predict_change(policy, batch, STATES, 1e-7)
    before = policy.mean(STATES)
    hr.tangent.take_step(policy, gradient.direction, 1e-7)
    np.testing.assert_allclose(policy.mean(STATES) - before, change, rtol=1e-3, atol=1e-10)


# --- what cannot be meant -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounded": "relu"}, "Unknown bounding 'relu'. Choose one of tanh, hardtanh."),
        ({"residual": [[1.0, 2.0]]}, "needs finite numbers for 2 actions and 3 observations"),
        ({"residual": [[np.nan] * 3] * 2}, "needs finite numbers for 2 actions and 3 observations"),
        ({"residual": hr.Affine([1.0] * 3)}, "a handrail.Affine for each action. Got "),
        ({"residual": "LQR"}, "`residual` is the controller that a network is added to"),
        (
            {"residual": [hr.Formula("a*b", ["a", "b", "c"])] * 2},
            r"must be linear in the observations, but a\*b is not",
        ),
    ],
)
def test_refusals(options: Any, message: str) -> None:
    with pytest.raises(InvalidPolicy, match=message):
        hr.GaussianPolicy.mlp(SPACES, [12], **options)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (hr.AtLeast(2.5, hr.Mean(0), hr.Box([-1.0] * 3, [1.0] * 3), name="more"),
         "'more.*' asks for at least 2.5, but this network keeps it between -2 and 2"),
        (hr.AtLeast(2.0, hr.Mean(0), hr.Points(STATES[:3]), name="all"), "asks for at least 2, bu"),
        (hr.AtMost(-7.0, hr.Mean({0: 1.0, 1: -1.0}), hr.Points(STATES[:3]), name="sum"),
         "asks for at most -7, but this network keeps it between -7 and 2, whatever its weights"),
    ],
)  # fmt: skip
def test_a_bound_that_no_weights_meet(rule: hr.Constraint, message: str) -> None:
    with pytest.raises(InvalidConstraint, match=message):
        hr.enforce(make(bounded="tanh").clipped_to(None), [rule])


def test_a_bound_that_all_weights_meet() -> None:
    policy = moved(make(bounded="hardtanh"), 50.0)
    for bound, action in ((5.0, hr.Mean(1)), (7.5, hr.Mean({0: 1.0, 1: 1.0}))):
        answer = hr.certify(policy, hr.AtMost(bound, action, hr.Box([-1.0] * 3, [1.0] * 3)))
        assert answer.certified
        assert answer.cells == 0
    assert hr.enforce(policy, [hr.AtMost(5.0, hr.Mean(1), hr.Points(STATES))]).iterations == 0


# --- held and proven ----------------------------------------------------------------------------


@pytest.mark.parametrize("options", EVERY)
def test_held_and_proven(options: Any) -> None:
    policy = hr.GaussianPolicy.mlp(SPACES, **{"hidden": [64], "seed": 1, **options})
    rules = [
        hr.AtMost(0.5, hr.Mean(0), hr.Box([-1.0] * 3, [-0.3] * 3), name="left"),
        hr.AtLeast(0.1, hr.Mean(0), hr.Box([0.3] * 3, [1.0] * 3), name="right"),
        hr.Between(0.5, 3.5, hr.Mean(1), hr.Box([-0.5] * 3, [0.5] * 3), name="middle"),
    ]
    result = hr.enforce(policy, rules, prove=True).raise_if_unsatisfied()
    assert [one.status for one in result.certificates] == ["certified"] * 3
    rng = np.random.default_rng(0)
    for rule, certificate in zip(rules, result.certificates, strict=True):
        assert rule.region is not None
        values = (
            policy.mean(rule.region.sample(2_000, rng))
            @ rule.rows_at(rule.states[:1], 2).weights[0]
        )
        assert certificate.lowest is None or values.min() >= certificate.lowest
        assert certificate.highest is None or values.max() <= certificate.highest


def test_a_saturated_tanh_is_moved_no_further_than_asked() -> None:
    """In log-odds within the range: its own slope would ask for 40 times as much at once."""
    policy = hr.GaussianPolicy.mlp(SPACES, [64], seed=1, bounded="tanh")
    with torch.no_grad():
        policy.parameters[-1].add_(torch.tensor([3.0, 0.0], dtype=torch.float64))
    assert policy.mean(STATES)[:, 0].min() > 1.95
    rule = hr.AtMost(1.0, hr.Mean(0), hr.Points(STATES[:5]), name="less")
    hr.enforce(policy, [rule], reach=0.0001).raise_if_unsatisfied()  # each by itself
    assert policy.mean(STATES[:5])[:, 0].min() > 0.9


def test_a_clipped_output_says_so() -> None:
    policy = hr.GaussianPolicy.mlp(SPACES, [64], seed=1, bounded="hardtanh")
    with torch.no_grad():
        policy.parameters[-1].add_(3.0)
    result = hr.enforce(policy, [hr.AtMost(1.0, hr.Mean(0), hr.Points(STATES[:5]), name="less")])
    assert not result.satisfied
    assert "an output that a hardtanh clips, which a tanh is not" in result.reason


def test_a_tube_around_the_controller_that_it_is_beside() -> None:
    policy = make(residual=GAIN, hidden=[64])
    box = hr.Box([-0.5] * 3, [0.5] * 3)
    tube = hr.within(GAIN, 0.3, box)
    assert not hr.measure(policy, tube).satisfied
    result = hr.enforce(policy, tube, prove=True).raise_if_unsatisfied()
    assert all(one.certified for one in result.certificates)
    states = box.sample(5_000, np.random.default_rng(1))
    assert np.abs(policy.mean(states) + states @ GAIN.T).max() <= 0.3 + 1e-6


# --- files --------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", EVERY)
def test_exported_files_say_the_same(options: Any, tmp_path: Path) -> None:
    policy = make(**options)
    np.testing.assert_allclose(
        provable_layers(policy).outputs(STATES), policy.mean(STATES), atol=1e-12
    )
    assert hr.export_numpy(policy, tmp_path / "policy.npz").largest_difference <= 1e-12
    again = open_export(tmp_path / "policy.npz").policy
    np.testing.assert_allclose(again.outputs(STATES), policy.mean(STATES), atol=1e-12)
    one_by_one = [policy.mean(state) for state in STATES]
    np.testing.assert_allclose(one_by_one, policy.mean(STATES), atol=1e-13)


def test_onnx(tmp_path: Path) -> None:
    policy = make(residual=GAIN, bounded="tanh", scale="auto")
    assert hr.export_onnx(policy, tmp_path / "policy.onnx").largest_difference <= 1e-12


@pytest.mark.parametrize("options", EVERY)
def test_a_saved_learner_goes_on(options: Any, tmp_path: Path) -> None:
    env = gym.make("Pendulum-v1", max_episode_steps=20)
    given = {**options, **({"residual": [[0.0, 2.0, 1.0]]} if "residual" in options else {})}
    policy = hr.GaussianPolicy.mlp(env, **{"hidden": [12], "seed": 1, **given})
    architecture = Architecture.of(policy.module)
    assert architecture is not None
    assert architecture.bounded == options.get("bounded", "")
    assert architecture.residual == ("residual" in options)
    agent = hr.Reinforce(env, policy, seed=1)
    agent.learn(episodes=2)
    agent.save(tmp_path / "agent.safetensors")
    loaded = hr.Reinforce.load(tmp_path / "agent.safetensors", env)
    for one in (agent, loaded):
        one.learn(episodes=2)
    assert (loaded.policy.outputs(STATES) == agent.policy.outputs(STATES)).all()


def test_a_file_says_it_by_name() -> None:
    book = load_rulebook("pendulum")
    told = {"bounded": "tanh", "residual": {"torque": "-10*sin - 2*speed"}, "hidden": [16]}
    policy = hr.make_agent(with_settings(book, network=told, enforcement="none")).policy
    states = np.array([[1.0, 0.05, 0.1], [1.0, -0.02, 0.03]])
    expected = 2.0 * np.tanh((-10.0 * states[:, 1] - 2.0 * states[:, 2]) / 2.0)
    np.testing.assert_allclose(policy.outputs(states)[:, 0], expected, atol=1e-12)
    text = book.text.replace("hidden: [5000]", "hidden: [16]\n    residual: {torque: -10*sin}")
    again = parse(text, "again")
    assert again.mlp_arguments()["residual"] == [hr.Affine([0.0, -10.0, 0.0])]


def test_a_float32_network_is_held_and_proven() -> None:
    policy = hr.GaussianPolicy.mlp(
        SPACES, [32], seed=1, dtype=torch.float32, bounded="tanh", residual=GAIN, scale="auto"
    )
    rule = hr.AtMost(1.0, hr.Mean(0), hr.Box([-1.0] * 3, [1.0] * 3), name="less")
    assert hr.enforce(policy, [rule], prove=True).raise_if_unsatisfied().certificates[0].certified
