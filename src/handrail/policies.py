"""A policy: a torch module that maps observations to logits, and the softmax over them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from handrail.arrays import Array
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.fused import FusedNetwork
from handrail.inference import PlainMLP
from handrail.networks import Architecture
from handrail.spaces import sizes_of

# Rows in one forward pass: (rows, 5000) activations that stay in the cache (design.md section 6).
ROWS_PER_PASS = 64


@final
class CategoricalPolicy:
    """π(a|s) = softmax(module(s))[a], evaluated in float64 whatever the module's own precision.

    Args:
        module: maps a batch of observations (n, *observation_shape) to logits (n, n_actions).
    """

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise InvalidPolicy(
                f"A policy needs a torch.nn.Module that maps observations to logits, but got "
                f"{type(module).__name__}. For a fresh network use CategoricalPolicy.mlp(env)."
            )
        if not any(p.requires_grad for p in module.parameters()):
            raise InvalidPolicy(
                f"{type(module).__name__} has no trainable parameter, so no update can change its "
                "policy. Set requires_grad=True on the parameters that may move."
            )
        self.module = module
        self._plain = PlainMLP.of(module)
        self._fused = FusedNetwork.of(module)

    @classmethod
    def mlp(
        cls,
        env_or_spaces: Any,
        hidden: Sequence[int] = (5000,),
        activation: str = "relu",
        seed: int = 0,
        dtype: torch.dtype = torch.float64,
        scale: Sequence[float] | None = None,
    ) -> CategoricalPolicy:
        """A fresh fully connected network with PyTorch's standard initialisation.

        Args:
            env_or_spaces: a Gymnasium environment (vector environments included), or a pair
                (observation_space, action_space).
            hidden: widths of the hidden layers; the paper's network is one layer of 5000.
            activation: relu, tanh, elu, gelu, silu or sigmoid.
            seed: of the initial weights; the global random state is left alone.
            dtype: of the weights, float64 or float32.
            scale: (n_observations,) typical sizes of observations that are far from 1; the first
                weights are divided by them.
        """
        observation_shape, n_actions = sizes_of(env_or_spaces)
        if isinstance(hidden, int):
            raise InvalidPolicy(f"`hidden` lists the widths of the hidden layers: [{hidden}].")
        precision = str(dtype).removeprefix("torch.")
        architecture = Architecture(tuple(hidden), activation, precision)
        return cls(architecture.build(observation_shape, n_actions, seed, scale))

    def __repr__(self) -> str:
        n = sum(p.numel() for p in self.parameters)
        return f"CategoricalPolicy({type(self.module).__name__}, {n:,} trainable parameters)"

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The trainable parameters, in the order of the module."""
        fused = self.fused()
        if fused is not None:
            return fused.parameters
        return tuple(p for p in self.module.parameters() if p.requires_grad)

    @property
    def dtype(self) -> torch.dtype:
        """The precision the module computes in."""
        return self.parameters[0].dtype

    def in_float64(self, states: ArrayLike) -> CategoricalPolicy:
        """A copy that computes in float64, or itself if it does already.

        Itself, too, if the module insists on its own precision: tried on the first of the states.
        """
        if self.dtype == torch.float64:
            return self
        copied = CategoricalPolicy(copy.deepcopy(self.module).double())
        try:
            copied.logits(np.asarray(states)[:1])
        except ShapeMismatch:  # a layer that casts to float32
            return self
        return copied

    def to_tensor(self, states: ArrayLike) -> Tensor:
        """States (n, *observation_shape) as the module expects them."""
        first = self.parameters[0]
        return torch.tensor(np.asarray(states), dtype=first.dtype, device=first.device)

    def logits(self, states: ArrayLike) -> Array:
        """Logits (n, n_actions) in float64, chunk by chunk so that memory stays bounded."""
        inputs = self.to_tensor(states)
        if inputs.ndim < 2 or not len(inputs):
            raise ShapeMismatch(
                f"Expected a batch of states (n, *observation_shape) with n > 0, but got shape "
                f"{tuple(inputs.shape)}."
            )
        fused = self.fused()
        try:
            result = self._torch_logits(inputs) if fused is None else fused.logits(inputs.numpy())
        except (RuntimeError, ValueError) as error:
            if isinstance(error, InvalidPolicy):
                raise
            raise self._refusal(inputs, error) from error
        bad = np.flatnonzero(~np.isfinite(result).all(axis=1))
        if len(bad):
            raise _not_finite(np.asarray(states)[bad[0]])
        return result

    def _torch_logits(self, inputs: Tensor) -> Array:
        _refuse_mixing_of_samples(self.module)
        with torch.no_grad():
            chunks = [self.module(chunk) for chunk in inputs.split(ROWS_PER_PASS)]
        first = chunks[0]
        if not isinstance(first, Tensor) or first.ndim != 2:
            found = f"shape {tuple(first.shape)}" if isinstance(first, Tensor) else type(first)
            raise InvalidPolicy(
                f"{type(self.module).__name__} returned {found} for {len(inputs)} states; expected "
                "a tensor of logits (n, n_actions)."
            )
        logits: Array = torch.cat(chunks).double().cpu().numpy()
        return logits

    def fused(self) -> FusedNetwork | None:
        """The compiled form of the network at its present weights, where there is one."""
        if self._fused is not None and not self._fused.is_of(self.module):
            self._fused = FusedNetwork.of(self.module)
        return self._fused

    def probabilities(self, states: ArrayLike) -> Array:
        """π(·|s): (n, n_actions) for a batch, (n_actions,) for a single flat observation."""
        if np.ndim(states) == 1:
            return softmax(self._logits_of_one(np.asarray(states)))
        return softmax(self.logits(states))

    def log_probabilities(self, states: ArrayLike) -> Array:
        """Log π(·|s), exact for saturated policies where log(probabilities) would be -inf."""
        batch = np.asarray(states)[None] if np.ndim(states) == 1 else np.asarray(states)
        logits = self.logits(batch)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        result: Array = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return result[0] if np.ndim(states) == 1 else result

    def act(self, state: ArrayLike, rng: np.random.Generator) -> int:
        """Draw an action for one observation (*observation_shape)."""
        return self.actor(rng)(np.asarray(state, dtype=np.float64))

    def actor(self, rng: np.random.Generator) -> Callable[[Array], int]:
        """`act` for many observations in a row, without asking each time what the network is.

        Weights may change meanwhile, layers may not.
        """
        fused = self.fused()
        if fused is None:
            return lambda state: self._draw(state, rng)

        draw_one = fused.drawer(rng)

        def draw(state: Array) -> int:
            try:
                action = draw_one(state)
            except ValueError as error:
                raise self._refusal(state[None], error) from error
            if action < 0:
                raise _not_finite(state)
            return action

        return draw

    def _draw(self, state: Array, rng: np.random.Generator) -> int:
        logits = self._logits_of_one(state).tolist()
        highest = max(logits)
        # Plain floats: for a handful of actions NumPy's call overhead would cost more than exp.
        weights = [math.exp(logit - highest) for logit in logits]
        total = sum(weights)
        if not total >= 1.0:  # NaN: exp(0) = 1 is one of the summands of anything sound
            raise _not_finite(state)
        remaining = rng.random() * total
        for action, weight in enumerate(weights):
            remaining -= weight
            if remaining < 0.0:
                return action
        return weights.index(1.0)  # rounding: the draw fell on the upper end of the sum

    def through_softmax(self, probabilities: Array, vectors: Array) -> Array:
        """The softmax Jacobian diag(π) - π πᵀ times vectors, all (n, n_actions).

        It is symmetric, so it does two things: weights on the probabilities become a gradient on
        the logits, and a change of the logits becomes a change of the probabilities. Written as
        π_k Σ_a π_a (v_k - v_a), no digit is lost when one action has almost all the probability
        (design.md section 6, "Saturation").
        """
        differences = vectors[:, :, None] - vectors[:, None, :]
        result: Array = probabilities * (differences * probabilities[:, None, :]).sum(axis=2)
        return result

    def _logits_of_one(self, state: NDArray[Any]) -> Array:
        if self._plain is not None and not self._plain.is_current():
            self._plain = PlainMLP.of(self.module)
        if self._plain is None:
            logits: Array = self.logits(state[None])[0]
            return logits
        try:
            return self._plain(state)
        except ValueError as error:
            raise self._refusal(state[None], error) from error

    def _refusal(self, states: Any, error: Exception) -> ShapeMismatch:
        return ShapeMismatch(
            f"The policy's network refused states of shape {tuple(states.shape[1:])}"
            f"{self._expectation()}. Its own words: {error}"
        )

    def _expectation(self) -> str:
        first = next(iter(self.module.children()), None)
        return f"; it observes {first.in_features} values" if isinstance(first, nn.Linear) else ""


def softmax(logits: Array) -> Array:
    """Probabilities along the last axis, without overflow."""
    exponentials: Array = np.exp(logits - logits.max(axis=-1, keepdims=True))
    exponentials /= exponentials.sum(axis=-1, keepdims=True)
    return exponentials


def _not_finite(state: NDArray[Any]) -> InvalidPolicy:
    where = state.tolist() if state.size <= 12 else f"an observation of shape {state.shape}"
    return InvalidPolicy(
        f"The policy's logits are not finite at {where}. Either the observation is not, or the "
        "weights have diverged: load the last good ones, and take smaller steps."
    )


def _refuse_mixing_of_samples(module: nn.Module) -> None:
    for name, part in module.named_modules():
        normalises = isinstance(part, nn.modules.batchnorm._BatchNorm)
        if normalises and (part.training or not part.track_running_stats):
            raise InvalidPolicy(
                f"{type(part).__name__} '{name}' mixes the states of a batch, so no state has a "
                "policy of its own. Call module.eval() first."
            )
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.training and part.p > 0.0:
            raise InvalidPolicy(
                f"{type(part).__name__} '{name}' is random in training mode, so the policy is not "
                "a function of the state. Call module.eval() first."
            )
