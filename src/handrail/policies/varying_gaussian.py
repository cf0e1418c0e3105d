"""Continuous actions whose noise depends on the state: a network returns means, and noise.

The outputs of a state are the means of all dimensions, and behind them their standard deviations,
each a smooth function of one number that the network returns, u:

    std = (most + least) / 2 + (most - least) / 2 · tanh(u),

so that it never leaves its range, whatever the weights. A bound on it is one on u.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import nn
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies.activation import ACTIVATIONS, IDENTITY, side_by_side
from handrail.policies.branched_policy import branches_called
from handrail.policies.coordinates import Coordinates, WithinRange
from handrail.policies.gaussian import checked_std, part_of_range
from handrail.policies.layer_arrays import LayerArrays
from handrail.policies.mean_policy import MeanPolicy
from handrail.policies.network import Given, architecture_of
from handrail.policies.policy import Actions
from handrail.policies.quantity import (
    MEAN,
    STD,
    FreeNumber,
    Quantity,
    quantity_named,
)
from handrail.policies.residual import Controller, controller_arrays, in_range
from handrail.policies.scaler import Scale, Scaler, input_scaling, onto_range
from handrail.policies.spaces import continuous_spaces, limits_of
from handrail.settings import DEFAULT_STD, DEFAULT_STD_RANGE

# Behind a tanh, what the noise is made of goes this far: to 99.9 % of its range.
_REACH = 4.0


@final
@dataclass(frozen=True)
class MeanAndStd(FreeNumber):
    """The means of all dimensions of a continuous action, and behind them their deviations.

    Attributes:
        least: that the standard deviation of each dimension can be.
        most: likewise.
    """

    least: tuple[float, ...]
    most: tuple[float, ...]

    name: ClassVar[str] = "mean and std"
    noun: ClassVar[str] = "mean or standard deviation"
    plural: ClassVar[str] = "means and standard deviations"
    subject: ClassVar[str] = "where actions are drawn"
    margin_unit: ClassVar[str] = MEAN.margin_unit
    stages: ClassVar[tuple[str, ...]] = ("mean", "std")
    is_continuous: ClassVar[bool] = True

    @property
    @override
    def full_name(self) -> str:
        return f"{self.name} from {list(self.least)} to {list(self.most)}"

    @property
    def dimensions(self) -> int:
        """Of the action."""
        return len(self.least)

    @override
    def answers(self, asked: Quantity) -> bool:
        return asked in (MEAN, STD, self)

    @override
    def n_actions(self, n_outputs: int) -> int:
        return self.dimensions

    @override
    def part(self, output: int) -> tuple[Quantity, int]:
        n = self.dimensions
        return (MEAN, output) if output < n else (STD, output - n)

    @override
    def of_action(self, action: int) -> str:
        kind, dimension = self.part(action)
        return kind.of_action(dimension)

    @override
    def of_named(self, action: str) -> str:
        return MEAN.of_named(action)

    @override
    def request(self, n_actions: int) -> str:
        return f"{MEAN.request(self.dimensions)} Or their standard deviations: Std(0)."

    @override
    def one_says_all(self, n_actions: int) -> bool:
        return False

    @override
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        """The action, without any noise."""
        means = MEAN.of_actions(actions, self.dimensions)
        return np.concatenate([means, np.zeros_like(means)], axis=1)

    @override
    def changed_choices(self, before: Array, after: Array) -> int | None:
        return None

    @override
    def is_curved(self, weights: Array, alone: Mask) -> Mask:
        """A standard deviation by itself: near an end of its range it hardly moves."""
        result: Mask = alone & (weights[:, : self.dimensions] == 0.0).all(axis=1)
        return self._within.is_curved(weights, result)

    @override
    def coordinate(self, weights: Array, outputs: Array) -> tuple[Array, Array]:
        return self._within.coordinate(weights, outputs)

    @override
    def coordinate_of_bound(self, weights: Array, bound: Array, inwards: Array) -> Array:
        return self._within.coordinate_of_bound(weights, bound, inwards)

    @override
    def value_at(self, weights: Array, coordinate: Array) -> Array:
        return self._within.value_at(weights, coordinate)

    @property
    def _within(self) -> WithinRange:
        """Only deviations are ever asked for."""
        none, one = np.zeros(self.dimensions), np.ones(self.dimensions)
        return WithinRange(np.concatenate([none, self.least]), np.concatenate([one, self.most]))


@final
class VaryingGaussianPolicy(MeanPolicy):
    """a ~ N(mean(s), std(s)²), every dimension on its own: noise that depends on the state.

    Constraints are about means (`Mean`), about standard deviations (`Std`), or about where drawn
    actions lie. Both are learned by `Reinforce`.

    Args:
        module: maps a batch of observations (n, *observation_shape) to (n, 2 · n_actions) numbers:
            the means, and behind them what becomes the standard deviations.
        least: that the standard deviation of each dimension can be, in units of the action.
        most: likewise; least and most are never passed, whatever the weights.
    """

    quantity: MeanAndStd
    _raw_name: ClassVar[str] = "means and standard deviations"

    def __init__(self, module: nn.Module, least: Sequence[float], most: Sequence[float]) -> None:
        super().__init__(module)
        self._least, self._most = (np.atleast_1d(checked_std(one)) for one in (least, most))
        if self._least.shape != self._most.shape or not (self._least < self._most).all():
            raise InvalidPolicy(
                f"A standard deviation that varies needs a range for each dimension of the action, "
                f"least < most, but got least={least!r} and most={most!r}."
            )
        self.quantity = MeanAndStd(tuple(self._least.tolist()), tuple(self._most.tolist()))
        self._middle = 0.5 * (self._least + self._most)
        self._half = 0.5 * (self._most - self._least)

    @classmethod
    def mlp(
        cls,
        env_or_spaces: Any,
        hidden: Sequence[int] = (5000,),
        activation: str = "relu",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        scale: Scale | None = None,
        std: float = DEFAULT_STD,
        std_range: tuple[float, float] = DEFAULT_STD_RANGE,
        centre: Sequence[float] | None = None,
        bounded: Literal["tanh", "hardtanh"] | None = None,
        residual: Controller | None = None,
    ) -> VaryingGaussianPolicy:
        """A fresh fully connected network, whose noise is at first the same everywhere.

        Args:
            env_or_spaces: as for `GaussianPolicy.mlp`, and so are others that are not here.
            hidden: widths of the hidden layers.
            activation: a name of `policies.ACTIVATIONS`.
            seed: of the initial weights.
            dtype: of the weights, float64 or float32.
            scale: typical sizes of the observations, or "auto".
            std: standard deviation to begin with, as a part of half the range of each action.
            std_range: the least and the most that it can become, as parts of `std`.
            centre: typical values of the observations.
            bounded: keeps means within the range of the actions.
            residual: a controller that the means are added to.
        """
        observations, actions = continuous_spaces(env_or_spaces)
        architecture = replace(architecture_of(hidden, activation, dtype), bounded=bounded or "")
        shape, n_actions, to = observations.shape, int(actions.shape[0]), architecture.precision
        low, high = limits_of(actions)
        first = part_of_range(std) * 0.5 * (high - low)
        below, above = _parts(std_range)
        least, most = below * first, above * first
        reach = np.full(n_actions, _REACH)
        back: Scaler | None = None
        if bounded:
            back = onto_range(np.concatenate([low, -reach]), np.concatenate([high, reach]), to)
        controller = None
        if residual is not None:
            gain, offset = controller_arrays(residual, n_actions, int(np.prod(shape)))
            controller = np.vstack([gain, np.zeros_like(gain)]), np.append(offset, 0.0 * offset)
            controller = controller if back is None else in_range(*controller, back)
        given = Given(input_scaling(observations, scale, centre, to), controller, back)
        network = architecture.build_with(given, shape, 2 * n_actions, seed)
        begin = np.arctanh((first - 0.5 * (least + most)) / (0.5 * (most - least)))
        if bounded:
            begin = np.arctanh(begin / _REACH) if bounded == "tanh" else begin / _REACH
        _set_noise(network, begin)
        return cls(network, least.tolist(), most.tolist()).clipped_to((low, high))

    @override
    def with_module(self, module: nn.Module) -> VaryingGaussianPolicy:
        policy = VaryingGaussianPolicy(module, self._least.tolist(), self._most.tolist())
        return policy.clipped_to(self.limits)

    @override
    def mean(self, states: ArrayLike) -> Array:
        return super().mean(states)[..., : self.quantity.dimensions]

    def std(self, states: ArrayLike) -> Array:
        """The standard deviation: (n, n_actions) for a batch, (n_actions,) for one observation."""
        return super().mean(states)[..., self.quantity.dimensions :]

    @property
    def std_range(self) -> tuple[Array, Array]:
        """The least and the most that it can be (n_actions,), anywhere and ever."""
        return self._least, self._most

    @property
    @override
    def coordinates(self) -> Coordinates:
        """Of deviations log-odds within their range; of means, too, behind a tanh."""
        layers = self.layers()
        if layers is not None and layers.activations[-1] is ACTIVATIONS["tanh"]:
            return WithinRange(*self.output_range())
        return self.quantity

    @override
    def output_range(self) -> tuple[Array, Array]:
        """Of means that of the last activation, if it has one; of deviations as declared."""
        ends = super().output_range()
        if ends is not None:
            return self.head(ends[0]), self.head(ends[1])
        anything = np.full(self.quantity.dimensions, np.inf)
        return np.append(-anything, self._least), np.append(anything, self._most)

    def decided_layers(self, layers: LayerArrays) -> LayerArrays:
        """The same network with the head behind it: it returns means and standard deviations."""
        none, one = np.zeros(self.quantity.dimensions), np.ones(self.quantity.dimensions)
        if layers.activations[-1] is not IDENTITY:
            layers = layers.scaled(np.append(one, one), np.append(none, none))
        width = self.quantity.dimensions
        last = side_by_side((IDENTITY, width), (ACTIVATIONS["tanh"], width))
        open_ = replace(layers, activations=(*layers.activations[:-1], last))
        return open_.scaled(np.append(one, self._half), np.append(none, self._middle))

    @override
    def head(self, raw: Array) -> Array:
        """Means as they are, and standard deviations in their range."""
        n = self.quantity.dimensions
        if raw.shape[-1] != 2 * n:
            raise ShapeMismatch(
                f"The policy has ranges for {n} standard deviations, so its network must return "
                f"{2 * n} numbers, {n} means and {n} for the noise, but it returns "
                f"{raw.shape[-1]}."
            )
        std = np.clip(self._middle + self._half * np.tanh(raw[..., n:]), self._least, self._most)
        return np.concatenate([raw[..., :n], std], axis=-1)

    @override
    def through_head(self, outputs: Array, vectors: Array) -> Array:
        """Of noise times dσ/du = (σ - least)(most - σ) / half."""
        means, noise = self._split(vectors)
        return np.concatenate([means, noise * self._slopes(outputs)], axis=1)

    def _slopes(self, outputs: Array) -> Array:
        _, std = self._split(outputs)
        slopes: Array = (std - self._least) * (self._most - std) / self._half
        return slopes

    def _split(self, outputs: Array) -> tuple[Array, Array]:
        n = self.quantity.dimensions
        return outputs[..., :n], outputs[..., n:]

    @override
    def scale(self, outputs: Array) -> Array:
        """The standard deviation, of both: one of it away, ∇log π is ∇mean / std."""
        _, std = self._split(outputs)
        return np.concatenate([std, std], axis=1)

    @override
    def margin_scale(self, outputs: Array) -> Array:
        """The middle of the range."""
        middle = np.sqrt(self._least * self._most)
        return np.concatenate([middle, middle])

    @override
    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """√2 log σ, and means in a fixed deviation: no coordinates are flat in both together."""
        mean, std = self._split(outputs)
        n = self.quantity.dimensions
        unit = self.margin_scale(outputs)[:n]
        slopes = np.zeros((len(outputs), 2 * n, 2 * n))
        each = np.arange(n)
        slopes[:, each, each] = 1.0 / unit
        slopes[:, n + each, n + each] = math.sqrt(2.0) * self._slopes(outputs) / std
        return np.concatenate([mean / unit, math.sqrt(2.0) * np.log(std)], axis=1), slopes

    @override
    def likelihood(self, outputs: Array, actions: Actions) -> tuple[Array, Array]:
        """Of the Gaussian; (a - mean) / std², and ((a - mean)² / std² - 1) / std · dσ/du."""
        mean, std = self._split(outputs)
        if actions.shape != mean.shape:
            raise ShapeMismatch(
                f"The batch has actions of shape {actions.shape}, but this policy's are continuous "
                f"with {mean.shape[1]} dimensions: {mean.shape}."
            )
        away = (actions - mean) / std
        constant = np.log(std) + 0.5 * math.log(2.0 * math.pi)
        noise = (away**2 - 1.0) / std * self._slopes(outputs)
        gradient = np.concatenate([away / std, noise], axis=1)
        return -(0.5 * away**2 + constant).sum(axis=1), gradient

    def act(self, state: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw an action (n_actions,) for one observation; it may exceed the range."""
        return self.actor(rng)(np.asarray(state, dtype=np.float64))

    @override
    def actor(self, rng: np.random.Generator) -> Callable[[Array], Array]:
        def draw(state: Array) -> Array:
            mean, std = self._split(self.head(self._raw_of_one(state)))
            action: Array = mean + std * rng.standard_normal(len(mean))
            if not np.isfinite(action).all():
                raise self._not_finite(state)
            return action

        return draw

    @override
    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Array:
        """Around the means."""
        mean, std = self._split(outputs)
        drawn: Array = mean + std * np.stack([rng.standard_normal(mean.shape[1]) for rng in rngs])
        return drawn

    @override
    def likeliest(self, outputs: Array) -> Array:
        """The means."""
        return self._split(outputs)[0]


def _parts(std_range: Sequence[float]) -> tuple[float, float]:
    try:
        least, most = (float(one) for one in std_range)
    except (TypeError, ValueError):
        least = most = math.nan
    if not 0.0 < least < 1.0 < most < math.inf:
        raise InvalidPolicy(
            f"A standard deviation that varies begins inside its range: `std_range` has parts of "
            f"`std`, least < 1 < most, but got {std_range!r}."
        )
    return least, most


def _set_noise(network: nn.Module, begin: Array) -> None:
    """Let the noise be the same everywhere: its last weights are 0, its biases these (n,)."""
    last = [layer for layer in network.modules() if isinstance(layer, nn.Linear)][-1]
    with torch.no_grad():
        last.weight[len(begin) :] = 0.0
        last.bias[len(begin) :] = torch.as_tensor(begin).to(last.bias)


def quantity_called(full_name: str) -> Quantity:
    """By its name in files, with all that belongs to it."""
    read = re.fullmatch(rf"{MeanAndStd.name} from \[([^]]+)\] to \[([^]]+)\]", full_name)
    if read is None:
        return branches_called(full_name) or quantity_named(full_name)
    least, most = (tuple(map(float, one.split(", "))) for one in read.groups())
    return MeanAndStd(least, most)
