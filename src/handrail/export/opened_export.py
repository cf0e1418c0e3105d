"""An exported file, read back: the policy that it computes, and what travels along.

Whatever is proven of the policy is then proven of the file. So nothing is taken from the metadata
that the file itself says: an ONNX graph is read operation by operation, and one that is not a chain
of layers and activations is refused.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from handrail._storage import read_file
from handrail.errors import InvalidArgument, InvalidPolicy
from handrail.policies import (
    ACTIVATIONS,
    CategoricalPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    Policy,
    Residual,
)

CERTIFICATE = "certificate"

_LARGEST = 2**31  # bytes

# Entries of an ONNX file that are texts as they stand.
_TEXTS = {"handrail", "quantity", "constraints", "precision", CERTIFICATE}

_INPUT = "observations"

# Operations that are an activation of the table as they stand, with the attributes that make them.
_ACTIVATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "Relu": ("relu", {}),
    "Tanh": ("tanh", {}),
    "Sigmoid": ("sigmoid", {}),
    "Elu": ("elu", {"alpha": 1.0}),
}


@final
@dataclass(frozen=True)
class OpenedExport:
    """A policy that came from an exported file.

    Attributes:
        policy: in the arithmetic that the file computes in.
        metadata: as it is in the file.
    """

    policy: Policy
    metadata: Mapping[str, Any]

    @property
    def certificate(self) -> bytes:
        """As `handrail.proof.sealed_certificates` wrote it; empty if there is none."""
        return str(self.metadata.get(CERTIFICATE, "")).encode()


def open_export(path: str | Path) -> OpenedExport:
    """Read back a file that `export_onnx` or `export_numpy` wrote."""
    path = Path(path)
    readers: dict[str, Callable[[bytes, str], OpenedExport]] = {".onnx": of_onnx, ".npz": of_numpy}
    if path.suffix not in readers:
        raise InvalidArgument(f"{path}: expected a name that ends with .onnx or .npz.")
    try:
        content = read_file(path, _LARGEST)
    except OSError as error:
        raise InvalidArgument(f"{path} cannot be read: {error.strerror or error}.") from error
    return readers[path.suffix](content, str(path))


def of_numpy(content: bytes, name: str) -> OpenedExport:
    """Of an .npz file, which computes in float64 whatever the precision of its weights."""
    try:
        file = dict(np.load(BytesIO(content), allow_pickle=False))
        metadata = json.loads(str(file["metadata"]))
        kinds = [str(one) for one in file["activations"]]
        layers = [(file[f"weight_{k}"].T, file[f"bias_{k}"]) for k in range(len(kinds))]
        is_mean = str(file["outputs"]) == "mean"
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise InvalidPolicy(f"{name} is no file of `export_numpy`, or it is damaged.") from error
    parts: list[nn.Module] = []
    for k, ((weight, bias), kind) in enumerate(zip(layers, kinds, strict=True)):
        parts.append(_linear(weight.astype(np.float64), bias.astype(np.float64)))
        if f"gain_{k}" in file:
            nothing = np.zeros(len(bias))
            parts = [Residual(nn.Sequential(*parts), file[f"gain_{k}"].T, nothing, torch.float64)]
        parts += [] if kind == "id" else [ACTIVATIONS[kind].kind()]
    return OpenedExport(_policy(parts, is_mean, metadata), metadata)


def of_onnx(content: bytes, name: str) -> OpenedExport:
    """Of an .onnx file."""
    try:
        import onnx  # noqa: PLC0415  (optional)
    except ModuleNotFoundError as error:
        raise InvalidArgument(
            f'{name}: reading ONNX needs {error.name}: pip install "handrail[onnx]".'
        ) from error
    try:
        model = onnx.load_model_from_string(content)
    except Exception as error:  # whatever protobuf finds in it
        raise InvalidPolicy(f"{name} is no ONNX file, or it is damaged.") from error
    metadata = {one.key: _value(one.key, one.value) for one in model.metadata_props}
    if "handrail" not in metadata:
        raise InvalidPolicy(f"{name} is not an ONNX file that Handrail wrote.")
    chain = _Chain(model, onnx.numpy_helper.to_array, onnx.helper.get_attribute_value, name)
    return OpenedExport(_policy(*chain.read(), metadata), metadata)


def _value(key: str, text: str) -> Any:
    """JSON where it is more than a text."""
    try:
        return text if key in _TEXTS else json.loads(text)
    except ValueError:
        return text  # somebody else's entry


def _policy(parts: Sequence[nn.Module], is_mean: bool, metadata: Mapping[str, Any]) -> Policy:
    module = nn.Sequential(*parts)
    if not is_mean:
        return CategoricalPolicy(module)
    if "std" in metadata:
        return GaussianPolicy(module, metadata["std"])
    return DeterministicPolicy(module, 1.0)


def _linear(weight: NDArray[Any], bias: NDArray[Any]) -> nn.Linear:
    n_out, n_in = weight.shape
    layer = nn.Linear(n_in, n_out, dtype=torch.as_tensor(weight[:0].copy()).dtype)
    with torch.no_grad():
        layer.weight.copy_(torch.as_tensor(weight.copy()))
        layer.bias.copy_(torch.as_tensor(bias.copy()))
    return layer


@final
class _Chain:
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
            raise self._refusal("operations of its own")
        if any(one.data_location for one in model.graph.initializer):
            raise self._refusal("weights in other files")
        self._constants = {one.name: to_array(one) for one in model.graph.initializer}
        self._left = list(model.graph.node)

    def read(self) -> tuple[list[nn.Module], bool]:
        """The layers, and whether they return means (else logits)."""
        at, parts = _INPUT, []
        outputs = [one.name for one in self._graph.output]
        if [one.name for one in self._graph.input] != [_INPUT]:
            raise self._refusal("other inputs than observations")
        while self._left and self._left[0].op_type != "Softmax":
            part, at = self._next(at)
            parts.append(part)
        if not self._left and outputs == [at] == ["mean"]:
            return parts, True
        if len(self._left) == 1 and outputs == [at, *self._left[0].output]:
            node = self._left[0]
            if list(node.input) == [at] and self._attributes(node) == {"axis": -1}:
                return parts, False
        raise self._refusal("other outputs than logits and their softmax, or means")

    def _next(self, at: str) -> tuple[nn.Module, str]:
        node = self._left.pop(0)
        given, attributes = list(node.input), self._attributes(node)
        known = _ACTIVATIONS.get(node.op_type)
        if node.op_type == "Gemm" and len(given) == 3 and given[0] == at:
            plain = {"alpha": 1.0, "beta": 1.0, "transA": 0, "transB": 1}
            weight, bias = (self._constants.get(one) for one in given[1:])
            if {**plain, **attributes} == plain and weight is not None and bias is not None:
                return _linear(weight, bias), node.output[0]
        elif known is not None and given == [at] and attributes == known[1]:
            if node.op_type == "Sigmoid" and self._multiplies(at, node.output[0]):
                return ACTIVATIONS["silu"].kind(), self._left.pop(0).output[0]
            return ACTIVATIONS[known[0]].kind(), node.output[0]
        elif node.op_type == "Clip" and given[0] == at and not attributes:
            ends = [self._constants.get(one) for one in given[1:]]
            if ends == [-1.0, 1.0]:
                return ACTIVATIONS["hardtanh"].kind(), node.output[0]
        raise self._refusal(f"the operation {node.op_type}{attributes or ''}, as it stands there")

    def _multiplies(self, one: str, other: str) -> bool:
        """Whether the next operation is h · sigmoid(h)."""
        return (
            bool(self._left)
            and self._left[0].op_type == "Mul"
            and sorted(self._left[0].input) == sorted([one, other])
        )

    def _attributes(self, node: Any) -> dict[str, Any]:
        return {one.name: self._value_of(one) for one in node.attribute}

    def _refusal(self, what: str) -> InvalidPolicy:
        return InvalidPolicy(
            f"{self._name} cannot be read back as layers and activations: it has {what}. Prove the "
            "policy that it was exported from."
        )
