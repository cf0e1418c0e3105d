"""A learner as it was, in a file and back: everything that going on exactly from there needs.

On the disk a checkpoint is tensors and a JSON state (`handrail._storage`). `Checkpoint` alone knows
their names; whoever else has to do with one reads its attributes. A seal tells what was damaged,
not what was forged, so what is read is checked once more: its types, shapes and numbers.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, final

import gymnasium as gym
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from typing_extensions import override

from handrail._storage import (
    STATE_FORMAT,
    State,
    Tensors,
    check_format,
    digest_of,
    load_state,
    prefixed,
    save_state,
    tensor,
    under,
)
from handrail._types import Array
from handrail.constraints import (
    Constraint,
    Expansion,
    PlacedConstraint,
    Rows,
    constraint_from,
)
from handrail.errors import HandrailError, InvalidConstraint, InvalidRun, ShapeMismatch
from handrail.policies import (
    PROBABILITY,
    Architecture,
    BranchedPolicy,
    CategoricalPolicy,
    GaussianPolicy,
    MeanAndStd,
    Policy,
    Quantity,
    Spaces,
    VaryingGaussianPolicy,
    limits_of,
    load_weights,
    pack_policy,
    quantity_called,
    sizes_of,
)
from handrail.settings import STRICT, LearnerSettings, first_finding

_CHOICES = ("choice", "alternative")
_ROW_ARRAYS = ("states", "weights", "row_of_sample", "lower", "upper", "priority")
_SAMPLE = 1000  # states that tell a region apart which nothing describes

StdRange = tuple[list[float] | float, ...]  # the least and the most
Count = Annotated[int, Field(ge=0, lt=2**63)]
Plain = bool | int | float | str | None


@final
class SavedEnvironment(BaseModel):
    """An environment that an id and options say all about."""

    model_config = STRICT

    id: Annotated[str, Field(pattern="^[^:]+$")]  # a module before a colon would be imported
    max_episode_steps: int | None
    options: dict[str, Plain]


@final
class _Architecture(BaseModel):
    model_config = STRICT

    hidden: list[Annotated[int, Field(ge=1, lt=2**31)]]
    activation: str
    dtype: str
    scaled: bool = False
    bounded: str = ""
    residual: bool = False


@final
class _Words(BaseModel):
    """The two numbers that the generator of chance goes on from."""

    model_config = STRICT

    state: Annotated[int, Field(ge=0, lt=2**128)]
    inc: Annotated[int, Field(ge=0, lt=2**128)]


@final
class _Chance(BaseModel):
    """The state of NumPy's usual generator."""

    model_config = STRICT

    bit_generator: Literal["PCG64"]
    state: _Words
    has_uint32: Annotated[int, Field(ge=0, le=1)]
    uinteger: Annotated[int, Field(ge=0, lt=2**32)]


