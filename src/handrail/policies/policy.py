"""A policy: a torch module that maps observations to numbers, and what these decide."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from handrail._types import Array
from handrail.errors import InvalidPolicy, ShapeMismatch
from handrail.policies.coordinates import Coordinates
from handrail.policies.fused_network import FusedNetwork, FusedPass
from handrail.policies.layer_arrays import LayerArrays
from handrail.policies.layers import Layers, n_observed
from handrail.policies.normalisation import Normaliser, normaliser_in
from handrail.policies.numpy_pass import NumpyPass
from handrail.policies.quantity import Quantity

# Rows in one forward pass: (rows, 5000) activations that stay in the cache.
ROWS_PER_PASS = 64

# Where nothing is kept of a pass: numbers that a layer makes of all rows at once, and most rows. Of
# narrow networks more rows fit the cache, and what a pass takes by itself is most of its time.
_NUMBERS_AT_ONCE, _MOST_ROWS = 2**16, 1024

# (n,) indices of discrete actions, or (n, n_actions) continuous ones.
Actions = NDArray[Any]

_Made = TypeVar("_Made")


class Policy(ABC):
    """A network and the head on it, evaluated in float64 whatever the network's own precision.

    Args:
        module: maps a batch of observations (n, *observation_shape) to raw outputs (n, n_actions).
    """

    quantity: Quantity
    """What `outputs` are."""
    draws: ClassVar[bool] = True
    """Whether its actions are drawn, so that they have a likelihood."""

    def __init__(self, module: nn.Module) -> None:
        if not isinstance(module, nn.Module):
            raise InvalidPolicy(
                f"A policy needs a torch.nn.Module that maps observations to {self._raw_name}, but "
                f"got {type(module).__name__}. For a fresh network use "
                f"{type(self).__name__}.mlp(env)."
            )
        if not any(p.requires_grad for p in module.parameters()):
            raise InvalidPolicy(
                f"{type(module).__name__} has no trainable parameter, so no update can change its "
                "policy. Set requires_grad=True on the parameters that may move."
            )
        self.module = module
        self._read()

    _raw_name: ClassVar[str]
    _still = False

    @abstractmethod
    def with_module(self, module: nn.Module) -> Self:
        """The same head on another network."""

    @abstractmethod
    def head(self, raw: Array) -> Array:
        """What the raw outputs decide, both (…, n_actions)."""

    @abstractmethod
    def through_head(self, outputs: Array, vectors: Array) -> Array:
        """The head's Jacobian, which is symmetric, times vectors, all (n, n_actions).

        So it does two things: weights on the outputs become weights on the raw outputs, and a
        change of the raw outputs becomes a change of the outputs.
        """

    @abstractmethod
    def scale(self, outputs: Array) -> Array:
        """(n, n_actions): divided by it, the gradient of an output is that of a log-likelihood."""

    def margin_scale(self, outputs: Array) -> Array:
        """(n_actions,) in which margins of regions are told: the scale of the first outputs.

        Of noise that is learned, one that stays, or a learner that is loaded would hold otherwise.
        """
        scale: Array = self.scale(outputs)[0]
        return scale

    @abstractmethod
    def natural(self, outputs: Array) -> tuple[Array, Array]:
        """Coordinates y (n, k) in which a squared change is twice the divergence (Fisher).

        Of outputs (n, n_actions); and their gradients over the raw outputs (n, k, n_actions).
        """

    @abstractmethod
    def likelihood(self, outputs: Array, actions: Actions) -> tuple[Array, Array]:
        """Of actions: log π(a|s) (n,), and its gradient over the raw outputs (n, n_actions)."""

    @abstractmethod
    def actor(self, rng: np.random.Generator) -> Callable[[Array], Any]:
        """Draws an action for one observation after the other.

        For as long as the weights stay as they are now. The generator is its own from now on: it
        may draw ahead.
        """

    @abstractmethod
    def draw(self, outputs: Array, rngs: Sequence[np.random.Generator]) -> Actions:
        """An action per row of the outputs (n, n_actions), each from its own stream of chance."""

    @abstractmethod
    def likeliest(self, outputs: Array) -> Actions:
        """The most likely action per row of the outputs (n, n_actions)."""

    def __repr__(self) -> str:
        n = sum(p.numel() for p in self.parameters)
        return f"{type(self).__name__}({type(self.module).__name__}, {n:,} trainable parameters)"

    @property
    def parameters(self) -> tuple[nn.Parameter, ...]:
        """The trainable parameters, in the order of the module."""
        layers = self.layers()
        if layers is not None and layers.trainable:
            return layers.parameters
        return tuple(p for p in self.module.parameters() if p.requires_grad)

    @property
    def coordinates(self) -> Coordinates:
        """In which outputs are moved."""
        return self.quantity

    def output_range(self) -> tuple[Array, Array] | None:
        """The lowest and highest outputs (n_actions,) that weights can give, if the network says.

        None where it does not: what kind of number an output is, is known to `quantity`.
        """
        return None

    def decided_layers(self, layers: LayerArrays) -> LayerArrays:
        """The same network with whatever of the head a proof must look into."""
        return layers

    @property
    def dtype(self) -> torch.dtype:
        """The precision the module computes in."""
        return self._first_parameter().dtype

    def behind(self, front: Normaliser) -> Self:
        """The same network on the same parameters, of observations that are normalised first."""
        layers = self.layers()
        flatten = [nn.Flatten()] if layers is not None and layers.flattens else []
        return self.with_module(nn.Sequential(*flatten, front, self.module))

    def in_float64(self, states: ArrayLike) -> Self:
        """A copy that computes in float64, or itself if it does already.

        Itself, too, if the module insists on its own precision: tried on the first of the states.
        """
        if self.dtype == torch.float64:
            return self
        layers, first = self.layers(), np.asarray(states)[:1]
        if layers is None:
            # Weights that are computed in every pass (torch's older weight_norm) can be copied only
            # as a pass without gradients leaves them.
            self.raw(first)
            module = copy.deepcopy(self.module).double()
        else:
            module = layers.in_float64()
        copied = self.with_module(module)
        try:
            copied.raw(first)
        except ShapeMismatch:  # a layer that casts to float32
            return self
        return copied

    def in_float32(self) -> Self:
        """A copy that computes in float32: with weights rounded to it."""
        return self.with_module(copy.deepcopy(self.module).float())

    def to_tensor(self, states: ArrayLike) -> Tensor:
        """States (n, *observation_shape) as the module expects them."""
        first = self._first_parameter()
        # What is normalised in front is so in float64, whatever the network computes in.
        dtype = torch.float64 if self._normalises else first.dtype
        return torch.tensor(np.asarray(states), dtype=dtype, device=first.device)

    def seen(self, states: ArrayLike) -> Array | None:
        """States (n, *observation_shape) in the network's own units (n, n_observations).

        As its first layer is given them: scaled, where a fixed layer in front does that. None of a
        network that is not looked into, which may do anything with them.
        """
        layers = self.layers()
        return None if layers is None else layers.seen(np.asarray(states, dtype=np.float64))

    def outputs(self, states: ArrayLike) -> Array:
        """What constraints are about, at states (n, *observation_shape): (n, n_actions)."""
        return self.head(self.raw(states))

    def raw(self, states: ArrayLike) -> Array:
        """What the module returns (n, n_actions), chunk by chunk so that memory stays bounded."""
        fused = self.fused()
        if fused is None:
            result = self._raw_of_few(states)
            if result is None:
                inputs = self.to_tensor(states)
                result = self._of_batch(inputs, lambda: self._torch_raw(inputs))
        else:  # which reads float64 on the CPU: no tensor is needed in between
            batch: Array = np.asarray(states, dtype=np.float64)
            result = self._of_batch(batch, lambda: fused.raw(batch))
        self._refuse_not_finite(result, states)
        return result

    def passed(self, states: ArrayLike) -> FusedPass | None:
        """A compiled pass over a batch, from which gradients come back; None if there is none."""
        fused = self.fused()
        if fused is None:
            return None
        batch: Array = np.asarray(states, dtype=np.float64)
        passed = self._of_batch(batch, lambda: fused.passed(batch))
        self._refuse_not_finite(passed.raw, states)
        return passed

    def _refuse_not_finite(self, raw: Array, states: ArrayLike) -> None:
        if not np.isfinite(raw).all():
            bad = np.flatnonzero(~np.isfinite(raw).all(axis=1))
            raise self._not_finite(np.asarray(states)[bad[0]])

    def _of_batch(self, inputs: Tensor | Array, evaluate: Callable[[], _Made]) -> _Made:
        """What the network makes of a batch; one that it cannot take is refused in words."""
        if inputs.ndim < 2 or not len(inputs):
            raise ShapeMismatch(
                f"Expected a batch of states (n, *observation_shape) with n > 0, but got shape "
                f"{tuple(inputs.shape)}."
            )
        try:
            return evaluate()
        except (RuntimeError, ValueError) as error:
            if isinstance(error, InvalidPolicy):
                raise
            raise self._refusal(inputs, error) from error

    def _first_parameter(self) -> nn.Parameter:
        """Of the trainable ones; torch's own ways to it take as long as a pass over a state."""
        layers = self.layers()
        if layers is not None and layers.trainable:
            return layers.parameters[0]
        return next(p for p in self.module.parameters() if p.requires_grad)

    def _torch_raw(self, inputs: Tensor) -> Array:
        if self._layers is not None:  # which neither mix states nor remember any
            with torch.no_grad():
                chunks = [self.module(chunk) for chunk in inputs.split(_rows_at_once(self._layers))]
        else:
            _refuse_mixing_of_samples(self.module)
            with torch.no_grad(), _keeping_buffers(self.module):
                chunks = [self.module(chunk) for chunk in inputs.split(ROWS_PER_PASS)]
        first = chunks[0]
        if not isinstance(first, Tensor) or first.ndim != 2:
            found = f"shape {tuple(first.shape)}" if isinstance(first, Tensor) else type(first)
            raise InvalidPolicy(
                f"{type(self.module).__name__} returned {found} for {len(inputs)} states; expected "
                f"a tensor of {self._raw_name} (n, n_actions)."
            )
        whole = first if len(chunks) == 1 else torch.cat(chunks)
        raw: Array = whole.double().cpu().numpy()
        return raw

    def layers(self) -> Layers | None:
        """The plain network that the module is at present; None if only torch can evaluate it.

        Asked before every pass that does not call the module, so that what acts is what is
        measured, whatever was done to the module meanwhile.
        """
        if self._layers is not None and not self._still and not self._layers.is_current():
            self._read()
        return self._layers

    @contextmanager
    def still(self) -> Iterator[None]:
        """Inside, nobody else has a chance to change the module: its layers are looked at once.

        Weights may change, in place.
        """
        self.layers()
        before, self._still = self._still, True
        try:
            yield
        finally:
            self._still = before

    def fused(self) -> FusedNetwork | None:
        """The compiled form of the network at its present weights, where there is one."""
        layers = self.layers()
        return self._fused if layers is not None and layers.trainable else None

    def in_numpy(self) -> NumpyPass | None:
        """The passes in NumPy at the present weights, where all of a plain network is trained."""
        layers = self.layers()
        return self._numpy if layers is not None and layers.trainable else None

    def _read(self) -> None:
        """Find out how the module can be evaluated."""
        self._normalises = normaliser_in(self.module) is not None
        read = Layers.of(self.module)
        self._layers = read if isinstance(read, Layers) else None
        self._numpy = None if self._layers is None else NumpyPass.of(self._layers)
        self._fused = None if self._layers is None else FusedNetwork.of(self._layers)

    def _raw_of_few(self, states: ArrayLike) -> Array | None:
        """Without torch, once the layers were looked at; None where it is for torch."""
        batch, in_numpy = np.asarray(states), self._numpy
        return None if in_numpy is None or not in_numpy.takes(batch) else in_numpy.raw(batch)

    def _raw_of_one(self, state: NDArray[Any]) -> Array:
        self.layers()
        if self._numpy is None:
            raw: Array = self.raw(state[None])[0]
            return raw
        try:
            return self._numpy(state)
        except ValueError as error:
            raise self._refusal(state[None], error) from error

    def _refusal(self, states: Any, error: Exception) -> ShapeMismatch:
        return ShapeMismatch(
            f"The policy's network refused states of shape {tuple(states.shape[1:])}"
            f"{self._expectation()}. Its own words: {error}"
        )

    def _expectation(self) -> str:
        known = n_observed(self.module)
        return "" if known is None else f"; it observes {known} values"

    def _not_finite(self, state: NDArray[Any]) -> InvalidPolicy:
        where = state.tolist() if state.size <= 12 else f"an observation of shape {state.shape}"
        return InvalidPolicy(
            f"The policy's {self._raw_name} are not finite at {where}. Either the observation is "
            "not, or the weights have diverged: load the last good ones, and take smaller steps."
        )


