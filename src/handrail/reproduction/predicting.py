"""Appendix A: the tangent kernel's prediction of each update against what the update does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import final

import numpy as np

from handrail.arrays import Array
from handrail.batches import Batch
from handrail.learning import Learner
from handrail.players import make_player
from handrail.reproduction.studies import Prediction
from handrail.rollout import Episode
from handrail.runs import make_policy
from handrail.storage import load_state, save_state
from handrail.tangent import predict_change
from handrail.threads import one_thread

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


def predict_all(study: Prediction, seed: int, folder: Path, say: Callable[[float], None]) -> None:
    """Learn without constraints, and predict each update."""
    book = study.rulebook(seed)
    env = book.make_environment()
    settings = book.settings.learner
    policy = make_policy(book, env)
    learner = Learner(make_player(env, settings.episodes_per_update), policy, None, settings)
    predicted, actual, scores = [], [], []
    seen: list[tuple[Array, Array, Array]] = []

    def look(_: Sequence[Episode], batch: Batch) -> None:
        states = np.asarray(batch.states)
        change = predict_change(policy, batch, states, settings.step_size)
        seen.append((states, policy.probabilities(states), change))

    with one_thread():
        for episode in range(study.episodes):
            records, _ = learner.turn(look)
            states, before, change = seen.pop()
            predicted.append(change.mean(axis=0))
            actual.append((policy.probabilities(states) - before).mean(axis=0))
            scores.append(records[0].score)
            say((episode + 1) / study.episodes)
    tensors = {
        "predicted": np.array(predicted),
        "actual": np.array(actual),
        "scores": np.array(scores),
    }
    save_state(folder / FILE, tensors, {})


def read_predicted(folder: Path) -> Predicted:
    """What `predict_all` measured."""
    tensors, _ = load_state(folder / FILE)
    return Predicted(tensors["predicted"], tensors["actual"], tensors["scores"])
