"""Any agent played without learning, and measured."""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from typing import Any

import gymnasium as gym
import pytest
from torch import nn

import handrail as hr
from handrail.sb3.policy import policy_of
from tests.conftest import small_policy
from tests.policies.test_gaussian import gaussian
from tests.support.kinds import KINDS
from tests.support.pendulum import RULES
from tests.support.sb3_models import CARTPOLE_STATES, at_least, ppo


class TestEvaluate:
    def test_all_agents_the_same_way(self) -> None:
        model = ppo()
        rules = at_least(CARTPOLE_STATES, 0.55)  # so little that episodes end
        agent = hr.Reinforce("CartPole-v1", policy_of(model), rules, tolerance=1e-5)
        env = gym.make("CartPole-v1")
        agents = (model, agent, agent.policy)
        first = [hr.evaluate(one, env, rules, episodes=3) for one in agents]
        again = [hr.evaluate(one, env, rules, episodes=3) for one in agents]
        for found, repeated in zip(first, again, strict=True):
            assert found.lengths == tuple(map(int, found.scores))  # CartPole pays 1 per step
            assert found.satisfied
            assert len(found.scores) == 3
            assert repeated.scores == found.scores
        assert first[1].scores == first[2].scores
        by_model, by_agent = (
            hr.evaluate(one, env, episodes=2, deterministic=True) for one in (model, agent)
        )
        assert by_model.scores == by_agent.scores
        assert by_model.violations is None
        assert hr.evaluate(model, env, episodes=3, seed=1).scores != first[0].scores

    def test_violations_are_told(self) -> None:
        found = hr.evaluate(ppo(), "CartPole-v1", "cartpole", episodes=1)
        assert not found.satisfied
        assert found.violations is not None
        assert "constraint rows violated" in str(found)

    @pytest.mark.parametrize(
        ("agent", "env", "message"),
        [
            (lambda: nn.Linear(4, 2), "CartPole-v1", "a Reinforce or a policy, but got Linear"),
            (
                lambda: small_policy(4, 3),
                "CartPole-v1",
                "among 3 actions, but the environment has 2",
            ),
            (
                lambda: small_policy(4, 2),
                5,
                "Expected a Gymnasium id or an environment, but got int",
            ),
            (lambda: small_policy(4, 2), "Nowhere-v0", "Gymnasium cannot make 'Nowhere-v0'"),
            (
                lambda: small_policy(4, 2),
                gym.make_vec("CartPole-v1"),
                "but got CartPoleVectorEnv. Vector envi",
            ),
        ],
    )
    def test_what_is_refused(self, agent: Any, env: Any, message: str) -> None:
        with pytest.raises(hr.HandrailError, match=message):
            hr.evaluate(agent(), env)

    def test_settings_that_make_no_sense(self) -> None:
        with pytest.raises(
            hr.errors.InvalidArgument, match="episodes must be a positive whole number"
        ):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", episodes=0)
        with pytest.raises(hr.errors.InvalidArgument, match="must be a finite number from 0 on"):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", tolerance=-1.0)
        with pytest.raises(hr.errors.InvalidRulebook, match="names 8 observations"):
            hr.evaluate(small_policy(4, 2), "CartPole-v1", "lunar_lander")


def test_a_policy_is_evaluated_within_the_range() -> None:
    policy = gaussian(3, 1, std=3.0)
    first = hr.evaluate(policy, "Pendulum-v1", RULES, episodes=2, seed=4)
    again = hr.evaluate(policy, gym.make("Pendulum-v1"), RULES, episodes=2, seed=4)
    assert first.scores == again.scores
    assert not first.satisfied
    with pytest.raises(hr.errors.InvalidPolicy, match="Use a CategoricalPolicy"):
        hr.evaluate(gaussian(4, 1), "CartPole-v1")


def test_an_answer_is_short_and_counts() -> None:
    policy = small_policy(4, 2)
    region = hr.AtLeast(0.1, 0, hr.Box([-1, -1, -0.1, -1], [1, 1, 0.1, 1]))
    agent = hr.Reinforce("CartPole-v1", policy, [region], seed=1)
    found = agent.evaluate(episodes=1)
    assert found.violations is not None
    assert len(found.violations) == 3000
    assert str(found) == (
        f"1 episode: {found.mean:.1f} ± 0.0; 0 of 3,000 constraint rows violated "
        f"(worst {found.worst_violation:+.1e}, tolerance 1e-06); {found.drawn}"
    )
    assert repr(found) == f"<Evaluation of {found}>"
    one_row = replace(found, violations=hr.measure(policy, at_least(CARTPOLE_STATES[:1], 0.99)))
    assert "; 1 of 1 constraint row violated (worst +" in str(one_row)
    several = replace(found, scores=(1.0, 2.0), violations=None)
    assert str(several) == "2 episodes: 1.5 ± 0.5"


def test_an_answer_in_a_notebook() -> None:
    found = hr.evaluate(small_policy(4, 2), "CartPole-v1", "cartpole", episodes=2)
    table = re.sub(r' style="[^"]*"', "", found._repr_html_())
    assert table.startswith("<div><table><tr><th>episodes</th><td>2</td></tr>")
    assert f"<th>score</th><td>{found.mean:.1f} ± {found.deviation:.1f}</td>" in table
    assert "<td>18 of 18 constraint rows violated</td>" in table
    assert table.endswith("<tr><th>tolerance</th><td>1e-06</td></tr></table></div>")
    free = hr.evaluate(small_policy(4, 2), "CartPole-v1", episodes=1)
    assert "constraints" not in free._repr_html_()


_LAZY = """
import gymnasium, sys
import handrail as hr
policy = hr.CategoricalPolicy.mlp(gymnasium.make("CartPole-v1"), hidden=[4])
hr.evaluate(policy, "CartPole-v1", episodes=1)
assert "handrail.sb3" not in sys.modules, "loaded for nothing"
assert not any(name.startswith("stable_baselines3") for name in sys.modules)
from stable_baselines3 import PPO
assert "handrail.sb3" not in sys.modules
print(hr.evaluate(PPO("MlpPolicy", "CartPole-v1", seed=0, device="cpu"), "CartPole-v1", episodes=1))
assert "handrail.sb3" in sys.modules
"""


def test_what_plays_with_models_is_loaded_when_one_comes() -> None:
    run = subprocess.run([sys.executable, "-c", _LAZY], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.startswith("1 episode: ")


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_constraint_is_evaluated(kind: str) -> None:
    """What is measured is what `measure` says, before and after it is held."""
    rule = KINDS[kind]
    policy = hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), [32], "tanh", seed=1)
    broken = hr.evaluate(policy, "CartPole-v1", [rule], episodes=1)
    assert broken.worst_violation == hr.measure(policy, [rule]).worst_violation
    assert broken.worst_violation is not None
    assert broken.worst_violation > 0.0
    hr.enforce(policy, [rule]).raise_if_unsatisfied()
    held = hr.evaluate(policy, "CartPole-v1", [rule], episodes=1)
    assert held.worst_violation is not None
    assert held.worst_violation <= 0.0
    assert "0 of 1,000 constraint rows violated" in str(held)
