"""What is known of a policy and the entries of a file: measured, proven, or at odds and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final

import numpy as np

from handrail.constraints import Constraint, expand, measure_rows, state_in_words
from handrail.enforcement import diagnose, impossible_overlap
from handrail.errors import HandrailError
from handrail.policies import Policy
from handrail.proof import Certificate, certify
from handrail.report import Answer, certify_regions
from handrail.rulebook import Rulebook
from handrail.studio.messages import Verdict
from handrail.studio.sketch import constraints_by_entry

_STATES_PER_REGION = 1000

_Status: TypeAlias = Literal["holds", "proven", "violated", "unknown"]

_NO_PROOF = "no proof can look into this kind of constraint"

_GRAVITY = ("certified", "unknown", "counterexample")

_STATUS: dict[str, _Status] = {
    "certified": "proven",
    "counterexample": "violated",
    "unknown": "unknown",
}


def measured_verdicts(book: Rulebook, policy: Policy, tolerance: float) -> list[Verdict]:
    """For each entry the worst of its constraints: at all points, at many states of regions."""
    return [
        _measured(book, policy, entry, [book.constraints[i] for i in owned], tolerance)
        for entry, owned in enumerate(constraints_by_entry(book))
    ]


def _measured(
    book: Rulebook, policy: Policy, entry: int, constraints: Sequence[Constraint], tolerance: float
) -> Verdict:
    if not constraints:
        return Verdict(entry=entry, status="unknown", violation=None)
    expansion = expand(constraints, policy)
    found = measure_rows(policy, expansion.rows(_STATES_PER_REGION))
    worst, state = found.worst_violation, found.states[0].ravel()
    n = len(found)
    status: _Status = "holds"
    words = f"holds at all {n:,} states that were tried"
    if worst > (0.0 if expansion.regional else tolerance):
        status, words = "violated", _broken(worst, state.tolist(), book)
    elif not expansion.regional:
        words = f"holds at {'its state' if n == 1 else f'all of its {n:,} states'}"
    return Verdict(entry=entry, status=status, violation=worst, state=state.tolist(), words=words)


def _broken(violation: float | None, state: Sequence[float], book: Rulebook) -> str:
    assert violation is not None  # it was measured at the state
    where = state_in_words(np.array(state), book.observations)
    return f"violated by {violation:.3g} at {where}"


@final
@dataclass(frozen=True)
class EntryProof:
    """What was proven of an entry.

    Attributes:
        verdict: in words.
        answers: with the cells of every region.
    """

    verdict: Verdict
    answers: Sequence[Answer] = ()


def prove_entry(
    book: Rulebook, policy: Policy, entry: int, tolerance: float, check: Callable[[], None]
) -> EntryProof:
    """Certificates of all that an entry of the file asks for.

    Args:
        book: the file.
        policy: that is held to it.
        entry: index in the file.
        tolerance: of states; of regions nothing is.
        check: called now and then; what it raises ends the proof.
    """
    certificates: list[Certificate] = []
    answers: list[Answer] = []
    constraints = [book.constraints[i] for i in constraints_by_entry(book)[entry]]
    try:
        for one in constraints:
            regional = expand([one], policy).regional
            found = certify_regions(policy, [one], lambda *_: check())
            if len(found) < len(regional):
                return _unknown(entry, _NO_PROOF)
            if not regional:
                certificates.append(certify(policy, one, tolerance=tolerance))
            answers += found
    except HandrailError as error:
        return _unknown(entry, str(error))
    certificates += [answer.certificate for answer in answers]
    if not certificates:
        return _unknown(entry, _NO_PROOF)
    return EntryProof(_proven(book, entry, gravest(certificates)), answers)


def gravest(certificates: Sequence[Certificate]) -> Certificate:
    """A state where it is violated is more than not to know, which is more than a proof."""
    return max(certificates, key=lambda one: (_GRAVITY.index(one.status), one.worst_violation))


def _unknown(entry: int, words: str) -> EntryProof:
    return EntryProof(Verdict(entry=entry, status="unknown", violation=None, words=words))


def _proven(book: Rulebook, entry: int, worst: Certificate) -> Verdict:
    state = list(worst.state or ())
    words = "proven at every state"
    if worst.status == "counterexample":
        words = _broken(worst.violation, state, book)
    elif worst.status == "unknown":
        words = f"not proven: {worst.reason}"
    return Verdict(
        entry=entry,
        status=_STATUS[worst.status],
        violation=worst.worst_violation if np.isfinite(worst.worst_violation) else None,
        state=state,
        words=words,
    )


@final
@dataclass(frozen=True)
class Clash:
    """Entries that contradict each other; none if that is not known."""

    entries: Sequence[int] = ()
    words: str = ""
    state: Sequence[float] = ()


def clash_of(book: Rulebook, policy: Policy) -> Clash:
    """Which entries contradict each other, and where."""
    try:
        expansion = expand(book.constraints, policy)
        overlap = impossible_overlap(expansion) if expansion.regional else None
        if overlap is not None:
            found, state = overlap
            return Clash(_entries(book, found.labels), str(found), state.tolist())
        conflicts = diagnose(policy, book.constraints).conflicts
    except HandrailError as error:
        return Clash(words=str(error))
    if not conflicts:
        return Clash()
    return Clash(_entries(book, conflicts[0].labels), str(conflicts[0]))


def _entries(book: Rulebook, labels: Sequence[str]) -> list[int]:
    names = [str(entry["name"]) for entry in book.source.data["constraints"]]
    return sorted(
        {
            max(fitting, key=lambda number: len(names[number]))
            for label in labels
            if (fitting := [i for i, name in enumerate(names) if label.startswith(name)])
        }
    )
