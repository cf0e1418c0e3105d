"""Bounds of slopes over cells: sound for all activations and depths, exact where they can be."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from handrail._types import Array
from handrail.policies import ACTIVATIONS, IDENTITY, RELU, Activation, LayerArrays
from handrail.proof.slope_relaxation import (
    SlopeMargin,
    SlopeRelaxation,
    slope_errors,
    slopes_at,
)
from handrail.regions import Cells

LOW, HIGH = np.full(3, -2.0), np.full(3, 2.0)
ROWS = np.array([[1.0, -1.0, 0.0], [0.5, 0.0, -2.0]])


def layers(rng: np.random.Generator, hidden: list[int], activation: Activation) -> LayerArrays:
    sizes = [3, *hidden, 3]
    weights = [rng.normal(size=(b, a)) * 1.5 / np.sqrt(a) for a, b in pairwise(sizes)]
    biases = [0.5 * rng.normal(size=size) for size in sizes[1:]]
    behind = (*[activation] * len(hidden), IDENTITY)
    return LayerArrays(tuple(weights), tuple(biases), behind)


def bounder(network: LayerArrays, margin: SlopeMargin) -> SlopeRelaxation:
    errors = slope_errors(network, margin, LOW, HIGH, simplices=False)
    return SlopeRelaxation(network, margin, errors)


def inside(cells: Cells, rng: np.random.Generator, count: int) -> Array:
    """(n, count, n_coordinates)."""
    parts = rng.random((len(cells), count, 3))
    return cells.low[:, None] + parts * (cells.high - cells.low)[:, None]


@pytest.mark.parametrize("hidden", [[], [12], [8, 8], [6, 6, 6]], ids=str)
@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=lambda one: one.name)
def test_no_slope_and_no_chord_is_outside_of_its_bounds(
    activation: Activation, hidden: list[int]
) -> None:
    rng = np.random.default_rng(len(hidden))
    network = layers(rng, hidden, activation)
    centres = rng.uniform(-1.0, 1.0, (40, 3))
    for width in (1.0, 0.1, 1e-3):
        cells = Cells.boxes(centres - 0.5 * width, centres + 0.5 * width)
        states = inside(cells, rng, 30)
        for sign in (1.0, -1.0):
            bound = bounder(network, SlopeMargin(ROWS, 1, 0.3, sign))
            error = bound.errors.margin
            assert error < 1e-6 + 1e4 * activation.jump
            lowest, highest = bound.bounds(cells).lowest, bound.highest(cells)
            margins = bound.margins(states.reshape(-1, 3)).reshape(40, 30)
            assert (lowest[:, None] <= margins + error).all()
            assert (margins <= highest[:, None] + error).all()
            # Finite differences over the whole cell: kinks lie between their ends.
            ends = np.stack([states, states], axis=2)
            ends[:, :, 0, 1], ends[:, :, 1, 1] = cells.low[:, None, 1], cells.high[:, None, 1]
            outputs = network.outputs(ends.reshape(-1, 3)).reshape(40, 30, 2, 3)
            chords = (outputs[:, :, 1] - outputs[:, :, 0]) / width
            of_chords = sign * (chords @ ROWS.T - 0.3)
            digits = 1e-13 / width + 2.0 * activation.jump / width
            assert (lowest[:, None] <= of_chords.min(axis=2) + error + digits).all()


def test_of_a_linear_network_bounds_are_its_weights() -> None:
    network = layers(np.random.default_rng(0), [], RELU)
    cells = Cells.boxes(LOW[None], HIGH[None])
    for coordinate in range(3):
        slopes = ROWS @ network.weights[0][:, coordinate]
        bound = bounder(network, SlopeMargin(ROWS, coordinate, 0.0, 1.0))
        assert bound.bounds(cells).lowest == pytest.approx(slopes.min(), abs=1e-14)
        assert bound.highest(cells) == pytest.approx(slopes.min(), abs=1e-14)


def test_of_one_kink_both_sides_are_the_bounds() -> None:
    """2·relu(s_0) - s_0 has the slopes -1 and 1."""
    inward = np.array([[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]])
    network = LayerArrays(
        (inward, np.array([[1.0, 1.0]])), (np.zeros(2), np.zeros(1)), (RELU, IDENTITY)
    )
    low = np.array([[-1.0, 0.0, 0.0], [1e-6, 0.0, 0.0], [-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    high = np.array([[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [-1e-6, 1.0, 1.0], [0.0, 0.0, 0.0]])
    bound = bounder(network, SlopeMargin(np.ones((1, 1)), 0, 0.0, 1.0))
    cells = Cells.boxes(low, high)
    assert bound.bounds(cells).lowest == pytest.approx([-1.0, 1.0, -1.0, -1.0])
    assert bound.highest(cells)[1:] == pytest.approx([1.0, -1.0, 1.0])


@pytest.mark.parametrize("activation", ACTIVATIONS.values(), ids=lambda one: one.name)
def test_slopes_are_those_of_finite_differences(activation: Activation) -> None:
    rng = np.random.default_rng(1)
    network = layers(rng, [7, 5], activation)
    states, step = rng.uniform(-1.0, 1.0, (200, 3)), np.array([0.0, 0.0, 1e-6])
    ahead, behind = network.outputs(states + step), network.outputs(states - step)
    differences = (ahead - behind) / 2e-6
    errors = np.abs(slopes_at(network, 2, states) - differences).max(axis=1)
    assert np.median(errors) < 1e-8
    assert (errors < 1e-4).mean() > 0.98  # the others are at kinks


@pytest.mark.parametrize("hidden", [[], [8], [6, 6]], ids=str)
def test_what_is_added_beside_a_network_has_a_slope(hidden: list[int]) -> None:
    rng = np.random.default_rng(5)
    plain = layers(rng, hidden, ACTIVATIONS["tanh"])
    gain = rng.normal(size=(3, 3))
    network = plain.beside(gain, np.zeros(3))
    states = rng.uniform(-1.0, 1.0, (50, 3))
    expected = slopes_at(plain, 1, states) + gain[:, 1]
    assert slopes_at(network, 1, states) == pytest.approx(expected, abs=1e-12)
    cells = Cells.boxes(states - 0.05, states + 0.05)
    bound = bounder(network, SlopeMargin(ROWS, 1, 0.0, 1.0))
    margins = bound.margins(inside(cells, rng, 30).reshape(-1, 3)).reshape(50, 30)
    assert (bound.bounds(cells).lowest[:, None] <= margins + bound.errors.margin).all()
    assert (margins <= bound.highest(cells)[:, None] + bound.errors.margin).all()
    assert (bound.highest(cells) - bound.bounds(cells).lowest).max() < 3.0


def test_a_network_that_overflows_has_no_bounds() -> None:
    network = layers(np.random.default_rng(0), [4], RELU)
    huge = LayerArrays(
        tuple(1e200 * one for one in network.weights), network.biases, network.activations
    )
    errors = slope_errors(huge, SlopeMargin(ROWS, 0, 0.0, 1.0), LOW, HIGH, simplices=False)
    assert errors.margin == np.inf
