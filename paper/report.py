"""What a reproduction found, before it becomes a page, a Markdown file or a table on a terminal."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import final

from rich.box import ROUNDED
from rich.table import Table as RichTable
from rich.text import Text

from paper.exhibit import Content, Exhibit, Finding, Table

TITLE = "Constrained Policy Gradient Method for Safe and Fast Reinforcement Learning: reproduced"
NOTICE = (
    "This reproduction was cut down: fewer seeds, fewer episodes. It shows that everything works, "
    "but its numbers are not those of the experiments, so no claim is judged by them."
)
NOT_IN_THE_PAPER = "not in the paper"
# A symbol beside the word, since colours are lost in print and on some eyes.
SYMBOLS = {"agrees": "✓", "differs": "≠", "not judged": "–"}
_STYLES = {"agrees": "green", "differs": "yellow", "not judged": "dim"}

_NUMBER = re.compile(r"[-+−±<>≤≥≈~\s\[(]*[\d∞]")
_WORD = re.compile(r"[^\W\d_]{4}")
_NOTHING = ("", "-", "–", "—")


@final
@dataclass(frozen=True)
class Section:
    """An exhibit with what it shows."""

    exhibit: Exhibit
    content: Content

    @property
    def heading(self) -> str:
        """Where it is in the paper, and what it is."""
        place, title = self.exhibit.place, self.exhibit.title
        return f"{place}. {title}" if place else title

    @property
    def where(self) -> str:
        """Its place in a few words, for a row of a table."""
        return self.exhibit.place or f"{self.exhibit.title} ({NOT_IN_THE_PAPER})"


@final
@dataclass(frozen=True)
class Report:
    """Everything that the page says.

    Attributes:
        command: that wrote it.
        date: when.
        versions: by package.
        seconds: of all seeds of an experiment, by its name.
        experiments: their titles, by name.
        full: whether nothing was cut down; otherwise no claim is judged.
        sections: in the order of the page.
    """

    command: str
    date: str
    versions: dict[str, str]
    seconds: dict[str, float]
    experiments: dict[str, str]
    full: bool
    sections: tuple[Section, ...]

    @property
    def findings(self) -> tuple[tuple[Section, Finding], ...]:
        """All, in order, each with its section."""
        return tuple((one, finding) for one in self.sections for finding in one.content.findings)

    @property
    def counts(self) -> dict[str, int]:
        """Findings by verdict, those of which there are none included."""
        found = Counter(self.verdict(finding) for _, finding in self.findings)
        return {verdict: found[verdict] for verdict in SYMBOLS}

    @property
    def total_time(self) -> str:
        """Of all experiments, as if one core had done everything."""
        return in_units(sum(self.seconds.values()))

    @property
    def times(self) -> tuple[tuple[str, str, str], ...]:
        """Name, title and time of every experiment, longest first."""
        ordered = sorted(self.seconds.items(), key=lambda item: -item[1])
        return tuple((name, self.experiments[name], in_units(took)) for name, took in ordered)

    def verdict(self, finding: Finding) -> str:
        """In a word; what was cut down judges nothing, whatever its numbers are."""
        return finding.verdict if self.full else "not judged"

    def table(self) -> RichTable:
        """All findings, for a terminal."""
        counts = ", ".join(f"{SYMBOLS[v]} {v}: {n}" for v, n in self.counts.items())
        table = RichTable(box=ROUNDED, show_lines=True, caption=counts)
        # Folded, so that no terminal is too narrow for a whole sentence.
        table.add_column("Where", overflow="fold", max_width=26)
        table.add_column("Claim", overflow="fold")
        table.add_column("Measured", overflow="fold")
        table.add_column("Verdict", overflow="fold")
        for section, finding in self.findings:
            verdict = self.verdict(finding)
            badge = Text(f"{SYMBOLS[verdict]} {verdict}", style=_STYLES[verdict])
            # Text, or else rich would take [195, 200] for markup.
            table.add_row(Text(section.where), Text(finding.claim), Text(finding.measured), badge)
        return table


def in_units(seconds: float) -> str:
    """Seconds as people say them: two units at most."""
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    minutes = round(seconds / 60.0)
    return f"{minutes // 60} h {minutes % 60:02d} min"


def numeric_columns(table: Table) -> list[bool]:
    """Which columns to align right: those with more numbers than words."""
    columns = zip(table.header, *table.rows, strict=True)
    return [_mostly_numbers(cells) for _, *cells in columns]


def _mostly_numbers(cells: list[str]) -> bool:
    said = [cell for cell in cells if cell.strip() not in _NOTHING]
    numbers = [cell for cell in said if _NUMBER.match(cell) and not _WORD.search(cell)]
    return len(numbers) > len(said) / 2
