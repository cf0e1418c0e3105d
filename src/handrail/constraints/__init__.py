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
from handrail.constraints.expansion import Expansion, Regional, expand, refuse_other_quantity
from handrail.constraints.relation import Linear, Symmetric, Term
from handrail.constraints.rows import Rows, concatenate
from handrail.constraints.selection import (
    STRICT,
    Everywhere,
    MaximumDeviation,
    MaximumReturn,
    Selection,
    chosen_selection,
)
from handrail.constraints.violations import (
    Violations,
    _violations,
    bound_in_words,
    measure,
    measure_fresh,
    measure_rows,
    state_in_words,
    violations_at,
)

__all__ = [
    "STRICT",
    "AtLeast",
    "AtMost",
    "Between",
    "Constraint",
    "ControllerSample",
    "Equal",
    "Everywhere",
    "Expansion",
    "Linear",
    "MaximumDeviation",
    "MaximumReturn",
    "Mean",
    "PlacedConstraint",
    "Regional",
    "Rows",
    "Selection",
    "Symmetric",
    "Term",
    "Violations",
    "_violations",
    "action_about",
    "bound_in_words",
    "chosen_selection",
    "concatenate",
    "constraints_from",
    "expand",
    "mean_constraints_from",
    "measure",
    "measure_fresh",
    "measure_rows",
    "refuse_other_quantity",
    "sample_controller",
    "state_in_words",
    "violations_at",
]
