"""`any` and `others`: what the file leaves to the environment, or says of all that is left."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import PPO

import handrail as hr
from handrail.errors import InvalidRulebook
from handrail.rulebook import Rulebook, parse
from handrail.sb3 import Handrail
from tests.support.constraint_files import VALIDATOR

NAMES = [f"car{row}_{column}" for row in range(5) for column in ("on", "x", "y", "vx", "vy")]

HEAD = f"""
environment: Handrail/Road-v0
observations: [{", ".join(NAMES)}]
actions: [slower, idle, faster]
"""

AHEAD = "{car1_on: 1, car1_x: [0.05, 0.2], car1_y: 0, car0_vx: [0.5, 1], others: 0}"


class Road(gym.Env[Any, Any]):
    """Five cars and five numbers of each, as highway-env has them."""

    action_space: gym.Space[Any] = gym.spaces.Discrete(3)

    def __init__(self, high: float = 1.0, **_: Any) -> None:
        self.observation_space: gym.Space[Any] = gym.spaces.Box(-1.0, high, (5, 5), np.float32)
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        self._steps = 0
        return self.observation_space.sample(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        return self.observation_space.sample(), float(action == 1), self._steps >= 8, False, {}


@pytest.fixture(autouse=True)
def road() -> Iterator[None]:
    gym.register("Handrail/Road-v0", Road)
    yield
    gym.registry.pop("Handrail/Road-v0")


def _book(place: str, require: str = "slower >= 0.9") -> Rulebook:
    rules = parse(f"{HEAD}constraints: [{{name: a, {place}, require: {require}}}]", "road.yaml")
    VALIDATOR.validate(rules.source.data)
    return rules


def test_others_are_fixed_in_a_region() -> None:
    (rule,) = _book(f"region: {AHEAD}").constraints
    low, high = np.zeros((5, 5)), np.zeros((5, 5))
    low[1], high[1] = [1, 0.05, 0, 0, 0], [1, 0.2, 0, 0, 0]
    low[0, 3], high[0, 3] = 0.5, 1
    assert isinstance(rule, hr.AtLeast)
    assert rule.region is not None
    assert rule.region.describe() == hr.Box(low.ravel(), high.ravel()).describe()


def test_others_have_one_range() -> None:
    rules = parse(
        f"{HEAD}constraints:\n"
        "- {name: a, region: {car0_on: 1, others: [-0.5, 0.25]}, require: idle >= 0.5}",
        "road.yaml",
    )
    (rule,) = rules.constraints
    assert isinstance(rule, hr.AtLeast)
    assert rule.region is not None
    low, high = rule.region.bounds
    assert low.tolist() == [1.0, *[-0.5] * 24]
    assert high.tolist() == [1.0, *[0.25] * 24]
    assert not rules.anywhere


def test_others_are_any_value_that_the_environment_observes() -> None:
    rules = _book("region: {car0_on: 1, car0_x: [0, 0.5], others: any}")
    (rule,) = rules.constraints
    assert isinstance(rule, hr.AtLeast)
    assert rule.region is not None
    low, high = rule.region.bounds
    assert low.tolist() == [1.0, 0.0, *[-1.0] * 23]
    assert high.tolist() == [1.0, 0.5, *[1.0] * 23]
    assert rules.anywhere == dict.fromkeys(NAMES[2:], (-1.0, 1.0))


def test_any_beside_a_shape() -> None:
    ball = "ball: {of: [car0_x, car0_y], centre: [0, 0], radius: 0.5}"
    (rule,) = _book(f"region: {{{ball}, car0_vx: any, others: 0.25}}").constraints
    expected = hr.Ball([0.25, 0, 0, 0, *[0.25] * 21], 0.5, [1, 2], {3: (-1.0, 1.0)})
    assert isinstance(rule, hr.AtLeast)
    assert rule.region is not None
    assert rule.region.describe() == expected.describe()


def test_others_of_single_states() -> None:
    (rule,) = _book("where: {car0_x: [0, 1], car4_vy: 0.5, others: -1}").constraints
    states = np.full((2, 25), -1.0)
    states[:, 1], states[:, 24] = [0, 1], 0.5
    assert np.array_equal(rule.states, states)


def test_others_of_a_table() -> None:
    text = f"""{HEAD}constraints:
- name: a
  where: {{others: 0}}
  table: |
    car0_x  car1_x  require
    0.5     0.1     slower >= 0.9
    -0.5    0.2     slower >= 0.9
"""
    (rule,) = parse(text, "road.yaml").constraints
    states = np.zeros((2, 25))
    states[:, 1], states[:, 6] = [0.5, -0.5], [0.1, 0.2]
    assert np.array_equal(rule.states, states)


def test_any_is_not_what_a_wider_environment_observes() -> None:
    rules = _book("region: {car0_on: 1, others: any}")
    with pytest.raises(
        InvalidRulebook,
        match=r"road takes any car0_x to be within \[-1, 1\], the range of its environment, but "
        r"the policy observes it within \[-1, 2\]\. .* or a range in the place of `any`\.",
    ):
        rules.check_spaces(Road(high=2.0).observation_space, Road.action_space)
    rules.check_spaces(Road(high=0.5).observation_space, Road.action_space)


def test_a_file_of_shaped_observations_is_held_and_evaluated(tmp_path: Path) -> None:
    file = tmp_path / "road.yaml"
    file.write_text(
        f"{HEAD}constraints: [{{name: a, region: {AHEAD}, require: slower >= 0.9}}]\n"
        "settings: {network: {hidden: [16]}}\n"
    )
    env = gym.make("Handrail/Road-v0")
    small: dict[str, Any] = {"net_arch": [16]}
    model = PPO("MlpPolicy", env, n_steps=16, batch_size=16, n_epochs=1, policy_kwargs=small)
    rail = Handrail(file, prove=True)
    model.learn(16, callback=rail)
    assert rail.worst_violation <= 0.0
    lowest = rail.certificates[0].lowest
    assert lowest is not None
    assert lowest >= 0.9
    result = hr.evaluate(model, "Handrail/Road-v0", file, episodes=1)
    assert result.satisfied
    corner = np.zeros((5, 5), dtype=np.float32)
    corner[1, :2], corner[0, 3] = [1, 0.05], 1
    shown, _ = model.policy.obs_to_tensor(corner)
    distribution: Any = model.policy.get_distribution(shown)
    assert distribution.distribution.probs[0, 0].item() >= 0.9

    learner = hr.Reinforce(env, hr.CategoricalPolicy.mlp(env, hidden=[16]), constraints=file)
    learner.learn(episodes=1)
    assert hr.evaluate(learner, env, file, episodes=1).satisfied
    assert learner.policy.outputs(corner[None])[0, 0] >= 0.9
