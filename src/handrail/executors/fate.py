"""Deaths of those who do a task: it is begun again, unless it is the task that they die of."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import final

from handrail.executors.executor import End, Message, Notice, Task
from handrail.executors.parcel import FolderTask

_DEATHS = 5  # in a row, without getting on: more than bad luck explains


@final
@dataclass
class Fate:
    """What a task has been through.

    Attributes:
        number: of the task.
        task: that may be begun again.
    """

    number: int
    task: Task
    _progress: float = field(default=float("-inf"), init=False)
    _deaths: int = field(default=0, init=False)

    def after_death(self) -> Message | End:
        """What to say of a process that died doing it: that it is the end, or goes on elsewhere."""
        progress = self.task.progress() if isinstance(self.task, FolderTask) else 0.0
        self._deaths = 1 if progress > self._progress else self._deaths + 1
        self._progress = progress
        if self._deaths < _DEATHS:
            notice = Notice("The process that did it died. It goes on elsewhere.")
            return Message(self.number, notice)
        return End(
            self.number,
            f"{self.task.name}: The process that did it died {_DEATHS} times without getting on, "
            "perhaps for want of memory. What was recorded is kept.",
        )
