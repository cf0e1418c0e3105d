"""SAC, TD3 and DDPG: the deterministic action obeys at every step, in the action's own units."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import TQC
from stable_baselines3 import DDPG, PPO, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.sac.policies import Actor as SacActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import TD3Policy

import handrail as hr
from handrail._types import Array
from handrail.constraints import PlacedConstraint
from handrail.policies import DeterministicPolicy
from handrail.sb3.callback import Handrail
from handrail.sb3.file import load
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import Numbers, changed, parameters

STATES = np.array([[1.0, 0.0, 0.0], [0.9, 0.4, -1.0], [-0.9, 0.4, 2.0]])
HELD = [
    hr.AtLeast(0.7, hr.Mean(0), hr.Points(STATES[:2]), name="right"),
    hr.AtMost(-1.2, hr.Mean(0), hr.Points(STATES[2:]), name="left"),
]
ALGORITHMS = [SAC, TD3, DDPG]
TINY = {"net_arch": [8], "features_extractor_kwargs": {"features_dim": 16}}


def lopsided() -> Numbers:
    """Two actions with ranges of their own, neither around 0."""
    low, high = np.array([0.0, -5.0], "f4"), np.array([0.5, -1.0], "f4")
    return Numbers((3,), gym.spaces.Box(low, high))


def small(algorithm: Any, env: Any = "Pendulum-v1", policy: Any = "MlpPolicy", **given: Any) -> Any:
    settings = {"learning_starts": 10, "batch_size": 16, "buffer_size": 2000, **given}
    network = {"net_arch": [16, 16], **settings.pop("policy_kwargs", {})}
    return algorithm(policy, env, seed=0, device="cpu", policy_kwargs=network, **settings)


def acts(model: Any, states: Array) -> Array:
    """As Stable-Baselines3 itself computes it."""
    actions: Array = model.predict(states.astype(np.float32), deterministic=True)[0]
    return actions.astype(np.float64)


class Watch(BaseCallback):
    """What the policy would do at some states, at every step it acts."""

    def __init__(self, states: Array) -> None:
        super().__init__()
        self.states = states
        self.seen: list[Array] = []

    def _on_step(self) -> bool:
        self.seen.append(acts(self.model, self.states))
        return True


@pytest.mark.parametrize("algorithm", ALGORITHMS)
class TestEveryAlgorithm:
    def test_it_is_the_deterministic_action_in_its_own_units(self, algorithm: Any) -> None:
        model = small(algorithm, lopsided())
        policy = policy_of(model)
        assert isinstance(policy, DeterministicPolicy)
        np.testing.assert_allclose(policy.outputs(STATES), acts(model, STATES), atol=1e-6)
        low, high = policy.output_range() or ((), ())
        np.testing.assert_allclose(low, [0.0, -5.0], atol=1e-6)
        np.testing.assert_allclose(high, [0.5, -1.0], atol=1e-6)
        with torch.no_grad():
            for one in policy.parameters[-2:]:
                one.mul_(1e4)  # as far as a tanh goes
        ends = policy.outputs(STATES)
        assert ((ends >= [0.0, -5.0]) & (ends <= [0.5, -1.0])).all()

    def test_every_policy_that_acts_obeys(self, algorithm: Any) -> None:
        model, callback, watch = small(algorithm, learning_rate=3e-3), Handrail(HELD), Watch(STATES)
        model.learn(80, callback=[callback, watch])
        seen = np.stack(watch.seen)[:, :, 0]
        assert seen.shape == (80, 3)
        assert seen[:, :2].min() >= 0.7 - 2e-5
        assert seen[:, 2].max() <= -1.2 + 2e-5
        assert acts(model, STATES)[2] <= -1.2 + 2e-5
        assert callback.worst_violation <= 1e-5
        moved = [one for one in callback.history[1:] if one.violation_before > 1e-3]
        assert moved  # learning would have broken it

    def test_only_the_actor_is_changed(self, algorithm: Any) -> None:
        model = small(algorithm)
        before, objects = parameters(model), list(model.policy.parameters())
        hr.enforce(policy_of(model), HELD, tolerance=1e-5).raise_if_unsatisfied()
        assert changed(model, before)
        assert all(one.startswith("actor.") for one in changed(model, before))
        assert all(map(lambda a, b: a is b, model.policy.parameters(), objects))
        np.testing.assert_array_less(0.7 - 2e-5, acts(model, STATES)[:2])

    def test_constraints_that_hold_anyway_change_nothing(self, algorithm: Any) -> None:
        alone = small(algorithm).learn(60)
        asked = [hr.AtMost(1.99, hr.Mean(0), hr.Points(STATES))]
        held = small(algorithm).learn(60, callback=Handrail(asked))
        assert not changed(held, parameters(alone))

    def test_files(self, algorithm: Any, tmp_path: Path) -> None:
        model = small(algorithm)
        model.learn(30, callback=Handrail(HELD))
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert type(loaded) is algorithm
        assert hr.measure(policy_of(loaded), HELD).worst_violation <= 1e-5
        np.testing.assert_array_equal(acts(loaded, STATES), acts(model, STATES))

    def test_proof_edit_and_export(self, algorithm: Any, tmp_path: Path) -> None:
        model = small(algorithm, lopsided())
        box = hr.Box([0.2, -0.5, -0.5], [0.6, 0.5, 0.5])
        asked = [hr.Between(-3.5, -2.5, hr.Mean(1), box, name="middle")]
        elsewhere = np.random.default_rng(0).uniform(-1.0, 1.0, (64, 3))
        edit = hr.edit(policy_of(model), asked, references=elsewhere)
        assert not edit.reason
        fresh = box.sample(3000, np.random.default_rng(1))
        second = acts(model, fresh)[:, 1]
        assert second.min() >= -3.5
        assert second.max() <= -2.5
        certificate = hr.certify(policy_of(model), asked[0])
        assert certificate.violated is None
        hr.export_numpy(policy_of(model), tmp_path / "actor.npz", states=fresh[:5])
        opened = hr.export.open_export(tmp_path / "actor.npz").policy
        assert isinstance(opened, DeterministicPolicy)
        np.testing.assert_allclose(opened.outputs(fresh[:50]), acts(model, fresh[:50]), atol=1e-5)

    def test_evaluation(self, algorithm: Any) -> None:
        model = small(algorithm)
        first = hr.evaluate(model, "Pendulum-v1", HELD, episodes=1, deterministic=True)
        assert not first.satisfied
        hr.enforce(policy_of(model), HELD, tolerance=1e-5)
        again = hr.evaluate(model, "Pendulum-v1", HELD, episodes=1, deterministic=True)
        assert again.satisfied
        assert again.scores != first.scores


class TestWhenItIsHeld:
    def test_before_the_first_step_and_after_every_update(self) -> None:
        callback = Handrail(HELD)
        small(SAC).learn(16, callback=callback)
        # Nothing is learned before step 10: there is nothing to look at.
        assert [one.timesteps for one in callback.history] == [0, 11, 12, 13, 14, 15, 16]
        assert callback.history[0].violation_before > 0.1

    def test_td3_moves_its_actor_every_other_time(self) -> None:
        callback = Handrail(HELD)
        small(TD3).learn(19, callback=callback)
        assert [one.timesteps for one in callback.history] == [0, 12, 14, 16, 18, 19]

    @pytest.mark.parametrize("frequency", [(7, "step"), (1, "episode")])
    def test_longer_rollouts(self, frequency: tuple[int, str]) -> None:
        watch = Watch(STATES)
        model = small(SAC, lopsided(), train_freq=frequency, gradient_steps=4)
        lowest = [hr.AtLeast(0.3, hr.Mean(0), hr.Points(STATES))]
        callback = Handrail(lowest)
        model.learn(90, callback=[callback, watch])
        assert np.stack(watch.seen)[:, :, 0].min() >= 0.3 - 1e-5
        assert 3 <= len(callback.history) <= 20

    def test_several_environments(self) -> None:
        callback, watch = Handrail(HELD), Watch(STATES)
        small(SAC, make_vec_env("Pendulum-v1", 3, seed=0)).learn(60, callback=[callback, watch])
        assert np.stack(watch.seen)[:, :2].min() >= 0.7 - 2e-5

    def test_between_holdings_it_is_looked_at_only(self) -> None:
        callback, watch = Handrail(HELD, every=5), Watch(STATES)
        model = small(SAC, learning_rate=1e-2)
        model.learn(60, callback=[callback, watch])
        broken = np.maximum(0.7 - np.stack(watch.seen)[:, :2, 0], 0.0).max()
        assert broken > 1e-3
        assert callback.worst_violation >= broken - 1e-5  # and it says so
        held = [one.timesteps for one in callback.history if one.iterations][1:-1]
        assert held
        assert min(np.diff(held)) >= 5
        assert hr.measure(policy_of(model), HELD).worst_violation <= 1e-5  # in the end

    def test_regions(self) -> None:
        box = hr.Box([0.8, -0.4, -1.0], [1.0, 0.4, 1.0])
        fresh = box.sample(500, np.random.default_rng(0))
        callback, watch = Handrail([hr.AtLeast(0.2, hr.Mean(0), box)]), Watch(fresh)
        small(SAC, learning_rate=2e-3).learn(60, callback=[callback, watch])
        assert np.stack(watch.seen).min() >= 0.2
        assert callback.worst_violation <= 0.0
        assert sum(one.iterations == 0 for one in callback.history) > 5  # by a look

    def test_noise_is_around_what_obeys(self) -> None:
        """What is drawn differs: constraints are about the action without noise."""
        noise = NormalActionNoise(np.zeros(1), np.full(1, 0.5))
        model, callback = small(TD3, action_noise=noise), Handrail(HELD)
        model.learn(40, callback=callback)
        model._last_obs = STATES[:1].astype(np.float32)
        drawn = np.array([model._sample_action(0, noise, 1)[0][0, 0] for _ in range(100)])
        assert drawn.min() < 0.7 - 0.2
        assert callback.worst_violation <= 1e-5

    def test_a_proof_after_every_update(self) -> None:
        box = hr.Box([0.95, -0.1, -0.1], [1.0, 0.1, 0.1])
        callback = Handrail([hr.AtLeast(0.2, hr.Mean(0), box)], prove=True)
        model = small(SAC, policy_kwargs={"net_arch": [8]})
        model.learn(14, callback=callback)
        assert [one.certified for one in callback.certificates] == [True]
        again = hr.certify(policy_of(model), hr.AtLeast(0.2, hr.Mean(0), box))
        assert again.certified  # of the model as it is in the end
        assert len(callback.history) == 5

    def test_something_else_that_changes_the_actor(self) -> None:
        class Spoil(BaseCallback):
            def _on_step(self) -> bool:
                policy: Any = self.model.policy
                policy.actor.mu.bias.data += 1.0
                return True

        with pytest.raises(hr.errors.InvalidArgument, match="changed the policy while it acts"):
            small(SAC, train_freq=4).learn(10, callback=[Handrail(HELD), Spoil()])


class Wilful(SACPolicy):
    """Does something else."""

    def predict(self, *given: Any, **settings: Any) -> Any:
        actions, memory = super().predict(*given, **settings)
        return -actions, memory


class OtherActor(SacActor):
    def get_action_dist_params(self, obs: Any) -> Any:
        mean, log_std, rest = super().get_action_dist_params(obs)
        return 2.0 * mean, log_std, rest


class WithOtherActor(SACPolicy):
    def make_actor(self, features_extractor: Any = None) -> Any:
        given = self._update_features_extractor(self.actor_kwargs, features_extractor)
        return OtherActor(**given)


class Clipped(TD3):
    def predict(self, *given: Any, **settings: Any) -> Any:
        actions, memory = super().predict(*given, **settings)
        return np.clip(actions, -0.5, 0.5), memory


def hooked() -> Any:
    """Not by its layers alone."""
    model = small(SAC)
    model.policy.actor.register_forward_hook(lambda *given: 0.9 * given[-1])
    return model


REFUSED: dict[str, tuple[Any, str]] = {
    "gSDE": (lambda: small(SAC, use_sde=True), "StateDependentNoise.*Leave use_sde at False"),
    "own predict": (lambda: small(SAC, policy=Wilful), "Wilful .*has a `predict` of its own"),
    "own actor": (
        lambda: small(SAC, policy=WithOtherActor),
        "OtherActor .*`get_action_dist_params` of its own instead of that of Actor",
    ),
    "own model": (lambda: small(Clipped), "Clipped .*has a `predict` of its own instead of that"),
    "hook": (hooked, "actor has a forward hook"),
    "TQC": (lambda: small(TQC), "TQC acts by a TQCPolicy, which Handrail cannot look into.*SAC"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(hr.errors.InvalidPolicy, match=message):
        policy_of(make())


def test_a_network_that_changes_on_the_way() -> None:
    """A hook that comes later is found at the next holding."""

    class Hook(BaseCallback):
        def _on_rollout_end(self) -> None:
            policy: Any = self.model.policy
            policy.actor.register_forward_hook(lambda *given: 0.9 * given[-1])

        def _on_step(self) -> bool:
            return True

    with pytest.raises(hr.errors.InvalidPolicy, match="actor has a forward hook"):
        small(SAC, learning_rate=1e-2).learn(60, callback=[Handrail(HELD), Hook()])


def test_settings_of_the_callback() -> None:
    with pytest.raises(hr.errors.InvalidArgument, match=r"SAC is held after every update\. Leave"):
        small(SAC).learn(10, callback=Handrail(HELD, pressure=1.0))
    with pytest.raises(hr.errors.InvalidArgument, match="every must be a positive whole number"):
        Handrail(HELD, every=0)
    with pytest.raises(hr.errors.InvalidArgument, match="every=2 counts gradient steps of off-pol"):
        PPO("MlpPolicy", "Pendulum-v1", device="cpu").learn(1, callback=Handrail(HELD, every=2))


def test_bounds_beyond_the_range() -> None:
    beyond = [hr.AtLeast(2.5, hr.Mean(0), hr.Points(STATES))]
    with pytest.raises(hr.errors.InvalidConstraint, match=r"clipped to \[-2, 2\]"):
        small(SAC).learn(10, callback=Handrail(beyond))
    with pytest.raises(hr.errors.InvalidConstraint, match="keeps it between -2 and 2"):
        hr.enforce(policy_of(small(SAC)), beyond)


def test_pictures() -> None:
    """Behind an extractor of the actor's own, which moves with it."""
    seen = gym.spaces.Box(0, 255, (1, 36, 36), np.uint8)
    env = Numbers(observations=seen, actions=gym.spaces.Box(-1.0, 1.0, (1,)))
    model = small(SAC, env, "CnnPolicy", policy_kwargs=TINY, buffer_size=20)
    states = np.random.default_rng(0).integers(0, 256, (1, *model.observation_space.shape))
    asked = [hr.AtLeast(0.4, hr.Mean(0), hr.Points(states.astype(np.float64)))]
    hr.enforce(policy_of(model), asked, tolerance=1e-5).raise_if_unsatisfied()
    shown: Any = states.astype(np.uint8)
    assert model.predict(shown, deterministic=True)[0].min() >= 0.4 - 2e-5


