"""Any policy that is in a file: opened, judged by other constraints, and saved again."""

from __future__ import annotations

from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._storage import save_state
from handrail.errors import InvalidArgument, InvalidRulebook, InvalidRun
from handrail.learning.learner import Learner
from handrail.learning.reinforce import Reinforce
from handrail.rulebook import load_rulebook, with_settings
from handrail.runs.policy_file import SavedPolicy, open_policy
from handrail.runs.run import Run
from tests.support.sb3_models import ppo

NARROW = {"network": {"hidden": [16]}, "episodes": 2}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a saved learner and a model, all of CartPole."""
    folder = tmp_path_factory.mktemp("policies")
    Run.create(folder / "run", with_settings(load_rulebook("cartpole"), **NARROW)).learn()
    env = gym.make("CartPole-v1")
    agent = Reinforce(env, hr.CategoricalPolicy.mlp(env, hidden=[16]), step_size=1e-3)
    agent.learn(episodes=1)
    agent.save(folder / "learner.safetensors")
    ppo().save(folder / "model.zip")
    return folder


@pytest.mark.parametrize(
    ("name", "description", "ending", "constraints"),
    [
        ("run", "cartpole, seed 0: policy after 2 episodes", ".safetensors", 2),
        ("learner.safetensors", "learner.safetensors: policy after 1 episode", ".safetensors", 0),
        ("model.zip", "model.zip: PPO after 0 steps", ".zip", 0),
    ],
)
def test_all_kinds_the_same_way(
    folder: Path, name: str, description: str, ending: str, constraints: int
) -> None:
    saved = open_policy(folder / name, "It is about one policy")
    assert saved.description.endswith(description)
    assert saved.ending == ending
    assert len(saved.constraints) == constraints
    assert saved.spaces[0].shape == (4,)
    assert (saved.env is None) == (ending == ".zip")
    assert bool(saved.note) == (ending == ".zip")
    judged = saved.with_constraints_of(load_rulebook("cartpole_regions"))
    assert type(judged) is type(saved)
    assert judged.policy is saved.policy
    assert len(judged.constraints) == 6
    with pytest.raises(InvalidRulebook, match=r"lunar_lander names 8 observations .*observes 4 "):
        saved.with_constraints_of(load_rulebook("lunar_lander"))
    with pytest.raises(InvalidRulebook, match="names 8 observations"):
        saved.check_constraints_of(load_rulebook("lunar_lander"))


def again(saved: SavedPolicy, path: Path) -> SavedPolicy:
    return open_policy(path.with_suffix(saved.ending), "It is about one policy")


@pytest.mark.parametrize("name", ["run", "learner.safetensors", "model.zip"])
def test_what_was_changed_is_saved_changed(folder: Path, name: str, tmp_path: Path) -> None:
    saved = open_policy(folder / name, "It is about one policy")
    book = with_settings(load_rulebook("cartpole_equality"), tolerance=1e-4)
    saved.check_constraints_of(book)
    hr.enforce(saved.policy, book.constraints, tolerance=1e-5).raise_if_unsatisfied()
    saved.save(tmp_path / f"edited{saved.ending}", book)
    edited = again(saved, tmp_path / "edited")
    states = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_array_equal(edited.policy.outputs(states), saved.policy.outputs(states))
    assert hr.measure(edited.policy, book.constraints).worst_violation <= 1e-4


def test_an_edited_learner_learns_on_under_its_new_constraints(
    folder: Path, tmp_path: Path
) -> None:
    saved = open_policy(folder / "run", "It is about one policy")
    book = with_settings(load_rulebook("cartpole_equality"), tolerance=1e-4, step_size=7e-3)
    hr.enforce(saved.policy, book.constraints, tolerance=1e-5).raise_if_unsatisfied()
    saved.save(tmp_path / "edited.safetensors", book)
    agent = Reinforce.load(tmp_path / "edited.safetensors")
    assert agent.episodes == 2  # what was learned stays
    assert agent.settings.tolerance == 1e-4  # how constraints are held is the file's
    assert agent.settings.step_size == load_rulebook("cartpole").settings.step_size
    records = agent.learn(episodes=2)
    assert [one.episode for one in records] == [2, 3]
    assert hr.measure(agent.policy, book.constraints).worst_violation <= 1e-4


def test_settings_that_cannot_be_saved_are_refused_before_any_work(folder: Path) -> None:
    saved = open_policy(folder / "run", "It is about one policy")
    before = [one.detach().clone() for one in saved.policy.parameters]
    book = with_settings(load_rulebook("cartpole_regions"), enforcement="one_step")
    with pytest.raises(InvalidArgument, match="selection 'everywhere' holds regions exactly"):
        saved.check_constraints_of(book)
    for one, other in zip(saved.policy.parameters, before, strict=True):
        assert torch.equal(one, other)


def test_what_is_no_policy(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match=r"There is no file .* Did you mean .*model.zip\?"):
        open_policy(folder / "model", "It is about one policy")
    with pytest.raises(InvalidRun, match="holds no run"):
        open_policy(tmp_path, "It is about one policy")
    Run.create(tmp_path / "begun", with_settings(load_rulebook("cartpole"), **NARROW))
    with pytest.raises(InvalidArgument, match=r"has learned nothing yet.*handrail resume"):
        open_policy(tmp_path / "begun", "It is about one policy")
    save_state(tmp_path / "else", {}, {"format": 1})
    with pytest.raises(InvalidRun, match="else holds no learner that can be read: "):
        open_policy(tmp_path / "else", "It is about one policy")


def test_a_checkpoint_of_a_run_is_a_file_like_any_other(folder: Path) -> None:
    path = Run.open(folder / "run").checkpoints()[-1]
    saved = open_policy(path, "It is about one policy")
    assert saved.description.endswith("policy after 2 episodes")
    assert hr.measure(saved.policy, saved.constraints).worst_violation <= 1e-6
    learner: Learner = Run.open(folder / "run").agent()
    states = np.random.default_rng(0).normal(size=(20, 4))
    np.testing.assert_array_equal(saved.policy.outputs(states), learner.policy.outputs(states))
