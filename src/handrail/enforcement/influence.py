"""What holding constraints did to a policy where no constraint speaks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np

from handrail._types import Array
from handrail.constraints import counted, html_table, state_in_words
from handrail.enforcement.references import References
from handrail.policies import Quantity

_ROUNDING = 1e-6


@final
@dataclass(frozen=True, repr=False)
class Influence:
    """A policy before and after, on reference states.

    Attributes:
        states: how many reference states there were.
        origin: where they came from, in words.
        quantity: what the policy decides: probabilities, or mean actions.
        largest_change: of any output, at any of them.
        at: (*observation_shape), the state where it is.
        action: whose output changed most there; of two probabilities the second.
        mean_before: that output before, averaged over the states.
        mean_after: the same after.
        mean_change: the largest change of an output at a state, averaged over states.
        changed_choices: at how many of them another action is the most probable one; None where
            actions are continuous.
    """

    states: int
    origin: str
    quantity: Quantity
    largest_change: float
    at: Array
    action: int
    mean_before: float
    mean_after: float
    mean_change: float
    changed_choices: int | None

    @property
    def share_of_changed_choices(self) -> float | None:
        """Of the reference states, those at which another action is the most probable one."""
        return None if self.changed_choices is None else self.changed_choices / self.states

    @property
    def output_in_words(self) -> str:
        """Of which the largest change is: "the probability of action 0", "mean action 0"."""
        return self.quantity.of_action(self.action)

    def with_names(self, observations: Sequence[str], actions: Sequence[str]) -> str:
        """In short: "P(right) 0.19 → 0.18 on average, at most 0.06 at (x = 1, phi = 0.2)".

        Args:
            observations: their names, in the environment's order.
            actions: their names.
        """
        return (
            f"{self.quantity.of_named(actions[self.action])} {self.mean_before:.2f} → "
            f"{self.mean_after:.2f} on average, at most {self.largest_change:.2g} at "
            f"{state_in_words(self.at, observations)}"
        )

    def __str__(self) -> str:
        states = counted(self.states, "reference state")
        text = (
            f"On {states} ({self.origin}): the largest change of a {self.quantity.noun} is "
            f"{self.largest_change:.2g}, of action {self.action} at "
            f"{state_in_words(self.at)}; on average {self.mean_change:.2g}"
        )
        share = self.share_of_changed_choices
        if share is None:
            return f"{text}."
        return f"{text}; another action is the most probable one at {share:.2%} of them."

    def __repr__(self) -> str:
        states = counted(self.states, "reference state")
        return f"<Influence: at most {self.largest_change:.2g} on {states}>"

    def _repr_html_(self) -> str:
        return html_table("", self.as_rows())

    def as_rows(self) -> list[tuple[str, str]]:
        """Names and values, for a table."""
        rows = [
            ("reference states", f"{self.states:,}, {self.origin}"),
            ("largest change", f"{self.largest_change:.2g} of {self.output_in_words}"),
            ("at", state_in_words(self.at)),
            ("mean change", f"{self.mean_change:.2g}"),
        ]
        share = self.share_of_changed_choices
        return rows if share is None else [*rows, ("other choice at", f"{share:.2%} of the states")]


def influence_between(
    references: References, before: Array, after: Array, quantity: Quantity
) -> Influence:
    """From the policy's outputs (n, n_actions) at the reference states, before and after."""
    change = np.abs(after - before)
    state = int(change.max(axis=1).argmax())
    # Of two probabilities one changes as the other does: rounding must not choose.
    alike = change[state] >= (1.0 - _ROUNDING) * change[state].max()
    action = int(np.flatnonzero(alike)[-1])
    return Influence(
        states=len(references),
        origin=references.origin,
        quantity=quantity,
        largest_change=float(change[state, action]),
        at=references.states[state],
        action=action,
        mean_before=float(before[:, action].mean()),
        mean_after=float(after[:, action].mean()),
        mean_change=float(change.max(axis=1).mean()),
        changed_choices=quantity.changed_choices(before, after),
    )
