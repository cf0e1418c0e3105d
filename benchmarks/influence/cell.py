"""One cell of the studies: a learner, what it is told and in which way, and a seed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, final

from typing_extensions import override

from benchmarks.cells.cell import HOLDING, HOLDING_MODELS, Cell, in_words
from benchmarks.influence.knowledge import sets_of
from benchmarks.influence.setting import Setting
from benchmarks.influence.shaped_reward import shaping_of
from benchmarks.influence.summary import MEANING, Summary, summary_of
from benchmarks.influence.training import HELD, STRENGTHS, Arm, train
from handrail import Constraint

# What learns, but for how it is kept on a disk and shown.
_REINFORCE = tuple(
    f"handrail.learning.{name}"
    for name in ("reinforce", "learner", "update", "baseline", "episode", "player", "normalisation")
)


@final
@dataclass(frozen=True)
class InfluenceCell(Cell):
    """One arm with one seed.

    Attributes:
        setting: what learns where.
        knowledge: the name of a set of the environment.
        arm: the way in which the learner is told.
        seed: of everything.
    """

    setting: Setting
    knowledge: str
    arm: Arm
    seed: int

    @property
    @override
    def name(self) -> str:
        return f"{self.setting.name}-{self.knowledge}-{self.arm}-{self.seed}"

    @property
    @override
    def known(self) -> Mapping[str, Any]:
        shaping, setting = shaping_of(self.setting), asdict(self.setting)
        if not setting["normalised"]:  # lines of before there was a choice do not know it
            del setting["normalised"]
        return {
            **setting,
            **({} if shaping is None else {"shaping": str(shaping.keywords)}),
            "title": None,  # how people call it is nothing to a training
            "options": {key: str(value) for key, value in self.setting.options.items()},
            "constraints": in_words(self._constraints),
            "strength": str(HELD.get(self.arm, STRENGTHS.get(self.arm))),
            "summary": MEANING,
        }

    @property
    @override
    def code(self) -> tuple[str, ...]:
        if self.setting.learner == "ppo":
            edited = HOLDING if self.arm == "mask_and_edit" else ()
            return HOLDING_MODELS if self.arm in HELD else edited
        return (*(HOLDING if self.arm in HELD else ()), *_REINFORCE)

    @override
    def trained(self, stop: Callable[[], bool]) -> Summary:
        run = train(self.setting, self._constraints, self.arm, self.seed, stop)
        return summary_of(run, self.setting)

    @property
    def _constraints(self) -> tuple[Constraint, ...]:
        return sets_of(self.setting.environment)[self.knowledge]
