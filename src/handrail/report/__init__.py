"""Numbers over seeds, figures, films and a page of them; nothing here trains.

Figures are matplotlib's own, without any global state: show them in a notebook, or save them.
"""

from handrail.report.change_panels import change_figure, first_holding_figure
from handrail.report.comparison import Comparison, Standing, compare_runs
from handrail.report.comparison_panels import curves_figure, standings_figure
from handrail.report.drawing import save_figure
from handrail.report.episode_panels import episode_figure
from handrail.report.estimate import Estimate
from handrail.report.film import filmed, watch, write_film
from handrail.report.learning_curves import (
    cost_figure,
    influence_figure,
    loss_figure,
    score_figure,
    violation_figure,
)
from handrail.report.plane import Plane
from handrail.report.policy_panels import policy_figure
from handrail.report.proof_panels import Answer, certify_regions, proof_figure
from handrail.report.report import write_comparison, write_pictures
from handrail.report.statistics import GroupSummary, Spread, summarise_runs

__all__ = [
    "Answer",
    "Comparison",
    "Estimate",
    "GroupSummary",
    "Plane",
    "Spread",
    "Standing",
    "certify_regions",
    "change_figure",
    "compare_runs",
    "cost_figure",
    "curves_figure",
    "episode_figure",
    "filmed",
    "first_holding_figure",
    "influence_figure",
    "loss_figure",
    "policy_figure",
    "proof_figure",
    "save_figure",
    "score_figure",
    "standings_figure",
    "summarise_runs",
    "violation_figure",
    "watch",
    "write_comparison",
    "write_film",
    "write_pictures",
]
