"""Random actions of DQN, kept to those that the constraints leave where they speak.

Epsilon-greedy models take a random action now and then, and only random ones before
`learning_starts`. Where a `Prefer` says that one action is valued above another, the greedy policy
never takes that other one, and with this neither does chance: it draws uniformly among the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm

from handrail._types import Mask
from handrail.constraints import Constraint, Prefer
from handrail.errors import InvalidArgument
from handrail.regions import Place, Points
from handrail.sb3.experience import present_states

_HOOKED = "_sample_action"  # all actions of a training come from there
_NOT_SAVED = "_excluded_save_params"

_A_FEW = 64  # numbers of a state

_Inside = Callable[[NDArray[Any]], Mask]


@final
class AllowedActions:
    """Which actions a greedy policy that obeys may take.

    Args:
        constraints: of which only `Prefer` says so.
        n_actions: of the policy.
    """

    def __init__(self, constraints: Sequence[Constraint], n_actions: int) -> None:
        preferred = [one for one in constraints if isinstance(one, Prefer)]
        self._n_actions = n_actions
        self._forbidden = [
            (_inside_of(one.where), _forbidden_by(one, n_actions)) for one in preferred
        ]
        self._somewhere = np.any([np.zeros(n_actions), *(one for _, one in self._forbidden)], 0)

    def are_everywhere(self, actions: NDArray[Any]) -> bool:
        """Whether none of the actions (n,) is forbidden at any state: no state need be known."""
        return not self._somewhere[actions].any()

    def at(self, states: NDArray[Any]) -> Mask:
        """At states (n, *observation_shape) of any precision: (n, n_actions)."""
        flat = states.reshape(len(states), -1)
        allowed = np.ones((len(flat), self._n_actions), dtype=bool)
        for inside, forbidden in self._forbidden:
            allowed &= ~(inside(flat)[:, None] & forbidden)
        return allowed


def _forbidden_by(constraint: Prefer, n_actions: int) -> Mask:
    """Which actions (n_actions,) are not taken where it speaks."""
    every = np.arange(n_actions)
    others: Mask = every != constraint.action
    only: Mask = every == constraint.over
    return others if constraint.over == "all" else only


def _inside_of(where: Place) -> _Inside:
    """Which of some states (n, n_coordinates) a place has: (n,)."""
    if isinstance(where, Points):
        return _Met(where)
    return lambda flat: where.contains(flat.astype(np.float64, copy=False))


@final
class _Met:
    """Which states are points, as the model sees them: in float32.

    Asked at every step, of images too: a few of their numbers tell nearly all states from a point.
    """

    def __init__(self, where: Points) -> None:
        self._points = where.states.reshape(len(where.states), -1).astype(np.float32)
        some = slice(None, None, -(-self._points.shape[1] // _A_FEW))
        self._some, self._of_points = some, self._points[:, some]

    def __call__(self, flat: NDArray[Any]) -> Mask:
        maybe = (flat[:, self._some].astype(np.float32)[:, None] == self._of_points).all(axis=2)
        met: Mask = maybe.any(axis=1)
        for number in np.flatnonzero(met):
            same = self._points[maybe[number]] == flat[number].astype(np.float32)
            met[number] = same.all(axis=1).any()
        return met


@final
class KeptExploration:
    """The actions that a training draws, put right where they are not allowed.

    Args:
        model: DQN or the like.
        allowed: what it may take.
    """

    def __init__(self, model: BaseAlgorithm, allowed: AllowedActions) -> None:
        if not hasattr(model, "exploration_rate") or not isinstance(model, OffPolicyAlgorithm):
            raise InvalidArgument(
                f'explore="allowed" draws among the actions that constraints leave, for DQN and '
                f'QR-DQN. {type(model).__name__} has no such steps: leave it at "freely".'
            )
        self._model = model
        self._allowed = allowed
        self._training: int | None = None

    def begin(self) -> None:
        """Until `learn` ends; what is put on the model is not saved with it."""
        self.end()
        model: Any = self._model
        self._training = model.start_time
        not_saved = [*model._excluded_save_params(), _HOOKED, _NOT_SAVED]
        vars(model)[_NOT_SAVED] = lambda: not_saved
        vars(model)[_HOOKED] = self

    def end(self) -> None:
        """Until here."""
        for name in (_HOOKED, _NOT_SAVED):
            vars(self._model).pop(name, None)

    def __call__(self, *given: Any, **named: Any) -> tuple[NDArray[Any], NDArray[Any]]:
        """Actions (n,) as Stable-Baselines3 draws them, and for its buffer."""
        model: Any = self._model
        draw: Any = getattr(type(model), _HOOKED)
        actions, stored = draw(model, *given, **named)
        # Left behind by an interruption, it must not meddle with a training without a rail.
        if model.start_time != self._training:
            return actions, stored
        put_right = self._put_right(np.asarray(actions))
        return put_right, put_right

    def _put_right(self, actions: NDArray[Any]) -> NDArray[Any]:
        model: Any = self._model
        if self._allowed.are_everywhere(actions):
            return actions.copy()
        states = present_states(model)
        assert states is not None  # it acts
        allowed = self._allowed.at(states)
        chance, kept = model.action_space.np_random, actions.copy()
        for number in np.flatnonzero(~allowed[np.arange(len(actions)), actions]):
            choices = np.flatnonzero(allowed[number])
            if len(choices):
                kept[number] = chance.choice(choices)
        return kept


def is_kept(model: BaseAlgorithm) -> bool:
    """Whether what a model draws is put right at present."""
    return isinstance(vars(model).get(_HOOKED), KeptExploration)
