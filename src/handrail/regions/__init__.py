"""Where a constraint holds: at points, or everywhere in a region."""

from handrail.regions.balls import Ball
from handrail.regions.boxes import Box
from handrail.regions.curves import Curve
from handrail.regions.descriptions import region_from
from handrail.regions.points import Points
from handrail.regions.polytopes import Polytope
from handrail.regions.region import Region
from handrail.regions.unions import Union

Place = Points | Region

__all__ = [
    "Ball",
    "Box",
    "Curve",
    "Place",
    "Points",
    "Polytope",
    "Region",
    "Union",
    "region_from",
]
