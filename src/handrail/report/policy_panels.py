"""The policy over a plane of observations: with its constraints, and an episode that it plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.policies import Quantity
from handrail.report.drawing import (
    draw_frame,
    draw_legend,
    draw_marks,
    draw_output,
    draw_regions,
    draw_trajectory,
    is_curve,
    label_regions,
    literal,
    new_figure,
    outputs_over,
)
from handrail.report.episode_panels import first_episode
from handrail.report.plane import Plane
from handrail.report.shading import Shading
from handrail.report.subject import Domain, Shown, Subject
from handrail.rulebook import AnyConstraints

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PANELS_IN_A_ROW = 3


def policy_figure(
    shown: Shown, constraints: AnyConstraints | None = None, plane: Plane | None = None
) -> Figure:
    """The policy over a plane, with its constraints and an episode that it plays.

    A panel per action; of two discrete ones, one is enough: the other is what is left to 1. Where
    the noise depends on the state, the standard deviation of each action has a panel behind those
    of the means. What is asked of the one is not drawn on the other.

    Args:
        shown: a run, a learner or a policy.
        constraints: what it must obey, with the names: a list, a Rulebook, the path of a constraint
            file or a bundled one's name; by default those of the run.
        plane: to show it over; by default `Plane.of(constraints)`.
    """
    subject = Subject.of(shown, constraints)
    domain = subject.domain
    plane = Plane.of(domain) if plane is None else plane
    outputs = outputs_over(subject.policy, plane)
    episode = _path(subject)
    actions = _shown_actions(subject, len(outputs))
    columns = _columns(subject.policy.quantity, len(actions))
    rows = -(-len(actions) // columns)
    figure = new_figure(1.2 + 3.9 * columns, 0.9 + 3.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    quantity = subject.policy.quantity
    for action, axes in zip(actions, panels, strict=False):
        shading = Shading.of(domain, quantity, action, outputs[action])
        mesh = draw_output(axes, outputs[action], plane, shading)
        shading.label_line(axes, outputs[action])
        _draw_scene(axes, subject.about(action), episode, plane)
        label_regions(axes, domain, plane, subject.about(action).domain.constraints)
        draw_frame(axes, plane, domain.observations)
        axes.set_title(literal(f"{shading.noun} “{_name(subject, action)}”"), fontsize=10)
        if not quantity.adds_up:  # every action has a range of its own
            figure.colorbar(mesh, ax=axes, extend=shading.extent(outputs[action]))
    for axes in panels[len(actions) :]:
        axes.set_visible(False)
    if quantity.adds_up:
        figure.colorbar(mesh, ax=list(panels), label=quantity.noun)
    draw_legend(figure, panels[: len(actions)], _caption(domain, plane), 1 + columns)
    return figure


def _columns(quantity: Quantity, n_panels: int) -> int:
    """Of several actions, the standard deviations are below the means; of one, beside it."""
    n_actions = quantity.n_actions(n_panels)
    one_row = n_panels if n_actions in (1, n_panels) else n_actions
    return min(one_row, _PANELS_IN_A_ROW)


def _name(subject: Subject, output: int) -> str:
    _, action = subject.policy.quantity.part(output)
    return subject.domain.action(action)


def _draw_scene(axes: Axes, subject: Subject, episode: Array, plane: Plane) -> None:
    """Areas first, then lines, then marks: nothing hides what is smaller."""
    draw_regions(axes, subject.domain.regions, plane)
    if len(episode):
        draw_trajectory(axes, episode, plane)
    draw_marks(axes, subject.domain.points, plane, "constrained state", "o", 6.0)
    draw_marks(axes, subject.active, plane, "state constrained at present", "*", 11.0)


def _caption(domain: Domain, plane: Plane) -> str:
    """Where the plane lies, and which regions it does not show."""
    missed = sum(not is_curve(one) and not plane.section(one) for one in domain.regions)
    fixed = plane.fixed(domain.observations)
    parts = [fixed] if fixed else []
    if missed:
        parts.append(f"{missed} of {len(domain.regions)} regions do not meet this plane")
    return "; ".join(parts)


def _shown_actions(subject: Subject, n_actions: int) -> list[int]:
    """All of them, but of two probabilities only one."""
    if n_actions > 2 or not subject.policy.quantity.adds_up:
        return list(range(n_actions))
    picture = subject.domain.picture
    return [1 if picture is None else picture.action]


def _path(subject: Subject) -> Array:
    """(n, n_observations): the states of the first episode that `evaluate` plays.

    None without a constraint file, which knows the environment, or if it could not be played: a
    picture of what was learned is wanted most when something went wrong.
    """
    rulebook = subject.domain.rulebook
    none = np.zeros((0, len(subject.domain.observations)))
    if rulebook is None:
        return none
    try:
        episode = first_episode(subject, rulebook)
    except EnvironmentFailure:
        return none
    states = np.concatenate([episode.states, episode.final_state[None]])
    return states.reshape(len(states), -1)
