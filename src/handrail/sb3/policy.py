"""The policy that a model of Stable-Baselines3 acts by: its actor, on the very same parameters.

First whether the model's layers alone decide, then the actor as a module of its own, then the head
that its distribution is; in the end both are compared at a few observations. What the critic uses
as well is no part of the actor: changing that would change what the critic says.

Actor-critic networks are read here. Other kinds of networks register how they are read
(`off_policy`).
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import singledispatch
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.distributions import (
    BernoulliDistribution,
    CategoricalDistribution,
    DiagGaussianDistribution,
    MultiCategoricalDistribution,
)
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.preprocessing import is_image_space, preprocess_obs
from torch import Tensor, nn

from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.policies import (
    BranchedPolicy,
    CategoricalPolicy,
    GaussianPolicy,
    Layers,
    Policy,
    Quantity,
    limits_of,
    sizes_of,
)
from handrail.sb3.normalisation import normalisation_of, raw_policy, refuse_moving
from handrail.sb3.observations import layers_of, probes, shown, state_space

# An `ActorCriticPolicy`, or sb3-contrib's `MaskableActorCriticPolicy`, which is none but looks it.
ActorCritic = Any

# What a features extractor is given: prepared observations, or the parts of such.
Seen = Tensor | dict[str, Tensor]

WHAT_WORKS = "PPO, A2C, TRPO, MaskablePPO, SAC, TD3, DDPG, DQN and QR-DQN"
_PARTS = ("pi_features_extractor", "mlp_extractor", "action_net", "value_net", "action_dist")

# Of sb3-contrib, which is optional: a model that uses these modules has imported them.
_MASKABLE = "sb3_contrib.common.maskable.policies"
_MASKED = "sb3_contrib.common.maskable.distributions"

# All that stands between the layers and an action: in rollouts, in updates and in `predict`.
_WAYS_TO_ACT = (
    "forward",
    "predict",
    "_predict",
    "get_distribution",
    "evaluate_actions",
    "_get_action_dist_from_latent",
    "extract_features",
)

_AGREEMENT = 1e-3  # of the spread of the raw outputs: those of a fresh network are tiny
_ROUNDING = 32.0 * float(np.finfo(np.float32).eps)  # of their size


def policy_of(model: BaseAlgorithm) -> Policy:
    """The policy that a model acts by, on the very parameters of the model.

    `hr.enforce(policy_of(model), constraints)` therefore changes the model, its critic excepted,
    and `model.save` saves it so. The model is put into evaluation mode, in which it acts; training
    leaves that mode by itself.

    Behind a frozen `VecNormalize` it is the policy of the environment's own observations: the
    normalisation is its first layer, at the statistics of now.

    Args:
        model: PPO, A2C, SAC, TD3, DDPG, DQN, or sb3-contrib's TRPO, MaskablePPO or QR-DQN. Of
            MaskablePPO, these are the probabilities before any mask; of continuous actions, the
            means before they are clipped, and `std` is what log_std says whenever it is asked for.
            Of SAC, TD3 and DDPG it is the deterministic action, in its own units; of DQN and QR-DQN
            the greedy one, by the values of all actions.
    """
    if not isinstance(model, BaseAlgorithm):
        raise InvalidPolicy(
            f"Expected a model of Stable-Baselines3, such as PPO('MlpPolicy', env), but got "
            f"{type(model).__name__}."
        )
    shown, normalisation = policy_by(model.policy, model), normalisation_of(model)
    refuse_moving(normalisation)
    return raw_policy(shown, normalisation)


@singledispatch
def policy_by(policy: ActorCritic, model: BaseAlgorithm) -> Policy:
    """The policy of what a model's network is shown; each kind of network has its own way."""
    _refuse_other_networks(policy, type(model).__name__)
    refuse_shifted_actions(model)
    state_space(policy.observation_space)  # refuses what no state is told of
    policy.set_training_mode(False)
    actor = _actor_of(policy)
    if shares_parameters(actor, _critic_parts(policy)):
        raise InvalidPolicy(
            f"The actor of this {type(policy).__name__} shares layers with its critic, so it "
            "cannot be changed alone. Give each its own layers behind the features extractor."
        )
    found = _by_distribution(policy, actor)
    _compare(policy, found)
    return found


@singledispatch
def refuse_changed(network: ActorCritic, found: Policy) -> None:
    """Refuse a network that no longer acts by the layers that were found in it."""
    _refuse_other_ways_to_act(network)
    _compare(network, found)


