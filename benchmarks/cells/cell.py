"""One cell of a study: what is trained, and by what its training is known again."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from hashlib import sha256
from typing import Any, final

import gymnasium
import stable_baselines3
from typing_extensions import override

from benchmarks.cells.line import Line
from benchmarks.cells.source import digest_of_source
from benchmarks.ppo.scores import Stopped
from handrail import Constraint, Points
from handrail._storage import to_json
from handrail._threads import one_thread
from handrail.constraints import PlacedConstraint
from handrail.executors import Task

# What a rail trains with, besides what is of its learner.
HOLDING = (
    "handrail.enforcement",
    "handrail.tangent",
    "handrail._minimum_norm",
    "handrail.settings",
    "handrail.learning.keeper",
    "handrail.learning.lookout",
)
# On a model of Stable-Baselines3; how its network is read is compared with the model itself.
HOLDING_MODELS = (
    *HOLDING,
    "handrail.sb3.callback",
    "handrail.sb3.keeper",
    "handrail.sb3.experience",
    "handrail.sb3.exploration",
)


def in_words(constraints: Iterable[Constraint]) -> list[Any]:
    """All that they say: regions are known by their bounds, points by their states."""
    found = []
    for one in constraints:
        assert isinstance(one, PlacedConstraint)
        points = isinstance(one.where, Points)
        found.append([str(one), one.states.tolist() if points else None])
    return found


class Cell(Task):
    """One arm with one seed; studies that need the same one share it.

    It is trained wherever an executor has room, and reports its line: whoever watches keeps that.
    """

    seed: int

    @property
    @abstractmethod
    def known(self) -> Mapping[str, Any]:
        """All that its training depends on, as JSON, but for the code."""

    @property
    @abstractmethod
    def code(self) -> tuple[str, ...]:
        """Modules and packages of Handrail that take part in the training."""

    @abstractmethod
    def trained(self, stop: Callable[[], bool]) -> Any:
        """Train, and say what it came to, as a dataclass; `Stopped` if asked to."""

    @property
    @final
    def fingerprint(self) -> str:
        """With other settings, knowledge or versions, another one."""
        versions = [stable_baselines3.__version__, gymnasium.__version__]
        known = {**self.known, "name": self.name, "versions": versions}
        return sha256(to_json(known).encode()).hexdigest()[:8]

    @property
    @final
    def digest(self) -> str | None:
        """Of the code as it is now; None if Handrail takes no part: then it never grows old."""
        return digest_of_source(self.code) if self.code else None

    @override
    @final
    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        """Nothing is reported if it was stopped."""
        code = self.digest  # of what is imported, whatever happens to the files meanwhile
        try:
            with one_thread():
                result = self.trained(stop)
        except Stopped:
            return
        report(Line.of_now(self.name, self.fingerprint, code, result))

    @override
    @final
    def can_be_interrupted(self) -> bool:
        """What is not finished is done again anyway."""
        return True
