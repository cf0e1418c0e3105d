"""One training run of one arm, kept as a file when it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from time import perf_counter
from typing import Any, final

import gymnasium
import stable_baselines3
from stable_baselines3 import A2C, PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env

from benchmarks.ppo.comparison import PRESSURE, Arm, Comparison
from benchmarks.ppo.scores import Scores, Stopped
from handrail._package import VERSION
from handrail._storage import to_json, write_atomically
from handrail._threads import one_thread
from handrail.executors import FolderTask
from handrail.rulebook import load_rulebook
from handrail.sb3 import Handrail

_ALGORITHMS: dict[str, Any] = {"PPO": PPO, "A2C": A2C}


@final
@dataclass(frozen=True)
class Trained:
    """What one run did.

    Attributes:
        scores: one per episode, in the order in which they ended.
        ends: environment steps (of all environments together) at the end of each episode.
        seconds: of training.
        holding_seconds: of these, spent by the callback.
        worst_violation: of any policy that acted; None without a handrail.
        largest_correction: the worst violation that an update left, before it was corrected.
        iterations: linearisations, over all rollouts.
        holdings: how often the constraints were held.
    """

    scores: tuple[float, ...]
    ends: tuple[int, ...]
    seconds: float
    holding_seconds: float
    worst_violation: float | None
    largest_correction: float | None
    iterations: int
    holdings: int


@final
class _Progress(BaseCallback):
    """Reports the share of the steps that are done."""

    def __init__(self, report: Callable[[float], None], steps: int) -> None:
        super().__init__()
        self._report, self._steps = report, steps

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        self._report(self.num_timesteps / self._steps)


@final
@dataclass(frozen=True)
class ArmRun(FolderTask):
    """One arm of a comparison with one seed."""

    comparison: Comparison
    arm: Arm
    seed: int
    folder: Path

    @property
    def name(self) -> str:
        """As its file is called."""
        return f"{self.comparison.name}-{self.arm}-{self.seed}"

    @property
    def path(self) -> Path:
        """Where what was trained is written: other settings, rules or versions, another file."""
        return self.folder / f"{self.name}-{self._fingerprint()}.json"

    def _fingerprint(self) -> str:
        settings = {key: str(value) for key, value in self.comparison.settings.items()}
        known = {
            **asdict(self.comparison),
            "settings": settings,
            "arms": None,  # how many seeds there are is nothing to a single one
            "pressure": PRESSURE,
            "constraints": load_rulebook(self.comparison.rules).text,
            "versions": [VERSION, stable_baselines3.__version__, gymnasium.__version__],
        }
        return sha256(to_json(known).encode()).hexdigest()[:8]

    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        """Train and write; nothing is written if it was stopped."""
        try:
            with one_thread():
                trained = _train(self.comparison, self.arm, self.seed, report, stop)
        except Stopped:
            return
        write_atomically(self.path, to_json(asdict(trained)).encode())

    def moved(self, folder: Path) -> ArmRun:
        """The same with its file elsewhere."""
        return replace(self, folder=folder)

    def files(self) -> Iterable[Path]:
        """It begins from nothing, and its folder has those of all others."""
        return ()

    def read(self) -> Trained:
        """What was written."""
        values = json.loads(self.path.read_text())
        return Trained(
            **{
                **values,
                "scores": tuple(values["scores"]),
                "ends": tuple(values["ends"]),
            }
        )


def _train(
    comparison: Comparison,
    arm: Arm,
    seed: int,
    report: Callable[[float], None],
    stop: Callable[[], bool],
) -> Trained:
    env = make_vec_env(comparison.environment, n_envs=comparison.n_envs, seed=seed)
    model = _ALGORITHMS[comparison.algorithm](
        "MlpPolicy",
        env,
        learning_rate=lambda left: comparison.learning_rate * left,
        seed=seed,
        device="cpu",
        **comparison.settings,
    )
    scores = Scores(stop)
    callbacks: list[BaseCallback] = [scores, _Progress(report, comparison.steps)]
    handrail = None
    if arm != "plain":
        handrail = Handrail(comparison.rules, pressure=PRESSURE if arm == "pressure" else 0.0)
        callbacks.insert(0, handrail)
    start = perf_counter()
    model.learn(comparison.steps, callback=callbacks)
    seconds = perf_counter() - start
    history = [] if handrail is None else list(handrail.history)
    # The first correction is that of a fresh network; an update has not left anything yet.
    corrections = [one.violation_before for one in history[1:]]
    return Trained(
        scores=tuple(scores.scores),
        ends=tuple(scores.ends),
        seconds=seconds,
        holding_seconds=0.0 if handrail is None else handrail.seconds,
        worst_violation=None if handrail is None else handrail.worst_violation,
        largest_correction=max(corrections, default=None),
        iterations=sum(one.iterations for one in history),
        holdings=len(history),
    )
