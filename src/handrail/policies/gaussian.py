"""Continuous actions: a Gaussian around the means that a torch module returns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from numbers import Real
from typing import Any, Literal, final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor, nn

from handrail._types import Array
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies.mean_policy import MeanPolicy
from handrail.policies.network import Given, architecture_of
from handrail.policies.policy import Actions
from handrail.policies.residual import Controller, controller_arrays, in_range
from handrail.policies.scaler import Scale, input_scaling, onto_range
from handrail.policies.spaces import continuous_spaces, limits_of
from handrail.settings import DEFAULT_STD


@final
class GaussianPolicy(MeanPolicy):
    """a ~ N(module(s), std²), every dimension on its own; environments clip it to their range.

    Constraints are about the mean, or about where drawn actions lie. The standard deviation is what
    you declare, or learned by `Reinforce` within a range (`learning_std`). That of a policy which
    others train is theirs (`following`).

    Args:
        module: maps a batch of observations (n, *observation_shape) to means (n, n_actions).
        std: of all dimensions, or one for each.
    """

    def __init__(self, module: nn.Module, std: float | Sequence[float]) -> None:
        super().__init__(module)
        self._std = checked_std(std)
        self._log_std: Tensor | None = None
        self._range: tuple[Array, Array] | None = None

    def learning_std(self, least: float = 0.1, most: float = 1.0) -> GaussianPolicy:
        """The same policy, on the same module, whose standard deviation is learned, too.

        Args:
            least: that it can become, as a part of what it is now.
            most: likewise. What constraints ask of drawn actions is held for all noise in between.
        """
        if not 0.0 < least <= 1.0 <= most < math.inf or least == most:
            raise InvalidPolicy(
                f"A learned standard deviation needs room: parts of what it is now, least ≤ 1 ≤ "
                f"most, but got least={least!r} and most={most!r}."
            )
        if self._log_std is not None:
            raise InvalidPolicy(
                "The standard deviation of this policy belongs to whoever trains it, and is "
                "learned there."
            )
        return self.with_std_range(least * self.std, most * self.std)

    def with_std_range(self, least: ArrayLike, most: ArrayLike) -> GaussianPolicy:
        """The same policy, whose standard deviation is learned from here to there, in its units."""
        policy = GaussianPolicy(self.module, self._std.tolist()).clipped_to(self.limits)
        policy._range = np.array(least, dtype=np.float64), np.array(most, dtype=np.float64)
        policy.recall_std(self._std)
        return policy

    def recall_std(self, std: ArrayLike) -> None:
        """Set one that is learned to what it was at some time."""
        least, most = self.std_range
        value = np.array(std, dtype=np.float64)
        shaped = least.shape == most.shape == value.shape == self._std.shape
        if not shaped or not ((least > 0.0) & (least <= value) & (value <= most)).all():
            raise InvalidPolicy(
                f"The standard deviation {value.tolist()} does not lie in its range, from "
                f"{least.tolist()} to {most.tolist()}."
            )
        self._std = value

    @property
    def learns_std(self) -> bool:
        """Whether a learner moves the standard deviation."""
        return self._range is not None

    @property
    def std_range(self) -> tuple[Array, Array]:
        """The least and the most that it can become while this policy learns."""
        return (self.std, self.std) if self._range is None else self._range

    def move_std(self, step: Array) -> None:
        """Take a step (n_actions,) of its logarithm, within its range."""
        assert self._range is not None  # of others it stays
        one = step.sum() if self._std.ndim == 0 else step
        # Of a step beyond all bounds the range is as far as it goes.
        factor = np.exp(np.clip(one, -50.0, 50.0))
        self.recall_std(np.clip(self._std * factor, *self._range))

    @classmethod
    def following(cls, module: nn.Module, log_std: Tensor) -> GaussianPolicy:
        """Whose standard deviation is exp(log_std), as it is whenever it is asked for.

        Args:
            module: as above.
            log_std: (n_actions,), somebody else's parameter, which changes as it is trained.
        """
        policy = cls(module, log_std.detach().exp().double().tolist())
        policy._log_std = log_std
        return policy

    @property
    def follows_std(self) -> bool:
        """Whether the standard deviation belongs to whoever trains the policy."""
        return self._log_std is not None

    def bound_std(self, least: Array, most: Array) -> Callable[[], None]:
        """Move somebody else's standard deviation into a range (n_actions,), in place.

        Returns what takes it back to where it was.
        """
        log_std = self._log_std
        assert log_std is not None  # others have a range of their own
        before = log_std.detach().clone()
        with torch.no_grad():
            for end, inwards in ((least, np.inf), (most, -np.inf)):
                self._move_std(end, inwards)

        def take_back() -> None:
            with torch.no_grad():
                log_std.copy_(before)

        return take_back

    def _move_std(self, end: Array, inwards: float) -> None:
        """To an end of its range where it is beyond: exp rounds, in the precision that draws."""
        assert self._log_std is not None  # nobody asks otherwise
        moved = torch.as_tensor(np.log(np.maximum(end, np.finfo(np.float64).tiny)))
        moved = moved.to(self._log_std)
        towards = torch.full_like(moved, inwards)
        for _ in range(8):
            beyond = (self.std < end) if inwards > 0.0 else (self.std > end)
            if not beyond.any():
                return
            there = torch.as_tensor(beyond).to(self._log_std.device)
            self._log_std.copy_(torch.where(there, moved, self._log_std))
            moved = torch.nextafter(moved, towards)

    @property
    def std(self) -> Array:
        """() of all dimensions, or (n_actions,) of each."""
        if self._log_std is None:
            return self._std
        # In the precision in which whoever owns it draws.
        std: Array = self._log_std.detach().exp().double().numpy(force=True)
        return std

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
        centre: Sequence[float] | None = None,
        bounded: Literal["tanh", "hardtanh"] | None = None,
        residual: Controller | None = None,
    ) -> GaussianPolicy:
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
            std: standard deviation as a part of half the range of each action.
            centre: (n_observations,) typical values, which that layer takes off first; of "auto"
                the middles of the ranges, else 0.
            bounded: keeps means within the range of the actions: "tanh", or "hardtanh", which
                clips. By default nothing does.
            residual: a controller that the network is added to: a gain matrix K (n_actions,
                n_observations) of u = -K s, or an `Affine` for each action. At first it acts alone.
        """
        observations, actions = continuous_spaces(env_or_spaces)
        architecture = replace(
            architecture_of(hidden, activation, dtype),
            bounded=bounded or "",
        )
        shape, n_actions, to = observations.shape, int(actions.shape[0]), architecture.precision
        low, high = limits_of(actions)
        back = onto_range(low, high, to) if bounded else None
        controller = None
        if residual is not None:
            controller = controller_arrays(residual, n_actions, int(np.prod(shape)))
            controller = controller if back is None else in_range(*controller, back)
        given = Given(input_scaling(observations, scale, centre, to), controller, back)
        network = architecture.build_with(given, shape, n_actions, seed)
        policy = cls(network, (part_of_range(std) * 0.5 * (high - low)).tolist())
        return policy.clipped_to((low, high))

    def with_module(self, module: nn.Module) -> GaussianPolicy:
        """The same noise around the means of another network."""
        if self._log_std is not None:
            return GaussianPolicy.following(module, self._log_std).clipped_to(self.limits)
        policy = GaussianPolicy(module, self._std.tolist()).clipped_to(self.limits)
        policy._range = self._range
        return policy

    def head(self, raw: Array) -> Array:
        """Itself."""
        if self.std.ndim and self.std.size != raw.shape[-1]:
            raise ShapeMismatch(
                f"The policy has {self.std.size} standard deviations, but its network returns "
                f"{raw.shape[-1]} mean actions."
            )
        return raw

    def scale(self, outputs: Array) -> Array:
        """The standard deviation: one of it away, ∇log π is ∇mean / std."""
        return np.broadcast_to(self.std, outputs.shape)

    def margin_scale(self, outputs: Array) -> Array:
        """The middle of the range, if the standard deviation is learned in one."""
        least, most = self.std_range
        return np.broadcast_to(np.sqrt(least * most), outputs.shape[1:])

    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """Means in standard deviations."""
        per_raw = np.diag(np.broadcast_to(1.0 / self.std, outputs.shape[1:]))
        return outputs / self.std, np.tile(per_raw, (len(outputs), 1, 1))

    def likelihood(self, outputs: Array, actions: Actions) -> tuple[Array, Array]:
        """Of the Gaussian, and (a - mean) / std²."""
        if actions.shape != outputs.shape:
            raise ShapeMismatch(
                f"The batch has actions of shape {actions.shape}, but this policy's are continuous "
                f"with {outputs.shape[1]} dimensions: {outputs.shape}."
            )
        away = (actions - outputs) / self.std
        constant = np.log(self.scale(outputs)) + 0.5 * math.log(2.0 * math.pi)
        return -(0.5 * away**2 + constant).sum(axis=1), away / self.std

    def act(self, state: ArrayLike, rng: np.random.Generator) -> Array:
        """Draw an action (n_actions,) for one observation; it may exceed the range."""
        return self.actor(rng)(np.asarray(state, dtype=np.float64))

    def actor(self, rng: np.random.Generator) -> Callable[[Array], Array]:
        """`act` for many observations in a row."""

        def draw(state: Array) -> Array:
            mean = self.head(self._raw_of_one(state))
            action: Array = mean + self.std * rng.standard_normal(len(mean))
            if not np.isfinite(action).all():
                raise self._not_finite(state)
            return action

        return draw

    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Array:
        """Around the means."""
        noise = np.stack([rng.standard_normal(outputs.shape[1]) for rng in rngs])
        drawn: Array = outputs + self.std * noise
        return drawn


def checked_std(std: float | Sequence[float]) -> Array:
    """() of all dimensions, or (n_actions,) of each."""
    try:
        found = np.array(std, dtype=np.float64)
    except (TypeError, ValueError):
        found = np.array(np.nan)
    sound = np.isfinite(found).all() and (found > 0.0).all()
    if found.ndim > 1 or not found.size or not sound:
        raise InvalidPolicy(
            f"The standard deviation must be a positive number, or one for each dimension of "
            f"the action, but got {std!r}."
        )
    return found


def part_of_range(std: Any) -> float:
    """`std` of an `mlp`: the same part of every range."""
    if isinstance(std, bool) or not isinstance(std, Real) or not 0.0 < float(std) < np.inf:
        raise InvalidPolicy(
            f"`std` must be one positive number, a part of half the range of each action, but "
            f"got {std!r}. For one of each, GaussianPolicy(module, [0.1, 0.2])."
        )
    return float(std)
