"""Lines come back as they were, in whatever order a merge has put them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.cells.journal import Journal
from benchmarks.cells.line import Line
from handrail.errors import InvalidRun

_LINE = Line("b", "01234567", None, "2026-01-01T00:00Z", {"python": "3"}, {"score": 1.5})


def test_lines_are_sorted_and_the_newest_of_a_name_counts(tmp_path: Path) -> None:
    ours, theirs = Journal(tmp_path / "ours.jsonl"), Journal(tmp_path / "theirs.jsonl")
    for one in (_LINE, replace(_LINE, name="a")):
        ours.add(one)
    newer = replace(_LINE, date="2026-01-02T00:00Z", result={"score": 2.5})
    theirs.add(newer)
    merged = theirs.path.read_text() + ours.path.read_text()
    ours.path.write_text(merged)
    assert ours.read().lines == {"a": replace(_LINE, name="a"), "b": newer}
    ours.add(replace(_LINE, name="c"))
    assert [text[:12] for text in ours.path.read_text().splitlines()] == [
        f'{{"name": "{name}"' for name in "abc"
    ]


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "some.jsonl")
    journal.add(_LINE)
    with journal.path.open("a") as file:
        file.write('{"name": "half')
    with pytest.raises(InvalidRun, match=r"some\.jsonl, line 2 is not the line of a training"):
        journal.read()
