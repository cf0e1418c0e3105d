"""What the tangent kernel needs of each layer, from one forward and one backward pass (H4).

A linear layer's gradient for one functional of one state is the outer product of a signal b (what
arrives backwards at its output) and its input h. Inner products of such gradients therefore factor:
(b·b')(h·h' + 1). Only b and h are ever stored. Convolutions, and linear layers applied at several
positions, sum such products over positions; their per-state gradient is stored, as is that of every
other parameter (normalisation layers, custom modules, layers used twice).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.func import grad, vmap
from torch.nn import functional
from torch.utils.hooks import RemovableHandle

from handrail.tangent.substitution import call_with

_PROBES = 4


class Factor(ABC):
    """What one layer contributes to the kernel, for n states with r functionals each."""

    @abstractmethod
    def gram(self, other: Factor) -> Tensor:
        """Inner products (n, r, n', r') with the gradients of the same layer at other states."""

    @abstractmethod
    def squares(self) -> Tensor:
        """Squared lengths (n, r) of the gradients: the diagonal of `gram` with itself."""

    @abstractmethod
    def total(self) -> Tensor:
        """The gradient summed over states, flat; for one functional per state."""

    @abstractmethod
    def n_bytes(self) -> int:
        """Memory held."""

    @abstractmethod
    def __getitem__(self, rows: slice) -> Factor:
        """The factor of some of the states."""


@final
@dataclass(frozen=True)
class OuterFactor(Factor):
    """A linear layer: inputs (n, d_in), signals (n, r, d_out), both float64."""

    inputs: Tensor
    signals: Tensor
    has_bias: bool

    def gram(self, other: Factor) -> Tensor:
        """(n, r, n', r') inner products of the layer's gradients."""
        assert isinstance(other, OuterFactor)
        inputs = self.inputs @ other.inputs.T
        if self.has_bias:
            inputs += 1.0
        signals = self.signals.flatten(0, 1) @ other.signals.flatten(0, 1).T
        n, r, other_n, other_r = *self.signals.shape[:2], *other.signals.shape[:2]
        return signals.view(n, r, other_n, other_r).mul_(inputs[:, None, :, None])

    def squares(self) -> Tensor:
        """(n, r)."""
        inputs = self.inputs.square().sum(dim=1)
        if self.has_bias:
            inputs += 1.0
        return self.signals.square().sum(dim=2).mul_(inputs[:, None])

    def total(self) -> Tensor:
        """Weight, then bias."""
        signals = self.signals[:, 0]
        weight = (signals.T @ self.inputs).flatten()
        return torch.cat([weight, signals.sum(dim=0)]) if self.has_bias else weight

    def combined(self, coefficients: Tensor) -> list[Tensor]:
        """Of the gradients, with coefficients (n, r), summed: of the weight, and of the bias."""
        if self.signals.shape[1] == 1 and self.inputs.shape[1] < self.signals.shape[2]:
            # As many signals as a wide layer has units are left as they are.
            signals, own = self.signals[:, 0].T, coefficients[:, 0]
            weight, bias = signals @ (own[:, None] * self.inputs), signals @ own
        else:
            together = torch.einsum("nr,nrd->nd", coefficients, self.signals)
            weight, bias = together.T @ self.inputs, together.sum(dim=0)
        return [weight, bias] if self.has_bias else [weight]

    def n_bytes(self) -> int:
        """Memory held."""
        return self.inputs.nbytes + self.signals.nbytes

    def __getitem__(self, rows: slice) -> OuterFactor:
        return OuterFactor(self.inputs[rows], self.signals[rows], self.has_bias)


@final
@dataclass(frozen=True)
class StoredFactor(Factor):
    """Any other parameters: their gradients (n, r, n_parameters), float64."""

    gradients: Tensor

    def gram(self, other: Factor) -> Tensor:
        """(n, r, n', r') inner products of the gradients."""
        assert isinstance(other, StoredFactor)
        flat = self.gradients.flatten(0, 1) @ other.gradients.flatten(0, 1).T
        return flat.view(*self.gradients.shape[:2], *other.gradients.shape[:2])

    def squares(self) -> Tensor:
        """(n, r)."""
        return self.gradients.square().sum(dim=2)

    def total(self) -> Tensor:
        """In the order in which the gradients are stored."""
        return self.gradients.sum(dim=(0, 1))

    def n_bytes(self) -> int:
        """Memory held."""
        return self.gradients.nbytes

    def __getitem__(self, rows: slice) -> StoredFactor:
        return StoredFactor(self.gradients[rows])


