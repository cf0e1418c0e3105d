"""Proofs of one constraint, one network after the other: each starts from the cells of the last.

A network that has moved a little is proven by almost the same cells, so the search for them is not
done again. The cells contain the region whatever the network is; only how far they are divided is
remembered, never what was proven of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail._storage import tensor
from handrail.constraints import PlacedConstraint, is_bound
from handrail.errors import InvalidRun
from handrail.policies import LayerArrays, Policy
from handrail.proof.branch_and_bound import Budget
from handrail.proof.certificate import Certificate
from handrail.proof.judgement import certify_from
from handrail.regions import Cells, ExactCover

# Start over when the cells have become this many times more than a proof from scratch needed.
_TOO_MANY = 2


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
            self._known = self._learned(answer, known)
        return answer

    def _learned(self, answer: Certificate, known: _Known | None) -> _Known | None:
        assert self._constraint.region is not None  # it is on one
        covers = self._constraint.region.covers()
        both = is_bound(answer.lower) and is_bound(answer.upper)
        # Two bounds have cells of their own each; of a curve or a ball, only its own cover knows
        # how to become finer.
        if both or len(covers) != 1 or not isinstance(covers[0], ExactCover) or not answer.leaves:
            return None
        cells = _together([leaf.cells for leaf in answer.leaves])
        from_scratch = len(cells) if known is None else known.from_scratch
        return None if len(cells) > _TOO_MANY * from_scratch else _Known(cells, from_scratch)

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


def _together(blocks: list[Cells]) -> Cells:
    return Cells(
        np.concatenate([block.low for block in blocks]),
        np.concatenate([block.high for block in blocks]),
        np.concatenate([block.simplex for block in blocks]),
        blocks[0].simplex_coordinates,
    )
