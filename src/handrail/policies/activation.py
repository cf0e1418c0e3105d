"""The one table of activations: what each computes, how steep it is, its shape, how it rounds.

Whatever evaluates, differentiates, saves or proves a network asks here, so an activation is either
known to all of them or to none. To add one, write it into `_TABLE` and its name into `settings`.
Proofs have lines for every `Shape`; they refuse an activation that declares none.

Every entry is torch's class with its default options; a layer with others is not in the table.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.special import expit, ndtr
from torch import Tensor, nn
from torch.nn import functional

from handrail._types import Array

FloatArray = NDArray[np.floating]

# Torch's softplus is its argument from here on: a jump of log(1 + exp(-20)).
_SOFTPLUS_ENDS = 20.0

_LEAK = 0.01

_DENSITY_AT_ZERO = (2.0 * np.pi) ** -0.5


@final
@dataclass(frozen=True)
class Rectifier:
    """0 below 0, the identity above."""


@final
@dataclass(frozen=True)
class Convex:
    """Nowhere bent downwards."""


@final
@dataclass(frozen=True)
class Clipping:
    """The identity, cut to [-1, 1]."""


@final
@dataclass(frozen=True)
class Sigmoidal:
    """An S: convex below 0, concave above, steepest at 0."""


@final
@dataclass(frozen=True)
class NearRectifier:
    """Between ReLU less a little and ReLU, and almost convex: GELU and SiLU.

    Attributes:
        curvature: f'' is nowhere below minus this.
        inflection: f'' ≤ 0 beyond it, on both sides.
        gap: the largest h - f(h) of h > 0, and the largest -f(h) of h < 0.
    """

    curvature: float
    inflection: float
    gap: float


@final
@dataclass(frozen=True)
class SideBySide:
    """Of a layer whose first units have another activation than those behind them.

    Attributes:
        parts: activations, and how many units have each.
    """

    parts: tuple[tuple[Activation, int], ...]


@final
@dataclass(frozen=True)
class Twinned:
    """Of a layer of inputs h, and behind them differences d: f(h), and f(h + d) - f(h).

    Attributes:
        activation: f.
    """

    activation: Activation


# What a proof may know of an activation f.
Shape = Rectifier | Convex | Clipping | Sigmoidal | NearRectifier | SideBySide | Twinned


@final
@dataclass(frozen=True)
class Activation:
    """A function of one number, applied to every unit of a layer.

    Attributes:
        name: in settings and files.
        kind: torch's class.
        value: of NumPy arrays, of any floating precision; always a fresh array.
        function: the same of tensors.
        slope: the derivative, from the input and the output, as torch's own at kinks.
        formula: the value as an expression in z, of NumPy and `math.erfc` alone.
        shape: what proofs know of it; None if nothing.
        lipschitz: no slope is steeper than this.
        at_zero: |value(0)|.
        largest: |value| is nowhere above this.
        jump: how far torch's function is from the continuous one that `lipschitz` is true of.
        options: attributes of the class that change the function.
    """

    name: str
    kind: type[nn.Module]
    value: Callable[[FloatArray], FloatArray]
    function: Callable[[Tensor], Tensor]
    slope: Callable[[Tensor, Tensor], Tensor]
    formula: str
    shape: Shape | None
    lipschitz: float = 1.0
    at_zero: float = 0.0
    largest: float = np.inf
    jump: float = 0.0
    options: tuple[str, ...] = ()

    def has_default_options(self, layer: nn.Module) -> bool:
        """Whether a layer of this kind computes what the table says."""
        return all(getattr(layer, name) == value for name, value in self._defaults)

    @cached_property
    def _defaults(self) -> tuple[tuple[str, Any], ...]:
        layer = self.kind()
        return tuple((name, getattr(layer, name)) for name in self.options)

    def slopes(self, values: Array) -> Array:
        """The derivative at float64 arrays."""
        return self.value_and_slope(values)[1]

    def value_and_slope(self, values: Array) -> tuple[Array, Array]:
        """Of float64 arrays."""
        after: Array = self.value(values).astype(np.float64, copy=False)
        slopes = self.slope(torch.from_numpy(values), torch.from_numpy(after))
        return after, slopes.double().numpy()


def _elu(z: FloatArray) -> FloatArray:
    result: FloatArray = np.maximum(z, np.expm1(np.minimum(z, 0.0)))
    return result


def _softplus(z: FloatArray) -> FloatArray:
    result: FloatArray = np.where(z > _SOFTPLUS_ENDS, z, np.logaddexp(z, 0.0))
    return result


def _gelu_slope(before: Tensor, after: Tensor) -> Tensor:
    del after
    density = torch.exp(-0.5 * before.square()) * _DENSITY_AT_ZERO
    slope: Tensor = torch.special.ndtr(before) + before * density
    return slope


def _silu_slope(before: Tensor, after: Tensor) -> Tensor:
    share = torch.sigmoid(before)
    return share + after * (1.0 - share)


def _softplus_slope(before: Tensor, after: Tensor) -> Tensor:
    del after
    return torch.where(before > _SOFTPLUS_ENDS, 1.0, torch.sigmoid(before))


def _value(function: Any) -> Callable[[FloatArray], FloatArray]:
    """A ufunc of SciPy or NumPy, or an expression of them: their types say Any."""
    typed: Callable[[FloatArray], FloatArray] = function
    return typed


RELU = Activation(
    "relu",
    nn.ReLU,
    _value(lambda z: np.maximum(z, 0.0)),
    functional.relu,
    lambda _, after: after > 0.0,
    "np.maximum(z, 0)",
    Rectifier(),
)

_TABLE = (
    RELU,
    Activation(
        "tanh",
        nn.Tanh,
        _value(np.tanh),
        torch.tanh,
        lambda _, after: 1.0 - after.square(),
        "np.tanh(z)",
        Sigmoidal(),
        largest=1.0,
    ),
    Activation(
        "elu",
        nn.ELU,
        _elu,
        functional.elu,
        lambda before, after: torch.where(before > 0.0, 1.0, after + 1.0),
        "np.maximum(z, np.expm1(np.minimum(z, 0)))",
        Convex(),
        options=("alpha",),
    ),
    Activation(
        "gelu",
        nn.GELU,
        _value(lambda z: z * ndtr(z)),
        functional.gelu,
        _gelu_slope,
        "z * np.vectorize(erfc)(-z / 2**0.5) / 2",
        # f'' = φ(z)(2 - z²) is lowest at ±2, -2φ(2) = -0.10798, and 0 at √2; z - f(z) ≤ 0.169972.
        NearRectifier(curvature=0.108, inflection=1.4143, gap=0.17),
        lipschitz=1.129,  # at z = √2
        options=("approximate",),
    ),
    Activation(
        "silu",
        nn.SiLU,
        _value(lambda z: z * expit(z)),
        functional.silu,
        _silu_slope,
        "z * (1 + np.tanh(z / 2)) / 2",
        # f'' = σ(z)σ(-z)(2 - z tanh(z/2)) is lowest at ±3.436, -0.036914, and 0 at 2.39936;
        # z - f(z) ≤ 0.278465.
        NearRectifier(curvature=0.03692, inflection=2.3994, gap=0.2785),
        lipschitz=1.1,  # at z = 2.3994
    ),
    Activation(
        "sigmoid",
        nn.Sigmoid,
        _value(expit),
        torch.sigmoid,
        lambda _, after: after * (1.0 - after),
        "(1 + np.tanh(z / 2)) / 2",
        Sigmoidal(),
        lipschitz=0.25,
        at_zero=0.5,
        largest=1.0,
    ),
    Activation(
        "leaky_relu",
        nn.LeakyReLU,
        _value(lambda z: np.maximum(z, _LEAK * z)),
        functional.leaky_relu,
        lambda before, _: torch.where(before > 0.0, torch.ones_like(before), _LEAK),
        "np.maximum(z, 0.01 * z)",
        Convex(),
        options=("negative_slope",),
    ),
    Activation(
        "softplus",
        nn.Softplus,
        _softplus,
        functional.softplus,
        _softplus_slope,
        "np.where(z > 20, z, np.logaddexp(z, 0))",
        Convex(),
        at_zero=0.6931471805599454,
        jump=2.0612e-9,
        options=("beta", "threshold"),
    ),
    Activation(
        "hardtanh",
        nn.Hardtanh,
        _value(lambda z: np.clip(z, -1.0, 1.0)),
        functional.hardtanh,
        lambda before, _: before.abs() < 1.0,
        "np.clip(z, -1, 1)",
        Clipping(),
        largest=1.0,
        options=("min_val", "max_val"),
    ),
)

ACTIVATIONS: dict[str, Activation] = {activation.name: activation for activation in _TABLE}

ACTIVATION_OF: dict[type[nn.Module], Activation] = {one.kind: one for one in _TABLE}

# Behind a layer that has none.
IDENTITY = Activation(
    "id",
    nn.Identity,
    _value(np.positive),
    torch.Tensor.clone,
    lambda before, _: torch.ones_like(before),
    "z",
    Convex(),
)


def side_by_side(*parts: tuple[Activation, int]) -> Activation:
    """One activation for so many units, another for the next; itself, if they are the same."""
    kinds = [activation for activation, _ in parts]
    if all(one is kinds[0] for one in kinds):
        return kinds[0]
    widths = [width for _, width in parts]
    ends = np.cumsum(widths[:-1]).tolist()

    def value(z: FloatArray) -> FloatArray:
        pieces = zip(kinds, np.split(z, ends, axis=-1), strict=True)
        return np.concatenate([one.value(piece) for one, piece in pieces], axis=-1)

    def function(z: Tensor) -> Tensor:
        pieces = zip(kinds, z.split(widths, dim=-1), strict=True)
        return torch.cat([one.function(piece) for one, piece in pieces], dim=-1)

    def slope(before: Tensor, after: Tensor) -> Tensor:
        pieces = zip(kinds, before.split(widths, -1), after.split(widths, -1), strict=True)
        return torch.cat([one.slope(b, a).to(before) for one, b, a in pieces], dim=-1)

    return Activation(
        " and ".join(one.name for one in kinds),
        nn.Module,
        value,
        function,
        slope,
        "",
        SideBySide(parts),
        lipschitz=max(one.lipschitz for one in kinds),
        at_zero=max(one.at_zero for one in kinds),
        largest=max(one.largest for one in kinds),
        jump=max(one.jump for one in kinds),
    )


def twinned(activation: Activation) -> Activation:
    """Of inputs of one network, and what those of another one are more; f of both, likewise.

    What rounds in one of the two matters for the other: three times what it does for f.
    """
    if activation is IDENTITY:
        return activation

    def value(z: FloatArray) -> FloatArray:
        one, more = np.split(z, 2, axis=-1)
        first = activation.value(one)
        return np.concatenate([first, activation.value(one + more) - first], axis=-1)

    return replace(
        activation,
        name=f"twinned {activation.name}",
        value=value,
        shape=Twinned(activation),
        lipschitz=3.0 * activation.lipschitz,
        largest=2.0 * activation.largest,
        jump=2.0 * activation.jump,
    )
