"""Down an energy of a policy, as a learner's optimiser would go: where linearising gets stuck.

A linearisation is good for as far as the network is nearly linear. Units of a ReLU layer that are
off at all states that matter, or actions that a tanh has saturated, can leave no direction in which
anything gets better, though a few hundred small steps, each with gradients of its own, would switch
units on and off until there is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch.optim import Adam

from handrail.errors import InvalidPolicy
from handrail.policies import Policy
from handrail.tangent.gradient import Gradient

# Of the policy as it is: a number to be made small, and its gradient; None if nothing is left.
Energy = Callable[[Policy], tuple[float, Gradient | None]]

# Of Adam, as learners have it. What takes more steps than that, or gains less than this part of the
# energy in so many, comes to nothing.
_RATE, _MOST_STEPS, _PATIENCE, _WORTH_IT = 1e-3, 2000, 200, 0.05


def descend(policy: Policy, energy: Energy) -> bool:
    """Until nothing is left of the energy, or nothing is gained any more; in place.

    Returns whether it is a policy still: so far a step can lead that its network overflows.
    """
    best = math.inf
    try:
        with _own_gradients(policy):
            optimizer = Adam(policy.parameters, lr=_RATE)
            for number in range(_MOST_STEPS):
                left, gradient = energy(policy)
                if gradient is None:
                    break
                if number % _PATIENCE == 0:
                    if left > (1.0 - _WORTH_IT) * best:
                        break
                    best = left
                for parameter, part in zip(policy.parameters, gradient.parts, strict=True):
                    parameter.grad = part.to(parameter)
                optimizer.step()
    except InvalidPolicy:
        return False
    return True


@contextmanager
def _own_gradients(policy: Policy) -> Iterator[None]:
    """What a learner has left in its gradients stays there."""
    kept = [parameter.grad for parameter in policy.parameters]
    try:
        yield
    finally:
        for parameter, grad in zip(policy.parameters, kept, strict=True):
            parameter.grad = grad
