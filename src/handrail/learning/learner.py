"""What every learner needs: a policy that obeys, episodes, records, checkpoints, and going on.

A learner is an order of parts: a `Player` plays episodes, a `Baseline` weighs them, an update
changes the policy under constraints or leaves it as it was. `Learner` owns the parts and what is
carried from turn to turn; a kind of learner derives from it and says what one `turn` is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Self

import gymnasium as gym
import numpy as np
from numpy.typing import ArrayLike, NDArray

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Tolerance, counted, expand
from handrail.enforcement import (
    Enforcement,
    Enforcer,
    Rail,
    make_enforcer,
    references_before_experience,
)
from handrail.errors import InvalidArgument, InvalidPolicy, InvalidRun
from handrail.learning.baseline import make_baseline
from handrail.learning.checkpoint import (
    Checkpoint,
    PackedConstraints,
    PackedPolicy,
    Progress,
    describe_environment,
    make_environment,
)
from handrail.learning.episode import EVALUATION, LEARNING, PREDICTION, Episode, Start
from handrail.learning.evaluation import Agent, Evaluation, Obedience, agent_of
from handrail.learning.normalisation import refuse_unfollowed
from handrail.learning.player import AnyEnvironment, Round, make_player
from handrail.learning.progress import goal_of, progress_line
from handrail.learning.record import Record, Seconds, make_records, share_seconds
from handrail.learning.update import Timing, Update, no_update
from handrail.policies import (
    Actions,
    BranchedPolicy,
    CategoricalPolicy,
    GaussianPolicy,
    Policy,
    Spaces,
    check_fit,
    fitted,
    flat_observation,
    normaliser_in,
    policy_for,
)
from handrail.rulebook import AnyConstraints, constraints_of, observation_names
from handrail.settings import Everywhere, LearnerSettings, check_count


class Learner(ABC):
    """A policy that learns from episodes and obeys constraints meanwhile.

    The parts are put together here; a kind of learner then has its policy obey, or goes on from a
    checkpoint (`with_settings` does either). The policy is changed in place.

    Args:
        env: a Gymnasium id, an environment, or a vector environment.
        policy: learns; by default a fresh network, one hidden layer of 5000, from the seed.
        constraints: to obey: a list, a `Rulebook`, or the path or bundled name of a file.
        settings: of the learner.
        references: (n, *observation_shape), where the policy should stay as it is while there is
            no experience yet; by default random states of the observation space, many of them
            around the one in which an episode begins.

    Attributes:
        policy: the one that learns. Behind `NormalizeObservation` it is that of the environment's
            own numbers: the normalisation is its first layer.
        settings: of the learner.
        player: plays the episodes of an update.
        constraints: to obey, expanded, if there are any.
        rail: holds them, if there are any.
        baseline: what returns are compared with.
        episodes: learned from so far.
        updates: made so far.
        steps: of the environment so far.
        first_enforcement: how the policy was made to obey before its first step, if it was here.
    """

    def __init__(
        self,
        env: str | AnyEnvironment,
        policy: Policy | None,
        constraints: AnyConstraints,
        settings: LearnerSettings,
        references: ArrayLike | None = None,
    ) -> None:
        self.player = make_player(env, settings.episodes_per_update)
        spaces = self.player.spaces
        given = constraints_of(constraints, spaces)
        if given:
            refuse_unfollowed(self.player.env)
        self._shown = _fresh_policy(spaces, settings.seed) if policy is None else _checked(policy)
        self.policy = self._raw_policy()
        check_fit(self.policy, spaces)
        _refuse_what_draws_nothing(self.policy)
        self.settings = settings
        self.constraints = expand(given, self.policy) if given else None
        self.rail = self._make_rail(constraints, references)
        self.baseline = make_baseline(settings, int(np.prod(spaces[0].shape)))
        self.episodes = self.updates = self.steps = 0
        self.first_enforcement: Enforcement | None = None
        self._chance = np.random.default_rng([settings.seed, PREDICTION])

    @classmethod
    def with_settings(
        cls,
        env: str | AnyEnvironment,
        policy: Policy | None,
        constraints: AnyConstraints,
        settings: LearnerSettings,
        checkpoint: Checkpoint | None = None,
    ) -> Self:
        """From settings that were checked already, such as those of a constraint file.

        Args:
            env: a Gymnasium id, an environment, or a vector environment.
            policy: learns; by default a fresh network.
            constraints: to obey.
            settings: of the learner.
            checkpoint: of a learner to go on from. Under the same constraints it goes on exactly as
                it would have; others are held first, and nothing is remembered of the old ones.
        """
        self = cls._of_parts(env, policy, constraints, settings)
        if checkpoint is None or not self._restore(checkpoint):
            self._obey()
        return self

    @classmethod
    def check(
        cls,
        env: str | AnyEnvironment,
        policy: Policy,
        constraints: AnyConstraints,
        settings: LearnerSettings,
    ) -> None:
        """Refuse parts that do not fit together, as `with_settings` would; nothing is changed."""
        cls._of_parts(env, policy, constraints, settings)

    @classmethod
    def _of_parts(
        cls,
        env: str | AnyEnvironment,
        policy: Policy | None,
        constraints: AnyConstraints,
        settings: LearnerSettings,
    ) -> Self:
        self = cls.__new__(cls)
        Learner.__init__(self, env, policy, constraints, settings)
        return self

    @property
    def enforcer(self) -> Enforcer | None:
        """Of the constraints, if there are any."""
        return None if self.rail is None else self.rail.enforcer

    def _obey(self) -> None:
        """Make the policy obey before it acts, where the settings ask for that."""
        if self.rail is None or self.settings.enforcement != "exact":
            return
        with one_thread():
            held = self.rail.hold(self.policy)
        self.first_enforcement = held.raise_if_unsatisfied()

    @abstractmethod
    def turn(self) -> tuple[list[Record], Seconds]:
        """Play, update, record. Counts move last: until then, nothing has happened.

        All chance comes from `Start.of(seed, episode, stream)`, or a resumed learner would differ.
        """

    def learn(
        self,
        episodes: int | None = None,
        timesteps: int | None = None,
        progress_bar: bool = True,
        callbacks: Sequence[Callable[[Self, Record, Seconds], bool | None]] = (),
    ) -> list[Record]:
        """Learn for so many more episodes, or for at least so many more environment steps.

        Args:
            episodes: how many; rounded up to whole updates.
            timesteps: how many, instead of episodes; the last episode is played to its end.
            progress_bar: score, worst violation and time left, on a terminal or in a notebook.
            callbacks: each is called as callback(agent, record, seconds) after every episode;
                returning False ends the learning after the update.

        Returns:
            One record per episode.
        """
        goal = goal_of(episodes, timesteps)
        if callable(callbacks) or not all(map(callable, callbacks)):
            raise InvalidArgument(
                "callbacks is a list of functions of (agent, record, seconds): "
                f"callbacks=[your_function], but got {callbacks!r}."
            )
        first_episode, first_step = self.episodes, self.steps
        records: list[Record] = []
        done, going = 0, True
        with one_thread(), progress_line(goal, progress_bar) as advance:
            while going and done < goal.amount:
                played, seconds = self.turn()
                records += played
                done = goal.done(self.episodes - first_episode, self.steps - first_step)
                advance(played, done)
                # Every callback sees every episode, also when one of them asks to stop.
                answers = [call(self, record, seconds) for record in played for call in callbacks]
                going = False not in answers
        return records

    def evaluate(self, episodes: int = 20, deterministic: bool = False) -> Evaluation:
        """Play without learning; always the same starts, which no learning episode has."""
        check_count("episodes", episodes)
        played: list[Episode] = []
        with one_thread():
            while len(played) < episodes:
                which = Round(self.settings.seed, EVALUATION, len(played), deterministic)
                played += self.player.play(self.policy, which)
        return Evaluation.of(played[:episodes], self._obedience())

    def _obedience(self) -> Obedience | None:
        if self.rail is None:
            return None
        enforcer = self.rail.enforcer
        return Obedience(
            policy=self.policy,
            constraints=self.rail.constraints,
            violations=enforcer.measure(self.policy),
            tolerance=enforcer.tolerance,
            acts_in=self.player.spaces[1],
        )

    def probabilities(self, observation: ArrayLike) -> Array:
        """π(·|s): (n_actions,) for one observation, (n, n_actions) for a batch.

        Behind `NormalizeObservation`, s are the environment's own numbers, as in constraints.
        """
        if not isinstance(self.policy, CategoricalPolicy):
            raise _without_one_choice(self.policy)
        observations, single = self._as_batch(observation)
        result = self.policy.outputs(observations)
        return result[0] if single else result

    def predict(
        self,
        observation: ArrayLike,
        state: None = None,
        episode_start: NDArray[np.bool_] | None = None,
        deterministic: bool = False,
    ) -> tuple[Actions, None]:
        """(action, None) of one observation, or (actions, None) of a batch.

        The signature is that of Stable-Baselines3, so its `evaluate_policy` takes a learner;
        `state` and `episode_start` are for recurrent policies and are not used. Observations are
        as the environment shows them, behind `NormalizeObservation` normalised.
        """
        del state, episode_start
        observations, single = self._as_batch(observation)
        outputs = self._shown.outputs(observations)
        if deterministic:
            actions = self.policy.likeliest(outputs)
        else:
            actions = self.policy.draw(outputs, [self._chance] * len(outputs))
        taken = fitted(actions, self.player.spaces[1])
        return (taken[0] if single else taken), None

    @property
    def active_states(self) -> tuple[Array, ...]:
        """The states of regions that are constrained at present, an array per sub-region."""
        return () if self.enforcer is None else self.enforcer.active_states

    def save(self, path: str | Path) -> None:
        """Write everything to one file, atomically: the policy, the constraints, the progress."""
        self.checkpoint().save(Path(path))

    @classmethod
    def load(
        cls,
        path: str | Path,
        env: str | AnyEnvironment | None = None,
        policy: Policy | None = None,
        constraints: AnyConstraints | None = None,
    ) -> Self:
        """Continue a saved learner exactly where it was.

        Args:
            path: of a file that `save` wrote.
            env: needed if the saved one was more than a Gymnasium id with options.
            policy: a network to load the weights into, needed if the saved one was your own.
            constraints: needed if a saved one holds on a curve that is a Python function. Others
                than the saved ones are held before the next step.
        """
        saved = Checkpoint.load(Path(path))
        env = make_environment(saved.environment) if env is None else env
        if policy is None:
            policy = saved.policy.build(make_player(env, saved.settings.episodes_per_update).spaces)
        obeyed = saved.constraints.build() if constraints is None else constraints
        return cls.with_settings(env, policy, obeyed, saved.settings, saved)

    def checkpoint(self) -> Checkpoint:
        """All that a learner needs to go on exactly from here."""
        return Checkpoint(
            policy=PackedPolicy.of(self._shown),
            constraints=PackedConstraints.of(self.constraints),
            enforcer={} if self.rail is None else self.rail.memory(),
            baseline=self.baseline.memory(),
            progress=Progress(
                self.episodes, self.updates, self.steps, dict(self._chance.bit_generator.state)
            ),
            settings=self.settings,
            environment=describe_environment(self.player.env),
            statistics=self._statistics(),
        )

    def _restore(self, saved: Checkpoint) -> bool:
        """Go on from there; whether the policy obeys what this learner is to obey.

        What was remembered of holding constraints (cells, states, a measured violation) is about
        those constraints alone: of others it would be false.
        """
        saved.policy.load_into(self._shown)
        self._recall_statistics(saved.statistics)
        self.baseline.recall(saved.baseline)
        progress = saved.progress
        self.episodes, self.updates, self.steps = (
            progress.episodes,
            progress.updates,
            progress.steps,
        )
        self._chance.bit_generator.state = progress.chance
        if self.rail is None:
            return True
        own = PackedConstraints.of(self.constraints)
        same = own.sha256 == saved.constraints.sha256
        if not same or self.settings.selection != saved.settings.selection:
            return False
        self.rail.recall(saved.enforcer)
        # A file can say anything: the policy that acts next is measured once more.
        enforcer = self.rail.enforcer
        return enforcer.measure(self.policy).worst_violation <= enforcer.tolerance

    def __repr__(self) -> str:
        parts, obeyed = [], self.constraints
        if obeyed is not None and obeyed.fixed is not None:
            parts.append(counted(len(obeyed.fixed), "constraint row"))
        if obeyed is not None and obeyed.regional:
            parts.append(counted(len(obeyed.regional), "constrained region"))
        held = " and ".join(parts) or "no constraints"
        learned = f"{counted(self.episodes, 'episode')} learned from"
        return f"{type(self).__name__}({self.policy}, {held}, {learned})"

    # For kinds of learners.

    def _play(self) -> list[Episode]:
        """The next episodes to learn from, as many as an update has."""
        if self._follow():  # the environment was used elsewhere, and its statistics have moved
            self._obey()
        return self.player.play(self.policy, Round(self.settings.seed, LEARNING, self.episodes))

    @property
    def _frozen(self) -> bool:
        """Whether the policy no longer learns."""
        after = self.settings.freeze_after
        return after is not None and self.episodes >= after

    @property
    def _has_regions(self) -> bool:
        return self.constraints is not None and bool(self.constraints.regional)

    @contextmanager
    def _forgetting_on_failure(self) -> Iterator[None]:
        """What was remembered inside is forgotten again if something goes wrong."""
        baseline = self.baseline.memory()
        held = {} if self.rail is None else self.rail.memory()
        statistics = self._statistics()
        try:
            yield
        except BaseException:
            self._recall_statistics(statistics)
            self.baseline.recall(baseline)
            if self.rail is not None:
                self.rail.recall(held)
            raise

    def _take_in(self, episodes: Sequence[Episode]) -> None:
        """What was observed moves the statistics of normalised observations, and so the policy."""
        if self.player.normalisation is not None:
            self.player.normalisation.take_in(episodes)
            self._follow()

    def _follow(self) -> bool:
        """Normalise as the environment does by now; whether anything has changed."""
        normalisation, layer = self.player.normalisation, normaliser_in(self.policy.module)
        if normalisation is None or layer is None or normalisation.is_followed_by(layer):
            return False
        normalisation.set(layer)
        return True

    def _statistics(self) -> dict[str, NDArray[Any]]:
        normalisation = self.player.normalisation
        return {} if normalisation is None else normalisation.memory()

    def _recall_statistics(self, saved: Mapping[str, NDArray[Any]]) -> None:
        if self.player.normalisation is not None:
            self.player.normalisation.recall(saved)
            self._follow()
        elif saved:
            raise InvalidRun(
                "The saved learner saw observations through NormalizeObservation, which is not "
                "around this environment: load(path, env=NormalizeObservation(env))."
            )

    def _raw_policy(self) -> Policy:
        """The policy of the environment's own numbers, on the parameters of the one it is shown."""
        if self.player.normalisation is None:
            return self._shown
        if normaliser_in(self._shown.module) is not None:
            raise InvalidPolicy(
                "The policy normalises observations itself, and so does the environment, by "
                "NormalizeObservation. Give the environment alone, or a policy of what it shows."
            )
        return self._shown.behind(self.player.normalisation.layer(self._shown.dtype))

    def _recorded(
        self, episodes: list[Episode], collecting: float, update: Update | None, timing: Timing
    ) -> tuple[list[Record], Seconds]:
        """Count a turn, and say what happened in it.

        Args:
            episodes: that were played.
            collecting: seconds that playing took.
            update: what it did; None if the policy was frozen.
            timing: of the update.
        """
        number = None if update is None else self.updates
        did = no_update(self.policy, self.enforcer) if update is None else update
        records = make_records(episodes, self.episodes, number, self.steps, did)
        self.episodes += len(episodes)
        self.steps += sum(map(len, episodes))
        self.updates += update is not None
        return records, share_seconds(collecting, timing, len(episodes))

    def _make_rail(self, given: AnyConstraints, references: ArrayLike | None) -> Rail | None:
        constraints = self.constraints
        if constraints is None:
            return None
        whole = isinstance(self.settings.selection, Everywhere)
        if constraints.regional and whole and self.settings.enforcement == "one_step":
            raise InvalidArgument(
                "selection 'everywhere' holds regions exactly, enforcement 'one_step' does not: "
                "choose selection 'maximum_deviation' or 'maximum_return' (the paper), or "
                "enforcement 'exact'."
            )
        tolerance = Tolerance(self.settings.tolerance)
        enforcer = make_enforcer(constraints, self.settings.selection, self.policy, tolerance)
        names, held = observation_names(given), constraints_of(given, self.player.spaces)
        rail = partial(Rail, enforcer, held, reach=self.settings.reach, observations=names)
        space, starts = self.player.spaces[0], None
        open_ = references is None and self.settings.enforcement == "exact"
        if open_ and rail(first=None).heeds_elsewhere(self.policy):  # else a start decides nothing
            starts = self.player.beginning(Start.of(self.settings.seed, 0))
        return rail(first=references_before_experience(references, space, given, starts))

    def _as_batch(self, observation: ArrayLike) -> tuple[Array, bool]:
        flat = flat_observation(observation, self.player.observes)
        observations = np.asarray(flat, dtype=np.float64)
        single = observations.ndim == len(self.player.spaces[0].shape)
        return (observations[None] if single else observations), single


