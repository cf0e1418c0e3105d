"""Constraints kept on one model: what is held, how, and what each holding did."""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import final

from numpy.typing import ArrayLike
from stable_baselines3.common.base_class import BaseAlgorithm

from handrail._threads import one_thread
from handrail.constraints import Tolerance, expand
from handrail.enforcement import (
    Enforcement,
    Rail,
    impossible_at_one_state,
    make_enforcer,
    references_before_experience,
)
from handrail.errors import UnsatisfiedConstraints
from handrail.rulebook import AnyConstraints, constraints_of
from handrail.sb3.policy import policy_of, refuse_changed
from handrail.settings import Reach, Selection


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


@final
class Keeper:
    """Keeps constraints on a model.

    Args:
        model: its actor is changed in place.
        constraints: what must hold.
        selection: how regions are held.
        reach: how far knowledge may move the policy elsewhere.
        tolerance: the largest violation allowed; what is finer than the model computes is not
            asked of it.
        references: where the policy should stay as it is for as long as there is no experience.

    Attributes:
        policy: of the model, on its very parameters.
        enforcer: remembers from one holding to the next which states of regions matter.
    """

    def __init__(
        self,
        model: BaseAlgorithm,
        constraints: AnyConstraints,
        selection: Selection,
        reach: Reach,
        tolerance: Tolerance,
        references: ArrayLike | None = None,
    ) -> None:
        self._model = model
        self._network = model.policy
        self.policy = policy_of(model)
        spaces = model.observation_space, model.action_space
        given = constraints_of(constraints, spaces)
        expansion = expand(given, self.policy)
        self._fixed = expansion.fixed
        self.enforcer = make_enforcer(expansion, selection, self.policy, tolerance)
        first = references_before_experience(references, spaces[0], constraints)
        self._rail = Rail(self.enforcer, given, first, reach)

    def keeps(self, model: BaseAlgorithm) -> bool:
        """Whether this is the model, with the network it had."""
        return model is self._model and model.policy is self._network

    def learned_from(self, states: ArrayLike) -> None:
        """The states (n, *observation_shape) of a rollout."""
        self._rail.learned_from(states)

    def hold(self) -> tuple[Holding, Enforcement]:
        """Make the model obey now; on failure it is as it was."""
        start = perf_counter()
        self._network.set_training_mode(False)  # as it acts; `train` goes back by itself
        with one_thread():
            refuse_changed(self._network, self.policy)  # what is held must be what acts
            before = self.enforcer.measure(self.policy).worst_violation
            result = self._rail.hold(self.policy)
        timesteps = self._model.num_timesteps
        if not result.satisfied:
            raise UnsatisfiedConstraints(
                f"After {timesteps} timesteps the constraints could not be made to hold; the "
                f"policy is as {type(self._model).__name__} left it. {result.reason}"
                f"{self._hint()}"
            )
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

    def _hint(self) -> str:
        """What only a fresh network of Stable-Baselines3 has: a last layer that is almost zero."""
        if self._model.num_timesteps or not getattr(self._network, "ortho_init", False):
            return ""
        if self._fixed is not None and impossible_at_one_state(self._fixed) is not None:
            return ""  # no network could
        return (
            " A fresh network of Stable-Baselines3 is almost linear, which may be why: try "
            'policy_kwargs={"ortho_init": False}.'
        )
