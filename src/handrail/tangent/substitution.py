"""A module called with other values for some of its parameters."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor, nn
from torch.func import functional_call


def call_with(module: nn.Module, parameters: Mapping[str, Tensor], inputs: Tensor) -> Tensor:
    """The module's outputs; its own parameters stay as they are.

    Args:
        module: to call.
        parameters: by their names in `named_parameters`.
        inputs: (n, *observation_shape).
    """
    # Torch would find the other names of shared parameters itself. But of a layer that is used
    # twice, it leaves the last value behind in the module (pytorch issue 164759).
    outputs: Tensor = functional_call(
        module, _in_every_place(module, parameters), (inputs,), tie_weights=False
    )
    return outputs


def _in_every_place(module: nn.Module, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Every place of these parameters once, also where several modules share one."""
    own = dict(module.named_parameters())
    values = {id(own[name]): value for name, value in parameters.items()}
    return {
        f"{prefix}.{name}" if prefix else name: values[id(parameter)]
        for prefix, part in module.named_modules()
        for name, parameter in part._parameters.items()
        if id(parameter) in values
    }
