"""What a policy decides, and constraints are about: probabilities or values of actions, or means.

Whatever differs between them is asked of these objects: which values there are at all, in what
coordinate they move freely, what a margin is worth, what a person calls them. Only the margin of a
proof lies elsewhere (proof/margin.py), since it is about the network below. So another kind of
decision, such as a squashed mean, is an object here, a margin there, and a policy.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from typing_extensions import override

from handrail._types import Array, Mask
from handrail.errors import InvalidArgument, InvalidConstraint
from handrail.policies.coordinates import Coordinates


class Quantity(Coordinates):
    """Of every action (or dimension of the action) there is one; `outputs` are all of a state.

    Two of the same kind are equal. In arrays, rows are states or constraint rows, n of them.
    """

    name: ClassVar[str]
    """In files."""
    noun: ClassVar[str]
    """One of them, in a sentence."""
    plural: ClassVar[str]
    """Several of them."""
    subject: ClassVar[str]
    """What a constraint on one of them is about."""
    margin_unit: ClassVar[str]
    """In which the distance from a bound is told."""
    stages: ClassVar[tuple[str, ...]]
    """What a network returns and what is made of it, by name, the outputs last."""
    is_continuous: ClassVar[bool]
    """Whether actions are numbers, rather than some to choose from."""
    adds_up: ClassVar[bool]
    """Whether the outputs of a state add up to 1, so that one follows from the others."""
    reach_at_once: ClassVar[float]
    """The most that a first-order step asks of a row that is measured as it is."""

    @property
    def full_name(self) -> str:
        """In files, with all that tells it from others of its kind."""
        return self.name

    def answers(self, asked: Quantity) -> bool:
        """Whether a policy of this can be asked for that: only for its own kind, by default."""
        return self == asked

    def n_actions(self, n_outputs: int) -> int:
        """Of a policy that has so many outputs: as many, by default."""
        return n_outputs

    def part(self, output: int) -> tuple[Quantity, int]:
        """What one of the outputs is, and of which action: this of each, by default."""
        return self, output

    @abstractmethod
    def of_action(self, action: int) -> str:
        """The one of this action, in a sentence."""

    @abstractmethod
    def of_named(self, action: str) -> str:
        """The same in short, of an action with a name."""

    @abstractmethod
    def request(self, n_actions: int) -> str:
        """What a policy of it is, and what can be constrained of it, to end a sentence with."""

    @abstractmethod
    def span(self, weights: Iterable[float]) -> tuple[float, float]:
        """The lowest and the highest weighted sum of outputs, where some actions have no weight."""

    @abstractmethod
    def reach(self, weights: Array) -> tuple[Array, Array]:
        """The lowest and the highest (n,) of weighted sums, weights (n, n_actions)."""

    @abstractmethod
    def possible_outputs(self, n_actions: int) -> dict[str, Any]:
        """Which outputs exist together at one state, in the words of `scipy.optimize.linprog`."""

    @abstractmethod
    def one_says_all(self, n_actions: int) -> bool:
        """Whether all outputs of a state follow from any one of them."""

    @abstractmethod
    def check_bound(self, bound: float, weights: Iterable[float], what: object) -> None:
        """Refuse a bound that no weighted sum can be on both sides of; `what` is the sum's name."""

    @abstractmethod
    def check_weights(self, weights: Array, bounds: tuple[float, float], name: str) -> None:
        """Refuse weights (n_actions,) of a sum that no policy can change, or bring into bounds."""

    @abstractmethod
    def room(self, lower: Array, upper: Array, lowest: Array, highest: Array) -> Array:
        """How far inside its bounds (n,) a sum of this reach (n,) can be at all.

        Inf where nothing can break it.
        """

    @abstractmethod
    def margin_at(self, bound: Array, lowest: Array, highest: Array) -> Array:
        """What a margin of 1 is worth at bounds (n,) of sums of this reach (n,); 0 at infinity."""

    @abstractmethod
    def unit(self, weights: Array, scale: Array) -> float:
        """Of margins of a weighted sum; weights and the policy's scale are (n_actions,)."""

    @abstractmethod
    def log_likelihood(self, values: Array, scale: Array) -> Array:
        """What has the gradient ∇value / scale (n,)."""

    @abstractmethod
    def changed_choices(self, before: Array, after: Array) -> int | None:
        """At how many states outputs (n, n_actions) prefer another action; None if none is chosen.

        Two outputs of the same state each.
        """

    @abstractmethod
    def comparable(self, raw: Array) -> Array:
        """Raw outputs (n, n_actions), the same whenever they decide the same."""

    @abstractmethod
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        """Outputs (n, n_actions) of a policy that always takes these actions (n, …)."""

    @abstractmethod
    def raw_of(self, outputs: Array) -> Array:
        """Raw outputs that have these outputs, both (n, n_actions): their differences are known."""


