"""Checkpoints: a learner in a file, and back."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail._storage import load_state, save_state
from handrail.errors import InvalidRun
from handrail.learning.checkpoint import Checkpoint, SavedEnvironment, make_environment
from handrail.learning.reinforce import Reinforce
from handrail.runs.run import make_agent
from tests.support.paths import DATA

SPEC = SavedEnvironment(id="CartPole-v1", max_episode_steps=50, options={})
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
    assert loaded.environment is not None
    assert loaded.environment.id == "CartPole-v1"
    assert loaded.environment.max_episode_steps == 50
    assert loaded.environment.options == {}
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
    """Byte for byte, but for a run's notes beside it, whose constraints these are, and settings.

    `reach` and `on_unproven` came later.
    """
    old = Checkpoint.load(OLD)
    assert old.progress.episodes == 6
    assert [one.name for one in old.constraints.build()] == [
        "leaning right, push right",
        "the saved constraints",
    ]
    tensors, state = load_state(OLD)
    del state["ledger"]
    state["constraints_sha256"] = old.constraints.sha256
    state["settings"]["reach"] = "auto"
    state["settings"]["selection"]["on_unproven"] = "refuse"
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


def _wrong(value: object) -> list[object]:
    """Of other types than a value, and of its own but impossible."""
    others: list[object] = [None, [], "x", -5, {}, 1e300, True]
    return [one for one in others if type(one) is not type(value)]


def test_what_was_sealed_again_is_checked(tmp_path: Path) -> None:
    """Each entry and each tensor altered by itself: refused in words, or of no consequence."""
    tensors, state = load_state(OLD)
    told = "There is no tensor|The tensor .* (is|has)|The saved|A saved|holds no learner|has format"
    messages: list[str] = []

    def attempt(tensors: dict[str, Any], state: dict[str, Any]) -> None:
        save_state(tmp_path / "altered", tensors, state)
        try:
            agent = Reinforce.load(tmp_path / "altered", make_environment(SPEC))
        except InvalidRun as error:
            messages.append(str(error))
        else:  # what is left must obey, whatever the file said
            assert agent.evaluate(episodes=1).satisfied

    entries = sorted(set(state) - {"ledger"})
    for key in entries:
        attempt(tensors, {one: value for one, value in state.items() if one != key})
        for value in _wrong(state[key]):
            attempt(tensors, {**state, key: value})
    for key in tensors:
        attempt({one: value for one, value in tensors.items() if one != key}, state)
        attempt({**tensors, key: np.zeros((2, 2, 2, 2))}, state)
        if tensors[key].dtype.kind == "f" and tensors[key].size:
            attempt({**tensors, key: np.full_like(tensors[key], np.nan)}, state)
    assert len(messages) > 100
    assert [one for one in messages if not re.search(told, one)] == []


def test_a_file_cannot_ask_for_a_network_that_fills_the_memory(tmp_path: Path) -> None:
    tensors, state = load_state(OLD)
    huge = {**state["architecture"], "hidden": [2**30]}
    save_state(tmp_path / "huge", tensors, {**state, "architecture": huge})
    with pytest.raises(InvalidRun, match=r"are those of hidden layers of \[16\], not of \[1073"):
        Checkpoint.load(tmp_path / "huge")


def test_a_file_cannot_have_a_module_imported(tmp_path: Path) -> None:
    """Gymnasium imports what is before a colon."""
    tensors, state = load_state(OLD)
    foreign: dict[str, Any] = {"id": "antigravity:Env-v0", "max_episode_steps": None, "options": {}}
    save_state(tmp_path / "foreign", tensors, {**state, "environment": foreign})
    with pytest.raises(InvalidRun, match=r"environment.id: String should match pattern"):
        Reinforce.load(tmp_path / "foreign")
    assert "antigravity" not in sys.modules


def test_an_environment_that_cannot_be_made(tmp_path: Path) -> None:
    tensors, state = load_state(OLD)
    for name, options in (("Nowhere-v0", {}), ("CartPole-v1", {"wings": 2})):
        described = {"id": name, "max_episode_steps": None, "options": options}
        save_state(tmp_path / "file", tensors, {**state, "environment": described})
        with pytest.raises(InvalidRun, match=f"{name!r}, cannot be made: "):
            Reinforce.load(tmp_path / "file")
