"""The policy over a plane of observations: with its constraints, and an episode that it plays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from handrail._threads import one_thread
from handrail._types import Array
from handrail.errors import EnvironmentFailure
from handrail.learning import EVALUATION, Learner, Round, make_player
from handrail.regions import Region
from handrail.report.drawing import (
    HALF,
    PROBABILITIES,
    Limits,
    draw_legend,
    draw_policy,
    draw_regions,
    draw_states,
    draw_trajectory,
    is_curve,
    new_figure,
)
from handrail.report.plane import Slice, constrained_points, constrained_regions
from handrail.rulebook import Rulebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


_PANELS_IN_A_ROW = 3


@final
@dataclass(frozen=True)
class Scene:
    """What is drawn on top of the policy.

    Attributes:
        points: (n, n_observations), constrained one by one.
        regions: constrained as a whole.
        stars: (n, n_observations), the states of regions that are constrained at present.
        trajectory: (n, n_observations), the states of an episode; none if it could not be played.
    """

    points: Array
    regions: Sequence[Region]
    stars: Array
    trajectory: Array

    @classmethod
    def of(cls, rulebook: Rulebook, agent: Learner) -> Scene:
        """All of it, for the agent as it is."""
        none = np.zeros((0, len(rulebook.observations)))
        return cls(
            points=constrained_points(rulebook),
            regions=constrained_regions(rulebook),
            stars=np.concatenate([none, *agent.active_states]),
            trajectory=first_episode(rulebook, agent),
        )


def policy_figure(rulebook: Rulebook, agent: Learner, plane: Slice) -> Figure:
    """A panel per action (of two, one is enough: the other is what is left to 1)."""
    scene = Scene.of(rulebook, agent)
    actions = _shown_actions(rulebook)
    columns = min(len(actions), _PANELS_IN_A_ROW)
    rows = -(-len(actions) // columns)
    figure = new_figure(1.2 + 3.9 * columns, 0.9 + 3.7 * rows)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for action, axes in zip(actions, panels, strict=False):
        limits, what, half = scale_of(rulebook, action)
        mesh = draw_policy(axes, agent.policy, plane, action, limits)
        values = mesh.get_array()
        if values is not None and values.min() < 0.5 * sum(limits) < values.max():
            axes.plot([], [], color=HALF, linestyle="--", label=half)
        _draw_scene(axes, scene, plane)
        axes.set_xlim(*plane.horizontal_range)
        axes.set_ylim(*plane.vertical_range)
        axes.set_title(f"{what} “{rulebook.actions[action]}”", fontsize=10)
        axes.set_xlabel(rulebook.observations[plane.horizontal])
        axes.set_ylabel(rulebook.observations[plane.vertical])
        if rulebook.quantity.is_continuous:  # every action has a range of its own
            figure.colorbar(mesh, ax=axes, extend="both")
    for axes in panels[len(actions) :]:
        axes.set_visible(False)
    if not rulebook.quantity.is_continuous:
        figure.colorbar(mesh, ax=list(panels), label=rulebook.quantity.noun)
    draw_legend(figure, panels[: len(actions)], _caption(rulebook, scene, plane), 1 + columns)
    return figure


def _draw_scene(axes: Axes, scene: Scene, plane: Slice) -> None:
    """Areas first, then lines, then marks: nothing hides what is smaller."""
    draw_regions(axes, scene.regions, plane)
    if len(scene.trajectory):
        draw_trajectory(axes, scene.trajectory, plane)
    draw_marks(axes, scene.points, plane, "constrained state", "o", 6.0)
    draw_marks(axes, scene.stars, plane, "state constrained at present", "*", 11.0)


def draw_marks(
    axes: Axes, states: Array, plane: Slice, what: str, marker: str, size: float
) -> None:
    """States in the plane white, those of other planes smaller and grey; none without a mark."""
    states = states[plane.shows(states)]
    here = plane.contains(states)
    # On the frame of the picture a mark is drawn whole.
    common: dict[str, object] = {"marker": marker, "clip_on": False}
    if here.any():
        style = {"markersize": size, "markerfacecolor": "white", "markeredgewidth": 0.8}
        draw_states(axes, states[here], plane, label=what, zorder=4, **style, **common)
    if (~here).any():
        style = {"markersize": 0.6 * size, "markerfacecolor": "0.65", "markeredgewidth": 0.5}
        label = f"{what}, other plane"
        draw_states(axes, states[~here], plane, label=label, zorder=3, **style, **common)


def _caption(rulebook: Rulebook, scene: Scene, plane: Slice) -> str:
    """Where the plane lies, and which regions it does not show."""
    missed = sum(not is_curve(one) and not plane.section(one) for one in scene.regions)
    fixed = plane.fixed(rulebook.observations)
    parts = [fixed] if fixed else []
    if missed:
        parts.append(f"{missed} of {len(scene.regions)} regions do not meet this plane")
    return "; ".join(parts)


def scale_of(rulebook: Rulebook, action: int) -> tuple[Limits, str, str]:
    """The limits of the colours, what they show, and what the line half way is."""
    if rulebook.ranges is None:
        return PROBABILITIES, "probability of", "probability 50 %"
    low, high = rulebook.ranges[action]
    return (low, high), "mean of", f"mean {0.5 * (low + high):g}"


def _shown_actions(rulebook: Rulebook) -> list[int]:
    """All of them, but of two discrete ones only one."""
    if len(rulebook.actions) > 2 or rulebook.quantity.is_continuous:
        return list(range(len(rulebook.actions)))
    return [rulebook.picture.action if rulebook.picture is not None else 1]


def first_episode(rulebook: Rulebook, agent: Learner) -> Array:
    """(n, n_observations): the states of the first episode that `evaluate` plays."""
    env = rulebook.make_environment()
    try:
        with one_thread():
            which = Round(agent.settings.seed, EVALUATION, 0)
            episode = make_player(env, 1).play(agent.policy, which)[0]
    except EnvironmentFailure:
        # A picture of what was learned is wanted most when something went wrong.
        return np.zeros((0, len(rulebook.observations)))
    finally:
        env.close()
    states = np.concatenate([episode.states, episode.final_state[None]])
    return states.reshape(len(states), -1)