@final
@dataclass(frozen=True)
class Probability(Quantity):
    """Of a discrete action: between 0 and 1, and they add up to 1."""

    name: ClassVar[str] = "probability"
    noun: ClassVar[str] = "probability"
    plural: ClassVar[str] = "probabilities"
    subject: ClassVar[str] = "the probability of an action"
    margin_unit: ClassVar[str] = "log-odds"
    stages: ClassVar[tuple[str, ...]] = ("logits", "probabilities")
    is_continuous: ClassVar[bool] = False
    adds_up: ClassVar[bool] = True
    # From one end of what it can be to the other is 1.
    reach_at_once: ClassVar[float] = 0.4

    @override
    def of_action(self, action: int) -> str:
        return f"the probability of action {action}"

    @override
    def of_named(self, action: str) -> str:
        return f"P({action})"

    @override
    def request(self, n_actions: int) -> str:
        return (
            f"this policy chooses among {n_actions} discrete actions. Constrain the probability of "
            "one: action=0, 1, …"
        )

    @override
    def span(self, weights: Iterable[float]) -> tuple[float, float]:
        known = list(weights)
        return min(0.0, *known), max(0.0, *known)

    @override
    def reach(self, weights: Array) -> tuple[Array, Array]:
        return weights.min(axis=1), weights.max(axis=1)

    @override
    def possible_outputs(self, n_actions: int) -> dict[str, Any]:
        return {"A_eq": np.ones((1, n_actions)), "b_eq": [1.0], "bounds": (0.0, 1.0)}

    @override
    def one_says_all(self, n_actions: int) -> bool:
        return n_actions == 2

    @override
    def check_bound(self, bound: float, weights: Iterable[float], what: object) -> None:
        lowest, highest = self.span(weights)
        if bound in (lowest, highest):
            inside = lowest + 0.001 if bound == lowest else highest - 0.001
            raise InvalidConstraint(
                "A softmax never reaches a probability of exactly 0 or 1, so {what} cannot be "
                "bounded by {bound:g}. Use {inside:g} instead.",
                what=what,
                bound=bound,
                inside=inside,
            )
        if not lowest < bound < highest:
            # 95 was meant in percent; 1.5 hardly.
            percent = bound > 2.0 and lowest < bound / 100 < highest
            meant = (
                f"Did you mean {bound / 100:g}?"
                if percent
                else "A continuous action is bounded through its mean: Mean(0), in a file a range "
                "of it."
            )
            raise InvalidConstraint(
                "The probability of {what} is always between {lowest:g} and {highest:g}, but the "
                "bound is {bound:g}. {meant}",
                what=what,
                lowest=lowest,
                highest=highest,
                bound=bound,
                meant=meant,
            )

    @override
    def check_weights(self, weights: Array, bounds: tuple[float, float], name: str) -> None:
        lowest, highest = float(weights.min()), float(weights.max())
        if lowest == highest:
            raise InvalidConstraint(
                f"{name!r} weighs all {len(weights)} actions alike. Probabilities always add up to "
                "1, so no policy can change this sum: leave an action out."
            )
        lower, upper = bounds
        if lower >= highest or upper <= lowest:
            asked = f"at least {lower:g}" if lower >= highest else f"at most {upper:g}"
            raise InvalidConstraint(
                f"{name!r} asks for {asked}, but with these weights of all {len(weights)} actions "
                f"the sum always lies strictly between {lowest:g} and {highest:g}. Choose a bound "
                "inside."
            )

    @override
    def room(self, lower: Array, upper: Array, lowest: Array, highest: Array) -> Array:
        return np.minimum(
            np.where(np.isfinite(lower), highest - lower, np.inf),
            np.where(np.isfinite(upper), upper - lowest, np.inf),
        )

    @override
    def margin_at(self, bound: Array, lowest: Array, highest: Array) -> Array:
        """In log-odds, to first order: bound · (1 - bound)."""
        known = np.where(np.isfinite(bound), bound, lowest)
        result: Array = (highest - known) * (known - lowest) / (highest - lowest)
        return result

    @override
    def unit(self, weights: Array, scale: Array) -> float:
        return 1.0

    @override
    def log_likelihood(self, values: Array, scale: Array) -> Array:
        result: Array = np.log(scale)
        return result

    @override
    def is_curved(self, weights: Array, alone: Mask) -> Mask:
        """Probabilities of a set of actions have log-odds; a weighted difference has none."""
        result: Mask = alone & ((weights == 0.0) | (weights == 1.0)).all(axis=1)
        return result

    @override
    def coordinate(self, weights: Array, outputs: Array) -> tuple[Array, Array]:
        """Log-odds: near 0 and 1 they move with the weights as ever, a probability hardly."""
        tiny = np.finfo(np.float64).tiny
        inside = np.maximum((weights * outputs).sum(axis=1), tiny)
        # 1 - c as the sum of the other probabilities: exact where c rounds to 1.
        outside = np.maximum(((1.0 - weights) * outputs).sum(axis=1), tiny)
        return np.log(inside) - np.log(outside), 1.0 / (inside * outside)

    @override
    def coordinate_of_bound(self, weights: Array, bound: Array, inwards: Array) -> Array:
        # Never more than half way to 0 or 1, however large the tolerance.
        value = np.clip(bound + inwards, 0.5 * bound, 0.5 + 0.5 * bound)
        result: Array = np.log(value) - np.log1p(-value)
        return result

    @override
    def value_at(self, weights: Array, coordinate: Array) -> Array:
        result: Array = expit(coordinate)
        return result

    @override
    def changed_choices(self, before: Array, after: Array) -> int | None:
        return int((before.argmax(axis=1) != after.argmax(axis=1)).sum())

    @override
    def comparable(self, raw: Array) -> Array:
        """Logits mean the same whatever is added to all of them."""
        result: Array = raw - raw.mean(axis=1, keepdims=True)
        return result

    @override
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        """1 of the action that is taken."""
        result: Array = np.eye(n_actions)[actions.astype(np.intp)]
        return result

    @override
    def raw_of(self, outputs: Array) -> Array:
        """Logarithms of probabilities are logits."""
        result: Array = np.log(np.maximum(outputs, np.finfo(np.float64).tiny))
        return result


@dataclass(frozen=True)
class FreeNumber(Quantity):
    """Any number, whatever the others are."""

    adds_up: ClassVar[bool] = False
    # As unbounded as log-odds are.
    reach_at_once: ClassVar[float] = 4.0

    @override
    def span(self, weights: Iterable[float]) -> tuple[float, float]:
        return -np.inf, np.inf

    @override
    def reach(self, weights: Array) -> tuple[Array, Array]:
        return np.full(len(weights), -np.inf), np.full(len(weights), np.inf)

    @override
    def possible_outputs(self, n_actions: int) -> dict[str, Any]:
        return {"bounds": (None, None)}

    @override
    def one_says_all(self, n_actions: int) -> bool:
        return n_actions == 1

    @override
    def check_bound(self, bound: float, weights: Iterable[float], what: object) -> None:
        """Any number will do."""

    @override
    def check_weights(self, weights: Array, bounds: tuple[float, float], name: str) -> None:
        """Any sum can change, to anything."""

    @override
    def room(self, lower: Array, upper: Array, lowest: Array, highest: Array) -> Array:
        """1, for want of an end."""
        return np.ones(len(lower))

    @override
    def margin_at(self, bound: Array, lowest: Array, highest: Array) -> Array:
        """In the action's own units."""
        return np.isfinite(bound).astype(np.float64)

    @override
    def unit(self, weights: Array, scale: Array) -> float:
        """A standard deviation of the sum, if all dimensions went together."""
        return float(np.abs(weights) @ scale)

    @override
    def log_likelihood(self, values: Array, scale: Array) -> Array:
        """Of a Gaussian one standard deviation away."""
        result: Array = values / scale
        return result

    @override
    def is_curved(self, weights: Array, alone: Mask) -> Mask:
        return np.zeros(len(weights), dtype=bool)

    @override
    def coordinate(self, weights: Array, outputs: Array) -> tuple[Array, Array]:
        return (weights * outputs).sum(axis=1), np.ones(len(weights))

    @override
    def coordinate_of_bound(self, weights: Array, bound: Array, inwards: Array) -> Array:
        return bound + inwards

    @override
    def value_at(self, weights: Array, coordinate: Array) -> Array:
        return coordinate

    @override
    def comparable(self, raw: Array) -> Array:
        return raw

    @override
    def raw_of(self, outputs: Array) -> Array:
        return outputs


