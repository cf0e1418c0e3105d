"""The one reader of plain networks: Linear layers with activations between them, maybe scaled.

Proofs, exports, the tangent kernel's closed form and the fast passes do not call a network, they
compute what it would say, from its weights. That is right only if the network is nothing but its
layers. `Layers.of` makes sure: it reads an `nn.Sequential`, nested ones and what changes nothing
included, and refuses with a reason whatever could make the network say something else (hooks, a
`forward` of its own, parametrised, shared or lazily made weights). `is_current` notices when that
is no longer so. Only changes of torch's own classes after a network was read are not looked for.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from operator import attrgetter, is_
from typing import Any, NamedTuple, final

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as torch_module

from handrail._types import Array
from handrail.policies.activation import (
    IDENTITY,
)
from handrail.policies.layer_arrays import LayerArrays
from handrail.policies.layer_plan import (
    HOOKS,
    OPTIONS,
    LayerPlan,
    name_of,
    oddity_of,
    own_parameters,
)
from handrail.policies.normalisation import Normaliser
from handrail.policies.residual import Residual
from handrail.policies.scaler import Scaler

# On every module there is; torch never replaces these dictionaries.
_GLOBAL_HOOKS: tuple[dict[int, Any], ...] = tuple(
    getattr(torch_module, f"_global{name}") for name in HOOKS
)

_data_ptr = Tensor.data_ptr

_requires_grad = attrgetter("requires_grad")


@final
@dataclass(frozen=True)
class Refusal:
    """Why a network is not plain: which layer it is, and what about it."""

    reason: str


class Passed(NamedTuple):
    """One linear layer, for n states with r functionals each.

    Attributes:
        inputs: (n, d_in) what it was given.
        signals: (n, r, d_out) what arrives backwards at its output.
        has_bias: whether it adds one.
    """

    inputs: Tensor
    signals: Tensor
    has_bias: bool


@final
class Layers:
    """z = σ_L(W_L … σ_1(W_1 s + b_1) … + b_L): the network that a module is, at any weights.

    Of s, or of f s + o where a `Scaler` stands in front; likewise behind it all. In front may also
    be a `Normaliser`. Where a `Residual` is around it, its controller's gain · s + offset is added
    before σ_L.

    Attributes:
        linear: first to last.
        activations: one behind each of them, `IDENTITY` for none.
        flattens: whether observations of several axes are flattened in front.
        front: what scales or normalises observations then; None if nothing does.
        residual: what is added to the last of the linear layers; None if nothing is.
        back: what scales the outputs in the end; None if nothing does.
        parameters: in the order of the module.
        dtype: of all of them.
    """

    def __init__(self, module: nn.Module, plan: LayerPlan) -> None:
        self.linear, self.activations = tuple(plan.linear), tuple(plan.activations)
        self.flattens = plan.flattens
        self.front, self.residual, self.back = plan.front, plan.residual, plan.back
        self.parameters = tuple(p for layer in self.linear for _, p in own_parameters(layer))
        self.dtype = self.parameters[0].dtype
        # All that `is_current` compares with.
        parts = list(module.modules())
        self._parts = [(part, type(part), len(part.__dict__)) for part in parts]
        self._weights = [
            (layer, layer.weight, layer.bias, layer.weight.stride(), layer.weight.numel())
            for layer in self.linear
        ]
        given = [part for part in parts if isinstance(part, Scaler | Normaliser | Residual)]
        fixed = [part._buffers for part in given]
        self._fixed = [(buffers, name) for buffers in fixed for name in buffers]
        self._fixed_tensors = [buffers[name] for buffers, name in self._fixed]
        self._addresses = [p.data_ptr() for p in self.parameters]
        self._children = [
            (part, tuple(part._modules.values()))
            for part in parts
            if type(part) in (nn.Sequential, Residual)
        ]
        self._options = [
            (part, name, getattr(part, name)) for part in parts for name in OPTIONS[type(part)]
        ]

    @classmethod
    def of(cls, module: nn.Module) -> Layers | Refusal:
        """The layers of a plain network, or why it is not one."""
        if any(_GLOBAL_HOOKS):
            return Refusal("torch has hooks that run in every module")
        plan = LayerPlan()
        for name, part in module.named_modules(remove_duplicate=False):
            oddity = oddity_of(part) or plan.add(part)
            if oddity:
                return Refusal(f"{name_of(name, part)} {oddity}")
        oddity = plan.end()
        return Refusal(oddity) if oddity else cls(module, plan)

    def is_current(self) -> bool:
        """Whether the module still is what was read: the same layers, on the same memory."""
        # By the private dictionaries, and without generators: this is asked before every pass, of
        # which a small one takes no longer than the public ways to its parameters.
        try:
            for part, kind, n_attributes in self._parts:
                own = part.__dict__
                if (
                    own["_forward_hooks"]
                    or own["_forward_pre_hooks"]
                    or own["_backward_hooks"]
                    or own["_backward_pre_hooks"]
                    or len(own) != n_attributes
                    or part.__class__ is not kind
                ):
                    return False
            for layer, weight, bias, stride, size in self._weights:
                parameters = layer.__dict__["_parameters"]
                if (
                    parameters["weight"] is not weight
                    or parameters["bias"] is not bias
                    or weight.stride() != stride
                    or weight.numel() != size
                ):
                    return False
        except KeyError:  # a parameter is gone
            return False
        for container, children in self._children:
            if tuple(container.__dict__["_modules"].values()) != children:
                return False
        for part, name, value in self._options:
            if getattr(part, name) != value:
                return False
        fixed = [buffers.get(name) for buffers, name in self._fixed]
        return (
            list(map(_data_ptr, self.parameters)) == self._addresses
            and all(map(is_, fixed, self._fixed_tensors))
            and not any(_GLOBAL_HOOKS)
        )

    @property
    def trainable(self) -> bool:
        """Whether all parameters are."""
        return all(map(_requires_grad, self.parameters))

    @property
    def n_observations(self) -> int:
        """Length of a flat state."""
        return self.linear[0].in_features

    def arrays(self) -> LayerArrays:
        """A copy of the present weights in float64, a scaling in front part of the first."""
        weights, biases = [], []
        for layer in self.linear:
            weights.append(_exact(layer.weight))
            biases.append(
                np.zeros(layer.out_features) if layer.bias is None else _exact(layer.bias)
            )
        arrays = LayerArrays(tuple(weights), tuple(biases), self.activations)
        if isinstance(self.front, Scaler):
            arrays = arrays.behind(_exact(self.front.factor), _exact(self.front.offset))
        elif self.front is not None and bool(self.front.limit.isfinite().all()):
            arrays = arrays.behind_clipping(*self.front.scaling(), _exact(self.front.limit))
        elif self.front is not None:
            arrays = arrays.behind(*self.front.scaling())
        if self.residual is not None:
            arrays = arrays.beside(_exact(self.residual.gain), _exact(self.residual.offset))
        if self.back is not None:
            arrays = arrays.scaled(_exact(self.back.factor), _exact(self.back.offset))
        return arrays

    def seen(self, states: Array) -> Array:
        """What the first layer is given (n, n_observations) of states (n, *observation_shape)."""
        flat = states.reshape(len(states), -1)
        if self.front is None:
            return flat
        seen: Array = copy.deepcopy(self.front).double().in_numpy()(flat)
        return seen

    def output_range(self) -> tuple[Array, Array] | None:
        """The lowest and highest outputs (n_actions,) that weights can give; None if any."""
        largest = self.activations[-1].largest
        if not np.isfinite(largest):
            return None
        if self.back is None:
            ends = np.full((2, self.linear[-1].out_features), [[-largest], [largest]])
            return ends[0], ends[1]
        return self.back.range_of(largest)

    def in_float64(self) -> nn.Sequential:
        """A network of its own that computes the same in float64, parameter by parameter."""
        layers: list[nn.Module] = [] if self.front is None else [_in_float64(self.front)]
        for layer, activation in zip(self.linear, self.activations, strict=True):
            layers.append(_linear_in_float64(layer))
            if activation is not IDENTITY:
                layers.append(activation.kind())
        if self.residual is not None:
            gain, offset = self.residual.gain, self.residual.offset
            inside = len(layers) - int(self.activations[-1] is not IDENTITY)
            network = nn.Sequential(*layers[:inside])
            around = Residual(network, _exact(gain), _exact(offset), torch.float64)
            layers = [around.to(gain.device), *layers[inside:]]
        if self.back is not None:
            layers.append(_in_float64(self.back))
        return nn.Sequential(*([nn.Flatten()] if self.flattens else []), *layers)

    @torch.no_grad()
    def passes(self, states: Tensor, weights: Tensor) -> list[Passed]:
        """Every linear layer, first to last, for functionals weights · raw(states).

        For any module, torch records a graph and walks it backwards. Of layers, the same numbers
        are one product per layer, and nothing needs to be recorded.

        Args:
            states: (n, *observation_shape), in the precision that is computed in, whatever the
                network's own.
            weights: (n, r, n_actions), in the same.
        """
        inputs: list[Tensor] = []
        slopes: list[Tensor | None] = []
        signal = observed = states.flatten(1) if self.flattens else states
        if self.front is not None:
            signal = self.front(signal).to(states.dtype)
        matrices = [layer.weight.to(states.dtype) for layer in self.linear]
        for layer, matrix, activation in zip(self.linear, matrices, self.activations, strict=True):
            inputs.append(signal)
            bias = None if layer.bias is None else layer.bias.to(states.dtype)
            signal = functional.linear(signal, matrix, bias)
            if self.residual is not None and layer is self.linear[-1]:
                signal = signal + self.residual.controlled(observed)
            if activation is IDENTITY:
                slopes.append(None)
                continue
            before, signal = signal, activation.function(signal)
            slopes.append(activation.slope(before, signal)[:, None, :])
        passed, arriving = [], weights if self.back is None else weights * self.back.factor
        for depth in range(len(self.linear) - 1, -1, -1):
            layer, slope = self.linear[depth], slopes[depth]
            if slope is not None:
                arriving = arriving * slope
            passed.append(Passed(inputs[depth], arriving, layer.bias is not None))
            if depth:
                arriving = arriving @ matrices[depth]
        return passed[::-1]

    def pull_back(self, states: Tensor, weights: Tensor) -> tuple[Tensor, ...]:
        """Gradient of Σ_k weights_k · raw(s_k), one tensor per parameter.

        Args:
            states: (n, *observation_shape).
            weights: (n, n_actions).
        """
        parts: list[Tensor] = []
        for passed in self.passes(states, weights[:, None, :]):
            signals = passed.signals[:, 0, :]
            parts.append(signals.T @ passed.inputs)
            parts += [signals.sum(dim=0)] if passed.has_bias else []
        return tuple(parts)


def first_layer(module: nn.Module) -> nn.Module:
    """Of nested sequences, what sees observations first; any other module is one layer."""
    while True:
        if type(module) is nn.Sequential and len(module):
            module = module[0]
        elif type(module) is Residual:
            module = module.network
        else:
            return module


def last_layer(module: nn.Module) -> nn.Module:
    """Of nested sequences, what comes last; any other module is one layer."""
    while type(module) is nn.Sequential and len(module):
        module = module[-1]
    return module


def n_observed(module: nn.Module) -> int | None:
    """How many numbers a network takes, where its first layer tells."""
    first = first_layer(module)
    return first.in_features if isinstance(first, nn.Linear | Scaler | Normaliser) else None


def _in_float64(layer: nn.Module) -> nn.Module:
    return copy.deepcopy(layer).double()


def _exact(parameter: Tensor) -> Array:
    exact: Array = parameter.detach().double().cpu().numpy().copy()
    return exact


def _linear_in_float64(layer: nn.Linear) -> nn.Linear:
    # Not a deep copy, which takes longer than all else here: a layer is a hundred small objects.
    copied = copy.copy(layer)
    copied._parameters = {
        name: None
        if parameter is None
        else nn.Parameter(
            parameter.detach().to(torch.float64, copy=True), requires_grad=parameter.requires_grad
        )
        for name, parameter in layer._parameters.items()
    }
    return copied
