"""The largest violation that counts as none: one default, one check, one wording.

Points have one, since no network meets a bound to the last digit; states of regions have none. How
small it can be is a matter of the policy's precision: with 1e-6, enforcements on steep networks in
float32 fail in the rounding of their logits, with 1e-5 none of 48 does (tests/sb3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, final

import numpy as np
import torch

from handrail.errors import InvalidArgument
from handrail.policies import VALUE, Policy

if TYPE_CHECKING:
    from handrail.constraints.rows import Rows
    from handrail.constraints.violations import Violations

# Of a policy in float64, and of one that computes less exactly.
DEFAULT_TOLERANCE, _COARSE = 1e-6, 1e-5

# A network's last sum rounds more than once: a few spacings of its numbers.
_SPACINGS = 4.0


@final
@dataclass(frozen=True)
class Tolerance:
    """As somebody gave it, refused if it cannot be meant.

    Args:
        given: None for what suits the policy's precision.
        zero: whether none at all may be asked for. Measuring can do that; what is held by steps of
            the network cannot.
    """

    given: float | None = None
    zero: bool = False

    def __post_init__(self) -> None:
        if self.given is not None:
            check_tolerance(self.given, zero=self.zero)

    def to_measure(self, policy: Policy, measured: Rows | Violations | None) -> float:
        """As it was given; else the default, or what bounds of this size can be told apart by."""
        if self.given is not None:
            return float(self.given)
        usual = DEFAULT_TOLERANCE if policy.dtype == torch.float64 else _COARSE
        return max(usual, finest_tolerance(policy, measured))

    def to_hold(self, policy: Policy, rows: Rows | None) -> float:
        """The same; refused if it is finer than the policy computes."""
        finest = finest_tolerance(policy, rows)
        if self.given is not None and self.given < finest:
            precision = str(policy.dtype).removeprefix("torch.")
            raise InvalidArgument(
                f"A policy in {precision} cannot hold its bounds to within {self.given:g}: numbers "
                f"of their size are known to no better than {_rounded_up(finest)}. Give a "
                "tolerance of at least that, or convert the network with module.double()."
            )
        allowed = self.to_measure(policy, rows)
        _refuse_ties(policy, rows, allowed)
        return allowed


def _refuse_ties(policy: Policy, rows: Rows | None, allowed: float) -> None:
    """Whoever takes the highest value is not helped by margins that the tolerance takes away."""
    if policy.quantity != VALUE or rows is None or rows.lower.min() > allowed:
        return
    raise InvalidArgument(
        f"A margin of {rows.lower.min():g} between two values is no more than the tolerance of "
        f"{allowed:g}, so another action might be taken. Ask for a larger margin, "
        "Prefer(…, by=0.1), or give a smaller tolerance."
    )


def check_tolerance(given: Any, *, zero: bool) -> None:
    """A finite number above 0, or from 0 on."""
    number = isinstance(given, Real) and not isinstance(given, bool) and math.isfinite(given)
    if not number or given < 0.0 or (given == 0.0 and not zero):
        least = "from 0 on" if zero else "above 0"
        raise InvalidArgument(f"The tolerance must be a finite number {least}, not {given!r}.")


def finest_tolerance(policy: Policy, rows: Rows | Violations | None) -> float:
    """What outputs near the largest bound can be told apart by: a mean of 750 is not held to 1e-5.

    Of points, in less than float64; else 0.
    """
    if policy.dtype == torch.float64 or rows is None:
        return 0.0
    bounds = np.abs([rows.lower, rows.upper])
    largest = bounds[np.isfinite(bounds)].max(initial=0.0)
    return _SPACINGS * torch.finfo(policy.dtype).eps * float(largest)


def _rounded_up(value: float) -> str:
    """Two digits, not below the value."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return f"{math.ceil(value / unit) * unit:.2g}"
