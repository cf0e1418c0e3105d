"""Amounts that depend on the state."""

from __future__ import annotations

import numpy as np
import pytest

import handrail as hr
from handrail.constraints.amount import amounts_at, as_amount
from handrail.errors import InvalidConstraint


def test_where_there_is_no_state_there_is_no_value() -> None:
    """An episode may never enter the region of a bound."""
    affine = as_amount(hr.Affine([2.0, -1.0], 0.5), "bound")
    assert amounts_at(affine, np.zeros((0, 2))).shape == (0,)
    np.testing.assert_allclose(amounts_at(affine, np.array([[1.0, 3.0]])), [-0.5])


def test_other_coordinates_are_refused() -> None:
    affine = as_amount(hr.Affine([2.0, -1.0], 0.5), "bound")
    with pytest.raises(InvalidConstraint, match="of 2 coordinates, but the states have 3"):
        amounts_at(affine, np.zeros((1, 3)))
