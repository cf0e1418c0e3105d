from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.constraints import ActionRange
from handrail.errors import InvalidConstraint

RANGE = ActionRange(np.array([-2.0, 0.0]), np.array([2.0, 1.0]))
HERE = hr.Points([[1.0, 0.0, 0.0]])
AREA = hr.Box([-1.0, -1.0, -3.0], [1.0, 1.0, 3.0])
OUT = (
    r"'mean action 0 >= 2\.5' is out of range: it asks for at least 2\.5, but with actions clipped "
    r"to \[-2, 2\] it is between -2 and 2, whatever the policy says\. Choose a bound in between\."
)


@pytest.mark.parametrize(
    ("constraint", "words"),
    [
        (hr.AtLeast(2.5, hr.Mean(0), HERE), "at least 2.5, but with actions clipped to [-2, 2], "),
        (hr.AtMost(-0.1, hr.Mean(1), AREA), "at most -0.1, but with actions clipped to [-2, 2], "),
        (hr.AtLeast(3.5, hr.Mean({0: 1.0, 1: 1.0}), AREA), "it is between -2 and 3, whatever"),
        (hr.AtMost(-3.5, hr.Mean({0: 1.0, 1: -1.0}), HERE), "it is between -3 and 2, whatever"),
        (hr.LikelyWithin(0.9, 0, HERE, low=2.5), "it is between -2 and 2, whatever"),
        (
            hr.AnyOf([hr.AtLeast(1.0, hr.Mean(0), HERE), hr.AtMost(-3.0, hr.Mean(0), HERE)]),
            "'mean action 0 <= -3' is out of range: it asks for at most -3",
        ),
        (
            hr.AtLeast(hr.Affine([0.0, 0.0, 1.0]), hr.Mean(0), AREA),
            "Bound it there with min(…) or max(…), or leave such states out.",
        ),
    ],
)
def test_what_no_action_can_do_is_refused(constraint: hr.AtLeast, words: str) -> None:
    with pytest.raises(InvalidConstraint) as refused:
        RANGE.refuse_beyond([constraint])
    assert words in str(refused.value)


def test_what_an_action_can_do_is_not() -> None:
    RANGE.refuse_beyond(
        [
            hr.AtLeast(2.0, hr.Mean(0), HERE),  # a clipped action is there
            hr.AtMost(5.0, hr.Mean(0), AREA),
            hr.AtLeast(hr.Affine([0.0, 0.0, 0.5]), hr.Mean(0), AREA),
            hr.AtMost(0.01, hr.Std(0), HERE),
            hr.Lipschitz(50.0, hr.Mean(0), 0, AREA),
            hr.AtLeast(0.9, 0, HERE),  # of a discrete action: refused elsewhere
        ]
    )


def test_a_policy_that_was_made_for_an_environment_knows_its_range() -> None:
    env = gym.make("Pendulum-v1")
    policy = hr.GaussianPolicy.mlp(env, hidden=(8,))
    varying = hr.VaryingGaussianPolicy.mlp(env, hidden=(8,))
    for one in (policy, policy.learning_std(), policy.in_float32(), varying, varying.in_float32()):
        found = ActionRange.of(one)
        assert found is not None
        assert (found.low.tolist(), found.high.tolist()) == ([-2.0], [2.0])
    assert ActionRange.of(hr.GaussianPolicy(policy.module, 0.3)) is None


def test_every_way_to_give_constraints_refuses_them_and_changes_nothing() -> None:
    env = gym.make("Pendulum-v1")
    policy = hr.GaussianPolicy.mlp(env, hidden=(8,))
    plain = hr.GaussianPolicy(policy.module, 0.3)  # which only its environment knows the range of
    before = policy.raw(HERE.states)
    asked = [hr.AtLeast(2.5, hr.Mean(0), HERE)]
    for refuse in (
        lambda: hr.enforce(policy, asked),
        lambda: hr.edit(policy, asked),
        lambda: hr.measure(policy, asked),
        lambda: hr.certify(policy, [hr.AtLeast(2.5, hr.Mean(0), AREA)]),
        lambda: hr.Reinforce(env, plain, asked),
        lambda: hr.evaluate(plain, env, asked, episodes=1),
    ):
        with pytest.raises(InvalidConstraint, match=OUT):
            refuse()
    assert np.array_equal(policy.raw(HERE.states), before)
