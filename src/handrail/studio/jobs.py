"""What the process of an engine is asked to do: answer a text, prove it, look at a state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, final

from typing_extensions import override

from handrail._types import Array
from handrail.errors import InvalidArgument
from handrail.studio.engine import Inbox, Job, Report
from handrail.studio.messages import ExportFormat, Note, ProofSeen, View

if TYPE_CHECKING:
    from handrail.studio.workbench import Workbench

# States along each axis of the map: while a hand moves, and when it rests.
COARSE, FINE = 49, 121

# Of each bound, while a hand waits.
_SECONDS_OF_A_PROOF = 20.0


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
class HoldProven(Job):
    """Search on for a policy that is proven: a hand that moves would not wait for it.

    Attributes:
        revision: of the text, and of this answer to it alone.
        text: as it is in the editor.
        view: the plane.
    """

    revision: int
    text: str
    view: View | None

    urgency: ClassVar[int] = 0

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        drawing = bench.draw(self.revision, self.text, self.view)
        report(drawing)
        if drawing.error:
            return
        try:
            held = bench.hold_proven(self.revision, FINE)
        except InvalidArgument as error:
            report(Note(what="failed", text=str(error)))
            held = bench.hold(self.revision, FINE)
        report(held)
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


@final
@dataclass(frozen=True)
class ExportPolicy(Job):
    """Write the policy of a revision to a file, as `handrail export` writes that of a run.

    Attributes:
        revision: of the text that it obeys.
        path: of the file; one of that name is replaced.
        format: of the file.
        prove: prove the constraints of the very file; the certificate goes inside.
    """

    revision: int
    path: Path
    format: ExportFormat
    prove: bool

    urgency: ClassVar[int] = 1
    is_question: ClassVar[bool] = True

    @override
    def run(self, bench: Workbench, inbox: Inbox, report: Report) -> None:
        write = self._learner if self.format == "learner" else self._exported
        report(Note(what="exported", text=write(bench)))

    def _exported(self, bench: Workbench) -> str:
        from handrail.export import export_numpy, export_onnx  # noqa: PLC0415
        from handrail.proof import Budget  # noqa: PLC0415

        book, stage = bench.finished(self.revision)
        stage.space.seed(0)  # the same policy gives the same file
        write: Any = export_onnx if self.format == "onnx" else export_numpy
        exported = write(
            stage.policy,
            self.path,
            book,
            states=[stage.space.sample()],
            tolerance=book.settings.tolerance,
            prove=self.prove,
            budget=Budget(seconds=_SECONDS_OF_A_PROOF),
        )
        return str(exported)

    def _learner(self, bench: Workbench) -> str:
        """A file for `Reinforce.load`: it learns on from this policy, under these constraints."""
        from handrail.learning import Reinforce  # noqa: PLC0415
        from handrail.studio.stage import copy_of, weights_of  # noqa: PLC0415

        book, stage = bench.finished(self.revision)
        env = book.make_environment()
        try:
            settings = book.settings.learner
            agent = Reinforce.with_settings(env, copy_of(stage.policy), book, settings)
        finally:
            env.close()
        pairs = zip(weights_of(agent.policy), weights_of(stage.policy), strict=True)
        if not all((one == other).all() for one, other in pairs):
            raise InvalidArgument(
                "A learner would hold this policy closer before it learns, so its file would be of "
                "another policy than the one shown. Train it instead: that writes a run."
            )
        agent.save(self.path)
        return f"{self.path}: for Reinforce.load, under these constraints"
