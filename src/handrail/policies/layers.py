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
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.modules import module as torch_module
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import parametrize

from handrail._types import Array
from handrail.policies.activation import (
    ACTIVATION_OF,
    IDENTITY,
    Activation,
    FloatArray,
)
from handrail.policies.layer_arrays import LayerArrays
from handrail.policies.scaler import Scaler

_DTYPES = (torch.float64, torch.float32)

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")

# On every module there is; torch never replaces these dictionaries.
_GLOBAL_HOOKS: tuple[dict[int, Any], ...] = tuple(
    getattr(torch_module, f"_global{name}") for name in _HOOKS
)

# What of a layer could change what it computes, besides its weights.
_OPTIONS: dict[type[nn.Module], tuple[str, ...]] = {
    nn.Sequential: (),
    nn.Linear: (),
    nn.Identity: (),
    nn.Flatten: ("start_dim", "end_dim"),
    nn.Dropout: ("training",),
    Scaler: (),
    **{kind: activation.options for kind, activation in ACTIVATION_OF.items()},
}

# As torch makes them.
_FORWARDS = {kind: kind.forward for kind in _OPTIONS}
_ARGUMENTS: dict[type[nn.Module], tuple[Any, ...]] = {
    nn.Linear: (1, 1, True, "meta"),
    Scaler: ([1.0], [0.0]),
}
_ATTRIBUTES = {kind: frozenset(kind(*_ARGUMENTS.get(kind, ())).__dict__) for kind in _OPTIONS}

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

    Of s, or of f s + o where a `Scaler` stands in front.

    Attributes:
        linear: first to last.
        activations: one behind each of them, `IDENTITY` for none.
        flattens: whether observations of several axes are flattened in front.
        front: what scales observations then; None if nothing does.
        parameters: in the order of the module.
        dtype: of all of them.
    """

    def __init__(self, module: nn.Module, plan: _Plan) -> None:
        self.linear, self.activations = tuple(plan.linear), tuple(plan.activations)
        self.flattens, self.front = plan.flattens, plan.front
        self.parameters = tuple(p for layer in self.linear for _, p in _own(layer))
        self.dtype = self.parameters[0].dtype
        # All that `is_current` compares with.
        parts = list(module.modules())
        self._parts = [(part, type(part), len(part.__dict__)) for part in parts]
        self._weights = [
            (layer, layer.weight, layer.bias, layer.weight.stride(), layer.weight.numel())
            for layer in self.linear
        ]
        scalings = [part._buffers for part in parts if isinstance(part, Scaler)]
        self._fixed = [(buffers, name) for buffers in scalings for name in buffers]
        self._fixed_tensors = [buffers[name] for buffers, name in self._fixed]
        self._addresses = [p.data_ptr() for p in self.parameters]
        self._children = [
            (part, tuple(part._modules.values())) for part in parts if type(part) is nn.Sequential
        ]
        self._options = [
            (part, name, getattr(part, name)) for part in parts for name in _OPTIONS[type(part)]
        ]

    @classmethod
    def of(cls, module: nn.Module) -> Layers | Refusal:
        """The layers of a plain network, or why it is not one."""
        if any(_GLOBAL_HOOKS):
            return Refusal("torch has hooks that run in every module")
        plan = _Plan()
        for name, part in module.named_modules(remove_duplicate=False):
            oddity = _oddity(part) or plan.add(part)
            if oddity:
                return Refusal(f"{_called(name, part)} {oddity}")
        return cls(module, plan) if plan.linear else Refusal("it has no Linear layer")

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
        if self.front is None:
            return arrays
        return arrays.behind(_exact(self.front.factor), _exact(self.front.offset))

    def in_float64(self) -> nn.Sequential:
        """A network of its own that computes the same in float64, parameter by parameter."""
        layers: list[nn.Module] = [nn.Flatten()] if self.flattens else []
        if self.front is not None:
            layers.append(copy.deepcopy(self.front).double())
        for layer, activation in zip(self.linear, self.activations, strict=True):
            layers.append(_linear_in_float64(layer))
            if activation is not IDENTITY:
                layers.append(activation.kind())
        return nn.Sequential(*layers)

    @torch.no_grad()
    def passes(self, states: Tensor, weights: Tensor) -> list[Passed]:
        """Every linear layer, first to last, for functionals weights · raw(states).

        For any module, torch records a graph and walks it backwards. Of layers, the same numbers
        are one product per layer, and nothing needs to be recorded.

        Args:
            states: (n, *observation_shape).
            weights: (n, r, n_actions).
        """
        inputs: list[Tensor] = []
        slopes: list[Tensor | None] = []
        signal = states.flatten(1) if self.flattens else states
        if self.front is not None:
            signal = self.front(signal)
        for layer, activation in zip(self.linear, self.activations, strict=True):
            inputs.append(signal)
            signal = functional.linear(signal, layer.weight, layer.bias)
            if activation is IDENTITY:
                slopes.append(None)
                continue
            before, signal = signal, activation.function(signal)
            slopes.append(activation.slope(before, signal)[:, None, :])
        passed, arriving = [], weights
        for depth in range(len(self.linear) - 1, -1, -1):
            layer, slope = self.linear[depth], slopes[depth]
            if slope is not None:
                arriving = arriving * slope
            passed.append(Passed(inputs[depth], arriving, layer.bias is not None))
            if depth:
                arriving = arriving @ layer.weight
        return passed[::-1]


@final
class NumpyPass:
    """The network at one observation, in NumPy.

    Collecting experience asks for one at a time. Torch's overhead for that is several times the
    arithmetic; the same few products in NumPy are not. The arrays are views of the torch
    parameters, so an in-place update (an optimiser, an enforcement) is seen at once.
    """

    def __init__(self, layers: Layers) -> None:
        self._flattens = layers.flattens
        self._shape = (layers.n_observations,)
        self._dtype = np.dtype(str(layers.dtype).removeprefix("torch."))
        self._front = None if layers.front is None else layers.front.arrays()
        self._steps = tuple(
            (
                layer.weight.detach().numpy(),
                None if layer.bias is None else layer.bias.detach().numpy(),
                None if activation is IDENTITY else activation.value,
            )
            for layer, activation in zip(layers.linear, layers.activations, strict=True)
        )

    @classmethod
    def of(cls, layers: Layers) -> NumpyPass | None:
        """None where the weights are not in the memory of the CPU."""
        on_cpu = all(parameter.device.type == "cpu" for parameter in layers.parameters)
        return cls(layers) if on_cpu else None

    def __call__(self, state: NDArray[Any]) -> Array:
        """Raw outputs (n_actions,) of one observation (*observation_shape)."""
        signal: FloatArray = np.asarray(state, dtype=self._dtype)
        if self._flattens:
            signal = signal.ravel()
        if signal.shape != self._shape:
            raise ValueError(f"shape {signal.shape}, where the network takes {self._shape}")
        if self._front is not None:
            factor, offset = self._front
            signal = signal * factor + offset
        for weight, bias, activate in self._steps:
            signal = weight.dot(signal)
            if bias is not None:
                signal += bias
            if activate is not None:
                signal = activate(signal)
        return signal.astype(np.float64, copy=False)


def first_layer(module: nn.Module) -> nn.Module:
    """Of nested sequences, what sees observations first; any other module is one layer."""
    while type(module) is nn.Sequential and len(module):
        module = module[0]
    return module


def n_observed(module: nn.Module) -> int | None:
    """How many numbers a network takes, where its first layer tells."""
    first = first_layer(module)
    return first.in_features if isinstance(first, nn.Linear | Scaler) else None


@final
class _Plan:
    """What a network is made of, as far as it was read."""

    def __init__(self) -> None:
        self.linear: list[nn.Linear] = []
        self.activations: list[Activation] = []
        self.flattens = False
        self.front: Scaler | None = None
        self._seen: set[int] = set()

    def add(self, part: nn.Module) -> str:
        """The next module in order; what is wrong with it here, or nothing."""
        if isinstance(part, nn.Linear):
            return self._add_linear(part)
        if isinstance(part, nn.Flatten):
            if self.linear:
                return "is not in front of all others"
            self.flattens = True
        if isinstance(part, Scaler):
            return self._add_scaling(part)
        activation = ACTIVATION_OF.get(type(part))
        if activation is not None:
            if not self.linear or self.activations[-1] is not IDENTITY:
                return "does not follow a Linear layer"
            self.activations[-1] = activation
        return ""

    def _add_scaling(self, scaling: Scaler) -> str:
        if self.linear or self.front is not None:
            return "is not in front of all others"
        self.front = scaling
        return ""

    def _add_linear(self, layer: nn.Linear) -> str:
        own = [id(parameter) for _, parameter in _own(layer)]
        if len({*own}) < len(own) or self._seen & {*own}:
            return "shares its weights with another layer"
        if self.linear:
            before = self.linear[-1]
            if before.weight.shape[0] != layer.weight.shape[1]:
                return f"does not fit {before.weight.shape[0]} outputs of the layer before"
            if before.weight.dtype != layer.weight.dtype:
                return "has another precision than the layer before"
        elif self.front is not None:
            if self.front.in_features != layer.weight.shape[1]:
                return f"does not fit {self.front.in_features} scaled observations"
            given, weight = self.front.factor, layer.weight
            if (given.dtype, given.device) != (weight.dtype, weight.device):
                return "has another precision or device than the scaling before"
        self._seen.update(own)
        self.linear.append(layer)
        self.activations.append(IDENTITY)
        return ""


def _oddity(part: nn.Module) -> str:
    """What could make a module compute something else than its kind does, or nothing."""
    kind = type(part)
    if kind not in _OPTIONS:
        return _oddity_of_kind(part)
    if any(getattr(part, hooks) for hooks in _HOOKS):
        return "has a hook"
    # A method of its own, or torch's compiled one; weights that are not parameters.
    added = part.__dict__.keys() - _ATTRIBUTES[kind]
    replaced = [name for name in added if name in ("weight", "bias") or hasattr(kind, name)]
    if replaced or kind.forward is not _FORWARDS[kind]:
        return f"has {' and '.join(sorted(replaced)) or 'forward'} replaced"
    if isinstance(part, nn.Linear):
        return _oddity_of_weights(part)
    return _oddity_of_scaling(part) if isinstance(part, Scaler) else _oddity_of_options(part)


def _oddity_of_scaling(part: Scaler) -> str:
    known = part._buffers.get("factor"), part._buffers.get("offset")
    if part._parameters or part._modules or len(part._buffers) != 2:
        return "has weights or layers of its own"
    if any(one is None or one.shape != (part.in_features,) for one in known):
        return "has no factor and offset for each number"
    return "" if bool((part.factor != 0.0).all()) else "has a factor of 0"


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
    plain = next((kind.__name__ for kind in type(part).__mro__[1:] if kind in _OPTIONS), None)
    if plain is not None:
        return f"is a {plain} that may compute something else"
    return "is of no kind that can be looked into"


def _oddity_of_weights(layer: nn.Linear) -> str:
    if set(layer._parameters) != {"weight", "bias"} or layer._modules or layer.weight is None:
        return "has other parameters than weight and bias"
    for name, parameter in _own(layer):
        expected = (layer.out_features, layer.in_features)[: 2 if name == "weight" else 1]
        if type(parameter) is not nn.Parameter or parameter.layout is not torch.strided:
            return f"has a {name} that is not a plain tensor"
        if parameter.dtype not in _DTYPES or parameter.device.type == "meta":
            return f"has a {name} in {str(parameter.dtype).removeprefix('torch.')}"
        if tuple(parameter.shape) != expected:
            return f"has a {name} of shape {tuple(parameter.shape)}"
    return ""


def _called(name: str, part: nn.Module) -> str:
    described = type(part).__name__ if part._modules else str(part)
    return f"layer '{name}', {described}," if name else f"the network itself, {described},"


def _own(layer: nn.Linear) -> list[tuple[str, nn.Parameter]]:
    return [(name, p) for name, p in layer._parameters.items() if p is not None]


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
