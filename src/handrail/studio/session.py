"""What one page works on: a text with its history, the engine that answers it, who listens.

Requests come from the page and change the text at once; the engine answers when it can. Whatever a
page asks for, only the file that was opened is ever written.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from functools import singledispatchmethod
from pathlib import Path
from typing import Any, final

from pydantic import BaseModel

from handrail.errors import HandrailError, InvalidArgument
from handrail.studio.behaviour import PlayEpisodes
from handrail.studio.draft import Draft, History, number_text
from handrail.studio.engine import Ended, Engine
from handrail.studio.jobs import (
    Adopt,
    AnswerText,
    ExportPolicy,
    HoldProven,
    ProbeState,
    TellPython,
    TellWeights,
    Weights,
)
from handrail.studio.messages import (
    Document,
    Drawing,
    ExportFile,
    Names,
    Note,
    RunsSeen,
    Trained,
    View,
)
from handrail.studio.opened import EXPORTS, FileTaken, Opened
from handrail.studio.requests import (
    Add,
    Compare,
    EditValues,
    Export,
    Insert,
    Look,
    Order,
    Play,
    Probe,
    Remove,
    Request,
    Save,
    Text,
    Train,
)
from handrail.studio.trainer import (
    FindRuns,
    FoundRuns,
    TellRun,
    TrainedWeights,
    TrainPolicy,
    compared_label,
)

_KEEP_AFTER = 1.0  # seconds without a change
_PATIENCE = 3.0  # seconds that an environment has to stop

_MOST_NOTICES = 50

Listener = Callable[[BaseModel], None]


@final
class Outbox:
    """What a page has yet to be told: of answers of a kind the newest, of notices all."""

    def __init__(self) -> None:
        self._latest: dict[str, BaseModel] = {}
        self._notices: deque[BaseModel] = deque(maxlen=_MOST_NOTICES)
        self._filled = asyncio.Event()

    def put(self, answer: BaseModel) -> None:
        """Instead of an older one of its kind that was not sent yet."""
        if isinstance(answer, Note):
            self._notices.append(answer)
        else:
            self._latest[_kind(answer)] = answer
        self._filled.set()

    async def take(self) -> BaseModel:
        """The next one; waits for one."""
        while not (self._latest or self._notices):
            self._filled.clear()
            await self._filled.wait()
        if self._latest:
            return self._latest.pop(next(iter(self._latest)))
        return self._notices.popleft()


def _kind(answer: BaseModel) -> str:
    """Of which the newest is enough: curves of two trainings are two kinds."""
    return _kind_of(type(answer), getattr(answer, "label", ""))


def _kind_of(answer: type[BaseModel], label: str) -> str:
    return f"{answer.__name__} {label}"


@final
class Session:
    """One text, one policy, any number of pages that look at it.

    Args:
        opened: what they look at.
        modules: that register the user's environments.
        compared: a run whose curves are drawn beside those of trainings, until another is chosen.
    """

    def __init__(
        self, opened: Opened, modules: Sequence[str] = (), compared: Path | None = None
    ) -> None:
        self._opened = opened
        self._history = History(opened.target.text)
        self._on_disk = opened.on_disk
        self._saved = opened.target.text
        self._offered = self._offer()
        self._revision = 0
        self._texts = {0: opened.target.text}  # by revision, from the last good one on
        self._is_wrong = False
        self._view: View | None = None
        self._names: Names | None = None
        self._listeners: list[Listener] = []
        self._last: dict[str, BaseModel] = {}
        self._keeping: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._modules = tuple(modules)
        self._given = compared
        self._runs = {} if compared is None else {str(compared): compared}
        self._compared = ""
        self._engine = Engine(opened.target, modules, self._from_engine)
        self._stage = Engine(opened.target, modules, self._from_engine)
        self._wish: Play | Train | None = None

    # ---- pages

    def begin(self) -> None:
        """In the loop of the server."""
        self._loop = asyncio.get_running_loop()
        self._ask(resting=True)
        if self._given is not None:
            self._compare(Compare(kind="compare", run=str(self._given)))
        self._engine.submit(FindRuns(self._opened.runs))

    def close(self) -> None:
        """End everything; what is not saved is kept."""
        if self._keeping is not None:
            self._keeping.cancel()
            self._keep()
        self._engine.end()
        self._stage.end()

    def join(self, listener: Listener) -> None:
        """A page opens: it is told where everything stands."""
        self._listeners.append(listener)
        listener(self._document())
        for answer in self._last.values():
            listener(answer)
        if self._offered is not None:
            listener(Note(what="kept", text=self._offered[1]))

    def leave(self, listener: Listener) -> None:
        """A page closes."""
        self._listeners.remove(listener)

    def _tell(self, answer: BaseModel) -> None:
        for listener in self._listeners:
            listener(answer)

    # ---- the engine

    def _from_engine(self, report: Any) -> None:
        """In a thread of the engine."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._on_report, report)

    def _on_report(self, report: Any) -> None:
        if isinstance(report, Ended):
            ended = f"The process that computes has ended ({report.code})."
            self._tell(Note(what="failed", text=f"{ended} The next change starts another one."))
            return
        if isinstance(report, Weights):
            self._perform(report)
            return
        if isinstance(report, TrainedWeights):
            self._engine.submit(Adopt(report.arrays))
            self._changed(author="editor")
            return
        if isinstance(report, FoundRuns):
            self._find(report.folders)
            return
        if isinstance(report, Drawing):
            self._drawn(report)
        if not isinstance(report, Note):
            self._last[_kind(report)] = report
        if isinstance(report, Trained) and report.status in ("stopped", "done"):
            self._engine.submit(FindRuns(self._opened.runs))
        self._tell(report)

    def _drawn(self, drawing: Drawing) -> None:
        if drawing.revision == self._revision:
            self._is_wrong = bool(drawing.error)
        if drawing.error:
            return
        self._names, self._view = drawing.names, drawing.view
        self._texts = {one: text for one, text in self._texts.items() if one >= drawing.revision}

    def _ask(self, resting: bool) -> None:
        """For an answer to the newest text; while that is wrong, to the last good one."""
        revision = min(self._texts) if self._is_wrong else self._revision
        self._engine.submit(AnswerText(revision, self._texts[revision], self._view, resting))

    # ---- requests

    def receive(self, request: Request) -> Note | None:
        """Do what a page asks for; what is wrong with it, for that page alone."""
        try:
            self._do(request)
        except FileTaken as error:
            return Note(what="taken", text=str(error))
        except HandrailError as error:
            return Note(what="refused", text=str(error))
        return None

    @singledispatchmethod
    def _do(self, request: Request) -> None:
        raise TypeError(f"Nothing here answers a request of kind {type(request).__name__}.")

    @_do.register
    def _edit(self, request: EditValues) -> None:
        values = {tuple(one.path): one.value for one in request.values}
        self._change(self._draft.with_values(values), request.gesture, request.resting)

    @_do.register
    def _insert(self, request: Insert) -> None:
        self._change(self._draft.with_item(tuple(request.path), request.index, request.item))

    @_do.register
    def _remove(self, request: Remove) -> None:
        self._change(self._draft.without_item(tuple(request.path), request.index))

    @_do.register
    def _text(self, request: Text) -> None:
        self._change(
            Draft(request.text, self._opened.target.name), request.gesture, author="editor"
        )

    @_do.register
    def _look(self, request: Look) -> None:
        self._view = request.view
        self._ask(request.resting)

    @_do.register
    def _probe(self, request: Probe) -> None:
        if self._names is not None and len(request.state) == len(self._names.observations):
            self._engine.submit(ProbeState(request.state))

    @_do.register
    def _play(self, request: Play) -> None:
        self._wish = request
        self._engine.submit(TellWeights())

    @_do.register
    def _train(self, request: Train) -> None:
        self._wish = request
        self._engine.submit(TellWeights())

    def _perform(self, weights: Weights) -> None:
        """What somebody wished to see of the policy, whose weights are known now."""
        wish, self._wish = self._wish, None
        text = self._history.text
        if isinstance(wish, Play):
            self._stage.submit(
                PlayEpisodes(text, weights, wish.episodes, wish.deterministic, wish.frames)
            )
        elif isinstance(wish, Train):
            first = weights.before if wish.free else weights.held
            self._stage.submit(
                TrainPolicy(text, first, wish.episodes, wish.free, self._opened.runs, self._modules)
            )

    @_do.register
    def _add(self, request: Add) -> None:
        if self._names is None or self._view is None:
            return
        taken = {str(one.get("name")) for one in self._draft.value_at(("constraints",)) or ()}
        entry = drawn_entry(request, self._names, self._view, taken)
        self._change(self._draft.with_entry(entry))

    @_do.register
    def _order(self, request: Order) -> None:
        orders: dict[str, Callable[[], None]] = {
            "undo": self._undo,
            "redo": self._redo,
            "restore": self._restore,
            "discard": self._discard,
            "interrupt": self._interrupt,
            "hold_proven": self._hold_proven,
            "python": lambda: self._engine.submit(TellPython()),
            "pause": lambda: self._stage.signal("pause"),
            "go_on": lambda: self._stage.signal("go_on"),
            "stop": self._stop,
            "forget_trained": self._forget_trained,
        }
        orders[request.kind]()

    # ---- the text

    @property
    def _draft(self) -> Draft:
        return Draft(self._history.text, self._opened.target.name)

    def _change(
        self, draft: Draft, gesture: int = 0, resting: bool = True, author: str = "drawing"
    ) -> None:
        self._history.push(draft.text, gesture)
        self._changed(resting, author)

    def _changed(self, resting: bool = True, author: str = "drawing") -> None:
        self._next_revision()
        self._tell(self._document(author))
        self._ask(resting)
        if self._loop is not None:
            if self._keeping is not None:
                self._keeping.cancel()
            self._keeping = self._loop.call_later(_KEEP_AFTER, self._keep)

    def _next_revision(self) -> None:
        self._revision += 1
        self._texts[self._revision] = self._history.text
        self._is_wrong = False

    def _document(self, author: str = "drawing") -> Document:
        history = self._history
        return Document(
            revision=self._revision,
            text=history.text,
            file=str(self._opened.file),
            saved=history.text == self._saved,
            can_undo=history.can_undo,
            can_redo=history.can_redo,
            author="editor" if author == "editor" else "drawing",
            exports=[
                ExportFile(format=one, name=str(self._opened.export_path(one))) for one in EXPORTS
            ],
        )

    def _undo(self) -> None:
        self._history.undo()
        self._changed()

    def _redo(self) -> None:
        self._history.redo()
        self._changed()

    @_do.register
    def _save(self, request: Save) -> None:
        text = self._history.text
        self._opened.save(text, self._on_disk, request.anyway)
        self._on_disk = self._saved = text
        self._opened.kept.forget()
        self._tell(self._document())
        self._tell(Note(what="said", text=f"Saved {self._opened.file}."))

    @_do.register
    def _export(self, request: Export) -> None:
        path = self._opened.export_path(request.format)
        if path.exists() and not request.anyway:
            raise FileTaken(f"{path} exists already.")
        self._engine.submit(ExportPolicy(self._revision, path, request.format, request.prove))

    # ---- unsaved work

    def _offer(self) -> tuple[str, str] | None:
        found = self._opened.kept.read()
        return None if found is None or found[0] == self._opened.target.text else found

    def _keep(self) -> None:
        self._keeping = None
        if self._history.text == self._saved:
            self._opened.kept.forget()
        else:
            self._opened.kept.write(self._history.text)

    def _restore(self) -> None:
        if self._offered is not None:
            text, self._offered = self._offered[0], None
            self._change(Draft(text, self._opened.target.name))

    def _discard(self) -> None:
        self._offered = None
        self._opened.kept.forget()

    def _interrupt(self) -> None:
        self._engine.end()
        self._tell(Note(what="said", text="Interrupted. The next change is computed afresh."))

    def _hold_proven(self) -> None:
        """Another policy, so another revision, though the text is the same."""
        self._next_revision()
        self._tell(self._document())
        self._engine.submit(HoldProven(self._revision, self._history.text, self._view))

    # ---- behaviour

    def _stop(self) -> None:
        """Asked first; an environment that hangs does not hear, and is ended."""
        self._stage.signal("stop")
        if self._loop is not None and self._stage.is_alive:
            self._loop.call_later(_PATIENCE, self._stop_for_good, self._last_of_stage())

    def _stop_for_good(self, before: object) -> None:
        if self._last_of_stage() is before and self._stage.is_alive:
            self._stage.end()
            self._tell(Note(what="failed", text="The environment did not stop, and was ended."))

    def _last_of_stage(self) -> object:
        """Changes whenever the environment's process says something."""
        names = sorted(name for name in self._last if name.startswith(("Played", "Trained")))
        return tuple(id(self._last[name]) for name in names)

    def _find(self, folders: Sequence[Path]) -> None:
        """Runs beside the file; that of the command line is among them, wherever it is."""
        given = () if self._given is None else (self._given,)
        self._runs = {str(one): one for one in (*given, *folders)}
        self._say_runs()

    @_do.register
    def _compare(self, request: Compare) -> None:
        if request.run and request.run not in self._runs:
            raise InvalidArgument(f"There is no run {request.run} to compare with.")
        self._last.pop(_kind_of(Trained, compared_label(self._compared)), None)
        self._compared = request.run
        if request.run:
            self._engine.submit(TellRun(self._runs[request.run]))
        self._say_runs()

    def _say_runs(self) -> None:
        said = RunsSeen(runs=list(self._runs), compared=self._compared)
        self._last[_kind(said)] = said
        self._tell(said)

    def _forget_trained(self) -> None:
        self._engine.submit(Adopt(None))
        self._changed(author="editor")


