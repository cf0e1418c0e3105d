"""An ONNX graph as the layers that it computes, read operation by operation.

Every operation must take what the one before it returns: a linear layer, a scaling, an activation
(of which some are several operations in ONNX), or the sum with a controller at the end. A graph
that is anything else is refused, with the operation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from handrail.errors import InvalidPolicy
from handrail.policies import (
    ACTIVATIONS,
    MEAN,
    PROBABILITY,
    VALUE,
    BranchProbability,
    MeanAndStd,
    Quantity,
    Residual,
    Scaler,
)

INPUT = "observations"

# Torch's, which ONNX knows as float32 only.
LEAKY = 0.01

# In a pattern: what the activation is given.
_GIVEN = "given"

_COMMUTE = {"Add", "Mul", "Max"}

# What becomes of noise that depends on the state, before it is kept in its range.
_NOISE = ("Split", "Tanh", "Mul", "Add")

_PLAIN_GEMM = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}


class _Operation(NamedTuple):
    """One operation of a pattern.

    Attributes:
        kind: as ONNX calls it.
        operands: what is given, the number of an earlier operation, or a constant.
        attributes: all that it has.
    """

    kind: str
    operands: tuple[str | int | float, ...] = (_GIVEN,)
    attributes: dict[str, Any] = {}  # noqa: RUF012 (nobody changes it)


_LEAKY_ATTRIBUTE = float(np.float32(LEAKY))

# What each activation of the table is in ONNX; those that others begin like come behind them.
_PATTERNS: tuple[tuple[str, tuple[_Operation, ...]], ...] = (
    (
        "gelu",
        (
            _Operation("Div", (_GIVEN, float(np.sqrt(2.0)))),
            _Operation("Erf", (0,)),
            _Operation("Add", (1, 1.0)),
            _Operation("Mul", (2, 0.5)),
            _Operation("Mul", (_GIVEN, 3)),
        ),
    ),
    ("silu", (_Operation("Sigmoid"), _Operation("Mul", (_GIVEN, 0)))),
    (
        "softplus",
        (
            _Operation("Softplus"),
            _Operation("Greater", (_GIVEN, 20.0)),
            _Operation("Where", (1, _GIVEN, 0)),
        ),
    ),
    ("leaky_relu", (_Operation("Mul", (_GIVEN, LEAKY)), _Operation("Max", (_GIVEN, 0)))),
    ("leaky_relu", (_Operation("LeakyRelu", (_GIVEN,), {"alpha": _LEAKY_ATTRIBUTE}),)),
    ("hardtanh", (_Operation("Clip", (_GIVEN, -1.0, 1.0)),)),
    ("relu", (_Operation("Relu"),)),
    ("tanh", (_Operation("Tanh"),)),
    ("sigmoid", (_Operation("Sigmoid"),)),
    ("elu", (_Operation("Elu", (_GIVEN,), {"alpha": 1.0}),)),
)


class ChainOutputs(NamedTuple):
    """The layers of a graph, and what is made of what they return."""

    parts: list[nn.Module]
    quantity: Quantity


@final
class OnnxChain:
    """A graph in which every operation takes what the one before it returns.

    Args:
        model: an onnx.ModelProto.
        to_array: of an initializer.
        value_of: an attribute.
        name: of the file.
    """

    def __init__(
        self,
        model: Any,
        to_array: Callable[[Any], NDArray[Any]],
        value_of: Callable[[Any], Any],
        name: str,
    ) -> None:
        self._graph, self._name, self._value_of = model.graph, name, value_of
        domains = {one.domain for one in model.graph.node}
        if len(model.functions) or not domains <= {"", "ai.onnx"}:
            raise self.refusal("operations of its own")
        if any(one.data_location for one in model.graph.initializer):
            raise self.refusal("weights in other files")
        self._constants = {one.name: to_array(one) for one in model.graph.initializer}
        self._left = list(model.graph.node)

    def read(self) -> ChainOutputs:
        """All of it, or `InvalidPolicy`."""
        outputs = [one.name for one in self._graph.output]
        if [one.name for one in self._graph.input] != [INPUT]:
            raise self.refusal("other inputs than observations")
        parts: list[nn.Module] = []
        at = INPUT
        while self._left and self._left[0].op_type not in ("Softmax", "Split"):
            parts, at = self._next(parts, at)
        for quantity in (MEAN, VALUE):
            if not self._left and outputs == [at] == list(quantity.stages):
                return ChainOutputs(parts, quantity)
        noise = self._noise(at, outputs)
        if noise is not None:
            return ChainOutputs(parts, noise)
        branches = self._branches(at, outputs)
        if branches:
            return ChainOutputs(parts, BranchProbability(branches))
        if len(self._left) == 1 and outputs == [at, *self._left[0].output]:
            node = self._left[0]
            if list(node.input) == [at] and self._attributes(node) == {"axis": -1}:
                return ChainOutputs(parts, PROBABILITY)
        raise self.refusal(
            "other outputs than logits and their softmax, means (with deviations in their range) "
            "or values"
        )

    def _noise(self, at: str, outputs: Sequence[str]) -> MeanAndStd | None:
        """Means, and deviations (most + least)/2 + (most - least)/2 · tanh, kept in their range.

        Of exactly these numbers: rounded ones would be of another range.
        """
        kinds = [one.op_type for one in self._left]
        if kinds not in ([*_NOISE, "Clip"], [*_NOISE, "Max", "Min"]):
            return None
        split, tanh, product, total, *_, last = self._left
        attributes = self._attributes(split) == {"axis": 1, "num_outputs": 2}
        if not attributes or list(split.input) != [at] or tanh.input[0] != split.output[1]:
            return None
        half = self._combined("Mul", 2, tanh.output[0])
        middle = self._combined("Add", 3, product.output[0])
        ends = self._ends_of_noise(total.output[0])
        if half is None or middle is None or ends is None:
            return None
        least, most = (one.astype(np.float64) for one in ends)
        exact = np.array_equal(middle, 0.5 * (least + most))
        if not exact or not np.array_equal(half, 0.5 * (most - least)):
            return None
        if list(outputs) != [split.output[0], last.output[0]]:
            return None
        return MeanAndStd(tuple(least.tolist()), tuple(most.tolist()))

    def _ends_of_noise(self, at: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Of several dimensions a vector each; of one, ONNX has numbers."""
        if self._left[4].op_type == "Max":
            least = self._combined("Max", 4, at)
            most = self._combined("Min", 5, self._left[4].output[0])
            return None if least is None or most is None else (least, most)
        given, *names = self._left[4].input
        known = [self._constants.get(name) for name in names]
        if given != at or len(known) != 2 or any(one is None or one.size != 1 for one in known):
            return None
        low, high = (np.reshape(one, 1) for one in known if one is not None)
        return low, high

    def _branches(self, at: str, outputs: Sequence[str]) -> tuple[int, ...]:
        """How many logits each softmax is over, if what is left are several side by side."""
        if len(self._left) < 3 or self._left[0].op_type != "Split":
            return ()
        split, *each, joined = self._left
        sizes = self._constants.get(split.input[1]) if len(split.input) == 2 else None
        softmax = [list(one.input) for one in each] == [[one] for one in split.output] and all(
            one.op_type == "Softmax" and self._attributes(one) == {"axis": -1} for one in each
        )
        side_by_side = (
            joined.op_type == "Concat"
            and list(joined.input) == [one.output[0] for one in each]
            and self._attributes(joined) == {"axis": -1}
            and self._attributes(split) == {"axis": 1}
        )
        whole = split.input[0] == at and list(outputs) == [at, joined.output[0]]
        if sizes is None or not (softmax and side_by_side and whole):
            return ()
        return tuple(int(one) for one in sizes)

    def refusal(self, what: str) -> InvalidPolicy:
        """Of a graph that has such a thing."""
        return InvalidPolicy(
            f"{self._name} cannot be read back as layers and activations: it has {what}. Prove the "
            "policy that it was exported from."
        )

    def _next(self, parts: list[nn.Module], at: str) -> tuple[list[nn.Module], str]:
        """The layers with one more, and what the last of them returns."""
        node = self._left[0]
        beside = self._controller(at)
        if beside is not None:
            gain, offset = beside
            around = Residual(nn.Sequential(*parts), gain, offset, _torch_type(gain))
            return [around], self._taken(2)
        for part, count in (self._linear(at), self._activation(at), self._scaling(at)):
            if part is not None:
                return [*parts, part], self._taken(count)
        attributes = self._attributes(node)
        raise self.refusal(f"the operation {node.op_type}{attributes or ''}, as it stands there")

    def _taken(self, count: int) -> str:
        """So many operations are read: what the last of them returns."""
        last: str = self._left[count - 1].output[0]
        del self._left[:count]
        return last

    def _linear(self, at: str) -> tuple[nn.Module | None, int]:
        found = self._product(0)
        if found is None or found[0] != at:
            return None, 0
        return linear(*found[1:]), 1

    def _product(self, index: int) -> tuple[str, NDArray[Any], NDArray[Any]] | None:
        """What a Gemm is given, its weight and its bias; without one, ONNX leaves it out."""
        node = self._left[index]
        if node.op_type != "Gemm" or {**_PLAIN_GEMM, **self._attributes(node)} != _PLAIN_GEMM:
            return None
        given, *names = node.input
        known = [self._constants.get(name) for name in names]
        weight = known[0] if known else None
        if weight is None or weight.ndim != 2:
            return None
        bias = known[1] if len(known) > 1 else np.zeros(len(weight), weight.dtype)
        if bias is None or bias.shape != (len(weight),):
            return None
        return given, weight, bias

    def _controller(self, at: str) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Gain and offset of what is added: a Gemm of the observations, and the sum with it."""
        if at == INPUT or len(self._left) < 2:
            return None
        found, total = self._product(0), self._left[1]
        if found is None or found[0] != INPUT or total.op_type != "Add":
            return None
        if sorted(total.input) != sorted([at, self._left[0].output[0]]):
            return None
        return found[1:]

    def _scaling(self, at: str) -> tuple[nn.Module | None, int]:
        """A product with a constant for each number, a sum with one, or both in this order."""
        factor = self._combined("Mul", 0, at)
        if factor is None:
            offset = self._combined("Add", 0, at)
            if offset is None:
                return None, 0
            return Scaler(np.ones(len(offset)), offset, _torch_type(offset)), 1
        scaled = self._left[0].output[0]
        offset = self._combined("Add", 1, scaled) if len(self._left) > 1 else None
        if offset is None:
            return Scaler(factor, np.zeros(len(factor)), _torch_type(factor)), 1
        return Scaler(factor, offset, _torch_type(factor)), 2

    def _combined(self, kind: str, index: int, at: str) -> NDArray[Any] | None:
        """The vector that an operation combines with what it is given, if it is such a one."""
        node = self._left[index]
        others = [name for name in node.input if name != at]
        if node.op_type != kind or len(node.input) != 2 or len(others) != 1 or node.attribute:
            return None
        found = self._constants.get(others[0])
        return found if found is not None and found.ndim == 1 else None

    def _activation(self, at: str) -> tuple[nn.Module | None, int]:
        for name, pattern in _PATTERNS:
            if self._matches(pattern, at):
                return ACTIVATIONS[name].kind(), len(pattern)
        return None, 0

    def _matches(self, pattern: Sequence[_Operation], at: str) -> bool:
        if len(self._left) < len(pattern):
            return False
        nodes = self._left[: len(pattern)]
        for node, wanted in zip(nodes, pattern, strict=True):
            expected = [self._operand(one, at, nodes) for one in wanted.operands]
            given = [self._value(one) for one in node.input]
            if node.op_type in _COMMUTE:
                expected, given = sorted(expected, key=str), sorted(given, key=str)
            if node.op_type != wanted.kind or given != expected:
                return False
            if self._attributes(node) != wanted.attributes or not self._is_exact(wanted):
                return False
        return True

    def _operand(self, operand: str | int | float, at: str, nodes: Sequence[Any]) -> object:
        """What a pattern means: a name of the graph, or a number in its precision."""
        if isinstance(operand, float):
            return float(np.asarray(operand, self._precision))
        return at if operand == _GIVEN else nodes[int(operand)].output[0]

    def _value(self, name: str) -> object:
        """What an operation is given: the name of what others return, or a number."""
        constant = self._constants.get(name)
        if constant is None or constant.size != 1 or constant.ndim:
            return name
        return float(constant)

    def _is_exact(self, operation: _Operation) -> bool:
        """A slope that ONNX keeps in float32 is torch's in float32 only."""
        return operation.kind != "LeakyRelu" or self._precision == np.float32

    @property
    def _precision(self) -> np.dtype[Any]:
        """Of the weights."""
        return next(one.dtype for one in self._constants.values() if one.ndim == 2)

    def _attributes(self, node: Any) -> dict[str, Any]:
        return {one.name: self._value_of(one) for one in node.attribute}


def linear(weight: NDArray[Any], bias: NDArray[Any]) -> nn.Linear:
    """A layer of these numbers, in their precision."""
    n_out, n_in = weight.shape
    layer = nn.Linear(n_in, n_out, dtype=_torch_type(weight))
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weight.copy()))
        layer.bias.copy_(torch.as_tensor(bias.copy()))
    return layer


def _torch_type(array: NDArray[Any]) -> torch.dtype:
    return torch.as_tensor(array[:0].copy()).dtype
