"""What the server tells a page: one WebSocket, one model for every message."""

from __future__ import annotations

from abc import ABC
from typing import Annotated, Literal, TypeAlias, final

from pydantic import BaseModel, ConfigDict, Field

Number: TypeAlias = Annotated[float, Field(allow_inf_nan=False, ge=-1e30, le=1e30)]
Pair: TypeAlias = tuple[Number, Number]
ExportFormat: TypeAlias = Literal["onnx", "numpy", "learner"]


class PageMessage(BaseModel, ABC):
    """Of either side: nothing in it that is not said here."""

    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="null")


@final
class View(PageMessage):
    """The plane that the map shows, by the indices of its observations."""

    across: Annotated[int, Field(ge=0, le=1000)]
    up: Annotated[int, Field(ge=0, le=1000)]
    across_range: Pair
    up_range: Pair
    at: Annotated[list[Number], Field(min_length=2, max_length=1000)]


@final
class Slot(PageMessage):
    """A number in the file that moves with a handle, and what it is now."""

    path: list[str | int]
    value: float


@final
class FormulaSlot(PageMessage):
    """A formula in the file that moves with a handle: its numbers stand between words.

    Attributes:
        path: of the formula.
        words: one more than there are numbers.
        values: what the numbers are now.
        shares: how far each goes when the hand goes by 1.
    """

    path: list[str | int]
    words: list[str]
    values: list[float]
    shares: list[float]


@final
class Handle(PageMessage):
    """Where a shape can be taken hold of, and what follows the hand.

    Attributes:
        role: move (all of it), corner, edge, vertex, or radius.
        x: in the units of the observation across.
        y: in the units of the observation up.
        across: numbers that move by as much as the hand does, across.
        up: the same, up; of a radius there is one number only, in `across`.
        across_formulas: formulas that follow the hand, across.
        up_formulas: the same, up.
        moves_across: indices of the points of the first outline that go along.
        moves_up: the same, up.
    """

    role: Literal["move", "corner", "edge", "vertex", "radius"]
    x: float
    y: float
    across: list[Slot] = []
    up: list[Slot] = []
    across_formulas: list[FormulaSlot] = []
    up_formulas: list[FormulaSlot] = []
    moves_across: list[int] = []
    moves_up: list[int] = []


@final
class Shape(PageMessage):
    """A part of where a constraint holds, as the plane shows it.

    Attributes:
        entry: index of the constraint in the file.
        kind: of shape.
        meets: whether the plane meets it; else its shadow on the plane is drawn.
        outlines: (m, 2) each; of points, one outline with a single point each.
        handles: none if it can be changed in the text alone.
        levels: lines on which a bound that depends on the state has one value.
        vertices: the path of a list of vertices, if a vertex may be added.
        middle: a state in the middle of it.
        note: why it, or a part of it, cannot be dragged; empty if all of it can.
    """

    entry: int
    kind: Literal["point", "box", "ball", "polygon", "curve", "other"]
    meets: bool
    outlines: list[list[tuple[float, float]]]
    handles: list[Handle] = []
    levels: list[Level] = []
    vertices: list[str | int] | None = None
    middle: list[float] = []
    note: str = ""


@final
class Level(PageMessage):
    """A line on which a bound has one value."""

    value: float
    side: Literal["lower", "upper"]
    line: list[tuple[float, float]]


@final
class Bound(PageMessage):
    """A number in a requirement that a slider moves: characters `start` to `end` of its text."""

    start: int
    end: int
    value: float
    low: float
    high: float


@final
class RequireLine(PageMessage):
    """One line of `require`, as it is in the file."""

    path: list[str | int]
    text: str
    bounds: list[Bound]


@final
class Card(PageMessage):
    """A constraint of the file.

    Attributes:
        entry: its index in the file.
        line: of the file.
        name: as the file has it.
        requirements: what can be changed in place; none for kinds without a `require` line.
        sentences: what it says, in the library's words.
        meets: whether the plane meets any of it.
        notes: why its shape cannot be dragged, or not all of it.
    """

    entry: int
    line: int
    name: str
    requirements: list[RequireLine]
    sentences: list[str]
    meets: bool
    notes: list[str] = []


@final
class Names(PageMessage):
    """What the numbers are called.

    Of actions whose noise depends on the state, `noises` are the ranges of their standard
    deviations; of others there are none.
    """

    title: str
    description: str
    environment: str
    observations: list[str]
    actions: list[str]
    ranges: list[tuple[float, float]] | None
    noises: list[tuple[float, float]]
    branches: list[str]
    quantity: str
    shown_action: int
    pass_mark: float | None


