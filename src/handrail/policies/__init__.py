"""What decides: a network, its head, and the layers that it is made of."""

from handrail.policies.categorical import CategoricalPolicy, as_categorical
from handrail.policies.gaussian import GaussianPolicy
from handrail.policies.layers import Chain, Layers, affine_layers
from handrail.policies.network import Architecture, Tensors, load_weights, pack_policy
from handrail.policies.policy import ROWS_PER_PASS, Actions, Policy
from handrail.policies.quantity import MEAN, PROBABILITY, Quantity, quantity_named
from handrail.policies.spaces import Spaces, action_limits, check_fit, clipped, clipping, spaces_of

__all__ = [
    "MEAN",
    "PROBABILITY",
    "ROWS_PER_PASS",
    "Actions",
    "Architecture",
    "CategoricalPolicy",
    "Chain",
    "GaussianPolicy",
    "Layers",
    "Policy",
    "Quantity",
    "Spaces",
    "Tensors",
    "action_limits",
    "affine_layers",
    "as_categorical",
    "check_fit",
    "clipped",
    "clipping",
    "load_weights",
    "pack_policy",
    "quantity_named",
    "spaces_of",
]
