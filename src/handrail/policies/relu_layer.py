"""A layer of ReLU units, summed up at many states: compiled where numba is, else by NumPy.

Compiled, no unit is ever written to memory (`_passes`), which is most of what these sums cost.
"""

from __future__ import annotations

from functools import cached_property
from importlib.util import find_spec
from typing import final

import numpy as np

from handrail._types import Array

# Units at once, where they are written to memory: 4 MiB, which stay in the cache.
_BLOCK = 2**19


@final
class ReluLayer:
    """Units relu(w · s + b).

    Args:
        weights: (m, n_coordinates).
        biases: (m,).
    """

    def __init__(self, weights: Array, biases: Array) -> None:
        self._inward = np.ascontiguousarray(weights.T)
        self._biases = np.ascontiguousarray(biases)

    def sums(self, factors: Array, states: Array) -> Array:
        """Σ_j factor_j · unit_j (n,), at states (n, n_coordinates)."""
        if not self._is_compiled:
            return np.concatenate([self._units(some) @ factors for some in self._blocks(states)])
        from handrail.policies import _passes as compiled

        rows, nothing = np.ascontiguousarray(factors)[None], np.zeros(1)
        states = np.ascontiguousarray(states)
        return compiled.forward(self._inward, self._biases, rows, nothing, states)[:, 0]

    def tangents(self, factors: Array, states: Array) -> tuple[Array, Array]:
        """Of `sums` at each state: slopes (n, n_coordinates) and offsets (n,), through 0.

        A unit that is 0 counts as off.
        """
        rows = np.vstack([self._inward * factors, self._biases * factors])
        if self._is_compiled:
            from handrail.policies import _passes as compiled

            states = np.ascontiguousarray(states)
            found = compiled.products_where_active(self._inward, self._biases, rows, states)
        else:
            active = [self._units(some) > 0.0 for some in self._blocks(states)]
            found = np.concatenate([some.astype(np.float64) @ rows.T for some in active])
        return found[:, :-1], found[:, -1]

    def _blocks(self, states: Array) -> list[Array]:
        size = max(1, _BLOCK // max(1, len(self._biases)))
        return [states[first : first + size] for first in range(0, len(states), size)]

    def _units(self, states: Array) -> Array:
        units: Array = states @ self._inward + self._biases
        return np.maximum(units, 0.0, out=units)

    @cached_property
    def _is_compiled(self) -> bool:
        return bool(self._inward.size) and find_spec("numba") is not None