def drawn_entry(drawn: Add, names: Names, view: View, taken: set[str]) -> dict[str, Any]:
    """A shape that was drawn in the plane of a view, as an entry of the file."""
    number = next(n for n in range(1, len(taken) + 2) if f"rule {n}" not in taken)
    entry: dict[str, Any] = {"name": f"rule {number}"}
    a, b = names.observations[view.across], names.observations[view.up]
    others = {
        name: value
        for name, value in zip(names.observations, view.at, strict=True)
        if name not in (a, b)
    }
    (x, y), last = drawn.points[0], drawn.points[-1]
    if drawn.shape == "point":
        states = {**others, a: x, b: y}
        entry["where"] = {name: states[name] for name in names.observations}
    elif drawn.shape == "box":
        extents = {a: sorted((x, last[0])), b: sorted((y, last[1]))}
        entry["region"] = {**others, **extents}
    elif drawn.shape == "ball":
        entry["region"] = {
            **others,
            "ball": {"of": [a, b], "centre": [x, y], "radius": drawn.radius or 0.1},
        }
    elif drawn.shape == "polygon":
        vertices = [list(point) for point in drawn.points]
        entry["region"] = {**others, "polytope": {"of": [a, b], "vertices": vertices}}
    else:
        ends = ((a, x, last[0]), (b, y, last[1]))
        formulas = {
            name: f"{number_text(first)} + {number_text(round(end - first, 12))}*t"
            for name, first, end in ends
        }
        entry["region"] = {**others, "curve": {"from": 0, "to": 1, **formulas}}
    entry["require"] = _first_requirement(names, drawn.action)
    return entry


def _first_requirement(names: Names, action: int | None) -> str:
    chosen = names.shown_action if action is None else min(action, len(names.actions) - 1)
    if names.ranges is None:
        return f"{names.actions[chosen]} >= 0.95"
    low, high = names.ranges[chosen]
    return f"{names.actions[chosen]} >= {number_text(0.5 * (low + high))}"
