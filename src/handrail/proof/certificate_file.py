"""Certificates as files: what was proven, of exactly which weights, and whether it still is.

A file binds the SHA-256 of the weights, each constraint's region, bounds and tolerance, the
arithmetic and our version. To verify is to prove again from scratch: nothing in the file is taken
on trust. What was asked comes from the caller, the tolerance included, and must be in the file
letter by letter; what was answered must come out again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from handrail._package import VERSION
from handrail._storage import digest_of, read_sealed, seal, to_json, unseal, write_atomically
from handrail.constraints import (
    Amount,
    Constraint,
    Demand,
    Paired,
    PlacedConstraint,
    SlopeBounded,
    is_kept_noise,
)
from handrail.errors import InvalidCertificate, InvalidRun
from handrail.formulas import StateFunction
from handrail.policies import Policy, pack_policy
from handrail.proof.certificate import Certificate, Status
from handrail.proof.judgement import certify
from handrail.proof.question import demands_of, parts_of
from handrail.proof.remainder import Remainder
from handrail.regions import Points

FORMAT = 2

ARITHMETIC = (
    "the network with exactly these weights, evaluated with real numbers or in {dtype}: bounds "
    "exceed what rounding can do"
)

# Of one machine to another: sums are not taken in the same order everywhere.
_AGREEMENT = 1e-11

Certify = Callable[[Constraint], Certificate]


@final
class _Remainder(BaseModel):
    """What is claimed of a region that is not known; estimates are no claims."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    proven_share: float
    violation: float | None
    open_cells: int


