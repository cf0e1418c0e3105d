"""How many runs one command can keep: the streams of hundreds of workers, as fast as it takes them.

What a run sends is taken from a real one. Actors of Ray that have it ready play so many hosts; the
command hears them as it hears hosts, and makes the changes of so many folders. For every second of
all these runs, that takes it a certain time, from which follows how many it can keep.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter, process_time
from typing import Any, final

import handrail as hr
from benchmarks.cluster.overhead import several_nodes
from handrail.executors.executor import Message
from handrail.executors.parcel import Changes, Parcel
from handrail.executors.ray_executor import _GATHER, _Answer, _Guest, _Hosts, _imported_ray
from handrail.executors.worker import Envelope
from handrail.runs.group import _Learning

_PLAYERS = 2  # actors, that play all hosts
_ENDLESS = 10**6  # episodes


@final
@dataclass(frozen=True)
class Stream:
    """What a run sent.

    Attributes:
        windows: the contents of its messages, by the answer of its host that had them.
        seconds: that the run took.
    """

    windows: tuple[tuple[Any, ...], ...]
    seconds: float

    @property
    def messages(self) -> int:
        """In all answers."""
        return sum(map(len, self.windows))

    @property
    def sent(self) -> int:
        """Bytes."""
        return sum(len(pickle.dumps(one)) for window in self.windows for one in window)

    @property
    def files(self) -> tuple[bytes, ...]:
        """Whole ones: checkpoints, most of all."""
        changes = [one for window in self.windows for one in window if isinstance(one, Changes)]
        return tuple(content for one in changes for content in one.whole.values())


@final
@dataclass(frozen=True)
class Throughput:
    """What it takes to keep runs.

    Attributes:
        hosts: that were played.
        checkpoint_seconds: of the run that they play.
        run_seconds: of all runs together, that were heard.
        messages: in them.
        sent: bytes in them.
        checkpoint: bytes of the largest file.
        seconds: until all of it was heard and kept.
        processor: seconds of the command's own process in that time.
        writing: seconds in that time in which folders were written.
    """

    hosts: int
    checkpoint_seconds: float
    run_seconds: float
    messages: int
    sent: int
    checkpoint: int
    seconds: float
    processor: float
    writing: float

    @property
    def kept(self) -> float:
        """Runs that one command can keep, as it went."""
        return self.run_seconds / self.seconds

    @property
    def kept_by_processor(self) -> float:
        """The same, by its processor time alone: waits for others and for the disk left out."""
        return self.run_seconds / self.processor

    @property
    def kept_by_writing(self) -> float:
        """The same, by the time of writing alone."""
        return self.run_seconds / self.writing


def measure_throughput(hosts: int, seconds: float, checkpoint_seconds: float) -> Throughput:
    """With so many hosts, each of which sends what a run sends in so many seconds."""
    stream = record_stream(seconds, checkpoint_seconds)
    ray = _imported_ray()
    with several_nodes() as cluster, TemporaryDirectory() as folder:
        ray.init(cluster.address, log_to_driver=False, logging_level=logging.ERROR)
        try:
            took, processor, writing = _heard(ray, stream, hosts, Path(folder))
        finally:
            ray.shutdown()
    return Throughput(
        hosts=hosts,
        checkpoint_seconds=checkpoint_seconds,
        run_seconds=hosts * stream.seconds,
        messages=hosts * stream.messages,
        sent=hosts * stream.sent,
        checkpoint=max(map(len, stream.files)),
        seconds=took,
        processor=processor,
        writing=writing,
    )


def record_stream(seconds: float, checkpoint_seconds: float) -> Stream:
    """What a run of Cartpole sends, as it is bundled."""
    sent: list[tuple[float, Any]] = []
    with TemporaryDirectory() as folder:
        book = hr.rulebook.with_settings(hr.load_rulebook("cartpole"), episodes=_ENDLESS)
        run = hr.Run.create(Path(folder) / "seed-0", book)
        parcel = Parcel.of(_Learning(run.folder, checkpoint_seconds))
        start = monotonic()
        parcel.run(
            lambda message: sent.append((monotonic() - start, message)),
            lambda: monotonic() - start > seconds,
        )
        took = monotonic() - start
    windows = tuple(
        tuple(message for at, message in sent if int(at / _GATHER) == window)
        for window in range(int(took / _GATHER) + 1)
    )
    return Stream(windows, took)


class _Player:
    """Has the answers of many hosts ready."""

    def __init__(self, hosts: Sequence[int], windows: Sequence[Sequence[Any]]) -> None:
        self._left = {
            host: [
                _Answer(tuple(Envelope(pickle.dumps(Message(host, one)), False) for one in window))
                for window in reversed(windows)
            ]
            for host in hosts
        }

    def listen(self, host: int) -> _Answer:
        return self._left[host].pop()


@final
@dataclass(frozen=True)
class _Seat:
    """One host of a player, as an actor of its own would be called."""

    player: Any
    host: int

    @property
    def listen(self) -> _Seat:
        return self

    def remote(self) -> Any:
        return self.player.listen.remote(self.host)


def _heard(ray: Any, stream: Stream, hosts: int, folder: Path) -> tuple[float, float, float]:
    """Seconds, those of the processor, and those of writing."""
    tasks = [_Learning(folder / f"seed-{i}", checkpoint_seconds=0.0) for i in range(hosts)]
    for task in tasks:
        task.folder.mkdir()
    work = _Hosts(ray, tasks, hosts, None, lambda: None)
    kind = ray.remote(num_cpus=0)(_Player)
    players = [kind.remote(range(one, hosts, _PLAYERS), stream.windows) for one in range(_PLAYERS)]
    seats = [_Seat(players[host % _PLAYERS], host) for host in range(hosts)]
    ray.get([player.listen.remote(one) for one, player in enumerate(players)])  # they are ready
    written = _written_by(work)
    start, processor = perf_counter(), process_time()
    left = dict.fromkeys(range(hosts), len(stream.windows) - 1)
    waited_for = {}
    for host, seat in enumerate(seats):
        guest = _Guest(seat, seat.listen.remote(), arrived=True, number=host)
        waited_for[guest.answer] = guest
    while waited_for:
        ready, _ = ray.wait(list(waited_for), num_returns=len(waited_for), timeout=0.1)
        for answer in ready:
            guest = waited_for.pop(answer)
            host = guest.number or 0
            left[host] -= 1
            if left[host] == 0:
                guest.number = None  # asked for nothing more
            for _ in work._heard(guest, answer):
                pass
            if guest.answer is not None:
                waited_for[guest.answer] = guest
    return perf_counter() - start, process_time() - processor, sum(written)


def _written_by(work: _Hosts) -> list[float]:
    """Where the seconds of writing will be."""
    seconds: list[float] = []
    make = work._made

    def timed(changes: Changes, number: int) -> str | None:
        start = perf_counter()
        try:
            return make(changes, number)
        finally:
            seconds.append(perf_counter() - start)

    work._made = timed  # type: ignore[method-assign]
    return seconds
