"""Processes of this machine."""

from __future__ import annotations

import pickle
from collections import deque
from collections.abc import Iterator, Sequence
from multiprocessing import connection
from typing import Any, final

from typing_extensions import override

from handrail.executors.executor import End, Executor, Message, Task, Work
from handrail.executors.worker import Worker, WorkerDied

_WAIT = 0.1  # seconds for something to happen
_KILLED = "A process was killed, perhaps for want of memory. What was recorded is kept."


@final
class ProcessExecutor(Executor):
    """Processes of this machine. Should the process that watches be killed, they end, too.

    Args:
        processes: at most so many tasks at a time.
        modules: to import in each process: those that register the user's environments.
    """

    def __init__(self, processes: int, modules: Sequence[str] = ()) -> None:
        self._processes, self._modules = processes, tuple(modules)

    @override
    def begin(self, tasks: Sequence[Task]) -> Work:
        return _Processes(tasks, min(self._processes, len(tasks)), self._modules)


@final
class _Processes(Work):
    """Tasks in as many workers as there may be; one that dies takes its task along, no other."""

    def __init__(self, tasks: Sequence[Task], processes: int, modules: tuple[str, ...]) -> None:
        self._tasks, self._modules = tasks, modules
        self._waiting = deque(range(len(tasks)))
        self._stopped = False
        self._workers = {Worker(modules): None for _ in range(processes)}
        self._numbers: dict[Worker, int] = {}  # of the task that each has

    @override
    def events(self) -> Iterator[Message | End]:
        yield from self._hand_out()
        pipes: dict[Any, Worker] = {one.connection: one for one in self._numbers}
        for ready in connection.wait(list(pipes), timeout=_WAIT):
            yield from self._from(pipes[ready])

    def _hand_out(self) -> Iterator[End]:
        """Work for everybody who has none; once all are to stop, for nobody."""
        while self._stopped and self._waiting:
            yield End(self._waiting.popleft(), None)
        idle = [one for one in self._workers if one not in self._numbers]
        for worker in idle[: len(self._waiting)]:
            number = self._waiting.popleft()
            self._numbers[worker] = number
            try:
                worker.begin(number, pickle.dumps(self._tasks[number]))
            except WorkerDied:
                yield self._lost(worker)

    def _from(self, worker: Worker) -> Iterator[Message | End]:
        try:
            said = worker.said()
        except WorkerDied:
            yield self._lost(worker)
            return
        for envelope in said:
            if envelope.last:
                del self._numbers[worker]
            yield envelope.opened()

    def _lost(self, worker: Worker) -> End:
        """A worker is replaced; what its task has recorded is in its files."""
        worker.close()
        del self._workers[worker]
        if self._waiting and not self._stopped:
            self._workers[Worker(self._modules)] = None
        return End(self._numbers.pop(worker), _KILLED)

    @override
    def stop(self) -> None:
        self._stopped = True
        for worker in list(self._workers):
            worker.stop()

    @override
    def kill(self) -> None:
        for worker in list(self._workers):
            worker.kill()

    @override
    def close(self) -> None:
        for worker in self._workers:
            worker.close()
