"""Environments that a file names, and those that do not fit it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from handrail.errors import InvalidRulebook
from handrail.rulebook import (
    parse,
)
from tests.support.constraint_files import (
    ONE,
)

FOUR = "observations: [x, x_dot, phi, phi_dot]\n"

ENVIRONMENTS = [
    ("CartPol-v1", "", "line 1, environment: Gymnasium knows no environment 'CartPol-v1'. Close"),
    ("CartPole-v99", "", "line 1, environment: Gymnasium knows no environment 'CartPole-v99'."),
    ("Qzqzqz-v0", "", "no environment 'Qzqzqz-v0'. If a module"),
    ("Pendulum-v1", "", "line 2, observations: this file names 4 observations (x,"),
    ("Acrobot-v1", "", "line 2, observations: this file names 4 observations (x,"),
    ("{id: CartPole-v1, options: {colour: red}}", "", "line 1, environment: Gymnasium cannot make"),
    (
        "CartPole-v1",
        "left, right, up",
        "actions: this file names 3 actions (left, right, up), but CartPole-v1 has 2.",
    ),
    (
        "Handrail/Test0-v0",
        "",
        "line 3, actions: this file names discrete actions, but Handrail/Test0-v0 has",
    ),
    (
        "Handrail/Test0-v0",
        "{a: [0, 2]}",
        "the ranges [0, 2], but Handrail/Test0-v0 acts in [0, 1]. Write",
    ),
    (
        "Handrail/Test0-v0",
        "{a: [0, 1], b: [0, 1]}",
        "names 2 actions (a, b), but Handrail/Test0-v0 has 1. Name",
    ),
    (
        "CartPole-v1",
        "{a: [0, 1]}",
        "gives ranges of continuous actions, but CartPole-v1 has 2 disc",
    ),
    (
        "Handrail/Test1-v0",
        "left, right, up",
        "names 3 actions (left, right, up), but Handrail/Test1-v0 has 2. Name",
    ),
    (
        "Handrail/Test4-v0",
        "",
        "line 3, actions: this file speaks of one choice, left, right, but Handrail/Test4-v0 choo",
    ),
    ("Handrail/Test3-v0", "", "line 1, environment: Observations must be numbers: a Box"),
]


class Odd(gym.Env[Any, Any]):
    """Spaces to order."""

    def __init__(self, **options: Any) -> None:
        self.observation_space = options["observations"]
        self.action_space = options["actions"]
        self.render_mode = options.get("render_mode")

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.full((2, 2), 0.5, dtype=np.float32), {}


@pytest.fixture
def odd_environments() -> Iterator[None]:
    square, two = gym.spaces.Box(0.0, 1.0, (2, 2)), gym.spaces.Discrete(2)
    spaces: list[tuple[gym.Space[Any], gym.Space[Any]]] = [
        (square, gym.spaces.Box(0.0, 1.0, (1,))),
        (square, gym.spaces.Discrete(2, start=3)),
        (square, two),
        (gym.spaces.Text(5), two),
        (square, gym.spaces.MultiDiscrete([2, 2])),
    ]
    for number, (observations, actions) in enumerate(spaces):
        options = {"observations": observations, "actions": actions}
        gym.register(f"Handrail/Test{number}-v0", Odd, kwargs=options)
    yield
    for number in range(len(spaces)):
        gym.registry.pop(f"Handrail/Test{number}-v0")


@pytest.mark.usefixtures("odd_environments")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("environment", "actions", "message"), ENVIRONMENTS)
def test_environments_that_do_not_fit(environment: str, actions: str, message: str) -> None:
    named = actions if actions.startswith("{") else f"[{actions or 'left, right'}]"
    one = re.sub(r"\b(left|right)\b", "a", ONE) if actions.startswith("{") else ONE
    rules = parse(f"environment: {environment}\n{FOUR}actions: {named}\n{one}", "env.yaml")
    with pytest.raises(InvalidRulebook, match=re.escape(message)) as caught:
        rules.make_environment()
    assert str(caught.value).startswith("env.yaml, line ")


@pytest.mark.usefixtures("odd_environments")
def test_observations_are_flat() -> None:
    rules = parse(f"environment: Handrail/Test2-v0\n{FOUR}actions: [left, right]\n{ONE}", "e.yaml")
    env = rules.make_environment()
    assert env.observation_space.shape == (4,)
    assert env.reset()[0].shape == (4,)
    env.close()
