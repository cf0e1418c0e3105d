"""What continuous actions are clipped to before they act."""

from __future__ import annotations

from typing import Any

import numpy as np

from handrail.arrays import Array
from handrail.errors import InvalidArgument, ShapeMismatch


def action_limits(limits: Any, n_actions: int) -> tuple[Array, Array]:
    """(low, high) as callers say it, each a number or (n_actions,)."""
    try:
        low, high = (np.asarray(end, dtype=np.float64) for end in limits)
    except (TypeError, ValueError):
        raise InvalidArgument(
            f"limits are the lowest and the highest action, such as (-2.0, 2.0), not {limits!r}."
        ) from None
    for end in (low, high):
        if end.shape not in ((), (n_actions,)):
            raise ShapeMismatch(
                f"The actions have {n_actions} dimensions, but limits have the shape "
                f"{end.shape}: expected two numbers, or two of shape ({n_actions},)."
            )
    if not (low <= high).all():  # nor if one is not a number
        raise InvalidArgument(
            f"limits are (low, high) with low up to high, such as (-2.0, 2.0), not {limits!r}."
        )
    return low, high
