"""The learner: Algorithm 2 to the letter, obedience from the first step, and what it refuses."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

import handrail as hr
from handrail.constraints.expansion import expand
from handrail.enforcement import Rail
from handrail.enforcement.enforcer import PointEnforcer
from handrail.errors import (
    Diverged,
    EnvironmentFailure,
    InvalidArgument,
    InvalidPolicy,
    InvalidRun,
    UnsatisfiedConstraints,
)
from handrail.learning.record import Record, Seconds
from handrail.learning.reinforce import Reinforce
from handrail.learning.update import apply_update
from handrail.settings import LearnerSettings
from tests.conftest import Golden, small_policy
from tests.support import cartpole
from tests.support.environments import Car, Failing, Pixels, corridor


def constraints() -> list[hr.Constraint]:
    return [
        hr.AtLeast(0.9, action=1, where=hr.Points([[0.2, 1.0], [0.6, 1.0]]), name="onwards"),
        hr.AtMost(0.8, action=0, where=hr.Points([[0.0, 1.0]]), name="not back"),
    ]


def learner(**settings: Any) -> Reinforce:
    settings = {"step_size": 1e-3, "seed": 1, **settings}
    rules = settings.pop("constraints", constraints())
    return Reinforce(corridor(), small_policy(2, 2), rules, **settings)


def weights(agent: Reinforce) -> list[Any]:
    return [p.detach().numpy().copy() for p in agent.policy.parameters]


def test_the_signature_has_the_defaults_of_the_settings() -> None:
    parameters = inspect.signature(Reinforce).parameters
    defaults = {name: field.default for name, field in LearnerSettings.model_fields.items()}
    assert {name: parameters[name].default for name in defaults} == defaults


def test_one_step_is_the_authors_update(golden: Golden) -> None:
    policy = golden.policy
    rules = golden.constraints(hr.AtLeast)
    rows = expand(rules, policy).rows()
    settings = LearnerSettings(enforcement="one_step", step_size=golden.step_size)
    rail = Rail(PointEnforcer(rows, 1e-6), rules, None, "auto")
    update, _ = apply_update(policy, rail, golden.batch, settings)
    states = golden["constrained_states"]
    np.testing.assert_allclose(
        policy.probabilities(states), golden["probabilities_after_inequality_update"], atol=1e-5
    )
    assert update.safe_return_size == pytest.approx(
        np.linalg.norm(golden["safe_returns_inequality"]), rel=1e-6
    )
    assert update.iterations == 0


def test_the_losses_are_what_they_say(golden: Golden) -> None:
    policy, batch = golden.policy, golden.batch
    rules = golden.constraints(hr.AtLeast)
    log_batch = policy.log_probabilities(np.asarray(batch.states))
    log_safe = policy.log_probabilities(golden["constrained_states"])
    actions = np.asarray(batch.actions)
    returns = hr.safe_returns(policy, batch, rules, golden.step_size)
    batch_loss = -np.asarray(batch.returns) @ log_batch[np.arange(len(actions)), actions]
    chosen = golden["constrained_actions"].astype(int)
    safe_loss = -returns.values @ log_safe[np.arange(len(chosen)), chosen]
    assert returns.batch_loss == pytest.approx(batch_loss)
    assert returns.safe_loss == pytest.approx(safe_loss)


def test_the_policy_obeys_before_its_first_step_and_whenever_it_acts() -> None:
    agent = learner()
    assert agent.first_enforcement is not None
    assert agent.first_enforcement.satisfied
    acting: list[float] = []
    rows = expand(constraints(), agent.policy).rows()

    class Witness(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            acting.append(PointEnforcer(rows, 1e-6).violation(agent.policy))
            return self.env.step(action)

    agent = Reinforce(Witness(corridor()), small_policy(2, 2), constraints(), step_size=1e-2)
    rows = expand(constraints(), agent.policy).rows()
    records = agent.learn(episodes=30)
    assert len(acting) == sum(record.length for record in records)
    assert max(acting) <= 1e-6
    assert max(r.violation_before for r in records if r.violation_before is not None) <= 1e-6


def test_one_step_needs_a_few_episodes() -> None:
    agent = learner(enforcement="one_step", step_size=1e-2)
    assert agent.first_enforcement is None
    violations = [record.violation_before for record in agent.learn(episodes=8)]
    assert violations[0] is not None
    assert violations[0] > 0.1
    assert violations[-1] is not None
    assert violations[-1] < 0.02


def test_without_enforcement_constraints_are_only_measured() -> None:
    free = learner(enforcement="none", constraints=())
    watched = learner(enforcement="none")
    free.learn(episodes=5)
    records = watched.learn(episodes=5)
    for one, other in zip(weights(free), weights(watched), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(record.violation_after is not None for record in records)
    assert all(record.safe_return_size is None for record in records)


def test_predicted_and_measured_change_agree_for_small_steps() -> None:
    for record in learner(enforcement="none", step_size=1e-5).learn(episodes=3):
        assert record.predicted_change == pytest.approx(record.measured_change, rel=1e-3)
        assert record.prediction_error is not None
        assert record.measured_change is not None
        assert record.prediction_error < 1e-3 * record.measured_change


def test_it_learns() -> None:
    agent = Reinforce(corridor(), small_policy(2, 2), step_size=3e-2, seed=0)
    untrained = agent.evaluate(50).mean
    agent.learn(episodes=100)
    best = 1.0 - 0.1 * 3.5  # straight to the end from a start at 0 or 1
    assert untrained < 0.1
    assert agent.evaluate(50).mean > best - 0.05


def test_records_count() -> None:
    agent = learner(episodes_per_update=3)
    records = agent.learn(episodes=7)  # rounded up to whole updates
    assert [record.episode for record in records] == list(range(9))
    assert [record.update for record in records] == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert [record.steps for record in records] == np.cumsum([r.length for r in records]).tolist()
    assert agent.episodes == 9
    assert agent.steps == records[-1].steps


def test_timesteps_instead_of_episodes() -> None:
    records = learner().learn(timesteps=100)
    assert records[-2].steps < 100 <= records[-1].steps


def test_several_episodes_are_averaged() -> None:
    batches = []

    def spy(_: Any, rows: Any, batch: hr.Batch, settings: Any, renew: Any) -> Any:
        batches.append(batch)
        return apply_update(_, rows, batch, settings, renew)

    agent = learner(episodes_per_update=4, baseline="none", enforcement="none", discount=1.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handrail.learning.reinforce.apply_update", spy)
        records = agent.learn(episodes=4)
    starts = np.cumsum([0, *(record.length for record in records)])[:-1]
    first_returns = np.asarray(batches[0].returns)[starts]
    np.testing.assert_allclose(first_returns, [record.score / 4 for record in records])


def test_every_kth_step() -> None:
    sizes = []

    def spy(policy: Any, rows: Any, batch: hr.Batch, settings: Any, renew: Any) -> Any:
        sizes.append(len(batch))
        return apply_update(policy, rows, batch, settings, renew)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handrail.learning.reinforce.apply_update", spy)
        records = learner(use_every=3).learn(episodes=5)
    assert sizes == [-(-record.length // 3) for record in records]


def test_freezing() -> None:
    agent = learner(freeze_after=3)
    agent.learn(episodes=3)
    before = weights(agent)
    records = agent.learn(episodes=4)
    for one, other in zip(before, weights(agent), strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(record.update is None and record.batch_loss is None for record in records)
    assert all(record.violation_before == record.violation_after for record in records)


def test_callbacks_see_every_episode_and_can_end_it() -> None:
    seen: list[int] = []

    def callback(agent: Reinforce, record: Record, seconds: Seconds) -> bool:
        seen.append(record.episode)
        assert seconds.collecting > 0.0
        assert isinstance(agent, Reinforce)
        return record.episode < 4

    records = learner(episodes_per_update=2).learn(episodes=20, callbacks=[callback])
    assert seen == list(range(6))
    assert len(records) == 6


def test_a_vector_environment_gives_the_episodes_of_an_update() -> None:
    envs = gym.vector.SyncVectorEnv([corridor] * 3)
    agent = Reinforce(envs, small_policy(2, 2), constraints(), step_size=1e-3, seed=1)
    records = agent.learn(episodes=6)
    alone = learner(episodes_per_update=3).learn(episodes=6)
    assert [r.update for r in records] == [0, 0, 0, 1, 1, 1]
    assert [r.score for r in records] == [r.score for r in alone]
    assert len(agent.evaluate(episodes=4).scores) == 4
    with pytest.raises(InvalidArgument, match="episodes_per_update=4 does not fit 3 sub-env"):
        Reinforce(envs, small_policy(2, 2), episodes_per_update=4)
    doubled = Reinforce(envs, small_policy(2, 2), episodes_per_update=6, seed=1)
    assert [r.update for r in doubled.learn(episodes=6)] == [0] * 6


def test_copies_are_independent() -> None:
    agent = learner()
    twin = copy.deepcopy(agent)
    assert repr(twin).endswith("3 constraint rows, 0 episodes learned from)")
    assert twin.learn(episodes=2) == agent.learn(episodes=2)
    before = weights(agent)
    twin.learn(episodes=2)
    for one, other in zip(before, weights(agent), strict=True):
        np.testing.assert_array_equal(one, other)


def test_one_callback_is_not_a_list_of_them() -> None:
    with pytest.raises(InvalidArgument, match=r"callbacks=\[your_function\]"):
        learner().learn(episodes=1, callbacks=print)  # type: ignore[arg-type]


def test_networks_that_return_no_logits_are_refused() -> None:
    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2, dtype=torch.float64)

        def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, None]:
            return self.layer(states), None

    with pytest.raises(InvalidPolicy, match="Pair returned <class 'tuple'> for 1 states"):
        Reinforce(corridor(), hr.CategoricalPolicy(Pair()))


def test_networks_without_forward_mode_are_refused_in_words() -> None:
    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
            (x,) = ctx.saved_tensors
            slope: torch.Tensor = 3 * x**2 * gradients[0]
            return slope

    class Cubed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2, dtype=torch.float64)

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = Cube.apply(self.layer(states))  # type: ignore[no-untyped-call]
            return logits

    agent = Reinforce(
        corridor(), hr.CategoricalPolicy(Cubed()), constraints(), enforcement="one_step"
    )
    before = weights(agent)
    with pytest.raises(InvalidPolicy, match="Cubed has a part that torch cannot differentiate in"):
        agent.learn(episodes=1)
    for one, other in zip(before, weights(agent), strict=True):
        np.testing.assert_array_equal(one, other)


def test_who_has_no_single_choice_says_what_to_ask_for() -> None:
    car = Reinforce(Car(), hr.BranchedPolicy.mlp(Car(), hidden=(8,)))
    words = (
        r"this BranchedPolicy chooses in branches of \[3, 2\] actions\. At states \(n, "
        r"\*observation_shape\) ask for agent\.policy\.probabilities\(states\), a list of "
    )
    with pytest.raises(InvalidPolicy, match=words):
        car.probabilities([0.1, 0.2])
    assert isinstance(car.policy, hr.BranchedPolicy)
    assert [one.shape for one in car.policy.probabilities([[0.1, 0.2]])] == [(1, 3), (1, 2)]
    pendulum = gym.make("Pendulum-v1")
    swinging = Reinforce(pendulum, hr.GaussianPolicy.mlp(pendulum, hidden=(8,)))
    with pytest.raises(InvalidPolicy, match=r"ask for agent\.policy\.mean\(states\), \(n, n_act"):
        swinging.probabilities([1.0, 0.0, 0.0])


def test_observations_of_any_rank_are_flattened() -> None:
    agent = Reinforce(Pixels(), step_size=1e-6, baseline="none")
    records = agent.learn(episodes=3)
    assert len(records) == 3
    observation = np.zeros((3, 4, 2), dtype=np.uint8)
    assert agent.probabilities(observation).shape == (3,)
    assert agent.predict(np.stack([observation] * 5))[0].shape == (5,)


def test_predict() -> None:
    agent = learner()
    states = np.random.default_rng(0).uniform(size=(500, 2))
    best, state = agent.predict(states, deterministic=True)
    assert state is None
    np.testing.assert_array_equal(best, agent.probabilities(states).argmax(axis=1))
    drawn, _ = agent.predict(np.tile([0.1, 1.0], (5000, 1)))
    share = np.mean(drawn)
    assert share == pytest.approx(agent.probabilities([0.1, 1.0])[1], abs=0.03)
    one, _ = agent.predict([0.1, 1.0], deterministic=True)
    assert int(one) == agent.probabilities([0.1, 1.0]).argmax()


def test_evaluation_learns_nothing_and_reports_obedience() -> None:
    agent = learner()
    before = weights(agent)
    evaluation = agent.evaluate(episodes=5)
    assert evaluation.scores == agent.evaluate(episodes=5).scores
    assert agent.episodes == 0
    for one, other in zip(before, weights(agent), strict=True):
        np.testing.assert_array_equal(one, other)
    assert evaluation.mean == pytest.approx(np.mean(evaluation.scores))
    assert evaluation.worst_violation is not None
    assert evaluation.worst_violation <= 1e-6
    assert evaluation.satisfied
    assert "0 of 3 constraint rows violated (worst" in str(evaluation)
    greedy = agent.evaluate(episodes=3, deterministic=True)
    assert len(set(greedy.lengths)) <= 2  # two starts, one way to go
    assert "violated" not in str(learner(constraints=()).evaluate(2))


def same(one: Reinforce, other: Reinforce) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(weights(one), weights(other), strict=True))


@pytest.mark.parametrize("baseline", ["none", "standardised", "time_average", "value"])
def test_a_loaded_learner_continues_bit_for_bit(baseline: Any, tmp_path: Path) -> None:
    env = gym.make("CartPole-v1", max_episode_steps=50)
    rules = cartpole.constraints()
    policy = hr.CategoricalPolicy.mlp(env, hidden=[64, 32], activation="tanh")
    agent = Reinforce(env, policy, rules, baseline=baseline, step_size=1e-3, seed=5)
    agent.learn(episodes=6)
    agent.predict(np.zeros(4))
    path = tmp_path / "agent.safetensors"
    agent.save(path)
    loaded = Reinforce.load(path)
    assert loaded.settings == agent.settings
    assert loaded.learn(episodes=6) == agent.learn(episodes=6)
    assert same(loaded, agent)
    states = np.random.default_rng(0).normal(size=(50, 4))
    np.testing.assert_array_equal(loaded.predict(states)[0], agent.predict(states)[0])
    labels = loaded.evaluate(1).violations
    assert labels is not None
    assert set(labels.labels) == {f"push {s} [{k}]" for s in ("left", "right") for k in range(9)}


def test_a_learner_of_your_own_parts_needs_them_to_be_loaded(tmp_path: Path) -> None:
    class Mine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(2, 2, dtype=torch.float64)

        def forward(self, states: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.layer(states)
            return logits

    path = tmp_path / "mine"
    agent = Reinforce(corridor(), hr.CategoricalPolicy(Mine()), seed=2)
    agent.learn(episodes=2)
    agent.save(path)
    with pytest.raises(InvalidRun, match=r"environment of your own.*pass one as load\(path, env="):
        Reinforce.load(path)
    with pytest.raises(InvalidRun, match=r"network of your own.*load\(path, policy="):
        Reinforce.load(path, env=corridor())
    with pytest.raises(InvalidRun, match=r"does not fit .*: '0.weight' is \(32, 2\) here"):
        Reinforce.load(path, env=corridor(), policy=small_policy(2, 2))
    loaded = Reinforce.load(path, env=corridor(), policy=hr.CategoricalPolicy(Mine()))
    assert loaded.learn(episodes=2) == agent.learn(episodes=2)


_PROCESS = """
import hashlib, gymnasium as gym
from handrail import Reinforce
from handrail.rulebook import load_rulebook
env = gym.make("CartPole-v1", max_episode_steps=100)
agent = Reinforce(env, constraints=load_rulebook("cartpole").constraints, seed=7)
records = agent.learn(episodes=4)
digest = hashlib.sha256(repr(records).encode())
for p in agent.policy.parameters:
    digest.update(p.detach().numpy().tobytes())
