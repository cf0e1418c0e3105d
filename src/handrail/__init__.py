"""Handrail: tell a policy what it must do in states you know about.

Names are loaded when they are first asked for: `import handrail` costs next to nothing, and a
command that needs no network does not wait for torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from handrail._package import VERSION, lazy_face

if TYPE_CHECKING:
    from handrail import constraints as constraints
    from handrail import enforcement as enforcement
    from handrail import errors as errors
    from handrail import executors as executors
    from handrail import export as export
    from handrail import formulas as formulas
    from handrail import learning as learning
    from handrail import policies as policies
    from handrail import proof as proof
    from handrail import regions as regions
    from handrail import report as report
    from handrail import rulebook as rulebook
    from handrail import runs as runs
    from handrail import sb3 as sb3
    from handrail import settings as settings
    from handrail import studio as studio
    from handrail import tangent as tangent
    from handrail.constraints import AnyOf as AnyOf
    from handrail.constraints import AtLeast as AtLeast
    from handrail.constraints import AtMost as AtMost
    from handrail.constraints import Between as Between
    from handrail.constraints import Branch as Branch
    from handrail.constraints import Constraint as Constraint
    from handrail.constraints import Equal as Equal
    from handrail.constraints import LikelyWithin as LikelyWithin
    from handrail.constraints import Linear as Linear
    from handrail.constraints import Lipschitz as Lipschitz
    from handrail.constraints import Mean as Mean
    from handrail.constraints import Monotone as Monotone
    from handrail.constraints import Prefer as Prefer
    from handrail.constraints import Std as Std
    from handrail.constraints import Symmetric as Symmetric
    from handrail.constraints import Term as Term
    from handrail.constraints import Violations as Violations
    from handrail.constraints import barrier as barrier
    from handrail.constraints import constraints_from as constraints_from
    from handrail.constraints import mean_constraints_from as mean_constraints_from
    from handrail.constraints import sample_controller as sample_controller
    from handrail.constraints import sampled_barrier as sampled_barrier
    from handrail.constraints import within as within
    from handrail.enforcement import Diagnosis as Diagnosis
    from handrail.enforcement import Edit as Edit
    from handrail.enforcement import Enforcement as Enforcement
    from handrail.enforcement import diagnose as diagnose
    from handrail.enforcement import edit as edit
    from handrail.enforcement import enforce as enforce
    from handrail.enforcement import measure as measure
    from handrail.enforcement import safe_returns as safe_returns
    from handrail.errors import HandrailError as HandrailError
    from handrail.export import export_numpy as export_numpy
    from handrail.export import export_onnx as export_onnx
    from handrail.formulas import Affine as Affine
    from handrail.formulas import Formula as Formula
    from handrail.learning import Evaluation as Evaluation
    from handrail.learning import Reinforce as Reinforce
    from handrail.learning import Scalars as Scalars
    from handrail.learning import TensorBoardLog as TensorBoardLog
    from handrail.learning import evaluate as evaluate
    from handrail.policies import BranchedPolicy as BranchedPolicy
    from handrail.policies import CategoricalPolicy as CategoricalPolicy
    from handrail.policies import DeterministicPolicy as DeterministicPolicy
    from handrail.policies import GaussianPolicy as GaussianPolicy
    from handrail.policies import GreedyPolicy as GreedyPolicy
    from handrail.policies import Policy as Policy
    from handrail.policies import VaryingGaussianPolicy as VaryingGaussianPolicy
    from handrail.proof import Budget as Budget
    from handrail.proof import Certificate as Certificate
    from handrail.proof import Certificates as Certificates
    from handrail.proof import certify as certify
    from handrail.regions import Ball as Ball
    from handrail.regions import Box as Box
    from handrail.regions import Curve as Curve
    from handrail.regions import Points as Points
    from handrail.regions import Polytope as Polytope
    from handrail.regions import Region as Region
    from handrail.regions import Union as Union
    from handrail.rulebook import Rulebook as Rulebook
    from handrail.rulebook import load_rulebook as load_rulebook
    from handrail.runs import Run as Run
    from handrail.runs import make_agent as make_agent
    from handrail.settings import Everywhere as Everywhere
    from handrail.settings import Fading as Fading
    from handrail.settings import MaximumDeviation as MaximumDeviation
    from handrail.settings import MaximumReturn as MaximumReturn
    from handrail.tangent import Batch as Batch
    from handrail.tangent import predict_change as predict_change

__version__ = VERSION

# The same again for the interpreter (a test compares the two).
_NAMES = {
    "constraints": (
        "AnyOf",
        "AtLeast",
        "AtMost",
        "Between",
        "Branch",
        "Constraint",
        "Equal",
        "LikelyWithin",
        "Linear",
        "Lipschitz",
        "Mean",
        "Monotone",
        "Prefer",
        "Std",
        "Symmetric",
        "Term",
        "Violations",
        "barrier",
        "constraints_from",
        "mean_constraints_from",
        "sample_controller",
        "sampled_barrier",
        "within",
    ),
    "enforcement": (
        "Diagnosis",
        "Edit",
        "Enforcement",
        "diagnose",
        "edit",
        "enforce",
        "measure",
        "safe_returns",
    ),
    "errors": ("HandrailError",),
    "export": (
        "export_numpy",
        "export_onnx",
    ),
    "formulas": (
        "Affine",
        "Formula",
    ),
    "learning": (
        "Evaluation",
        "Reinforce",
        "Scalars",
        "TensorBoardLog",
        "evaluate",
    ),
    "policies": (
        "BranchedPolicy",
        "CategoricalPolicy",
        "DeterministicPolicy",
        "GaussianPolicy",
        "GreedyPolicy",
        "Policy",
        "VaryingGaussianPolicy",
    ),
    "proof": (
        "Budget",
        "Certificate",
        "Certificates",
        "certify",
    ),
    "regions": (
        "Ball",
        "Box",
        "Curve",
        "Points",
        "Polytope",
        "Region",
        "Union",
    ),
    "rulebook": (
        "Rulebook",
        "load_rulebook",
    ),
    "runs": (
        "Run",
        "make_agent",
    ),
    "settings": (
        "Everywhere",
        "Fading",
        "MaximumDeviation",
        "MaximumReturn",
    ),
    "tangent": (
        "Batch",
        "predict_change",
    ),
}
_PACKAGES = (*_NAMES, "executors", "report", "sb3", "studio")

__all__ = sorted(  # noqa: PLE0605
    ["__version__", *_PACKAGES, *(name for names in _NAMES.values() for name in names)]
)

__getattr__, __dir__ = lazy_face(__name__, _NAMES, _PACKAGES)
