"""The machines of a Ray cluster, which share no disk.

A task is done by a `_Host`: an actor of Ray, on whichever machine has a free core, with a worker
process of its own. Whoever watches asks every host what its worker said, and makes the changes of
the task's folder at home. A host that is gone, because its process, its machine or the network
broke, costs what its task did since the last changes: the task goes on elsewhere from there.

The user's modules travel by value (`module_files`), since Ray's own runtime environments want
packages on every machine that plain Ray does not bring.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import socket
import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from tempfile import mkdtemp
from time import monotonic
from typing import Any, final

from typing_extensions import override

from handrail.errors import HandrailError, InvalidArgument, StorageFailure
from handrail.executors.executor import End, Executor, Message, Task, Work
from handrail.executors.fate import Fate
from handrail.executors.parcel import Changes, FolderTask, Parcel
from handrail.executors.provision import (
    module_files,
    refuse_missing,
    refuse_other_versions,
    versions_here,
)
from handrail.executors.worker import Envelope, Worker, WorkerDied

_WAIT = 0.1  # seconds for something to happen
_GATHER = 0.4  # seconds that a host listens to its worker before it answers
_LOOK = 5.0  # seconds between looks at how large the cluster is
_GOODBYE = 5.0  # seconds for hosts to clear up
_KNOCK = 10.0  # seconds for a cluster to be reached
_STORE = 2**28  # bytes of shared memory, of a cluster that is started here


@final
class RayExecutor(Executor):
    """The machines of a Ray cluster; tasks that keep their files in a folder are sent with them.

    Args:
        address: of a running cluster; by default that in RAY_ADDRESS, else a cluster is started on
            this machine and ended with the tasks. Where Ray is initialised already, that is used.
        jobs: at most so many tasks at a time; by default one per core of the cluster.
        modules: to import wherever a task is done; those that are installed nowhere are sent.
    """

    def __init__(
        self, address: str | None = None, jobs: int | None = None, modules: Sequence[str] = ()
    ) -> None:
        refuse_missing("ray", "ray")
        self._address, self._jobs, self._modules = address, jobs, tuple(modules)

    @override
    def begin(self, tasks: Sequence[Task]) -> Work:
        ray = _imported_ray()
        leave = _join(ray, self._address, self._jobs)
        try:
            _refuse_other_nodes(ray)
            provisions = ray.put((self._modules, module_files(self._modules)))
            return _Hosts(ray, tasks, self._jobs, provisions, leave)
        except BaseException:
            leave()
            raise


def _imported_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is told to anybody
    # Else it prints pages about every machine that is gone; read when it is imported.
    os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".")
    import ray  # noqa: PLC0415

    return ray


def _join(ray: Any, address: str | None, jobs: int | None) -> Callable[[], None]:
    """Be in a cluster; what to call to be no more."""
    if ray.is_initialized():
        return lambda: None
    wanted = address or os.environ.get("RAY_ADDRESS")
    logging.getLogger("ray").setLevel(logging.ERROR)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not wanted:
        options |= {"num_cpus": jobs, "include_dashboard": False, "object_store_memory": _STORE}
    try:
        if wanted:
            _knock(wanted)
        ray.init(wanted or "local", **options)
    except Exception as error:  # of a dozen kinds, by what is wrong with the address
        raise InvalidArgument(
            f"No Ray cluster can be used at {wanted or 'this machine'}: {error}. Give the address "
            "of a running one (--on HOST:PORT, or RAY_ADDRESS), or none to start one here."
        ) from error
    return ray.shutdown  # type: ignore[no-any-return]


def _knock(address: str) -> None:
    """Ray itself would try for minutes to reach a machine where nobody listens."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host, int(port)), _KNOCK).close()


def _refuse_other_nodes(ray: Any) -> None:
    """Every machine that is there now must compute what this one would."""
    from ray.exceptions import RayError, RayTaskError  # noqa: PLC0415

    nodes = [one for one in ray.nodes() if one["Alive"]]
    answers = {one["NodeID"]: _ask_node(ray, one["NodeID"]) for one in nodes}
    for node in nodes:
        place = _place_of(node)
        try:
            versions = ray.get(answers[node["NodeID"]])
        except RayTaskError as error:
            raise InvalidArgument(
                f"{place} cannot do tasks of Handrail: {str(error).strip().splitlines()[-1]} "
                "Install the same versions there as here."
            ) from error
        except RayError:
            continue  # it has gone meanwhile
        refuse_other_versions(versions, place)


