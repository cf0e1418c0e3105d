"""The best policy of a run, kept beside the last: learning does not only go up.

Best is judged by what training shows anyway, the average score of the last 100 episodes, and only
once there are so many: of fewer, a lucky first episode would stay the best forever. The learner is
kept whole, as in any checkpoint, so its constraints hold as those of the last one do.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, final

from pydantic import BaseModel, Field, ValidationError

from handrail._storage import load_state, save_state
from handrail.errors import InvalidRun
from handrail.learning import Checkpoint, Learner
from handrail.settings import STRICT, first_finding

BEST = "best.safetensors"
BEST_WINDOW = 100  # episodes
_ENTRY = "best"  # in the state of the file


@final
class _Standing(BaseModel):
    model_config = STRICT

    average: Annotated[float, Field(allow_inf_nan=False)]


@final
@dataclass(frozen=True)
class BestPolicy:
    """A learner when it did best.

    Attributes:
        checkpoint: the learner, whole.
        average: score of the 100 episodes that it had learned from last.
    """

    checkpoint: Checkpoint
    average: float

    def save(self, path: Path) -> None:
        """Write it to one file, atomically."""
        tensors, state = self.checkpoint.pack()
        standing = _Standing(average=self.average)
        save_state(path, tensors, {**state, _ENTRY: standing.model_dump()})

    @classmethod
    def load(cls, path: Path) -> BestPolicy:
        """Read it back; `InvalidRun` if a byte differs, or if the file is something else."""
        tensors, state = load_state(path)
        checkpoint = Checkpoint.unpack(tensors, state, path)
        if _ENTRY not in state:
            raise InvalidRun(f"{path} is a saved learner, but does not say how good it was.")
        try:
            return cls(checkpoint, _Standing.model_validate(state[_ENTRY]).average)
        except ValidationError as error:
            raise InvalidRun(f"{path}: {_ENTRY}.{first_finding(error)}") from error


@final
class BestKeeper:
    """Keeps the best policy of a run that learns.

    On the disk it is never older than the newest checkpoint. It may be newer, where a process was
    killed between the two: then the episodes between them come again, and it with them.

    Args:
        path: of the file.
        scores: of the episodes that were learned from, the newest last.
    """

    def __init__(self, path: Path, scores: Iterable[float]) -> None:
        self._path = path
        self._recent = deque(scores, maxlen=BEST_WINDOW)
        self._highest = BestPolicy.load(path).average if path.exists() else -math.inf
        self._unwritten: BestPolicy | None = None

    def count(self, score: float) -> None:
        """Of one more episode."""
        self._recent.append(score)

    def consider(self, agent: Learner) -> None:
        """Keep the learner if its last episodes were the best so far."""
        if len(self._recent) < BEST_WINDOW:
            return
        average = math.fsum(self._recent) / BEST_WINDOW
        if average > self._highest:
            self._highest = average
            self._unwritten = BestPolicy(agent.checkpoint(), average)

    def write(self) -> None:
        """What is not on the disk yet."""
        if self._unwritten is not None:
            self._unwritten.save(self._path)
            self._unwritten = None
