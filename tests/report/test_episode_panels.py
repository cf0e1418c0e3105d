"""An episode over time."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import handrail as hr
from handrail.errors import InvalidArgument
from handrail.report.episode_panels import Allowed, draw_episode, episode_figure, first_episode
from handrail.report.subject import Domain, Subject
from handrail.rulebook.rulebook import parse
from tests.report.figures import LEANING, labels, lean_left, marked

FILE = """
environment: Pendulum-v1
observations: [cos, sin, speed]
actions: {torque: [-2, 2]}
constraints:
  - name: brake
    region: {cos: [-1, 1], sin: [-1, 1], speed: [1, 8]}
    require: torque <= 0.5 - 0.1*speed
  - name: keep below eight
    region: {cos: [-1, 1], sin: [-1, 1], speed: [-8, 8]}
    barrier: {h: 8 - speed, drift: {speed: sin}, gain: {speed: 3}, rate: 5}
"""


def by_title(figure: Figure) -> dict[str, Axes]:
    return {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}


def test_panels_for_observations_actions_and_barriers() -> None:
    book = parse(FILE, "pendulum.yaml")
    env = book.make_environment()
    policy = hr.GaussianPolicy.mlp(env, hidden=[8], seed=0)
    subject = Subject.of(policy, book)
    episode = first_episode(subject, book)
    figure = draw_episode(subject, episode)
    panels = by_title(figure)
    assert set(panels) == {"cos", "sin", "speed", "mean of “torque”", "h of “keep below eight”"}
    done = marked(panels["mean of “torque”"], "what was done")
    assert (done[:, 1] == episode.actions[:, 0]).all()
    level = panels["h of “keep below eight”"].lines[1].get_ydata()
    assert np.asarray(level) == pytest.approx(8.0 - episode.states[:, 2])
    assert "a barrier's 0" in labels(figure)
    assert figure.legends[0].get_title().get_text() == f"one episode, score {episode.score:.4g}"


def test_what_is_allowed_is_the_tightest_of_what_is_asked_there() -> None:
    book = parse(FILE, "pendulum.yaml")
    states = np.array([[1.0, 0.0, 0.0], [1.0, 0.0, 2.0], [0.0, 1.0, 7.0], [0.0, 1.0, 9.0]])
    allowed = Allowed.of(Domain.of(book), states, action=0, n_actions=1)
    assert (allowed.lower == -np.inf).all()
    # Of the barrier, -3 u >= -5 (8 - speed) + sin: u <= (5 (8 - speed) - sin) / 3.
    barrier = (5.0 * (8.0 - states[:, 2]) - states[:, 1]) / 3.0
    brake = 0.5 - 0.1 * states[:, 2]
    assert allowed.upper[0] == pytest.approx(barrier[0])  # too slow for the other
    assert allowed.upper[1] == pytest.approx(min(brake[1], barrier[1]))
    assert allowed.upper[2] == pytest.approx(min(brake[2], barrier[2]))
    assert allowed.upper[3] == np.inf  # faster than any region


def test_discrete_actions_are_marked_where_they_were_done() -> None:
    book = parse(
        """
environment: CartPole-v1
observations: [x, x_dot, phi, phi_dot]
actions: [left, right]
constraints:
  - {name: lean, where: {x: 0, x_dot: 0, phi: 0.2, phi_dot: 0}, require: right >= 0.6}
""",
        "cartpole.yaml",
    )
    subject = Subject.of(LEANING, book)
    episode = first_episode(subject, book)
    figure = draw_episode(subject, episode)
    panels = [by_title(figure)[f"probability of “{name}”"] for name in ("left", "right")]
    left, right = (marked(one, "what was done")[:, 0] for one in panels)
    assert sorted([*left, *right]) == list(range(len(episode)))
    assert (right == np.flatnonzero(episode.actions == 1)).all()
    assert "bound of a constraint" not in labels(figure)


def test_without_a_file_nobody_knows_where_to_play() -> None:
    with pytest.raises(InvalidArgument, match="An episode is played in an environment"):
        episode_figure(LEANING, [lean_left()])
