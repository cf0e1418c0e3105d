"""Where a constraint holds: at points, or everywhere in a region."""

from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.cells import Cells, Cover, ExactCover
from handrail.regions.curve import Curve
from handrail.regions.outline import area, beside_faces, cut_cells, rectangle
from handrail.regions.points import Points
from handrail.regions.polytope import Polytope
from handrail.regions.region import Region, region_from
from handrail.regions.union import Union

Place = Points | Region

__all__ = [
    "Ball",
    "Box",
    "Cells",
    "Cover",
    "Curve",
    "ExactCover",
    "Place",
    "Points",
    "Polytope",
    "Region",
    "Union",
    "area",
    "beside_faces",
    "cut_cells",
    "rectangle",
    "region_from",
]
