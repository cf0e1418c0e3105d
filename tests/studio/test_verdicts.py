"""What is known of an entry: never more than was found out."""

from __future__ import annotations

from dataclasses import replace

import handrail as hr
from handrail.studio.engine import Target
from handrail.studio.verdicts import gravest
from handrail.studio.workbench import Workbench
from tests.conftest import small_policy
from tests.studio.conftest import TEXT


def statuses(text: str) -> tuple[list[str], list[str]]:
    """As measured, and as proven."""
    bench = Workbench(Target(text, "lean.yaml"))
    assert bench.draw(0, text, None).error == ""
    held = bench.hold(0, 3)
    proof = bench.prove(0, lambda: None)
    return [one.status for one in held.verdicts], [one.status for one in proof.verdicts]


def test_an_entry_is_not_proven_by_one_of_its_requirements() -> None:
    """No proof can look into a weighted sum whose bound depends on the state."""
    both = "require: [right >= 0.9, 2*left + right <= 1.5 + 0.1*phi]"
    measured, proven = statuses(TEXT.replace("require: right >= 0.9", both))
    assert measured == ["holds"] * 3
    assert proven == ["unknown", "proven", "proven"]
    assert statuses(TEXT)[1] == ["proven"] * 3


def test_what_is_said_of_several_is_said_of_the_gravest() -> None:
    proven = hr.certify(small_policy(), hr.AtLeast(0.01, 0, hr.Points([[0.0, 0.0, 0.0]])))
    assert proven.certified
    unknown = replace(proven, status="unknown", lowest=None, reason="out of time")
    violated = replace(proven, status="counterexample", violation=0.1, state=(0.0,), lowest=None)
    assert gravest([proven, unknown]) is unknown
    assert gravest([violated, unknown, proven]) is violated
    worse = replace(violated, violation=0.2)
    assert gravest([violated, worse]) is worse
