"""Checkpoints: a learner in a file, and back."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail._storage import load_state, save_state
from handrail.errors import InvalidRun
from handrail.learning.checkpoint import Checkpoint
from handrail.learning.reinforce import Reinforce
from handrail.runs.run import make_agent
from tests.support.paths import DATA

OLD = DATA / "before_the_house" / "run" / "checkpoints" / "episode-00000006.safetensors"


def learner() -> Reinforce:
    env = gym.make("CartPole-v1", max_episode_steps=50)
    policy = hr.CategoricalPolicy.mlp(env, hidden=[16])
    region = hr.Box([-1, 0, 0.1, 0], [1, 0, 0.2, 0.1])
    constraints = [
        hr.AtLeast(0.9, 1, region, name="right"),
        hr.AtMost(0.2, 1, hr.Points([[0.0, 0.0, -0.2, 0.0]]), name="left"),
    ]
    return Reinforce(env, policy, constraints, step_size=1e-3, seed=3)


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    agent = learner()
    agent.learn(episodes=3)
    saved = agent.checkpoint()
    saved.save(tmp_path / "learner")
    loaded = Checkpoint.load(tmp_path / "learner")
    assert loaded.progress == saved.progress
    assert (loaded.progress.episodes, loaded.progress.updates) == (3, 3)
    assert loaded.progress.steps == agent.steps
    assert loaded.settings == agent.settings
    assert loaded.environment == {"id": "CartPole-v1", "max_episode_steps": 50, "options": {}}
    assert loaded.policy.architecture == saved.policy.architecture
    assert loaded.policy.quantity == agent.policy.quantity
    for name, tensors in (("enforcer", saved.enforcer), ("baseline", saved.baseline)):
        found = getattr(loaded, name)
        assert set(found) == set(tensors)
        for key, value in tensors.items():
            np.testing.assert_array_equal(found[key], value)
    names = [one.name for one in loaded.constraints.build()]
    assert names == ["right", "the saved constraints"]


def test_it_stays_as_it_was_while_the_learner_goes_on() -> None:
    agent = learner()
    saved = agent.checkpoint()
    before = {name: value.copy() for name, value in saved.policy.weights.items()}
    agent.learn(episodes=2)
    for name, value in before.items():
        np.testing.assert_array_equal(saved.policy.weights[name], value)
    assert saved.progress.episodes == 0


def test_a_file_of_before_is_read_and_written_alike(tmp_path: Path) -> None:
    """Byte for byte, but for what a run notes beside it."""
    old = Checkpoint.load(OLD)
    assert old.progress.episodes == 6
    assert [one.name for one in old.constraints.build()] == [
        "leaning right, push right",
        "the saved constraints",
    ]
    tensors, state = load_state(OLD)
    del state["ledger"]
    save_state(tmp_path / "expected", tensors, state)
    old.save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == (tmp_path / "expected").read_bytes()


def test_the_first_files_had_probabilities_and_no_regions(tmp_path: Path) -> None:
    tensors, state = load_state(OLD)
    for key in ("quantity", "std", "regions"):
        del state[key]
    save_state(tmp_path / "first", tensors, state)
    first = Checkpoint.load(tmp_path / "first")
    assert first.policy.quantity == hr.policies.PROBABILITY
    assert first.policy.std is None
    assert first.constraints.regions == []


@pytest.mark.parametrize(
    "changes",
    [{"settings": {"step_size": -1.0}}, {"labels": 3}, {"quantity": "odds"}, {"episodes": None}],
)
def test_what_is_no_learner(tmp_path: Path, changes: dict[str, Any]) -> None:
    tensors, state = load_state(OLD)
    if changes == {"episodes": None}:
        del state["episodes"]
    else:
        state |= changes
    save_state(tmp_path / "other", tensors, state)
    with pytest.raises(InvalidRun, match="other holds no learner that can be read: "):
        Checkpoint.load(tmp_path / "other")
    save_state(tmp_path / "newer", tensors, {**state, "format": 7})
    with pytest.raises(InvalidRun, match="has format 7, but this version of Handrail reads format"):
        Checkpoint.load(tmp_path / "newer")


def test_another_noise_is_refused() -> None:
    agent = make_agent(hr.rulebook.with_settings(hr.load_rulebook("pendulum"), episodes=1))
    saved = agent.checkpoint()
    assert saved.policy.std is not None
    louder = replace(saved, policy=replace(saved.policy, std=[9.0]))
    with pytest.raises(InvalidRun, match=r"has the standard deviation \[9.0\], but the policy tha"):
        make_agent(hr.load_rulebook("pendulum"), louder)
    with pytest.raises(InvalidRun, match="has continuous actions, but the environment acts in Dis"):
        saved.policy.build(hr.policies.spaces_of(gym.make("CartPole-v1")))
