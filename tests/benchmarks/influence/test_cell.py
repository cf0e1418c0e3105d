"""By what a cell is known again, and what grows old."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from benchmarks.influence.cell import InfluenceCell
from benchmarks.influence.setting import CARTPOLE_PPO, CARTPOLE_REINFORCE
from benchmarks.influence.training import HELD, Arm


def test_other_settings_or_knowledge_are_another_training() -> None:
    first = InfluenceCell(CARTPOLE_PPO, "push_right", "rail", 0)
    others = [
        replace(first, setting=CARTPOLE_PPO.lasting(10)),
        replace(first, setting=replace(CARTPOLE_PPO, learning_rate=0.1)),
        replace(first, setting=CARTPOLE_PPO.with_normalised_rewards()),
        replace(first, knowledge="push_left"),
        replace(first, arm="reach_10"),
        replace(first, seed=1),
    ]
    assert len({one.fingerprint for one in (first, *others)}) == 7
    renamed = replace(first, setting=replace(CARTPOLE_PPO, title="A pole on a cart"))
    assert renamed.fingerprint == first.fingerprint


def test_only_what_handrail_trains_grows_old() -> None:
    for arm in get_args(Arm):
        cell = InfluenceCell(CARTPOLE_PPO, "boxes", arm, 0)
        assert (cell.digest is not None) is (arm in (*HELD, "mask_and_edit"))
    own = InfluenceCell(CARTPOLE_REINFORCE, "nothing", "plain", 0)
    assert all(name.startswith("handrail.learning.") for name in own.code)  # not what holds
    assert "handrail.learning.update" in own.code
