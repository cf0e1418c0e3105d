"""The policy over a plane of observations: with its constraints, and an episode that it plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from handrail._threads import one_thread
from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.learning import EVALUATION, Round, make_player
from handrail.policies import Quantity
from handrail.report.drawing import (
    HALF,
    PROBABILITIES,
    Limits,
    draw_frame,
    draw_legend,
    draw_marks,
    draw_output,
    draw_regions,
    draw_trajectory,
    is_curve,
    literal,
    new_figure,
    outputs_over,
)
from handrail.report.plane import Plane
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

    A panel per action; of two discrete ones, one is enough: the other is what is left to 1.

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
    episode = first_episode(subject)
    actions = _shown_actions(subject, len(outputs))
    columns = min(len(actions), _PANELS_IN_A_ROW)
    rows = -(-len(actions) // columns)
    figure = new_figure(1.2 + 3.9 * columns, 0.9 + 3.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    quantity = subject.policy.quantity
    for action, axes in zip(actions, panels, strict=False):
        limits, what, half = scale_of(domain, quantity, action, outputs[action])
        mesh = draw_output(axes, outputs[action], plane, limits)
        label_half(axes, outputs[action], limits, half)
        _draw_scene(axes, subject, episode, plane)
        draw_frame(axes, plane, domain.observations)
        axes.set_title(literal(f"{what} “{domain.action(action)}”"), fontsize=10)
        if quantity.is_continuous:  # every action has a range of its own
            figure.colorbar(mesh, ax=axes, extend="both")
    for axes in panels[len(actions) :]:
        axes.set_visible(False)
    if not quantity.is_continuous:
        figure.colorbar(mesh, ax=list(panels), label=quantity.noun)
    draw_legend(figure, panels[: len(actions)], _caption(domain, plane), 1 + columns)
    return figure


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


def scale_of(
    domain: Domain, quantity: Quantity, action: int, values: Array
) -> tuple[Limits, str, str]:
    """The limits of the colours, what they show, and what the line half way is.

    Args:
        domain: may know the range of a continuous action; else it is that of the values.
        quantity: that is shown.
        action: whose.
        values: that are shown.
    """
    if not quantity.is_continuous:
        return PROBABILITIES, "probability of", "probability 50 %"
    low, high = float(values.min()), float(values.max())
    if domain.ranges is not None:
        low, high = domain.ranges[action]
    return (low, high), "mean of", f"mean {0.5 * (low + high):g}"


def label_half(axes: Axes, values: Array, limits: Limits, half: str) -> None:
    """A line of the legend, where the line half way is drawn."""
    if values.min() < 0.5 * sum(limits) < values.max():
        axes.plot([], [], color=HALF, linestyle="--", label=half)


def _shown_actions(subject: Subject, n_actions: int) -> list[int]:
    """All of them, but of two discrete ones only one."""
    if n_actions > 2 or subject.policy.quantity.is_continuous:
        return list(range(n_actions))
    picture = subject.domain.picture
    return [1 if picture is None else picture.action]


def first_episode(subject: Subject) -> Array:
    """(n, n_observations): the states of the first episode that `evaluate` plays.

    None without a constraint file, which knows the environment, or if it could not be played.
    """
    rulebook = subject.domain.rulebook
    none = np.zeros((0, len(subject.domain.observations)))
    if rulebook is None:
        return none
    env = rulebook.make_environment()
    try:
        with one_thread():
            which = Round(subject.seed, EVALUATION, 0)
            episode = make_player(env, 1).play(subject.policy, which)[0]
    except EnvironmentFailure:
        # A picture of what was learned is wanted most when something went wrong.
        return none
    finally:
        env.close()
    states = np.concatenate([episode.states, episode.final_state[None]])
    return states.reshape(len(states), -1)
