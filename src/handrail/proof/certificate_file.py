"""Certificates as files: what was proven, of exactly which weights, and whether it still is.

A file binds the SHA-256 of the weights, each constraint's region, bounds and tolerance, the
arithmetic and our version. To verify is to prove again from scratch: nothing in the file is taken
on trust.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from handrail._package import VERSION
from handrail._storage import digest_of, read_sealed, to_json, write_sealed
from handrail.constraints import Constraint, PlacedConstraint
from handrail.errors import InvalidCertificate, InvalidRun
from handrail.policies import Policy, pack_policy
from handrail.proof.certificate import Certificate, certify
from handrail.regions import Points

FORMAT = 2


ARITHMETIC = (
    "the network with exactly these weights, evaluated with real numbers or in float64: bounds "
    "exceed what rounding can do"
)


# Of one machine to another: sums are not taken in the same order everywhere.
_AGREEMENT = 1e-9


Certify = Callable[[Constraint, float], Certificate]


def weights_hash(policy: Policy) -> str:
    """SHA-256 of the architecture, of what is decided, and of every weight, bit for bit."""
    weights, architecture = pack_policy(policy)
    head = {"architecture": architecture, "quantity": policy.quantity.name}
    return digest_of(weights, head)


def write_certificates(
    path: Path,
    policy: Policy,
    constraints: Sequence[Constraint],
    certificates: Sequence[Certificate],
) -> None:
    """Write what was proven of a policy, constraint by constraint."""
    pairs = zip(constraints, certificates, strict=True)
    document = {
        "format": FORMAT,
        "version": VERSION,
        "weights": weights_hash(policy),
        "dtype": str(policy.dtype).removeprefix("torch."),
        "arithmetic": ARITHMETIC,
        "certificates": [
            {**_question(policy, constraint, certificate.tolerance), **_answer(certificate)}
            for constraint, certificate in pairs
        ],
    }
    write_sealed(path, document)


def verify_certificates(
    path: Path,
    policy: Policy,
    constraints: Sequence[Constraint],
    prove: Certify | None = None,
) -> list[Certificate]:
    """Prove everything again that a file says is certified.

    Args:
        path: of a file that `write_certificates` wrote.
        policy: which it must be about, to the last bit.
        constraints: which it must be about.
        prove: how to prove a constraint with a tolerance; by default with the usual budget.

    Raises:
        InvalidCertificate: if it was altered, is about something else, or cannot be confirmed.
    """
    document = _read(path)
    if document["weights"] != weights_hash(policy):
        raise InvalidCertificate(
            f"{path} is about other weights than those of this policy (SHA-256 "
            f"{document['weights'][:12]}…, not {weights_hash(policy)[:12]}…). Prove it again."
        )
    claims = document["certificates"]
    names = [claim["name"] for claim in claims]
    if names != [constraint.name for constraint in constraints]:
        raise InvalidCertificate(
            f"{path} is about the constraints {names}, but these are "
            f"{[constraint.name for constraint in constraints]}."
        )
    found = []
    for claim, constraint in zip(claims, constraints, strict=True):
        _check_question(path, claim, policy, constraint)
        tolerance = claim["tolerance"]
        again = (
            certify(policy, constraint, tolerance=tolerance)
            if prove is None
            else prove(constraint, tolerance)
        )
        _check_answer(path, claim, again)
        found.append(again)
    return found


def _read(path: Path) -> dict[str, Any]:
    try:
        document = read_sealed(path)
    except InvalidRun as error:
        raise InvalidCertificate(str(error)) from error
    if document.get("format") != FORMAT or document.get("version") != VERSION:
        raise InvalidCertificate(
            f"{path} was written by Handrail {document.get('version')} (format "
            f"{document.get('format')}); this is {VERSION} (format {FORMAT}). Prove it again."
        )
    return document


def _question(policy: Policy, constraint: Constraint, tolerance: float) -> dict[str, Any]:
    """What was asked, in plain values."""
    assert isinstance(constraint, PlacedConstraint)  # `certify` refuses others
    n_actions = policy.outputs(constraint.states[:1]).shape[1]
    row = constraint.rows_at(constraint.states[:1], n_actions)
    return {
        "name": constraint.name,
        "place": _place(constraint),
        "quantity": row.quantity.name,
        "weights": row.weights[0].tolist(),
        "lower": _finite(float(row.lower[0])),
        "upper": _finite(float(row.upper[0])),
        "tolerance": tolerance,
    }


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
    return {
        "status": certificate.status,
        "lowest": certificate.lowest,
        "highest": certificate.highest,
        "state": certificate.state,
        "violation": certificate.violation,
        "reason": certificate.reason,
        "method": certificate.method,
        "cells": certificate.cells,
    }


def _check_question(
    path: Path, claim: dict[str, Any], policy: Policy, constraint: Constraint
) -> None:
    asked = json.loads(to_json(_question(policy, constraint, claim["tolerance"])))
    for key, value in asked.items():
        if claim[key] != value:
            raise InvalidCertificate(
                f"{path}: {constraint.name!r} has another {key} than when it was proven."
            )


def _check_answer(path: Path, claim: dict[str, Any], again: Certificate) -> None:
    if claim["status"] != again.status:
        why = f" ({again.reason})" if again.reason else ""
        raise InvalidCertificate(
            f"{path}: {again.name!r} was {claim['status']}, but is now {again.status}{why}."
        )
    if not again.certified:
        return
    lowest, highest = claim["lowest"], claim["highest"]
    too_much = (
        lowest is not None and again.lowest is not None and lowest > again.lowest + _AGREEMENT
    ) or (
        highest is not None and again.highest is not None and highest < again.highest - _AGREEMENT
    )
    if too_much or (lowest is None) != (again.lowest is None):
        raise InvalidCertificate(f"{path}: {again.name!r} claims more than can be proven again.")


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