@final
class _State(BaseModel):
    """The state of a file, checked; whoever wrote it may have added something of their own."""

    model_config = ConfigDict(**{**STRICT, "extra": "ignore"})

    settings: LearnerSettings
    architecture: _Architecture | None
    environment: SavedEnvironment | None
    quantity: str = PROBABILITY.name
    std: float | list[float] | None = None
    std_range: Annotated[list[list[float] | float], Field(min_length=2, max_length=2)] | None = None
    labels: list[str]
    regions: list[dict[str, Any]] | None = []
    constraints_sha256: str | None = None
    episodes: Count
    updates: Count
    steps: Count
    chance: _Chance


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
        std_range: the least and the most that it can become, where it is learned.
    """

    weights: Tensors
    architecture: Architecture | None
    quantity: Quantity
    std: list[float] | float | None
    std_range: StdRange | None = None

    @classmethod
    def of(cls, policy: Policy) -> PackedPolicy:
        """A policy as it is now."""
        weights, _ = pack_policy(policy)
        # Copies: the policy goes on learning in these very arrays.
        own = {name: np.array(value) for name, value in weights.items()}
        return cls(
            weights=own,
            architecture=Architecture.of(policy.module),
            quantity=policy.quantity,
            std=_std_of(policy),
            std_range=_std_range_of(policy),
        )

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
        limits = limits_of(actions) if isinstance(actions, gym.spaces.Box) else None
        if isinstance(self.quantity, MeanAndStd):
            ends = self.quantity.least, self.quantity.most
            network = self.architecture.build(observations.shape, 2 * len(ends[0]), seed=0)
            return VaryingGaussianPolicy(network, *ends).clipped_to(limits)
        if isinstance(actions, gym.spaces.Box):
            network = self.architecture.build(observations.shape, int(actions.shape[0]), seed=0)
            assert self.std is not None  # a Gaussian has one
            policy = GaussianPolicy(network, self.std).clipped_to(limits)
            if self.std_range is None:
                return policy
            least, most = self.std_range
            return policy.with_std_range(least, most)
        if isinstance(actions, gym.spaces.Discrete):
            return CategoricalPolicy(
                self.architecture.build(observations.shape, int(actions.n), seed=0)
            )
        sizes = sizes_of(actions)
        return BranchedPolicy(self.architecture.build(observations.shape, sum(sizes), 0), sizes)

    def load_into(self, policy: Policy) -> None:
        """Copy the weights, and noise that is learned; else it must be what it was."""
        if policy.quantity != self.quantity:
            raise InvalidRun(
                f"The saved policy decides by {self.quantity.full_name}, but the policy that was "
                f"passed by {policy.quantity.full_name}. Pass one that is as the saved one was."
            )
        if _std_range_of(policy) != self.std_range:
            raise InvalidRun(
                f"The saved policy {_in_words(self.std_range)}, but the policy that was passed "
                f"{_in_words(_std_range_of(policy))}. Pass one that is as the saved one was."
            )
        if isinstance(policy, GaussianPolicy) and policy.learns_std:
            assert self.std is not None  # a Gaussian has one
            policy.recall_std(self.std)
        elif _std_of(policy) != self.std:
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
        sha256: of all of it: what a learner remembers belongs to these constraints and no others.
            None if the file does not say, and it cannot be told from the rest.
    """

    rows: Rows | None
    regions: list[dict[str, Any]] | None
    sha256: str | None

    @classmethod
    def of(cls, expansion: Expansion | None) -> PackedConstraints:
        """Constraints that were expanded for a policy."""
        if expansion is None:
            return cls(None, [], _digest(None, []))
        try:
            regions = [constraint.describe() for constraint in expansion.on_regions]
        except InvalidConstraint:  # a curve that is a Python function
            sampled = [_sampled(constraint, expansion) for constraint in expansion.on_regions]
            return cls(expansion.fixed, None, _digest(expansion.fixed, sampled))
        return cls(expansion.fixed, regions, _digest(expansion.fixed, regions))

    def build(self) -> list[Constraint]:
        """The constraints again."""
        if self.regions is None:
            raise InvalidRun(
                "A saved constraint holds on a curve that is a Python function, which only you "
                "have: pass all constraints as load(path, constraints=[…])."
            )
        try:
            constraints: list[Constraint] = [constraint_from(one) for one in self.regions]
        except HandrailError as error:
            raise InvalidRun(f"A saved constraint cannot be read. {error}") from error
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise InvalidRun(f"A saved constraint cannot be read: {error!r}.") from error
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
        statistics: of observations that the environment normalises; nothing if it does not.
    """

    policy: PackedPolicy
    constraints: PackedConstraints
    enforcer: Tensors
    baseline: Tensors
    progress: Progress
    settings: LearnerSettings
    environment: SavedEnvironment | None
    statistics: Tensors = field(default_factory=dict)

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
        points = _row_arrays(rows)
        std_range = self.policy.std_range
        tensors = {
            **prefixed("policy.", self.policy.weights),
            **prefixed("baseline.", self.baseline),
            **prefixed("constraints.", points),
            **prefixed("rules.", self.enforcer),
            **prefixed("statistics.", self.statistics),
        }
        return tensors, {
            "format": STATE_FORMAT,
            "settings": self.settings.model_dump(),
            "architecture": None if architecture is None else architecture.describe(),
            "environment": None if self.environment is None else self.environment.model_dump(),
            "quantity": self.policy.quantity.full_name,
            "std": self.policy.std,
            **({} if std_range is None else {"std_range": [*std_range]}),
            "labels": [] if rows is None else list(rows.labels),
            "regions": self.constraints.regions,
            "constraints_sha256": self.constraints.sha256,
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
            read = _State.model_validate(state)
            quantity = quantity_called(read.quantity)
            weights = under("policy.", tensors)
            rows = _rows(under("constraints.", tensors), tuple(read.labels), quantity)
            digest = read.constraints_sha256
            if digest is None and read.regions is not None:
                digest = _digest(rows, read.regions)  # the first files did not say
            return cls(
                policy=PackedPolicy(
                    weights=weights,
                    architecture=_architecture(read.architecture, weights),
                    quantity=quantity,
                    std=read.std,
                    std_range=None if read.std_range is None else tuple(read.std_range),
                ),
                constraints=PackedConstraints(rows, read.regions, digest),
                enforcer=under("rules.", tensors),
                baseline=under("baseline.", tensors),
                progress=Progress(
                    read.episodes, read.updates, read.steps, read.chance.model_dump()
                ),
                settings=read.settings,
                environment=read.environment,
                statistics=under("statistics.", tensors),
            )
        except ValidationError as error:
            raise InvalidRun(
                f"{path} holds no learner that can be read: {first_finding(error)}"
            ) from error
        except (HandrailError, KeyError, TypeError, ValueError) as error:
            raise InvalidRun(f"{path} holds no learner that can be read: {error}") from error


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


def describe_environment(env: Any) -> SavedEnvironment | None:
    """What `make_environment` needs; None if the environment is more than an id and options."""
    spec = getattr(env, "spec", None)
    if isinstance(env, gym.vector.VectorEnv) or spec is None or spec.additional_wrappers:
        return None
    options = {key: value for key, value in spec.kwargs.items() if key != "render_mode"}
    try:
        return SavedEnvironment(
            id=spec.id, max_episode_steps=spec.max_episode_steps, options=options
        )
    except ValidationError:
        return None


def make_environment(described: SavedEnvironment | None) -> gym.Env[Any, Any]:
    """The environment that was described when the learner was saved."""
    if described is None:
        raise InvalidRun(
            "The saved learner played in an environment of your own (or a vector of them): pass "
            "one as load(path, env=…)."
        )
    options: dict[str, Any] = {**described.options}
    try:
        return gym.make(described.id, max_episode_steps=described.max_episode_steps, **options)
    except Exception as error:  # whatever the environment does with its options
        raise InvalidRun(
            f"The environment of the saved learner, {described.id!r}, cannot be made: {error} If a "
            "module of yours registers it, import that module first, or pass load(path, env=…)."
        ) from error


def _std_of(policy: Policy) -> list[float] | float | None:
    if not isinstance(policy, GaussianPolicy):
        return None
    std: list[float] | float = policy.std.tolist()
    return std


def _std_range_of(policy: Policy) -> StdRange | None:
    if not (isinstance(policy, GaussianPolicy) and policy.learns_std):
        return None
    least, most = policy.std_range
    return least.tolist(), most.tolist()


def _in_words(std_range: StdRange | None) -> str:
    if std_range is None:
        return "does not learn its standard deviation"
    return f"learns its standard deviation from {std_range[0]} to {std_range[1]}"


def _architecture(described: _Architecture | None, weights: Tensors) -> Architecture | None:
    if described is None:
        return None
    # Before anything is built: a few digits in a file could ask for all the memory there is.
    layers = {
        [int(part) for part in name.split(".") if part.isdigit()][-1]: one
        for name, one in weights.items()
        if name.endswith(".weight")
    }
    widths = [layers[index].shape[0] for index in sorted(layers)]
    if widths[:-1] != described.hidden:
        raise InvalidRun(
            f"its weights are those of hidden layers of {widths[:-1]}, not of {described.hidden}."
        )
    return Architecture(**{**described.model_dump(), "hidden": tuple(described.hidden)})


def _rows(tensors: Tensors, labels: tuple[str, ...], quantity: Quantity) -> Rows | None:
    if not labels and not tensors:
        return None
    n_rows, states = len(labels), tensors.get("states")
    shape = (None, *(states.shape[1:] if states is not None else ()))
    n_samples = len(tensor(tensors, "states", shape))
    of_sample = tensor(tensors, "row_of_sample", (n_samples,), "int64")
    bounds = {name: tensors.get(name) for name in ("lower", "upper")}
    for name, bound in bounds.items():
        if bound is None or bound.shape != (n_rows,) or bound.dtype != np.float64:
            raise InvalidRun(f"The saved constraints have no {name} bound for each of their rows.")
        if np.isnan(bound).any():
            raise InvalidRun(f"The saved constraints have a {name} bound that is not a number.")
    if n_rows == 0 or not np.array_equal(np.unique(of_sample), np.arange(n_rows)):
        raise InvalidRun("The saved constraints have rows without states.")
    if (np.diff(of_sample) < 0).any():
        raise InvalidRun("The states of the saved constraints are not in the order of their rows.")
    none = np.zeros(n_samples, dtype=bool)
    return Rows(
        states=tensors["states"],
        weights=tensor(tensors, "weights", (n_samples, None)),
        row_of_sample=of_sample,
        lower=tensors["lower"],
        upper=tensors["upper"],
        priority=tensor(tensors, "priority", (n_rows,)),
        labels=labels,
        quantity=quantity,
        raw=tensor(tensors, "raw", (n_samples,), "bool") if "raw" in tensors else none,
        **_choices(tensors, n_rows),
    )


def _choices(tensors: Tensors, n_rows: int) -> Tensors:
    if not any(name in tensors for name in _CHOICES):
        return {"choice": np.full(n_rows, -1), "alternative": np.zeros(n_rows, dtype=np.int64)}
    found = {name: tensor(tensors, name, (n_rows,), "int64") for name in _CHOICES}
    for name, least in zip(_CHOICES, (-1, 0), strict=True):
        if not least <= found[name].min() <= found[name].max() < n_rows:
            raise InvalidRun(f"The saved constraints have a number of a {name} that is none.")
    return found


def _row_arrays(rows: Rows | None) -> Tensors:
    """By name; what few rows have is left out where none has it, as in files of before."""
    if rows is None:
        return {}
    rare = [*(["raw"] if rows.raw.any() else []), *(_CHOICES if rows.has_choices else [])]
    return {name: np.asarray(getattr(rows, name)) for name in (*_ROW_ARRAYS, *rare)}


def _digest(rows: Rows | None, regions: list[dict[str, Any]]) -> str:
    """Equal for constraints that ask for the same, in the same order, under the same names."""
    head = {"labels": [] if rows is None else rows.labels, "regions": regions}
    return digest_of(_row_arrays(rows), head)


def _sampled(constraint: PlacedConstraint, expansion: Expansion) -> dict[str, Any]:
    """What it asks for at many of its states: all that can be said of a Python function."""
    assert constraint.region is not None  # only those on regions are packed
    n_actions = next(one.n_actions for one in expansion.regional if one.constraint is constraint)
    rows = constraint.rows_at(constraint.region.cover(_SAMPLE), n_actions)
    return {"name": constraint.name, "sha256": _digest(rows, [])}
