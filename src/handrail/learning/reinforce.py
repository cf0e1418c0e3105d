"""REINFORCE under constraints: the paper's Algorithms 1 and 2, and the exact form.

A turn is: collect episodes → what was each step worth → one constrained update → record. What all
learners have in common is in `learner`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import final

import numpy as np
from numpy.typing import ArrayLike
from typing_extensions import override

from handrail.errors import InfeasibleConstraints
from handrail.learning.episode import Episode
from handrail.learning.learner import Learner
from handrail.learning.player import AnyEnvironment
from handrail.learning.record import Record, Seconds
from handrail.learning.update import Timing, Update, apply_update
from handrail.policies import Policy
from handrail.rulebook import AnyConstraints
from handrail.settings import (
    BaselineName,
    EnforcementMode,
    Everywhere,
    Objective,
    Reach,
    Selection,
    learner_settings,
)
from handrail.tangent import Batch

_EVERYWHERE = Everywhere()

BeforeUpdate = Callable[[Sequence[Episode], Batch], None]


@final
class Reinforce(Learner):
    """A policy that learns from episodes and obeys constraints meanwhile.

    With `enforcement="exact"` the policy is made to obey here, before its first step, and after
    every update, so no policy that violates a constraint ever acts. The policy is changed in place.

    Args:
        env: a Gymnasium id, an environment, or a vector environment, whose sub-environments play
            the episodes of an update side by side.
        policy: learns; by default a fresh network, one hidden layer of 5000, from the seed.
        constraints: to obey: a list, a `Rulebook`, or the path or bundled name of a file.
        step_size: α of one update. With several episodes an update, their gradients are averaged.
        discount: γ, what a reward is worth one step earlier.
        baseline: what returns are compared with; safe returns never are.
        baseline_window: how many recent episodes "time_average" and "value" look at.
        advantage_decay: λ of generalised advantages ("value" only).
        episodes_per_update: collected before each update.
        enforcement: "exact"; "one_step" for the paper's Algorithm 2; "none" only measures.
        selection: of constraints on regions: `Everywhere()` by default, `MaximumReturn` or
            `MaximumDeviation`.
        reach: how far "exact" may move the policy where no constraint speaks: 0 (only where I
            said) to 10 (advice for everywhere), `Fading(…)` as experience arrives, or "auto".
        references: (n, *observation_shape), where the policy should stay as it is for as long as
            there is no experience; by default random states of the observation space.
        objective: what safe returns of "one_step" keep small: "returns" (the paper) or
            "parameters".
        soft: let contradicting constraints give way ("one_step" only).
        tolerance: the largest violation that "exact" leaves at points; by default 1e-6, of a
            policy in float32 1e-5.
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
        constraints: AnyConstraints = (),
        *,
        step_size: float = 1e-4,
        discount: float = 0.99,
        baseline: BaselineName = "value",
        baseline_window: int = 100,
        advantage_decay: float = 0.98,
        episodes_per_update: int = 1,
        enforcement: EnforcementMode = "exact",
        selection: Selection = _EVERYWHERE,
        reach: Reach = "auto",
        references: ArrayLike | None = None,
        objective: Objective = "returns",
        soft: bool = False,
        tolerance: float | None = None,
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
            reach=reach,
            objective=objective,
            soft=soft,
            tolerance=tolerance,
            freeze_after=freeze_after,
            use_every=use_every,
            seed=seed,
        )
        super().__init__(env, policy, constraints, settings, references)
        self._obey()

    @override
    def turn(self, before_update: BeforeUpdate | None = None) -> tuple[list[Record], Seconds]:
        """One update of Algorithm 2, from as many episodes as it has.

        Args:
            before_update: shown what the update learns from, just before it.
        """
        start = perf_counter()
        episodes = self._play()
        collecting = perf_counter() - start
        update, timing = None, Timing()
        if not self._frozen:
            with self._forgetting_on_failure():
                update, timing = self._update(episodes, before_update)
        return self._recorded(episodes, collecting, update, timing)

    def _update(
        self, episodes: Sequence[Episode], before_update: BeforeUpdate | None
    ) -> tuple[Update, Timing]:
        batch = self._batch(episodes)
        if before_update is not None:
            before_update(episodes, batch)
        try:
            return apply_update(
                self.policy, self.rail, batch, self.settings, lambda: self._take_in(episodes)
            )
        except InfeasibleConstraints as error:
            if self.settings.enforcement != "one_step" or not self._has_regions:
                raise
            raise InfeasibleConstraints(
                f"{error} One step a time can diverge on regions, as the paper's update does "
                "on large ones: hold them with enforcement 'exact' and selection 'everywhere'."
            ) from error

    def _batch(self, episodes: Sequence[Episode]) -> Batch:
        """All steps of the episodes, or every k-th, with what each was worth to the average."""
        every = self.settings.use_every
        advantages = self.baseline.advantages(episodes, self.settings.discount)
        return Batch(
            np.concatenate([episode.states[::every] for episode in episodes]),
            np.concatenate([episode.actions[::every] for episode in episodes]),
            np.concatenate([advantage[::every] for advantage in advantages]) / len(episodes),
        )
