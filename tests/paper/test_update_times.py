"""Times over sizes, and their exponents against power laws."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from paper.experiment import UpdateTimes
from paper.update_times import Times, measure_times, read_times


def test_exponents_are_those_of_power_laws() -> None:
    sizes = np.array([10.0, 20.0, 40.0, 80.0])
    seconds = {"kernel": 3.0 * sizes**2, "update": 1.0 + 0.0 * sizes, "solve": sizes**1.5}
    times = Times(sizes, seconds)
    assert times.exponent("kernel") == pytest.approx(2.0)
    assert times.exponent("update") == pytest.approx(0.0, abs=1e-12)
    assert times.exponent("solve") == pytest.approx(1.5)
    one = Times(sizes[:1], {"kernel": np.ones(1)})
    assert np.isnan(one.exponent("kernel"))


def test_times_are_measured_for_every_size(tmp_path: Path) -> None:
    study = UpdateTimes(
        kind="update_times", width=16, batch=[5, 20, 60], constrained=[2, 9], points=[3, 8]
    )
    heard: list[float] = []
    measure_times(study, 0, tmp_path, heard.append)
    times = read_times(tmp_path)
    assert times["batch"].sizes.tolist() == [5.0, 20.0, 60.0]
    assert times["constrained"].sizes.tolist() == [2.0, 9.0]
    assert times["points"].sizes.tolist() == [3.0, 8.0]
    for sweep in times.values():
        assert all((seconds > 0.0).all() for seconds in sweep.seconds.values())
    assert heard[-1] == 1.0
