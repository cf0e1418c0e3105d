"""While a critic learns alone, the actor is what was held, bit for bit."""

from __future__ import annotations

import re

import pytest
from stable_baselines3 import A2C, DQN, PPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from torch import Tensor

import handrail as hr
from handrail.errors import InvalidArgument
from handrail.sb3.callback import Handrail
from tests.support.sb3_models import CARTPOLE, CARTPOLE_STATES, changed, parameters, ppo

_STEPS, _ROLLOUT = 100, 4
_FIRST = 0.06  # six steps: the update behind the first rollout is the critic's
_ACTOR = {
    f"{part}.{kind}"
    for part in ("mlp_extractor.policy_net.0", "mlp_extractor.policy_net.2", "action_net")
    for kind in ("weight", "bias")
}
_CRITIC = {name.replace("policy", "value").replace("action", "value") for name in _ACTOR}


class Changes(BaseCallback):
    """Which parameters have changed from the start of one rollout to that of the next."""

    def __init__(self, rollouts: int) -> None:
        super().__init__()
        self._rollouts = rollouts
        self._before: dict[str, Tensor] = {}
        self.found: list[set[str]] = []

    def _on_rollout_start(self) -> None:
        if self._before:
            self.found.append(changed(self.model, self._before))
        self._before = parameters(self.model)

    def _on_step(self) -> bool:
        return len(self.found) < self._rollouts


def _changes(model: BaseAlgorithm, rail: Handrail, rollouts: int = 2) -> list[set[str]]:
    changes = Changes(rollouts)
    model.learn(_STEPS, callback=[rail, changes], reset_num_timesteps=False)
    return changes.found


@pytest.mark.parametrize(
    "model",
    [
        pytest.param(lambda: ppo(n_steps=_ROLLOUT, batch_size=_ROLLOUT), id="PPO"),
        pytest.param(
            lambda: A2C("MlpPolicy", "CartPole-v1", n_steps=_ROLLOUT, seed=0, device="cpu"),
            id="A2C",
        ),
    ],
)
def test_the_critic_learns_alone_at_first(model) -> None:  # type: ignore[no-untyped-def]
    at_first, later = _changes(model(), Handrail(CARTPOLE, critic_first=_FIRST))
    assert at_first == _CRITIC
    assert later == _ACTOR | _CRITIC


def test_by_default_both_learn_at_once() -> None:
    model: PPO = ppo(n_steps=_ROLLOUT, batch_size=_ROLLOUT)
    assert _changes(model, Handrail(CARTPOLE)) == [_ACTOR | _CRITIC] * 2


def test_training_goes_on_without_another_rest() -> None:
    model: PPO = ppo(n_steps=_ROLLOUT, batch_size=_ROLLOUT)
    rail = Handrail(CARTPOLE, critic_first=_FIRST)
    assert _changes(model, rail)[0] == _CRITIC
    assert _changes(model, rail)[0] == _ACTOR | _CRITIC


@pytest.mark.parametrize("share", [-0.1, 1.0, float("nan")])
def test_a_share_that_is_none(share: float) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(f"less than 1, but got {share!r}.")):
        Handrail(CARTPOLE, critic_first=share)


def test_off_policy_models_have_their_own_way() -> None:
    model = DQN("MlpPolicy", "CartPole-v1", seed=0, device="cpu")
    rail = Handrail([hr.Prefer(1, where=hr.Points(CARTPOLE_STATES[1]))], critic_first=0.1)
    with pytest.raises(InvalidArgument, match="DQN has learning_starts for that"):
        model.learn(10, callback=rail)
