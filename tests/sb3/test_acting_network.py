"""Whether what acts is still what was held: cheaply at every step, by all numbers at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import QRDQN
from stable_baselines3 import DQN, SAC, TD3
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import nn

import handrail as hr
from handrail.sb3 import policy_of
from handrail.sb3.acting_network import ActingNetwork, ActingParts
from handrail.sb3.callback import Handrail
from handrail.sb3.policy import never_acting
from tests.support.sb3_models import CARTPOLE, ppo


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_what_torch_counts_is_seen_at_once() -> None:
    part: Any = network().eval()
    acting = ActingNetwork(ActingParts(part))
    part(torch.zeros(5, 3))
    assert acting.seems_unchanged()
    assert acting.is_unchanged()
    with torch.no_grad():
        part[0].weight[1, 1] += 1e-6
    assert not acting.seems_unchanged()
    assert not acting.is_unchanged()
    assert ActingNetwork(ActingParts(part)).seems_unchanged()


def test_an_optimiser_and_a_buffer_are() -> None:
    part: Any = network()
    acting = ActingNetwork(ActingParts(part))
    part(torch.randn(5, 3)).sum().backward()  # the averages of a BatchNorm
    assert not acting.seems_unchanged()
    acting = ActingNetwork(ActingParts(part))
    torch.optim.SGD(part.parameters(), lr=0.1).step()
    assert not acting.seems_unchanged()


def test_what_is_written_behind_its_back_is_found_by_the_numbers() -> None:
    part: Any = network()
    acting = ActingNetwork(ActingParts(part))
    part[2].bias.data[0] += 1e-6
    assert acting.seems_unchanged()
    assert not acting.is_unchanged()
    acting = ActingNetwork(ActingParts(part))
    part[2] = nn.Linear(4, 2)
    assert not acting.is_unchanged()


def test_it_is_looked_at_again_before_every_rollout() -> None:
    part: Any = network()
    parts = ActingParts(part)
    acting = ActingNetwork(parts)
    with torch.no_grad():
        part[0].weight += 1.0
    assert not acting.is_unchanged()
    acting.look_again()
    assert acting.seems_unchanged()
    assert acting.is_unchanged()
    part[2].bias.data[0] += 1e-6  # the new numbers are those that are compared with
    assert not acting.is_unchanged()
    part[2] = nn.Linear(4, 5)  # another layer
    part[0].weight.data = torch.zeros(2, 3)  # other numbers in another shape
    parts.look()
    acting.look_again()
    assert acting.is_unchanged()
    with torch.no_grad():
        part[2].weight[0, 0] += 1.0
    assert not acting.seems_unchanged()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_numbers_may_lie_in_any_order(dtype: torch.dtype) -> None:
    """The same ones elsewhere are no change; turned round on the same memory they are one."""
    part: Any = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2)).to(dtype)
    parts = ActingParts(part)
    acting = ActingNetwork(parts)
    part[0].weight.data = part[0].weight.data.clone()
    assert acting.is_unchanged()
    part[0].weight.data = part[0].weight.data.t()
    assert acting.seems_unchanged()
    assert not acting.is_unchanged()
    parts.look()
    acting.look_again()
    assert acting.is_unchanged()
    part[0].weight.data[0, 2] += 1.0
    assert not acting.is_unchanged()


def test_what_has_no_say_is_left_out() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor, self.critic = network(), network()
            self.log_std = nn.Parameter(torch.ones(2))

    part: Any = Both()
    acting = ActingNetwork(ActingParts(part, [part.critic]))
    with torch.no_grad():
        part.critic[0].weight += 1.0
    assert acting.seems_unchanged()
    assert acting.is_unchanged()
    with torch.no_grad():
        part.log_std += 1.0
    assert not acting.seems_unchanged()
    assert not acting.is_unchanged()


def test_another_parameter_of_the_same_numbers_is_not_the_same() -> None:
    """What is written into it later would not be counted."""
    part: Any = network()
    acting = ActingNetwork(ActingParts(part))
    part[0].weight = nn.Parameter(part[0].weight.detach().clone())
    assert not acting.is_unchanged()


def test_what_was_written_and_taken_back_was_a_change() -> None:
    """In between, something else may have acted."""
    part: Any = network()
    acting = ActingNetwork(ActingParts(part))
    with torch.no_grad():
        part[0].weight += 1.0
        part[0].weight -= 1.0
    assert not acting.is_unchanged()


class Spoil(BaseCallback):
    """Writes into the actor at some steps.

    Args:
        added: to a logit, by step.
        behind_its_back: so that torch does not count it.
    """

    def __init__(self, added: dict[int, float], behind_its_back: bool = False) -> None:
        super().__init__()
        self._added, self._behind_its_back = added, behind_its_back

    def _on_step(self) -> bool:
        if self.num_timesteps in self._added:
            network: Any = self.model.policy
            bias = network.action_net.bias
            change = torch.tensor([0.0, self._added[self.num_timesteps]])
            if self._behind_its_back:
                bias.data += change
            else:
                with torch.no_grad():
                    bias.add_(change)
        return True


@pytest.mark.parametrize(
    ("added", "behind_its_back", "when"),
    [
        ({10: 9.0}, False, "before step 16"),  # looked at after 1, 2, 4, … steps
        ({10: 9.0}, True, "in the rollout before step 64"),
        ({40: 9.0}, False, "before step 64"),
        ({10: 8.0, 12: -8.0}, False, "before step 16"),
        ({40: 8.0, 42: -8.0}, False, "before step 64"),
    ],
)
def test_a_change_while_it_acts_ends_the_training(
    added: dict[int, float], behind_its_back: bool, when: str
) -> None:
    model, rail = ppo(), Handrail(CARTPOLE)
    with pytest.raises(
        hr.errors.InvalidArgument, match=f"changed the policy while it acts, {when}"
    ):
        model.learn(128, callback=[rail, Spoil(added, behind_its_back)])
    assert len(rail.history) == 1
    assert np.isfinite(rail.worst_violation)


class Stop(BaseCallback):
    """In the middle of the first rollout."""

    def _on_step(self) -> bool:
        return self.num_timesteps < 20


@pytest.mark.parametrize("added", [{}, {18: 9.0}])
def test_a_training_that_stops_in_a_rollout_has_acted_in_it(added: dict[int, float]) -> None:
    """What was written since it was last looked at counts as having acted."""
    model, rail = ppo(), Handrail(CARTPOLE)
    model.learn(128, callback=[rail, Spoil(added), Stop()])
    assert (rail.worst_violation > 0.5) == bool(added)
    assert hr.measure(policy_of(model), CARTPOLE).worst_violation <= 1e-5


def test_who_brings_back_the_best_policy_when_training_stops_is_held() -> None:
    class BringBack(BaseCallback):
        def _on_step(self) -> bool:
            return True

        def _on_training_end(self) -> None:
            network: Any = self.model.policy
            with torch.no_grad():
                network.action_net.weight.mul_(0.99)

    model, rail = ppo(), Handrail(CARTPOLE)
    model.learn(128, callback=[BringBack(), rail, Stop()])
    assert hr.measure(policy_of(model), CARTPOLE).worst_violation <= 1e-5


def test_what_a_critic_does_meanwhile_is_its_own() -> None:
    class Criticise(BaseCallback):
        def _on_step(self) -> bool:
            network: Any = self.model.policy
            with torch.no_grad():
                network.value_net.bias.add_(1.0)
                network.mlp_extractor.value_net[0].weight.mul_(0.9)
            return True

    model, rail = ppo(), Handrail(CARTPOLE)
    model.learn(128, callback=[rail, Criticise()])
    assert rail.worst_violation <= 1e-5


class Trunk(BaseFeaturesExtractor):
    """Layers behind another extractor, or the state itself."""

    def __init__(self, space: Any, inside: nn.Module | None = None) -> None:
        super().__init__(space, features_dim=4)
        self.inside = nn.Flatten() if inside is None else inside
        self.own = nn.Linear(4, 4)

    def forward(self, observations: torch.Tensor) -> torch.Tensor:
        features: torch.Tensor = self.own(self.inside(observations))
        return features


def test_what_the_critic_has_of_the_actor_has_a_say() -> None:
    """An actor that looks through the critic's eyes acts otherwise once these see otherwise."""
    model = ppo(policy_kwargs={"share_features_extractor": False})
    network: Any = model.policy
    eyes = Trunk(model.observation_space)
    network.vf_features_extractor = eyes
    network.pi_features_extractor = network.features_extractor = Trunk(
        model.observation_space, eyes
    )
    assert eyes not in never_acting(network)

    class Blind(BaseCallback):
        def _on_step(self) -> bool:
            with torch.no_grad():
                eyes.own.weight.mul_(-1.0)
            return True

    with pytest.raises(hr.errors.InvalidArgument, match="changed the policy while it acts"):
        model.learn(128, callback=[Handrail(CARTPOLE), Blind()])


