"""The convex hull of points in three coordinates or more.

All is computed in coordinates in which it fills [-1, 1] (`Scaling`): units do not matter there, and
what rounding can do is known.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import final

import numpy as np
from scipy.spatial import ConvexHull, Delaunay, QhullError

from handrail._minimum_norm import solve_minimum_norm
from handrail._types import Array, Indices, Mask
from handrail.errors import InvalidConstraint, Phrase, SolverFailure
from handrail.regions.enclosure import encloses, outer_faces

# A figure is flat if it is thinner than this share of its width: no hull or proof is safe then.
FLAT = 1e-10

# Simplices that leave no gap are larger than the hull by at most this share.
LARGEST_GROWTH = 1e-3

_SLACK = 1e-12
_EPSILON = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True)
class Scaling:
    """From coordinates to scaled ones and back.

    Attributes:
        middle: (k,) of the figure.
        half: (k,) half its width; 1 where it has none.
    """

    middle: Array
    half: Array

    @classmethod
    def of(cls, points: Array) -> Scaling:
        """That puts points (n, k) into [-1, 1]."""
        low, high = points.min(axis=0), points.max(axis=0)
        half = 0.5 * high - 0.5 * low
        return cls(0.5 * low + 0.5 * high, np.where(half > 0.0, half, 1.0))

    def forth(self, points: Array) -> Array:
        """Scaled."""
        result: Array = (points - self.middle) / self.half
        return result

    def back(self, scaled: Array) -> Array:
        """In the original coordinates."""
        result: Array = self.middle + self.half * scaled
        return result

    @property
    def slack(self) -> float:
        """How far outside, in scaled coordinates, rounding may put a point of the boundary."""
        return _SLACK + 16.0 * _EPSILON * float(np.abs(self.middle / self.half).max())


def is_flat(scaled: Array) -> bool:
    """Whether points (n, k) in scaled coordinates lie in a plane of fewer dimensions."""
    widths = np.linalg.svd(scaled - scaled.mean(axis=0), compute_uv=False)
    return len(widths) < scaled.shape[1] or bool(widths[-1] <= FLAT)


def simplex_volumes(simplices: Array) -> Array:
    """Volumes (n,) of simplices (n, k + 1, k)."""
    edges = simplices[:, 1:] - simplices[:, :1]
    result: Array = np.abs(np.linalg.det(edges)) / math.factorial(simplices.shape[2])
    return result


@final
class Hull:
    """The convex hull of points.

    Args:
        points: (m, k) with k >= 3; those that are no vertices do no harm.

    Raises:
        InvalidConstraint: if it is flat.
    """

    def __init__(self, points: Array) -> None:
        k = points.shape[1]
        if len(points) <= k:
            raise InvalidConstraint(
                "{polytope} is flat: in {k} coordinates it has at least {least} vertices, but got "
                "{given}.",
                polytope=Phrase.POLYTOPE,
                k=k,
                least=k + 1,
                given=len(points),
            )
        self._scaling = Scaling.of(points)
        scaled = self._scaling.forth(points)
        flat = InvalidConstraint(
            "{polytope} is flat: its vertices lie in fewer than {k} dimensions. Move one of them "
            "out, or {remedy}.",
            polytope=Phrase.POLYTOPE,
            k=k,
            remedy=Phrase.FEWER_COORDINATES,
        )
        if is_flat(scaled):
            raise flat
        try:
            hull = ConvexHull(scaled)
        except QhullError as error:
            raise flat from error
        chosen = np.sort(hull.vertices)
        self._given = points
        self.vertices: Array = points[chosen]
        self._scaled = scaled[chosen]
        self._scaled_volume = float(hull.volume)
        equations = np.unique(hull.equations, axis=0)
        self._normals = equations[:, :-1]
        # Every vertex is inside, whatever Qhull's rounding.
        highest = (self._normals @ self._scaled.T).max(axis=1)
        self._offsets = np.maximum(-equations[:, -1], highest)

    @cached_property
    def simplices(self) -> Array:
        """Simplices (n, k + 1, k) that together are the hull."""
        result: Array = self.vertices[self._division]
        return result

    @cached_property
    def covering(self) -> Array:
        """The same without any gap; larger than the hull by as little as that asks for."""
        if encloses(outer_faces(self._division), self.vertices, self._given):
            return self.simplices
        growth = _EPSILON
        while growth <= LARGEST_GROWTH:
            division, vertices = self._grown(growth)
            if encloses(outer_faces(division), vertices, self._given):
                result: Array = vertices[division]
                return result
            growth *= 8.0
        raise self._indivisible()

    def _grown(self, growth: float) -> tuple[Indices, Array]:
        """Simplices (n, k + 1) from the middle to the faces, and their vertices (m, k).

        Each vertex moves by another share: those that are in one plane, but for rounding, leave
        it, for no division of such is right to the last digit.
        """
        middle = self._scaled.mean(axis=0)
        shares = np.random.default_rng(0).uniform(1.0, 2.0, (len(self._scaled), 1))
        grown = self._scaled + growth * shares * (self._scaled - middle)
        try:
            faces: Indices = ConvexHull(grown).simplices
        except QhullError:  # not far enough out of the plane for it
            faces = np.zeros((0, len(middle)), dtype=np.intp)
        division = np.column_stack([faces, np.full(len(faces), len(grown))])
        return division, self._scaling.back(np.concatenate([grown, middle[None]]))

    @cached_property
    def _division(self) -> Indices:
        """Numbers (n, k + 1) of the vertices of simplices."""
        chosen: Indices = Delaunay(self._scaled).simplices
        volume = float(simplex_volumes(self._scaled[chosen]).sum())
        if abs(volume - self._scaled_volume) > 1e-9 * self._scaled_volume:
            raise self._indivisible()
        return chosen

    def _indivisible(self) -> InvalidConstraint:
        return InvalidConstraint(
            "{polytope} cannot be divided into simplices: some of its vertices nearly coincide "
            "({vertices}). Merge those.",
            polytope=Phrase.POLYTOPE,
            vertices=self.vertices.tolist(),
        )

    @cached_property
    def volume(self) -> float:
        """In its own coordinates."""
        return self._scaled_volume * float(self._scaling.half.prod())

    @cached_property
    def half_spaces(self) -> tuple[Array, Array]:
        """Normals (m, k) and offsets (m,): normals @ x <= offsets."""
        normals = self._normals / self._scaling.half
        return normals, self._offsets + normals @ self._scaling.middle

    def contains(self, points: Array) -> Mask:
        """Which of the points (n, k) lie inside, or on the boundary up to rounding."""
        excess = self._scaling.forth(points) @ self._normals.T - self._offsets
        result: Mask = (excess <= self._scaling.slack).all(axis=1)
        return result

    def nearest(self, points: Array) -> Array:
        """The nearest point of the hull to each of the points (n, k)."""
        result = np.array(points, dtype=np.float64)
        # One unit for all coordinates: distances must stay what they are.
        unit = float(self._scaling.half.max())
        normals = self._normals * (unit / self._scaling.half)
        lengths = np.linalg.norm(normals, axis=1)
        normals, offsets = normals / lengths[:, None], self._offsets / lengths
        inside = (self.vertices.mean(axis=0) - self._scaling.middle) / unit
        for i in np.flatnonzero(~self.contains(points)):
            start = (points[i] - self._scaling.middle) / unit
            end = start + _shortest(normals, offsets - normals @ start)
            # Rounding may have left it outside; a tiny step towards the middle has not.
            excess, depth = normals @ end - offsets, normals @ (end - inside)
            share = max(0.0, float((excess / np.where(excess > 0.0, depth, 1.0)).max()))
            result[i] = self._scaling.middle + unit * (end + share * (inside - end))
        return result


def _shortest(normals: Array, room: Array) -> Array:
    """The shortest step with normals @ step <= room, at least one of which is negative."""
    answer = solve_minimum_norm(normals, np.full(len(room), -np.inf), room)
    if not answer.solved:
        raise SolverFailure(
            "A state could not be projected onto a polytope: its half-spaces are nearly parallel. "
            "Use vertices that are further apart, or units of a common size."
        )
    return answer.x
