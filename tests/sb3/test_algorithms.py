"""The tables of docs/guides/algorithms.md, cell by cell: a tiny model is held, or is refused."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import sb3_contrib
import stable_baselines3
from stable_baselines3.common.vec_env import DummyVecEnv, VecFrameStack

import handrail as hr
from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.sb3 import Handrail, policy_of
from tests.support.paths import ROOT
from tests.support.sb3_models import Masked, Numbers

PAGE = (ROOT / "docs" / "guides" / "algorithms.md").read_text(encoding="utf-8")

OBSERVATIONS: dict[str, gym.Space[Any]] = {
    "`Box`": gym.spaces.Box(-1.0, 1.0, (3,), np.float32),
    "`Box` of several axes": gym.spaces.Box(-1.0, 1.0, (2, 2), np.float32),
    "images": gym.spaces.Box(0, 255, (1, 36, 36), np.uint8),
    "`Dict`": gym.spaces.Dict(
        {"speed": gym.spaces.Box(0.0, 9.0, (1,), np.float32), "gear": gym.spaces.Discrete(3)}
    ),
    "`Dict` with images": gym.spaces.Dict(
        {"eye": gym.spaces.Box(0, 255, (3, 36, 36), np.uint8), "gear": gym.spaces.Discrete(3)}
    ),
    "`Discrete`": gym.spaces.Discrete(3),
}
ACTIONS: dict[str, gym.Space[Any]] = {
    "`Discrete`": gym.spaces.Discrete(3),
    "`Box`": gym.spaces.Box(-1.0, 1.0, (2,), np.float32),
    "`MultiDiscrete`": gym.spaces.MultiDiscrete([3, 2]),
    "`MultiBinary`": gym.spaces.MultiBinary(2),
}

# What the message says, by the note that gives the reason.
REASONS = {
    "unread": "cannot look into|how it acts is not known",
    "memory": r"remembers: .*FrameStackObservation",
}
ROLLOUTS = {"n_steps": 4}
BATCHES = {"n_steps": 4, "batch_size": 4}
REPLAYED = {"buffer_size": 20, "learning_starts": 2, "batch_size": 2}
SETTINGS: dict[str, dict[str, Any]] = {
    "PPO": BATCHES | {"n_epochs": 1},
    "A2C": ROLLOUTS,
    "TRPO": BATCHES,
    "MaskablePPO": BATCHES | {"n_epochs": 1},
    "RecurrentPPO": BATCHES | {"n_epochs": 1},
    "ARS": {"n_delta": 1},
    **dict.fromkeys(("SAC", "TD3", "DDPG", "DQN", "QRDQN", "TQC", "CrossQ"), REPLAYED),
}
PREFERRING = ("DQN", "QRDQN")  # they act greedily, by values
OWN_EXTRACTOR = ("SAC", "TD3", "DDPG", *PREFERRING)  # which is held with the layers behind it
AS_PPO = ("A2C", "TRPO")  # their models are of the same class


@dataclass(frozen=True)
class Cell:
    """One of a table: what it says of an algorithm on these spaces."""

    algorithm: str
    observations: str
    actions: str
    text: str

    def __str__(self) -> str:
        return f"{self.algorithm} {self.observations} {self.actions}".replace("`", "")

    @property
    def space(self) -> gym.Space[Any]:
        return OBSERVATIONS[self.observations]

    def model(self) -> Any:
        kind: Any = getattr(stable_baselines3, self.algorithm, None)
        kind = kind or getattr(sb3_contrib, self.algorithm)
        masked = self.algorithm == "MaskablePPO" and self.actions == "`Discrete`"
        make = Masked if masked else Numbers
        env = make(observations=self.space, actions=ACTIONS[self.actions])
        network: dict[str, Any] = {"net_arch": [8]}
        if self.observations == "images":
            network["features_extractor_kwargs"] = {"features_dim": 4}
        if self.observations == "`Dict` with images":
            network["features_extractor_kwargs"] = {"cnn_output_dim": 4}
        policy = "MlpPolicy"
        if isinstance(self.space, gym.spaces.Dict):
            policy = "MultiInputPolicy"
        elif self.observations == "images":
            policy = "CnnPolicy"
        if self.algorithm == "RecurrentPPO":
            policy = policy.replace("Policy", "LstmPolicy")
        settings = SETTINGS[self.algorithm]
        return kind(policy, env, seed=0, device="cpu", policy_kwargs=network, **settings)

    def rules(self) -> list[hr.Constraint]:
        self.space.seed(0)
        seen = self.space.sample()
        flat: Any = gym.spaces.flatten(self.space, seen)
        state = seen if isinstance(self.space, gym.spaces.Box) else flat
        where = hr.Points(np.asarray(state, dtype=np.float64)[None])
        if self.algorithm in PREFERRING:
            return [hr.Prefer(1, by=0.1, where=where, name="asked")]
        if self.actions == "`Box`":
            return [hr.AtLeast(0.4, hr.Mean(1), where, name="asked")]
        if "Multi" in self.actions:
            asked = hr.Branch(ACTIONS[self.actions], 1, action=1)
            return [hr.AtLeast(0.7, asked, where, name="asked")]
        return [hr.AtLeast(0.7, 1, where, name="asked")]


def _table(heading: str) -> list[list[str]]:
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def _cells() -> Iterator[Cell]:
    (_, *actions), *rows = _table("Actions")
    assert actions == list(ACTIONS)
    for algorithm, *texts in rows:
        for action, text in zip(actions, texts, strict=True):
            yield Cell(algorithm, "`Box`", action, text)
    (_, *observations), *rows = _table("Observations")
    assert observations == list(OBSERVATIONS)
    for algorithm, *texts in rows:
        discrete = algorithm not in ("SAC", "TD3", "DDPG", "TQC", "CrossQ")
        for observation, text in zip(observations, texts, strict=True):
            yield Cell(algorithm, observation, "`Discrete`" if discrete else "`Box`", text)


CELLS = list(_cells())


def test_the_tables_have_every_algorithm_and_every_note() -> None:
    for heading in ("Actions", "Observations"):
        assert [row[0] for row in _table(heading)[1:]] == list(SETTINGS)
    named = set(re.findall(r"^- \*\*(\w+)\*\*", PAGE, re.MULTILINE))
    used = {one for cell in CELLS for one in re.findall(r"\[(\w+)\]", cell.text)}
    assert named == used
    assert named >= set(REASONS) & used


def _marked(cell: Cell) -> Any:
    """Actors with a convolution of their own take half a minute, others a few seconds."""
    as_ppo = (*OWN_EXTRACTOR, *AS_PPO, "MaskablePPO")
    slow = "images" in cell.observations and cell.algorithm in as_ppo
    return pytest.param(cell, marks=pytest.mark.slow if slow else ())


WORKING = [_marked(one) for one in CELLS if one.text.startswith("works")]


@pytest.mark.parametrize("cell", WORKING, ids=str)
def test_what_works_is_held(cell: Cell) -> None:
    model, rules = cell.model(), cell.rules()
    rail = Handrail(rules)
    free = cell.algorithm == "MaskablePPO" and "Multi" in cell.actions
    unmasked = {"use_masking": False} if free else {}
    model.learn(6, callback=rail, **unmasked)
    assert rail.history
    assert rail.worst_violation <= 1e-5
    assert hr.measure(policy_of(model), rules).worst_violation <= 1e-5


@pytest.mark.parametrize("cell", [one for one in CELLS if one.text.startswith("refused")], ids=str)
def test_what_is_refused_says_why(cell: Cell) -> None:
    (note,) = re.findall(r"\[(\w+)\]", cell.text)
    with pytest.raises(InvalidPolicy, match=REASONS[note]):
        policy_of(cell.model())


@pytest.mark.parametrize("cell", [one for one in CELLS if one.text == "–"], ids=str)
def test_what_does_not_exist(cell: Cell) -> None:
    """Stable-Baselines3 itself makes no such model."""
    with pytest.raises((AssertionError, ValueError, NotImplementedError, TypeError)):
        cell.model()


def test_every_cell_is_one_of_the_three() -> None:
    words = {cell.text.partition(",")[0] for cell in CELLS}
    assert words <= {"works", "refused", "–"}


def test_stacked_frames_are_held() -> None:
    """What is offered instead of memory: in both ways, the state is all of the frames."""

    def one() -> gym.Env[Any, Any]:
        return Numbers()

    stacked = gym.wrappers.FrameStackObservation(Numbers(), 3)
    for env, state in (
        (stacked, _frames((3, 4))),
        (VecFrameStack(DummyVecEnv([one]), 3), _frames((12,))),
    ):
        rules = [hr.AtLeast(0.8, 2, hr.Points(state[None]), name="asked")]
        model = stable_baselines3.A2C("MlpPolicy", env, n_steps=4, seed=0, device="cpu")
        rail = Handrail(rules)
        model.learn(8, callback=rail)
        assert rail.worst_violation <= 1e-5
        shown, _ = model.policy.obs_to_tensor(state.astype(np.float32))
        distribution: Any = model.policy.get_distribution(shown)
        assert distribution.distribution.probs[0, 2].item() >= 0.8 - 1e-4


def _frames(shape: tuple[int, ...]) -> Array:
    return np.linspace(-1.0, 1.0, 12).reshape(shape)
