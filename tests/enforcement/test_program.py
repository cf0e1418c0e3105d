"""The working set of many rows: whatever it begins with, the answer is the same."""

from __future__ import annotations

import numpy as np
import pytest

import handrail as hr
from handrail._types import Array, Indices
from handrail.constraints import expand
from handrail.enforcement.linearisation import Linearisation, Targets
from handrail.enforcement.program import LeastChange, ProgramSolution, hard_solver, solve_program
from tests.conftest import spaces

N_ROWS = 90


def many_rows() -> tuple[Linearisation, tuple[Array, Array]]:
    """Of a compiled network: at half of the states more is asked than it does, at half less."""
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[2000], seed=2)
    states = np.random.default_rng(4).normal(size=(N_ROWS, 3))
    up, down = states[: N_ROWS // 2], states[N_ROWS // 2 :]
    rows = expand(
        [hr.AtLeast(0.5, 0, hr.Points(up)), hr.AtMost(0.6, 0, hr.Points(down))], policy
    ).fixed
    assert rows is not None
    outputs = rows.outputs_of(policy)
    targets = Targets.of(rows, 1e-6, policy.coordinates)
    asked = targets.change_in_coordinates(targets.position(outputs), 1.0)
    return Linearisation(policy, rows, outputs), asked


def solved(model: Linearisation, asked: tuple[Array, Array]) -> ProgramSolution:
    return solve_program(model, LeastChange(model), *asked, hard_solver(model))


def test_a_guess_changes_nothing_but_the_time() -> None:
    pytest.importorskip("numba")
    model, asked = many_rows()
    guess = LeastChange(model).guess(*asked)
    assert 0 < len(guess) < N_ROWS
    answer = solved(model, asked)
    for other in (np.zeros(0, dtype=np.intp), np.arange(3), np.arange(N_ROWS)):

        def guess_otherwise(*_: Array, other: Indices = other) -> Indices:
            return other

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LeastChange, "guess", guess_otherwise)
            same = solved(model, asked)
        size = np.abs(answer.coefficients).max()
        np.testing.assert_allclose(same.coefficients, answer.coefficients, atol=1e-6 * size)
        np.testing.assert_allclose(same.change, answer.change, atol=1e-9)


def test_no_guess_of_a_network_that_is_not_compiled() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[8, 8], seed=2)
    rows = expand([hr.AtLeast(0.9, 0, hr.Points(np.eye(3)))], policy).fixed
    assert rows is not None
    model = Linearisation(policy, rows, rows.outputs_of(policy))
    assert not len(LeastChange(model).guess(np.ones(3), np.full(3, np.inf)))


def test_targets_are_kept_with_the_rows() -> None:
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[8], seed=2)
    rows = expand([hr.AtLeast(0.9, 0, hr.Points(np.eye(3)))], policy).fixed
    assert rows is not None
    first = Targets.of(rows, 1e-6, policy.coordinates)
    assert Targets.of(rows, 1e-6, policy.coordinates) is first
    other = Targets.of(rows, 1e-2, policy.coordinates)
    outputs = rows.outputs_of(policy)
    near, far = (one.shortfall(one.position(outputs)) for one in (first, other))
    assert far > near
