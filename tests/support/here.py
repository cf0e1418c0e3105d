"""An executor for tests in which processes are not the matter."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, final

from handrail.errors import HandrailError
from handrail.executors.executor import End, Executor, Message, Task, Work


@final
class Here(Executor):
    """Does tasks in this process: to start others takes longer than these tests.

    Args:
        stopped: what a task is told when it asks whether to stop.
    """

    def __init__(self, stopped: Callable[[], bool] = lambda: False) -> None:
        self._stopped = stopped

    def begin(self, tasks: Sequence[Task]) -> Work:
        return Undone(tasks, self._stopped)


@final
class Undone(Work):
    """What is left of them."""

    def __init__(self, tasks: Sequence[Task], stopped: Callable[[], bool]) -> None:
        self._left, self._stopped = list(enumerate(tasks)), stopped

    def events(self) -> Iterator[Message | End]:
        number, task = self._left.pop(0)
        messages: list[Any] = []
        failure = None
        try:
            task.run(messages.append, self._stopped)
        except HandrailError as error:
            failure = f"{task.name}: {error}"
        yield from (Message(number, one) for one in messages)
        yield End(number, failure)

    def stop(self) -> None:
        pass

    def kill(self) -> None:
        pass

    def close(self) -> None:
        pass
