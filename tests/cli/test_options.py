"""What users write on the command line, as values."""

from __future__ import annotations

import pytest

from handrail.cli.options import plane_of, settings_of
from handrail.errors import InvalidArgument
from handrail.report.plane import Plane
from handrail.rulebook.rulebook import load_rulebook, parse
from tests.runs.test_run import TEXT


def test_settings_on_the_command_line() -> None:
    pairs = ["discount=0.9", "network.hidden=[8, 8]", "step_size=1e-4", "soft=false"]
    assert settings_of(pairs, episodes=5, seed=None) == {
        "episodes": 5,
        "discount": 0.9,
        "network": {"hidden": [8, 8]},
        "step_size": 1e-4,
        "soft": False,
    }


def test_planes() -> None:
    book = load_rulebook("cartpole")
    plane = plane_of(book, "x, phi", ["x_dot=0.5"])
    assert plane == Plane.of(book, ("x", "phi"), {"x_dot": 0.5})
    assert plane_of(book, None, None) == Plane.of(book)
    for over, at, message in (
        ("x", [], "A plane is over two different observations, such as x, x_dot"),
        ("x,psi", [], "Unknown observation 'psi'. This environment has x, x_dot, phi, phi_dot"),
        ("x,phi", ["x_dot"], "--at x_dot: expected name=number"),
        ("x,phi", ["x_dot=a"], "--at x_dot=a: expected name=number"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            plane_of(book, over, at)


def test_one_observation_spans_no_plane() -> None:
    text = TEXT.replace("Corridor-v0", "OneNumber-v0").replace("[position, one]", "[position]")
    book = parse(text.replace(", one: 1}", "}"), "one")
    assert plane_of(book, None, None) is None
    with pytest.raises(InvalidArgument, match="There is only one observation"):
        plane_of(book, None, ["position=0"])