def concatenate_factors(parts: Sequence[Factor]) -> Factor:
    """The factors of consecutive states as one."""
    if len(parts) == 1:
        return parts[0]
    outer = [part for part in parts if isinstance(part, OuterFactor)]
    if outer:
        inputs, signals = zip(*((part.inputs, part.signals) for part in outer), strict=True)
        return OuterFactor(torch.cat(inputs), torch.cat(signals), outer[0].has_bias)
    stored = [part.gradients for part in parts if isinstance(part, StoredFactor)]
    return StoredFactor(torch.cat(stored))


@final
@dataclass(frozen=True)
class _Call:
    """One use of a layer in a forward pass."""

    inputs: Tensor
    output_edge: Any  # torch.autograd.graph.GradientEdge: survives in-place activations


@final
class Factoriser:
    """Splits a module into layers with a closed form and the remaining parameters.

    Args:
        module: built of anything that treats the states of a batch independently (a policy's does).
        example: at least one input (n, *observation_shape), to see how the module is wired.
    """

    def __init__(self, module: nn.Module, example: Tensor) -> None:
        self._module = module
        candidates: list[Any] = [m for m in module.modules() if _has_closed_form(m)]
        with _recording(candidates) as calls, torch.enable_grad():
            logits = module(example[:_PROBES])
        weights = torch.linspace(0.5, 1.5, logits.numel()).to(logits).view_as(logits)
        trainable = {name: p for name, p in module.named_parameters() if p.requires_grad}
        parts = torch.autograd.grad(
            logits, tuple(trainable.values()), weights, retain_graph=True, allow_unused=True
        )
        # A parameter that the logits do not depend on (a critic's, say) has no gradient at all.
        gradients = {
            id(p): part
            for p, part in zip(trainable.values(), parts, strict=True)
            if part is not None
        }
        self._layers = [
            layer
            for layer in candidates
            if len(calls[layer]) == 1
            and _is_confirmed(layer, calls[layer][0], logits, weights, gradients)
        ]
        covered = {id(p) for layer in self._layers for p in layer.parameters(recurse=False)}
        self._rest = {
            name: p for name, p in trainable.items() if id(p) in gradients and id(p) not in covered
        }
        self._vectorises = bool(self._rest) and self._is_vectorised(example[:_PROBES])

    def splits_as(self, other: Factoriser) -> bool:
        """Whether products with the factors of another one make sense."""
        alike = self._module is other._module and self._rest.keys() == other._rest.keys()
        return self is other or (alike and self._layers == other._layers)

    def __call__(self, inputs: Tensor, logit_weights: Tensor) -> list[Factor]:
        """Factors of the functionals w · logits(s), for inputs (n, …), weights (n, r, m)."""
        with _recording(self._layers) as calls, torch.enable_grad():
            logits = self._module(inputs)
        uses = [calls[layer][0] for layer in self._layers]
        signals = _signals(logits, uses, logit_weights)
        factors = [
            factor
            for layer, use, signal in zip(self._layers, uses, signals, strict=True)
            for factor in _factors_of(layer, use.inputs.double(), signal.double())
        ]
        if self._rest:
            factors.append(self._remaining(inputs, logit_weights))
        return factors

    def _remaining(self, inputs: Tensor, logit_weights: Tensor) -> StoredFactor:
        """Gradients of all other parameters."""
        gradients = self._at_once if self._vectorises else self._one_by_one
        return StoredFactor(gradients(inputs, logit_weights).double())

    def _is_vectorised(self, probes: Tensor) -> bool:
        """Whether torch can do it for all states at once.

        Not taken on trust either: of some layers (PReLU, torch 2.13) gradients of one state get
        the shape, or the values, of others.
        """
        # An even number of states and an odd one of functionals: nothing that is mixed up fits.
        inputs, r = torch.cat([probes, probes]), 3
        with torch.no_grad():
            n_actions = self._module(probes[:1]).shape[1]
        weights = torch.linspace(0.5, 1.5, r * len(inputs) * n_actions).to(inputs)
        weights = weights.view(len(inputs), r, n_actions)
        try:
            claimed = self._at_once(inputs, weights)
        except RuntimeError:  # data-dependent control flow, shapes that do not match
            return False
        return _agree(claimed, self._one_by_one(inputs, weights))

    def _one_by_one(self, inputs: Tensor, logit_weights: Tensor) -> Tensor:
        """(n, r, n_parameters), by a backward pass for each."""
        parameters = tuple(self._rest.values())
        rows = []
        for state, weights in zip(inputs, logit_weights, strict=True):
            with torch.enable_grad():
                logits = self._module(state[None])[0]
            for one in weights:
                parts = torch.autograd.grad(
                    logits,
                    parameters,
                    one,
                    retain_graph=True,
                    allow_unused=True,
                    materialize_grads=True,
                )
                rows.append(torch.cat([part.flatten() for part in parts]))
        return torch.stack(rows).view(*logit_weights.shape[:2], -1)

    def _at_once(self, inputs: Tensor, logit_weights: Tensor) -> Tensor:
        """(n, r, n_parameters), by torch.func."""

        def selected(parameters: dict[str, Tensor], state: Tensor, weights: Tensor) -> Tensor:
            logits = call_with(self._module, parameters, state[None])
            total: Tensor = (logits[0] * weights).sum()
            return total

        per_functional = vmap(grad(selected), in_dims=(None, None, 0))
        per_state = vmap(per_functional, in_dims=(None, 0, 0))
        with torch.no_grad():  # torch.func.grad does not mind; the outer graph is not needed
            gradients = per_state(dict(self._rest), inputs, logit_weights)
        return torch.cat([part.flatten(2) for part in gradients.values()], dim=2)


