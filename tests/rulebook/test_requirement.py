"""Requirements: which constraints they are."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import handrail as hr
from handrail.constraints.output_bounds import AtLeast, AtMost, Between, Equal
from tests.support.constraint_files import (
    HEAD,
    PLACE,
    parses_or_is_refused,
    rule,
)


@pytest.mark.parametrize(
    ("text", "kind", "weights", "lower", "upper"),
    [
        ("right >= 0.95", AtLeast, [0, 1], 0.95, np.inf),
        ("0.95 <= right", AtLeast, [0, 1], 0.95, np.inf),
        ("right ≥ .95", AtLeast, [0, 1], 0.95, np.inf),
        ("left<=5e-2", AtMost, [1, 0], -np.inf, 0.05),
        ("left ≤ 0.05", AtMost, [1, 0], -np.inf, 0.05),
        ("left == 0.5", Equal, [1, 0], 0.5, 0.5),
        ("0.5 == left", Equal, [1, 0], 0.5, 0.5),
        ("0.2 <= left <= 0.4", Between, [1, 0], 0.2, 0.4),
        ("0.4 >= left >= 0.2", Between, [1, 0], 0.2, 0.4),
        ("0.25 <= left + 0.125 <= 0.5", Between, [1, 0], 0.125, 0.375),
        ("0.3 <= left <= 0.3", Equal, [1, 0], 0.3, 0.3),
        ("0.5*left + right <= 0.8", AtMost, [0.5, 1], -np.inf, 0.8),
        ("left >= right", AtLeast, [1, -1], 0.0, np.inf),
        ("left - 2*right >= -0.5", AtLeast, [1, -2], -0.5, np.inf),
        ("left + 0.25 <= right + 0.5", AtMost, [1, -1], -np.inf, 0.25),
        ("left + left >= 0.5", AtLeast, [2, 0], 0.5, np.inf),
        ("'-left <= -0.5'", AtMost, [-1, 0], -np.inf, -0.5),
    ],
)
def test_requirements(
    text: str, kind: type[hr.Constraint], weights: list[float], lower: float, upper: float
) -> None:
    (constraint,) = rule(PLACE, require=text).constraints
    assert type(constraint) is kind
    rows = constraint.rows(2)
    np.testing.assert_array_equal(rows.weights, [weights])
    assert (rows.lower.item(), rows.upper.item()) == (lower, upper)
    assert not np.signbit(rows.lower.item()) or lower < 0


@settings(max_examples=200, deadline=None, derandomize=True, database=None)
@given(st.text("leftrigh0123456789.e+-*<>=%() ≤≥") | st.text())
def test_any_requirement_is_refused_politely(require: str) -> None:
    where = "where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}"
    parses_or_is_refused(
        f"{HEAD}constraints: [{{name: a, {where}, require: {json.dumps(require)}}}]"
    )