def _ask_node(ray: Any, node: str) -> Any:
    from ray.util.scheduling_strategies import (  # noqa: PLC0415
        NodeAffinitySchedulingStrategy,
    )

    where = NodeAffinitySchedulingStrategy(node, soft=False)
    return (
        ray.remote(versions_here)
        .options(num_cpus=0, max_retries=0, scheduling_strategy=where)
        .remote()
    )


def _place_of(node: Mapping[str, Any]) -> str:
    return f"The machine {node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


# Where tasks are done


@final
@dataclass(frozen=True)
class _Answer:
    """What a host says of its worker."""

    envelopes: tuple[Envelope, ...]
    died: bool = False


@final
class _Host:
    """An actor of Ray: carries tasks to a worker process, and what that says back.

    The worker is a process of its own: signals, threads and deaths are then as they are at home.
    """

    def __init__(self, provisions: tuple[tuple[str, ...], Mapping[str, bytes]]) -> None:
        modules, files = provisions
        self._place = Path(mkdtemp(prefix="handrail-"))
        # Workers have the path and the variables of who starts them.
        os.environ["TMPDIR"] = str(self._place)
        if files:
            Changes(whole=files).make(self._place / "modules")
            sys.path.insert(0, str(self._place / "modules"))
        self._worker = Worker(modules)

    def versions(self) -> dict[str, str]:
        return versions_here()

    def begin(self, number: int, task: bytes) -> _Answer:
        try:
            self._worker.begin(number, task)
        except WorkerDied:
            return _Answer((), died=True)
        return self.listen()

    def listen(self) -> _Answer:
        """What the worker said within a moment; at once, if its task has ended."""
        envelopes: list[Envelope] = []
        until = monotonic() + _GATHER
        try:
            while (left := until - monotonic()) > 0.0:
                connection.wait([self._worker.connection], left)
                envelopes += self._worker.said()
                if envelopes and envelopes[-1].last:
                    break
        except WorkerDied:
            self._clear()
            return _Answer(tuple(envelopes), died=True)
        return _Answer(tuple(envelopes))

    def stop(self) -> None:
        self._worker.stop()

    def leave(self) -> None:
        """With nothing left to do."""
        self._worker.close()
        self._clear()

    def _clear(self) -> None:
        shutil.rmtree(self._place, ignore_errors=True)


# Who watches them


@final
@dataclass(eq=False)
class _Guest:
    """A host as seen from here.

    Attributes:
        actor: what Ray has for it.
        answer: that is waited for: its versions at first, then what its worker says.
        number: of the task that it has.
        held: what keeps others from doing that.
    """

    actor: Any
    answer: Any
    arrived: bool = False
    number: int | None = None
    held: ExitStack = field(default_factory=ExitStack)


