"""`where` and `table`: which states they are."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.rulebook import (
    parse,
)
from tests.support.constraint_files import (
    states,
)


def test_where_is_every_combination_in_the_order_of_the_observations() -> None:
    found = states(
        "    where: {phi_dot: [7, 8], phi: 5, x_dot: {from: -1, to: 1, count: 3}, x: [2, 1]}"
    )
    expected = [[x, v, 5, w] for x in (2, 1) for v in (-1, 0, 1) for w in (7, 8)]
    np.testing.assert_array_equal(found, expected)


def test_a_grid_is_evenly_spaced() -> None:
    found = states("    where: {x: {from: -2, to: 2, count: 9}, x_dot: 0, phi: 0, phi_dot: 0}")
    np.testing.assert_array_equal(found[:, 0], [-2 + 0.5 * k for k in range(9)])


def test_a_list_of_mappings_is_their_union() -> None:
    found = states(
        "    where:\n"
        "      - {x: [0, 1], x_dot: 0, phi: 0, phi_dot: 0}\n"
        "      - {x: 5, x_dot: 6, phi: 7, phi_dot: 8}\n"
    )
    np.testing.assert_array_equal(found, [[0, 0, 0, 0], [1, 0, 0, 0], [5, 6, 7, 8]])


@pytest.mark.parametrize(
    "table",
    [
        "phi x\n0.25 -1\n.5 2e0",
        "phi, x\n0.25, -1,\n0.5, 2",
        "| phi  | x  |\n|------|:--:|\n| 0.25 | -1 |\n| 0.5  | 2  |",
        "# a comment\n\nphi\tx  # another\n\n0.25 -1  # and one\n# last\n0.5 +2\n",
    ],
)
def test_tables_combine_with_where(table: str) -> None:
    block = "\n".join(f"      {line}" for line in table.split("\n"))
    found = states(f"    where: {{phi_dot: [3, 4], x_dot: 9}}\n    table: |\n{block}\n")
    expected = [[-1, 9, 0.25, 3], [-1, 9, 0.25, 4], [2, 9, 0.5, 3], [2, 9, 0.5, 4]]
    np.testing.assert_array_equal(found, expected)


def test_many_observations_and_states() -> None:
    names = [f"o{k}" for k in range(100)]
    where = ", ".join(f"{name}: {k}" for k, name in enumerate(names[:-1]))
    rules = parse(
        f"environment: E\nobservations: [{', '.join(names)}]\nactions: [on, off]\n"
        f"constraints:\n  - name: a\n    where: {{{where}, o99: {{from: 0, to: 1, count: 101}}}}\n"
        "    require: on >= 0.5\n",
        "wide.yaml",
    )
    expected = np.tile(np.arange(100.0), (101, 1))
    expected[:, 99] = np.linspace(0, 1, 101)
    np.testing.assert_array_equal(rules.constraints[0].states, expected)
