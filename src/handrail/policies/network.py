"""Fully connected networks: built fresh, and described so that a saved one can be built again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from handrail.errors import InvalidPolicy, InvalidRun
from handrail.policies.activation import ACTIVATIONS, IDENTITY
from handrail.policies.layers import Layers, Refusal
from handrail.policies.policy import Policy
from handrail.policies.scaler import Scale, Scaler, input_scaling

_DTYPES = {"float64": torch.float64, "float32": torch.float32}


@final
@dataclass(frozen=True)
class Architecture:
    """All there is to know about a fully connected network but its weights.

    Attributes:
        hidden: widths of the hidden layers.
        activation: a key of `ACTIVATIONS`.
        dtype: "float64" or "float32".
        scaled: whether a `Scaler` stands in front; its numbers are saved as weights are.
    """

    hidden: tuple[int, ...]
    activation: str = "relu"
    dtype: str = "float64"
    scaled: bool = False

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise InvalidPolicy(
                f"Unknown activation {self.activation!r}. Choose one of {', '.join(ACTIVATIONS)}."
            )
        if self.dtype not in _DTYPES:
            raise InvalidPolicy(
                f"Unknown precision {self.dtype!r}. Choose one of {', '.join(_DTYPES)}."
            )
        if any(not isinstance(width, int) or width < 1 for width in self.hidden):
            raise InvalidPolicy(
                f"Hidden widths must be positive integers, but got {list(self.hidden)!r}."
            )

    def build(self, observation_shape: Sequence[int], n_actions: int, seed: int) -> nn.Sequential:
        """A network with PyTorch's standard initialisation; the global random state is left alone.

        Of a scaled one the numbers are still to be loaded.

        Args:
            observation_shape: of one observation; more than one axis is flattened.
            n_actions: outputs.
            seed: of the weights.
        """
        n = int(np.prod(observation_shape))
        front = Scaler(np.ones(n), np.zeros(n), self.precision) if self.scaled else None
        return self.build_behind(front, observation_shape, n_actions, seed)

    def build_behind(
        self, front: Scaler | None, observation_shape: Sequence[int], n_actions: int, seed: int
    ) -> nn.Sequential:
        """The same behind a scaling of what is observed."""
        widths = [int(np.prod(observation_shape)), *self.hidden, n_actions]
        layers: list[nn.Module] = [nn.Flatten()] if len(observation_shape) > 1 else []
        layers += [] if front is None else [front]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for n_in, n_out in pairwise(widths):
                layers += [
                    _linear(n_in, n_out, self.precision),
                    ACTIVATIONS[self.activation].kind(),
                ]
        return nn.Sequential(*layers[:-1])

    @property
    def precision(self) -> torch.dtype:
        """As torch has it."""
        return _DTYPES[self.dtype]

    def describe(self) -> dict[str, Any]:
        """Plain values; files of before scaling was a layer say nothing of it."""
        return {name: one for name, one in asdict(self).items() if one or name != "scaled"}

    @classmethod
    def of(cls, module: nn.Module) -> Architecture | None:
        """Of a network that `build` could have built; None for any other."""
        layers = Layers.of(module)
        if isinstance(layers, Refusal):
            return None
        scaled, n = layers.front is not None, len(layers.linear)
        first = int(layers.flattens) + int(scaled)
        built = [f"{first + 2 * k}.{part}" for k in range(n) for part in ("weight", "bias")]
        *between, last = layers.activations
        if (
            [name for name, _ in module.named_parameters()] != built
            or last is not IDENTITY
            or IDENTITY in between
            or len({activation.name for activation in between}) > 1
        ):
            return None
        hidden = tuple(layer.out_features for layer in layers.linear[:-1])
        activation = between[0].name if between else cls.activation
        return cls(hidden, activation, str(layers.dtype).removeprefix("torch."), scaled)


def fresh_network(
    observations: gym.spaces.Box,
    n_actions: int,
    hidden: Sequence[int],
    activation: str,
    seed: int,
    dtype: torch.dtype,
    scale: Scale | None,
    centre: Sequence[float] | None,
) -> nn.Sequential:
    """A network as `mlp` of a policy describes it."""
    if isinstance(hidden, int):
        raise InvalidPolicy(f"`hidden` lists the widths of the hidden layers: [{hidden}].")
    architecture = Architecture(tuple(hidden), activation, str(dtype).removeprefix("torch."))
    front = input_scaling(observations, scale, centre, architecture.precision)
    return architecture.build_behind(front, observations.shape, n_actions, seed)


def _linear(n_in: int, n_out: int, dtype: torch.dtype) -> nn.Linear:
    """A linear layer; from few inputs to many outputs its weights lie in memory by columns.

    One observation then is a sum of a few long columns instead of thousands of tiny rows: half the
    time of the paper's first layer, and torch's own passes gain as well.
    """
    layer = nn.Linear(n_in, n_out, dtype=dtype)
    if n_in < n_out:
        layer.weight = nn.Parameter(layer.weight.detach().T.contiguous().T)
    return layer


Tensors = dict[str, NDArray[Any]]


def pack_policy(policy: Policy) -> tuple[Tensors, dict[str, Any] | None]:
    """The weights, and the architecture where it is known."""
    weights = {name: value.detach().cpu().numpy() for name, value in _weights(policy).items()}
    architecture = Architecture.of(policy.module)
    return weights, None if architecture is None else architecture.describe()


def load_weights(policy: Policy, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy saved weights into a policy, in place; refused as a whole if one does not fit."""
    own = _weights(policy)
    for name, value in own.items():
        saved = tuple(weights[name].shape) if name in weights else "nothing"
        if saved != tuple(value.shape):
            raise InvalidRun(
                f"The saved policy does not fit this network: {name!r} is {tuple(value.shape)} "
                f"here, but {saved} in the file."
            )
        if not np.isfinite(weights[name]).all():
            raise InvalidRun(f"The saved policy has numbers in {name!r} that are not finite.")
    unknown = sorted(set(weights) - set(own))
    if unknown:
        raise InvalidRun(f"The saved policy has {unknown[0]!r}, which this network has not.")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(torch.as_tensor(weights[name]))


def _weights(policy: Policy) -> dict[str, torch.Tensor]:
    return dict(policy.module.state_dict())
