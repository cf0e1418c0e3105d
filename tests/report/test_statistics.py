"""Numbers over seeds, against closed forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from handrail.learning.record import Record
from handrail.report.learning_curves import trailing_average
from handrail.report.statistics import (
    GroupSummary,
    episodes_to_pass,
    spread,
    summarise,
    summarise_runs,
)
from handrail.runs.run import Run

RECORD = Record(
    episode=0,
    update=0,
    score=1.0,
    length=5,
    steps=5,
    terminated=True,
    batch_loss=0.0,
    safe_loss=0.0,
    violation_before=-0.5,
    violation_after=-0.5,
    predicted_change=0.0,
    measured_change=0.0,
    prediction_error=0.0,
    iterations=2,
    safe_return_size=0.0,
    active=("a",),
)


def test_a_record_survives_json() -> None:
    assert Record.from_dict(RECORD.to_dict()) == RECORD


def test_spread() -> None:
    data = np.random.default_rng(0).normal(10.0, 2.0, size=40)
    one = spread(data.tolist())
    assert one.mean == pytest.approx(data.mean())
    assert one.deviation == pytest.approx(data.std(ddof=1))
    assert one.iqm == pytest.approx(stats.trim_mean(data, 0.25))
    low, high = one.interval
    assert low < one.iqm < high
    # The interquartile mean of normal numbers has about 1.1 times the error of their mean.
    error = 2.0 / np.sqrt(40)
    assert high - low == pytest.approx(2 * 1.96 * 1.1 * error, rel=0.3)
    assert one == spread(data.tolist())
    assert spread([5.0]).interval == (5.0, 5.0)
    assert spread([5.0, 5.0, 5.0]).interval == (5.0, 5.0)


def test_episodes_to_pass() -> None:
    scores = np.array([0.0] * 30 + [200.0] * 120)
    # 195 over 100 episodes allows two and a half bad ones: the window may begin at episode 28.
    assert episodes_to_pass(scores, 195.0) == 28
    assert episodes_to_pass(np.full(100, 195.0), 195.0) == 0
    assert episodes_to_pass(np.full(99, 200.0), 195.0) is None
    assert episodes_to_pass(np.full(300, 194.9), 195.0) is None
    assert episodes_to_pass(np.full(100, 0.1 + 0.2), 0.3) == 0


def test_a_run_in_numbers() -> None:
    records = [
        replace(RECORD, episode=k, score=float(k), violation_before=-0.1 if k != 7 else 1e-7)
        for k in range(250)
    ]
    one = summarise(3, records, pass_mark=100.0)
    assert (one.seed, one.episodes) == (3, 250)
    assert one.first == 49.5
    assert one.last == 199.5
    assert one.to_pass == 51  # 51 … 150 average 100.5
    assert one.worst_violation == 1e-7
    free = summarise(0, [replace(RECORD, violation_before=None)], None)
    assert free.worst_violation is None
    assert free.to_pass is None


def test_thetrailing_average() -> None:
    values = np.random.default_rng(0).normal(size=57)
    expected = [values[max(0, k - 9) : k + 1].mean() for k in range(57)]
    np.testing.assert_allclose(trailing_average(values, 10), expected, atol=1e-12)


def test_a_summary_prints_as_a_table(run: Run) -> None:
    one = summarise_runs(run)
    lines = str(one).splitlines()
    assert lines[0].split("  ")[:2] == ["seed", "episodes"]
    assert lines[2].split()[:2] == ["0", "2"]
    assert lines[-1].startswith("first 100, last 100: average score. worst violation: of any pol")
    assert "IQM" not in str(one)
    assert summarise_runs(run.folder) == summarise_runs([run]) == one


def test_a_summary_of_several_seeds() -> None:
    seeds = tuple(
        summarise(seed, [replace(RECORD, score=score)] * 120, 195.0)
        for seed, score in enumerate((100.0, 200.0, 198.0))
    )
    scores = [one.last for one in seeds]
    group = GroupSummary(seeds, spread(scores), spread(scores), 195.0)
    rows = [line.split() for line in str(group).splitlines()]
    assert [row[0] for row in rows[2:7]] == ["0", "1", "2", "mean", "IQM"]
    text = str(group)
    assert "166.0 ± 57.2" in text
    assert "2 of 3, by 0" in text
    assert "where the first 100-episode average of 195 begins. IQM:" in text
    html = group._repr_html_()
    assert html.count("<tr>") == 6
    assert "166.0 ± 57.2" in html


def test_costs_have_a_column_where_there_are_some() -> None:
    records = [replace(RECORD, cost=float(k) if k % 2 else None) for k in range(150)]
    one = summarise(0, records, None)
    assert one.cost == 50.0  # of the odd numbers from 51 to 149 and as many zeros
    two = summarise(1, [replace(RECORD, cost=30.0)], None)
    group = GroupSummary((one, two), spread([1.0, 1.0]), spread([1.0, 1.0]), None)
    assert group.cost is not None
    assert group.cost.mean == 40.0
    lines = str(group).splitlines()
    assert lines[0].split()[-1] == "cost"
    assert [line.split()[-1] for line in lines[2:4]] == ["50.0", "30.0"]
    assert "40.0 ± 14.1" in lines[4]
    assert "cost: average of the last 100 episodes." in group.caption
    without = GroupSummary((summarise(0, [RECORD], None),), spread([1.0]), spread([1.0]), None)
    assert "cost" not in str(without)
    assert without.cost is None
