"""Make it hold: at points, on regions, in one step, in an edit; or say why not."""

from handrail.enforcement.conflict import Conflict, impossible_at_one_state, impossible_overlap
from handrail.enforcement.diagnosis import Diagnosis, diagnose, measure
from handrail.enforcement.elsewhere import Influence, influence_between
from handrail.enforcement.enforcer import Enforcer, Memory, make_enforcer
from handrail.enforcement.exchange import contradiction
from handrail.enforcement.iteration import Enforcement
from handrail.enforcement.linearisation import Targets
from handrail.enforcement.one_step import (
    SafeReturns,
    predict_step,
    safe_returns,
    solve_returns,
    update,
)
from handrail.enforcement.policy_edit import Edit, edit
from handrail.enforcement.rail import (
    Rail,
    cover_both_sides,
    enforce,
    references_before_experience,
)
from handrail.enforcement.references import (
    References,
    given_references,
    read_references,
    references_of_space,
)

__all__ = [
    "Conflict",
    "Diagnosis",
    "Edit",
    "Enforcement",
    "Enforcer",
    "Influence",
    "Memory",
    "Rail",
    "References",
    "SafeReturns",
    "Targets",
    "contradiction",
    "cover_both_sides",
    "diagnose",
    "edit",
    "enforce",
    "given_references",
    "impossible_at_one_state",
    "impossible_overlap",
    "influence_between",
    "make_enforcer",
    "measure",
    "predict_step",
    "read_references",
    "references_before_experience",
    "references_of_space",
    "safe_returns",
    "solve_returns",
    "update",
]
