"""One cell of a study: trained in a process of its own, and kept as a file when it is done."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, final

import gymnasium
import stable_baselines3
from typing_extensions import override

from benchmarks.influence.knowledge import sets_of
from benchmarks.influence.setting import Setting
from benchmarks.influence.training import Arm, Training, train
from benchmarks.ppo.scores import Stopped
from handrail._package import VERSION
from handrail._storage import to_json, write_atomically
from handrail._threads import one_thread
from handrail.executors import FolderTask


@final
@dataclass(frozen=True)
class Cell(FolderTask):
    """One arm with one seed; studies that need the same one share it.

    Attributes:
        setting: what learns where.
        knowledge: the name of a set of the environment.
        arm: the way in which the learner is told.
        seed: of everything.
        folder: of its file.
    """

    setting: Setting
    knowledge: str
    arm: Arm
    seed: int
    folder: Path

    @property
    @override
    def name(self) -> str:
        return f"{self.setting.name}-{self.knowledge}-{self.arm}-{self.seed}"

    @property
    def path(self) -> Path:
        """Other settings, knowledge or versions are another file."""
        return self.folder / f"{self.name}-{self._fingerprint()}.json"

    def _fingerprint(self) -> str:
        known = {
            **asdict(self.setting),
            "options": {key: str(value) for key, value in self.setting.options.items()},
            "constraints": [str(one) for one in self._constraints],
            "states": [one.states.tolist() for one in self._constraints],
            "versions": [VERSION, stable_baselines3.__version__, gymnasium.__version__],
        }
        return sha256(to_json(known).encode()).hexdigest()[:8]

    @property
    def _constraints(self) -> tuple[Any, ...]:
        return sets_of(self.setting.environment)[self.knowledge]

    @property
    def is_done(self) -> bool:
        """Whether it need not be trained again."""
        return self.path.exists()

    @override
    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        """Train and write; nothing is written if it was stopped."""
        try:
            with one_thread():
                trained = train(self.setting, self._constraints, self.arm, self.seed, stop)
        except Stopped:
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        write_atomically(self.path, to_json(asdict(trained)).encode())

    @override
    def can_be_interrupted(self) -> bool:
        """What is not finished is done again anyway."""
        return True

    @override
    def moved(self, folder: Path) -> Cell:
        return replace(self, folder=folder)

    @override
    def files(self) -> Iterable[Path]:
        return ()  # it begins from nothing, and its folder has those of all others

    def read(self) -> Training:
        """What was written."""
        values = json.loads(self.path.read_text())
        lists = {name: tuple(values[name]) for name in ("scores", "ends")}
        return Training(**{**values, **lists})
