"""Handrail: tell a policy what it must do in states you know about."""

from handrail.batches import Batch
from handrail.conflicts import Conflict
from handrail.constraints import AtLeast, AtMost, Between, Constraint, Equal
from handrail.diagnosis import Diagnosis, diagnose
from handrail.enforcement import Enforcement, enforce
from handrail.errors import (
    HandrailError,
    InfeasibleConstraints,
    InvalidArgument,
    InvalidBatch,
    InvalidConstraint,
    InvalidPolicy,
    ShapeMismatch,
    SolverFailure,
    UnsatisfiedConstraints,
)
from handrail.policies import CategoricalPolicy
from handrail.regions import Points
from handrail.relations import Linear, Symmetric, Term
from handrail.returns import SafeReturns, safe_returns, update
from handrail.tangent import predict_change, tangent_kernel
from handrail.violations import Violations, measure

__version__ = "0.1.0"

__all__ = [
    "AtLeast",
    "AtMost",
    "Batch",
    "Between",
    "CategoricalPolicy",
    "Conflict",
    "Constraint",
    "Diagnosis",
    "Enforcement",
    "Equal",
    "HandrailError",
    "InfeasibleConstraints",
    "InvalidArgument",
    "InvalidBatch",
    "InvalidConstraint",
    "InvalidPolicy",
    "Linear",
    "Points",
    "SafeReturns",
    "ShapeMismatch",
    "SolverFailure",
    "Symmetric",
    "Term",
    "UnsatisfiedConstraints",
    "Violations",
    "diagnose",
    "enforce",
    "measure",
    "predict_change",
    "safe_returns",
    "tangent_kernel",
    "update",
]
