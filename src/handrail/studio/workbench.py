"""The mathematics behind the page: a policy, held to a text, over a plane.

Everything here is the library's own: what the page shows of a text is what `handrail.enforce`,
`certify` and `measure` say of it, from the same first policy every time. It works in a process of
its own (`engine`), where it can be interrupted.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from time import perf_counter
from typing import Any, final

import numpy as np
import torch

from handrail._threads import one_thread
from handrail._types import Array
from handrail.constraints import Constraint, expand, measure_rows, state_in_words
from handrail.enforcement import (
    Enforcement,
    References,
    diagnose,
    enforce,
    impossible_overlap,
    references_before_experience,
)
from handrail.errors import HandrailError, InvalidRulebook
from handrail.policies import Policy
from handrail.proof import certify
from handrail.report import Plane, certify_regions
from handrail.rulebook import Rulebook, parse
from handrail.runs import make_policy, open_policy
from handrail.settings import Everywhere, Selection
from handrail.studio.cards import cards_of, names_of
from handrail.studio.engine import Superseded, Target
from handrail.studio.messages import (
    Cell,
    Drawing,
    Held,
    Map,
    Probed,
    ProofSeen,
    Verdict,
    View,
)
from handrail.studio.python_code import python_of
from handrail.studio.sketch import constraints_by_entry, shapes_of
from handrail.tangent import restore, snapshot

_STATES_PER_REGION = 1000

_MOST_CELLS = 4000

# How far knowledge may move a policy that was trained: where it speaks, and hardly beyond.
_REACH_OF_AN_EDIT = 0.0


@final
@dataclass
class _Stage:
    """A first policy, and where it acts.

    Attributes:
        key: of what it was made from.
        first: stays as it is.
        policy: the same, to be held.
        space: of observations.
    """

    key: tuple[object, ...]
    first: Policy
    policy: Policy
    space: Any


@final
class Workbench:
    """A target's policy and the text that it is held to at present."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stage: _Stage | None = None
        self._book: Rulebook | None = None
        self._plane: Plane | None = None
        self._trained: list[Array] | None = None
        self._answers: list[tuple[int, Any]] = []
        self._known: tuple[Rulebook, References | None] | None = None

    # ---- what a text says

    def draw(self, revision: int, text: str, view: View | None) -> Drawing:
        """The text as shapes and cards, or what is wrong with it."""
        try:
            book = parse(text, self._target.name)
            plane = self._plane_of(book, view)
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

    def _plane_of(self, book: Rulebook, view: View | None) -> Plane:
        n = len(book.observations)
        fits = view is not None and len(view.at) == n and max(view.across, view.up) < n
        if view is None or not fits or view.across == view.up:
            return Plane.of(book)
        return Plane(tuple(view.at), view.across, view.up, view.across_range, view.up_range)

    def _prepare(self, book: Rulebook) -> None:
        """The first policy, made again only where the text asks for another one."""
        environment, network = book.environment, book.settings.network
        key = (
            environment.id,
            environment.max_episode_steps,
            repr(environment.options),
            book.observations,
            book.actions,
            book.ranges,
            network.model_dump_json(),
            book.settings.seed,
        )
        if self._stage is not None and self._stage.key == key:
            return
        if self._target.policy is not None:
            opened = open_policy(self._target.policy, "The studio shows one policy", book)
            book.check_policy(opened.policy)
            first, space = opened.policy, opened.spaces[0]
        else:
            env = book.make_environment()
            try:
                first, space = make_policy(book, env), env.observation_space
            finally:
                env.close()
        held = first.with_module(deepcopy(first.module))
        self._stage = _Stage(key, first, held, space)
        if self._trained is not None and fits(first, self._trained):
            put_weights(first, self._trained)

    # ---- the policy that obeys it

    def hold(self, revision: int, count: int, with_before: bool) -> Held:
        """The policy held to the last good text, from its first weights, and its map.

        Args:
            revision: of the text.
            count: of states along each axis of the map.
            with_before: give the map of the first policy as well.
        """
        start = perf_counter()
        book, plane, stage = self._ready()
        with one_thread():
            result, refusal = self._enforced(stage.policy, book.constraints)
            tolerance = result.tolerance if result is not None else 0.0
            verdicts = self._all_measured(tolerance)
            conflict = _NO_CONFLICT
            if result is None or not result.satisfied:
                conflict = self._conflict(book, stage.policy)
            shown = policy_map(stage.policy, plane, count)
            before = policy_map(stage.first, plane, count) if with_before else None
        influence = None if result is None else result.influence
        moved = result is not None and result.parameter_change
        return Held(
            revision=revision,
            satisfied=result is not None and result.satisfied,
            words=refusal if result is None else _verdict_in_words(result),
            influence=influence.with_names(book.observations, book.actions)
            if influence is not None and moved
            else "",
            verdicts=verdicts,
            conflict=conflict.entries,
            conflict_words=conflict.words,
            conflict_state=conflict.state,
            seconds=perf_counter() - start,
            map=shown,
            before=before,
        )

    def as_it_is(self, revision: int) -> Held:
        """What is known of the first policy, without holding it to anything; no map."""
        start = perf_counter()
        verdicts = self._all_measured(self._tolerance())
        return Held(
            revision=revision,
            satisfied=all(one.status == "holds" for one in verdicts),
            words="",
            influence="",
            verdicts=verdicts,
            seconds=perf_counter() - start,
        )

    def _all_measured(self, tolerance: float) -> list[Verdict]:
        book, _, _ = self._ready()
        return [
            self._measured(index, [book.constraints[i] for i in owned], tolerance)
            for index, owned in enumerate(constraints_by_entry(book))
        ]

    def _ready(self) -> tuple[Rulebook, Plane, _Stage]:
        if self._book is None or self._plane is None or self._stage is None:
            raise Superseded
        return self._book, self._plane, self._stage

    def _enforced(
        self, policy: Policy, constraints: Sequence[Constraint]
    ) -> tuple[Enforcement | None, str]:
        """From the first weights; what the library refuses is told in its own words."""
        book, _, stage = self._ready()
        settings = book.settings
        restore(policy, snapshot(stage.first))
        trained = self._target.policy is not None or self._trained is not None
        try:
            result = enforce(
                policy,
                constraints,
                settings.tolerance,
                self._references(),
                without_proof(settings.selection),
                reach=_REACH_OF_AN_EDIT if trained else settings.reach,
            )
        except HandrailError as error:
            restore(policy, snapshot(stage.first))
            return None, str(error)
        return result, ""

    def _references(self) -> References | None:
        """Where the policy should stay as it is: of one text, found once."""
        book, _, stage = self._ready()
        if self._known is None or self._known[0] is not book:
            self._known = book, references_before_experience(None, stage.space, book)
        return self._known[1]

    def _measured(self, entry: int, constraints: Sequence[Constraint], tolerance: float) -> Verdict:
        """The worst of an entry's constraints: at all points, at many states of regions."""
        book, _, stage = self._ready()
        if not constraints:
            return Verdict(entry=entry, status="unknown", violation=None)
        expansion = expand(constraints, stage.policy)
        found = measure_rows(stage.policy, expansion.rows(_STATES_PER_REGION))
        worst, state = found.worst_violation, found.states[0].ravel()
        where = state_in_words(state, book.observations)
        n = len(found)
        allowed = 0.0 if expansion.regional else tolerance
        if worst > allowed:
            words = f"violated by {worst:.3g} at {where}"
            return Verdict(
                entry=entry, status="violated", violation=worst, state=state.tolist(), words=words
            )
        tried = f"holds at all {n:,} states that were tried"
        if not expansion.regional:
            tried = f"holds at {'its state' if n == 1 else f'all of its {n:,} states'}"
        return Verdict(
            entry=entry, status="holds", violation=worst, state=state.tolist(), words=tried
        )

    def _conflict(self, book: Rulebook, policy: Policy) -> _Conflict:
        """Which entries contradict each other, and where."""
        try:
            expansion = expand(book.constraints, policy)
            overlap = impossible_overlap(expansion) if expansion.regional else None
            if overlap is not None:
                found, state = overlap
                return self._named(book, found.labels, str(found), state.tolist())
            conflicts = diagnose(policy, book.constraints).conflicts
        except HandrailError as error:
            return _Conflict([], str(error), [])
        if not conflicts:
            return _NO_CONFLICT
        return self._named(book, conflicts[0].labels, str(conflicts[0]), [])

    def _named(
        self, book: Rulebook, labels: Sequence[str], words: str, state: list[float]
    ) -> _Conflict:
        names = [str(entry["name"]) for entry in book.source.data["constraints"]]
        entries = {
            max(fitting, key=lambda number: len(names[number]))
            for label in labels
            if (fitting := [i for i, name in enumerate(names) if label.startswith(name)])
        }
        return _Conflict(sorted(entries), words, state)

    # ---- what takes longer

    def prove(self, revision: int, check: Callable[[], None]) -> ProofSeen:
        """Certificates for every constraint, and the cells that the plane cuts.

        Args:
            revision: of the text that the policy is held to.
            check: called now and then; raises `Superseded` where nobody waits any longer.
        """
        book, plane, _ = self._ready()
        verdicts: list[Verdict] = []
        self._answers = []
        with one_thread():
            for index, owned in enumerate(constraints_by_entry(book)):
                check()
                verdicts.append(self._proven(index, [book.constraints[i] for i in owned], check))
        proven = sum(one.status == "proven" for one in verdicts)
        return ProofSeen(
            revision=revision,
            verdicts=verdicts,
            cells=self.cells(plane),
            words=f"{proven} of {len(verdicts)} proven at every state",
        )

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

    def _proven(
        self, entry: int, constraints: Sequence[Constraint], check: Callable[[], None]
    ) -> Verdict:
        book, _, stage = self._ready()
        certificates = []
        for one in constraints:
            try:
                answers = certify_regions(stage.policy, [one], lambda *_: check())
                if getattr(one, "region", None) is None:
                    certificates.append(certify(stage.policy, one, tolerance=self._tolerance()))
            except HandrailError as error:
                return Verdict(entry=entry, status="unknown", violation=None, words=str(error))
            certificates += [answer.certificate for answer in answers]
            self._answers += [(entry, answer) for answer in answers]
        if not certificates:
            words = "no proof can look into this kind of constraint"
            return Verdict(entry=entry, status="unknown", violation=None, words=words)
        worst = max(certificates, key=lambda one: one.worst_violation)
        status = {"certified": "proven", "counterexample": "violated", "unknown": "unknown"}
        state = list(worst.state or ())
        words = "proven at every state"
        if worst.status == "counterexample":
            where = state_in_words(np.array(state), book.observations)
            words = f"violated by {worst.violation:.3g} at {where}"
        elif worst.status == "unknown":
            words = f"not proven: {worst.reason}"
        return Verdict(
            entry=entry,
            status=status[worst.status],  # type: ignore[arg-type]
            violation=worst.worst_violation if np.isfinite(worst.worst_violation) else None,
            state=state,
            words=words,
        )

    def _tolerance(self) -> float:
        book, _, _ = self._ready()
        return book.settings.tolerance or 1e-6

    def influences(self, check: Callable[[], None]) -> dict[int, str]:
        """What each entry alone changes elsewhere, by its index."""
        book, _, stage = self._ready()
        alone = stage.first.with_module(deepcopy(stage.first.module))
        words: dict[int, str] = {}
        with one_thread():
            for index, owned in enumerate(constraints_by_entry(book)):
                check()
                if not owned:
                    continue
                result, refusal = self._enforced(alone, [book.constraints[i] for i in owned])
                influence = None if result is None else result.influence
                if influence is not None:
                    words[index] = influence.with_names(book.observations, book.actions)
                elif refusal:
                    words[index] = refusal
        return words

    # ---- questions

    def probe(self, state: Sequence[float]) -> Probed:
        """What the policy does at a state, and what it did before."""
        _, _, stage = self._ready()
        at = np.array([state], dtype=np.float64)
        return Probed(
            state=list(state),
            outputs=stage.policy.outputs(at)[0].tolist(),
            before=stage.first.outputs(at)[0].tolist(),
        )

    def weights(self) -> tuple[list[Array], list[Array]]:
        """Of the policy as it is held, and as it was before."""
        _, _, stage = self._ready()
        return weights_of(stage.policy), weights_of(stage.first)

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
        policy = stage.first.with_module(deepcopy(stage.first.module))
        if fits(policy, weights):
            put_weights(policy, weights)
        return book, policy

    def as_python(self) -> str:
        """The constraints as a program that holds them."""
        book, _, _ = self._ready()
        return python_of(book)


