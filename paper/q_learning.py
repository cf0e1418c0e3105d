"""One seed of a study of double deep Q-learning.

Stable-Baselines3 is optional and slow to import, so nothing here needs it before `learn_q`.
"""

from __future__ import annotations

import copy
import difflib
import inspect
import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium as gym

from handrail._storage import to_json, write_atomically
from handrail._threads import one_thread
from handrail.errors import HandrailError, InvalidArgument
from handrail.learning import Start
from handrail.runs.metrics import METRICS
from paper.experiment import Playground, QLearning

if TYPE_CHECKING:
    from paper.q_checkpoint import DoubleDQN

EVALUATION = "evaluation.json"
_EVALUATING = 1  # the stream of starts that no learning episode has
_OURS = {"self", "policy", "env", "seed", "device", "verbose", "tensorboard_log"}
# A checkpoint holds the plain replay buffer.
_UNSUPPORTED = {"replay_buffer_class", "optimize_memory_usage", "_init_setup_model"}


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
    if find_spec("stable_baselines3") is None:
        raise HandrailError(
            "Double Q-learning needs Stable-Baselines3: pip install 'handrail[sb3]'"
        )
    if (folder / EVALUATION).exists():
        return True
    with one_thread():
        return _learn(study, seed, folder, report, stop, checkpoint_seconds)


def steps_learned(folder: Path) -> int:
    """Environment steps that the metrics know of; what came after a checkpoint is taken again."""
    episodes = read_metrics(folder)
    return int(episodes[-1]["steps"]) if episodes else 0


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """What was recorded of every episode; a line that was being written is left out."""
    path = folder / METRICS
    content = path.read_bytes() if path.exists() else b""
    return [json.loads(line) for line in content.split(b"\n")[:-1]]


def _learn(
    study: QLearning,
    seed: int,
    folder: Path,
    report: Callable[[float], None],
    stop: Callable[[], bool],
    checkpoint_seconds: float,
) -> bool:
    from paper.q_checkpoint import LearningLog, NumberedEpisodes  # noqa: PLC0415

    episodes = NumberedEpisodes(_make(study.environment), seed)
    try:
        model = _make_model(study.settings, episodes, seed)
        log = LearningLog(
            folder, episodes, _identity(study, seed), report, stop, checkpoint_seconds
        )
        log.restore(model)
        try:
            # Told only what is left, Stable-Baselines3 adds what is done: the schedules of
            # exploration and learning rate span the whole study, however often it is resumed.
            left = study.timesteps - model.num_timesteps
            model.learn(left, callback=log, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
            if not log.stopped:
                log.save(model)
        finally:
            log.close()
    finally:
        episodes.close()
    if log.stopped:
        return False
    report(1.0)
    return _evaluate(model, study, seed, folder, stop)


def _make(environment: Playground) -> gym.Env[Any, Any]:
    try:
        return gym.make(environment.id, max_episode_steps=environment.max_episode_steps)
    except (gym.error.Error, TypeError, ValueError, ImportError) as error:
        raise InvalidArgument(
            f"Gymnasium cannot make {environment.id!r}. Its own words: {error}"
        ) from error


def _make_model(settings: dict[str, Any], env: gym.Env[Any, Any], seed: int) -> DoubleDQN:
    from stable_baselines3.common.logger import Logger  # noqa: PLC0415

    from paper.q_checkpoint import DoubleDQN  # noqa: PLC0415

    _refuse_unknown(settings)
    arguments = copy.deepcopy(settings)  # Stable-Baselines3 keeps and changes dictionaries
    if isinstance(arguments.get("train_freq"), list):  # [1, episode]: YAML knows no tuples
        arguments["train_freq"] = tuple(arguments["train_freq"])
    try:
        model = DoubleDQN("MlpPolicy", env, seed=seed, device="cpu", **arguments)
    except (TypeError, ValueError, AssertionError) as error:
        raise InvalidArgument(
            f"Stable-Baselines3's DQN refuses the settings. Its own words: {error}"
        ) from error
    model.set_logger(Logger(folder=None, output_formats=[]))  # the usual one makes a folder in /tmp
    return model


def _refuse_unknown(settings: dict[str, Any]) -> None:
    from stable_baselines3 import DQN  # noqa: PLC0415

    known = set(inspect.signature(DQN.__init__).parameters) - _OURS - _UNSUPPORTED
    for name in settings:
        if name in _OURS:
            raise InvalidArgument(f"The setting {name!r} is not free: the study itself gives it.")
        if name in _UNSUPPORTED:
            raise InvalidArgument(f"The setting {name!r} is not supported: leave it out.")
        if name not in known:
            close = difflib.get_close_matches(name, sorted(known), n=3)
            meant = f" Close to it: {', '.join(close)}." if close else ""
            raise InvalidArgument(f"Stable-Baselines3's DQN has no setting {name!r}.{meant}")


def _identity(study: QLearning, seed: int) -> dict[str, Any]:
    """What a checkpoint must agree with; the rest may change without touching what was learned."""
    learned = study.model_dump(mode="json", include={"environment", "timesteps", "settings"})
    return {**learned, "seed": seed}


def _evaluate(
    model: DoubleDQN, study: QLearning, seed: int, folder: Path, stop: Callable[[], bool]
) -> bool:
    """Greedy episodes; False if told to stop, then all of them are played again on resume."""
    scores, lengths = [], []
    with _make(study.environment) as env:
        for i in range(study.evaluation):
            if stop():
                return False
            score, length = _play(model, env, Start.of(seed, i, stream=_EVALUATING).environment)
            scores.append(score)
            lengths.append(length)
    content = to_json({"scores": scores, "lengths": lengths}).encode()
    write_atomically(folder / EVALUATION, content)
    return True


def _play(model: DoubleDQN, env: gym.Env[Any, Any], start: int) -> tuple[float, int]:
    """One greedy episode: its score and length."""
    state, _ = env.reset(seed=start)
    score, length, over = 0.0, 0, False
    while not over:
        action, _ = model.predict(state, deterministic=True)
        state, reward, terminated, truncated, _ = env.step(int(action))
        score += float(reward)
        length += 1
        over = terminated or truncated
    return score, length
