"""A network with one hidden ReLU layer, through compiled passes on the memory of its weights.

`ReluLayer` is such a layer by itself, as proofs need it: by NumPy where there is no numba.

The passes are imported where they are used: numba is optional, and slow to import.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from importlib.util import find_spec
from typing import final

import numpy as np
import torch
from torch import Tensor

from handrail._types import Array
from handrail.policies.activation import IDENTITY, RELU
from handrail.policies.layers import Layers, Passed

# Of the hidden units of a rough kernel: one part of so many, but no fewer than these.
_PARTS, _LEAST_UNITS = 16, 256

# Sums over patterns take less time than a pass over the states: not of more directions of the
# outputs, nor of so few states.
_MOST_SLOPES, _FEW = 6, 32

# Units of a layer at once, where they are written to memory: 4 MiB, which stay in the cache.
_BLOCK = 2**19


@final
class FusedNetwork:
    """Linear, ReLU, Linear in float64 on the CPU: the paper's network, maybe of scaled states.

    The arrays are views of the torch parameters, so an in-place update is seen at once.
    """

    def __init__(self, layers: Layers) -> None:
        self._flattens = layers.flattens
        self._front = None if layers.front is None else layers.front.in_numpy()
        inward, inward_bias, outward, outward_bias = (
            parameter.detach().numpy() for parameter in layers.parameters
        )
        self._weights = (inward.T, inward_bias, outward, outward_bias)

    @classmethod
    def of(cls, layers: Layers) -> FusedNetwork | None:
        """The fused form of a network, or None if it is another one or numba is not there."""
        fits = (
            layers.activations == (RELU, IDENTITY)
            and layers.residual is None
            and layers.back is None
            and all(layer.bias is not None for layer in layers.linear)
            and _is_laid_out(layers)
        )
        return cls(layers) if fits and find_spec("numba") else None

    @property
    def n_observations(self) -> int:
        """What one state must have; the compiled passes do not look."""
        return len(self._weights[0])

    def raw(self, states: Array) -> Array:
        """The network's outputs (n, n_actions)."""
        from handrail.policies.compiled import passes

        return passes.forward(*self._weights, self._flat(states))

    def draw(self, state: Array, uniform: float) -> int:
        """An action for one state, by a uniform number; -1 if the logits are not finite."""
        from handrail.policies.compiled import passes

        return passes.draw(*self._weights, self._flat(state[None])[0], uniform)

    def drawer(
        self, uniform: Callable[[], float], draw: Callable[[Array, float], int]
    ) -> Callable[[Array], int]:
        """What `draw` draws for one state after the other, quickly, at the weights as they are now.

        Args:
            uniform: gives one uniform number after the other.
            draw: asked with a state and its number where float32 does not decide.
        """
        from handrail.policies.compiled import quick_draw as draws

        outward_bias, shape = self._weights[3], (self.n_observations,)
        if shape[0] > draws.MOST_OBSERVATIONS or len(outward_bias) > draws.MOST_ACTIONS:
            return lambda state: draw(state, uniform())
        quick_draw, front = draws.quick_draw, self._front
        rounded, uncertainty = draws.rounded_weights(*self._weights)

        def draw_quickly(state: Array) -> int:
            number = uniform()
            if state.shape == shape:
                seen = state if front is None else self._flat(state[None])[0]
                action = quick_draw(rounded, uncertainty, outward_bias, seen, number)
                if action >= 0:
                    return action
            return draw(state, number)

        return draw_quickly

    def passed(self, states: Array) -> FusedPass:
        """What the network makes of the states, and how gradients come back from there."""
        return FusedPass(self._weights, self._flat(states))

    def pull_back(self, states: Array, weights: Array) -> tuple[Tensor, ...]:
        """Gradient of Σ_k weights_k · outputs(s_k), one tensor per parameter."""
        if len(states) > _FEW:
            return self.passed(states).pull_back(weights)
        from handrail.policies.compiled import passes

        parts = passes.backward(*self._weights[:3], self._flat(states), weights)
        return _gradient(*parts, weights)

    def passes(self, states: Array, weights: Array) -> list[Passed]:
        """Both layers, for functionals weights · outputs: `Layers.passes`, compiled.

        Args:
            states: (n, *observation_shape).
            weights: (n, r, n_actions).
        """
        from handrail.policies.compiled import passes

        inward, inward_bias, outward, _ = self._weights
        flat, contiguous = self._flat(states), np.ascontiguousarray(weights)
        units, signals = passes.both_ways(inward, inward_bias, outward, flat, contiguous)
        layers = (flat, signals), (units, contiguous)
        tensors = (map(torch.from_numpy, layer) for layer in layers)
        return [Passed(inputs, arriving, has_bias=True) for inputs, arriving in tensors]

    def push_forward(self, states: Array, parts: tuple[Tensor, ...]) -> Array:
        """First-order change of the outputs (n, n_actions) under a change of the parameters."""
        from handrail.policies.compiled import passes

        of_inward, of_inward_bias, of_outward, of_outward_bias = (
            part.detach().double().numpy() for part in parts
        )
        inward, inward_bias, outward, _ = self._weights
        return passes.forward_mode(
            inward,
            inward_bias,
            outward,
            self._flat(states),
            np.ascontiguousarray(of_inward.T),
            of_inward_bias,
            np.ascontiguousarray(of_outward),
            of_outward_bias,
        )

    def kernel(self, states: Array, weights: Array) -> Array:
        """Inner products (n, n) of the gradients of weights_k · outputs(s_k), for few states."""
        from handrail.policies.compiled import passes

        inward, inward_bias, outward, _ = self._weights
        flat, contiguous = self._flat(states), np.ascontiguousarray(weights)
        return passes.kernel(inward, inward_bias, outward, flat, contiguous)

    def rough_kernel(self, states: Array, weights: Array) -> Array:
        """The same of a part of the hidden units, up to a factor: for guesses."""
        from handrail.policies.compiled import passes

        inward, inward_bias, outward, _ = self._weights
        part = slice(0, max(_LEAST_UNITS, len(inward_bias) // _PARTS))
        some = np.ascontiguousarray(inward[:, part]), inward_bias[part]
        flat, contiguous = self._flat(states), np.ascontiguousarray(weights)
        return passes.kernel(*some, np.ascontiguousarray(outward[:, part]), flat, contiguous)

    def copy(self) -> FusedNetwork:
        """The network as it is now, whatever becomes of the parameters."""
        other = FusedNetwork.__new__(FusedNetwork)
        other._flattens, other._front = self._flattens, self._front
        inward, inward_bias, outward, outward_bias = (one.copy() for one in self._weights)
        other._weights = (inward, inward_bias, outward, outward_bias)
        return other

    def has_shape_of(self, other: FusedNetwork) -> bool:
        """Whether it is the same network but for the weights."""
        pairs = zip(self._weights, other._weights, strict=True)
        return other._front is self._front and all(one.shape == two.shape for one, two in pairs)

    def equals(self, other: FusedNetwork) -> bool:
        """Whether it is the same network, at the same weights."""
        pairs = zip(self._weights, other._weights, strict=True)
        return self.has_shape_of(other) and all(np.array_equal(*pair) for pair in pairs)

    def changes_since(self, old: FusedNetwork, functional: Array, low: Array, high: Array) -> Array:
        """Between what (n, 2) functional · outputs has changed, everywhere in n boxes.

        Args:
            old: of the same shape, at other weights.
            functional: (n_actions,).
            low: (n, n_observations), of the boxes.
            high: (n, n_observations).
        """
        from handrail.policies.compiled import passes

        low, high = np.sort([self._flat(low), self._flat(high)], axis=0)
        bounds = passes.changes(
            *old._toward(functional),
            *self._toward(functional),
            0.5 * (low + high),
            0.5 * (high - low),
        )
        changes: Array = bounds + functional @ (self._weights[3] - old._weights[3])
        return changes

    def _toward(self, functional: Array) -> tuple[Array, Array, Array]:
        """The network whose one output this is, but for its bias."""
        inward, inward_bias, outward, _ = self._weights
        return inward, inward_bias, functional @ outward

    def _flat(self, states: Array) -> Array:
        flat = states.reshape(len(states), -1) if self._flattens else states
        if flat.shape[1:] != (self.n_observations,):
            raise ValueError(
                f"shape {states.shape[1:]}, where the network takes {(self.n_observations,)}"
            )
        if self._front is not None:
            flat = self._front(flat)
        return np.ascontiguousarray(flat, dtype=np.float64)


@final
class FusedPass:
    """States that a network was shown, for as long as its weights stay.

    Args:
        weights: of the network.
        states: (n, n_observations), contiguous.

    Attributes:
        raw: the network's outputs (n, n_actions).
    """

    def __init__(self, weights: tuple[Array, Array, Array, Array], states: Array) -> None:
        from handrail.policies.compiled import passes

        self._weights, self._states = weights, states
        self.raw, self._patterns = passes.forward_and_patterns(*weights, states)

    def pull_back(self, weights: Array) -> tuple[Tensor, ...]:
        """Gradient of Σ_k weights_k · outputs(s_k), one tensor per parameter."""
        return _gradient(*self._of_layers(weights), weights)

    def _of_layers(self, weights: Array) -> tuple[Array, Array]:
        from handrail.policies.compiled import passes, patterns

        inward, inward_bias, outward, _ = self._weights
        balanced = _are_balanced(weights)
        # A unit that is NaN has no bit in a pattern, and nothing that is not finite may get lost.
        if weights.shape[1] - balanced > _MOST_SLOPES or not np.isfinite(self.raw).all():
            return passes.backward(inward, inward_bias, outward, self._states, weights)
        slopes, of_slopes = outward, weights
        if balanced:  # so the last action counts only in what others are more than it
            slopes, of_slopes = outward[:-1] - outward[-1], np.ascontiguousarray(weights[:, :-1])
        of_hidden, of_outward = patterns.backward(
            inward, inward_bias, slopes, self._states, of_slopes, self._patterns
        )
        if balanced:
            of_outward = np.concatenate([of_outward, -of_outward.sum(axis=0, keepdims=True)])
        return of_hidden, of_outward


@final
class ReluLayer:
    """Units relu(w · s + b).

    Args:
        weights: (m, n_coordinates).
        biases: (m,).
    """

    def __init__(self, weights: Array, biases: Array) -> None:
        self._inward = np.ascontiguousarray(weights.T)
        self._biases = np.ascontiguousarray(biases)

    def sums(self, factors: Array, states: Array) -> Array:
        """Σ_j factor_j · unit_j (n,), at states (n, n_coordinates)."""
        if not self._is_compiled:
            return np.concatenate([self._units(some) @ factors for some in self._blocks(states)])
        from handrail.policies.compiled import passes

        rows, nothing = np.ascontiguousarray(factors)[None], np.zeros(1)
        states = np.ascontiguousarray(states)
        return passes.forward(self._inward, self._biases, rows, nothing, states)[:, 0]

    def tangents(self, factors: Array, states: Array) -> tuple[Array, Array]:
        """Of `sums` at each state: slopes (n, n_coordinates) and offsets (n,), through 0.

        A unit that is 0 counts as off.
        """
        rows = np.vstack([self._inward * factors, self._biases * factors])
        if self._is_compiled:
            from handrail.policies.compiled import passes

            states = np.ascontiguousarray(states)
            found = passes.products_where_active(self._inward, self._biases, rows, states)
        else:
            active = [self._units(some) > 0.0 for some in self._blocks(states)]
            found = np.concatenate([some.astype(np.float64) @ rows.T for some in active])
        return found[:, :-1], found[:, -1]

    def _blocks(self, states: Array) -> list[Array]:
        size = max(1, _BLOCK // max(1, len(self._biases)))
        return [states[first : first + size] for first in range(0, len(states), size)]

    def _units(self, states: Array) -> Array:
        units: Array = states @ self._inward + self._biases
        return np.maximum(units, 0.0, out=units)

    @cached_property
    def _is_compiled(self) -> bool:
        return bool(self._inward.size) and find_spec("numba") is not None


def _gradient(of_hidden: Array, of_outward: Array, weights: Array) -> tuple[Tensor, ...]:
    """One tensor per parameter, of what the passes return."""
    with np.errstate(all="ignore"):  # whoever takes a step refuses what is not finite
        of_bias = weights.sum(axis=0)
    parts = of_hidden[:-1].T, of_hidden[-1], of_outward, of_bias
    return tuple(map(torch.from_numpy, parts))


def _are_balanced(weights: Array) -> bool:
    """Whether those of all actions (n, n_actions) add up to 0, as a softmax makes them.

    To the rounding of all: of a single action only if nothing is asked of it.
    """
    with np.errstate(all="ignore"):  # what is not finite is not balanced, either
        left = np.abs(weights.sum(axis=1)).sum()
        size = np.abs(weights).sum()
        return bool(weights.shape[1] > 1 and left <= 4.0 * np.finfo(np.float64).eps * size)


def _is_laid_out(layers: Layers) -> bool:
    """Float64 on the CPU, in the order in which the passes read it."""
    first, last = layers.linear
    return (
        layers.dtype == torch.float64
        and all(parameter.device.type == "cpu" for parameter in layers.parameters)
        and first.weight.T.is_contiguous()
        and last.weight.is_contiguous()
    )
