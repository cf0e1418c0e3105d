"""Proofs of several constraints, one network after the other: each starts from the last cells.

A network that has moved a little is proven by almost the same cells, so the search for them is not
done again. The cells contain the region whatever the network is; only how far they are divided is
remembered, never what was proven of them.

Cells of constraints that ask for the same are bounded all at once, by a compiled pass if there is
one, and what rounding can do is known for all of them at once, too. A constraint that this does not
prove, as a state seems to violate it or as it takes many cells, is left to a proof of its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail._storage import tensor
from handrail._types import Array, Indices
from handrail.constraints import PlacedConstraint, SlopeBounded, is_bound
from handrail.errors import InvalidConstraint, InvalidRun
from handrail.policies import IDENTITY, RELU, LayerArrays, Policy
from handrail.proof.branch_and_bound import Budget, Leaves
from handrail.proof.certificate import Certificate
from handrail.proof.extent import Extent
from handrail.proof.judgement import MANY_VERTICES, VERTEX_BOUND, Judgement, certify_from
from handrail.proof.margin import LinearMargin, SoftmaxMargin, UniformMargin
from handrail.proof.question import Question, provable_layers
from handrail.proof.rounding import FLOAT64, Rounding, arithmetic_of, float32_is_whole
from handrail.proof.vertex_bound import BoundedCells, CellCorners, VertexBound, together
from handrail.regions import Cells, ExactCover

# Start over when the cells have become this many times more than a proof from scratch needed.
_TOO_MANY = 2

# Of a cell that counts as one: one with more counts as several.
_VERTICES = 16

# What a few cells neither prove nor refute is tried once in 64 times in the end.
_MOST_IN_VAIN = 6


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
        self._groups: dict[tuple[object, ...], _MarginGroup] = {}  # of the last network

    def certify(
        self, policy: Policy, budget: Budget, known: Mapping[int, Certificate] | None = None
    ) -> tuple[Certificate, ...]:
        """Of every constraint, in order, as `certify` of each.

        Args:
            policy: as it is.
            budget: when to give up one of them.
            known: what `of_few_cells` has just proven of the same policy, if it was asked.
        """
        layers = provable_layers(policy)
        if known is None:
            every = range(len(self._caches))
            known = self._renewed(policy, layers, every, budget.cells).certificates
        return tuple(
            known[index] if index in known else cache.certify(policy, budget, layers)
            for index, cache in enumerate(self._caches)
        )

    def of_few_cells(self, policy: Policy, cells: int) -> FewCells:
        """What bounds of a few cells say.

        Nothing of a network that they are not for, or of a constraint that takes more, which is
        tried more and more seldom then.

        Args:
            policy: as it is, provable or not.
            cells: how many may be bounded for each constraint, fewer if they have many vertices.
        """
        layers = policy.layers()
        if layers is None or layers.activations != (RELU, IDENTITY):
            return FewCells({}, {})
        due = [index for index, cache in enumerate(self._caches) if cache.is_due()]
        said = self._renewed(policy, layers.arrays(), due, cells)
        for index in due:
            self._caches[index].tried(index in said.certificates or index in said.suspects)
        return said

    @np.errstate(all="ignore")  # whatever is not finite proves nothing
    def _renewed(
        self, policy: Policy, layers: LayerArrays, among: Collection[int], most: int
    ) -> FewCells:
        nothing = FewCells({}, {})
        acting = arithmetic_of(policy.dtype)
        if layers.activations != (RELU, IDENTITY) or not layers.is_finite:
            return nothing
        if acting is not FLOAT64 and not float32_is_whole():
            return nothing
        start = perf_counter()
        self._groups = groups = self._grouped(policy, layers, among, most)
        if not groups:
            return nothing
        # Of bounds anywhere around all cells: larger than of each, and of no account.
        low, high = (
            np.min([one.low for one in groups.values()], axis=0),
            np.max([one.high for one in groups.values()], axis=0),
        )
        size = max(one.margin.size for one in groups.values())
        rounding = Rounding(layers, acting).of_bounds(low, high, size, simplices=True)
        if not np.isfinite(rounding):
            return nothing
        proven: list[tuple[_GroupedCells, Leaves, int]] = []
        suspects: dict[int, Array] = {}
        for group in groups.values():
            bounder = VertexBound.of(layers, group.margin)
            if bounder.is_single:
                few = most * _VERTICES // max(_VERTICES, group.cells.n_vertices)
                bounded = BoundedCells.of(
                    bounder, group.cells, group.corners, group.owners, rounding, few
                )
                proven += group.leaves_in(bounded)
                suspects |= bounded.suspects
        each = (perf_counter() - start) / max(1, len(proven))
        certificates: dict[int, Certificate] = {}
        for one, leaves, count in proven:
            certificate = one.asked.certificate(leaves, rounding, count, each)
            if certificate is not None:
                certificates[one.index] = certificate
                self._caches[one.index].keep(leaves.cells)
        return FewCells(certificates, suspects)

    def _grouped(
        self, policy: Policy, layers: LayerArrays, among: Collection[int], most: int
    ) -> dict[tuple[object, ...], _MarginGroup]:
        """Constraints that ask for the same, on regions that are made of cells of one shape."""
        if policy is not self._policy:
            self._policy, self._asked = policy, {}
        groups: dict[tuple[object, ...], list[_GroupedCells]] = {}
        for index in among:
            cache = self._caches[index]
            cells = cache.cells
            if cells is None or cache.constraint.for_policy(policy) is not cache.constraint:
                continue
            if index not in self._asked:
                self._asked[index] = _asked_margin(policy, layers, cache.constraint)
            asked = self._asked[index]
            fits = len(cells) <= most and cells.n_vertices <= MANY_VERTICES
            if asked is not None and fits:
                # Together in what varies, too: each cell of a group has the vertices of all.
                inside, around = cells.simplex_coordinates, cells.box_coordinates
                shape = cells.simplex.shape[1:], inside.tobytes(), around.tobytes()
                member = _GroupedCells(index, asked, cells)
                groups.setdefault((asked.key, *shape), []).append(member)
        # The cells are mostly those of the last time.
        last = self._groups
        return {
            key: last[key] if key in last and last[key].has(members) else _MarginGroup.of(members)
            for key, members in groups.items()
        }

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
class FewCells:
    """What bounds of a few cells say of some constraints, by number.

    Attributes:
        certificates: of all that they prove.
        suspects: of some that they do not, states (n, n_coordinates), at one of which, or near to
            it, the constraint is violated, if rounding does not deceive.
    """

    certificates: Mapping[int, Certificate]
    suspects: Mapping[int, Array]


@final
@dataclass(frozen=True)
class _AskedMargin:
    """What one constraint asks of a policy at every state, whatever its weights.

    Attributes:
        margin: what must be positive.
        name: what a certificate calls the worst value.
        template: a certificate that lacks all that was proven.
    """

    margin: SoftmaxMargin | LinearMargin
    name: str
    template: Certificate

    @property
    def key(self) -> tuple[object, ...]:
        """The same for constraints with the same margin."""
        return self.name, *self.margin.key

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
        if not isinstance(side.margin, SoftmaxMargin | LinearMargin):
            return None
        template = Judgement(question).certified({}, VERTEX_BOUND, cells=0)
        return _AskedMargin(side.margin, side.name, template)

    def certificate(
        self, leaves: Leaves, rounding: float, cells: int, seconds: float
    ) -> Certificate | None:
        """Of proven cells; None if what is left of the bound is no number."""
        worst = self.margin.worst_value(float(leaves.lowest.min()) - rounding)
        if not np.isfinite(worst):
            return None
        lowest, highest = (worst if self.name == one else None for one in ("lowest", "highest"))
        return replace(
            self.template,
            lowest=lowest,
            highest=highest,
            cells=cells,
            leaves=(leaves,),
            seconds=seconds,
        )


def _asked_margin(
    policy: Policy, layers: LayerArrays, constraint: PlacedConstraint
) -> _AskedMargin | None:
    try:
        return _AskedMargin.of(policy, layers, constraint)
    except InvalidConstraint:  # no proof looks into it, which whoever wants one is told
        return None


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
        cells: of all of them, one behind the other.
        owners: (n,) the constraint that each cell is of.
        low: (n_coordinates,) of a box around the cells, and
        high: (n_coordinates,).
    """

    members: Sequence[_GroupedCells]
    cells: Cells
    owners: Indices
    low: Array
    high: Array

    @classmethod
    def of(cls, members: Sequence[_GroupedCells]) -> _MarginGroup:
        """With cells of one shape."""
        cells = together([one.cells for one in members])
        owners = np.repeat([one.index for one in members], [len(one.cells) for one in members])
        return cls(members, cells, owners, cells.low.min(axis=0), cells.high.max(axis=0))

    @property
    def margin(self) -> UniformMargin:
        """Of all of them."""
        return self.members[0].asked.margin

    @cached_property
    def corners(self) -> CellCorners:
        """Of the cells."""
        return CellCorners.of(self.cells)

    def has(self, members: Sequence[_GroupedCells]) -> bool:
        """Whether it is made of these."""
        return len(members) == len(self.members) and all(
            one.index == other.index and one.asked is other.asked and one.cells is other.cells
            for one, other in zip(members, self.members, strict=True)
        )

    def leaves_in(self, bounded: BoundedCells) -> list[tuple[_GroupedCells, Leaves, int]]:
        """The constraints that are proven, their cells, and how many bounds that took."""
        found = []
        for one in self.members:
            if one.index not in bounded.open_:
                own, count = bounded.owners == one.index, bounded.counts[one.index]
                # Those that were not halved are the same ones, and known as such next time.
                cells = one.cells if count == len(one.cells) else bounded.cells.take(own)
                found.append((one, Leaves(cells, bounded.lowest[own]), count))
        return found


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
        self._in_vain = self._wait = 0

    def is_due(self) -> bool:
        """Whether to try it with a few cells; what n times was in vain is left out 2^n times."""
        self._wait = max(0, self._wait - 1)
        return self._wait == 0

    def tried(self, answered: bool) -> None:
        """A few cells have proven or refuted it, or not."""
        self._in_vain = 0 if answered else min(self._in_vain + 1, _MOST_IN_VAIN)
        self._wait = 0 if answered else 2**self._in_vain

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
            self.keep(together([leaf.cells for leaf in answer.leaves]))

    @cached_property
    def _whole(self) -> Cells | None:
        """None of a curve or a ball: only its own cover knows how to become finer."""
        assert self._constraint.region is not None  # it is on one
        try:
            covers = self._constraint.region.covers()
        except InvalidConstraint:  # there is none, which whoever wants it proven is told
            return None
        exact = len(covers) == 1 and isinstance(covers[0], ExactCover)
        return covers[0].cells if exact else None

    def memory(self) -> dict[str, NDArray[Any]]:
        """What `recall` needs."""
        attempts = {"attempts": np.array([self._in_vain, self._wait], dtype=np.int64)}
        if self._known is None:
            return attempts
        cells = self._known.cells
        return attempts | {
            "low": cells.low,
            "high": cells.high,
            "simplex": cells.simplex,
            "simplex_coordinates": cells.simplex_coordinates,
            "from_scratch": np.array([self._known.from_scratch]),
        }

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""
        self._known, self._in_vain, self._wait = None, 0, 0
        if "attempts" in memory:  # older files have none
            self._in_vain, self._wait = tensor(memory, "attempts", (2,), "int64").tolist()
        if "low" in memory:
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
