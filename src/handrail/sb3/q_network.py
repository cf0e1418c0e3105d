"""Models that take the action they value most: DQN, and QR-DQN of sb3-contrib.

Constraints are about the order of the values, so that the greedy action obeys. QR-DQN values an
action by the mean of its quantiles, which is one more linear layer, and a fixed one.

Target networks are not held. They never act: they are copies of the network from some updates ago,
which was held then.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.dqn.dqn import DQN
from stable_baselines3.dqn.policies import DQNPolicy, QNetwork
from torch import Tensor, nn

from handrail.policies import GreedyPolicy, Policy
from handrail.sb3.exploration import is_kept
from handrail.sb3.observations import observed, probes, state_space
from handrail.sb3.policy import (
    behind_extractor,
    never_acting,
    outside,
    policy_by,
    refuse_changed,
    refuse_differences,
    refuse_hooks,
    refuse_own_methods,
    refuse_shifted_actions,
)

# All that stands between the layers and an action, from the model down.
_OF_MODEL, _OF_TRAINING = ("predict",), ("_sample_action",)
_OF_POLICY = ("forward", "predict", "_predict", "obs_to_tensor")
_OF_NETWORK = ("forward", "_predict", "extract_features")

_HOME = "the layers of the Q network or a features extractor"


@policy_by.register
def _by_dqn(network: DQNPolicy, model: BaseAlgorithm) -> Policy:
    refuse_own_methods(model, DQN, _OF_MODEL, _HOME)
    return _by_values(network, model, nn.Sequential(network.q_net.q_net))


@refuse_changed.register
def _refuse_changed(network: DQNPolicy, found: Policy) -> None:
    _refuse_other_ways_to_act(network, DQNPolicy, QNetwork)
    _compare(network, found)


def _valued_by(network: Any) -> Any:
    """The part of a network that values all actions."""
    return network.q_net if isinstance(network, DQNPolicy) else network.quantile_net


@never_acting.register
def _never_acting(network: DQNPolicy) -> tuple[nn.Module, ...]:
    return outside([network.q_net], [network.q_net_target])


def _by_values(network: Any, model: BaseAlgorithm, layers: nn.Module) -> Policy:
    """From layers that end with the values of all actions."""
    if not is_kept(model):
        refuse_own_methods(model, OffPolicyAlgorithm, _OF_TRAINING, _HOME)
    refuse_shifted_actions(model)
    state_space(network.observation_space)  # refuses what no state is told of
    network.set_training_mode(False)
    valued = _valued_by(network)
    found = GreedyPolicy(behind_extractor(network, valued.features_extractor, [layers], ()))
    refuse_changed(network, found)
    return found


def _refuse_other_ways_to_act(network: Any, kind: type[Any], kind_of_values: type[Any]) -> None:
    """By identity: what a method of somebody else does at other weights, no numbers can tell."""
    valued = _valued_by(network)
    refuse_own_methods(network, kind, _OF_POLICY, _HOME)
    refuse_own_methods(valued, kind_of_values, _OF_NETWORK, _HOME)
    refuse_hooks({type(network).__name__: network, type(valued).__name__: valued})


def _compare(network: Any, found: Policy) -> None:
    """With what the network itself says of a few observations."""
    space = network.observation_space
    states = probes(space)
    with torch.no_grad():
        said: Tensor = _valued_by(network)(network.obs_to_tensor(observed(space, states))[0])
    values = said.mean(dim=1) if said.ndim > 2 else said
    refuse_differences(
        type(network).__name__,
        "features extractor, the layers of the Q network",
        found,
        states,
        [values.double().cpu().numpy()],
    )


def _mean_of_quantiles(n_quantiles: int, like: nn.Parameter, n_actions: int) -> nn.Linear:
    """From (n, n_quantiles · n_actions), quantile by quantile, to (n, n_actions)."""
    layer = nn.Linear(n_quantiles * n_actions, n_actions, dtype=like.dtype, device=like.device)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(n_actions).repeat(1, n_quantiles) / n_quantiles)
        layer.bias.zero_()
    return layer.requires_grad_(requires_grad=False)


if find_spec("sb3_contrib") is not None:
    from sb3_contrib.qrdqn.policies import QRDQNPolicy, QuantileNetwork
    from sb3_contrib.qrdqn.qrdqn import QRDQN

    @policy_by.register
    def _by_qrdqn(network: QRDQNPolicy, model: BaseAlgorithm) -> Policy:
        refuse_own_methods(model, QRDQN, _OF_MODEL, _HOME)
        quantiles = network.quantile_net
        first = next(quantiles.parameters())
        mean = _mean_of_quantiles(quantiles.n_quantiles, first, int(quantiles.action_space.n))
        return _by_values(network, model, nn.Sequential(quantiles.quantile_net, mean))

    @refuse_changed.register
    def _refuse_changed_quantiles(network: QRDQNPolicy, found: Policy) -> None:
        _refuse_other_ways_to_act(network, QRDQNPolicy, QuantileNetwork)
        _compare(network, found)

    @never_acting.register
    def _never_acting_of_quantiles(network: QRDQNPolicy) -> tuple[nn.Module, ...]:
        return outside([network.quantile_net], [network.quantile_net_target])
