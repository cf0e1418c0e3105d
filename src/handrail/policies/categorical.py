"""Discrete actions: the softmax over the logits that a torch module returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from handrail._types import Array, Indices
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies.layers import last_layer
from handrail.policies.network import Given, architecture_of
from handrail.policies.policy import Actions, Policy
from handrail.policies.quantity import PROBABILITY, Quantity
from handrail.policies.scaler import Scale, input_scaling
from handrail.policies.spaces import discrete_spaces

_AHEAD = 64  # uniform numbers that an actor draws at once


@final
class CategoricalPolicy(Policy):
    """π(a|s) = softmax(module(s))[a], evaluated in float64 whatever the module's own precision.

    Args:
        module: maps a batch of observations (n, *observation_shape) to logits (n, n_actions).
    """

    quantity: Quantity = PROBABILITY
    _raw_name: ClassVar[str] = "logits"

    @classmethod
    def mlp(
        cls,
        env_or_spaces: Any,
        hidden: Sequence[int] = (5000,),
        activation: str = "relu",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        scale: Scale | None = None,
        centre: Sequence[float] | None = None,
    ) -> CategoricalPolicy:
        """A fresh fully connected network with PyTorch's standard initialisation.

        Args:
            env_or_spaces: a Gymnasium environment (vector environments included), or a pair
                (observation_space, action_space).
            hidden: widths of the hidden layers; the paper's network is one layer of 5000.
            activation: a name of `policies.ACTIVATIONS`: relu, tanh, gelu, …
            seed: of the initial weights; the global random state is left alone.
            dtype: of the weights, float64 or float32.
            scale: (n_observations,) typical sizes of the observations, where they are far from 1
                or from each other, or "auto" for half their ranges: a fixed first layer divides by
                them. Constraints stay in the observations' own units.
            centre: (n_observations,) typical values, which that layer takes off first; of "auto"
                the middles of the ranges, else 0.
        """
        observations, actions = discrete_spaces(env_or_spaces)
        architecture = architecture_of(hidden, activation, dtype)
        given = Given(input_scaling(observations, scale, centre, architecture.precision))
        return cls(architecture.build_with(given, observations.shape, int(actions.n), seed))

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module)
        if isinstance(last_layer(module), nn.Softmax):
            raise InvalidPolicy(
                "The network ends in Softmax, so it returns probabilities, where a "
                "CategoricalPolicy takes logits and has a softmax of its own. Leave that layer out."
            )

    def with_module(self, module: nn.Module) -> CategoricalPolicy:
        """The softmax over another network."""
        return CategoricalPolicy(module)

    def logits(self, states: ArrayLike) -> Array:
        """Logits (n, n_actions) in float64."""
        return self.raw(states)

    def probabilities(self, states: ArrayLike) -> Array:
        """π(·|s): (n, n_actions) for a batch, (n_actions,) for a single flat observation."""
        if np.ndim(states) == 1:
            return softmax(self._raw_of_one(np.asarray(states)))
        return self.outputs(states)

    def log_probabilities(self, states: ArrayLike) -> Array:
        """Log π(·|s), exact for saturated policies where log(probabilities) would be -inf."""
        batch = np.asarray(states)[None] if np.ndim(states) == 1 else np.asarray(states)
        logits = self.logits(batch)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return result[0] if np.ndim(states) == 1 else result

    def head(self, raw: Array) -> Array:
        """Softmax."""
        return softmax(raw)

    def through_head(self, outputs: Array, vectors: Array) -> Array:
        """diag(π) - π πᵀ times vectors, all (n, n_actions).

        Written as π_k Σ_a π_a (v_k - v_a), no digit is lost when one action has almost all the
        probability.
        """
        differences = vectors[:, :, None] - vectors[:, None, :]
        result: Array = outputs * (differences * outputs[:, None, :]).sum(axis=2)
        return result

    def scale(self, outputs: Array) -> Array:
        """The probabilities: ∇π / π is ∇log π."""
        return outputs

    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """2√π, which lies on a sphere; of two actions the angle on that circle says it all."""
        roots = np.sqrt(outputs)
        if outputs.shape[1] == 2:
            angle = 2.0 * np.arctan2(roots[:, :1], roots[:, 1:])
            slope = roots[:, 0] * roots[:, 1]
            return angle, np.stack([slope, -slope], axis=1)[:, None, :]
        identity = np.eye(outputs.shape[1])
        return 2.0 * roots, roots[:, :, None] * (identity - outputs[:, None, :])

    def likelihood(self, outputs: Array, actions: Actions) -> tuple[Array, Array]:
        """Log π_a, and e_a - π."""
        n_actions = outputs.shape[1]
        if actions.ndim != 1:
            raise ShapeMismatch(
                f"The batch has actions of shape {actions.shape}, but this policy chooses among "
                f"{n_actions} discrete ones: one index per state."
            )
        if actions.max() >= n_actions:
            raise ShapeMismatch(
                f"The batch takes action {actions.max()}, but the policy has {n_actions} actions: "
                f"0 to {n_actions - 1}."
            )
        taken = outputs[np.arange(len(outputs)), actions]
        log_likelihood = np.log(np.maximum(taken, np.finfo(np.float64).tiny))
        return log_likelihood, np.eye(n_actions)[actions] - outputs

    def act(self, state: ArrayLike, rng: np.random.Generator) -> int:
        """Draw an action for one observation (*observation_shape)."""
        return self._draw(np.asarray(state, dtype=np.float64), rng.random())

    def actor(self, rng: np.random.Generator) -> Callable[[Array], int]:
        """`act` for many observations in a row, without asking each time what the network is.

        The generator is the actor's own, which draws ahead.
        """
        fused, uniform = self.fused(), _uniform_numbers(rng).__next__
        if fused is None:
            return lambda state: self._draw(state, uniform())
        return fused.drawer(uniform, self._draw)

    def _draw(self, state: Array, uniform: float) -> int:
        fused = self.fused()
        if fused is None:
            return self._draw_of_raw(state, uniform)
        try:
            action = fused.draw(state, uniform)
        except ValueError as error:
            raise self._refusal(state[None], error) from error
        if action < 0:
            raise self._not_finite(state)
        return action

    def _draw_of_raw(self, state: Array, uniform: float) -> int:
        logits = self._raw_of_one(state).tolist()
        highest = max(logits)
        # Plain floats: for a handful of actions NumPy's call overhead would cost more than exp.
        weights = [math.exp(logit - highest) for logit in logits]
        total = sum(weights)
        if not total >= 1.0:  # NaN: exp(0) = 1 is one of the summands of anything sound
            raise self._not_finite(state)
        remaining = uniform * total
        for action, weight in enumerate(weights):
            remaining -= weight
            if remaining < 0.0:
                return action
        return weights.index(1.0)  # rounding: the draw fell on the upper end of the sum

    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Indices:
        """By the cumulated probabilities."""
        draws = np.array([rng.random() for rng in rngs])
        below = outputs.cumsum(axis=1) <= draws[:, None]
        # Rounding: the cumulated probability can end just below a draw close to 1.
        chosen: Indices = np.minimum(below.sum(axis=1), outputs.shape[1] - 1)
        return chosen

    def likeliest(self, outputs: Array) -> Indices:
        """The most probable."""
        chosen: Indices = outputs.argmax(axis=1)
        return chosen


def _uniform_numbers(rng: np.random.Generator) -> Iterator[float]:
    """One after the other, as `rng.random()` gives them; most of its time is that of a call."""
    while True:
        yield from rng.random(_AHEAD).tolist()


def softmax(logits: Array) -> Array:
    """Probabilities along the last axis, without overflow."""
    exponentials: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials
