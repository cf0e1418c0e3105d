"""How outputs change with one observation: `Monotone` and `Lipschitz`, bounds of slopes on regions.

A slope is that of the network's raw output along one observation: of a mean action in its own unit,
of a discrete action a the logarithm of its odds against another one, log π(a | s) / π(b | s), for
each b. Where all of these rise, so does π(a | s); of two actions, only then.

A slope is held as that of a chord between two close states, a row of two samples. The two are so
close (`_APART`) that few kinks lie between them, and so far apart that differences of the tangent
kernel at both keep their digits.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Self, final, get_args

import numpy as np
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import check_number
from handrail.constraints.checks import (
    check_actions,
    check_known_action,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import (
    Action,
    Mean,
    PlacedConstraint,
    action_from,
    action_sum,
    as_mapping,
    make_rows,
    plain_action,
    quantity_of,
    set_default_name,
)
from handrail.constraints.rows import Rows
from handrail.errors import InvalidConstraint
from handrail.policies import MEAN, BranchProbability, Quantity
from handrail.regions import Region

Direction = Literal["increasing", "decreasing"]

# Between the two states of a chord: of the region's size along the observation. Measured from 1e-1
# to 1e-8 by `python -m benchmarks.slopes --apart`.
_APART = 1e-4

# The same at least, of the largest value there: or float64 cannot tell the two apart.
_LEAST_APART = 1e-9


class SlopeBounded(PlacedConstraint):
    """lower ≤ ∂output/∂observation ≤ upper at every state of a region; at kinks, on all sides."""

    where: Region
    output: Action
    in_: int

    @property
    @abstractmethod
    def slope_bounds(self) -> tuple[float, float]:
        """(lower, upper); -inf and inf for none."""

    @property
    @abstractmethod
    def _default_name(self) -> str: ...

    def __post_init__(self) -> None:
        kind = type(self).__name__
        check_where(self.where)
        check_priority(self.priority)
        if not isinstance(self.where, Region):
            raise InvalidConstraint(
                f"{kind} is about how outputs change from one state to the next, and between "
                "Points there is none. Use a region, such as a Box."
            )
        self._check_output()
        _check_observation(self.in_, self.where, kind)
        set_default_name(self, self._default_name)

    def _check_output(self) -> None:
        kind = type(self).__name__
        if not isinstance(self.output, Mean):
            if isinstance(plain_action(self.output), Mapping):
                raise InvalidConstraint(
                    f"{kind} is about one discrete action (output=0), or about mean actions "
                    f"(output=Mean(0)), but got {self.output!r}."
                )
            check_actions(self.output)
            return
        check_actions(self.output)
        for weight in as_mapping(self.output).values():
            check_number(weight, f"{kind}: a weight of `output`")

    @property
    @override
    def quantity(self) -> Quantity:
        """As the output says."""
        return quantity_of(self.output)

    def raw_weights(self, n_actions: int) -> Array:
        """Of the raw outputs whose slopes are bounded: (m, n_actions), m = 1 of mean actions."""
        actions = as_mapping(self.output)
        for index in actions:
            check_known_action(self.name, index, n_actions)
        weights = np.zeros(n_actions)
        for index, weight in actions.items():
            weights[index] = float(weight)  # type: ignore[arg-type]  # functions were refused
        if self.quantity == MEAN:
            return weights[None]
        competing = np.ones(n_actions, dtype=bool)
        if isinstance(self.quantity, BranchProbability):
            competing = self.quantity.among(weights[None])[0]
        result: Array = weights - np.eye(n_actions)[competing & (weights == 0.0)]
        return result

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """A row per state and vector of `raw_weights`: its chord from the state to a close one."""
        weights = self.raw_weights(n_actions)
        other, apart = states.copy(), self._apart
        last = self.where.bounds[1][self.in_] - apart  # from there on it is the one behind
        other[:, self.in_] += np.where(states[:, self.in_] <= last, apart, -apart)
        distance = other[:, self.in_] - states[:, self.in_]  # as rounded
        pairs = np.repeat(np.stack([states, other], axis=1), len(weights), axis=0)
        signed = np.array([-1.0, 1.0])[:, None] * weights[:, None]
        scaled = signed / distance[:, None, None, None]
        lower, upper = self.slope_bounds
        return make_rows(
            self,
            pairs.reshape(-1, states.shape[1]),
            scaled.reshape(-1, n_actions),
            rows=np.repeat(np.arange(len(pairs)), 2),
            lower=lower,
            upper=upper,
            raw=True,
        )

    @override
    def margin_unit(self, scale: Array) -> float:
        """Of an output, per size of the region."""
        weights = self.raw_weights(len(scale))
        return max(self.quantity.unit(one, scale) for one in weights) / self._size

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "output": action_from(values["output"])})

    @property
    def _size(self) -> float:
        low, high = self.where.bounds
        return float(high[self.in_] - low[self.in_])

    @property
    def _apart(self) -> float:
        largest = float(np.abs(np.stack(self.where.bounds))[:, self.in_].max())
        return max(_APART * self._size, _LEAST_APART * largest)


@final
@dataclass(frozen=True)
class Monotone(SlopeBounded):
    """An output rises (or falls) with one observation, wherever the others are, all over a region.

    Of two states of the region that differ in that observation only, and between which all states
    belong to the region, the one with more of it has no less (no more) of the output.

    Args:
        output: `Mean` of a dimension of the action, or of {dimension: weight}; or a discrete
            action, an index or a `Branch`: then its odds against every other one (of its branch)
            rise, and so its probability.
        in_: the observation, by its index.
        direction: "increasing" or "decreasing".
        where: a region (Box, Ball, Polytope, Curve, Union).
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    output: Action
    in_: int
    direction: Direction
    where: Region
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        if self.direction not in get_args(Direction):
            raise InvalidConstraint(
                f'Monotone: `direction` is "increasing" or "decreasing", not {self.direction!r}.'
            )
        super().__post_init__()

    @property
    @override
    def slope_bounds(self) -> tuple[float, float]:
        return (0.0, math.inf) if self.direction == "increasing" else (-math.inf, 0.0)

    @property
    @override
    def _default_name(self) -> str:
        return f"{action_sum(self.output)} {self.direction} in observation {self.in_}"


