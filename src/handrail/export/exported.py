"""How a policy meets its constraints, as plain values that fit into a file's metadata."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike

from handrail._package import VERSION
from handrail._storage import write_atomically
from handrail._types import Array
from handrail.constraints import (
    Constraint,
    Regional,
    Tolerance,
    Violations,
    counted,
    expand,
    measure_rows,
)
from handrail.errors import InvalidArgument, InvalidPolicy, StorageFailure
from handrail.export.opened_export import ARRAYS, CERTIFICATE, OpenedExport, packed_arrays
from handrail.policies import GaussianPolicy, Policy, first_layer, n_observed
from handrail.proof import Budget, Certificates, certify, sealed_certificates
from handrail.rulebook import AnyConstraints, Rulebook, constraints_of, load_constraints

_STATES_PER_REGION = 1000

_LARGEST_STATE = 100  # numbers; of larger ones, the shape must do


def constraint_report(
    policy: Policy, constraints: Sequence[Constraint], tolerance: Tolerance
) -> dict[str, Any]:
    """Every row at points, and of every region the worst state of a sample.

    Returns:
        `rows` and `regions` (each: name, state, lower, upper, value, violation; of a region, also
        how many states were measured), `worst_violation` (None without constraints), `tolerance`,
        and `satisfied`: whether no violation exceeds it (None without constraints).
    """
    rows: list[dict[str, Any]] = []
    regions: list[dict[str, Any]] = []
    fixed = None
    if constraints:
        expansion = expand(constraints, policy)
        fixed = expansion.fixed
        if fixed is not None:
            found = measure_rows(policy, fixed)
            rows = [_entry(found, i, found.labels[i]) for i in range(len(found))]
        regions = [_worst_of(policy, one) for one in expansion.regional]
    violations = [one["violation"] for one in (*rows, *regions)]
    worst = max(violations) if violations else None
    allowed = tolerance.to_measure(policy, fixed)
    return {
        "rows": rows,
        "regions": regions,
        "worst_violation": worst,
        "tolerance": allowed,
        "satisfied": None if worst is None else worst <= allowed,
    }


def _worst_of(policy: Policy, one: Regional) -> dict[str, Any]:
    states = one.region.cover(_STATES_PER_REGION)
    found = measure_rows(policy, one.rows_at(states))
    return {**_entry(found, 0, one.name), "states_measured": len(states)}


def _entry(found: Violations, i: int, name: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": _plain(found.states[i]),
        "lower": _finite(found.lower[i]),
        "upper": _finite(found.upper[i]),
        "value": float(found.values[i]),
        "violation": float(found.violations[i]),
    }


def _plain(state: Array) -> Any:
    return state.tolist() if state.size <= _LARGEST_STATE else f"array {state.shape}"


def _finite(bound: float) -> float | None:
    return float(bound) if np.isfinite(bound) else None


_RANDOM_STATES = 256


@final
@dataclass(frozen=True)
class Exportable:
    """A policy, its names and its constraints, checked to belong together.

    Attributes:
        policy: to export.
        metadata: plain values that travel along: version, names, constraint file, report,
            and of a Gaussian its standard deviations.
        states: (n, *observation_shape) to compare the file with the policy at: those that
            constraints speak of, those that were given, and random ones.
        constraints: that were stated.
    """

    policy: Policy
    metadata: dict[str, Any]
    states: Array
    constraints: Sequence[Constraint]

    @classmethod
    def of(
        cls,
        policy: Policy,
        constraints: AnyConstraints,
        observations: Sequence[str],
        actions: Sequence[str],
        constraint_file: str | Rulebook,
        states: ArrayLike | None,
        tolerance: float | None,
    ) -> Exportable:
        """Arguments as of `export_onnx`."""
        if not isinstance(policy, Policy):
            raise InvalidPolicy(
                f"Expected a policy to export, but got {type(policy).__name__}. Of a learner, "
                "export agent.policy; of a torch module, CategoricalPolicy(module); of a model of "
                "Stable-Baselines3, handrail.sb3.policy_of(model)."
            )
        allowed, given = Tolerance(tolerance, zero=True), load_constraints(constraints)
        if isinstance(given, Rulebook):
            observations = observations or given.observations
            actions = actions or given.actions
            constraint_file = constraint_file or given
        stated = constraints_of(given, policy)
        report = constraint_report(policy, stated, allowed)
        compared = _states_to_compare(policy, stated, states)
        _check_names("observations", observations, compared[0].size)
        n_actions = policy.quantity.n_actions(policy.raw(compared).shape[1])
        _check_names("actions", actions, n_actions)
        metadata = {
            "handrail": VERSION,
            "observations": list(observations),
            "actions": list(actions),
            "quantity": policy.quantity.full_name,
            **_noise(policy, n_actions),
            **_carried(constraint_file),
            "report": report,
        }
        return cls(policy, metadata, compared, stated)


def _carried(constraint_file: str | Rulebook) -> dict[str, Any]:
    """The text of a constraint file, and the array files that it refers to."""
    if isinstance(constraint_file, str):
        return {"constraints": constraint_file}
    arrays = packed_arrays(constraint_file.arrays)
    return {"constraints": constraint_file.text, **({ARRAYS: arrays} if arrays else {})}


def _noise(policy: Policy, n_actions: int) -> dict[str, list[float]]:
    """One standard deviation for each dimension of the action: the mean alone does not act."""
    if not isinstance(policy, GaussianPolicy):
        return {}
    return {"std": np.broadcast_to(policy.std, (n_actions,)).tolist()}


def _states_to_compare(
    policy: Policy, constraints: Sequence[Constraint], states: ArrayLike | None
) -> Array:
    """(n, *observation_shape) as given states have it; those of constraints may be flat."""
    stated = [constraint.states for constraint in constraints]
    known = [*([] if states is None else [_as_states(states)]), *stated]
    shape = known[0].shape[1:] if known else _observed_shape(policy)
    for one in stated:
        if one.shape[1:] not in (shape, (math.prod(shape),)):
            raise InvalidArgument(
                f"The states have shape {shape}, but constraints speak of states of shape "
                f"{one.shape[1:]}."
            )
    given = np.concatenate([*(one.reshape(-1, *shape) for one in known), np.zeros((1, *shape))])
    reach = np.maximum(np.abs(given).max(axis=0), 1.0)
    chance = np.random.default_rng(0).standard_normal((_RANDOM_STATES, *shape))
    return np.concatenate([given, chance * reach])


def _as_states(states: ArrayLike) -> Array:
    try:
        array = np.asarray(states, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidArgument(
            f"`states` must be finite numbers of shape (n, *observation_shape): {error}."
        ) from error
    if array.ndim < 2 or not len(array) or not np.isfinite(array).all():
        raise InvalidArgument(
            f"`states` must be finite numbers of shape (n, *observation_shape) with n > 0, but "
            f"have shape {array.shape}."
        )
    return array


def _observed_shape(policy: Policy) -> tuple[int, ...]:
    """As the module says, or by the first layer of a plain one."""
    module = policy.module
    said = getattr(module, "observation_shape", None)
    if isinstance(said, tuple):
        return said
    known = n_observed(module)
    if known is not None:
        return (known,)
    name = type(first_layer(module)).__name__
    raise InvalidArgument(
        f"What the policy observes cannot be told from its first layer, {name}. "
        "Give some states=(n, *observation_shape), or its constraints."
    )


def _check_names(what: str, names: Sequence[str], expected: int) -> None:
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise InvalidArgument(f"`{what}` must be a list of names, but got {names!r}.")
    if names and len(names) != expected:
        raise InvalidArgument(
            f"`{what}` must name all {expected} {what} of the policy, but has {len(names)}: "
            f"{', '.join(names)}."
        )


AGREEMENT = 1e-6


@final
@dataclass(frozen=True)
class Proven:
    """How to prove what a file says, of the very file.

    Attributes:
        opened: its content, read back, by its name.
        budget: of each bound.
    """

    opened: Callable[[bytes, str], OpenedExport]
    budget: Budget | None


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
        certificates: of the file itself, in its own arithmetic, if a proof was asked for.
    """

    path: Path
    precision: str
    largest_difference: float
    rounding: float
    states_compared: int
    report: dict[str, Any]
    certificates: Certificates | None = None

    def __str__(self) -> str:
        text = (
            f"{self.path}: {self.precision}, within {self.largest_difference:.1e} of the "
            f"policy at {counted(self.states_compared, 'state')}"
        )
        worst = self.report["worst_violation"]
        if worst is None:
            return f"{text}; no constraints"
        rows, regions = len(self.report["rows"]), len(self.report["regions"])
        verdict = "satisfied" if self.report["satisfied"] else "NOT satisfied"
        measured = (
            f"{text}; constraints {verdict} (rows at points: {rows}, regions: {regions}), worst "
            f"violation {worst:+.1e}"
        )
        if self.certificates is None:
            return measured
        return f"{measured}\nOf this file, in {self.precision}: {self.certificates}"


