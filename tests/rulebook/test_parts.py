"""Files about observations in parts: names such as position.x, from the file to what acts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from stable_baselines3 import A2C

import handrail as hr
from handrail.errors import InvalidRulebook
from handrail.rulebook import parse
from handrail.sb3 import Handrail
from tests.support.constraint_files import VALIDATOR
from tests.support.sb3_models import Numbers

SPACE = gym.spaces.Dict(
    {
        "speed": gym.spaces.Box(0.0, 9.0, (1,), np.float32),
        "gear": gym.spaces.Discrete(2),
        "position": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    }
)

TEXT = """
environment: Handrail/Parts-v0
observations: [gear.low, gear.high, position.x, position.y, speed.now]
actions: [slower, idle, faster]
constraints:
  - name: near
    region: {gear.low: 1, gear.high: 0, position.x: [-0.5, 0.5], others: any}
    require: slower >= 0.6 + 0.02*speed.now
settings: {network: {hidden: [16]}, episodes: 1}
"""


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    gym.register("Handrail/Parts-v0", lambda **_: Numbers(observations=SPACE))
    yield
    gym.registry.pop("Handrail/Parts-v0")


def test_parts_are_held_by_their_names(tmp_path: Path) -> None:
    file = tmp_path / "parts.yaml"
    file.write_text(TEXT, encoding="utf-8")
    rules = hr.load_rulebook(file)
    VALIDATOR.validate(rules.source.data)
    (rule,) = rules.constraints
    assert isinstance(rule, hr.AtLeast)
    assert rule.region is not None
    low, high = rule.region.bounds
    assert low.tolist() == [1, 0, -0.5, -1, 0]
    assert high.tolist() == [1, 0, 0.5, 1, 9]
    env = rules.make_environment()
    assert env.observation_space.shape == (5,)
    model = A2C("MultiInputPolicy", Numbers(observations=SPACE), n_steps=4, device="cpu", seed=0)
    rail = Handrail(file)
    model.learn(4, callback=rail)
    assert rail.worst_violation <= 0.0
    fast: Any = {
        "gear": 0,
        "position": np.zeros(2, np.float32),
        "speed": np.full(1, 9.0, np.float32),
    }
    tensors, _ = model.policy.obs_to_tensor(fast)
    distribution: Any = model.policy.get_distribution(tensors)
    assert distribution.distribution.probs[0, 0].item() >= 0.78
    assert hr.evaluate(model, Numbers(observations=SPACE), file, episodes=1).satisfied


def test_parts_in_another_order_are_refused() -> None:
    wrong = TEXT.replace("position.x, position.y, speed.now", "speed.now, position.x, position.y")
    with pytest.raises(
        InvalidRulebook,
        match=r"names speed\.now where a number of position is, .* observes its parts in the order "
        r"gear, position, speed\. Name them in this order\.",
    ):
        parse(wrong, "parts.yaml").make_environment()


def test_a_file_that_speaks_of_one_choice_is_not_about_branches() -> None:
    branches = gym.spaces.MultiDiscrete([2, 3])
    rules = parse(TEXT, "parts.yaml")
    said = r"speaks of one choice, .*, but the policy chooses in branches of \[2, 3\] actions"
    with pytest.raises(InvalidRulebook, match=said):
        rules.check_spaces(SPACE, branches)
    with pytest.raises(InvalidRulebook, match=said):
        rules.check_policy(hr.BranchedPolicy.mlp((SPACE, branches), hidden=[8]))
