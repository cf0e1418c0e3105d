"""What pictures are of: runs, learners and policies, with names or numbers."""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import pytest

import handrail as hr
from handrail.errors import InvalidArgument
from handrail.report.policy_panels import policy_figure
from handrail.report.subject import Domain, Subject, recorded_runs
from handrail.runs.run import Run, make_agent
from tests.report.figures import LEANING, PLANE, book, labels, lean_left


def test_a_run_says_itself_what_it_obeys(run: Run) -> None:
    subject = Subject.of(run)
    assert subject.domain.rulebook == run.rulebook
    assert subject.seed == run.seed
    other = Subject.of(run, [lean_left("other", x=2.0)])
    assert [one.name for one in other.domain.constraints] == ["other"]


def test_learners_have_active_states_and_policies_have_none() -> None:
    rules = book([hr.AtLeast(0.9, 0, hr.Box([-1, 0, -0.3, -0.2], [1, 0, -0.2, 0.1]))], hidden=200)
    agent = make_agent(rules)
    assert len(Subject.of(agent, rules).active) == sum(map(len, agent.active_states)) > 0
    assert Subject.of(agent.policy, rules).active.shape == (0, 4)
    with pytest.raises(InvalidArgument, match="What must the Reinforce obey"):
        Subject.of(agent)


def test_constraints_alone_have_numbers_for_names() -> None:
    domain = Domain.of([lean_left()])
    assert domain.observations[:2] == ("observation 0", "observation 1")
    assert domain.action(1) == "action 1"
    assert Domain.of("cartpole").action(1) == "right"
    with pytest.raises(InvalidArgument, match="Without constraints or a constraint file"):
        Domain.of([])
    figure = policy_figure(LEANING, [lean_left()], PLANE)
    assert figure.axes[0].get_title() == "probability of “action 1”"
    assert figure.axes[0].get_xlabel() == "observation 2"
    assert "one episode, from the dot" not in labels(figure)  # nobody knows where


def test_means_without_a_range_have_that_of_the_picture() -> None:
    policy = hr.GaussianPolicy.mlp(gym.make("Pendulum-v1"), hidden=[8], seed=0)
    figure = policy_figure(policy, [hr.AtLeast(0.5, hr.Mean(0), hr.Points([[1.0, 0.0, 0.0]]))])
    mesh = figure.axes[0].collections[0]
    values = np.asarray(mesh.get_array())
    assert mesh.get_clim() == pytest.approx((values.min(), values.max()))
    assert figure.axes[0].get_title() == "mean of “action 0”"


def test_runs_are_found_wherever_they_are(run: Run, empty: Run) -> None:
    for given in (run, [run, empty], run.folder, str(run.folder)):
        assert [one.folder for one in recorded_runs(given)] == [run.folder]
    with pytest.raises(InvalidArgument, match="No episode has been recorded yet"):
        recorded_runs(empty)
