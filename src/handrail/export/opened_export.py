"""An exported file, read back: the policy that it computes, and what travels along.

Whatever is proven of the policy is then proven of the file. So nothing is taken from the metadata
that the file itself says: an ONNX graph is read operation by operation, and one that is not a chain
of layers and activations is refused.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, final

import numpy as np
import torch
from torch import nn

from handrail._storage import read_file
from handrail.errors import InvalidArgument, InvalidPolicy
from handrail.export.onnx_chain import OnnxChain, linear
from handrail.policies import (
    ACTIVATIONS,
    PROBABILITY,
    VALUE,
    BranchedPolicy,
    BranchProbability,
    CategoricalPolicy,
    DeterministicPolicy,
    GaussianPolicy,
    GreedyPolicy,
    Layers,
    MeanAndStd,
    Policy,
    Quantity,
    Refusal,
    Residual,
    VaryingGaussianPolicy,
    quantity_called,
)

CERTIFICATE, ARRAYS = "certificate", "arrays"

_LARGEST = 2**31  # bytes

# Entries of an ONNX file that are texts as they stand.
_TEXTS = {"handrail", "quantity", "constraints", "precision", CERTIFICATE}


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
    def arrays(self) -> dict[str, bytes]:
        """The array files that its constraint file refers to; `InvalidPolicy` if damaged."""
        try:
            packed = dict(self.metadata.get(ARRAYS, {}))
            return {name: _unpacked(base64.b64decode(text)) for name, text in packed.items()}
        except (ValueError, TypeError, zlib.error) as error:
            raise InvalidPolicy(
                f"The states that the file's constraints are about are damaged: {error}."
            ) from error

    @property
    def certificate(self) -> bytes:
        """As `handrail.proof.sealed_certificates` wrote it; empty if there is none."""
        return str(self.metadata.get(CERTIFICATE, "")).encode()


def packed_arrays(arrays: Mapping[str, bytes]) -> dict[str, str]:
    """Files as texts that metadata can hold, by their names."""
    return {
        name: base64.b64encode(zlib.compress(content)).decode() for name, content in arrays.items()
    }


def _unpacked(content: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    unpacked = unpacker.decompress(content, _LARGEST)
    if not unpacker.eof:
        raise ValueError("they end too early, or are too large")
    return unpacked


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
        quantity = quantity_called(str(file["outputs"]))
        if list(file.get("branches", ())) != list(getattr(quantity, "sizes", ())):
            raise ValueError("branches")
        said = np.array([getattr(quantity, end, ()) for end in ("least", "most")])
        if not np.array_equal(file.get("std_range", np.zeros((2, 0))), said):
            raise ValueError("std_range")
    except (ValueError, KeyError, OSError, TypeError) as error:
        raise InvalidPolicy(f"{name} is no file of `export_numpy`, or it is damaged.") from error
    parts: list[nn.Module] = []
    for k, ((weight, bias), kind) in enumerate(zip(layers, kinds, strict=True)):
        parts.append(linear(weight.astype(np.float64), bias.astype(np.float64)))
        if f"gain_{k}" in file:
            nothing = np.zeros(len(bias))
            parts = [Residual(nn.Sequential(*parts), file[f"gain_{k}"].T, nothing, torch.float64)]
        parts += [] if kind == "id" else [ACTIVATIONS[kind].kind()]
    return OpenedExport(_policy(parts, quantity, metadata), metadata)


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
    chain = OnnxChain(model, onnx.numpy_helper.to_array, onnx.helper.get_attribute_value, name)
    policy = _policy(*chain.read(), metadata)
    read = Layers.of(policy.module)
    if isinstance(read, Refusal):
        raise chain.refusal(f"layers in an order of its own ({read.reason})")
    return OpenedExport(policy, metadata)


def _value(key: str, text: str) -> Any:
    """JSON where it is more than a text."""
    try:
        return text if key in _TEXTS else json.loads(text)
    except ValueError:
        return text  # somebody else's entry


def _policy(parts: Sequence[nn.Module], quantity: Quantity, metadata: Mapping[str, Any]) -> Policy:
    module = nn.Sequential(*parts)
    if quantity == VALUE:
        return GreedyPolicy(module)
    if isinstance(quantity, MeanAndStd):
        return VaryingGaussianPolicy(module, quantity.least, quantity.most)
    if isinstance(quantity, BranchProbability):
        return BranchedPolicy(module, quantity.sizes)
    if quantity == PROBABILITY:
        return CategoricalPolicy(module)
    if "std" in metadata:
        return GaussianPolicy(module, metadata["std"])
    return DeterministicPolicy(module, 1.0)
