"""What makes a policy obey, and goes on doing so: at points, at chosen states, on whole regions.

Three kinds of `Enforcer`, one interface: which rows the next step of a learner is solved for, how
the constraints are made to hold exactly, and how far a policy is from obeying them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from handrail._storage import tensor
from handrail._types import Array
from handrail.constraints import (
    Expansion,
    Rows,
    Tolerance,
    Violations,
    concatenate,
    measure_rows,
    violations_at,
)
from handrail.enforcement.candidates import Candidates, Sample, Scored
from handrail.enforcement.conflict import Choices
from handrail.enforcement.elsewhere import Elsewhere
from handrail.enforcement.exchange import STATES_A_ROUND, Exchange, Found, RegionSearch
from handrail.enforcement.iteration import Enforcement, enforce_rows
from handrail.policies import Policy
from handrail.proof import Budget, Certificate, Renewal, provable_layers
from handrail.settings import (
    Everywhere,
    MaximumDeviation,
    MaximumReturn,
    Selection,
)
from handrail.tangent import PolicyGradient

Memory = dict[str, NDArray[Any]]


class Enforcer(ABC):
    """Makes a policy obey, and remembers from update to update what that took.

    Attributes:
        tolerance: the largest violation allowed at points.
    """

    tolerance: float

    @abstractmethod
    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The rows that the next step is solved for: of every choice, one alternative."""

    @abstractmethod
    def rows_at(self, states: Sequence[Array]) -> Rows:
        """The constraints at points and at these states (n, n_coordinates) of each region."""

    @abstractmethod
    def hold(self, policy: Policy, elsewhere: Elsewhere | None = None) -> Enforcement:
        """Make the policy obey, in place; on failure it is as it was.

        Args:
            policy: changed as little as possible.
            elsewhere: what should stay as it is; by default the shortest way of the weights counts.
        """

    @abstractmethod
    def kept(self, policy: Policy, worst: float | None = None) -> Enforcement | None:
        """What `hold` would say of a policy that obeys already; None if that takes more to know.

        Args:
            policy: as it is.
            worst: what the method of this name says of it, if that is known already.
        """

    @abstractmethod
    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """The worst, of the policy as it is.

        Args:
            policy: as it is.
            values: of the rows of the last step (n_rows,), if they are known already.
        """

    @abstractmethod
    def measure(self, policy: Policy) -> Violations:
        """Row by row, worst first; regions on a sample."""

    @abstractmethod
    def worst(self, policy: Policy) -> float:
        """The first of `measure`, without names and order of all others."""

    @abstractmethod
    def looked_at(self) -> tuple[Rows, Array]:
        """The rows at which a held policy obeys, and what violation of each counts as none.

        Of points, of regions' samples and of the states that hold them: (n_rows,).
        """

    @abstractmethod
    def without_proof(self) -> Enforcer:
        """Of the same constraints, by search; itself if it proves nothing."""

    @property
    @abstractmethod
    def active_states(self) -> tuple[Array, ...]:
        """The states of each region that are constrained at present (n, n_coordinates)."""

    @abstractmethod
    def memory(self) -> Memory:
        """What `recall` needs to go on exactly from here."""

    @abstractmethod
    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what was remembered."""


def make_enforcer(
    expansion: Expansion, selection: Selection, policy: Policy, tolerance: Tolerance
) -> Enforcer:
    """Of a set of constraints; what can never be proven is refused now."""
    allowed = tolerance.to_hold(policy, expansion.fixed)
    if not expansion.regional:
        assert expansion.fixed is not None  # there is at least one constraint
        return PointEnforcer(expansion.fixed, allowed, _measured(expansion, selection))
    if not isinstance(selection, Everywhere):
        return SelectionEnforcer(expansion, selection, allowed)
    if selection.prove:
        provable_layers(policy)
        for one in expansion.regional:
            one.region.covers()
    return RegionEnforcer(expansion, selection, allowed)


def _measured(expansion: Expansion, selection: Selection) -> tuple[str, ...]:
    """Names of the constraints that get no certificate though proofs are asked for."""
    asked = isinstance(selection, Everywhere) and selection.prove
    return expansion.at_points if asked else ()


@final
class PointEnforcer(Enforcer):
    """Of constraints at points: always the same rows.

    Args:
        rows: what must hold.
        tolerance: the largest violation allowed.
        measured: names of the constraints that somebody wanted proven, to be told that they are
            not.
    """

    def __init__(self, rows: Rows, tolerance: float, measured: tuple[str, ...] = ()) -> None:
        self._rows = rows
        self._measured = measured
        self.tolerance = tolerance

    @override
    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        return Choices(self._rows, policy).rows

    @override
    def rows_at(self, states: Sequence[Array]) -> Rows:
        return self._rows

    @override
    def hold(self, policy: Policy, elsewhere: Elsewhere | None = None) -> Enforcement:
        """By relinearising."""
        elsewhere = elsewhere or Elsewhere.unknown()
        held = enforce_rows(policy, self._rows, self.tolerance, elsewhere, elsewhere.beyond)
        return replace(held, measured=self._measured) if self._measured else held

    @override
    def kept(self, policy: Policy, worst: float | None = None) -> Enforcement | None:
        worst = self.worst(policy) if worst is None else worst
        if worst > self.tolerance:
            return None
        return Enforcement(
            satisfied=True,
            worst_violation=worst,
            tolerance=self.tolerance,
            history=(),
            parameter_change=0.0,
            reason="",
            measured=self._measured,
        )

    @override
    def violation(self, policy: Policy, values: Array | None = None) -> float:
        if values is None or self._rows.has_choices:
            return float(self._rows.violations_of(policy).max())
        return float(self._rows.violations(values).max())

    @override
    def measure(self, policy: Policy) -> Violations:
        return measure_rows(policy, self._rows)

    @override
    def worst(self, policy: Policy) -> float:
        return float(self._rows.violations_of(policy).max())

    @override
    def looked_at(self) -> tuple[Rows, Array]:
        return self._rows, np.full(len(self._rows), self.tolerance)

    @override
    def without_proof(self) -> Enforcer:
        return self

    @property
    @override
    def active_states(self) -> tuple[Array, ...]:
        """None: there is no region."""
        return ()

    @override
    def memory(self) -> Memory:
        """Nothing."""
        return {}

    @override
    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        """Nothing."""


@final
class SelectionEnforcer(Enforcer):
    """Of the paper's dynamic constraints: a few states of each discretised region at a time."""

    def __init__(
        self,
        expansion: Expansion,
        selection: MaximumReturn | MaximumDeviation,
        tolerance: float,
    ) -> None:
        self.tolerance = tolerance
        self._expansion = expansion
        self._candidates = Candidates(expansion, selection)
        self._watched = expansion.rows_with([self._candidates.rows])
        self._exchange = Exchange(expansion, margin=0.0)
        self._active: tuple[Array, ...] = ()

    @override
    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The constraints at points, and the states with the highest scores."""
        scores = self._candidates.scores(policy, gradient, step_size)
        chosen = self._candidates.choose(scores)
        pairs = zip(self._candidates.samples, chosen, strict=True)
        self._active = tuple(sample.states[indices] for sample, indices in pairs)
        rows = self._expansion.rows_with(self._candidates.rows_at(chosen))
        return Choices(rows, policy).rows

    @override
    def rows_at(self, states: Sequence[Array]) -> Rows:
        return _some_rows(self._expansion, self._exchange, states)

    @override
    def hold(self, policy: Policy, elsewhere: Elsewhere | None = None) -> Enforcement:
        """All points of all regions, by exchange: violated ones enter by the strategy's score."""
        result = self._exchange.hold(
            policy, self._find, self.tolerance, elsewhere or Elsewhere.unknown()
        )
        self._active = self._exchange.working
        return result

    def _find(self, policy: Policy) -> Found:
        samples, violations = self._candidates.samples, self._candidates.violations(policy)
        worst = max(float(one.max()) for one in violations)
        if worst <= self.tolerance:
            return Found([sample.states[:0] for sample in samples], worst)
        scores = self._candidates.scores(policy, None, 1.0)
        # Among the violated only: the highest score of a state that obeys helps nobody.
        masked = [
            np.where(violation > self.tolerance, score, -np.inf)
            for score, violation in zip(scores, violations, strict=True)
        ]
        chosen = self._candidates.choose(masked)
        violated = [
            sample.states[indices[np.isfinite(score[indices])]]
            for sample, indices, score in zip(samples, chosen, masked, strict=True)
        ]
        return Found(violated, worst)

    @override
    def kept(self, policy: Policy, worst: float | None = None) -> None:
        """Of regions, only a search tells."""

    @override
    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """Of all points, which are more than the rows of the last step."""
        return float(self._watched.violations_of(policy).max())

    @override
    def measure(self, policy: Policy) -> Violations:
        return measure_rows(policy, self._watched)

    @override
    def worst(self, policy: Policy) -> float:
        return float(self._watched.violations_of(policy).max())

    @override
    def looked_at(self) -> tuple[Rows, Array]:
        return self._watched, np.full(len(self._watched), self.tolerance)

    @override
    def without_proof(self) -> Enforcer:
        return self

    @property
    @override
    def active_states(self) -> tuple[Array, ...]:
        """Of the last update."""
        return self._active

    @override
    def memory(self) -> Memory:
        return {
            **_pack_states("working", self._exchange.working),
            **_pack_states("active", self._active),
        }

    @override
    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        self._exchange.working = _unpack_states("working", memory, self._expansion)
        # Older files call them stars, after the mark that pictures give them.
        name = "stars" if "stars.0" in memory else "active"
        known = f"{name}.0" in memory
        self._active = _unpack_states(name, memory, self._expansion) if known else ()


