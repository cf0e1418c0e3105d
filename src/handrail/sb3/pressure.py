"""Soft pressure towards the constraints inside every step of the optimiser.

Between two holdings a learner takes many steps that know nothing of the constraints. With pressure,
each of them also goes down ½ · strength · Σ shortfall², where a row's shortfall is how far it is
outside its bounds: in log-odds for a probability, as it is for any other row.
"""

from __future__ import annotations

from typing import final
from weakref import WeakKeyDictionary

import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from torch.optim import Optimizer
from torch.utils.hooks import RemovableHandle

from handrail.enforcement import Enforcer, Targets
from handrail.errors import InvalidArgument
from handrail.policies import Policy
from handrail.sb3.policy import ActorCritic
from handrail.tangent import Gradient, PolicyGradient

# One at most on any optimiser, whichever callback put it there: an interrupted training leaves its.
_ACTIVE: WeakKeyDictionary[Optimizer, RemovableHandle] = WeakKeyDictionary()


def take_off(optimizer: Optimizer) -> None:
    """Whatever pressure is on this optimiser."""
    handle = _ACTIVE.pop(optimizer, None)
    if handle is not None:
        handle.remove()


@final
class Pressure:
    """Adds to the gradients of the actor before the optimiser uses them.

    Args:
        model: the optimiser of its policy is the one.
        policy: on the parameters of the model's actor.
        strength: of the pressure; not zero.
        tolerance: of the constraints.
    """

    def __init__(
        self, model: BaseAlgorithm, policy: Policy, strength: float, tolerance: float
    ) -> None:
        self._model = model
        self._network: ActorCritic = model.policy
        self._policy = policy
        self._strength = strength
        self._tolerance = tolerance

    def begin(self, enforcer: Enforcer) -> None:
        """From now on, with the rows that hold the policy at present; until `learn` ends."""
        self.end()
        training = self._model.start_time
        rows = enforcer.step_rows(self._policy, _no_gradient(self._policy), 1.0)
        targets = Targets(rows, self._tolerance, self._policy.coordinates)

        def before_step(optimizer: Optimizer, *_: object) -> None:
            del optimizer
            # Left behind by an interruption, it must not pull at a later training without a rail.
            if self._model.start_time == training:
                self._add(targets)

        optimizer = self._network.optimizer
        _ACTIVE[optimizer] = optimizer.register_step_pre_hook(before_step)

    def end(self) -> None:
        """Until here."""
        take_off(self._network.optimizer)

    def _add(self, targets: Targets) -> None:
        learning = [one for one in self._policy.parameters if one.grad is not None]
        if not learning:
            raise InvalidArgument(
                "pressure works through the gradients that the optimiser is given, but this "
                "algorithm (TRPO, for one) changes its actor in another way. Leave pressure at 0."
            )
        training = self._network.training
        self._network.set_training_mode(False)
        try:
            _, gradient = targets.energy(self._policy)
        finally:
            self._network.set_training_mode(training)
        if gradient is None:
            return
        for parameter, part in zip(self._policy.parameters, gradient.parts, strict=True):
            if parameter.grad is not None:
                parameter.grad.add_(part, alpha=self._strength)


def _no_gradient(policy: Policy) -> PolicyGradient:
    """Nothing is planned besides."""
    return PolicyGradient(Gradient(tuple(map(torch.zeros_like, policy.parameters))), 0.0)
