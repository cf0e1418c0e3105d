"""Kills at random moments, of workers, hosts and nodes; results are those of a quiet place."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, final

from typing_extensions import override

import handrail as hr
from benchmarks.cluster.overhead import (
    Nobody,
    digest_of,
    learn_group,
    several_nodes,
    start_group,
)
from handrail.executors import ProcessExecutor, RayExecutor

_NODES = 2
_CHECKPOINT_SECONDS = 1.0
_LONGEST = 20.0  # seconds between two of them


@final
@dataclass(frozen=True)
class Disasters:
    """What was killed, and what came of it.

    Attributes:
        killed: how many of each kind.
        went_on: how often a run went on elsewhere.
        resumed: how often a group was resumed, because a run had died too often.
        groups: of runs that were learned meanwhile.
        runs: in each.
        same: groups whose runs were the same bit for bit as in quiet processes.
    """

    killed: dict[str, int]
    went_on: int
    resumed: int
    groups: int
    runs: int
    same: int


def measure_disasters(kills: int, runs: int, episodes: int, seed: int = 0) -> Disasters:
    """Learn groups of runs until so much was killed."""
    with TemporaryDirectory() as folder, several_nodes(_NODES) as cluster:
        quiet = learn_group(Path(folder) / "quiet", runs, episodes, ProcessExecutor(_NODES))
        expected = digest_of(quiet)
        found: list[str] = []
        executor = RayExecutor(cluster.address, _NODES)
        killer = _Killer(cluster, kills, random.Random(seed))
        notices = _Notices()
        killer.start()
        resumed = 0
        while killer.is_alive():
            group = start_group(Path(folder) / str(len(found)), runs, episodes)
            sittings = _learn(group, executor, notices)
            resumed += sittings - 1
            found.append(digest_of(group))
    same = sum(one == expected for one in found)
    return Disasters(dict(killer.killed), notices.count, resumed, len(found), runs, same)


def _learn(group: list[hr.Run], executor: RayExecutor, notices: _Notices) -> int:
    """To the end; how often it was begun: runs that died too often are resumed, as users would."""
    sittings = 0
    while unfinished := [run for run in group if not run.finished]:
        hr.runs.learn_all(unfinished, executor, notices, _CHECKPOINT_SECONDS)
        sittings += 1
    return sittings


@dataclass
class _Notices(Nobody):
    """Counts them."""

    count: int = 0

    @override
    def on_notice(self, text: str) -> None:
        self.count += 1


@final
@dataclass
class _Killer(threading.Thread):
    """Kills something every few seconds."""

    cluster: Any
    kills: int
    chance: random.Random
    killed: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        super().__init__(daemon=True)

    __hash__ = threading.Thread.__hash__

    @override
    def run(self) -> None:
        pause = threading.Event()
        while self.killed.total() < self.kills:
            pause.wait(self.chance.uniform(0.5, _LONGEST))
            kind = self.chance.choices(["worker", "host", "node"], [4, 4, 2])[0]
            if kind == "node":
                self._lose_a_node()
            elif not _kill(self.chance, kind):
                continue
            self.killed[kind] += 1

    def _lose_a_node(self) -> None:
        node = self.chance.choice(sorted(self.cluster.worker_nodes, key=lambda one: one.unique_id))
        self.cluster.remove_node(node, allow_graceful=False)
        self.cluster.add_node(num_cpus=1)


def _kill(chance: random.Random, kind: str) -> bool:
    """Whether there was one, in a cluster of this process."""
    found = list(_processes())
    raylets = {one for one, parent, name in found if parent == os.getpid() and "raylet" in name}
    hosts = {one for one, parent, name in found if parent in raylets and "ray::_Host" in name}
    workers = {one for one, parent, name in found if parent in hosts and "spawn" in name}
    candidates = workers if kind == "worker" else hosts
    if not candidates:
        return False
    with suppress(ProcessLookupError):
        os.kill(chance.choice(sorted(candidates)), signal.SIGKILL)
        return True
    return False


def _processes() -> Iterator[tuple[int, int, str]]:
    """Number, parent and command line of those of this system."""
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                name = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield int(folder.name), int(parent), name
