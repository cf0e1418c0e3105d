"""The states at which a policy should stay as it is, where they came from, what became of them.

Best are those where the policy lives: a `Reservoir` keeps some of the last rollouts. Before any
experience there is the observation space, or at least a box around what is constrained; some of it
stays for good, for what was never visited must not be closed off. Never a state at which change is
asked for; but of a tube around a controller, the visited states at which the policy obeys are where
it has learned what the tube leaves open.

Where change is asked for, it is of something, and all else should stay: "not to the right" says
nothing about whether to go up or down. That is what is `Unasked`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from handrail._storage import tensor
from handrail._types import Array, Indices, Mask
from handrail.constraints import (
    Constraint,
    Expansion,
    PlacedConstraint,
    Regional,
    Rows,
    counted,
    violations_at,
)
from handrail.errors import InvalidArgument
from handrail.policies import VALUE, Policy

_SAMPLED = 4000

# Numbers in all sampled states together: of images there are fewer.
_NUMBERS = 2_000_000

# Of a rollout, every so-manieth state enters a reservoir, but at most so many; and so many stay.
_EVERY, _ENTER, _KEPT = 4, 128, 256

# So many that were visited tell where a policy lives.
_ENOUGH = 64

# So many are taken in at once, of small rollouts several.
_AT_ONCE = 512

# Of the space, for good, and one of so many in the metric: what is never visited must not cost what
# is (measured: docs/explanation/influence_trials.md).
_UNVISITED, _ONE_UNVISITED_OF = 256, 8

# Constrained states that stand for all of them, and of those so many that stand for a region.
_CONSTRAINED, _OF_A_REGION = 128, 32

# A push that is shorter than this part of the longest is none.
_ROUNDING = 1e-9

# Of the ways from where a policy is going to live to random states: the shortest.
_NEAREST = 0.03

# Gymnasium's way to say "unbounded" is inf, or the largest float32.
_UNBOUNDED = 1e30


@final
@dataclass(frozen=True, repr=False)
class References:
    """States at which no constraint asks for a change: there, every change is influence.

    Attributes:
        states: (n, *observation_shape).
        origin: where they came from, in words.
        unvisited: (m, *observation_shape), where the policy should stay as well, though nobody has
            been there yet; influence is not measured at them. None if there are none.
        constrained: where it should stay but for what is asked; None if that is not known.
    """

    states: Array
    origin: str
    unvisited: Array | None = None
    constrained: Constrained | None = None

    def __len__(self) -> int:
        return len(self.states)

    def kept(self, most: int) -> Array:
        """Where the policy should stay (n, *observation_shape): at most so many of all of them."""
        if self.unvisited is None:
            return spread(self.states, most)
        few = spread(self.unvisited, max(most // _ONE_UNVISITED_OF, 1))
        return np.concatenate([few, spread(self.states, most - len(few))])

    def unasked(self, policy: Policy) -> Unasked | None:
        """What should stay of the policy, as it is, where constraints speak; None if nothing."""
        return None if self.constrained is None else self.constrained.unasked(policy)

    def __repr__(self) -> str:
        return f"<References: {counted(len(self), 'state')}, {self.origin}>"


@final
@dataclass(frozen=True)
class Constrained:
    """States at which something is asked for, and what.

    Attributes:
        expansion: the constraints.
        visited: (n, *observation_shape), of which some may lie in regions.
    """

    expansion: Expansion
    visited: Array

    def unasked(self, policy: Policy) -> Unasked | None:
        """Of the policy as it is."""
        if policy.quantity == VALUE:  # of values, `Linearisation.worth` says what is not asked for
            return None
        return Unasked.of(policy, self._rows())

    def _rows(self) -> Rows:
        """At points, and at states of each region: visited ones, and some that stand for it."""
        flat = self.visited.reshape(len(self.visited), math.prod(self.visited.shape[1:]))
        blocks = [
            one.rows_at(np.concatenate([flat[inside], one.region.cover(_OF_A_REGION)]))
            for one in self.expansion.regional
            for inside in (one.region.contains(flat),)
        ]
        return self.expansion.rows_with(blocks)


@final
@dataclass(frozen=True)
class Unasked:
    """All that constraints leave open where they speak.

    In coordinates in which a squared change is twice the divergence (`Policy.natural`), a row is
    met soonest along one direction u. What is across of it was not asked for: of y, P y with
    P = I - u uᵀ; of several rows, alternatives among them, across of all their directions.

    Attributes:
        states: (m, *observation_shape), at which constraints speak.
        across: P (m, k, k) of each.
    """

    states: Array
    across: Array

    @classmethod
    def of(cls, policy: Policy, rows: Rows) -> Unasked | None:
        """What the rows leave open, of a policy as it is; None if that is nothing.

        Of two probabilities, for one; rows that relate several states do not count.
        """
        groups = rows.by_state
        if not groups or _is_one_number(policy, rows.states[:1]):
            return None
        step = -(-len(groups) // _CONSTRAINED)
        chosen = groups[::step]
        states = rows.first_states[[group[0] for group in chosen]]
        _, slopes = policy.natural(policy.outputs(states))  # (m, k, n_actions)
        asked = rows.take(np.concatenate(chosen))
        raw = asked.raw_weights(policy, asked.outputs_of(policy))
        pushes = np.zeros((len(chosen), raw.shape[1], max(map(len, chosen))))
        of_state = np.repeat(np.arange(len(chosen)), [len(group) for group in chosen])
        within = np.concatenate([np.arange(len(group)) for group in chosen])
        pushes[of_state, :, within] = raw
        # The shortest change of y that moves a row c by 1 is along (slopesᵀ)⁺ dc/dz.
        along = np.linalg.pinv(slopes.transpose(0, 2, 1), rcond=_ROUNDING) @ pushes
        directions, lengths, _ = np.linalg.svd(along, full_matrices=False)
        directions *= (lengths > _ROUNDING * lengths.max(axis=1, keepdims=True))[:, None, :]
        return cls(states, np.eye(slopes.shape[1]) - directions @ directions.transpose(0, 2, 1))

    def of_coordinates(self, per_coordinate: Array) -> Array:
        """P y (m, k), or P times gradients of y (m, k, …)."""
        result: Array = np.einsum("mij,mj...->mi...", self.across, per_coordinate)
        return result


def _is_one_number(policy: Policy, state: Array) -> bool:
    """Whether what is asked of the policy at a state (1, *observation_shape) is all there is."""
    coordinates, _ = policy.natural(policy.outputs(state))
    return len(coordinates[0]) == 1


def given_references(
    states: ArrayLike, constraints: Sequence[Constraint], origin: str = "given"
) -> References:
    """States that somebody knows about, such as visited ones.

    Args:
        states: (n, *observation_shape); where constraints speak of flat states, they become so.
        constraints: whose states are left out.
        origin: where the states came from, in words.
    """
    try:
        array = np.asarray(states, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"Reference states are an array of numbers (n, *observation_shape): {error}."
        ) from error
    shape = constraints[0].states.shape[1:]
    if array.ndim > 2 and shape == (math.prod(array.shape[1:]),):
        array = array.reshape(len(array), *shape)
    if array.ndim < 2 or not len(array) or array.shape[1:] != shape:
        raise InvalidArgument(
            f"Reference states must have the shape (n, {', '.join(map(str, shape))}) with n > 0, "
            f"as the constraints' states have, but got {array.shape}."
        )
    bad = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
    if len(bad):
        raise InvalidArgument(f"Reference state {bad[0]} is not finite: remove it.")
    return _unconstrained(array, constraints, origin)


def references_from(
    given: ArrayLike | References | None, constraints: Sequence[Constraint]
) -> References:
    """Those that a caller names; by default some around the constraints."""
    if given is None:
        return references_around(constraints)
    return given if isinstance(given, References) else given_references(given, constraints)


def read_references(path: Path, constraints: Sequence[Constraint]) -> References:
    """Given states that `numpy.save` wrote."""
    try:
        with path.open("rb") as file:  # which numpy would leave open where it holds several arrays
            found = np.load(file, allow_pickle=False)
    except FileNotFoundError:
        raise InvalidArgument(f"Reference states {path}: there is no such file.") from None
    except (OSError, ValueError, EOFError):
        found = None
    if not isinstance(found, np.ndarray):  # of several arrays, numpy.savez
        raise InvalidArgument(
            f"Reference states {path}: expected an array (n, n_observations) that "
            "numpy.save('states.npy', array) wrote."
        )
    return given_references(found, constraints, f"of {path.name}")


def references_around(constraints: Sequence[Constraint], near: Sequence[Array] = ()) -> References:
    """Random states of a box around the constrained ones, for whoever knows nothing better.

    Three times as wide as the smallest box around all of them.

    Args:
        constraints: whose states are left out.
        near: as of `references_of_space`.
    """
    low, high = _extent(constraints)
    width = _width(low, high)
    around = "random, around the constrained states"
    return _sampled(low - width, high + width, constraints, around, near)


def references_of_space(
    space: gym.spaces.Box,
    constraints: Sequence[Constraint],
    sizes: Sequence[float] | None = None,
    near: Sequence[Array] = (),
) -> References:
    """Random states of an observation space; where it has no bounds, around the constraints.

    Args:
        space: of the environment.
        constraints: whose states are left out.
        sizes: the typical size of each observation: at least so far around the constrained states
            where the space has no bounds. By default as far as the constraints are wide.
        near: groups of states (n, *observation_shape) that a policy is going to live near. Of the
            references each has an equal share, on the ways from there to random states.
    """
    low, high = (np.asarray(end, dtype=np.float64).reshape(-1) for end in (space.low, space.high))
    lowest, highest = _extent(constraints)
    width = _width(lowest, highest) if sizes is None else np.maximum(highest - lowest, sizes)
    around = np.maximum(np.abs(lowest), np.abs(highest)) + width
    # What is known is often one side of what there is: an observation that is small is mirrored.
    small = (lowest - width <= 0.0) & (highest + width >= 0.0)
    lowest = np.where(small, -around, lowest - width)
    highest = np.where(small, around, highest + width)
    below, above = low > -_UNBOUNDED, high < _UNBOUNDED
    origin = "random, of the observation space"
    if not (below & above).all():
        origin += " and, where that has no bounds, around the constrained states"
    low, high = np.where(below, low, lowest), np.where(above, high, highest)
    return _sampled(low, high, constraints, origin, near)


def _width(low: Array, high: Array) -> Array:
    """Of a box; where it is flat, its distance from zero, or 1."""
    size = np.where(high != 0.0, np.abs(high), 1.0)
    return np.where(high > low, high - low, size)


def _extent(constraints: Sequence[Constraint]) -> tuple[Array, Array]:
    """The smallest box (lowest, highest) around every constrained state and region."""
    blocks = [one.states.reshape(len(one.states), -1) for one in constraints]
    for one in constraints:
        if isinstance(one, PlacedConstraint) and one.region is not None:
            blocks.append(np.stack(one.region.bounds))
    corners = np.concatenate(blocks)
    return corners.min(axis=0), corners.max(axis=0)


def _sampled(
    low: Array,
    high: Array,
    constraints: Sequence[Constraint],
    origin: str,
    near: Sequence[Array],
) -> References:
    """Of the box, and on the ways there from each group of states that are near."""
    count = min(_SAMPLED, max(_KEPT, _NUMBERS // len(low)))
    rng = np.random.default_rng(0)
    random = rng.uniform(low, high, (count, len(low)))
    # Around the middle rather than in the corners, of which there are so many more.
    middle = 0.5 * (low + high)
    kinds = [middle + rng.uniform(size=(count, 1)) * (random - middle)]
    for group in near:
        inside = np.clip(group.reshape(len(group), -1), low, high)
        begin = inside[rng.integers(len(group), size=count)]
        share = np.exp(rng.uniform(np.log(_NEAREST), 0.0, (count, 1)))  # of the way
        kinds.append(begin + share * (random - begin))
    states = np.stack(kinds)[rng.integers(len(kinds), size=count), np.arange(count)]
    shape = constraints[0].states.shape[1:]
    return _unconstrained(
        states.reshape(count, *shape), constraints, f"{origin}, denser in the middle"
    )


def _unconstrained(states: Array, constraints: Sequence[Constraint], origin: str) -> References:
    """Without the states that must change: what happens there was asked for."""
    kept = ~Places(constraints).contain(states)
    if not kept.any():
        raise InvalidArgument(
            f"All {len(states)} reference states are constrained themselves, so none is left to "
            "measure the influence elsewhere on. Give states of which no constraint speaks."
        )
    return References(states[kept], origin)


@final
class Places:
    """All that some constraints speak of."""

    def __init__(self, constraints: Sequence[Constraint]) -> None:
        placed = [one for one in constraints if isinstance(one, PlacedConstraint)]
        self._regions = [one.region for one in placed if one.region is not None]
        at_points = [one for one in constraints if getattr(one, "region", None) is None]
        self._points = frozenset(
            key for one in at_points for key in _keys(one.states.reshape(len(one.states), -1))
        )

    def contain(self, states: Array) -> Mask:
        """Which of the states (n, *observation_shape) are among it (n,)."""
        return self.are_at(states) | self.are_in_regions(states)

    def are_in_regions(self, states: Array) -> Mask:
        """Which of them are in a region (n,)."""
        found = np.zeros(len(states), dtype=bool)
        flat = states.reshape(len(states), -1)
        for region in self._regions:
            found |= region.contains(flat)
        return found

    def are_at(self, states: Array) -> Mask:
        """Which of them are constrained points (n,)."""
        if not self._points:
            return np.zeros(len(states), dtype=bool)
        keys = _keys(states.reshape(len(states), -1))
        if self._points.isdisjoint(keys):  # as nearly always
            return np.zeros(len(states), dtype=bool)
        return np.array([key in self._points for key in keys], dtype=bool)


@final
class Reservoir:
    """Where the policy lives: some states of the last rollouts, none of them a constrained point.

    Args:
        constraints: that are held.
        first: references for as long as there is no experience; each rollout replaces some.
    """

    def __init__(self, constraints: Sequence[Constraint], first: References | None) -> None:
        self._places = Places(constraints)
        shape = constraints[0].states.shape[1:]
        self._origin = "none" if first is None else first.origin
        self._outside = np.zeros((0, *shape)) if first is None else first.states
        self._visited = self._outside
        self._unvisited = spread(self._outside, _UNVISITED)
        self._rollouts = self._entered = 0
        self._arrived: list[Array] = []  # of the last rollouts, which nobody has asked for yet
        self._waiting = 0  # states among these

    @property
    def visited(self) -> Array:
        """The same, and states of regions among them (n, *observation_shape)."""
        self._settle()
        return self._visited

    @property
    def rollouts(self) -> int:
        """Seen so far."""
        return self._rollouts

    @property
    def knows_where(self) -> bool:
        """Whether enough was visited to know where the policy lives."""
        if self._entered < _ENOUGH:
            self._settle()
        return self._entered >= _ENOUGH

    @property
    def references(self) -> References | None:
        """At present; None if there is no state of which no constraint speaks."""
        self._settle()
        return self._named(self._outside)

    def references_in_tubes(
        self, policy: Policy, regional: Sequence[Regional]
    ) -> References | None:
        """Visited states at which nothing asks for a change, those of regions too; None if none.

        Args:
            policy: as it is before it is held.
            regional: the constraints on regions.
        """
        visited = self.visited
        return self._named(visited[~asked_to_change(policy, regional, visited)])

    def _named(self, states: Array) -> References | None:
        if not len(states):
            return None
        if not self._rollouts:
            return References(states, self._origin)
        unvisited = self._unvisited if len(self._unvisited) else None
        return References(states, "of the last rollouts", unvisited)

    def add(self, states: ArrayLike) -> None:
        """What a rollout (n, *observation_shape) has visited."""
        # Few of them before anything is made of them: a rollout of images is large.
        some = spread(np.asarray(states)[::_EVERY], _EVERY * _ENTER)
        self._rollouts += 1
        if not len(some):
            return
        self._arrived.append(some.astype(np.float64).reshape(len(some), *self._outside.shape[1:]))
        self._waiting += len(some)
        # Of images soon: there is no room for many.
        if self._waiting >= _AT_ONCE or self._waiting * self._arrived[-1][0].size >= _NUMBERS:
            self._settle()

    def _settle(self) -> None:
        """Take in what has arrived: of several small rollouts at once, which takes as long as one.

        Most are not asked for before the next one.
        """
        if not self._arrived:
            return
        every = np.concatenate(self._arrived)
        ends = np.cumsum([len(one) for one in self._arrived])[:-1]
        self._arrived, self._waiting = [], 0
        at_points, inside = self._places.are_at(every), self._places.are_in_regions(every)
        outside = _entering(every, ~(at_points | inside), ends)
        alike = self._visited is self._outside and not (inside & ~at_points).any()
        at_no_point = outside if alike else _entering(every, ~at_points, ends)
        self._entered += len(at_no_point)
        self._outside = _renewed(self._outside, outside)
        self._visited = self._outside if alike else _renewed(self._visited, at_no_point)

    def memory(self) -> dict[str, NDArray[Any]]:
        """What `recall` needs to go on exactly from here: of the first ones, those that stay."""
        self._settle()
        return {
            "references": spread(self._outside, _KEPT),
            "visited": spread(self._visited, _KEPT),
            "unvisited": self._unvisited,
            "rollouts": np.array([self._rollouts]),
            "entered": np.array([self._entered]),
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered; checkpoints of before there were references have none."""
        if "references" not in memory:
            return
        shape = (None, *self._outside.shape[1:])
        self._arrived, self._waiting = [], 0
        self._rollouts = int(tensor(memory, "rollouts", (1,), "int64")[0])
        self._outside = tensor(memory, "references", shape)
        self._visited = tensor(memory, "visited" if "visited" in memory else "references", shape)
        self._entered = _ENOUGH if self._rollouts else 0
        if "unvisited" in memory:  # older ones go on with what a fresh policy would have
            self._unvisited = tensor(memory, "unvisited", shape)
            self._entered = int(tensor(memory, "entered", (1,), "int64")[0])


