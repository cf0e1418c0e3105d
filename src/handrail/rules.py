"""What a learner obeys: constraints at points, chosen states of regions, or whole regions.

Three kinds of rules, one interface: which rows the next step is solved for, how the rules are held
exactly, and how far a policy is from obeying them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail.arrays import Array
from handrail.batches import PolicyGradient
from handrail.enforcement import Enforcement, enforce_rows
from handrail.policies import Policy
from handrail.rows import Rows
from handrail.violations import Violations, measure_rows

Memory = dict[str, NDArray[Any]]


class Rules(ABC):
    """What a learner obeys, and what it remembers of it from update to update."""

    @abstractmethod
    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The rows that the next step is solved for."""

    @abstractmethod
    def hold(self, policy: Policy, tolerance: float, values: Array | None = None) -> Enforcement:
        """Make the policy obey, in place; on failure it is as it was.

        Args:
            policy: changed as little as possible.
            tolerance: the largest violation allowed.
            values: of the rows of the last step (n_rows,), if they are known already.
        """

    @abstractmethod
    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """The worst, of the policy as it is; `values` as for `hold`."""

    @abstractmethod
    def measure(self, policy: Policy) -> Violations:
        """Row by row, worst first; regions on a sample."""

    @abstractmethod
    def memory(self) -> Memory:
        """What `recall` needs to go on exactly from here."""

    @abstractmethod
    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""

    @property
    @abstractmethod
    def stars(self) -> tuple[Array, ...]:
        """The states of regions that are constrained at present, for pictures."""


@final
class FixedRules(Rules):
    """Constraints at points: always the same rows."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """All of them."""
        del policy, gradient, step_size
        return self._rows

    def hold(self, policy: Policy, tolerance: float, values: Array | None = None) -> Enforcement:
        """By relinearising."""
        if values is not None:
            violation = float(self._rows.violations(values).max())
            if violation <= tolerance:
                return Enforcement(True, violation, (), 0.0, None, "")
        return enforce_rows(policy, self._rows, tolerance)

    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """Of all rows."""
        if values is None:
            values = self._rows.values(policy.outputs(self._rows.states))
        return float(self._rows.violations(values).max())

    def measure(self, policy: Policy) -> Violations:
        """All rows."""
        return measure_rows(policy, self._rows)

    def memory(self) -> Memory:
        """Nothing."""
        return {}

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Nothing."""

    @property
    def stars(self) -> tuple[Array, ...]:
        """None: points are drawn as such."""
        return ()


def pack_states(prefix: str, blocks: Sequence[Array]) -> Memory:
    """States of several regions, by their numbers."""
    return {f"{prefix}.{number}": np.array(block) for number, block in enumerate(blocks)}


def unpack_states(prefix: str, memory: Mapping[str, NDArray[Any]]) -> tuple[Array, ...]:
    """What `pack_states` packed."""
    count = sum(key.startswith(f"{prefix}.") for key in memory)
    return tuple(memory[f"{prefix}.{number}"] for number in range(count))
