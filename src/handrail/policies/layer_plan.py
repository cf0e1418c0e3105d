"""What a network is made of, layer by layer, and what about it is not as it should be.

One entry of `OPTIONS` is one kind of layer that can be looked into.
"""

from __future__ import annotations

from typing import Any, final

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

from handrail.policies.activation import ACTIVATION_OF, IDENTITY, Activation
from handrail.policies.normalisation import Normaliser
from handrail.policies.residual import Residual
from handrail.policies.scaler import Scaler

_DTYPES = (torch.float64, torch.float32)

HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

# What of a layer could change what it computes, besides its weights.
OPTIONS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Sequential: (),
    nn.Linear: (),
    nn.Identity: (),
    nn.Flatten: ("start_dim", "end_dim"),
    nn.Dropout: ("training",),
    Scaler: (),
    Normaliser: ("dtype",),
    Residual: (),
    **{kind: activation.options for kind, activation in ACTIVATION_OF.items()},
}

# As torch makes them.
_FORWARDS = {kind: kind.forward for kind in OPTIONS}
_ARGUMENTS: dict[type[nn.Module], tuple[Any, ...]] = {
    nn.Linear: (1, 1, True, "meta"),
    Scaler: ([1.0], [0.0]),
    Normaliser: ([0.0], [1.0]),
    Residual: (nn.Identity(), [[1.0]], [0.0]),
}
_ATTRIBUTES = {kind: frozenset(kind(*_ARGUMENTS.get(kind, ())).__dict__) for kind in OPTIONS}


@final
class LayerPlan:
    """What a network is made of, as far as it was read."""

    def __init__(self) -> None:
        self.linear: list[nn.Linear] = []
        self.activations: list[Activation] = []
        self.flattens = False
        self.front: Scaler | Normaliser | None = None
        self.residual: Residual | None = None
        self.back: Scaler | None = None
        self._inside: set[int] = set()  # of a residual, what is not behind it
        self._last_is_inside = False  # whether the last activation is
        self._seen: set[int] = set()

    def add(self, part: nn.Module) -> str:
        """The next module in order; what is wrong with it here, or nothing."""
        if isinstance(part, nn.Linear):
            return self._add_linear(part)
        if isinstance(part, nn.Flatten):
            behind_others = self.front is not None and not self.flattens  # else they are flat
            if self.linear or self.residual is not None or behind_others:
                return "is not in front of all others"
            self.flattens = True
        if isinstance(part, Scaler):
            return self._add_scaling(part)
        if isinstance(part, Normaliser):
            return self._add_normaliser(part)
        if isinstance(part, Residual):
            return self._add_residual(part)
        activation = ACTIVATION_OF.get(type(part))
        return "" if activation is None else self._add_activation(part, activation)

    def end(self) -> str:
        """What is wrong with the whole, or nothing."""
        if not self.linear:
            return "it has no Linear layer"
        if self.residual is not None:
            return self._oddity_of_residual(self.residual)
        return ""

    def _add_activation(self, part: nn.Module, activation: Activation) -> str:
        if not self.linear or self.activations[-1] is not IDENTITY or self.back is not None:
            return "does not follow a Linear layer"
        self.activations[-1] = activation
        self._last_is_inside = id(part) in self._inside
        return ""

    def _add_residual(self, residual: Residual) -> str:
        if self.linear or self.front is not None or self.residual is not None:
            return "is not in front of all others"
        self.residual, self._inside = residual, {id(part) for part in residual.modules()}
        return ""

    def _add_normaliser(self, normaliser: Normaliser) -> str:
        if self.linear or self.front is not None or self.residual is not None:
            return "is not in front of all others"
        self.front = normaliser
        return ""

    def _add_scaling(self, scaling: Scaler) -> str:
        if not self.linear and self.front is None:
            if self.residual is not None and id(scaling) not in self._inside:
                return "does not follow a Linear layer"
            self.front = scaling
            return ""
        if not self.linear or self.back is not None or id(scaling) in self._inside:
            return "is neither in front of all others nor behind them"
        if _kind(scaling.factor) != _kind(self.linear[-1].weight):
            return "has another precision or device than the layer before"
        if scaling.in_features != self.linear[-1].weight.shape[0]:
            return f"does not fit {self.linear[-1].weight.shape[0]} outputs of the layer before"
        self.back = scaling
        return ""

    def _oddity_of_residual(self, residual: Residual) -> str:
        last, (n_out, n_in) = self.linear[-1], residual.gain.shape
        if id(last) not in self._inside or self._last_is_inside:
            return "the network of a Residual does not end with the last Linear layer"
        if (n_out, n_in) != (last.weight.shape[0], self.linear[0].weight.shape[1]):
            return f"a Residual has a gain of shape {(n_out, n_in)}"
        if _kind(residual.gain) != _kind(last.weight):
            return "a Residual has another precision or device than its network"
        return ""

    def _add_linear(self, layer: nn.Linear) -> str:
        own = [id(parameter) for _, parameter in own_parameters(layer)]
        if len({*own}) < len(own) or self._seen & {*own}:
            return "shares its weights with another layer"
        oddity = self._misfit(layer.weight)
        if oddity:
            return oddity
        self._seen.update(own)
        self.linear.append(layer)
        self.activations.append(IDENTITY)
        self._last_is_inside = False
        return ""

    def _misfit(self, weight: Tensor) -> str:
        """With what is before a Linear layer of this weight, or nothing."""
        if self.back is not None:
            return "stands behind a scaling of outputs"
        n, before = weight.shape[1], None
        if self.linear:
            before = _kind(self.linear[-1].weight)
            given = self.linear[-1].weight.shape[0]
            if given != n:
                return f"does not fit {given} outputs of the layer before"
        elif self.front is not None:
            before = _kind_behind(self.front)
            if self.front.in_features != n:
                return f"does not fit {self.front.in_features} scaled observations"
        if before is not None and before != _kind(weight):
            return "has another precision or device than the layer before"
        return ""


