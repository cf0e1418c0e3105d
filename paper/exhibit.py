"""What the report consists of: exhibits, each a figure or table of the paper beside our version."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import final

from matplotlib.figure import Figure

from paper.results import Results


@final
@dataclass(frozen=True)
class Finding:
    """One claim of the paper, and what was measured.

    Attributes:
        claim: of the paper, in a sentence.
        measured: our number, in words.
        agrees: whether it supports the claim; None if the numbers do not allow to say. The report
            of a reproduction that was cut down judges nothing, whatever this is.
        why: the reason for a difference, or what to keep in mind.
    """

    claim: str
    measured: str
    agrees: bool | None
    why: str = ""

    @property
    def verdict(self) -> str:
        """In a word."""
        if self.agrees is None:
            return "not judged"
        return "agrees" if self.agrees else "differs"


@final
@dataclass(frozen=True)
class Picture:
    """A figure with a caption; `name` is that of its files."""

    name: str
    figure: Figure
    caption: str


@final
@dataclass(frozen=True)
class Table:
    """Numbers with a heading.

    Attributes:
        caption: what the table shows.
        header: of its columns.
        rows: of as many cells.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@final
@dataclass(frozen=True)
class Content:
    """What an exhibit shows."""

    findings: Sequence[Finding] = ()
    pictures: Sequence[Picture] = ()
    tables: Sequence[Table] = ()


@final
@dataclass(frozen=True)
class Exhibit:
    """A figure, a table or a claim of the paper, to be shown beside ours.

    Attributes:
        name: to ask for it.
        place: where it is in the paper; empty for what the paper does not have.
        title: for people.
        build: from the results of the experiments that name this exhibit.
    """

    name: str
    place: str
    title: str
    build: Callable[[Results], Content]
