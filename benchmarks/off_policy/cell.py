"""One training with one seed, kept as a file when it is done."""

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

from benchmarks.off_policy.setting import Arm, Setting
from benchmarks.off_policy.training import Training, train
from benchmarks.ppo.scores import Stopped
from handrail._package import VERSION
from handrail._storage import to_json, write_atomically
from handrail._threads import one_thread
from handrail.executors import FolderTask


@final
@dataclass(frozen=True)
class Cell(FolderTask):
    """One arm of a setting with one seed.

    Attributes:
        setting: what learns where.
        arm: with a rail or without.
        seed: of everything.
        folder: of its file.
    """

    setting: Setting
    arm: Arm
    seed: int
    folder: Path

    @property
    @override
    def name(self) -> str:
        return f"{self.setting.name}-{self.arm}-{self.seed}"

    @property
    def path(self) -> Path:
        """Other settings, constraints or versions are another file."""
        return self.folder / f"{self.name}-{self._fingerprint()}.json"

    def _fingerprint(self) -> str:
        known = {
            "setting": [self.setting.environment, self.setting.steps, str(self.setting.algorithm)],
            "options": {key: str(value) for key, value in self.setting.options.items()},
            "margin": self.setting.margin,
            "constraints": [one.describe() for one in self.setting.constraints],
            "versions": [VERSION, stable_baselines3.__version__, gymnasium.__version__],
        }
        return sha256(to_json(known).encode()).hexdigest()[:8]

    @property
    def is_done(self) -> bool:
        """Whether it need not be trained again."""
        return self.path.exists()

    @override
    def run(self, report: Callable[[Any], None], stop: Callable[[], bool]) -> None:
        """Train and write; nothing is written if it was stopped."""
        try:
            with one_thread():
                trained = train(self.setting, self.arm, self.seed, stop)
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
