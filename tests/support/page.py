"""A page of HTML, read back."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import final

_VOID = {"meta", "img"}


@final
class Page(HTMLParser):
    """Reads a page, and refuses one whose tags do not match.

    Attributes:
        tags: with their attributes, in order.
        cells: of all tables, without their headers.
        text: everything that is shown.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.cells: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "td":
            self.cells.append("")
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data if "style" not in self._open else ""
        if "td" in self._open:
            self.cells[-1] += data

    def values(self, attribute: str) -> list[str]:
        """Of an attribute, wherever it stands."""
        found = (attributes.get(attribute) for _, attributes in self.tags)
        return [value for value in found if value is not None]