def _without_one_choice(policy: Policy) -> InvalidPolicy:
    """Of which there are other things to ask for than the probabilities of one choice."""
    if isinstance(policy, BranchedPolicy):
        kind = f"chooses in branches of {list(policy.quantity.sizes)} actions"
        instead = "agent.policy.probabilities(states), a list of (n, actions) of each branch"
    else:
        kind = "has continuous actions, whose probabilities no list has"
        instead = "agent.policy.mean(states), (n, n_actions)"
    return InvalidPolicy(
        f"probabilities(…) is about one choice among discrete actions, but this "
        f"{type(policy).__name__} {kind}. At states (n, *observation_shape) ask for {instead}."
    )


def _refuse_what_draws_nothing(policy: Policy) -> None:
    if not policy.draws:
        raise InvalidPolicy(
            f"A {type(policy).__name__} draws nothing, so its actions have no likelihood to learn "
            "by. Give its network chance: GaussianPolicy(module, std) around actions, "
            "CategoricalPolicy(module) over logits."
        )


def _checked(policy: Policy) -> Policy:
    if isinstance(policy, Policy):
        return policy
    raise InvalidPolicy(
        f"Expected a policy, but got {type(policy).__name__}. Wrap a torch module: "
        "CategoricalPolicy(module), or GaussianPolicy(module, std) for continuous actions. What "
        "it is to obey is named: Reinforce(env, constraints=[…])."
    )


def _fresh_policy(spaces: Spaces, seed: int) -> Policy:
    makers: dict[str, Callable[..., Policy]] = {
        one.__name__: one.mlp for one in (GaussianPolicy, CategoricalPolicy, BranchedPolicy)
    }
    return makers[policy_for(spaces[1])](spaces, seed=seed)


@agent_of.register
def _agent_of_learner(learner: Learner, env: gym.Env[Any, Any], deterministic: bool) -> Agent:
    return agent_of(learner.policy, env, deterministic)
