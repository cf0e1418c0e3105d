"""How the numbers of a policy become colours, and the line that divides them.

Probabilities go from light to dark, with a line at one half. A mean action whose range has both
signs has two colours, white at zero, and a line there: which way it pushes is seen first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, final

import numpy as np
from matplotlib import colormaps
from matplotlib.colors import Colormap, ListedColormap, Normalize, TwoSlopeNorm

from handrail._types import Array
from handrail.policies import STD, BranchProbability, Quantity
from handrail.report.subject import Domain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE = "0.25"  # colour of the line between two halves

# From light to dark, so that greyscale keeps the order; not too dark for black lines on it.
_SHADES = ListedColormap(colormaps["YlGnBu"](np.linspace(0.0, 0.8, 256)), name="shades")

# Blue below zero, red above, as light at both ends; grey cannot tell them apart, the line can.
_SIGNS = ListedColormap(colormaps["RdBu_r"](np.linspace(0.12, 0.88, 256)), name="signs")


@final
@dataclass(frozen=True)
class Shading:
    """Colours from `low` to `high`, and a line.

    Attributes:
        low: and below: the first colour.
        high: and above: the last one.
        line: the number at which a line is drawn.
        noun: what is shown, in front of an action's name.
        called: the line, in a legend.
    """

    low: float
    high: float
    line: float
    noun: str
    called: str

    @classmethod
    def of(cls, domain: Domain, quantity: Quantity, action: int, values: Array) -> Shading:
        """Of an action's outputs.

        Args:
            domain: may know the range of a continuous action; else it is that of the values.
            quantity: that is shown.
            action: whose.
            values: that are shown.
        """
        if quantity.adds_up or isinstance(quantity, BranchProbability):
            return PROBABILITY
        kind, action = quantity.part(action)
        if kind == STD:
            low, high = float(values.min()), float(values.max())
            line = 0.5 * (low + high)
            return cls(low, high, line, "standard deviation of", f"standard deviation {line:.2g}")
        if domain.ranges is not None:
            return cls.of_mean(*domain.ranges[action])
        known = cls.of_mean(float(values.min()), float(values.max()))
        if quantity.is_continuous:
            return known
        return replace(known, noun="value of", called=f"value {known.line:g}")

    @classmethod
    def of_mean(cls, low: float, high: float) -> Shading:
        """Of a mean action with this range: divided at zero, if zero is in it."""
        line = 0.0 if low < 0.0 < high else 0.5 * (low + high)
        return cls(low, high, line, "mean of", f"mean {line:g}")

    @property
    def colours(self) -> Colormap:
        """Two kinds where there are two signs."""
        return _SIGNS if self._has_signs else _SHADES

    @property
    def norm(self) -> Normalize:
        """From numbers to colours, in units of their own on either side of zero."""
        if self._has_signs:
            return TwoSlopeNorm(0.0, self.low, self.high)
        return Normalize(self.low, self.high)

    def extent(self, values: Array) -> Literal["neither", "min", "max", "both"]:
        """At which ends of the colours there are numbers beyond."""
        below, above = bool(values.min() < self.low), bool(values.max() > self.high)
        if below and above:
            return "both"
        return "min" if below else "max" if above else "neither"

    @property
    def _has_signs(self) -> bool:
        return self.low < self.line == 0.0 < self.high

    def label_line(self, axes: Axes, values: Array) -> None:
        """A line of the legend, where the line is drawn."""
        if values.min() < self.line < values.max():
            axes.plot([], [], color=LINE, linestyle="--", label=self.called)


PROBABILITY = Shading(0.0, 1.0, 0.5, "probability of", "probability 50 %")
