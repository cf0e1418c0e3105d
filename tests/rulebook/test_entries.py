"""Entries of `constraints`: which constraints they become."""

from __future__ import annotations

import numpy as np

from handrail.constraints.output_bounds import AtMost, Between
from tests.support.constraint_files import (
    PLACE,
    book,
    rule,
)


def test_several_requirements_have_names_of_their_own() -> None:
    rules = rule(PLACE + "    priority: 3\n", require="[right >=   0.6, right <= 0.9]")
    assert [constraint.name for constraint in rules.constraints] == [
        "a: right >= 0.6",
        "a: right <= 0.9",
    ]
    assert [constraint.priority for constraint in rules.constraints] == [3.0, 3.0]
    assert rules.sentences[0] == "a: right >= 0.6 at 1 state (x 0, x_dot 0, phi 0, phi_dot 0)"


def test_rows_with_the_same_requirement_are_one_constraint() -> None:
    rules = book(
        "constraints:\n"
        "  - name: lean\n"
        "    where: {x: 0, x_dot: 0}\n"
        "    table: |\n"
        "      | phi | phi_dot | require |\n"
        "      | 0.2 | 0 | right >= 0.9 |\n"
        "      | -0.2 | 0 | left >= 0.9 |\n"
        "      | 0.2 | 0 | left <= 0.1 |\n"
        "      | 0.3 | 0 | 0.9 <= right |\n"
    )
    right, left, at_most = rules.constraints
    assert right.name == "lean: right >= 0.9"
    np.testing.assert_array_equal(right.states, [[0, 0, 0.2, 0], [0, 0, 0.3, 0]])
    np.testing.assert_array_equal(left.states, [[0, 0, -0.2, 0]])
    assert isinstance(at_most, AtMost)


def test_a_region_with_several_requirements() -> None:
    rules = book(
        "constraints:\n"
        "  - {name: a, region: &where {x: [0, 1], x_dot: 0, phi: 0, phi_dot: 0}, priority: 3, "
        "require: [0.2 <= left <= 0.8, left <= right]}\n"
        "  - {name: b, region: *where, require: left <= 0.7}\n"
        "  - {name: c, where: {x: 0, x_dot: 0, phi: 0, phi_dot: 0}, require: left <= 0.7}\n"
    )
    assert [type(constraint) for constraint in rules.constraints] == [
        Between,
        AtMost,
        AtMost,
        AtMost,
    ]
    assert [constraint.name for constraint in rules.constraints] == [
        "a: 0.2 <= left <= 0.8",
        "a: left <= right",
        "b",
        "c",
    ]
    assert [constraint.priority for constraint in rules.constraints] == [3.0, 3.0, 1.0, 1.0]
