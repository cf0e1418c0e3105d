"""A bound on a weighted sum of a policy's outputs, as a margin of what its network returns.

Of probabilities, with the softmax kept exact: Σ_a w_a π_a ≥ L is the same as
Σ_a (w_a - L) exp(z_a) ≥ 0. With the actions of positive and negative coefficient apart, P and N,
that is

    margin = log Σ_P |w_a - L| exp(z_a) - log Σ_N |w_b - L| exp(z_b) ≥ 0,

which for one action is its log-odds minus those of the bound. No pair of actions is compared on its
own, so nothing is lost when there are more than two.

Of mean actions, which the network returns as they are, it is the distance from the bound itself;
and of standard deviations, of a network that ends with them (`Policy.decided_layers`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from scipy.special import expit
from typing_extensions import override

from handrail._types import Array, Indices, Mask
from handrail.errors import InvalidPolicy
from handrail.formulas import Formula
from handrail.policies import MEAN, PROBABILITY, STD, BranchProbability, MeanAndStd, Quantity
from handrail.regions import Cells

_EPSILON = float(np.finfo(np.float64).eps)

# What was computed in a few operations of float64 is not larger than this times itself.
LARGER = 1.0 + 64.0 * _EPSILON


class Local(NamedTuple):
    """Linear functions of raw outputs z and states s on each of n cells.

    There -margin ≤ LSE(D z + E s + k) + Σ spread_a · |z_a - z_a at the centre|.

    Attributes:
        differences: D (n, m, n_actions).
        constants: k (n, m).
        slope: E (n, m, n_coordinates), or (n, 1, n_coordinates) for all m; None for 0.
        spread: (n, n_actions); None for 0.
    """

    differences: Array
    constants: Array
    slope: Array | None = None
    spread: Array | None = None


class Margin(ABC):
    """One side of a constraint, as a function of raw outputs and states; negative means broken."""

    @property
    @abstractmethod
    def can_break(self) -> bool:
        """Whether any outputs at all would break it."""

    @property
    @abstractmethod
    def size(self) -> float:
        """Of its constants, which are rounded with everything else."""

    @property
    def functions(self) -> tuple[Formula, ...]:
        """Of the state, that it is made of: they must be bounded on every cell."""
        return ()

    @abstractmethod
    def of_raw(self, raw: Array, states: Array) -> Array:
        """Margins (n,) from raw outputs (n, n_actions) at states (n, n_coordinates)."""

    @abstractmethod
    def local(self, cells: Cells, raw: Array) -> Local:
        """Linear functions on n cells, from the raw outputs (n, n_actions) at their centres."""

    def importance(self) -> Array | float:
        """How much it bends along each coordinate of the state (n_coordinates,), of itself."""
        return 0.0

    @abstractmethod
    def slack(self, margin: float) -> float:
        """How far inside its bound the value at least is, when the margin is at least this."""

    def violation(self, margin: float) -> float:
        """How far beyond its bound the value at most is, when the margin is at least this."""
        return -self.slack(margin) if margin >= 0.0 else np.inf

    @abstractmethod
    def worst_value(self, margin: float) -> float:
        """The value Σ w_a output_a that is at worst left when the margin is at least this.

        Rounded outwards: towards the threshold, and not beyond it. NaN of a negative margin.
        """


class UniformMargin(Margin):
    """A margin with the same weights of the outputs at every state."""

    @abstractmethod
    def differences(self, raw: Array) -> tuple[Array, Array]:
        """Linear functions D (m, n_actions), k (m,) with -margin ≤ LSE(D z + k) for all z.

        With equality at the given raw outputs (n_actions,); without what `plane_above` adds.
        """

    def plane_above(self, cells: Cells) -> tuple[Array, Array] | None:
        """Slopes (n, n_coordinates) and offsets (n,) to add on cells; None if there are none."""
        del cells
        return None

    @override
    def local(self, cells: Cells, raw: Array) -> Local:
        """The differences of every cell, and the plane above what depends on the state."""
        found = [self.differences(one) for one in raw]
        differences, constants = np.stack([d for d, _ in found]), np.stack([k for _, k in found])
        plane = self.plane_above(cells)
        if plane is None:
            return Local(differences, constants)
        return Local(differences, constants + plane[1][:, None], plane[0][:, None])


@final
@dataclass(frozen=True)
class SoftmaxMargin(UniformMargin):
    """A sum of probabilities ≥ threshold (sign +1) or ≤ threshold (sign -1).

    Attributes:
        threshold: what the value is compared with.
        sign: +1 for a lower bound, -1 for an upper one.
        coefficients: (n_actions,), sign · (w_a - threshold); of actions of other branches 0.
        has_neutral: whether an action that competes is neither for it nor against it.
    """

    threshold: float
    sign: float
    coefficients: Array
    has_neutral: bool

    @classmethod
    def of(
        cls, weights: Array, threshold: float, sign: float, among: Mask | None = None
    ) -> SoftmaxMargin:
        """Of weights (n_actions,) of the probabilities; `among` compete, by default all of them."""
        competing = np.ones(len(weights), dtype=bool) if among is None else among
        coefficients = np.where(competing, sign * (weights - threshold), 0.0)
        has_neutral = bool((coefficients[competing] == 0.0).any())
        return cls(threshold, sign, coefficients, has_neutral)

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for margins that are the same, and for no others."""
        return "softmax", self.threshold, self.sign, self.coefficients.tobytes(), self.has_neutral

    @property
    def positive(self) -> Indices:
        """Actions that help."""
        return np.flatnonzero(self.coefficients > 0.0)

    @property
    def negative(self) -> Indices:
        """Actions that harm."""
        return np.flatnonzero(self.coefficients < 0.0)

    @property
    def can_break(self) -> bool:
        """Not if no action harms: a softmax cannot leave the range of its weights."""
        return bool((self.coefficients < 0.0).any())

    @property
    def size(self) -> float:
        """Of the logarithms of the coefficients, and of their number's."""
        known = self.coefficients[self.coefficients != 0.0]
        return float(np.abs(np.log(np.abs(known))).max(initial=0.0)) + len(self.coefficients)

    @override
    def of_raw(self, raw: Array, states: Array) -> Array:
        """From logits."""
        del states
        sizes = np.abs(self.coefficients)
        for_it, against = self.positive, self.negative
        gain = log_sum_exp(raw[:, for_it] + np.log(sizes[for_it]))
        loss = log_sum_exp(raw[:, against] + np.log(sizes[against]))
        result: Array = gain - loss
        return result

    def differences(self, raw: Array) -> tuple[Array, Array]:
        """One for every action that harms.

        Jensen: log Σ_P u_a exp(z_a) ≥ Σ_P λ_a (z_a + log u_a) + entropy(λ) for all λ, with equality
        where λ is the softmax, here that at the given logits.
        """
        sizes = np.abs(self.coefficients)
        for_it, against = self.positive, self.negative
        shifted = raw[for_it] + np.log(sizes[for_it])
        share = np.exp(shifted - log_sum_exp(shifted))
        share /= share.sum()
        entropy = -float(share[share > 0.0] @ np.log(share[share > 0.0]))
        gain_constant = float(share @ np.log(sizes[for_it])) + entropy
        differences = np.zeros((len(against), len(raw)))
        differences[np.arange(len(against)), against] = 1.0
        differences[:, for_it] -= share
        return differences, np.log(sizes[against]) - gain_constant

    def worst_value(self, margin: float) -> float:
        """Exact where all weights are 0 or 1.

        With r = (Σ_N …)/(Σ_P …) ≤ exp(-margin), the excess over the threshold is
        (1 - r)/(Σπ_P/Σ_P… + r Σπ_N/Σ_N…); coefficients bound the two quotients.
        """
        return outwards(self.threshold, self.sign, self.slack(margin))

    @override
    def slack(self, margin: float) -> float:
        if not margin >= 0.0:
            return np.nan
        if self.has_neutral:  # neutral actions may have all the probability
            return 0.0
        helping = self.coefficients[self.positive]
        harming = -self.coefficients[self.negative]
        lost = -float(np.expm1(-margin))  # 1 - r, with all its digits
        return float(lost / (1.0 / helping.min() + (1.0 - lost) / harming.min()))

    @override
    def violation(self, margin: float) -> float:
        """Of a negative margin, by the same quotients: now the largest coefficients bound them."""
        if not margin < 0.0:
            return super().violation(margin)
        helping = self.coefficients[self.positive].max(initial=0.0)
        harming = -float(self.coefficients.min())
        if not helping:
            return LARGER * harming
        share = float(np.exp(margin))  # 1 / r
        return float(-np.expm1(margin) / (share / helping + 1.0 / harming)) * LARGER

    def slack_at(self, margin: float, shift: float) -> float:
        """From a bound whose log-odds, with the sign, are the shift; of a threshold of 0.5.

        σ(l + m) - σ(l) has its only maximum at l = -m/2, so over a range it is least at an end.
        """
        return float(expit(shift + margin) - expit(shift)) if margin >= 0.0 else np.nan

    def violation_between(self, margin: float, low: float, high: float) -> float:
        """From bounds whose shifts are between these: worst at an end, or at -margin/2."""
        shift = np.clip(-0.5 * margin, low, high)
        return float(expit(shift) - expit(shift + margin)) * LARGER


