"""The values of every action, their gradient by hand, and Adam.

A batch of a hundred rows through two small layers costs less than what a framework spends on
bookkeeping, and a comparison needs a hundred thousand of them for every seed. All parameters are
one vector, so that Adam and the soft update of the target are a few operations on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeAlias, final

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float32]
Choices: TypeAlias = NDArray[np.int64]


@final
class Network:
    """Hidden layers of ReLUs, and a linear one that has the value of every action.

    Args:
        sizes: of the layers, from the observation to the actions.
        parameters: of all layers, each its weights, then its biases; changed in place by others.
    """

    def __init__(self, sizes: Sequence[int], parameters: Floats) -> None:
        self.parameters = parameters
        self._sizes = tuple(sizes)
        self._layers = _layers(self._sizes, parameters)

    @classmethod
    def fresh(cls, sizes: Sequence[int], rng: np.random.Generator) -> Network:
        """As torch begins linear layers: uniform within one over the root of the inputs."""
        parts = [
            rng.uniform(-1.0, 1.0, (before + 1) * after) / np.sqrt(before)
            for before, after in pairwise(sizes)
        ]
        return cls(sizes, np.concatenate(parts).astype(np.float32))

    def copy(self) -> Network:
        """The same values, changed by nobody else."""
        return Network(self._sizes, self.parameters.copy())

    def values(self, states: Floats) -> Floats:
        """Of every action, for one state or for each row of many."""
        return self.outputs(states)[-1]

    def outputs(self, states: Floats) -> list[Floats]:
        """The states, and what every layer makes of them."""
        outputs = [states]
        for weights, biases in self._layers[:-1]:
            hidden = outputs[-1] @ weights
            hidden += biases
            outputs.append(np.maximum(hidden, 0.0, out=hidden))
        weights, biases = self._layers[-1]
        outputs.append(outputs[-1] @ weights + biases)
        return outputs

    def gradient(self, outputs: Sequence[Floats], slopes: Floats) -> Floats:
        """Of a loss with respect to all parameters.

        Args:
            outputs: of `Network.outputs`, or their first rows.
            slopes: (n, n_actions), of the loss with respect to the values.
        """
        gradient = np.empty_like(self.parameters)
        parts = _layers(self._sizes, gradient)
        for number in reversed(range(len(parts))):
            weights, biases = parts[number]
            np.matmul(outputs[number].T, slopes, out=weights)
            np.sum(slopes, axis=0, out=biases)
            if number:
                slopes = slopes @ self._layers[number][0].T
                slopes *= outputs[number] > 0.0
        return gradient


def _layers(sizes: Sequence[int], vector: Floats) -> list[tuple[Floats, Floats]]:
    """Weights (inputs, outputs) and biases of every layer, as views of one vector."""
    layers, start = [], 0
    for before, after in pairwise(sizes):
        middle, end = start + before * after, start + (before + 1) * after
        layers.append((vector[start:middle].reshape(before, after), vector[middle:end]))
        start = end
    return layers


@final
class Adam:
    """Kingma and Ba (2015), with their constants.

    Attributes:
        means: of the gradients, decaying.
        squares: of theirs, decaying.
        count: of steps that were taken.
    """

    def __init__(self, size: int) -> None:
        self.means, self.squares = np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.count = 0

    def descend(self, parameters: Floats, gradient: Floats, step_size: float) -> None:
        """One step, in place."""
        self.count += 1
        self.means += (1.0 - _BETA_1) * (gradient - self.means)
        self.squares *= _BETA_2
        self.squares += (1.0 - _BETA_2) * np.square(gradient)
        # Both begin at zero, which the divisions by 1 - β^t make up for.
        scale = np.sqrt(self.squares)
        scale *= 1.0 / np.sqrt(1.0 - _BETA_2**self.count)
        scale += _EPSILON
        np.divide(self.means, scale, out=scale)
        scale *= step_size / (1.0 - _BETA_1**self.count)
        parameters -= scale


_BETA_1, _BETA_2, _EPSILON = 0.9, 0.999, 1e-8