def test_a_target_that_is_what_acts_has_a_say() -> None:
    twin: Any = TD3("MlpPolicy", "Pendulum-v1").policy
    twin.actor_target = twin.actor
    assert never_acting(twin) == (twin.critic, twin.critic_target)
    valued: Any = DQN("MlpPolicy", "CartPole-v1").policy
    valued.q_net_target = valued.q_net
    assert never_acting(valued) == ()


@pytest.mark.parametrize("shared", [False, True])
def test_who_has_no_say(shared: bool) -> None:
    """A features extractor that both use has one."""
    options: dict[str, Any] = {"policy_kwargs": {"share_features_extractor": shared}}
    network: Any = ppo(**options).policy
    critic = [network.vf_features_extractor, network.mlp_extractor.value_net, network.value_net]
    assert list(never_acting(network)) == critic[shared:]
    off_policy: Any = TD3("MlpPolicy", "Pendulum-v1").policy
    targets = off_policy.critic, off_policy.critic_target, off_policy.actor_target
    assert never_acting(off_policy) == targets
    sac: Any = SAC("MlpPolicy", "Pendulum-v1").policy
    assert never_acting(sac) == (sac.critic, sac.critic_target)
    dqn: Any = DQN("MlpPolicy", "CartPole-v1").policy
    assert never_acting(dqn) == (dqn.q_net_target,)
    qrdqn: Any = QRDQN("MlpPolicy", "CartPole-v1").policy
    assert never_acting(qrdqn) == (qrdqn.quantile_net_target,)
