"""One training: a learner, a setting, what it is told and in which way."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from time import process_time
from typing import Any, Literal, final

import gymnasium as gym
import numpy as np
import torch
from sb3_contrib import MaskablePPO
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv, VecNormalize

from benchmarks.influence.demonstrations import Demonstrations, Pull, imitate
from benchmarks.influence.lagrangian import Lagrangian
from benchmarks.influence.places import Places
from benchmarks.influence.setting import Setting
from benchmarks.influence.shaped_reward import shaping_of
from benchmarks.influence.supervision import Supervised
from benchmarks.influence.witness import Witness
from benchmarks.ppo.scores import Scores, Stopped
from handrail import CategoricalPolicy, Constraint, Policy, Reinforce, edit, measure
from handrail._types import Array, Mask
from handrail.constraints import measure_fresh
from handrail.enforcement import Enforcement
from handrail.errors import HandrailError
from handrail.learning import Record
from handrail.sb3 import Handrail, policy_of
from handrail.settings import ADVICE, ADVICE_AT_FIRST, Reach

Arm = Literal[
    "plain",
    "rail",
    "reach_10",
    "advice",
    "cloning",
    "cloning_and_pull",
    "penalty",
    "mask",
    "mask_and_edit",
    "lagrangian",
]
MASKED: tuple[Arm, ...] = ("mask", "mask_and_edit")
HELD: dict[Arm, Reach] = {"rail": "auto", "reach_10": ADVICE, "advice": ADVICE_AT_FIRST}

# Of the pull of demonstrations, of a forbidden action, of dual ascent.
_PULL, _PRICE, _ASCENT = 1.0, 1.0, 0.5
_LIMIT = 0.05  # of forbidden actions in constrained places
STRENGTHS: dict[Arm, tuple[float, ...]] = {  # of the ways that have any
    "cloning_and_pull": (_PULL,),
    "penalty": (_PRICE,),
    "lagrangian": (_LIMIT, _ASCENT),
}
_FRESH = 20_000
_EVALUATION, _EPISODES = 1_000, 40  # the seed and the episodes of a last policy by itself


@final
@dataclass(frozen=True)
class Training:
    """What one training did.

    Attributes:
        scores: one per episode, in the order in which they ended.
        ends: environment steps at the end of each episode.
        seconds: of one core, for training and what it needed before.
        worst_violation: of any policy that acted; None where nothing is held.
        final_violation: of the last policy by itself; None where nothing is known.
        final_score: of the last policy by itself, where it is another than the one that learned.
        steps_in_places: steps at states of constrained regions, of PPO.
        steps_broken: of these, those whose acting policy broke a bound there.
        first_influence: of the first holding, before any experience: the mean change of a
            probability elsewhere; None where nothing is held.
        influence: of a later holding, on average.
        first_visited: the first holding's at states of the first rollout that are no references.
        visited: a later one's at such states of the rollout before it, on average.
        failure: in words, of a rail that could not hold, which ends the training, or of an edit.
    """

    scores: tuple[float, ...]
    ends: tuple[int, ...]
    seconds: float
    worst_violation: float | None
    final_violation: float | None
    steps_in_places: int = 0
    steps_broken: int = 0
    first_influence: float | None = None
    influence: float | None = None
    first_visited: float | None = None
    visited: float | None = None
    final_score: float | None = None
    failure: str | None = None


def train(
    setting: Setting,
    constraints: Sequence[Constraint],
    arm: Arm,
    seed: int,
    stop: Callable[[], bool],
) -> Training:
    """Train to the end of the budget; `Stopped` if asked to."""
    chosen = _train_reinforce if setting.learner == "reinforce" else _train_ppo
    return chosen(setting, constraints, arm, seed, stop)


def worst_of(policy: Policy, constraints: Sequence[Constraint]) -> float | None:
    """The largest violation, of regions at many random states; None where nothing is known."""
    if not constraints:
        return None
    fresh = measure_fresh(policy, constraints, _FRESH, seed=0).worst_violation
    return max(measure(policy, constraints).worst_violation, fresh)


def _mean(changes: Sequence[float | None]) -> float | None:
    """Of those that are known."""
    known = [one for one in changes if one is not None]
    return float(np.mean(known)) if known else None


# Reinforce


def _fresh_policy(setting: Setting, env: gym.Env[Any, Any], seed: int) -> CategoricalPolicy:
    """With first weights that expect observations of these sizes.

    Observations themselves stay as they are: a layer that scales them would be another network.
    """
    policy = CategoricalPolicy.mlp(env, setting.hidden, seed=seed)
    if setting.scale is not None:
        with torch.no_grad():
            policy.parameters[0].div_(torch.tensor(setting.scale, dtype=policy.dtype))
    return policy


def _train_reinforce(
    setting: Setting,
    constraints: Sequence[Constraint],
    arm: Arm,
    seed: int,
    stop: Callable[[], bool],
) -> Training:
    env = gym.make(setting.id)
    policy = _fresh_policy(setting, env, seed)
    held = constraints if arm in HELD else ()
    records: list[Record] = []
    first: Enforcement | None = None
    failure = None

    def note(_: Any, record: Record, __: Any) -> None:
        if stop():
            raise Stopped
        records.append(record)

    start = process_time()
    try:
        learner = Reinforce(
            env, policy, held, seed=seed, reach=HELD.get(arm, "auto"), **setting.options
        )
        first = learner.first_enforcement
        learner.learn(setting.budget, progress_bar=False, callbacks=[note])
    except HandrailError as error:
        failure = str(error)
    seconds = process_time() - start
    left = [one.violation_after for one in records if one.violation_after is not None]
    known = None if first is None else first.influence
    return Training(
        scores=tuple(one.score for one in records),
        ends=tuple(one.steps for one in records),
        seconds=seconds,
        worst_violation=None if first is None else max([first.worst_violation, *left]),
        final_violation=worst_of(policy, constraints),
        first_influence=None if known is None else known.mean_change,
        influence=_mean([one.influence for one in records]),
        failure=failure,
    )


# PPO


@final
class Watch(BaseCallback):
    """Counts what the acting policy does in constrained places.

    Args:
        places: to look at.
        masked: whether forbidden actions cannot be drawn.
    """

    def __init__(self, places: Places, masked: bool) -> None:
        super().__init__()
        self.inside = self.broken = 0
        self._places, self._masked = places, masked

    def _on_step(self) -> bool:
        return True

    def _on_rollout_end(self) -> None:
        model: Any = self.model
        observations: Array = model.rollout_buffer.observations  # (time, environment, …)
        states = observations.reshape(-1, observations.shape[-1]).astype(np.float64)
        states = states[self._places.inside(states)]
        if len(states):
            acting = policy_of(model).outputs(states)
            if self._masked:
                acting = masked(acting, self._places.forbidden(states))
            self.inside += len(states)
            self.broken += int(self._places.broken(states, acting).sum())


def masked(probabilities: Array, forbidden: Mask) -> Array:
    """Probabilities (n, n_actions) of what is left."""
    left = np.where(forbidden, 0.0, probabilities)
    result: Array = left / left.sum(axis=1, keepdims=True)
    return result


def _train_ppo(
    setting: Setting,
    constraints: Sequence[Constraint],
    arm: Arm,
    seed: int,
    stop: Callable[[], bool],
) -> Training:
    start = process_time()
    n_actions = int(gym.make(setting.id).action_space.n)  # type: ignore[attr-defined]
    places = Places.of(constraints, n_actions)
    model = _model(setting, places, arm, seed)
    watch, scores, witness = Watch(places, arm in MASKED), Scores(stop), Witness(places)
    ways = _ways(model, constraints, places, arm, seed)
    rail = next((one for one in ways if isinstance(one, Handrail)), None)
    around = ways if rail is None else [witness.before, *ways, witness.after]
    failure = None
    try:
        model.learn(setting.budget, callback=[*around, watch, scores])
        if arm == "mask_and_edit":
            _edit(model, constraints)
    except HandrailError as error:
        failure = str(error)
    seconds = process_time() - start
    changes = [] if rail is None else [one.influence for one in rail.history]
    return Training(
        scores=tuple(scores.scores),
        ends=tuple(scores.ends),
        seconds=seconds,
        worst_violation=None if rail is None else rail.worst_violation,
        final_violation=worst_of(policy_of(model), constraints),
        steps_in_places=watch.inside,
        steps_broken=watch.broken,
        first_influence=_mean(changes[:1]),
        influence=_mean(changes[1:]),
        first_visited=witness.first_change,
        visited=_mean(witness.changes),
        final_score=_score(model, setting) if arm == "mask_and_edit" else None,
        failure=failure,
    )


def _edit(model: PPO | MaskablePPO, constraints: Sequence[Constraint]) -> None:
    """Make what has learned behind a mask obey by itself, and stay as it is where it lives."""
    observations = model.rollout_buffer.observations  # of the last rollout: (time, environment, …)
    visited = observations.reshape(-1, observations.shape[-1]).astype(np.float64)
    edit(policy_of(model), list(constraints), references=visited).raise_if_refused()


def _score(model: PPO | MaskablePPO, setting: Setting) -> float:
    """Of its policy without a mask, drawing as it does while it learns."""
    env = make_vec_env(setting.id, n_envs=setting.n_envs, seed=_EVALUATION)
    scores, _ = evaluate_policy(
        model, env, _EPISODES, deterministic=False, return_episode_rewards=True
    )
    return float(np.mean(scores))


def _model(setting: Setting, places: Places, arm: Arm, seed: int) -> PPO | MaskablePPO:
    """Under supervision where the arm needs that."""
    price = _PRICE if arm == "penalty" else 0.0
    told = arm in ("penalty", *MASKED, "lagrangian")
    shaping = shaping_of(setting)

    def around(env: gym.Env[Any, Any]) -> gym.Env[Any, Any]:
        shaped = env if shaping is None else shaping(env)
        return Supervised(shaped, places, price) if told else shaped

    env: VecEnv = make_vec_env(
        partial(gym.make, setting.id), n_envs=setting.n_envs, seed=seed, wrapper_class=around
    )
    if setting.normalised:
        env = VecNormalize(env, norm_obs=False, gamma=setting.options["gamma"])
    algorithm = MaskablePPO if arm in MASKED else PPO
    return algorithm(
        "MlpPolicy",
        env,
        learning_rate=lambda left: setting.learning_rate * left,
        seed=seed,
        device="cpu",
        **setting.options,
    )


def _ways(
    model: PPO | MaskablePPO,
    constraints: Sequence[Constraint],
    places: Places,
    arm: Arm,
    seed: int,
) -> list[BaseCallback]:
    """What tells the model; cloning happens here, before it learns."""
    if arm in HELD:
        return [Handrail(list(constraints), reach=HELD[arm])]
    if arm in ("cloning", "cloning_and_pull"):
        shown = Demonstrations.of(places, seed)
        assert isinstance(model.policy, ActorCriticPolicy)
        imitate(model.policy, shown)
        return [Pull(shown, _PULL)] if arm == "cloning_and_pull" else []
    return [Lagrangian(_LIMIT, _ASCENT)] if arm == "lagrangian" else []
