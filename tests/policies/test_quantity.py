"""What differs between probabilities and mean actions, asked of the two objects."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.optimize import linprog

from handrail.errors import InvalidArgument, InvalidConstraint
from handrail.policies import MEAN, PROBABILITY, STD, Quantity, quantity_called
from handrail.policies.coordinates import WithinRange

BOTH = pytest.mark.parametrize("quantity", [PROBABILITY, MEAN])


@BOTH
def test_a_quantity_is_found_by_its_name_and_survives_a_process(quantity: Quantity) -> None:
    assert quantity_called(quantity.name) is quantity
    assert pickle.loads(pickle.dumps(quantity)) == quantity
    assert {PROBABILITY: 1, MEAN: 2}[quantity] == 1 + quantity.is_continuous


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="Expected probability or mean or value, but got"):
        quantity_called("squashed")


def test_words() -> None:
    assert PROBABILITY.of_action(2) == "the probability of action 2"
    assert MEAN.of_action(2) == "mean action 2"
    assert (PROBABILITY.stages, MEAN.stages) == (("logits", "probabilities"), ("mean",))
    assert MEAN.request(1).endswith("Constrain their means: action=Mean(0).")
    assert MEAN.request(3).endswith("Constrain their means: action=Mean(0) to Mean(2).")
    assert PROBABILITY.request(3).startswith("this policy chooses among 3 discrete actions.")
    assert STD.request(1).endswith("Constrain their standard deviations: action=Std(0).")
    assert STD.request(2).endswith("Constrain their standard deviations: action=Std(0) to Std(1).")


def test_what_sums_can_reach() -> None:
    weights = np.array([[0.0, 1.0, -2.0], [0.5, 0.5, 3.0]])
    lowest, highest = PROBABILITY.reach(weights)
    assert (lowest.tolist(), highest.tolist()) == ([-2.0, 0.5], [1.0, 3.0])
    assert PROBABILITY.span([1.0, -2.0]) == (-2.0, 1.0)
    assert PROBABILITY.span([0.5]) == (0.0, 0.5)  # other actions have no weight
    assert MEAN.span([1.0]) == (-np.inf, np.inf)
    assert np.isinf(MEAN.reach(weights)).all()


@BOTH
def test_outputs_that_exist_together(quantity: Quantity) -> None:
    both_high = {"A_ub": [[-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]], "b_ub": [-0.6, -0.6]}
    answer = linprog(np.zeros(3), **both_high, **quantity.possible_outputs(3))
    assert (answer.status == 0) == quantity.is_continuous


def test_log_odds_keep_their_digits_at_the_ends() -> None:
    outputs = np.array([[1.0 - 1e-12, 1e-12], [0.25, 0.75]])
    weights = np.array([[1.0, 0.0]] * 2)
    coordinate, slope = PROBABILITY.coordinate(weights, outputs)
    np.testing.assert_allclose(coordinate, [np.log(1e12), np.log(1.0 / 3.0)], rtol=1e-12)
    np.testing.assert_allclose(slope, [1e12, 16.0 / 3.0], rtol=1e-11)
    np.testing.assert_allclose(PROBABILITY.value_at(weights[1:], coordinate[1:]), [0.25])


def test_a_bound_in_log_odds_is_never_moved_more_than_half_way() -> None:
    weights = np.array([[1.0, 0.0]] * 2)
    inside = PROBABILITY.coordinate_of_bound(weights, np.array([0.9, 0.9]), np.array([0.01, 5.0]))
    np.testing.assert_allclose(PROBABILITY.value_at(weights, inside), [0.91, 0.95])
    np.testing.assert_allclose(
        MEAN.coordinate_of_bound(weights[:1], np.array([0.9]), np.array([5.0])), [5.9]
    )


def test_what_has_log_odds() -> None:
    weights = np.array([[1.0, 0.0, 1.0], [1.0, 0.0, 0.5], [1.0, 0.0, 0.0]])
    alone = np.array([True, True, False])
    assert PROBABILITY.is_curved(weights, alone).tolist() == [True, False, False]
    assert not MEAN.is_curved(weights, alone).any()
    coordinate, slope = MEAN.coordinate(weights, np.full((3, 3), 2.0))
    assert (coordinate.tolist(), slope.tolist()) == ([4.0, 3.0, 2.0], [1.0, 1.0, 1.0])


def test_margins_and_room() -> None:
    ends = np.zeros(2), np.ones(2)
    bounds = np.array([0.9, np.inf])
    np.testing.assert_allclose(PROBABILITY.margin_at(bounds, *ends), [0.09, 0.0])
    np.testing.assert_allclose(MEAN.margin_at(bounds, *ends), [1.0, 0.0])
    below, none = np.array([0.9, -np.inf]), np.array([np.inf, np.inf])
    np.testing.assert_allclose(PROBABILITY.room(below, none, *ends), [0.1, np.inf])
    np.testing.assert_allclose(MEAN.room(below, none, *ends), [1.0, 1.0])
    weights, scale = np.array([1.0, -2.0]), np.array([0.5, 0.25])
    assert PROBABILITY.unit(weights, scale) == 1.0
    assert MEAN.unit(weights, scale) == 1.0 * 0.5 + 2.0 * 0.25


def test_bounds_that_cannot_be_meant() -> None:
    with pytest.raises(InvalidConstraint, match=r"cannot be bounded by 1\. Use 0\.999 instead"):
        PROBABILITY.check_bound(1.0, [1.0], "action 0")
    with pytest.raises(InvalidConstraint, match=r"Did you mean 0\.95\?"):
        PROBABILITY.check_bound(95.0, [1.0], "action 0")
    with pytest.raises(InvalidConstraint, match="'sum' weighs all 2 actions alike"):
        PROBABILITY.check_weights(np.ones(2), (0.5, np.inf), "sum")
    weights = np.array([-1.0, -0.5])
    with pytest.raises(InvalidConstraint, match=r"'sum' asks for at least -0\.1, but .* strictly"):
        PROBABILITY.check_weights(weights, (-0.1, np.inf), "sum")
    with pytest.raises(InvalidConstraint, match=r"at most -1, .* between -1 and -0\.5\. Choose a"):
        PROBABILITY.check_weights(weights, (-np.inf, -1.0), "sum")
    PROBABILITY.check_weights(weights, (-0.6, -0.55), "sum")
    MEAN.check_bound(95.0, [1.0], "mean action 0")
    MEAN.check_weights(np.ones(2), (95.0, np.inf), "sum")


def test_what_decides_the_same() -> None:
    logits = np.array([[1.0, 3.0]])
    np.testing.assert_allclose(PROBABILITY.comparable(logits), PROBABILITY.comparable(logits + 7.0))
    assert MEAN.comparable(logits) is logits
    before, after = np.array([[0.4, 0.6], [0.2, 0.8]]), np.array([[0.6, 0.4], [0.3, 0.7]])
    assert PROBABILITY.changed_choices(before, after) == 1
    assert MEAN.changed_choices(before, after) is None
    assert [PROBABILITY.one_says_all(n) for n in (2, 3)] == [True, False]
    assert [MEAN.one_says_all(n) for n in (1, 2)] == [True, False]


# --- means within a range, by their log-odds there -----------------------------------------------

WITHIN = WithinRange(np.array([-2.0, 0.0]), np.array([2.0, 5.0]))
WEIGHTS = np.array([[1.0, 0.0], [0.0, 1.0], [-3.0, 0.0]])


def test_it_is_twice_what_the_tanh_was_given() -> None:
    given = np.array([[0.3, -1.2], [2.0, 0.1], [-0.7, 0.0]])
    outputs = [0.0, 2.5] + np.array([2.0, 2.5]) * np.tanh(given)
    coordinate, slope = WITHIN.coordinate(WEIGHTS, outputs)
    np.testing.assert_allclose(coordinate, 2.0 * np.array([0.3, 0.1, 0.7]), rtol=1e-12)
    values = (WEIGHTS * outputs).sum(axis=1)
    np.testing.assert_allclose(WITHIN.value_at(WEIGHTS, coordinate), values, rtol=1e-12)
    moved = WITHIN.value_at(WEIGHTS, coordinate + 1e-6) - WITHIN.value_at(WEIGHTS, coordinate)
    np.testing.assert_allclose(slope, 1e-6 / moved, rtol=1e-5)


def test_bounds_at_the_ends_and_beyond_stay_finite() -> None:
    bounds = np.array([2.0, -1.0, 6.5])
    found = WITHIN.coordinate_of_bound(WEIGHTS, bounds, np.zeros(3))
    assert np.isfinite(found).all()
    assert found[0] > 30.0
    assert found[1] < -30.0


def test_one_output_by_itself_has_it() -> None:
    weights = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, -2.0]])
    alone = np.array([True, True, False])
    assert WITHIN.is_curved(weights, alone).tolist() == [True, False, False]
    assert not MEAN.is_curved(weights, alone).any()
