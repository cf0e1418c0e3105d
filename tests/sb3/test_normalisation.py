"""Behind VecNormalize: constraints hold in the environment's own numbers, at every step."""

from __future__ import annotations

import copy
from itertools import product
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from onnxruntime import InferenceSession
from stable_baselines3 import A2C, PPO, SAC
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import (
    DummyVecEnv,
    VecMonitor,
    VecNormalize,
    sync_envs_normalization,
)

import handrail as hr
from handrail._types import Array
from handrail.export import export_numpy, export_onnx, open_export
from handrail.policies import Policy
from handrail.sb3.callback import Handrail
from handrail.sb3.file import load
from handrail.sb3.normalisation import clipped_in_words
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import (
    CARTPOLE,
    CARTPOLE_STATES,
    REQUIRED,
    Numbers,
    Two,
    at_least,
    cartpoles,
    normalised,
    ppo,
    probabilities,
)

# A temperature in K and an angle in rad, anywhere between these.
PLANT = gym.spaces.Box(np.array([280.0, -0.1], np.float32), np.array([320.0, 0.1], np.float32))
TORQUE = gym.spaces.Box(-1.0, 1.0, (1,))
LOW, HIGH = np.array([300.0, -0.05]), np.array([315.0, 0.1])
HOT = hr.Box(LOW, HIGH)
RULES = [hr.AtMost(0.05, action=1, where=HOT, name="hot")]


def plants(n: int = 2, **settings: Any) -> VecNormalize:
    return VecNormalize(DummyVecEnv([lambda: Numbers(observations=PLANT)] * n), **settings)


class RealStack(BaseCallback):
    """What acts at every step: the network, at what it is shown of the environment's own state."""

    def __init__(self, envs: VecNormalize) -> None:
        super().__init__()
        self.envs = envs
        self.raw: list[Array] = []
        self.acts: list[Array] = []
        self.means: list[Array] = []
        self._now = np.zeros(0)

    def _on_rollout_start(self) -> None:
        self._now = np.array(self.envs.old_obs)

    def _on_step(self) -> bool:
        shown = self.locals["obs_tensor"]
        # What is shown is what the statistics of now make of the state: also in the first step.
        assert shown.numpy().tolist() == self.envs.normalize_obs(self._now).tolist()  # type: ignore[union-attr]
        network: Any = self.model.policy
        with torch.no_grad():
            acts = network.get_distribution(shown).distribution.probs.double().numpy()
        self.raw.append(self._now)
        self.acts.append(acts[:, 1])
        self.means.append(statistics_of(self.envs).mean)
        self._now = np.array(self.envs.old_obs)
        return True

    def violations(self) -> Array:
        """Of `RULES`, at the states where they are about."""
        raw, acts = np.concatenate(self.raw), np.concatenate(self.acts)
        inside = ((raw >= LOW) & (raw <= HIGH)).all(axis=1)
        violations: Array = acts[inside] - 0.05
        return violations


def statistics_of(envs: VecNormalize) -> RunningMeanStd:
    assert isinstance(envs.obs_rms, RunningMeanStd)
    return envs.obs_rms


def trained(**settings: Any) -> tuple[PPO, VecNormalize]:
    """A model that has learned for a while, behind statistics that are frozen now."""
    envs = normalised(2)
    model = ppo(envs, **settings)
    model.learn(256)
    envs.training = False
    return model, envs


def raw_probabilities(model: BaseAlgorithm, envs: VecNormalize, states: Array) -> Array:
    """By Stable-Baselines3 alone."""
    return probabilities(model, np.asarray(envs.normalize_obs(states.astype(np.float32))))


# --- while it learns ----------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [PPO, A2C])
def test_no_state_of_the_environment_is_acted_in_against_the_rules(algorithm: Any) -> None:
    envs = plants()
    settings: dict[str, Any] = {"batch_size": 32} if algorithm is PPO else {}
    model = algorithm("MlpPolicy", envs, n_steps=32, seed=0, device="cpu", **settings)
    rail, watch = Handrail(RULES, reach=10), RealStack(envs)
    model.learn(512, callback=[rail, watch])
    assert len(watch.violations()) > 50
    assert watch.violations().max() <= 0.0
    assert rail.worst_violation <= 0.0
    assert len({tuple(one) for one in watch.means}) == 8  # one for each rollout


def test_without_a_rail_they_are_acted_against() -> None:
    envs = plants(training=False)
    watch = RealStack(envs)
    ppo(envs).learn(128, callback=watch)
    assert watch.violations().max() > 0.2


