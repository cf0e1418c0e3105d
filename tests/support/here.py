"""An executor for tests in which processes are not the matter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from handrail.errors import HandrailError
from handrail.executors.executor import End, Executor, Message, Task, Work


class Here(Executor):
    """Does tasks in this process: to start others takes longer than these tests."""

    def begin(self, tasks: Sequence[Task]) -> Work:
        return Undone(tasks)


class Undone(Work):
    def __init__(self, tasks: Sequence[Task]) -> None:
        self._left = list(enumerate(tasks))

    def events(self) -> Iterator[Message | End]:
        number, task = self._left.pop(0)
        messages: list[Any] = []
        failure = None
        try:
            task.run(messages.append, lambda: False)
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