@final
class _Claim(BaseModel):
    """One certificate as a file has it; what was asked is compared, so any JSON will do there."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    name: str
    place: Any
    quantity: Any
    weights: Any
    lower: Any
    upper: Any
    alternatives: Any = None
    tolerance: Any
    status: Status
    lowest: float | None
    highest: float | None
    slack: float | None = None
    proven_by: Any = ()
    state: list[float] | None
    violation: float | None
    reason: str
    method: str
    cells: int
    remainder: _Remainder | None = None


@final
class _Document(BaseModel):
    """All of a file but for its SHA-256."""

    model_config = ConfigDict(strict=True, extra="forbid")

    format: int
    version: str
    weights: str
    dtype: str
    arithmetic: str
    certificates: list[_Claim]


def weights_hash(policy: Policy) -> str:
    """SHA-256 of the architecture, of what is decided, and of every weight, bit for bit."""
    weights, architecture = pack_policy(policy)
    head = {"architecture": architecture, "quantity": policy.quantity.full_name}
    return digest_of(weights, head)


def write_certificates(
    path: Path,
    policy: Policy,
    constraints: Sequence[Constraint],
    certificates: Sequence[Certificate],
) -> None:
    """Write what was proven of a policy, constraint by constraint."""
    write_atomically(path, sealed_certificates(policy, constraints, certificates))


def sealed_certificates(
    policy: Policy, constraints: Sequence[Constraint], certificates: Sequence[Certificate]
) -> bytes:
    """The content of such a file, which may be part of another one."""
    pairs = zip(constraints, certificates, strict=True)
    document = {
        **_head(policy),
        "certificates": [
            {**_question(policy, constraint, certificate.tolerance), **_answer(certificate)}
            for constraint, certificate in pairs
        ],
    }
    return seal(document)


def verify_certificates(
    path: Path,
    policy: Policy,
    constraints: Sequence[Constraint],
    tolerance: float = 0.0,
    prove: Certify | None = None,
    content: bytes | None = None,
) -> list[Certificate]:
    """Prove everything again that a file says is certified.

    Args:
        path: of a file that `write_certificates` wrote.
        policy: which it must be about, to the last bit.
        constraints: which it must be about.
        tolerance: which it must be about, too: violations up to this are allowed.
        prove: how to prove a constraint with this tolerance; by default with the usual budget.
        content: what `sealed_certificates` wrote, if the file is one that it travels in.

    Raises:
        InvalidCertificate: if it was altered, is about something else, or cannot be confirmed.
    """
    document = _read(path, content)
    _check_head(path, document, policy)
    claims = document.certificates
    names = [claim.name for claim in claims]
    if names != [constraint.name for constraint in constraints]:
        raise InvalidCertificate(
            f"{path} is about the constraints {names}, but these are "
            f"{[constraint.name for constraint in constraints]}."
        )
    # All questions before the first proof: that may take long.
    for claim, constraint in zip(claims, constraints, strict=True):
        _check_question(path, claim, policy, constraint, tolerance)
    found = []
    for claim, constraint in zip(claims, constraints, strict=True):
        again = (
            certify(policy, constraint, tolerance=tolerance) if prove is None else prove(constraint)
        )
        _check_answer(path, claim, again)
        found.append(again)
    return found


def _read(path: Path, content: bytes | None) -> _Document:
    try:
        document = read_sealed(path) if content is None else unseal(content, path)
    except InvalidRun as error:
        raise InvalidCertificate(str(error)) from error
    versions = document.get("format"), document.get("version")
    if to_json(versions) != to_json((FORMAT, VERSION)):
        raise InvalidCertificate(
            f"{path} was written by Handrail {versions[1]} (format {versions[0]}); this is "
            f"{VERSION} (format {FORMAT}). Prove it again."
        )
    try:
        return _Document.model_validate(document)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise InvalidCertificate(
            f"{path} is no certificate: {where}: {first['msg']}. Prove it again."
        ) from None


def _head(policy: Policy) -> dict[str, Any]:
    """What all certificates of a policy have in common."""
    dtype = str(policy.dtype).removeprefix("torch.")
    return {
        "format": FORMAT,
        "version": VERSION,
        "weights": weights_hash(policy),
        "dtype": dtype,
        "arithmetic": ARITHMETIC.format(dtype=dtype),
    }


def _check_head(path: Path, document: _Document, policy: Policy) -> None:
    expected = _head(policy)
    if document.weights != expected["weights"]:
        raise InvalidCertificate(
            f"{path} is about other weights than those of this policy (SHA-256 "
            f"{document.weights[:12]}…, not {expected['weights'][:12]}…). Prove it again."
        )
    for key in ("dtype", "arithmetic"):
        if getattr(document, key) != expected[key]:
            raise InvalidCertificate(
                f"{path} is about another {key} than that of this policy. Prove it again."
            )


def _question(policy: Policy, constraint: Constraint, tolerance: float) -> dict[str, Any]:
    """What was asked, in plain values."""
    constraint = constraint.for_policy(policy)
    assert isinstance(constraint, PlacedConstraint)  # `certify` refuses others
    n_actions = policy.outputs(constraint.states[:1]).shape[1]
    if is_kept_noise(constraint, policy):
        n_actions *= 2  # as if it were among what is decided
    head = {"name": constraint.name, "place": _place(constraint), "tolerance": tolerance}
    if isinstance(constraint, Paired):
        return {**head, **_compared(constraint)}
    if isinstance(constraint, SlopeBounded):
        return {**head, **_slopes(constraint, n_actions)}
    asked, *others = (_asked(demands_of(one, n_actions)) for one in parts_of(constraint))
    return {**head, **asked, "alternatives": others} if others else {**head, **asked}


def _compared(constraint: Paired) -> dict[str, Any]:
    return {
        "quantity": constraint.quantity.full_name,
        "weights": [constraint.comparison()],
        "lower": -constraint.largest,
        "upper": constraint.largest,
    }


def _asked(demands: Sequence[Demand]) -> dict[str, Any]:
    weights = [[_described(one) for one in demand.weights] for demand in demands]
    lower, upper = (
        [_described(one) for one in ends]
        for ends in ([one.lower for one in demands], [one.upper for one in demands])
    )
    alike = all(one == lower[0] for one in lower) and all(one == upper[0] for one in upper)
    return {
        "quantity": _quantity(demands[0]),
        "weights": weights[0] if len(weights) == 1 else weights,
        "lower": lower[0] if alike else lower,
        "upper": upper[0] if alike else upper,
    }


def _slopes(constraint: SlopeBounded, n_actions: int) -> dict[str, Any]:
    """Of the network with real numbers: those of what is computed mean nothing."""
    lower, upper = constraint.slope_bounds
    return {
        "quantity": f"slope of raw {constraint.quantity.name} along observation {constraint.in_}, "
        "with real numbers",
        "weights": constraint.raw_weights(n_actions).tolist(),
        "lower": _finite(lower),
        "upper": _finite(upper),
    }


def _quantity(demand: Demand) -> str:
    """As files call what is bounded."""
    name = demand.quantity.full_name
    return f"raw {name}" if demand.raw else name


def _described(amount: Amount) -> Any:
    return amount.describe() if isinstance(amount, StateFunction) else _finite(float(amount))


def _place(constraint: PlacedConstraint) -> dict[str, Any]:
    where = constraint.where
    if not isinstance(where, Points):
        return dict(where.describe())
    states = np.ascontiguousarray(where.states)
    return {
        "shape": "points",
        "count": len(where),
        "sha256": hashlib.sha256(states.tobytes()).hexdigest(),
    }


def _answer(certificate: Certificate) -> dict[str, Any]:
    slack = {} if certificate.slack is None else {"slack": certificate.slack}
    left = certificate.remainder
    remainder = {} if left is None else {"remainder": _described_remainder(left)}
    chosen = {"proven_by": certificate.alternatives} if certificate.alternatives else {}
    return {
        "status": certificate.status,
        "lowest": certificate.lowest,
        "highest": certificate.highest,
        **slack,
        **chosen,
        "state": certificate.state,
        "violation": certificate.violation,
        "reason": certificate.reason,
        "method": certificate.method,
        "cells": certificate.cells,
        **remainder,
    }


def _described_remainder(left: Remainder) -> dict[str, Any]:
    return {
        "proven_share": left.proven_share,
        "violation": _finite(left.violation),
        "open_cells": left.open_cells,
    }


def _check_question(
    path: Path, claim: _Claim, policy: Policy, constraint: Constraint, tolerance: float
) -> None:
    """As texts: 0, 0.0, -0.0 and false are equal as numbers, but only one of them was written."""
    for key, value in _question(policy, constraint, tolerance).items():
        if to_json(getattr(claim, key)) == to_json(value):
            continue
        if key == "tolerance":
            raise InvalidCertificate(
                f"{path}: {constraint.name!r} was proven within a tolerance of "
                f"{claim.tolerance!r}, not of {tolerance!r}. Say which one you allow."
            )
        raise InvalidCertificate(
            f"{path}: {constraint.name!r} has another {key} than when it was proven."
        )


def _check_answer(path: Path, claim: _Claim, again: Certificate) -> None:
    if claim.status != again.status:
        why = f" ({again.reason})" if again.reason else ""
        raise InvalidCertificate(
            f"{path}: {again.name!r} was {claim.status}, but is now {again.status}{why}."
        )
    agree = (
        _agree(claim.lowest, again.lowest)
        and _agree(claim.highest, again.highest)
        and _agree(claim.slack, again.slack)
        and _agree(claim.violation, again.violation)
    )
    if not agree:
        raise InvalidCertificate(
            f"{path}: {again.name!r} claims other values than can be proven again."
        )
    if again.status == "unknown":  # how far it got depends on the machine
        _check_remainder(path, claim.remainder, again)
        return
    state = None if again.state is None else list(again.state)
    said = (claim.state, claim.reason, claim.method, claim.cells, claim.proven_by)
    found = (state, again.reason, again.method, again.cells, again.alternatives)
    if to_json(said) != to_json(found):
        raise InvalidCertificate(f"{path}: {again.name!r} was not proven as the file says.")


def _check_remainder(path: Path, claimed: _Remainder | None, again: Certificate) -> None:
    """More may be proven than was claimed, but not less."""
    if claimed is None:
        return
    known = again.remainder
    bound = None if claimed.violation is None else claimed.violation * (1.0 + _AGREEMENT)
    as_claimed = (
        known is not None
        and (bound is None or known.violation <= bound + _AGREEMENT)
        and known.proven_share >= claimed.proven_share - _AGREEMENT
    )
    if not as_claimed:
        raise InvalidCertificate(
            f"{path}: of {again.name!r} more is claimed than was proven again: "
            f"{claimed.proven_share:.1%} of the region, violated by at most {claimed.violation}. "
            "Allow as many cells and seconds as then."
        )


def _agree(claimed: float | None, proven: float | None) -> bool:
    if claimed is None or proven is None:
        return claimed is proven
    return abs(claimed - proven) <= _AGREEMENT * max(1.0, abs(proven))


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