def test_the_statistics_are_those_of_all_that_was_observed() -> None:
    envs = normalised(2)
    model = ppo(envs)
    kept, rewards = statistics_of(envs), []

    class Count(BaseCallback):
        def _on_step(self) -> bool:
            rewards.append(envs.ret_rms.count)
            return True

    watch = RealStack(envs)
    model.learn(256, callback=[Handrail(CARTPOLE), watch, Count()])
    assert statistics_of(envs) is kept  # the user's own, as before
    observed = np.concatenate([*watch.raw, watch._now]).astype(np.float64)
    assert kept.count == pytest.approx(len(observed) + 1e-4)
    np.testing.assert_allclose(kept.mean, observed.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(kept.var, observed.var(axis=0), atol=1e-5)
    np.testing.assert_allclose(rewards, 1e-4 + 2.0 * np.arange(1, 129))  # as usual
    assert envs.training
    acts = raw_probabilities(model, envs, CARTPOLE_STATES)
    assert acts[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED


def test_frozen_statistics_stay_as_they_are() -> None:
    envs = plants()
    ppo(envs).learn(64)
    envs.training = False
    before = copy.deepcopy(statistics_of(envs))
    model, watch = ppo(envs), RealStack(envs)
    model.learn(256, callback=[Handrail(RULES, reach=10), watch])
    assert watch.violations().max() <= 0.0
    after = statistics_of(envs)
    assert (after.mean.tolist(), after.count) == (before.mean.tolist(), before.count)


def test_learning_on() -> None:
    envs = plants(1)
    model, rail, watch = ppo(envs), Handrail(RULES, reach=10), RealStack(envs)
    model.learn(128, callback=[rail, watch])
    model.learn(128, callback=[rail, watch], reset_num_timesteps=False)
    assert watch.violations().max() <= 0.0
    assert len(rail.history) == 3 + 3  # before, between and after
    assert statistics_of(envs).count == pytest.approx(257 + 1e-4)


def test_normalisation_that_comes_later() -> None:
    model, rail = ppo(), Handrail(CARTPOLE)
    model.learn(64, callback=rail)
    envs = normalised()
    model.set_env(envs)
    watch = RealStack(envs)
    model.learn(128, callback=[rail, watch])
    acts = raw_probabilities(model, envs, CARTPOLE_STATES)
    assert acts[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (lambda: Numbers((3, 2)), {}),
        (Numbers, {"features_extractor_class": Two}),
        (Numbers, {"features_extractor_class": Two, "share_features_extractor": False}),
    ],
)
def test_other_shapes_and_extractors(make: Any, settings: dict[str, Any]) -> None:
    envs = VecNormalize(VecMonitor(DummyVecEnv([make])), clip_obs=1.5)
    model = ppo(VecMonitor(envs), policy_kwargs=settings)
    shape = envs.observation_space.shape or ()
    states = np.random.default_rng(0).uniform(-1.0, 1.0, size=(2, *shape))
    model.learn(128, callback=Handrail(at_least(states), reach=10))
    acts = raw_probabilities(model, envs, states)
    assert acts[[0, 1], [0, 1]].min() >= 0.9 - REQUIRED


def test_off_policy_models() -> None:
    """Their rollouts are short: statistics move after a thousand steps, or whenever it is held."""
    envs = VecNormalize(DummyVecEnv([lambda: Numbers(observations=PLANT, actions=TORQUE)]))
    short: dict[str, Any] = {
        "train_freq": 50,
        "gradient_steps": 1,
        "batch_size": 16,
        "learning_starts": 10,
    }
    model = SAC("MlpPolicy", envs, seed=0, policy_kwargs={"net_arch": [8]}, device="cpu", **short)
    states = np.array([[290.0, 0.05], [310.0, 0.0]])
    rules: list[hr.Constraint] = [hr.AtMost(-0.5, action=hr.Mean(0), where=hr.Points(states[:1]))]
    rules += [hr.AtLeast(0.2, action=hr.Mean(0), where=hr.Points(states[1:]))]
    acted, counts = [], []

    class Act(BaseCallback):
        def _on_step(self) -> bool:
            shown = torch.as_tensor(np.asarray(envs.normalize_obs(states)))
            with torch.no_grad():
                scaled = self.model.policy._predict(shown, deterministic=True)
            acted.append(self.model.policy.unscale_action(scaled.numpy())[:, 0])
            counts.append(statistics_of(envs).count)
            return True

    rail = Handrail(rules)
    model.learn(1100, callback=[rail, Act()])
    assert max(one[0] for one in acted) <= -0.5 + 1e-5
    assert min(one[1] for one in acted) >= 0.2 - 1e-5
    assert rail.worst_violation <= 1e-5
    assert counts[-1] > 1.0  # they moved while it learned,
    assert max(step - count for step, count in enumerate(counts)) <= 1050.0  # and are never older
    assert statistics_of(envs).count == pytest.approx(1101 + 1e-4)


class Interrupt(BaseCallback):
    def __init__(self, at: int) -> None:
        super().__init__()
        self.at = at

    def _on_step(self) -> bool:
        if self.num_timesteps >= self.at:
            raise KeyboardInterrupt
        return True


def test_an_interrupted_training_leaves_nothing_still() -> None:
    envs = normalised()
    model, kept = ppo(envs), statistics_of(envs)
    with pytest.raises(KeyboardInterrupt):
        model.learn(256, callback=[Handrail(CARTPOLE), Interrupt(100)])
    count = kept.count
    model.learn(64)  # without a rail: they move with every step again
    assert statistics_of(envs) is kept
    assert kept.count == pytest.approx(count + 65)
    rail = Handrail(CARTPOLE)
    with pytest.raises(KeyboardInterrupt):
        model.learn(256, callback=[rail, Interrupt(100)])
    model.learn(64, callback=rail)
    assert statistics_of(envs) is kept
    assert rail.worst_violation <= 1e-5


def test_a_holding_that_fails_leaves_nothing_still() -> None:
    envs = normalised()
    model, kept = ppo(envs), statistics_of(envs)
    here = hr.Points([[0.0, 0.0, 0.1, 0.0]])
    both = [hr.AtLeast(0.9, 0, here, name="left"), hr.AtLeast(0.9, 1, here, name="right")]
    with pytest.raises(hr.errors.HandrailError):
        model.learn(64, callback=Handrail(both))
    assert statistics_of(envs) is kept


def test_copies_and_files_of_a_training_have_ordinary_statistics(tmp_path: Path) -> None:
    envs, other = normalised(), normalised()
    model = ppo(envs)
    found: list[Any] = []

    class Save(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 100:
                envs.save(str(tmp_path / "statistics.pkl"))
                sync_envs_normalization(envs, other)
                found.append(statistics_of(envs).mean.tolist())
            return True

    model.learn(128, callback=[Handrail(CARTPOLE), Save()])
    read = VecNormalize.load(str(tmp_path / "statistics.pkl"), cartpoles())
    for one in (read, other):
        statistics: Any = one.obs_rms
        assert type(statistics) is RunningMeanStd
        assert statistics.mean.tolist() == found[0]


def change_mean(envs: VecNormalize) -> None:
    statistics_of(envs).mean = statistics_of(envs).mean + 1.0


def change_in_place(envs: VecNormalize) -> None:
    statistics_of(envs).var[0] *= 2.0


def change_limit(envs: VecNormalize) -> None:
    envs.clip_obs = 0.1


def replace_statistics(envs: VecNormalize) -> None:
    envs.obs_rms = copy.deepcopy(envs.obs_rms)


@pytest.mark.parametrize("change", [change_mean, change_in_place, change_limit, replace_statistics])
def test_what_is_changed_meanwhile_is_noticed(change: Any) -> None:
    envs = normalised()

    class Change(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 10:
                change(envs)
            return True

    with pytest.raises(
        hr.errors.InvalidArgument, match=r"changed how VecNormalize normalises .*before step 11"
    ):
        ppo(envs).learn(64, callback=[Handrail(CARTPOLE), Change()])


def test_normalisation_that_is_taken_away_meanwhile() -> None:
    envs = normalised()

    class SwitchOff(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_rollout_end(self) -> None:
            envs.norm_obs = False

    model = ppo(envs)
    with pytest.raises(
        hr.errors.InvalidPolicy, match=r"was put around the environment, or taken away, while"
    ):
        model.learn(192, callback=[Handrail(CARTPOLE), SwitchOff()])
    assert model.num_timesteps == 64


# --- afterwards ---------------------------------------------------------------------------------


def test_the_policy_is_that_of_the_environments_numbers() -> None:
    model, envs = trained()
    states = (
        np.random.default_rng(0)
        .uniform(-0.5, 0.5, size=(50, 4))
        .astype(np.float32)
        .astype(np.float64)
    )
    expected = raw_probabilities(model, envs, states)
    np.testing.assert_allclose(policy_of(model).outputs(states), expected, atol=1e-7)
    envs.clip_obs = 0.7
    clipped = raw_probabilities(model, envs, states)
    assert np.abs(clipped - expected).max() > 1e-3
    np.testing.assert_allclose(policy_of(model).outputs(states), clipped, atol=1e-7)


def test_held_and_proven_in_the_environments_numbers() -> None:
    envs = plants()
    model = ppo(envs, policy_kwargs={"net_arch": [16, 16]})
    model.learn(256)
    envs.training = False
    axes = [np.linspace(low, high, 101) for low, high in zip(LOW, HIGH, strict=True)]
    grid = np.array(list(product(*axes)))
    assert raw_probabilities(model, envs, grid)[:, 1].max() > 0.2
    hr.enforce(policy_of(model), RULES, prove=True, reach=10).raise_if_unsatisfied()
    worst = raw_probabilities(model, envs, grid)[:, 1].max()
    assert worst <= 0.05
    certificate = hr.certify(policy_of(model), RULES[0])
    assert certificate.certified, certificate
    assert certificate.highest is not None
    assert worst <= certificate.highest <= 0.05
    stricter = hr.certify(policy_of(model), hr.AtMost(0.9 * worst, action=1, where=HOT))
    assert stricter.state is not None
    assert (stricter.state >= LOW).all()
    assert (stricter.state <= HIGH).all()
    assert raw_probabilities(model, envs, np.array([stricter.state]))[0, 1] > 0.9 * worst


@pytest.mark.parametrize("ending", [".npz", ".onnx"])
def test_exported_with_the_normalisation(tmp_path: Path, ending: str) -> None:
    model, envs = trained()
    policy, file = policy_of(model), tmp_path / f"policy{ending}"
    states = (
        np.random.default_rng(0)
        .uniform(-0.5, 0.5, size=(50, 4))
        .astype(np.float32)
        .astype(np.float64)
    )
    expected = raw_probabilities(model, envs, states)
    if ending == ".npz":
        export_numpy(policy, file)
        found = open_export(file).policy.outputs(states)
    else:
        export_onnx(policy, file)
        session = InferenceSession(str(file), providers=["CPUExecutionProvider"])
        (found,) = session.run(["probabilities"], {"observations": states.astype(np.float32)})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_edited_with_the_normalisation() -> None:
    model, envs = trained()
    edit = hr.edit(policy_of(model), CARTPOLE, tolerance=1e-5)
    assert not edit.raise_if_refused().unchanged
    acts = raw_probabilities(model, envs, CARTPOLE_STATES)
    assert acts[[0, 1], [0, 1]].min() >= 0.95 - REQUIRED


def test_evaluated_with_the_normalisation() -> None:
    model, envs = trained()
    hr.enforce(policy_of(model), CARTPOLE, tolerance=1e-5).raise_if_unsatisfied()
    found = hr.evaluate(model, "CartPole-v1", CARTPOLE, episodes=3, deterministic=True)
    assert found.satisfied
    lengths = []
    for number in range(3):
        env = gym.make("CartPole-v1")
        start = hr.learning.Start.of(0, number, 1)
        state, _ = env.reset(seed=start.environment)
        done, length = False, 0
        while not done:
            action, _ = model.predict(np.asarray(envs.normalize_obs(state)), deterministic=True)
            state, _, terminated, truncated, _ = env.step(action)
            done, length = terminated or truncated, length + 1
        lengths.append(length)
    assert list(found.lengths) == lengths
    assert statistics_of(envs).count == pytest.approx(2 + 256 + 1e-4)  # as training left them


class TestFiles:
    def saved(self, folder: Path) -> tuple[PPO, VecNormalize, Policy]:
        model, envs = trained()
        model.save(folder / "model.zip")
        envs.save(str(folder / "statistics.pkl"))
        return model, envs, policy_of(model)

    def test_a_model_and_its_statistics(self, tmp_path: Path) -> None:
        _, envs, expected = self.saved(tmp_path)
        model = load(tmp_path / "model.zip", statistics=tmp_path / "statistics.pkl")
        assert policy_of(model).outputs(CARTPOLE_STATES).tolist() == (
            expected.outputs(CARTPOLE_STATES).tolist()
        )
        alone = policy_of(load(tmp_path / "model.zip"))  # of normalised numbers
        seen = np.asarray(envs.normalize_obs(CARTPOLE_STATES))
        np.testing.assert_allclose(
            alone.outputs(seen), expected.outputs(CARTPOLE_STATES), atol=1e-7
        )

    def test_they_must_be_true_of_the_environment(self, tmp_path: Path) -> None:
        self.saved(tmp_path)
        model = load(tmp_path / "model.zip", statistics=tmp_path / "statistics.pkl")
        model.set_env(cartpoles(2))
        with pytest.raises(hr.errors.InvalidPolicy, match="its environment does not normalise"):
            policy_of(model)
        frozen = VecNormalize.load(str(tmp_path / "statistics.pkl"), cartpoles(2))
        frozen.training = False
        model.set_env(frozen)
        assert policy_of(model).outputs(CARTPOLE_STATES).shape == (2, 2)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"no pickle", "cannot be read: .*a file that VecNormalize.save wrote"),
            (b"\x80\x04K\x01.", "are a int, not a VecNormalize"),
        ],
    )
    def test_what_is_refused(self, tmp_path: Path, content: bytes, message: str) -> None:
        self.saved(tmp_path)
        (tmp_path / "other.pkl").write_bytes(content)
        with pytest.raises(hr.errors.InvalidRun, match=message):
            load(tmp_path / "model.zip", statistics=tmp_path / "other.pkl")

    def test_statistics_of_another_environment(self, tmp_path: Path) -> None:
        self.saved(tmp_path)
        other = VecNormalize(DummyVecEnv([lambda: Numbers((5,))]))
        other.save(str(tmp_path / "other.pkl"))
        with pytest.raises(hr.errors.InvalidRun, match="but the model observes Box"):
            load(tmp_path / "model.zip", statistics=tmp_path / "other.pkl")

    def test_statistics_of_rewards_alone_change_nothing(self, tmp_path: Path) -> None:
        model = ppo(normalised(norm_obs=False))
        model.save(tmp_path / "model.zip")
        vec = model.get_vec_normalize_env()
        assert vec is not None
        vec.save(str(tmp_path / "statistics.pkl"))
        read = load(tmp_path / "model.zip", statistics=tmp_path / "statistics.pkl")
        expected = policy_of(model).outputs(CARTPOLE_STATES)
        assert policy_of(read).outputs(CARTPOLE_STATES).tolist() == expected.tolist()


RIGHT = hr.AtLeast(0.9, 1, hr.Box([-1, -0.5, 0.1, 0.1], [1, 0.5, 0.2, 0.5]), name="right")


def test_a_proof_that_fails_on_statistics_of_nothing_says_so() -> None:
    """It pointed to the fresh network's last layer, which has nothing to do with it."""
    envs = VecNormalize(make_vec_env("CartPole-v1", n_envs=4, seed=0))
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, seed=0, device="cpu")
    proof = hr.Everywhere(prove=True, cells=2000)
    with pytest.raises(hr.errors.UnsatisfiedConstraints) as refused:
        model.learn(64, callback=Handrail([RIGHT], selection=proof))
    words = str(refused.value)
    assert "could not be proven" in words
    assert "VecNormalize has seen 4 observations, and takes " in words
    assert "(up to " in words
    assert "clip_obs=10): the network cannot tell them apart" in words
    assert "Let it see more before `learn`" in words
    assert "ortho_init" not in words


