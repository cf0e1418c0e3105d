"""Jobs that wait: which comes first, and what may come in between."""

from __future__ import annotations

from typing import Any

import pytest

from handrail.studio.engine import Inbox, Superseded, Target
from handrail.studio.jobs import AnswerText, ProbeState, ProveText
from handrail.studio.messages import Note, Probed, ProofSeen
from handrail.studio.workbench import Workbench
from tests.studio.conftest import TEXT

STATE = [0.0, 0.0, 0.05, 0.0]


@pytest.fixture
def bench() -> Workbench:
    made = Workbench(Target(TEXT, "lean.yaml"))
    made.draw(4, TEXT, None)
    made.hold(4, 3)
    return made


def test_a_hand_comes_before_a_proof_and_a_cursor_before_both() -> None:
    inbox = Inbox()
    inbox.put(ProveText(1))
    inbox.put(AnswerText(1, TEXT, None, resting=False))
    inbox.put(AnswerText(2, TEXT, None, resting=False))
    inbox.put(ProbeState(STATE))
    taken = [inbox.take() for _ in range(3)]
    assert taken == [ProbeState(STATE), AnswerText(2, TEXT, None, resting=False), ProveText(1)]


def test_a_cursor_that_moves_does_not_end_a_proof(bench: Workbench) -> None:
    inbox, told = Inbox(), list[Any]()
    inbox.put(ProbeState(STATE))
    ProveText(4).run(bench, inbox, told.append)
    assert [type(one) for one in told] == [Probed, ProofSeen, ProofSeen]
    assert (told[0].revision, told[0].outputs) == (4, bench.probe(STATE).outputs)
    assert told[1].words == "3 of 3 proven at every state"


def test_a_question_that_fails_in_the_midst_of_a_proof_is_told_of_apart(bench: Workbench) -> None:
    inbox, told = Inbox(), list[Any]()
    inbox.put(ProbeState([0.0]))
    ProveText(4).run(bench, inbox, told.append)
    assert [type(one) for one in told] == [Note, ProofSeen, ProofSeen]
    assert [one.status for one in told[1].verdicts] == ["proven"] * 3


def test_a_new_text_ends_a_proof(bench: Workbench) -> None:
    inbox, told = Inbox(), list[Any]()
    inbox.put(AnswerText(5, TEXT, None, resting=False))
    with pytest.raises(Superseded):
        ProveText(4).run(bench, inbox, told.append)
    assert told == []
