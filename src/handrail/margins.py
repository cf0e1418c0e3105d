"""A bound on a weighted sum of action probabilities, as a margin of the logits; exact softmax.

Σ_a w_a π_a ≥ L is the same as Σ_a (w_a - L) exp(z_a) ≥ 0. With the actions of positive and negative
coefficient apart, P and N, that is

    margin = log Σ_P |w_a - L| exp(z_a) - log Σ_N |w_b - L| exp(z_b) ≥ 0,

which for one action is its log-odds minus those of the bound. No pair of actions is compared on its
own, so nothing is lost when there are more than two.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from handrail.arrays import Array, Indices


@final
@dataclass(frozen=True)
class Margin:
    """One side of a constraint: value ≥ threshold (sign +1) or value ≤ threshold (sign -1).

    Attributes:
        threshold: what the value is compared with.
        sign: +1 for a lower bound, -1 for an upper one.
        coefficients: (n_actions,), sign · (w_a - threshold).
    """

    threshold: float
    sign: float
    coefficients: Array

    @classmethod
    def at_least(cls, weights: Array, threshold: float) -> Margin:
        """Of Σ w_a π_a ≥ threshold."""
        return cls(threshold, 1.0, weights - threshold)

    @classmethod
    def at_most(cls, weights: Array, threshold: float) -> Margin:
        """Of Σ w_a π_a ≤ threshold."""
        return cls(threshold, -1.0, threshold - weights)

    @property
    def positive(self) -> Indices:
        """Actions that help."""
        return np.flatnonzero(self.coefficients > 0.0)

    @property
    def negative(self) -> Indices:
        """Actions that harm."""
        return np.flatnonzero(self.coefficients < 0.0)

    def of_logits(self, logits: Array) -> Array:
        """Margins (n,) from logits (n, n_actions); negative means broken."""
        sizes = np.abs(self.coefficients)
        for_it, against = self.positive, self.negative
        gain = log_sum_exp(logits[:, for_it] + np.log(sizes[for_it]))
        loss = log_sum_exp(logits[:, against] + np.log(sizes[against]))
        result: Array = gain - loss
        return result

    def differences(self, logits: Array) -> tuple[Array, Array]:
        """Linear functions D (n_negative, n_actions), k (n_negative,): -margin ≤ LSE(D z + k).

        Jensen: log Σ_P u_a exp(z_a) ≥ Σ_P λ_a (z_a + log u_a) + entropy(λ) for all λ, with equality
        where λ is the softmax, here that at the given logits (n_actions,).
        """
        sizes = np.abs(self.coefficients)
        for_it, against = self.positive, self.negative
        shifted = logits[for_it] + np.log(sizes[for_it])
        share = np.exp(shifted - log_sum_exp(shifted))
        share /= share.sum()
        entropy = -float(share[share > 0.0] @ np.log(share[share > 0.0]))
        gain_constant = float(share @ np.log(sizes[for_it])) + entropy
        differences = np.zeros((len(against), len(logits)))
        differences[np.arange(len(against)), against] = 1.0
        differences[:, for_it] -= share
        return differences, np.log(sizes[against]) - gain_constant

    def worst_value(self, margin: float) -> float:
        """The value Σ w_a π_a that is at worst left when the margin is at least this.

        With r = (Σ_N …)/(Σ_P …) ≤ exp(-margin), the excess over the threshold is
        (1 - r)/(Σπ_P/Σ_P… + r Σπ_N/Σ_N…); coefficients bound the two quotients. Exact where all
        weights are 0 or 1.
        """
        if not len(self.negative):
            return self.threshold + self.sign * float(self.coefficients.min())
        helping = self.coefficients[self.positive]
        harming = -self.coefficients[self.negative]
        if margin >= 0.0:
            ratio = float(np.exp(-min(margin, 700.0)))
            excess = (1.0 - ratio) / (1.0 / helping.min() + ratio / harming.min())
            if (self.coefficients == 0.0).any():  # neutral actions may have all the probability
                excess = 0.0
        else:
            inverse = float(np.exp(max(margin, -700.0)))
            excess = (inverse - 1.0) / (inverse / helping.max() + 1.0 / harming.max())
        return self.threshold + self.sign * float(excess)


def log_sum_exp(values: Array) -> Array:
    """Log Σ exp along the last axis, without overflow. SciPy's takes ten times as long on few."""
    highest: Array = values.max(axis=-1)
    if values.shape[-1] == 1:
        return highest
    result: Array = highest + np.log(np.exp(values - highest[..., None]).sum(axis=-1))
    return result
