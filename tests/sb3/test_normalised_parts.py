"""Behind VecNormalize around a Dict: statistics of each part, constraints in raw numbers."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from stable_baselines3 import A2C, SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.vec_env import DummyVecEnv, VecNormalize

import handrail as hr
from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.sb3 import Handrail, load, policy_of
from tests.support.sb3_models import Numbers

# A gear, a temperature in K, and an angle in rad.
PLANT = gym.spaces.Dict(
    {
        "gear": gym.spaces.Discrete(2),
        "heat": gym.spaces.Box(280.0, 320.0, (1,), np.float32),
        "tilt": gym.spaces.Box(-0.1, 0.1, (2,), np.float32),
    }
)
BOTH = ["heat", "tilt"]
LOW, HIGH = np.array([0, 0, 300, -0.1, -0.1]), np.array([1, 1, 315, 0.1, 0.1])
RULES = [hr.AtMost(0.05, action=1, where=hr.Box(LOW, HIGH), name="hot")]


def plants(keys: list[str], actions: gym.Space[Any] | None = None, **settings: Any) -> VecNormalize:
    envs = DummyVecEnv([lambda: Numbers(observations=PLANT, actions=actions)] * 2)
    return VecNormalize(envs, norm_obs_keys=keys, **settings)


def a2c(envs: VecNormalize) -> A2C:
    return A2C(
        "MultiInputPolicy",
        envs,
        n_steps=8,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [16]},
    )


def flat(seen: dict[str, Array]) -> Array:
    gear = np.eye(2)[seen["gear"].reshape(-1).astype(int)]
    return np.concatenate([gear, seen["heat"], seen["tilt"]], axis=1).astype(np.float64)


def by_model(model: Any, shown: Any) -> Array:
    """Probabilities by Stable-Baselines3 alone, of what its network is shown."""
    with torch.no_grad():
        distribution = model.policy.get_distribution(model.policy.obs_to_tensor(shown)[0])
    found: Array = distribution.distribution.probs.double().numpy()
    return found


class RealStack(BaseCallback):
    """What acts at every step, at the environment's own state."""

    def __init__(self, envs: VecNormalize) -> None:
        super().__init__()
        self.envs: Any = envs
        self.raw: list[Array] = []
        self.acts: list[Array] = []
        self.means: set[tuple[float, ...]] = set()

    def _on_rollout_start(self) -> None:
        self.now = copy.deepcopy(self.envs.old_obs)

    def _on_step(self) -> bool:
        shown = {name: part.numpy() for name, part in self.locals["obs_tensor"].items()}
        expected = self.envs.normalize_obs(self.now)
        assert all(np.array_equal(shown[name], expected[name]) for name in shown)
        self.raw.append(flat(self.now))
        self.acts.append(by_model(self.model, expected))
        self.means.add(tuple(self.envs.obs_rms["tilt"].mean))
        self.now = copy.deepcopy(self.envs.old_obs)
        return True


def test_no_state_is_acted_in_against_the_rules_while_it_learns() -> None:
    envs = plants(BOTH)
    model, watch, rail = a2c(envs), RealStack(envs), Handrail(RULES, reach=10)
    heat: Any = envs.obs_rms["heat"]
    model.learn(80, callback=[rail, watch])
    raw, acts = np.concatenate(watch.raw), np.concatenate(watch.acts)
    inside = ((raw >= LOW) & (raw <= HIGH)).all(axis=1)
    assert inside.sum() > 10
    assert acts[inside, 1].max() <= 0.05
    assert rail.worst_violation <= 0.0
    assert len(watch.means) == 5  # one for each rollout
    # Afterwards the user's own statistics move again, and are of all that was observed.
    assert envs.obs_rms["heat"] is heat
    assert heat.count >= len(raw)
    assert abs(heat.mean[0] - raw[:, 2].mean()) <= 1.0