def test_td3_targets_follow_what_is_held() -> None:
    """They are never changed by a holding, and approach the held actor by averages."""
    model: Any = small(TD3, tau=0.5)
    policy: TD3Policy = model.policy
    target = [one.clone() for one in policy.actor_target.parameters()]
    hr.enforce(policy_of(model), HELD, tolerance=1e-5)
    assert all(map(torch.equal, target, policy.actor_target.parameters()))
    model.learn(80, callback=Handrail(HELD))
    with torch.no_grad():
        scaled = policy.actor_target(torch.as_tensor(STATES, dtype=torch.float32)).numpy()
    assert (2.0 * scaled[:2] >= 0.5).all()


@final
class FreshStates(BaseCallback):
    """The worst violation of what acts, at states that no holding has seen, at every step."""

    def __init__(self, constraints: Sequence[PlacedConstraint]) -> None:
        super().__init__()
        rng = np.random.default_rng(5)
        regions = [(one, one.region) for one in constraints if one.region is not None]
        self._places = [(one, region.sample(3000, rng)) for one, region in regions]
        self.worst: list[float] = []

    def _on_step(self) -> bool:
        acting = policy_of(self.model)
        found = []
        for one, states in self._places:
            violated = one.violated_at(states, 1)
            assert violated is not None
            found.append(float(violated(acting.outputs(states)).max()))
        self.worst.append(max(found))
        return True


@pytest.mark.slow
@pytest.mark.parametrize("seed", [100, 101])
def test_no_policy_that_acts_breaks_a_bound_at_fresh_states(seed: int) -> None:
    """Where every update moves it, and a look has to do most of the time."""
    rules: list[PlacedConstraint] = [
        hr.AtMost(-1.0, hr.Mean(0), hr.Box([0.9, 0.05, 0.0], [1.0, 0.3, 1.0]), name="right"),
        hr.AtLeast(1.0, hr.Mean(0), hr.Box([0.9, -0.3, -1.0], [1.0, -0.05, 0.0]), name="left"),
    ]
    model = SAC(
        "MlpPolicy",
        "Pendulum-v1",
        seed=seed,
        device="cpu",
        learning_rate=1e-3,
        policy_kwargs={"net_arch": [64, 64]},
    )
    rail, fresh = Handrail(rules, selection=hr.Everywhere(margin=1.0)), FreshStates(rules)
    model.learn(2_000, callback=[rail, fresh])
    assert rail.worst_violation <= 0.0
    assert max(fresh.worst) <= 0.0
    assert len(fresh.worst) == 2_000
