"""What an environment says an episode costs, apart from its rewards: `info["cost"]`, step by step.

Safe reinforcement learning has agreed on that place (Safety Gymnasium, OmniSafe). Handrail learns
nothing from costs: it records them, so that what constraints bought can be seen.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from handrail.errors import EnvironmentFailure

COST = "cost"
"""In the `info` of a step."""


def cost_among(infos: Mapping[str, Any], number: int) -> Any:
    """The cost of one of several environments that stepped together; None if it named none.

    Gymnasium puts the values of all of them into an array, with a mask of who gave one beside it.
    """
    if COST not in infos:
        return None
    mask = infos.get(f"_{COST}")
    return infos[COST][number] if mask is None or mask[number] else None


def total_cost(costs: Mapping[int, Any]) -> float | None:
    """The sum over an episode, of costs by their step; None if there was none at all.

    A step without one costs nothing: many environments name a cost only where there is one.
    """
    if not costs:
        return None
    return math.fsum(_number(cost, step) for step, cost in costs.items())


def known_costs(costs: Iterable[float | None]) -> list[float]:
    """Of several episodes; none at all if no episode has one.

    An environment that names a cost only where there is one leaves out whole episodes, too.
    """
    found = list(costs)
    return [one or 0.0 for one in found] if any(one is not None for one in found) else []


def _number(cost: Any, step: int) -> float:
    """One finite number, or an array of one."""
    value = np.asarray(cost)
    if value.size == 1 and value.dtype.kind in "biuf" and np.isfinite(value).all():
        return float(value.item())
    raise EnvironmentFailure(
        f'The environment\'s info["{COST}"] is {cost!r} at step {step}. It must be one finite '
        "number."
    )
