"""How good an agent is, and whether it obeys: any agent, evaluated the same way, in one answer.

`agent_of` says how a thing plays, and every kind of thing registers its own way: policies here,
learners in `learner`, models of Stable-Baselines3 in `handrail.sb3`, loaded when one comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import singledispatch
from importlib import import_module
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import (
    ActionRange,
    Constraint,
    DrawnActions,
    Tolerance,
    Violations,
    count_drawn,
    counted,
    html_table,
)
from handrail.enforcement import measure
from handrail.errors import InvalidArgument
from handrail.learning.cost import known_costs
from handrail.learning.episode import (
    EVALUATION,
    Act,
    Episode,
    Start,
    drawing,
    environment_named,
    greedy,
    play,
)
from handrail.learning.normalisation import (
    Normalisation,
    in_own_numbers,
    normalisation_of,
    refuse_normalised,
)
from handrail.policies import Policy, check_fit, fitted, fitting, normaliser_in, spaces_of
from handrail.rulebook import AnyConstraints, Rulebook, constraints_of, load_constraints
from handrail.settings import check_count

# Who registers how the models of a library play.
_REGISTERED_IN = {"stable_baselines3": "handrail.sb3", "sb3_contrib": "handrail.sb3"}


def _as_they_are(states: Array) -> Array:
    return states


@final
@dataclass(frozen=True)
class Obedience:
    """What a policy must obey while it plays, and how far it is from that.

    Attributes:
        policy: that plays.
        constraints: to obey.
        violations: of the policy.
        tolerance: the violation that counts as none.
        acts_in: the environment's action space, which a drawn action is clipped to.
        seen: from states that the environment observes to those that the policy is shown.
    """

    policy: Policy
    constraints: Sequence[Constraint]
    violations: Violations
    tolerance: float
    acts_in: gym.Space[Any]
    seen: Callable[[Array], Array] = _as_they_are

    def drawn(self, episodes: Sequence[Episode]) -> DrawnActions | None:
        """How often its actions went against a constraint in its place."""
        states = self.seen(np.concatenate([episode.states for episode in episodes]))
        actions = np.concatenate([episode.actions for episode in episodes])
        if isinstance(self.acts_in, gym.spaces.Box):
            actions = fitted(actions, self.acts_in)
        return count_drawn(self.policy, self.constraints, states, actions, self.tolerance)


@final
@dataclass(frozen=True, repr=False)
class Evaluation:
    """Episodes played without learning.

    Attributes:
        scores: one per episode.
        lengths: steps of each.
        violations: of the policy that played, if it has constraints.
        tolerance: the violation that counts as none.
        costs: of each, where the environment names one in `info["cost"]`; else empty.
        drawn: how often actions went against a constraint in its place, if one is about actions.
    """

    scores: tuple[float, ...]
    lengths: tuple[int, ...]
    violations: Violations | None
    tolerance: float
    costs: tuple[float, ...] = ()
    drawn: DrawnActions | None = None

    @classmethod
    def of(cls, episodes: Sequence[Episode], obedience: Obedience | None = None) -> Evaluation:
        """Of episodes that were played."""
        return cls(
            scores=tuple(episode.score for episode in episodes),
            lengths=tuple(map(len, episodes)),
            violations=None if obedience is None else obedience.violations,
            tolerance=0.0 if obedience is None else obedience.tolerance,
            costs=tuple(known_costs(episode.cost for episode in episodes)),
            drawn=None if obedience is None else obedience.drawn(episodes),
        )

    @property
    def mean(self) -> float:
        """Average score."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float:
        """Standard deviation of the scores."""
        return float(np.std(self.scores))

    @property
    def mean_cost(self) -> float | None:
        """Average cost of an episode; None where the environment names none."""
        return float(np.mean(self.costs)) if self.costs else None

    @property
    def satisfied(self) -> bool:
        """Whether every constraint holds, within the tolerance."""
        return self.worst_violation is None or self.worst_violation <= self.tolerance

    @property
    def worst_violation(self) -> float | None:
        """Positive means broken; None without constraints."""
        return None if self.violations is None else self.violations.worst_violation

    def __str__(self) -> str:
        text = f"{counted(len(self.scores), 'episode')}: {self.mean:.1f} ± {self.deviation:.1f}"
        if self.mean_cost is not None:
            text += f", cost {self.mean_cost:.1f}"
        if self.violations is None:
            return text
        worst = f"worst {self.violations.worst_violation:+.1e}, tolerance {self.tolerance:g}"
        text = f"{text}; {self._verdict(self.violations)} ({worst})"
        return text if self.drawn is None else f"{text}; {self.drawn}"

    def __repr__(self) -> str:
        return f"<Evaluation of {self}>"

    def _repr_html_(self) -> str:
        rows = {"episodes": f"{len(self.scores)}"}
        rows["score"] = f"{self.mean:.1f} ± {self.deviation:.1f}"
        if self.mean_cost is not None:
            rows["cost"] = f"{self.mean_cost:.1f}"
        if self.violations is not None:
            rows["constraints"] = self._verdict(self.violations)
            rows["worst violation"] = f"{self.violations.worst_violation:+.1e}"
            rows["tolerance"] = f"{self.tolerance:g}"
        if self.drawn is not None:
            rows["drawn actions"] = str(self.drawn)
        return html_table("", list(rows.items()))

    def _verdict(self, violations: Violations) -> str:
        broken = violations.broken(self.tolerance)
        return f"{broken} of {counted(len(violations), 'constraint row')} violated"


