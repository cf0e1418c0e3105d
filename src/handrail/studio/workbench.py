"""The mathematics behind the page: a policy, held to a text, over a plane.

Everything here is the library's own: what the page shows of a text is what `handrail.enforce`,
`certify` and `measure` say of it, from the same first policy every time. It works in a process of
its own (`engine`), where it can be interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TypeAlias, final

import numpy as np

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Constraint
from handrail.enforcement import Enforcement, References, enforce, references_before_experience
from handrail.errors import HandrailError, InvalidArgument, InvalidRulebook
from handrail.policies import Policy
from handrail.report import Answer, Plane
from handrail.rulebook import Rulebook, parse
from handrail.settings import Everywhere, Selection
from handrail.studio.cards import cards_of, names_of
from handrail.studio.engine import Superseded, Target
from handrail.studio.messages import Cell, Drawing, Held, Probed, ProofSeen, Verdict, View
from handrail.studio.python_code import python_of
from handrail.studio.sketch import constraints_by_entry, shapes_of
from handrail.studio.stage import (
    Stage,
    copy_of,
    fits,
    key_of,
    map_over,
    plane_of,
    put_weights,
    view_of,
    weights_of,
)
from handrail.studio.verdicts import Clash, clash_of, measured_verdicts, prove_entry
from handrail.tangent import restore, snapshot

_MOST_CELLS = 4000

# How far knowledge may move a policy that was trained: where it speaks, and hardly beyond.
_REACH_OF_AN_EDIT = 0.0


# What an answer is to: a first policy, and the revision of a text.
_Question: TypeAlias = tuple[Stage, int, str]


@final
class Workbench:
    """A target's policy and the text that it is held to at present."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stage: Stage | None = None
        self._book: Rulebook | None = None
        self._plane: Plane | None = None
        self._trained: list[Array] | None = None
        self._held: tuple[_Question, Held] | None = None
        self._proof: tuple[_Question, list[Verdict]] | None = None
        self._answers: list[tuple[int, Answer]] = []
        self._influences: dict[int, str] = {}
        self._known: tuple[Rulebook, References | None] | None = None

    # ---- what a text says

    def draw(self, revision: int, text: str, view: View | None) -> Drawing:
        """The text as shapes and cards, or what is wrong with it."""
        try:
            book = parse(text, self._target.name, self._target.files)
            plane = _plane_of(book, view)
            self._prepare(book)
        except HandrailError as error:
            line = error.line if isinstance(error, InvalidRulebook) else 0
            return Drawing(revision=revision, error=str(error), line=line)
        self._book, self._plane = book, plane
        shapes = shapes_of(book, plane)
        return Drawing(
            revision=revision,
            names=names_of(book),
            view=view_of(plane),
            cards=cards_of(book, shapes),
            shapes=shapes,
        )

    def _prepare(self, book: Rulebook) -> None:
        """The first policy, made again only where the text asks for another one."""
        if self._stage is not None and self._stage.key == key_of(book):
            return
        stage = Stage.of(book, self._target.policy)
        if self._trained is not None and fits(stage.first, self._trained):
            put_weights(stage.first, self._trained)
            stage.trained = True
        self._stage = stage

    # ---- the policy that obeys it

    def hold(self, revision: int, count: int) -> Held:
        """The policy held to the last good text, from its first weights, and maps of both.

        It is held once for each revision: whoever looks at another plane sees the same policy.

        Args:
            revision: of the text.
            count: of states along each axis of the maps.
        """
        if self._held is None or self._held[0] != self._question(revision):
            book, _, _ = self._ready()
            self._answer(revision, without_proof(book.settings.selection))
        return self._with_maps(count)

    def hold_proven(self, revision: int, count: int) -> Held:
        """The same, searched on until it is proven.

        Raises:
            InvalidArgument: if that cannot be had; then it is to be held again.
        """
        book, _, _ = self._ready()
        selection = book.settings.selection
        if not isinstance(selection, Everywhere):
            raise InvalidArgument(
                f"The file chooses states by {selection.strategy}, and only `everywhere` can be "
                "held with a proof."
            )
        proving = selection.model_copy(update={"prove": True, "on_unproven": "refuse"})
        held = self._answer(revision, proving)
        if not held.satisfied:
            self._held = None
            raise InvalidArgument(f"It could not be held with a proof. {held.words}")
        return self._with_maps(count)

    def _question(self, revision: int) -> _Question:
        book, _, stage = self._ready()
        return stage, revision, book.text

    def _answer(self, revision: int, selection: Selection) -> Held:
        """Without maps; from here on it is the policy that is shown."""
        start = perf_counter()
        book, _, stage = self._ready()
        self._held = None
        with one_thread():
            result, refusal = self._enforced(stage.policy, book.constraints, selection)
            satisfied = result is not None and result.satisfied
            if not satisfied:  # the page shows, reads, plays and exports one policy: that of before
                restore(stage.policy, snapshot(stage.first))
            tolerance = result.tolerance if result is not None else 0.0
            verdicts = measured_verdicts(book, stage.policy, tolerance)
            clash = Clash() if satisfied else clash_of(book, stage.policy)
        influence = None if result is None else result.influence
        moved = result is not None and satisfied and result.parameter_change
        held = Held(
            revision=revision,
            satisfied=satisfied,
            words=refusal if result is None else _verdict_in_words(result),
            influence=influence.with_names(book.observations, book.actions)
            if influence is not None and moved
            else "",
            verdicts=verdicts,
            conflict=list(clash.entries),
            conflict_words=clash.words,
            conflict_state=list(clash.state),
            seconds=perf_counter() - start,
        )
        self._held = self._question(revision), held
        self._proof, self._influences = None, {}
        return held

    def _with_maps(self, count: int) -> Held:
        """The last answer over the present plane."""
        _, plane, stage = self._ready()
        with one_thread():
            shown, before = map_over(plane, stage.policy, count), stage.map_before(plane, count)
        return self._last_answer().model_copy(update={"map": shown, "before": before})

    def _last_answer(self) -> Held:
        """Of the policy that is shown; there may be none yet."""
        if self._held is None or self._held[0][0] is not self._stage:
            raise Superseded
        return self._held[1]

    def as_it_is(self, revision: int) -> Held:
        """What is known of the first policy, without holding it to anything; no map."""
        start = perf_counter()
        book, _, stage = self._ready()
        verdicts = measured_verdicts(book, stage.policy, self._tolerance())
        return Held(
            revision=revision,
            satisfied=all(one.status == "holds" for one in verdicts),
            words="",
            influence="",
            verdicts=verdicts,
            seconds=perf_counter() - start,
        )

    def _ready(self) -> tuple[Rulebook, Plane, Stage]:
        if self._book is None or self._plane is None or self._stage is None:
            raise Superseded
        return self._book, self._plane, self._stage

    def _enforced(
        self, policy: Policy, constraints: Sequence[Constraint], selection: Selection
    ) -> tuple[Enforcement | None, str]:
        """From the first weights; what the library refuses is told in its own words."""
        book, _, stage = self._ready()
        settings = book.settings
        restore(policy, snapshot(stage.first))
        try:
            result = enforce(
                policy,
                constraints,
                settings.tolerance,
                self._references(),
                selection,
                reach=_REACH_OF_AN_EDIT if stage.trained else settings.reach,
            )
        except HandrailError as error:
            return None, str(error)
        return result, ""

    def _references(self) -> References | None:
        """Where the policy should stay as it is: of one text, found once."""
        book, _, stage = self._ready()
        if self._known is None or self._known[0] is not book:
            self._known = book, references_before_experience(None, stage.space, book)
        return self._known[1]

    # ---- what takes longer

    def prove(self, revision: int, check: Callable[[], None]) -> ProofSeen:
        """Certificates for every constraint, and the cells that the plane cuts.

        Args:
            revision: of the text that the policy is held to.
            check: called now and then; raises `Superseded` where nobody waits any longer.
        """
        _, plane, _ = self._ready()
        question = self._question(revision)
        if self._proof is None or self._proof[0] != question:
            self._proof = question, self._proven(check)
        verdicts = self._proof[1]
        proven = sum(one.status == "proven" for one in verdicts)
        return ProofSeen(
            revision=revision,
            verdicts=verdicts,
            cells=self.cells(plane),
            words=f"{proven} of {len(verdicts)} proven at every state",
        )

    def _proven(self, check: Callable[[], None]) -> list[Verdict]:
        book, _, stage = self._ready()
        verdicts: list[Verdict] = []
        self._answers = []
        with one_thread():
            for entry in range(len(constraints_by_entry(book))):
                check()
                found = prove_entry(book, stage.policy, entry, self._tolerance(), check)
                verdicts.append(found.verdict)
                self._answers += [(entry, answer) for answer in found.answers]
        return verdicts

    def cells(self, plane: Plane) -> list[Cell]:
        """What a plane cuts out of the cells of the last proof."""
        found = []
        for entry, answer in self._answers:
            outlines, margins = answer.cut(plane)
            found += [
                Cell(
                    entry=entry,
                    margin=float(margin),
                    outline=[(float(x), float(y)) for x, y in outline],
                )
                for outline, margin in zip(outlines, margins, strict=True)
            ]
        return found[:_MOST_CELLS]

    def _tolerance(self) -> float:
        book, _, _ = self._ready()
        return book.settings.tolerance or 1e-6

    def influences(self, check: Callable[[], None]) -> dict[int, str]:
        """What each entry alone changes elsewhere, by its index; found once for an answer."""
        book, _, stage = self._ready()
        alone, selection = copy_of(stage.first), without_proof(book.settings.selection)
        with one_thread():
            for index, owned in enumerate(constraints_by_entry(book)):
                check()
                if not owned or index in self._influences:
                    continue
                constraints = [book.constraints[i] for i in owned]
                result, refusal = self._enforced(alone, constraints, selection)
                influence = None if result is None else result.influence
                if influence is not None:
                    words = influence.with_names(book.observations, book.actions)
                    self._influences[index] = words
                elif refusal:
                    self._influences[index] = refusal
        return dict(self._influences)

    # ---- questions

    def probe(self, state: Sequence[float]) -> Probed:
        """What the policy of the last answer does at a state, and what it did before."""
        _, _, stage = self._ready()
        answer = self._last_answer()
        at = np.array([state], dtype=np.float64)
        return Probed(
            revision=answer.revision,
            state=list(state),
            outputs=stage.policy.outputs(at)[0].tolist(),
            before=stage.first.outputs(at)[0].tolist(),
        )

    def weights(self) -> tuple[list[Array], list[Array]]:
        """Of the policy as it is held, and as it was before."""
        _, _, stage = self._ready()
        return weights_of(stage.policy), weights_of(stage.first)

    def finished(self, revision: int) -> tuple[Rulebook, Stage]:
        """The policy that obeys the text of a revision, for files that outlive the page.

        Raises:
            InvalidArgument: if there is none: the text is not valid, or cannot be obeyed.
        """
        book, _, stage = self._ready()
        if self._held is None or self._held[0] != self._question(revision):
            raise InvalidArgument("The text is not valid, so no policy obeys it: mend it first.")
        held = self._held[1]
        proven = self._proof[1] if self._proof and self._proof[0] == self._held[0] else ()
        known = [one.words for one in proven if one.status == "violated"]
        if not held.satisfied or known:
            why = held.conflict_words or "; ".join(known) or held.words
            raise InvalidArgument(
                f"The policy does not obey these rules, so it is not exported: {why}"
            )
        return book, stage

    def adopt(self, weights: Sequence[Array] | None) -> None:
        """Hold a policy that was trained here from now on; None: the first one again."""
        self._trained = None if weights is None else list(weights)
        self._stage = None

    def on_stage(self, text: str, weights: Sequence[Array]) -> tuple[Rulebook, Policy]:
        """A text and a policy with these weights, to play with."""
        drawing = self.draw(0, text, None)
        if drawing.error:
            raise InvalidRulebook(drawing.error, drawing.line)
        book, _, stage = self._ready()
        policy = copy_of(stage.first)
        if not fits(policy, weights):
            raise InvalidArgument(
                "The text describes another network than the one that is shown: wait for its "
                "answer, then try again."
            )
        put_weights(policy, weights)
        return book, policy

    def as_python(self) -> str:
        """The constraints as a program that holds them."""
        book, _, _ = self._ready()
        return python_of(book)


def _plane_of(book: Rulebook, view: View | None) -> Plane:
    """That of a view, unless the text has other observations by now."""
    n = len(book.observations)
    fitting = view is not None and len(view.at) == n and max(view.across, view.up) < n
    if view is None or not fitting or view.across == view.up:
        return Plane.of(book)
    return plane_of(view)


def without_proof(selection: Selection) -> Selection:
    """A hand that moves cannot wait for a proof: it comes when the hand rests."""
    if isinstance(selection, Everywhere):
        return selection.model_copy(update={"prove": False})
    return selection


def _verdict_in_words(result: Enforcement) -> str:
    if not result.satisfied:
        return result.reason
    return "" if result.parameter_change else "Every constraint holds already."
