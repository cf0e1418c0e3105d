"""From a continuous controller to constraints: its action at states of a region, give or take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from handrail.arrays import Array
from handrail.categorical import CategoricalPolicy
from handrail.constraints import Between, Constraint
from handrail.controllers import gain_matrix, states_of
from handrail.errors import InvalidArgument
from handrail.gaussian import GaussianPolicy
from handrail.limits import action_limits
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
        answers = [_answer(controller, state) for state in states]
        _refuse_ragged(answers, states)
        return np.stack(answers)
    return -states @ gain_matrix(controller, states.shape[1], one_row=False).T


def _answer(controller: MeanRule, state: Array) -> Array:
    """The action of one state (n_actions,), refused if it is none."""
    where = state.tolist()
    try:
        answer = controller(state.copy())
    except Exception as error:  # whatever the user's function does
        raise InvalidArgument(
            f"The controller raised {type(error).__name__} at {where}: {error}"
        ) from error
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
