"""The parts of a learner as tensors and JSON, and back: its network, environment, constraints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, final

import gymnasium as gym
import numpy as np
import torch
from numpy.typing import NDArray

from handrail.arrays import Array
from handrail.constraints import AtLeast, AtMost, Between, Constraint, PlacedConstraint
from handrail.errors import InvalidConstraint, InvalidRun, ShapeMismatch
from handrail.expansion import Expansion
from handrail.networks import Architecture
from handrail.policies import CategoricalPolicy
from handrail.regions import region_from
from handrail.relations import Symmetric
from handrail.rows import Rows
from handrail.storage import under

Tensors = dict[str, NDArray[Any]]
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


def unpack_rows(tensors: Mapping[str, NDArray[Any]], labels: list[str]) -> Rows:
    """The rows that `pack_rows` packed."""
    return Rows(**{name: tensors[name] for name in _ROW_ARRAYS}, labels=tuple(labels))


def unpack_constraints(
    tensors: Mapping[str, NDArray[Any]], state: dict[str, Any]
) -> list[Constraint]:
    """The constraints of a saved learner: rows at points, and regions."""
    constraints = unpack_regional(state.get("regions", []))
    if state["labels"]:
        saved = unpack_rows(under("constraints.", tensors), state["labels"])
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
    # JSON knows texts as keys only.
    for name in ("action", "swap"):
        if isinstance(values.get(name), Mapping):
            values[name] = [[key, value] for key, value in values[name].items()]
    if "mirror" in values:
        values["mirror"] = np.asarray(values["mirror"]).tolist()
    return {**values, "kind": type(constraint).__name__, "where": constraint.region.describe()}


def _constraint_from(described: dict[str, Any]) -> Constraint:
    values = {**described, "where": region_from(described["where"])}
    for name in ("action", "swap"):
        if isinstance(values.get(name), list):
            values[name] = dict(values[name])
    return _KINDS[values.pop("kind")](**values)


def pack_policy(policy: CategoricalPolicy) -> tuple[Tensors, dict[str, Any] | None]:
    """The weights, and the architecture where it is known."""
    weights = {name: value.detach().cpu().numpy() for name, value in _weights(policy).items()}
    architecture = Architecture.of(policy.module)
    return weights, None if architecture is None else asdict(architecture)


def unpack_policy(
    spaces: tuple[gym.spaces.Box, gym.spaces.Discrete[Any]], architecture: dict[str, Any] | None
) -> CategoricalPolicy:
    """A network of a saved architecture, its weights still to be loaded."""
    if architecture is None:
        raise InvalidRun(
            "The saved policy is a network of your own, which only you can build: pass it as "
            "load(path, policy=CategoricalPolicy(module))."
        )
    shape = Architecture(tuple(architecture["hidden"]), **_without_hidden(architecture))
    observations, actions = spaces
    return CategoricalPolicy(shape.build(observations.shape, int(actions.n), seed=0))


def load_weights(policy: CategoricalPolicy, weights: Mapping[str, NDArray[Any]]) -> None:
    """Copy saved weights into a policy, in place; refused as a whole if one does not fit."""
    own = _weights(policy)
    for name, value in own.items():
        saved = tuple(weights[name].shape) if name in weights else "nothing"
        if saved != tuple(value.shape):
            raise InvalidRun(
                f"The saved policy does not fit this network: {name!r} is {tuple(value.shape)} "
                f"here, but {saved} in the file."
            )
    unknown = sorted(set(weights) - set(own))
    if unknown:
        raise InvalidRun(f"The saved policy has {unknown[0]!r}, which this network has not.")
    with torch.no_grad():
        for name, value in own.items():
            value.copy_(torch.as_tensor(weights[name]))


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


def _weights(policy: CategoricalPolicy) -> dict[str, torch.Tensor]:
    return dict(policy.module.state_dict())


def _without_hidden(architecture: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in architecture.items() if key != "hidden"}
