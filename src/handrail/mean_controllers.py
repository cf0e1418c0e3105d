"""From a continuous controller to constraints: its action at states of a region, give or take."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array
from handrail.constraints import Between, Constraint
from handrail.controllers import states_of
from handrail.errors import InvalidArgument, ShapeMismatch
from handrail.gaussian import GaussianPolicy
from handrail.quantities import Mean
from handrail.regions import Points, Region

# State (n_coordinates,) -> a number, or (n_actions,).
MeanRule: TypeAlias = Callable[[Array], Any]


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
        limits: (low, high) of the action; what the controller wants beyond them is clipped.
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
        wanted = np.clip(wanted, *limits)
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


def _asked(controller: Any, states: Array) -> Array:
    """Actions (n, n_actions) at states (n, n_coordinates)."""
    if isinstance(controller, GaussianPolicy):
        return controller.mean(states)
    if callable(controller):
        return np.stack([_answer(controller, state) for state in states])
    return -states @ _gain(controller, states.shape[1]).T


def _answer(controller: MeanRule, state: Array) -> Array:
    """The action of one state (n_actions,), refused if it is none."""
    where = state.tolist()
    try:
        answer = controller(state.copy())
        action = np.atleast_1d(np.asarray(answer, dtype=np.float64))
    except Exception as error:  # whatever the user's function does
        raise InvalidArgument(
            f"The controller raised {type(error).__name__} at {where}: {error}"
        ) from error
    if action.ndim != 1 or not np.isfinite(action).all():
        raise InvalidArgument(
            f"The controller returned {answer!r} at {where}; expected a finite number, or one for "
            "each dimension of the action."
        )
    return action


def _gain(controller: Any, n_coordinates: int) -> Array:
    try:
        gain = np.atleast_2d(np.asarray(controller, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"A continuous controller is a function from a state to an action, a gain matrix, or a "
            f"GaussianPolicy, not {controller!r}."
        ) from None
    if gain.ndim != 2 or gain.shape[1] != n_coordinates or not np.isfinite(gain).all():
        raise ShapeMismatch(
            f"The gain matrix has shape {gain.shape}, but states of the region have "
            f"{n_coordinates} coordinates: expected finite numbers (n_actions, {n_coordinates})."
        )
    return gain