@singledispatch
def never_acting(network: ActorCritic) -> tuple[nn.Module, ...]:
    """What of a network has no say in how the model acts: it may change whenever it likes."""
    actor = network.pi_features_extractor, network.mlp_extractor.policy_net, network.action_net
    return outside(actor, _critic_parts(network))


def outside(acting: Iterable[nn.Module], parts: Iterable[nn.Module]) -> tuple[nn.Module, ...]:
    """Those of the parts that nothing which acts has inside it."""
    inside = {one for part in acting for one in part.modules()}
    return tuple(part for part in parts if part not in inside)


def refuse_shifted_actions(model: BaseAlgorithm) -> None:
    """Stable-Baselines3 gives its environment 0, 1, … whatever the numbers of the actions are."""
    space = model.action_space
    start = getattr(space, "start", 0)
    if np.any(start):
        raise InvalidPolicy(
            f"Stable-Baselines3 numbers actions from 0, but this environment acts in {space}, so "
            "the model does other actions than it means. Wrap the environment: gymnasium.wrappers."
            f"TransformAction(env, lambda action: action + {start}, {_from_zero(space)})."
        )


def _from_zero(space: gym.Space[Any]) -> str:
    """The same actions, numbered from 0."""
    if isinstance(space, gym.spaces.Discrete):
        return f"gymnasium.spaces.Discrete({space.n})"
    return f"gymnasium.spaces.MultiDiscrete({space.nvec.tolist()})"  # type: ignore[attr-defined]


def _refuse_other_networks(policy: ActorCritic, name: str) -> None:
    """All but actor-critic ones; the name is that of the algorithm."""
    kind = type(policy).__name__
    if hasattr(policy, "lstm_actor"):
        raise InvalidPolicy(
            f"{name} remembers: what its {kind} does depends on more than the observation, so "
            "constraints at states say nothing about it. Show a policy without memory the last "
            "few observations: PPO, with gymnasium.wrappers.FrameStackObservation(env, 4) or "
            "VecFrameStack(venv, 4); constraints then speak of these."
        )
    if any(not hasattr(policy, part) for part in _PARTS):
        raise InvalidPolicy(
            f"{name} acts by a {kind}, which Handrail cannot look into. It works with {WHAT_WORKS}."
        )
    if not hasattr(policy.mlp_extractor, "policy_net"):
        raise InvalidPolicy(
            f"The actor's layers are not to be found: {type(policy.mlp_extractor).__name__} has no "
            "`policy_net`. Name the actor's part of a custom network policy_net, the critic's "
            "value_net."
        )
    _refuse_other_ways_to_act(policy)


def _refuse_other_ways_to_act(policy: ActorCritic) -> None:
    """By identity: what a method of somebody else does at other weights, no numbers can tell."""
    bases = _known_policies()
    base = next((one for one in bases if isinstance(policy, one)), None)
    if base is None:
        raise InvalidPolicy(
            f"{type(policy).__name__} is no {' or '.join(one.__name__ for one in bases)}, so how "
            f"it acts is not known. Handrail works with the policies of {WHAT_WORKS}."
        )
    refuse_own_methods(policy, base, _WAYS_TO_ACT, "policy_net or a features extractor")
    refuse_hooks(
        {
            type(policy).__name__: policy,
            "mlp_extractor": policy.mlp_extractor,
            "policy_net": policy.mlp_extractor.policy_net,
        }
    )


def refuse_own_methods(thing: object, base: type[Any], names: Iterable[str], home: str) -> None:
    """Refuse what has a method of its own; `home` is where what it does belongs."""
    for name in names:
        method = getattr(thing, name)
        if getattr(method, "__func__", method) is not getattr(base, name):
            raise InvalidPolicy(
                f"{type(thing).__name__} does not act by its layers alone: it has a `{name}` of "
                f"its own instead of that of {base.__name__}. Handrail changes layers, so it "
                "cannot hold a policy with a forward pass of its own. Put what it does into "
                f"{home}."
            )


def refuse_hooks(containers: Mapping[str, nn.Module]) -> None:
    """Of what contains the layers; those of a layer belong to the actor."""
    for name, container in containers.items():
        if container._forward_hooks or container._forward_pre_hooks:
            raise InvalidPolicy(
                f"{name} has a forward hook, so the model does not act by its layers alone. Remove "
                "it, or put it on a layer."
            )


def _known_policies() -> list[type[Any]]:
    maskable = sys.modules.get(_MASKABLE)
    return [ActorCriticPolicy, *([] if maskable is None else [maskable.MaskableActorCriticPolicy])]