@final
@dataclass(frozen=True)
class LinearMargin(UniformMargin):
    """A sum of mean actions ≥ threshold (sign +1) or ≤ threshold (sign -1).

    The distance from the threshold per Σ|w|, so that it has the rounding of a single output.

    Attributes:
        threshold: what the value is compared with.
        sign: +1 for a lower bound, -1 for an upper one.
        weights: (n_actions,).
        can_break: not where the network itself keeps its outputs within the threshold.
    """

    threshold: float
    sign: float
    weights: Array
    can_break: bool = True

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for margins that are the same, and for no others."""
        return "linear", self.threshold, self.sign, self.weights.tobytes(), self.can_break

    @classmethod
    def of(cls, weights: Array, threshold: float, sign: float) -> LinearMargin:
        """Of weights (n_actions,) of the mean actions."""
        return cls(threshold, sign, weights)

    @property
    def size(self) -> float:
        """Of the threshold, per Σ|w|; and of as many terms as there are weights."""
        return (abs(self.threshold) / self._size + 1.0) * len(self.weights)

    @override
    def of_raw(self, raw: Array, states: Array) -> Array:
        """From mean actions."""
        del states
        result: Array = self.sign * (raw @ self.weights - self.threshold) / self._size
        return result

    def differences(self, raw: Array) -> tuple[Array, Array]:
        """A single one, which is minus the margin itself."""
        del raw
        scale = self.sign / self._size
        return -scale * self.weights[None], np.array([scale * self.threshold])

    def worst_value(self, margin: float) -> float:
        """The margin in units of the action."""
        return outwards(self.threshold, self.sign, self.slack(margin))

    @override
    def slack(self, margin: float) -> float:
        return self._size * margin

    @override
    def violation(self, margin: float) -> float:
        return LARGER * self._size * -margin if margin < 0.0 else super().violation(margin)

    def slack_at(self, margin: float, shift: float) -> float:
        """The same from every bound."""
        del shift
        return self.slack(margin)

    def violation_between(self, margin: float, low: float, high: float) -> float:
        """The same from every bound."""
        del low, high
        return self.violation(margin)

    @property
    def _size(self) -> float:
        return float(np.abs(self.weights).sum())


def outwards(threshold: float, sign: float, excess: float) -> float:
    """Threshold + sign · excess, of an excess that is a few roundings from the real one."""
    if not excess >= 0.0:
        return np.nan
    rounding = 16.0 * _EPSILON * (abs(threshold) + abs(excess))
    safe = max(excess - rounding, 0.0)
    return float(threshold + sign * safe)


def kept_by_range(margin: UniformMargin, kept: bool) -> UniformMargin:
    """The same of a network whose own range keeps the bound; a softmax knows by itself."""
    return replace(margin, can_break=not kept) if isinstance(margin, LinearMargin) else margin


# (weights, threshold, sign) -> margin.
_MARGINS: dict[Quantity, Callable[[Array, float, float], UniformMargin]] = {
    PROBABILITY: SoftmaxMargin.of,
    MEAN: LinearMargin.of,
    STD: LinearMargin.of,
}


def at_least(quantity: Quantity, weights: Array, threshold: float) -> UniformMargin:
    """Of Σ w_a output_a ≥ threshold."""
    return _margin(quantity, weights, threshold, 1.0)


def at_most(quantity: Quantity, weights: Array, threshold: float) -> UniformMargin:
    """Of Σ w_a output_a ≤ threshold."""
    return _margin(quantity, weights, threshold, -1.0)


def _margin(quantity: Quantity, weights: Array, threshold: float, sign: float) -> UniformMargin:
    if isinstance(quantity, BranchProbability):
        return SoftmaxMargin.of(weights, threshold, sign, quantity.among(weights[None])[0])
    if isinstance(quantity, MeanAndStd):
        return LinearMargin.of(weights, threshold, sign)
    if quantity not in _MARGINS:
        raise InvalidPolicy(f"Nothing can be proven about {quantity.plural}: no margin is known.")
    return _MARGINS[quantity](weights, threshold, sign)


def log_sum_exp(values: Array) -> Array:
    """Log Σ exp along the last axis, without overflow. SciPy's takes ten times as long on few."""
    highest: Array = values.max(axis=-1)
    if values.shape[-1] == 1:
        return highest
    result: Array = highest + np.log(np.exp(values - highest[..., None]).sum(axis=-1))
    return result