@final
class _Hosts(Work):
    """Tasks on the hosts of a cluster."""

    def __init__(
        self,
        ray: Any,
        tasks: Sequence[Task],
        jobs: int | None,
        provisions: Any,
        leave: Callable[[], None],
    ) -> None:
        self._ray, self._tasks, self._jobs, self._provisions = ray, tasks, jobs, provisions
        self._leave = leave
        self._waiting = deque(range(len(tasks)))
        self._fates = [Fate(number, task) for number, task in enumerate(tasks)]
        self._guests: list[_Guest] = []
        self._stopped = self._told_to_stop = False
        self._room, self._looked_at = 0, float("-inf")
        # Cores are for tasks alone, one each; what dies is replaced by us, with its task.
        self._actor = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(_Host)

    @override
    def events(self) -> Iterator[Message | End]:
        if self._stopped:
            yield from self._ask_all_to_stop()
        else:
            self._call_hosts()
            yield from self._hand_out()
        waited_for = {one.answer: one for one in self._guests if one.answer is not None}
        for answer in self._answered(list(waited_for)):
            yield from self._heard(waited_for[answer], answer)

    def _answered(self, waited_for: list[Any]) -> list[Any]:
        """All that is there, as soon as there is one."""
        if not waited_for:
            return []
        self._ray.wait(waited_for, num_returns=1, timeout=_WAIT)
        there: list[Any]
        there, _ = self._ray.wait(waited_for, num_returns=len(waited_for), timeout=0)
        return there

    def _call_hosts(self) -> None:
        """As many as there are tasks left and cores; those that nobody needs may go."""
        if monotonic() - self._looked_at > _LOOK:
            self._looked_at = monotonic()
            self._room = self._jobs or int(self._ray.cluster_resources().get("CPU", 0))
        busy = sum(one.number is not None for one in self._guests)
        wanted = min(busy + len(self._waiting), max(self._room, 1))
        surplus = max(len(self._guests) - wanted, 0)
        self._part_with(*[one for one in self._guests if one.number is None][:surplus])
        for _ in range(wanted - len(self._guests)):
            actor = self._actor.remote(self._provisions)
            self._guests.append(_Guest(actor, actor.versions.remote()))

    def _hand_out(self) -> Iterator[End]:
        for guest in self._guests:
            while guest.arrived and guest.number is None and self._waiting:
                number = self._waiting.popleft()
                try:
                    guest.held.enter_context(_kept_from_others(self._tasks[number]))
                    parcel = _packed(self._tasks[number])
                except (HandrailError, OSError) as error:
                    guest.held.close()
                    yield End(number, f"{self._tasks[number].name}: {error}")
                    continue
                guest.number, guest.answer = number, guest.actor.begin.remote(number, parcel)

    def _ask_all_to_stop(self) -> Iterator[End]:
        while self._waiting:
            yield End(self._waiting.popleft(), None)
        if not self._told_to_stop:
            self._told_to_stop = True
            self._part_with(*[one for one in self._guests if one.number is None])
            for guest in self._guests:
                guest.actor.stop.remote()

    def _heard(self, guest: _Guest, answer: Any) -> Iterator[Message | End]:
        from ray.exceptions import RayError, RayTaskError  # noqa: PLC0415

        guest.answer = None
        try:
            said = self._ray.get(answer)
        except RayTaskError:
            raise  # a mistake of the program
        except RayError:
            yield from self._lost(guest)
            return
        if not guest.arrived:
            refuse_other_versions(said, "A machine that joined the cluster")
            guest.arrived = True
            return
        yield from self._done(guest, said)

    def _done(self, guest: _Guest, answer: _Answer) -> Iterator[Message | End]:
        for envelope in answer.envelopes:
            event = envelope.opened()
            if isinstance(event, Message) and isinstance(event.content, Changes):
                refusal = self._made(event.content, event.number)
                if refusal is not None:
                    self._part_with(guest)
                    yield End(event.number, refusal)
                    return
                continue
            if isinstance(event, End):
                guest.held.close()
                guest.number = None
            yield event
        if answer.died:
            yield from self._lost(guest)
        elif guest.number is not None:
            guest.answer = guest.actor.listen.remote()

    def _made(self, changes: Changes, number: int) -> str | None:
        """At home, the changes of a task's folder; why they could not be made, if so."""
        task = self._tasks[number]
        assert isinstance(task, FolderTask)  # no other has sent any
        try:
            changes.make(task.folder)
        except StorageFailure as error:
            return f"{task.name}: {error}"
        return None

    def _lost(self, guest: _Guest) -> Iterator[Message | End]:
        """Its task goes on elsewhere, unless it is the task that hosts die of."""
        number = guest.number
        self._part_with(guest)
        if number is None:
            return
        if self._stopped:
            yield End(number, None)
            return
        what = self._fates[number].after_death()
        if isinstance(what, Message):
            self._waiting.appendleft(number)
        yield what

    def _part_with(self, *guests: _Guest) -> None:
        idle = [one.actor.leave.remote() for one in guests if one.arrived and one.number is None]
        if idle:
            self._ray.wait(idle, num_returns=len(idle), timeout=_GOODBYE)
        for guest in guests:
            guest.held.close()
            self._guests.remove(guest)
            self._ray.kill(guest.actor)  # what is unreachable must not go on somewhere

    @override
    def stop(self) -> None:
        self._stopped = True

    @override
    def kill(self) -> None:
        self._stopped = True  # `close` ends them all

    @override
    def close(self) -> None:
        try:
            self._part_with(*self._guests)
        finally:
            self._leave()


def _kept_from_others(task: Task) -> Any:
    return task.kept_from_others() if isinstance(task, FolderTask) else ExitStack()


def _packed(task: Task) -> bytes:
    return pickle.dumps(Parcel.of(task) if isinstance(task, FolderTask) else task)