def test_a_proof_of_statistics_that_have_seen_something() -> None:
    """What the error advises."""
    envs = VecNormalize(make_vec_env("CartPole-v1", n_envs=4, seed=0))
    envs.reset()
    chance = np.random.default_rng(0)
    for _ in range(250):
        envs.step(chance.integers(0, 2, 4))
    model = PPO("MlpPolicy", envs, n_steps=64, batch_size=64, seed=0, device="cpu")
    rail = Handrail([RIGHT], selection=hr.Everywhere(prove=True, cells=50_000))
    model.learn(64, callback=rail)
    assert all(one.certified for one in rail.certificates)


def test_what_is_clipped_in_words() -> None:
    envs = VecNormalize(make_vec_env("CartPole-v1", n_envs=1), clip_obs=5.0)
    seen: Any = envs.obs_rms
    seen.mean, seen.var, seen.count = np.ones(4), np.full(4, 4.0), 7.0
    assert clipped_in_words(envs, np.array([[1.0, 2.0, 10.0, -8.0]])) == ""
    said = clipped_in_words(envs, np.array([[1.0, 2.0, 21.0, 0.0], [0.0, 0.0, 0.0, 0.0]]))
    assert said.startswith("VecNormalize has seen 7 observations, and takes 50% of the constrained")
    assert "(up to 10 standard deviations, clip_obs=5)" in said