@final
class ExportFile(PageMessage):
    """A file that the policy can be written to."""

    format: ExportFormat
    name: str


@final
class Document(PageMessage):
    """The text, and where it stands; the policy's files lie beside its own."""

    kind: Literal["document"] = "document"
    revision: int
    text: str
    file: str
    saved: bool
    can_undo: bool
    can_redo: bool
    author: Literal["editor", "drawing"] = "drawing"
    exports: list[ExportFile] = []


@final
class Drawing(PageMessage):
    """A good text as shapes and cards; or what is wrong with it, and where."""

    kind: Literal["drawing"] = "drawing"
    revision: int
    error: str = ""
    line: int = 0
    names: Names | None = None
    view: View | None = None
    cards: list[Card] = []
    shapes: list[Shape] = []


@final
class Verdict(PageMessage):
    """What is known of a constraint.

    Attributes:
        entry: its index in the file.
        status: holds (where it was tried), proven, violated, or unknown.
        violation: the worst that was found; positive means broken.
        state: where that is.
        words: of the verdict, in the library's words.
        influence: what it alone changes elsewhere; None if that was not found out yet.
    """

    entry: int
    status: Literal["holds", "proven", "violated", "unknown"]
    violation: float | None
    state: list[float] = []
    words: str = ""
    influence: str | None = None


@final
class Map(PageMessage):
    """A policy's outputs over the plane: `values` are float64 in base64, output by output.

    Those of all actions; where their noise depends on the state, behind them that of each.
    """

    view: View
    columns: int
    rows: int
    outputs: int
    values: str


@final
class Held(PageMessage):
    """The policy, held to the text of a revision: the last complete answer."""

    kind: Literal["held"] = "held"
    revision: int
    satisfied: bool
    words: str
    influence: str
    verdicts: list[Verdict]
    conflict: list[int] = []
    conflict_words: str = ""
    conflict_state: list[float] = []
    seconds: float
    map: Map | None = None
    before: Map | None = None


@final
class Cell(PageMessage):
    """Where a constraint was proven, and how far inside its bound the policy is at least."""

    entry: int
    margin: float
    outline: list[tuple[float, float]]


@final
class ProofSeen(PageMessage):
    """What was proven of a revision."""

    kind: Literal["proof"] = "proof"
    revision: int
    verdicts: list[Verdict]
    cells: list[Cell]
    words: str


@final
class Probed(PageMessage):
    """The outputs of the policy of a revision at a state, to the last digit."""

    kind: Literal["probed"] = "probed"
    revision: int
    state: list[float]
    outputs: list[float]
    before: list[float]


@final
class Trail(PageMessage):
    """An episode: what was observed, and what was done (of discrete actions, which)."""

    states: list[list[float]]
    actions: list[list[float]]
    before: bool


@final
class Played(PageMessage):
    """Episodes of the policy as it is held, and of the one before, from the same starts.

    Attributes:
        wanted: how many, of each.
        scores: so far, as it is held.
        scores_before: so far, before.
        trails: the first few episodes of each.
        film: the first episode as an animated GIF in base64; empty if there is none.
        done: whether no more will come.
        words: both in a sentence.
    """

    kind: Literal["played"] = "played"
    wanted: int
    scores: list[float]
    scores_before: list[float]
    trails: list[Trail] = []
    film: str = ""
    done: bool = False
    words: str = ""


@final
class Trained(PageMessage):
    """How a training goes, episode by episode.

    Attributes:
        label: what curves call it.
        wanted: how many episodes.
        scores: of each so far.
        violations: of the policy after each update; null where nothing is measured.
        influences: on the policy elsewhere; null where that is not known.
        status: running, paused, or why it has ended.
        folder: of the run that it is recorded in; empty if there is none.
    """

    kind: Literal["trained"] = "trained"
    label: str
    wanted: int
    scores: list[float]
    violations: list[float | None]
    influences: list[float | None]
    status: Literal["running", "paused", "stopped", "done"]
    folder: str = ""


@final
class RunsSeen(PageMessage):
    """Runs to compare with, by their folders, and the one that was chosen; empty if none was."""

    kind: Literal["runs"] = "runs"
    runs: list[str]
    compared: str = ""


@final
class Note(PageMessage):
    """Something that people should know; `what` says where the page shows it."""

    kind: Literal["notice"] = "notice"
    what: Literal["said", "refused", "failed", "kept", "python", "taken", "exported"]
    text: str


Answer: TypeAlias = (
    Document | Drawing | Held | ProofSeen | Probed | Played | Trained | RunsSeen | Note
)


def packed(answer: BaseModel) -> str:
    """An answer as the page reads it: every digit, and null for what is no number."""
    return answer.model_dump_json()