def oddity_of(part: nn.Module) -> str:
    """What could make a module compute something else than its kind does, or nothing."""
    kind = type(part)
    if kind not in OPTIONS:
        return _oddity_of_kind(part)
    if any(getattr(part, hooks) for hooks in HOOKS):
        return "has a hook"
    # A method of its own, or torch's compiled one; weights that are not parameters.
    added = part.__dict__.keys() - _ATTRIBUTES[kind]
    replaced = [name for name in added if name in ("weight", "bias") or hasattr(kind, name)]
    if replaced or kind.forward is not _FORWARDS[kind]:
        return f"has {' and '.join(sorted(replaced)) or 'forward'} replaced"
    return _oddity_inside(part)


def _oddity_inside(part: nn.Module) -> str:
    """Of the numbers and options of a layer of a known kind."""
    if isinstance(part, nn.Linear):
        return _oddity_of_weights(part)
    if isinstance(part, Scaler | Residual):
        return _oddity_of_numbers(part)
    if isinstance(part, Normaliser):
        return _oddity_of_statistics(part)
    return _oddity_of_options(part)


def _oddity_of_numbers(part: Scaler | Residual) -> str:
    """Of those that are not learned."""
    children = {"network"} if isinstance(part, Residual) else set()
    first, offset = part._buffers.get(_FIXED[type(part)]), part._buffers.get("offset")
    if part._parameters or set(part._modules) != children or len(part._buffers) != 2:
        return "has weights or layers of its own"
    if first is None or offset is None or offset.shape != first.shape[:1]:
        return "has no offset for each number"
    if isinstance(part, Scaler):
        return "" if bool((first != 0.0).all()) else "has a factor of 0"
    return "" if first.ndim == 2 else f"has a gain of shape {tuple(first.shape)}"


def _oddity_of_statistics(part: Normaliser) -> str:
    if part._parameters or part._modules or set(part._buffers) != {"mean", "size", "limit"}:
        return "has weights or layers of its own"
    fitting = part.mean.ndim == 1 and part.mean.shape == part.size.shape
    exact = part.mean.dtype == part.size.dtype == torch.float64
    fitting = fitting and part.limit.shape in ((), part.mean.shape)
    if not fitting or not exact or not bool((part.size > 0.0).all() and (part.limit > 0.0).all()):
        return "has no mean and positive size for each number, and no positive limit"
    clipped = part.limit.isfinite()
    if bool(clipped.any()) and not bool(clipped.all()):
        return "clips some numbers and leaves others as they are (VecNormalize: norm_obs_keys)"
    return ""


_FIXED: dict[type[nn.Module], str] = {Scaler: "factor", Residual: "gain"}


def _oddity_of_options(part: nn.Module) -> str:
    if part._parameters or (part._modules and not isinstance(part, nn.Sequential)):
        return "has weights or layers of its own"
    if any(child is None for child in part._modules.values()):
        return "has a layer that is None"
    if isinstance(part, nn.Dropout) and part.training:
        return "is random in training mode (module.eval() ends that)"
    if isinstance(part, nn.Flatten) and (part.start_dim, part.end_dim) != (1, -1):
        return "does not flatten whole observations"
    activation = ACTIVATION_OF.get(type(part))
    if activation is not None and not activation.has_default_options(part):
        return "has options that are not torch's defaults"
    return ""


def _oddity_of_kind(part: nn.Module) -> str:
    if parametrize.is_parametrized(part):
        return "is parametrised: its weights are computed anew for every pass"
    if isinstance(part, LazyModuleMixin):
        return "has no weights yet (they are made by its first pass)"
    if type(part).__module__.startswith("torch.ao.nn"):
        return "is quantised"
    plain = next((kind.__name__ for kind in type(part).__mro__[1:] if kind in OPTIONS), None)
    if plain is not None:
        return f"is a {plain} that may compute something else"
    return "is of no kind that can be looked into"


def _oddity_of_weights(layer: nn.Linear) -> str:
    if set(layer._parameters) != {"weight", "bias"} or layer._modules or layer.weight is None:
        return "has other parameters than weight and bias"
    for name, parameter in own_parameters(layer):
        expected = (layer.out_features, layer.in_features)[: 2 if name == "weight" else 1]
        if type(parameter) is not nn.Parameter or parameter.layout is not torch.strided:
            return f"has a {name} that is not a plain tensor"
        if parameter.dtype not in _DTYPES or parameter.device.type == "meta":
            return f"has a {name} in {str(parameter.dtype).removeprefix('torch.')}"
        if tuple(parameter.shape) != expected:
            return f"has a {name} of shape {tuple(parameter.shape)}"
    return ""


def name_of(name: str, part: nn.Module) -> str:
    """Of a layer, for people."""
    described = type(part).__name__ if part._modules else str(part)
    return f"layer '{name}', {described}," if name else f"the network itself, {described},"


def own_parameters(layer: nn.Linear) -> list[tuple[str, nn.Parameter]]:
    """By name; without a bias, the weight alone."""
    return [(name, p) for name, p in layer._parameters.items() if p is not None]


def _kind(tensor: Tensor) -> tuple[torch.dtype, torch.device]:
    return tensor.dtype, tensor.device


def _kind_behind(front: Scaler | Normaliser) -> tuple[torch.dtype, torch.device]:
    """Of what a layer in front of all others gives out."""
    if isinstance(front, Normaliser):
        return front.dtype, front.mean.device
    return _kind(front.factor)