@final
@dataclass(frozen=True)
class Lipschitz(SlopeBounded):
    """An output changes by at most `constant` per unit of one observation, all over a region.

    |output(s) - output(s')| ≤ constant · |s_i - s'_i| for states that differ in that observation
    only, and between which all states belong to the region. With one such constraint for each
    observation, |output(s) - output(s')| ≤ Σ constant_i · |s_i - s'_i|.

    Args:
        constant: in units of the output per unit of the observation: above 0.
        output: `Mean` of a dimension of the action, or of {dimension: weight}; or a discrete
            action, an index or a `Branch`: then in log-odds against every other one (of its
            branch), which is at most a fourth of that in its probability.
        in_: the observation, by its index.
        where: a region (Box, Ball, Polytope, Curve, Union).
        name: for tables and messages; made from the other fields when left out.
        priority: how much more than others this one matters when constraints are soft.
    """

    constant: float
    output: Action
    in_: int
    where: Region
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_number(self.constant, "Lipschitz: the constant")
        if self.constant <= 0.0:
            raise InvalidConstraint(
                f"Lipschitz: the constant must be above 0, not {self.constant:g}: a network "
                "cannot have a slope of exactly 0 on all the states of a region."
            )
        super().__post_init__()

    @property
    @override
    def slope_bounds(self) -> tuple[float, float]:
        return -float(self.constant), float(self.constant)

    @property
    @override
    def _default_name(self) -> str:
        return f"{action_sum(self.output)} within {self.constant:g} per observation {self.in_}"


def _check_observation(index: Any, where: Region, kind: str) -> None:
    """One that the region varies in."""
    if isinstance(index, bool) or not isinstance(index, int | np.integer):
        raise InvalidConstraint(f"{kind}: `in_` is the index of an observation, not {index!r}.")
    low, high = where.bounds
    if not 0 <= index < len(low):
        raise InvalidConstraint(
            f"{kind}: there is no observation {index}: the states have {len(low)} coordinates, 0 "
            f"to {len(low) - 1}."
        )
    if low[index] == high[index]:
        raise InvalidConstraint(
            f"{kind}: observation {index} is {low[index]:g} all over the region, so nothing can "
            "change with it there. Give it a range."
        )
