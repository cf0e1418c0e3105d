"""A policy over a plane, as the page draws it: every number that the library computes there."""

from __future__ import annotations

import base64

import numpy as np

from handrail.policies import Policy
from handrail.report import Plane
from handrail.studio.messages import Map, View


def map_over(plane: Plane, policy: Policy, count: int) -> Map:
    """What a policy puts out over a plane, `count` states along each axis."""
    _, _, states = plane.states(count)
    outputs = policy.outputs(states)
    values = np.ascontiguousarray(outputs.T, dtype="<f8")
    return Map(
        view=view_of(plane),
        columns=count,
        rows=count,
        actions=outputs.shape[1],
        values=base64.b64encode(values.tobytes()).decode(),
    )


def view_of(plane: Plane) -> View:
    """A plane as a message."""
    return View(
        across=plane.horizontal,
        up=plane.vertical,
        across_range=plane.horizontal_range,
        up_range=plane.vertical_range,
        at=list(plane.at),
    )


def plane_of(view: View) -> Plane:
    """A message as a plane."""
    return Plane(tuple(view.at), view.across, view.up, view.across_range, view.up_range)
