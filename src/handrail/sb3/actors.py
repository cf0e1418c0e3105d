"""The actor of an actor-critic policy as a module of its own, on the very same parameters.

What the critic uses as well is no part of it: changing that would change what the critic says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, final

import gymnasium as gym
import torch
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from stable_baselines3.common.torch_layers import FlattenExtractor
from torch import Tensor, nn

# An `ActorCriticPolicy`, or sb3-contrib's `MaskableActorCriticPolicy`, which is none but looks it.
ActorCritic = Any


@final
class PreparedActor(nn.Module):
    """Layers of the actor, behind what is not theirs to change.

    Args:
        prepare: observations (n, *observation_shape) to what the layers take. A plain function:
            copies of the module share it, and nothing it uses is among the module's parameters.
        layers: to the raw outputs (n, n_actions).
        observation_shape: of one observation, which the layers do not tell.
    """

    def __init__(
        self,
        prepare: Callable[[Tensor], Tensor],
        layers: nn.Sequential,
        observation_shape: tuple[int, ...],
    ) -> None:
        super().__init__()
        self._prepare = prepare
        self.observation_shape = observation_shape
        self.layers = layers

    def forward(self, observations: Tensor) -> Tensor:
        """Raw outputs (n, n_actions), in the precision of the layers."""
        dtype = next(self.layers.parameters()).dtype
        outputs: Tensor = self.layers(self._prepare(observations).to(dtype))
        return outputs


def actor_of(policy: ActorCritic) -> nn.Module:
    """Observations (n, *observation_shape) to logits or mean actions (n, n_actions).

    A plain nn.Sequential wherever observations reach the layers as they are: that is what proofs
    and the fast passes look into.
    """
    extractor = policy.pi_features_extractor
    layers = [*_layers(policy.mlp_extractor.policy_net), policy.action_net]
    shape: tuple[int, ...] = policy.observation_space.shape
    scaled = policy.normalize_images and is_image_space(policy.observation_space)
    if type(extractor) is FlattenExtractor and not scaled:
        flatten = [nn.Flatten()] if len(shape) > 1 else []
        return nn.Sequential(*flatten, *layers)
    if _shares_parameters(extractor, critic_parts(policy)):
        return PreparedActor(_features(policy, extractor), nn.Sequential(*layers), shape)
    return PreparedActor(_as_seen(policy), nn.Sequential(extractor, *layers), shape)


def critic_parts(policy: ActorCritic) -> tuple[nn.Module, ...]:
    """All that the value of a state comes from."""
    return policy.vf_features_extractor, policy.mlp_extractor.value_net, policy.value_net


def critic_parameters(policy: ActorCritic) -> Iterator[nn.Parameter]:
    """Those that must stay as they are."""
    for part in critic_parts(policy):
        yield from part.parameters()


def _layers(network: nn.Module) -> list[nn.Module]:
    return list(network) if type(network) is nn.Sequential else [network]


def _shares_parameters(part: nn.Module, others: tuple[nn.Module, ...]) -> bool:
    theirs = {id(parameter) for other in others for parameter in other.parameters()}
    return any(id(parameter) in theirs for parameter in part.parameters())


def _as_seen(policy: ActorCritic) -> Callable[[Tensor], Tensor]:
    """Observations as Stable-Baselines3 shows them to the network: images between 0 and 1."""
    space: gym.Space[Any] = policy.observation_space
    normalize_images: bool = policy.normalize_images

    def prepare(observations: Tensor) -> Tensor:
        seen = preprocess_obs(observations, space, normalize_images=normalize_images)
        assert isinstance(seen, Tensor)  # observations of several parts are refused
        return seen

    return prepare


def _features(policy: ActorCritic, extractor: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a features extractor makes of observations, at its present weights and precision."""
    as_seen = _as_seen(policy)

    def prepare(observations: Tensor) -> Tensor:
        with torch.no_grad():
            features: Tensor = extractor(as_seen(observations))
        return features

    return prepare
