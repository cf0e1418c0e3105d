"""What must hold, as rows; and how far a policy is from it."""

from handrail.constraints.constraint import (
    AtLeast,
    AtMost,
    Between,
    Constraint,
    Equal,
    Mean,
    PlacedConstraint,
    action_about,
)
from handrail.constraints.controller import (
    ControllerSample,
    constraints_from,
    mean_constraints_from,
    sample_controller,
)
from handrail.constraints.expansion import (
    Expansion,
    Regional,
    expand,
    refuse_other_quantity,
    refuse_wrong_types,
)
from handrail.constraints.relation import Linear, Symmetric, Term
from handrail.constraints.rows import Rows, concatenate
from handrail.constraints.violations import (
    Violations,
    _violations,
    bound_in_words,
    measure_fresh,
    measure_rows,
    state_in_words,
    violations_at,
)

__all__ = [
    "AtLeast",
    "AtMost",
    "Between",
    "Constraint",
    "ControllerSample",
    "Equal",
    "Expansion",
    "Linear",
    "Mean",
    "PlacedConstraint",
    "Regional",
    "Rows",
    "Symmetric",
    "Term",
    "Violations",
    "_violations",
    "action_about",
    "bound_in_words",
    "concatenate",
    "constraints_from",
    "expand",
    "mean_constraints_from",
    "measure_fresh",
    "measure_rows",
    "refuse_other_quantity",
    "refuse_wrong_types",
    "sample_controller",
    "state_in_words",
    "violations_at",
]