def _refuse_mixing_of_samples(module: nn.Module) -> None:
    for name, part in module.named_modules():
        normalises = isinstance(part, nn.modules.batchnorm._BatchNorm)
        if normalises and (part.training or not part.track_running_stats):
            raise InvalidPolicy(
                f"{type(part).__name__} '{name}' mixes the states of a batch, so no state has a "
                "policy of its own. Call module.eval() first."
            )
        if type(part).__module__.startswith("torch.ao.nn.quantized.dynamic"):
            raise InvalidPolicy(
                f"{type(part).__name__} '{name}' is quantised: it rounds by what else is in a "
                "batch, so no state has a policy of its own. Quantise an exported file instead."
            )
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.training and part.p > 0.0:
            raise InvalidPolicy(
                f"{type(part).__name__} '{name}' is random in training mode, so the policy is not "
                "a function of the state. Call module.eval() first."
            )


@contextmanager
def _keeping_buffers(module: nn.Module) -> Iterator[None]:
    """Refuse a module that remembers what it is shown, and let it forget that.

    Spectral normalisation in training mode is one: every pass improves its weights a little, so
    what is measured is not what acts next.
    """
    held = [
        (part, name, one, _version(one), None if one is None else one.clone())
        for part in module.modules()
        for name, one in part._buffers.items()
    ]
    changed = None
    try:
        yield
    finally:
        for part, name, one, version, value in held:
            if part._buffers.get(name) is not one or _version(one) != version:
                changed = changed or f"{type(part).__name__} changes its buffer {name!r}"
                part._buffers[name] = one
                if one is not None and value is not None:
                    one.copy_(value)
    if changed is not None:
        raise InvalidPolicy(
            f"{changed} whenever it is evaluated, so every state alters the policy of the next "
            "one. Call module.eval() first, or keep what it remembers out of the network."
        )


def _version(buffer: Tensor | None) -> int:
    """Raised by whatever writes into it; not counted of tensors made for inference."""
    return 0 if buffer is None or buffer.is_inference() else buffer._version


def _rows_at_once(layers: Layers) -> int:
    """Of states, by the widest of the layers."""
    widest = max(layer.out_features for layer in layers.linear)
    return max(ROWS_PER_PASS, min(_MOST_ROWS, _NUMBERS_AT_ONCE // widest))
