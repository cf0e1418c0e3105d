"""The policy where no constraint speaks, to first order, and the metric that keeps it there.

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
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, final

import numpy as np
from scipy.linalg import cho_factor

from handrail._types import Array
from handrail.policies import Policy
from handrail.tangent import Functionals, Gradient, gram, pull_back, push_forward

# Below this, rounding decides: "only where I said".
_LEAST_REACH = 1e-7


@final
class Anchor:
    """A policy's coordinates at reference states, and their gradients.

    Args:
        policy: in float64; at these weights for as long as this is used.
        states: (n, *observation_shape), the references.
        coordinates: most that count; of more, one of each state's takes the place of all of them.
    """

    def __init__(self, policy: Policy, states: Array, coordinates: int) -> None:
        self._policy = policy
        self._states = states
        self._chosen = chosen = _chosen(policy, states, coordinates)
        outputs = policy.outputs(states)
        natural, gradients = policy.natural(outputs)
        self.values = _some(natural, chosen)  # y (n, k)
        self._weights = _some(gradients, chosen)  # (n, k, n_actions), on the raw outputs
        self.functionals = Functionals(policy, states, self._weights)

    def values_of(self, policy: Policy) -> Array:
        """The same coordinates (n, k) of a policy at other weights."""
        return _some(policy.natural(policy.outputs(self._states))[0], self._chosen)

    @cached_property
    def kernel(self) -> Array:
        """K (n · k, n · k)."""
        n = self.values.size
        kernel: Array = gram(self.functionals, self.functionals).reshape(n, n)
        return kernel

    @cached_property
    def unit(self) -> float:
        """|∇y|². Saturated everywhere, nothing has a gradient: any positive number will do."""
        return float(np.diag(self.kernel).mean()) or 1.0

    def ridge(self, reach: float) -> float:
        """ρ."""
        return max(reach, _LEAST_REACH) * self.values.size * self.unit

    def damped(self, ridge: float) -> Any:
        """The factor of K + ρ, for `scipy.linalg.cho_solve`."""
        return cho_factor(self.kernel + ridge * np.eye(len(self.kernel)))

    def effect(self, direction: Gradient) -> Array:
        """J · direction (n · k,)."""
        raw = push_forward(self._policy, self._states, direction)
        changes: Array = (self._weights * raw[:, None, :]).sum(axis=2).ravel()
        return changes

    def direction(self, coefficients: Array) -> Gradient:
        """Jᵀ coefficients (n · k,)."""
        by_state = coefficients.reshape(self.values.shape)
        weights = (by_state[:, :, None] * self._weights).sum(axis=1)
        return pull_back(self._policy, self._states, lambda _, chunk: weights[chunk])


def _chosen(policy: Policy, states: Array, most: int) -> Array | None:
    """Which coordinate stands for each state (n,); None for all of them."""
    k = policy.natural(policy.outputs(states[:1]))[0].shape[1]
    return None if len(states) * k <= most or k == 1 else np.arange(len(states)) % k


def _some(every: Array, chosen: Array | None) -> Array:
    """Of (n, k, …) one a state (n, 1, …), as long as all k together on average."""
    if chosen is None:
        return every
    n, k = every.shape[:2]
    one: Array = every[np.arange(n), chosen][:, None]
    return one * float(np.sqrt(k))
