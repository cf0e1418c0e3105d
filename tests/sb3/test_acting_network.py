"""Whether what acts is still what was held: cheaply at every step, by all numbers at the end."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from stable_baselines3.common.callbacks import BaseCallback
from torch import nn

import handrail as hr
from handrail.sb3.acting_network import ActingNetwork
from handrail.sb3.callback import Handrail
from tests.support.sb3_models import CARTPOLE, ppo


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


def test_what_torch_counts_is_seen_at_once() -> None:
    part: Any = network().eval()
    acting = ActingNetwork(part)
    part(torch.zeros(5, 3))
    assert acting.seems_unchanged()
    assert acting.is_unchanged()
    with torch.no_grad():
        part[0].weight[1, 1] += 1e-6
    assert not acting.seems_unchanged()
    assert not acting.is_unchanged()
    assert ActingNetwork(part).seems_unchanged()


def test_an_optimiser_and_a_buffer_are() -> None:
    part: Any = network()
    acting = ActingNetwork(part)
    part(torch.randn(5, 3)).sum().backward()  # the averages of a BatchNorm
    assert not acting.seems_unchanged()
    acting = ActingNetwork(part)
    torch.optim.SGD(part.parameters(), lr=0.1).step()
    assert not acting.seems_unchanged()


def test_what_is_written_behind_its_back_is_found_by_the_numbers() -> None:
    part: Any = network()
    acting = ActingNetwork(part)
    part[2].bias.data[0] += 1e-6
    assert acting.seems_unchanged()
    assert not acting.is_unchanged()
    acting = ActingNetwork(part)
    part[2] = nn.Linear(4, 2)
    assert not acting.is_unchanged()


def test_it_is_looked_at_again_before_every_rollout() -> None:
    part: Any = network()
    acting = ActingNetwork(part)
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
    acting.look_again()
    assert acting.is_unchanged()
    with torch.no_grad():
        part[2].weight[0, 0] += 1.0
    assert not acting.seems_unchanged()


@pytest.mark.parametrize("behind_its_back", [False, True])
def test_a_change_while_it_acts_ends_the_training(behind_its_back: bool) -> None:
    class Spoil(BaseCallback):
        def _on_step(self) -> bool:
            if self.num_timesteps == 10:
                network: Any = self.model.policy
                bias = network.action_net.bias
                if behind_its_back:
                    bias.data += torch.tensor([0.0, 9.0])
                else:
                    with torch.no_grad():
                        bias.add_(torch.tensor([0.0, 9.0]))
            return True

    when = "in the rollout before step 64" if behind_its_back else "before step 11"
    model, rail = ppo(), Handrail(CARTPOLE)
    with pytest.raises(
        hr.errors.InvalidArgument, match=f"changed the policy while it acts, {when}"
    ):
        model.learn(128, callback=[rail, Spoil()])
    assert len(rail.history) == 1
    assert np.isfinite(rail.worst_violation)
