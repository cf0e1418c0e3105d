"""Handrail: tell a policy what it must do in states you know about."""

from handrail.batches import Batch
from handrail.categorical import CategoricalPolicy
from handrail.certification import Certificate, certify
from handrail.conflicts import Conflict
from handrail.constraints import AtLeast, AtMost, Between, Constraint, Equal
from handrail.controllers import ControllerSample, constraints_from, sample_controller
from handrail.diagnosis import Diagnosis, diagnose
from handrail.edits import Edit, edit
from handrail.enforcement import Enforcement
from handrail.errors import (
    Diverged,
    EnvironmentFailure,
    ExcessiveSideEffect,
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
from handrail.evaluating import evaluate
from handrail.evaluation import Evaluation
from handrail.export import Exported, export_numpy, export_onnx
from handrail.gaussian import GaussianPolicy
from handrail.mean_controllers import mean_constraints_from
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
from handrail.side_effects import SideEffects
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
    "ControllerSample",
    "Curve",
    "Diagnosis",
    "Diverged",
    "Edit",
    "Enforcement",
    "EnvironmentFailure",
    "Equal",
    "Evaluation",
    "Everywhere",
    "ExcessiveSideEffect",
    "Exported",
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
    "SideEffects",
    "SolverFailure",
    "StorageFailure",
    "Symmetric",
    "Term",
    "Union",
    "UnsatisfiedConstraints",
    "Violations",
    "certify",
    "constraints_from",
    "diagnose",
    "edit",
    "enforce",
    "evaluate",
    "export_numpy",
    "export_onnx",
    "load_rulebook",
    "make_agent",
    "mean_constraints_from",
    "measure",
    "predict_change",
    "safe_returns",
    "sample_controller",
    "tangent_kernel",
    "update",
]
