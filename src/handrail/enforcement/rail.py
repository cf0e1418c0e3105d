"""Constraints held on a policy from update to update, and as little as possible elsewhere.

An `Enforcer` knows how to make a policy obey. A `Rail` also knows where the policy should stay as
it is (a reservoir of the states it has visited) and how far knowledge may reach by now. `enforce`
holds constraints once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from handrail._minimum_norm import nonnegative_least_squares
from handrail._storage import tensor
from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Constraint, Expansion, Regional, Rows, Tolerance, expand
from handrail.enforcement.closeness import hold_by_fences, hold_closely
from handrail.enforcement.conflict import Choices
from handrail.enforcement.elsewhere import Elsewhere
from handrail.enforcement.enforcer import Enforcer, Memory, make_enforcer
from handrail.enforcement.iteration import Enforcement
from handrail.enforcement.references import (
    Constrained,
    References,
    Reservoir,
    given_references,
    references_around,
    references_from,
    references_of_space,
    spread,
)
from handrail.errors import InvalidArgument, InvalidRun
from handrail.policies import VALUE, BranchProbability, Fences, Policy
from handrail.rulebook import (
    AnyConstraints,
    Rulebook,
    constraints_of,
    load_constraints,
    observation_names,
)
from handrail.settings import (
    ADVICE,
    ADVICE_ALWAYS,
    ADVICE_ONCE,
    LEAST_AT_FIRST,
    LESS_AT_FIRST,
    LITTLE_ALWAYS,
    LITTLE_REACH,
    NEXT_TO_NOTHING_AT_FIRST,
    SHORTEST_WAY,
    Fading,
    OnUnproven,
    Reach,
    Selection,
    chosen_reach,
    chosen_selection,
)
from handrail.tangent import distance, restore, unchanged_on_failure

# References of a learner before any experience.
_BEFORE = 512

# At so many references influence is measured after every update, where they decide nothing.
_WATCHED = 64

# Where an update has broken advice, all of it comes so far inside its bounds (`Rows.units`): the
# next updates break it less often, each of which would need a correction of its own
# (measured: docs/explanation/influence_trials.md).
_BEYOND = 1.5

# In memory: the units of fences, by hidden layer.
_FENCE = "fence."

# A sum of pushes that is shorter than this is none.
_BALANCED = 1e-9


@one_thread()
def enforce(
    policy: Policy,
    constraints: AnyConstraints,
    tolerance: float | None = None,
    references: ArrayLike | References | None = None,
    selection: Selection | str | None = None,
    prove: bool = False,
    reach: Reach = "auto",
    on_unproven: OnUnproven = "refuse",
) -> Enforcement:
    """Change the policy until every constraint holds, and as little as possible elsewhere.

    Args:
        policy: changed in place; left exactly as it was on failure.
        constraints: a list, a `Rulebook`, or the path or bundled name of a constraint file. All of
            them must hold; those on regions at every state that a search finds, or, with a proof,
            at every state there is.
        tolerance: the largest violation allowed at points; by default 1e-6, of a policy in float32
            1e-5. States of regions have none.
        references: (n, *observation_shape), where the policy should stay as it is: best those that
            it visits. By default random ones around the constrained states.
        selection: how regions are held, or the name of a way; by default `Everywhere()`.
        prove: end with a certificate for every region, as `Everywhere(prove=True)` does.
        reach: how far what is asked may move the policy elsewhere: 0 (only where I said) to 10
            (advice for everywhere). By default advice where the constraints cover both sides of a
            choice, and very little where they do not.
        on_unproven: what becomes of a policy that holds on every state that was tried, but could
            not be proven: "refuse" it, or "keep" it, without ever calling it proven.
    """
    allowed, chosen = Tolerance(tolerance), chosen_selection(selection, prove, on_unproven)
    wanted = chosen_reach(reach)
    given = constraints_of(constraints, policy)
    enforcer = make_enforcer(expand(given, policy), chosen, policy, allowed)
    names = observation_names(constraints)
    rail = Rail(enforcer, given, _known(references, given), wanted, observations=names)
    return rail.hold(policy)


def _known(
    given: ArrayLike | References | None, constraints: Sequence[Constraint]
) -> References | None:
    """None if nobody names any, and everything around the constraints is constrained."""
    try:
        return references_from(given, constraints)
    except InvalidArgument:
        if given is None:
            return None
        raise


def references_before_experience(
    given: ArrayLike | None,
    space: gym.Space[Any],
    constraints: AnyConstraints,
    starts: Array | None = None,
) -> References | None:
    """Those that a caller names; by default of the observation space, or around the constraints.

    A policy lives in a small part of its space: where it is known in which states episodes begin,
    many are on the ways from there, and from what is constrained. How large observations without
    bounds are, a constraint file may say. None if all of it is constrained.

    Args:
        given: (n, *observation_shape), by a caller.
        space: of the environment's observations.
        constraints: that will be held.
        starts: (n, *observation_shape), in which episodes begin, if that is known.
    """
    known = load_constraints(constraints)
    if isinstance(known, Rulebook):
        known = known.shown_to(space)
    held = constraints_of(known)
    if given is not None:
        return given_references(given, held)
    # What is constrained lies where a policy lives; but alone it would draw all of them there.
    near = [] if starts is None else [np.concatenate([one.states for one in held]), starts]
    try:
        if isinstance(space, gym.spaces.Box):
            sizes = known.scale() if isinstance(known, Rulebook) else None
            found = references_of_space(space, held, sizes, near)
        else:
            found = references_around(held, near)
    except InvalidArgument:
        return None
    ways = "; two of three on the ways there, from constrained states or where episodes begin"
    origin = f"{found.origin}{ways if near else ''}"
    return References(spread(found.states, _BEFORE), origin)


@final
class Rail:
    """Holds constraints on one policy, again and again.

    With reach "auto" constraints that cover both sides of a choice, as those of a balanced pole do,
    are advice for everywhere: generalising is a gift, and it steadies a learner whose updates are
    noisy; for learners whose updates are gentle it fades, at once if every constraint has two
    bounds and room between them, as a tube has: in there is all that is left to learn. At once,
    too, if they are about values, which a learner must find out everywhere. To a gentle learner
    only points are examples of a rule: other regions say themselves where they hold. One-sided
    ones would only push the policy to that side, so what they ask for stays where they ask for it,
    at first as closely as can be. To a gentle learner only regions that speak of one of two
    actions: for closeness weights grow, and an optimiser moves large weights further. What is asked
    of its fresh network in a box can mostly be fenced in, and nothing else moves.
    There is time for that before any experience: what holding moves elsewhere is taken back step by
    step, as `edit` does. But where the policy lives, only experience tells. As soon as there is
    enough, after the first rollout or some short ones, all that was held is taken back, what was
    learned is kept, and the policy held anew, closely where it lives.

    Args:
        enforcer: of the constraints.
        constraints: that are held.
        first: where the policy should stay as it is before any experience, if that is known.
        reach: how far knowledge may move the policy elsewhere.
        advice: what "auto" is of constraints that cover both sides of a choice.
        observations: their names, where they have some.

    Attributes:
        enforcer: of the constraints.
        constraints: that are held.
        fences: inside which they are; None if the network has none.
    """

    def __init__(
        self,
        enforcer: Enforcer,
        constraints: Sequence[Constraint],
        first: References | None,
        reach: Reach,
        advice: Fading = ADVICE_ALWAYS,
        observations: Sequence[str] = (),
    ) -> None:
        self.enforcer = enforcer
        self.constraints = constraints
        self.fences: Fences | None = None
        self._reservoir = Reservoir(constraints, first)
        self._reach, self._advice = reach, advice
        self._observations = observations
        self._auto: Fading | None = None
        self._known: Expansion | None = None
        self._tubes: Sequence[Regional] | None = None
        self._moved = Displacement()
        self._held_after = -1  # rollouts

    def hold(self, policy: Policy) -> Enforcement:
        """Make the policy obey, in place; on failure it is as it was."""
        references, seen = self._references(policy), self._reservoir.rollouts
        watched = self._watched(policy, references)
        elsewhere = Elsewhere(references, self.reach(policy), watched, self._beyond(policy))
        held = None
        if references is not None and self._takes_back(policy) and self._is_due(seen):
            elsewhere.begin(policy)
            held = self._hold_anew(policy)
        if held is None or not (held.satisfied or seen == 0):
            held = self._hold_on(policy, elsewhere)
        self._go_on_from(seen)
        held = held.with_remedy(self._observations)
        return replace(held, influence=elsewhere.influence(policy))

    def keep(self, policy: Policy, worst: float | None = None) -> Enforcement | None:
        """What `hold` would say of a policy that it would leave as it is; else None, and untouched.

        Most updates of a gentle learner leave nothing to correct, and to know that is enough.

        Args:
            policy: as it is.
            worst: its worst violation (`Enforcer.worst`), if that is known already.
        """
        seen = self._reservoir.rollouts
        kept = None if self._is_due(seen) else self.enforcer.kept(policy, worst)
        if kept is not None:
            self._go_on_from(seen)
        return kept

    def _go_on_from(self, seen: int) -> None:
        """The policy obeys after so many rollouts; where it lives is known, nothing is taken back.

        From then on what it learns goes with what was held.
        """
        if self._moved.is_known and self._reservoir.knows_where:
            self._moved = Displacement()
        self._held_after = seen

    def knows_elsewhere(self, policy: Policy) -> bool:
        """Whether there are states at which the policy, as it is, need not change."""
        return self._references(policy) is not None

    def heeds_elsewhere(self, policy: Policy) -> bool:
        """Whether the next holding is any different for what else there is."""
        return self.reach(policy) < SHORTEST_WAY

    def _watched(self, policy: Policy, references: References | None) -> References | None:
        """Where influence is measured; of advice, update by update, that would take longest."""
        if references is None or not self._reservoir.rollouts or self.heeds_elsewhere(policy):
            return references
        return replace(references, states=spread(references.states, _WATCHED))

    def _beyond(self, policy: Policy) -> float:
        """How far inside its bounds all comes that a gentle learner is told: as advice only."""
        is_correction = self._reservoir.rollouts > 0
        is_advice = self.reach(policy) >= self._advice.last
        return _BEYOND if self._is_gentle and is_correction and is_advice else 0.0

    def _takes_back(self, policy: Policy) -> bool:
        """Whether what was held may be taken back, and what was learned kept.

        Not what was advice; nor of values, which were learned from one another as they were held.
        Nor fences, which move nothing elsewhere, wherever the policy comes to live.
        """
        may = policy.quantity != VALUE and self._fading(policy).first < ADVICE
        return may and self.fences is None

    def _is_due(self, seen: int) -> bool:
        """Whether to hold anew: before any experience, and once there is enough what was held.

        Once only: later rollouts teach the policy what would go with whatever is taken back
        (measured: docs/explanation/influence_trials.md).
        """
        if seen == self._held_after:
            return False
        return seen == 0 or (self._reservoir.knows_where and self._moved.is_known)

    def _hold_on(self, policy: Policy, elsewhere: Elsewhere) -> Enforcement:
        """From where the last one ended, noting how far for as long as it may be taken back."""
        if self._reservoir.knows_where:
            return self.enforcer.hold(policy, elsewhere)
        before = weights_of(policy)
        held = self.enforcer.hold(policy, elsewhere)
        self._moved = self._moved.and_since(before, policy)
        return held

    def _hold_anew(self, policy: Policy) -> Enforcement | None:
        """As if it had never been held before; on failure it is as it was.

        None if there is no state at which the policy would stay as it is.
        """
        reach = min(self._fading(policy).first, self.reach(policy))
        with unchanged_on_failure(policy) as start:
            self._moved.take_back(policy)
            references = self._references(policy)
            if references is None:
                restore(policy, start)
                return None
            free = weights_of(policy)
            held = self._hold_by_fences(policy, references, reach)
            if held is None:
                held = hold_closely(policy, references, self.enforcer, reach)
            if held.satisfied:
                self._moved = Displacement().and_since(free, policy)
            else:
                restore(policy, start)
        return replace(held, parameter_change=distance(policy, start))

    def _hold_by_fences(
        self, policy: Policy, references: References, reach: float
    ) -> Enforcement | None:
        """Before any experience, for a gentle learner; None where there are none."""
        if not self._is_gentle or reach > LITTLE_REACH or self._reservoir.rollouts:
            return None
        expansion = self._expansion(policy)
        found = hold_by_fences(policy, references, self.enforcer, expansion, reach)
        if found is None:
            return None
        held, self.fences = found
        return held

    @property
    def _is_gentle(self) -> bool:
        """Whether the learner's updates are: to one of others advice does not fade."""
        return self._advice.last < ADVICE

    def _references(self, policy: Policy) -> References | None:
        """Where the policy, as it is, need not change; of tubes also inside of them."""
        expansion = self._expansion(policy)
        if self._tubes is None:
            is_tube = leave_room_between(Choices(expansion.rows(per_region=1), policy).rows)
            self._tubes = expansion.regional if is_tube else ()
        if self._tubes:
            return self._reservoir.references_in_tubes(policy, self._tubes)
        references = self._reservoir.references
        if references is None:
            return None
        return replace(references, constrained=Constrained(expansion, self._reservoir.visited))

    def _expansion(self, policy: Policy) -> Expansion:
        """Of the constraints, as they were when the policy was first seen."""
        if self._known is None:
            self._known = expand(self.constraints, policy)
        return self._known

    def reach(self, policy: Policy) -> float:
        """Of the next holding."""
        return self._fading(policy).at(self._reservoir.rollouts)

    def _fading(self, policy: Policy) -> Fading:
        if isinstance(self._reach, Fading):
            return self._reach
        if self._reach != "auto":
            return Fading(first=self._reach, last=self._reach)
        if self._auto is None:
            self._auto = self._chosen_for(self._expansion(policy), policy)
        return self._auto

    def _chosen_for(self, expansion: Expansion, policy: Policy) -> Fading:
        """What "auto" is."""
        rows = Choices(expansion.rows(per_region=1), policy).rows
        covered = cover_both_sides(rows)
        if not self._is_gentle:
            return self._advice if covered else LEAST_AT_FIRST
        if covered and (rows.quantity == VALUE or leave_room_between(rows)):
            return ADVICE_ONCE
        if not expansion.regional:
            return self._advice if covered else LITTLE_ALWAYS
        is_closest = not covered and _is_a_choice_of_two(rows)
        return NEXT_TO_NOTHING_AT_FIRST if is_closest else LESS_AT_FIRST

    def learned_from(self, states: ArrayLike) -> None:
        """Experience arrives: the states (n, *observation_shape) of a rollout."""
        self._reservoir.add(states)

    def memory(self) -> Memory:
        """What `recall` needs to go on exactly from here."""
        return {
            **self.enforcer.memory(),
            **self._reservoir.memory(),
            "moved": self._moved.by,
            "held_after": np.array([self._held_after]),
            **self._fences_in_memory(),
        }

    def _fences_in_memory(self) -> Memory:
        units = () if self.fences is None else self.fences.units
        return {f"{_FENCE}{depth}": np.array(own, np.int64) for depth, own in enumerate(units)}

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""
        self._reservoir.recall(memory)
        if "moved" in memory:  # checkpoints of before anything was held anew have none
            self._moved = Displacement(tensor(memory, "moved", (None,)))
            self._held_after = int(tensor(memory, "held_after", (1,), "int64")[0])
        layers = sum(name.startswith(_FENCE) for name in memory)
        units = [tensor(memory, f"{_FENCE}{depth}", (None,), "int64") for depth in range(layers)]
        self.fences = Fences(tuple(units)) if units else None
        self.enforcer.recall(memory)


