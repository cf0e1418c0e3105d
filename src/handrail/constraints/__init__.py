"""What must hold, as rows; and how far a policy is from it."""

from handrail.constraints.action_range import ActionRange
from handrail.constraints.amount import Amount, Demand, amount_in_words, is_bound
from handrail.constraints.any_of import AnyOf
from handrail.constraints.barrier_condition import BarrierCondition, barrier, sampled_barrier
from handrail.constraints.close_to import CloseTo
from handrail.constraints.constraint import (
    Action,
    Branch,
    Constraint,
    Mean,
    PlacedConstraint,
    Std,
    action_about,
    as_mapping,
    constraint_from,
)
from handrail.constraints.controller import (
    ControllerSample,
    constraints_from,
    mean_constraints_from,
    sample_controller,
    within,
)
from handrail.constraints.drawn_actions import DrawnActions, DrawnInPlace, count_drawn
from handrail.constraints.expansion import (
    Expansion,
    Regional,
    expand,
    is_kept_noise,
    refuse_other_quantity,
    refuse_wrong_types,
    weighted_range,
)
from handrail.constraints.likely_draws import LikelyDraws
from handrail.constraints.likely_range import LikelyWithin
from handrail.constraints.output_bounds import (
    AtLeast,
    AtMost,
    Between,
    Bounded,
    Equal,
    looked_at,
    noise_range,
)
from handrail.constraints.pair import Difference, Paired, Twin
from handrail.constraints.preference import Prefer
from handrail.constraints.relation import Linear, Symmetric, Term
from handrail.constraints.rows import Rows, concatenate
from handrail.constraints.slope import Lipschitz, Monotone, SlopeBounded
from handrail.constraints.tolerance import DEFAULT_TOLERANCE, Tolerance, check_tolerance
from handrail.constraints.violations import (
    FreshMeasurement,
    Violations,
    measure_fresh,
    measure_rows,
    violations_at,
    violations_together,
)
from handrail.constraints.words import (
    bound_in_words,
    counted,
    html_table,
    listed,
    state_in_words,
)

__all__ = [
    "DEFAULT_TOLERANCE",
    "Action",
    "ActionRange",
    "Amount",
    "AnyOf",
    "AtLeast",
    "AtMost",
    "BarrierCondition",
    "Between",
    "Bounded",
    "Branch",
    "CloseTo",
    "Constraint",
    "ControllerSample",
    "Demand",
    "Difference",
    "DrawnActions",
    "DrawnInPlace",
    "Equal",
    "Expansion",
    "FreshMeasurement",
    "LikelyDraws",
    "LikelyWithin",
    "Linear",
    "Lipschitz",
    "Mean",
    "Monotone",
    "Paired",
    "PlacedConstraint",
    "Prefer",
    "Regional",
    "Rows",
    "SlopeBounded",
    "Std",
    "Symmetric",
    "Term",
    "Tolerance",
    "Twin",
    "Violations",
    "action_about",
    "amount_in_words",
    "as_mapping",
    "barrier",
    "bound_in_words",
    "check_tolerance",
    "concatenate",
    "constraint_from",
    "constraints_from",
    "count_drawn",
    "counted",
    "expand",
    "html_table",
    "is_bound",
    "is_kept_noise",
    "listed",
    "looked_at",
    "mean_constraints_from",
    "measure_fresh",
    "measure_rows",
    "noise_range",
    "refuse_other_quantity",
    "refuse_wrong_types",
    "sample_controller",
    "sampled_barrier",
    "state_in_words",
    "violations_at",
    "violations_together",
    "weighted_range",
    "within",
]
