"""Fully connected networks: built fresh, and described so that a saved one can be built again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from handrail._types import Array
from handrail.errors import InvalidPolicy, InvalidRun
from handrail.policies.activation import ACTIVATIONS, IDENTITY
from handrail.policies.layers import Layers, Refusal
from handrail.policies.normalisation import Normaliser
from handrail.policies.policy import Policy
from handrail.policies.residual import Residual
from handrail.policies.scaler import Scaler

_LATER = ("scaled", "bounded", "residual")

# What may bound outputs: both reach from -1 to 1. A hardtanh clips.
BOUNDING = {name: ACTIVATIONS[name] for name in ("tanh", "hardtanh")}

_DTYPES = {"float64": torch.float64, "float32": torch.float32}


@final
@dataclass(frozen=True)
class Architecture:
    """All there is to know about a fully connected network but its weights.

    Attributes:
        hidden: widths of the hidden layers.
        activation: a key of `ACTIVATIONS`.
        dtype: "float64" or "float32".
        scaled: whether a `Scaler` stands in front; its numbers are saved as weights are, and so
            are those of what follows.
        bounded: what bounds the outputs, a key of `BOUNDING`, or nothing.
        residual: whether a linear controller is added, by a `Residual`.
    """

    hidden: tuple[int, ...]
    activation: str = "relu"
    dtype: str = "float64"
    scaled: bool = False
    bounded: str = ""
    residual: bool = False

    def __post_init__(self) -> None:
        if self.activation not in ACTIVATIONS:
            raise InvalidPolicy(
                f"Unknown activation {self.activation!r}. Choose one of {', '.join(ACTIVATIONS)}."
            )
        if self.dtype not in _DTYPES:
            raise InvalidPolicy(
                f"Unknown precision {self.dtype!r}. Choose one of {', '.join(_DTYPES)}."
            )
        if self.bounded not in ("", *BOUNDING):
            raise InvalidPolicy(
                f"Unknown bounding {self.bounded!r}. Choose one of {', '.join(BOUNDING)}."
            )
        if any(not isinstance(width, int) or width < 1 for width in self.hidden):
            raise InvalidPolicy(
                f"Hidden widths must be positive integers, but got {list(self.hidden)!r}."
            )

    def build(self, observation_shape: Sequence[int], n_actions: int, seed: int) -> nn.Sequential:
        """A network with PyTorch's standard initialisation; the global random state is left alone.

        What is not learned (a scaling, a controller, a range) is still to be loaded.

        Args:
            observation_shape: of one observation; more than one axis is flattened.
            n_actions: outputs.
            seed: of the weights.
        """
        n, to = int(np.prod(observation_shape)), self.precision
        given = Given(
            front=Scaler(np.ones(n), np.zeros(n), to) if self.scaled else None,
            controller=(np.zeros((n_actions, n)), np.zeros(n_actions)) if self.residual else None,
            back=Scaler(np.ones(n_actions), np.zeros(n_actions), to) if self.bounded else None,
        )
        return self.build_with(given, observation_shape, n_actions, seed)

    def build_with(
        self, given: Given, observation_shape: Sequence[int], n_actions: int, seed: int
    ) -> nn.Sequential:
        """The same with what is not learned.

        Beside a controller, the last weights are 0: it begins as the controller alone.
        """
        widths = [int(np.prod(observation_shape)), *self.hidden, n_actions]
        layers: list[nn.Module] = [] if given.front is None else [given.front]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            for n_in, n_out in pairwise(widths):
                last = _linear(n_in, n_out, self.precision)
                layers += [last, ACTIVATIONS[self.activation].kind()]
        layers.pop()
        if given.controller is not None:
            nn.init.zeros_(last.weight)
            nn.init.zeros_(last.bias)
            layers = [Residual(nn.Sequential(*layers), *given.controller, self.precision)]
        if given.back is not None:
            layers += [BOUNDING[self.bounded].kind(), given.back]
        return nn.Sequential(*([nn.Flatten()] if len(observation_shape) > 1 else []), *layers)

    def names(self, flattens: bool) -> list[str]:
        """Of all numbers of such a network, in order."""
        first, inside = int(flattens), ""
        found: list[str] = []
        if self.residual:
            found, inside = [f"{first}.gain", f"{first}.offset"], f"{first}.network."
        index = 0 if self.residual else first
        if self.scaled:
            found += [f"{inside}{index}.factor", f"{inside}{index}.offset"]
        index += int(self.scaled)
        for _ in (*self.hidden, None):
            found += [f"{inside}{index}.weight", f"{inside}{index}.bias"]
            index += 2
        if self.bounded:
            behind = first + 2 if self.residual else index
            found += [f"{behind}.factor", f"{behind}.offset"]
        return found

    @property
    def precision(self) -> torch.dtype:
        """As torch has it."""
        return _DTYPES[self.dtype]

    def describe(self) -> dict[str, Any]:
        """Plain values; files of before say nothing of what there was not."""
        given = asdict(self)
        return {name: one for name, one in given.items() if one or name not in _LATER}

    @classmethod
    def of(cls, module: nn.Module) -> Architecture | None:
        """Of a network that `build` could have built; None for any other."""
        layers = Layers.of(module)
        if isinstance(layers, Refusal):
            return None
        *between, last = layers.activations
        bounded = "" if layers.back is None else last.name
        if (
            (last is not IDENTITY) != (layers.back is not None)
            or bounded not in ("", *BOUNDING)
            or IDENTITY in between
            or isinstance(layers.front, Normaliser)
            or len({activation.name for activation in between}) > 1
        ):
            return None
        found = cls(
            hidden=tuple(layer.out_features for layer in layers.linear[:-1]),
            activation=between[0].name if between else cls.activation,
            dtype=str(layers.dtype).removeprefix("torch."),
            scaled=layers.front is not None,
            bounded=bounded,
            residual=layers.residual is not None,
        )
        return found if list(module.state_dict()) == found.names(layers.flattens) else None


@final
@dataclass(frozen=True)
class Given:
    """What of a network is given, not learned.

    Attributes:
        front: what scales observations.
        controller: gain and offset of what is added to the network.
        back: what brings bounded outputs onto the range of the actions.
    """

    front: Scaler | None = None
    controller: tuple[Array, Array] | None = None
    back: Scaler | None = None


def architecture_of(hidden: Sequence[int], activation: str, dtype: torch.dtype) -> Architecture:
    """As `mlp` of a policy is told it."""
    if isinstance(hidden, int):
        raise InvalidPolicy(f"`hidden` lists the widths of the hidden layers: [{hidden}].")
    return Architecture(tuple(hidden), activation, str(dtype).removeprefix("torch."))


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
