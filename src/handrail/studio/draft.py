"""The text of a constraint file, changed as a hand on the map changes it: as little as can be.

What is drawn is the file. A dragged vertex replaces two numbers in the text, a new shape adds an
entry, and every comment, order and way of writing around them stays as somebody put it. Texts one
after the other make a history, in which what one gesture did is one step.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

from handrail.errors import InvalidArgument, InvalidRulebook
from handrail.rulebook import KeyPath, Source, TextSpan, read

_ENTRIES: KeyPath = ("constraints",)

_MOST_STEPS = 500  # that can be undone

_BLANK_LINE = re.compile(r"\n[ \t]*\n")


@final
@dataclass(frozen=True)
class Draft:
    """A text that is YAML, whether or not it is a good constraint file.

    Attributes:
        text: as it is in the editor.
        name: what messages call it.
    """

    text: str
    name: str

    @cached_property
    def source(self) -> Source:
        """The text as data; `InvalidRulebook` if it is no YAML."""
        return read(self.text, self.name)

    def with_values(self, values: Mapping[KeyPath, float | str]) -> Draft:
        """Numbers and texts replaced where they are written; an anchor's for all who refer to it.

        Raises:
            InvalidArgument: if there is no such number or text.
            InvalidRulebook: if this is no YAML.
        """
        written = {path: (self._scalar(path), value) for path, value in values.items()}
        for quote in (_plain, _quoted):
            draft = self._replaced([(span, quote(value)) for span, value in written.values()])
            if draft._says(values):
                return draft
        raise InvalidArgument(f"{list(values.values())!r} cannot be written into {self.name}.")

    def with_item(self, path: KeyPath, index: int, item: Sequence[float]) -> Draft:
        """A list of numbers put into a list at this index, such as another vertex."""
        return self._inserted(path, index, [_flow(item)])

    def without_item(self, path: KeyPath, index: int) -> Draft:
        """One item of a list less."""
        items, span = self._items(path)
        if not 0 <= index < len(items) or len(items) == 1:
            raise InvalidArgument(f"There is no item {index} to leave out of {path}.")
        if span.flow:
            start, end = items[index]
            if index + 1 < len(items):
                end = items[index + 1][0]
            else:
                start = items[index - 1][1]
            return self._cut(start, end)
        first, last = self._lines_of(*items[index])
        return self._cut(first, last)

    def with_entry(self, entry: Mapping[str, Any]) -> Draft:
        """A constraint more, behind the last one: a name, a place and what is required."""
        lines = [f"{key}: {_flow(value)}" for key, value in entry.items()]
        items, span = self._items(_ENTRIES)
        if span.flow:
            lines = [f"{{{', '.join(lines)}}}"]
        return self._inserted(_ENTRIES, len(items), lines)

    def _inserted(self, path: KeyPath, index: int, lines: Sequence[str]) -> Draft:
        items, span = self._items(path)
        if not 0 < index <= len(items):
            raise InvalidArgument(f"Nothing can be put at {index} of {path}.")
        if span.flow:
            before = items[index - 1][1]
            return self._replaced([(TextSpan(before, before, True), f", {lines[0]}")])
        indent = " " * (span.start - self._line_start(span.start))
        gap = "\n" if self._are_apart(items) else ""
        first, *rest = lines
        body = "\n".join([f"{indent}- {first}", *(f"{indent}  {line}" for line in rest)])
        _, end = self._lines_of(*items[index - 1])
        missing = "" if self.text[:end].endswith("\n") else "\n"
        return self._replaced([(TextSpan(end, end, True), f"{missing}{gap}{body}\n")])

    def _are_apart(self, items: Sequence[tuple[int, int]]) -> bool:
        """Whether entries have blank lines between them."""
        gaps = [self.text[a:b] for (_, a), (b, _) in itertools.pairwise(items)]
        return bool(gaps) and all(_BLANK_LINE.search(gap) for gap in gaps)

    def _items(self, path: KeyPath) -> tuple[list[tuple[int, int]], TextSpan]:
        """Where each item of a list begins and ends, and the list itself."""
        span, value = self.source.spans.get(path), self.value_at(path)
        if span is None or not isinstance(value, list) or not value:
            raise InvalidArgument(f"There is no list at {path}.")
        return [self._extent((*path, index)) for index in range(len(value))], span

    def _extent(self, path: KeyPath) -> tuple[int, int]:
        """From the first character of a value to behind its last one, whatever comes after it."""
        span = self.source.spans[path]
        if span.flow:
            return span.start, self._without_blanks(span.start, span.end)
        n = len(path)
        inside = [
            one.end
            for key, one in self.source.spans.items()
            if key[:n] == path and len(key) > n and one.flow and span.start <= one.end <= span.end
        ]
        end = max(inside, default=span.start)
        return span.start, self._without_blanks(span.start, end)

    def _without_blanks(self, start: int, end: int) -> int:
        return start + len(self.text[start:end].rstrip())

    def _lines_of(self, start: int, end: int) -> tuple[int, int]:
        """The whole lines of a part of the text, with what is behind it on its last one."""
        last = self.text.find("\n", end)
        return self._line_start(start), len(self.text) if last < 0 else last + 1

    def _line_start(self, position: int) -> int:
        return self.text.rfind("\n", 0, position) + 1

    def _scalar(self, path: KeyPath) -> TextSpan:
        span, value = self.source.spans.get(path), self.value_at(path)
        if span is None or isinstance(value, (list, dict)) or value is None:
            raise InvalidArgument(f"There is no number or text at {path}.")
        return span

    def value_at(self, path: KeyPath) -> Any:
        """What the file says there; None if nothing."""
        value: Any = self.source.data
        for key in path:
            try:
                value = value[key]
            except (KeyError, IndexError, TypeError):
                return None
        return value

    def _says(self, values: Mapping[KeyPath, float | str]) -> bool:
        try:
            return all(self.value_at(path) == value for path, value in values.items())
        except InvalidRulebook:
            return False

    def _cut(self, start: int, end: int) -> Draft:
        return self._replaced([(TextSpan(start, end, True), "")])

    def _replaced(self, parts: Sequence[tuple[TextSpan, str]]) -> Draft:
        """From the last to the first, so that places stay where they are."""
        text = self.text
        once = dict(parts)
        for span in sorted(once, key=lambda one: -one.start):
            text = text[: span.start] + once[span] + text[span.end :]
        return Draft(text, self.name)


@final
@dataclass(frozen=True)
class _Step:
    text: str
    gesture: int


@final
class History:
    """Of the text that was opened."""

    def __init__(self, text: str) -> None:
        self._steps = [_Step(text, 0)]
        self._at = 0

    @property
    def text(self) -> str:
        """At present."""
        return self._steps[self._at].text

    @property
    def can_undo(self) -> bool:
        """Whether there is something before."""
        return self._at > 0

    @property
    def can_redo(self) -> bool:
        """Whether something was undone."""
        return self._at + 1 < len(self._steps)

    def push(self, text: str, gesture: int = 0) -> None:
        """A new text; in the place of the last one if the same gesture goes on."""
        if text == self.text:
            return
        del self._steps[self._at + 1 :]
        goes_on = gesture and self._at and self._steps[self._at].gesture == gesture
        if goes_on:
            self._steps.pop()
        self._steps.append(_Step(text, gesture))
        del self._steps[:-_MOST_STEPS]
        self._at = len(self._steps) - 1

    def undo(self) -> None:
        """One step back, if there is one."""
        self._at = max(self._at - 1, 0)

    def redo(self) -> None:
        """One step forth, if there is one."""
        self._at = min(self._at + 1, len(self._steps) - 1)


def number_text(value: float) -> str:
    """As few characters as say exactly this number."""
    whole = float(value).is_integer() and abs(value) < 1e15
    return str(int(value)) if whole else repr(float(value))


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else number_text(value)


def _quoted(value: float | str) -> str:
    """JSON's quotes are among those of YAML."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else number_text(value)


def _flow(value: Any) -> str:
    """In one line, as people write it in a constraint file."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{key}: {_flow(one)}' for key, one in value.items())}}}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return f"[{', '.join(map(_flow, value))}]"
    if isinstance(value, str):
        is_simple = re.fullmatch(r"[A-Za-z][\w .<>=*+/-]*", value) and value == value.strip()
        known = value.lower() in ("true", "false", "null")
        return value if is_simple and not known else _quoted(value)
    return number_text(value)
