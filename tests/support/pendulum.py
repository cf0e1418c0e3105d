"""Constraints on the torque of a pendulum, for the tests."""

from __future__ import annotations

from typing import Any

import numpy as np

import handrail as hr

TORQUE = hr.Mean(0)
UPRIGHT = np.array([[1.0, 0.0, 0.0], [0.96, 0.3, 0.0]])
RULES: list[hr.Constraint] = [
    hr.Between(-0.1, 0.1, TORQUE, hr.Points(UPRIGHT[0]), name="leave it alone"),
    hr.AtMost(-1.5, TORQUE, hr.Points(UPRIGHT[1]), name="push back"),
    hr.AtLeast(0.5, TORQUE, hr.Box([-1.0, -0.1, 1.0], [-0.9, 0.1, 2.0]), name="along"),
]
SMALL: dict[str, Any] = {"n_steps": 64, "seed": 0, "device": "cpu"}
