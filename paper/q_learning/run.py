"""One seed of a study of double deep Q-learning, from its first step to its evaluation."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any, final

import gymnasium as gym
import numpy as np

from handrail._storage import to_json, write_atomically
from handrail._threads import one_thread
from handrail.errors import InvalidArgument
from handrail.learning import Start
from handrail.runs.metrics import METRICS
from paper.experiment import Playground, QLearning
from paper.q_learning.checkpoint import Episodes, Journal
from paper.q_learning.learner import Learner

EVALUATION = "evaluation.json"
_EVALUATING = 1  # the stream of starts that no learning episode has
_ASK_SECONDS = 0.5  # how long an order to stop may go unheard within an episode


def learn_q(
    study: QLearning,
    seed: int,
    folder: Path,
    report: Callable[[float], None],
    stop: Callable[[], bool],
    checkpoint_seconds: float = 30.0,
) -> bool:
    """Learn one seed in a folder, from its checkpoint if it has one, then evaluate.

    Args:
        study: what to learn.
        seed: of everything.
        folder: where metrics, the checkpoint and the evaluation are; must exist.
        report: told the fraction of steps that are done.
        stop: asked after every episode and about twice a second; True ends the learning early, to
            be resumed by calling this again.
        checkpoint_seconds: how much work a kill may cost; it is done again on resume.

    Returns:
        Whether it is finished.
    """
    if (folder / EVALUATION).exists():
        return True
    with one_thread(), closing(make(study.environment)) as env:
        learner = make_learner(study, env, seed)
        journal = Journal(folder, _identity(study, seed))
        with closing(journal):
            episodes = Episodes(env, seed)
            journal.open(learner, episodes)
            ear = _Ear(learner, report, stop)
            if not _learn(study, learner, episodes, journal, ear, checkpoint_seconds):
                return False
        report(1.0)
        return _evaluate(learner, env, study, seed, folder, stop)


def steps_learned(folder: Path) -> int:
    """Environment steps that the metrics know of; what came after a checkpoint is taken again."""
    episodes = read_metrics(folder)
    return int(episodes[-1]["steps"]) if episodes else 0


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """What was recorded of every episode; a line that was being written is left out."""
    path = folder / METRICS
    content = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def make(environment: Playground) -> gym.Env[Any, Any]:
    """The environment; refused if there is none, or its spaces are of other kinds."""
    try:
        env = gym.make(
            environment.id,
            max_episode_steps=environment.max_episode_steps,
            disable_env_checker=True,
        )
    except (gym.error.Error, TypeError, ValueError, ImportError) as error:
        raise InvalidArgument(
            f"Gymnasium cannot make {environment.id!r}. Its own words: {error}"
        ) from error
    shape = env.observation_space.shape
    if not isinstance(env.action_space, gym.spaces.Discrete) or shape is None or len(shape) != 1:
        raise InvalidArgument(
            f"{environment.id!r} has observations {env.observation_space} and actions "
            f"{env.action_space}. Q-learning needs vectors of numbers, and a choice among actions."
        )
    return env


def make_learner(study: QLearning, env: gym.Env[Any, Any], seed: int) -> Learner:
    """A fresh one for that environment."""
    shape = env.observation_space.shape
    assert shape is not None
    assert isinstance(env.action_space, gym.spaces.Discrete)
    return Learner(study.settings, shape[0], int(env.action_space.n), study.timesteps, seed)


def greedy_episode(learner: Learner, env: gym.Env[Any, Any], start: int) -> tuple[float, int]:
    """Without exploration: its score and length."""
    state, _ = env.reset(seed=start)
    score, length, over = 0.0, 0, False
    while not over:
        state, reward, terminated, truncated, _ = env.step(
            learner.best(np.asarray(state, np.float32))
        )
        score += float(reward)
        length += 1
        over = terminated or truncated
    return score, length


def evaluation_start(seed: int, number: int) -> int:
    """Of a greedy episode: one that no learning episode has."""
    return Start.of(seed, number, stream=_EVALUATING).environment


@final
class _Ear:
    """Hears whether to stop, and says how far it is: after every episode, and within long ones."""

    def __init__(
        self, learner: Learner, report: Callable[[float], None], stop: Callable[[], bool]
    ) -> None:
        self._learner, self._report, self._stop = learner, report, stop
        self._asked_at, self._asked_in = monotonic(), 0

    def told_to_stop(self, episode: int) -> bool:
        now = monotonic()
        if episode == self._asked_in and now - self._asked_at < _ASK_SECONDS:
            return False
        self._asked_at, self._asked_in = now, episode
        self._report(self._learner.progress)
        return self._stop()


def _learn(
    study: QLearning,
    learner: Learner,
    episodes: Episodes,
    journal: Journal,
    ear: _Ear,
    checkpoint_seconds: float,
) -> bool:
    """To the last step, or until told to stop; a checkpoint knows all of it."""
    saved_at = monotonic()
    while learner.steps < study.timesteps:
        stopped = ear.told_to_stop(episodes.number)
        if stopped or monotonic() - saved_at >= checkpoint_seconds:
            journal.save(learner, episodes)
            saved_at = monotonic()
        if stopped:
            return False
        number = episodes.number
        taken, played = episodes.step(learner.act(episodes.state))
        loss = learner.observe(taken)
        if loss is not None:
            journal.count(loss, learner.steps)
        if played is not None:
            journal.write(number, played, learner.steps)
    journal.save(learner, episodes)
    return True


def _identity(study: QLearning, seed: int) -> dict[str, Any]:
    """What a checkpoint must agree with; the rest may change without touching what was learned."""
    learned = study.model_dump(mode="json", include={"environment", "timesteps", "settings"})
    return {**learned, "seed": seed}


def _evaluate(
    learner: Learner,
    env: gym.Env[Any, Any],
    study: QLearning,
    seed: int,
    folder: Path,
    stop: Callable[[], bool],
) -> bool:
    """Greedy episodes; False if told to stop, then all of them are played again on resume."""
    scores, lengths = [], []
    for number in range(study.evaluation):
        if stop():
            return False
        score, length = greedy_episode(learner, env, evaluation_start(seed, number))
        scores.append(score)
        lengths.append(length)
    content = to_json({"scores": scores, "lengths": lengths}).encode()
    write_atomically(folder / EVALUATION, content)
    return True
