"""A fence: units of a plain network that are on inside a box and off outside of it.

A network can say something in a part of the space and leave all the rest as it is, if two of its
hidden layers are given to it: a unit of the first per side of the box says whether a state is
within that side, and one of the second whether it is within all of them. That unit is on inside,
off outside, and changes between the two in a narrow band; what it adds to the raw outputs is added
in the box and nowhere else. With an activation σ that goes from `off` to `on`, and m sides
a_i·s ≤ b_i with the band beyond them,

    u_i = σ(w (b_i + band / 2 - a_i·s) / band),    v = σ(g (Σ u_i - m on + (on - off) / 2)),

and with ReLU, whose units are off on one side only, u_i = relu(a_i·s - b_i), how far a state is
outside, and v = relu(1 - Σ u_i / band). Layers behind the second pass v on.

A fence is not for a learner to move. Its units are saturated nearly everywhere, so their own
weights have next to no gradient; but to the other units of the next layer they are features that
are large and the same nearly everywhere, a dozen biases more, and an optimiser that gives every
weight a step of the same size would learn little else at first. So gradients go round them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np
import torch
from torch import Tensor
from torch.utils.hooks import RemovableHandle

from handrail._types import Array, Indices
from handrail.policies.activation import IDENTITY, Activation, Clipping, Rectifier, Sigmoidal
from handrail.policies.layers import Layers
from handrail.policies.scaler import Scaler

# Of the units of a layer, the part that fences may have: the others are for what is learned.
_SHARE = 0.25

# Beyond a side of the box, as parts of how wide it is: where its unit is off.
_BAND = 0.05

# How far beyond its middle a switch is turned on at the side itself, and that of the whole fence,
# where a derivative in float32 is 0; in units in which the steepest slope would lead to the end.
_WALL, _GATE = 3.0, 10.0

# A hinge begins this part of the band beyond the side, so that rounding does not begin it inside.
_HINGE = 0.1


@final
@dataclass(frozen=True)
class Fences:
    """Those of one network.

    Attributes:
        units: of each hidden layer, which of its units they have.
    """

    units: tuple[Indices, ...]

    def keep_from_learning(
        self, layers: Layers, during: Callable[[], bool]
    ) -> list[RemovableHandle]:
        """From now on, what flows backwards goes round them, until the handles are removed.

        Args:
            layers: of the network.
            during: whether it still should: nobody removes what an interrupted training leaves.
        """
        masks: list[tuple[Tensor, Tensor]] = []
        for depth, layer in enumerate(layers.linear):
            weight, bias = torch.ones_like(layer.weight), torch.ones_like(layer.bias)
            if depth < len(self.units):
                weight[self.units[depth]] = 0.0
                bias[self.units[depth]] = 0.0
            if depth:
                weight[:, self.units[depth - 1]] = 0.0
            masks += [(layer.weight, weight), (layer.bias, bias)]
        return [_masked(one, mask, during) for one, mask in masks if one.requires_grad]


def _masked(parameter: Tensor, mask: Tensor, during: Callable[[], bool]) -> RemovableHandle:
    def go_round(gradient: Tensor) -> Tensor:
        return gradient * mask if during() else gradient

    handle: RemovableHandle = parameter.register_hook(go_round)
    return handle


@final
class FenceBuilder:
    """Builds fences into a network, in place, of the units of each layer that matter least.

    Args:
        layers: for which `can_have_fences`.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._activation = layers.activations[0]
        following = [layer.weight for layer in layers.linear[1:]]
        self._spare = [_least_used(weight) for weight in following]
        self._units = [spare[:0] for spare in self._spare]
        self._built: list[tuple[Array, Array, Array]] = []  # low, high, push

    @staticmethod
    def can_have_fences(layers: Layers) -> bool:
        """Whether this is a network with two hidden layers or more of units that are on and off.

        Whatever scales its inputs must stay as it is, and nothing be behind the last layer.
        """
        hidden = layers.activations[:-1]
        plain = layers.front is None or isinstance(layers.front, Scaler)
        return (
            plain
            and layers.residual is None
            and layers.back is None
            and layers.activations[-1] is IDENTITY
            and layers.trainable
            and all(layer.bias is not None for layer in layers.linear)
            and len(hidden) >= 2
            and all(one is hidden[0] for one in hidden)
            and isinstance(hidden[0].shape, Sigmoidal | Clipping | Rectifier)
        )

    @torch.no_grad()
    def add(self, low: Array, high: Array, push: Array) -> bool:
        """Add to the raw outputs between two corners; False, and nothing done, without units.

        Args:
            low: (n_observations,).
            high: (n_observations,), nowhere below `low`.
            push: (n_actions,), what is added.
        """
        n_walls = 2 * len(low)
        wanted = [n_walls, *[1] * (len(self._spare) - 1)]
        if any(len(spare) < count for spare, count in zip(self._spare, wanted, strict=True)):
            return False
        units = [spare[:count] for spare, count in zip(self._spare, wanted, strict=True)]
        self._spare = [spare[n:] for spare, n in zip(self._spare, wanted, strict=True)]
        ends = self._layers.seen(np.stack([low, high]))
        if isinstance(self._activation.shape, Rectifier):
            self._build_of_hinges(units, ends.min(axis=0), ends.max(axis=0), push)
        else:
            self._build_of_switches(units, ends.min(axis=0), ends.max(axis=0), push)
        self._built.append((ends.min(axis=0), ends.max(axis=0), push))
        pairs = zip(self._units, units, strict=True)
        self._units = [np.concatenate(pair) for pair in pairs]
        return True

    @property
    def fences(self) -> Fences:
        """All that were built."""
        return Fences(tuple(self._units))

    def added(self, states: Array) -> Array:
        """What they add to the raw outputs (n, n_actions) at states (n, *observation_shape).

        NaN in their bands, where it is some of it.
        """
        seen = self._layers.seen(states)
        total = np.zeros((len(states), self._layers.linear[-1].out_features))
        for low, high, push in self._built:
            beyond = _BAND * _widths(low, high)
            inside = ((seen >= low) & (seen <= high)).all(axis=1)
            near = ((seen >= low - beyond) & (seen <= high + beyond)).all(axis=1)
            total[inside] += push
            total[near & ~inside] = np.nan
        return total

    def _build_of_switches(
        self, units: list[Indices], low: Array, high: Array, push: Array
    ) -> None:
        off, on = _ends(self._activation)
        unit = 0.5 * (on - off) / self._activation.lipschitz
        middle, walls = 0.5 * _BAND * _widths(low, high), len(units[0])
        slopes = np.diag(_WALL * unit / middle)
        self._set(
            0,
            units[0],
            np.concatenate([slopes, -slopes]),
            np.concatenate([slopes @ (middle - low), slopes @ (high + middle)]),
        )
        for depth in range(1, len(units)):
            count = walls if depth == 1 else 1
            steep = 2.0 * _GATE * unit / (on - off)
            threshold = count * on - 0.5 * (on - off)
            self._connect(depth, units, np.full((1, count), steep), -steep * threshold)
        added = push / (on - off)
        self._lead_out(units, added, -off * added)

    def _build_of_hinges(self, units: list[Indices], low: Array, high: Array, push: Array) -> None:
        widths, walls = _widths(low, high), len(units[0])
        slopes, begin = np.diag(1.0 / widths), _HINGE * _BAND
        self._set(
            0,
            units[0],
            np.concatenate([-slopes, slopes]),
            np.concatenate([low / widths - begin, -high / widths - begin]),
        )
        until = (1.0 - _HINGE) * _BAND
        self._connect(1, units, np.full((1, walls), -1.0 / until), 1.0)
        for depth in range(2, len(units)):
            self._connect(depth, units, np.ones((1, 1)), 0.0)
        self._lead_out(units, push, np.zeros_like(push))

    def _connect(self, depth: int, units: list[Indices], weights: Array, bias: float) -> None:
        """A fence's units of one hidden layer to those of the one before, and to no others."""
        layer = self._layers.linear[depth]
        layer.weight[:, units[depth - 1]] = 0.0
        rows = np.zeros((len(weights), layer.in_features))
        rows[:, units[depth - 1]] = weights
        self._set(depth, units[depth], rows, np.full(len(weights), bias))

    def _lead_out(self, units: list[Indices], weights: Array, biases: Array) -> None:
        """Its last unit to the raw outputs (n_actions,)."""
        last = self._layers.linear[-1]
        last.weight[:, units[-1]] = _like(last.weight, weights)[:, None]
        last.bias.add_(_like(last.bias, biases))

    def _set(self, depth: int, units: Indices, weights: Array, biases: Array) -> None:
        layer = self._layers.linear[depth]
        layer.weight[units] = _like(layer.weight, weights)
        layer.bias[units] = _like(layer.bias, biases)


def _least_used(following: Tensor) -> Indices:
    """Of a layer's units those that the next layer (n_out, n_units) heeds least: a part of all."""
    heeded = following.detach().double().norm(dim=0).cpu().numpy()
    chosen: Indices = np.argsort(heeded, kind="stable")[: int(_SHARE * len(heeded))]
    return chosen


def _ends(activation: Activation) -> tuple[float, float]:
    """What a switch is when it is off, and when it is on."""
    off, on = activation.value(np.array([-100.0, 100.0]))
    return float(off), float(on)


def _widths(low: Array, high: Array) -> Array:
    """Of a box (n,); where it is flat, its distance from zero, or 1."""
    size = np.where(high != 0.0, np.abs(high), 1.0)
    return np.where(high > low, high - low, size)


def _like(parameter: Tensor, values: Array) -> Tensor:
    return torch.as_tensor(values, dtype=parameter.dtype, device=parameter.device)
