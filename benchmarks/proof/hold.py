"""What it took to hold regions, seen from outside while the real code runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import final
from unittest.mock import patch

from handrail.enforcement import Enforcement
from handrail.enforcement.elsewhere import Elsewhere
from handrail.enforcement.enforcer import RegionEnforcer
from handrail.policies import Policy


@final
@dataclass(frozen=True)
class Hold:
    """One time that a policy was made to obey on regions.

    Attributes:
        rounds: of exchange; 0 if no state had to enter.
        iterations: linearisations in all of them.
        working_states: that are held afterwards, of all regions together.
    """

    rounds: int
    iterations: int
    working_states: int


@contextmanager
def taped_holds() -> Iterator[list[Hold]]:
    """Every hold of the block, in order."""
    tape: list[Hold] = []
    hold = RegionEnforcer.hold

    def hold_and_tape(
        self: RegionEnforcer,
        policy: Policy,
        elsewhere: Elsewhere | None = None,
    ) -> Enforcement:
        result = hold(self, policy, elsewhere)
        tape.append(Hold(result.rounds, result.iterations, sum(map(len, self.active_states))))
        return result

    with patch.object(RegionEnforcer, "hold", hold_and_tape):
        yield tape
