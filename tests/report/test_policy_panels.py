"""The policy's picture."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import handrail as hr
from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.report import episode_panels
from handrail.report.episode_panels import first_episode
from handrail.report.plane import Plane
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


def noisy(n_actions: int) -> hr.VaryingGaussianPolicy:
    """Two observations; means and noise are linear in them."""
    layer = nn.Linear(2, 2 * n_actions, dtype=torch.float64)
    with torch.no_grad():
        layer.weight[:] = torch.linspace(-1.0, 1.0, 4 * n_actions).reshape(-1, 2)
        layer.bias[:] = 0.0
    return hr.VaryingGaussianPolicy(nn.Sequential(layer), [0.1] * n_actions, [0.9] * n_actions)


def test_noise_that_varies_has_a_map_of_its_own_with_what_is_asked_of_it() -> None:
    of_mean, of_noise = hr.Box([-1, -1], [0, 0]), hr.Box([0.2, 0.2], [1, 1])
    of_draws = hr.Box([-1, 0.5], [-0.5, 1])
    rules = [
        hr.AtMost(0.0, hr.Mean(0), of_mean, name="back"),
        hr.AtMost(0.3, hr.Std(0), of_noise, name="quiet"),
        hr.AtLeast(0.5, hr.Std(0), hr.Points([0.5, -0.5]), name="wild"),
        hr.LikelyWithin(0.9, 0, of_draws, high=1.0, name="drawn"),
    ]
    policy = noisy(1)
    plane = Plane((0.0, 0.0), 0, 1, (-1.0, 1.0), (-1.0, 1.0))
    figure = policy_figure(policy, rules, plane)
    mean, std = figure.axes[:2]
    assert mean.get_title() == "mean of “action 0”"
    assert std.get_title() == "standard deviation of “action 0”"
    over = policy.std(plane.states()[2]).ravel()
    assert std.collections[0].get_clim() == pytest.approx((over.min(), over.max()))
    areas = [[one.get_xy().mean(axis=0).tolist() for one in axes.patches] for axes in (mean, std)]  # type: ignore[attr-defined]
    assert len(areas[0]) == len(areas[1]) == 2
    letters = [[text.get_text() for text in axes.texts] for axes in (mean, std)]
    assert letters == [["A", "C"], ["B", "C"]]  # where draws lie is a matter of both
    assert (marked(std, "constrained state") == [[0.5, -0.5]]).all()
    assert "constrained state" not in mean.get_legend_handles_labels()[1]
    assert [one for one in labels(figure) if one[1:2] == ":"] == [
        "A: back: ≤ 0",
        "C: drawn",
        "B: quiet: ≤ 0.3",
    ]


def test_of_two_actions_the_noise_is_below_the_means() -> None:
    rules = [hr.AtMost(0.5, hr.Std(1), hr.Box([-1, -1], [0, 0]), name="quiet")]
    panels = policy_figure(noisy(2), rules).axes[:4]
    assert [axes.get_title() for axes in panels] == [
        "mean of “action 0”",
        "mean of “action 1”",
        "standard deviation of “action 0”",
        "standard deviation of “action 1”",
    ]
    places = [axes.get_subplotspec() for axes in panels]
    assert [(one.rowspan.start, one.colspan.start) for one in places if one is not None] == [
        (0, 0),
        (0, 1),
        (1, 0),
        (1, 1),
    ]
