"""Numbers over seeds, figures, and a page of them; nothing here trains."""

from handrail.report.edit_panels import edit_figure, over_plane
from handrail.report.plane import Slice, default_plane, plane_over
from handrail.report.report import GroupSummary, summarise_runs, write_pictures, write_report
from handrail.report.statistics import Spread

__all__ = [
    "GroupSummary",
    "Slice",
    "Spread",
    "default_plane",
    "edit_figure",
    "over_plane",
    "plane_over",
    "summarise_runs",
    "write_pictures",
    "write_report",
]
