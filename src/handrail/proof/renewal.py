"""Proofs of several constraints, one network after the other: each starts from the last cells.

A network that has moved a little is proven by almost the same cells, so the search for them is not
done again. The cells contain the region whatever the network is; only how far they are divided is
remembered, never what was proven of them.

Cells of constraints that ask for the same are bounded all at once, by a compiled pass if there is
one, and what rounding can do is known for all of them at once, too. A constraint that this does not
prove, as a state seems to violate it or as it takes many cells, is left to a proof of its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail._storage import tensor
from handrail._types import Array, Indices
from handrail.constraints import PlacedConstraint, SlopeBounded, is_bound
from handrail.errors import InvalidRun
from handrail.policies import IDENTITY, RELU, LayerArrays, Policy
from handrail.proof.branch_and_bound import Budget, Leaves
from handrail.proof.certificate import Certificate
from handrail.proof.extent import Extent
from handrail.proof.judgement import MANY_VERTICES, VERTEX_BOUND, Judgement, certify_from
from handrail.proof.margin import UniformMargin
from handrail.proof.question import Question, provable_layers
from handrail.proof.rounding import FLOAT64, Rounding, arithmetic_of, float32_is_whole
from handrail.proof.vertex_bound import VertexBound
from handrail.regions import Cells, ExactCover

# Start over when the cells have become this many times more than a proof from scratch needed.
_TOO_MANY = 2

# So often cells are halved, and so many are open at most: what takes more has a proof of its own,
# which narrows its bounds to single cells.
_HALVINGS, _MOST_OPEN = 12, 128


@final
class Renewal:
    """The proofs of some constraints on regions, one network after the other.

    Args:
        constraints: each on a region.
    """

    def __init__(self, constraints: Sequence[PlacedConstraint]) -> None:
        self._caches = tuple(CellCache(one) for one in constraints)
        self._policy: Policy | None = None
        self._asked: dict[int, _AskedMargin | None] = {}  # of that policy, by number

    def certify(self, policy: Policy, budget: Budget) -> tuple[Certificate, ...]:
        """Of every constraint, in order, as `certify` of each.

        Args:
            policy: as it is.
            budget: when to give up one of them.
        """
        layers = provable_layers(policy)
        with np.errstate(all="ignore"):  # whatever is not finite proves nothing
            renewed = self._renewed(policy, layers, budget)
        return tuple(
            renewed[index] if index in renewed else cache.certify(policy, budget, layers)
            for index, cache in enumerate(self._caches)
        )

    def _renewed(
        self, policy: Policy, layers: LayerArrays, budget: Budget
    ) -> Mapping[int, Certificate]:
        """The certificates, by number, of all that bounds of a few cells prove."""
        acting = arithmetic_of(policy.dtype)
        if layers.activations != (RELU, IDENTITY) or not layers.is_finite:
            return {}
        if acting is not FLOAT64 and not float32_is_whole():
            return {}
        start, groups = perf_counter(), self._groups(policy, layers, budget)
        if not groups:
            return {}
        # Of bounds anywhere around all cells: larger than of each, and of no account.
        low, high = (
            np.min([one.low for one in groups], axis=0),
            np.max([one.high for one in groups], axis=0),
        )
        size = max(one.margin.size for one in groups)
        rounding = Rounding(layers, acting).of_bounds(low, high, size, simplices=True)
        if not np.isfinite(rounding):
            return {}
        found: dict[int, Certificate] = {}
        for group in groups:
            found |= group.proven(layers, rounding, budget.cells)
        each = (perf_counter() - start) / max(1, len(found))
        for index, certificate in found.items():
            self._caches[index].keep(certificate.leaves[0].cells)
        return {index: replace(one, seconds=each) for index, one in found.items()}

    def _groups(self, policy: Policy, layers: LayerArrays, budget: Budget) -> list[_MarginGroup]:
        """Constraints that ask for the same, on regions that are made of cells of one shape."""
        if policy is not self._policy:
            self._policy, self._asked = policy, {}
        groups: dict[tuple[object, ...], list[_GroupedCells]] = {}
        for index, cache in enumerate(self._caches):
            cells = cache.cells
            if cells is None or cache.constraint.for_policy(policy) is not cache.constraint:
                continue
            if index not in self._asked:
                self._asked[index] = _AskedMargin.of(policy, layers, cache.constraint)
            asked = self._asked[index]
            fits = len(cells) <= budget.cells and cells.n_vertices <= MANY_VERTICES
            if asked is not None and fits:
                shape = cells.simplex.shape[1:], *cells.simplex_coordinates.tolist()
                groups.setdefault((asked.key, *shape), []).append(
                    _GroupedCells(index, asked, cells)
                )
        return [_MarginGroup.of(members) for members in groups.values()]

    def memory(self) -> dict[str, NDArray[Any]]:
        """What `recall` needs: how the cells of the last proofs are divided."""
        return {
            f"{number}.{key}": value
            for number, one in enumerate(self._caches)
            for key, value in one.memory().items()
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""
        for number, one in enumerate(self._caches):
            prefix = f"{number}."
            own = [key for key in memory if key.startswith(prefix)]
            one.recall({key.removeprefix(prefix): memory[key] for key in own})


@final
@dataclass(frozen=True)
class _AskedMargin:
    """What one constraint asks of a policy at every state, whatever its weights.

    Attributes:
        margin: what must be positive.
        name: what a certificate calls the worst value.
        key: the same for constraints with the same margin.
        template: a certificate that lacks all that was proven.
    """

    margin: UniformMargin
    name: str
    key: tuple[bytes, ...]
    template: Certificate

    @classmethod
    def of(
        cls, policy: Policy, layers: LayerArrays, constraint: PlacedConstraint
    ) -> _AskedMargin | None:
        """None if there is more to it than one margin, the same everywhere."""
        if constraint.depends_on_state or isinstance(constraint, SlopeBounded):
            return None
        question = Question.of(policy, layers, constraint, tolerance=0.0)
        # Outputs that depend on anything but the weights are left to a proof of its own.
        if (
            question.is_choice
            or question.twin is not None
            or question.obstacle
            or question.ends is not None
            or question.layers is not layers
        ):
            return None
        assert constraint.region is not None  # cells are of one
        low, high = constraint.region.bounds
        claims = question.claims(Extent(low[None], high[None]))
        if len(claims) != 1 or claims[0].holds_anyway or claims[0].reach:
            return None
        sides = claims[0].alternatives
        if len(sides) != 1 or len(sides[0]) != 1:
            return None
        side = sides[0][0]
        if not isinstance(side.margin, UniformMargin) or side.margin.functions:
            return None
        differences, constants = side.margin.differences(layers.biases[-1])
        key = differences.tobytes(), constants.tobytes(), side.name.encode()
        template = Judgement(question).certified({}, VERTEX_BOUND, cells=0)
        return _AskedMargin(side.margin, side.name, key, template)

    def certificate(self, leaves: Leaves, rounding: float, cells: int) -> Certificate | None:
        """Of proven cells; None if what is left of the bound is no number."""
        worst = self.margin.worst_value(float(leaves.lowest.min()) - rounding)
        if not np.isfinite(worst):
            return None
        lowest, highest = (worst if self.name == one else None for one in ("lowest", "highest"))
        return replace(self.template, lowest=lowest, highest=highest, cells=cells, leaves=(leaves,))


@final
@dataclass(frozen=True)
class _GroupedCells:
    """A constraint, by its number, and cells that make its region."""

    index: int
    asked: _AskedMargin
    cells: Cells


@final
@dataclass(frozen=True)
class _MarginGroup:
    """Constraints with one margin.

    Attributes:
        members: the constraints.
        margin: of all of them.
        cells: of all of them, one behind the other.
        low: (n_coordinates,) of a box around the cells, and
        high: (n_coordinates,).
    """

    members: Sequence[_GroupedCells]
    margin: UniformMargin
    cells: Cells
    low: Array
    high: Array

    @classmethod
    def of(cls, members: Sequence[_GroupedCells]) -> _MarginGroup:
        """With cells of one shape."""
        cells = _together([one.cells for one in members])
        low, high = cells.low.min(axis=0), cells.high.max(axis=0)
        return cls(members, members[0].asked.margin, cells, low, high)

    def proven(self, layers: LayerArrays, rounding: float, most: int) -> dict[int, Certificate]:
        """The certificates of those that are proven, by number.

        Args:
            layers: of the network.
            rounding: a bound must exceed this to count.
            most: bounds that may be computed for each.
        """
        bounder = VertexBound.of(layers, self.margin)
        if not bounder.is_single:
            return {}
        owners = np.repeat(
            [one.index for one in self.members], [len(one.cells) for one in self.members]
        )
        found = _Bounded.of(bounder, self.cells, owners, rounding, most)
        proven: dict[int, Certificate] = {}
        for one in self.members:
            if one.index not in found.open_:
                own = found.owners == one.index
                leaves = Leaves(found.cells.take(own), found.lowest[own])
                count = found.counts[one.index]
                certificate = one.asked.certificate(leaves, rounding, count)
                if certificate is not None:
                    proven[one.index] = certificate
        return proven


@final
@dataclass(frozen=True)
class _Bounded:
    """Cells that are proven, after some were halved.

    Attributes:
        cells: all of them.
        lowest: (n,) what the margin at least is.
        owners: (n,) the constraint that each is of.
        open_: the constraints of which some cells are not proven.
        counts: of every constraint, how many bounds were computed.
    """

    cells: Cells
    lowest: Array
    owners: Indices
    open_: frozenset[int]
    counts: Mapping[int, int]

    @classmethod
    def of(
        cls, bounder: VertexBound, cells: Cells, owners: Indices, rounding: float, most: int
    ) -> _Bounded:
        """Of n cells, and the constraints (n,) they are of: each has so many bounds at most."""
        done: list[tuple[Cells, Array, Indices]] = []
        given_up: set[int] = set()
        counts = Counter(owners.tolist())
        for _ in range(_HALVINGS + 1):
            lowest, somewhere = bounder.single_bounds(cells).T
            proven = np.isfinite(lowest) & (lowest >= rounding)
            done.append((cells.take(proven), lowest[proven], owners[proven]))
            cells, owners = cells.take(~proven), owners[~proven]
            given_up |= set(owners[~(somewhere[~proven] >= rounding)].tolist())
            # Each of them is two cells next time.
            again = Counter(2 * owners.tolist())
            given_up |= {one for one, count in again.items() if counts[one] + count > most}
            left = ~np.isin(owners, list(given_up))
            if not left.any() or left.sum() > _MOST_OPEN:
                break
            cells = cells.take(left).halves(bounder.importance)
            owners = np.repeat(owners[left], 2)
            counts += Counter(owners.tolist())
        given_up |= set(owners.tolist())
        return cls(
            _together([cells for cells, _, _ in done]),
            np.concatenate([lowest for _, lowest, _ in done]),
            np.concatenate([owners for _, _, owners in done]),
            frozenset(given_up),
            counts,
        )


@final
@dataclass(frozen=True)
class _Known:
    """The cells of the last proof, and how many the last one from scratch needed."""

    cells: Cells
    from_scratch: int


@final
class CellCache:
    """The proofs of one constraint on one region, one network after the other.

    Args:
        constraint: on the region.
    """

    def __init__(self, constraint: PlacedConstraint) -> None:
        self._constraint = constraint
        self._known: _Known | None = None

    def certify(
        self, policy: Policy, budget: Budget, layers: LayerArrays | None = None
    ) -> Certificate:
        """As `certify`, from the cells that are known.

        Args:
            policy: as it is.
            budget: when to give up.
            layers: the policy's, if they were read already.
        """
        known = self._known
        covers = None if known is None else [ExactCover(known.cells)]
        answer = certify_from(policy, self._constraint, covers, budget=budget, layers=layers)
        if answer.certified:
            self._learn(answer)
        return answer

    @property
    def constraint(self) -> PlacedConstraint:
        """On its region."""
        return self._constraint

    @property
    def cells(self) -> Cells | None:
        """Whose union is the region: of the last proof, else as few as it is made of."""
        return self._whole if self._known is None else self._known.cells

    def keep(self, cells: Cells) -> None:
        """The cells were divided, and proven."""
        from_scratch = len(cells) if self._known is None else self._known.from_scratch
        too_many = len(cells) > _TOO_MANY * from_scratch
        self._known = None if too_many else _Known(cells, from_scratch)

    def _learn(self, answer: Certificate) -> None:
        both = is_bound(answer.lower) and is_bound(answer.upper)
        # Two bounds have cells of their own each.
        if both or self._whole is None or not answer.leaves:
            self._known = None
        else:
            self.keep(_together([leaf.cells for leaf in answer.leaves]))

    @cached_property
    def _whole(self) -> Cells | None:
        """None of a curve or a ball: only its own cover knows how to become finer."""
        assert self._constraint.region is not None  # it is on one
        covers = self._constraint.region.covers()
        exact = len(covers) == 1 and isinstance(covers[0], ExactCover)
        return covers[0].cells if exact else None

    def memory(self) -> dict[str, NDArray[Any]]:
        """What `recall` needs; nothing if nothing is known."""
        if self._known is None:
            return {}
        cells = self._known.cells
        return {
            "low": cells.low,
            "high": cells.high,
            "simplex": cells.simplex,
            "simplex_coordinates": cells.simplex_coordinates,
            "from_scratch": np.array([self._known.from_scratch]),
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""
        self._known = None
        if memory:
            assert self._constraint.region is not None  # it is on one
            wide = self._constraint.region.n_coordinates
            low = tensor(memory, "low", (None, wide))
            coordinates = tensor(memory, "simplex_coordinates", (None,), "int64")
            if len(low) == 0 or not set(coordinates.tolist()) <= set(range(wide)):
                raise InvalidRun("The cells of a proof are those of another region.")
            cells = Cells(
                low,
                tensor(memory, "high", low.shape),
                tensor(memory, "simplex", (len(low), len(coordinates) + 1, len(coordinates))),
                coordinates,
            )
            self._known = _Known(cells, int(tensor(memory, "from_scratch", (1,), "int64")[0]))


def _together(blocks: Sequence[Cells]) -> Cells:
    """Cells of one shape, one block behind the other."""
    return Cells(
        np.concatenate([block.low for block in blocks]),
        np.concatenate([block.high for block in blocks]),
        np.concatenate([block.simplex for block in blocks]),
        blocks[0].simplex_coordinates,
    )
