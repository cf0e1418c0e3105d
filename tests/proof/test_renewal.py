"""Proofs from the cells of the last ones, of several constraints at once."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np
import pytest
import torch

import handrail as hr
from handrail._types import Array
from handrail.constraints import PlacedConstraint
from handrail.proof.branch_and_bound import Budget
from handrail.proof.question import provable_layers
from handrail.proof.renewal import CellCache, Renewal
from handrail.proof.vertex_bound import CellCorners, VertexBound
from handrail.regions.cells import Cells
from tests.conftest import spaces

compiled_only = pytest.mark.skipif(find_spec("numba") is None, reason="needs numba")


def leaning(low: Sequence[float], high: Sequence[float], name: str) -> PlacedConstraint:
    return hr.AtLeast(0.6, action=0, where=hr.Box(low, high), name=name)


def triangle(name: str, bound: float = 0.4) -> PlacedConstraint:
    where = hr.Polytope([[0.2, 0.0], [1.0, 0.1], [0.4, 0.9]], (0, 1), {2: (-1.0, 1.0)})
    return hr.AtMost(bound, action=0, where=where, name=name)


CONSTRAINTS = (
    leaning([-1.0, -0.5, -1.0], [-0.6, 0.5, 1.0], "left"),
    leaning([-1.0, 0.6, -1.0], [-0.6, 1.0, 1.0], "left, up"),
    triangle("right"),
)


def obeying(seed: int) -> hr.Policy:
    """A policy that is held to all of them."""
    policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[300], seed=seed)
    hr.enforce(policy, list(CONSTRAINTS), prove=True).raise_if_unsatisfied()
    return policy


def move(policy: hr.Policy, by: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with torch.no_grad():
        for one in policy.parameters:
            one.add_(by * torch.as_tensor(rng.normal(size=tuple(one.shape)), dtype=one.dtype))


def worst_at(policy: hr.Policy, constraint: PlacedConstraint, rng: np.random.Generator) -> float:
    """The worst violation at many states of the region, corners and border among them."""
    region = constraint.region
    assert region is not None
    low, high = region.bounds
    inside = region.sample(2000, rng)
    border = region.project(inside + (high - low) * rng.normal(size=inside.shape))
    states = np.concatenate([inside, border, region.corners])
    violated = constraint.violated_at(states, 2)
    assert violated is not None
    return float(violated(policy.outputs(states)).max())


@pytest.mark.parametrize("seed", range(4))
def test_what_is_renewed_is_true_of_the_network_of_now(seed: int) -> None:
    policy, renewal, rng = obeying(seed), Renewal(CONSTRAINTS), np.random.default_rng(seed)
    verdicts = set()
    for turn in range(25):
        for answer, constraint in zip(renewal.certify(policy, Budget()), CONSTRAINTS, strict=True):
            alone = hr.certify(policy, constraint)
            assert answer.status == alone.status
            assert (answer.name, answer.lower, answer.upper) == (
                alone.name,
                alone.lower,
                alone.upper,
            )
            verdicts.add(answer.status)
            worst = worst_at(policy, constraint, rng)
            if answer.certified:
                assert worst <= answer.worst_violation <= 0.0
            else:
                assert answer.violation is not None
                assert answer.violation > 0.0
        move(policy, 0.004, 100 * seed + turn)
    assert "certified" in verdicts


def test_a_network_that_moves_too_far_is_not_certified() -> None:
    policy, renewal = obeying(0), Renewal(CONSTRAINTS)
    assert all(one.certified for one in renewal.certify(policy, Budget()))
    with torch.no_grad():
        policy.parameters[-1][1] += 30.0
    first, second, third = renewal.certify(policy, Budget())
    assert first.status == second.status == "counterexample"
    assert third.certified


def test_weights_that_are_no_numbers_prove_nothing() -> None:
    policy, renewal = obeying(0), Renewal(CONSTRAINTS)
    renewal.certify(policy, Budget())
    with torch.no_grad():
        policy.parameters[0][0, 0] = np.inf
    assert {one.status for one in renewal.certify(policy, Budget())} == {"unknown"}


def test_another_policy_is_asked_anew() -> None:
    renewal = Renewal(CONSTRAINTS)
    renewal.certify(obeying(0), Budget())
    other = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[50, 50], seed=1)
    answers = renewal.certify(other, Budget())
    alone = [hr.certify(other, one) for one in CONSTRAINTS]
    assert [one.status for one in answers] == [one.status for one in alone]


def test_what_is_remembered_goes_on_bit_for_bit() -> None:
    policy, renewal = obeying(1), Renewal(CONSTRAINTS)
    for turn in range(5):
        renewal.certify(policy, Budget())
        move(policy, 0.001, turn)
    again = Renewal(CONSTRAINTS)
    again.recall(renewal.memory())
    for turn in range(5):
        one, other = renewal.certify(policy, Budget()), again.certify(policy, Budget())
        for mine, theirs in zip(one, other, strict=True):
            assert mine.status == theirs.status
            assert mine.cells == theirs.cells
            assert (mine.lowest, mine.highest) == (theirs.lowest, theirs.highest)
        memories = renewal.memory(), again.memory()
        assert memories[0].keys() == memories[1].keys()
        assert all(np.array_equal(memories[0][key], memories[1][key]) for key in memories[0])
        move(policy, 0.001, 10 + turn)


def test_the_cells_make_the_region_however_often_it_was_proven() -> None:
    policy, renewal = obeying(2), Renewal(CONSTRAINTS)
    for turn in range(10):
        for answer, constraint in zip(renewal.certify(policy, Budget()), CONSTRAINTS, strict=True):
            if answer.certified:
                region = constraint.region
                assert region is not None
                volume = sum(float(leaf.cells.volumes.sum()) for leaf in answer.leaves)
                whole = sum(float(one.volumes.sum()) for one in region.covers())
                assert volume == pytest.approx(whole, rel=1e-12)
        move(policy, 0.002, turn)


# --- the compiled bound -----------------------------------------------------------------------


def some_cells(rng: np.random.Generator, count: int) -> Cells:
    cells = CellCache(triangle("some")).cells
    assert cells is not None
    while len(cells) < count:
        cells = cells.halves(rng.uniform(0.2, 1.0, 3))
    return cells


def inside(cells: Cells, count: int, rng: np.random.Generator) -> Array:
    """States of each cell (n, count, n_coordinates): mixtures of vertices."""
    vertices = cells.vertices()
    shares = rng.dirichlet(np.full(vertices.shape[1], 0.3), (len(cells), count))
    return shares @ vertices


@compiled_only
@pytest.mark.parametrize("width", [1, 5, 300])
def test_the_compiled_bound_is_below_every_state_of_a_cell(width: int) -> None:
    rng = np.random.default_rng(width)
    for seed in range(5):
        policy = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[width], seed=seed)
        move(policy, 0.5, seed)
        layers = provable_layers(policy)
        constraint = triangle("some")
        margin = hr.proof.at_most(constraint.quantity, np.array([1.0, 0.0]), 0.4)
        bounder, cells = VertexBound.of(layers, margin), some_cells(rng, 37)
        lowest, somewhere = bounder.single_bounds(CellCorners.of(cells)).T
        states = inside(cells, 200, rng)
        flat = states.reshape(-1, 3)
        margins = margin.of_raw(layers.outputs(flat), flat).reshape(len(cells), -1)
        assert (lowest <= margins.min(axis=1) + 1e-11).all()
        assert (lowest <= somewhere + 1e-11).all()
        centres = margin.of_raw(layers.outputs(cells.centres), cells.centres)
        assert (somewhere <= centres + 1e-11).all()
        # Narrowed to fewer cells, it is no worse than with NumPy, narrowed to all of them.
        around = Cells.boxes(cells.low.min(axis=0)[None], cells.high.max(axis=0)[None])
        with_numpy = bounder.narrowed(around).bounds(cells).lowest
        assert np.median(lowest - with_numpy) >= -1e-11


@compiled_only
@pytest.mark.parametrize("n_coordinates", [1, 2, 4, 5, 9])
def test_the_compiled_bound_takes_any_number_of_coordinates(n_coordinates: int) -> None:
    """Four are taken at a time."""
    rng = np.random.default_rng(n_coordinates)
    policy = hr.CategoricalPolicy.mlp(spaces(n_coordinates, 2), hidden=[40], seed=1)
    move(policy, 0.5, 1)
    layers = provable_layers(policy)
    margin = hr.proof.at_most(triangle("some").quantity, np.array([1.0, 0.0]), 0.4)
    cells = Cells.boxes(-np.ones((1, n_coordinates)), np.ones((1, n_coordinates)))
    for _ in range(4):
        cells = cells.halves(rng.uniform(0.2, 1.0, n_coordinates))
    lowest, somewhere = VertexBound.of(layers, margin).single_bounds(CellCorners.of(cells)).T
    states = np.concatenate([inside(cells, 50, rng), cells.vertices()], axis=1)
    flat = states.reshape(-1, n_coordinates)
    margins = margin.of_raw(layers.outputs(flat), flat).reshape(len(cells), -1)
    assert (lowest <= margins.min(axis=1) + 1e-11).all()
    assert (somewhere >= margins.min(axis=1) - 1e-11).sum() > len(cells) // 2
    assert (lowest <= somewhere + 1e-11).all()


@compiled_only
def test_neighbours_are_taken_together() -> None:
    across, up = np.meshgrid(np.arange(16.0), 0.01 * np.arange(16.0))
    low = np.stack([across.ravel(), up.ravel()], axis=1)
    cells = Cells.boxes(low, np.add(low, [1.0, 0.01]))
    order = CellCorners.of(cells.take(np.random.default_rng(0).permutation(256))).order
    assert sorted(order) == list(range(256))
    shuffled = low[np.random.default_rng(0).permutation(256)][order]
    sizes = np.ptp(shuffled.reshape(32, 8, 2), axis=1) / [1.0, 0.01]
    np.testing.assert_allclose(np.sort(sizes, axis=1), [[1.0, 3.0]] * 32)  # 2 x 4 of them


# --- few cells ----------------------------------------------------------------------------------


@compiled_only
def test_few_cells_prove_or_say_where_it_is_violated() -> None:
    policy, renewal, rng = obeying(0), Renewal(CONSTRAINTS), np.random.default_rng(0)
    seen = set()
    for turn in range(25):
        said = renewal.of_few_cells(policy, cells=500)
        assert not said.certificates.keys() & said.suspects.keys()
        for index, answer in said.certificates.items():
            assert worst_at(policy, CONSTRAINTS[index], rng) <= answer.worst_violation <= 0.0
            seen.add("proven")
        for index, states in said.suspects.items():
            violated = CONSTRAINTS[index].violated_at(states, 2)
            assert violated is not None
            assert violated(policy.outputs(states)).max() > 0.0
            seen.add("violated")
        move(policy, 0.004, turn)
    assert seen == {"proven", "violated"}


@compiled_only
def test_what_takes_more_cells_is_tried_more_and_more_seldom() -> None:
    policy, renewal = obeying(0), Renewal(CONSTRAINTS)
    every = {0, 1, 2}
    assert renewal.of_few_cells(policy, cells=500).certificates.keys() == every
    fresh, tried = Renewal(CONSTRAINTS), []
    for turn in range(16):
        # Of one cell nothing is known; of as many as it takes, all is: but it is not always asked.
        few = fresh.of_few_cells(policy, cells=1 if turn < 7 else 500)
        again = Renewal(CONSTRAINTS)
        again.recall(fresh.memory())
        assert again.memory()["0.attempts"].tolist() == fresh.memory()["0.attempts"].tolist()
        assert not few.suspects
        tried.append(set(few.certificates) == every)
    assert tried == [False] * 14 + [True] * 2
    full = Renewal(CONSTRAINTS).certify(policy, Budget())  # whoever wants a proof need not wait
    assert all(one.certified for one in full)


def test_few_cells_say_nothing_of_other_networks() -> None:
    renewal = Renewal(CONSTRAINTS)
    deep = hr.CategoricalPolicy.mlp(spaces(3, 2), hidden=[8, 8])
    strange = hr.CategoricalPolicy(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Softsign()))
    for policy in (deep, strange):
        said = renewal.of_few_cells(policy, cells=500)
        assert not said.certificates
        assert not said.suspects


@compiled_only
def test_regions_that_vary_in_other_coordinates_do_not_share_vertices() -> None:
    """Together each of their cells would have 2 ** 12 of them; alone it has 2 ** 6."""
    policy = hr.CategoricalPolicy.mlp(spaces(12, 2), hidden=[40], seed=0)
    ends = np.repeat(
        [[0.2, 0.0], [0.0, 0.2]], 6, axis=1
    )  # of what varies, in the one and the other
    states = np.random.default_rng(0).uniform(-ends[:, None], ends[:, None], (2, 5000, 12))
    bounds = policy.probabilities(states.reshape(-1, 12))[:, 0].reshape(2, -1).min(axis=1) - 0.05
    both = [
        hr.AtLeast(float(bounds.min()), action=0, where=hr.Box(-one, one), name=f"{number}")
        for number, one in enumerate(ends)
    ]
    assert Renewal(both).of_few_cells(policy, cells=3000).certificates.keys() == {0, 1}


@compiled_only
def test_what_is_asked_together_does_not_depend_on_when_it_was_asked_first() -> None:
    """Of three actions the linear bound of a margin depends on biases; the margin does not."""
    boxes = [hr.Box([low, -0.5], [low + 0.2, 0.5]) for low in (-0.8, 0.1, 0.5)]
    rules = [hr.AtLeast(0.05, {0: 1.0, 1: 0.5}, box, f"{n}") for n, box in enumerate(boxes)]
    policy = hr.CategoricalPolicy.mlp(spaces(2, 3), hidden=[60], seed=0)
    early, late = Renewal(rules), Renewal(rules)
    early.of_few_cells(policy, cells=500)
    with torch.no_grad():
        policy.parameters[-1].add_(torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64))
    late.recall(early.memory())
    said = [one.of_few_cells(policy, cells=500).certificates for one in (early, late)]
    assert said[0].keys() == said[1].keys() == {0, 1, 2}
    assert [one.lowest for one in said[0].values()] == [one.lowest for one in said[1].values()]
