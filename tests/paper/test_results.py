"""What is read is what was recorded, and what is derived from it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from handrail.errors import HandrailError
from handrail.runs import Run
from paper.job import folders_of, jobs_of
from paper.results import Results, write_metrics
from tests.support.paper import NARROW_EXPERIMENT, after, learned, never, nothing


def test_results_that_are_not_finished_are_refused(tmp_path: Path) -> None:
    jobs_of(NARROW_EXPERIMENT, tmp_path)[0].run(nothing, after(2))
    one_seed = replace(NARROW_EXPERIMENT, seeds=1)
    with pytest.raises(HandrailError, match=r"seed-0 is not finished. Run the same command again"):
        Results(tmp_path, [one_seed]).learned("narrow")


def test_what_is_read_is_what_was_recorded(tmp_path: Path) -> None:
    for job in jobs_of(NARROW_EXPERIMENT, tmp_path):
        job.run(nothing, never)
    learned = Results(tmp_path, [NARROW_EXPERIMENT]).learned("narrow")
    records = Run.open(folders_of(tmp_path, NARROW_EXPERIMENT)[1] / "run").records()
    seed = learned.seeds[1]
    assert seed.scores.tolist() == [record.score for record in records]
    assert seed.steps.tolist() == np.cumsum([record.length for record in records]).tolist()
    expected = [(r.batch_loss or 0.0) + (r.safe_loss or 0.0) for r in records]
    assert seed.losses == pytest.approx(expected)
    assert seed.violations.max() <= 1e-6
    assert np.isnan(seed.first)  # six episodes are not a hundred


def test_to_pass_counts_to_the_end_of_the_first_passing_window() -> None:
    at_once, later, no = [200.0] * 110, [0.0] * 7 + [200.0] * 150, [194.0] * 300
    # The window that begins at 5 has two zeros: 196 on average.
    assert learned(at_once, later, no).to_pass() == [(100, 20_000), (105, 5 + 2 + 98 * 200), None]


def test_metrics_replace_those_of_more_seeds(tmp_path: Path) -> None:
    two = learned([9.0, 12.5], [200.0], violations=[[0.25, -1e-7], [np.nan]])
    write_metrics([two], tmp_path)
    folder = tmp_path / "narrow"
    assert (folder / "seed-0.csv").read_text() == (
        "episode,score,steps,loss,safe_loss,violation\n0,9,9,,,0.25\n1,12.5,21.5,,,-1e-07\n"
    )
    assert (folder / "seed-1.csv").read_text().splitlines()[1] == "0,200,200,,,"
    write_metrics([learned([9.0])], tmp_path)
    assert [path.name for path in folder.iterdir()] == ["seed-0.csv"]
