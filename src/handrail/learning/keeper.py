"""Constraints kept on a policy that somebody else trains: what is held, and what it took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, final

import gymnasium as gym
from numpy.typing import ArrayLike, NDArray
from torch.utils.hooks import RemovableHandle

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Amount, Bounded, Expansion, Tolerance, expand, noise_range
from handrail.enforcement import (
    Enforcement,
    Enforcer,
    Memory,
    Rail,
    contradiction,
    impossible_at_one_state,
    make_enforcer,
    references_before_experience,
)
from handrail.errors import UnsatisfiedConstraints
from handrail.learning.lookout import Lookout
from handrail.policies import GaussianPolicy, Policy, flat_space
from handrail.rulebook import (
    AnyConstraints,
    Rulebook,
    constraints_of,
    load_constraints,
    observation_names,
)
from handrail.settings import (
    ADVICE_AT_FIRST,
    OnUnproven,
    Reach,
    Selection,
    chosen_reach,
    chosen_selection,
)


@final
@dataclass(frozen=True)
class Terms:
    """What must hold, and how it is held.

    Attributes:
        constraints: what must hold.
        tolerance: the largest violation allowed; what is finer than the policy computes is not
            asked of it.
        selection: how regions are held.
        reach: how far knowledge may move the policy elsewhere.
        references: where the policy should stay as it is for as long as there is no experience.
    """

    constraints: AnyConstraints
    tolerance: Tolerance
    selection: Selection
    reach: Reach
    references: ArrayLike | None = None

    @classmethod
    def of(
        cls,
        constraints: AnyConstraints,
        tolerance: float | None = None,
        selection: Selection | str | None = None,
        reach: Reach = "auto",
        references: ArrayLike | None = None,
        prove: bool = False,
        on_unproven: OnUnproven = "refuse",
    ) -> Terms:
        """As a user says it; files are read now, and what makes no sense is refused now."""
        return cls(
            load_constraints(constraints),
            Tolerance(tolerance),
            chosen_selection(selection, prove, on_unproven),
            chosen_reach(reach),
            references,
        )


@final
@dataclass(frozen=True)
class Holding:
    """The constraints were made to hold once.

    Attributes:
        timesteps: of the environment, until then.
        violation_before: the worst, as the learner left the policy; regions on a sample.
        violation_after: the worst of the policy that acts from here; positive means broken.
        iterations: linearisations it took; 0 if the policy obeyed already.
        active: constraint rows that held the last step.
        influence: the mean change that this made elsewhere, at states of the last rollout.
        largest_influence: the largest change that it made there.
        seconds: it took.
        parameter_change: ‖Δθ‖ of the actor.
    """

    timesteps: int
    violation_before: float
    violation_after: float
    iterations: int
    active: int
    influence: float
    largest_influence: float
    seconds: float
    parameter_change: float

    @classmethod
    def none(cls, timesteps: int, violation: float, seconds: float) -> Holding:
        """Of a policy that was looked at and left as it is."""
        return cls(timesteps, violation, violation, 0, 0, 0.0, 0.0, seconds, 0.0)

    def logged(self) -> dict[str, float]:
        """What belongs into a trainer's log, under handrail."""
        return {
            "violation_before": self.violation_before,
            "violation_after": self.violation_after,
            "iterations": self.iterations,
            "active": self.active,
            "influence": self.influence,
            "largest_influence": self.largest_influence,
            "seconds": self.seconds,
        }


