"""What every learner has, shown with one that is not ours: only its `turn` is written here."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import final

import gymnasium as gym
import numpy as np
import pytest
import torch

import handrail as hr
from handrail.errors import InvalidArgument, InvalidRulebook, UnsatisfiedConstraints
from handrail.learning.learner import Learner
from handrail.learning.record import Record, Seconds
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
