"""What the process of an engine is asked to do: answer a text, prove it, look at a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, final

from typing_extensions import override

from handrail._types import Array
from handrail.studio.engine import Inbox, Job, Report
from handrail.studio.messages import Note, ProofSeen, View

if TYPE_CHECKING:
    from handrail.studio.workbench import Workbench

# States along each axis of the map: while a hand moves, and when it rests.
COARSE, FINE = 49, 121


@final
@dataclass(frozen=True)
class AnswerText(Job):
    """Draw a text, hold the policy to it, show the map; when the hand rests, prove it.

    Attributes:
        revision: of the text.
        text: as it is in the editor.
        view: the plane; None for the one that the file wants.
        resting: whether the hand rests: then the map is finer, and a proof follows.
    """

    revision: int
    text: str
    view: View | None
    resting: bool

    urgency: ClassVar[int] = 0

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        drawing = bench.draw(self.revision, self.text, self.view)
        report(drawing)
        if drawing.error:
            return
        report(bench.hold(self.revision, FINE if self.resting else COARSE))
        if self.resting:
            inbox.put(ProveText(self.revision))


@final
@dataclass(frozen=True)
class ProveText(Job):
    """Prove what is held, and find out what each constraint alone changes elsewhere."""

    revision: int

    urgency: ClassVar[int] = 2

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        def check() -> None:
            inbox.attend(self, bench, report)

        proof = bench.prove(self.revision, check)
        report(proof)
        words = bench.influences(check)
        verdicts = [
            one.model_copy(update={"influence": words.get(one.entry)}) for one in proof.verdicts
        ]
        report(ProofSeen(**{**dict(proof), "verdicts": verdicts}))


@final
@dataclass(frozen=True)
class ProbeState(Job):
    """What the policy does at a state; however fast a hand drags, it reads the last answer."""

    state: Sequence[float]

    urgency: ClassVar[int] = -1
    is_question: ClassVar[bool] = True

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        report(bench.probe(self.state))


@final
@dataclass(frozen=True)
class Weights:
    """Of the policy as it is held, and as it was before."""

    held: Sequence[Array]
    before: Sequence[Array]


@final
@dataclass(frozen=True)
class TellWeights(Job):
    """For another process, which plays."""

    urgency: ClassVar[int] = 1
    is_question: ClassVar[bool] = True

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        report(Weights(*bench.weights()))


@final
@dataclass(frozen=True)
class Adopt(Job):
    """Hold what was trained from now on; None for the first policy again."""

    arrays: Sequence[Array] | None

    urgency: ClassVar[int] = -1

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        bench.adopt(self.arrays)


@final
@dataclass(frozen=True)
class TellPython(Job):
    """The constraints as Python."""

    urgency: ClassVar[int] = 1
    is_question: ClassVar[bool] = True

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        report(Note(what="python", text=bench.as_python()))
