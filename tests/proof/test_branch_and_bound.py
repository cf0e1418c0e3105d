"""What a search knows when it is given up: volumes in closed form, budgets by counting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.policies import LayerArrays
from handrail.proof import bounder as clock_of
from handrail.proof import relaxation
from handrail.proof.bounder import NO_DEADLINE, Bounder, Bounds, Deadline
from handrail.proof.branch_and_bound import Budget, Judge, Proof, prove
from handrail.regions.cells import Cells
from tests.conftest import sharpen, spaces

NOBODY = Judge(lambda s: np.ones(len(s), bool), lambda s: np.zeros(len(s), bool), "too near")


class Known(Bounder):
    """Bounds that a function of the cells says; the margin itself is positive."""

    narrows = False

    def __init__(self, lowest: Any, n_coordinates: int = 2, levels: int = 10**6) -> None:
        self.importance, self.levels = np.ones(n_coordinates), levels
        self._lowest = lowest
        self.narrowings: list[Cells] = []

    def narrowed(self, cell: Cells) -> Known:
        self.narrowings.append(cell)
        return self

    def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
        return Bounds(np.asarray(self._lowest(cells), dtype=float), cells.centres)

    def dips(self, cells: Cells) -> Array:
        return cells.centres

    def margins(self, states: Array) -> Array:
        return np.ones(len(states))


def searched(region: hr.Region, lowest: Any, budget: Budget, levels: int = 10**6) -> Proof:
    bounder = Known(lowest, region.n_coordinates, levels)
    return prove(bounder, region.covers(), 1e-9, NOBODY, budget)


def left_quarter(cells: Cells) -> Array:
    return np.where(cells.high[:, 0] <= 0.25, 1.0, -0.5)


@pytest.mark.parametrize(
    ("region", "share"),
    [
        (hr.Box([0.0, 0.0], [1.0, 2.0]), 0.25),
        (hr.Box([0.0, 3.0], [1.0, 3.0]), 0.25),  # of one dimension
        (hr.Polytope([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), 1.0 - 0.75**2),
        (hr.Curve(["t", "t*t"], 0.0, 1.0), 0.25),
        (hr.Union([hr.Box([0.0, 0.0], [0.25, 1.0]), hr.Box([1.0, 0.0], [2.0, 1.0])]), 0.2),
    ],
)
def test_the_proven_share_is_that_of_the_volume(region: hr.Region, share: float) -> None:
    proof = searched(region, left_quarter, Budget(cells=20_000))
    assert proof.reason.startswith("gave up after 2")
    assert proof.share <= share + 1e-12
    assert proof.share == pytest.approx(share, abs=0.02)
    assert proof.floor == -0.5
    assert not proof.proven


def test_a_share_that_halves_meet_is_exact() -> None:
    proof = searched(hr.Box([0.0, 0.0], [1.0, 2.0]), left_quarter, Budget(cells=500))
    assert proof.share == 0.25
    assert proof.more_cells is None  # what is left was never proven: nothing to go by


def after(halvings: int) -> Any:
    """Cells of the unit square are proven once they are this small."""
    return lambda cells: np.where(cells.volumes <= 0.5**halvings, 1.0, -cells.volumes)


@pytest.mark.parametrize("cells", [17_000, 20_000, 30_000])
def test_the_estimate_is_exact_where_all_cells_are_alike(cells: int) -> None:
    whole = 2**15 - 1  # all cells of a tree that ends after 14 halvings
    region = hr.Box([0.0, 0.0], [1.0, 1.0])
    proof = searched(region, after(14), Budget(cells=cells))
    assert proof.more_cells is not None
    assert proof.cells + proof.more_cells == whole
    assert proof.more_seconds is not None
    assert proof.more_seconds > 0.0
    complete = searched(region, after(14), Budget())
    assert (complete.proven, complete.cells, complete.share) == (True, whole, 1.0)
    assert (complete.open_cells, complete.more_cells) == (0, 0.0)


def test_there_is_no_estimate_before_anything_is_proven() -> None:
    proof = searched(hr.Box([0.0, 0.0], [1.0, 1.0]), after(30), Budget(cells=3_000))
    assert (proof.share, proof.more_cells, proof.more_seconds) == (0.0, None, None)


def test_the_floor_rises_as_cells_become_smaller() -> None:
    region = hr.Box([0.0, 0.0], [1.0, 1.0])
    floors = [searched(region, after(30), Budget(cells=n)).floor for n in (1, 3, 7, 1023)]
    assert floors == [-1.0, -0.5, -0.25, -(0.5**9)]


# --- budgets, by a clock that counts work ------------------------------------------------------


class Clock:
    """Stands for `perf_counter`: it goes on when work is done."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(clock_of, "perf_counter", clock)
    return clock


def test_narrowing_to_thousands_of_cells_looks_at_the_clock(clock: Clock) -> None:
    class Slow(Known):
        def narrowed(self, cell: Cells) -> Known:
            clock.now += 1.0
            return self

    region = hr.Box([0.0, 0.0], [1.0, 1.0])
    slow = Slow(lambda cells: np.full(len(cells), -1.0), levels=8)
    proof = prove(slow, region.covers(), 1e-9, NOBODY, Budget(seconds=100.0))
    assert proof.reason.startswith("gave up after 100 s and")
    assert 100.0 <= clock.now <= 102.0


@pytest.mark.parametrize("hidden", [[40, 40, 40], [300, 20]])
def test_budgets_are_kept_to_a_tenth_by_linear_relaxation(
    hidden: list[int], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A product takes a microsecond; the bounds of a layer are then much more than the budget."""
    monkeypatch.setattr(relaxation, "_PRODUCTS", 2_000)
    monkeypatch.setattr(relaxation, "_PER_NUMBER", 0)
    above = relaxation.affine_above

    def counted(layers: LayerArrays, rows: Array, offset: Array, lines: Any) -> Any:
        sizes = sum(one.size for one in layers.weights[: len(lines)])
        clock.now += 1e-6 * rows.shape[0] * rows.shape[1] * sizes
        return above(layers, rows, offset, lines)

    monkeypatch.setattr(relaxation, "affine_above", counted)
    policy = hr.CategoricalPolicy.mlp(spaces(4, 2), hidden=hidden, seed=0)
    sharpen(policy, 20.0)
    rule = hr.AtLeast(0.3, 0, hr.Box([-3.0] * 4, [3.0] * 4))
    budget = Budget(seconds=0.08)
    answer = hr.certify(policy, rule, budget=budget)
    if answer.status == "unknown":
        assert answer.reason.startswith("gave up after 0.08 s and")
    assert clock.now <= 1.1 * budget.seconds


def test_what_time_ran_out_over_stays_open(clock: Clock) -> None:
    class Late(Known):
        def bounds(self, cells: Cells, deadline: Deadline = NO_DEADLINE) -> Bounds:
            clock.now += 1.0
            deadline.check()
            return super().bounds(cells)

    region = hr.Box([0.0, 0.0], [1.0, 1.0])
    late = Late(after(30))
    proof = prove(late, region.covers(), 1e-9, NOBODY, Budget(seconds=3.0))
    assert (proof.cells, proof.open_cells, proof.share, proof.floor) == (3, 4, 0.0, -0.5)