def weights_of(policy: Policy) -> list[Array]:
    """Of every layer, in float64."""
    return [one.detach().double().numpy(force=True).copy() for one in policy.parameters]


def fits(policy: Policy, weights: Sequence[Array]) -> bool:
    """Whether they are of a network of this form."""
    return [tuple(p.shape) for p in policy.parameters] == [one.shape for one in weights]


def put_weights(policy: Policy, weights: Sequence[Array]) -> None:
    """Into the policy, in place."""
    restore(policy, [torch.as_tensor(one) for one in weights])


@final
@dataclass(frozen=True)
class _Conflict:
    """Entries that contradict each other; none if that is not known."""

    entries: list[int]
    words: str
    state: list[float]


_NO_CONFLICT = _Conflict([], "", [])


def policy_map(policy: Policy, plane: Plane, count: int) -> Map:
    """What a policy puts out over a plane, `count` states along each axis."""
    _, _, states = plane.states(count)
    outputs = policy.outputs(states)
    values = np.ascontiguousarray(outputs.T, dtype="<f8")
    return Map(
        view=view_of(plane),
        columns=count,
        rows=count,
        actions=outputs.shape[1],
        values=base64.b64encode(values.tobytes()).decode(),
    )


def view_of(plane: Plane) -> View:
    """A plane as a message."""
    return View(
        across=plane.horizontal,
        up=plane.vertical,
        across_range=plane.horizontal_range,
        up_range=plane.vertical_range,
        at=list(plane.at),
    )


def without_proof(selection: Selection) -> Selection:
    """A hand that moves cannot wait for a proof: it comes when the hand rests."""
    if isinstance(selection, Everywhere):
        return selection.model_copy(update={"prove": False})
    return selection


def _verdict_in_words(result: Enforcement) -> str:
    if not result.satisfied:
        return result.reason
    return "" if result.parameter_change else "Every constraint holds already."
