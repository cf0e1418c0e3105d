"""Where a constraint holds: at points, or everywhere in a region."""

from handrail.regions.ball import Ball
from handrail.regions.box import Box
from handrail.regions.cells import Cells, Cover, ExactCover
from handrail.regions.curve import Curve
from handrail.regions.formula import Formula, InvalidFormula, UnknownName, parse_formula
from handrail.regions.inequality import LinearBounds, parse_bounds
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
    "Formula",
    "InvalidFormula",
    "LinearBounds",
    "Place",
    "Points",
    "Polytope",
    "Region",
    "Union",
    "UnknownName",
    "area",
    "beside_faces",
    "cut_cells",
    "parse_bounds",
    "parse_formula",
    "rectangle",
    "region_from",
]