def test_frozen_it_is_the_policy_of_raw_states(tmp_path: Path) -> None:
    envs = plants(BOTH)
    model = a2c(envs)
    model.learn(32)
    envs.training = False
    policy = policy_of(model)
    hr.enforce(policy, RULES, prove=True).raise_if_unsatisfied()
    PLANT.seed(1)
    samples = [PLANT.sample() for _ in range(50)]
    seen = {name: np.stack([one[name] for one in samples]) for name in PLANT.spaces}
    acts = by_model(model, envs.normalize_obs(seen))
    np.testing.assert_allclose(policy.outputs(flat(seen)), acts, atol=1e-6)
    inside = ((flat(seen) >= LOW) & (flat(seen) <= HIGH)).all(axis=1)
    assert inside.any()
    assert acts[inside, 1].max() <= 0.05
    assert hr.certify(policy_of(model), RULES).certified
    env = Numbers(observations=PLANT)
    assert hr.evaluate(model, env, RULES, episodes=1).satisfied
    exported = hr.export_numpy(policy, tmp_path / "plant.npz", RULES, prove=True)
    assert exported.certificates is not None
    assert exported.certificates.certified
    model.save(tmp_path / "model.zip")
    envs.save(str(tmp_path / "statistics.pkl"))
    loaded = load(tmp_path / "model.zip", statistics=tmp_path / "statistics.pkl")
    assert np.array_equal(policy_of(loaded).outputs(flat(seen)), policy.outputs(flat(seen)))


def test_a_part_that_is_left_as_it_is_is_not_clipped_either() -> None:
    """So proofs, which know one kind of first layer, do not look into it."""
    envs = plants(["tilt"], clip_obs=2.0)
    model = a2c(envs)
    model.learn(16)
    envs.training = False
    policy = policy_of(model)
    seen = {
        "gear": np.array([0, 1, 1]),
        "heat": np.array([[280.0], [300.0], [320.0]], np.float32),
        "tilt": np.array([[0.1, -0.1], [0.0, 0.0], [9.0, -9.0]], np.float32),  # clipped
    }
    acts = by_model(model, envs.normalize_obs(seen))
    np.testing.assert_allclose(policy.outputs(flat(seen)), acts, atol=1e-6)
    points = [hr.AtMost(0.05, 1, hr.Points(flat(seen)), name="points")]
    hr.enforce(policy, points).raise_if_unsatisfied()
    assert by_model(model, envs.normalize_obs(seen))[:, 1].max() <= 0.05 + 1e-5
    with pytest.raises(InvalidPolicy, match=r"clips some numbers and leaves others.*norm_obs_keys"):
        hr.certify(policy, RULES)


def test_an_actor_off_policy_behind_parts() -> None:
    envs = plants(BOTH, gym.spaces.Box(-1.0, 1.0, (1,)))
    rules = [hr.AtLeast(0.2, hr.Mean(0), hr.Points((LOW + HIGH) / 2), name="push")]
    model = SAC(
        "MultiInputPolicy",
        envs,
        buffer_size=50,
        learning_starts=4,
        batch_size=4,
        seed=0,
        device="cpu",
        policy_kwargs={"net_arch": [8]},
    )
    rail = Handrail(rules)
    model.learn(12, callback=rail)
    assert rail.worst_violation <= 1e-5
    envs.training = False
    seen = {"gear": np.array([0]), "heat": np.array([[307.5]]), "tilt": np.zeros((1, 2))}
    state = flat(seen)
    hr.enforce(policy_of(model), [hr.AtLeast(0.2, hr.Mean(0), hr.Points(state), name="push")])
    action, _ = model.predict(envs.normalize_obs(seen), deterministic=True)
    assert action[0, 0] >= 0.2 - 1e-4


def test_keys_that_were_changed_are_refused() -> None:
    envs = plants(BOTH, training=False)
    envs.norm_obs_keys = ["heat"]
    with pytest.raises(InvalidPolicy, match=r"has statistics of \['heat', 'tilt'\], but norm_obs_"):
        policy_of(a2c(envs))
