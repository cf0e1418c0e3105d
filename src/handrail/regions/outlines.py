"""Outlines (m, 2) in a plane: closed ones repeat their first point."""

from __future__ import annotations

import numpy as np

from handrail.arrays import Array


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