@final
@dataclass(frozen=True)
class Displacement:
    """How far all holdings so far, and nothing else, have moved a policy's weights.

    Attributes:
        by: (n_weights,); empty if they have not.
    """

    by: Array = field(default_factory=lambda: np.zeros(0))

    @property
    def is_known(self) -> bool:
        """Whether anything was moved."""
        return bool(len(self.by))

    def and_since(self, before: Array, policy: Policy) -> Displacement:
        """Together with how far the policy is from what it was before (n_weights,)."""
        moved = weights_of(policy) - before
        if not moved.any():
            return self
        return Displacement(self.by + moved if self.is_known else moved)

    def take_back(self, policy: Policy) -> None:
        """From the policy, in place; what it has learned since stays."""
        if self.is_known:
            restore(policy, _like(policy, self.by, of=weights_of(policy)))


def weights_of(policy: Policy) -> Array:
    """All of them (n_weights,), in float64."""
    parts = [one.detach().double().numpy(force=True).ravel() for one in policy.parameters]
    every: Array = np.concatenate(parts)
    return every


def _like(policy: Policy, less: Array, of: Array) -> list[Tensor]:
    """Weights (n_weights,) less others, in the shapes of the policy's."""
    if len(less) != len(of):
        raise InvalidRun(
            f"The tensor 'moved' is about {len(less):,} weights, but the policy has {len(of):,}."
        )
    parts = torch.as_tensor(of - less).split([one.numel() for one in policy.parameters])
    return [part.view_as(one) for part, one in zip(parts, policy.parameters, strict=True)]


