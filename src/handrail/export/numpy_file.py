"""A policy as a NumPy file: weights, names of activations, and a few lines that run it."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import nn

from handrail._storage import to_json
from handrail._types import Array
from handrail.errors import InvalidPolicy
from handrail.export.exported import (
    Exportable,
    Exported,
    Proven,
    check_ending,
    write_compared,
)
from handrail.export.opened_export import of_numpy
from handrail.policies import (
    ACTIVATIONS,
    IDENTITY,
    BranchProbability,
    Layers,
    MeanAndStd,
    Policy,
    Refusal,
)
from handrail.proof import Budget
from handrail.rulebook import AnyConstraints, Rulebook

_FORMULAS = "\n".join(
    f'    "{activation.name}": lambda z: {activation.formula},'
    for activation in (IDENTITY, *ACTIVATIONS.values())
)

# What a user of the file copies. Every file is compared with its policy through these very lines.
LOADER = f"""\
from math import erfc
import numpy as np

F = {{
{_FORMULAS}
}}


def outputs(file, states):  # file = dict(np.load("policy.npz")), states (n, n_observations)
    z = states = np.asarray(states, dtype=float)
    for k, activation in enumerate(file["activations"]):
        z = z @ file[f"weight_{{k}}"] + file[f"bias_{{k}}"]
        z = F[activation](z + states @ file[f"gain_{{k}}"] if f"gain_{{k}}" in file else z)
    if "std_range" in file:  # (2, n_actions): the least and the most; noise behind the means
        mean, noise, (least, most) = *np.split(z, 2, axis=1), file["std_range"]
        std = (least + most) / 2 + (most - least) / 2 * np.tanh(noise)
        return np.hstack([mean, np.clip(std, least, most)])
    branches = np.split(z, np.cumsum(file.get("branches", ()))[:-1], axis=1)
    chances = [np.exp(b - np.logaddexp.reduce(b, 1, keepdims=True)) for b in branches]
    return np.hstack(chances) if "probability" in str(file["outputs"]) else z
"""


def export_numpy(
    policy: Policy,
    path: str | Path,
    constraints: AnyConstraints = (),
    *,
    observations: Sequence[str] = (),
    actions: Sequence[str] = (),
    constraint_file: str | Rulebook = "",
    states: ArrayLike | None = None,
    tolerance: float | None = None,
    prove: bool = False,
    budget: Budget | None = None,
) -> Exported:
    """Write a policy as an .npz file that `LOADER`, a few lines of NumPy, runs.

    For networks of Linear layers and activations. The file holds `weight_k`, `bias_k`,
    `activations`, `outputs` ("probability", "mean" or "value"), and `metadata`, a JSON text; of
    several branches of actions their sizes, too, `branches`; of noise that depends on the state
    `std_range`, and then the loader returns means, and behind them standard deviations. No pickle.
    Weights are as precise as the policy's, the loader computes in float64. Arguments as for
    `export_onnx`.
    """
    file = check_ending(path, ".npz")
    subject = Exportable.of(
        policy, constraints, observations, actions, constraint_file, states, tolerance
    )
    arrays = {**_arrays(policy.module), "outputs": np.array(policy.quantity.full_name)}
    if isinstance(policy.quantity, BranchProbability):
        arrays["branches"] = np.array(policy.quantity.sizes)
    if isinstance(policy.quantity, MeanAndStd):
        arrays["std_range"] = np.array([policy.quantity.least, policy.quantity.most])

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
        Proven(of_numpy, budget) if prove else None,
    )


def _arrays(module: nn.Module) -> dict[str, NDArray[Any]]:
    """Weights (n_in, n_out) and biases (n_out,) in their own precision, and names."""
    layers = Layers.of(module)
    if isinstance(layers, Refusal):
        raise InvalidPolicy(
            f"A NumPy file cannot hold this network: {layers.reason}. It holds Linear layers, each "
            f"with at most one activation behind it ({', '.join(ACTIVATIONS)}), as torch has them. "
            "Export it as ONNX, which holds any network."
        )
    arrays = layers.arrays()
    # Of a plain network, as they are; else they are products with the numbers that are not learned.
    plain = layers.front is None and layers.residual is None and layers.back is None
    precision = str(layers.dtype).removeprefix("torch.") if plain else "float64"
    gains = [(k, gain) for k, gain in enumerate(arrays.gains or ()) if gain is not None]
    numbers = {
        **{f"weight_{k}": weight.T for k, weight in enumerate(arrays.weights)},
        **{f"bias_{k}": bias for k, bias in enumerate(arrays.biases)},
        **{f"gain_{k}": gain.T for k, gain in gains},
    }
    return {
        **{name: np.ascontiguousarray(one, precision) for name, one in numbers.items()},
        "activations": np.array([activation.name for activation in arrays.activations]),
    }


def _packed(arrays: dict[str, NDArray[Any]]) -> bytes:
    buffer = BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    return buffer.getvalue()
