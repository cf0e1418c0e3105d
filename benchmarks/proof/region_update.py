"""What holding the paper's six regions costs a learner, next to collecting its episodes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import final

import numpy as np

from benchmarks.harness import quartiles_of
from benchmarks.plan import Plan
from benchmarks.proof.hold import Hold, taped_holds
from handrail.learning import Reinforce, Seconds
from handrail.rulebook import load_rulebook, with_settings
from handrail.runs import make_agent

# What an update that holds regions may cost, in units of collecting its episode.
MOST = 3.0


@final
@dataclass(frozen=True)
class HoldingCost:
    """One way to hold regions; seconds are medians over the updates.

    Attributes:
        prove: whether every update ended with a proof.
        updates: that were counted, an episode each.
        collecting: the episode.
        predicting: gradient, linearisation and effect of the step.
        solving: for the safe returns.
        updating: the step, the search for violated states (or the proof), the exchange.
        update: the three together.
        ratio: update over collecting, of the medians.
        quartiles: of the ratios of the updates.
        without_exchange: the share of the updates after which no state was found violated.
        working_states: of all regions together, a median.
    """

    prove: bool
    updates: int
    collecting: float
    predicting: float
    solving: float
    updating: float
    update: float
    ratio: float
    quartiles: tuple[float, float]
    without_exchange: float
    working_states: float


def measure_holding(plan: Plan) -> list[HoldingCost]:
    """Learn with the bundled file's settings, without a proof and with one, in turns."""
    agents = {prove: _agent(plan, prove) for prove in (False, True)}
    spent: dict[bool, list[Seconds]] = {prove: [] for prove in agents}
    holds: dict[bool, list[Hold]] = {prove: [] for prove in agents}
    for _ in range(plan.regions.first_updates + plan.regions.updates):
        for prove, agent in agents.items():
            with taped_holds() as tape:
                agent.learn(episodes=1, progress_bar=False, callbacks=[_noting(spent[prove])])
            holds[prove] += tape
    first = plan.regions.first_updates
    return [_cost(prove, spent[prove][first:], holds[prove][first:]) for prove in agents]


def _agent(plan: Plan, prove: bool) -> Reinforce:
    selection = {"strategy": "everywhere", "prove": prove}
    book = load_rulebook("cartpole_regions")
    return make_agent(with_settings(book, network={"hidden": [plan.width]}, selection=selection))


def _noting(spent: list[Seconds]) -> Callable[[object, object, Seconds], None]:
    return lambda _agent, _record, seconds: spent.append(seconds)


def _cost(prove: bool, spent: list[Seconds], holds: list[Hold]) -> HoldingCost:
    collecting = [one.collecting for one in spent]
    update = [one.predicting + one.solving + one.updating for one in spent]
    return HoldingCost(
        prove=prove,
        updates=len(spent),
        collecting=float(np.median(collecting)),
        predicting=float(np.median([one.predicting for one in spent])),
        solving=float(np.median([one.solving for one in spent])),
        updating=float(np.median([one.updating for one in spent])),
        update=float(np.median(update)),
        ratio=float(np.median(update) / np.median(collecting)),
        quartiles=quartiles_of(update, collecting),
        without_exchange=float(np.mean([one.rounds == 0 for one in holds])),
        working_states=float(np.median([one.working_states for one in holds])),
    )
