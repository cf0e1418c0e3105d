"""The policy where no constraint speaks, while it is made to obey where they do.

An `Anchor` is its first order at reference states, and the metric that keeps it there; `Elsewhere`
is what should stay as it is during one holding, and yields where it cannot; its `Influence` is what
became of it.

The shortest way of the weights need not be the least change of the policy: a small change of the
weights can move the policy everywhere. So the length of a step Δ of the weights is

    mean_j (∇y_j · Δ)² / |∇y|² + reach ‖Δ‖²,

with y the policy at the reference states, in coordinates in which a squared change is twice the
Kullback-Leibler divergence (`Policy.natural`: of a mean action, standard deviations), and |∇y|² the
mean of their squared gradients. A large reach is the shortest way of the weights: what is asked at
one state is advice for all others. The smaller it is, the more the references stay as they were.

With J the gradients of the n coordinates, that is Δᵀ M Δ up to a factor, where M = JᵀJ + ρI and
ρ = reach · n |∇y|². Woodbury's identity turns M⁻¹ into kernels of as many rows as there are
references and constraints, however many the weights: with K = JJᵀ, A the gradients of the
constraint rows and C = AJᵀ,

    M⁻¹Aᵀ = (Aᵀ - Jᵀ (K + ρ)⁻¹ Cᵀ) / ρ,     A M⁻¹Aᵀ = (AAᵀ - C (K + ρ)⁻¹ Cᵀ) / ρ.

At constrained states y is what was not asked for (`Unasked`): knowledge says what it says, and the
rest of the policy there is to be learned as it is anywhere else.

Of a policy that takes the action it values most, what a preferred action is worth counts among y,
too, at the very states where it is preferred (`Linearisation.worth`): to prefer it, the others are
to be worth less. To raise it would do as well there, but a learner takes the highest value for what
a state is worth, and learns that all states before it are worth more; so from update to update
values would grow without end.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np

from handrail._small_matrices import Positive
from handrail._types import Array, Indices
from handrail.constraints import counted, html_table, state_in_words
from handrail.enforcement.linearisation import Linearisation
from handrail.enforcement.references import References, Unasked, spread
from handrail.policies import Policy, Quantity
from handrail.settings import ADVICE, LEAST_REACH, SHORTEST_WAY
from handrail.tangent import Functionals, Gradient, gram, push_forward

# Two changes that differ by less, as a part of the larger, are alike.
_ROUNDING = 1e-6

# By which references that stand in the way give way.
_YIELD = 10.0

# References that enter the metric: the cost of a step grows with their square. With a reach of ρ no
# more than 1/ρ directions count: of one that is far fewer tell as much.
COORDINATES, _FEWER, _FAR = 256, 64, 0.1


@final
class Anchor:
    """A policy's coordinates at reference states, and their gradients.

    Args:
        policy: whose gradients are float64 (`Linearisation.source`). If it is no plain network, it
            must stay as it is for as long as this is used.
        states: (n, *observation_shape), the references.
        coordinates: most that count; of more, one of each state's takes the place of all of them.
        worth: more states (m, *observation_shape), and of one more coordinate at each the weights
            (m, n_actions) on raw outputs; None for none.
        unasked: what should stay at constrained states; None for nothing.

    Attributes:
        values: y (n, k) at the references, and of constrained states what was not asked for.
        functionals: all coordinates, those of `worth` behind the others.
    """

    def __init__(
        self,
        policy: Policy,
        states: Array,
        coordinates: int,
        worth: tuple[Array, Array] | None = None,
        unasked: Unasked | None = None,
    ) -> None:
        self._policy, self._unasked = policy, unasked
        if unasked is not None:
            states = np.concatenate([states, unasked.states])
        self._kept = self._states = states
        natural, gradients = self._natural(policy)
        self._chosen = chosen = _chosen(len(states), natural.shape[1], coordinates)
        self.values = _some(natural, chosen)
        self._weights = _some(gradients, chosen)  # (n, k, n_actions), on the raw outputs
        if worth is not None:
            self._states = np.concatenate([states, worth[0]])
            self._weights = np.concatenate([self._weights, _alone(worth[1], self.values.shape[1])])
        self.functionals = Functionals(policy, self._states, self._weights)
        n = self.size
        self.kernel: Array = gram(self.functionals, self.functionals).reshape(n, n)  # K
        if policy.layers() is not None:  # it may take steps while this is used
            self.functionals.keep()
        self._factor: tuple[float, Positive] | None = None

    @property
    def size(self) -> int:
        """Of y and the worth."""
        return math.prod(self._weights.shape[:2])

    def values_of(self, policy: Policy) -> Array:
        """The same coordinates (n, k) of a policy at other weights."""
        return _some(self._natural(policy)[0], self._chosen)

    def _natural(self, policy: Policy) -> tuple[Array, Array]:
        """Coordinates (n, k) of a policy, and their gradients over its raw outputs."""
        natural, gradients = policy.natural(policy.outputs(self._kept))
        if self._unasked is None:
            return natural, gradients
        n = len(self._kept) - len(self._unasked.states)
        parts = ((one[:n], self._unasked.of_coordinates(one[n:])) for one in (natural, gradients))
        natural, gradients = (np.concatenate(part) for part in parts)
        return natural, gradients

    @cached_property
    def unit(self) -> float:
        """|∇y|². Saturated everywhere, nothing has a gradient: any positive number will do."""
        return float(self.kernel.trace()) / self.size or 1.0

    def ridge(self, reach: float) -> float:
        """ρ."""
        return max(reach, LEAST_REACH) * self.size * self.unit

    def damped(self, ridge: float) -> Positive:
        """The factor of K + ρ; of the last ρ, from memory."""
        if self._factor is None or self._factor[0] != ridge:
            damped = self.kernel.copy()
            damped.flat[:: len(damped) + 1] += ridge  # its diagonal
            self._factor = ridge, Positive.of(damped)
        return self._factor[1]

    def effect(self, direction: Gradient) -> Array:
        """J · direction (size,)."""
        raw = push_forward(self._policy, self._states, direction)
        changes: Array = (self._weights * raw[:, None, :]).sum(axis=2).ravel()
        return changes

    def direction(self, coefficients: Array) -> Gradient:
        """Jᵀ coefficients (size,)."""
        return self.functionals.combined(coefficients.reshape(self._weights.shape[:2]))


def _chosen(n: int, k: int, most: int) -> Indices | None:
    """Which of k coordinates stands for each of n states (n,); None for all of them."""
    return None if n * k <= most or k == 1 else np.arange(n) % k


def _some(every: Array, chosen: Indices | None) -> Array:
    """Of (n, k, …) one a state (n, 1, …), as long as all k together on average."""
    if chosen is None:
        return every
    n, k = every.shape[:2]
    one: Array = every[np.arange(n), chosen][:, None]
    return one * float(np.sqrt(k))


def _alone(weights: Array, k: int) -> Array:
    """Of one coordinate a state (m, n_actions), as the first of k (m, k, n_actions)."""
    result = np.zeros((len(weights), k, weights.shape[1]))
    result[:, 0] = weights
    return result


@final
class Elsewhere:
    """What should stay as it is while one policy is held once, and how much it stays.

    References that stand in the way yield: those right at the border of a region cannot stay when
    the region moves, so the reach grows until the constraints can be met.

    Args:
        references: where the policy should stay; None where nothing is known of it.
        reach: how far what is asked at one state may move the others (see above).
        watched: those at which influence is measured; by default all of them.
        beyond: how far inside their bounds points are to come if any is violated (`Rows.units`).

    Attributes:
        beyond: the same.
    """

    def __init__(
        self,
        references: References | None,
        reach: float,
        watched: References | None = None,
        beyond: float = 0.0,
    ) -> None:
        self.beyond = beyond
        self._references = references
        self._watched = references if watched is None else watched
        self._reach = reach
        self._before: Array | None = None
        self._anchor: Anchor | None = None

    @classmethod
    def unknown(cls) -> Elsewhere:
        """Only the shortest way of the weights counts."""
        return cls(None, ADVICE)

    @property
    def matters(self) -> bool:
        """Whether the next step keeps it in mind; weights may count more, and all by themselves."""
        return self._references is not None and self._reach < SHORTEST_WAY

    @property
    def reach(self) -> float:
        """At present."""
        return self._reach

    @property
    def reaches_far(self) -> bool:
        """Whether what is asked is meant for what was never visited, too."""
        return self._reach >= _FAR

    @property
    def states(self) -> Array | None:
        """All references (n, *observation_shape); None where nothing is known."""
        return None if self._references is None else self._references.states

    def begin(self, policy: Policy) -> None:
        """Remember the policy as it is before its first step."""
        if self._before is None and self._watched is not None:
            self._before = policy.outputs(self._watched.states)

    def anchor(self, model: Linearisation) -> Anchor:
        """The metric: of a plain network the one of the first step, else of the present weights.

        What is asked changes from step to step; where the policy should stay does not.
        """
        assert self._references is not None  # it matters
        if self._anchor is None or self._anchor.functionals.policy.layers() is None:
            states, most = self._in_metric()
            unasked = self._references.unasked(model.source)
            self._anchor = Anchor(model.source, states, most, model.worth(most), unasked)
        return self._anchor

    def _in_metric(self) -> tuple[Array, int]:
        """Which references count (n, *observation_shape), and how many coordinates of them.

        Of what reaches far only visited ones.
        """
        assert self._references is not None  # it matters
        if not self.reaches_far:
            return self._references.kept(COORDINATES), COORDINATES
        return spread(self._references.states, _FEWER), _FEWER

    def renew(self) -> None:
        """The policy has moved far: take the metric of its present weights."""
        self._anchor = None

    def give_way(self) -> None:
        """The references stand in the way."""
        self._reach = max(self._reach, _YIELD**-6) * _YIELD

    def let_go(self) -> None:
        """Nothing else helps: take the shortest way from here."""
        self._reach = max(self._reach, ADVICE)

    def influence(self, policy: Policy) -> Influence | None:
        """What has become of it; None where no reference is known."""
        if self._watched is None:
            return None
        after = policy.outputs(self._watched.states)
        before = after if self._before is None else self._before
        return influence_between(self._watched, before, after, policy.quantity)


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
        action: whose output changed most there; of two probabilities the second. Standard
            deviations count on behind the last action.
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
        kind, action = self.quantity.part(self.action)
        return (
            f"{kind.of_named(actions[action])} {self.mean_before:.2f} → "
            f"{self.mean_after:.2f} on average, at most {self.largest_change:.2g} at "
            f"{state_in_words(self.at, observations)}"
        )

    def __str__(self) -> str:
        states = counted(self.states, "reference state")
        kind, action = self.quantity.part(self.action)
        text = (
            f"On {states} ({self.origin}): the largest change of a {kind.noun} is "
            f"{self.largest_change:.2g}, of action {action} at "
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
    largest = change.max(axis=1)
    state = int(largest.argmax())
    # Of two probabilities one changes as the other does: rounding must not choose.
    alike = change[state] >= (1.0 - _ROUNDING) * largest[state]
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
        mean_change=float(largest.mean()),
        changed_choices=quantity.changed_choices(before, after),
    )
