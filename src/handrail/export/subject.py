"""What is exported: a policy, and what is known about it besides its weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike
from torch import nn

from handrail.arrays import Array
from handrail.constraints import Constraint
from handrail.errors import InvalidArgument, InvalidPolicy
from handrail.export.constraint_report import constraint_report
from handrail.gaussian import GaussianPolicy
from handrail.policies import Policy
from handrail.version import VERSION

_RANDOM_STATES = 256


@final
@dataclass(frozen=True)
class Subject:
    """A policy, its names and its constraints, checked to belong together.

    Attributes:
        policy: to export.
        metadata: plain values that travel along: version, names, constraint file, report,
            and of a Gaussian its standard deviations.
        states: (n, *observation_shape) to compare the file with the policy at: those that
            constraints speak of, those that were given, and random ones.
    """

    policy: Policy
    metadata: dict[str, Any]
    states: Array

    @classmethod
    def of(
        cls,
        policy: Policy,
        constraints: Sequence[Constraint],
        observations: Sequence[str],
        actions: Sequence[str],
        constraint_file: str,
        states: ArrayLike | None,
        tolerance: float,
    ) -> Subject:
        """Arguments as of `export_onnx`."""
        if not isinstance(policy, Policy):
            raise InvalidPolicy(
                f"Expected a policy to export, but got {type(policy).__name__}. Of a learner, "
                "export agent.policy; of a torch module, CategoricalPolicy(module); of a model of "
                "Stable-Baselines3, handrail.sb3.policy_of(model)."
            )
        _check_tolerance(tolerance)
        report = constraint_report(policy, constraints, tolerance)
        compared = _states_to_compare(policy, constraints, states)
        _check_names("observations", observations, compared[0].size)
        n_actions = policy.raw(compared).shape[1]
        _check_names("actions", actions, n_actions)
        metadata = {
            "handrail": VERSION,
            "observations": list(observations),
            "actions": list(actions),
            "quantity": policy.quantity.value,
            **_noise(policy, n_actions),
            "constraints": constraint_file,
            "report": report,
        }
        return cls(policy, metadata, compared)


def _check_tolerance(tolerance: Any) -> None:
    number = isinstance(tolerance, Real) and not isinstance(tolerance, bool)
    if not number or not 0.0 <= float(tolerance) < np.inf:
        raise InvalidArgument(f"The tolerance must be a number from 0 on, not {tolerance!r}.")


def _noise(policy: Policy, n_actions: int) -> dict[str, list[float]]:
    """One standard deviation for each dimension of the action: the mean alone does not act."""
    if not isinstance(policy, GaussianPolicy):
        return {}
    return {"std": np.broadcast_to(policy.std, (n_actions,)).tolist()}


def _states_to_compare(
    policy: Policy, constraints: Sequence[Constraint], states: ArrayLike | None
) -> Array:
    known = [constraint.states for constraint in constraints]
    if states is not None:
        known.append(_as_states(states))
    shapes = {one.shape[1:] for one in known} or {_observed_shape(policy)}
    if len(shapes) > 1:
        raise InvalidArgument(
            f"The states have shape {known[-1].shape[1:]}, but constraints speak of states of "
            f"shape {known[0].shape[1:]}."
        )
    shape = shapes.pop()
    known.append(np.zeros((1, *shape)))
    given = np.concatenate(known)
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
    first = module
    while type(first) is nn.Sequential and len(first):
        first = first[0]
    if type(first) is nn.Linear:
        return (first.in_features,)
    raise InvalidArgument(
        f"What the policy observes cannot be told from its first layer, {type(first).__name__}. "
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
