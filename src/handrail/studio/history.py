"""Texts one after the other, to go back and forth between; what one gesture did is one step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

_MOST = 500


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
        del self._steps[:-_MOST]
        self._at = len(self._steps) - 1

    def undo(self) -> None:
        """One step back, if there is one."""
        self._at = max(self._at - 1, 0)

    def redo(self) -> None:
        """One step forth, if there is one."""
        self._at = min(self._at + 1, len(self._steps) - 1)
