"""What a page asks for: one model for every request, checked before anything is done with it.

Its kind, its types, and sizes that nobody's hand reaches.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias, final

from pydantic import Field, TypeAdapter

from handrail.studio.messages import ExportFormat, Number, PageMessage, Pair, View

_MOST_EDITS = 4000
_LONGEST_TEXT = 1_000_000

Path: TypeAlias = Annotated[list[str | int], Field(min_length=1, max_length=40)]
ShortText: TypeAlias = Annotated[str, Field(max_length=2000)]


@final
class NewValue(PageMessage):
    """A number or a text of the file, and what it is to be."""

    path: Path
    value: Number | ShortText


@final
class EditValues(PageMessage):
    """Values replaced; those of one gesture are undone together."""

    kind: Literal["edit"]
    values: Annotated[list[NewValue], Field(min_length=1, max_length=_MOST_EDITS)]
    gesture: Annotated[int, Field(ge=0)] = 0
    resting: bool = True


@final
class Insert(PageMessage):
    """Another vertex of a polygon."""

    kind: Literal["insert"]
    path: Path
    index: Annotated[int, Field(ge=1, le=1000)]
    item: Annotated[list[Number], Field(min_length=1, max_length=6)]


@final
class Remove(PageMessage):
    """An item of a list less: a constraint, or a vertex."""

    kind: Literal["remove"]
    path: Path
    index: Annotated[int, Field(ge=0, le=1000)]


@final
class Add(PageMessage):
    """A constraint that was drawn in the plane that is shown."""

    kind: Literal["add"]
    shape: Literal["point", "box", "ball", "polygon", "line"]
    points: Annotated[list[Pair], Field(min_length=1, max_length=1000)]
    radius: Annotated[Number, Field(gt=0.0)] | None = None
    action: Annotated[int, Field(ge=0, le=1000)] | None = None


@final
class Text(PageMessage):
    """The whole text, from the editor."""

    kind: Literal["text"]
    text: Annotated[str, Field(max_length=_LONGEST_TEXT)]
    gesture: Annotated[int, Field(ge=0)] = 0


@final
class Look(PageMessage):
    """Another plane, or another part of it."""

    kind: Literal["look"]
    view: View
    resting: bool = True


@final
class Probe(PageMessage):
    """What the policy does at one state."""

    kind: Literal["probe"]
    state: Annotated[list[Number], Field(min_length=1, max_length=1000)]


@final
class Play(PageMessage):
    """Episodes with the policy as it is held now, and with the one before."""

    kind: Literal["play"]
    episodes: Annotated[int, Field(ge=1, le=500)] = 20
    deterministic: bool = False
    frames: bool = False


@final
class Train(PageMessage):
    """Learn from here; without constraints, to compare."""

    kind: Literal["train"]
    episodes: Annotated[int, Field(ge=1, le=100_000)] = 100
    free: bool = False


@final
class Compare(PageMessage):
    """Draw the curves of a run that the page was told of beside those of trainings."""

    kind: Literal["compare"]
    run: ShortText = ""


@final
class Save(PageMessage):
    """Write the text to the file that was opened."""

    kind: Literal["save"]
    anyway: bool = False


@final
class Export(PageMessage):
    """Write the policy to a file beside the one that was opened, as `handrail export` does."""

    kind: Literal["export"]
    format: ExportFormat
    prove: bool = False
    anyway: bool = False


@final
class Order(PageMessage):
    """What needs no further words."""

    kind: Literal[
        "undo", "redo", "restore", "discard", "interrupt", "python",
        "hold_proven",
        "pause", "go_on", "stop", "forget_trained",
    ]  # fmt: skip


Request: TypeAlias = (
    EditValues
    | Insert
    | Remove
    | Add
    | Text
    | Look
    | Probe
    | Play
    | Train
    | Compare
    | Save
    | Export
    | Order
)

requests: TypeAdapter[Request] = TypeAdapter(Annotated[Request, Field(discriminator="kind")])


def parsed(message: str | bytes) -> Request:
    """A message of the page; pydantic's `ValidationError` if it is none."""
    return requests.validate_json(message)
