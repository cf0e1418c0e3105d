"""A policy that stays close to another one: the new one to the old, all over a region."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any, Self, final

import numpy as np
import torch
from torch import nn
from typing_extensions import override

from handrail._types import Array
from handrail.constraints.amount import Asked, check_number
from handrail.constraints.checks import (
    check_action,
    check_known_action,
    check_priority,
    check_where,
)
from handrail.constraints.constraint import Constraint, Violated, make_rows, set_default_name
from handrail.constraints.pair import Difference, Paired, Twin, one_of
from handrail.constraints.rows import Rows
from handrail.errors import InvalidConstraint
from handrail.policies import (
    ACTIVATIONS,
    IDENTITY,
    MEAN,
    VALUE,
    BranchProbability,
    CategoricalPolicy,
    GaussianPolicy,
    LayerArrays,
    Layers,
    MeanAndStd,
    Policy,
    Quantity,
    quantity_called,
)
from handrail.regions import Place


@final
@dataclass(frozen=True, eq=False)
class FrozenPolicy:
    """A policy as it was: nothing changes it any more.

    Attributes:
        policy: a copy that computes in float64, if that can be had.
        precision: what the policy itself computes in: "float64" or "float32".
    """

    policy: Policy
    precision: str

    @classmethod
    def of(cls, policy: Policy) -> FrozenPolicy:
        """A copy; of a network that can be written down the one that is read again, bit by bit."""
        layers = policy.layers()
        if layers is None:
            module: nn.Module = deepcopy(policy.module)
        else:
            module = _rebuilt(layers.arrays()) or layers.in_float64()
        return cls(policy.with_module(module), str(policy.dtype).removeprefix("torch."))

    def __repr__(self) -> str:
        return f"<FrozenPolicy: {self.policy!r}>"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FrozenPolicy):
            return NotImplemented
        return self is other or (self.digest is not None and self.digest == other.digest)

    def __hash__(self) -> int:
        return hash(self.digest)

    @cached_property
    def digest(self) -> str | None:
        """SHA-256 of what `describe` says."""
        described = self.describe()
        if described is None:
            return None
        return hashlib.sha256(json.dumps(described).encode()).hexdigest()

    def describe(self) -> dict[str, Any] | None:
        """Plain values of a plain network; None of any other."""
        layers = self.policy.layers()
        arrays = None if layers is None else layers.arrays()
        if arrays is None or _rebuilt(arrays) is None:
            return None
        return {
            "quantity": self.policy.quantity.name,
            "precision": self.precision,
            "weights": [one.tolist() for one in arrays.weights],
            "biases": [one.tolist() for one in arrays.biases],
            "activations": [one.name for one in arrays.activations],
        }

    @classmethod
    def from_description(cls, described: Mapping[str, Any]) -> FrozenPolicy:
        """What `describe` described."""
        known = {one.name: one for one in (*ACTIVATIONS.values(), IDENTITY)}
        module = _module(
            LayerArrays(
                tuple(np.array(one, dtype=np.float64) for one in described["weights"]),
                tuple(np.array(one, dtype=np.float64) for one in described["biases"]),
                tuple(known[name] for name in described["activations"]),
            )
        )
        if quantity_called(described["quantity"]) == MEAN:
            return cls(GaussianPolicy(module, 1.0), described["precision"])
        return cls(CategoricalPolicy(module), described["precision"])


def _rebuilt(arrays: LayerArrays) -> nn.Sequential | None:
    """A network of Linear layers and activations that is all of this; None if there is more."""
    module = _module(arrays)
    read = Layers.of(module)
    whole = isinstance(read, Layers) and all(
        _is_same(getattr(read.arrays(), one.name), getattr(arrays, one.name))
        for one in fields(arrays)
    )
    return module if whole else None


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple) and isinstance(other, tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one is other or (isinstance(one, np.ndarray) and np.array_equal(one, other))


def _module(arrays: LayerArrays) -> nn.Sequential:
    """A network with these weights, in float64."""
    layers: list[nn.Module] = []
    steps = zip(arrays.weights, arrays.biases, arrays.activations, strict=True)
    for weight, bias, activation in steps:
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(weight))
            layer.bias.copy_(torch.from_numpy(bias))
        layers += [layer] if activation is IDENTITY else [layer, activation.kind()]
    return nn.Sequential(*layers)


@final
@dataclass(frozen=True)
class CloseTo(Paired):
    """|π(action | s) - that of another policy| ≤ distance; of continuous actions, of the means.

    Args:
        policy: the other one, as it is now: later changes of it are not followed.
        distance: how far apart the two may be, below 0.5 for probabilities.
        action: an index; of continuous actions, that of a dimension.
        where: the states: Points, or a region.
        name: for tables and messages.
        priority: how much more than others this one matters when constraints are soft.
    """

    policy: Policy | FrozenPolicy
    distance: float
    action: int
    where: Place
    name: str = ""
    priority: float = 1.0

    def __post_init__(self) -> None:
        check_where(self.where)
        check_priority(self.priority)
        check_action(self.action)
        if isinstance(self.policy, Policy):
            object.__setattr__(self, "policy", FrozenPolicy.of(self.policy))
        if not isinstance(self.policy, FrozenPolicy):
            raise InvalidConstraint(
                f"CloseTo: expected a policy, but got {type(self.policy).__name__}. Around a "
                "controller, handrail.within(controller, distance, where)."
            )
        if self.quantity == VALUE:
            raise InvalidConstraint(
                "CloseTo keeps probabilities or mean actions near those of a policy, but a "
                "GreedyPolicy has values, of which only the order decides. Say which action it "
                "takes: Prefer(action, by=…, where=…)."
            )
        if isinstance(self.quantity, MeanAndStd):
            raise InvalidConstraint(
                "CloseTo: of a policy whose standard deviation varies, no distance is known. Bound "
                "its means and deviations: Between(lower, upper, Mean(0), where)."
            )
        if isinstance(self.quantity, BranchProbability):
            raise InvalidConstraint(
                "CloseTo: of a policy with several branches, no distance is known. Bound the "
                "probabilities of its branches: Between(lower, upper, Branch(…), where)."
            )
        check_number(self.distance, "CloseTo: `distance`")
        highest = np.inf if self.quantity.is_continuous else 0.5
        if not 0.0 < self.distance < highest:
            limit = "" if self.quantity.is_continuous else " and below 0.5"
            raise InvalidConstraint(
                f"CloseTo: `distance` must be above 0{limit}, not {self.distance:g}."
            )
        of_it = f"mean action {self.action}" if self.quantity == MEAN else f"action {self.action}"
        set_default_name(self, f"{of_it} within {self.distance:g} of another policy")

    @property
    @override
    def quantity(self) -> Quantity:
        """As the other policy has it."""
        return self._other.quantity

    @property
    @override
    def depends_on_state(self) -> bool:
        """As the other policy does."""
        return True

    @property
    @override
    def largest(self) -> float:
        return self.distance

    @property
    @override
    def twin(self) -> Twin:
        return Twin(policy=self._frozen.policy, precision=self._frozen.precision)

    @override
    def for_policy(self, policy: Policy) -> Constraint:
        """Itself, if both are of a kind."""
        if isinstance(policy.quantity, MeanAndStd):
            raise InvalidConstraint(
                f"{self.name!r} keeps a policy near another one, but the standard deviation of "
                "this one varies, and that of the other does not. Keep a policy of one standard "
                "deviation there, or bound the means: Between(lower, upper, Mean(0), where)."
            )
        return self

    @override
    def differences(self, n_actions: int) -> list[Difference]:
        """A single one."""
        check_known_action(self.name, self.action, n_actions)
        own = one_of(self.action, n_actions)
        return [Difference(own, own)]

    @override
    def violated_at(self, states: Array, n_actions: int) -> Violated:
        return self.asked_at(states, n_actions).violations

    def asked_at(self, states: Array, n_actions: int) -> Asked:
        """Bounds around what the other policy says; none where no policy could be beyond them."""
        weights = self.differences(n_actions)[0].own[None]
        outputs = self._other.outputs(states)
        if outputs.shape[1] != n_actions:
            raise InvalidConstraint(
                f"{self.name!r} compares with a policy of {outputs.shape[1]} actions, but this one "
                f"has {n_actions}."
            )
        centre = outputs[:, self.action]
        lower, upper = centre - self.distance, centre + self.distance
        lowest, highest = self.quantity.reach(weights)
        return Asked(
            weights,
            np.where(lower <= lowest, -np.inf, lower),
            np.where(upper >= highest, np.inf, upper),
            self.quantity,
            raw=False,
        )

    @override
    def rows_at(self, states: Array, n_actions: int) -> Rows:
        """One row per state."""
        asked, n = self.asked_at(states, n_actions), len(states)
        weights = np.broadcast_to(asked.weights, (n, n_actions)).copy()
        return make_rows(self, states, weights, np.arange(n), asked.lower, asked.upper)

    @override
    def comparison(self) -> dict[str, Any]:
        """With the SHA-256 of the other policy, of weights that can be written down."""
        return {"action": self.action, "policy": self._frozen.digest}

    @override
    def describe(self) -> dict[str, Any]:
        """With the weights of the other policy."""
        described = self._frozen.describe()
        if described is None:
            raise InvalidConstraint(
                f"{self.name!r} compares with a network that is more than Linear layers and "
                "activations, which cannot be written to a file."
            )
        return {**super().describe(), "policy": described}

    @classmethod
    @override
    def from_description(cls, values: Mapping[str, Any]) -> Self:
        return cls(**{**values, "policy": FrozenPolicy.from_description(values["policy"])})

    @property
    def _frozen(self) -> FrozenPolicy:
        assert isinstance(self.policy, FrozenPolicy)  # from the beginning
        return self.policy

    @property
    def _other(self) -> Policy:
        return self._frozen.policy
