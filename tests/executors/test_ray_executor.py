"""Runs on a Ray cluster of several nodes: whatever dies, they are what they would be at home."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from handrail.errors import InvalidArgument
from handrail.executors import RayExecutor, Watcher, provision
from handrail.rulebook import Rulebook, parse, with_settings
from handrail.runs import Run, learn_all, start_runs
from handrail.runs.metrics import TIMINGS
from tests.executors.test_executor import Counting, Dying, Notes, interrupt
from tests.runs.test_run import contents

pytest.importorskip("ray", reason="Ray is not installed: pip install 'handrail[ray]'")
pytestmark = [
    pytest.mark.skipif(os.name == "nt", reason="clusters of several nodes need a Unix"),
    pytest.mark.filterwarnings("ignore"),  # Ray's own
]

# No node has these files: they are sent. Where a worker is, and whose, is written down.
HELPER = "SECONDS = 0.02\n"
MODULE = """
import multiprocessing, os, time
from pathlib import Path
import gymnasium as gym
import numpy as np
import slowness

class Corridor(gym.Env):
    observation_space = gym.spaces.Box(0.0, 1.0, (2,))
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        time.sleep(slowness.SECONDS)
        self.position = 0.1 * self.np_random.random()
        return self.seen(), {}

    def step(self, action):
        self.position = min(max(self.position + (0.1 if action else -0.1), 0.0), 1.0)
        return self.seen(), float(self.position), self.position >= 1.0, False, {}

    def seen(self):
        return np.array([self.position, 1.0], dtype=np.float32)

gym.register("SlowCorridor-v0", entry_point=Corridor, max_episode_steps=20)
host = multiprocessing.parent_process()
if host is not None:
    Path(PLACE, f"{time.time_ns()}-{os.getpid()}-{host.pid}").touch()
"""
TEXT = """
environment: SlowCorridor-v0
observations: [position, one]
actions: [back, on]
constraints:
  - {name: go on, where: {position: [0.2, 0.6], one: 1}, require: on >= 0.9}
settings: {episodes: 60, step_size: 1e-3, network: {hidden: [16]}}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one core each, and one with none."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    try:
        cluster.add_node(num_cpus=1)
        cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of modules that only this process has; where each worker is gets written there."""
    folder = tmp_path_factory.mktemp("modules")
    preamble = f"PLACE = {str(folder)!r}\n"
    (folder / "slow_corridor.py").write_text(preamble + MODULE)
    (folder / "slowness.py").write_text(HELPER)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        yield folder


@pytest.fixture(scope="module")
def executor(cluster: Any, places: Path) -> RayExecutor:
    return RayExecutor(cluster.address, modules=["slow_corridor"])


def book(**settings: Any) -> Rulebook:
    __import__("slow_corridor")
    return with_settings(parse(TEXT, "corridor"), **settings)


def workers(places: Path) -> list[tuple[int, int]]:
    """Process numbers of workers and of their hosts, the newest last."""
    found = sorted(one.name for one in places.iterdir() if one.name[0].isdigit())
    pairs = [name.split("-")[1:] for name in found]
    return [(int(own), int(host)) for own, host in pairs]


@pytest.mark.slow
def test_whatever_dies_the_runs_are_what_they_would_be_at_home(
    executor: RayExecutor, cluster: Any, places: Path, tmp_path: Path
) -> None:
    def kill(which: int) -> None:
        with suppress(ProcessLookupError):  # its task has ended already
            os.kill(workers(places)[-1][which], signal.SIGKILL)

    def lose_a_node() -> None:
        cluster.remove_node(cluster.list_all_nodes()[1], allow_graceful=False)
        cluster.add_node(num_cpus=1)

    worker, host = 0, 1
    unlucky = Unlucky({5: lambda: kill(worker), 50: lose_a_node, 90: lambda: kill(host)})
    runs = start_runs(tmp_path / "there", book(), seeds=3, modules=["slow_corridor"])
    outcome = learn_all(runs, executor, unlucky, checkpoint_seconds=0.2)
    assert not outcome.failures
    assert not unlucky.disasters
    assert len(unlucky.notices) >= 2
    assert {text.partition(": ")[2] for text in unlucky.notices} == {
        "The process that did it died. It goes on elsewhere."
    }
    for run in runs:
        at_home = Run.create(tmp_path / "here" / str(run.seed), book(seed=run.seed))
        at_home.learn()
        assert run.finished
        assert contents(run) == contents(at_home)
        assert len(run.checkpoints()) == 2
        assert len((run.folder / TIMINGS).read_text().splitlines()) == 60


@dataclass
class Unlucky(Watcher):
    """Something bad happens after so many reports."""

    disasters: dict[int, Callable[[], None]]
    reports: int = 0
    notices: list[str] = field(default_factory=list)

    def on_report(self, number: int, message: Any) -> None:
        self.reports += 1
        self.disasters.pop(self.reports, lambda: None)()

    def on_end(self, number: int) -> None:
        pass

    def on_notice(self, text: str) -> None:
        self.notices.append(text)


def test_reports_failures_and_a_task_that_hosts_die_of(cluster: Any) -> None:
    notes = Notes()
    tasks = [Counting(0, upto=120), Dying(), Counting(2, failure="it cannot be."), Counting(3)]
    outcome = RayExecutor(cluster.address, jobs=2, modules=["tests"]).run(tasks, notes)
    assert sorted(outcome.failures) == [
        "dying: The process that did it died 5 times without getting on, perhaps for want of "
        "memory. What was recorded is kept.",
        "task 2: it cannot be.",
    ]
    for number, upto in ((0, 120), (2, 3), (3, 3)):
        told = [message for one, message in notes.reports if one == number]
        assert told == [(number, count) for count in range(upto)]
    assert sorted(notes.ends) == [0, 1, 2, 3]
    assert len(notes.notices) == 4


def test_an_interrupt_ends_tasks_where_they_can_be_continued(cluster: Any) -> None:
    notes = Notes(on_first=interrupt)
    tasks = [Counting(0, 5000, 0.02), Counting(1)]
    outcome = RayExecutor(cluster.address, jobs=1, modules=["tests"]).run(tasks, notes)
    assert outcome.stopped
    assert not outcome.failures
    assert {number for number, _ in notes.reports} == {0}  # the other one never began
    assert sorted(notes.ends) == [0, 1]


def test_a_run_that_somebody_else_learns(executor: RayExecutor, tmp_path: Path) -> None:
    (run,) = start_runs(tmp_path, book(), seeds=1, modules=["slow_corridor"])
    with run.kept_from_others():
        outcome = learn_all([run], executor, Notes())
    assert outcome.failures == (
        f"{run.folder}: Another process is learning in {run.folder}. Wait for it, or stop it "
        "first.",
    )


def test_other_versions_are_refused_before_anything_is_learned(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = provision.versions_here()
    monkeypatch.setattr(provision, "computing_versions", lambda: {**there, "torch": "1.0"})
    notes = Notes()
    both = re.escape(f"has torch {there['torch']} (here: 1.0).")
    with pytest.raises(InvalidArgument, match=both):
        RayExecutor(cluster.address).run([Counting(0)], notes)
    assert not notes.reports


def test_an_address_where_nothing_is() -> None:
    with pytest.raises(InvalidArgument, match=r"No Ray cluster can be used at 127.0.0.1:1: .*"):
        RayExecutor("127.0.0.1:1").run([Counting(0)], Notes())
