"""The same runs in processes and on a cluster of several nodes, in turns."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from typing_extensions import override

import handrail as hr
from benchmarks.harness import Timings, take_turns
from handrail.executors import Executor, ProcessExecutor, RayExecutor, Watcher
from handrail.executors.ray_executor import _imported_ray

_NODES = 2  # of one core each, and one without, where the command is


@final
@dataclass(frozen=True)
class Overhead:
    """What the cluster costs.

    Attributes:
        runs: that were learned per turn.
        episodes: of each.
        timings: of "processes" and "ray", which was running already.
        same: whether all runs were the same bit for bit.
    """

    runs: int
    episodes: int
    timings: Timings
    same: bool

    @property
    def ratio(self) -> float:
        """How many times as long the cluster takes."""
        return self.timings.ratio("ray", "processes")


@contextmanager
def several_nodes(nodes: int = _NODES) -> Iterator[Any]:
    """A cluster of raylets on this machine, each a node of one core."""
    _imported_ray()  # quiet
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    # No handlers of signals: nodes may be added in any thread, and `finally` ends them.
    head = {"num_cpus": 0, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=head, shutdown_at_exit=False)
    try:
        for _ in range(nodes):
            cluster.add_node(num_cpus=1)
        yield cluster
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


def measure_overhead(runs: int, episodes: int, rounds: int) -> Overhead:
    """In turns, from new folders each time."""
    contents: set[str] = set()
    with several_nodes() as cluster:
        places: dict[str, Executor] = {
            "processes": ProcessExecutor(_NODES),
            "ray": RayExecutor(cluster.address, _NODES),
        }

        def learned(place: str) -> None:
            with TemporaryDirectory() as folder:
                contents.add(digest_of(learn_group(Path(folder), runs, episodes, places[place])))

        tasks = {name: (lambda name=name: learned(name)) for name in places}
        timings = take_turns(tasks, rounds, warm_up=0)
    return Overhead(runs, episodes, timings, same=len(contents) == 1)


def learn_group(folder: Path, seeds: int, episodes: int, executor: Executor) -> list[hr.Run]:
    """Cartpole as it is bundled, all seeds learned."""
    runs = start_group(folder, seeds, episodes)
    outcome = hr.runs.learn_all(runs, executor, Nobody())
    if outcome.failures or outcome.stopped:
        raise RuntimeError("\n".join(outcome.failures) or "stopped")
    return runs


def start_group(folder: Path, seeds: int, episodes: int) -> list[hr.Run]:
    """The same, none learned yet."""
    book = hr.rulebook.with_settings(hr.load_rulebook("cartpole"), episodes=episodes)
    return hr.runs.start_runs(folder, book, seeds)


def digest_of(runs: list[hr.Run]) -> str:
    """Of the metrics and the last checkpoint of every run."""
    digest = hashlib.sha256()
    for run in runs:
        digest.update((run.folder / "metrics.jsonl").read_bytes())
        digest.update(run.checkpoints()[-1].read_bytes())
    return digest.hexdigest()


class Nobody(Watcher):
    """Does not look."""

    @override
    def on_report(self, number: int, message: Any) -> None:
        pass

    @override
    def on_end(self, number: int) -> None:
        pass

    @override
    def on_notice(self, text: str) -> None:
        pass
