"""A run that begins where a policy already is, and goes on as any other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import handrail as hr
from handrail.errors import InvalidPolicy
from handrail.rulebook import parse, with_settings
from handrail.runs import make_policy, start_run_from
from handrail.runs.run import Run
from tests.conftest import sharpen
from tests.runs.test_run import TEXT

BOOK = parse(TEXT, "corridor.yaml")
STATES = np.random.default_rng(0).uniform(-1.0, 1.0, (10, 2))


def another_policy() -> hr.Policy:
    env = BOOK.make_environment()
    policy = make_policy(with_settings(BOOK, seed=9), env)
    assert isinstance(policy, hr.CategoricalPolicy)
    sharpen(policy, 2.0)
    return policy


def test_it_begins_with_the_policy_held_to_the_constraints(tmp_path: Path) -> None:
    policy = another_policy()
    before = policy.outputs(STATES)
    start_run_from(policy, tmp_path / "run", BOOK)
    run = Run.open(tmp_path / "run")
    held = another_policy()
    hr.Reinforce.with_settings(BOOK.make_environment(), held, BOOK, BOOK.settings.learner)
    np.testing.assert_array_equal(run.agent().policy.outputs(STATES), held.outputs(STATES))
    np.testing.assert_array_equal(policy.outputs(STATES), before)
    assert (run.saved_episodes, run.records()) == (0, [])


def test_it_is_resumed_bit_for_bit(tmp_path: Path) -> None:
    book = with_settings(BOOK, episodes=6)
    whole = start_run_from(another_policy(), tmp_path / "whole", book)
    whole.learn()
    halved = start_run_from(another_policy(), tmp_path / "halved", book)
    halved.learn(stop=lambda: len(halved.records()) >= 3, checkpoint_seconds=0.0)
    assert len(halved.records()) == 3
    resumed = Run.open(tmp_path / "halved").learn()
    assert [one.score for one in halved.records()] == [one.score for one in whole.records()]
    expected = whole.agent().policy.outputs(STATES)
    np.testing.assert_array_equal(resumed.policy.outputs(STATES), expected)


def test_another_network_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    other = with_settings(BOOK, network={"hidden": [3]})
    with pytest.raises(InvalidPolicy, match="with the network that its constraint file describes"):
        start_run_from(another_policy(), tmp_path / "run", other)
    assert not (tmp_path / "run").exists()
