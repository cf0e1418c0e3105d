"""From what a model observes to the first layer that decides: states, and features extractors.

Constraints speak of flat states wherever a model observes several parts (a Dict) or discrete
values: in the order of `gymnasium.spaces.flatten`, which is the one in which Stable-Baselines3
itself puts them side by side. What stands between a state and the actor is read as layers where it
is nothing but layers, so that proofs look into it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.preprocessing import is_image_space, maybe_transpose
from stable_baselines3.common.torch_layers import CombinedExtractor, FlattenExtractor
from torch import Tensor, fx, nn
from torch.nn import functional

from handrail._types import Array
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies import Normaliser, Scaler, flat_space

_PROBES = 4  # observations at which the actor is compared with the policy it was taken from

# What a features extractor may write instead of a layer.
_AS_LAYERS: dict[Any, Callable[[], nn.Module]] = {
    torch.tanh: nn.Tanh,
    torch.relu: nn.ReLU,
    functional.tanh: nn.Tanh,
    functional.relu: nn.ReLU,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
}
# Layers of ours that may stand in front.
_OURS = (Scaler, Normaliser)
_FLATTENS: tuple[Any, ...] = (torch.flatten, "flatten")


def state_space(space: gym.Space[Any]) -> gym.spaces.Box:
    """Of the states that constraints on such a model speak of."""
    for part in _parts(space).values():
        if np.any(getattr(part, "start", 0)):
            raise InvalidPolicy(
                f"Stable-Baselines3 numbers discrete values from 0, but this model observes {part}."
            )
    return flat_space(space)


def as_seen(model: gym.Space[Any], env: gym.Space[Any]) -> Callable[[Array], Array]:
    """From states as an environment observes them to states of a model, both (n, …).

    Images have their channels first in a model, wherever the environment has them.
    """
    theirs, order, begin = _parts(env), [], 0
    for name, part in _parts(model).items():
        own = begin + np.arange(gym.spaces.flatdim(part))
        begin += len(own)
        shape = theirs[name].shape or ()
        is_moved = isinstance(part, gym.spaces.Box) and part.shape != shape
        order.append(np.moveaxis(own.reshape(shape), -1, 0).ravel() if is_moved else own)
    whole, shape = np.concatenate(order), state_space(model).shape
    return lambda states: states.reshape(len(states), -1)[:, whole].reshape(-1, *shape)


def state_of(model: BaseAlgorithm, observation: Any) -> Array:
    """What an environment of a model observes, as the state that constraints on it speak of.

    Images have their channels first in it, wherever the environment has them; the parts of a Dict
    are flat and one behind the other.

    Args:
        model: of Stable-Baselines3.
        observation: one, as `env.reset()` returns it.
    """
    space = model.observation_space
    if not isinstance(space, gym.spaces.Dict):
        return _in_model(space, observation)
    parts = [_in_model(part, observation[name]).ravel() for name, part in space.spaces.items()]
    return np.concatenate(parts)


def _in_model(space: gym.Space[Any], observation: Any) -> Array:
    if not isinstance(space, gym.spaces.Box):
        flat: Array = np.asarray(gym.spaces.flatten(space, observation), dtype=np.float64)
        return flat
    seen = np.asarray(observation)
    if is_image_space(space):
        seen = maybe_transpose(seen, space)
    if seen.shape != space.shape:
        raise ShapeMismatch(
            f"The model observes {space}, but this observation has the shape {seen.shape}."
        )
    return seen.astype(np.float64)


def states_of(space: gym.Space[Any], buffered: Mapping[str, Array] | Array) -> Array:
    """What a buffer keeps, (time, environment, …) of each part, as states in the order of time."""
    if isinstance(space, gym.spaces.Box):
        assert not isinstance(buffered, Mapping)  # Stable-Baselines3 keeps parts of a Dict only
        return _joined(buffered)
    whole = buffered if isinstance(buffered, Mapping) else {"": buffered}
    parts = [_flat(part, _joined(whole[name])) for name, part in _parts(space).items()]
    return np.concatenate(parts, axis=1)


def _joined(buffered: Array) -> Array:
    return buffered.reshape(-1, *buffered.shape[2:])


def shown(space: gym.Space[Any], states: Tensor) -> Tensor | dict[str, Tensor]:
    """States as Stable-Baselines3 shows them to a network, before it prepares them itself."""
    if isinstance(space, gym.spaces.Box):
        return states
    parts = _parts(space)
    sizes = [gym.spaces.flatdim(part) for part in parts.values()]
    pieces = zip(parts.items(), states.split(sizes, dim=1), strict=True)
    split = {name: _unflat(part, piece) for (name, part), piece in pieces}
    return split if isinstance(space, gym.spaces.Dict) else split[""]


def observed(space: gym.Space[Any], states: Array) -> Any:
    """States as the environments of a model observe them, (n, …) or a dict of such."""
    seen = shown(space, torch.as_tensor(states))
    if isinstance(seen, Tensor):
        return seen.numpy()
    return {name: part.numpy() for name, part in seen.items()}


def probes(space: gym.Space[Any]) -> Array:
    """A few states, the same every time; of numbers, far beyond what is usual, too."""
    if isinstance(space, gym.spaces.Box):
        chance = np.random.default_rng(0).uniform(-10.0, 10.0, (_PROBES, *space.shape))
        observations: Array = np.clip(chance, space.low, space.high).astype(space.dtype)
        return observations
    source = copy.deepcopy(space)  # a space has a stream of chance of its own
    source.seed(0)
    several: list[Any] = [gym.spaces.flatten(space, source.sample()) for _ in range(_PROBES)]
    return np.stack(several)


def _parts(space: gym.Space[Any]) -> Mapping[str, gym.Space[Any]]:
    """Those of a Dict; anything else is a single one."""
    return space.spaces if isinstance(space, gym.spaces.Dict) else {"": space}


def _flat(space: gym.Space[Any], observations: Array) -> Array:
    """(n, …) as (n, flatdim)."""
    n = len(observations)
    if isinstance(space, gym.spaces.Discrete):
        return np.eye(int(space.n))[observations.reshape(n).astype(np.intp)]
    if isinstance(space, gym.spaces.MultiDiscrete):
        columns = observations.reshape(n, -1).astype(np.intp).T
        sizes = space.nvec.ravel()
        one_hot = [np.eye(size)[column] for size, column in zip(sizes, columns, strict=True)]
        return np.concatenate(one_hot, axis=1)
    return observations.reshape(n, -1).astype(np.float64)


def _unflat(space: gym.Space[Any], states: Tensor) -> Tensor:
    """(n, flatdim) as (n, …)."""
    if isinstance(space, gym.spaces.Discrete):
        return states.argmax(dim=1)
    if isinstance(space, gym.spaces.MultiDiscrete):
        pieces = states.split(space.nvec.ravel().tolist(), dim=1)
        return torch.stack([piece.argmax(dim=1) for piece in pieces], dim=1)
    return states.reshape(len(states), *(space.shape or ()))


def layers_of(extractor: nn.Module, space: gym.Space[Any]) -> list[nn.Module] | None:
    """What a features extractor makes of states, as layers; None where it is more than layers.

    Whether all of these are of a kind that can be looked into is for whoever looks.
    """
    if _has_hooks(extractor):
        return None
    if type(extractor) is FlattenExtractor and not is_image_space(space):
        return [nn.Flatten()] if len(state_space(space).shape) > 1 else []
    if type(extractor) is CombinedExtractor:
        parts = extractor.extractors
        plain = all(type(part) is nn.Flatten and not _has_hooks(part) for part in parts.values())
        return [] if plain and list(parts) == list(_parts(space)) else None
    if isinstance(space, gym.spaces.Box) and not is_image_space(space):
        return _chain(extractor)
    return None


def _has_hooks(module: nn.Module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks)


@final
class _LayerTracer(fx.Tracer):
    """Follows a forward pass down to torch's layers, and to ours."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return type(m) in _OURS or super().is_leaf_module(m, module_qualified_name)


def _chain(extractor: nn.Module) -> list[nn.Module] | None:
    """The layers one behind the other, if its `forward` calls them so and does nothing else."""
    try:
        graph = _LayerTracer().trace(extractor)
    except Exception:  # whatever a forward does with what is no tensor
        return None
    first, *steps, last = graph.nodes
    layers: list[nn.Module] = []
    before = first
    for step in steps:
        layer = _layer(extractor, step)
        if layer is None or step.args[:1] != (before,) or step.kwargs or len(before.users) != 1:
            return None
        layers.append(layer)
        before = step
    return layers if first.op == "placeholder" and last.args == (before,) else None


def _layer(extractor: nn.Module, step: fx.Node) -> nn.Module | None:
    if step.op == "call_module" and len(step.args) == 1:
        return extractor.get_submodule(str(step.target))
    if step.op not in ("call_function", "call_method"):
        return None
    if step.target in _FLATTENS and step.args[1:] in ((1,), (1, -1)):
        return nn.Flatten()
    make = _AS_LAYERS.get(step.target) if len(step.args) == 1 else None
    return None if make is None else make()