def _actor_of(policy: ActorCritic) -> nn.Module:
    """States (n, *observation_shape) to logits or mean actions (n, n_actions)."""
    layers = [policy.mlp_extractor.policy_net, policy.action_net]
    if type(policy.action_dist) is BernoulliDistribution:
        layers.append(_two_each(policy.action_net))
    return behind_extractor(policy, policy.pi_features_extractor, layers, _critic_parts(policy))


def behind_extractor(
    policy: Any, extractor: nn.Module, layers: Sequence[nn.Module], critic: Sequence[nn.Module]
) -> nn.Module:
    """The layers, behind what they see of states (n, *observation_shape).

    A plain nn.Sequential wherever a state reaches the layers as it is, or through layers of the
    actor's own: that is what proofs and the fast passes look into.

    Args:
        policy: knows the observation space, and what is done to images.
        extractor: of features; a part of the actor if the critic has one of its own.
        layers: behind it.
        critic: all that is not to be changed.
    """
    space = policy.observation_space
    if shares_parameters(extractor, critic):
        return PreparedActor(_features(policy, extractor), nn.Sequential(*layers), space)
    in_front = layers_of(extractor, space)
    if in_front is not None:
        whole = nn.Sequential(*in_front, *layers)
        if not in_front or isinstance(Layers.of(whole), Layers):
            return whole
    return PreparedActor(_as_seen(policy), nn.Sequential(extractor, *layers), space)


def _two_each(last: nn.Linear) -> nn.Linear:
    """From the logit of each binary action to those of its two branches, 0 and itself."""
    n = last.out_features
    fixed = nn.Linear(n, 2 * n, bias=False, dtype=last.weight.dtype, device=last.weight.device)
    fixed.weight.requires_grad_(False).zero_()
    fixed.weight[torch.arange(n) * 2 + 1, torch.arange(n)] = 1.0
    return fixed


def _critic_parts(policy: ActorCritic) -> tuple[nn.Module, ...]:
    """All that the value of a state comes from."""
    return policy.vf_features_extractor, policy.mlp_extractor.value_net, policy.value_net


def shares_parameters(part: nn.Module, others: Sequence[nn.Module]) -> bool:
    """Whether a parameter of this part is one of the others, too."""
    theirs = {id(parameter) for other in others for parameter in other.parameters()}
    return any(id(parameter) in theirs for parameter in part.parameters())


def _as_seen(policy: ActorCritic) -> Callable[[Tensor], Seen]:
    """States as Stable-Baselines3 prepares them for the network: images between 0 and 1."""
    space: gym.Space[Any] = policy.observation_space
    normalize_images: bool = policy.normalize_images

    def prepare(states: Tensor) -> Seen:
        return preprocess_obs(shown(space, states), space, normalize_images=normalize_images)

    return prepare


def _features(policy: ActorCritic, extractor: nn.Module) -> Callable[[Tensor], Tensor]:
    """What a features extractor makes of observations, at its present weights and precision."""
    as_seen = _as_seen(policy)

    def prepare(observations: Tensor) -> Tensor:
        with torch.no_grad():
            features: Tensor = extractor(as_seen(observations))
        return features

    return prepare


@final
class PreparedActor(nn.Module):
    """Layers of the actor, behind what is not theirs to change.

    Args:
        prepare: observations (n, *observation_shape) to what the layers take. A plain function:
            copies of the module share it, and nothing it uses is among the module's parameters.
        layers: to the raw outputs (n, n_actions).
        space: that the model observes, which the layers do not tell.
    """

    def __init__(
        self,
        prepare: Callable[[Tensor], Seen],
        layers: nn.Sequential,
        space: gym.Space[Any],
    ) -> None:
        super().__init__()
        self._prepare = prepare
        self._is_image = is_image_space(space)
        self.observation_space = space
        self.observation_shape = state_space(space).shape
        self.layers = layers

    def forward(self, observations: Tensor) -> Tensor:
        """Raw outputs (n, n_actions), in the precision of the layers; flat observations, too."""
        dtype = next(self.layers.parameters()).dtype
        seen = self._prepare(self._in_shape(observations))
        if isinstance(seen, dict):
            seen = {name: part.to(dtype) for name, part in seen.items()}
        else:
            seen = seen.to(dtype)
        outputs: Tensor = self.layers(seen)
        return outputs

    def _in_shape(self, observations: Tensor) -> Tensor:
        """(n, *observation_shape), of flat ones in C order.

        Not of images: Stable-Baselines3 puts their channels first where the environment has them
        last, so the same numbers would be another image here than in the environment.
        """
        if observations.shape[1:] == self.observation_shape:
            return observations
        if self._is_image:
            raise ValueError(
                f"flat images do not say where their channels are; give them the shape "
                f"{self.observation_shape}"
            )
        shaped: Tensor = observations.unflatten(1, self.observation_shape)
        return shaped


