"""Appendix A: the tangent kernel's prediction of each update against what the update does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from handrail._storage import load_state, save_state
from handrail._threads import one_thread
from handrail._types import Array
from handrail.learning import Round, make_player
from handrail.learning.baseline import make_baseline
from handrail.learning.episode import LEARNING
from handrail.learning.update import apply_update
from handrail.runs import make_policy
from handrail.tangent import Batch, predict_change
from paper.experiment import Prediction

FILE = "prediction.safetensors"


@final
@dataclass(frozen=True)
class Predicted:
    """Batch averages of the change of π, episode by episode.

    Attributes:
        predicted: (n_episodes, n_actions).
        actual: (n_episodes, n_actions).
        scores: (n_episodes,).
    """

    predicted: Array
    actual: Array
    scores: Array

    def relative_errors(self, channel: int) -> Array:
        """In per cent (n_episodes,), the paper's eq. (rel_error)."""
        predicted, actual = self.predicted[:, channel], self.actual[:, channel]
        result: Array = 100.0 * (predicted - actual) / actual
        return result


def measure_predictions(
    study: Prediction, seed: int, folder: Path, report: Callable[[float], None]
) -> None:
    """Learn without constraints, and predict each update."""
    book = study.rulebook(seed)
    env = book.make_environment()
    settings, policy = book.settings.learner, make_policy(book, env)
    player, baseline = make_player(env, 1), make_baseline(settings, len(book.observations))
    predicted, actual, scores = [], [], []
    with one_thread():
        for number in range(study.episodes):
            played = player.play(policy, Round(seed, LEARNING, number))
            returns = baseline.advantages(played, settings.discount)[0]
            scale = 1.0 / len(returns) if study.averaged else 1.0
            batch = Batch(played[0].states, played[0].actions, scale * returns)
            before = policy.outputs(batch.states)
            change = predict_change(policy, batch, batch.states, settings.step_size)
            apply_update(policy, None, batch, settings)
            predicted.append(change.mean(axis=0))
            actual.append((policy.outputs(batch.states) - before).mean(axis=0))
            scores.append(played[0].score)
            report((number + 1) / study.episodes)
    tensors = {
        "predicted": np.array(predicted),
        "actual": np.array(actual),
        "scores": np.array(scores),
    }
    save_state(folder / FILE, tensors, {})


def read_predicted(folder: Path) -> Predicted:
    """What `measure_predictions` measured."""
    tensors, _ = load_state(folder / FILE)
    return Predicted(tensors["predicted"], tensors["actual"], tensors["scores"])
