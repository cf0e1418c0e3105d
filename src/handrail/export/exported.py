"""A file that was written, and the comparison that it had to pass first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np

from handrail.arrays import Array
from handrail.errors import InvalidArgument, InvalidPolicy, StorageFailure
from handrail.export.subject import Subject
from handrail.storage import write_atomically

AGREEMENT = 1e-6


@final
@dataclass(frozen=True)
class Exported:
    """A file that acts as the policy does.

    Attributes:
        path: of the file.
        precision: "float64" or "float32": what it computes in.
        largest_difference: between its outputs (probabilities, or mean actions) and the policy's,
            over all compared states.
        rounding: of the policy's own outputs there; 0 if it is float64 itself.
        states_compared: how many those are.
        report: of the constraints, as it is in the file.
    """

    path: Path
    precision: str
    largest_difference: float
    rounding: float
    states_compared: int
    report: dict[str, Any]

    def __str__(self) -> str:
        text = (
            f"{self.path}: {self.precision}, within {self.largest_difference:.1e} of the "
            f"policy at {self.states_compared} states"
        )
        worst = self.report["worst_violation"]
        if worst is None:
            return f"{text}; no constraints"
        rows, regions = len(self.report["rows"]), len(self.report["regions"])
        verdict = "satisfied" if self.report["satisfied"] else "NOT satisfied"
        return (
            f"{text}; constraints {verdict} (rows at points: {rows}, regions: {regions}), worst "
            f"violation {worst:+.1e}"
        )


def check_ending(path: str | Path, ending: str) -> Path:
    """A file that is called what it is."""
    if Path(path).suffix != ending:
        raise InvalidArgument(f"{path}: expected a name that ends with {ending}.")
    return Path(path)


def write_compared(
    subject: Subject,
    path: Path,
    precision: str,
    outputs: Callable[[Array], Array],
    content: Callable[[dict[str, Any]], bytes],
) -> Exported:
    """Write a file, but only if it says what the policy says; it is whole or not there.

    Args:
        subject: what is exported.
        path: of the file.
        precision: what the file computes in; states are rounded to it first.
        outputs: (n, n_actions) by the file's own arithmetic, of states.
        content: of the file, with this metadata.
    """
    states = subject.states.astype(precision).astype(np.float64)
    policy = subject.policy
    expected = policy.outputs(states)
    difference = float(np.abs(outputs(states) - expected).max())
    # A float32 policy is itself known to that much only, and so is a file that rounds otherwise.
    rounding = float(np.abs(policy.in_float64(states).outputs(states) - expected).max())
    if not difference <= AGREEMENT + 2.0 * rounding:
        raise InvalidPolicy(
            f"{path} was not written: computed there in {precision}, outputs differ from the "
            f"policy's by up to {difference:.1e}, which is more than {AGREEMENT:g}. Very large "
            "weights do this in float32; a NumPy file computes in float64."
        )
    metadata = {
        **subject.metadata,
        "precision": precision,
        "largest_difference": difference,
        "rounding": rounding,
        "states_compared": len(states),
    }
    try:
        write_atomically(path, content(metadata))
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror or error}.") from error
    return Exported(path, precision, difference, rounding, len(states), metadata["report"])
