"""Several discrete actions at once, a softmax for each: MultiDiscrete and MultiBinary.

Every branch chooses one of its own actions, whatever the others choose. The outputs of a state are
the probabilities of all branches one behind the other, and those of a branch add up to 1: within a
branch everything is as with a single discrete action.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from typing_extensions import override

from handrail._types import Array, Indices, Mask
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies.categorical import softmax
from handrail.policies.network import Given, architecture_of
from handrail.policies.policy import Actions, Policy
from handrail.policies.quantity import PROBABILITY, Quantity
from handrail.policies.scaler import Scale, input_scaling
from handrail.policies.spaces import branched_spaces, branches_of


@final
@dataclass(frozen=True)
class BranchProbability(Quantity):
    """Of an action of a branch: between 0 and 1, and those of a branch add up to 1.

    A weighted sum is about the one branch that its weights are in.

    Attributes:
        sizes: how many actions each branch has.
    """

    sizes: tuple[int, ...]

    name: ClassVar[str] = "branch probability"
    noun: ClassVar[str] = PROBABILITY.noun
    plural: ClassVar[str] = PROBABILITY.plural
    subject: ClassVar[str] = "the probability of an action of a branch"
    margin_unit: ClassVar[str] = PROBABILITY.margin_unit
    stages: ClassVar[tuple[str, ...]] = PROBABILITY.stages
    is_continuous: ClassVar[bool] = False
    # In each branch, but not all together.
    adds_up: ClassVar[bool] = False
    reach_at_once: ClassVar[float] = PROBABILITY.reach_at_once

    @property
    @override
    def full_name(self) -> str:
        return f"{self.name} {list(self.sizes)}"

    def slices(self) -> Iterator[slice]:
        """Where the outputs of each branch are."""
        ends = np.cumsum(self.sizes).tolist()
        return (slice(end - size, end) for end, size in zip(ends, self.sizes, strict=True))

    def among(self, weights: Array) -> Mask:
        """The actions (n, n_actions) of the branch of each row of weights; of no weight, all."""
        found = np.zeros(weights.shape, dtype=bool)
        for branch in self.slices():
            found[(weights[:, branch] != 0.0).any(axis=1), branch] = True
        found[~found.any(axis=1)] = True
        return found

    @override
    def of_action(self, action: int) -> str:
        for number, branch in enumerate(self.slices()):
            if action < branch.stop:
                return f"the probability of action {action - branch.start} of branch {number}"
        raise InvalidPolicy(f"There is no action {action}: the branches have {self.sizes}.")

    @override
    def of_named(self, action: str) -> str:
        return PROBABILITY.of_named(action)

    @override
    def request(self, n_actions: int) -> str:
        return (
            f"this policy chooses in {len(self.sizes)} branches, of {self.sizes} actions. "
            f"Constrain the probability of one: action=Branch({self.sizes}, 0, action=1)."
        )

    @override
    def span(self, weights: Iterable[float]) -> tuple[float, float]:
        return PROBABILITY.span(weights)

    @override
    def reach(self, weights: Array) -> tuple[Array, Array]:
        among = self.among(weights)
        return (
            np.where(among, weights, np.inf).min(axis=1),
            np.where(among, weights, -np.inf).max(axis=1),
        )

    @override
    def possible_outputs(self, n_actions: int) -> dict[str, Any]:
        sums = np.zeros((len(self.sizes), n_actions))
        for number, branch in enumerate(self.slices()):
            sums[number, branch] = 1.0
        return {"A_eq": sums, "b_eq": np.ones(len(self.sizes)), "bounds": (0.0, 1.0)}

    @override
    def one_says_all(self, n_actions: int) -> bool:
        return n_actions == 2

    @override
    def check_bound(self, bound: float, weights: Iterable[float], what: object) -> None:
        PROBABILITY.check_bound(bound, weights, what)

    @override
    def check_weights(self, weights: Array, bounds: tuple[float, float], name: str) -> None:
        PROBABILITY.check_weights(weights[self.among(weights[None])[0]], bounds, name)

    @override
    def room(self, lower: Array, upper: Array, lowest: Array, highest: Array) -> Array:
        return PROBABILITY.room(lower, upper, lowest, highest)

    @override
    def margin_at(self, bound: Array, lowest: Array, highest: Array) -> Array:
        return PROBABILITY.margin_at(bound, lowest, highest)

    @override
    def unit(self, weights: Array, scale: Array) -> float:
        return PROBABILITY.unit(weights, scale)

    @override
    def log_likelihood(self, values: Array, scale: Array) -> Array:
        return PROBABILITY.log_likelihood(values, scale)

    @override
    def is_curved(self, weights: Array, alone: Mask) -> Mask:
        return PROBABILITY.is_curved(weights, alone)

    @override
    def coordinate(self, weights: Array, outputs: Array) -> tuple[Array, Array]:
        """Log-odds within the branch: what the others choose is neither for it nor against it."""
        return PROBABILITY.coordinate(weights, np.where(self.among(weights), outputs, 0.0))

    @override
    def coordinate_of_bound(self, weights: Array, bound: Array, inwards: Array) -> Array:
        return PROBABILITY.coordinate_of_bound(weights, bound, inwards)

    @override
    def value_at(self, weights: Array, coordinate: Array) -> Array:
        return PROBABILITY.value_at(weights, coordinate)

    @override
    def changed_choices(self, before: Array, after: Array) -> int | None:
        changed = [
            before[:, branch].argmax(axis=1) != after[:, branch].argmax(axis=1)
            for branch in self.slices()
        ]
        return int(np.any(changed, axis=0).sum())

    @override
    def comparable(self, raw: Array) -> Array:
        return np.concatenate(
            [PROBABILITY.comparable(raw[:, one]) for one in self.slices()], axis=1
        )

    @override
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        columns = zip(self.sizes, actions.reshape(len(actions), -1).T, strict=True)
        return np.concatenate([PROBABILITY.of_actions(one, size) for size, one in columns], axis=1)

    @override
    def raw_of(self, outputs: Array) -> Array:
        return PROBABILITY.raw_of(outputs)


@final
class BranchedPolicy(Policy):
    """π(a|s) = Π_b softmax(module(s) of branch b)[a_b], for MultiDiscrete and MultiBinary actions.

    Args:
        module: maps a batch of observations (n, *observation_shape) to logits, those of all
            branches one behind the other (n, Σ sizes).
        sizes: how many actions each branch has; of MultiBinary, 2 each.
    """

    _raw_name: ClassVar[str] = "logits"
    quantity: BranchProbability

    def __init__(self, module: nn.Module, sizes: Sequence[int]) -> None:
        super().__init__(module)
        if not sizes or min(sizes) < 2:
            raise InvalidPolicy(
                f"Every branch needs at least two actions to choose from, but the sizes are "
                f"{tuple(sizes)}."
            )
        self.quantity = BranchProbability(tuple(int(one) for one in sizes))

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
    ) -> BranchedPolicy:
        """A fresh fully connected network; arguments as for `CategoricalPolicy.mlp`."""
        observations, actions = branched_spaces(env_or_spaces)
        sizes = branches_of(actions)
        architecture = architecture_of(hidden, activation, dtype)
        given = Given(input_scaling(observations, scale, centre, architecture.precision))
        return cls(architecture.build_with(given, observations.shape, sum(sizes), seed), sizes)

    @override
    def with_module(self, module: nn.Module) -> BranchedPolicy:
        return BranchedPolicy(module, self.quantity.sizes)

    def probabilities(self, states: Any) -> list[Array]:
        """π(·|s) of each branch, (n, size) each."""
        outputs = self.outputs(states)
        return [outputs[:, branch] for branch in self.quantity.slices()]

    @override
    def head(self, raw: Array) -> Array:
        """A softmax in each branch."""
        total = sum(self.quantity.sizes)
        if raw.shape[-1] != total:
            raise InvalidPolicy(
                f"The network returns {raw.shape[-1]} logits, but the branches have {total} "
                f"actions together: {self.quantity.sizes}."
            )
        return np.concatenate([softmax(raw[..., one]) for one in self.quantity.slices()], axis=-1)

    @override
    def through_head(self, outputs: Array, vectors: Array) -> Array:
        """diag(π) - π πᵀ of each branch; as `CategoricalPolicy.through_head` writes it."""
        result = np.empty_like(outputs)
        for one in self.quantity.slices():
            differences = vectors[:, one, None] - vectors[:, None, one]
            result[:, one] = outputs[:, one] * (differences * outputs[:, None, one]).sum(axis=2)
        return result

    @override
    def scale(self, outputs: Array) -> Array:
        """The probabilities: ∇π / π is ∇log π."""
        return outputs

    @override
    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """2√π of every branch: the divergence of a product is the sum of those of its factors."""
        roots = np.sqrt(outputs)
        slopes = np.zeros((*outputs.shape, outputs.shape[1]))
        for one in self.quantity.slices():
            identity = np.eye(one.stop - one.start)
            slopes[:, one, one] = roots[:, one, None] * (identity - outputs[:, None, one])
        return 2.0 * roots, slopes

    @override
    def likelihood(self, outputs: Array, actions: Actions) -> tuple[Array, Array]:
        """Σ log π_a over the branches, and e_a - π in each."""
        sizes = self.quantity.sizes
        if actions.shape != (len(outputs), len(sizes)):
            raise ShapeMismatch(
                f"The batch has actions of shape {actions.shape}, but this policy chooses in "
                f"{len(sizes)} branches: an index for each of them and state."
            )
        if (actions >= np.array(sizes)).any() or (actions < 0).any():
            raise ShapeMismatch(
                f"The batch takes action {actions.max(axis=0).tolist()}, but the branches have "
                f"{sizes} actions, from 0 on."
            )
        taken = self.quantity.of_actions(actions, outputs.shape[1])
        chances = np.maximum(outputs[taken == 1.0].reshape(actions.shape), np.finfo(float).tiny)
        return np.log(chances).sum(axis=1), taken - outputs

    @override
    def actor(self, rng: np.random.Generator) -> Callable[[Array], Indices]:
        """An index for each branch."""

        def draw(state: Array) -> Indices:
            raw = self._raw_of_one(state)
            if not np.isfinite(raw).all():
                raise self._not_finite(state)
            chosen: Indices = self.draw(self.head(raw)[None], [rng])[0]
            return chosen

        return draw

    @override
    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Indices:
        """By the cumulated probabilities of each branch."""
        draws = np.array([rng.random(len(self.quantity.sizes)) for rng in rngs])
        chosen = np.empty(draws.shape, dtype=np.intp)
        for number, one in enumerate(self.quantity.slices()):
            below = outputs[:, one].cumsum(axis=1) <= draws[:, number, None]
            # Rounding: the cumulated probability can end just below a draw close to 1.
            chosen[:, number] = np.minimum(below.sum(axis=1), one.stop - one.start - 1)
        return chosen

    @override
    def likeliest(self, outputs: Array) -> Indices:
        """The most probable of each branch."""
        return np.stack([outputs[:, one].argmax(axis=1) for one in self.quantity.slices()], axis=1)


def sizes_of(space: gym.Space[Any] | Sequence[int]) -> tuple[int, ...]:
    """Of branches, as callers give them: the action space, or the sizes themselves."""
    if isinstance(space, gym.spaces.MultiDiscrete | gym.spaces.MultiBinary):
        return branches_of(space)
    if isinstance(space, gym.Space):
        raise InvalidPolicy(f"{space} has no branches: expected MultiDiscrete or MultiBinary.")
    try:
        return tuple(operator.index(one) for one in space)
    except TypeError as error:
        raise InvalidPolicy(
            "Branches are given as the action space, or as how many actions each of them has, such "
            f"as (3, 2), but got {space!r}."
        ) from error


def branches_called(full_name: str) -> BranchProbability | None:
    """By its name in files; None of another quantity."""
    read = re.fullmatch(rf"{BranchProbability.name} \[(\d+(?:, \d+)*)\]", full_name)
    if read is None:
        return None
    return BranchProbability(tuple(map(int, read[1].split(", "))))
