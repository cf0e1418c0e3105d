"""DQN and QR-DQN: the greedy action obeys at every step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork

import handrail as hr
from handrail._types import Array
from handrail.policies import GreedyPolicy
from handrail.sb3.callback import Handrail
from handrail.sb3.file import load
from handrail.sb3.policy import policy_of
from tests.support.sb3_models import Numbers, changed, parameters

LEFT = hr.Box([-1.0, -1.0, -0.2, -1.0], [1.0, 1.0, -0.1, -0.2])
RIGHT = hr.Box([-1.0, -1.0, 0.1, 0.2], [1.0, 1.0, 0.2, 1.0])
HELD = [
    hr.Prefer(0, by=0.2, where=LEFT, name="left"),
    hr.Prefer(1, by=0.2, where=RIGHT, name="right"),
]
FRESH = {
    action: where.sample(300, np.random.default_rng(action))
    for action, where in enumerate((LEFT, RIGHT))
}
ALGORITHMS = [DQN, QRDQN]


def small(algorithm: Any, env: Any = "CartPole-v1", policy: Any = "MlpPolicy", **given: Any) -> Any:
    settings = {"learning_starts": 10, "batch_size": 16, "buffer_size": 2000, **given}
    network = {"net_arch": [16, 16], **settings.pop("policy_kwargs", {})}
    if algorithm is QRDQN:
        network = {"n_quantiles": 5, **network}
    return algorithm(policy, env, seed=0, device="cpu", policy_kwargs=network, **settings)


def takes(model: Any, states: Array) -> Array:
    """As Stable-Baselines3 itself decides it."""
    actions: Array = model.predict(states.astype(np.float32), deterministic=True)[0]
    return actions


def values(model: Any, states: Array) -> Array:
    seen = torch.as_tensor(states, dtype=torch.float32)
    with torch.no_grad():
        if isinstance(model, QRDQN):
            said = model.policy.quantile_net(seen).mean(dim=1)
        else:
            said = model.policy.q_net(seen)
    result: Array = said.double().numpy()
    return result


def numpy_chance() -> str:
    """The state of what Stable-Baselines3 draws from."""
    return str(np.random.get_state())  # noqa: NPY002


class Watch(BaseCallback):
    """How many of some states would be acted at otherwise than asked, at every step."""

    def __init__(self) -> None:
        super().__init__()
        self.wrong: list[int] = []

    def _on_step(self) -> bool:
        wrong = [(takes(self.model, states) != action).sum() for action, states in FRESH.items()]
        self.wrong.append(int(sum(wrong)))
        return True


@pytest.mark.parametrize("algorithm", ALGORITHMS)
class TestEveryAlgorithm:
    def test_it_is_the_greedy_policy(self, algorithm: Any) -> None:
        model = small(algorithm)
        policy = policy_of(model)
        assert isinstance(policy, GreedyPolicy)
        np.testing.assert_allclose(policy.values(FRESH[0]), values(model, FRESH[0]), atol=1e-6)
        taken = policy.likeliest(policy.values(FRESH[0]))
        np.testing.assert_array_equal(taken, takes(model, FRESH[0]))

    def test_every_greedy_action_obeys(self, algorithm: Any) -> None:
        model, callback, watch = small(algorithm, learning_rate=1e-2), Handrail(HELD), Watch()
        model.learn(120, callback=[callback, watch])
        assert len(watch.wrong) == 120
        assert max(watch.wrong) == 0
        assert callback.worst_violation <= 0.0
        assert any(one.violation_before > 0.0 for one in callback.history[1:])
        assert (takes(model, FRESH[1]) == 1).all()

    def test_only_the_acting_network_is_changed(self, algorithm: Any) -> None:
        model = small(algorithm)
        before = parameters(model)
        hr.enforce(policy_of(model), HELD).raise_if_unsatisfied()
        moved = changed(model, before)
        own = "q_net." if algorithm is DQN else "quantile_net."
        assert moved
        assert all(one.startswith(own) for one in moved)

    def test_a_proof(self, algorithm: Any) -> None:
        model = small(algorithm)
        (certificate, _) = hr.enforce(policy_of(model), HELD, prove=True).certificates
        assert certificate.certified
        margins = values(model, FRESH[0]) @ [1.0, -1.0]
        assert margins.min() >= 0.2

    def test_files(self, algorithm: Any, tmp_path: Path) -> None:
        model = small(algorithm)
        model.learn(30, callback=Handrail(HELD))
        model.save(tmp_path / "model")
        loaded = load(tmp_path / "model")
        assert type(loaded) is algorithm
        assert hr.measure(policy_of(loaded), HELD).worst_violation <= 0.0

    def test_constraints_that_hold_anyway_change_nothing(self, algorithm: Any) -> None:
        alone = small(algorithm).learn(60)
        state = np.zeros((1, 4))
        action = int(takes(small(algorithm), state)[0])
        asked = [hr.Prefer(action, by=1e-4, where=hr.Points(state))]
        held = small(algorithm).learn(60, callback=Handrail(asked))
        assert not changed(held, parameters(alone))

    def test_evaluation(self, algorithm: Any) -> None:
        model = small(algorithm)
        model.exploration_rate = 0.5
        before = numpy_chance()
        drawn = hr.evaluate(model, "CartPole-v1", HELD, episodes=3)
        assert drawn.scores == hr.evaluate(model, "CartPole-v1", HELD, episodes=3).scores
        assert numpy_chance() == before
        greedy = hr.evaluate(model, "CartPole-v1", HELD, episodes=3, deterministic=True)
        assert not greedy.satisfied
        assert greedy.scores != drawn.scores
        model.exploration_rate = 0.0
        assert hr.evaluate(model, "CartPole-v1", episodes=3).scores == greedy.scores


def test_probabilities_are_refused_before_training() -> None:
    with pytest.raises(hr.errors.InvalidConstraint, match="takes the one of 2 actions that"):
        small(DQN).learn(20, callback=Handrail("cartpole"))


def test_targets_are_copies_of_what_was_held() -> None:
    model = small(DQN, target_update_interval=1, train_freq=1)
    model.learn(60, callback=Handrail(HELD))
    target: Any = model.policy.q_net_target
    with torch.no_grad():
        said = target(torch.as_tensor(FRESH[1], dtype=torch.float32)).numpy()
    assert (said.argmax(axis=1) == 1).all()


class Wilful(DQNPolicy):
    def _predict(self, obs: Any, deterministic: bool = True) -> Any:
        return 1 - super()._predict(obs, deterministic)


class Louder(QNetwork):
    def forward(self, obs: Any) -> Any:
        return 2.0 * super().forward(obs)


class WithLouder(DQNPolicy):
    def make_q_net(self) -> QNetwork:
        given = self._update_features_extractor(self.net_args, features_extractor=None)
        return Louder(**given).to(self.device)


class Careful(DQN):
    def predict(self, observation: Any, *given: Any, **named: Any) -> Any:
        return super().predict(observation, deterministic=True)


def hooked() -> Any:
    model = small(DQN)
    model.policy.q_net.register_forward_hook(lambda *given: -given[-1])
    return model


REFUSED: dict[str, tuple[Any, str]] = {
    "own policy": (lambda: small(DQN, policy=Wilful), "Wilful .*has a `_predict` of its own"),
    "own network": (lambda: small(DQN, policy=WithLouder), "Louder .*has a `forward` of its own"),
    "own model": (lambda: small(Careful), "Careful .*has a `predict` of its own instead of that"),
    "hook": (hooked, "QNetwork has a forward hook"),
    "shifted": (
        lambda: small(DQN, Numbers(actions=gym.spaces.Discrete(2, start=1))),
        "numbers actions from 0",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    make, message = REFUSED[name]
    with pytest.raises(hr.errors.InvalidPolicy, match=message):
        policy_of(make())
