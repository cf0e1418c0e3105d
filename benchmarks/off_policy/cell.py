"""One cell of the study: an algorithm with a rail or without, and a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, final

from typing_extensions import override

from benchmarks.cells.cell import HOLDING_MODELS, Cell, in_words
from benchmarks.off_policy.setting import Arm, Setting
from benchmarks.off_policy.summary import MEANING, Summary, summary_of
from benchmarks.off_policy.training import train


@final
@dataclass(frozen=True)
class OffPolicyCell(Cell):
    """One arm of a setting with one seed.

    Attributes:
        setting: what learns where.
        arm: with a rail or without.
        seed: of everything.
    """

    setting: Setting
    arm: Arm
    seed: int

    @property
    @override
    def name(self) -> str:
        return f"{self.setting.name}-{self.arm}-{self.seed}"

    @property
    @override
    def known(self) -> Mapping[str, Any]:
        setting = self.setting
        return {
            "setting": [setting.environment, setting.steps, setting.algorithm.__name__],
            "options": {key: str(value) for key, value in setting.options.items()},
            "margin": None if self.arm == "plain" else setting.margin,
            "constraints": in_words(setting.constraints),
            "summary": MEANING,
        }

    @property
    @override
    def code(self) -> tuple[str, ...]:
        return () if self.arm == "plain" else HOLDING_MODELS

    @override
    def trained(self, stop: Callable[[], bool]) -> Summary:
        run = train(self.setting, self.arm, self.seed, stop)
        return summary_of(run, self.setting.steps)
