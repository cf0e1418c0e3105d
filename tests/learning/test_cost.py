"""What an environment says an episode costs: summed, of one environment and of several."""

from __future__ import annotations

from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import handrail as hr
from handrail.errors import EnvironmentFailure
from handrail.learning.cost import cost_among, known_costs, total_cost
from handrail.learning.episode import Episode, play, play_in_parallel
from tests.support.environments import Corridor


class Tolled(Corridor):
    """Every step costs the position that it leads to; `free` steps name no cost."""

    def __init__(self, free: bool = False) -> None:
        super().__init__()
        self.free = free

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        *others, info = super().step(action)
        named = not self.free or self.position == self.length
        return *others, {"cost": float(self.position)} if named else info


def right(_: Any) -> int:
    return 1


def walked(episode: Episode) -> float:
    """Who always goes right pays for every position up to the end."""
    return float(sum(range(6 - len(episode), 6)))


def test_an_episode_costs_the_sum_of_its_steps() -> None:
    episode = play(Tolled(), right, seed=0)
    assert episode.cost == walked(episode)
    assert play(Tolled(free=True), right, seed=0).cost == 5.0  # a step without one costs nothing
    assert play(Corridor(), right, seed=0).cost is None


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_side_by_side_every_episode_has_its_own(mode: AutoresetMode) -> None:
    made = [partial(Tolled, free=bool(k % 2)) for k in range(4)]
    envs = SyncVectorEnv(made, autoreset_mode=mode)
    seeds = [3, 4, 5, 6]
    played = play_in_parallel(envs, lambda states: np.ones(len(states), dtype=np.intp), seeds)
    alone = [play(make(), right, seed) for make, seed in zip(made, seeds, strict=True)]
    assert [one.cost for one in played] == [one.cost for one in alone]
    assert played[0].cost == walked(played[0])


def test_those_who_name_none_have_none() -> None:
    infos = {"cost": np.array([2.0, 0.0]), "_cost": np.array([True, False])}
    assert (cost_among(infos, 0), cost_among(infos, 1)) == (2.0, None)
    assert cost_among({"cost": np.array([2.0, 3.0])}, 1) == 3.0  # vectorised by nature
    assert cost_among({}, 0) is None


def test_arrays_of_one_are_numbers() -> None:
    assert total_cost({0: np.array([0.5]), 3: True, 4: np.float32(2.0)}) == 3.5
    assert total_cost({}) is None


@pytest.mark.parametrize("cost", ["dear", float("nan"), float("inf"), None, [1.0, 2.0], 1j])
def test_what_is_no_number_is_refused_with_its_step(cost: Any) -> None:
    class Odd(Corridor):
        def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
            *others, _ = super().step(action)
            return *others, {"cost": cost if self.position == 3 else 0.0}

    with pytest.raises(
        EnvironmentFailure, match=r'info\["cost"\] is .* at step [12]. It must be one finite number'
    ):
        play(Odd(), right, seed=0)


def test_an_episode_without_one_among_others_costs_nothing() -> None:
    assert known_costs([None, 2.0, None]) == [0.0, 2.0, 0.0]
    assert known_costs([None, None]) == []


def test_it_is_recorded_and_evaluated() -> None:
    agent = hr.Reinforce(
        gym.wrappers.TimeLimit(Tolled(), 20), hr.CategoricalPolicy.mlp(Tolled(), [8], seed=0)
    )
    episodes: list[float | None] = []
    records = agent.learn(
        episodes=3,
        progress_bar=False,
        callbacks=[lambda _, record, __: episodes.append(record.cost)],
    )
    assert [one.cost for one in records] == episodes
    assert all(one is not None and one > 0.0 for one in episodes)
    found = agent.evaluate(episodes=4)
    assert len(found.costs) == 4
    assert found.mean_cost == pytest.approx(sum(found.costs) / 4)
    assert f", cost {found.mean_cost:.1f}" in str(found)
    assert ">cost</th>" in found._repr_html_()
    assert hr.evaluate(agent, gym.wrappers.TimeLimit(Corridor(), 20), episodes=2).costs == ()
