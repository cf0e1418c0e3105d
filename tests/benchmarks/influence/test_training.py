"""Every learner trains in every way; what acts in constrained places is what is counted there."""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import pytest

from benchmarks.influence.knowledge import BOXES, sets_of
from benchmarks.influence.setting import CARTPOLE_PPO, CARTPOLE_REINFORCE, Setting
from benchmarks.influence.supervision import Supervised
from benchmarks.influence.training import HELD, MASKED, Arm, masked, train
from benchmarks.ppo.scores import Stopped

SLOW = pytest.mark.slow
_GUARDED = ("rail", "reach_10", *MASKED)  # no acting policy breaks a bound in its place


@pytest.mark.parametrize(
    "arm",  # held closely as by any other rail, which takes longer
    [pytest.param(arm, marks=SLOW if arm == "advice" else ()) for arm in get_args(Arm)],
)
def test_ppo_trains_in_every_way(arm: Arm) -> None:
    known = sets_of("cartpole")[BOXES]
    found = train(CARTPOLE_PPO.lasting(1024), known, arm, 100, lambda: False)
    assert found.failure is None
    assert len(found.scores) == len(found.ends)
    if arm in _GUARDED:
        assert found.steps_broken == 0
    if arm in ("plain", "penalty", *MASKED, "lagrangian"):  # the others balance from the first step
        assert found.steps_in_places > 0
    if arm == "plain":
        assert found.steps_broken == found.steps_in_places
    assert found.final_violation is not None
    if arm in HELD:
        assert found.worst_violation is not None
        assert max(found.worst_violation, found.final_violation) <= 1e-5
        assert found.first_influence is not None
        assert 0.0 < found.first_influence < 1.0
        assert found.influence is not None
    else:
        assert found.worst_violation is None
        assert found.first_influence is None
        # A mask is no part of the policy; an edit makes it one.
        assert (found.final_violation <= 1e-5) is (arm == "mask_and_edit")
    assert (found.final_score is not None) is (arm == "mask_and_edit")


def test_what_a_mask_forbids_is_never_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted from the actions, not from the distribution that the mask should leave."""
    drawn: list[tuple[float, bool]] = []
    step = Supervised.step

    def noted(env: Supervised, action: Any) -> Any:
        result = step(env, action)
        drawn.append((result[-1]["cost"], result[-1]["in_place"]))
        return result

    monkeypatch.setattr(Supervised, "step", noted)
    known = sets_of("cartpole")[BOXES]
    expected: dict[Arm, bool] = {"mask": False, "lagrangian": True}
    for arm, costs in expected.items():
        drawn.clear()
        found = train(CARTPOLE_PPO.lasting(1024), known, arm, 100, lambda: False)
        assert sum(inside for _, inside in drawn) == found.steps_in_places > 0
        assert any(cost for cost, _ in drawn) is costs


@pytest.mark.parametrize("arm", ["plain", "rail"])
def test_reinforce_trains_with_a_rail_and_without(arm: Arm) -> None:
    known = sets_of("cartpole")["push_right"]
    found = train(CARTPOLE_REINFORCE.lasting(2), known, arm, 100, lambda: False)
    assert len(found.scores) == 2
    assert found.ends[1] == sum(found.scores)  # a point a step
    assert found.final_violation is not None
    if arm == "rail":
        assert found.worst_violation is not None
        assert max(found.worst_violation, found.final_violation) <= 1e-6
        assert found.first_influence is not None
        assert found.influence is not None
        assert 0.0 <= found.influence < found.first_influence < 1.0
    else:
        assert found.worst_violation is None
        assert found.final_violation > 0.3


@pytest.mark.parametrize("setting", [CARTPOLE_PPO, CARTPOLE_REINFORCE])
def test_a_training_ends_soon_when_asked_to(setting: Setting) -> None:
    with pytest.raises(Stopped):
        train(setting, (), "plain", 100, lambda: True)


def test_masked_probabilities_are_those_of_what_is_left() -> None:
    acting = masked(np.array([[0.2, 0.2, 0.6]]), np.array([[False, False, True]]))
    np.testing.assert_allclose(acting, [[0.5, 0.5, 0.0]])


def test_normalised_rewards_are_learned_from_and_not_scored() -> None:
    """A policy that begins well earns returns that a fresh critic is far from."""
    setting = CARTPOLE_PPO.lasting(1024).with_normalised_rewards()
    assert setting.name.endswith("-normalised")
    as_paid = train(CARTPOLE_PPO.lasting(1024), (), "plain", 100, lambda: False)
    found = train(setting, (), "plain", 100, lambda: False)
    lengths = np.diff([0, *sorted(found.ends)])
    assert all(score == int(score) for score in found.scores)  # a point a step, as ever
    assert lengths.sum() <= 1024
    assert found.scores[:3] == as_paid.scores[:3]  # before the first update
    assert found.scores != as_paid.scores