def check_ending(path: str | Path, ending: str) -> Path:
    """A file that is called what it is."""
    if Path(path).suffix != ending:
        raise InvalidArgument(f"{path}: expected a name that ends with {ending}.")
    return Path(path)


def _cause(difference: float, outputs: Array) -> str:
    """Of outputs that are rounded by more than is agreed to."""
    size = float(np.abs(outputs).max())
    if difference <= AGREEMENT * size:
        return (
            f"Actions are as large as {size:.3g} there, and float32 has seven digits of them: have "
            "the policy act in larger units, and the environment scale them."
        )
    return "Very large weights do this in float32."


def write_compared(
    subject: Exportable,
    path: Path,
    precision: str,
    outputs: Callable[[Array], Array],
    content: Callable[[dict[str, Any]], bytes],
    proven: Proven | None = None,
) -> Exported:
    """Write a file, but only if it says what the policy says; it is whole or not there.

    Args:
        subject: what is exported.
        path: of the file.
        precision: what the file computes in; states are rounded to it first.
        outputs: (n, n_actions) by the file's own arithmetic, of states.
        content: of the file, with this metadata.
        proven: how to prove the constraints of the file; None for no proof.
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
            f"policy's by up to {difference:.1e}, which is more than {AGREEMENT:g}. "
            f"{_cause(difference, expected)} A NumPy file computes in float64."
        )
    metadata = {
        **subject.metadata,
        "precision": precision,
        "largest_difference": difference,
        "rounding": rounding,
        "states_compared": len(states),
    }
    certificates = None
    if proven is not None:
        policy = proven.opened(content(metadata), str(path)).policy
        certificates = certify(policy, subject.constraints, budget=proven.budget)
        sealed = sealed_certificates(policy, subject.constraints, certificates)
        metadata[CERTIFICATE] = sealed.decode()
    try:
        write_atomically(path, content(metadata))
    except OSError as error:
        raise StorageFailure(f"{path} cannot be written: {error.strerror or error}.") from error
    report = metadata["report"]
    return Exported(path, precision, difference, rounding, len(states), report, certificates)
