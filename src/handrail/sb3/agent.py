"""How `handrail.evaluate` plays with a model of Stable-Baselines3."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm

from handrail._types import Array
from handrail.errors import InvalidArgument
from handrail.learning import Act, Agent, Start, agent_of
from handrail.sb3.normalisation import normalisation_of, raw_policy
from handrail.sb3.observations import as_seen
from handrail.sb3.policy import policy_by, refuse_shifted_actions


@agent_of.register
def _agent_of_model(model: BaseAlgorithm, env: gym.Env[Any, Any], deterministic: bool) -> Agent:
    refuse_shifted_actions(model)
    _refuse_other_spaces(model, env)
    masks, observed = _masks(model, env), _as_observed(env.observation_space)
    # As the model is shown states while it learns; statistics stay as they are.
    normalisation = normalisation_of(model)
    shown = (lambda seen: seen) if normalisation is None else normalisation.normalize_obs

    def begin(start: Start) -> Act:
        torch.manual_seed(int(start.rng.integers(2**63)))
        if hasattr(model, "exploration_rate") and not deterministic:
            return _epsilon_greedy(model, start.rng, lambda state: shown(observed(state)))
        return lambda state: model.predict(
            shown(observed(state)), deterministic=deterministic, **masks()
        )[0]

    return Agent(
        begin,
        policy=lambda: raw_policy(policy_by(model.policy, model), normalisation),
        seen=as_seen(model.observation_space, env.observation_space),
    )


def _as_observed(space: gym.Space[Any]) -> Callable[[Array], Any]:
    """States as the environment itself observes them, which is how a model is asked."""
    if isinstance(space, gym.spaces.Box):
        return lambda state: state
    return lambda state: gym.spaces.unflatten(space, state)


def _epsilon_greedy(model: Any, rng: np.random.Generator, shown: Callable[[Array], Any]) -> Act:
    """As DQN explores at present, but by the chance of the episode instead of NumPy's own."""

    def act(state: Any) -> Any:
        if rng.random() < model.exploration_rate:
            return rng.integers(model.action_space.n)
        return model.predict(shown(state), deterministic=True)[0]

    return act


def _refuse_other_spaces(model: BaseAlgorithm, env: gym.Env[Any, Any]) -> None:
    fits = _is_observed_as(model.observation_space, env.observation_space)
    if not fits or model.action_space != env.action_space:
        raise InvalidArgument(
            f"The model observes {model.observation_space} and acts in {model.action_space}, but "
            f"the environment has {env.observation_space} and {env.action_space}."
        )


def _is_observed_as(model: gym.Space[Any], env: gym.Space[Any]) -> bool:
    """Whether a model with the one space can be asked about observations of the other."""
    if isinstance(model, gym.spaces.Dict) and isinstance(env, gym.spaces.Dict):
        same = list(model) == list(env)
        return same and all(_is_observed_as(model[name], env[name]) for name in model)
    if not isinstance(model, gym.spaces.Box) or not isinstance(env, gym.spaces.Box):
        return model == env
    return model.shape in (env.shape, (*env.shape[-1:], *env.shape[:-1]))  # channels first


def _masks(model: BaseAlgorithm, env: gym.Env[Any, Any]) -> Callable[[], dict[str, Any]]:
    """What MaskablePPO needs to know besides the observation, where the environment says it."""
    masked = "action_masks" in inspect.signature(model.predict).parameters
    if not masked or not env.has_wrapper_attr("action_masks"):
        return dict
    return lambda: {"action_masks": env.get_wrapper_attr("action_masks")()}
