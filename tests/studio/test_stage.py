"""The map of a policy as a message."""

from __future__ import annotations

import base64

import numpy as np
import torch
from torch import nn

import handrail as hr
from handrail.report import Plane
from handrail.studio.stage import map_over


def test_a_map_has_the_means_of_all_actions_and_behind_them_their_noise() -> None:
    layer = nn.Linear(2, 4, dtype=torch.float64)
    policy = hr.VaryingGaussianPolicy(nn.Sequential(layer), [0.1, 0.2], [0.9, 0.8])
    plane = Plane((0.0, 0.0), 0, 1, (-1.0, 1.0), (-1.0, 1.0))
    found = map_over(plane, policy, 5)
    assert (found.columns, found.rows, found.outputs) == (5, 5, 4)
    values = np.frombuffer(base64.b64decode(found.values)).reshape(4, 25)
    states = plane.states(5)[2]
    np.testing.assert_array_equal(values[:2].T, policy.mean(states))
    np.testing.assert_array_equal(values[2:].T, policy.std(states))
