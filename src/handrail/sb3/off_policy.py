"""Actors behind a tanh: SAC, TD3 and DDPG, by their deterministic action in its own units.

These models act by u = low + ½ (tanh(z) + 1) (high - low), where z is what the actor's last layer
says, TD3 and DDPG with noise around it if they were given some, SAC by drawing z. The tanh and the
way back to the action's units are fixed layers behind the actor's own, so that constraints, proofs
and files speak of u.

Target networks are not held. They never act: they follow the held actor by averages of weights,
and only say what the critic should learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import SquashedDiagGaussianDistribution
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.sac.policies import Actor as SacActor
from stable_baselines3.sac.policies import SACPolicy
from stable_baselines3.td3.policies import Actor as Td3Actor
from stable_baselines3.td3.policies import TD3Policy
from torch import nn

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies import DeterministicPolicy, Policy, limits_of, onto_range
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
    shares_parameters,
)
from handrail.settings import DEFAULT_STD

# All that stands between an actor's layers and an action, from the model down.
_OF_MODEL = {BaseAlgorithm: ("predict",), OffPolicyAlgorithm: ("_sample_action",)}
_OF_POLICY = ("forward", "predict", "_predict", "scale_action", "unscale_action", "obs_to_tensor")
_OF_ACTOR = ("forward", "extract_features")
_OF_SAC_ACTOR = (*_OF_ACTOR, "get_action_dist_params")

_HOME = "the actor's layers or a features extractor"


@policy_by.register
def _by_sac(network: SACPolicy, model: BaseAlgorithm) -> Policy:
    actor: Any = network.actor
    if type(actor.action_dist) is not SquashedDiagGaussianDistribution:
        raise InvalidPolicy(
            f"Constraints speak of the deterministic action of SAC with noise that is drawn anew "
            f"at every step, but this model acts through {type(actor.action_dist).__name__}. Leave "
            "use_sde at False, and action_dist as Stable-Baselines3 makes it."
        )
    return _by_actor(network, model, [actor.latent_pi, actor.mu, nn.Tanh()])


@policy_by.register
def _by_td3(network: TD3Policy, model: BaseAlgorithm) -> Policy:
    return _by_actor(network, model, [network.actor.mu])


def _by_actor(
    network: SACPolicy | TD3Policy, model: BaseAlgorithm, layers: Sequence[nn.Module]
) -> Policy:
    """From layers that end between -1 and 1."""
    for base, names in _OF_MODEL.items():
        refuse_own_methods(model, base, names, _HOME)
    _refuse_other_ways_to_act(network)
    state_space(network.observation_space)  # refuses what no state is told of
    network.set_training_mode(False)
    critic = _critic_parts(network)
    low, high = _limits(network)
    first = next(network.actor.parameters())
    units = onto_range(low, high, first.dtype).to(first.device)
    actor = behind_extractor(network, network.actor.features_extractor, [*layers, units], critic)
    if shares_parameters(actor, critic):
        raise InvalidPolicy(
            f"The actor of this {type(network).__name__} shares layers with its critic, so it "
            "cannot be changed alone. Give each its own layers behind the features extractor."
        )
    found = DeterministicPolicy(actor, (DEFAULT_STD * 0.5 * (high - low)).tolist())
    _compare(network, found)
    return found


@refuse_changed.register(SACPolicy)
@refuse_changed.register(TD3Policy)
def _refuse_changed(network: SACPolicy | TD3Policy, found: Policy) -> None:
    _refuse_other_ways_to_act(network)
    _compare(network, found)


@never_acting.register
def _never_acting_of_sac(network: SACPolicy) -> tuple[nn.Module, ...]:
    return outside([network.actor], _critic_parts(network))


@never_acting.register
def _never_acting_of_td3(network: TD3Policy) -> tuple[nn.Module, ...]:
    return outside([network.actor], [*_critic_parts(network), network.actor_target])


def _refuse_other_ways_to_act(network: SACPolicy | TD3Policy) -> None:
    """By identity: what a method of somebody else does at other weights, no numbers can tell."""
    is_sac = isinstance(network, SACPolicy)
    refuse_own_methods(network, SACPolicy if is_sac else TD3Policy, _OF_POLICY, _HOME)
    kind, names = (SacActor, _OF_SAC_ACTOR) if is_sac else (Td3Actor, _OF_ACTOR)
    refuse_own_methods(network.actor, kind, names, _HOME)
    refuse_hooks({type(network).__name__: network, "actor": network.actor})


def _critic_parts(network: SACPolicy | TD3Policy) -> tuple[nn.Module, ...]:
    return network.critic, network.critic_target


def _limits(network: BasePolicy) -> tuple[Array, Array]:
    """The lowest and highest action (n_actions,)."""
    space = network.action_space
    assert isinstance(space, gym.spaces.Box)  # Stable-Baselines3 takes no other
    return limits_of(space)


def _compare(network: SACPolicy | TD3Policy, found: Policy) -> None:
    """With what `predict` returns, which is what training draws around."""
    space: Any = network.observation_space
    states = probes(space)
    with torch.no_grad():
        actions, _ = network.predict(observed(space, states), deterministic=True)
    acts = np.asarray(actions, dtype=np.float64).reshape(len(states), -1)
    layers = "features extractor, the actor's layers, tanh"
    size = float(np.abs(_limits(network)).max())
    refuse_differences(type(network).__name__, layers, found, states, [acts], size)
