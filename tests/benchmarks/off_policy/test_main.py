"""The page that kept lines make."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.cells.journal import Journal
from benchmarks.cells.line import Line, versions_in_words
from benchmarks.off_policy.__main__ import plan
from benchmarks.off_policy.cell import OffPolicyCell
from benchmarks.off_policy.report import Results, Row, page
from benchmarks.off_policy.setting import SAC_PENDULUM
from benchmarks.off_policy.summary import Summary

_SUMMARY = Summary(
    25, (None, -1000.0 / 3.0, -200.0 / 7.0), 100.0 / 3.0, 70, 7, 9, -1e-4 / 3.0, 9, 2
)


def test_the_page_from_lines_is_that_from_fresh_trainings(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "off_policy.jsonl")
    fresh: dict[Row, dict[int, Summary]] = {}
    cells = [OffPolicyCell(SAC_PENDULUM, arm, seed) for arm in SAC_PENDULUM.arms for seed in (0, 1)]
    for cell in cells:
        summary = replace(_SUMMARY, seconds=_SUMMARY.seconds + cell.seed)
        fresh.setdefault((cell.setting.name, cell.arm), {})[cell.seed] = summary
        journal.add(Line.of_now(cell.name, cell.fingerprint, cell.digest, summary))
    kept = journal.read()
    versions = versions_in_words(kept.all_of(cells))
    text = plan([SAC_PENDULUM], range(2)).page(kept)
    assert text == page([SAC_PENDULUM], Results(fresh, versions=versions))
    wider = replace(SAC_PENDULUM, margin=2.0)  # it concerns the rail alone
    assert [kept.of(replace(cell, setting=wider)) is None for cell in cells] == [
        cell.arm == "rail" for cell in cells
    ]
