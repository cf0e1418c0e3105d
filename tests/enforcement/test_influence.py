"""What is said of a policy before and after."""

from __future__ import annotations

import numpy as np
import pytest

from handrail.enforcement.influence import influence_between
from handrail.enforcement.references import References
from handrail.policies.quantity import MEAN, PROBABILITY

PLACES = References(np.array([[0.0, 0.5], [1.0, -0.25]]), "given")


def test_probabilities_before_and_after() -> None:
    before, after = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.88, 0.12], [0.3, 0.7]])
    found = influence_between(PLACES, before, after, PROBABILITY)
    assert (found.states, found.action, found.changed_choices) == (2, 1, 1)
    assert found.largest_change == pytest.approx(0.3)
    assert found.mean_change == pytest.approx(0.16)
    assert (found.mean_before, found.mean_after) == pytest.approx((0.25, 0.41))
    assert (
        found.with_names(["x", "phi"], ["left", "right"])
        == "P(right) 0.25 → 0.41 on average, at most 0.3 at (x = 1, phi = -0.25)"
    )


@pytest.mark.parametrize("rounding", [-1e-12, 1e-12])
def test_rounding_does_not_choose_between_two_that_change_alike(rounding: float) -> None:
    before = np.array([[0.9, 0.1], [0.6, 0.4]])
    after = np.array([[0.9, 0.1], [0.3 + rounding, 0.7]])
    assert influence_between(PLACES, before, after, PROBABILITY).action == 1


def test_mean_actions_before_and_after() -> None:
    before, after = np.array([[1.0, 5.0], [2.0, 5.0]]), np.array([[-1.0, 5.5], [2.0, 5.0]])
    found = influence_between(PLACES, before, after, MEAN)
    assert found.changed_choices is None
    assert (
        found.with_names(["x", "phi"], ["torque", "brake"])
        == "mean torque 1.50 → 0.50 on average, at most 2 at (x = 0, phi = 0.5)"
    )