@final
@dataclass(frozen=True)
class MeanAction(FreeNumber):
    """Of a dimension of a continuous action: any number."""

    name: ClassVar[str] = "mean"
    noun: ClassVar[str] = "mean action"
    plural: ClassVar[str] = "mean actions"
    subject: ClassVar[str] = "a mean action"
    margin_unit: ClassVar[str] = "mean action"
    stages: ClassVar[tuple[str, ...]] = ("mean",)
    is_continuous: ClassVar[bool] = True

    @override
    def of_action(self, action: int) -> str:
        return f"mean action {action}"

    @override
    def of_named(self, action: str) -> str:
        return f"mean {action}"

    @override
    def request(self, n_actions: int) -> str:
        last = "" if n_actions == 1 else f" to Mean({n_actions - 1})"
        return (
            f"the actions of this policy are continuous. Constrain their means: action=Mean(0)"
            f"{last}."
        )

    @override
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        return actions.reshape(len(actions), n_actions).astype(np.float64)

    @override
    def changed_choices(self, before: Array, after: Array) -> int | None:
        return None


@final
@dataclass(frozen=True)
class StandardDeviation(FreeNumber):
    """Of a dimension of a continuous action: above 0."""

    name: ClassVar[str] = "std"
    noun: ClassVar[str] = "standard deviation"
    plural: ClassVar[str] = "standard deviations"
    subject: ClassVar[str] = "the standard deviation of an action"
    margin_unit: ClassVar[str] = "standard deviation"
    stages: ClassVar[tuple[str, ...]] = ("std",)
    is_continuous: ClassVar[bool] = True

    @override
    def of_action(self, action: int) -> str:
        return f"the standard deviation of action {action}"

    @override
    def of_named(self, action: str) -> str:
        return f"std of {action}"

    @override
    def request(self, n_actions: int) -> str:
        last = "" if n_actions == 1 else f" to Std({n_actions - 1})"
        return (
            f"this policy draws {n_actions} continuous actions, with noise that varies. Constrain "
            f"their standard deviations: action=Std(0){last}."
        )

    @override
    def check_bound(self, bound: float, weights: Iterable[float], what: object) -> None:
        if bound <= 0.0 and min(weights, default=0.0) > 0.0:
            raise InvalidConstraint(
                "A standard deviation is always above 0, so {what} cannot be bounded by {bound:g}. "
                "Use a small number above 0 instead.",
                what=what,
                bound=bound,
            )

    @override
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        """A single action has none."""
        return np.zeros((len(actions), n_actions))

    @override
    def changed_choices(self, before: Array, after: Array) -> int | None:
        return None


@final
@dataclass(frozen=True)
class ActionValue(FreeNumber):
    """Of a discrete action, what taking it is worth: the highest one is taken."""

    name: ClassVar[str] = "value"
    noun: ClassVar[str] = "value"
    plural: ClassVar[str] = "values of actions"
    subject: ClassVar[str] = "the value of an action"
    margin_unit: ClassVar[str] = "value"
    reach_at_once: ClassVar[float] = np.inf  # in whose units? A line search knows how far
    stages: ClassVar[tuple[str, ...]] = ("values",)
    is_continuous: ClassVar[bool] = False

    @override
    def of_action(self, action: int) -> str:
        return f"the value of action {action}"

    @override
    def of_named(self, action: str) -> str:
        return f"value of {action}"

    @override
    def request(self, n_actions: int) -> str:
        return (
            f"this policy takes the one of {n_actions} actions that it values most, whatever the "
            "odds. Say which one: Prefer(action, by=…), in units of its values."
        )

    @override
    def of_actions(self, actions: NDArray[Any], n_actions: int) -> Array:
        """Worth 1 if it is taken, and nothing if not."""
        result: Array = np.eye(n_actions)[actions.astype(np.intp)]
        return result

    @override
    def changed_choices(self, before: Array, after: Array) -> int | None:
        return int((before.argmax(axis=1) != after.argmax(axis=1)).sum())


PROBABILITY = Probability()
MEAN = MeanAction()
STD = StandardDeviation()
VALUE = ActionValue()

_BY_NAME: dict[str, Quantity] = {one.name: one for one in (PROBABILITY, MEAN, VALUE)}


def quantity_named(name: str) -> Quantity:
    """As files call it."""
    if name not in _BY_NAME:
        raise InvalidArgument(f"Expected {' or '.join(_BY_NAME)}, but got the quantity {name!r}.")
    return _BY_NAME[name]
