"""From a controller to constraints: what it does in a region, asked state by state.

Of continuous actions, the mean is kept within a margin of what the controller does.

A controller that chooses actions switches between them somewhere, and a network cannot follow it
to the very edge: two states close together that must be almost certain of opposite actions ask for
a cliff. So a state speaks for the controller only if its surroundings agree with it: a small step
along any coordinate, to either side, must not change the controller's mind (`clearance`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Any, TypeAlias, final

import numpy as np
from numpy.typing import ArrayLike

from handrail._types import Array, Indices, Mask
from handrail.constraints.close_to import CloseTo, FrozenPolicy
from handrail.constraints.constraint import Constraint, Mean
from handrail.constraints.output_bounds import AtLeast, AtMost, Between
from handrail.errors import InvalidArgument, ShapeMismatch
from handrail.formulas import Affine, StateFunction
from handrail.policies import CategoricalPolicy, GaussianPolicy, Policy, action_limits
from handrail.regions import Place, Points, Region

# State (n_coordinates,) -> action.
ActionRule: TypeAlias = Callable[[Array], int]

# State (n_coordinates,) -> a number, or (n_actions,).
MeanRule: TypeAlias = Callable[[Array], Any]

# States (n, n_coordinates) -> actions (n,).
_AskAll: TypeAlias = Callable[[Array], Indices]


@final
@dataclass(frozen=True, repr=False)
class ControllerSample:
    """What a controller that chooses actions does at states of a region.

    Attributes:
        states: (n, n_coordinates) at which it is sure.
        actions: (n,) what it does there.
        left_out: (m, n_coordinates) states within the clearance of another action.
        clearance: of the region's width.
    """

    states: Array
    actions: Indices
    left_out: Array
    clearance: float

    def __str__(self) -> str:
        counts = zip(*np.unique(self.actions, return_counts=True), strict=True)
        done = ", ".join(f"action {action} at {number}" for action, number in counts)
        asked = len(self.states) + len(self.left_out)
        return (
            f"{len(self.states)} of {asked} states: {done or 'none'}; {len(self.left_out)} left "
            f"out, where a step of {self.clearance:g} of the region's width leads to another action"
        )

    def __repr__(self) -> str:
        return f"<ControllerSample: {self}>"

    def constraints(self, margin: float = 0.05, name: str = "controller") -> list[Constraint]:
        """π(action | s) ≥ 1 - margin: one constraint per action, at all states where it is taken.

        Args:
            margin: what is left to the other actions, between 0 and 0.5.
            name: constraints are called "name: action 0", …
        """
        _check_margin(margin)
        if not len(self.states):
            raise InvalidArgument(
                f"Of {len(self.left_out)} states, the controller is sure at none: a step of "
                f"{self.clearance:g} of the region's width always leads to another action. Take a "
                "smaller clearance, more states, or a region to one side of where it switches."
            )
        return [
            AtLeast(
                1.0 - margin,
                int(action),
                Points(self.states[self.actions == action]),
                name=f"{name}: action {action}",
            )
            for action in np.unique(self.actions)
        ]


def constraints_from(
    controller: ActionRule | ArrayLike | CategoricalPolicy,
    region: Region,
    count: int,
    margin: float = 0.05,
    *,
    actions: Sequence[int] = (0, 1),
    clearance: float = 0.05,
    name: str = "controller",
) -> list[Constraint]:
    """Constraints that ask for what a controller does, at evenly spread states of a region.

    Args:
        controller: a function from a state (n_coordinates,) to the index of an action; a gain
            matrix K (n_coordinates,) or (1, n_coordinates), of which u = -K s has a sign; or
            another policy.
        region: where the controller is to be trusted.
        count: states to ask at, always the same ones.
        margin: the controller's action has at least 1 - margin; the probabilities of a policy are
            kept to within ±margin. Between 0 and 0.5.
        actions: of a gain matrix: the action for u < 0 and the one for u > 0.
        clearance: of controllers that choose actions: states are left out where a step of this
            share of the region's width, along any coordinate, leads to another action.
            `sample_controller` shows which.
        name: constraints are called "name: action 0", …; to tell several controllers apart.

    Returns:
        One constraint per action; of a policy, one per state and action.
    """
    _check_margin(margin)
    if isinstance(controller, CategoricalPolicy):
        return _close_to(controller, states_of(region, count), margin, name)
    sample = sample_controller(controller, region, count, actions=actions, clearance=clearance)
    return sample.constraints(margin, name)


def sample_controller(
    controller: ActionRule | ArrayLike,
    region: Region,
    count: int,
    *,
    actions: Sequence[int] = (0, 1),
    clearance: float = 0.05,
) -> ControllerSample:
    """Ask a controller that chooses actions; arguments as for `constraints_from`."""
    if isinstance(clearance, bool) or not isinstance(clearance, Real) or not 0 <= clearance < 0.5:
        raise InvalidArgument(
            f"The clearance must be a share of the region's width, from 0 to below 0.5, not "
            f"{clearance!r}."
        )
    states = states_of(region, count)
    ask = _asking(controller, region.n_coordinates, actions)
    answers = ask(states)
    sure = _sure(ask, states, answers, region, float(clearance))
    return ControllerSample(states[sure], answers[sure], states[~sure], float(clearance))


def _sure(ask: _AskAll, states: Array, answers: Indices, region: Region, clearance: float) -> Mask:
    """Which states (n,) are surrounded by states of the same action."""
    low, high = region.bounds
    sure = np.ones(len(states), dtype=np.bool_)
    for coordinate in np.flatnonzero(high > low) if clearance else ():
        for direction in (-1.0, 1.0):
            beside = states[sure].copy()
            beside[:, coordinate] += direction * clearance * (high - low)[coordinate]
            # The controller is asked inside the region only: it may be good for nothing elsewhere.
            sure[sure] = ask(region.project(beside)) == answers[sure]
    return sure


def _close_to(
    policy: CategoricalPolicy, states: Array, margin: float, name: str
) -> list[Constraint]:
    """The probabilities of another policy, ± margin."""
    probabilities = policy.probabilities(states)
    n_actions = probabilities.shape[1]
    actions = [1] if policy.quantity.one_says_all(n_actions) else range(n_actions)
    return [
        _around(probabilities[k, action], margin, action, states[k], f"{name} at state {k}")
        for k in range(len(states))
        for action in actions
    ]


def _around(centre: float, margin: float, action: int, state: Array, name: str) -> Constraint:
    """Within ± margin, as far as a probability can be there at all."""
    lower, upper = float(centre) - margin, float(centre) + margin
    where, name = Points(state), f"{name}: action {action}"
    if lower <= 0.0:
        return AtMost(upper, action, where, name)
    if upper >= 1.0:
        return AtLeast(lower, action, where, name)
    return Between(lower, upper, action, where, name)


def states_of(region: Region, count: int) -> Array:
    """Evenly spread over a region, always the same ones: (count, n_coordinates)."""
    if not isinstance(region, Region):
        raise InvalidArgument(
            f"A controller is sampled in a region such as handrail.Box(low, high), not "
            f"{type(region).__module__}.{type(region).__qualname__}. For states of your own, write "
            "AtLeast(bound, action, Points(states))."
        )
    if isinstance(count, bool) or not isinstance(count, Integral) or count < 1:
        raise InvalidArgument(f"count must be a positive whole number of states, not {count!r}.")
    return region.cover(int(count))


def _asking(controller: Any, n_coordinates: int, actions: Sequence[int]) -> _AskAll:
    """Actions (n,) of states (n, n_coordinates)."""
    if isinstance(controller, CategoricalPolicy):
        raise InvalidArgument(
            "A policy has probabilities rather than an action: constraints_from keeps to those."
        )
    if isinstance(controller, GaussianPolicy):
        raise InvalidArgument(
            "A GaussianPolicy has mean actions rather than one action of several: "
            "mean_constraints_from keeps to those."
        )
    if callable(controller):
        return lambda states: np.array([_answer(controller, one) for one in states], dtype=np.intp)
    (gain,) = gain_matrix(controller, n_coordinates, one_row=True)
    if not gain.any():
        raise InvalidArgument("The gain matrix must not be zero throughout: no sign would decide.")
    negative, positive = _pair(actions)
    return lambda states: np.where(states @ gain < 0.0, positive, negative)  # u = -K s


def _ask(controller: Callable[[Array], Any], state: Array) -> Any:
    try:
        return controller(state.copy())
    except Exception as error:  # whatever the user's function does
        raise InvalidArgument(
            f"The controller raised {type(error).__name__} at {state.tolist()}: {error}"
        ) from error


def _answer(controller: ActionRule, state: Array) -> int:
    """The action of one state, refused if it is none."""
    where, answer = state.tolist(), _ask(controller, state)
    index = answer.item() if isinstance(answer, np.ndarray) and answer.ndim == 0 else answer
    if isinstance(index, bool | np.bool_) or not isinstance(index, Integral) or index < 0:
        raise InvalidArgument(
            f"The controller returned {answer!r} at {where}; expected the index of an action: 0, "
            f"1, 2, … {_remedy(answer)}"
        )
    return int(index)


def _remedy(answer: Any) -> str:
    if isinstance(answer, bool | np.bool_):
        return "Of a truth value, return int(…)."
    if isinstance(answer, tuple):
        return "Of a Stable-Baselines3 model, give handrail.sb3.policy_of(model)."
    if np.size(answer) == 1 and np.issubdtype(np.asarray(answer).dtype, np.integer):
        return "Of an array with one number, return its item()."
    return "If actions are continuous, mean_constraints_from takes what the controller returns."


def gain_matrix(controller: Any, n_coordinates: int, *, one_row: bool) -> Array:
    """A finite gain matrix (n_actions, n_coordinates), of one row where a sign must decide."""
    try:
        given = np.asarray(controller, dtype=np.float64)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"A controller is a function from a state to an action, a gain matrix, or a policy, "
            f"not {controller!r}. Of a Stable-Baselines3 model, handrail.sb3.policy_of(model) is "
            "the policy."
        ) from None
    gain = np.atleast_2d(given)
    if gain.ndim != 2 or gain.shape[1] != n_coordinates or (one_row and len(gain) != 1):
        several = f"(n_actions, {n_coordinates})"
        single = f"(1, {n_coordinates}), since one sign chooses between two actions"
        raise ShapeMismatch(
            f"The gain matrix has shape {given.shape}, but states of the region have "
            f"{n_coordinates} coordinates: expected ({n_coordinates},) or "
            f"{single if one_row else several}."
        )
    if not np.isfinite(gain).all():
        raise InvalidArgument(f"The gain matrix {given.tolist()} must be finite.")
    return gain


def _pair(actions: Sequence[int]) -> tuple[int, int]:
    fine = (
        isinstance(actions, Sequence | np.ndarray)
        and len(actions) == 2
        and all(isinstance(one, Integral) and not isinstance(one, bool) for one in actions)
        and actions[0] != actions[1]
    )
    if not fine:
        raise InvalidArgument(
            f"A gain matrix chooses between two actions, the one for u < 0 and the one for u > 0: "
            f"actions=(0, 1), not {actions!r}."
        )
    return int(actions[0]), int(actions[1])


def _check_margin(margin: Any) -> None:
    if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 < float(margin) < 0.5:
        raise InvalidArgument(
            f"The margin must lie between 0 and 0.5 (0.05: the controller's action has at least 95 "
            f"%), not {margin!r}."
        )


def mean_constraints_from(
    controller: MeanRule | ArrayLike | GaussianPolicy,
    region: Region,
    count: int,
    margin: float,
    *,
    limits: tuple[ArrayLike, ArrayLike] | None = None,
    name: str = "controller",
) -> list[Constraint]:
    """Constraints that keep mean actions within ±margin of what a controller does in a region.

    Args:
        controller: a function from a state (n_coordinates,) to an action, a number or
            (n_actions,); a gain matrix K (n_actions, n_coordinates), of which u = -K s; or another
            Gaussian policy, whose mean it is.
        region: where the controller is to be trusted.
        count: states to ask at, evenly spread and always the same ones.
        margin: in the action's own units.
        limits: (low, high) of the action, numbers or (n_actions,) each; what the controller wants
            beyond them is clipped.
        name: constraints are called "name at state 0: mean action 0", …

    Returns:
        One constraint per state and dimension of the action.
    """
    if isinstance(margin, bool) or not isinstance(margin, Real) or not 0 < float(margin) < np.inf:
        raise InvalidArgument(
            f"The margin must be a positive number, in units of the action, not {margin!r}."
        )
    states = states_of(region, count)
    wanted = _asked(controller, states)
    if limits is not None:
        wanted = np.clip(wanted, *action_limits(limits, wanted.shape[1]))
    return [
        Between(
            float(wanted[k, dimension]) - float(margin),
            float(wanted[k, dimension]) + float(margin),
            Mean(dimension),
            Points(states[k]),
            name=f"{name} at state {k}: mean action {dimension}",
        )
        for k in range(len(states))
        for dimension in range(wanted.shape[1])
    ]


def within(
    controller: ArrayLike | StateFunction | Sequence[StateFunction] | Policy,
    distance: float,
    where: Place,
    *,
    name: str = "within",
) -> list[Constraint]:
    """Constraints that keep a policy within ±distance of a controller all over a place.

    Args:
        controller: of mean actions, a gain matrix K (n_actions, n_coordinates), of which u = -K s;
            an `Affine` or a `Formula`, or one for each dimension of the action. Or another policy,
            as it is now, whose means or probabilities they are.
        distance: in the action's own units, or in probability.
        where: Points, or a region.
        name: constraints are called "name: mean action 0", …

    Returns:
        One constraint per dimension of the action, or per action; one for two actions, since the
        other follows.
    """
    if isinstance(distance, bool) or not isinstance(distance, Real) or not 0 < distance < np.inf:
        raise InvalidArgument(
            f"The distance must be a positive number, in units of the action, not {distance!r}."
        )
    if isinstance(controller, Policy):
        return _close_to_policy(controller, distance, where, name)
    n_coordinates = (
        int(np.prod(where.states.shape[1:])) if isinstance(where, Points) else (where.n_coordinates)
    )
    return [
        Between(
            one.plus(-float(distance)),
            one.plus(float(distance)),
            Mean(dimension),
            where,
            name=f"{name}: mean action {dimension}",
        )
        for dimension, one in enumerate(_mean_functions(controller, n_coordinates))
    ]


def _close_to_policy(policy: Policy, distance: float, where: Place, name: str) -> list[Constraint]:
    one = where.states[:1] if isinstance(where, Points) else where.cover(1)[:1]
    n_actions = policy.outputs(one).shape[1]
    quantity, frozen = policy.quantity, FrozenPolicy.of(policy)
    follows = quantity.adds_up and quantity.one_says_all(n_actions)
    what = quantity.noun if quantity.is_continuous else "action"
    return [
        CloseTo(frozen, distance, action, where, name=f"{name}: {what} {action}")
        for action in ([1] if follows else range(n_actions))
    ]


def _mean_functions(controller: Any, n_coordinates: int) -> Sequence[StateFunction]:
    """One for each dimension of the action."""
    if isinstance(controller, StateFunction):
        return [controller]
    if isinstance(controller, Sequence) and all(isinstance(o, StateFunction) for o in controller):
        return controller
    if callable(controller):
        raise InvalidArgument(
            "A tube is around a gain matrix, an Affine, a Formula or a policy. Of a Python "
            "function, mean_constraints_from asks at single states."
        )
    return [Affine(-row) for row in gain_matrix(controller, n_coordinates, one_row=False)]


def _asked(controller: Any, states: Array) -> Array:
    """Actions (n, n_actions) at states (n, n_coordinates)."""
    if isinstance(controller, GaussianPolicy):
        return controller.mean(states)
    if isinstance(controller, CategoricalPolicy):
        raise InvalidArgument(
            "A CategoricalPolicy has probabilities rather than a mean action: constraints_from "
            "keeps to those."
        )
    if callable(controller):
        answers = [_mean_answer(controller, state) for state in states]
        _refuse_ragged(answers, states)
        return np.stack(answers)
    return -states @ gain_matrix(controller, states.shape[1], one_row=False).T


def _mean_answer(controller: MeanRule, state: Array) -> Array:
    """The action of one state (n_actions,), refused if it is none."""
    where, answer = state.tolist(), _ask(controller, state)
    try:
        action = np.atleast_1d(np.asarray(answer, dtype=np.float64))
    except (TypeError, ValueError):
        action = np.array([np.nan])
    if action.ndim != 1 or not action.size or not np.isfinite(action).all():
        raise InvalidArgument(
            f"The controller returned {answer!r} at {where}; expected a finite number, or one for "
            "each dimension of the action."
        )
    return action


def _refuse_ragged(answers: Sequence[Array], states: Array) -> None:
    """Actions of different dimensions."""
    for answer, state in zip(answers, states, strict=True):
        if len(answer) != len(answers[0]):
            raise InvalidArgument(
                f"The controller returned {len(answers[0])} numbers at {states[0].tolist()}, but "
                f"{len(answer)} at {state.tolist()}: expected one for each dimension of the "
                "action, the same everywhere."
            )