def _entering(every: Array, chosen: Mask, ends: Indices) -> Array:
    """Of each rollout that ends there some of the chosen states, one rollout behind the other."""
    pairs = zip(np.split(every, ends), np.split(chosen, ends), strict=True)
    return np.concatenate([spread(states[mask], _ENTER) for states, mask in pairs])


def _renewed(kept: Array, entering: Array) -> Array:
    """With what was just visited in the place of the oldest."""
    return np.concatenate([spread(kept, _KEPT), entering])[-_KEPT:]


def asked_to_change(policy: Policy, regional: Sequence[Regional], states: Array) -> Mask:
    """At which states (n, *observation_shape) the policy breaks what a region asks for (n,)."""
    asked = np.zeros(len(states), dtype=bool)
    if not len(states):
        return asked
    flat = states.reshape(len(states), -1)
    for one in regional:
        inside = np.flatnonzero(one.region.contains(flat))
        if len(inside):
            asked[inside] |= violations_at(policy, one, flat[inside]) > 0.0
    return asked


def spread(states: Array, count: int) -> Array:
    """At most so many, evenly from all of them."""
    if len(states) <= count:
        return states
    chosen: Array = states[np.arange(count) * (len(states) - 1) // max(count - 1, 1)]
    return chosen


def _keys(states: Array) -> list[bytes]:
    """Equal for states that are the same to an environment, which observes in float32."""
    with np.errstate(over="ignore"):  # beyond float32 everything is infinite
        rounded = states.astype(np.float32) + np.float32(0.0)  # -0.0 + 0.0 is 0.0
    whole = np.dtype((np.void, rounded.itemsize * rounded.shape[1]))
    keys: list[bytes] = np.ascontiguousarray(rounded).view(whole)[:, 0].tolist()
    return keys