@final
class Keeper:
    """Keeps constraints on a policy.

    Args:
        policy: changed in place.
        spaces: of what it observes, and of what it does.
        terms: what must hold, and how.
        starts: (n, *observation_shape), in which episodes begin, if that is known.

    Attributes:
        policy: that is kept.
        enforcer: remembers from one holding to the next which states of regions matter.
        constraints: that are kept.
        refused: the last holding that failed, if any did.
    """

    def __init__(
        self,
        policy: Policy,
        spaces: tuple[gym.Space[Any], gym.Space[Any]],
        terms: Terms,
        starts: Array | None = None,
    ) -> None:
        self.policy, self._terms = policy, terms
        known = load_constraints(terms.constraints)
        if isinstance(known, Rulebook):
            known = known.shown_to(spaces[0])
        self.constraints = given = constraints_of(known, spaces)
        with self._bounded_noise() as take_back:
            self.enforcer = self._made_enforcer()
        take_back()  # until it is held
        space = flat_space(spaces[0])
        first = references_before_experience(terms.references, space, known, starts)
        names = observation_names(terms.constraints)
        self._rail = Rail(self.enforcer, given, first, terms.reach, ADVICE_AT_FIRST, names)
        self._lookout: Lookout | None = None
        self._round_fences: list[RemovableHandle] = []
        self._is_going_on: Callable[[], bool] = _always
        self.refused: Enforcement | None = None

    def _made_enforcer(self) -> Enforcer:
        """Of what the constraints ask of the policy as it draws now."""
        expansion = self._expansion = expand(self.constraints, self.policy)
        self._moved_bounds = self._bounds_by_noise()
        self._looks_quickly = _is_quick(self.policy, expansion)
        return make_enforcer(expansion, self._terms.selection, self.policy, self._terms.tolerance)

    def _bounds_by_noise(self) -> list[tuple[Amount, Amount]]:
        """On means, of the constraints whose bounds are those of the policy's noise."""
        asked = [(one, one.for_policy(self.policy)) for one in self.constraints]
        return [new.bounds for one, new in asked if new is not one and isinstance(new, Bounded)]

    @contextmanager
    def _bounded_noise(self) -> Iterator[Callable[[], None]]:
        """Bounds on noise that is the same everywhere are kept by moving it, wherever they hold.

        Whatever is raised inside, it comes out as it was; what takes it back is given.
        """
        policy, take_back = self.policy, _nothing
        if isinstance(policy, GaussianPolicy) and policy.follows_std:
            found = noise_range(self.constraints, policy.std.size)
            take_back = _nothing if found is None else policy.bound_std(*found)
        try:
            yield take_back
        except BaseException:
            take_back()
            raise

    def _follow_noise(self) -> None:
        """Whoever trains the policy changes its noise, too, and with it what is asked of means."""
        if not isinstance(self.policy, GaussianPolicy):  # of no other can it be moved
            return
        if self._bounds_by_noise() != self._moved_bounds:
            self.enforcer = self._rail.enforcer = self._made_enforcer()

    def reach(self) -> float:
        """How far the next holding may move the policy elsewhere."""
        return self._rail.reach(self.policy)

    def learned_from(self, states: ArrayLike) -> None:
        """The states (n, *observation_shape) of a rollout."""
        self._rail.learned_from(states)

    def watch(self) -> None:
        """From here on a `look` knows what to look at; the policy has just been held."""
        with one_thread():
            self._lookout = Lookout(self.policy, self.enforcer)

    def look(self, timesteps: int) -> tuple[Holding, bool]:
        """The policy as it acts if it is not held now, and whether it obeys.

        Args:
            timesteps: of the environment, until now.
        """
        assert self._lookout is not None  # `watch` comes first
        start = perf_counter()
        with one_thread():
            violation, obeys = self._lookout.look(self.policy)
        return Holding.none(timesteps, violation, perf_counter() - start), obeys

    def as_it_is(self, timesteps: int) -> Holding:
        """The policy as it acts if it is not held now.

        Args:
            timesteps: of the environment, until now.
        """
        start = perf_counter()
        with one_thread():
            violation = self.enforcer.worst(self.policy)
        return Holding.none(timesteps, violation, perf_counter() - start)

    def hold(
        self, timesteps: int, trainer: str, before: float | None = None
    ) -> tuple[Holding, Enforcement]:
        """Make the policy obey now; on failure it is as it was.

        Args:
            timesteps: of the environment, until now.
            trainer: who left the policy as it is, for messages.
            before: its worst violation now, if a `look` has found it.
        """
        start = perf_counter()
        with self._bounded_noise():
            self._follow_noise()
            result = None
            if before is None:
                before, result = self._kept()
            if result is None:
                with one_thread():
                    result = self._rail.hold(self.policy)
            if not result.satisfied:
                self.refused = result
                raise UnsatisfiedConstraints(
                    f"After {timesteps} timesteps the constraints could not be made to hold; the "
                    f"policy is as {trainer} left it. {result.reason}"
                )
        self._keep_fences_from_learning()
        influence = result.influence
        holding = Holding(
            timesteps=timesteps,
            violation_before=before,
            violation_after=result.worst_violation,
            iterations=result.iterations,
            active=len(result.active),
            influence=0.0 if influence is None else influence.mean_change,
            largest_influence=0.0 if influence is None else influence.largest_change,
            seconds=perf_counter() - start,
            parameter_change=result.parameter_change,
        )
        return holding, result

    def begin(self, is_going_on: Callable[[], bool]) -> None:
        """A training begins.

        Args:
            is_going_on: whether it still is; nobody is told of one that is interrupted.
        """
        self.end()
        self._is_going_on = is_going_on

    def _keep_fences_from_learning(self) -> None:
        """Until the training ends: what flows backwards in this policy goes round them."""
        if self._rail.fences is None or self._round_fences:
            return
        layers = self.policy.layers()
        if layers is not None:
            keep = self._rail.fences.keep_from_learning
            self._round_fences = keep(layers, self._is_going_on)

    def end(self) -> None:
        """Whoever learns on does so as if nothing had been kept; `hold` begins again."""
        for handle in self._round_fences:
            handle.remove()
        self._round_fences = []

    def _kept(self) -> tuple[float, Enforcement | None]:
        """The worst violation, and what holding would come to if there is nothing to do."""
        with nullcontext() if self._looks_quickly else one_thread():
            worst = self.enforcer.worst(self.policy)
        return worst, self._rail.keep(self.policy, worst)

    def is_impossible(self) -> bool:
        """Whether what is asked at some state is more than any network could do."""
        fixed = self._expansion.fixed
        at_a_point = fixed is not None and impossible_at_one_state(fixed) is not None
        return at_a_point or bool(contradiction(self._expansion))

    def memory(self) -> Memory:
        """What `recall` needs to go on exactly from here."""
        return self._rail.memory()

    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""
        self.end()  # other fences, perhaps
        self._rail.recall(memory)


def _is_quick(policy: Policy, expansion: Expansion) -> bool:
    """Whether a look at the policy takes no longer than to ask for one thread."""
    in_numpy, fixed = policy.in_numpy(), expansion.fixed
    if in_numpy is None or fixed is None or expansion.regional:
        return False
    return in_numpy.takes_one_thread(fixed.states)


def _always() -> bool:
    """Of whoever has trainings that are not told apart."""
    return True


def _nothing() -> None:
    """To be taken back."""
