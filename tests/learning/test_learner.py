"""What every learner has, shown with one that is not ours: only its `turn` is written here."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Any, final

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail._storage import load_state, save_state
from handrail._types import Array
from handrail.errors import (
    InvalidArgument,
    InvalidPolicy,
    InvalidRulebook,
    UnsatisfiedConstraints,
)
from handrail.learning.checkpoint import Checkpoint
from handrail.learning.learner import Learner
from handrail.learning.record import Record, Seconds
from handrail.learning.reinforce import Reinforce
from handrail.learning.update import Timing, Update
from handrail.rulebook import AnyConstraints
from handrail.settings import LearnerSettings
from tests.conftest import small_policy
from tests.support.environments import corridor


@final
class Drifting(Learner):
    """Changes all weights a little, by chance, and makes the policy obey again."""

    def turn(self) -> tuple[list[Record], Seconds]:
        start = perf_counter()
        episodes = self._play()
        collecting = perf_counter() - start
        if self._frozen:
            return self._recorded(episodes, collecting, None, Timing())
        with self._forgetting_on_failure():
            self.baseline.advantages(episodes, self.settings.discount)
            rng = np.random.default_rng([self.settings.seed, self.updates])
            with torch.no_grad():
                for parameter in self.policy.parameters:
                    parameter.add_(torch.as_tensor(rng.normal(scale=0.1, size=parameter.shape)))
            assert self.enforcer is not None
            held = self.enforcer.hold(self.policy)
            held.raise_if_unsatisfied()
        update = Update(violation_after=held.worst_violation, iterations=held.iterations)
        return self._recorded(episodes, collecting, update, Timing())


RULES = [hr.AtLeast(0.9, action=1, where=hr.Points([[0.2, 1.0], [0.6, 1.0]]), name="onwards")]


def drifting(**settings: object) -> Drifting:
    chosen = LearnerSettings(**{"seed": 1, **settings})  # type: ignore[arg-type]
    return Drifting.with_settings(corridor(), small_policy(2, 2), RULES, chosen)


def test_records_and_obedience() -> None:
    agent = drifting(episodes_per_update=2, freeze_after=4)
    assert agent.first_enforcement is not None
    records = agent.learn(episodes=6)
    assert [one.episode for one in records] == list(range(6))
    assert [one.update for one in records] == [0, 0, 1, 1, None, None]
    assert records[-1].steps == agent.steps == sum(one.length for one in records)
    assert max(one.violation_after for one in records if one.violation_after is not None) <= 1e-6
    assert agent.evaluate(episodes=2).satisfied
    assert hr.evaluate(agent, corridor(), RULES, episodes=2).satisfied
    assert repr(agent).startswith("Drifting(CategoricalPolicy(")
    assert repr(agent).endswith("2 constraint rows, 6 episodes learned from)")


def test_it_is_saved_and_goes_on(tmp_path: Path) -> None:
    agent = drifting()
    agent.learn(episodes=3)
    agent.save(tmp_path / "agent")
    loaded = Drifting.load(tmp_path / "agent", env=corridor())
    assert loaded.first_enforcement is None
    assert loaded.learn(episodes=3) == agent.learn(episodes=3)
    for one, other in zip(loaded.policy.parameters, agent.policy.parameters, strict=True):
        assert torch.equal(one, other)


def test_callbacks_are_given_the_learner() -> None:
    seen: list[Drifting] = []
    drifting().learn(episodes=2, callbacks=[lambda agent, *_: seen.append(agent)])
    assert [type(one) for one in seen] == [Drifting, Drifting]


def test_one_of_each_is_said_so() -> None:
    rule = hr.AtLeast(0.9, action=1, where=hr.Points([[0.2, 1.0]]))
    agent = hr.Reinforce(corridor(), small_policy(2, 2), [rule])
    agent.learn(episodes=1)
    assert repr(agent).endswith(", 1 constraint row, 1 episode learned from)")


def test_constraints_of_a_file_by_any_name() -> None:
    book = hr.load_rulebook("cartpole")
    env = gym.make("CartPole-v1")
    given: list[AnyConstraints] = ["cartpole", book, book.constraints]
    agents = [hr.Reinforce(env, hr.CategoricalPolicy.mlp(env, hidden=[16]), one) for one in given]
    assert len({repr(agent) for agent in agents}) == 1
    assert "18 constraint rows" in repr(agents[0])
    with pytest.raises(InvalidRulebook, match="lunar_lander names 8 observations"):
        hr.Reinforce("CartPole-v1", constraints="lunar_lander")


def test_parts_that_do_not_fit_are_refused_and_nothing_is_changed() -> None:
    policy = small_policy(2, 2)
    before = [one.detach().clone() for one in policy.parameters]
    region = [hr.AtLeast(0.9, 1, hr.Box([0.0, 1.0], [0.5, 1.0]))]
    with pytest.raises(InvalidArgument, match="selection 'everywhere' holds regions exactly, enf"):
        hr.Reinforce.check(corridor(), policy, region, LearnerSettings(enforcement="one_step"))
    hr.Reinforce.check(corridor(), policy, RULES, LearnerSettings())
    both = [*RULES, hr.AtMost(0.1, action=1, where=hr.Points([[0.2, 1.0]]), name="not so")]
    with pytest.raises(UnsatisfiedConstraints):
        hr.Reinforce.with_settings(corridor(), policy, both, LearnerSettings())
    for one, other in zip(policy.parameters, before, strict=True):
        assert torch.equal(one, other)


SMALL, LARGE = (
    hr.Box([0.0, 0.0, 0.15, 0.0], [0.1, 0.0, 0.16, 0.0]),
    hr.Box([-2.4, 0.0, -0.2, -2.0], [2.4, 0.0, 0.2, 2.0]),
)
LEANING = hr.Points([0.0, 0.0, 0.2, 0.0])


class TestOtherConstraintsThanTheSavedOnes:
    """What was remembered of the old ones is not true of the new ones."""

    def saved(self, path: Path, constraint: hr.Constraint, **settings: Any) -> Path:
        env = gym.make("CartPole-v1")
        policy = hr.CategoricalPolicy.mlp(env, hidden=[64], seed=0)
        agent = Reinforce(env, policy, [constraint], seed=0, **settings)
        agent.learn(episodes=2)
        agent.save(path / "agent")
        return path / "agent"

    @pytest.mark.parametrize("prove", [True, False])
    def test_of_a_larger_region(self, tmp_path: Path, prove: bool) -> None:
        whole = hr.Everywhere(prove=prove)
        path = self.saved(tmp_path, hr.AtLeast(0.9, 1, SMALL, name="right"), selection=whole)
        wider = hr.AtLeast(0.9, 1, LARGE, name="right")
        agent = Reinforce.load(path, constraints=[wider])
        states = LARGE.sample(2000, np.random.default_rng(0))
        assert agent.policy.outputs(states)[:, 1].min() >= 0.9  # before its next step
        assert agent.episodes == 2
        records = agent.learn(episodes=2)
        assert agent.policy.outputs(states)[:, 1].min() >= 0.9
        assert max(record.violation_before or 0.0 for record in records) <= 0.0
        if prove:
            assert hr.certify(agent.policy, wider).certified

    def test_of_points(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path, hr.AtLeast(0.9, 1, LEANING, name="right"))
        opposite = hr.AtMost(0.1, 1, LEANING, name="left")
        agent = Reinforce.load(path, constraints=[opposite])
        assert hr.measure(agent.policy, [opposite]).worst_violation <= 1e-6
        record = agent.learn(episodes=1)[0]
        assert record.violation_before is not None
        assert record.violation_before <= 1e-6
        measured = hr.measure(agent.policy, [opposite]).worst_violation
        assert record.violation_after == pytest.approx(measured, abs=1e-12)

    def test_of_a_curve_that_is_a_function(self, tmp_path: Path) -> None:
        """Two curves that nothing describes are told apart by their states."""

        def right(x: float) -> hr.AtLeast:
            def f(t: Array) -> Array:
                return np.stack([x + 0 * t, 0 * t, 0.1 + 0.1 * t, 0 * t], axis=1)

            curve = hr.Curve(f, 0.0, 1.0)
            return hr.AtLeast(0.9, 1, curve, name="right")

        path = self.saved(tmp_path, right(0.0))
        saved = Checkpoint.load(path).constraints
        assert saved.regions is None
        same, other = (
            Reinforce.load(path, constraints=[right(x)]).checkpoint().constraints for x in (0, 2)
        )
        assert saved.sha256 == same.sha256 != other.sha256

    def test_which_cannot_hold(self, tmp_path: Path) -> None:
        path = self.saved(tmp_path, hr.AtLeast(0.9, 1, LEANING, name="right"))
        both = [hr.AtLeast(0.9, 1, LEANING, name="a"), hr.AtLeast(0.9, 0, LEANING, name="b")]
        with pytest.raises(UnsatisfiedConstraints, match="'a' and 'b'"):
            Reinforce.load(path, constraints=both)

    def test_the_same_ones_go_on_bit_for_bit(self, tmp_path: Path) -> None:
        constraint = hr.AtLeast(0.9, 1, SMALL, name="right")
        path = self.saved(tmp_path, constraint, selection=hr.Everywhere(prove=True))
        one, other = Reinforce.load(path), Reinforce.load(path, constraints=[constraint])
        assert one.learn(episodes=2) == other.learn(episodes=2)

    def test_weights_that_do_not_obey_are_made_to(self, tmp_path: Path) -> None:
        """A file that was sealed again with other weights."""
        constraint = hr.AtLeast(0.9, 1, LEANING, name="right")
        path = self.saved(tmp_path, constraint)
        tensors, state = load_state(path)
        altered = {**tensors, "policy.2.bias": np.array([50.0, 0.0])}
        save_state(path, altered, state)
        agent = Reinforce.load(path)
        assert hr.measure(agent.policy, [constraint]).worst_violation <= 1e-6


def test_what_is_no_policy_is_refused_in_words() -> None:
    """Rules in the place of the policy, or a bare network: the first mistake of all."""
    rules = [hr.AtLeast(0.9, 1, hr.Points([0.0, 0.0, 0.2, 0.1]))]
    named = r"Expected a policy, but got {}\. Wrap a torch .*Reinforce\(env, constraints=\[…\]\)"
    for given in (rules, "cartpole", torch.nn.Linear(4, 2)):
        with pytest.raises(InvalidPolicy, match=named.format(type(given).__name__)):
            hr.Reinforce("CartPole-v1", given)  # type: ignore[arg-type]
    agent = hr.Reinforce("CartPole-v1", hr.CategoricalPolicy.mlp(gym.make("CartPole-v1"), [4]))
    with pytest.raises(InvalidArgument, match=r"callbacks is a list of functions .* got \[3\]"):
        agent.learn(1, callbacks=[3])  # type: ignore[list-item]
