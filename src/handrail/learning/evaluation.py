"""How good a policy is, and whether it obeys: both in one answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import numpy as np

from handrail.constraints import Violations


@final
@dataclass(frozen=True)
class Evaluation:
    """Episodes played without learning.

    Attributes:
        scores: one per episode.
        lengths: steps of each.
        violations: of the policy that played, if it has constraints.
        tolerance: the violation that counts as none.
    """

    scores: tuple[float, ...]
    lengths: tuple[int, ...]
    violations: Violations | None
    tolerance: float

    @property
    def mean(self) -> float:
        """Average score."""
        return float(np.mean(self.scores))

    @property
    def deviation(self) -> float:
        """Standard deviation of the scores."""
        return float(np.std(self.scores))

    @property
    def satisfied(self) -> bool:
        """Whether every constraint holds, within the tolerance."""
        return self.worst_violation is None or self.worst_violation <= self.tolerance

    @property
    def worst_violation(self) -> float | None:
        """Positive means broken; None without constraints."""
        return None if self.violations is None else self.violations.worst_violation

    def __str__(self) -> str:
        text = f"{len(self.scores)} episodes: {self.mean:.1f} ± {self.deviation:.1f}"
        if self.violations is None:
            return text
        broken = int((self.violations.violations > self.tolerance).sum())
        verdict = f"{broken} of {len(self.violations)} constraint rows violated"
        worst = f"worst {self.violations.worst_violation:+.1e}, tolerance {self.tolerance:g}"
        return f"{text}; {verdict} ({worst})"