@final
@dataclass(frozen=True)
class Agent:
    """Whoever plays.

    Attributes:
        begin: an episode; how to act in it.
        policy: to measure constraints with; asked for only if there are some.
        normalisation: of what the environment shows, which the policy does itself, if it does.
        seen: from states that the environment observes (n, …) to those that the policy is shown.
    """

    begin: Callable[[Start], Act]
    policy: Callable[[], Policy]
    normalisation: Normalisation | None = None
    seen: Callable[[Array], Array] = _as_they_are


@singledispatch
def agent_of(thing: object, env: gym.Env[Any, Any], deterministic: bool) -> Agent:
    """How a thing plays in an environment, or why it cannot; each kind registers its own way.

    Args:
        thing: a policy, a learner, a model of Stable-Baselines3.
        env: where it is going to play.
        deterministic: always take the most likely action.
    """
    del env, deterministic
    raise InvalidArgument(
        f"Expected a model of Stable-Baselines3, a Reinforce or a policy, but got "
        f"{type(thing).__name__}. Wrap a torch module: CategoricalPolicy(module)."
    )


@agent_of.register
def _agent_of_policy(policy: Policy, env: gym.Env[Any, Any], deterministic: bool) -> Agent:
    check_fit(policy, spaces_of(env))
    normalisation = normalisation_of(env)
    acting = policy
    if normalisation is not None and normaliser_in(policy.module) is None:
        acting = policy.behind(normalisation.layer(policy.dtype))
    return Agent(
        begin=lambda start: greedy(acting) if deterministic else drawing(acting, start.rng),
        policy=lambda: acting,
        normalisation=normalisation,
    )


def evaluate(
    agent: Any,
    env: str | gym.Env[Any, Any],
    constraints: AnyConstraints | None = None,
    episodes: int = 20,
    deterministic: bool = False,
    seed: int = 0,
    tolerance: float | None = None,
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
        tolerance: the violation that counts as none; by default 1e-6, of a policy in float32 1e-5.
    """
    check_count("episodes", episodes)
    allowed = Tolerance(tolerance, zero=True)
    given = None if constraints is None else load_constraints(constraints)
    _load_what_registers(type(agent))
    stage = _made(env)
    try:
        player = agent_of(agent, stage, deterministic)
        obedience = None if given is None else _obedience(player, given, stage, allowed)
        # A model of Stable-Baselines3 draws from torch's global stream.
        with one_thread(), torch.random.fork_rng():
            starts = [Start.of(seed, number, EVALUATION) for number in range(episodes)]
            played = [_played(player, fitting(stage), one) for one in starts]
    finally:
        if stage is not env:
            stage.close()
    return Evaluation.of(played, obedience)


def _played(player: Agent, env: gym.Env[Any, Any], start: Start) -> Episode:
    with in_own_numbers(player.normalisation, player.begin(start)) as act:
        return play(env, act, start.environment)


def _load_what_registers(kind: type[object]) -> None:
    """Where there is a model of another library, that library is there."""
    for one in kind.__mro__:
        home = _REGISTERED_IN.get(one.__module__.partition(".")[0])
        if home is not None:
            import_module(home)


def _made(env: str | gym.Env[Any, Any]) -> gym.Env[Any, Any]:
    if isinstance(env, str):
        return environment_named(env)
    if isinstance(env, gym.Env):
        return env
    raise InvalidArgument(
        f"Expected a Gymnasium id or an environment, but got {type(env).__name__}. Vector "
        "environments play side by side; give one of a kind, such as gymnasium.make('CartPole-v1')."
    )


def _obedience(
    player: Agent,
    given: Sequence[Constraint] | Rulebook,
    env: gym.Env[Any, Any],
    allowed: Tolerance,
) -> Obedience:
    if player.normalisation is None:
        refuse_normalised(env)
    observed = env.observation_space if player.normalisation is None else player.normalisation.space
    if isinstance(given, Rulebook):  # of actions, only the environment knows the ranges
        given.check_spaces(observed, env.action_space)
    elif (acts_in := ActionRange.of(env.action_space)) is not None:
        acts_in.refuse_beyond(given)
    policy = player.policy()
    violations = measure(policy, given)
    constraints = constraints_of(given, policy)
    exactly = allowed.to_measure(policy, violations)
    return Obedience(policy, constraints, violations, exactly, env.action_space, player.seen)
