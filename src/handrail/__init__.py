"""Handrail: tell a policy what it must do in states you know about."""

from handrail.batches import Batch
from handrail.categorical import CategoricalPolicy
from handrail.certification import Certificate, certify
from handrail.conflicts import Conflict
from handrail.constraints import AtLeast, AtMost, Between, Constraint, Equal
from handrail.diagnosis import Diagnosis, diagnose
from handrail.enforcement import Enforcement
from handrail.errors import (
    Diverged,
    EnvironmentFailure,
    HandrailError,
    InfeasibleConstraints,
    InvalidArgument,
    InvalidBatch,
    InvalidCertificate,
    InvalidConstraint,
    InvalidPolicy,
    InvalidRulebook,
    InvalidRun,
    ShapeMismatch,
    SolverFailure,
    StorageFailure,
    UnsatisfiedConstraints,
)
from handrail.evaluation import Evaluation
from handrail.gaussian import GaussianPolicy
from handrail.obedience import enforce
from handrail.policies import Policy
from handrail.proofs import Budget
from handrail.quantities import Mean
from handrail.records import Record, Seconds
from handrail.regions import Ball, Box, Curve, Points, Polytope, Region, Union
from handrail.reinforce import Reinforce
from handrail.relations import Linear, Symmetric, Term
from handrail.returns import SafeReturns, safe_returns, update
from handrail.rulebook import Rulebook
from handrail.rulebook import load as load_rulebook
from handrail.runs import Run, make_agent
from handrail.selections import Everywhere, MaximumDeviation, MaximumReturn
from handrail.tangent import predict_change, tangent_kernel
from handrail.version import VERSION
from handrail.violations import Violations, measure

__version__ = VERSION

__all__ = [
    "AtLeast",
    "AtMost",
    "Ball",
    "Batch",
    "Between",
    "Box",
    "Budget",
    "CategoricalPolicy",
    "Certificate",
    "Conflict",
    "Constraint",
    "Curve",
    "Diagnosis",
    "Diverged",
    "Enforcement",
    "EnvironmentFailure",
    "Equal",
    "Evaluation",
    "Everywhere",
    "GaussianPolicy",
    "HandrailError",
    "InfeasibleConstraints",
    "InvalidArgument",
    "InvalidBatch",
    "InvalidCertificate",
    "InvalidConstraint",
    "InvalidPolicy",
    "InvalidRulebook",
    "InvalidRun",
    "Linear",
    "MaximumDeviation",
    "MaximumReturn",
    "Mean",
    "Points",
    "Policy",
    "Polytope",
    "Record",
    "Region",
    "Reinforce",
    "Rulebook",
    "Run",
    "SafeReturns",
    "Seconds",
    "ShapeMismatch",
    "SolverFailure",
    "StorageFailure",
    "Symmetric",
    "Term",
    "Union",
    "UnsatisfiedConstraints",
    "Violations",
    "certify",
    "diagnose",
    "enforce",
    "load_rulebook",
    "make_agent",
    "measure",
    "predict_change",
    "safe_returns",
    "tangent_kernel",
    "update",
]