@final
class RegionEnforcer(Enforcer):
    """Of every state of every region, on a fine sample or proven."""

    def __init__(self, expansion: Expansion, selection: Everywhere, tolerance: float) -> None:
        self.tolerance = tolerance
        self._expansion = expansion
        self._selection = selection
        self._proofs = Renewal(
            [one.constraint.moved_to(one.region, one.name) for one in expansion.regional]
        )
        # Where no proof is asked for, one must not take much longer than to look.
        cells = selection.cells if selection.prove else selection.sample
        self._search = RegionSearch(expansion.regional, selection.sample, self._proofs, cells)
        self._exchange = Exchange(expansion, selection.margin)
        self._measured = _measured(expansion, selection)
        self._violation: float | None = None
        self._proven = False

    @override
    def step_rows(self, policy: Policy, gradient: PolicyGradient, step_size: float) -> Rows:
        """The constraints at points, and the working states."""
        return Choices(self.rows_at(self._exchange.working), policy).rows

    @override
    def rows_at(self, states: Sequence[Array]) -> Rows:
        return _some_rows(self._expansion, self._exchange, states)

    @override
    def hold(self, policy: Policy, elsewhere: Elsewhere | None = None) -> Enforcement:
        """By exchange."""
        elsewhere = elsewhere or Elsewhere.unknown()
        self._search.look_beside(elsewhere.states)
        with policy.still():
            result = self._exchange.hold(policy, self._find, self.tolerance, elsewhere)
        if result.satisfied:
            self._violation = result.worst_violation
            self._proven = result.proven
        return replace(result, measured=self._measured)

    def _find(self, policy: Policy) -> Found:
        """What a few cells prove needs no search; whatever takes more is searched first.

        But where it was proven before, the proof comes first: it may do for both.
        """
        said, proof = self._search.of_few_cells(policy), None
        known = said.certificates
        if self._proven and not known:
            proof = self._prove(policy, known)
            if proof.nothing and not proof.reason:
                return proof
            # A counterexample seldom comes alone.
            known = {i: one for i, one in enumerate(proof.certificates) if one.certified}
        found = self._search.find(policy, known, said.suspects, again=self._is_last)
        if not (found.nothing and self._selection.prove):
            return found
        return self._kept(policy, proof or self._prove(policy, known), found)

    @property
    def _is_last(self) -> bool:
        """Whether what a search finds nowhere is kept without a proof."""
        return not self._selection.prove or self._selection.on_unproven == "keep"

    def _kept(self, policy: Policy, proof: Found, search: Found) -> Found:
        """What could not be proven, where a search found nothing: kept if that is wanted.

        What was met where only rounding decides was tried, too.
        """
        if not proof.reason or self._selection.on_unproven == "refuse":
            return proof
        met = [
            float(_counterexamples(policy, sample, one).violations.max(initial=-np.inf))
            for sample, one in zip(self._search.samples, proof.certificates, strict=True)
        ]
        worst = max(search.worst_violation, *met)
        return replace(proof, worst_violation=worst, acceptable=worst <= 0.0)

    def _prove(self, policy: Policy, known: Mapping[int, Certificate]) -> Found:
        """Of all regions but those of which certificates are known, by number."""
        budget = Budget(self._selection.cells, self._selection.seconds)
        certificates = self._proofs.certify(policy, budget, known)
        unknown = [one for one in certificates if one.status == "unknown"]
        reason = ""
        if unknown:
            reason = (
                f"{unknown[0].name!r} holds on every state that was tried, but could not be "
                f"proven: {unknown[0].reason}. Allow more cells or seconds, or a larger margin; or "
                'keep it without a proof (on_unproven="keep").'
            )
        violated = [
            sample.worst(_counterexamples(policy, sample, one), STATES_A_ROUND).states
            for one, sample in zip(certificates, self._search.samples, strict=True)
        ]
        worst = max(one.worst_violation for one in certificates)
        return Found(violated, worst, certificates, reason)

    @override
    def kept(self, policy: Policy, worst: float | None = None) -> None:
        """Of regions, only a search tells."""

    @override
    def violation(self, policy: Policy, values: Array | None = None) -> float:
        """As it was when the policy was last made to obey; else on the sample."""
        if self._violation is not None:
            return self._violation
        return float(self._watched.violations_of(policy).max())

    @override
    def measure(self, policy: Policy) -> Violations:
        """The constraints at points, and the regions' samples."""
        return measure_rows(policy, self._watched)

    @override
    def worst(self, policy: Policy) -> float:
        return float(self._watched.violations_of(policy).max())

    @cached_property
    def _watched(self) -> Rows:
        return self._expansion.rows_with([sample.rows for sample in self._search.samples])

    @override
    def looked_at(self) -> tuple[Rows, Array]:
        """Points have a tolerance, states of regions none."""
        pairs = zip(self._expansion.regional, self._exchange.working, strict=True)
        working = [one.rows_at(states) for one, states in pairs if len(states)]
        rows = concatenate([self._watched, *working])
        fixed = self._expansion.fixed
        allowed = np.zeros(len(rows))
        allowed[: 0 if fixed is None else len(fixed)] = self.tolerance
        return rows, allowed

    @override
    def without_proof(self) -> Enforcer:
        if not self._selection.prove:
            return self
        by_search = self._selection.model_copy(update={"prove": False})
        return RegionEnforcer(self._expansion, by_search, self.tolerance)

    @property
    @override
    def active_states(self) -> tuple[Array, ...]:
        """The working states."""
        return self._exchange.working

    @override
    def memory(self) -> Memory:
        """The working states, what was last measured, how it is searched, and proofs' cells."""
        known = [] if self._violation is None else [self._violation]
        return {
            **_pack_states("working", self._exchange.working),
            "violation": np.array(known, dtype=np.float64),
            "proven": np.array([self._proven]),
            "turns": np.array([self._search.turn], dtype=np.int64),
            **{f"cells.{key}": value for key, value in self._proofs.memory().items()},
        }

    @override
    def recall(self, memory: Mapping[str, NDArray[Any]]) -> None:
        self._exchange.working = _unpack_states("working", memory, self._expansion)
        known = tensor(memory, "violation", (None,))
        self._violation = float(known[0]) if len(known) else None
        self._proven = bool(tensor(memory, "proven", (1,), "bool")[0])
        if "turns" in memory:  # older files have none, or one for each region
            self._search.turn = int(tensor(memory, "turns", (None,), "int64")[0])
        cells = [key for key in memory if key.startswith("cells.")]
        self._proofs.recall({key.removeprefix("cells."): memory[key] for key in cells})


def _some_rows(expansion: Expansion, exchange: Exchange, states: Sequence[Array]) -> Rows:
    """Those that the exchange holds at these states.

    A policy that obeyed from the beginning has none yet: then one state stands for each region.
    """
    rows = exchange.rows_at(states)
    return expansion.rows(per_region=1) if rows is None else rows


def _counterexamples(policy: Policy, sample: Sample, certificate: Certificate) -> Scored:
    """Those of a certificate, and states that only rounding decides; none if there are none."""
    states = certificate.near if certificate.violated is None else certificate.violated
    if states is None:
        return Scored(sample.states[:0], np.zeros(0))
    return Scored(states, violations_at(policy, sample.regional, states))


def _pack_states(prefix: str, blocks: Sequence[Array]) -> Memory:
    """States of several regions, by their numbers."""
    return {f"{prefix}.{number}": np.array(block) for number, block in enumerate(blocks)}


def _unpack_states(
    prefix: str, memory: Mapping[str, NDArray[Any]], expansion: Expansion
) -> tuple[Array, ...]:
    """What `_pack_states` packed for these regions."""
    return tuple(
        tensor(memory, f"{prefix}.{number}", (None, one.region.n_coordinates))
        for number, one in enumerate(expansion.regional)
    )
