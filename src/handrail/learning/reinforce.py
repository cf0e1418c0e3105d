"""REINFORCE under constraints: the paper's Algorithms 1 and 2, and the exact form."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from handrail._storage import check_format, load_state, save_state
from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Constraint, Everywhere, Selection, expand
from handrail.enforcement import Enforcement
from handrail.errors import InvalidArgument
from handrail.learning.checkpoint import make_environment, unpack_constraints, unpack_policy
from handrail.learning.episode import Episode
from handrail.learning.evaluation import Evaluation
from handrail.learning.learner import EVALUATION, Learner
from handrail.learning.player import AnyEnvironment, Round, make_player
from handrail.learning.progress import goal_of, progress_line
from handrail.learning.record import Record, Seconds
from handrail.policies import (
    Actions,
    CategoricalPolicy,
    GaussianPolicy,
    Policy,
    as_categorical,
    clipped,
)
from handrail.settings import (
    BaselineName,
    EnforcementMode,
    LearnerSettings,
    Objective,
    learner_settings,
)

_EVERYWHERE = Everywhere()


# Called after every episode; returning False ends the learning.
Callback = Callable[["Reinforce", Record, Seconds], bool | None]


@final
class Reinforce:
    """A policy that learns from episodes and obeys constraints meanwhile.

    With `enforcement="exact"` the policy is made to obey here, before its first step, and after
    every update, so no policy that violates a constraint ever acts. The policy is changed in place.

    Args:
        env: a Gymnasium id, an environment, or a vector environment, whose sub-environments play
            the episodes of an update side by side.
        policy: learns; by default a fresh network, one hidden layer of 5000, from the seed.
        constraints: to obey.
        step_size: α of one update. With several episodes an update, their gradients are averaged.
        discount: γ, what a reward is worth one step earlier.
        baseline: what returns are compared with; safe returns never are.
        baseline_window: how many recent episodes "time_average" and "value" look at.
        advantage_decay: λ of generalised advantages ("value" only).
        episodes_per_update: collected before each update.
        enforcement: "exact"; "one_step" for the paper's Algorithm 2; "none" only measures.
        selection: of constraints on regions: `Everywhere()` by default, `MaximumReturn` or
            `MaximumDeviation`.
        objective: what safe returns keep small: "returns" (the paper) or "parameters".
        soft: let contradicting constraints give way ("one_step" only).
        tolerance: the largest violation that "exact" leaves.
        freeze_after: stop updating after this many episodes.
        use_every: learn from every k-th step only.
        seed: of everything: the first weights, the environment, the policy's draws.

    Attributes:
        policy: the one that learns.
        settings: everything above, checked.
        first_enforcement: how the policy was made to obey before its first step, if it was here.
    """

    def __init__(
        self,
        env: str | AnyEnvironment,
        policy: Policy | None = None,
        constraints: Sequence[Constraint] = (),
        *,
        step_size: float = 1e-4,
        discount: float = 0.99,
        baseline: BaselineName = "value",
        baseline_window: int = 100,
        advantage_decay: float = 0.98,
        episodes_per_update: int = 1,
        enforcement: EnforcementMode = "exact",
        selection: Selection = _EVERYWHERE,
        objective: Objective = "returns",
        soft: bool = False,
        tolerance: float = 1e-6,
        freeze_after: int | None = None,
        use_every: int = 1,
        seed: int = 0,
    ) -> None:
        settings = learner_settings(
            step_size=step_size,
            discount=discount,
            baseline=baseline,
            baseline_window=baseline_window,
            advantage_decay=advantage_decay,
            episodes_per_update=episodes_per_update,
            enforcement=enforcement,
            selection=selection,
            objective=objective,
            soft=soft,
            tolerance=tolerance,
            freeze_after=freeze_after,
            use_every=use_every,
            seed=seed,
        )
        self._set_up(env, policy, constraints, settings)
        self._obey()

    @classmethod
    def with_settings(
        cls,
        env: str | AnyEnvironment,
        policy: Policy | None,
        constraints: Sequence[Constraint],
        settings: LearnerSettings,
    ) -> Reinforce:
        """The same from settings that were checked already, such as those of a constraint file."""
        self = cls.__new__(cls)
        self._set_up(env, policy, constraints, settings)
        self._obey()
        return self

    @classmethod
    def from_snapshot(
        cls,
        env: str | AnyEnvironment,
        policy: Policy,
        constraints: Sequence[Constraint],
        settings: LearnerSettings,
        tensors: dict[str, NDArray[Any]],
        state: dict[str, Any],
    ) -> Reinforce:
        """A learner at a snapshot of one of the same settings: it obeyed then, and does now."""
        self = cls.__new__(cls)
        self._set_up(env, policy, constraints, settings)
        self._learner.restore(tensors, state)
        return self

    def _set_up(
        self,
        env: str | AnyEnvironment,
        policy: Policy | None,
        constraints: Sequence[Constraint],
        settings: LearnerSettings,
    ) -> None:
        player = make_player(env, settings.episodes_per_update)
        if policy is None:
            continuous = isinstance(player.spaces[1], gym.spaces.Box)
            make = GaussianPolicy.mlp if continuous else CategoricalPolicy.mlp
            policy = make(player.spaces, seed=settings.seed)
        expansion = expand(constraints, policy) if constraints else None
        self.policy = policy
        self.settings = settings
        self._learner = Learner(player, policy, expansion, settings)
        self.first_enforcement: Enforcement | None = None

    def _obey(self) -> None:
        with one_thread():
            self.first_enforcement = self._learner.obey()

    def __repr__(self) -> str:
        expansion = self._learner.constraints
        parts = []
        if expansion is not None and expansion.fixed is not None:
            parts.append(f"{len(expansion.fixed)} constraint rows")
        if expansion is not None and expansion.regional:
            parts.append(f"{len(expansion.regional)} constrained regions")
        held = " and ".join(parts) or "no constraints"
        return f"Reinforce({self.policy}, {held}, {self.episodes} episodes learned from)"

    @property
    def episodes(self) -> int:
        """Learned from so far."""
        return self._learner.episodes

    @property
    def steps(self) -> int:
        """Environment steps learned from so far."""
        return self._learner.steps

    @property
    def stars(self) -> tuple[Array, ...]:
        """The states of regions that are constrained at present, an array per sub-region."""
        return () if self._learner.rules is None else self._learner.rules.stars

    def learn(
        self,
        episodes: int | None = None,
        timesteps: int | None = None,
        progress_bar: bool = True,
        callbacks: Sequence[Callback] = (),
    ) -> list[Record]:
        """Learn for so many more episodes, or for at least so many more environment steps.

        Args:
            episodes: how many; rounded up to whole updates.
            timesteps: how many, instead of episodes; the last episode is played to its end.
            progress_bar: score, worst violation and time left, on a terminal.
            callbacks: each is called as callback(agent, record, seconds) after every episode;
                returning False ends the learning after the update.

        Returns:
            One record per episode.
        """
        goal = goal_of(episodes, timesteps)
        if callable(callbacks):
            raise InvalidArgument("callbacks is a list of functions: callbacks=[your_function].")
        first_episode, first_step = self.episodes, self.steps
        records: list[Record] = []
        done, going = 0, True
        with one_thread(), progress_line(goal, progress_bar) as advance:
            while going and done < goal.amount:
                played, seconds = self._learner.turn()
                records += played
                done = goal.done(self.episodes - first_episode, self.steps - first_step)
                advance(played, done)
                # Every callback sees every episode, also when one of them asks to stop.
                answers = [call(self, record, seconds) for record in played for call in callbacks]
                going = False not in answers
        return records

    def probabilities(self, observation: ArrayLike) -> Array:
        """π(·|s): (n_actions,) for one observation, (n, n_actions) for a batch."""
        observations, single = self._as_batch(observation)
        result = as_categorical(self.policy, "probabilities").outputs(observations)
        return result[0] if single else result

    def predict(
        self,
        observation: ArrayLike,
        state: None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
    ) -> tuple[Actions, None]:
        """(action, None) of one observation, or (actions, None) of a batch.

        The signature is that of Stable-Baselines3, so its `evaluate_policy` takes a `Reinforce`;
        `state` and `episode_start` are for recurrent policies and are not used.
        """
        del state, episode_start
        observations, single = self._as_batch(observation)
        outputs = self.policy.outputs(observations)
        if deterministic:
            actions = self.policy.likeliest(outputs)
        else:
            actions = self.policy.draw(outputs, [self._learner.chance] * len(outputs))
        space = self._learner.player.spaces[1]
        if isinstance(space, gym.spaces.Box):
            actions = clipped(actions, space)
        return (actions[0] if single else actions), None

    def _as_batch(self, observation: ArrayLike) -> tuple[Array, bool]:
        observations = np.asarray(observation, dtype=np.float64)
        single = observations.ndim == len(self._learner.player.spaces[0].shape)
        return (observations[None] if single else observations), single

    def evaluate(self, episodes: int = 20, deterministic: bool = False) -> Evaluation:
        """Play without learning; always the same starts, which no learning episode has."""
        if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
            raise InvalidArgument(
                f"episodes must be a positive whole number, but got {episodes!r}."
            )
        player, rules = self._learner.player, self._learner.rules
        played: list[Episode] = []
        with one_thread():
            while len(played) < episodes:
                which = Round(self.settings.seed, EVALUATION, len(played), deterministic)
                played += player.play(self.policy, which)
        return Evaluation(
            scores=tuple(episode.score for episode in played[:episodes]),
            lengths=tuple(len(episode) for episode in played[:episodes]),
            violations=None if rules is None else rules.measure(self.policy),
            tolerance=self.settings.tolerance,
        )

    def save(self, path: str | Path) -> None:
        """Write everything to one file, atomically: the policy, the constraints, the progress."""
        save_state(Path(path), *self.snapshot())

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: str | AnyEnvironment | None = None,
        policy: Policy | None = None,
        constraints: Sequence[Constraint] | None = None,
    ) -> Reinforce:
        """Continue a saved learner exactly where it was.

        Args:
            path: of a file that `save` wrote.
            env: needed if the saved one was more than a Gymnasium id with options.
            policy: a network to load the weights into, needed if the saved one was your own.
            constraints: needed if a saved one holds on a curve that is a Python function.
        """
        tensors, state = load_state(Path(path))
        check_format(state, Path(path))
        settings = LearnerSettings(**state["settings"])
        env = make_environment(state["environment"]) if env is None else env
        spaces = make_player(env, settings.episodes_per_update).spaces
        policy = unpack_policy(spaces, state) if policy is None else policy
        if constraints is None:
            constraints = unpack_constraints(tensors, state)
        return cls.from_snapshot(env, policy, constraints, settings, tensors, state)

    def snapshot(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Tensors and a JSON state that `from_snapshot` continues from."""
        return self._learner.snapshot()