def cover_both_sides(rows: Rows) -> bool:
    """Whether what the rows ask for adds up to nothing, in some proportion.

    "Right ≥ 0.95" pushes towards one side of a choice. As advice for everywhere it leaves no room
    for the other side, unless another row pushes back. Of branches, in each that is spoken of.
    """
    pushes = _pushes(rows)
    if not isinstance(rows.quantity, BranchProbability):
        return _cancel(pushes)
    own = (pushes[:, one] for one in rows.quantity.slices())
    return all(_cancel(one[(one != 0.0).any(axis=1)]) for one in own)


def _cancel(pushes: Array) -> bool:
    """Whether directions (n, n_actions) add up to nothing, in some proportion; or are none."""
    if not len(pushes):
        return True
    lengths = np.linalg.norm(pushes, axis=1, keepdims=True)
    unit = np.unique(np.round(pushes / np.maximum(lengths, np.finfo(np.float64).tiny), 9), axis=0)
    # λ ≥ 0 with Σ λ = 1 and Σ λ_i push_i = 0.
    proportions = np.vstack([unit.T, np.ones(len(unit))])
    found = nonnegative_least_squares(proportions, np.eye(unit.shape[1] + 1)[-1])
    return found is not None and found[1] < _BALANCED


def _is_a_choice_of_two(rows: Rows) -> bool:
    """Whether rows are about one of two actions: what they ask for is all there is to say."""
    return rows.quantity.adds_up and rows.quantity.one_says_all(rows.weights.shape[1])


def leave_room_between(rows: Rows) -> bool:
    """Whether every row has two bounds, and room between them: a tube around a controller.

    Nothing but what is in the tube is left to learn, so each holding has to leave that alone.
    """
    two = np.isfinite(rows.lower) & np.isfinite(rows.upper)
    return bool((two & (rows.lower < rows.upper)).all())


def _pushes(rows: Rows) -> Array:
    """The direction of the outputs (n, n_actions) that each bound pushes in, where it can."""
    alone = rows.is_about_one_state()[rows.row_of_sample]
    weights = rows.weights[alone]
    if rows.quantity.adds_up:  # more of one is less of all others
        weights = weights - weights.mean(axis=1, keepdims=True)
    elif isinstance(rows.quantity, BranchProbability):  # of its branch
        among = rows.quantity.among(weights)
        mean = weights.sum(axis=1, keepdims=True) / among.sum(axis=1, keepdims=True)
        weights = np.where(among, weights - mean, 0.0)
    of_row = rows.row_of_sample[alone]
    up, down = np.isfinite(rows.lower[of_row]), np.isfinite(rows.upper[of_row])
    return np.concatenate([weights[up], -weights[down]])
