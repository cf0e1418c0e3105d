"""What is asked of two networks at once: the one network that both are, and its margins.

The policy and what it is compared with, another policy or itself at the image of a state, become
one network with the outputs of both (`policies.joined`). Everything else of a proof is as ever.

Of means, a difference is a weighted sum of its outputs. Of probabilities, σ(x) - σ(y) ≤ d is asked
of two log-odds. The margin is half of what both may move, each to its worse side, before that is
broken: σ(x + m) - σ(y - m) = d. With c = (x + y)/2 and h = (x - y)/2 + m, the difference is
sinh h / (cosh c + cosh h), so

    m = artanh d + arsinh(k cosh c) - (x - y)/2,    k = d / √(1 - d²).

It is convex in (x, y), so its tangents are below it, whatever the states: what a cell needs. Kept
exact is that near 0 and 1 log-odds may differ by more than at 1/2, and that what the two networks
have in common cancels in x - y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np
from typing_extensions import override

from handrail._types import Array, Indices
from handrail.constraints import Difference, Paired
from handrail.policies import (
    MEAN,
    LayerArrays,
    Layers,
    Policy,
    Quantity,
    Refusal,
    TwinNetwork,
    joined,
    mirrored,
)
from handrail.proof.margin import Margin, UniformMargin, at_least, at_most, log_sum_exp, outwards
from handrail.proof.relaxation import has_lines
from handrail.proof.rounding import FLOAT32, Arithmetic, arithmetic_of

# Further out than this (and log 1/k), tangents are as steep as they become.
_FAR = 10.0

# Of what was computed in float64, to the safe side.
_LARGER = 1.0 + 1e-12


@final
@dataclass(frozen=True)
class Pair:
    """A policy and its twin.

    Attributes:
        layers: both as one; of the policy alone, if its twin cannot be looked into.
        acting: what the less exact of the two acts in.
        twin: both as one once more, if they have the same layers: tighter where they hardly differ.
        obstacle: why nothing can be known; empty if nothing is in the way.
    """

    layers: LayerArrays
    acting: Arithmetic
    twin: TwinNetwork | None = None
    obstacle: str = ""

    @classmethod
    def of(cls, policy: Policy, layers: LayerArrays, constraint: Paired) -> Pair:
        """Of a policy with these layers."""
        twin, acting = constraint.twin, arithmetic_of(policy.dtype)
        second: LayerArrays | Refusal = layers
        if twin.policy is not None:
            acting = FLOAT32 if twin.precision == "float32" else acting
            second = _layers(twin.policy)
        if isinstance(second, Refusal):
            reason = f"the policy that it is compared with: {second.reason}"
            return cls(layers, acting, obstacle=reason)
        if twin.matrix is not None:
            return cls(joined(layers, mirrored(second, twin.matrix)), acting)
        return cls(joined(layers, second), acting, TwinNetwork.of(layers, second))


def _layers(policy: Policy) -> LayerArrays | Refusal:
    read = Layers.of(policy.module)
    if isinstance(read, Refusal):
        return read
    unknown = [one.name for one in read.activations if not has_lines(one)]
    return Refusal(f"no lines around {unknown[0]} are known") if unknown else read.arrays()


def difference_margins(
    quantity: Quantity, difference: Difference, largest: float
) -> tuple[Margin, Margin]:
    """From -largest, and from largest."""
    if quantity == MEAN:
        weights = np.concatenate([difference.own, -difference.other])
        return at_least(MEAN, weights, -largest), at_most(MEAN, weights, largest)
    action, other = int(difference.own.argmax()), int(difference.other.argmax())
    n_actions = len(difference.own)
    below, above = (GapMargin(action, other, n_actions, largest, sign) for sign in (-1.0, 1.0))
    return below, above


@final
@dataclass(frozen=True)
class GapMargin(UniformMargin):
    """p - q ≤ largest (sign +1) or p - q ≥ -largest (sign -1), of two probabilities.

    Attributes:
        action: of the first network, whose probability is p.
        other: of the second, whose probability is q.
        n_actions: of each.
        largest: how far apart they may be.
        sign: of which side it is.
    """

    action: int
    other: int
    n_actions: int
    largest: float
    sign: float

    @property
    @override
    def can_break(self) -> bool:
        """Probabilities are never 1 apart."""
        return self.largest < 1.0

    @property
    def size(self) -> float:
        """Of the constants of a tangent: k, where it touches, and logarithms of shares."""
        return 8.0 * (abs(self._log_k) if self.largest else 0.0) + 8.0 * (_FAR + self.n_actions)

    @property
    def _log_k(self) -> float:
        """-inf of d = 0."""
        with np.errstate(divide="ignore"):
            return float(np.log(self.largest) - 0.5 * np.log1p(-(self.largest**2)))

    @property
    def _sides(self) -> tuple[tuple[int, Indices], tuple[int, Indices]]:
        """The action that must not be larger, and the other one; each with the others beside it."""
        own = np.arange(self.n_actions)
        first = self.action, np.delete(own, self.action)
        second = self.n_actions + self.other, self.n_actions + np.delete(own, self.other)
        return (first, second) if self.sign > 0.0 else (second, first)

    @override
    def of_raw(self, raw: Array, states: Array) -> Array:
        """From the logits of both."""
        del states
        (upper, beside_upper), (lower, beside_lower) = self._sides
        x = raw[:, upper] - log_sum_exp(raw[:, beside_upper])
        y = raw[:, lower] - log_sum_exp(raw[:, beside_lower])
        value, _ = self._half_width(0.5 * (x + y))
        return 0.5 * value - 0.25 * (x - y)

    def _half_width(self, c: Array) -> tuple[Array, Array]:
        """Of artanh d + arsinh(k cosh c), without overflow, the value and the slope."""
        log_v = self._log_k + np.abs(c) + np.log1p(np.exp(-2.0 * np.abs(c))) - np.log(2.0)
        arsinh = np.logaddexp(log_v, 0.5 * np.logaddexp(0.0, 2.0 * log_v))
        with np.errstate(over="ignore"):
            slope = np.tanh(c) / np.sqrt(1.0 + np.exp(-2.0 * log_v))
        return np.arctanh(self.largest) + arsinh, slope

    @override
    def differences(self, raw: Array) -> tuple[Array, Array]:
        """From the tangent, -margin ≤ a x - b y - …, a and b at least 0, a + b = 1/2.

        -log Σ exp(z) in x is below a linear function of Jensen's (`SoftmaxMargin.differences`). In
        -b y = -b z + b log t, t = Σ exp(z), the power t^b is below its tangent at the given logits,
        (1 - b) t₀^b + b t₀^(b - 1) t: again a sum of exponentials.
        """
        (upper, beside_upper), (lower, beside_lower) = self._sides
        log_s, log_t = log_sum_exp(raw[beside_upper]), log_sum_exp(raw[beside_lower])
        far = _FAR + abs(self._log_k) if self.largest else np.inf
        c = np.clip(0.5 * (raw[upper] - log_s + raw[lower] - log_t), -far, far)
        value, steep = (float(one) for one in self._half_width(c))
        a, b = 0.25 * (1.0 - steep), 0.25 * (1.0 + steep)
        share = np.exp(raw[beside_upper] - log_s)
        share /= share.sum()
        entropy = -float(share[share > 0.0] @ np.log(share[share > 0.0]))
        common = np.zeros(len(raw))
        common[upper], common[lower] = a, -b
        common[beside_upper] -= a * share
        constant = 0.5 * (steep * c - value) - a * entropy
        if len(beside_lower) == 1:
            common[beside_lower] += b
            return common[None], np.array([constant])
        rows = np.tile(common, (1 + len(beside_lower), 1))
        rows[np.arange(1, len(rows)), beside_lower] += 1.0
        logs = np.full(len(rows), np.log(b) + (b - 1.0) * log_t)
        logs[0] = np.log1p(-b) + b * log_t
        return rows, constant + logs

    @override
    def worst_value(self, margin: float) -> float:
        """How far they are apart at most, with the sign."""
        return outwards(self.sign * self.largest, -self.sign, self.slack(margin))

    @override
    def violation(self, margin: float) -> float:
        """Each of the two is at most so far beyond the bound; never more than 1 in all."""
        if not margin < 0.0:
            return super().violation(margin)
        return _LARGER * min(2.0 * float(np.tanh(-0.5 * margin)), 1.0 - self.largest)

    @override
    def slack(self, margin: float) -> float:
        """With E = exp(m): d (1 - d) (E - 1) / (d + (1 - d) E).

        From a pair on the bound, p = q + d, both go back by m in log-odds. What p loses is concave
        in p, and what q gains in q, so the sum is least at an end: q = 0 or p = 1, which are alike.
        """
        if not margin >= 0.0:
            return np.nan
        back = -float(np.expm1(-2.0 * margin))  # 1 - 1/E
        d = self.largest
        return d * (1.0 - d) * back / (d * (1.0 - back) + (1.0 - d))
