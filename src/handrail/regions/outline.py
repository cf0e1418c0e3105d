"""Outlines (m, 2) in a plane: drawn, clipped, cut out of cells; closed ones repeat their start."""

from __future__ import annotations

import numpy as np

from handrail._types import Array, Indices
from handrail.regions.cells import Cells
from handrail.regions.region import Region

# Of a region's size: further than rounding reaches, and far too little to see.
_HAIR = 1e-9

_GOLDEN = 0.5 * (5.0**0.5 - 1.0)

# Of the area of the rectangle around it: a polygon with less only touches the plane.
_TOUCHING = 1e-12


def rectangle(left: float, right: float, bottom: float, top: float) -> Array:
    """Closed, (5, 2); a line or a point where ends coincide."""
    corners = [[left, bottom], [right, bottom], [right, top], [left, top], [left, bottom]]
    return np.array(corners, dtype=np.float64)


def circle(centre: Array, radius: float, count: int = 97) -> Array:
    """Closed, (count, 2)."""
    angles = np.linspace(0.0, 2.0 * np.pi, count)
    outline: Array = centre + radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    outline[-1] = outline[0]
    return outline


def clip(outline: Array, normals: Array, offsets: Array) -> Array:
    """The part of a closed convex outline where normals @ x <= offsets; (0, 2) if nothing is left.

    Half-plane by half-plane (Sutherland and Hodgman).
    """
    points = outline[:-1]
    for normal, offset in zip(normals, offsets, strict=True):
        excess = points @ normal - offset
        if (excess > 0.0).all():
            return np.zeros((0, 2))
        points = _cut(points, excess)
    return np.concatenate([points, points[:1]])


def _cut(points: Array, excess: Array) -> Array:
    """Without the points of positive excess, and with the points where it is zero instead."""
    kept = []
    for i in range(len(points)):
        after = (i + 1) % len(points)
        if excess[i] <= 0.0:
            kept.append(points[i])
        if (excess[i] <= 0.0) != (excess[after] <= 0.0):
            share = excess[i] / (excess[i] - excess[after])
            kept.append(points[i] + share * (points[after] - points[i]))
    return np.array(kept)


def cut_cells(cells: Cells, across: int, up: int, at: Array) -> tuple[Indices, list[Array]]:
    """The cells that a plane meets, and the closed convex outline (m, 2) it cuts out of each.

    Args:
        cells: each a simplex in some coordinates times a box in the others.
        across: the coordinate of the first column.
        up: the coordinate of the second column.
        at: (n_coordinates,) where the plane lies; the entries of the two are ignored.
    """
    fixed = np.setdiff1d(np.arange(len(at)), [across, up])
    within = (cells.low <= at) & (at <= cells.high)
    met = np.flatnonzero(within[:, fixed].all(axis=1))
    simplex = cells.simplex_coordinates.tolist()
    if sorted(simplex) == sorted((across, up)):
        corners = cells.simplex[met][:, :, [simplex.index(across), simplex.index(up)]]
        return met, list(np.concatenate([corners, corners[:, :1]], axis=1))
    low, high = cells.low[met], cells.high[met]
    outlines = [
        rectangle(*ends)
        for ends in zip(low[:, across], high[:, across], low[:, up], high[:, up], strict=True)
    ]
    if not simplex:
        return met, outlines
    clipped = [
        _clipped(outline, cells.simplex[index], cells.simplex_coordinates, across, up, at)
        for index, outline in zip(met, outlines, strict=True)
    ]
    left = [number for number, outline in enumerate(clipped) if len(outline)]
    return met[left], [clipped[number] for number in left]


def _clipped(
    outline: Array, corners: Array, coordinates: Indices, across: int, up: int, at: Array
) -> Array:
    """The rectangle around a cell without what is outside its simplex; (0, 2) if nothing is left.

    A point x is inside where its barycentric coordinates are positive: μ = E⁻¹(x - v_0) with the
    edges E from the corner v_0, and 1 - Σμ. These are linear in the two coordinates of the plane.
    """
    edges = (corners[1:] - corners[0]).T
    if np.linalg.det(edges) == 0.0:
        return np.zeros((0, 2))
    inverse = np.linalg.inv(edges)
    slopes = np.concatenate([inverse, -inverse.sum(axis=0, keepdims=True)])
    axes = [coordinates == axis for axis in (across, up)]
    fixed = np.where(axes[0] | axes[1], 0.0, at[coordinates])
    offsets = slopes @ (fixed - corners[0])
    offsets[-1] += 1.0
    # A coordinate of the plane that is not the simplex' has slope 0 (a sum over nothing).
    normals = -np.stack([slopes[:, axis].sum(axis=1) for axis in axes], axis=1)
    left = clip(outline, normals, offsets)
    touches = not len(left) or area(left) < _TOUCHING * area(outline)
    return left[:0] if touches else left


def area(outline: Array) -> float:
    """What a closed outline (m, 2) encloses."""
    x, y = (outline - outline[0]).T
    return 0.5 * abs(float(x[:-1] @ y[1:] - y[:-1] @ x[1:]))


def beside_faces(region: Region, at: Array) -> Array:
    """A plane through a region moved by a hair, off the faces between cells.

    Halving puts faces where planes like to be, in the middle; there two cells would be drawn on top
    of each other.
    """
    low, high = region.bounds
    # Not the same hair along all coordinates: that would stay on diagonal faces.
    shares = 1.0 + (_GOLDEN * np.arange(len(low))) % 1.0
    hair = _HAIR * shares * (high - low)
    inside = (low <= at) & (at <= high)
    result: Array = np.where(inside, np.where(at + hair <= high, at + hair, at - hair), at)
    return result
