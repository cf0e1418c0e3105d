"""The first order of a network: gradients and the tangent kernel."""

from handrail.tangent.batch import Batch, PolicyGradient, policy_gradient
from handrail.tangent.carryover import Carryover, carryovers
from handrail.tangent.descent import descend
from handrail.tangent.gradient import (
    Gradient,
    distance,
    pull_back,
    push_forward,
    restore,
    snapshot,
    take_step,
    unchanged_on_failure,
)
from handrail.tangent.gram_matrix import Functionals, gram, gram_diagonal
from handrail.tangent.kernel import predict_change, tangent_kernel
from handrail.tangent.unevenness import MATTERS, MAY_MATTER, Unevenness, observed_states

__all__ = [
    "MATTERS",
    "MAY_MATTER",
    "Batch",
    "Carryover",
    "Functionals",
    "Gradient",
    "PolicyGradient",
    "Unevenness",
    "carryovers",
    "descend",
    "distance",
    "gram",
    "gram_diagonal",
    "observed_states",
    "policy_gradient",
    "predict_change",
    "pull_back",
    "push_forward",
    "restore",
    "snapshot",
    "take_step",
    "tangent_kernel",
    "unchanged_on_failure",
]
