"""What decides: a network, its head, and the layers that it is made of."""

from handrail.policies.activation import (
    ACTIVATIONS,
    IDENTITY,
    RELU,
    Activation,
    Clipping,
    Convex,
    NearRectifier,
    Rectifier,
    Shape,
    SideBySide,
    Sigmoidal,
    Twinned,
)
from handrail.policies.branched_policy import (
    BranchedPolicy,
    BranchProbability,
    sizes_of,
)
from handrail.policies.categorical import CategoricalPolicy
from handrail.policies.coordinates import Coordinates
from handrail.policies.deterministic import DeterministicPolicy
from handrail.policies.fence import FenceBuilder, Fences
from handrail.policies.fused_network import FusedNetwork, ReluLayer
from handrail.policies.gaussian import GaussianPolicy
from handrail.policies.greedy import GreedyPolicy
from handrail.policies.joint_network import TwinNetwork, joined, mirrored
from handrail.policies.layer_arrays import LayerArrays
from handrail.policies.layers import Layers, Refusal, first_layer, n_observed
from handrail.policies.mean_policy import MeanPolicy
from handrail.policies.network import Architecture, Tensors, load_weights, pack_policy
from handrail.policies.normalisation import Normaliser, normaliser_in
from handrail.policies.numpy_pass import NumpyPass, PassedArrays
from handrail.policies.policy import ROWS_PER_PASS, Actions, Policy
from handrail.policies.quantity import (
    MEAN,
    PROBABILITY,
    STD,
    VALUE,
    Quantity,
)
from handrail.policies.residual import Residual
from handrail.policies.scaler import Scaler, finite_ranges, onto_range
from handrail.policies.spaces import (
    Spaces,
    action_limits,
    check_fit,
    fitted,
    fitting,
    flat_observation,
    flat_space,
    flattening,
    limits_of,
    policy_for,
    space_of,
    spaces_of,
    takes_as_drawn,
)
from handrail.policies.varying_gaussian import (
    MeanAndStd,
    VaryingGaussianPolicy,
    quantity_called,
)

__all__ = [
    "ACTIVATIONS",
    "IDENTITY",
    "MEAN",
    "PROBABILITY",
    "RELU",
    "ROWS_PER_PASS",
    "STD",
    "VALUE",
    "Actions",
    "Activation",
    "Architecture",
    "BranchProbability",
    "BranchedPolicy",
    "CategoricalPolicy",
    "Clipping",
    "Convex",
    "Coordinates",
    "DeterministicPolicy",
    "FenceBuilder",
    "Fences",
    "FusedNetwork",
    "GaussianPolicy",
    "GreedyPolicy",
    "LayerArrays",
    "Layers",
    "MeanAndStd",
    "MeanPolicy",
    "NearRectifier",
    "Normaliser",
    "NumpyPass",
    "PassedArrays",
    "Policy",
    "Quantity",
    "Rectifier",
    "Refusal",
    "ReluLayer",
    "Residual",
    "Scaler",
    "Shape",
    "SideBySide",
    "Sigmoidal",
    "Spaces",
    "Tensors",
    "TwinNetwork",
    "Twinned",
    "VaryingGaussianPolicy",
    "action_limits",
    "check_fit",
    "finite_ranges",
    "first_layer",
    "fitted",
    "fitting",
    "flat_observation",
    "flat_space",
    "flattening",
    "joined",
    "limits_of",
    "load_weights",
    "mirrored",
    "n_observed",
    "normaliser_in",
    "onto_range",
    "pack_policy",
    "policy_for",
    "quantity_called",
    "sizes_of",
    "space_of",
    "spaces_of",
    "takes_as_drawn",
]
