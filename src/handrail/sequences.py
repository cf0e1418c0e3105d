"""Networks that are plain enough to be looked into: layers one after the other, nothing else."""

from __future__ import annotations

from torch import nn


def plain_layers(module: nn.Module) -> tuple[nn.Module, ...]:
    """The layers of an `nn.Sequential`, but for a flattening of whole observations in front.

    None at all for any other module, and where hooks could do something between the layers. A
    flattening further back is a layer like any other: what is in front of it may have been applied
    to every row of an observation.
    """
    if type(module) is not nn.Sequential:
        return ()
    layers = tuple(module)
    if any(one._forward_hooks or one._forward_pre_hooks for one in (module, *layers)):
        return ()
    return layers[1:] if layers and _flattens_observations(layers[0]) else layers


def _flattens_observations(layer: nn.Module) -> bool:
    return type(layer) is nn.Flatten and (layer.start_dim, layer.end_dim) == (1, -1)
