"""Appendix B: what the states of a region are chosen by in every episode, and the policy.

The values that are kept are those that the update itself compares: see
`handrail.enforcement.candidates`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from handrail._storage import load_state, save_state
from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import expand
from handrail.enforcement.candidates import Candidates
from handrail.errors import InvalidArgument
from handrail.learning import Episode, Reinforce
from handrail.report import Plane
from handrail.report.drawing import output_over
from handrail.runs import make_policy
from handrail.settings import Everywhere
from handrail.tangent import Batch, policy_gradient
from paper.experiment import StateChoice

FILE = "state_choice.safetensors"
_FIRST = 0  # the region whose values are kept


@final
@dataclass(frozen=True)
class Map:
    """The policy over the picture's plane when an episode begins, and what belongs to the episode.

    Attributes:
        episode: its number.
        probability: (n, n) of the picture's action over the plane.
        stars: (n_regions, n_observations), the states that its update constrains.
        trajectory: (n_steps, n_observations).
    """

    episode: int
    probability: Array
    stars: Array
    trajectory: Array


@final
@dataclass(frozen=True)
class Choices:
    """What one seed's states were chosen by.

    Attributes:
        scores: (n_episodes, n_points) of the first region: required returns, or deviations.
        chosen: (n_episodes,) index of the chosen point.
        worst: (n_episodes,) worst violation at all points of all regions when the episode begins.
        maps: of a few episodes.
    """

    scores: Array
    chosen: Array
    worst: Array
    maps: tuple[Map, ...]


def measure_choices(
    study: StateChoice, seed: int, folder: Path, report: Callable[[float], None]
) -> None:
    """Learn, and keep what every update compares."""
    book = study.rulebook(seed)
    env = book.make_environment()
    settings, policy = book.settings.learner, make_policy(book, env)
    selection = settings.selection
    if isinstance(selection, Everywhere):
        raise InvalidArgument("A study of state choice needs maximum_return or maximum_deviation.")
    expansion = expand(book.constraints, policy)
    candidates = Candidates(expansion, selection)
    learner = Reinforce.with_settings(env, policy, book.constraints, settings)
    plane = Plane.of(book)
    assert book.picture is not None  # bundled files have one
    tensors: dict[str, Array] = {}
    scores, worst, paths = [], [], []

    def note(episodes: Sequence[Episode], batch: Batch) -> None:
        gradient = policy_gradient(policy, batch)
        scores.append(candidates.scores(policy, gradient, settings.step_size)[_FIRST])
        worst.append(max(float(one.max()) for one in candidates.violations(policy)))
        paths.append(np.asarray(episodes[0].states))

    with one_thread():
        for episode in range(study.episodes):
            before = output_over(policy, plane, book.picture.action)
            learner.turn(note)
            if episode in study.maps:
                tensors[f"probability.{episode}"] = before
                tensors[f"stars.{episode}"] = np.concatenate(learner.active_states)
                tensors[f"trajectory.{episode}"] = paths[-1]
            report((episode + 1) / study.episodes)
    tensors["scores"], tensors["worst"] = np.array(scores), np.array(worst)
    save_state(folder / FILE, tensors, {"maps": [one for one in study.maps if one < len(scores)]})


def read_choices(folder: Path) -> Choices:
    """What `measure_choices` kept."""
    tensors, state = load_state(folder / FILE)
    maps = tuple(
        Map(
            episode,
            tensors[f"probability.{episode}"],
            tensors[f"stars.{episode}"],
            tensors[f"trajectory.{episode}"],
        )
        for episode in state["maps"]
    )
    scores = tensors["scores"]
    return Choices(scores, scores.argmax(axis=1), tensors["worst"], maps)
