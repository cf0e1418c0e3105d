"""Numbers over seeds, figures, films and a page of them; nothing here trains.

Figures are matplotlib's own, without any global state: show them in a notebook, or save them.
"""

from handrail.report.drawing import save_figure
from handrail.report.edit_panels import edit_figure
from handrail.report.film import watch, write_film
from handrail.report.learning_curves import loss_figure, score_figure, violation_figure
from handrail.report.plane import Plane
from handrail.report.policy_panels import policy_figure
from handrail.report.proof_panels import proof_figure
from handrail.report.report import write_pictures, write_report
from handrail.report.statistics import GroupSummary, Spread, summarise_runs

__all__ = [
    "GroupSummary",
    "Plane",
    "Spread",
    "edit_figure",
    "loss_figure",
    "policy_figure",
    "proof_figure",
    "save_figure",
    "score_figure",
    "summarise_runs",
    "violation_figure",
    "watch",
    "write_film",
    "write_pictures",
    "write_report",
]