print(digest.hexdigest())
"""


def test_the_same_seed_gives_the_same_bits_in_another_process(
    capsys: pytest.CaptureFixture[str],
) -> None:
    exec(_PROCESS, {})
    here = capsys.readouterr().out
    command = [sys.executable, "-W", "ignore", "-c", _PROCESS]
    there = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert here == there
    assert len(here) > 60


def test_different_seeds_differ() -> None:
    one = Reinforce("CartPole-v1", seed=0).learn(episodes=2)
    other = Reinforce("CartPole-v1", seed=1).learn(episodes=2)
    assert [r.score for r in one] != [r.score for r in other]


@pytest.mark.parametrize("how", ["raise", "nan observation", "nan reward"])
def test_a_failing_environment_names_the_episode_and_changes_nothing(how: str) -> None:
    env = Failing(corridor(), how, step=1, episode=3)
    agent = Reinforce(env, small_policy(2, 2), constraints(), step_size=1e-3)
    seen: list[Record] = []
    with pytest.raises(EnvironmentFailure, match=r"Episode 3: .* at step 1"):
        agent.learn(episodes=10, callbacks=[lambda _, record, __: seen.append(record)])
    assert len(seen) == 3
    assert agent.episodes == 3
    before = weights(agent)
    env.at_episode = -1
    agent.learn(episodes=1)  # the learner is whole and goes on
    assert any(not np.array_equal(a, b) for a, b in zip(before, weights(agent), strict=True))


@pytest.mark.filterwarnings("ignore:overflow encountered")
def test_a_gradient_that_is_not_finite_is_not_taken() -> None:
    class Huge(gym.Wrapper[Any, Any, Any, Any]):
        def step(self, action: Any) -> Any:
            observation, _, terminated, truncated, info = self.env.step(action)
            return observation, 1e308, terminated, truncated, info

    agent = Reinforce(Huge(corridor()), small_policy(2, 2), baseline="none", discount=1e-9)
    before = weights(agent)
    with pytest.raises(Diverged, match="gradient is not finite, so the update was not made"):
        agent.learn(episodes=1)
    for one, other in zip(before, weights(agent), strict=True):
        np.testing.assert_array_equal(one, other)
    assert agent.episodes == 0


def test_a_failed_update_leaves_the_baseline_as_it_was() -> None:
    agent, reference = learner(), learner()
    agent.learn(episodes=3)
    reference.learn(episodes=3)

    def fail(*_: Any) -> Any:
        raise hr.errors.SolverFailure("planted")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("handrail.learning.reinforce.apply_update", fail)
        with pytest.raises(hr.errors.SolverFailure):
            agent.learn(episodes=1)
    assert agent.learn(episodes=3) == reference.learn(episodes=3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_size": -1.0}, r"step_size=-1.0: expected greater than 0"),
        ({"step_size": "big"}, r"step_size='big': expected a number"),
        ({"discount": 1.5}, r"discount=1.5: expected less than or equal to 1"),
        ({"baseline": "critic"}, "expected 'none', 'standardised', 'time_average' or 'value'"),
        ({"enforcement": "hard"}, "enforcement='hard': expected 'exact', 'one_step' or 'none'"),
        ({"objective": "both"}, "objective='both': expected 'returns' or 'parameters'"),
        ({"episodes_per_update": 0}, "episodes_per_update=0: expected greater than or equal to 1"),
        ({"use_every": 2.5}, "use_every=2.5: expected"),
        ({"tolerance": float("nan")}, "tolerance=nan: expected a finite number"),
        ({"soft": True}, "enforcement 'exact' does not use it: set enforcement to 'one_step'"),
        ({"seed": -1}, "seed=-1: expected greater than or equal to 0"),
    ],
)
def test_settings_are_refused_before_anything_runs(settings: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        learner(**settings)


def test_environments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="Gymnasium cannot make 'CartPole-v9'"):
        Reinforce("CartPole-v9")
    with pytest.raises(InvalidArgument, match=r"got int. Try Reinforce\('CartPole-v1'\)"):
        Reinforce(5)  # type: ignore[arg-type]
    with pytest.raises(
        InvalidPolicy, match=r"acts in Box.*policy is a CategoricalPolicy. Use a Ga"
    ):
        Reinforce("Pendulum-v1", small_policy(3, 2))
    with pytest.raises(InvalidPolicy, match="chooses among 3 actions, but the environment has 2"):
        Reinforce(corridor(), small_policy(2, 3))
    with pytest.raises(hr.errors.ShapeMismatch, match="refused states of shape"):
        Reinforce(corridor(), small_policy(5, 2))


def test_contradictions_are_refused_before_the_first_step() -> None:
    where = hr.Points([[0.2, 1.0]])
    rules = [hr.AtLeast(0.9, 1, where, name="go"), hr.AtLeast(0.9, 0, where, name="stay")]
    with pytest.raises(UnsatisfiedConstraints, match="'go' and 'stay' ask for probabilities"):
        Reinforce(corridor(), small_policy(2, 2), rules)
    soft = Reinforce(
        corridor(), small_policy(2, 2), rules, enforcement="one_step", soft=True, step_size=1e-2
    )
    records = soft.learn(episodes=3)
    assert records[-1].violation_after is not None
    assert records[-1].violation_after > 0.3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "either episodes=… or timesteps=…"),
        ({"episodes": 5, "timesteps": 5}, "either episodes=… or timesteps=…"),
        ({"episodes": 0}, "episodes must be a positive whole number, but got 0"),
        ({"timesteps": 1.5}, "timesteps must be a positive whole number, but got 1.5"),
    ],
)
def test_learning_for_how_long(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        learner().learn(**arguments)
    with pytest.raises(InvalidArgument, match="positive whole number, but got 0"):
        learner().evaluate(episodes=0)
