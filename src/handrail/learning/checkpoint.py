"""The parts of a learner as tensors and JSON, and back: its network, environment, constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray

from handrail._storage import under
from handrail._types import Array
from handrail.constraints import (
    AtLeast,
    AtMost,
    Between,
    Constraint,
    Expansion,
    Mean,
    PlacedConstraint,
    Rows,
    Symmetric,
)
from handrail.errors import InvalidConstraint, InvalidRun, ShapeMismatch
from handrail.policies import (
    PROBABILITY,
    Architecture,
    CategoricalPolicy,
    GaussianPolicy,
    Policy,
    Quantity,
    Spaces,
    Tensors,
    quantity_named,
)
from handrail.regions import region_from

_KINDS: dict[str, Callable[..., Constraint]] = {
    kind.__name__: kind for kind in (AtLeast, AtMost, Between, Symmetric)
}


_ROW_ARRAYS = ("states", "weights", "row_of_sample", "lower", "upper", "priority")


@final
@dataclass(frozen=True)
class SavedConstraints(Constraint):
    """Constraints as they were when a learner was saved: rows, whatever declared them."""

    saved: Rows
    name: str = "the saved constraints"
    priority: float = 1.0

    @property
    def states(self) -> Array:
        """The states of all rows."""
        return self.saved.states

    @property
    def quantity(self) -> Quantity:
        """Of the rows."""
        return self.saved.quantity

    def rows(self, n_actions: int) -> Rows:
        """The rows themselves."""
        if self.saved.weights.shape[1] != n_actions:
            raise ShapeMismatch(
                f"The saved constraints speak of {self.saved.weights.shape[1]} actions, but the "
                f"policy has {n_actions}."
            )
        return self.saved


def pack_rows(rows: Rows) -> tuple[Tensors, list[str]]:
    """Constraint rows as tensors and labels."""
    return {name: np.asarray(getattr(rows, name)) for name in _ROW_ARRAYS}, list(rows.labels)


def unpack_rows(tensors: Mapping[str, NDArray[Any]], labels: list[str], quantity: Quantity) -> Rows:
    """The rows that `pack_rows` packed."""
    arrays = {name: tensors[name] for name in _ROW_ARRAYS}
    return Rows(**arrays, labels=tuple(labels), quantity=quantity)


def unpack_constraints(
    tensors: Mapping[str, NDArray[Any]], state: dict[str, Any]
) -> list[Constraint]:
    """The constraints of a saved learner: rows at points, and regions."""
    constraints = unpack_regional(state.get("regions", []))
    if state["labels"]:
        quantity = quantity_named(state.get("quantity", PROBABILITY.name))
        saved = unpack_rows(under("constraints.", tensors), state["labels"], quantity)
        constraints.append(SavedConstraints(saved))
    return constraints


def pack_regional(expansion: Expansion) -> list[dict[str, Any]] | None:
    """Constraints on regions as plain values; None if one of them cannot be written down."""
    try:
        return [_describe(constraint) for constraint in expansion.on_regions]
    except InvalidConstraint:  # a curve that is a Python function
        return None


def unpack_regional(described: list[dict[str, Any]] | None) -> list[Constraint]:
    """The constraints that `pack_regional` packed."""
    if described is None:
        raise InvalidRun(
            "A saved constraint holds on a curve that is a Python function, which only you have: "
            "pass all constraints as load(path, constraints=[…])."
        )
    return [_constraint_from(one) for one in described]


def _describe(constraint: PlacedConstraint) -> dict[str, Any]:
    assert constraint.region is not None  # only those on regions are packed
    own = fields(constraint)  # type: ignore[arg-type]  # every kind is a dataclass
    values = {one.name: getattr(constraint, one.name) for one in own if one.init}
    if isinstance(values.get("action"), Mean):
        values["action"] = {"mean": _as_pairs(values["action"].dimension)}
    for name in ("action", "swap"):
        if name in values and not isinstance(getattr(constraint, name), Mean):
            values[name] = _as_pairs(values[name])
    if "mirror" in values:
        values["mirror"] = np.asarray(values["mirror"]).tolist()
    return {**values, "kind": type(constraint).__name__, "where": constraint.region.describe()}


def _constraint_from(described: dict[str, Any]) -> Constraint:
    values = {**described, "where": region_from(described["where"])}
    action = values.get("action")
    if isinstance(action, Mapping):
        values["action"] = Mean(_from_pairs(action["mean"]))
    for name in ("action", "swap"):
        if isinstance(values.get(name), list):
            values[name] = _from_pairs(values[name])
    return _KINDS[values.pop("kind")](**values)


def _as_pairs(value: Any) -> Any:
    """A mapping as a list of pairs: JSON knows texts as keys only."""
    return [[key, weight] for key, weight in value.items()] if isinstance(value, Mapping) else value


def _from_pairs(value: Any) -> Any:
    return dict(value) if isinstance(value, list) else value


def unpack_policy(spaces: Spaces, state: dict[str, Any]) -> Policy:
    """A network of a saved architecture, its weights still to be loaded."""
    architecture = state["architecture"]
    if architecture is None:
        raise InvalidRun(
            "The saved policy is a network of your own, which only you can build: pass it as "
            "load(path, policy=CategoricalPolicy(module)), or GaussianPolicy(module, std)."
        )
    quantity = quantity_named(state.get("quantity", PROBABILITY.name))
    if isinstance(spaces[1], gym.spaces.Box) != quantity.is_continuous:
        saved = "continuous" if quantity.is_continuous else "discrete"
        raise InvalidRun(
            f"The saved policy has {saved} actions, but the environment acts in {spaces[1]}."
        )
    shape = Architecture(**{**architecture, "hidden": tuple(architecture["hidden"])})
    observations, actions = spaces
    if isinstance(actions, gym.spaces.Box):
        network = shape.build(observations.shape, int(actions.shape[0]), seed=0)
        return GaussianPolicy(network, state["std"])
    return CategoricalPolicy(shape.build(observations.shape, int(actions.n), seed=0))


def noise_of(policy: Policy) -> list[float] | float | None:
    """The standard deviation of a Gaussian, as plain values."""
    if not isinstance(policy, GaussianPolicy):
        return None
    noise: list[float] | float = policy.std.tolist()
    return noise


def check_noise(policy: Policy, state: dict[str, Any]) -> None:
    """A learner goes on exactly where it was, so its noise must be what it was."""
    if noise_of(policy) != state.get("std"):
        raise InvalidRun(
            f"The saved policy has the standard deviation {state.get('std')}, but the policy that "
            f"was passed has {noise_of(policy)}. Pass one with the saved value."
        )


def describe_environment(env: Any) -> dict[str, Any] | None:
    """What `make_environment` needs; None if the environment is more than an id and options."""
    spec = getattr(env, "spec", None)
    if isinstance(env, gym.vector.VectorEnv) or spec is None or spec.additional_wrappers:
        return None
    plain = (bool, int, float, str, type(None))
    options = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    if not all(isinstance(value, plain) for value in options.values()):
        return None
    return {"id": spec.id, "max_episode_steps": spec.max_episode_steps, "options": options}


def make_environment(described: dict[str, Any] | None) -> gym.Env[Any, Any]:
    """The environment that was described when the learner was saved."""
    if described is None:
        raise InvalidRun(
            "The saved learner played in an environment of your own (or a vector of them): pass "
            "one as load(path, env=…)."
        )
    return gym.make(
        described["id"], max_episode_steps=described["max_episode_steps"], **described["options"]
    )
