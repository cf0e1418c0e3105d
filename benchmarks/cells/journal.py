"""The trainings of a study that are done: a text file of the project, a line each, by name.

Git merges such files line by line (.gitattributes). Lines may come in any order and several times,
as they do after a merge or when files of two machines are put together with `cat`: the newest of
a name counts, and the next line that is added puts all in order again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import final

from filelock import FileLock

from benchmarks.cells.cell import Cell
from benchmarks.cells.line import Line
from handrail._storage import to_line, write_atomically
from handrail.errors import InvalidRun

OLD = "†"  # behind what other code of Handrail trained
ABOUT_OLD = (
    f"{OLD} Some seeds, or those it is compared with, were trained with other code of Handrail "
    "than today's, an earlier version of the holding as a rule: `--renew` trains them again."
)


@final
@dataclass(frozen=True)
class Kept:
    """Lines, by the names of their cells."""

    lines: Mapping[str, Line]

    def of(self, cell: Cell) -> Line | None:
        """Its line, unless that is about something else by now: other settings, say."""
        line = self.lines.get(cell.name)
        return None if line is None or line.fingerprint != cell.fingerprint else line

    def is_old(self, cell: Cell) -> bool:
        """Whether its line is of other code than today's."""
        line = self.of(cell)
        return line is not None and line.code != cell.digest

    def all_of(self, cells: Sequence[Cell]) -> list[Line]:
        """Of those that are done."""
        return [line for cell in cells if (line := self.of(cell)) is not None]


@final
class Journal:
    """The file.

    Args:
        path: of it; it need not exist yet.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> Kept:
        """All that is in it; `InvalidRun` if something else is."""
        if not self.path.exists():
            return Kept({})
        content = self.path.read_text(encoding="utf-8")
        lines = [self._line(n, text) for n, text in enumerate(content.splitlines(), start=1)]
        return Kept({line.name: line for line in sorted(lines, key=lambda one: one.date)})

    def add(self, line: Line) -> None:
        """One more, in place of what was there by its name; killed meanwhile, nothing is lost."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_name(f".{self.path.name}.lock")):  # another command's, too
            lines = {**self.read().lines, line.name: line}
            content = b"".join(to_line(asdict(lines[name])) for name in sorted(lines))
            write_atomically(self.path, content)

    def _line(self, number: int, text: str) -> Line:
        try:
            return Line(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise InvalidRun(
                f"{self.path}, line {number} is not the line of a training ({error}). Take it out: "
                "what it was about is trained again."
            ) from error
