"""The learner's state and one turn of its loop.

A turn is: collect episodes → what was each step worth → one constrained update → record. Every part
of it lives in a file of its own; this one owns their order, and what is carried from turn to turn.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from handrail._storage import FORMAT, prefixed, under
from handrail.constraints import Everywhere, Expansion
from handrail.enforcement import Enforcement, Memory, Rules, make_rules
from handrail.errors import InfeasibleConstraints, InvalidArgument
from handrail.learning.baseline import make_baseline
from handrail.learning.checkpoint import (
    check_noise,
    describe_environment,
    noise_of,
    pack_regional,
    pack_rows,
)
from handrail.learning.episode import Episode
from handrail.learning.player import Player, Round
from handrail.learning.record import Record, Seconds, make_records, share_seconds
from handrail.learning.update import Timing, Update, apply_update, no_update
from handrail.policies import Policy, check_fit, load_weights, pack_policy
from handrail.settings import LearnerSettings
from handrail.tangent import Batch

LEARNING, EVALUATION, PREDICTION = 0, 1, 2  # streams of chance that never meet


@final
class Learner:
    """A policy, the constraints it obeys, a baseline, and how far it has come.

    Args:
        player: plays the episodes of an update.
        policy: learns, in place.
        constraints: to obey, expanded, if there are any.
        settings: of the learner.
    """

    def __init__(
        self,
        player: Player,
        policy: Policy,
        constraints: Expansion | None,
        settings: LearnerSettings,
    ) -> None:
        check_fit(policy, player.spaces)
        self.player = player
        self.policy = policy
        self.constraints = constraints
        self.settings = settings
        self.rules = None if constraints is None else _rules(constraints, settings, policy)
        self.episodes = self.updates = self.steps = 0
        self.chance = np.random.default_rng([settings.seed, PREDICTION])
        self._baseline = make_baseline(settings, int(np.prod(player.spaces[0].shape)))

    def obey(self) -> Enforcement | None:
        """Make the policy obey before it acts, where the settings ask for that."""
        if self.rules is None or self.settings.enforcement != "exact":
            return None
        return self.rules.hold(self.policy, self.settings.tolerance).raise_if_unsatisfied()

    def turn(
        self, look: Callable[[Sequence[Episode], Batch], None] | None = None
    ) -> tuple[list[Record], Seconds]:
        """Play, update, record. Counts move last: until then, nothing has happened.

        Args:
            look: shown what the update learns from, just before it.
        """
        start = perf_counter()
        which = Round(self.settings.seed, LEARNING, self.episodes)
        episodes = self.player.play(self.policy, which)
        collecting = perf_counter() - start
        frozen = self.settings.freeze_after is not None and (
            self.episodes >= self.settings.freeze_after
        )
        if frozen:
            update, timing = no_update(self.policy, self.rules), Timing()
        else:
            update, timing = self._update(episodes, look)
        number = None if frozen else self.updates
        records = make_records(episodes, self.episodes, number, self.steps, update)
        self.episodes += len(episodes)
        self.steps += sum(len(episode) for episode in episodes)
        self.updates += not frozen
        return records, share_seconds(collecting, timing, len(episodes))

    def _update(
        self,
        episodes: Sequence[Episode],
        look: Callable[[Sequence[Episode], Batch], None] | None,
    ) -> tuple[Update, Timing]:
        baseline, rules = self._baseline.memory(), self._memory_of_rules()
        try:
            batch = self._batch(episodes)
            if look is not None:
                look(episodes, batch)
            return apply_update(self.policy, self.rules, batch, self.settings)
        except BaseException as error:
            self._baseline.recall(baseline)
            if self.rules is not None:
                self.rules.recall(rules)
            one_step = self.settings.enforcement == "one_step"
            if isinstance(error, InfeasibleConstraints) and one_step and self._has_regions():
                raise InfeasibleConstraints(
                    f"{error} One step a time can diverge on regions, as the paper's update does "
                    "on large ones: hold them with enforcement 'exact' and selection 'everywhere'."
                ) from error
            raise

    def _has_regions(self) -> bool:
        return self.constraints is not None and bool(self.constraints.regional)

    def _memory_of_rules(self) -> Memory:
        return {} if self.rules is None else self.rules.memory()

    def _batch(self, episodes: Sequence[Episode]) -> Batch:
        """All steps of the episodes, or every k-th, with what each was worth to the average."""
        every = self.settings.use_every
        advantages = self._baseline.advantages(episodes, self.settings.discount)
        return Batch(
            np.concatenate([episode.states[::every] for episode in episodes]),
            np.concatenate([episode.actions[::every] for episode in episodes]),
            np.concatenate([advantage[::every] for advantage in advantages]) / len(episodes),
        )

    def snapshot(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Tensors and a JSON state that `restore` continues from."""
        weights, architecture = pack_policy(self.policy)
        fixed = None if self.constraints is None else self.constraints.fixed
        rows, labels = ({}, []) if fixed is None else pack_rows(fixed)
        regions = [] if self.constraints is None else pack_regional(self.constraints)
        tensors = {
            **prefixed("policy.", weights),
            **prefixed("baseline.", self._baseline.memory()),
            **prefixed("constraints.", rows),
            **prefixed("rules.", self._memory_of_rules()),
        }
        return tensors, {
            "format": FORMAT,
            "settings": self.settings.model_dump(),
            "architecture": architecture,
            "environment": describe_environment(self.player.env),
            "quantity": self.policy.quantity.name,
            "std": noise_of(self.policy),
            "labels": labels,
            "regions": regions,
            "episodes": self.episodes,
            "updates": self.updates,
            "steps": self.steps,
            "chance": self.chance.bit_generator.state,
        }

    def restore(self, tensors: Mapping[str, NDArray[Any]], state: dict[str, Any]) -> None:
        """Go to a snapshot of a learner of the same settings, in place."""
        check_noise(self.policy, state)
        load_weights(self.policy, under("policy.", tensors))
        self._baseline.recall(under("baseline.", tensors))
        if self.rules is not None:
            self.rules.recall(under("rules.", tensors))
        self.episodes, self.updates = state["episodes"], state["updates"]
        self.steps = state["steps"]
        self.chance.bit_generator.state = state["chance"]


def _rules(constraints: Expansion, settings: LearnerSettings, policy: Policy) -> Rules:
    whole = isinstance(settings.selection, Everywhere)
    if constraints.regional and whole and settings.enforcement == "one_step":
        raise InvalidArgument(
            "selection 'everywhere' holds regions exactly, enforcement 'one_step' does not: choose "
            "selection 'maximum_deviation' or 'maximum_return' (the paper), or enforcement 'exact'."
        )
    return make_rules(constraints, settings.selection, policy)
