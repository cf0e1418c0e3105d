"""Numbers that depend on the state."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.errors import InvalidConstraint
from handrail.formulas import Affine, Formula, PythonFunction, formula_of, function_from

STATES = np.random.default_rng(0).normal(size=(50, 3))


def test_affine_is_gain_times_state_plus_offset() -> None:
    affine = Affine([1.0, -2.0, 0.0], 0.5)
    np.testing.assert_allclose(affine.at(STATES), STATES[:, 0] - 2 * STATES[:, 1] + 0.5)
    assert str(affine) == "1*s0 - 2*s1 + 0.5"
    assert function_from(affine.describe()) == affine
    np.testing.assert_allclose(formula_of(affine).at(STATES), affine.at(STATES), rtol=1e-12)


def test_a_gain_has_one_number_for_each_coordinate() -> None:
    with pytest.raises(InvalidConstraint, match=r"`gain` has shape \(1, 2\).*Give a flat list"):
        Affine([[1.0, 2.0]])


def test_a_formula_is_saved_by_its_text() -> None:
    formula = Formula("0.5*dv - 1", ["d", "dv", "v"])
    assert formula.describe() == {"formula": "0.5*dv - 1", "names": ["d", "dv", "v"]}
    assert str(formula) == "0.5*dv - 1"
    assert formula_of(formula) is formula


def test_a_python_function_takes_all_states_at_once() -> None:
    def speed(states: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> object:
        return states[0]

    function = PythonFunction(speed)  # type: ignore[arg-type]
    with pytest.raises(InvalidConstraint, match=r"speed\(s\) returned an array of shape \(3,\)"):
        function.at(STATES)
    with pytest.raises(InvalidConstraint, match="nobody can look into a Python function"):
        formula_of(function)
    with pytest.raises(InvalidConstraint, match="cannot be written to a file"):
        function.describe()
