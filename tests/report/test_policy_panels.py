"""The policy's picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import handrail as hr
from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.report import episode_panels
from handrail.report.episode_panels import first_episode
from handrail.report.policy_panels import policy_figure
from handrail.report.subject import Subject
from handrail.rulebook.rulebook import Rulebook, load_rulebook, with_settings
from handrail.runs.run import make_agent
from tests.report.figures import PLANE, book, caption, labels, lean_left, marked


def test_a_plane_that_misses_the_regions_shows_none() -> None:
    agent = make_agent(rules := book([lean_left(x=1.0), lean_left("other", x=2.0)]))
    figure = policy_figure(agent, rules, PLANE)
    assert not figure.axes[0].patches
    assert "constrained region" not in labels(figure)
    assert caption(figure) == "x = 0, x_dot = 0; 2 of 2 regions do not meet this plane"
    figure = policy_figure(agent, rules, replace(PLANE, at=(1.0, 0.0, 0.0, 0.0)))
    assert len(figure.axes[0].patches) == 1
    assert caption(figure) == "x = 1, x_dot = 0; 1 of 2 regions do not meet this plane"


def visited(subject: Subject, rules: Rulebook) -> Array:
    """Every state of the first episode, the last one as well."""
    episode = first_episode(subject, rules)
    return np.concatenate([episode.states, episode.final_state[None]])


def test_stars_points_and_an_episode() -> None:
    points = hr.Points([[0, 0, 0.1, 0.3], [0, 0, 0.2, 0.3], [1, 0, 0.3, 0.3], [0, 0, 9.0, 0]])
    region = hr.Box([-1, 0, -0.3, -0.2], [1, 0, -0.2, 0.1])
    rules = book(
        [hr.AtLeast(0.9, 0, region, name="left"), hr.AtMost(0.3, 0, points, name="right")],
        hidden=200,
    )
    agent = make_agent(rules)
    stars = np.concatenate(agent.active_states)
    assert len(stars) > 2
    # A plane through one of them: it is white, those of other planes are grey and smaller.
    figure = policy_figure(agent, rules, replace(PLANE, at=tuple(stars[0].tolist())))
    here = stars[:, 0] == stars[0, 0]
    axes = figure.axes[0]
    drawn = marked(axes, "state constrained at present")
    assert (drawn == stars[here][:, [2, 3]]).all()
    drawn = marked(axes, "state constrained at present, other plane")
    assert (drawn == stars[~here][:, [2, 3]]).all()
    figure = policy_figure(agent, rules, PLANE)
    axes = figure.axes[0]
    assert marked(axes, "constrained state").tolist() == [[0.1, 0.3], [0.2, 0.3]]
    assert marked(axes, "constrained state, other plane").tolist() == [[0.3, 0.3]]
    path = visited(Subject.of(agent, rules), rules)
    assert (marked(axes, "one episode, from the dot") == path[:, [2, 3]]).all()
    assert len(path) == agent.evaluate(1).lengths[0] + 1
    assert (visited(Subject.of(make_agent(rules), rules), rules) == path).all()
    assert set(labels(figure)) <= {
        "probability 50 %",
        "constrained region",
        "constrained state",
        "constrained state, other plane",
        "state constrained at present",
        "state constrained at present, other plane",
        "one episode, from the dot",
        "A: left: ≥ 0.9",
    }


def test_only_what_is_there_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    obedient = hr.AtLeast(0.01, 0, hr.Box([0, 0, -0.3, -0.2], [0, 0, -0.2, 0.1]), name="obeyed")
    agent = make_agent(rules := book([obedient]))
    assert not sum(map(len, agent.active_states))
    wanted = ["constrained region", "one episode, from the dot", "A: obeyed: ≥ 0.01"]
    found = labels(policy_figure(agent, rules, PLANE))
    assert [label for label in found if label != "probability 50 %"] == wanted

    def broken(*_: object) -> None:
        raise EnvironmentFailure("The environment raised RuntimeError.")

    monkeypatch.setattr(episode_panels, "make_player", broken)
    far = replace(PLANE, horizontal_range=(50.0, 60.0), vertical_range=(50.0, 51.0))
    figure = policy_figure(agent, rules, far)
    assert labels(figure) in ([], ["constrained region"])
    assert not [line for line in figure.axes[0].lines if len(line.get_xydata())]  # type: ignore[arg-type]


def test_a_panel_per_action(tmp_path: Path) -> None:
    rules = with_settings(load_rulebook("acrobot"), network={"hidden": [32]})
    agent = make_agent(rules)
    figure = policy_figure(agent, rules)
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == [f"probability of “{action}”" for action in rules.actions]
    figure.savefig(tmp_path / "policy.png")
    with Image.open(tmp_path / "policy.png") as picture:
        assert picture.width < 2000
