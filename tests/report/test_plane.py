"""Planes: chosen by name, or by what there is to see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

import handrail as hr
from handrail.errors import InvalidArgument
from handrail.report.plane import Plane
from handrail.report.subject import Domain, Subject
from handrail.rulebook.rulebook import load_rulebook, parse
from tests.report.figures import book, lean_left
from tests.runs.test_run import TEXT
from tests.support.cartpole import regions

BOX = hr.Box([0, -1, 0, 2], [1, 1, 3, 2])


def test_planes_show_whole_regions() -> None:
    rules = replace(book(regions()), picture=None)
    plane = Plane.of(rules)
    # All six share the range of x, so it is not what tells them apart.
    assert (plane.horizontal, plane.vertical) == (2, 3)
    assert plane.at[:2] == (0.0, 0.0)
    # Regions end at ±0.4, the pole's angle is observed up to 24°.
    assert plane.horizontal_range == pytest.approx((-np.radians(24), np.radians(24)))
    assert all(plane.section(one.region) for one in regions())  # type: ignore[attr-defined]
    over_x = Plane.of(rules, ("x", "phi"))
    assert over_x.horizontal_range == pytest.approx((-4.0, 4.0))
    assert Plane.of(rules, ("x", "phi"), {"x_dot": 2, "phi_dot": 4}).at[1::2] == (2, 4)


def test_planes_run_through_regions_not_between_them() -> None:
    rules = book([lean_left("one", -2.0), lean_left("two", 2.0), lean_left("three", 2.0)])
    plane = Plane.of(rules, ("phi", "phi_dot"))
    assert plane.at[0] == 2.0
    rules = replace(rules, picture=None, constraints=(lean_left(), hr.AtLeast(0.5, 0, BOX)))
    assert Plane.of(rules).section(BOX)


def test_the_scale_of_observations_counts() -> None:
    rules = replace(load_rulebook("mountain_car"), picture=None)
    box = hr.AtLeast(0.5, 0, hr.Box([-0.2, 0.0], [0.1, 0.03]))
    plane = Plane.of(replace(rules, constraints=(box,)))
    assert (plane.horizontal, plane.vertical) == (1, 0)  # 0.03 of 0.03, but 0.3 of 0.5


def test_a_plane_by_name() -> None:
    rules = load_rulebook("cartpole")
    plane = Plane.of(rules, ("x", "phi"), {"x_dot": 0.5})
    assert (plane.horizontal, plane.vertical) == (0, 2)
    assert plane.at[1] == 0.5
    assert plane.horizontal_range[0] < -2.0
    assert plane.horizontal_range[1] > 2.0


def test_the_picture_of_the_file_is_the_default() -> None:
    default = Plane.of("cartpole")
    assert default.horizontal_range == (-0.4, 0.4)
    moved = Plane.of("cartpole", at={"x": -2, "x_dot": 1})
    assert moved == replace(default, at=(-2.0, 1.0, *default.at[2:]))
    without = parse(TEXT, "corridor")
    assert Plane.of(without) == Plane.of(without, ("position", "one"))


def test_without_a_file_observations_are_numbered() -> None:
    plane = Plane.of([lean_left()], ("observation 2", "observation 3"), {"observation 0": 1.0})
    assert (plane.horizontal, plane.vertical) == (2, 3)
    assert plane.at[0] == 1.0
    assert plane.section(lean_left(x=1.0).where)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("over", "at", "message"),
    [
        (("x",), {}, "A plane is over two different observations, such as x, x_dot, but got"),
        (("x", "x"), {}, "A plane is over two different observations"),
        ("xy", {}, "A plane is over two different observations"),
        (("x", "psi"), {}, "Unknown observation 'psi'. This environment has x, x_dot, phi, phi_d"),
        (("x", "phi"), {"psi": 0.0}, "Unknown observation 'psi'"),
        (("x", "phi"), {"phi": 0.0}, "phi is on an axis of the picture"),
        (None, {"phi_dot": 0.0}, "phi_dot is on an axis of the picture"),
    ],
)
def test_planes_that_cannot_be_meant(
    over: Sequence[str] | None, at: Mapping[str, float], message: str
) -> None:
    with pytest.raises(InvalidArgument, match=message):
        Plane.of("cartpole", over, at)


def test_a_plane_ends_where_observations_do() -> None:
    """Of the file's environment, or of a learner's; constraints beyond are shown all the same."""
    rules = replace(book([lean_left()]), picture=None)
    assert Plane.of(rules, ("x", "phi")).vertical_range == pytest.approx((-0.33, -0.17))
    wide = hr.AtLeast(0.6, 0, hr.Box([-4.7, 0, -0.5, -1], [4.7, 0, 0.4, 1]), name="wide")
    plane = Plane.of(replace(rules, constraints=(wide,)), ("x", "phi"))
    assert plane.horizontal_range == pytest.approx((-4.8, 4.8))
    assert plane.vertical_range == pytest.approx((-0.5, np.radians(24)))
    assert Plane.of([wide], ("observation 0", "observation 3")).horizontal_range[0] < -7.0
    learner = hr.Reinforce("CartPole-v1", constraints=[hr.AtLeast(0.1, 0, wide.where, name="w")])
    domain = Subject.of(learner, [wide]).domain
    assert Plane.of(domain, ("observation 0", "observation 3")).horizontal_range == pytest.approx(
        (-4.8, 4.8)
    )
    unknown = parse(TEXT.replace("environment: ", "environment: Nobody/"), "nobody")
    assert np.isinf(Domain.of(unknown).limits).all()
