"""Inner products of the gradients of many functionals of the raw outputs, in blocks (H4).

Memory beyond the result is bounded whatever n is: factors are held for one pair of blocks at a
time and recomputed when needed again, which costs little next to the products.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, reduce
from operator import add
from typing import final

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from handrail._types import Array
from handrail.policies import ROWS_PER_PASS, NumpyPass, Policy
from handrail.tangent.factors import Factor, Factoriser, OuterFactor, concatenate_factors
from handrail.tangent.few_gradients import FewGradients
from handrail.tangent.gradient import Gradient, pull_back

# Inputs (n, …) and weights (n, r, n_actions) to the factors of every layer.
Factorise = Callable[[Tensor, Tensor], list[Factor]]

# Factors held at a time; 512 MiB are some 6,500 rows of a 5000-wide network.
BLOCK_BYTES = 512 * 2**20

# Rows of one matrix product: small enough that a symmetric kernel costs little more than half,
# large enough for the full speed of the product.
TILE = 256

# States whose activations fit in the cache together, block by block.
_FEW = 256


@final
class Functionals:
    """w · raw(s) for n states with r functionals each.

    Of a plain network (`Policy.layers`) in float64, whatever its own precision.

    Args:
        policy: whose network.
        states: (n, *observation_shape).
        raw_weights: (n, r, n_actions).
        like: those that these are multiplied with, if others. Which layers have factors is found
            out by trial, so on other states it could be others.

    Attributes:
        policy: whose network.
        shape: (n, r).
    """

    def __init__(
        self,
        policy: Policy,
        states: ArrayLike,
        raw_weights: Array,
        like: Functionals | None = None,
    ) -> None:
        self.policy = policy
        self._states = states
        self._raw_weights = raw_weights
        self._like = like
        self.shape = raw_weights.shape[:2]
        layers = policy.layers()
        self._plain = layers if layers is not None and layers.trainable else None
        self._fused = None if self._plain is None else policy.fused()
        self._few = self._pass_of_few()
        self._kept: list[Factor] | None = None

    def _pass_of_few(self) -> NumpyPass | None:
        """Where there are few of a small network."""
        found = self.policy.in_numpy() if self._fused is None else None
        taken = found is not None and found.takes(np.asarray(self._states), self.shape[1])
        return found if taken else None

    @cached_property
    def few(self) -> FewGradients | None:
        """All of their gradients, of few: as they are when this is first asked for."""
        if self._few is None:
            return None
        return FewGradients(self._few.passes(np.asarray(self._states), self._raw_weights))

    @cached_property
    def _arrays(self) -> Array:
        """The states, in float64."""
        return np.asarray(self._states, dtype=np.float64)

    @cached_property
    def _inputs(self) -> Tensor:
        inputs = self.policy.to_tensor(self._states)
        if self._plain is None or inputs.dtype == torch.float64:
            return inputs
        # From the states as they were given: float32 would have rounded them.
        return torch.tensor(np.asarray(self._states), dtype=torch.float64).to(inputs.device)

    @cached_property
    def _weights(self) -> Tensor:
        return torch.as_tensor(self._raw_weights).to(self._inputs)

    @cached_property
    def _factorise(self) -> Factorise:
        return self._factoriser() if self._like is None else self._like._factorise

    def is_factored_as(self, other: Functionals) -> bool:
        """Whether products with these make sense; of plain networks nothing is found by trial."""
        if self._plain is not None or other._plain is not None:
            return True
        own, theirs = self._factorise, other._factorise
        assert isinstance(own, Factoriser)  # of networks that are not plain
        assert isinstance(theirs, Factoriser)
        return own.splits_as(theirs)

    def _factoriser(self) -> Factorise:
        """Without a graph where it can be."""
        layers = self._plain
        if layers is None:
            return Factoriser(self.policy.module, self._inputs)

        fused = self._fused

        def factorise(inputs: Tensor, weights: Tensor) -> list[Factor]:
            if fused is None:
                return [OuterFactor(*passed) for passed in layers.passes(inputs, weights)]
            passes = fused.passes(inputs.numpy(), weights.numpy())
            return [OuterFactor(*passed) for passed in passes]

        return factorise

    def combined(self, coefficients: Array) -> Gradient:
        """Their gradients, with coefficients (n, r), summed.

        Where factors are kept, from these: as they were, though the network may have moved since.
        """
        if self.few is not None:
            return self.few.combined(coefficients)
        if self._kept is None and self._fused is not None:
            return Gradient(self._fused.pull_back(self._arrays, self._summed(coefficients)))
        if self._plain is None:
            weights = self._summed(coefficients)
            return pull_back(self.policy, self._states, lambda _, chunk: weights[chunk])
        wanted = torch.as_tensor(coefficients).to(self._inputs)
        return reduce(add, (self._combined(block, wanted[block]) for block in self.blocks()))

    def _summed(self, coefficients: Array) -> Array:
        """Weights on the raw outputs (n, n_actions) of what coefficients (n, r) add up to."""
        result: Array = np.einsum("nr,nra->na", coefficients, self._raw_weights)
        return result

    def _combined(self, block: slice, coefficients: Tensor) -> Gradient:
        outer = [one for one in self.factors(block) if isinstance(one, OuterFactor)]
        return Gradient(tuple(part for one in outer for part in one.combined(coefficients)))

    @property
    def are_kept(self) -> bool:
        """Whether `combined` needs no pass."""
        return self._kept is not None or self._few is not None

    def keep(self) -> None:
        """Their factors as they are now, of all states: steps may follow."""
        if self.few is None and self._kept is None:
            self._kept = self._computed(slice(0, self.shape[0]))

    def gram_of_few(self) -> Array | None:
        """All inner products in one compiled pass, where that is faster than matrix products."""
        n, r = self.shape
        if self._fused is None or r != 1 or n > _FEW:
            return None
        products = self._fused.kernel(self._arrays, self._raw_weights[:, 0])
        return products[:, None, :, None]

    def blocks(self) -> list[slice]:
        """Consecutive states whose factors fit in memory."""
        n = self.shape[0]
        if n <= TILE:
            return [slice(0, n)]
        example = self.factors(slice(0, 1))
        bytes_per_state = sum(factor.n_bytes() for factor in example)
        size = max(TILE, BLOCK_BYTES // bytes_per_state // TILE * TILE)
        return [slice(start, min(start + size, n)) for start in range(0, n, size)]

    def factors(self, block: slice) -> list[Factor]:
        """The factors of a block of states, pass by pass; of few states they are kept."""
        if self.few is not None:  # multiplied with many
            return [one[block] for one in self.few.factors()]
        whole = block.stop - block.start == len(self._inputs)
        if self._kept is None:
            if not whole or len(self._inputs) > TILE:
                return self._computed(block)
            self.keep()
        assert self._kept is not None
        return self._kept if whole else [one[block] for one in self._kept]

    def _computed(self, block: slice) -> list[Factor]:
        at_once = ROWS_PER_PASS if self._plain is None else TILE  # without a graph, of more
        inputs, weights = self._inputs[block].split(at_once), self._weights[block].split(at_once)
        passes = [self._factorise(i, w) for i, w in zip(inputs, weights, strict=True)]
        return [concatenate_factors(parts) for parts in zip(*passes, strict=True)]


def gram(rows: Functionals, columns: Functionals) -> Array:
    """Inner products (n, r, n', r'); only half of them are computed when both are the same."""
    if rows.few is not None and columns.few is not None:
        return rows.few.gram(columns.few)
    symmetric = rows is columns
    of_few = rows.gram_of_few() if symmetric else None
    if of_few is not None:
        return of_few
    result = np.empty((*rows.shape, *columns.shape))
    for row_block in rows.blocks():
        left = rows.factors(row_block)
        for column_block in columns.blocks():
            if symmetric and column_block.start < row_block.start:
                continue
            diagonal = symmetric and column_block == row_block
            right = left if diagonal else columns.factors(column_block)
            target = result[row_block, :, column_block]
            _fill(target, left, right, diagonal)
            if symmetric and not diagonal:
                result[column_block, :, row_block] = target.transpose(2, 3, 0, 1)
    return result


def gram_diagonal(functionals: Functionals) -> Array:
    """Squared lengths (n, r) of the gradients, without any product between states."""
    if functionals.few is not None:
        return functionals.few.squares()
    blocks = [
        sum((factor.squares() for factor in functionals.factors(block)), torch.zeros(()))
        for block in functionals.blocks()
    ]
    result: Array = torch.cat(blocks).numpy()
    return result


def _fill(target: Array, left: list[Factor], right: list[Factor], diagonal: bool) -> None:
    """Write the products of two blocks; of a diagonal block, one triangle and its mirror."""
    n, n_other = target.shape[0], target.shape[2]
    for top in range(0, n, TILE):
        rows = slice(top, min(top + TILE, n))
        for start in range(top if diagonal else 0, n_other, TILE):
            columns = slice(start, min(start + TILE, n_other))
            tile = torch.zeros(())
            for a, b in zip(left, right, strict=True):
                tile = tile + a[rows].gram(b[columns])
            target[rows, :, columns] = tile.numpy()
            if diagonal and start != top:
                target[columns, :, rows] = tile.permute(2, 3, 0, 1).numpy()
