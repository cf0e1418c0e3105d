"""The page says what was measured."""

from __future__ import annotations

from benchmarks.cluster.disasters import Disasters
from benchmarks.cluster.overhead import Overhead
from benchmarks.cluster.report import disasters_part, overhead_part, page, throughput_part
from benchmarks.cluster.throughput import Throughput
from benchmarks.harness import Timings


def test_the_page() -> None:
    timings = Timings({"processes": (10.0, 20.0, 10.0), "ray": (11.0, 21.0, 10.5)})
    overhead = Overhead(20, 150, timings, same=True)
    throughput = Throughput(500, 5.0, 5000.0, 100_000, 10**9, 5 * 10**5, 20.0, 10.0, 5.0)
    disasters = Disasters({"node": 10, "worker": 40}, 45, 1, groups=8, runs=6, same=8)
    text = page(
        [overhead_part([overhead]), throughput_part([throughput]), disasters_part(disasters)]
    )
    assert "| 150 | 10, 20, 10 | 11, 21, 10 | **1.10** | met |" in text
    assert "All turns gave the same bytes." in text
    assert "| 5 | 200 | 20 | 2.00 | 1.00 | 250 | 500 | 1000 |" in text
    assert "50 SIGKILLs at random moments (10 nodes, 40 workers;" in text
    assert "Of 8 groups, **8** have the bytes of quiet processes" in text
