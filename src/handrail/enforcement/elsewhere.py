"""The policy where no constraint speaks, while it is made to obey where they do."""

from __future__ import annotations

import copy
from typing import final

from handrail._types import Array
from handrail.enforcement.anchor import Anchor
from handrail.enforcement.influence import Influence, influence_between
from handrail.enforcement.linearisation import Linearisation
from handrail.enforcement.references import References, spread
from handrail.policies import Policy
from handrail.settings import ADVICE

# By which references that stand in the way give way.
_YIELD = 10.0

# References that enter the metric: the cost of a step grows with their square.
COORDINATES = 128


@final
class Elsewhere:
    """What should stay as it is while one policy is held once, and how much it stays.

    References that stand in the way yield: those right at the border of a region cannot stay when
    the region moves, so the reach grows until the constraints can be met.

    Args:
        references: where the policy should stay; None where nothing is known of it.
        reach: how far what is asked at one state may move the others (see `anchor`).
    """

    def __init__(self, references: References | None, reach: float) -> None:
        self._references = references
        self._reach = reach
        self._before: Array | None = None
        self._anchor: Anchor | None = None

    @classmethod
    def unknown(cls) -> Elsewhere:
        """Only the shortest way of the weights counts."""
        return cls(None, ADVICE)

    @property
    def matters(self) -> bool:
        """Whether the next step keeps it in mind; as advice, the shortest way is as good."""
        return self._references is not None and self._reach < ADVICE

    @property
    def reach(self) -> float:
        """At present."""
        return self._reach

    def begin(self, policy: Policy) -> None:
        """Remember the policy as it is before its first step."""
        if self._before is None and self._references is not None:
            self._before = policy.outputs(self._references.states)

    def anchor(self, model: Linearisation) -> Anchor:
        """The metric: of a plain network the one of the first step, else of the present weights.

        What is asked changes from step to step; where the policy should stay does not.
        """
        assert self._references is not None  # it matters
        if self._anchor is None or self._anchor.functionals.policy.layers() is None:
            states = spread(self._references.states, COORDINATES)
            self._anchor = Anchor(_still(model.policy), states, COORDINATES)
        return self._anchor

    def renew(self) -> None:
        """The policy has moved far: take the metric of its present weights."""
        self._anchor = None

    def give_way(self) -> None:
        """The references stand in the way."""
        self._reach = max(self._reach, _YIELD**-6) * _YIELD

    def let_go(self) -> None:
        """Nothing else helps: take the shortest way from here."""
        self._reach = max(self._reach, ADVICE)

    def influence(self, policy: Policy) -> Influence | None:
        """What has become of it; None where no reference is known."""
        if self._references is None:
            return None
        after = policy.outputs(self._references.states)
        before = after if self._before is None else self._before
        return influence_between(self._references, before, after, policy.quantity)


def _still(policy: Policy) -> Policy:
    """The policy, safe from steps, if what does not move can be told from what does."""
    if policy.layers() is None:
        return policy
    return policy.with_module(copy.deepcopy(policy.module))