def _by_distribution(policy: ActorCritic, actor: nn.Module) -> Policy:
    """The policy whose head is the model's distribution; a class derived from it may be another."""
    distribution = policy.action_dist
    masked = sys.modules.get(_MASKED)
    categorical = [
        CategoricalDistribution,
        *([] if masked is None else [masked.MaskableCategoricalDistribution]),
    ]
    if type(distribution) in categorical:
        return CategoricalPolicy(actor)
    branched = [
        MultiCategoricalDistribution,
        BernoulliDistribution,
        *([] if masked is None else [masked.MaskableMultiCategoricalDistribution]),
        *([] if masked is None else [masked.MaskableBernoulliDistribution]),
    ]
    if type(distribution) in branched:
        return BranchedPolicy(actor, sizes_of(policy.action_space))
    if policy.squash_output:
        raise InvalidPolicy(
            "squash_output=True sends mean actions through tanh; constraints on them are not "
            "supported. Leave it at False."
        )
    if type(distribution) is DiagGaussianDistribution:
        limits = limits_of(policy.action_space)
        return GaussianPolicy.following(actor, policy.log_std).clipped_to(limits)
    raise InvalidPolicy(
        f"Constraints speak of the probabilities of discrete actions, or of the means of "
        f"continuous ones with independent noise, but this model acts in {policy.action_space} "
        f"through {type(distribution).__name__}. Leave use_sde at False, and action_dist as "
        "Stable-Baselines3 makes it."
    )


def _compare(policy: ActorCritic, found: Policy) -> None:
    observations = probes(policy.observation_space)
    acts = _raw_outputs(policy, found.quantity, observations)
    layers = "features extractor, policy_net, action_net"
    refuse_differences(type(policy).__name__, layers, found, observations, acts)


def refuse_differences(
    name: str,
    layers: str,
    found: Policy,
    observations: Array,
    acts: Iterable[Array],
    size: float = 0.0,
) -> None:
    """A network with a forward pass of its own would act otherwise than its layers say.

    Args:
        name: of the network.
        layers: that were found in it, in words.
        found: the policy of these layers.
        observations: (n, *observation_shape).
        acts: raw outputs (n, n_actions) there, as Stable-Baselines3 computes them in several ways.
        size: of numbers that it rounds on the way, besides its outputs.
    """
    raw = found.raw(observations)
    expected = found.quantity.comparable(raw)
    allowed = _AGREEMENT * np.ptp(expected) + _ROUNDING * max(np.abs(raw).max(), size)
    for one in acts:
        difference = np.abs(found.quantity.comparable(one) - expected).max()
        if not difference <= allowed:
            raise InvalidPolicy(
                f"{name} does not act by its layers alone ({layers}): its outputs differ by up to "
                f"{difference:.2g}. Handrail changes layers, so it cannot hold a policy with a "
                "forward pass of its own."
            )


def _raw_outputs(policy: ActorCritic, quantity: Quantity, states: Array) -> list[Array]:
    """Logits or means (n, n_actions) by Stable-Baselines3: in rollouts, and in `predict`."""
    seen = shown(policy.observation_space, torch.as_tensor(states, device=policy.device))
    with torch.no_grad():
        policy.forward(seen, deterministic=True)  # leaves its distribution in action_dist
        in_rollouts = _raw_of(policy.action_dist, quantity)
        in_predict = _raw_of(policy.get_distribution(seen), quantity)
    return [in_rollouts, in_predict]


def _raw_of(distribution: Any, quantity: Quantity) -> Array:
    """What a distribution was made of (n, n_actions)."""
    masked = hasattr(distribution, "distributions")  # sb3-contrib's name for several
    branches = distribution.distributions if masked else distribution.distribution
    known = branches if isinstance(branches, list) else [branches]
    raw = torch.cat([getattr(one, quantity.stages[0]) for one in known], dim=1)
    if type(distribution) is BernoulliDistribution:
        raw = torch.stack([torch.zeros_like(raw), raw], dim=2).flatten(1)
    numbers: Array = raw.double().cpu().numpy()
    return numbers
