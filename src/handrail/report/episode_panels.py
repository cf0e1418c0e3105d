"""An episode over time: named observations, what the policy did and was allowed, barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from handrail._threads import one_thread
from handrail._types import Array, Indices
from handrail.constraints import Bounded
from handrail.errors import InvalidArgument
from handrail.learning import EVALUATION, Episode, Round, make_player
from handrail.policies import STD, Actions, Quantity
from handrail.report.drawing import draw_legend, literal, new_figure
from handrail.report.subject import Domain, Shown, Subject
from handrail.rulebook import AnyConstraints, Rulebook

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_COLUMNS = 2
_DONE, _MEAN, _BOUND = "0.35", "C0", "C2"


@final
@dataclass(frozen=True)
class Allowed:
    """What the constraints leave of one action, at every step.

    Attributes:
        lower: (n,), -inf where no constraint speaks.
        upper: (n,), +inf where no constraint speaks.
    """

    lower: Array
    upper: Array

    @classmethod
    def of(cls, domain: Domain, states: Array, action: int, n_actions: int) -> Allowed:
        """By all constraints on this action alone, on regions that the states (n, …) are in."""
        lower, upper = np.full(len(states), -np.inf), np.full(len(states), np.inf)
        for one in domain.constraints:
            if isinstance(one, Bounded) and one.region is not None:
                inside = np.flatnonzero(one.region.contains(states))
                at, (least, most) = _ends(one, states, inside, action, n_actions)
                lower[at] = np.maximum(lower[at], least)
                upper[at] = np.minimum(upper[at], most)
        return cls(lower, upper)


def _ends(
    constraint: Bounded, states: Array, inside: Indices, action: int, n_actions: int
) -> tuple[Indices, Array]:
    """Where a constraint is about this action alone, and what it leaves of it there (2, n)."""
    asked = constraint.asked_at(states[inside], n_actions)
    weights = np.broadcast_to(asked.weights, (len(inside), n_actions))
    alone = (np.delete(weights, action, axis=1) == 0.0).all(axis=1) & (weights[:, action] != 0.0)
    bounds = [np.broadcast_to(one, len(inside))[alone] for one in (asked.lower, asked.upper)]
    ends = np.stack(bounds) / weights[alone, action]
    return inside[alone], np.sort(ends, axis=0)  # a negative weight turns them round


def episode_figure(shown: Shown, constraints: AnyConstraints | None = None) -> Figure:
    """The first episode that `evaluate` plays: a panel per observation, action and barrier.

    Args:
        shown: a run, a learner or a policy.
        constraints: what it must obey, with the environment and the names: a Rulebook, the path of
            a constraint file or a bundled one's name; by default those of the run.
    """
    subject = Subject.of(shown, constraints)
    rulebook = subject.domain.rulebook
    if rulebook is None:
        raise InvalidArgument(
            "An episode is played in an environment, which a constraint file knows: give its path, "
            "a bundled name or a Rulebook."
        )
    return draw_episode(subject, first_episode(subject, rulebook))


def first_episode(subject: Subject, rulebook: Rulebook) -> Episode:
    """The first one that `evaluate` plays."""
    env = rulebook.make_environment()
    try:
        with one_thread():
            which = Round(subject.seed, EVALUATION, 0)
            return make_player(env, 1).play(subject.policy, which)[0]
    finally:
        env.close()


def draw_episode(subject: Subject, episode: Episode) -> Figure:
    """An episode that was played."""
    domain = subject.domain
    states = episode.states.reshape(len(episode), -1)
    outputs = subject.policy.outputs(episode.states)
    barriers = {} if domain.rulebook is None else domain.rulebook.barriers
    n_panels = len(domain.observations) + outputs.shape[1] + len(barriers)
    rows = -(-n_panels // _COLUMNS)
    figure = new_figure(10.0, 0.8 + 1.6 * rows)
    panels = figure.subplots(rows, _COLUMNS, sharex=True, squeeze=False).T.ravel()
    left = iter(panels)
    named = states.T[: len(domain.observations)]  # those of images have no names, and no panels
    for name, values in zip(domain.observations, named, strict=True):
        _draw_line(next(left), values, name)
    for action in range(outputs.shape[1]):
        allowed = Allowed.of(domain, states, action, outputs.shape[1])
        kind, of_action = subject.policy.quantity.part(action)
        axes = next(left)
        if kind != STD:
            _draw_done(axes, subject.policy.quantity, episode.actions, action, outputs.shape[1])
        called = f"{kind.name} of “{domain.action(of_action)}”"
        _draw_line(axes, outputs[:, action], called, _MEAN)
        _draw_allowed(axes, allowed)
    for name, level in barriers.items():
        axes = next(left)
        axes.axhline(0.0, color=_BOUND, linestyle="--", label="a barrier's 0")
        _draw_line(axes, level.at(states), f"h of “{name}”")
    for axes in left:
        axes.set_visible(False)
    for axes in panels[rows - 1 :: rows]:
        axes.set_xlabel("step")
    draw_legend(figure, panels, f"one episode, score {episode.score:.4g}", columns=4)
    return figure


def _draw_line(axes: Axes, values: Array, title: str, colour: str = "0.1") -> None:
    axes.plot(np.arange(len(values)), values, color=colour, linewidth=1.2)
    axes.set_title(literal(title), fontsize=9, loc="left")
    axes.tick_params(labelbottom=True)


def _draw_allowed(axes: Axes, allowed: Allowed) -> None:
    """The bounds that are near to what is drawn already: others would make that a flat line."""
    low, high = axes.get_ylim()
    room = high - low
    steps = np.arange(len(allowed.lower))
    for bound in (allowed.lower, allowed.upper):
        near = (low - room <= bound) & (bound <= high + room)
        if near.any():
            axes.plot(
                steps,
                np.where(near, bound, np.nan),
                color=_BOUND,
                linestyle="--",
                linewidth=1.0,
                label="bound of a constraint",
            )


def _draw_done(
    axes: Axes, quantity: Quantity, actions: Actions, action: int, n_actions: int
) -> None:
    """What was done: of discrete actions the steps, of continuous ones the numbers."""
    if quantity.is_continuous:
        steps, values = np.arange(len(actions)), actions[:, action]
    else:
        steps = np.flatnonzero(quantity.of_actions(actions, n_actions)[:, action])
        values = np.zeros(len(steps))
    style = {"color": _DONE, "linestyle": "none", "marker": "." if quantity.is_continuous else "|"}
    axes.plot(steps, values, markersize=3, label="what was done", **style)  # type: ignore[arg-type]
