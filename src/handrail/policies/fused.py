"""A network with one hidden ReLU layer, through compiled passes on the memory of its weights.

The passes are imported where they are used: numba is optional, and slow to import.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import final

import numpy as np
import torch
from torch import Tensor, nn

from handrail._types import Array
from handrail.policies.layers import plain_layers


@final
class FusedNetwork:
    """Linear, ReLU, Linear in float64 on the CPU: the paper's network.

    The arrays are views of the torch parameters, so an in-place update is seen at once.

    Attributes:
        parameters: in the order of the module; all of them are trainable.
    """

    def __init__(self, module: nn.Module, first: nn.Linear, last: nn.Linear) -> None:
        self._layers, self._first, self._last = tuple(module._modules.values()), first, last
        self.parameters: tuple[nn.Parameter, ...] = tuple(module.parameters())
        self._addresses = self._current_addresses()
        inward, inward_bias, outward, outward_bias = (p.detach().numpy() for p in self.parameters)
        self._weights = (inward.T, inward_bias, outward, outward_bias)

    @classmethod
    def of(cls, module: nn.Module) -> FusedNetwork | None:
        """The fused form of a module, or None if it is another network or numba is not there."""
        layers = plain_layers(module)
        if [type(layer) for layer in layers] != [nn.Linear, nn.ReLU, nn.Linear]:
            return None
        first, last = layers[0], layers[2]
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        if first.bias is None or last.bias is None or not _is_plain(module, first, last):
            return None
        return cls(module, first, last) if find_spec("numba") else None

    def is_of(self, module: nn.Module) -> bool:
        """Whether these still are the module's weights: none was swapped, moved or frozen."""
        # Written out, and by the private dictionaries: this is asked before every pass, and the
        # public ways to a parameter take longer than a pass over a few states.
        inward, inward_bias, outward, outward_bias = self.parameters
        first, last = self._first._parameters, self._last._parameters
        return (
            first["weight"] is inward
            and first["bias"] is inward_bias
            and last["weight"] is outward
            and last["bias"] is outward_bias
            and inward.requires_grad
            and inward_bias.requires_grad
            and outward.requires_grad
            and outward_bias.requires_grad
            and self._current_addresses() == self._addresses
            and tuple(module._modules.values()) == self._layers
        )

    @property
    def n_observations(self) -> int:
        """What one state must have; the compiled passes do not look."""
        return len(self._weights[0])

    def raw(self, states: Array) -> Array:
        """The network's outputs (n, n_actions)."""
        from handrail.policies import _compiled as compiled

        return compiled.forward(*self._weights, self._flat(states))

    def drawer(self, rng: np.random.Generator) -> Callable[[Array], int]:
        """For one state, an action; -1 if the logits are not finite."""
        from handrail.policies import _compiled as compiled

        draw, (inward, inward_bias, outward, outward_bias) = compiled.draw, self._weights
        shape, uniform, flat = (self.n_observations,), rng.random, self._flat

        def draw_one(state: Array) -> int:
            if state.shape != shape:
                state = flat(state[None])[0]
            return draw(inward, inward_bias, outward, outward_bias, state, uniform())

        return draw_one

    def pull_back(self, states: Array, weights: Array) -> tuple[Tensor, ...]:
        """Gradient of Σ_k weights_k · outputs(s_k), one tensor per parameter."""
        from handrail.policies import _compiled as compiled

        inward, inward_bias, outward, _ = self._weights
        found = compiled.backward(inward, inward_bias, outward, self._flat(states), weights)
        of_inward, of_inward_bias, of_outward, of_outward_bias = map(torch.from_numpy, found)
        return of_inward.T, of_inward_bias, of_outward, of_outward_bias

    def push_forward(self, states: Array, parts: tuple[Tensor, ...]) -> Array:
        """First-order change of the outputs (n, n_actions) under a change of the parameters."""
        from handrail.policies import _compiled as compiled

        of_inward, of_inward_bias, of_outward, of_outward_bias = (
            part.detach().double().numpy() for part in parts
        )
        inward, inward_bias, outward, _ = self._weights
        return compiled.forward_mode(
            inward,
            inward_bias,
            outward,
            self._flat(states),
            np.ascontiguousarray(of_inward.T),
            of_inward_bias,
            np.ascontiguousarray(of_outward),
            of_outward_bias,
        )

    def kernel(self, states: Array, weights: Array) -> Array:
        """Inner products (n, n) of the gradients of weights_k · outputs(s_k), for few states."""
        from handrail.policies import _compiled as compiled

        inward, inward_bias, outward, _ = self._weights
        flat, contiguous = self._flat(states), np.ascontiguousarray(weights)
        return compiled.kernel(inward, inward_bias, outward, flat, contiguous)

    def _flat(self, states: Array) -> Array:
        flat = np.ascontiguousarray(states.reshape(len(states), -1), dtype=np.float64)
        if flat.shape[1] != self.n_observations:
            raise ValueError(
                f"{flat.shape[1]} values, where the network takes {self.n_observations}"
            )
        return flat

    def _current_addresses(self) -> tuple[int, ...]:
        inward, inward_bias, outward, outward_bias = self.parameters
        return (
            inward.data_ptr(),
            inward_bias.data_ptr(),
            outward.data_ptr(),
            outward_bias.data_ptr(),
        )


def _is_plain(module: nn.Module, first: nn.Linear, last: nn.Linear) -> bool:
    """Trainable float64 on the CPU, laid out as the passes read it."""
    parameters = tuple(module.parameters())
    return (
        all(p.dtype == torch.float64 and p.device.type == "cpu" for p in parameters)
        and all(p.requires_grad for p in parameters)
        and first.weight.T.is_contiguous()
        and last.weight.is_contiguous()
    )
