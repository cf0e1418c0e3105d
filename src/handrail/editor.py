"""Obey, then come as close as possible to what the policy was.

`enforce` takes the shortest way of the weights. That need not be the least change of the policy: a
small change of the weights can move the policy everywhere. So what it did is taken back again
wherever no constraint asked for it, step by step, and after every step the policy is made to obey
again (the Levenberg-Marquardt method on closeness.py's distance).
"""

from __future__ import annotations

from dataclasses import replace
from typing import final

import numpy as np

from handrail.arrays import Array
from handrail.closeness import Closeness
from handrail.enforcement import Enforcement, distance
from handrail.errors import InvalidPolicy, SolverFailure
from handrail.expansion import Expansion
from handrail.gradients import Gradient, restore, snapshot, take_step
from handrail.obedience import make_rules
from handrail.policies import Policy
from handrail.references import References
from handrail.rows import Rows
from handrail.rules import Rules
from handrail.selections import Everywhere, Selection

_MAX_STEPS = 60
_MAX_FAILURES = 6
# μ of the first step, in units of an output's squared gradient, and what failure makes of it;
# success does the opposite.
_DAMPING, _DAMPED_BY = 1.0, 4.0
# Two steps in a row that gain less than this part of the distance are the last.
_WORTH_IT = 0.01


@final
class Editor:
    """One edit: obey, come closer again, then prove.

    Args:
        policy: changed in place.
        expansion: the constraints.
        selection: how regions are held.
        references: where the policy should stay as it is.
        tolerance: the largest violation allowed at points.
    """

    def __init__(
        self,
        policy: Policy,
        expansion: Expansion,
        selection: Selection,
        references: References,
        tolerance: float,
    ) -> None:
        self._policy = policy
        self._expansion = expansion
        self._tolerance = tolerance
        self._margin = selection.margin if isinstance(selection, Everywhere) else 0.0
        # Proofs take longer than searches, and only the last policy needs one.
        searched = _without_proof(selection)
        self._rules = make_rules(expansion, searched, policy)
        self._seen: tuple[Array, ...] = ()
        self._closeness = Closeness(policy, references.states)
        self._start = snapshot(policy)

    def hold(self, last: Rules) -> Enforcement:
        """How the policy was made to obey, all in all; unsatisfied, it is as it was.

        Args:
            last: the same constraints, with proofs if there are to be any.
        """
        parts = [self._rules.hold(self._policy, self._tolerance)]
        if parts[0].satisfied:
            parts += self._come_closer()
            parts.append(last.hold(self._policy, self._tolerance))
        if not parts[-1].satisfied:
            restore(self._policy, self._start)
        return replace(
            parts[-1],
            history=tuple(iteration for part in parts for iteration in part.history),
            rounds=sum(part.rounds for part in parts),
            parameter_change=distance(self._policy, self._start),
        )

    def _come_closer(self) -> list[Enforcement]:
        """Steps that each take back a part of what was changed, all constraints held."""
        taken: list[Enforcement] = []
        far = self._closeness.distance()
        if far == 0.0:  # it obeyed from the beginning
            return taken
        damping, failures, idle = _DAMPING, 0, 0
        rows = self._rows()
        around = self._closeness.neighbourhood(rows, self._tolerance)
        for _ in range(_MAX_STEPS):
            if failures == _MAX_FAILURES or idle == 2:
                break
            step = around.step(damping)
            attempt = None if step is None else self._attempt(step, far)
            known, rows = len(rows), self._rows()
            if attempt is not None or len(rows) > known:  # a failure, too, may have found states
                around = self._closeness.neighbourhood(rows, self._tolerance)
            if attempt is None:
                damping, failures = damping * _DAMPED_BY, failures + 1
                continue
            taken.append(attempt)
            damping, failures = damping / _DAMPED_BY, 0
            closer = self._closeness.distance()
            idle = idle + 1 if closer > (1.0 - _WORTH_IT) * far else 0
            far = closer
        return taken

    def _attempt(self, step: Gradient, far: float) -> Enforcement | None:
        """Take a step and obey again; if that is not closer, go back."""
        here = snapshot(self._policy)
        take_step(self._policy, step, 1.0)
        try:
            held = self._obey_closer(far)
        except (InvalidPolicy, SolverFailure):  # so long a step that the network overflows
            held = None
        if held is None:
            restore(self._policy, here)
        return held

    def _obey_closer(self, far: float) -> Enforcement | None:
        """Obey again; None if that leads nowhere, or not closer than this far."""
        if self._closeness.distance() >= far:
            return None
        held = self._rules.hold(self._policy, self._tolerance)
        closer = held.satisfied and self._closeness.distance() < far
        return held if closer else None

    def _rows(self) -> Rows:
        """The constraints at points, and all states of regions that mattered so far.

        Those that are held at present are too few: once a step has brought the others inside, the
        next would not know of them, leave at one of them, and be taken back. Attempts that failed
        have found some, too.
        """
        stars, seen = self._rules.stars, self._seen or self._rules.stars
        both = zip(seen, stars, strict=True)
        self._seen = tuple(np.unique(np.concatenate(pair), axis=0) for pair in both)
        pairs = zip(self._expansion.regional, self._seen, strict=False)
        blocks = [one.inside_rows_at(states, self._margin) for one, states in pairs if len(states)]
        if self._expansion.fixed is None and not blocks:  # none is near its bound any more
            return self._expansion.rows(per_region=1)
        return self._expansion.rows_with(blocks)


def _without_proof(selection: Selection) -> Selection:
    if isinstance(selection, Everywhere):
        return selection.model_copy(update={"prove": False})
    return selection
