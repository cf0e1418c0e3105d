"""Any agent, evaluated the same way: a policy, a `Reinforce`, a model of Stable-Baselines3."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import gymnasium as gym
import numpy as np
import torch

from handrail._threads import one_thread
from handrail.constraints import Violations, measure
from handrail.errors import InvalidArgument
from handrail.learning.episode import Act, Start, drawing, greedy, play
from handrail.learning.evaluation import Evaluation
from handrail.learning.learner import EVALUATION
from handrail.learning.reinforce import Reinforce
from handrail.policies import Policy, check_fit, clipping, spaces_of
from handrail.rulebook import AnyConstraints, Stated

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm


_Env = gym.Env[Any, Any]


@final
@dataclass(frozen=True)
class _Contestant:
    """Who plays.

    Attributes:
        begin: an episode; how to act in it.
        policy: to measure constraints with; asked for only if there are some.
    """

    begin: Callable[[Start], Act]
    policy: Callable[[], Policy]


def evaluate(
    agent: Any,
    env: str | _Env,
    constraints: AnyConstraints | None = None,
    episodes: int = 20,
    deterministic: bool = False,
    seed: int = 0,
    tolerance: float = 1e-5,
) -> Evaluation:
    """Play without learning, and measure whether the agent obeys.

    The same seed gives the same starts to every agent. The global random state is left alone.

    Args:
        agent: a model of Stable-Baselines3, a `Reinforce`, or a policy.
        env: a Gymnasium id or an environment; not a vector environment.
        constraints: to measure, a list, a `Rulebook` or a constraint file; none by default.
        episodes: how many to play.
        deterministic: always take the most likely action.
        seed: of the starts and of the agent's draws.
        tolerance: the violation that counts as none.
    """
    if isinstance(episodes, bool) or not isinstance(episodes, int) or episodes < 1:
        raise InvalidArgument(f"episodes must be a positive whole number, but got {episodes!r}.")
    if not (np.isfinite(tolerance) and tolerance >= 0.0):
        raise InvalidArgument(f"The tolerance must be 0 or more and finite, not {tolerance!r}.")
    stated = None if constraints is None else Stated.of(constraints)
    stage = _made(env)
    try:
        contestant = _contestant(agent, stage, deterministic)
        violations = None if stated is None else _violations(contestant.policy(), stated, stage)
        # A model of Stable-Baselines3 draws from torch's global stream.
        with one_thread(), torch.random.fork_rng():
            starts = [Start.of(seed, number, EVALUATION) for number in range(episodes)]
            played = [
                play(clipping(stage), contestant.begin(one), one.environment) for one in starts
            ]
    finally:
        if stage is not env:
            stage.close()
    return Evaluation(
        scores=tuple(episode.score for episode in played),
        lengths=tuple(len(episode) for episode in played),
        violations=violations,
        tolerance=tolerance,
    )


def _made(env: str | _Env) -> _Env:
    if isinstance(env, str):
        try:
            return gym.make(env)
        except gym.error.Error as error:
            raise InvalidArgument(f"Gymnasium cannot make {env!r}: {error}") from error
    if isinstance(env, gym.Env):
        return env
    raise InvalidArgument(
        f"Expected a Gymnasium id or an environment, but got {type(env).__name__}. Vector "
        "environments play side by side; give one of a kind, such as gymnasium.make('CartPole-v1')."
    )


def _violations(policy: Policy, stated: Stated, env: _Env) -> Violations:
    if stated.rulebook is not None:
        stated.check_spaces(env.observation_space, env.action_space)
    return measure(policy, stated.constraints)


def _contestant(agent: Any, env: _Env, deterministic: bool) -> _Contestant:
    if isinstance(agent, Reinforce):
        agent = agent.policy
    if isinstance(agent, Policy):
        return _policy(agent, env, deterministic)
    if _is_model(agent):
        return _model(agent, env, deterministic)
    raise InvalidArgument(
        f"Expected a model of Stable-Baselines3, a Reinforce or a policy, but got "
        f"{type(agent).__name__}. Wrap a torch module: CategoricalPolicy(module)."
    )


def _policy(policy: Policy, env: _Env, deterministic: bool) -> _Contestant:
    check_fit(policy, spaces_of(env))
    return _Contestant(
        begin=lambda start: greedy(policy) if deterministic else drawing(policy, start.rng),
        policy=lambda: policy,
    )


def _is_model(agent: Any) -> bool:
    """Without importing Stable-Baselines3: where there is a model, it has been imported."""
    library = sys.modules.get("stable_baselines3.common.base_class")
    return library is not None and isinstance(agent, library.BaseAlgorithm)


def _model(model: BaseAlgorithm, env: _Env, deterministic: bool) -> _Contestant:
    from handrail.sb3 import policy_of, refuse_normalised_observations  # noqa: PLC0415

    refuse_normalised_observations(model)
    shape = env.observation_space.shape or ()
    fits = model.observation_space.shape in (shape, (*shape[-1:], *shape[:-1]))  # channels first
    if not fits or model.action_space != env.action_space:
        raise InvalidArgument(
            f"The model observes {model.observation_space} and acts in {model.action_space}, but "
            f"the environment has {env.observation_space} and {env.action_space}."
        )
    masks = _masks(model, env)

    def begin(start: Start) -> Act:
        torch.manual_seed(int(start.rng.integers(2**63)))
        return lambda state: model.predict(state, deterministic=deterministic, **masks())[0]

    return _Contestant(begin, policy=lambda: policy_of(model))


def _masks(model: BaseAlgorithm, env: _Env) -> Callable[[], dict[str, Any]]:
    """What MaskablePPO needs to know besides the observation, where the environment says it."""
    masked = "action_masks" in inspect.signature(model.predict).parameters
    if not masked or not env.has_wrapper_attr("action_masks"):
        return dict
    return lambda: {"action_masks": env.get_wrapper_attr("action_masks")()}