def _has_closed_form(layer: nn.Module) -> bool:
    own = layer._parameters
    if own.keys() != {"weight", "bias"}:  # not, if its weight is computed (torch's weight_norm)
        return False
    if not any(p is not None and p.requires_grad for p in own.values()):
        return False
    if type(layer) is nn.Conv2d:
        return (
            layer.groups == 1 and layer.padding_mode == "zeros" and isinstance(layer.padding, tuple)
        )
    return type(layer) is nn.Linear


def _is_confirmed(
    layer: Any, call: _Call, logits: Tensor, weights: Tensor, gradients: dict[int, Tensor]
) -> bool:
    """Whether the layer's parameters have the gradient that the closed form says, on real states.

    Not taken on trust: a parameter may be shared, or used through another door as well (weight
    tying, `functional.linear`), or a hook may change what the layer returns. A gradient of 0 says
    nothing.
    """
    own = [p for p in layer.parameters(recurse=False) if p.requires_grad]
    if any(id(p) not in gradients for p in own):
        return False
    signal = _signals(logits, [call], weights[:, None, :])[0]
    claimed = torch.cat([f.total() for f in _factors_of(layer, call.inputs, signal)])
    actual = torch.cat([gradients[id(p)].flatten() for p in own])
    return bool(actual.any()) and _agree(claimed, actual)


def _agree(claimed: Tensor, actual: Tensor) -> bool:
    """Whether two gradients are the same, up to rounding."""
    if claimed.shape != actual.shape:
        return False
    eps = torch.finfo(actual.dtype).eps
    return bool((claimed - actual).abs().max() <= 1e3 * eps * actual.abs().max())


@contextmanager
def _recording(layers: list[Any]) -> Iterator[dict[Any, list[_Call]]]:
    """Record every call of the layers during the block."""
    calls: dict[Any, list[_Call]] = {layer: [] for layer in layers}

    def hook(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        edge = torch.autograd.graph.get_gradient_edge(output)
        calls[layer].append(_Call(inputs[0].detach(), edge))

    handles: list[RemovableHandle] = [layer.register_forward_hook(hook) for layer in layers]
    try:
        yield calls
    finally:
        for handle in handles:
            handle.remove()


def _signals(logits: Tensor, calls: list[_Call], logit_weights: Tensor) -> list[Tensor]:
    """What arrives at each layer's output, (n, r, *output_shape): one backward per functional."""
    if not calls:
        return []
    edges = [call.output_edge for call in calls]
    by_functional = [
        torch.autograd.grad(logits, edges, weights, retain_graph=True)
        for weights in logit_weights.unbind(dim=1)
    ]
    if len(by_functional) == 1:
        return [part.unsqueeze(1) for part in by_functional[0]]  # the usual case, without a copy
    return [torch.stack(parts, dim=1) for parts in zip(*by_functional, strict=True)]


def _factors_of(layer: nn.Linear | nn.Conv2d, inputs: Tensor, signals: Tensor) -> list[Factor]:
    """Inputs (n, …) and signals (n, r, …) of one layer as factors of its trainable parameters."""
    trains_bias = layer.bias is not None and layer.bias.requires_grad
    trains_weight = layer.weight.requires_grad
    if isinstance(layer, nn.Linear) and inputs.ndim == 2:
        if trains_weight:
            return [OuterFactor(inputs, signals, trains_bias)]
        return [StoredFactor(signals)]
    if isinstance(layer, nn.Linear):
        columns = inputs.flatten(1, -2).transpose(1, 2)  # (n, d_in, positions)
        rows = signals.flatten(2, -2).transpose(2, 3)  # (n, r, d_out, positions)
    else:
        assert isinstance(layer.padding, tuple)  # _has_closed_form
        columns = functional.unfold(
            inputs, layer.kernel_size, layer.dilation, layer.padding, layer.stride
        )
        rows = signals.flatten(3)
    parts: list[Factor] = []
    if trains_weight:
        product = torch.einsum("nrop,nip->nroi", rows, columns)
        parts.append(StoredFactor(product.flatten(2)))
    if trains_bias:
        parts.append(StoredFactor(rows.sum(dim=3)))
    return parts
