"""Appendix A: the tangent kernel's prediction of each update against what the update does.

The paper compares averages over the batch, which can be taken in more than one way, and it does not
say which of them its number is. All are measured on the same updates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from handrail._storage import load_state, save_state
from handrail._threads import one_thread
from handrail._types import Array, Indices
from handrail.learning import Round, make_player
from handrail.learning.baseline import make_baseline
from handrail.learning.episode import LEARNING
from handrail.learning.update import apply_update
from handrail.runs import make_policy
from handrail.tangent import Batch, predict_change
from paper.experiment import Prediction

FILE = "prediction.safetensors"
_FIRST_CHANNEL = 0


@final
@dataclass(frozen=True)
class Change:
    """Of the policy in one update.

    Attributes:
        actions: (n_steps,) that the batch took.
        predicted: (n_steps + 1, n_actions) at the states of the batch, and at their mean.
        actual: the same of what the update did.
    """

    actions: Indices
    predicted: Array
    actual: Array


def _first_channel(change: Change) -> float:
    """Batch average of the first output, eq. (batch_change): what the paper's figure is of."""
    of = np.s_[:-1, _FIRST_CHANNEL]
    return relative_error(change.predicted[of].mean(), change.actual[of].mean())


def _action_taken(change: Change) -> float:
    """Batch average of π(a(k) | s(k)), as the paper's q̄ is written."""
    of = np.arange(len(change.actions)), change.actions
    return relative_error(change.predicted[of].mean(), change.actual[of].mean())


def _mean_state(change: Change) -> float:
    """The first output at the mean of the batch's states, as the remark on eq. (batch_change)."""
    return relative_error(change.predicted[-1, _FIRST_CHANNEL], change.actual[-1, _FIRST_CHANNEL])


def _sum_of_sizes(change: Change) -> float:
    """Sizes of the errors over sizes of the changes: nothing cancels between steps."""
    errors = np.abs(change.predicted[:-1] - change.actual[:-1]).sum()
    size = np.abs(change.actual[:-1]).sum()
    return relative_error(size + errors, size)


DEFINITIONS: Mapping[str, Callable[[Change], float]] = {
    "average of the first output": _first_channel,
    "average of the action taken": _action_taken,
    "first output at the mean state": _mean_state,
    "sum of sizes over the batch": _sum_of_sizes,
}


def relative_error(predicted: float, actual: float) -> float:
    """In per cent, the paper's eq. (rel_error); NaN where nothing changed."""
    return float(100.0 * (predicted - actual) / actual) if actual != 0.0 else float("nan")


@final
@dataclass(frozen=True)
class Predicted:
    """One seed, episode by episode.

    Attributes:
        errors: (n_episodes,) in per cent, by definition.
        scores: (n_episodes,).
    """

    errors: Mapping[str, Array]
    scores: Array


def measure_predictions(
    study: Prediction, seed: int, folder: Path, report: Callable[[float], None]
) -> None:
    """Learn without constraints, and predict each update."""
    book = study.rulebook(seed)
    env = book.make_environment()
    settings, policy = book.settings.learner, make_policy(book, env)
    player, baseline = make_player(env, 1), make_baseline(settings, len(book.observations))
    errors: dict[str, list[float]] = {name: [] for name in DEFINITIONS}
    scores = []
    with one_thread():
        for number in range(study.episodes):
            played = player.play(policy, Round(seed, LEARNING, number))
            returns = baseline.advantages(played, settings.discount)[0]
            scale = 1.0 / len(returns) if study.averaged else 1.0
            visited, actions = played[0].states, played[0].actions
            batch = Batch(visited, actions, scale * returns)
            states = np.vstack([visited, visited.mean(axis=0)])
            before = policy.outputs(states)
            predicted = predict_change(policy, batch, states, settings.step_size)
            apply_update(policy, None, batch, settings)
            change = Change(np.asarray(actions), predicted, policy.outputs(states) - before)
            for name, error in DEFINITIONS.items():
                errors[name].append(error(change))
            scores.append(played[0].score)
            report((number + 1) / study.episodes)
    tensors = {name: np.array(values) for name, values in errors.items()}
    save_state(folder / FILE, {**tensors, "scores": np.array(scores)}, {})


def read_predicted(folder: Path) -> Predicted:
    """What `measure_predictions` measured."""
    tensors, _ = load_state(folder / FILE)
    return Predicted({name: tensors[name] for name in DEFINITIONS}, tensors["scores"])
