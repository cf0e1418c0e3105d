"""Files that are found, read and bundled: what they say, at a glance and built, and the paper."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import handrail as hr
from handrail._types import Array
from handrail.constraints import PlacedConstraint
from handrail.constraints.output_bounds import AtLeast, AtMost, Equal
from handrail.constraints.rows import concatenate
from handrail.errors import InvalidRulebook
from handrail.regions.ball import Ball
from handrail.regions.polytope import Polytope
from handrail.rulebook import (
    Overview,
    bundled,
    load_rulebook,
    overviews,
    parse,
)
from handrail.rulebook.source import MAX_BYTES
from handrail.settings import Everywhere
from tests.support import cartpole
from tests.support.constraint_files import HEAD, ONE


def test_an_overview_says_what_the_built_file_says() -> None:
    found = overviews()
    assert tuple(one.name for one in found) == bundled()
    for one in found:
        book = load_rulebook(one.name)
        placed = [each for each in book.constraints if isinstance(each, PlacedConstraint)]
        assert one == Overview(
            name=book.name,
            description=book.description,
            environment=book.environment.id,
            states=len({s.tobytes() for each in placed if not each.region for s in each.states}),
            regions=len({repr(each.region.describe()) for each in placed if each.region}),
            pass_mark=book.pass_mark,
        )


def test_regions_and_states_are_counted() -> None:
    by_name = {one.name: one for one in overviews()}
    assert (by_name["cartpole"].states, by_name["cartpole"].regions) == (18, 0)
    assert (by_name["cartpole_disks"].states, by_name["cartpole_disks"].regions) == (0, 4)
    assert by_name["pendulum"].states == 56
    # Two things are required at one of its states: it is one state all the same.
    assert by_name["lunar_lander_continuous"].states == 23


def test_large_and_unreadable_files(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_text("#" * (MAX_BYTES + 1))
    with pytest.raises(InvalidRulebook, match=r"^large.yaml, line 1: the file has 1,000,001 char"):
        load_rulebook(large)
    with pytest.raises(InvalidRulebook, match="at most 1,000,000"):
        parse("#" * (MAX_BYTES + 1), "large")
    latin = tmp_path / "latin.yaml"
    latin.write_bytes(b"# fine\n# na\xefve\n")
    with pytest.raises(InvalidRulebook, match=r"^latin.yaml, line 2: the byte 0xef is not UTF-8"):
        load_rulebook(latin)
    model = tmp_path / "model.zip"
    model.write_bytes(b"PK\x03\x04\xff")
    with pytest.raises(InvalidRulebook, match=r"0xff is not UTF-8. A constraint file is text"):
        load_rulebook(model)
    with pytest.raises(InvalidRulebook, match="is a directory, not a file"):
        load_rulebook(tmp_path)
    with pytest.raises(InvalidRulebook, match=r"Cannot read 'aaa.*: File name too long"):
        load_rulebook("a" * 1000)


def test_an_unknown_name_lists_the_bundled_ones() -> None:
    with pytest.raises(InvalidRulebook) as caught:
        load_rulebook("cart_pole")
    assert "'cart_pole' does not exist." in str(caught.value)
    assert "cartpole, cartpole_500, cartpole_disks, cartpole_equality, " in str(caught.value)
    assert "Did you mean 'cartpole'?" in str(caught.value)


# Box2D's own, when Lunar Lander imports it.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", bundled())
def test_bundled_files_load_and_fit_their_environments(name: str) -> None:
    rules = load_rulebook(name)
    assert rules.name == name
    assert rules.description
    assert load_rulebook(f"{name}.yaml").sentences == rules.sentences
    assert parse(rules.text, rules.name).sentences == rules.sentences
    rules.make_environment().close()
    concatenate([constraint.rows(len(rules.actions)) for constraint in rules.constraints])


def test_a_file_in_the_way_of_a_bundled_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cartpole").mkdir()
    assert load_rulebook("cartpole").pass_mark == 195.0
    (tmp_path / "cartpole.yaml").write_text(HEAD + ONE)
    assert load_rulebook(Path("cartpole.yaml")).pass_mark == 475.0  # Gymnasium's own


@pytest.mark.parametrize(("name", "kind"), [("cartpole", AtLeast), ("cartpole_equality", Equal)])
def test_cartpole_is_the_papers(name: str, kind: type[hr.Constraint]) -> None:
    rules = load_rulebook(name)
    assert all(type(constraint) is kind for constraint in rules.constraints)
    found = concatenate([constraint.rows(2) for constraint in rules.constraints])
    expected = concatenate([constraint.rows(2) for constraint in cartpole.constraints()])
    np.testing.assert_array_equal(found.states, expected.states)
    np.testing.assert_array_equal(found.weights, expected.weights)
    np.testing.assert_array_equal(found.lower, expected.lower)
    assert found.labels == expected.labels
    np.testing.assert_array_equal(found.upper, found.lower if kind is Equal else expected.upper)
    assert rules.environment.max_episode_steps == 200
    assert rules.observations == cartpole.OBSERVATIONS
    assert rules.sentences[0].startswith(
        f"push right: right {'==' if kind is Equal else '>='} 0.95"
    )
    assert rules.sentences[0].endswith("(x from -2 to 2, x_dot 0, phi 0.25, phi_dot 0.05)")


def test_cartpole_regions_are_the_papers() -> None:
    rules = load_rulebook("cartpole_regions")
    # (phi, phi_dot): the paper's appendix C, second table.
    upper = [
        [(-0.4, 0.4), (-0.3, 0.4), (-0.267, 0.133), (-0.4, 0.133)],
        [(-0.4, 0.133), (-0.267, 0.133), (-0.233, -0.133), (-0.4, -0.133)],
        [(-0.4, -0.133), (-0.233, -0.133), (-0.2, -0.4), (-0.4, -0.4)],
    ]
    lower = [
        [(0.4, -0.4), (0.2, -0.4), (0.167, -0.133), (0.4, -0.133)],
        [(0.4, -0.133), (0.167, -0.133), (0.133, 0.133), (0.4, 0.133)],
        [(0.4, 0.133), (0.133, 0.133), (0.1, 0.4), (0.4, 0.4)],
    ]
    others: dict[int, float | tuple[float, float]] = {0: (-2.5, 2.5), 1: 0.0}
    expected: list[hr.Constraint] = [
        AtLeast(0.95, cartpole.LEFT, Polytope(vertices, [2, 3], others)) for vertices in upper
    ]
    expected += [
        AtMost(0.05, cartpole.LEFT, Polytope(vertices, [2, 3], others)) for vertices in lower
    ]
    assert told(rules.constraints) == told(expected)
    assert rules.environment.max_episode_steps == 200
    assert rules.settings.selection == Everywhere(prove=True)
    assert rules.pass_mark == 195.0


@pytest.mark.parametrize(
    ("action", "line", "outwards"), [(cartpole.LEFT, -2.0, -0.01), (cartpole.RIGHT, 1.2, 0.01)]
)
def test_cartpole_track_is_the_authors(action: int, line: float, outwards: float) -> None:
    """Their 495 states of a side, by position, in slices of 100: each slice in its region."""
    rules = load_rulebook("cartpole_track")
    constraints = rules.constraints[5 * action : 5 * (action + 1)]
    grid = product(np.linspace(-2, 2, 9), np.linspace(-0.125, 0.125, 11), range(5))
    states = np.array([(x, 0, (line - p) / 8 + k * outwards, p) for x, p, k in grid])
    slices = [states[start : start + 100] for start in range(0, 495, 100)]
    for rule, inside in zip(constraints, slices, strict=True):
        assert isinstance(rule, AtLeast)
        assert (rule.bound, rule.action) == (0.95, action)
        assert rule.region is not None
        assert rule.region.contains(inside).all()
        low, high = rule.region.bounds
        np.testing.assert_allclose([low[0], high[0]], inside[[0, -1], 0])
        np.testing.assert_allclose([low[2:], high[2:]], ends(states))
    assert rules.settings.selection == Everywhere(prove=True)


def ends(states: Array) -> tuple[Array, Array]:
    """Of phi and phi_dot."""
    return states[:, 2:].min(axis=0), states[:, 2:].max(axis=0)


def test_cartpole_disks_are_the_papers() -> None:
    rules = load_rulebook("cartpole_disks")
    disks = {centre: Ball([0, 0, *centre], 0.05, [2, 3]) for centre in CENTRES}
    expected = [
        AtLeast(0.95, cartpole.LEFT, disk)
        if centre in ((-0.2, -0.2), (0.2, 0.2))
        else AtMost(0.05, cartpole.LEFT, disk)
        for centre, disk in disks.items()
    ]
    assert told(rules.constraints) == told(expected)
    assert rules.settings.selection == Everywhere()
    assert rules.settings.episodes == 10


CENTRES = [(-0.2, -0.2), (-0.2, 0.2), (0.2, -0.2), (0.2, 0.2)]


def told(constraints: Sequence[hr.Constraint]) -> list[Any]:
    """What constraints on regions say, apart from their names."""
    return [
        (type(rule), rule.bound, rule.action, rule.region and rule.region.describe())
        for rule in constraints
        if isinstance(rule, AtLeast | AtMost)
    ]


# x, y, the printed velocity, phi, l, action: the paper's appendix C, third table, as printed.
LANDER = [
    (0, 0, 0, 0, 1, 0),
    (0, 0.9, -1, 0, 0, 2),
    (0, 0.5, -0.75, 0, 0, 2),
    (0, 0.2, -0.5, 0, 0, 2),
    (0, 0.1, -0.5, 0, 0, 2),
    (0, 1, 0, -0.25, 0, 1),
    (0, 1, 0, 0.25, 0, 3),
    (0, 0.5, 0, -0.25, 0, 1),
    (0, 0.5, 0, 0.25, 0, 3),
    (0.3, 1.3, 0.1, 0, 0, 1),
    (-0.3, 1.3, -0.1, 0, 0, 3),
]


@pytest.mark.parametrize("name", ["lunar_lander", "lunar_lander_literal"])
def test_lunar_lander_is_the_papers(name: str) -> None:
    rules = load_rulebook(name)
    found = {
        (*state.tolist(), int(np.flatnonzero(weights).item()))
        for constraint in rules.constraints
        for state, weights in zip(constraint.states, constraint.rows(4).weights, strict=True)
    }
    expected = set()
    for index, (x, y, velocity, phi, leg, action) in enumerate(LANDER):
        horizontal = index >= 9 and name == "lunar_lander"
        x_dot, y_dot = (velocity, 0) if horizontal else (0, velocity)
        expected.add((x, y, x_dot, y_dot, phi, 0, leg, leg, action))
    assert found == expected
    assert sum(len(constraint.states) for constraint in rules.constraints) == 11
    assert {getattr(constraint, "bound", None) for constraint in rules.constraints} == {0.95}
    assert rules.pass_mark == 200.0
