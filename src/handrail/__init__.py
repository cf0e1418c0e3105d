"""Handrail: tell a policy what it must do in states you know about."""

from handrail.batches import Batch
from handrail.conflicts import Conflict
from handrail.constraints import AtLeast, AtMost, Between, Constraint, Equal
from handrail.diagnosis import Diagnosis, diagnose
from handrail.enforcement import Enforcement, enforce
from handrail.errors import (
    Diverged,
    EnvironmentFailure,
    HandrailError,
    InfeasibleConstraints,
    InvalidArgument,
    InvalidBatch,
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
from handrail.policies import CategoricalPolicy
from handrail.records import Record, Seconds
from handrail.regions import Points
from handrail.reinforce import Reinforce
from handrail.relations import Linear, Symmetric, Term
from handrail.returns import SafeReturns, safe_returns, update
from handrail.rulebook import Rulebook
from handrail.rulebook import load as load_rulebook
from handrail.runs import Run, make_agent
from handrail.tangent import predict_change, tangent_kernel
from handrail.version import VERSION
from handrail.violations import Violations, measure

__version__ = VERSION

__all__ = [
    "AtLeast",
    "AtMost",
    "Batch",
    "Between",
    "CategoricalPolicy",
    "Conflict",
    "Constraint",
    "Diagnosis",
    "Diverged",
    "Enforcement",
    "EnvironmentFailure",
    "Equal",
    "Evaluation",
    "HandrailError",
    "InfeasibleConstraints",
    "InvalidArgument",
    "InvalidBatch",
    "InvalidConstraint",
    "InvalidPolicy",
    "InvalidRulebook",
    "InvalidRun",
    "Linear",
    "Points",
    "Record",
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
    "UnsatisfiedConstraints",
    "Violations",
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
