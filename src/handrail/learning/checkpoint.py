"""A learner as it was, in a file and back: everything that going on exactly from there needs.

On the disk a checkpoint is tensors and a JSON state (`handrail._storage`). `Checkpoint` alone knows
their names; whoever else has to do with one reads its attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, final

import gymnasium as gym
import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from handrail._storage import (
    STATE_FORMAT,
    State,
    Tensors,
    check_format,
    load_state,
    prefixed,
    save_state,
    under,
)
from handrail._types import Array
from handrail.constraints import Constraint, Expansion, Rows, constraint_from
from handrail.errors import InvalidConstraint, InvalidRun, ShapeMismatch
from handrail.policies import (
    PROBABILITY,
    Architecture,
    CategoricalPolicy,
    GaussianPolicy,
    Policy,
    Quantity,
    Spaces,
    load_weights,
    pack_policy,
    quantity_named,
)
from handrail.settings import LearnerSettings

_ROW_ARRAYS = ("states", "weights", "row_of_sample", "lower", "upper", "priority")


@final
@dataclass(frozen=True)
class Progress:
    """How far a learner has come.

    Attributes:
        episodes: learned from.
        updates: made.
        steps: of the environment.
        chance: the state of the generator that `predict` draws from.
    """

    episodes: int
    updates: int
    steps: int
    chance: dict[str, Any]


@final
@dataclass(frozen=True)
class PackedPolicy:
    """A policy's weights, and how to build the rest of it.

    Attributes:
        weights: by name.
        architecture: None if the network is the user's own.
        quantity: what it decides by.
        std: the standard deviation of a Gaussian, as plain values; None of any other.
    """

    weights: Tensors
    architecture: Architecture | None
    quantity: Quantity
    std: list[float] | float | None

    @classmethod
    def of(cls, policy: Policy) -> PackedPolicy:
        """A policy as it is now."""
        weights, _ = pack_policy(policy)
        # Copies: the policy goes on learning in these very arrays.
        own = {name: np.array(value) for name, value in weights.items()}
        return cls(own, Architecture.of(policy.module), policy.quantity, _std_of(policy))

    def build(self, spaces: Spaces) -> Policy:
        """A policy of the same architecture, its weights still to be loaded."""
        if self.architecture is None:
            raise InvalidRun(
                "The saved policy is a network of your own, which only you can build: pass it as "
                "load(path, policy=CategoricalPolicy(module)), or GaussianPolicy(module, std)."
            )
        observations, actions = spaces
        if isinstance(actions, gym.spaces.Box) != self.quantity.is_continuous:
            saved = "continuous" if self.quantity.is_continuous else "discrete"
            raise InvalidRun(
                f"The saved policy has {saved} actions, but the environment acts in {actions}."
            )
        if isinstance(actions, gym.spaces.Box):
            network = self.architecture.build(observations.shape, int(actions.shape[0]), seed=0)
            assert self.std is not None  # a Gaussian has one
            return GaussianPolicy(network, self.std)
        network = self.architecture.build(observations.shape, int(actions.n), seed=0)
        return CategoricalPolicy(network)

    def load_into(self, policy: Policy) -> None:
        """Copy the weights; the noise must be what it was, or the learner would go on otherwise."""
        if _std_of(policy) != self.std:
            raise InvalidRun(
                f"The saved policy has the standard deviation {self.std}, but the policy that was "
                f"passed has {_std_of(policy)}. Pass one with the saved value."
            )
        load_weights(policy, self.weights)


@final
@dataclass(frozen=True)
class PackedConstraints:
    """What a learner obeyed: rows at points, whatever declared them, and constraints on regions.

    Attributes:
        rows: at points, if there are any.
        regions: as plain values; None if one holds on a curve that is a Python function.
    """

    rows: Rows | None
    regions: list[dict[str, Any]] | None

    @classmethod
    def of(cls, expansion: Expansion | None) -> PackedConstraints:
        """Constraints that were expanded for a policy."""
        if expansion is None:
            return cls(None, [])
        try:
            regions = [constraint.describe() for constraint in expansion.on_regions]
        except InvalidConstraint:  # a curve that is a Python function
            return cls(expansion.fixed, None)
        return cls(expansion.fixed, regions)

    def build(self) -> list[Constraint]:
        """The constraints again."""
        if self.regions is None:
            raise InvalidRun(
                "A saved constraint holds on a curve that is a Python function, which only you "
                "have: pass all constraints as load(path, constraints=[…])."
            )
        try:
            constraints: list[Constraint] = [constraint_from(one) for one in self.regions]
        except InvalidConstraint as error:
            raise InvalidRun(f"A saved constraint cannot be read. {error}") from error
        return constraints if self.rows is None else [*constraints, SavedConstraints(self.rows)]


@final
@dataclass(frozen=True)
class Checkpoint:
    """A learner as it was.

    Attributes:
        policy: that it had learned.
        constraints: that the policy obeyed.
        enforcer: what was remembered of holding them.
        baseline: what returns were compared with.
        progress: how far it had come.
        settings: of the learner.
        environment: what `make_environment` needs; None if it is more than an id and options.
    """

    policy: PackedPolicy
    constraints: PackedConstraints
    enforcer: Tensors
    baseline: Tensors
    progress: Progress
    settings: LearnerSettings
    environment: dict[str, Any] | None

    def save(self, path: Path) -> None:
        """Write it to one file, atomically."""
        save_state(path, *self.pack())

    @classmethod
    def load(cls, path: Path) -> Checkpoint:
        """Read it back; `InvalidRun` if a byte differs, or if the file is something else."""
        return cls.unpack(*load_state(path), path)

    def pack(self) -> tuple[Tensors, State]:
        """As tensors and a state."""
        rows, architecture = self.constraints.rows, self.policy.architecture
        points = {} if rows is None else {name: getattr(rows, name) for name in _ROW_ARRAYS}
        tensors = {
            **prefixed("policy.", self.policy.weights),
            **prefixed("baseline.", self.baseline),
            **prefixed("constraints.", {name: np.asarray(one) for name, one in points.items()}),
            **prefixed("rules.", self.enforcer),
        }
        return tensors, {
            "format": STATE_FORMAT,
            "settings": self.settings.model_dump(),
            "architecture": None if architecture is None else asdict(architecture),
            "environment": self.environment,
            "quantity": self.policy.quantity.name,
            "std": self.policy.std,
            "labels": [] if rows is None else list(rows.labels),
            "regions": self.constraints.regions,
            **asdict(self.progress),
        }

    @classmethod
    def unpack(cls, tensors: Tensors, state: State, path: Path) -> Checkpoint:
        """What `pack` packed; further entries of the state are left alone.

        Args:
            tensors: of the file.
            state: of the file. What the first files lack has the value that it had then.
            path: for messages.
        """
        check_format(state, path)
        try:
            quantity = quantity_named(state.get("quantity", PROBABILITY.name))
            return cls(
                policy=PackedPolicy(
                    weights=under("policy.", tensors),
                    architecture=_architecture(state["architecture"]),
                    quantity=quantity,
                    std=state.get("std"),
                ),
                constraints=PackedConstraints(
                    rows=_rows(under("constraints.", tensors), state["labels"], quantity),
                    regions=state.get("regions", []),
                ),
                enforcer=under("rules.", tensors),
                baseline=under("baseline.", tensors),
                progress=Progress(**{one.name: state[one.name] for one in fields(Progress)}),
                settings=LearnerSettings(**state["settings"]),
                environment=state["environment"],
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InvalidRun(f"{path} holds no learner that can be read: {error!r}.") from error


@final
@dataclass(frozen=True)
class SavedConstraints(Constraint):
    """Constraints as they were when a learner was saved: rows, whatever declared them."""

    saved: Rows
    name: str = "the saved constraints"
    priority: float = 1.0

    @property
    @override
    def states(self) -> Array:
        return self.saved.states

    @property
    @override
    def quantity(self) -> Quantity:
        return self.saved.quantity

    @override
    def rows(self, n_actions: int) -> Rows:
        if self.saved.weights.shape[1] != n_actions:
            raise ShapeMismatch(
                f"The saved constraints speak of {self.saved.weights.shape[1]} actions, but the "
                f"policy has {n_actions}."
            )
        return self.saved


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


def _std_of(policy: Policy) -> list[float] | float | None:
    if not isinstance(policy, GaussianPolicy):
        return None
    std: list[float] | float = policy.std.tolist()
    return std


def _architecture(described: dict[str, Any] | None) -> Architecture | None:
    if described is None:
        return None
    return Architecture(**{**described, "hidden": tuple(described["hidden"])})


def _rows(
    tensors: Mapping[str, NDArray[Any]], labels: list[str], quantity: Quantity
) -> Rows | None:
    if not labels:
        return None
    arrays = {name: tensors[name] for name in _ROW_ARRAYS}
    return Rows(**arrays, labels=tuple(labels), quantity=quantity)
