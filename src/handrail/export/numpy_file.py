"""A policy as a NumPy file: weights, names of activations, and ten lines that run it."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from handrail._storage import to_json
from handrail._types import Array
from handrail.export.exported import Exported, Subject, check_ending, write_compared
from handrail.policies import Policy, affine_layers
from handrail.rulebook import AnyConstraints

# What a user of the file copies. Every file is compared with its policy through these very lines.
LOADER = """\
from math import erfc
import numpy as np

F = {"relu": lambda z: np.maximum(z, 0), "elu": lambda z: np.maximum(z, np.expm1(np.minimum(z, 0)))}
F |= {"sigmoid": lambda z: (1 + np.tanh(z / 2)) / 2, "silu": lambda z: z * (1 + np.tanh(z / 2)) / 2}
F |= {"gelu": lambda z: z * np.vectorize(erfc)(-z / 2**0.5) / 2, "tanh": np.tanh, "id": np.positive}


def outputs(file, states):  # file = dict(np.load("policy.npz")), states (n, n_observations)
    z = np.asarray(states, dtype=float)
    for k, activation in enumerate(file["activations"]):
        z = F[activation](z @ file[f"weight_{k}"] + file[f"bias_{k}"])
    return z if file["outputs"] == "mean" else np.exp(z - np.logaddexp.reduce(z, 1, keepdims=True))
"""


def export_numpy(
    policy: Policy,
    path: str | Path,
    constraints: AnyConstraints = (),
    *,
    observations: Sequence[str] = (),
    actions: Sequence[str] = (),
    constraint_file: str = "",
    states: ArrayLike | None = None,
    tolerance: float | None = None,
) -> Exported:
    """Write a policy as an .npz file that `LOADER`, ten lines of NumPy, runs.

    For networks of Linear layers and activations. The file holds `weight_k`, `bias_k`,
    `activations`, `outputs` ("probability" or "mean"), and `metadata`, a JSON text; no pickle.
    Weights are as precise as the policy's, the loader computes in float64. Arguments as for
    `export_onnx`.
    """
    file = check_ending(path, ".npz")
    subject = Subject.of(
        policy, constraints, observations, actions, constraint_file, states, tolerance
    )
    arrays: dict[str, NDArray[Any]] = {}
    layers = affine_layers(policy.module)
    for k, layer in enumerate(layers):
        arrays[f"weight_{k}"], arrays[f"bias_{k}"] = layer.weight, layer.bias
    arrays["activations"] = np.array([layer.activation for layer in layers])
    arrays["outputs"] = np.array(policy.quantity.name)

    def run(states: Array) -> Array:
        namespace: dict[str, Any] = {}
        exec(LOADER, namespace)
        result: Array = namespace["outputs"](arrays, states.reshape(len(states), -1))
        return result

    return write_compared(
        subject,
        file,
        "float64",  # whatever the weights: the loader turns states into that
        run,
        lambda metadata: _packed({**arrays, "metadata": np.array(to_json(metadata))}),
    )


def _packed(arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
