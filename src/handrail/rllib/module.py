"""The policy that an RLModule of PPO acts by: its encoder and its head, on the very same weights.

RLlib's default module is two chains of layers, the actor's and the critic's, inside containers. All
of them are recognised by their class: what a container of somebody else does at other weights, no
numbers can tell.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium as gym
from ray.rllib.algorithms.ppo.torch.default_ppo_torch_rl_module import DefaultPPOTorchRLModule
from ray.rllib.core.distribution.torch.torch_distribution import TorchCategorical, TorchDiagGaussian
from ray.rllib.core.models.torch.encoder import TorchActorCriticEncoder, TorchMLPEncoder
from ray.rllib.core.models.torch.heads import TorchFreeLogStdMLPHead, TorchMLPHead
from ray.rllib.core.models.torch.primitives import TorchMLP
from ray.rllib.core.rl_module.rl_module import RLModule
from torch import nn

from handrail.errors import InvalidPolicy
from handrail.policies import CategoricalPolicy, GaussianPolicy, Policy

_WHAT_WORKS = (
    "Handrail works with RLlib's default module of PPO: fully connected layers, those of the actor "
    "its own."
)

# All that stands between the layers and an action, while sampling and in evaluation.
_WAYS_TO_ACT = (
    "forward_exploration",
    "forward_inference",
    "_forward_exploration",
    "_forward_inference",
    "_forward",
    "get_exploration_action_dist_cls",
    "get_inference_action_dist_cls",
)


def policy_of(module: RLModule) -> Policy:
    """The policy that a module acts by, on the very parameters of the module.

    Args:
        module: of PPO, as a learner has it or as an env runner does. Of continuous actions, these
            are the means before they are clipped, and `std` is what log_std says whenever it is
            asked for.
    """
    if not isinstance(module, RLModule):
        raise InvalidPolicy(
            f"Expected an RLModule, such as algorithm.get_module(), but got "
            f"{type(module).__name__}."
        )
    bare = module.unwrapped()
    _refuse_other_ways_to_act(bare)
    _refuse_observations(bare.observation_space)
    _refuse_shifted_actions(bare.action_space)
    for name, part, known in _containers(bare):
        _refuse_unknown(name, part, known)
    layers = nn.Sequential(bare.encoder.actor_encoder.net.mlp, bare.pi.net.mlp)
    return _by_distribution(bare, layers)


def _refuse_other_ways_to_act(module: RLModule) -> None:
    kind = type(module).__name__
    if module.is_stateful():
        raise InvalidPolicy(
            f"This {kind} remembers (use_lstm): what it does depends on more than the observation, "
            f"so constraints at states say nothing about it. {_WHAT_WORKS}"
        )
    if not isinstance(module, DefaultPPOTorchRLModule):
        raise InvalidPolicy(
            f"{kind} is no DefaultPPOTorchRLModule, so how it acts is not known. {_WHAT_WORKS}"
        )
    for name in _WAYS_TO_ACT:
        method = getattr(module, name)
        if getattr(method, "__func__", method) is not getattr(DefaultPPOTorchRLModule, name):
            raise InvalidPolicy(
                f"{kind} does not act by its layers alone: it has a `{name}` of its own instead of "
                f"that of DefaultPPOTorchRLModule. {_WHAT_WORKS}"
            )


def _refuse_observations(space: gym.Space[Any]) -> None:
    if not isinstance(space, gym.spaces.Box) or len(space.shape) != 1:
        raise InvalidPolicy(
            f"Constraints speak of states as lists of numbers, but this module observes {space}. "
            "Wrap the environment with gymnasium.wrappers.FlattenObservation."
        )


def _refuse_shifted_actions(space: gym.Space[Any]) -> None:
    """RLlib gives its environment 0, 1, … whatever the numbers of the actions are."""
    if isinstance(space, gym.spaces.Discrete) and int(space.start) != 0:
        raise InvalidPolicy(
            f"RLlib numbers actions from 0, but this module acts in {space}, so it does other "
            "actions than it means. Wrap the environment: gymnasium.wrappers.TransformAction(env, "
            f"lambda action: action + {space.start}, gymnasium.spaces.Discrete({space.n}))."
        )


def _containers(module: RLModule) -> Iterator[tuple[str, nn.Module, tuple[type[nn.Module], ...]]]:
    """What contains the actor's layers, from the outside in, and the classes it may be of."""
    yield "encoder", module.encoder, (TorchActorCriticEncoder,)
    if module.encoder.config.shared:
        raise InvalidPolicy(
            "The actor of this module shares its encoder with the critic, so it cannot be changed "
            'alone. Use config.rl_module(model_config={"vf_share_layers": False}).'
        )
    yield "actor_encoder", module.encoder.actor_encoder, (TorchMLPEncoder,)
    yield "actor_encoder.net", module.encoder.actor_encoder.net, (TorchMLP,)
    yield "pi", module.pi, (TorchMLPHead, TorchFreeLogStdMLPHead)
    yield "pi.net", module.pi.net, (TorchMLP,)


def _refuse_unknown(name: str, part: nn.Module, known: tuple[type[nn.Module], ...]) -> None:
    if type(part) not in known:
        expected = " or ".join(kind.__name__ for kind in known)
        raise InvalidPolicy(
            f"The module's {name} is a {type(part).__name__}, not a {expected}, so what it "
            f"computes is not known. {_WHAT_WORKS}"
        )
    if part._forward_hooks or part._forward_pre_hooks:
        raise InvalidPolicy(
            f"The module's {name} has a forward hook, so it does not act by its layers alone. "
            "Remove it, or put it on a layer."
        )


def _by_distribution(module: RLModule, layers: nn.Sequential) -> Policy:
    """The policy whose head is the module's distribution, by its very class."""
    distribution = module.get_exploration_action_dist_cls()
    if distribution is TorchCategorical and module.get_inference_action_dist_cls() is distribution:
        return CategoricalPolicy(layers)
    if distribution is not TorchDiagGaussian:
        raise InvalidPolicy(
            f"Constraints speak of the probabilities of Discrete actions, or of the means of "
            f"continuous ones with independent noise, but this module acts in "
            f"{module.action_space} through {distribution.__name__}. Make one Discrete action of "
            "all combinations, if they are few."
        )
    if not isinstance(module.pi, TorchFreeLogStdMLPHead):
        raise InvalidPolicy(
            "The last layer of this module returns means and log standard deviations together, so "
            "means cannot be changed alone. Use config.rl_module(model_config="
            '{"free_log_std": True, "vf_share_layers": False}).'
        )
    return GaussianPolicy.following(layers, module.pi.log_std)
