"""What is known of an entry: never more than was found out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

import handrail as hr
from handrail.studio import verdicts
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


def test_an_entry_is_not_proven_by_one_of_its_requirements(monkeypatch: pytest.MonkeyPatch) -> None:
    """What no proof can look into is passed over by `certify_regions`: it is not proven."""
    both = TEXT.replace("require: right >= 0.9", "require: [right >= 0.9, left <= 0.2]")
    assert statuses(both) == (["holds"] * 3, ["proven"] * 3)

    def passing_over(policy: hr.Policy, constraints: Sequence[hr.Constraint], watch: Any) -> Any:
        kept = [one for one in constraints if "left <= 0.2" not in one.name]
        return hr.report.certify_regions(policy, kept, watch)

    monkeypatch.setattr(verdicts, "certify_regions", passing_over)
    assert statuses(both) == (["holds"] * 3, ["unknown", "proven", "proven"])


def test_what_is_said_of_several_is_said_of_the_gravest() -> None:
    proven = hr.certify(small_policy(), hr.AtLeast(0.01, 0, hr.Points([[0.0, 0.0, 0.0]])))
    assert proven.certified
    unknown = replace(proven, status="unknown", lowest=None, reason="out of time")
    violated = replace(proven, status="counterexample", violation=0.1, state=(0.0,), lowest=None)
    assert gravest([proven, unknown]) is unknown
    assert gravest([violated, unknown, proven]) is violated
    worse = replace(violated, violation=0.2)
    assert gravest([violated, worse]) is worse
